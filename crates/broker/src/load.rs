//! How busy a shard is: for how long its thread was awake, and whether that leaves room for more work.

use std::collections::VecDeque;

/// For how long the thread of a shard was awake. Both times only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyTime {
    /// The time in which the thread was awake since it started, in nanoseconds. It includes the time in which the thread
    /// waited for a core, or for a call of the system to return.
    pub busy_ns: u64,
    /// The time since the thread started, in nanoseconds.
    pub total_ns: u64,
}

impl BusyTime {
    /// Returns in which part of the time since `before` the thread was awake, from 0 to 100 percent.
    fn percent_since(self, before: Self) -> u64 {
        let busy = self.busy_ns.saturating_sub(before.busy_ns);
        let total = self.total_ns.saturating_sub(before.total_ns).max(1);
        (u128::from(busy) * 100 / u128::from(total)).min(100) as u64
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// The load is measured over this time. A burst of a second is not taken for a load that lasts, and the answer is at most a few
/// seconds old.
const WINDOW_NS: u64 = 5 * SECOND_NS;

/// A shard is at its limit from this part of the window on, in percent. It is not 100, because a shard that never has enough time still
/// sleeps for moments: while the clients answer a batch, nothing is left to do.
pub const LIMIT_PERCENT: u64 = 95;

/// A shard stays at its limit until it is busy for less than this part of the window, in percent. At the limit, the load changes
/// by a few percent from second to second. Without the gap, each question would get another answer.
pub const RELIEF_PERCENT: u64 = 90;

/// The load of a shard over the last five seconds. It is measured anew each second.
#[derive(Clone, Debug, Default)]
pub struct Load {
    now: BusyTime,
    /// What was measured each second, the oldest first. The first one is as old as the window, if there is one as old as that.
    /// There are at most seven.
    marks: VecDeque<BusyTime>,
    percent: u64,
    is_at_limit: bool,
}

impl Load {
    /// Called in each turn with what was measured so far.
    pub fn note(&mut self, now: BusyTime) {
        self.now = now;
        if self.marks.back().is_none_or(|last| now.total_ns >= last.total_ns.saturating_add(SECOND_NS)) {
            self.mark();
        }
    }

    fn mark(&mut self) {
        let now = self.now;
        self.marks.push_back(now);
        let covers = |mark: &BusyTime| mark.total_ns.saturating_add(WINDOW_NS) <= now.total_ns;
        while self.marks.get(1).is_some_and(covers) {
            self.marks.pop_front();
        }
        // A shard that has just started is not judged yet.
        let Some(begin) = self.marks.front().filter(|mark| covers(mark)) else { return };
        self.percent = now.percent_since(*begin);
        let limit = if self.is_at_limit { RELIEF_PERCENT } else { LIMIT_PERCENT };
        self.is_at_limit = self.percent >= limit;
    }

    /// Returns what was measured so far.
    pub fn busy_time(&self) -> BusyTime {
        self.now
    }

    /// Returns for which part of the last five seconds the shard was busy, in percent. During the first seconds it is 0.
    pub fn percent(&self) -> u64 {
        self.percent
    }

    /// Returns true if the shard has no time left for more work. See [`LIMIT_PERCENT`] and [`RELIEF_PERCENT`].
    pub fn is_at_limit(&self) -> bool {
        self.is_at_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes time in steps of 10 ms. In each step, the shard is busy for this part.
    fn pass(load: &mut Load, ms: u64, busy_percent: u64) {
        for _ in 0..ms / 10 {
            let BusyTime { busy_ns, total_ns } = load.busy_time();
            let (busy_ns, total_ns) = (busy_ns + busy_percent * 100_000, total_ns + 10_000_000);
            load.note(BusyTime { busy_ns, total_ns });
        }
    }

    fn shown(load: &Load) -> (u64, bool) {
        (load.percent(), load.is_at_limit())
    }

    #[test]
    fn a_shard_is_at_its_limit_after_five_busy_seconds() {
        let mut load = Load::default();
        pass(&mut load, 5_000, 100);
        assert_eq!(shown(&load), (0, false), "there is no window yet");
        pass(&mut load, 10, 100);
        assert_eq!(shown(&load), (100, true));
        pass(&mut load, 1_000, 0);
        assert_eq!(shown(&load), (80, false));
        pass(&mut load, 5_000, 0);
        assert_eq!(shown(&load), (0, false));
    }

    #[test]
    fn a_burst_is_not_the_limit() {
        let mut load = Load::default();
        pass(&mut load, 10_000, 20);
        pass(&mut load, 3_000, 100);
        assert_eq!(
            shown(&load),
            (52, false),
            "two of these seconds are in the last window that was measured"
        );
    }

    #[test]
    fn the_answer_does_not_change_with_every_second() {
        let mut load = Load::default();
        let mut at_limit = |percent| {
            pass(&mut load, 6_000, percent);
            load.is_at_limit()
        };
        let loads = [94, 95, 94, 90, 89, 90, 94, 95];
        assert_eq!(loads.map(&mut at_limit), [false, true, true, true, false, false, false, true]);
    }

    #[test]
    fn marks_are_few_and_a_pause_needs_none() {
        let mut load = Load::default();
        pass(&mut load, 60_000, 97);
        assert!(load.is_at_limit() && load.marks.len() <= 7, "{}", load.marks.len());
        // The thread slept for a minute.
        let BusyTime { busy_ns, total_ns } = load.busy_time();
        load.note(BusyTime { busy_ns, total_ns: total_ns + 60 * SECOND_NS });
        assert_eq!(shown(&load), (1, false), "it was busy just before");
        assert!(load.marks.len() <= 2, "{}", load.marks.len());
    }
}
