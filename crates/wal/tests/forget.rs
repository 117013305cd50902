//! How space is reclaimed, what this costs, and what is found when the first files are removed.

use libc::EIO;
use wal::{Completion, Handover, Log, Options, Record, Records, Recovery, Size};
use wal_testing::{Crash, Op, Random, SimDisk, forget};

const FILE_BYTES: u64 = 1000;

fn options() -> Options {
    let (file_bytes, seed) = (FILE_BYTES, Some(1));
    Options { file_bytes, seed, dirty_files_max: 1000, spare_files_max: 0, ..Options::default() }
}

fn open(disk: &SimDisk) -> (Log<SimDisk>, Recovery, Vec<Record>) {
    let mut records = Vec::new();
    let (log, recovery) = Log::open(disk.clone(), options(), &mut |record| records.push(record)).unwrap();
    assert_eq!(recovery.damage, []);
    assert_eq!(recovery.size, log.size());
    (log, recovery, records)
}

fn append(log: &mut Log<SimDisk>, seq: u64, sync: bool) -> Completion {
    let mut records = Records::new();
    records.push(7, seq, 1, &[&[seq as u8; 500]]);
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: seq, records, sync, urgent: true }], &mut done);
    while let Some(job) = log.begin_sync(&mut done) {
        log.end_sync(job.run(), &mut done);
    }
    assert_eq!(done.len(), 1 + usize::from(sync && done[0].result.is_ok()));
    done.remove(0)
}

/// Returns a log with two records per file, none of them synced.
fn filled(disk: &SimDisk, files: u64) -> Log<SimDisk> {
    let (mut log, ..) = open(disk);
    for seq in 1..=2 * files {
        let done = append(&mut log, seq, false);
        assert_eq!((done.file, done.size), (seq.div_ceil(2), log.size()));
    }
    log
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

fn on_disk(disk: &SimDisk) -> (u64, u32) {
    let files = disk.files();
    (files.values().map(|bytes| bytes.len() as u64).sum(), files.len() as u32)
}

#[test]
fn forgotten_files_are_removed_and_all_others_are_synced() {
    for how in [Crash::Process, Crash::Power] {
        let disk = SimDisk::new(1);
        let mut log = filled(&disk, 3);
        assert_eq!(log.size().oldest, Some(1));
        assert!(forget(&mut log, 1));
        assert_eq!(log.spans().keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        let size = log.size();
        assert_eq!((size.bytes, size.files), on_disk(&disk));
        assert_eq!(size.oldest, Some(2));
        drop(log);
        let disk = disk.crash(how);
        let (mut log, recovery, records) = open(&disk);
        assert!(recovery.cut.is_none() && !recovery.clean, "{recovery:?}");
        assert_eq!(seqs(&records), [3, 4, 5, 6]);
        assert_eq!(records.iter().map(|record| record.file).collect::<Vec<_>>(), [2, 2, 3, 3]);
        assert_eq!(log.size(), size);
        // Forgetting also works for files of an earlier process.
        append(&mut log, 7, false);
        assert!(forget(&mut log, 3));
        log.close().unwrap();
        let (log, recovery, records) = open(&disk);
        assert!(recovery.clean);
        assert_eq!(seqs(&records), [7]);
        assert_eq!((log.size().bytes, log.size().files), on_disk(&disk));
    }
}

#[test]
fn everything_can_be_forgotten() {
    let disk = SimDisk::new(1);
    filled(&disk, 3).close().unwrap();
    let (mut log, ..) = open(&disk);
    assert!(forget(&mut log, 4));
    let (_, files) = on_disk(&disk);
    assert_eq!((files, log.size().oldest), (1, None));
    drop(log);
    let (mut log, recovery, records) = open(&disk.crash(Crash::Power));
    assert_eq!((records, recovery.clean, recovery.size.files), (Vec::new(), false, 1));
    assert_eq!(append(&mut log, 7, true).file, 6);
}

#[test]
fn the_file_that_is_written_to_is_not_forgotten() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 1);
    append(&mut log, 3, true);
    let (size, changes) = (log.size(), disk.changes());
    for file in [0, 2, 3, u64::MAX] {
        log.forget(file);
        log.sync(&mut Vec::new());
    }
    assert_eq!((log.size(), disk.changes()), (size, changes));
    drop(log);
    assert_eq!(seqs(&open(&disk).2), [1, 2, 3]);
}

#[test]
fn forgetting_costs_a_batch_and_a_removal_per_file() {
    for files in [1, 10, 100] {
        let disk = SimDisk::new(1);
        let mut log = filled(&disk, 200);
        append(&mut log, 401, true);
        let ops = [Op::Write, Op::Sync, Op::Remove, Op::SyncDir, Op::Create, Op::Open, Op::List, Op::Read];
        let before = ops.map(|op| disk.count(op));
        assert!(forget(&mut log, files));
        let mut cost = ops.map(|op| disk.count(op));
        cost.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        assert_eq!(cost, [1, 1, files, 0, 0, 0, 0, 0]);
        let changes = disk.changes();
        assert!(forget(&mut log, files));
        assert_eq!(disk.changes(), changes, "there is nothing more to do");
    }
}

