//! Missing parts of a stream are detected: segments, their ends, and the version file. No offset is used for
//! two messages.

use crate::chunks::{LIMITS, Owner, chunk, job, read_all, read_heads};
use wal::{
    Bloom, ChunkJob, Chunks, HEADS_MAX, NewChunk, ReadFrom, Retained, StreamError, StreamFlaw, StreamLimits,
    StreamReader, Streams,
};
use wal_testing::{Crash, Op, SimDisk};

/// Limits with which one chunk of 100 bytes fills a segment.
const SMALL: StreamLimits = StreamLimits { segment_bytes: 100, ..LIMITS };

fn segment(first: u64) -> String {
    format!("0000000000000007-{first:020}.segment")
}

fn index(first: u64) -> String {
    format!("0000000000000007-{first:020}.index")
}

/// Returns an owner of a stream of three chunks with two entries each.
fn owner(disk: &SimDisk, limits: StreamLimits, sync: bool) -> Owner {
    let mut owner = Owner::new(disk);
    owner.open(7, limits, 0).unwrap();
    for n in 0..3 {
        owner.append(7, vec![chunk(2 * n, 2, n, 100)], sync).unwrap();
    }
    owner
}

/// Returns the same files and notes in another boot of the machine.
fn rebooted(disk: &SimDisk) -> SimDisk {
    let other = SimDisk::new(2);
    disk.files().iter().for_each(|(name, bytes)| other.put(name, bytes));
    other.put_note(&disk.note());
    other
}

fn lose(disk: &SimDisk, first: u64) {
    disk.lose(&segment(first));
    disk.lose(&index(first));
}

fn open(disk: &SimDisk) -> Result<Retained, StreamError> {
    Owner::new(disk).open(7, SMALL, 0).map(|(kept, _)| kept)
}

/// Returns what the check at the start reports, and the error of the open.
fn told(disk: &SimDisk) -> (Vec<(bool, String)>, Option<String>) {
    let flaws = Streams::new(disk.clone()).unwrap().check();
    let flaws = flaws.into_iter().map(|StreamFlaw { stream, error, closes }| {
        assert_eq!(stream, Some(7));
        (closes, error.to_string())
    });
    (flaws.collect(), open(disk).err().map(|error| error.to_string()))
}

#[test]
fn a_missing_segment_closes_the_stream() {
    for (lost, what) in [
        (0, Some(format!("stream file {} or a part of it is missing: offsets 0 to 1", segment(0)))),
        (2, Some(format!("stream file {} or a part of it is missing: offsets 2 to 3", segment(0)))),
        (4, Some(format!("stream file {} or a part of it is missing: offsets 4 to 5", segment(4)))),
    ] {
        for (sync, reboots) in [(false, false), (true, false), (true, true)] {
            let disk = SimDisk::new(1);
            drop(owner(&disk, SMALL, sync));
            lose(&disk, lost);
            let disk = if reboots { rebooted(&disk) } else { disk };
            let before = disk.changes();
            let (at_start, at_open) = told(&disk);
            // Power loss may bring back removed segments, in any order.
            let closes = !reboots || lost == 4;
            assert_eq!(at_start, Vec::from_iter(what.clone().map(|what| (closes, what))), "{lost} {sync}");
            let what = what.clone().filter(|_| closes);
            assert_eq!(at_open, what, "segment {lost}, sync {sync}, {reboots}");
            assert!(disk.changes() == before || what.is_none(), "nothing is written");
            // This does not change, even after a reboot.
            if what.is_some() {
                assert_eq!(told(&rebooted(&disk)).1, what);
                assert_eq!(told(&disk.crash(Crash::Process)).1, what);
            }
        }
    }
}

#[test]
fn a_stream_opens_again_once_its_segment_is_back() {
    let disk = SimDisk::new(1);
    let kept = owner(&disk, SMALL, false).retained(7);
    let bytes = disk.files()[&segment(2)].clone();
    lose(&disk, 2);
    assert!(open(&disk).is_err());
    let disk = rebooted(&disk);
    assert!(open(&disk).is_err());
    disk.put(&segment(2), &bytes);
    assert_eq!((told(&disk), open(&disk).unwrap()), ((vec![], None), kept));
}

