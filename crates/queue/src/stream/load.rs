//! Chunks that readers ask for, and what readers say.

use std::sync::Arc;

use crate::contract::{Asked, BloomFilter, Chunk, Effect};

/// What a call had to say. Calls append; whoever carries it out empties it.
#[derive(Debug, Default)]
pub struct ReadersOutput {
    pub effects: Vec<Effect>,
    /// Chunks to be read and brought to [`Readers::handle_loaded`].
    pub loads: Vec<ChunkLoad>,
    /// Offsets of messages that do not hold.
    pub damaged: Vec<u64>,
}

/// Chunks that are to be read: about as many bytes as two of them have, those that the filter does not want left out.
#[derive(Clone, Debug)]
pub struct ChunkLoad {
    /// Who reads; at most one load each.
    pub who: Asked,
    pub from: LoadFrom,
    /// Nothing from this offset on may be read.
    pub until: u64,
    pub segments: Arc<[u64]>,
    pub bloom: Option<Arc<BloomFilter>>,
}

/// Where to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFrom {
    First,
    /// The last chunk.
    Last,
    /// The chunk that holds this offset, or the first behind it.
    Offset(u64),
    /// The first chunk of this time or later, in milliseconds since the epoch.
    Time(u64),
    At(Place),
}

/// A place in the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first offset of the segment.
    pub segment: u64,
    /// A byte of it.
    pub at: u64,
    /// The offset of the message there.
    pub offset: u64,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct LoadedChunks {
    pub chunks: Vec<Chunk>,
    /// Where to read on. Its offset is behind everything that was looked at.
    pub next: Place,
}
