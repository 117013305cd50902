//! What operators see and do at one queue, through the desk (the management front end).

use broker::desk::{GroupRow, Reclaimed};
use broker::ids::QueueId;
use queue::{Driver, Peeked, Refusal};

use crate::shard::Shard;

impl Shard {
    /// Returns the state of a quorum queue's group. `None` if the queue does not live here or has no group.
    pub fn group_row(&self, queue: QueueId) -> Option<GroupRow> {
        let slot = self.queues.get(queue)?;
        let Driver::Replica(driver) = &slot.driver else { return None };
        let group = slot.group.as_ref()?;
        let progress = group.engine.progress();
        Some(GroupRow {
            leads: driver.leads(),
            term: group.engine.standing().term,
            last_index: progress.last,
            written_index: progress.written,
            commit_index: progress.committed,
            applied_index: progress.applied,
            base_index: group.base_index,
            log_bytes: group.log_bytes,
            commit_latency_ms: group.commit_latency_ms,
        })
    }

    /// Returns the ready message at a position of a queue that lives here, counted from 1.
    ///
    /// # Errors
    /// The queue does not live here, or it is damaged.
    pub fn peek(&self, queue: QueueId, position: u64) -> Result<Peeked, Refusal> {
        let slot = self.queues.get(queue).ok_or(Refusal::NotFound)?;
        if slot.fifo.is_damaged() {
            return Err(Refusal::Damaged);
        }
        Ok(slot.fifo.peek(position))
    }

    /// Writes a new base of a queue's group. Returns its index.
    ///
    /// # Errors
    /// The queue does not live here, has no group, or is damaged, or the log accepts nothing.
    pub(in crate::shard) fn checkpoint(&mut self, queue: QueueId) -> Result<u64, Refusal> {
        if self.storage.refuses() {
            return Err(Refusal::Unavailable);
        }
        let slot = self.queues.get_mut(queue).ok_or(Refusal::NotFound)?;
        if slot.fifo.is_damaged() {
            return Err(Refusal::Damaged);
        }
        self.storage.checkpoint(slot).ok_or(Refusal::NotSupported)
    }

    /// Frees the memory of messages that can be read again, and begins to page out ready messages.
    ///
    /// # Errors
    /// The queue does not live here, or it is damaged.
    pub(in crate::shard) fn reclaim_memory(&mut self, queue: QueueId) -> Result<Reclaimed, Refusal> {
        let slot = self.queues.get_mut(queue).ok_or(Refusal::NotFound)?;
        if slot.fifo.is_damaged() {
            return Err(Refusal::Damaged);
        }
        let before = slot.fifo.loaded_bytes();
        slot.fifo.forget_loaded();
        let freed_bytes = before - slot.fifo.loaded_bytes();
        let paging_bytes = if slot.fifo.may_page_out() { slot.fifo.pageable_bytes() } else { 0 };
        if paging_bytes > 0 {
            self.storage.page_out_soon(queue, paging_bytes);
        }
        Ok(Reclaimed { freed_bytes, paging_bytes })
    }
}
