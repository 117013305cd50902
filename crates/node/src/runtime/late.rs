//! Finds out whether a shard was late: its thread has worked for long without looking at its sockets, or it did not run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::shard::{CHORES_MS, Late};

/// A turn that takes longer is late. What clients notice of a shorter one is no more than a busy network.
const TURN_MAX: Duration = Duration::from_millis(100);

/// The longest time between the starts of two turns of a shard that is not late: it has chores in this interval.
const TURNS_APART_MAX: Duration = Duration::from_millis(CHORES_MS);

/// What the thread of one shard did. The hooks of its runtime call this, too, and they must be usable from any thread, so
/// the fields are atomic. All times are in microseconds since the start.
#[derive(Debug)]
pub(super) struct Punctuality {
    started: Instant,
    /// When the thread began to work.
    since: AtomicU64,
    /// The time of late stretches of work since the last turn began.
    late: AtomicU64,
    /// When the last turn began.
    turn: AtomicU64,
}

impl Punctuality {
    pub fn start(now: Instant) -> Self {
        Self { started: now, since: AtomicU64::new(0), late: AtomicU64::new(0), turn: AtomicU64::new(0) }
    }

    fn us(&self, at: Instant) -> u64 {
        at.duration_since(self.started).as_micros() as u64
    }

    /// Called when the thread begins to work, because an event has woken it.
    pub fn begin(&self, now: Instant) {
        self.since.store(self.us(now), Relaxed);
    }

    /// Called when the thread has nothing to do and waits for events.
    pub fn end(&self, now: Instant) {
        let now = self.us(now);
        let worked = now.saturating_sub(self.since.swap(now, Relaxed));
        if worked > TURN_MAX.as_micros() as u64 {
            self.late.store(self.late.load(Relaxed) + worked, Relaxed);
        }
    }

    /// Called when a turn begins. Returns by how much the shard was late.
    pub fn take_late(&self, now: Instant) -> Option<Late> {
        self.end(now);
        let now = self.us(now);
        let worked = self.late.swap(0, Relaxed);
        let apart = now.saturating_sub(self.turn.swap(now, Relaxed));
        let missed = apart.saturating_sub(TURNS_APART_MAX.as_micros() as u64);
        if worked > 0 {
            return Some(Late { ms: worked.max(missed) / 1000, has_worked: true });
        }
        (missed > TURN_MAX.as_micros() as u64).then_some(Late { ms: missed / 1000, has_worked: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_and_missed_turns_are_late() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let shard = Punctuality::start(start);
        let worked = |ms| Some(Late { ms, has_worked: true });
        shard.end(at(5));
        shard.begin(at(900));
        assert_eq!(shard.take_late(at(1_000)), None, "100 ms are allowed, and so is a pause");
        shard.end(at(1_050));
        shard.begin(at(1_500));
        shard.end(at(1_700));
        shard.begin(at(1_800));
        assert_eq!(shard.take_late(at(1_801)), worked(200), "of the work before the pause");
        assert_eq!(shard.take_late(at(1_901)), None, "and once");
        assert_eq!(shard.take_late(at(2_101)), worked(200), "a turn follows at once");
        shard.end(at(2_102));
        shard.begin(at(3_150));
        assert_eq!(shard.take_late(at(3_151)), None);
        shard.end(at(3_152));
        shard.begin(at(9_151));
        let missed = Some(Late { ms: 5_000, has_worked: false });
        assert_eq!(shard.take_late(at(9_151)), missed, "the process was stopped");
        shard.end(at(19_151));
        assert_eq!(shard.take_late(at(19_152)), worked(10_000));
    }
}