#[test]
fn after_a_reboot_what_was_not_synced_may_be_missing() {
    for (lost, next) in [(2, 6), (4, 4)] {
        let disk = SimDisk::new(1);
        drop(owner(&disk, SMALL, false));
        lose(&disk, lost);
        let disk = rebooted(&disk);
        let (at_start, at_open) = told(&disk);
        assert_eq!(
            (at_start.iter().map(|flaw| flaw.0).collect::<Vec<_>>(), at_open),
            match lost {
                2 => (vec![false], None),
                _ => (vec![], None),
            }
        );
        assert_eq!(open(&disk).unwrap().next, next);
    }
}

#[test]
fn a_stream_without_any_segment_is_reported() {
    for limits in [LIMITS, SMALL] {
        let disk = SimDisk::new(1);
        drop(owner(&disk, limits, false));
        [0, 2, 4].into_iter().for_each(|first| lose(&disk, first));
        let (at_start, at_open) = told(&disk);
        assert!(at_start.len() == 1 && at_start[0].0 && at_open.is_some());
    }
}

#[test]
fn a_truncated_segment_is_reported_once_the_streams_were_idle() {
    let whole = {
        let disk = SimDisk::new(1);
        drop(owner(&disk, LIMITS, true));
        disk.files()[&segment(0)].len()
    };
    for length in 0..whole {
        for (sync, idle, reboots) in [(false, true, false), (true, false, false), (true, false, true)] {
            let disk = SimDisk::new(1);
            let mut owner = owner(&disk, LIMITS, sync);
            if idle {
                owner.streams.note();
            }
            drop(owner);
            let bytes = disk.files()[&segment(0)][..length].to_vec();
            disk.put(&segment(0), &bytes);
            let disk = if reboots { rebooted(&disk) } else { disk };
            let (at_start, at_open) = told(&disk);
            let what = format!("stream file {} is damaged at byte {length}", segment(0));
            assert_eq!((at_start, at_open), (vec![(true, what.clone())], Some(what)));
            assert_eq!(disk.files()[&segment(0)], bytes, "it is left unchanged");
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_chunk_is_not_a_torn_end() {
    for at in 0..100 {
        let disk = SimDisk::new(1);
        drop(owner(&disk, LIMITS, true));
        let mut bytes = disk.files()[&segment(0)].clone();
        let from = bytes.len() - 1 - at;
        bytes[from] ^= 1;
        disk.put(&segment(0), &bytes);
        for disk in [rebooted(&disk), disk] {
            assert!(matches!(open(&disk), Err(StreamError::Damaged { .. })), "{at} from the end");
            assert_eq!(disk.files()[&segment(0)], bytes);
        }
    }
}

#[test]
fn a_clean_stop_syncs_and_notes_it() {
    let disk = SimDisk::new(1);
    owner(&disk, SMALL, false).streams.close();
    assert_eq!(open(&disk.crash(Crash::Power)).unwrap().next, 6);
    let disk = rebooted(&disk);
    lose(&disk, 4);
    assert!(told(&disk).0[0].0 && open(&disk).is_err());
}

/// What retention has removed does not come back, with a gap where its later segments were.
#[test]
fn a_clean_stop_syncs_what_retention_has_removed() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let mut owner = owner(&disk, SMALL, true);
        for n in 6..20 {
            owner.append(7, vec![chunk(n, 1, n, 150)], true).unwrap();
        }
        owner.limit(7, StreamLimits { bytes_max: Some(1), ..SMALL }, 0).unwrap();
        let first = owner.retained(7).first;
        owner.streams.close();
        let disk = disk.crash(Crash::Power);
        let mut owner = Owner::with(Streams::new(disk).unwrap());
        assert_eq!(owner.open(7, SMALL, 0).unwrap().0.first, first, "seed {seed}");
    }
}

#[test]
fn a_removed_stream_leaves_no_note() {
    let disk = SimDisk::new(1);
    drop(owner(&disk, SMALL, false));
    lose(&disk, 4);
    let mut streams = Streams::new(disk.clone()).unwrap();
    streams.keep(|stream| stream != 7);
    assert!(streams.check().is_empty());
    drop(streams);
    assert_eq!(open(&disk).unwrap().next, 0);
}

#[test]
fn retention_is_not_reported_as_damage() {
    let disk = SimDisk::new(1);
    let mut owner = owner(&disk, SMALL, true);
    owner.limit(7, StreamLimits { bytes_max: Some(1), ..SMALL }, 0).unwrap();
    assert_eq!(owner.retained(7).first, 4);
    drop(owner);
    assert_eq!(told(&disk), (vec![], None));
}

#[test]
fn a_damaged_version_file_stops_no_stream() {
    let disk = SimDisk::new(1);
    let kept = owner(&disk, SMALL, false).retained(7);
    let all = read_all(&mut StreamReader::new(disk.clone()), 7, &kept);
    let version = disk.files()["streams.version"].clone();
    for at in 0..version.len() {
        let disk = disk.crash(Crash::Process);
        let mut bad = version.clone();
        bad[at] ^= 1;
        disk.put("streams.version", &bad);
        let mut streams = Streams::new(disk.clone()).unwrap();
        let flaws = streams.check();
        // The CRC after the header only matters for a version that this program does not know.
        assert_eq!(flaws.len(), usize::from(at < 8), "byte {at}");
        assert!(flaws.iter().all(|flaw| flaw.stream.is_none() && !flaw.closes));
        let mut owner = Owner::with(streams);
        let (kept, _) = owner.open(7, SMALL, 0).unwrap();
        assert_eq!(read_all(&mut StreamReader::new(disk.clone()), 7, &kept), all);
        // The version file is created again with the next segment.
        owner.append(7, vec![chunk(6, 2, 3, 100)], false).unwrap();
        assert!(at >= 8 || disk.files()["streams.version"] == version);
    }
    // The first programs wrote only the header.
    disk.put("streams.version", &version[..8]);
    assert!(Streams::new(disk.clone()).unwrap().check().is_empty());
    assert!(open(&disk).is_ok());
}

/// The stream of [`owner`] with a damaged file: what an open says can be read, and what is read of it.
fn readable(disk: &SimDisk, limits: StreamLimits) -> (Option<u64>, Vec<u64>) {
    let known = Owner::new(disk).open_damaged(7, limits);
    let read = known.as_ref().map(|known| read_all(&mut StreamReader::new(disk.clone()), 7, known));
    (known.map(|known| known.next), read.unwrap_or_default().iter().map(|chunk| chunk.first).collect())
}

#[test]
fn what_comes_before_the_damage_can_be_read() {
    // A chunk with its head takes 148 bytes, and the header of the file 8.
    let whole = |length: usize| length.saturating_sub(8) / 148;
    for length in 0..8 + 3 * 148 {
        let disk = SimDisk::new(1);
        let mut owner = owner(&disk, LIMITS, true);
        owner.streams.note();
        drop(owner);
        let bytes = disk.files()[&segment(0)][..length].to_vec();
        disk.put(&segment(0), &bytes);
        let chunks = whole(length) as u64;
        let expected = (chunks > 0).then_some(2 * chunks);
        assert_eq!(readable(&disk, LIMITS), (expected, (0..chunks).map(|n| 2 * n).collect()), "{length}");
    }
    for lost in [0, 2, 4] {
        let disk = SimDisk::new(1);
        drop(owner(&disk, SMALL, false));
        lose(&disk, lost);
        let before: Vec<u64> = (0..lost / 2).map(|n| 2 * n).collect();
        assert_eq!(readable(&disk, SMALL), ((lost > 0).then_some(lost), before), "segment {lost}");
    }
}

/// Five segments of four chunks each, with two entries in a chunk. Each chunk has 148 bytes.
fn sealed(disk: &SimDisk) -> Retained {
    let limits = StreamLimits { segment_bytes: 8 + 4 * 148, ..LIMITS };
    let mut owner = Owner::new(disk);
    owner.open(7, limits, 0).unwrap();
    for n in 0..20 {
        owner.append(7, vec![chunk(2 * n, 2, n, 100)], false).unwrap();
    }
    owner.retained(7)
}

/// Each fault in the head of a chunk, and each cut, is found where it is. A fault in the data of a chunk is found by its
/// readers.
#[test]
fn heads_tell_where_a_stream_is_damaged() {
    let disk = SimDisk::new(1);
    let kept = sealed(&disk);
    assert_eq!(kept.segments.len(), 5);
    let files = disk.files();
    assert_eq!(read_heads(&mut StreamReader::new(disk.clone()), 7, &kept), Ok(()));
    for &first in &*kept.segments {
        let bytes = &files[&segment(first)];
        let chunk_at = |at: usize| first + 2 * (at.saturating_sub(8) as u64 / 148);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            let is_version = (4..8).contains(&at);
            let in_head = at < 8 || (at - 8) % 148 < 48;
            let cases = [(bytes[..at].to_vec(), true, true), (flipped, in_head, !is_version)];
            for (changed, by_heads, told) in cases {
                disk.put(&segment(first), &changed);
                let mut reader = StreamReader::new(disk.clone());
                // After a cut between two chunks, a segment that is not the last one ends there: the next open finds that.
                let is_end = changed.len() == at && at >= 8 && (at - 8) % 148 == 0 && first < 32;
                if told && !is_end {
                    let expected = if by_heads { Err(Some(chunk_at(at))) } else { Ok(()) };
                    assert_eq!(read_heads(&mut reader, 7, &kept), expected, "byte {at} of {first}");
                    let place = ReadFrom::Offset(chunk_at(at));
                    match reader.read(&job(7, place, &kept)) {
                        Err(StreamError::Damaged { from, .. }) => assert_eq!(from, Some(chunk_at(at))),
                        other => panic!("byte {at} of {first}: {other:?}"),
                    }
                }
            }
        }
        disk.put(&segment(first), bytes);
    }
}

