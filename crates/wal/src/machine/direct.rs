//! Direct writes: a batch is written past the page cache and synced by the same request (docs/decisions/0062).
//!
//! ```text
//!   light traffic that waits for syncs:
//!     a handover    ── write_directly ──▶ in flight ── ended ──▶ end_sync: synced
//!     what arrives meanwhile  ──▶ kept ───────────────────────▶ the next direct write
//!   all else:
//!     a handover    ──▶ the page cache; a sync by the thread, as ever
//! ```
//!
//! A direct write is a write and a sync in one. So it begins only when everything before it is synced, and it counts as the sync in
//! flight until it ends. If it fails, that is a failed sync.
//!
//! **Where.** Only in a file that was filled in advance (`spare.rs`): then neither a block nor the length of the file changes, and the disk
//! writes nothing else. No block is written both ways, because the page cache and the disk would disagree about it. So a write begins
//! at the next block after one of the other kind; zeros are in between. A direct write after a direct write begins in the block in
//! which that one has ended, and writes the bytes before it once more. A power failure may tear a block, but leaves each of its
//! sectors old or new. Both have those bytes.
//!
//! **When.** Only after some handovers in a row ([`Options::direct_after`](super::Options)) that nobody waits for except for their sync.
//! So a log that writes for other queues as well does not change from one way to the other all the time. A larger handover is written as
//! ever: many messages share its sync, and the next one is encoded and written while it is synced.

use std::io::IoSlice;

use aio::{BLOCK, Blocks};

use super::sync::{Refused, SyncEnd};
use super::{Batch, Log, Mutation, Open};
use crate::batch::{BATCH_HEADER, BatchHeader};
use crate::disk::Disk;
use crate::handover::{Completion, Handover};

/// The largest batch that is written directly, in bytes. More is a sign of load: then the thread syncs while the shards write on.
const DIRECT_BYTES_MAX: u64 = 64 << 10;

/// After this many direct writes that were refused or have failed, the log tries no more, unless a file was filled meanwhile. An
/// occasional refusal costs the rest of a file; a file system that always refuses must not cost more.
const REFUSALS_MAX: u32 = 8;

/// What the log knows about direct writes.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// The number of handovers in a row, up to the last one, that may be written directly.
    streak: u32,
    /// Handovers that are written when the sync in flight has ended: at most one of each shard.
    kept: Vec<Handover>,
    /// The memory of the last write.
    blocks: Blocks,
    refusals: u32,
}

/// How far a file can be written directly, and how far it was.
pub(super) struct DirectFile<F> {
    /// The handle for direct writes. `None` if the disk has none, or has refused one.
    pub handle: Option<F>,
    /// The file consists of this many written bytes. 0 if it was not filled.
    pub filled: u64,
    /// The bytes of the last block up to the end of the last batch, if that batch was written directly.
    tail: Option<Vec<u8>>,
    /// A batch did not fit into what is left of the filled bytes.
    is_full: bool,
}

impl<F> DirectFile<F> {
    pub(super) fn new(handle: Option<F>, filled: u64) -> Self {
        Self { handle, filled, tail: None, is_full: false }
    }
}

impl<F> Open<F> {
    /// Returns where the next batch begins that is written through the page cache.
    pub(super) fn next_cached(&self) -> u64 {
        if self.direct.tail.is_some() { self.end.next_multiple_of(BLOCK as u64) } else { self.end }
    }

    /// Returns where the next batch begins that is written directly.
    fn next_direct(&self) -> u64 {
        if self.direct.tail.is_some() { self.end } else { self.end.next_multiple_of(BLOCK as u64) }
    }

    /// Called when a batch was written through the page cache.
    pub(super) fn note_cached(&mut self) {
        self.direct.tail = None;
    }

    /// The zeros after a batch that ends here and is written through the page cache. Without them, the disk would have to read the rest of
    /// the block: the pages of a filled file are not in memory.
    pub(super) fn padding(&self, end: u64) -> usize {
        let to = end.next_multiple_of(BLOCK as u64);
        if to <= self.direct.filled { (to - end) as usize } else { 0 }
    }
}

