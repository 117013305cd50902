//! What a stream confirms reads back from any place, and what it removes is gone. One case per test.

use crate::chunks::{LIMITS, Owner, chunk, data, job, open, read, read_all, reopen};
use bytes::Bytes;
use wal::{
    Bloom, ChunkJob, NewChunk, ReadFrom, StreamAnswer, StreamError, StreamJob, StreamLimits, StreamReader,
    Streams, Wanted,
};
use wal_testing::{Crash, Op, SimDisk};

const SMALL: StreamLimits = StreamLimits { segment_bytes: 900, ..LIMITS };

fn streams() -> (SimDisk, Owner) {
    let disk = SimDisk::new(0);
    let owner = Owner::new(&disk);
    (disk, owner)
}

#[test]
fn a_new_stream_is_empty_and_has_no_files() {
    let (disk, mut owner) = streams();
    let kept = owner.open(7, LIMITS, 0).unwrap().0;
    assert_eq!((kept.first, kept.next, kept.last_chunk, kept.segments.len()), (0, 0, None, 0));
    assert!(disk.files().is_empty());
    for from in [ReadFrom::First, ReadFrom::Last, ReadFrom::Offset(3), ReadFrom::Time(3)] {
        let found = StreamReader::new(disk.clone()).read(&job(7, from, &kept)).unwrap();
        assert!(found.end && found.chunks.is_empty(), "{from:?}");
    }
}

#[test]
fn chunks_read_back_from_any_place() {
    let (disk, mut owner) = streams();
    owner.open(7, SMALL, 0).unwrap();
    let mut first = 0;
    for n in 0..20 {
        let entries = 1 + n % 4;
        owner.append(7, vec![chunk(first, entries as u16, 100 * n, 150)], n % 3 == 0).unwrap();
        first += entries;
    }
    let kept = owner.retained(7);
    assert_eq!((kept.first, kept.next), (0, 50));
    assert_eq!(kept.segments.len(), 5, "four chunks of 198 bytes each: {:?}", kept.segments);
    assert_eq!(kept.bytes, 5 * 8 + 20 * 198);
    assert_eq!((kept.first_timestamp_ms, kept.last_timestamp_ms), (Some(0), Some(1900)));
    let mut reader = StreamReader::new(disk);
    let all = read_all(&mut reader, 7, &kept);
    assert_eq!(all.len(), 20);
    for offset in 0..50 {
        let found = reader.read(&job(7, ReadFrom::Offset(offset), &kept)).unwrap();
        let wanted = all.iter().rposition(|chunk| chunk.first <= offset).unwrap();
        assert_eq!(found.chunks, all[wanted..], "from offset {offset}");
        assert!(found.end && found.next.offset == 50);
    }
    for time in 0..1902 {
        let found = reader.read(&job(7, ReadFrom::Time(time), &kept)).unwrap();
        let wanted = all.iter().position(|chunk| chunk.timestamp_ms >= time).unwrap_or(20);
        assert_eq!(found.chunks, all[wanted..], "from time {time}");
        assert_eq!((found.end, found.next.offset), (true, 50));
    }
    assert_eq!(reader.read(&job(7, ReadFrom::Last, &kept)).unwrap().chunks, all[19..]);
    for offset in [50, 51, u64::MAX] {
        let found = reader.read(&job(7, ReadFrom::Offset(offset), &kept)).unwrap();
        assert_eq!((found.end, found.next.offset, found.chunks.len()), (true, offset, 0));
    }
    // Unconfirmed chunks are not read.
    let until = ChunkJob { until: all[11].first, ..job(7, ReadFrom::First, &kept) };
    assert_eq!(reader.read(&until).unwrap().chunks, all[..11]);
    let last = ChunkJob { from: ReadFrom::Last, ..until };
    assert_eq!(reader.read(&last).unwrap().chunks, all[10..11]);
}