/// A job for heads reads little of large chunks, and ends after [`HEADS_MAX`] reads.
#[test]
fn heads_are_read_without_the_data() {
    let disk = SimDisk::new(1);
    let mut owner = Owner::new(&disk);
    owner.open(7, LIMITS, 0).unwrap();
    for n in 0..100 {
        owner.append(7, vec![chunk(n, 1, n, 64 << 10)], false).unwrap();
    }
    let kept = owner.retained(7);
    let mut reader = StreamReader::new(disk.clone());
    let job = ChunkJob { heads: true, ..job(7, ReadFrom::First, &kept) };
    let read = || (disk.count(Op::Read), disk.bytes_read());
    let before = read();
    let Chunks { next, end, .. } = reader.read(&job).unwrap();
    assert_eq!((next.offset, end), (u64::from(HEADS_MAX), false));
    let segments = kept.segments.iter().filter(|&&first| first < next.offset).count() as u64;
    assert!(read().0 - before.0 <= u64::from(HEADS_MAX) + segments, "each segment has a header, too");
    assert_eq!(read_heads(&mut reader, 7, &kept), Ok(()));
    assert!(read().1 - before.1 < 100 * (64 << 10) / 10, "{} bytes", read().1 - before.1);

    // A read gets many small chunks, which count once.
    owner.append(7, (100..600).map(|n| chunk(n, 1, n, 100)).collect(), false).unwrap();
    let kept = owner.retained(7);
    let job = ChunkJob { heads: true, ..crate::chunks::job(7, ReadFrom::Offset(100), &kept) };
    let before = read().0;
    assert!(reader.read(&job).unwrap().end);
    assert!(read().0 - before < u64::from(HEADS_MAX), "{} reads", read().0 - before);
}

