//! Packs: immutable files of records that left memory.
//!
//! ```text
//!  owner     hands over runs: each all that one owner has to put away now, in blocks
//!  Packs     writes the runs of many owners into one pack, syncs it, and its name; answers with an Extent for each
//!  owner     logs "these of my records stand in this extent" and forgets them
//!  PackReader   gives an extent back block by block, each proved by itself
//!  owner     logs "nothing of this extent is needed any more", and once that is synced, releases it
//!  Packs     removes the pack when its last extent is released
//! ```
//!
//! The log stays the truth: a pack is only what the log says is in it. A pack that the log knows nothing of, since the
//! process ended in between, is removed by the next [`Packs::open`]. Nothing in a pack changes ever, so that whoever
//! reads needs no word with whoever writes.
//!
//! An extent must not be released before what says so is synced: else a power failure may bring back an owner that
//! counts on a pack that is gone.
//!
//! Formats: the header of a pack is that of every file (`file.rs`); the block is drawn in `pack/block.rs`.

mod block;
mod packs;
mod reader;
mod threads;

use bytes::Bytes;

use crate::record::{RECORD_HEADER, Records};

pub use packs::{PackError, PackOptions, Packs, WriteFailure};
pub use reader::{Block, Flaw, PackReader, ReadError};
pub use threads::{
    BlockRead, OnBlockRead, OnPackRound, PackJob, PackReaderHandle, PackRound, Packed, PacksHandle, ReadJob,
};

/// Bytes after which a new pack begins, so that space comes back in small pieces. A run stands in one pack, so that
/// a run of more bytes makes a pack of its own that is as large as it.
pub const PACK_BYTES: u64 = 4 << 20;

/// Bytes of records in a block: what one read costs, and what it takes to prove one record. A record of more bytes
/// is a block by itself.
pub const BLOCK_BYTES: usize = 256 << 10;

/// Where a run of one owner's records stands. Given by [`Packs::write`], kept by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The number of the pack.
    pub pack: u64,
    /// In bytes, from the start of the pack.
    pub offset: u32,
    /// Of all its blocks, with their headers. Never 0.
    pub bytes: u32,
}

/// Records of one owner that are put away together. There is at least one, and no block is empty.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub owner: u64,
    /// Each of at most [`BLOCK_BYTES`], or of one record that is larger; all of them of `owner`.
    pub blocks: Vec<Records>,
}

impl Run {
    pub fn new(owner: u64) -> Self {
        Self { owner, blocks: Vec::new() }
    }

    /// Adds a record whose body is `head` followed by `tail`, like [`Records::push_shared`], to the last block if it
    /// fits there and to a new one if not.
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

    /// Begins a block with the record that is added next.
    pub fn end_block(&mut self) {
        if self.blocks.last().is_some_and(|block| !block.is_empty()) {
            self.blocks.push(Records::new());
        }
    }

    /// The byte of the extent at which the block of the record that was added last begins.
    pub fn last_block(&self) -> u32 {
        let before = &self.blocks[..self.blocks.len().saturating_sub(1)];
        before.iter().map(|block| (block::BLOCK_HEADER + block.bytes()) as u32).sum()
    }

    /// Bytes of its records; the headers of blocks come on top.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Records::bytes).sum()
    }
}
