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
mod load;
mod reader;
mod readers;
mod tail;
#[cfg(test)]
mod tests;

pub use chunk::{CHUNK_BYTES, CHUNK_ENTRIES_MAX};
pub use home::{OpenFailure, Stream, StreamOutput, Work};
pub use load::{ChunkLoad, LoadFrom, LoadedChunks, Place, ReadersOutput};
pub use reader::SCAN_MAX;
pub use readers::{Readers, Standing};
