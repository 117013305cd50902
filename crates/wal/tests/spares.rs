//! Forgotten files are overwritten in place, and leftovers of their earlier use are never mistaken for new
//! data.

use std::collections::BTreeMap;

use libc::{EIO, ENOSPC};
use wal::{Handover, Log, Options, Record, Records, Recovery};
use wal_testing::{Crash, Op, SimDisk, forget};

const FILE_BYTES: u64 = 1000;

/// The number of spares. It is more than one, to check that they are not confused.
const SPARES: usize = 2;

fn options() -> Options {
    let seed = Some(1);
    Options {
        file_bytes: FILE_BYTES,
        seed,
        dirty_files_max: 1000,
        spare_files_max: SPARES,
        ..Options::default()
    }
}

fn open(disk: &SimDisk) -> (Log<SimDisk>, Recovery, Vec<Record>) {
    let mut records = Vec::new();
    let (log, recovery) = Log::open(disk.clone(), options(), &mut |record| records.push(record)).unwrap();
    (log, recovery, records)
}

/// Writes a record of `bytes` bytes. Returns true if it was written (and synced, if `sync`).
fn append(log: &mut Log<SimDisk>, seq: u64, bytes: usize, sync: bool) -> bool {
    let mut records = Records::new();
    records.push(7, seq, 1, &[&vec![seq as u8; bytes]]);
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: seq, records, sync, urgent: true }], &mut done);
    log.sync(&mut done);
    done.iter().all(|done| done.result.is_ok())
}

/// Returns a log with `files` files and nothing synced. Each has one record and is twice as long as
/// necessary. A small record follows in the next file.
fn filled(disk: &SimDisk, files: u64) -> Log<SimDisk> {
    let (mut log, ..) = open(disk);
    (1..=files).for_each(|seq| assert!(append(&mut log, seq, 2 * FILE_BYTES as usize, false)));
    assert!(append(&mut log, files + 1, 10, false));
    log
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

fn name(number: u64) -> String {
    format!("{number:020}.log")
}

fn spares(disk: &SimDisk) -> Vec<String> {
    disk.files().into_keys().filter(|name| name.ends_with(".spare")).collect()
}

fn disk_of(files: &BTreeMap<String, Vec<u8>>) -> SimDisk {
    let disk = SimDisk::new(0);
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    disk
}

/// Spares are given up when the disk is short, and the reserve, which they have replaced, is there again.
#[test]
fn without_spares_forgotten_files_are_removed() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 7);
    assert!(forget(&mut log, 3));
    assert_eq!(spares(&disk).len(), SPARES);
    log.keep_spares(false);
    assert_eq!(spares(&disk).len(), 0);
    assert!(forget(&mut log, 5));
    assert_eq!((spares(&disk).len(), log.size().on_reserve), (0, false));
    log.keep_spares(true);
    assert!(forget(&mut log, 7));
    assert_eq!(spares(&disk).len(), SPARES);
}

#[test]
fn forgotten_files_are_overwritten() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 5);
    assert!(forget(&mut log, 5));
    assert_eq!(spares(&disk).len(), SPARES);
    assert_eq!((disk.count(Op::Rename), disk.count(Op::Remove)), (2, 3));
    assert_eq!((log.size().files, log.size().bytes < FILE_BYTES), (1, true), "spares do not count");

    // Fills the current file, and then one file per spare.
    let creates = disk.count(Op::Create);
    (10..13).for_each(|seq| assert!(append(&mut log, seq, FILE_BYTES as usize, false)));
    assert_eq!((disk.count(Op::Create), spares(&disk).len()), (creates, 0));
    assert!(append(&mut log, 13, 10, true));
    assert_eq!(disk.count(Op::Create), creates + 1);
    let written: u64 = disk.files().values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!(log.size().bytes, written, "a full file is cut where its batches end");
    drop(log);
    for how in [Crash::Process, Crash::Power] {
        let (_, recovery, records) = open(&disk.crash(how));
        assert_eq!((seqs(&records), recovery.damage, recovery.cut), (vec![6, 10, 11, 12, 13], vec![], None));
    }
}

