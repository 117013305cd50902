//! What packs cost, what stays on the disk, and how errors of the disk are handled.

use std::io::ErrorKind;

use bytes::Bytes;
use libc::{EIO, ENOSPC, EROFS};
use wal::{
    BLOCK_BYTES, Extent, PackError, PackOptions, PackReader, Packs, ReadError, Records, Run, WriteFailure,
};
use wal_testing::{CHANGES, Crash, Op, SimDisk};

/// The header of a pack, and the bytes that `run` takes in addition to its body.
const OPENING: u64 = 48;
const AROUND: u64 = 20 + 24;

/// Opens packs of 1000 bytes. The garbage allowed is as much as the live bytes, plus 1000 bytes.
fn open(disk: &SimDisk, known: &[Extent], keep_unknown: bool) -> Packs<SimDisk> {
    let options = PackOptions { pack_bytes: 1000, garbage_allowed: 1000 };
    Packs::open(disk.clone(), options, known.iter().copied(), keep_unknown).unwrap()
}

fn run(owner: u64, bytes: usize) -> Run {
    let mut run = Run::new(owner);
    run.push(owner, 1, &vec![owner as u8; bytes], Bytes::new());
    run
}

fn write(packs: &mut Packs<SimDisk>, runs: Vec<Run>) -> Vec<Extent> {
    packs.write(runs).unwrap()
}

fn packs_on(disk: &SimDisk) -> Vec<u64> {
    disk.files().keys().map(|name| name.trim_end_matches(".pack").parse().unwrap()).collect()
}

#[test]
fn many_small_owners_share_packs_and_syncs() {
    let disk = SimDisk::new(1);
    let mut packs = Packs::open(disk.clone(), PackOptions::default(), [], false).unwrap();
    let extents = write(&mut packs, (1..=10_000).map(|owner| run(owner, 1000)).collect());
    // 10,000 runs of 1,044 bytes each are written to packs of 4 MiB.
    assert_eq!((disk.count(Op::Create), disk.count(Op::Sync), disk.count(Op::SyncDir)), (3, 3, 1));
    let mut reader = PackReader::new(disk);
    for (owner, extent) in (1..).zip(extents) {
        let block = reader.read(extent, owner, 0).unwrap();
        assert_eq!((block.records[0].owner, block.records.len(), block.next), (owner, 1, None));
    }
}

#[test]
fn a_run_is_in_one_pack_whatever_its_size() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let extents = write(&mut packs, [100, 5000, 100, 700, 100].map(|bytes| run(1, bytes)).into());
    assert_eq!(extents.iter().map(|extent| extent.pack).collect::<Vec<_>>(), [1, 2, 3, 3, 4]);
    assert_eq!(u64::from(extents[3].offset), OPENING + AROUND + 100);
    assert_eq!(packs.bytes(), (4 * OPENING + 5 * AROUND + 6000, 5 * AROUND + 6000));
    assert!(write(&mut packs, Vec::new()).is_empty());
    assert_eq!(packs_on(&disk), [1, 2, 3, 4]);
}

#[test]
fn a_pack_is_removed_with_its_last_extent_even_after_a_restart() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let extents = write(&mut packs, (1..=6).map(|owner| run(owner, 400)).collect());
    assert_eq!(packs_on(&disk), [1, 2, 3]);
    packs.release(extents[0]);
    packs.release(extents[0]);
    packs.release(Extent { bytes: 1, ..extents[1] });
    assert_eq!((packs_on(&disk), packs.bytes().1), (vec![1, 2, 3], 5 * (AROUND + 400)));
    packs.release(extents[1]);
    assert_eq!(packs_on(&disk), [2, 3]);
    drop(packs);
    let known = [extents[2], extents[3], extents[2], extents[5]];
    let mut packs = open(&disk, &known, false);
    assert_eq!(packs.bytes(), (2 * OPENING + 4 * (AROUND + 400), 3 * (AROUND + 400)));
    packs.release(extents[5]);
    packs.release(extents[2]);
    assert_eq!(packs_on(&disk), [2]);
    packs.release(extents[3]);
    assert_eq!((packs_on(&disk), packs.bytes()), (vec![], (0, 0)));
}