#[test]
fn a_read_takes_whole_chunks_and_at_least_one() {
    let (disk, mut owner) = streams();
    owner.open(7, LIMITS, 0).unwrap();
    let chunks = (0..30).map(|n| chunk(n, 1, 0, if n == 7 { 300_000 } else { 1000 })).collect();
    owner.append(7, chunks, false).unwrap();
    let kept = owner.retained(7);
    let mut reader = StreamReader::new(disk.clone());
    let mut job = ChunkJob { bytes_max: 5000, ..job(7, ReadFrom::First, &kept) };
    let (mut counts, mut next) = (Vec::new(), 0);
    loop {
        let found = reader.read(&job).unwrap();
        for chunk in &found.chunks {
            assert_eq!((chunk.first, &chunk.data), (next, &data(next, chunk.data.len())));
            next += 1;
        }
        counts.push(found.chunks.len());
        if found.end {
            break;
        }
        job.from = ReadFrom::At(found.next);
    }
    assert_eq!(counts, [4, 3, 1, 4, 4, 4, 4, 4, 2]);
    // One buffer for all chunks.
    let reads = disk.count(Op::Read);
    let all = ChunkJob { bytes_max: 1 << 20, ..crate::chunks::job(7, ReadFrom::First, &kept) };
    assert_eq!(reader.read(&all).unwrap().chunks.len(), 30);
    assert_eq!(disk.count(Op::Read), reads + 1);
}

#[test]
fn unwanted_chunks_are_skipped() {
    let (disk, mut owner) = streams();
    owner.open(7, LIMITS, 0).unwrap();
    let with = |n: u64, values: &[&str], none: bool, bytes| {
        let mut bloom = Bloom::new(16);
        values.iter().for_each(|value| bloom.insert(value.as_bytes()));
        if none {
            bloom.insert_none();
        }
        NewChunk { bloom: Some(bloom), ..chunk(n, 1, 0, bytes) }
    };
    let bytes = 100_000;
    let chunks = vec![
        with(0, &["emea"], false, bytes),
        with(1, &["apac", "emea"], true, bytes),
        chunk(2, 1, 0, bytes),
        with(3, &["amer"], true, bytes),
        with(4, &["apac"], false, bytes),
    ];
    owner.append(7, chunks, false).unwrap();
    let kept = owner.retained(7);
    let mut reader = StreamReader::new(disk.clone());
    let mut firsts = |values: &[&str], none| {
        let values = values.iter().map(|value| value.as_bytes().into()).collect();
        let wanted = Some(Wanted { values, none });
        let found = reader.read(&ChunkJob { wanted, ..job(7, ReadFrom::First, &kept) }).unwrap();
        assert!(found.end);
        found.chunks.iter().map(|chunk| chunk.first).collect::<Vec<u64>>()
    };
    assert_eq!(firsts(&["emea"], false), [0, 1]);
    assert_eq!(firsts(&["apac", "amer"], false), [1, 3, 4]);
    assert_eq!(firsts(&[], true), [1, 2, 3]);
    assert_eq!(firsts(&["nobody"], true), [1, 2, 3]);
    assert!(firsts(&["nobody"], false).is_empty());
}

/// A job that wants little does not hold the thread for long.
#[test]
fn a_read_inspects_a_bounded_number_of_unwanted_chunks() {
    let (disk, mut owner) = streams();
    owner.open(7, StreamLimits { segment_bytes: 100_000, ..LIMITS }, 0).unwrap();
    owner.append(7, (0..10_000).map(|n| chunk(n, 1, 0, 10)).collect(), false).unwrap();
    let kept = owner.retained(7);
    let wanted = Some(Wanted { values: [b"x"[..].into()].into(), none: false });
    let mut job = ChunkJob { wanted, ..job(7, ReadFrom::First, &kept) };
    let mut reader = StreamReader::new(disk);
    let mut stops = Vec::new();
    loop {
        let found = reader.read(&job).unwrap();
        assert!(found.chunks.is_empty());
        stops.push(found.next.offset);
        if found.end {
            break;
        }
        job.from = ReadFrom::At(found.next);
    }
    assert_eq!(stops, [4096, 8192, 10_000]);
}

