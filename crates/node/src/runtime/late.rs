//! Measures for how long the thread of a shard was awake, and finds out whether the shard was late: its thread has worked for long
//! without looking at its sockets, or it did not run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use broker::load::BusyTime;

use crate::shard::{CHORES_MS, Late};

/// A turn that takes longer is late. What clients notice of a shorter one is no more than a busy network.
const TURN_MAX: Duration = Duration::from_millis(100);

/// The longest time between the starts of two turns of a shard that is not late: it has chores in this interval.
const TURNS_APART_MAX: Duration = Duration::from_millis(CHORES_MS);

const NS_PER_MS: u64 = 1_000_000;

/// Marks the time since which the thread works.
const WORKS: u64 = 1;

/// What the thread of one shard did. The hooks of its runtime call this, too, and they must be usable from any thread, so
/// the fields are atomic. Only the thread of the shard writes them, so relaxed loads and stores are enough: a wake is one store, and a
/// sleep or a turn is two loads and two stores. All times are in nanoseconds since the start.
#[derive(Debug)]
pub(crate) struct Punctuality {
    started: Instant,
    /// When the thread began to work or to sleep, in half nanoseconds, and [`WORKS`] while it works.
    since: AtomicU64,
    /// The time in which the thread was awake until it last slept or a turn last began.
    busy: AtomicU64,
    /// The time of late stretches of work since the last turn began.
    late: AtomicU64,
    /// When the last turn began.
    turn: AtomicU64,
    /// Since when the log has answered nothing although something waits for it; 0 if nothing waits. Used in a cluster only.
    unlogged: AtomicU64,
}

impl Punctuality {
    pub(crate) fn start(now: Instant) -> Self {
        let zero = || AtomicU64::new(0);
        Self { started: now, since: zero(), busy: zero(), late: zero(), turn: zero(), unlogged: zero() }
    }

    fn ns(&self, at: Instant) -> u64 {
        at.duration_since(self.started).as_nanos() as u64
    }

    /// Called when the thread begins to work, because an event has woken it.
    pub(super) fn begin(&self, now: Instant) {
        self.since.store((self.ns(now) << 1) | WORKS, Relaxed);
    }

    /// Called when the thread has nothing to do and waits for events.
    pub(super) fn end(&self, now: Instant) {
        self.count(self.ns(now), false);
    }

    /// Counts the work up to now. `goes_on` says whether the thread works from now on.
    fn count(&self, now: u64, goes_on: bool) {
        let worked = now.saturating_sub(self.since.load(Relaxed) >> 1);
        self.since.store((now << 1) | (u64::from(goes_on) * WORKS), Relaxed);
        self.busy.store(self.busy.load(Relaxed) + worked, Relaxed);
        if worked > TURN_MAX.as_nanos() as u64 {
            self.late.store(self.late.load(Relaxed) + worked, Relaxed);
        }
    }

    /// Called when a turn begins. Returns how busy the thread was until now, and by how much the shard was late. A thread that never
    /// sleeps is counted here, too.
    pub(super) fn take(&self, now: Instant) -> (BusyTime, Option<Late>) {
        let now = self.ns(now);
        self.count(now, true);
        (BusyTime { busy_ns: self.busy.load(Relaxed), total_ns: now }, self.take_late(now))
    }

    /// Called at the end of a turn of a shard in a cluster. `waits` says that records wait for the log or its answer, `answered` that the
    /// log has answered since the last turn.
    pub(super) fn note_log(&self, waits: bool, answered: bool, now: Instant) {
        if !waits {
            self.unlogged.store(0, Relaxed);
        } else if answered || self.unlogged.load(Relaxed) == 0 {
            self.unlogged.store(self.ns(now).max(1), Relaxed);
        }
    }

    /// Returns for how long the thread has worked without a new turn, in milliseconds; 0 while it sleeps.
    pub(crate) fn unfinished_ms(&self, now: Instant) -> u64 {
        let since = self.since.load(Relaxed);
        let works = since & WORKS == WORKS;
        if works { self.ns(now).saturating_sub(since >> 1) / NS_PER_MS } else { 0 }
    }

