//! Packs: immutable files of records that left memory.
//!
//! ```text
//!  owner     hands over runs: each has all records that one owner pages out now, in blocks
//!  Packs     writes the runs of many owners into one pack, syncs it and its name; answers with an Extent for each run
//!  owner     writes to the log "these of my records are in this extent" and drops them from memory
//!  PackReader   reads an extent block by block; each block has its own checksums
//!  owner     writes to the log "nothing of this extent is needed any more" and, once that is synced, releases it
//!  Packs     removes the pack when its last extent is released
//! ```
//!
//! Only the log decides what a pack is for. If the process ended before a pack was recorded in the log, the
//! next [`Packs::open`] removes the pack. A pack never changes, so readers need no coordination with the
//! writer.
//!
//! An extent must not be released before the record that says so is synced. Otherwise, after a power failure,
//! its owner could need a pack that was removed.
//!
//! Formats: a pack has the same header as every file (`file.rs`); the block is drawn in `pack/block.rs`.

mod block;
mod packs;
mod reader;
mod threads;

use bytes::Bytes;

use crate::record::{RECORD_HEADER, Records};

pub use block::Flaw;
pub use packs::{PackError, PackOptions, Packs, WriteFailure};
pub use reader::{Block, PackReader, ReadError};
pub use threads::{
    BlockRead, OnBlockRead, OnPackRound, PackJob, PackReaderHandle, PackRound, Packed, PacksHandle, ReadJob,
};

/// The bytes after which a new pack begins, so that space is reclaimed in small pieces. A run is never split,
/// so a larger run gets a pack of its own.
pub const PACK_BYTES: u64 = 4 << 20;

/// The maximum bytes of records in a block: the cost of one read, and of verifying one record. A larger
/// record gets a block of its own.
pub const BLOCK_BYTES: usize = 256 << 10;

/// The place of a run. Returned by [`Packs::write`] and kept by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The number of the pack.
    pub pack: u64,
    /// The offset of the run from the start of the pack, in bytes.
    pub offset: u32,
    /// The bytes of all blocks of the run, with their headers. Never 0.
    pub bytes: u32,
}

/// Records of one owner that are written to a pack together. A run has at least one record, and none of its
/// blocks is empty.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub owner: u64,
    /// All records are of `owner`. A block has at most [`BLOCK_BYTES`], or a single larger record.
    pub blocks: Vec<Records>,
}

impl Run {
    pub fn new(owner: u64) -> Self {
        Self { owner, blocks: Vec::new() }
    }

    /// Adds a record whose body is `head` followed by `tail`, like [`Records::push_shared`]. It goes to the
    /// last block if it fits there, else to a new one.
    ///
    /// # Panics
    /// If the body is 4 GiB or more.
    pub fn push(&mut self, seq: u64, kind: u8, head: &[u8], tail: Bytes) {
        let bytes = RECORD_HEADER + head.len() + tail.len();
        let fits = self.blocks.last().is_some_and(|block| block.bytes() + bytes <= BLOCK_BYTES);
        if !fits {
            self.blocks.push(Records::new());
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push_shared(self.owner, seq, kind, |out| out.extend_from_slice(head), &tail);
        }
    }

    /// Ends the block: the next record begins a new one.
    pub fn end_block(&mut self) {
        if self.blocks.last().is_some_and(|block| !block.is_empty()) {
            self.blocks.push(Records::new());
        }
    }

    /// Returns the position in the extent of the block that holds the last added record, in bytes.
    pub fn last_block(&self) -> u32 {
        let before = &self.blocks[..self.blocks.len().saturating_sub(1)];
        before.iter().map(|block| (block::BLOCK_HEADER + block.bytes()) as u32).sum()
    }

    /// Returns the bytes of the run's records, without the headers of blocks.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Records::bytes).sum()
    }
}
