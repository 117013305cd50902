//! The requests of readers to read chunks, and the results of their calls.

use std::sync::Arc;

use crate::contract::{BloomFilter, Chunk, Effect, Requester};

/// The results of calls. Each call appends; the caller carries the results out and empties the output.
#[derive(Debug, Default)]
pub struct ReadersOutput {
    pub effects: Vec<Effect>,
    /// Chunks to be read and passed to [`super::Readers::handle_loaded`].
    pub loads: Vec<ChunkLoad>,
    /// The offsets from which on the stream was found to be corrupt.
    pub damaged: Vec<u64>,
}

/// A request to read chunks: about as many bytes as two chunks have, without the chunks that the filter does not
/// want.
#[derive(Clone, Debug)]
pub struct ChunkLoad {
    /// The reader that needs the chunks. Each reader has at most one load in flight.
    pub who: Requester,
    pub from: LoadFrom,
    /// The offset before which reading must stop.
    pub until: u64,
    pub segments: Arc<[u64]>,
    pub bloom: Option<Arc<BloomFilter>>,
}

/// Where to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFrom {
    First,
    /// The last chunk.
    Last,
    /// The chunk that contains this offset, or the first chunk after it.
    Offset(u64),
    /// The first chunk written at or after this time, in milliseconds since the epoch.
    Time(u64),
    At(SegmentPosition),
}

/// A position in the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPosition {
    /// The first offset of the segment.
    pub segment: u64,
    /// A byte position in the segment.
    pub at: u64,
    /// The offset of the message at this position.
    pub offset: u64,
}

/// The chunks that were read.
#[derive(Clone, Debug)]
pub struct LoadedChunks {
    pub chunks: Vec<Chunk>,
    /// The place at which reading continues. Its offset comes after all messages that were inspected.
    pub next: SegmentPosition,
}
