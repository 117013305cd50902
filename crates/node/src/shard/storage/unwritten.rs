//! The messages whose writing is deferred, of all queues of a shard: their budget, and when the oldest must
//! be written.
//!
//! Each queue decides which of its messages are deferred (docs/decisions/0022). A receipt leaves when its message is written or settled, whichever comes first.

use catalog::ids::QueueId;
use queue::{ALL_DUE, DEFERRED_MS, Deferral};

use super::journal::Journal;
use crate::shard::Shard;
use crate::shard::receipts::Receipt;
use crate::shard::slot::QueueSlot;

/// The most bytes of records that are deferred at a time: what one link may have unconfirmed. More messages
/// are written at once.
pub(crate) const UNWRITTEN_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The deferred messages of a shard. See the module.
#[derive(Debug)]
pub(super) struct AllUnwritten {
    bytes_max: u64,
    pub messages: u64,
    pub bytes: u64,
    /// The queues that have deferred messages, and some that no longer do.
    queues: Vec<QueueId>,
    /// When the first message must be written, or earlier.
    due_ms: Option<u64>,
}

impl AllUnwritten {
    /// Defers at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, messages: 0, bytes: 0, queues: Vec::new(), due_ms: None }
    }

    /// Returns how many bytes of records may be deferred now.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.bytes_max - self.bytes
    }

    /// Called when the writing of a message is deferred. `bytes` is the size of its record.
    #[inline]
    pub(super) fn note(&mut self, queue: QueueId, defers: &mut bool, bytes: u64, at_ms: u64) {
        self.messages += 1;
        self.bytes += bytes;
        if !std::mem::replace(defers, true) {
            self.queues.push(queue);
        }
        self.due_ms.get_or_insert(at_ms + DEFERRED_MS);
    }

    /// Updates the sums when a queue defers less than before. Returns the difference in messages.
    pub(super) fn recount(&mut self, before: Deferral, now: Deferral) -> u64 {
        let messages = before.messages - now.messages;
        self.messages -= messages;
        self.bytes -= before.bytes - now.bytes;
        messages
    }

    /// Writes the messages of a queue that are due at this time.
    pub(super) fn write(&mut self, slot: &mut QueueSlot, now_ms: u64, journal: &mut Journal) {
        let (id, before, fsync) = (slot.id, slot.deferral(), slot.syncs());
        let receipts = slot.write_due(now_ms, |fact| journal.push_fact(id, &fact, fsync));
        let level = slot.level();
        receipts.into_iter().for_each(|receipt| journal.hold(Receipt::of(id, receipt), level));
        self.recount(before, slot.deferral());
    }

    /// Returns when messages must be written. `writes` is false while they cannot be.
    pub(super) fn next_deadline(&self, writes: bool) -> Option<u64> {
        self.due_ms.filter(|_| writes)
    }
}

impl Shard {
    /// Writes messages that were deferred long enough; at a stop, all of them. The log's reserve is not for
    /// them.
    pub(in crate::shard) fn write_overdue(&mut self) {
        if !self.storage.log_on_reserve
            && self.storage.unwritten.due_ms.is_some_and(|due| due <= self.here.now_ms || self.stopping)
        {
            self.write_kept(if self.stopping { ALL_DUE } else { self.here.now_ms });
        }
    }

    /// Writes the messages of all queues that are due by `now_ms`.
    pub(in crate::shard) fn write_kept(&mut self, now_ms: u64) {
        let mut queues = std::mem::take(&mut self.storage.unwritten.queues);
        let mut due_ms = None;
        queues.retain(|&queue| {
            let Some(slot) = self.queues.get_mut(queue) else { return false };
            self.storage.unwritten.write(slot, now_ms, &mut self.storage.journal);
            slot.recount_live(&mut self.storage.live_bytes);
            let next = slot.next_deferred_ms();
            due_ms = due_ms.into_iter().chain(next).min();
            slot.defers = next.is_some();
            next.is_some()
        });
        self.storage.unwritten.queues = queues;
        self.storage.unwritten.due_ms = due_ms;
    }
}
