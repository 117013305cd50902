//! Streams: logs of messages that many consumers read, each from its own position and as often as it wants.
//!
//! There are two machines, because a stream is written in one place and read in many:
//!
//! ```text
//!   Publish ──► Stream (one, at home) ──poll_work──► Work::Append ──► (written) ──► handle_appended ──► Receipt
//!                 ▲ │
//!          Follow │ │ StreamUpdate: what is retained, and the newest chunks
//!                 │ ▼
//!   Attach ──► Readers (one wherever there are consumers) ──► Delivery
//!   Grant         └──loads──► (read) ──► handle_loaded
//! ```
//!
//! A message that is not written does not exist: its publisher gets no receipt, and no consumer sees it. Messages
//! are numbered by offsets. Offsets start at 0, have no gaps, and are never reused.

mod chunk;
mod home;
mod load;
mod reader;
mod readers;
mod tail;
#[cfg(test)]
mod tests;

pub use chunk::{CHUNK_BYTES, CHUNK_ENTRIES_MAX};
pub use home::{OpenFailure, Stream, StreamOutput, Work};
pub use load::{ChunkLoad, LoadFrom, LoadedChunks, ReadersOutput, SegmentPosition};
pub use reader::SCAN_MAX;
pub use readers::{Readers, Standing};
