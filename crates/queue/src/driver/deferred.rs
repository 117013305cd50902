//! Tracks the messages of one queue whose writing is deferred, and judges whether deferring pays
//! (docs/decisions/0022).
//!
//! ```text
//!   defer ──settle──> accepted; never written
//!     │
//!     └──write_due, or before any other fact about the queue──> facts
//! ```
//!
//! The queue holds the messages. This module holds only their numbers.

use std::collections::VecDeque;

use ranges::{Range, Ranges};

use crate::fifo::{Fifo, stored_bytes};
use crate::{Deferrable, Fact, PublisherId, Put, Receipt, Verdict};

/// How long the writing of a message is deferred, in milliseconds. Within this time, consumers settle the messages that
/// a publisher may have in flight in 99 of 100 cases. The shard also holds other records for this long, if no receipt
/// waits for them.
pub const DEFERRED_MS: u64 = 20;

/// The period after which consumers are judged: do they settle deferred messages in time? It is several times as long
/// as [`DEFERRED_MS`].
const JUDGED_MS: u64 = 100;

/// How long nothing is deferred once consumers have settled less than half in time in two periods. Publishers then do
/// not have to wait for these consumers.
const SLOW_MS: u64 = 1000;

/// Up to this backlog, messages are always deferred: consumers that settle 200,000 a second need [`DEFERRED_MS`] for
/// it.
const AHEAD: u64 = 4096;

/// Messages are also deferred if consumers settle the backlog within this time, in milliseconds. Publishers slow down
/// while they wait, so a backlog from a short disturbance soon drains. It would never drain if they continued at full
/// speed.
const CATCH_UP_MS: u64 = 5000;

/// A time at which all deferred messages are due.
pub const ALL_DUE: u64 = u64::MAX;

/// Consecutive messages of one publisher that arrived at the same time and have the same size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Their sequence numbers in the queue.
    first: u64,
    last: u64,
    /// The publisher's number for the first message.
    number: u64,
    publisher: PublisherId,
    at_ms: u64,
    /// The size of each record.
    bytes: u64,
}