#[test]
fn a_refused_removal_is_retried() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 5);
    append(&mut log, 11, true);
    disk.fail(&[Op::Remove], 1000, EIO);
    assert!(!forget(&mut log, 3));
    assert_eq!(log.size().oldest, Some(1));
    disk.heal();
    let (writes, syncs) = (disk.count(Op::Write), disk.count(Op::Sync));
    assert!(forget(&mut log, 3));
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync)), (writes, syncs), "one floor is enough");
    assert!(append(&mut log, 12, true).result.is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power)).2), (7..=12).collect::<Vec<_>>());
}

#[test]
fn a_refused_floor_removes_nothing() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 3);
    disk.fail(&[Op::Write, Op::Create], 1000, EIO);
    assert!(!forget(&mut log, 1));
    assert!(disk.files().contains_key("00000000000000000001.log"));
    assert_eq!(log.size().oldest, Some(1));
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Process)).2), (1..=6).collect::<Vec<_>>());
}

#[test]
fn what_is_forgotten_is_not_synced() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 10);
    let before = disk.count(Op::Sync);
    assert!(forget(&mut log, 8));
    assert_eq!(disk.count(Op::Sync) - before, 3, "two files that stay, and the file with the floor");
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power)).2), [17, 18, 19, 20]);
}

/// No handover waits for these syncs, but their failure concerns every writer.
#[test]
fn the_next_write_reports_a_failed_sync_that_had_no_waiter() {
    for (forgotten, dirty_files_max, found) in [(1, 1000, 3..=9), (0, 2, 1..=9)] {
        let disk = SimDisk::new(1);
        let options = Options { dirty_files_max, ..options() };
        let (mut log, _) = Log::open(disk.clone(), options, &mut |_| ()).unwrap();
        (1..=6).for_each(|seq| assert!(append(&mut log, seq, false).result.is_ok()));
        disk.fail(&[Op::Sync], 1000, EIO);
        log.forget(forgotten);
        assert!(append(&mut log, 7, false).result.is_ok(), "the sync follows it");
        let files = disk.files().len();
        for seq in 8..=10 {
            let refused = append(&mut log, seq, false).result.unwrap_err();
            assert_eq!((refused.errno, refused.file.is_empty()), (Some(EIO), false), "{refused}");
        }
        assert_eq!(disk.files().len(), files, "the useless copies are removed");
        disk.heal();
        (8..=9).for_each(|seq| assert!(append(&mut log, seq, true).result.is_ok()));
        assert_eq!(log.size().oldest, Some(1 + forgotten));
        drop(log);
        assert_eq!(seqs(&open(&disk.crash(Crash::Power)).2), found.collect::<Vec<_>>());
    }
}

#[test]
fn a_floor_does_not_count_without_everything_above_it() {
    // After the power loss, the file with the floor is on the disk, but the file before it is not.
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 3);
    append(&mut log, 7, true);
    (8..=12).for_each(|seq| drop(append(&mut log, seq, false)));
    log.forget(4);
    drop((log.begin_sync(&mut Vec::new()).unwrap(), log));
    let (files, lost) = (disk.files(), "00000000000000000006.log");
    for (missing, found) in [(None, (9..=12).collect::<Vec<_>>()), (Some(lost), (1..=10).collect())] {
        let copy = SimDisk::new(2);
        files
            .iter()
            .filter(|file| Some(file.0.as_str()) != missing)
            .for_each(|(name, bytes)| copy.put(name, bytes));
        let (_, recovery, records) = open(&copy);
        assert_eq!((seqs(&records), recovery.cut.is_some()), (found, missing.is_some()));
    }
}

#[test]
fn an_interrupted_removal_is_finished_by_the_next_open() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let mut log = filled(&disk, 6);
        append(&mut log, 13, true);
        // The crash comes after a write, a sync and some of the five removals.
        disk.die_at(2 + Random(seed).below(5));
        forget(&mut log, 5);
        assert!(disk.is_dead());
        drop(log);
        for how in [Crash::Process, Crash::Power] {
            let disk = disk.crash(how);
            let (log, recovery, records) = open(&disk);
            assert!(recovery.cut.is_none(), "{recovery:?}");
            assert_eq!(seqs(&records), [11, 12, 13]);
            assert_eq!((log.size().oldest, disk.files().len()), (Some(6), 2));
        }
    }
}

#[test]
fn a_missing_file_above_the_floor_is_damage() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 4);
    assert!(forget(&mut log, 1));
    append(&mut log, 9, true);
    drop(log);
    let names: Vec<String> = disk.files().into_keys().collect();
    for (lost, name) in names.iter().enumerate().take(2) {
        let copy = SimDisk::new(2);
        disk.files().iter().filter(|file| file.0 != name).for_each(|(name, bytes)| copy.put(name, bytes));
        let (_, recovery) = Log::open(copy, options(), &mut |_| ()).unwrap();
        assert_eq!(recovery.damage.len(), 1);
        // Files before the first existing one are unknown.
        let damage = &recovery.damage[0];
        assert_eq!((&damage.file, damage.missing), if lost == 0 { (&names[1], false) } else { (name, true) });
    }
}

#[test]
fn an_error_has_no_size() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 2);
    disk.fail(&[Op::Write], 1000, EIO);
    let done = append(&mut log, 5, false);
    assert!(done.result.is_err());
    assert_eq!((done.file, done.size), (0, Size::default()));
}