/// A segment that is not the last one ends inside a chunk, or between two. After a reboot that is a gap, because power loss
/// explains it. Without a reboot, and after a sync, it is damage.
#[test]
fn only_power_loss_may_tear_the_end_of_a_segment() {
    for at in 0..8 + 4 * 148 {
        let disk = SimDisk::new(1);
        let kept = sealed(&disk);
        let bytes = disk.files()[&segment(8)][..at].to_vec();
        disk.put(&segment(8), &bytes);
        let end = 8 + 2 * (at.saturating_sub(8) as u64 / 148);
        let known = Owner::new(&disk.crash(Crash::Process)).open_damaged(7, LIMITS);
        assert_eq!(known.map(|known| known.next), Some(end), "byte {at}");

        let other = rebooted(&disk);
        let flaws = Streams::new(other.clone()).unwrap().check();
        assert!(flaws.iter().all(|flaw| !flaw.closes) && flaws.len() == 1, "byte {at}: {flaws:?}");
        let mut owner = Owner::new(&other);
        let (again, _) = owner.open(7, LIMITS, 0).unwrap();
        assert_eq!((again.next, &again.segments), (kept.next, &kept.segments));
        let mut reader = StreamReader::new(other.clone());
        assert_eq!(read_heads(&mut reader, 7, &again), Ok(()));
        let firsts = |chunks: Vec<wal::Chunk>| chunks.iter().map(|chunk| chunk.first).collect::<Vec<_>>();
        let expected: Vec<u64> = (0..end).chain(16..40).step_by(2).collect();
        assert_eq!(firsts(read_all(&mut reader, 7, &again)), expected, "byte {at}");
        let after = reader.read(&job(7, ReadFrom::Offset(end), &again)).unwrap().chunks;
        assert_eq!(after[0].first, 16, "byte {at}");
    }

    let disk = SimDisk::new(1);
    drop(owner(&disk, SMALL, true));
    let bytes = disk.files()[&segment(0)].clone();
    for at in [0, 7, 8 + 47, bytes.len() - 1] {
        disk.put(&segment(0), &bytes[..at]);
        for disk in [rebooted(&disk), disk.crash(Crash::Process)] {
            let opened = open(&disk);
            assert!(
                matches!(opened, Err(StreamError::Missing { from: 0, to: 2, .. })),
                "byte {at}: {opened:?}"
            );
        }
    }
}