/// Returns a log whose current file, number 5, overwrites a longer one.
fn on_a_reused_file(disk: &SimDisk) -> Log<SimDisk> {
    let mut log = filled(disk, 3);
    assert!(forget(&mut log, 3));
    // Fills file 4 and begins the next one.
    assert!(append(&mut log, 20, FILE_BYTES as usize, false));
    assert!(append(&mut log, 21, 10, true));
    log
}

#[test]
fn leftovers_after_the_last_batch_are_cut() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let mut log = on_a_reused_file(&disk);
        assert!(append(&mut log, 22, 300, false));
        assert!(disk.files()[&name(5)].len() as u64 > FILE_BYTES);
        let end = log.size().bytes - disk.files()[&name(4)].len() as u64;
        drop(log);

        let reborn = disk.crash(Crash::Process);
        let (_, recovery, records) = open(&reborn);
        assert_eq!((seqs(&records), recovery.damage), (vec![4, 20, 21, 22], vec![]));
        let cut = recovery.cut.unwrap();
        assert_eq!((cut.file, cut.offset, cut.torn), (name(5), end, false));
        assert_eq!((reborn.files()[&name(5)].len() as u64, spares(&reborn).len()), (end, 0));
        let (_, recovery, _) = open(&reborn.crash(Crash::Power));
        assert_eq!(recovery.cut, None, "it stays cut");

        // The last write was interrupted halfway.
        let mut files = disk.files();
        let bytes = files.get_mut(&name(5)).unwrap();
        bytes[end as usize - 150..end as usize].fill(3);
        let (_, recovery, records) = open(&disk_of(&files));
        assert_eq!((seqs(&records), recovery.damage), (vec![4, 20, 21], vec![]));
        let cut = recovery.cut.unwrap();
        assert_eq!((cut.file, cut.offset, cut.torn), (name(5), end - 64 - 24 - 300, true));

        // Unsynced data may be lost, and the earlier contents may be back in its place.
        let (_, recovery, records) = open(&disk.crash(Crash::Power));
        assert!([&[4, 20, 21][..], &[4, 20, 21, 22]].contains(&&seqs(&records)[..]));
        assert_eq!(recovery.damage, []);
    }
}

#[test]
fn whole_batches_of_an_earlier_use_do_not_count() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = open(&disk);
    // Three records per file. The fifth file overwrites the first, and its batch ends where another one
    // began.
    (1..=9).for_each(|seq| assert!(append(&mut log, seq, 300, false)));
    assert!(forget(&mut log, 2));
    assert_eq!(spares(&disk).len(), 2);
    (10..=13).for_each(|seq| assert!(append(&mut log, seq, 300, false)));
    drop(log);
    let fifth = &disk.files()[&name(5)];
    let batches: Vec<&[u8]> = fifth[48..].chunks(64 + 24 + 300).collect();
    assert!(batches.len() == 3 && batches.iter().all(|batch| batch.starts_with(b"SLbt")));
    let (_, recovery, records) = open(&disk);
    assert_eq!((seqs(&records), recovery.damage), (vec![7, 8, 9, 10, 11, 12, 13], vec![]));
    assert!(!recovery.cut.unwrap().torn);
}

#[test]
fn a_clean_stop_leaves_no_leftovers() {
    let disk = SimDisk::new(1);
    on_a_reused_file(&disk).close().unwrap();
    assert_eq!(spares(&disk), [""; 0]);
    let (log, recovery, records) = open(&disk);
    assert_eq!((recovery.clean, recovery.cut, seqs(&records)), (true, None, vec![4, 20, 21]));
    assert_eq!(disk.taken(), log.size().bytes);
}

