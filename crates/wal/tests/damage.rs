//! Damage differs from the torn end that a crash leaves. Two sources tell them apart: the note in the file
//! `lock`, with the last written batch and the boot of the machine, and the batches, which refer to each
//! other.

use wal::{Completion, Damage, Handover, Log, Options, Owners, Record, Records, Recovery};
use wal_testing::{Op, SimDisk, forget};

const FILE_HEADER: usize = 48;
const BATCH_HEADER: usize = 64;
const RECORD_HEADER: usize = 24;
const BODY: usize = 100;
/// The bytes of each batch of these tests.
const BATCH: usize = BATCH_HEADER + RECORD_HEADER + BODY;

/// Returns the owner of the batch with this number.
fn owner(seq: u64) -> u64 {
    100 + seq
}

fn handover(seq: u64, sync: bool) -> Handover {
    let mut records = Records::new();
    records.push(owner(seq), seq, 1, &[&[seq as u8; BODY]]);
    Handover { shard: 0, ticket: seq, records, sync, urgent: true }
}

fn options(file_batches: usize) -> Options {
    let file_bytes = (FILE_HEADER + file_batches * BATCH) as u64;
    Options { file_bytes, seed: Some(1), spare_files_max: 0, ..Options::default() }
}

/// Opens a log with four batches per file.
fn open(disk: &SimDisk) -> (Log<SimDisk>, Recovery, Vec<Record>) {
    let mut found = Vec::new();
    let (log, recovery) = Log::open(disk.clone(), options(4), &mut |record| found.push(record)).unwrap();
    (log, recovery, found)
}

fn write(log: &mut Log<SimDisk>, seq: u64, sync: bool) -> Vec<Completion> {
    let mut done = Vec::new();
    log.append(&mut vec![handover(seq, sync)], &mut done);
    done
}

fn sync(log: &mut Log<SimDisk>) {
    log.sync(&mut Vec::new());
}

/// Returns what a killed process has left that wrote `batches` batches. The batches up to `synced` are
/// synced.
fn killed(batches: u64, synced: u64) -> SimDisk {
    let disk = SimDisk::new(1);
    let (mut log, ..) = open(&disk);
    for seq in 1..=batches {
        write(&mut log, seq, seq == synced);
        sync(&mut log);
    }
    disk
}

/// Returns the same files in another boot of the machine.
fn rebooted(disk: &SimDisk) -> SimDisk {
    let other = SimDisk::new(2);
    disk.files().iter().for_each(|(name, bytes)| other.put(name, bytes));
    other.put_note(&disk.note());
    other
}

fn name(file: u64) -> String {
    format!("{file:020}.log")
}

/// Returns the place of a batch.
fn place(seq: u64) -> (String, usize) {
    (name((seq - 1) / 4 + 1), FILE_HEADER + (seq as usize - 1) % 4 * BATCH)
}

fn flip(disk: &SimDisk, seq: u64, at: usize) {
    let (name, offset) = place(seq);
    let mut bytes = disk.files()[&name].clone();
    bytes[offset + at] ^= 1;
    disk.put(&name, &bytes);
}

fn seqs(found: &[Record]) -> Vec<u64> {
    found.iter().map(|record| record.seq).collect()
}

fn damage(seq: u64, owners: Owners, synced: bool) -> Damage {
    let (file, offset) = place(seq);
    Damage { file, offset: offset as u64, bytes: BATCH as u64, missing: false, owners, synced }
}

/// Three positions in a batch: in its header, in the header of its record, and in the body of its record.
const IN_BATCH: [usize; 3] = [20, BATCH_HEADER + 4, BATCH - 1];

/// Returns the owners that the damage report must name. If the record's header is damaged, its owner is
/// unknown.
fn owners(seq: u64, at: usize) -> Owners {
    if at == IN_BATCH[1] { Owners::All } else { Owners::Only(vec![owner(seq)]) }
}

#[test]
fn in_the_same_boot_a_bad_batch_before_a_good_one_is_damage() {
    for at in IN_BATCH {
        let disk = killed(7, 0);
        flip(&disk, 3, at);
        for again in [false, true] {
            let (_, recovery, found) = open(&disk);
            assert_eq!(recovery.damage, [damage(3, owners(3, at), false)], "{again}");
            assert_eq!((recovery.cut, seqs(&found)), (None, vec![1, 2, 4, 5, 6, 7]));
        }
    }
}

