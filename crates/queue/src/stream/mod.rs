//! Streams: a log of messages that many consumers read, each from its own place, again and again.
//!
//! Two machines, for a stream is written in one place and read in many:
//!
//! ```text
//!   Publish ──► Stream (one, at home) ──poll_work──► Work::Append ──► (written) ──► handle_appended ──► Receipt
//!                 ▲ │
//!          Follow │ │ News: what is kept, and the chunks that were written just now
//!                 │ ▼
//!   Attach ──► Readers (one wherever there are consumers) ──► Delivery
//!   Grant         └──loads──► (read) ──► handle_loaded
//! ```
//!
//! What is not written does not exist: neither has its publisher a receipt, nor is it shown to anybody. Messages are
//! numbered by offsets, which begin at 0, leave no gaps and are never used again.

mod chunk;
mod home;
mod reader;
mod readers;
mod start;
mod tail;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use chunk::{CHUNK_BYTES, CHUNK_ENTRIES_MAX, Chunk, FilterValues};
pub use home::{OpenFailure, Stream, StreamOutput, Work};
pub use reader::SCAN_MAX;
pub use readers::{ChunkLoad, LoadFrom, LoadedChunks, Place, Readers, ReadersOutput, Standing};
pub use start::{BloomFilter, Replay, Start};

use crate::GoneReason;

/// Where consumers of a stream are. Chosen by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Follower(pub u32);

/// What is kept of a stream, and may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The oldest offset.
    pub first: u64,
    /// The offset of the next message to come.
    pub next: u64,
    /// On the disk.
    pub bytes: u64,
    /// Where the first and the last chunk were written in time, in milliseconds since the epoch.
    pub times_ms: Option<(u64, u64)>,
    /// The first offset of each segment, ascending.
    pub segments: Arc<[u64]>,
}

impl Kept {
    /// Messages that are kept.
    pub fn messages(&self) -> u64 {
        self.next - self.first.min(self.next)
    }
}

/// What a follower must know of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub kept: Kept,
    /// What was written since the last news, in order.
    pub chunks: Vec<Chunk>,
    /// There is nothing more to come, for this reason.
    pub end: Option<GoneReason>,
}
