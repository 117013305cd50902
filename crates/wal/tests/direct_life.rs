//! Direct writes over a longer time.

use wal::{BLOCK, Disk, Handover, Log, Options, RealDisk, Records};

const FILE_BYTES: u64 = 64 * BLOCK as u64;

fn options() -> Options {
    Options { file_bytes: FILE_BYTES, seed: Some(1), direct_after: 3, ..Options::default() }
}

fn handover(ticket: u64) -> Handover {
    let mut records = Records::new();
    records.push(0, ticket, 1, &[&[ticket as u8; 100]]);
    Handover { shard: 0, ticket, records, sync: true, urgent: false }
}

/// Writes a handover, and does all work that follows.
fn write<D: Disk>(log: &mut Log<D>, handover: Handover) {
    let mut done = Vec::new();
    log.append(&mut vec![handover], &mut done);
    log.sync(&mut done);
    assert!(!done.is_empty() && done.iter().all(|done| done.result.is_ok()));
    if let Some(job) = log.begin_fill() {
        log.end_fill(job.run());
    }
}

#[test]
fn a_log_without_direct_writes_fills_its_files() {
    let path = std::env::temp_dir().join(format!("sluice-direct-life-{}", std::process::id()));
    let (mut log, _) = Log::open(RealDisk::new(&path).unwrap(), options(), &mut |_| ()).unwrap();
    let made = 1000;
    for ticket in 1..=made {
        write(&mut log, handover(ticket));
    }
    let (size, spans) = (log.size(), log.spans().len() as u64);
    drop(log);
    std::fs::remove_dir_all(&path).unwrap();
    let most = size.bytes / FILE_BYTES + 3;
    assert!(spans <= most, "{spans} files for {} bytes", size.bytes);
}