#[test]
fn unknown_packs_are_removed_unless_they_must_be_kept() {
    let disk = SimDisk::new(1);
    disk.put("notes", b"not a pack");
    let mut packs = open(&disk, &[], false);
    let extents = write(&mut packs, (1..=4).map(|owner| run(owner, 400)).collect());
    let whole = write(&mut packs, vec![run(5, 900)])[0];
    drop(packs);
    // One extent of pack 1 is known, none of pack 2, all of pack 3. So only pack 3 can become spent.
    let mut packs = open(&disk, &[extents[0], whole], true);
    let three = 3 * OPENING + 5 * AROUND + 2500;
    assert_eq!(packs.bytes(), (three, 2 * AROUND + 1300));
    packs.release(extents[0]);
    packs.release(whole);
    assert_eq!(packs.bytes(), (three - OPENING - AROUND - 900, 0));
    assert_eq!(packs.sparse(), None, "packs that must be kept are not named");
    assert!(PackReader::new(disk.clone()).read(extents[2], 3, 0).is_ok());
    assert_eq!(write(&mut packs, vec![run(6, 1)])[0].pack, 4);
    drop(packs);
    let packs = open(&disk, &[extents[1]], false);
    assert_eq!(packs.bytes(), (OPENING + 2 * (AROUND + 400), AROUND + 400));
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), ["00000000000000000001.pack", "notes"]);
}

#[test]
fn the_emptiest_pack_is_named_once() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    // Nine extents fit into a pack, so this makes five packs.
    let extents = write(&mut packs, (0..45).map(|_| run(1, 60)).collect());
    assert_eq!((extents[8].pack, extents[9].pack, extents[44].pack), (1, 2, 5));
    let alive = |pack: u64| match pack {
        2 => 1,
        4 => 3,
        _ => 5,
    };
    for (nth, extent) in extents.iter().enumerate() {
        assert_eq!(packs.sparse(), None);
        if nth % 9 >= alive(extent.pack) {
            packs.release(*extent);
        }
    }
    let each = AROUND + 60;
    let bytes = 5 * OPENING + 45 * each;
    assert_eq!((packs.bytes(), bytes), ((bytes, 19 * each), 4920));
    assert_eq!(packs.sparse(), None, "4920 bytes are less than twice 1976 plus 1000");
    packs.release(extents[0]);
    assert_eq!(packs.sparse(), Some(2));
    assert_eq!(packs.sparse(), None, "emptying that one is enough");
    [1, 27, 36, 37].iter().for_each(|&nth| packs.release(extents[nth]));
    assert_eq!(packs.sparse(), Some(4), "not 2 again");
    drop(packs);
    let known = [2, 3, 4, 9, 18, 19, 20, 21, 22, 28, 29, 38, 39, 40].map(|nth| extents[nth]);
    assert_eq!(open(&disk, &known, false).sparse(), Some(2), "after a restart it is named again");
}

#[test]
fn a_run_that_cannot_be_written_is_refused_without_touching_the_disk() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let mut large = Records::new();
    large.push(1, 1, 1, &[&[0; BLOCK_BYTES]]);
    assert!(packs.write(vec![Run { owner: 1, blocks: vec![large.clone()] }]).is_ok());
    let changes = disk.changes();
    large.push(1, 2, 1, &[]);
    for blocks in [vec![], vec![Records::new()], vec![large]] {
        let refused = packs.write(vec![run(2, 10), Run { owner: 0x1f, blocks }]).unwrap_err();
        assert_eq!((refused.error.kind(), refused.runs.len()), (ErrorKind::InvalidInput, 2));
        assert!(refused.to_string().contains("owner 0x1f"), "{refused}");
    }
    assert_eq!(disk.changes(), changes);
}

#[test]
fn a_full_disk_returns_the_runs_and_service_resumes() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let kept = write(&mut packs, vec![run(1, 400)])[0];
    for op in [Op::Create, Op::Write, Op::Sync, Op::SyncDir] {
        disk.fail(&[op], 1000, ENOSPC);
        let WriteFailure { error, runs, .. } =
            packs.write((2..=6).map(|o| run(o, 400)).collect()).unwrap_err();
        assert_eq!((error.raw_os_error(), runs.len()), (Some(ENOSPC), 5), "{op:?}");
        assert_eq!((packs_on(&disk), packs.bytes().1), (vec![1], AROUND + 400), "{op:?}");
        disk.heal();
        let extents = write(&mut packs, runs);
        extents.into_iter().for_each(|extent| packs.release(extent));
    }
    assert!(PackReader::new(disk).read(kept, 1, 0).is_ok());
}