#[test]
fn after_a_reboot_a_bad_batch_is_a_torn_end_unless_it_was_synced() {
    for at in IN_BATCH {
        let disk = rebooted(&killed(7, 2));
        flip(&disk, 3, at);
        let cut_from = disk.files();
        let (log, recovery, found) = open(&disk);
        assert_eq!((recovery.damage, seqs(&found)), (vec![], vec![1, 2]));
        let cut = recovery.cut.unwrap();
        let (file, offset) = place(3);
        assert_eq!((&cut.file, cut.offset, cut.torn), (&file, offset as u64, true));
        let counted: Vec<_> = cut.records.into_iter().collect();
        assert_eq!(counted, [4, 5, 6, 7].map(|seq| (owner(seq), 1)), "the records in complete batches");
        // The bytes that were cut off are saved unchanged.
        assert_eq!(cut.kept.len(), 2);
        for (kept, (number, from)) in cut.kept.iter().zip([(2, FILE_HEADER), (1, offset)]) {
            assert_eq!(*kept, format!("{number:020}-{from}.cut"));
            assert_eq!(disk.files()[kept], cut_from[&name(number)][from..]);
        }
        drop(log);

        let disk = rebooted(&killed(7, 3));
        flip(&disk, 3, at);
        let (_, recovery, found) = open(&disk);
        assert_eq!(recovery.damage, [damage(3, owners(3, at), true)]);
        assert_eq!((recovery.cut.map(|cut| cut.offset), seqs(&found)), (None, vec![1, 2, 4, 5, 6, 7]));
    }
}

#[test]
fn a_tail_that_cannot_be_saved_is_cut_anyway() {
    let disk = rebooted(&killed(7, 2));
    flip(&disk, 3, IN_BATCH[2]);
    disk.fail(&[Op::Create], 1000, libc::ENOSPC);
    let (_, recovery, found) = open(&disk);
    assert_eq!((recovery.cut.unwrap().kept, seqs(&found)), (vec![], vec![1, 2]));
    assert!(disk.files().keys().all(|name| !wal::is_cut(name)));
}

#[test]
fn the_last_synced_batch_is_known_without_a_later_batch() {
    for at in IN_BATCH {
        for disk in [killed(6, 6), rebooted(&killed(6, 6))] {
            flip(&disk, 6, at);
            for again in [false, true] {
                let (log, recovery, found) = open(&disk);
                assert_eq!(recovery.damage, [damage(6, owners(6, at), true)], "{at} {again}");
                assert_eq!(
                    (&recovery.cut, recovery.clean, seqs(&found)),
                    (&None, false, vec![1, 2, 3, 4, 5])
                );
                drop(log);
            }
            // After another batch the damage counts as forgotten, and no number is used twice.
            let (mut log, ..) = open(&disk);
            write(&mut log, 7, true);
            sync(&mut log);
            assert!(log.spans().values().all(|span| span.first_batch <= 5 || span.first_batch >= 7));
            drop(log);
            let (_, recovery, found) = open(&disk);
            assert_eq!((recovery.damage, seqs(&found)), (vec![], vec![1, 2, 3, 4, 5, 7]));
        }
    }
}

#[test]
fn the_last_batch_of_an_idle_log_is_known_in_the_same_boot() {
    let disk = killed(6, 0);
    flip(&disk, 6, IN_BATCH[2]);
    let (_, recovery, _) = open(&disk);
    assert_eq!((recovery.damage, recovery.cut.map(|cut| cut.torn)), (vec![], Some(true)), "it was not noted");

    for reboots in [false, true] {
        let disk = SimDisk::new(1);
        let (mut log, ..) = open(&disk);
        (1..=6).for_each(|seq| drop(write(&mut log, seq, false)));
        assert!(log.has_news());
        log.note();
        assert!(!log.has_news());
        drop(log);
        flip(&disk, 6, IN_BATCH[2]);
        let disk = if reboots { rebooted(&disk) } else { disk };
        let (_, recovery, found) = open(&disk);
        let expected = if reboots { vec![] } else { vec![damage(6, Owners::Only(vec![owner(6)]), false)] };
        assert_eq!((recovery.damage, seqs(&found)), (expected, vec![1, 2, 3, 4, 5]));
    }
}

#[test]
fn a_missing_file_is_reported() {
    let missing = |file, synced| Damage {
        file: name(file),
        offset: 0,
        bytes: 0,
        missing: true,
        owners: Owners::All,
        synced,
    };
    // Each case loses a file in the middle or the last one. In the same boot the loss is always reported, in
    // another boot only if the file was synced.
    for (file, synced, reboots, expected) in [
        (2, 0, false, vec![missing(2, false)]),
        (2, 7, true, vec![missing(2, true)]),
        (2, 11, true, vec![missing(2, false)]),
        (2, 3, true, vec![]),
        (3, 0, false, vec![missing(3, false)]),
        (3, 11, true, vec![missing(3, true)]),
        (3, 8, true, vec![]),
    ] {
        let disk = killed(11, synced);
        disk.lose(&name(file));
        let disk = if reboots { rebooted(&disk) } else { disk };
        let (mut log, recovery, found) = open(&disk);
        assert_eq!(recovery.damage, expected, "file {file}, synced {synced}, {reboots}");
        assert!(seqs(&found).len() < 11);
        // The number of the lost batch is not used again.
        write(&mut log, 12, true);
        assert!(log.spans().keys().all(|&number| number != file && number <= 4));
        assert!(log.spans().contains_key(&4));
    }
    let disk = killed(11, 0);
    disk.lose(&name(3));
    assert_eq!(open(&disk).1.damage[0].to_string(), format!("log file {} is missing", name(3)));
}