    /// Returns for how long the log has answered nothing although something waits for it, in milliseconds; 0 if nothing waits.
    pub(crate) fn unlogged_ms(&self, now: Instant) -> u64 {
        match self.unlogged.load(Relaxed) {
            0 => 0,
            since => self.ns(now).saturating_sub(since) / NS_PER_MS,
        }
    }

    fn take_late(&self, now: u64) -> Option<Late> {
        let worked = self.late.load(Relaxed);
        let apart = now.saturating_sub(self.turn.load(Relaxed));
        self.turn.store(now, Relaxed);
        let missed = apart.saturating_sub(TURNS_APART_MAX.as_nanos() as u64);
        if worked > 0 {
            self.late.store(0, Relaxed);
            return Some(Late { ms: worked.max(missed) / NS_PER_MS, has_worked: true });
        }
        let has_missed = missed > TURN_MAX.as_nanos() as u64;
        has_missed.then_some(Late { ms: missed / NS_PER_MS, has_worked: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ages_are_those_of_the_oldest() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let shard = Punctuality::start(start);
        assert_eq!((shard.unfinished_ms(at(500)), shard.unlogged_ms(at(500))), (0, 0));
        shard.begin(at(1_000));
        assert_eq!(shard.unfinished_ms(at(3_000)), 2_000);
        shard.take(at(3_000));
        assert_eq!(shard.unfinished_ms(at(3_500)), 500, "a turn has begun");
        shard.note_log(true, false, at(3_000));
        shard.note_log(true, false, at(3_600));
        assert_eq!(shard.unlogged_ms(at(4_000)), 1_000);
        shard.note_log(true, true, at(4_000));
        assert_eq!(shard.unlogged_ms(at(4_100)), 100, "the log works, and there is more for it");
        shard.note_log(false, true, at(4_200));
        shard.end(at(4_200));
        assert_eq!((shard.unfinished_ms(at(9_000)), shard.unlogged_ms(at(9_000))), (0, 0));
    }

    #[test]
    fn long_work_and_missed_turns_are_late() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let shard = Punctuality::start(start);
        let late = |now| shard.take(now).1;
        let worked = |ms| Some(Late { ms, has_worked: true });
        shard.end(at(5));
        shard.begin(at(900));
        assert_eq!(late(at(1_000)), None, "100 ms are allowed, and so is a pause");
        shard.end(at(1_050));
        shard.begin(at(1_500));
        shard.end(at(1_700));
        shard.begin(at(1_800));
        assert_eq!(late(at(1_801)), worked(200), "of the work before the pause");
        assert_eq!(late(at(1_901)), None, "and once");
        assert_eq!(late(at(2_101)), worked(200), "a turn follows at once");
        shard.end(at(2_102));
        shard.begin(at(3_150));
        assert_eq!(late(at(3_151)), None);
        shard.end(at(3_152));
        shard.begin(at(9_151));
        let missed = Some(Late { ms: 5_000, has_worked: false });
        assert_eq!(late(at(9_151)), missed, "the process was stopped");
        shard.end(at(19_151));
        assert_eq!(late(at(19_152)), worked(10_000));
    }

    #[test]
    fn the_time_awake_is_counted_also_of_a_thread_that_never_sleeps() {
        let start = Instant::now();
        let at = |us: u64| start + Duration::from_micros(us);
        let busy =
            |busy_us: u64, total_us: u64| BusyTime { busy_ns: busy_us * 1000, total_ns: total_us * 1000 };
        let shard = Punctuality::start(start);
        shard.end(at(10));
        shard.begin(at(40));
        assert_eq!(shard.take(at(45)).0, busy(15, 45), "the sleep does not count");
        shard.end(at(60));
        shard.begin(at(99));
        shard.end(at(100));
        shard.begin(at(1_000));
        assert_eq!(shard.take(at(1_000)).0, busy(31, 1_000));
        for turn in 1..=3 {
            assert_eq!(shard.take(at(1_000 + turn * 500)).0, busy(31 + turn * 500, 1_000 + turn * 500));
        }
    }
}
