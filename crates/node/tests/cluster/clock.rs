//! The clocks of a simulated machine. The product reads them as it reads those of a system.

use std::time::{Duration, Instant};

use wal_testing::Random;

/// What a clock that is right shows at the time 0 of the world, in milliseconds since the epoch.
const RIGHT_MS: u64 = 1_700_000_000_000;

/// The most by which a clock is too fast or too slow, in millionths.
const DRIFT_PPM: u64 = 500;

/// The most by which somebody sets a clock forward or back.
const JUMP_MAX_MS: u64 = 3_600_000;

/// The clocks of a machine: one that shows the time, and one that nobody sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimClock {
    began: Instant,
    drift_ppm: i64,
    /// The clock that shows the time is ahead of the other one by this much.
    ahead_ms: u64,
}

impl SimClock {
    /// Returns a clock that is right.
    pub(super) fn right() -> Self {
        Self { began: Instant::now(), drift_ppm: 0, ahead_ms: RIGHT_MS }
    }

    /// Returns a clock that is too fast or too slow, and shows any time.
    pub(super) fn drifting(random: &mut Random) -> Self {
        let drift_ppm = random.below(2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64;
        Self { began: Instant::now(), drift_ppm, ahead_ms: RIGHT_MS + random.below(5000) }
    }

    /// Returns the time since the machine has started. The time of the world is `now_ms`.
    fn passed(&self, now_ms: u64) -> Duration {
        let drift_us = now_ms as i64 * self.drift_ppm / 1000;
        Duration::from_micros((now_ms * 1000).saturating_add_signed(drift_us))
    }

    /// Returns what the monotonic clock shows.
    pub(super) fn instant(&self, now_ms: u64) -> Instant {
        self.began + self.passed(now_ms)
    }

    /// Returns what the clock shows that can be set, as a time since the epoch.
    pub(super) fn system(&self, now_ms: u64) -> Duration {
        self.passed(now_ms) + Duration::from_millis(self.ahead_ms)
    }

    /// Somebody sets the clock right, or to a wrong time.
    pub(super) fn jump(&mut self, random: &mut Random) {
        self.ahead_ms = match random.below(3) {
            0 => RIGHT_MS,
            1 => self.ahead_ms + random.between(1000, JUMP_MAX_MS),
            _ => self.ahead_ms - random.between(1000, JUMP_MAX_MS),
        };
    }

    /// Returns how far the clock is ahead of that of another machine.
    pub(super) fn ahead_of(&self, other: &Self, now_ms: u64) -> i64 {
        self.system(now_ms).as_millis() as i64 - other.system(now_ms).as_millis() as i64
    }

    /// Sets the clock forward by an hour, or back.
    pub(super) fn jump_an_hour(&mut self, forward: bool) {
        self.ahead_ms = match forward {
            true => self.ahead_ms + JUMP_MAX_MS,
            false => self.ahead_ms - JUMP_MAX_MS,
        };
    }
}
