//! Opens any bytes as the files of the log. Shared by the fuzz target and the test that replays the corpus.

use wal::{Handover, Log, Options, Record, Records, Recovery};
use wal_testing::{Crash, SimDisk};

/// The first octet is the number of the first file. Each file is preceded by its length. Opening must end for
/// any content. If an open finds no damage, the next one must find the same records, and then the records
/// that were written in between.
pub fn check(data: &[u8]) {
    let disk = SimDisk::new(0);
    let Some((&first, mut rest)) = data.split_first() else { return };
    let mut number = u64::from(first);
    while let [high, low, behind @ ..] = rest {
        let (file, more) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(behind.len()));
        disk.put(&format!("{number:020}.log"), file);
        number += 1;
        rest = more;
    }
    let Some((mut log, recovery, mut found)) = open(&disk) else { return };
    if !recovery.damage.is_empty() {
        return;
    }
    let mut records = Records::new();
    records.push(1, 2, 3, &[b"written since"]);
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync: false, urgent: true }], &mut done);
    assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
    drop(log);
    let (_, recovery, again) = open(&disk.crash(Crash::Process)).expect("what was opened before");
    assert!(recovery.damage.is_empty(), "{recovery:?}");
    let new = again.last().expect("what was written");
    assert_eq!((new.owner, new.seq, new.kind, &new.body[..]), (1, 2, 3, &b"written since"[..]));
    found.push(new.clone());
    assert_eq!(again, found);
}

fn open(disk: &SimDisk) -> Option<(Log<SimDisk>, Recovery, Vec<Record>)> {
    let options = Options { file_bytes: 1 << 16, seed: Some(1), ..Options::default() };
    let mut records = Vec::new();
    let (log, recovery) = Log::open(disk.clone(), options, &mut |record| records.push(record)).ok()?;
    Some((log, recovery, records))
}