#[test]
fn segments_are_removed_from_the_front() {
    let (disk, mut owner) = streams();
    let limits = StreamLimits { bytes_max: Some(3000), ..SMALL };
    owner.open(7, limits, 0).unwrap();
    for n in 0..40 {
        owner.append(7, vec![chunk(n, 1, 10 * n, 150)], n % 2 == 0).unwrap();
        let kept = owner.retained(7);
        assert!(kept.bytes <= 3000 + 900, "limits apply when the next segment begins");
        assert_eq!(disk.files().keys().filter(|name| name.ends_with("segment")).count(), kept.segments.len());
    }
    let kept = owner.retained(7);
    assert_eq!((&*kept.segments, kept.first, kept.next), (&[24, 28, 32, 36][..], 24, 40));
    assert_eq!((kept.bytes, kept.first_timestamp_ms), (4 * 800, Some(240)));
    // A reader of removed segments continues at the first existing one.
    let mut reader = StreamReader::new(disk.clone());
    let old = ChunkJob { segments: (0..10).map(|n| 4 * n).collect(), ..job(7, ReadFrom::Offset(3), &kept) };
    let found = reader.read(&old).unwrap();
    assert_eq!((found.chunks[0].first, found.chunks.len()), (24, 16));
    // Next, segments are removed by age: the newest chunk of a segment counts, and the last segment stays.
    let aged = StreamLimits { age_max_ms: Some(100), ..SMALL };
    for (now, firsts) in [(410, &[28, 32, 36][..]), (411, &[32, 36]), (450, &[32, 36]), (1000, &[36])] {
        let kept = owner.limit(7, aged, now).unwrap();
        assert_eq!(&*kept.segments, firsts, "at {now}");
    }
    let again = crate::chunks::reopen(owner, &disk, 7, aged, 1000);
    assert_eq!((again.first, again.next, again.first_timestamp_ms), (36, 40, Some(360)));
    assert_eq!(disk.files().len(), 3, "a segment, its index, the version");
}

/// The ages of segments from an earlier process are read from the files.
#[test]
fn ages_are_known_after_a_restart() {
    let (disk, mut owner) = streams();
    owner.open(7, SMALL, 0).unwrap();
    for n in 0..12 {
        owner.append(7, vec![chunk(n, 1, 10 * n, 150)], false).unwrap();
    }
    let aged = StreamLimits { age_max_ms: Some(100), ..SMALL };
    for (now, firsts) in [(130, &[0, 4, 8][..]), (131, &[4, 8]), (170, &[4, 8]), (171, &[8])] {
        let kept = crate::chunks::reopen(owner, &disk, 7, aged, now);
        assert_eq!(&*kept.segments, firsts, "at {now}");
        owner = Owner::new(&SimDisk::new(0));
    }
}

#[test]
fn unknown_and_removed_streams_leave_nothing() {
    let (disk, mut owner) = streams();
    for stream in [1, 2, 3] {
        owner.open(stream, SMALL, 0).unwrap();
        owner.append(stream, (0..8).map(|n| chunk(n, 1, 0, 300)).collect(), false).unwrap();
    }
    owner.streams.handle(StreamJob::Remove { stream: 2 }, &mut Vec::new());
    assert!(!disk.files().keys().any(|name| name.starts_with("0000000000000002")));
    assert!(matches!(
        owner.append(2, vec![chunk(8, 1, 0, 9)], false).unwrap_err().error,
        StreamError::NotOpen { stream: 2 }
    ));
    drop(owner);
    // The test leaves files as an interrupted removal does.
    disk.put("0000000000000003-00000000000000000099.index", b"index");
    disk.put("0000000000000003-00000000000000000099.new", b"");
    let mut streams = Streams::new(disk.clone()).unwrap();
    assert!(streams.owners().eq([1, 3]));
    streams.keep(|stream| stream == 3);
    assert!(streams.owners().eq([3]));
    assert!(
        disk.files()
            .keys()
            .all(|name| name.starts_with("0000000000000003") || name == "lock" || name == "streams.version")
    );
    // The version, four segments, and the indexes of all but the last.
    assert_eq!(disk.files().len(), 1 + 4 + 3);
}

#[test]
fn listing_many_streams_touches_none() {
    let (disk, mut owner) = streams();
    for stream in 0..1000 {
        owner.open(stream, LIMITS, 0).unwrap();
        owner.append(stream, vec![chunk(0, 1, 0, 10)], false).unwrap();
    }
    drop(owner);
    let (opened, read) = (disk.count(Op::Open), disk.count(Op::Read));
    let lists = disk.count(Op::List);
    let mut streams = Streams::new(disk.clone()).unwrap();
    streams.keep(|_| true);
    assert_eq!(streams.owners().count(), 1000);
    assert_eq!((disk.count(Op::Open), disk.count(Op::Read)), (opened + 1, read + 1), "the version");
    assert_eq!(disk.count(Op::List), lists + 1);
}

