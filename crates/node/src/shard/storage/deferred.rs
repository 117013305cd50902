//! The messages of one queue whose writing is deferred, and the judgement whether that pays (docs/decisions/0022).

use std::collections::VecDeque;

use broker::ids::QueueId;
use queue::{Brief, PublisherId, Verdict};

use crate::shard::receipts::Receipt;

/// How long one is kept: what a publisher may have under way is settled by then, 99 times in 100, and records that nobody waits for
/// are kept as long.
pub(super) const UNWRITTEN_MS: u64 = 20;

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

/// A time when all have been kept long enough.
pub(super) const ALL: u64 = u64::MAX;

/// Consecutive messages of one publisher that came at one time and are of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The queue's numbers for them.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The publisher's number for the first.
    pub(super) number: u64,
    pub(super) publisher: PublisherId,
    pub(super) at_ms: u64,
    /// Of the record of each.
    pub(super) bytes: u64,
}

impl Run {
    pub(super) fn messages(&self) -> u64 {
        self.last - self.first + 1
    }

    /// What of it lies in `first..=last`, which is some.
    pub(super) fn within(&self, first: u64, last: u64) -> Self {
        let first = first.max(self.first);
        let number = self.number + (first - self.first);
        Self { first, last: last.min(self.last), number, ..*self }
    }

    /// Whether it becomes one with a run that comes next.
    pub(super) fn joins(&self, next: &Self) -> bool {
        self.last + 1 == next.first
            && self.number + self.messages() == next.number
            && (self.publisher, self.at_ms, self.bytes) == (next.publisher, next.at_ms, next.bytes)
    }

    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.at_ms.saturating_add(UNWRITTEN_MS) <= now_ms
    }

    pub(super) fn receipt(&self, queue: QueueId, verdict: Verdict) -> Receipt {
        let (publisher, first) = (self.publisher, self.number);
        Receipt { queue, publisher, first, last: first + self.messages() - 1, verdict }
    }
}

/// What is kept of one queue.
#[derive(Debug, Default)]
pub(in crate::shard) struct Unwritten {
    /// The oldest first, which have the lowest numbers.
    pub(super) runs: VecDeque<Run>,
    pub bytes: u64,
    /// It is among the queues of [`AllUnwritten`].
    pub(super) listed: bool,
    pub(super) pace: Pace,
}

/// Whether the consumers of a queue settle what is kept of it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    pub(super) since_ms: u64,
    /// Messages that have been kept since then.
    pub(super) kept: u64,
    /// Those that were written because it was time.
    pub(super) late: u64,
    /// Those that consumers had accepted until then, kept or not.
    pub(super) acknowledged: u64,
    /// In the period before, less than half was settled in time, or nothing was kept.
    pub(super) was_late: bool,
    /// Nothing is kept.
    pub(super) slow: bool,
    /// Messages that consumers settle in [`CATCH_UP_MS`], as they did of late.
    pub(super) reach: u64,
}

impl Pace {
    /// Whether it is worth it to keep another message.
    pub(super) fn allows(&mut self, Brief { ahead, acknowledged, .. }: Brief, now_ms: u64) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
