//! How long syncs take.

use std::time::Duration;

/// The time that syncs take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTime {
    /// The time of each sync. Syncs overlap: none waits for another.
    pub each: Duration,
    /// When no sync proceeds.
    pub stalls: Option<Stalls>,
}

/// Regular stalls. The first one begins one period after the start of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    length: Duration,
    period: Duration,
}

impl Stalls {
    /// Returns stalls of this length, whose starts are one period apart. Returns `None` if syncs would never proceed, because a
    /// stall is not shorter than the period.
    pub fn new(length: Duration, period: Duration) -> Option<Self> {
        (length < period).then_some(Self { length, period })
    }
}

impl SyncTime {
    /// Returns when a sync ends that begins at `start`. Both are times since the start of the disk. A sync that begins later never ends
    /// earlier.
    pub fn end(&self, start: Duration) -> Duration {
        let Some(Stalls { length, period }) = self.stalls else { return start + self.each };
        let (mut now, mut rest) = (start, self.each);
        loop {
            let into_period = Duration::from_nanos((now.as_nanos() % period.as_nanos()) as u64);
            // No stall has begun within the first period.
            let stalled = if now < period { Duration::ZERO } else { length.saturating_sub(into_period) };
            let until_next = period - into_period - stalled;
            if rest <= until_next {
                return now + stalled + rest;
            }
            rest -= until_next;
            now += stalled + until_next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn each_sync_takes_the_same_time_without_stalls() {
        let time = SyncTime { each: ms(5), stalls: None };
        assert_eq!(time.end(ms(0)), ms(5));
        assert_eq!(time.end(ms(3)), ms(8));
    }

    #[test]
    fn a_sync_proceeds_only_between_stalls() {
        // Stalls: 100 to 130, 200 to 230, ...
        let time = SyncTime { each: ms(5), stalls: Stalls::new(ms(30), ms(100)) };
        for (start, end) in [(0, 5), (94, 99), (97, 132), (100, 135), (129, 135), (130, 135), (196, 231)] {
            assert_eq!(time.end(ms(start)), ms(end), "a sync that begins at {start} ms");
        }
        let long = SyncTime { each: ms(150), ..time };
        // It proceeds from 0 to 100 and from 130 to 180.
        assert_eq!(long.end(ms(0)), ms(180));
        let none = SyncTime { each: Duration::ZERO, ..time };
        assert_eq!((none.end(ms(99)), none.end(ms(101))), (ms(99), ms(130)));
    }

    #[test]
    fn a_later_sync_never_ends_earlier() {
        let time = SyncTime { each: ms(7), stalls: Stalls::new(ms(9), ms(20)) };
        let ends: Vec<_> = (0..200).map(|start| time.end(ms(start))).collect();
        assert!(ends.is_sorted());
    }

    #[test]
    fn stalls_must_end() {
        assert_eq!(Stalls::new(ms(20), ms(20)), None);
    }
}
