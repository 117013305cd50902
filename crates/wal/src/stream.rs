//! Streams: what is appended is retained and can be read repeatedly, from any offset.
//!
//! ```text
//!  owner          fills chunks: consecutive entries, numbered from 0 without gaps
//!  Streams        appends them to the stream's own segment files; answers when they are written, or synced
//!  StreamReader   reads whole chunks from any offset or time on, in parallel with appends
//!  Streams        removes whole segments from the front that exceed the limits of size or age
//! ```
//!
//! Streams do not go through the log. So each entry is written once, and segments are read where they were
//! written. The log has no records of a stream: the files of the stream say what is there, and its note says
//! what was there before.
//!
//! An answered append guarantees:
//!
//! * without `sync`: the operating system has the chunks; they survive the end of the process;
//! * with `sync`: they, and everything before them whose sync did not fail, survive power loss;
//! * `Err`: the returned chunks are in no file that a reader is shown, and can be handed over again. The next
//!   process may still find them, but never together with other chunks confirmed at their offsets.
//!
//! A file that failed a write or a sync is never written again. It is cut if the disk allows it, and a new
//! segment begins. **A segment's chunks end where the next segment begins**: bytes after that are ignored.
//!
//! **With `sync`, a segment begins only when everything before it is synced.** If all appends of a stream
//! sync, power loss can damage only the last segment. An open verifies that segment, from the last entry of
//! its index on (64 KiB and a chunk, or the whole segment if the index is lost). Of all other segments it
//! reads only the headers. If appends do not sync, power loss may damage every segment that the system had
//! not written yet. Damage in segments before the last is reported by jobs that read only the heads of chunks
//! ([`ChunkJob::heads`]), and by readers.
//!
//! **A damaged stream can be read up to the damage.** An open that fails says what can be read
//! ([`StreamAnswer::Opened`]).
//!
//! **Missing segments are detected.** A note says how far each stream had come. So a missing segment differs
//! from one that never existed (`stream/notes.rs`).
//!
//! Formats: the chunk is drawn in `stream/chunk.rs`, the names and headers of files in `stream/files.rs`, the
//! index in `stream/index.rs`, the filter in `stream/bloom.rs`. All are big-endian, because the chunk is the
//! one of the stream protocol.

mod appender;
mod bloom;
mod buffer_budget;
mod chunk;
mod files;
mod index;
mod jobs;
mod notes;
mod reader;
mod recover;
mod state;
mod streams;
mod sync;
mod threads;
mod verify;
mod window;

use std::io;

pub(crate) use self::files::{directory_version_of, is_segment, is_version_file, segment_version};
pub use appender::OPEN_WRITE_MAX;
pub use bloom::{BLOOM_BYTES_MAX, BLOOM_BYTES_MIN, Bloom, Wanted};
pub use buffer_budget::{BufferBudget, Claim, Reserved};
pub use jobs::{
    AppendFailure, CHUNK_BYTES, CHUNK_ENTRIES_MAX, Chunk, ChunkJob, Chunks, ChunksRead, NewChunk, Position,
    ReadFrom, Retained, StreamAnswer, StreamCut, StreamJob, StreamLimits,
};
pub use reader::{HEADS_MAX, OPEN_READ_MAX, SCAN_BYTES_MAX, SCAN_CHUNKS_MAX, StreamReader};
pub use streams::{StreamFlaw, Streams};
pub use sync::{StreamSyncEnd, StreamSyncJob};
pub use threads::{OnChunksRead, OnStreamAnswers, StreamReaderHandle, StreamsHandle};

/// The version of the files of streams. Newer versions are refused.
pub const STREAM_VERSION: u32 = 1;

/// The reason why a stream, or all of them, could not be opened, appended to or read. For a failed append see
/// [`AppendFailure`].
#[derive(Debug)]
pub enum StreamError {
    /// The file is corrupt from this byte on. It is left unchanged. `from` is the offset of the first entry there, if it is
    /// known.
    Damaged { file: String, offset: u64, from: Option<u64> },
    /// Confirmed entries are in no file. This file ends before offset `from`, or does not exist, and the
    /// entries from there up to `to` are in no other file.
    Missing { file: String, from: u64, to: u64 },
    /// The file was written by a newer program.
    Newer { file: String, version: u32 },
    /// The disk refused; `file` is empty if it was the directory.
    Io { file: String, error: io::Error },
    /// Another process has the streams open.
    Locked,
    /// The stream was not opened, or was removed.
    NotOpen { stream: u64 },
    /// The request holds an invalid chunk, or not the next one of the stream. Nothing was written.
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
            Self::Damaged { file, offset, .. } => write!(f, "stream file {file} is damaged at byte {offset}"),
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
            Self::Io { file, error } if file.is_empty() => write!(f, "the streams' directory: {error}"),
            Self::Io { file, error } => write!(f, "stream file {file}: {error}"),
            Self::Locked => write!(f, "the streams are in use by another process"),
            Self::NotOpen { stream } => write!(f, "stream {stream:016x} is not open"),
            Self::Invalid { stream, why } => write!(f, "stream {stream:016x}: {why}"),
        }
    }
}

impl std::error::Error for StreamError {}
