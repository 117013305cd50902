//! Messages that may be settled before they are written.
//!
//! ```text
//!   published, and consumers are there ──> kept from the log ──settled──> its receipt leaves; the log never hears of it
//!                                                │
//!                                                └──after a while, or when anything else is to be said of it──> journal
//! ```
//!
//! A receipt leaves when its message is written or settled, whichever comes first. Nobody waits for these: their publishers have
//! many more under way, and so go at the pace of the consumers (docs/decisions/0022). The messages are in their queue; what is
//! kept here are their numbers.

use broker::ids::QueueId;
use queue::{Brief, Fact, Put, Verdict};

use super::deferred::{ALL, Run, UNWRITTEN_MS, Unwritten};
use super::journal::Journal;
use super::slot::QueueSlot;
use crate::shard::Shard;
use crate::shard::receipts::Receipts;

/// Bytes of records that are kept from the log at a time: what one link may have unconfirmed. What comes then is written at once.
pub const UNWRITTEN_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// What is kept of all queues of a shard.
#[derive(Debug)]
pub(super) struct AllUnwritten {
    bytes_max: u64,
    pub messages: u64,
    pub bytes: u64,
    /// The queues that have some, and some that had.
    queues: Vec<QueueId>,
    /// When the first is to be written, or earlier.
    due_ms: Option<u64>,
}

impl AllUnwritten {
    /// At most `bytes_max` are kept.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, messages: 0, bytes: 0, queues: Vec::new(), due_ms: None }
    }

    /// Keeps a message and its receipt, if it is of the kind and there is room.
    pub fn keep(&mut self, queue: QueueId, kept: &mut Unwritten, put: Put<'_>) -> bool {
        let Put { seq, message, at_ms, brief } = put;
        let Some(brief) = brief else { return false };
        let (bytes, Brief { publisher, number, .. }) = (queue::stored_bytes(message), brief);
        let run = Run { first: seq, last: seq, number, publisher, at_ms, bytes };
        kept.pace.allows(brief, at_ms) && self.keep_run(queue, kept, run)
    }

    /// A run of one message.
    fn keep_run(&mut self, queue: QueueId, kept: &mut Unwritten, run: Run) -> bool {
        if self.bytes + run.bytes > self.bytes_max {
            return false;
        }
        kept.pace.kept += 1;
        self.messages += 1;
        self.bytes += run.bytes;
        kept.bytes += run.bytes;
        match kept.runs.back_mut() {
            Some(newest) if newest.joins(&run) => newest.last = run.last,
            _ => {
                if !std::mem::replace(&mut kept.listed, true) {
                    self.queues.push(queue);
                }
                self.due_ms.get_or_insert(run.at_ms + UNWRITTEN_MS);
                kept.runs.push_back(run);
            }
        }
        true
    }

    /// Takes those out that are `first..=last`, which are gone, and gives their receipts. Returns how many they are.
    pub fn settle(
        &mut self,
        queue: QueueId,
        kept: &mut Unwritten,
        (first, last): (u64, u64),
        receipts: &mut Receipts,
    ) -> u64 {
        let before = self.messages;
        let mut at = kept.runs.partition_point(|run| run.last < first);
        while let Some(&run) = kept.runs.get(at).filter(|run| run.first <= last) {
            let gone = run.within(first, last);
            self.leave(kept, &gone);
            receipts.push(gone.receipt(queue, Verdict::Accepted));
            kept.runs.remove(at);
            if run.first < gone.first {
                kept.runs.insert(at, run.within(run.first, gone.first - 1));
                at += 1;
            }
            if gone.last < run.last {
                kept.runs.insert(at, run.within(gone.last + 1, run.last));
            }
        }
        before - self.messages
    }

    /// Those of a queue that have been kept long enough at this time go to the journal.
    pub fn write(&mut self, slot: &mut QueueSlot, now_ms: u64, journal: &mut Journal) {
        let due = slot.unwritten.runs.partition_point(|run| run.is_due(now_ms));
        let runs: Vec<Run> = slot.unwritten.runs.drain(..due).collect();
        let (Some(oldest), Some(newest)) = (runs.first(), runs.last()) else { return };
        slot.fifo.live_facts(oldest.first, newest.last, |fact| {
            let (Fact::Put { seq, .. } | Fact::Returned { seq, .. }) = fact else { return };
            let at = runs.partition_point(|run| run.last < seq);
            if runs.get(at).is_some_and(|run| run.first <= seq) {
                journal.push_fact(slot.id, &fact, None, slot.fsync);
            }
        });
        for run in &runs {
            slot.unwritten.pace.late += if now_ms < ALL { run.messages() } else { 0 };
            self.leave(&mut slot.unwritten, run);
            journal.hold(run.receipt(slot.id, Verdict::Accepted), slot.fsync);
        }
    }

    /// A queue has ended before its messages were settled or written: nobody has them.
    pub fn release(&mut self, slot: &mut QueueSlot, receipts: &mut Receipts) {
        for run in std::mem::take(&mut slot.unwritten.runs) {
            self.leave(&mut slot.unwritten, &run);
            receipts.push(run.receipt(slot.id, Verdict::Released));
        }
    }

    fn leave(&mut self, kept: &mut Unwritten, run: &Run) {
        let bytes = run.messages() * run.bytes;
        self.messages -= run.messages();
        self.bytes -= bytes;
        kept.bytes -= bytes;
    }

    /// `writes`: they are written when it is time.
    pub fn next_deadline(&self, writes: bool) -> Option<u64> {
        self.due_ms.filter(|_| writes)
    }
}