#[test]
fn a_reused_file_without_a_batch_is_not_damage() {
    let disk = SimDisk::new(1);
    let (mut log, mut former) = (filled(&disk, 3), disk.files());
    former.retain(|file, _| *file == name(1));
    let bytes = former.remove(&name(1)).unwrap();
    assert!(forget(&mut log, 3));
    assert!(append(&mut log, 20, FILE_BYTES as usize, true));
    drop(log);

    // After the crash this is the newest file: its new name reached the disk, but nothing else did.
    let mut files = disk.files();
    files.retain(|name, _| name.ends_with(".log"));
    files.insert(name(5), bytes.clone());
    let reborn = disk_of(&files);
    let (mut log, recovery, records) = open(&reborn);
    assert_eq!((seqs(&records), recovery.damage), (vec![4, 20], vec![]));
    assert!(!reborn.files().contains_key(&name(5)));

    // Later files exist. The number of this file was skipped, because the file could not be removed.
    assert!(append(&mut log, 21, 10, true));
    drop(log);
    let mut files = reborn.files();
    assert!(files.contains_key(&name(6)));
    files.insert(name(5), bytes);
    let reborn = disk_of(&files);
    let (mut log, recovery, records) = open(&reborn);
    assert_eq!((seqs(&records), recovery.damage), (vec![4, 20, 21], vec![]));
    assert!(append(&mut log, 22, FILE_BYTES as usize, true));
    assert!(forget(&mut log, 6));
    drop(log);
    assert_eq!(seqs(&open(&reborn).2), [22]);
}

#[test]
fn damage_in_a_reused_file_is_found_and_reported() {
    let disk = SimDisk::new(1);
    let mut log = on_a_reused_file(&disk);
    let at = log.size().bytes - disk.files()[&name(4)].len() as u64;
    assert!(append(&mut log, 22, 100, true));
    assert!(append(&mut log, 23, 100, true));
    drop(log);
    let mut files = disk.files();
    // Batch 22 is lost, and the bytes of the earlier use of the file are back in its place.
    let former = vec![3; 100];
    files.get_mut(&name(5)).unwrap()[at as usize + 88..][..100].copy_from_slice(&former);
    let (_, recovery, records) = open(&disk_of(&files));
    assert_eq!(seqs(&records), [4, 20, 21, 23]);
    let [damage] = &recovery.damage[..] else { panic!("{recovery:?}") };
    assert_eq!((&damage.file, damage.offset, damage.bytes, damage.synced), (&name(5), at, 188, true));
}

#[test]
fn files_that_failed_are_not_overwritten() {
    // A file whose write failed does not become a spare.
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 1);
    disk.fail_nth(0, EIO);
    assert!(append(&mut log, 3, 10, false), "to the next file");
    assert!(forget(&mut log, 2));
    assert_eq!(spares(&disk), ["00000000000000000001.spare"]);

    // A file whose sync failed does not become a spare.
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 1);
    disk.fail_nth(1, EIO);
    assert!(append(&mut log, 3, 10, true), "to the next file");
    assert!(append(&mut log, 4, FILE_BYTES as usize, true));
    assert!(forget(&mut log, 2));
    assert_eq!(spares(&disk), ["00000000000000000002.spare"], "the sync of the first file failed");
}

#[test]
fn files_of_an_earlier_process_are_not_overwritten() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 3));
    let (mut log, ..) = open(&disk);
    assert!(append(&mut log, 9, 10, true));
    assert!(forget(&mut log, 4));
    assert_eq!((spares(&disk), log.size().oldest), (vec![], None), "they may be damaged or linked elsewhere");
}

#[test]
fn the_spares_of_an_earlier_process_are_removed() {
    let disk = SimDisk::new(1);
    let mut log = filled(&disk, 3);
    assert!(forget(&mut log, 3));
    drop(log);
    for how in [Crash::Process, Crash::Power] {
        let disk = disk.crash(how);
        let (log, recovery, records) = open(&disk);
        assert_eq!((seqs(&records), recovery.damage, spares(&disk)), (vec![4], vec![], vec![]));
        assert_eq!(disk.taken(), log.size().bytes);
    }
}

#[test]
fn an_unusable_spare_costs_one_attempt() {
    for op in [Op::Rename, Op::Open, Op::Len] {
        let disk = SimDisk::new(1);
        let mut log = filled(&disk, 3);
        assert!(forget(&mut log, 3));
        assert!(append(&mut log, 9, FILE_BYTES as usize, true));
        disk.fail(&[op], 1000, EIO);
        assert!(!append(&mut log, 10, 10, true), "{op:?}: there are two spares");
        assert!(append(&mut log, 10, 10, true));
        disk.heal();
        assert!(append(&mut log, 11, FILE_BYTES as usize, true));
        assert!(append(&mut log, 12, 10, true));
        drop(log);
        let reborn = disk.crash(Crash::Power);
        let (log, recovery, records) = open(&reborn);
        assert_eq!((seqs(&records), recovery.damage), (vec![4, 9, 10, 11, 12], vec![]), "{op:?}");
        assert_eq!(reborn.taken(), log.size().bytes, "{op:?}: nothing is left over");
    }
}