#[test]
fn power_loss_may_tear_the_filter_of_a_chunk() {
    let disk = SimDisk::new(1);
    let mut owner = Owner::new(&disk);
    owner.open(7, SMALL, 0).unwrap();
    let filtered = |n| NewChunk { bloom: Some(Bloom::new(100)), ..chunk(n, 1, n, 100) };
    (0..3).for_each(|n| drop(owner.append(7, vec![filtered(n)], false).unwrap()));
    let bytes = disk.files()[&segment(1)].clone();
    for at in 8..bytes.len() {
        disk.put(&segment(1), &bytes[..at]);
        let other = rebooted(&disk);
        let (kept, _) = Owner::new(&other).open(7, SMALL, 0).unwrap();
        let mut reader = StreamReader::new(other);
        assert_eq!(read_heads(&mut reader, 7, &kept), Ok(()), "byte {at}");
        let firsts: Vec<u64> = read_all(&mut reader, 7, &kept).iter().map(|chunk| chunk.first).collect();
        assert_eq!(firsts, [0, 2], "byte {at}");
    }
}

/// A refused append left a whole chunk behind the end of a segment. Power loss takes the segment that began there, and another one
/// begins inside that chunk.
#[test]
fn no_offset_is_read_twice_after_power_loss() {
    let refused = SimDisk::new(1);
    let mut owner = Owner::new(&refused);
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, vec![chunk(0, 2, 0, 100), chunk(2, 3, 1, 100)], false).unwrap();
    let disk = SimDisk::new(1);
    drop(self::owner(&disk, SMALL, false));
    disk.put(&segment(0), &refused.files()[&segment(0)]);
    lose(&disk, 2);

    let gap = format!("stream file {} or a part of it is missing: offsets 2 to 3", segment(0));
    let other = rebooted(&disk);
    assert_eq!(Streams::new(other.clone()).unwrap().check()[0].error.to_string(), gap);
    let (kept, _) = Owner::new(&other).open(7, SMALL, 0).unwrap();
    let chunks = read_all(&mut StreamReader::new(other), 7, &kept);
    assert_eq!(chunks.iter().map(|chunk| chunk.first).collect::<Vec<_>>(), [0, 4]);
    // Without a loss of power the segment is missing.
    assert_eq!(told(&disk), (vec![(true, gap.clone())], Some(gap)));
}