impl Run {
    fn messages(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns the part within `first..=last`. The part is not empty.
    fn within(&self, first: u64, last: u64) -> Self {
        let first = first.max(self.first);
        let number = self.number + (first - self.first);
        Self { first, last: last.min(self.last), number, ..*self }
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.at_ms.saturating_add(DEFERRED_MS) <= now_ms
    }

    pub(super) fn receipt(&self, verdict: Verdict, journaled: bool) -> Receipt {
        let (publisher, first) = (self.publisher, self.number);
        Receipt { publisher, first, last: first + self.messages() - 1, verdict, journaled }
    }
}

impl Range for Run {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        self.last + 1 == next.first
            && self.number + self.messages() == next.number
            && (self.publisher, self.at_ms, self.bytes) == (next.publisher, next.at_ms, next.bytes)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

/// How much of a queue is deferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    pub messages: u64,
    /// The size of their records.
    pub bytes: u64,
}

/// The deferred messages of one queue.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// In order of sequence numbers, the oldest first.
    runs: VecDeque<Run>,
    deferral: Deferral,
    pace: Pace,
}

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn deferral(&self) -> Deferral {
        self.deferral
    }

    /// See [`super::Solo::next_deadline`].
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.runs.front().map(|run| run.at_ms + DEFERRED_MS)
    }

    /// See [`super::Solo::defer`].
    pub(super) fn defer(&mut self, put: Put<'_>, room: u64) -> Option<u64> {
        let Put { seq, message, at_ms, deferrable } = put;
        let deferrable = deferrable?;
        let (bytes, Deferrable { publisher, number, .. }) = (stored_bytes(message), deferrable);
        let run = Run { first: seq, last: seq, number, publisher, at_ms, bytes };
        (self.pace.allows(deferrable, at_ms) && self.defer_run(run, room)).then_some(bytes)
    }

    /// Defers a run of one message, if its record has at most `room` bytes.
    fn defer_run(&mut self, run: Run, room: u64) -> bool {
        if run.bytes > room {
            return false;
        }
        self.pace.deferred += 1;
        self.deferral.messages += 1;
        self.deferral.bytes += run.bytes;
        self.runs.push_joined(run);
        true
    }

    /// Removes `first..=last`, which have left the queue. Calls `each` with the deferred ones. Returns their number.
    pub(super) fn settle(&mut self, first: u64, last: u64, mut each: impl FnMut(Run)) -> u64 {
        let before = self.deferral.messages;
        let mut at = self.runs.partition_point(|run| run.last < first);
        while let Some(&run) = self.runs.get(at).filter(|run| run.first <= last) {
            let gone = run.within(first, last);
            self.leave(&gone);
            each(gone);
            self.runs.remove(at);
            if run.first < gone.first {
                self.runs.insert(at, run.within(run.first, gone.first - 1));
                at += 1;
            }
            if gone.last < run.last {
                self.runs.insert(at, run.within(gone.last + 1, run.last));
            }
        }
        before - self.deferral.messages
    }

    /// See [`super::Solo::write_due`].
    pub(super) fn write_due(&mut self, fifo: &Fifo, now_ms: u64, mut each: impl FnMut(Fact)) -> Vec<Receipt> {
        let due = self.runs.partition_point(|run| run.is_due(now_ms));
        let runs: Vec<Run> = self.runs.drain(..due).collect();
        let (Some(oldest), Some(newest)) = (runs.first(), runs.last()) else { return Vec::new() };
        fifo.live_facts(oldest.first, newest.last, |fact| {
            let (Fact::Put { seq, .. } | Fact::Returned { seq, .. }) = fact else { return };
            let at = runs.partition_point(|run| run.last < seq);
            if runs.get(at).is_some_and(|run| run.first <= seq) {
                each(fact);
            }
        });
        for run in &runs {
            self.pace.late += if now_ms < ALL_DUE { run.messages() } else { 0 };
            self.leave(run);
        }
        runs.iter().map(|run| run.receipt(Verdict::Accepted, true)).collect()
    }

    /// See [`super::Solo::release`].
    pub(super) fn release(&mut self, mut each: impl FnMut(Receipt)) {
        for run in std::mem::take(&mut self.runs) {
            self.leave(&run);
            each(run.receipt(Verdict::Released, false));
        }
    }

    fn leave(&mut self, run: &Run) {
        self.deferral.messages -= run.messages();
        self.deferral.bytes -= run.messages() * run.bytes;
    }
}

/// Judges whether the consumers of a queue settle deferred messages in time. The fields describe the current period.
#[derive(Debug, Default)]
struct Pace {
    since_ms: u64,
    /// The number of messages that were deferred.
    deferred: u64,
    /// The number of deferred messages that had to be written because they were due.
    late: u64,
    /// The number of messages that consumers had accepted before the period, deferred or not.
    acknowledged: u64,
    /// True if in the previous period more than half was late without a backlog, or nothing was deferred.
    was_late: bool,
    /// True if nothing is deferred.
    slow: bool,
    /// The number of messages that consumers settle in [`CATCH_UP_MS`] at their recent speed.
    reach: u64,
}

