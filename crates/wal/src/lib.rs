//! A write-ahead log: append, sync, recover.
//!
//! [`Log`] is a synchronous machine over a [`Disk`]; [`Writer`] is the thread that runs it, unless a shard finds it idle
//! and takes a step itself. The log knows files, batches and records; what a record means is its owner's business.
//!
//! ```text
//!  shards          Handover{records, sync} ──┐
//!  Writer          one round at a time: the list of all hand-overs; a shard that finds it asleep: its own, at once
//!  Log::append     one batch, one vectored write; then one Completion per hand-over: written
//!  Log::begin_sync one sync for all who have asked since the last began, on a thread of its own; writing goes on
//!  Log::end_sync   one more Completion for each of them: synced
//!  Disk            RealDisk: a directory;  testing::FalseDisk: a disk that fails on purpose
//! ```
//!
//! What is promised:
//!
//! * [`Step::Written`], `Ok`: the records were handed to the operating system and survive the process. No sync is
//!   waited for, whoever asks for one.
//! * [`Step::Synced`], `Ok`: they, and everything written before them, were synced and survive power loss.
//! * [`Step::Written`], `Err`: they may or may not be found by the next [`Log::open`] of another process, but never
//!   once anything acknowledged later is found too. The records come back in [`WriteError::records`] to be handed over
//!   again.
//! * [`Step::Synced`], `Err`: they stay written, and in memory until a sync succeeds. It is tried again when somebody
//!   asks again.
//!
//! Space comes back file by file, oldest first, and the owners of the records decide: what is alive in the oldest
//! files they hand over again; once that is written, [`Log::forget`] has the files that stay synced, and removes the
//! others, or keeps them to be written over.
//!
//! On a full disk the log has a reserve to write with what frees space; [`Size::short`] says that it lives on it.
//!
//! Records that are to leave memory, and the log, for longer go to **packs**: immutable files, which [`Packs`] writes
//! and removes and a [`PackReader`] reads block by block. An owner hands over a [`Run`] of its records, gets an
//! [`Extent`] once they are synced, and says in the log that they stand there; what the log does not say is in no pack.
//! [`Packs::release`] gives the space back, pack by pack. Each of the two has a thread to run it (`spawn`).
//!
//! **Streams** stand beside both: what is appended to a stream goes straight to its own segment files, and is read from
//! there; see [`Streams`], [`StreamReader`] and the drawing in `stream.rs`.
//!
//! Formats are drawn where they are written: the file header in `file.rs`, the batch in `batch.rs`, the record
//! in `record.rs`, the block of a pack in `pack/block.rs`, those of streams below `stream/`.

#![deny(unsafe_code)]

mod batch;
mod disk;
mod file;
mod handover;
mod machine;
mod note;
mod pack;
mod record;
mod recover;
mod scan;
mod shared;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod worker;
mod writer;

pub use disk::{Disk, PendingSync, RealDisk};
pub use file::{FILE_SIZE, LOG_VERSION, PACK_VERSION};
pub use handover::{Completion, Handover, Step, WriteError};
pub use machine::{
    AT_ONCE_BYTES_MAX, Log, Options, RESERVE_BYTES, SPARE_FILES_MAX, Size, Span, SyncEnd, SyncJob,
    UNSYNCED_BYTES_MAX,
};
pub use note::Life;
pub use pack::{
    BLOCK_BYTES, Block, BlockRead, Extent, Flaw, OnBlockRead, OnPackRound, PACK_BYTES, PackError, PackJob,
    PackOptions, PackReader, PackReaderHandle, PackRound, Packed, Packs, PacksHandle, ReadError, ReadJob,
    Run, WriteFailure,
};
pub use record::{LARGE, Record, Records};
pub use recover::{CUT_SUFFIX, Cut, Damage, OpenError, Owners, Recovery};
pub use stream::{
    AppendFailure, BLOOM_BYTES_MAX, BLOOM_BYTES_MIN, Bloom, CHUNK_BYTES, CHUNK_ENTRIES_MAX, Chunk, ChunkJob,
    Chunks, ChunksRead, Claim, Held, NewChunk, OPEN_READ_MAX, OPEN_WRITE_MAX, OnChunksRead, OnStreamAnswers,
    Position, ReadFrom, Reserved, Retained, SCAN_BYTES_MAX, SCAN_CHUNKS_MAX, STREAM_VERSION, StreamAnswer,
    StreamCut, StreamError, StreamFlaw, StreamJob, StreamLimits, StreamReader, StreamReaderHandle,
    StreamSyncEnd, StreamSyncJob, Streams, StreamsHandle, Wanted,
};
pub use writer::{OnDone, Writer, WriterHandle};
