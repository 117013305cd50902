//! What a round costs, and how a sick disk is met.

use libc::{EIO, ENOSPC};
use log::testing::{CHANGES, Crash, FalseDisk, Op};
use log::{Completion, Handover, Log, Options, Record, Records};

fn open(disk: &FalseDisk, file_bytes: u64) -> (Log<FalseDisk>, Vec<Record>) {
    let mut records = Vec::new();
    let options = Options { file_bytes, seed: Some(1), ..Options::default() };
    let (log, recovery) = Log::open(disk.clone(), options, &mut |record| records.push(record)).unwrap();
    assert_eq!(recovery.damage, []);
    (log, records)
}

fn handover(ticket: u64, sync: bool) -> Handover {
    let mut records = Records::new();
    records.push(7, ticket, 1, &[&[ticket as u8; 100]]);
    Handover { shard: 0, ticket, records, sync }
}

fn append(log: &mut Log<FalseDisk>, mut handovers: Vec<Handover>) -> Vec<Completion> {
    let mut done = Vec::new();
    log.append(&mut handovers, &mut done);
    done
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

#[test]
fn a_round_is_one_write_and_at_most_one_sync() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    append(&mut log, (0..50).map(|ticket| handover(ticket, false)).collect());
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (1, 0, 0));
    append(&mut log, (50..100).map(|ticket| handover(ticket, true)).collect());
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (2, 1, 1));
    append(&mut log, vec![handover(100, true)]);
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (3, 2, 1));
    assert_eq!(disk.count(Op::Create), 1);
}

#[test]
fn nothing_handed_over_writes_nothing_but_can_ask_to_sync() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    let nothing = |sync| Handover { shard: 0, ticket: 0, records: Records::new(), sync };
    append(&mut log, vec![nothing(true), nothing(false)]);
    assert_eq!(disk.changes(), 0);
    append(&mut log, vec![handover(1, false)]);
    append(&mut log, vec![nothing(true)]);
    append(&mut log, vec![nothing(true)]);
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync)), (1, 1));
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1]);
}

#[test]
fn files_roll_and_a_batch_may_exceed_one() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 300);
    let mut records = Records::new();
    records.push(7, 0, 1, &[&[1; 5000]]);
    append(&mut log, vec![Handover { shard: 0, ticket: 0, records, sync: false }]);
    for ticket in 1..=20 {
        append(&mut log, vec![handover(ticket, false)]);
    }
    let spans: Vec<_> = log.spans().values().copied().collect();
    assert_eq!(spans.len(), 11);
    assert!(spans.windows(2).all(|pair| pair[0].last_batch + 1 == pair[1].first_batch));
    assert_eq!(spans.iter().map(|span| span.records).sum::<u64>(), 21);
    assert!(disk.count(Op::Sync) > 0, "files that nobody synced do not pile up");
    drop(log);
    let (log, records) = open(&disk, 300);
    assert_eq!(seqs(&records), (0..=20).collect::<Vec<_>>());
    assert_eq!(log.spans().values().copied().collect::<Vec<_>>(), spans);
}

#[test]
fn a_full_disk_gives_the_records_back_and_service_resumes() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    assert!(append(&mut log, vec![handover(1, true)])[0].result.is_ok());
    disk.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
    for ticket in 2..50 {
        let done = append(&mut log, vec![handover(ticket, ticket % 2 == 0)]).remove(0);
        let error = done.result.unwrap_err();
        assert_eq!((error.errno, error.records.len()), (Some(ENOSPC), 1));
        assert!(error.to_string().contains("No space left"), "{error}");
    }
    assert!(disk.files().len() < 8, "failed attempts do not litter");
    disk.heal();
    assert!(append(&mut log, vec![handover(50, true)])[0].result.is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 50]);
}

#[test]
fn a_failed_sync_is_never_believed_later() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    assert!(append(&mut log, vec![handover(1, false)])[0].result.is_ok());
    // The first sync fails, its second attempt goes to a fresh file and takes along what was written before.
    disk.fail_nth(1, EIO);
    assert!(append(&mut log, vec![handover(2, true)])[0].result.is_ok());
    assert_eq!(disk.count(Op::Create), 2);
    drop(log);
    for _ in 0..20 {
        assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 2]);
    }
}

#[test]
fn a_disk_that_refuses_to_sync_still_takes_what_need_not_be_synced() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    disk.fail(&[Op::Sync], 1000, EIO);
    assert!(append(&mut log, vec![handover(1, false)])[0].result.is_ok());
    assert!(append(&mut log, vec![handover(2, true)])[0].result.is_err());
    assert!(append(&mut log, vec![handover(3, false)])[0].result.is_ok());
    disk.heal();
    assert!(append(&mut log, vec![handover(4, true)])[0].result.is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 3, 4]);
}

#[test]
fn a_dead_disk_refuses_everything_in_bounded_work() {
    let disk = FalseDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    append(&mut log, vec![handover(1, true)]);
    disk.fail(&CHANGES, 1000, EIO);
    for ticket in 2..100 {
        assert!(append(&mut log, vec![handover(ticket, true)])[0].result.is_err());
    }
    assert!(disk.changes() < 100 * 12, "{}", disk.changes());
    assert!(log.close().is_err());
}
