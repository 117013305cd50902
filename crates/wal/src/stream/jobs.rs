//! What owners of streams ask for, and what they are told.

use std::sync::Arc;

use bytes::Bytes;

use super::held::Claim;
use super::{Bloom, StreamError, Wanted};

/// Bytes of data at which an owner closes a chunk, unless one entry is larger: what a reader has in hand at least.
pub const CHUNK_BYTES: usize = 128 << 10;

/// Entries in a chunk; a chunk of more is refused. As many as the format can count.
pub const CHUNK_ENTRIES_MAX: u16 = u16::MAX;

/// What of a stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes after which a new segment begins. A chunk of more makes a segment of its own that is as large as it.
    pub segment_bytes: u64,
    /// Bytes of all segments beyond which the first is removed; the last one stays.
    pub bytes_max: Option<u64>,
    /// Milliseconds after which a segment is removed, counted from its newest chunk; the last one stays.
    pub age_max_ms: Option<u64>,
}

/// A chunk to be appended.
#[derive(Clone, Debug)]
pub struct NewChunk {
    /// The offset of its first entry: [`Retained::next`], or the end of the chunk in front.
    pub first: u64,
    /// 1..=[`CHUNK_ENTRIES_MAX`].
    pub entries: u16,
    /// Milliseconds since 1970. One that is below that of the chunk in front is raised to it: the time of a stream
    /// never falls.
    pub timestamp_ms: u64,
    /// `None` if no entry has a value.
    pub bloom: Option<Bloom>,
    /// The entries; not empty, at most [`i32::MAX`] bytes.
    pub data: Bytes,
}

/// A chunk that was read, and proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of its first entry.
    pub first: u64,
    pub entries: u16,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// A slice of the buffer that all chunks of the answer share, or of one of its own if it is large.
    pub data: Bytes,
}

/// Work for the thread of [`super::Streams`]. Each `Open`, `Append` and `Limit` is answered exactly once; one `Append`
/// per stream may be away at a time.
#[derive(Debug)]
pub enum StreamJob {
    /// Looks at the stream's files, on first use; deals with an interrupted end. A stream without files is empty and begins
    /// at offset 0: it gets files with its first chunk. With `sync` what is found is synced before the answer; the thread
    /// waits for that, once in the life of a stream. Answered by [`StreamAnswer::Opened`].
    Open { shard: u32, stream: u64, limits: StreamLimits, sync: bool, now_ms: u64 },
    /// Appends chunks that follow each other, at least one. Answered by [`StreamAnswer::Appended`]: when they are
    /// written, or with `sync` when they are synced, which takes a sync for each segment that they go to; a
    /// [`StreamAnswer::Limited`] that comes before has what is synced so far.
    Append { shard: u32, stream: u64, chunks: Vec<NewChunk>, sync: bool },
    /// Other limits, or the same and a look at the ages, which while an append waits for its sync is left to the next.
    /// Answered by [`StreamAnswer::Limited`].
    Limit { shard: u32, stream: u64, limits: StreamLimits, now_ms: u64 },
    /// Removes the stream, open or not, and its files. An append of it that waits for a sync fails; no answer else.
    Remove { stream: u64 },
}

/// The answer to a [`StreamJob`].
#[derive(Debug)]
pub enum StreamAnswer {
    /// `cut` is what had been interrupted.
    Opened {
        shard: u32,
        stream: u64,
        result: Result<Retained, StreamError>,
        cut: Option<StreamCut>,
    },
    Appended {
        shard: u32,
        stream: u64,
        result: Result<Retained, AppendFailure>,
    },
    Limited {
        shard: u32,
        stream: u64,
        result: Result<Retained, StreamError>,
    },
}

impl StreamAnswer {
    /// Who asked.
    pub fn shard(&self) -> u32 {
        match self {
            Self::Opened { shard, .. } | Self::Appended { shard, .. } | Self::Limited { shard, .. } => *shard,
        }
    }

    /// The stream that it is about.
    pub fn stream(&self) -> u64 {
        match self {
            Self::Opened { stream, .. } | Self::Appended { stream, .. } | Self::Limited { stream, .. } => {
                *stream
            }
        }
    }
}

/// Not all chunks of an append were written, or synced.
#[derive(Debug)]
pub struct AppendFailure {
    pub error: StreamError,
    /// Those that were not, in their order, to be handed over again when the owner sees fit. Those in front of them,
    /// if any, were, as if they had been an append of their own.
    pub chunks: Vec<NewChunk>,
    /// What the stream has now; `None` if it is not open.
    pub retained: Option<Box<Retained>>,
}

/// What a stream has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// The first offset that is kept; `next` if nothing is.
    pub first: u64,
    /// The offset of the entry that is appended next.
    pub next: u64,
    /// The first offset of the last chunk.
    pub last_chunk: Option<u64>,
    /// Of all segments; their indexes come on top.
    pub bytes: u64,
    /// Of the first chunk that is kept.
    pub first_timestamp_ms: Option<u64>,
    /// Of the last chunk.
    pub last_timestamp_ms: Option<u64>,
    /// The first offset of each segment, ascending.
    pub segments: Arc<[u64]>,
}

/// An interrupted end that an open has found: from `offset` in `file` to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCut {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    /// It has whole chunks, behind what was lost, and was left where it is; else it was cut off. It is found by each open
    /// until the next segment begins.
    pub left: bool,
}

/// Where to begin to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    First,
    /// The last chunk.
    Last,
    /// The chunk with this entry, of which those below are to be skipped; the first chunk, if the entry is gone.
    Offset(u64),
    /// The first chunk that is not older: milliseconds since 1970.
    Time(u64),
    /// Where a read before has ended.
    At(Position),
}

/// Where a read has ended, and the next goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first offset of the segment.
    pub segment: u64,
    /// The byte in its file.
    pub at: u64,
    /// Of the first entry of the chunk there.
    pub offset: u64,
}

/// Chunks to be read: answered exactly once.
#[derive(Clone, Debug)]
pub struct ChunkJob {
    pub shard: u32,
    /// The shard's number for it.
    pub ticket: u64,
    pub stream: u64,
    pub from: ReadFrom,
    /// [`Retained::segments`], as new as `until`.
    pub segments: Arc<[u64]>,
    /// Chunks that do not begin below are not read: [`Retained::next`] of an answer, so that nothing is read that is not
    /// confirmed.
    pub until: u64,
    /// Bytes of chunks to read, about: whole chunks, and at least one.
    pub bytes_max: u32,
    /// Chunks that may hold none of these are left out.
    pub wanted: Option<Arc<Wanted>>,
    /// Whose memory the chunks take, if that is counted.
    pub claim: Option<Claim>,
}

/// The answer to a [`ChunkJob`].
#[derive(Debug)]
pub struct ChunksRead {
    pub shard: u32,
    pub ticket: u64,
    pub result: Result<Chunks, StreamError>,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Chunks {
    /// May be empty though there is more: then none was wanted as far as this read has looked.
    pub chunks: Vec<Chunk>,
    pub next: Position,
    /// Nothing more stands below `until`.
    pub end: bool,
    /// Bytes that the next chunk takes, if there was no room for it. It is to be asked for again, with so many reserved.
    pub needs: Option<u64>,
}
