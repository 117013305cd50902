//! The formats: every released version opens, the current one is written byte for byte as before, and a newer
//! one is refused. Every flipped bit is noticed, invents nothing and is not mistaken for something else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use wal::{
    Completion, Cut, Damage, Handover, LOG_VERSION, Log, OpenError, Options, Owners, Record, Records,
    Recovery,
};
use wal_testing::{Op, Random, SimDisk, forget};

const FILE_HEADER: usize = 48;
const BATCH_HEADER: usize = 64;
const FIRST: &str = "00000000000000000001.log";

type Files = BTreeMap<String, Vec<u8>>;

/// Returns a small log of several files. Batches 1, 3, 5, ... ask for a sync. Batch 6 raises the floor, and
/// the first file is removed.
fn sample(close: bool) -> (Files, Vec<Record>) {
    let disk = SimDisk::new(0);
    let options = Options { file_bytes: 600, seed: Some(42), ..Options::default() };
    let (mut log, _) = Log::open(disk.clone(), options, &mut |_| ()).unwrap();
    let mut written = Vec::new();
    for batch in 1..=9_u64 {
        if batch == 6 {
            assert!(forget(&mut log, 1));
            continue;
        }
        let from = written.len();
        let mut handovers: Vec<Handover> = (0..2)
            .map(|shard| {
                let mut records = Records::new();
                for nth in 0..1 + batch % 3 {
                    let (owner, seq, kind) =
                        (u64::from(shard) * 100 + batch % 4, batch * 10 + nth, nth as u8);
                    let body = vec![b'a' + batch as u8; (7 * batch + 13 * nth) as usize];
                    records.push(owner, seq, kind, &[&body]);
                    written.push(Record { owner, seq, kind, file: 0, batch: 0, body: body.into() });
                }
                Handover { shard, ticket: batch, records, sync: batch % 2 == 1, urgent: true }
            })
            .collect();
        let mut done = Vec::new();
        log.append(&mut handovers, &mut done);
        sync(&mut log, &mut done);
        written[from..].iter_mut().for_each(|record| record.file = done[0].file);
    }
    written.retain(|record| record.file > 1);
    if close {
        log.close().unwrap();
    }
    assert!(!disk.files().contains_key(FIRST));
    (disk.files(), written)
}

/// Syncs what handovers wait for.
fn sync(log: &mut Log<SimDisk>, done: &mut Vec<Completion>) {
    while let Some(job) = log.begin_sync(done) {
        log.end_sync(job.run(), done);
    }
}

fn open_on(disk: &SimDisk) -> Result<(Recovery, Vec<Record>), OpenError> {
    let mut records = Vec::new();
    // Which batch a record is in counts elsewhere.
    let mut push = |record| records.push(Record { batch: 0, ..record });
    let (_, recovery) = Log::open(disk.clone(), Options::default(), &mut push)?;
    Ok((recovery, records))
}

fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(0);
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    disk
}

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/v{version}"))
}

#[test]
fn formats_are_versioned() {
    for version in 1..=LOG_VERSION {
        let mut files = Files::new();
        for entry in std::fs::read_dir(golden(version)).unwrap() {
            let path = entry.unwrap().path();
            files.insert(path.file_name().unwrap().to_str().unwrap().into(), std::fs::read(&path).unwrap());
        }
        let (recovery, records) = open_on(&disk_of(&files)).unwrap();
        let (now, written) = sample(true);
        assert!(recovery.clean, "{recovery:?}");
        assert!(records == written, "version {version} reads back as it was written");
        if version == LOG_VERSION {
            assert!(files == now, "the format changed: give it a new version and a golden directory");
        }
    }
}

