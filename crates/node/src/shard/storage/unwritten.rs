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

use std::collections::VecDeque;

use broker::ids::QueueId;
use queue::{Brief, Fact, PublisherId, Put, Verdict};

use super::journal::Journal;
use super::slot::QueueSlot;
use crate::shard::Shard;
use crate::shard::receipts::{Receipt, Receipts};

/// How long one is kept: what a publisher may have under way is settled by then, 99 times in 100, and records that nobody waits for
/// are kept as long.
const UNWRITTEN_MS: u64 = 20;

/// Over so long it is judged whether consumers settle what is kept of a queue: several times as long as it is kept.
const JUDGED_MS: u64 = 100;

/// So long nothing is kept of a queue whose consumers had twice settled less than half in time: its publishers need not wait for
/// them.
const SLOW_MS: u64 = 1000;

/// Behind so many ready messages one is kept in any case: consumers that settle 200,000 a second need [`UNWRITTEN_MS`] for them.
const AHEAD: u64 = 4096;

/// And behind as many as consumers settle in this time, in milliseconds: their publishers go slower while they wait, and so what
/// has piled up in a bad moment is soon gone. It would stay for ever if they went on as fast as they can.
const CATCH_UP_MS: u64 = 5000;

/// Bytes of records that are kept from the log at a time: what one link may have unconfirmed. What comes then is written at once.
pub const UNWRITTEN_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A time when all have been kept long enough.
pub(super) const ALL: u64 = u64::MAX;

/// Consecutive messages of one publisher that came at one time and are of one size.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The queue's numbers for them.
    first: u64,
    last: u64,
    /// The publisher's number for the first.
    number: u64,
    publisher: PublisherId,
    at_ms: u64,
    /// Of the record of each.
    bytes: u64,
}

impl Run {
    fn messages(&self) -> u64 {
        self.last - self.first + 1
    }

    /// What of it lies in `first..=last`, which is some.
    fn within(&self, first: u64, last: u64) -> Self {
        let first = first.max(self.first);
        let number = self.number + (first - self.first);
        Self { first, last: last.min(self.last), number, ..*self }
    }

    /// Whether it becomes one with a run that comes next.
    fn joins(&self, next: &Self) -> bool {
        self.last + 1 == next.first
            && self.number + self.messages() == next.number
            && (self.publisher, self.at_ms, self.bytes) == (next.publisher, next.at_ms, next.bytes)
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.at_ms.saturating_add(UNWRITTEN_MS) <= now_ms
    }

    fn receipt(&self, queue: QueueId, verdict: Verdict) -> Receipt {
        let (publisher, first) = (self.publisher, self.number);
        Receipt { queue, publisher, first, last: first + self.messages() - 1, verdict }
    }
}

/// What is kept of one queue.
#[derive(Debug, Default)]
pub(in crate::shard) struct Unwritten {
    /// The oldest first, which have the lowest numbers.
    runs: VecDeque<Run>,
    pub bytes: u64,
    /// It is among the queues of [`AllUnwritten`].
    listed: bool,
    pace: Pace,
}

/// Whether the consumers of a queue settle what is kept of it.
#[derive(Debug, Default)]
struct Pace {
    since_ms: u64,
    /// Messages that have been kept since then.
    kept: u64,
    /// Those that were written because it was time.
    late: u64,
    /// Those that consumers had accepted until then, kept or not.
    acknowledged: u64,
    /// In the period before, less than half was settled in time, or nothing was kept.
    was_late: bool,
    /// Nothing is kept.
    slow: bool,
    /// Messages that consumers settle in [`CATCH_UP_MS`], as they did of late.
    reach: u64,
}

impl Pace {
    /// Whether it is worth it to keep another message.
    fn allows(&mut self, Brief { ahead, acknowledged, .. }: Brief, now_ms: u64) -> bool {
        let period_ms = if self.slow { SLOW_MS } else { JUDGED_MS };
        let length_ms = now_ms.saturating_sub(self.since_ms);
        if length_ms >= period_ms {
            // One bad moment, be it a second, says little of those who were fast before it.
            let settled = acknowledged - self.acknowledged;
            let reach = (settled * CATCH_UP_MS / length_ms).max(self.reach - self.reach.div_ceil(8));
            // Nor are those slow who have a backlog to settle first, and will soon have.
            let is_behind = reach * UNWRITTEN_MS / CATCH_UP_MS < ahead && ahead <= reach;
            let was_late = self.slow || 2 * self.late > self.kept && !is_behind;
            let slow = was_late && self.was_late && !self.slow;
            *self = Self { since_ms: now_ms, acknowledged, was_late, slow, reach, ..Self::default() };
        }
        !self.slow && ahead <= self.reach.max(AHEAD)
    }
}

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

    use super::*;

    const MAX: u64 = 2_000;

    impl Pace {
        /// Of consumers that settled a hundred in a millisecond, and then nothing.
        fn fast() -> Self {
            let mut pace = Self::default();
            assert!(pace.allows_behind(0, JUDGED_MS));
            assert_eq!(pace.reach, 500_000);
            pace
        }

        fn allows_behind(&mut self, ahead: u64, now_ms: u64) -> bool {
            let acknowledged = 100 * JUDGED_MS;
            self.allows(Brief { publisher: PublisherId(1), number: 0, ahead, acknowledged }, now_ms)
        }
    }

    #[test]
    fn whoever_has_a_backlog_to_settle_is_not_slow() {
        for (ahead, slow) in [(0, true), (1_750, true), (1_751, false), (437_500, false), (437_501, true)] {
            let mut pace = Pace { kept: 10, late: 6, was_late: true, ..Pace::fast() };
            pace.allows_behind(ahead, 2 * JUDGED_MS);
            assert_eq!(pace.slow, slow, "{ahead}");
        }
    }

    #[test]
    fn whoever_is_late_twice_is_slow_until_in_time() {
        let mut pace = Pace::fast();
        let mut period = |late, length_ms| {
            let since_ms = pace.since_ms;
            pace = Pace { kept: 10, late, ..std::mem::take(&mut pace) };
            pace.allows_behind(0, since_ms + length_ms);
            pace.slow
        };
        assert_eq!([6, 0, 6, 6].map(|late| period(late, JUDGED_MS)), [false, false, false, true]);
        assert!(period(0, SLOW_MS - 1) && !period(0, SLOW_MS) && period(6, JUDGED_MS));
        assert!(!period(0, SLOW_MS) && !period(0, JUDGED_MS) && !period(6, JUDGED_MS));
    }

    #[test]
    fn whoever_was_fast_may_be_so_again() {
        let mut pace = Pace::fast();
        assert!(pace.allows_behind(500_000, 2 * JUDGED_MS - 1));
        assert!(!pace.allows_behind(437_501, 2 * JUDGED_MS) && pace.allows_behind(437_500, 2 * JUDGED_MS));
        for period in 3..100 {
            pace.allows_behind(0, period * JUDGED_MS);
        }
        assert_eq!(pace.reach, 0);
        assert!(
            !pace.allows_behind(AHEAD + 1, 100 * JUDGED_MS) && pace.allows_behind(AHEAD, 100 * JUDGED_MS)
        );
    }

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