#[test]
fn invalid_chunks_are_refused() {
    let (disk, mut owner) = streams();
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, vec![chunk(0, 5, 100, 10)], false).unwrap();
    let before = disk.changes();
    let bad: Vec<(Vec<NewChunk>, &str)> = vec![
        (vec![], "no chunks"),
        (vec![chunk(4, 1, 0, 9)], "does not follow"),
        (vec![chunk(5, 1, 0, 9), chunk(7, 1, 0, 9)], "does not follow"),
        (vec![chunk(5, 0, 0, 9)], "no entries"),
        (vec![NewChunk { data: Bytes::new(), ..chunk(5, 1, 0, 9) }], "no entries"),
        (vec![chunk(5, 1, u64::MAX, 9)], "time is too large"),
    ];
    for (chunks, why) in bad {
        let count = chunks.len();
        let failure = owner.append(7, chunks, false).unwrap_err();
        assert!(failure.error.to_string().contains(why), "{}", failure.error);
        assert_eq!((failure.chunks.len(), failure.retained.unwrap().next), (count, 5));
    }
    assert_eq!(disk.changes(), before);
    // A timestamp that would decrease is raised.
    let kept =
        owner.append(7, vec![chunk(5, 1, 40, 9), chunk(6, 1, 110, 9), chunk(7, 1, 90, 9)], false).unwrap();
    assert_eq!(kept.last_timestamp_ms, Some(110));
    let times: Vec<u64> =
        read_all(&mut StreamReader::new(disk), 7, &kept).iter().map(|chunk| chunk.timestamp_ms).collect();
    assert_eq!(times, [100, 100, 110, 110]);
}

/// Only one append of a stream may be in flight; it does not delay those of other streams.
#[test]
fn no_stream_waits_for_the_sync_of_another() {
    let (disk, mut owner) = streams();
    [1, 2].iter().for_each(|&stream| drop(owner.open(stream, LIMITS, 0).unwrap()));
    let mut answers = Vec::new();
    let append = |stream, first, sync| StreamJob::Append {
        shard: 0,
        stream,
        chunks: vec![chunk(first, 1, 0, 10)],
        sync,
    };
    let sync = owner.streams.handle(append(1, 0, true), &mut answers).unwrap();
    assert!(answers.is_empty() && disk.count(Op::Sync) == 0);
    assert!(owner.streams.handle(append(2, 0, false), &mut answers).is_none());
    assert!(
        matches!(&answers[..], [StreamAnswer::Appended { stream: 2, result: Ok(kept), .. }] if kept.next == 1)
    );
    // Unsynced chunks are not shown.
    assert_eq!(owner.limit(1, LIMITS, 0).unwrap().next, 0);
    assert!(owner.streams.handle(append(1, 1, true), &mut answers).is_none());
    assert!(matches!(&answers[1], StreamAnswer::Appended { stream: 1, result: Err(_), .. }));
    assert!(owner.streams.end_sync(sync.run(), &mut answers).is_none());
    assert!(
        matches!(&answers[2], StreamAnswer::Appended { stream: 1, result: Ok(kept), .. } if kept.next == 1)
    );
    // The stream is removed while its append is in flight. The append is answered once.
    let sync = owner.streams.handle(append(1, 1, true), &mut answers).unwrap();
    owner.streams.handle(StreamJob::Remove { stream: 1 }, &mut answers);
    assert!(
        matches!(&answers[3], StreamAnswer::Appended { stream: 1, result: Err(failure), .. } if failure.chunks.len() == 1)
    );
    assert!(owner.streams.end_sync(sync.run(), &mut answers).is_none());
    assert_eq!(answers.len(), 4);
}

/// The directory is synced only for new segments.
#[test]
fn names_are_synced_once() {
    let (disk, mut owner) = streams();
    owner.open(7, LIMITS, 0).unwrap();
    for n in 0..5 {
        owner.append(7, vec![chunk(n, 1, 0, 10)], true).unwrap();
    }
    assert_eq!((disk.count(Op::Sync), disk.count(Op::SyncDir)), (5, 1));
    owner.open(8, LIMITS, 0).unwrap();
    owner.append(8, vec![chunk(0, 1, 0, 10)], false).unwrap();
    assert_eq!((disk.count(Op::Sync), disk.count(Op::SyncDir)), (5, 1));
}

