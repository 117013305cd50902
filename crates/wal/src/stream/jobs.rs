//! The requests of owners of streams, and the answers.

use std::sync::Arc;

use bytes::Bytes;

use super::buffer_budget::Claim;
use super::{Bloom, StreamError, Wanted};

/// An owner closes a chunk when its data would exceed this many bytes. Only a chunk with a single entry may be
/// larger. A reader can hold at least this many bytes in memory.
pub const CHUNK_BYTES: usize = 128 << 10;

/// The maximum number of entries in a chunk. The format has 16 bits for this number. A chunk with more entries
/// is refused.
pub const CHUNK_ENTRIES_MAX: u16 = u16::MAX;

/// The limits of what a stream retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The bytes after which a new segment begins. A larger chunk gets a segment of its own.
    pub segment_bytes: u64,
    /// If all segments together exceed this many bytes, the first is removed. The last one always stays.
    pub bytes_max: Option<u64>,
    /// The age in milliseconds after which a segment is removed, counted from its newest chunk. The last one
    /// always stays.
    pub age_max_ms: Option<u64>,
}

/// A chunk to append.
#[derive(Clone, Debug)]
pub struct NewChunk {
    /// The offset of its first entry: [`Retained::next`], or the end of the chunk before.
    pub first: u64,
    /// The number of entries, from 1 to [`CHUNK_ENTRIES_MAX`].
    pub entries: u16,
    /// The time of the chunk, in milliseconds since 1970. The timestamps of a stream never decrease: if this one is
    /// lower than that of the previous chunk, the chunk gets the timestamp of the previous one.
    pub timestamp_ms: u64,
    /// The Bloom filter with the filter values of all entries. `None` if no entry has a filter value.
    pub bloom: Option<Bloom>,
    /// The encoded entries: at least one byte, at most [`i32::MAX`] bytes.
    pub data: Bytes,
}

/// A chunk that was read and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of its first entry.
    pub first: u64,
    pub entries: u16,
    /// The time of the chunk, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// The encoded entries. All chunks of an answer share one buffer, except for a large chunk, which has its own.
    pub data: Bytes,
}

/// A request to the thread of [`super::Streams`]. Each `Open`, `Append` and `Limit` is answered exactly once.
/// Only one `Append` per stream may be in flight at a time.
#[derive(Debug)]
pub enum StreamJob {
    /// Opens the stream. The first time, its files are inspected, and an interrupted end is handled. A stream
    /// without files is empty and begins at offset 0. With `sync`, everything that was found is synced before
    /// the answer. The thread waits for this sync, once per stream. Answered by [`StreamAnswer::Opened`].
    Open { shard: u32, stream: u64, limits: StreamLimits, sync: bool, now_ms: u64 },
    /// Appends consecutive chunks, at least one. Answered by [`StreamAnswer::Appended`] when the chunks are written
    /// or, with `sync`, when they are synced. If the chunks go to several segments, each segment is synced
    /// separately. A [`StreamAnswer::Limited`] that is sent before the answer already includes the chunks that are
    /// synced by then.
    Append { shard: u32, stream: u64, chunks: Vec<NewChunk>, sync: bool },
    /// Sets the limits, and removes segments that exceed them. While an append waits for its sync, no segment is
    /// removed; a later request does that. Answered by [`StreamAnswer::Limited`].
    Limit { shard: u32, stream: u64, limits: StreamLimits, now_ms: u64 },
    /// Removes the stream, open or not, and its files. There is no answer to this request. An append that waits
    /// for a sync is answered with a failure.
    Remove { stream: u64 },
}

