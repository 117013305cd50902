//! What operators see and do at one queue, through the admin API.

use broker::admin_api::{GroupRow, Reclaimed};
use catalog::ids::QueueId;
use queue::{Block, Peek, PeekBlock, PeekEnd, Peeked, Refusal};
use wal::{Extent, ReadError};

use crate::facts;
use crate::shard::Shard;
use crate::shard::storage::{Peeking, Purpose, Reading};

/// The most blocks that are read for one peek. A run has less than half as many, unless its messages are larger than a block.
/// Without a bound, a queue that changes all the time could keep a peek at work.
const PEEK_BLOCKS_MAX: u32 = 64;

impl Shard {
    /// Returns the state of a quorum queue's group. `None` if the queue does not live here or has no group.
    pub fn group_row(&self, queue: QueueId) -> Option<GroupRow> {
        let slot = self.queues.get(queue)?;
        let group = slot.group.as_ref()?;
        let progress = group.engine.progress();
        Some(GroupRow {
            leads: slot.driver.decides(),
            rests: group.engine.rests(),
            term: group.standing().term,
            last_index: progress.last,
            written_index: progress.written,
            commit_index: progress.committed,
            applied_index: progress.applied,
            base_index: group.base_index,
            log_bytes: group.log_bytes,
            commit_latency_ms: group.commit_latency_ms,
        })
    }

    /// Returns ready messages of a queue that lives here, as far as they are in memory or in the block that was read for it.
    ///
    /// # Errors
    /// The queue does not live here, or it is damaged.
    pub fn peek(
        &self,
        queue: QueueId,
        peek: &Peek,
        read: Option<(PeekBlock, &Block)>,
    ) -> Result<Peeked, Refusal> {
        let slot = self.queues.get(queue).ok_or(Refusal::NotFound)?;
        if slot.fifo.is_damaged() {
            return Err(Refusal::Damaged);
        }
        Ok(slot.fifo.peek(peek, read))
    }

    /// Answers a question for ready messages. If the first one is on the disk, its block is requested first.
    pub(in crate::shard) fn begin_peek(&mut self, question: u64, queue: QueueId, peek: Peek) {
        let peeked = self.peek(queue, &peek, None);
        self.go_on_peeking(question, queue, &peek, peeked, PEEK_BLOCKS_MAX);
    }

    /// Called when a block was read for a peek.
    pub(in crate::shard) fn peek_with(
        &mut self,
        queue: QueueId,
        extent: Extent,
        peeking: Peeking,
        read: Result<wal::Block, ReadError>,
    ) {
        let Peeking { question, peek, block: at, left } = peeking;
        let kept = self.queues.get(queue).and_then(|slot| slot.extents.get(&at.load.run));
        // If the run is gone or was moved meanwhile, other data may be where the block was.
        let is_there = kept.is_some_and(|kept| kept.extent == extent);
        let peeked = match read {
            _ if !is_there => self.peek(queue, &peek, None),
            Ok(block) => match facts::decode_block(block) {
                Some(block) => self.peek(queue, &peek, Some((at, &block))),
                None => Err(Refusal::Damaged),
            },
            Err(ReadError::Io { .. }) => Err(Refusal::Unavailable),
            // The queue is closed when it needs the block itself. A peek changes nothing.
            Err(_) => Err(Refusal::Damaged),
        };
        self.go_on_peeking(question, queue, &peek, peeked, left);
    }

    fn go_on_peeking(
        &mut self,
        question: u64,
        queue: QueueId,
        peek: &Peek,
        peeked: Result<Peeked, Refusal>,
        left: u32,
    ) {
        if let Ok(Peeked { messages, end: PeekEnd::Disk(block) }) = &peeked
            && messages.is_empty()
            && let Some(left) = left.checked_sub(1)
            && let Some(kept) = self.queues.get(queue).and_then(|slot| slot.extents.get(&block.load.run))
        {
            let purpose = Purpose::Peek(Peeking { question, peek: *peek, block: *block, left });
            let reading = Reading { queue, load: block.load, extent: kept.extent, purpose };
            return self.storage.read(u32::from(self.here.id), reading);
        }
        self.answer_peek(question, peeked);
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
        if slot.group.is_none() {
            return Err(Refusal::NotSupported);
        }
        // As in an evacuation, the runs are written again together with the base.
        self.storage.repeat_runs(slot);
        self.write_base(queue).ok_or(Refusal::NotSupported)
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
