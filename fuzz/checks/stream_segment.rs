//! Reads any bytes as the last segment of a stream. Shared by the fuzz target and the test that replays the
//! corpus.

use wal::{ChunkJob, ReadFrom, StreamAnswer, StreamJob, StreamLimits, StreamReader, Streams};
use wal_testing::SimDisk;

const STREAM: u64 = 7;

/// Reads the segment unchanged. Then opens the stream and reads what the open has kept. Everything found must
/// be complete and in order. Whatever the segment claims, a read must not be longer than the segment.
pub fn check(data: &[u8]) {
    let disk = SimDisk::new(0);
    disk.put("0000000000000007-00000000000000000009.segment", data);
    let mut reader = StreamReader::new(disk.clone());
    for from in [ReadFrom::First, ReadFrom::Last, ReadFrom::Offset(11), ReadFrom::Time(3000)] {
        let _ = reader.read(&job(from, [9].into(), u64::MAX));
    }
    assert!(disk.longest_read() <= data.len().max(64));

    let mut streams = Streams::new(disk.clone()).expect("the disk is well");
    let limits = StreamLimits { segment_bytes: 1 << 20, bytes_max: None, age_max_ms: None };
    let mut answers = Vec::new();
    streams
        .handle(StreamJob::Open { shard: 0, stream: STREAM, limits, sync: false, now_ms: 0 }, &mut answers);
    let Some(StreamAnswer::Opened { result: Ok(kept), .. }) = answers.pop() else {
        assert_eq!(disk.files().len(), 1, "damage is left as it is");
        return;
    };
    let mut job = job(ReadFrom::First, kept.segments.clone(), kept.next);
    let (mut next, mut time) = (kept.first, 0);
    loop {
        let read = StreamReader::new(disk.clone())
            .read(&job)
            .expect("a stream that was opened has no damaged chunk");
        for chunk in &read.chunks {
            assert!(chunk.first == next && chunk.timestamp_ms >= time && !chunk.data.is_empty());
            (next, time) = (next + u64::from(chunk.entries), chunk.timestamp_ms);
        }
        if read.end {
            break;
        }
        job.from = ReadFrom::At(read.next);
    }
    assert_eq!(next, kept.next);
}

fn job(from: ReadFrom, segments: std::sync::Arc<[u64]>, until: u64) -> ChunkJob {
    let bytes_max = 1 << 16;
    ChunkJob {
        shard: 0,
        ticket: 0,
        stream: STREAM,
        from,
        segments,
        until,
        bytes_max,
        wanted: None,
        claim: None,
        heads: false,
    }
}
