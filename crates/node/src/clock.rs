//! The clock of the broker.

use std::time::{Duration, Instant, SystemTime};

/// A clock in milliseconds since the epoch that never goes back while the process lives.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    /// The time since the epoch at `started`.
    since: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let started = Instant::now();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::started(started, since)
    }

    /// Returns the clock of a process that starts at an instant at which the system's clock shows this time since the epoch.
    pub fn started(started: Instant, since: Duration) -> Self {
        Self { started, since }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.ms_at(Instant::now())
    }

    /// Returns what this clock shows at an instant.
    pub fn ms_at(&self, at: Instant) -> u64 {
        self.after(at.duration_since(self.started))
    }

    pub(crate) fn uptime_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Returns the time since the epoch, in milliseconds, at `elapsed` after the start. It is rounded only
    /// once: a message that a client publishes after reading the system's clock must not appear to be older
    /// than that reading.
    fn after(&self, elapsed: Duration) -> u64 {
        (self.since + elapsed).as_millis() as u64
    }

    /// Returns what this clock shows when the system's clock shows `system_ms`, or up to 2 ms more, but never less. The two
    /// differ if somebody has set the system's clock after the start.
    pub(crate) fn when_system_shows(&self, system_ms: u64) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let left_ms = system_ms.saturating_sub(now.as_millis() as u64);
        // Both clocks are read in whole milliseconds, so what is left may be up to 1 ms longer.
        self.now_ms().saturating_add(left_ms).saturating_add(1)
    }

    /// Returns the instant at which this clock shows `at_ms`.
    pub(crate) fn instant(&self, at_ms: u64) -> Instant {
        self.started + Duration::from_millis(at_ms).saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_rounds_once() {
        let clock = Clock { started: Instant::now(), since: Duration::from_micros(5_900) };
        assert_eq!(clock.after(Duration::from_micros(100)), 6);
        assert_eq!(clock.after(Duration::from_micros(100_300)), 106);
        assert_eq!(clock.instant(6) - clock.started, Duration::from_micros(100));
        assert_eq!(clock.instant(3), clock.started);
    }

    /// Whatever the clocks show, what is due by the one is not due before its time by the other.
    #[test]
    fn a_time_of_the_system_is_not_early_by_the_own_clock() {
        let started = Instant::now();
        for since_ms in [0, 1_000_000, 4_000_000_000_000] {
            let clock = Clock { started, since: Duration::from_micros(since_ms * 1000 + 999) };
            let system =
                || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
            let expires_ms = system() / 1000 + 5_000;
            let due_ms = clock.when_system_shows(expires_ms);
            // The own clock is read first: from then on, both go on equally.
            let left_ms = due_ms - clock.now_ms();
            assert!(system() + left_ms * 1000 >= expires_ms * 1000, "{left_ms} ms are left");
        }
        assert_eq!(Clock::start().when_system_shows(u64::MAX), u64::MAX);
    }
}