#[test]
fn a_truncated_or_older_file_is_damage() {
    let older = killed(5, 0).files()[&name(2)].clone();
    for length in [FILE_HEADER + BATCH, FILE_HEADER + BATCH + BATCH_HEADER + RECORD_HEADER, 20, 0] {
        let disk = killed(7, 7);
        let bytes = disk.files()[&name(2)][..length].to_vec();
        disk.put(&name(2), &bytes);
        let (_, recovery, _) = open(&disk);
        assert!(!recovery.damage.is_empty(), "{length} bytes are left");
        assert!(recovery.damage.iter().all(|damage| damage.owners == Owners::All && damage.synced));
    }
    let disk = killed(7, 7);
    disk.put(&name(2), &older);
    let (_, recovery, found) = open(&disk);
    assert_eq!((recovery.damage.len(), seqs(&found)), (1, vec![1, 2, 3, 4, 5]));
    assert!(recovery.damage[0].to_string().ends_with("records before it are missing"));
}

#[test]
fn a_batch_whose_sync_was_waited_for_may_have_held_a_definition() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = open(&disk);
    write(&mut log, 1, false);
    write(&mut log, 2, true);
    let mut done = Vec::new();
    let job = log.begin_sync(&mut done).unwrap();
    // Batch 3 is written during the sync, so it cannot say that batch 2 is synced.
    write(&mut log, 3, false);
    log.end_sync(job.run(), &mut done);
    write(&mut log, 4, false);
    drop(log);
    for (seq, synced) in [(1, false), (2, true), (3, false)] {
        let disk = rebooted(&disk);
        // The owner of the batch is unknown.
        flip(&disk, seq, IN_BATCH[1]);
        let (_, recovery, _) = open(&disk);
        let told: Vec<_> = recovery.damage.iter().map(|damage| (&damage.owners, damage.synced)).collect();
        let expected: &[_] = if seq == 3 { &[] } else { &[(&Owners::All, synced)] };
        assert_eq!(told, expected, "batch {seq}");
    }
}

/// Definitions are written again before files are deleted. Nobody waits for the sync of these copies but the deletion.
#[test]
fn a_batch_before_a_deletion_of_files_may_have_held_a_definition() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = open(&disk);
    (1..=9).for_each(|seq| drop(write(&mut log, seq, false)));
    // Batch 10 raises the floor.
    assert!(forget(&mut log, 1));
    (11..=13).for_each(|seq| drop(write(&mut log, seq, false)));
    drop(log);
    for (seq, synced) in [(6, true), (9, true), (12, false)] {
        let damaged = SimDisk::new(1);
        damaged.put_note(&disk.note());
        for (name, mut bytes) in disk.files() {
            let body = bytes.windows(BODY).position(|window| window == [seq as u8; BODY]);
            // The owner of the batch is unknown.
            body.into_iter().for_each(|at| bytes[at - RECORD_HEADER + 4] ^= 1);
            damaged.put(&name, &bytes);
        }
        let (_, recovery, found) = open(&damaged);
        assert_eq!(found.len(), 7);
        let told: Vec<_> = recovery.damage.iter().map(|damage| (&damage.owners, damage.synced)).collect();
        assert_eq!(told, [(&Owners::All, synced)], "batch {seq}");
    }
}

#[test]
fn a_corrupt_note_counts_as_one_of_this_boot() {
    let disk = rebooted(&killed(7, 0));
    let mut note = disk.note();
    note[9] ^= 1;
    disk.put_note(&note);
    flip(&disk, 3, IN_BATCH[2]);
    assert_eq!(open(&disk).1.damage, [damage(3, Owners::Only(vec![owner(3)]), false)]);
    // An empty note proves nothing, because older programs wrote none.
    for note in [vec![], vec![0; 52]] {
        let disk = rebooted(&killed(7, 0));
        disk.put_note(&note);
        flip(&disk, 3, IN_BATCH[2]);
        assert_eq!(open(&disk).1.damage, []);
    }
}