impl Pace {
    /// Returns whether deferring another message is likely to pay.
    fn allows(&mut self, Deferrable { ahead, acknowledged, .. }: Deferrable, now_ms: u64) -> bool {
        let period_ms = if self.slow { SLOW_MS } else { JUDGED_MS };
        let length_ms = now_ms.saturating_sub(self.since_ms);
        if length_ms >= period_ms {
            // The reach falls slowly: one bad second says little about consumers that were fast before it.
            let settled = acknowledged - self.acknowledged;
            let reach = (settled * CATCH_UP_MS / length_ms).max(self.reach - self.reach.div_ceil(8));
            // Consumers that catch up on a backlog do not count as slow if they will soon be done.
            let is_behind = reach * DEFERRED_MS / CATCH_UP_MS < ahead && ahead <= reach;
            let was_late = self.slow || 2 * self.late > self.deferred && !is_behind;
            let slow = was_late && self.was_late && !self.slow;
            *self = Self { since_ms: now_ms, acknowledged, was_late, slow, reach, ..Self::default() };
        }
        !self.slow && ahead <= self.reach.max(AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const MAX: u64 = 2_000;

    proptest! {
        /// Messages are deferred and settled in any order. Each gets one receipt, and the totals stay correct.
        #[test]
        fn each_is_settled_once(
            steps in vec((0u64..3, 0u64..3, 1u64..3, 0u64..3, 0u64..40, 0u64..8), 1..200),
        ) {
            let mut deferred = Deferred::default();
            // Publisher, number and bytes by sequence number.
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
                    let room = MAX - model.values().map(|m| m.2).sum::<u64>();
                    prop_assert_eq!(deferred.defer_run(run, room), bytes <= room);
                    if bytes <= room {
                        model.insert(next, (publisher, number, bytes));
                    }
                    numbers[publisher as usize] += 1;
                    next += 1;
                }
                let (first, last) = (next.saturating_sub(first), next.saturating_sub(first) + more);
                let mut given = Vec::new();
                let settled = deferred.settle(first, last, |run| {
                    let Receipt { publisher, first, last, .. } = run.receipt(Verdict::Accepted, false);
                    given.extend((first..=last).map(|n| (publisher.0, n)));
                });
                let expected: Vec<_> = model.extract_if(first..=last, |_, _| true).collect();
                prop_assert_eq!(settled, expected.len() as u64);
                let wanted: Vec<_> = expected.iter().map(|(_, m)| (m.0, m.1)).collect();
                prop_assert_eq!(given, wanted);
                let (messages, bytes) = (model.len() as u64, model.values().map(|m| m.2).sum());
                prop_assert_eq!(deferred.deferral(), Deferral { messages, bytes });
                let left = deferred.runs.iter().flat_map(|run| run.first..=run.last);
                prop_assert!(left.eq(model.keys().copied()));
            }
        }
    }

    impl Pace {
        /// Consumers that settled 100 messages per millisecond in one period, and nothing afterwards.
        fn fast() -> Self {
            let mut pace = Self::default();
            assert!(pace.allows_behind(0, JUDGED_MS));
            assert_eq!(pace.reach, 500_000);
            pace
        }

        fn allows_behind(&mut self, ahead: u64, now_ms: u64) -> bool {
            let acknowledged = 100 * JUDGED_MS;
            self.allows(Deferrable { publisher: PublisherId(1), number: 0, ahead, acknowledged }, now_ms)
        }
    }

    #[test]
    fn consumers_that_catch_up_are_not_slow() {
        for (ahead, slow) in [(0, true), (1_750, true), (1_751, false), (437_500, false), (437_501, true)] {
            let mut pace = Pace { deferred: 10, late: 6, was_late: true, ..Pace::fast() };
            pace.allows_behind(ahead, 2 * JUDGED_MS);
            assert_eq!(pace.slow, slow, "{ahead}");
        }
    }

    #[test]
    fn consumers_late_twice_are_slow_until_in_time() {
        let mut pace = Pace::fast();
        let mut period = |late, length_ms| {
            let since_ms = pace.since_ms;
            pace = Pace { deferred: 10, late, ..std::mem::take(&mut pace) };
            pace.allows_behind(0, since_ms + length_ms);
            pace.slow
        };
        assert_eq!([6, 0, 6, 6].map(|late| period(late, JUDGED_MS)), [false, false, false, true]);
        assert!(period(0, SLOW_MS - 1) && !period(0, SLOW_MS) && period(6, JUDGED_MS));
        assert!(!period(0, SLOW_MS) && !period(0, JUDGED_MS) && !period(6, JUDGED_MS));
    }

    #[test]
    fn recently_fast_consumers_may_catch_up() {
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
}