/// The answer to a [`StreamJob`].
#[derive(Debug)]
pub enum StreamAnswer {
    /// `cut` is the interrupted end that was found. If the stream is damaged, it is not opened, and `readable` is what it holds
    /// before the damage. That can be read.
    Opened {
        shard: u32,
        stream: u64,
        result: Result<Retained, StreamError>,
        cut: Option<StreamCut>,
        readable: Option<Retained>,
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
    /// The shard that sent the request.
    pub fn shard(&self) -> u32 {
        match self {
            Self::Opened { shard, .. } | Self::Appended { shard, .. } | Self::Limited { shard, .. } => *shard,
        }
    }

    /// The stream of the request.
    pub fn stream(&self) -> u64 {
        match self {
            Self::Opened { stream, .. } | Self::Appended { stream, .. } | Self::Limited { stream, .. } => {
                *stream
            }
        }
    }
}

/// Some chunks of an append were not written, or not synced.
#[derive(Debug)]
pub struct AppendFailure {
    pub error: StreamError,
    /// The chunks that are not confirmed, in their order. The owner may append them again. All earlier chunks of
    /// this append are confirmed.
    pub chunks: Vec<NewChunk>,
    /// What the stream holds now. `None` if the stream is not open.
    pub retained: Option<Box<Retained>>,
}

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// The offset of the first retained entry. Equals `next` if the stream is empty.
    pub first: u64,
    /// The offset of the next appended entry.
    pub next: u64,
    /// The first offset of the last chunk.
    pub last_chunk: Option<u64>,
    /// The bytes of all segments, without their indexes.
    pub bytes: u64,
    /// The timestamp of the first retained chunk.
    pub first_timestamp_ms: Option<u64>,
    /// The timestamp of the last chunk.
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
    /// False if the interrupted end was cut off. True if it was left in the file, because intact chunks follow the
    /// lost part. Each open reports such an end again, until the next segment begins.
    pub left: bool,
}

/// The place where a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    First,
    /// The last chunk.
    Last,
    /// The chunk with this entry, or the first chunk if the entry is no longer retained. The caller skips the
    /// entries of the chunk that come before it.
    Offset(u64),
    /// The first chunk whose timestamp is not before this; milliseconds since 1970.
    Time(u64),
    /// The place where an earlier read ended.
    At(Position),
}

/// The place where a read ended and the next one continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first offset of the segment.
    pub segment: u64,
    /// The position in the segment's file, in bytes.
    pub at: u64,
    /// The offset of the first entry of the chunk there.
    pub offset: u64,
}

/// A request for chunks. Answered exactly once.
#[derive(Clone, Debug)]
pub struct ChunkJob {
    pub shard: u32,
    /// The number that the shard gave this request.
    pub ticket: u64,
    pub stream: u64,
    pub from: ReadFrom,
    /// [`Retained::segments`], from the same answer as `until`.
    pub segments: Arc<[u64]>,
    /// Chunks that begin at or after this offset are not read. The caller takes it from [`Retained::next`] of an
    /// answer. So only confirmed chunks are read.
    pub until: u64,
    /// The approximate number of bytes to read: whole chunks, and at least one.
    pub bytes_max: u32,
    /// Chunks that cannot hold any of these values are skipped.
    pub wanted: Option<Wanted>,
    /// The memory budget that the chunks take their bytes from, if there is one.
    pub claim: Option<Claim>,
    /// True if no chunk is wanted. The job only checks that the heads of the chunks follow each other, and that the files have
    /// the bytes of each chunk. Then `bytes_max` means nothing.
    pub heads: bool,
}

/// The answer to a [`ChunkJob`].
#[derive(Debug)]
pub struct ChunksRead {
    pub shard: u32,
    pub ticket: u64,
    pub result: Result<Chunks, StreamError>,
}

/// The chunks that were read.
#[derive(Clone, Debug)]
pub struct Chunks {
    /// The chunks. An empty list does not mean that the stream has no more chunks: this read may have found none
    /// that is wanted. See `end`.
    pub chunks: Vec<Chunk>,
    pub next: Position,
    /// True if there are no more chunks before `until`.
    pub end: bool,
    /// The size in bytes of the next chunk, if the memory budget had no room for it. The caller must reserve this
    /// many bytes and ask again.
    pub needs: Option<u64>,
}
