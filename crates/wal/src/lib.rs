//! A write-ahead log: append, sync, recover.
//!
//! [`Log`] is a synchronous machine over a [`Disk`]. A [`Writer`] thread runs it. A shard that finds the
//! thread asleep may write one handover itself. The log knows files, batches and records. Only the owner of a
//! record knows what the record means.
//!
//! ```text
//!  shards          Handover{records, sync} ──┐
//!  Writer          one round at a time: all handovers in the list (or one, written by the shard itself)
//!  Log::append     one batch, one vectored write; then one Completion per handover: written
//!  Log::begin_sync one sync for all handovers that asked since the last one began, on its own thread; writing continues
//!  Log::ended_direct  light traffic is written and synced by one request; its end goes to end_sync, too
//!  Log::end_sync   one more Completion for each of them: synced
//!  Disk            RealDisk: a directory;  wal_testing::SimDisk: a disk that fails on purpose
//! ```
//!
//! The log guarantees:
//!
//! * [`Step::Written`], `Ok`: the operating system has the records; they survive the end of the process. This
//!   answer never waits for a sync if the handover is urgent ([`Handover::urgent`]).
//! * [`Step::Synced`], `Ok`: these records, and everything written before them, are synced and survive power
//!   loss.
//! * [`Step::Written`], `Err`: the next [`Log::open`] may or may not find the records. It never finds them
//!   together with anything acknowledged later. [`WriteError::records`] returns them, to be handed over
//!   again.
//! * [`Step::Synced`], `Err`: the records stay written, and stay in memory until a sync succeeds. The log
//!   retries when another sync is asked for.
//!
//! Space is reclaimed file by file, oldest first. The owners evacuate the oldest files: they hand over copies
//! of the records that are still needed. Once the copies are written, the owner calls [`Log::forget`]. The log
//! then syncs the files that stay, and removes the others or keeps them to be overwritten.
//!
//! The log has a reserve of disk space. On a full disk it uses the reserve to write the records that free
//! space; [`Size::on_reserve`] reports this.
//!
//! Records that leave memory and the log for longer go to **packs**. A pack is an immutable file: [`Packs`]
//! writes and removes it, a [`PackReader`] reads it block by block. An owner hands over a [`Run`] of its
//! records, receives an [`Extent`] once they are synced, and writes a record to the log that says which
//! records are in the extent. A pack without such a record is unused. [`Packs::release`] frees extents; a
//! pack is removed with its last one. Each of the two types has a thread (`spawn`).
//!
//! **Streams** use neither the log nor packs. What is appended to a stream goes straight to its own segment
//! files and is read from there; see [`Streams`], [`StreamReader`] and the diagram in `stream.rs`.
//!
//! Records of an owner that nobody knows can be copied aside before their files are deleted; see [`Aside`].
//!
//! A directory has an [`Identity`], which counts the starts. Beside the log there is a copy of what its owner must not lose
//! together with a file of the log; see [`CopyFile`].
//!
//! Each format is drawn in the module that writes it: the file header in `file.rs`, the batch in `batch.rs`,
//! the record in `record.rs`, the block of a pack in `pack/block.rs`, the formats of streams below `stream/`.

#![deny(unsafe_code)]

#[cfg(test)]
extern crate self as wal;

mod aside;
mod batch;
mod checksum;
mod copy;
mod disk;
mod file;
pub mod files;
mod handover;
mod identity;
mod machine;
mod note;
mod pack;
mod preview;
mod record;
mod recover;
mod scan;
mod shared;
mod space;
mod stream;
mod survey;
/// The source of the crate `wal-testing`. Unit tests cannot use the crate itself: it implements the `Disk` of the library, and
/// they need the `Disk` of this build.
#[cfg(test)]
#[allow(dead_code, reason = "unit tests need a part of it")]
#[allow(unreachable_pub, reason = "the crate wal-testing has the same file")]
#[path = "../../wal-testing/src/lib.rs"]
mod testing;
pub mod tighten;
mod worker;
mod writer;

pub use aio::{BLOCK, Blocks, Ended};
pub use aside::{ASIDE_VERSION, Aside, AsideRecords};
pub use copy::{Adopted, COPY_FILE, CopyEnd, CopyFile, CopyHandle, CopyJob, FoundCopy, OnCopied};
pub use disk::{Disk, PendingSync, RealDisk};
pub use file::{FILE_SIZE, LOG_VERSION, PACK_VERSION};
pub use handover::{Completion, Handover, Step, WriteError};
pub use identity::{Identity, IdentityError, Membership};
pub use machine::{
    AT_ONCE_BYTES_MAX, FillEnd, FillJob, Log, Mutation, Options, RESERVE_BYTES, SPARE_FILES_MAX, SyncEnd,
    SyncJob, UNSYNCED_BYTES_MAX,
};
pub use note::BootId;
pub use pack::{
    BLOCK_BYTES, Block, BlockRead, Extent, Flaw, OnBlockRead, OnPackRound, PACK_BYTES, PackError, PackJob,
    PackOptions, PackReader, PackReaderHandle, PackRound, Packed, Packs, PacksHandle, ReadError, ReadJob,
    Run, WriteFailure,
};
pub use preview::{PreviewDisk, PreviewFile};
pub use record::{LARGE, Record, Records};
pub use recover::{Cut, Damage, OpenError, Owners, Recovery, is_cut, lock};
pub use space::{Size, Span};
pub use stream::{
    AppendFailure, BLOOM_BYTES_MAX, BLOOM_BYTES_MIN, Bloom, BufferBudget, CHUNK_BYTES, CHUNK_ENTRIES_MAX,
    Chunk, ChunkJob, Chunks, ChunksRead, Claim, HEADS_MAX, NewChunk, OPEN_READ_MAX, OPEN_WRITE_MAX,
    OnChunksRead, OnStreamAnswers, Position, ReadFrom, Reserved, Retained, SCAN_BYTES_MAX, SCAN_CHUNKS_MAX,
    STREAM_VERSION, StreamAnswer, StreamCut, StreamError, StreamFlaw, StreamJob, StreamLimits, StreamReader,
    StreamReaderHandle, StreamSyncEnd, StreamSyncJob, Streams, StreamsHandle, Wanted,
};
pub use survey::{FileKind, Surveyed, has_log, newer_file, survey};
pub use writer::{OnDone, Writer, WriterHandle};