#[test]
fn spares_replace_the_reserve() {
    let disk = SimDisk::new(1);
    let options = Options { reserve_bytes: 2 * FILE_BYTES, ..options() };
    let has = |name: &str| disk.files().contains_key(name);
    let (mut log, _) = Log::open(disk.clone(), options.clone(), &mut |_| ()).unwrap();
    (1..=4).for_each(|seq| assert!(append(&mut log, seq, FILE_BYTES as usize, false)));
    assert!(forget(&mut log, 1));
    assert_eq!((spares(&disk).len(), has("reserve")), (1, true), "one is not enough");
    assert!(forget(&mut log, 2));
    assert_eq!((spares(&disk).len(), has("reserve")), (2, false));
    // One spare is overwritten; the other is not enough.
    assert!(append(&mut log, 5, FILE_BYTES as usize, false) && append(&mut log, 6, 10, false));
    assert_eq!((spares(&disk).len(), has("reserve"), log.size().on_reserve), (1, true, false));
    assert!(forget(&mut log, 3));
    assert_eq!((spares(&disk).len(), has("reserve")), (2, false));

    // The disk is full, and the next write needs as much space as the spares take.
    disk.limit(disk.taken());
    let taken: usize = spares(&disk).iter().map(|name| disk.files()[name].len()).sum();
    assert!(append(&mut log, 7, taken - 200, false));
    assert_eq!((spares(&disk).len(), has("reserve"), log.size().on_reserve), (0, false, true));
    // While there is no reserve, forgotten files are removed.
    disk.fail(&[Op::Reserve], 1000, ENOSPC);
    let oldest = log.size().oldest.unwrap();
    let taken = disk.taken();
    assert!(forget(&mut log, oldest));
    assert!(log.size().on_reserve && disk.taken() < taken && spares(&disk).is_empty());
    disk.heal();
    disk.limit(u64::MAX);
    assert!(append(&mut log, 8, 10, true));
    assert_eq!((has("reserve"), log.size().on_reserve), (true, false));
    // If spares are not enough and the disk has no capacity for the reserve, they are removed.
    let (oldest, newest) = (log.size().oldest.unwrap(), log.spans().last_key_value().unwrap().0 - 1);
    (oldest..=newest).for_each(|file| assert!(forget(&mut log, file)));
    assert!(spares(&disk).len() == 2 && !has("reserve"), "{:?}", disk.files().keys());
    disk.limit(disk.taken());
    assert!(append(&mut log, 9, FILE_BYTES as usize - 500, false));
    assert!(append(&mut log, 10, 10, true));
    assert_eq!((spares(&disk).len(), has("reserve"), log.size().on_reserve), (0, true, false));

    log.close().unwrap();
    assert_eq!((spares(&disk).len(), has("reserve")), (0, true), "a stopped log has its reserve");
    let (log, ..) = Log::open(disk.clone(), options, &mut |_| ()).unwrap();
    assert!(!log.size().on_reserve);
}

#[test]
fn the_reserve_is_taken_again_when_a_sync_uses_a_spare() {
    let disk = SimDisk::new(1);
    let options = Options { reserve_bytes: 2 * FILE_BYTES, ..options() };
    let (mut log, _) = Log::open(disk.clone(), options, &mut |_| ()).unwrap();
    (1..=3).for_each(|seq| assert!(append(&mut log, seq, FILE_BYTES as usize, false)));
    assert!(forget(&mut log, 2));
    assert_eq!((spares(&disk).len(), disk.files().contains_key("reserve")), (2, false));
    // The data that the failed sync did not make durable is written again, to a spare.
    disk.fail_nth(1, EIO);
    assert!(append(&mut log, 4, 10, true));
    assert_eq!((spares(&disk).len(), disk.files().contains_key("reserve")), (1, true));
    assert!(!log.size().on_reserve);
}