/// Writes the golden files. Run once per version: `cargo test -p wal --test formats -- --ignored`.
#[test]
#[ignore = "writes the golden directory of a new version"]
fn write_golden_directory() {
    let directory = golden(LOG_VERSION);
    std::fs::create_dir_all(&directory).unwrap();
    for (name, bytes) in sample(true).0 {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

#[test]
fn a_newer_version_is_refused_before_anything_is_written() {
    let (mut files, _) = sample(false);
    let (name, bytes) = files.iter_mut().next_back().unwrap();
    let name = name.clone();
    bytes[8..12].copy_from_slice(&(LOG_VERSION + 1).to_le_bytes());
    let check = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..44]) as u32;
    bytes[44..48].copy_from_slice(&check.to_le_bytes());
    // Without the refusal, this byte would be cut off as an interrupted tail.
    files.values_mut().next().unwrap().push(0);
    let disk = disk_of(&files);
    match open_on(&disk) {
        Err(error @ OpenError::NewerFormat { .. }) => {
            assert_eq!(
                error.to_string(),
                format!(
                    "log file {name} has format version {}; this program knows {LOG_VERSION}",
                    LOG_VERSION + 1
                )
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(disk.changes(), 0);
}

/// A batch, parsed independently of the crate.
#[derive(Clone, Debug)]
struct Batch {
    file: String,
    offset: usize,
    end: usize,
    number: u64,
    synced: u64,
    floor: u64,
    owners: Vec<u64>,
}

fn batches(files: &Files) -> Vec<Batch> {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut batches = Vec::new();
    for (file, bytes) in files {
        let mut offset = FILE_HEADER;
        // Bytes after the last batch may be from an earlier use of the file.
        while offset < bytes.len() && bytes[offset + 8..offset + 16] == bytes[24..32] {
            let [number, synced, floor] = [16, 32, 40].map(|at| word(bytes, offset + at));
            let end = offset + BATCH_HEADER + word(bytes, offset + 48) as usize;
            let mut owners = BTreeSet::new();
            let mut at = offset + BATCH_HEADER;
            while at < end {
                owners.insert(word(bytes, at));
                at += 24 + u32::from_le_bytes(bytes[at + 16..at + 20].try_into().unwrap()) as usize;
            }
            let owners = owners.into_iter().collect();
            batches.push(Batch { file: file.clone(), offset, end, number, synced, floor, owners });
            offset = end;
        }
    }
    batches
}

#[test]
fn every_flipped_bit_is_reported_and_invents_nothing() {
    let mut random = Random(1);
    for close in [true, false] {
        let (files, written) = sample(close);
        let batches = batches(&files);
        let former = open_on(&disk_of(&files)).unwrap().0.cut;
        assert_eq!(former.is_some(), !close, "the last file overwrites another one");
        for (name, bytes) in &files {
            for at in 0..bytes.len() {
                let mut flipped = files.clone();
                flipped.get_mut(name).unwrap()[at] ^= 1 << random.below(8);
                let hit = batches.iter().find(|b| b.file == *name && (b.offset..b.end).contains(&at));
                check_flip(&flipped, &written, &batches, hit, former.as_ref(), &format!("{name} at {at}"));
            }
        }
    }
}

fn check_flip(
    files: &Files,
    written: &[Record],
    batches: &[Batch],
    hit: Option<&Batch>,
    former: Option<&Cut>,
    place: &str,
) {
    let disk = disk_of(files);
    let (recovery, records) = open_on(&disk).unwrap();
    let Some(hit) = hit else {
        // A flip in a file header is harmless, because the batches carry the same data. Bytes of an earlier use
        // of the file do not count.
        assert!(records == written && recovery.damage.is_empty(), "{place}: {recovery:?}");
        assert_eq!(recovery.cut.as_ref(), former, "{place}");
        return;
    };
    let known = batches.iter().filter(|b| b.number != hit.number).map(|b| b.synced).max().unwrap();
    if hit.number <= known {
        let expected: Vec<_> = written.iter().filter(|r| r.seq / 10 != hit.number).cloned().collect();
        assert!(records == expected, "{place}: the other records stay");
        let [Damage { file, offset, bytes, missing: false, owners, synced }] = recovery.damage.as_slice()
        else {
            panic!("{place}: {recovery:?}")
        };
        assert_eq!(
            (file, *offset, *bytes),
            (&hit.file, hit.offset as u64, (hit.end - hit.offset) as u64),
            "{place}"
        );
        assert!(*owners == Owners::All || *owners == Owners::Only(hit.owners.clone()), "{place}: {owners:?}");
        let behind = batches.iter().filter(|b| b.number > hit.number).min_by_key(|b| b.number).unwrap();
        // What is before the first batch with the last floor was synced before files were deleted.
        let others = || batches.iter().filter(|b| b.number != hit.number);
        let floor = others().map(|b| b.floor).max().filter(|floor| *floor > 1);
        let raised = others().filter(|b| Some(b.floor) == floor).map(|b| b.number).min().unwrap_or(0);
        assert_eq!(*synced, behind.synced >= hit.number || hit.number < raised, "{place}");
        assert_eq!(recovery.cut.as_ref(), former, "{place}");
        let mut kept = files.clone();
        former.inspect(|cut| kept.get_mut(&cut.file).unwrap().truncate(cut.offset as usize));
        assert_eq!(disk.files(), kept, "{place}: the bytes stay");
    } else {
        let expected: Vec<_> = written.iter().filter(|r| r.seq / 10 < hit.number).cloned().collect();
        assert!(records == expected, "{place}: a tail is cut");
        assert_eq!(recovery.damage, [], "{place}");
        let Some(Cut { file, offset, .. }) = &recovery.cut else { panic!("{place}: {recovery:?}") };
        // The damaged file may end before the batch that was hit.
        assert!(*file == hit.file && (*offset == hit.offset as u64), "{place}: {:?}", recovery.cut);
    }
    assert!(!recovery.clean);
    // In any case the log continues, and the next open reports the same.
    let (mut log, _) = Log::open(disk.clone(), Options::default(), &mut |_| ()).unwrap();
    let mut more = Records::new();
    more.push(9, 9999, 9, &[b"more"]);
    let mut done = Vec::new();
    let sync_it = former.is_none();
    log.append(
        &mut vec![Handover { shard: 0, ticket: 0, records: more, sync: sync_it, urgent: true }],
        &mut done,
    );
    sync(&mut log, &mut done);
    drop(log);
    let (again, mut found) = open_on(&disk).unwrap();
    assert_eq!(found.pop().map(|record| record.seq), Some(9999), "{place}");
    assert!(found == records, "{place}");
    assert_eq!((again.damage, again.cut), (recovery.damage, None), "{place}");
}

#[test]
fn a_damaged_body_names_the_owners_of_its_batch() {
    let (mut files, _) = sample(true);
    let batch = batches(&files)[2].clone();
    *files.get_mut(&batch.file).unwrap().get_mut(batch.end - 1).unwrap() ^= 1;
    let (recovery, _) = open_on(&disk_of(&files)).unwrap();
    assert_eq!(recovery.damage[0].owners, Owners::Only(batch.owners.clone()));
    // A damaged batch header does not hide the owners either, because the record headers lead from one batch
    // to the next.
    let (mut files, _) = sample(true);
    files.get_mut(&batch.file).unwrap()[batch.offset + 20] ^= 1;
    let (recovery, _) = open_on(&disk_of(&files)).unwrap();
    assert_eq!(recovery.damage[0].owners, Owners::Only(batch.owners));
}

#[test]
fn a_missing_file_is_damage_for_everyone() {
    let (mut files, _) = sample(true);
    let lost = files.keys().nth(1).unwrap().clone();
    files.remove(&lost);
    let (recovery, _) = open_on(&disk_of(&files)).unwrap();
    assert_eq!(
        recovery.damage,
        [Damage { file: lost, offset: 0, bytes: 0, missing: true, owners: Owners::All, synced: true }]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_kept() {
    for close in [true, false] {
        let (files, written) = sample(close);
        let disk = disk_of(&files);
        disk.fail(&[Op::Read], 1000, libc::EIO);
        let (recovery, records) = open_on(&disk).unwrap();
        assert!(records.is_empty() && recovery.cut.is_none());
        assert!(recovery.damage.iter().any(|damage| damage.owners == Owners::All));
        assert_eq!(disk.files(), files);
        disk.heal();
        let (recovery, records) = open_on(&disk).unwrap();
        assert!(records == written && recovery.clean == close);
    }
}

#[test]
fn a_body_that_looks_like_a_batch_is_not_a_batch() {
    let (other, _) = sample(false);
    let forged = &other.values().next().unwrap()[FILE_HEADER..];
    let disk = SimDisk::new(0);
    let options = Options { seed: Some(43), ..Options::default() };
    let (mut log, _) = Log::open(disk.clone(), options, &mut |_| ()).unwrap();
    for seq in 0..2 {
        let mut records = Records::new();
        records.push(1, seq, 1, &[forged]);
        let mut done = Vec::new();
        log.append(&mut vec![Handover { shard: 0, ticket: 0, records, sync: true, urgent: true }], &mut done);
        sync(&mut log, &mut done);
    }
    drop(log);
    let mut files = disk.files();
    files.values_mut().next().unwrap()[FILE_HEADER + 4] ^= 1;
    let (recovery, records) = open_on(&disk_of(&files)).unwrap();
    assert_eq!(records.iter().map(|record| (record.owner, record.seq)).collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(recovery.damage.len(), 1);
}
