//! Direct writes over a longer time: disks that have none, and failures of what nobody waits to be synced.

use libc::EIO;
use wal::{BLOCK, Disk, Handover, Log, Options, RealDisk, Record, Records};
use wal_testing::{Crash, Op, SimDisk};

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

fn seqs(disk: &SimDisk, crash: Crash) -> Vec<u64> {
    let mut seqs = Vec::new();
    let put = &mut |record: Record| seqs.push(record.seq);
    let (_, recovery) = Log::open(disk.crash(crash), options(), put).unwrap();
    assert_eq!(recovery.damage, []);
    seqs
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

#[test]
fn a_failed_direct_write_loses_nothing_that_was_written() {
    let mut failed = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        disk.allow_direct();
        disk.drop_refused();
        let (mut log, _) = Log::open(disk.clone(), options(), &mut |_| ()).unwrap();
        (1..10).for_each(|ticket| write(&mut log, handover(ticket)));
        assert!(disk.count(Op::Direct) > 0);
        disk.fail(&[Op::Direct], 1000, EIO);
        // Nobody waits for its sync.
        let lazy = Handover { sync: false, ..handover(10) };
        let mut done = Vec::new();
        log.append(&mut vec![lazy], &mut done);
        assert!(done[0].result.is_ok());
        failed += u32::from(log.is_writing_directly());
        disk.heal();
        write(&mut log, handover(11));
        drop(log);
        assert_eq!(seqs(&disk, Crash::Power), (1..=11).collect::<Vec<_>>(), "{seed}");
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_shard_that_waits_for_the_sync_is_told_of_it() {
    let disk = SimDisk::new(1);
    disk.allow_direct();
    let (mut log, _) = Log::open(disk.clone(), options(), &mut |_| ()).unwrap();
    (1..10).for_each(|ticket| write(&mut log, handover(ticket)));
    let lazy = Handover { sync: false, ..handover(10) };
    log.append(&mut vec![lazy, Handover { shard: 1, ..handover(11) }], &mut Vec::new());
    assert!(log.is_writing_directly());
    assert_eq!(disk.told(), Some(1), "the other one could end before");
}

#[test]
fn batches_that_have_become_zeros_are_missed_also_if_they_look_like_padding() {
    let disk = SimDisk::new(1);
    disk.allow_direct();
    let (mut log, _) = Log::open(disk.clone(), options(), &mut |_| ()).unwrap();
    (1..=11).for_each(|ticket| write(&mut log, handover(ticket)));
    write(&mut log, Handover { urgent: true, ..handover(12) });
    drop(log);
    let (name, whole) = disk.files().into_iter().rfind(|(name, _)| name.ends_with(".log")).unwrap();
    let batches: Vec<usize> = (0..whole.len() - 4).filter(|&at| whole[at..].starts_with(b"SLbt")).collect();
    let [.., before, direct, cached] = batches[..] else { panic!("{batches:?}") };
    assert!(before / BLOCK == direct / BLOCK && cached == (direct / BLOCK + 1) * BLOCK, "{batches:?}");
    // One batch and the padding after it; two; the whole block.
    for from in [direct, before, direct / BLOCK * BLOCK] {
        let mut bytes = whole.clone();
        bytes[from..cached].fill(0);
        for crash in [Crash::Process, Crash::Power] {
            let disk = disk.crash(crash);
            disk.put(&name, &bytes);
            let mut seqs = Vec::new();
            let (_, recovery) = Log::open(disk, options(), &mut |record| seqs.push(record.seq)).unwrap();
            assert!(recovery.damage.iter().all(|damage| damage.file == name && damage.synced));
            assert_eq!((recovery.damage.is_empty(), seqs.last()), (false, Some(&12)), "{from}");
        }
    }
    // What is in the padding matters to nobody.
    let mut bytes = whole;
    bytes[cached - 1] = 1;
    disk.put(&name, &bytes);
    assert_eq!(seqs(&disk, Crash::Power), (1..=12).collect::<Vec<_>>());
}