impl Shard {
    /// Writes what has been kept long enough; at a stop, all of it. The log's reserve is not for them.
    pub(in crate::shard) fn write_overdue(&mut self) {
        if !self.storage.log_short
            && self.storage.unwritten.due_ms.is_some_and(|due| due <= self.here.now_ms || self.stopping)
        {
            self.write_kept(if self.stopping { ALL } else { self.here.now_ms });
        }
    }

    /// Writes what is to be written until `now_ms`, of all queues.
    pub(in crate::shard) fn write_kept(&mut self, now_ms: u64) {
        let mut queues = std::mem::take(&mut self.storage.unwritten.queues);
        let mut due_ms = None;
        queues.retain(|&queue| {
            let Some(slot) = self.queues.get_mut(queue) else { return false };
            self.storage.unwritten.write(slot, now_ms, &mut self.storage.journal);
            slot.recount_live(&mut self.storage.live_bytes);
            let next = slot.unwritten.runs.front().map(|run| run.at_ms + UNWRITTEN_MS);
            due_ms = due_ms.into_iter().chain(next).min();
            slot.unwritten.listed = next.is_some();
            next.is_some()
        });
        self.storage.unwritten.queues = queues;
        self.storage.unwritten.due_ms = due_ms;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use queue::PublisherId;

    use super::*;

    const MAX: u64 = 2_000;

    proptest! {
        /// Whatever is kept and settled in any order, each receipt is given once, and what is left adds up.
        #[test]
        fn each_is_settled_once(
            steps in vec((0u64..3, 0u64..3, 1u64..3, 0u64..3, 0u64..40, 0u64..8), 1..200),
        ) {
            let queue = QueueId(1);
            let (mut all, mut kept) = (AllUnwritten::new(MAX), Unwritten::default());
            // Publisher, number and bytes by seq.
            let mut model: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
            let (mut next, mut numbers, mut now_ms) = (1, [0; 3], 0);
            for (gap, publisher, bytes, later_ms, first, more) in steps {
                next += gap;
                now_ms += later_ms;
                for _ in 0..4 {
                    let (number, bytes) = (numbers[publisher as usize], bytes * 30);
                    let run = Run {
                        first: next,
                        last: next,
                        number,
                        publisher: PublisherId(publisher),
                        at_ms: now_ms,
                        bytes,
                    };
                    let room = model.values().map(|m| m.2).sum::<u64>() + bytes <= MAX;
                    prop_assert_eq!(all.keep_run(queue, &mut kept, run), room);
                    if room {
                        model.insert(next, (publisher, number, bytes));
                    }
                    numbers[publisher as usize] += 1;
                    next += 1;
                }
                let (first, last) = (next.saturating_sub(first), next.saturating_sub(first) + more);
                let mut receipts = Receipts::default();
                let settled = all.settle(queue, &mut kept, (first, last), &mut receipts);
                let expected: Vec<_> = model.extract_if(first..=last, |_, _| true).collect();
                prop_assert_eq!(settled, expected.len() as u64);
                let given = receipts.drain().flat_map(|r| (r.first..=r.last).map(move |n| (r.publisher.0, n)));
                let wanted: Vec<_> = expected.iter().map(|(_, m)| (m.0, m.1)).collect();
                prop_assert_eq!(given.collect::<Vec<_>>(), wanted);
                prop_assert_eq!(all.messages, model.len() as u64);
                prop_assert_eq!((all.bytes, kept.bytes), (model.values().map(|m| m.2).sum(), all.bytes));
                let left = kept.runs.iter().flat_map(|run| run.first..=run.last);
                prop_assert!(left.eq(model.keys().copied()));
            }
        }
    }
}