impl Direct {
    /// Returns true if this handover may be written directly, and counts it.
    fn count(&mut self, handover: &Handover) -> bool {
        let Handover { records, sync, urgent, .. } = handover;
        if records.is_empty() {
            return false;
        }
        let may = !urgent && (*sync || self.streak > 0) && records.bytes() as u64 <= DIRECT_BYTES_MAX;
        self.streak = if may { self.streak.saturating_add(1) } else { 0 };
        may
    }
}

impl<D: Disk> Log<D> {
    /// Returns true if the log writes directly, or would if it had a file for it.
    pub(super) fn wants_direct(&self) -> bool {
        self.direct.streak >= self.options.direct_after && self.direct.refusals < REFUSALS_MAX
    }

    /// Returns true while a direct write is in flight.
    pub fn is_writing_directly(&self) -> bool {
        self.direct_in_flight().is_some()
    }

    /// Takes handovers that are written directly, now or when the sync in flight has ended. Otherwise leaves them. Does not wait.
    pub(super) fn take_direct(&mut self, handovers: &mut Vec<Handover>, done: &mut Vec<Completion>) {
        let mut may = !handovers.is_empty();
        for handover in &*handovers {
            may &= self.direct.count(handover);
        }
        if may {
            self.write_directly_or_keep(handovers, done);
        }
    }

    /// Like [`Log::take_direct`], for one handover of a shard. Returns its completion, or `None` if it is kept.
    ///
    /// # Errors
    /// Returns the handover.
    pub(super) fn take_direct_at_once(&mut self, handover: Handover) -> Result<Option<Completion>, Handover> {
        if !self.direct.count(&handover) || !self.wants_direct() {
            return Err(handover);
        }
        let (mut handovers, mut done) = (vec![handover], Vec::new());
        self.write_directly_or_keep(&mut handovers, &mut done);
        handovers.pop().map_or(Ok(done.pop()), Err)
    }

    fn write_directly_or_keep(&mut self, handovers: &mut Vec<Handover>, done: &mut Vec<Completion>) {
        if !self.wants_direct() || !self.has_direct_file() {
            return;
        }
        if self.is_syncing() {
            self.direct.kept.append(handovers);
        } else {
            self.write_directly(handovers, done);
        }
    }