/// An append is one write to the segment. The index is written only once for several of its entries.
#[test]
fn an_append_is_one_write() {
    let (disk, mut owner) = streams();
    owner.open(7, StreamLimits { segment_bytes: 10_000_000, ..LIMITS }, 0).unwrap();
    owner.append(7, vec![chunk(0, 1, 0, 10)], false).unwrap();
    let before = disk.changes();
    for n in 0..250u64 {
        owner.append(7, (0..10).map(|m| chunk(1 + 10 * n + m, 1, 0, 1000)).collect(), false).unwrap();
    }
    // The index writes eight entries at a time, and has an entry for each 64 KiB. Its file is created once.
    let writes = (1 + 250 * 10_480 / 65_536) / 8;
    assert_eq!((disk.changes() - before, writes), (250 + 1 + writes, 5));
}

#[test]
fn an_immediate_append_goes_to_the_end_of_a_segment() {
    let (disk, mut owner) = streams();
    let append = |stream, first, bytes, sync| {
        let chunks = vec![chunk(first, 1, 0, bytes)];
        StreamJob::Append { shard: 3, stream, chunks, sync }
    };
    let limits = StreamLimits { segment_bytes: 2000, ..LIMITS };
    owner.open(7, limits, 0).unwrap();
    owner.open(8, StreamLimits { segment_bytes: 1 << 30, ..LIMITS }, 0).unwrap();
    for (stream, first, bytes, sync) in [(7, 0, 500, false), (8, 0, 500, false), (9, 0, 500, false)] {
        let before = disk.changes();
        let back = owner.streams.append_at_once(append(stream, first, bytes, sync)).unwrap_err();
        assert!(
            matches!(back, StreamJob::Append { chunks, .. } if chunks.len() == 1),
            "no segment, or not open"
        );
        assert_eq!(disk.changes(), before);
    }
    owner.append(7, vec![chunk(0, 1, 0, 500)], false).unwrap();
    owner.append(8, vec![chunk(0, 1, 0, 500)], false).unwrap();
    let before = disk.changes();
    for first in 1..3 {
        match owner.streams.append_at_once(append(7, first, 500, false)) {
            Ok(StreamAnswer::Appended { shard: 3, stream: 7, result: Ok(kept) }) => {
                assert_eq!(kept.next, first + 1)
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(disk.changes(), before + 2);
    let large = wal::AT_ONCE_BYTES_MAX as usize;
    for job in [append(7, 3, 500, false), append(7, 3, 100, true), append(8, 1, large, false)] {
        assert!(owner.streams.append_at_once(job).is_err(), "a new segment, a sync, or many bytes");
    }
    assert_eq!(disk.changes(), before + 2);
    // As with any append, a failure is part of the answer. The next append goes to a new segment.
    disk.fail(&[Op::Write], 1000, libc::EIO);
    let answer = owner.streams.append_at_once(append(7, 3, 100, false));
    let Ok(StreamAnswer::Appended { result: Err(failure), .. }) = answer else { panic!("{answer:?}") };
    assert_eq!((failure.chunks.len(), failure.retained.unwrap().next), (1, 3));
    disk.heal();
    assert!(owner.streams.append_at_once(append(7, 3, 100, false)).is_err());
    owner.append(7, vec![chunk(3, 1, 0, 100)], false).unwrap();
    assert_eq!(reopen(owner, &disk, 7, limits, 0).next, 4);
}

#[test]
fn a_failed_sync_rolls_its_append_back() {
    for op in [Op::Sync, Op::SyncDir] {
        let (disk, mut owner) = streams();
        owner.open(7, LIMITS, 0).unwrap();
        owner.append(7, vec![chunk(0, 1, 0, 10)], op == Op::Sync).unwrap();
        disk.fail(&[op], 1000, libc::EIO);
        disk.drop_refused();
        let failure = owner.append(7, vec![chunk(1, 1, 0, 10), chunk(2, 1, 0, 10)], true).unwrap_err();
        assert_eq!(failure.chunks.iter().map(|chunk| chunk.first).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(failure.retained.as_deref(), Some(&owner.retained(7)));
        assert_eq!(owner.retained(7).next, 1);
        disk.heal();
        let kept = owner.append(7, failure.chunks, true).unwrap();
        assert_eq!((&*kept.segments, kept.next), (&[0, 1][..], 3));
        for disk in [disk.clone(), disk.crash(Crash::Power)] {
            assert_eq!(read_all(&mut StreamReader::new(disk), 7, &kept).len(), 3);
        }
    }
}

#[test]
fn chunks_of_an_earlier_process_are_synced_before_they_are_shown() {
    let after_power_loss = |seed: u64, sync: bool| {
        let disk = SimDisk::new(seed);
        let mut owner = Owner::new(&disk);
        owner.open(7, SMALL, 0).unwrap();
        owner.append(7, vec![chunk(0, 1, 0, 500), chunk(1, 1, 0, 500)], false).unwrap();
        let disk = disk.crash(Crash::Process);
        let (kept, _) = Owner::new(&disk).open_with(7, SMALL, sync, 0).unwrap();
        assert_eq!((kept.next, kept.segments.len()), (2, 2));
        Owner::new(&disk.crash(Crash::Power)).open(7, SMALL, 0).map_or(0, |(kept, _)| kept.next)
    };
    assert!((0..100).all(|seed| after_power_loss(seed, true) == 2));
    assert!((0..100).any(|seed| after_power_loss(seed, false) < 2), "else the sync would not be needed");

    // After a failed sync, a later success is not believed.
    let (disk, mut owner) = streams();
    owner.open(7, SMALL, 0).unwrap();
    owner.append(7, vec![chunk(0, 1, 0, 500)], false).unwrap();
    let disk = disk.crash(Crash::Process);
    let mut owner = Owner::new(&disk);
    disk.fail(&[Op::Sync], 1000, libc::EIO);
    for _ in 0..2 {
        assert!(matches!(owner.open_with(7, SMALL, true, 0), Err(StreamError::Io { .. })));
        disk.heal();
    }
    assert_eq!(Owner::new(&disk.crash(Crash::Process)).open_with(7, SMALL, true, 0).unwrap().0.next, 1);
}

#[test]
fn a_segment_that_could_not_be_cut_ends_where_the_next_begins() {
    let (disk, mut owner) = streams();
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, vec![chunk(0, 1, 0, 10)], true).unwrap();
    disk.fail(&[Op::Sync, Op::Truncate], 1000, libc::EIO);
    let mut failure = owner.append(7, vec![chunk(1, 2, 0, 50)], true).unwrap_err();
    disk.heal();
    failure.chunks[0].data = data(77, 60);
    let kept = owner.append(7, failure.chunks, false).unwrap();
    assert_eq!(&*kept.segments, &[0, 1]);
    let kept = crate::chunks::reopen(owner, &disk, 7, LIMITS, 0);
    assert_eq!(kept.next, 3);
    let all = read_all(&mut StreamReader::new(disk.clone()), 7, &kept);
    assert_eq!(all.iter().map(|chunk| chunk.data.len()).collect::<Vec<_>>(), [10, 60]);
    assert_eq!(read(&mut StreamReader::new(disk), &job(7, ReadFrom::Offset(2), &kept))[0].data.len(), 60);
}

/// An open verifies the last segment and trusts the earlier ones, so those must be whole.
#[test]
fn power_loss_tears_no_segment_before_the_last() {
    for (seed, syncs) in (0..100).flat_map(|seed| (0..4).map(move |syncs| (seed, syncs))) {
        let disk = SimDisk::new(seed);
        let mut owner = Owner::new(&disk);
        owner.open(7, SMALL, 0).unwrap();
        // Each chunk fills a segment. Power is lost after `syncs` syncs.
        let chunks = (0..4).map(|n| chunk(n, 1, 0, 500)).collect();
        let append = StreamJob::Append { shard: 3, stream: 7, chunks, sync: true };
        let mut answers = Vec::new();
        let mut under_way = owner.streams.handle(append, &mut answers);
        for _ in 0..syncs {
            under_way = owner.streams.end_sync(under_way.unwrap().run(), &mut answers);
        }
        assert!(under_way.is_some() && answers.is_empty(), "a sync for each segment");
        drop(owner);
        let disk = disk.crash(Crash::Power);
        let (kept, _) = Owner::new(&disk).open(7, SMALL, 0).unwrap();
        assert!(kept.next >= syncs, "{syncs} are synced, {} are there", kept.next);
        let found = read_all(&mut StreamReader::new(disk), 7, &kept);
        assert!(found.iter().map(|chunk| chunk.first).eq(0..kept.next), "{seed}, {syncs}: {kept:?}");
    }
}

/// This holds whether or not the earlier appends asked for a sync.
#[test]
fn a_segment_begins_when_everything_before_it_is_synced() {
    let (disk, mut owner) = streams();
    owner.open(7, SMALL, 0).unwrap();
    owner.append(7, (0..3).map(|n| chunk(n, 1, 0, 500)).collect(), false).unwrap();
    let append = |first| {
        let chunks = (first..first + 2).map(|n| chunk(n, 1, 0, 500)).collect();
        StreamJob::Append { shard: 3, stream: 7, chunks, sync: true }
    };
    let segments = || disk.files().keys().filter(|name| name.ends_with("segment")).count();
    let mut answers = Vec::new();
    let mut under_way = owner.streams.handle(append(3), &mut answers);
    for (written, synced) in [(3, 0), (4, 3), (5, 4)] {
        assert_eq!((segments(), disk.count(Op::Sync)), (written, synced));
        under_way = owner.streams.end_sync(under_way.unwrap().run(), &mut answers);
    }
    assert!(under_way.is_none());
    assert!(
        matches!(&answers[..], [StreamAnswer::Appended { result: Ok(kept), .. }] if kept.next == 5),
        "{answers:?}"
    );
    // The synced part of an append is confirmed, and the rest is returned.
    answers.clear();
    let job = owner.streams.handle(append(5), &mut answers).unwrap();
    let job = owner.streams.end_sync(job.run(), &mut answers).unwrap();
    disk.fail(&[Op::Sync], 1000, libc::EIO);
    assert!(owner.streams.end_sync(job.run(), &mut answers).is_none());
    let [StreamAnswer::Appended { result: Err(failure), .. }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((failure.chunks[0].first, failure.chunks.len()), (6, 1));
    assert_eq!(failure.retained.as_ref().unwrap().next, 6);
}

/// The process may end at any point while an append is rolled back, and the disk may refuse any part of that.
/// What the next process finds of the append follows what was confirmed.
#[test]
fn an_incomplete_rollback_leaves_no_hole() {
    let mut left = 0;
    // `fail_at` is the change that fails in addition to the syncs, `die_at` the one with which the process
    // ends. At 30 everything is done.
    for (seed, fail_at, die_at) in
        (0..4).flat_map(|seed| (0..=30).flat_map(move |n| (0..=30).map(move |m| (seed, n, m))))
    {
        let disk = SimDisk::new(seed);
        let mut owner = Owner::new(&disk);
        owner.open(7, SMALL, 0).unwrap();
        // The first segment has room for one more chunk, or for none.
        let next = 1 + seed % 2;
        owner.append(7, (0..next).map(|n| chunk(n, 1, 0, 300)).collect(), true).unwrap();
        let refused = if die_at == 30 { &[Op::Sync, Op::Remove][..] } else { &[Op::Sync] };
        disk.fail(refused, 1000, libc::ENOSPC);
        disk.fail_nth(fail_at, libc::ENOSPC);
        disk.die_at(die_at);
        let failure = owner.append(7, (next..8).map(|n| chunk(n, 1, 0, 300)).collect(), true).unwrap_err();
        assert_eq!(failure.retained.unwrap().next, next);
        drop(owner);
        let disk = disk.crash(Crash::Process);
        let (kept, _) = Owner::new(&disk).open(7, SMALL, 0).unwrap();
        let found = read_all(&mut StreamReader::new(disk), 7, &kept);
        let firsts: Vec<u64> = found.iter().map(|chunk| chunk.first).collect();
        assert_eq!(firsts, (0..kept.next).collect::<Vec<_>>(), "{seed}, {fail_at}, {die_at}");
        left += u32::from(kept.segments.len() > 1);
    }
    assert!(left > 0, "some of it was left in some of the runs");
}

#[test]
fn a_full_disk_is_reported_and_left_unchanged() {
    let (disk, mut owner) = streams();
    owner.open(7, SMALL, 0).unwrap();
    owner.append(7, vec![chunk(0, 1, 0, 300)], false).unwrap();
    let images = disk.files();
    disk.fail(&[Op::Write, Op::Create], 1000, libc::ENOSPC);
    for _ in 0..5 {
        let failure = owner.append(7, (1..9).map(|n| chunk(n, 1, 0, 300)).collect(), false).unwrap_err();
        assert_eq!(failure.chunks.len(), 8);
        assert!(failure.error.to_string().contains("No space"), "{}", failure.error);
    }
    for (name, image) in images {
        assert_eq!(disk.files()[&name], image, "{name}");
    }
    disk.heal();
    let kept = owner.append(7, (1..9).map(|n| chunk(n, 1, 0, 300)).collect(), false).unwrap();
    assert_eq!((kept.first, kept.next), (0, 9));
    assert_eq!(read_all(&mut StreamReader::new(disk), 7, &kept).len(), 9);
}

/// The chunks before a chunk that cannot be written are written.
#[test]
fn an_append_over_two_segments_may_be_written_in_part() {
    for sync in [false, true] {
        let (disk, mut owner) = streams();
        owner.open(7, SMALL, 0).unwrap();
        owner.append(7, vec![chunk(0, 1, 0, 300)], sync).unwrap();
        disk.fail(&[Op::Create], 1000, libc::ENOSPC);
        let failure = owner.append(7, (1..9).map(|n| chunk(n, 1, 0, 300)).collect(), sync).unwrap_err();
        assert_eq!((failure.chunks[0].first, failure.chunks.len()), (2, 7));
        assert_eq!(failure.retained.unwrap().next, 2);
        disk.heal();
        let kept = owner.append(7, failure.chunks, sync).unwrap();
        assert_eq!(read_all(&mut StreamReader::new(disk.crash(Crash::Process)), 7, &kept).len(), 9);
        if sync {
            assert_eq!(read_all(&mut StreamReader::new(disk.crash(Crash::Power)), 7, &kept).len(), 9);
        }
    }
}

#[test]
fn a_future_time_is_the_end_even_if_a_segment_begins_there() {
    let (disk, mut owner) = streams();
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, vec![chunk(0, 5, 1000, 50)], false).unwrap();
    drop(owner);
    // This is the state after a kill before the first write of the next segment.
    disk.put(&format!("{:016x}-{:020}.segment", 7, 5), b"");
    let mut owner = Owner::new(&disk);
    let (kept, cut) = owner.open(7, LIMITS, 0).unwrap();
    assert_eq!((kept.next, &*kept.segments, cut), (5, &[0, 5][..], None));
    let found = StreamReader::new(disk.clone()).read(&job(7, ReadFrom::Time(2000), &kept)).unwrap();
    assert_eq!((found.chunks.len(), found.next.offset, found.end), (0, 5, true));
    drop(owner);
    // This is the state after a kill before the first write of the first segment.
    disk.put(&format!("{:016x}-{:020}.segment", 8, 0), b"");
    let mut owner = Owner::new(&disk);
    let (kept, _) = owner.open(8, LIMITS, 0).unwrap();
    let found = StreamReader::new(disk.clone()).read(&job(8, ReadFrom::Time(2000), &kept)).unwrap();
    assert_eq!((found.chunks.len(), found.next.offset, found.end), (0, 0, true));
}

#[test]
fn files_are_opened_when_needed_and_closed_again() {
    let (disk, mut owner) = streams();
    for stream in 0..wal::OPEN_WRITE_MAX as u64 + 1 {
        owner.open(stream, LIMITS, 0).unwrap();
        owner.append(stream, vec![chunk(0, 1, 0, 10)], false).unwrap();
    }
    let opened = disk.count(Op::Open);
    owner.append(5, vec![chunk(1, 1, 0, 10)], false).unwrap();
    assert_eq!(disk.count(Op::Open), opened, "it is open");
    owner.append(0, vec![chunk(1, 1, 0, 10)], false).unwrap();
    assert_eq!(disk.count(Op::Open), opened + 1, "it was closed");
    assert!(open(&disk).is_err(), "the directory is locked");
}