#[test]
fn a_sync_that_failed_is_never_believed_later() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    disk.fail_nth(2, EIO);
    let failure = packs.write(vec![run(1, 400)]).unwrap_err();
    assert_eq!(failure.file, "00000000000000000001.pack");
    let extent = write(&mut packs, failure.runs)[0];
    assert_eq!((extent.pack, disk.count(Op::Sync)), (2, 2));
    assert!(PackReader::new(disk.crash(Crash::Power)).read(extent, 1, 0).is_ok());
}

#[test]
fn a_dead_disk_refuses_everything_in_bounded_work() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let extents = write(&mut packs, (0..40).map(|_| run(1, 900)).collect());
    disk.fail(&CHANGES, 1000, EROFS);
    let before = disk.changes();
    extents[..20].iter().for_each(|&extent| packs.release(extent));
    for _ in 0..50 {
        assert!(packs.write(vec![run(1, 1)]).is_err());
    }
    // Each call makes four failing removals, and a write twice as many. A write may also create one pack, and
    // each pack may be removed once.
    assert!(disk.changes() - before <= 20 * 4 + 50 * (2 * 4 + 1) + 20 + 50);
    assert!(packs_on(&disk).len() <= 40 + 4);
    assert_eq!(disk.count(Op::Sync), 40);
    disk.heal();
    packs.release(extents[20]);
    assert_eq!(packs_on(&disk), (22..=40).collect::<Vec<_>>());
    assert_eq!(packs.bytes(), (19 * (OPENING + AROUND + 900), 19 * (AROUND + 900)));
}

#[test]
fn a_disk_that_refuses_to_read_loses_nothing() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let extent = write(&mut packs, vec![run(1, 400)])[0];
    drop(packs);
    let mut reader = PackReader::new(disk.clone());
    for op in [Op::Open, Op::Read] {
        disk.fail(&[op], 1000, EIO);
        let error = reader.read(extent, 1, 0).unwrap_err();
        assert!(matches!(error, ReadError::Io { pack: 1, offset: OPENING, .. }), "{error}");
        disk.heal();
        assert!(reader.read(extent, 1, 0).is_ok());
        reader = PackReader::new(disk.clone());
    }
    for op in [Op::Lock, Op::List, Op::Open, Op::Len, Op::Read] {
        disk.fail(&[op], 1000, EIO);
        let opened = Packs::open(disk.clone(), PackOptions::default(), [], false);
        assert!(matches!(opened.map(|_| ()), Err(PackError::Io { .. })), "{op:?}");
        assert_eq!(packs_on(&disk), [1]);
        disk.heal();
    }
}

#[test]
fn one_writer_at_a_time() {
    let disk = SimDisk::new(1);
    let first = open(&disk, &[], false);
    let second = Packs::open(disk.clone(), PackOptions::default(), [], false);
    assert!(matches!(second.map(|_| ()), Err(PackError::Locked)));
    drop(first);
    open(&disk, &[], false);
}

#[test]
fn few_packs_are_kept_open() {
    let disk = SimDisk::new(1);
    let mut packs = open(&disk, &[], false);
    let extents = write(&mut packs, (0..9).map(|_| run(1, 900)).collect());
    let mut reader = PackReader::new(disk.clone());
    let mut opened_by = |reads: &[usize]| {
        let before = disk.count(Op::Open);
        reads.iter().for_each(|&nth| assert!(reader.read(extents[nth], 1, 0).is_ok()));
        disk.count(Op::Open) - before
    };
    assert_eq!(opened_by(&[0, 1, 2, 3, 4, 5, 6, 7]), 8);
    assert_eq!(opened_by(&[7, 6, 5, 4, 3, 2, 1, 0]), 0);
    assert_eq!(opened_by(&[8, 0]), 1, "the one used longest ago is closed");
    assert_eq!(opened_by(&[7]), 1);
}
