//! Streams: what is appended and kept, to be read again and again from any offset.
//!
//! ```text
//!  owner          fills chunks: entries that follow each other, numbered from 0 on without a gap
//!  Streams        appends them to the stream's own segment files; answers when they are written, or synced
//!  StreamReader   reads whole chunks from any offset or time on, whether or not somebody appends
//!  Streams        removes whole segments from the front, when there is more, or it is older, than allowed
//! ```
//!
//! They do not go through the log: what would be written twice there is written once here, and a segment is read where
//! it was written. A stream needs no word in the log either: its files say all there is, and its note what there was.
//!
//! What is promised of an answered append:
//!
//! * without `sync`: the chunks were handed to the operating system and survive the process;
//! * with `sync`: they, and everything in front of them that no earlier sync refused, survive power loss;
//! * `Err`: the chunks that come back are in no file that a reader is shown, and are to be handed over again. The next
//!   process may find them all the same, but never once others have been confirmed at their offsets.
//!
//! A file that failed a write or a sync is never written again: it is cut as far as the disk lets us, and a new segment
//! begins. **A segment's chunks end where the next segment begins**, so that whatever stands behind is nobody's.
//!
//! **With `sync`, a segment begins when everything in front of it is synced.** So of a stream whose appends all sync, power
//! loss can harm the last segment only, and an open proves that one: from the last entry of its index on (64 KiB and a
//! chunk, or the whole segment if the index is lost). Of the others, however many, it reads the headers. Of a stream whose
//! appends do not sync, power loss may harm any segment that the system had not written yet; of those in front of the
//! last, a reader says so.
//!
//! **What was there is missed.** A note says how far each stream had come, so that a missing segment is told from one that never
//! was (`stream/notes.rs`).
//!
//! Formats: the chunk is drawn in `stream/chunk.rs`, the files' names and headers in `stream/files.rs`, the index in
//! `stream/index.rs`, the filter in `stream/bloom.rs`. All of them big-endian, for the chunk is that of a protocol.

mod appender;
mod bloom;
mod chunk;
mod files;
mod held;
mod index;
mod jobs;
mod notes;
mod reader;
mod recover;
mod state;
mod streams;
mod sync;
mod threads;
mod window;

use std::io;

pub use appender::OPEN_WRITE_MAX;
pub use bloom::{BLOOM_BYTES_MAX, BLOOM_BYTES_MIN, Bloom, Wanted};
pub use held::{Claim, Held, Reserved};
pub use jobs::{
    AppendFailure, CHUNK_BYTES, CHUNK_ENTRIES_MAX, Chunk, ChunkJob, Chunks, ChunksRead, NewChunk, Position,
    ReadFrom, Retained, StreamAnswer, StreamCut, StreamJob, StreamLimits,
};
pub use reader::{OPEN_READ_MAX, SCAN_BYTES_MAX, SCAN_CHUNKS_MAX, StreamReader};
pub use streams::{StreamFlaw, Streams};
pub use sync::{StreamSyncEnd, StreamSyncJob};
pub use threads::{OnChunksRead, OnStreamAnswers, StreamReaderHandle, StreamsHandle};

/// The version of the files of streams. Those of a newer version are refused.
pub const STREAM_VERSION: u32 = 1;

/// Why a stream, or all of them, could not be opened, appended to or read. Of a failed append see [`AppendFailure`].
#[derive(Debug)]
pub enum StreamError {
    /// Bytes of the stream do not hold, from this byte of this file on. They are kept as they are.
    Damaged { file: String, offset: u64 },
    /// Entries that were confirmed are in no file: this one ends in front of offset `from`, and nothing below `to` stands
    /// in another; or it is not there.
    Missing { file: String, from: u64, to: u64 },
    /// The file was written by a newer program.
    Newer { file: String, version: u32 },
    /// The disk refused; `file` is empty if it was the directory.
    Io { file: String, error: io::Error },
    /// Another process has the streams open.
    Locked,
    /// The stream was not opened, or has been removed.
    NotOpen { stream: u64 },
    /// What was handed over is no chunk, or not the next of the stream: nothing of it was written.
    Invalid { stream: u64, why: &'static str },
}

impl StreamError {
    pub(crate) fn io(file: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |error| Self::Io { file, error }
    }
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { file, offset } => write!(f, "stream file {file} is damaged at byte {offset}"),
            Self::Missing { file, from, to } => {
                write!(
                    f,
                    "stream file {file} or a part of it is missing: offsets {from} to {}",
                    to.saturating_sub(1)
                )
            }
            Self::Newer { file, version } => write!(
                f,
                "stream file {file} has format version {version}; this program knows {STREAM_VERSION}"
            ),
            Self::Io { file, error } if file.is_empty() => write!(f, "their directory: {error}"),
            Self::Io { file, error } => write!(f, "stream file {file}: {error}"),
            Self::Locked => write!(f, "the streams are in use by another process"),
            Self::NotOpen { stream } => write!(f, "stream {stream:016x} is not open"),
            Self::Invalid { stream, why } => write!(f, "stream {stream:016x}: {why}"),
        }
    }
}

impl std::error::Error for StreamError {}