/// The restart of [`a_refused_append_leaves_nothing_that_counts_as_damage`].
#[derive(Clone, Copy, Debug)]
enum Restart {
    Never,
    /// Before the next append, while the disk refuses to cut files.
    Refused,
    /// After the next append.
    Later(Crash),
    /// After three appends that were not synced.
    Unsynced,
}

/// The disk refuses an append halfway, and perhaps to cut it off. Then segments are added, synced and removed by retention, and power
/// loss brings some of them back, the one with the rest of the append among them. No entry is missing that retention has not removed.
#[test]
fn a_refused_append_leaves_nothing_that_counts_as_damage() {
    let limits = StreamLimits { segment_bytes: 400, ..LIMITS };
    let restarts = [
        Restart::Never,
        Restart::Refused,
        Restart::Later(Crash::Process),
        Restart::Later(Crash::Power),
        Restart::Unsynced,
    ];
    for (seed, restart) in (0..300).flat_map(|seed| restarts.map(|restart| (seed, restart))) {
        for refused in [&[Op::Write][..], &[Op::Write, Op::Truncate]] {
            let mut disk = SimDisk::new(seed);
            let mut owner = Owner::new(&disk);
            owner.open(7, limits, 0).unwrap();
            owner.append(7, vec![chunk(0, 1, 0, 100)], true).unwrap();
            disk.fail(refused, 1000, libc::EIO);
            owner.append(7, vec![chunk(1, 1, 1, 150)], true).unwrap_err();
            disk.heal();
            if let Restart::Refused = restart {
                drop(owner);
                disk = disk.crash(Crash::Process);
                disk.fail(&[Op::Truncate], 1000, libc::EIO);
                owner = Owner::new(&disk);
                owner.open_with(7, limits, true, 0).unwrap();
                disk.heal();
            }
            let append = |owner: &mut Owner, sync| {
                let next = owner.retained(7).next;
                owner.append(7, vec![chunk(next, 1, 2, 350)], sync).unwrap();
            };
            let (appends, sync, crash) = match restart {
                Restart::Never | Restart::Refused => (1, true, None),
                Restart::Later(crash) => (1, true, Some(crash)),
                Restart::Unsynced => (3, false, Some(Crash::Process)),
            };
            (0..appends).for_each(|_| append(&mut owner, sync));
            if let Some(crash) = crash {
                drop(owner);
                disk = disk.crash(crash);
                owner = Owner::new(&disk);
                owner.open_with(7, limits, true, 0).unwrap();
            }
            (0..2).for_each(|_| append(&mut owner, true));
            owner.limit(7, StreamLimits { bytes_max: Some(1), ..limits }, 0).unwrap();
            drop(owner);
            let disk = disk.crash(Crash::Power);
            let (at_start, at_open) = told(&disk);
            let closes = at_start.iter().any(|(closes, _)| *closes) || at_open.is_some();
            assert!(!closes, "{seed}, {restart:?}, {refused:?}: {at_start:?}, {at_open:?}");
        }
    }
}