    /// Returns true if the current file can be written directly.
    fn has_direct_file(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.direct.handle.is_some())
    }

    /// Returns true if the current file was filled, whether it can be written directly or not.
    pub(super) fn has_filled_file(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.direct.filled > 0)
    }

    /// Returns true if the next file should be taken although this one is not full: because that one was filled and this one was not, or
    /// because too little is left of the filled bytes of this one.
    pub(super) fn leaves_file_early(&self) -> bool {
        let is_used_up = || self.current.as_ref().is_some_and(|current| current.direct.is_full);
        self.wants_direct() && (!self.has_filled_file() && self.has_filled_spare() || is_used_up())
    }

    /// Returns the end of the direct write in flight, if it has ended; with `waits`, waits for it. The result is passed to
    /// [`Log::end_sync`].
    pub fn ended_direct(&mut self, waits: bool) -> Option<SyncEnd> {
        let file = self.direct_in_flight()?;
        let ended = self.disk.end_direct(waits)?;
        self.direct.blocks = ended.blocks;
        self.direct.refusals += u32::from(ended.result.is_err());
        Some(SyncEnd(ended.result.map_err(|_| Refused { file: Some(file) })))
    }

    /// Writes what was kept while the sync was in flight. Returns what is not written directly, for [`Log::append`].
    pub fn write_kept(&mut self, done: &mut Vec<Completion>) -> Vec<Handover> {
        if self.is_syncing() {
            return Vec::new();
        }
        let mut kept = std::mem::take(&mut self.direct.kept);
        self.write_directly(&mut kept, done);
        kept
    }

    /// Returns what is kept, for [`Log::append`], because records wait behind it that need only be written.
    pub fn take_kept(&mut self) -> Vec<Handover> {
        if !self.direct.kept.is_empty() {
            self.direct.streak = 0;
        }
        std::mem::take(&mut self.direct.kept)
    }

    /// Writes handovers as one batch, if everything before it is synced and the batch fits into the current file. Otherwise leaves them.
    fn write_directly(&mut self, handovers: &mut Vec<Handover>, done: &mut Vec<Completion>) {
        let bytes: u64 = handovers.iter().map(|handover| handover.records.bytes() as u64).sum();
        let length = BATCH_HEADER as u64 + bytes;
        if handovers.is_empty() || bytes > DIRECT_BYTES_MAX || !self.is_ready_for_direct(length) {
            return;
        }
        let batch = Batch::Records(handovers);
        // The number is used up even if the disk refuses, because a part of the batch may be written.
        let number = self.next_batch;
        self.next_batch += 1;
        let header = self.header(batch, number);
        let mut payload = Vec::new();
        batch.records().for_each(|records| records.slices(&mut payload));
        // A shard that waits for the sync does not end before.
        let shard = handovers.iter().find(|handover| handover.sync).unwrap_or(&handovers[0]).shard;
        let Some(header) = self.submit(header, &payload, shard) else {
            self.direct.refusals += 1;
            // What may be there of the batch must not be followed by another one.
            self.abandon(None);
            return;
        };
        self.committed(batch, number, false);
        self.answer_written(handovers.drain(..), Some(header), true, done);
        self.begin_direct_sync(number);
    }

    /// Returns true if a direct write of this many bytes would leave nothing before it unsynced.
    fn is_ready_for_direct(&mut self, length: u64) -> bool {
        let Some(current) = &mut self.current else { return false };
        let end = (current.next_direct() + length).next_multiple_of(BLOCK as u64);
        let fits = end <= current.direct.filled;
        if !fits {
            current.direct.is_full = true;
            self.direct.refusals = 0;
        }
        let is_good = current.named && !current.doomed && current.good > 0;
        let is_durable = self.synced == self.last && self.dirty.is_empty();
        let is_synced = !self.is_syncing() && (is_durable || self.options.makes(Mutation::WriteOverUnsynced));
        let waits = self.sync_refused || self.is_on_reserve() || self.has_forgotten();
        fits && is_good && is_synced && !waits && self.has_direct_file()
    }

    /// Submits a batch. Returns its header, or `None` if the disk refuses.
    fn submit(
        &mut self,
        mut header: BatchHeader,
        payload: &[IoSlice<'_>],
        shard: u32,
    ) -> Option<BatchHeader> {
        let current = self.current.as_mut()?;
        header.seal(current.generation, payload);
        let begin = current.next_direct();
        let mut tail = current.direct.tail.take().unwrap_or_default();
        let end = begin + BATCH_HEADER as u64 + header.length;
        let mut blocks = std::mem::take(&mut self.direct.blocks);
        blocks.clear(tail.len() + (end - begin) as usize);
        match self.options.makes(Mutation::ForgetTail) {
            true => blocks.push(&vec![0; tail.len()]),
            false => blocks.push(&tail),
        }
        blocks.push(&header.encode());
        payload.iter().for_each(|piece| blocks.push(piece));
        let offset = begin - tail.len() as u64;
        tail.clear();
        tail.extend_from_slice(&blocks.bytes()[blocks.bytes().len() / BLOCK * BLOCK..]);
        blocks.pad();
        let handle = current.direct.handle.as_mut()?;
        match self.disk.begin_direct(handle, offset, blocks, shard) {
            Ok(()) => {
                current.end = end;
                current.direct.tail = Some(tail);
                Some(header)
            }
            Err((_, blocks)) => {
                self.direct.blocks = blocks;
                None
            }
        }
    }
}
