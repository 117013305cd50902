//! Large messages that may be settled before they are written.
//!
//! ```text
//!   published, and given to a consumer ──> kept from the log ──settled──> its receipt leaves; the log never hears of it
//!                                                │
//!                                                └──after a while, or when anything else is to be said of it──> journal
//! ```
//!
//! A receipt leaves when its message is written or settled, whichever comes first. A small one costs less to be written than to be
//! found again; a large one is read twice and copied once for it, and takes the disk. Nobody waits for these: their publishers have
//! many more under way (docs/decisions/0022).

use std::collections::VecDeque;

use broker::ids::QueueId;
use message::Message;
use queue::{PublisherId, Put, Verdict};

use super::Shard;
use super::journal::Journal;
use super::receipts::{Receipt, push_receipt};
use super::slot::{QueueSlot, find};

/// Bytes of a message from which on it is kept from the log: those that stay where the socket was read to.
pub const UNWRITTEN_MIN: u64 = 16 * 1024;

/// How long it is kept: what a publisher may have under way is settled by then, 99 times in 100, and records that nobody waits for
/// are kept as long.
const UNWRITTEN_MS: u64 = 20;

/// Bytes that are kept from the log at a time: what one link may have unconfirmed. What comes then is written at once.
const UNWRITTEN_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A time when all have been kept long enough.
pub(super) const ALL: u64 = u64::MAX;

/// A message that is kept from the log, and who waits for its receipt.
#[derive(Debug)]
struct Unwritten {
    seq: u64,
    message: Message,
    at_ms: u64,
    publisher: PublisherId,
    number: u64,
}

impl Unwritten {
    fn receipt(&self, queue: QueueId) -> Receipt {
        let (publisher, first, verdict) = (self.publisher, self.number, Verdict::Accepted);
        Receipt { queue, publisher, first, last: first, verdict }
    }
}

/// What is kept of one queue, oldest first.
#[derive(Debug, Default)]
pub(super) struct Kept {
    messages: VecDeque<Unwritten>,
    pub bytes: u64,
}

/// What is kept of all queues of a shard.
#[derive(Debug)]
pub(super) struct KeptOfAll {
    least: u64,
    pub messages: u64,
    pub bytes: u64,
    /// The queues that have some, and some that had.
    queues: Vec<QueueId>,
    /// When the first is to be written, or earlier.
    due_ms: Option<u64>,
}

impl KeptOfAll {
    /// Messages of `least` bytes and more are kept.
    pub fn new(least: u64) -> Self {
        Self { least, messages: 0, bytes: 0, queues: Vec::new(), due_ms: None }
    }

    /// Keeps a message and its receipt, if it is of the kind and there is room.
    pub fn keep(&mut self, queue: QueueId, kept: &mut Kept, put: Put<'_>) -> bool {
        let Put { seq, message, at_ms, brief } = put;
        let Some((publisher, number)) = brief else { return false };
        let bytes = message.len();
        if bytes < self.least || self.bytes + bytes > UNWRITTEN_BYTES_MAX {
            return false;
        }
        if kept.messages.is_empty() && !self.queues.contains(&queue) {
            self.queues.push(queue);
        }
        self.due_ms.get_or_insert(at_ms + UNWRITTEN_MS);
        self.messages += 1;
        self.bytes += bytes;
        kept.bytes += bytes;
        kept.messages.push_back(Unwritten { seq, message: message.clone(), at_ms, publisher, number });
        true
    }

    /// Takes those out that are `first..=last`, which are gone, and gives their receipts. Returns how many they are.
    pub fn settle(
        &mut self,
        queue: QueueId,
        kept: &mut Kept,
        (first, last): (u64, u64),
        receipts: &mut Vec<Receipt>,
    ) -> u64 {
        let from = kept.messages.partition_point(|unwritten| unwritten.seq < first);
        let to = kept.messages.partition_point(|unwritten| unwritten.seq <= last);
        for unwritten in kept.messages.drain(from..to) {
            kept.bytes -= unwritten.message.len();
            self.leave(&unwritten);
            push_receipt(receipts, unwritten.receipt(queue));
        }
        (to - from) as u64
    }

    /// Those of a queue that have been kept long enough at this time go to the journal.
    pub fn write(&mut self, slot: &mut QueueSlot, now_ms: u64, journal: &mut Journal) {
        let is_due = |unwritten: &mut Unwritten| unwritten.at_ms.saturating_add(UNWRITTEN_MS) <= now_ms;
        while let Some(unwritten) = slot.unwritten.messages.pop_front_if(is_due) {
            slot.unwritten.bytes -= unwritten.message.len();
            self.leave(&unwritten);
            let Unwritten { seq, ref message, at_ms, .. } = unwritten;
            journal.push_put(slot.id, Put { seq, message, at_ms, brief: None }, slot.fsync);
            journal.hold(unwritten.receipt(slot.id), slot.fsync);
        }
    }

    fn leave(&mut self, unwritten: &Unwritten) {
        self.messages -= 1;
        self.bytes -= unwritten.message.len();
    }

    /// `writes`: they are written when it is time.
    pub fn next_deadline(&self, writes: bool) -> Option<u64> {
        self.due_ms.filter(|_| writes)
    }
}

impl Shard {
    /// Writes what has been kept long enough; at a stop, all of it. The log's reserve is not for them.
    pub(super) fn write_overdue(&mut self) {
        if !self.log_short && self.unwritten.due_ms.is_some_and(|due| due <= self.now_ms || self.stopping) {
            self.write_kept(if self.stopping { ALL } else { self.now_ms });
        }
    }

    /// Writes what is to be written until `now_ms`, of all queues.
    pub(super) fn write_kept(&mut self, now_ms: u64) {
        let mut queues = std::mem::take(&mut self.unwritten.queues);
        let mut due_ms = None;
        queues.retain(|&queue| {
            let Some(slot) = find(&mut self.queues, queue) else { return false };
            self.unwritten.write(slot, now_ms, &mut self.journal);
            slot.recount_live(&mut self.live_bytes);
            let next = slot.unwritten.messages.front().map(|unwritten| unwritten.at_ms + UNWRITTEN_MS);
            due_ms = due_ms.into_iter().chain(next).min();
            next.is_some()
        });
        self.unwritten.queues = queues;
        self.unwritten.due_ms = due_ms;
    }
}
