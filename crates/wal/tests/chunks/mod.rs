//! Streams and an owner that does one thing at a time.

use std::collections::BTreeMap;

use bytes::Bytes;
use wal::{
    AppendFailure, Chunk, ChunkJob, Disk, NewChunk, ReadFrom, Retained, StreamAnswer, StreamCut, StreamError,
    StreamJob, StreamLimits, StreamReader, Streams,
};
use wal_testing::SimDisk;

pub(crate) const LIMITS: StreamLimits =
    StreamLimits { segment_bytes: 1 << 20, bytes_max: None, age_max_ms: None };

/// Returns bytes that identify their place.
pub(crate) fn data(first: u64, bytes: usize) -> Bytes {
    (0..bytes as u64).map(|at| (first * 31 + at * 7 + (at >> 8)) as u8).collect()
}

pub(crate) fn chunk(first: u64, entries: u16, timestamp_ms: u64, bytes: usize) -> NewChunk {
    NewChunk { first, entries, timestamp_ms, bloom: None, data: data(first, bytes) }
}

pub(crate) fn open(disk: &SimDisk) -> Result<Streams<SimDisk>, StreamError> {
    Streams::new(disk.clone())
}

pub(crate) struct Owner<D: Disk = SimDisk> {
    pub streams: Streams<D>,
    retained: BTreeMap<u64, Retained>,
}

impl Owner {
    pub(crate) fn new(disk: &SimDisk) -> Self {
        Self::with(open(disk).unwrap())
    }
}

impl<D: Disk> Owner<D> {
    pub(crate) fn with(streams: Streams<D>) -> Self {
        Self { streams, retained: BTreeMap::new() }
    }

    /// Returns what was last confirmed.
    pub(crate) fn retained(&self, stream: u64) -> Retained {
        self.retained[&stream].clone()
    }

    pub(crate) fn open(
        &mut self,
        stream: u64,
        limits: StreamLimits,
        now_ms: u64,
    ) -> Result<(Retained, Option<StreamCut>), StreamError> {
        self.open_with(stream, limits, false, now_ms)
    }

    pub(crate) fn open_with(
        &mut self,
        stream: u64,
        limits: StreamLimits,
        sync: bool,
        now_ms: u64,
    ) -> Result<(Retained, Option<StreamCut>), StreamError> {
        match self.answer(StreamJob::Open { shard: 3, stream, limits, sync, now_ms }) {
            StreamAnswer::Opened { shard: 3, stream: of, result, cut, .. } if of == stream => {
                result.map(|retained| (self.keep(stream, retained), cut))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Opens a damaged stream. Returns what can be read of it.
    pub(crate) fn open_damaged(&mut self, stream: u64, limits: StreamLimits) -> Option<Retained> {
        match self.answer(StreamJob::Open { shard: 3, stream, limits, sync: false, now_ms: 0 }) {
            StreamAnswer::Opened { result: Err(_), readable, .. } => readable,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn append(
        &mut self,
        stream: u64,
        chunks: Vec<NewChunk>,
        sync: bool,
    ) -> Result<Retained, Box<AppendFailure>> {
        match self.answer(StreamJob::Append { shard: 3, stream, chunks, sync }) {
            StreamAnswer::Appended { shard: 3, stream: of, result, .. } if of == stream => match result {
                Ok(retained) => Ok(self.keep(stream, retained)),
                Err(failure) => {
                    if let Some(retained) = &failure.retained {
                        self.keep(stream, Retained::clone(retained));
                    }
                    Err(Box::new(failure))
                }
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn limit(
        &mut self,
        stream: u64,
        limits: StreamLimits,
        now_ms: u64,
    ) -> Result<Retained, StreamError> {
        match self.answer(StreamJob::Limit { shard: 3, stream, limits, now_ms }) {
            StreamAnswer::Limited { shard: 3, stream: of, result } if of == stream => {
                result.map(|retained| self.keep(stream, retained))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Does a job and its syncs, and returns its only answer.
    fn answer(&mut self, job: StreamJob) -> StreamAnswer {
        let mut answers = Vec::new();
        let mut sync = self.streams.handle(job, &mut answers);
        while let Some(job) = sync {
            assert!(answers.is_empty(), "it is not synced yet");
            sync = self.streams.end_sync(job.run(), &mut answers);
        }
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    fn keep(&mut self, stream: u64, retained: Retained) -> Retained {
        self.retained.insert(stream, retained.clone());
        retained
    }
}

/// Ends the process and opens the stream in the next one. Checks that nothing was interrupted.
pub(crate) fn reopen(
    owner: Owner,
    disk: &SimDisk,
    stream: u64,
    limits: StreamLimits,
    now_ms: u64,
) -> Retained {
    drop(owner);
    let (retained, cut) = Owner::new(disk).open(stream, limits, now_ms).unwrap();
    assert_eq!(cut, None);
    retained
}

pub(crate) fn job(stream: u64, from: ReadFrom, retained: &Retained) -> ChunkJob {
    let (segments, until) = (retained.segments.clone(), retained.next);
    ChunkJob {
        shard: 0,
        ticket: 0,
        stream,
        from,
        segments,
        until,
        bytes_max: 1 << 20,
        wanted: None,
        claim: None,
        heads: false,
    }
}

/// Reads the heads of all chunks, in as many jobs as necessary. Returns the offset from which on the stream is damaged.
pub(crate) fn read_heads<D: Disk>(
    reader: &mut StreamReader<D>,
    stream: u64,
    retained: &Retained,
) -> Result<(), Option<u64>> {
    let mut job = ChunkJob { heads: true, ..job(stream, ReadFrom::First, retained) };
    loop {
        match reader.read(&job) {
            Ok(read) => {
                assert!(read.chunks.is_empty());
                if read.end {
                    return Ok(());
                }
                assert_ne!(job.from, ReadFrom::At(read.next), "each job goes on");
                job.from = ReadFrom::At(read.next);
            }
            Err(StreamError::Damaged { from, .. }) => return Err(from),
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn read<D: Disk>(reader: &mut StreamReader<D>, job: &ChunkJob) -> Vec<Chunk> {
    reader.read(job).unwrap().chunks
}

/// Reads everything, in as many reads as necessary.
pub(crate) fn read_all<D: Disk>(
    reader: &mut StreamReader<D>,
    stream: u64,
    retained: &Retained,
) -> Vec<Chunk> {
    let mut job = job(stream, ReadFrom::First, retained);
    let mut all = Vec::new();
    loop {
        let found = reader.read(&job).unwrap();
        all.extend(found.chunks);
        if found.end {
            return all;
        }
        job.from = ReadFrom::At(found.next);
    }
}
