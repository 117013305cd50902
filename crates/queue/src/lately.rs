//! Counts what happens seldom: how often at all, and how often within the last minute.

/// The time of one part, in milliseconds, and the number of parts. Together they are a minute: an operator who asks what
/// happens now has not forgotten what happened before it.
const PART_MS: u64 = 10_000;
const PARTS: usize = 6;

/// A count of events, and of those of the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lately {
    total: u64,
    /// The number of the part in which the last event happened, counted from the epoch.
    newest: u64,
    /// The events of each part. A part is at its number modulo [`PARTS`].
    parts: [u32; PARTS],
}

impl Lately {
    pub const NONE: Self = Self { total: 0, newest: 0, parts: [0; PARTS] };

    /// Counts an event. `now_ms` counts from the epoch.
    pub fn count(&mut self, now_ms: u64) {
        self.count_all(1, now_ms);
    }

    /// Counts so many events. `now_ms` counts from the epoch.
    pub fn count_all(&mut self, events: u64, now_ms: u64) {
        let now = now_ms / PART_MS;
        // If the clock was set back, the event counts in the newest part.
        let now = now.max(self.newest);
        // If more parts have passed than there are, this clears all.
        for part in self.newest + 1..=now.min(self.newest + PARTS as u64) {
            self.parts[place(part)] = 0;
        }
        self.newest = now;
        let part = &mut self.parts[place(now)];
        *part = part.saturating_add(u32::try_from(events).unwrap_or(u32::MAX));
        self.total += events;
    }

    /// The length of [`Lately::to_bytes`].
    pub const BYTES: usize = 16 + 4 * PARTS;

    /// Encodes the count for another node: all events, the newest part, and the events of each part. The numbers are little-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let Self { total, newest, parts } = self;
        let mut bytes = [0; Self::BYTES];
        let numbers = total.to_le_bytes().into_iter().chain(newest.to_le_bytes());
        let numbers = numbers.chain(parts.iter().flat_map(|part| part.to_le_bytes()));
        bytes.iter_mut().zip(numbers).for_each(|(place, byte)| *place = byte);
        bytes
    }

    /// Decodes [`Lately::to_bytes`]. Returns `None` for bytes that no count has.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (total, rest) = bytes.split_first_chunk()?;
        let (newest, rest) = rest.split_first_chunk()?;
        let (total, newest) = (u64::from_le_bytes(*total), u64::from_le_bytes(*newest));
        let mut parts = [0; PARTS];
        for (part, encoded) in parts.iter_mut().zip(rest.as_chunks().0) {
            *part = u32::from_le_bytes(*encoded);
        }
        let within: u64 = parts.iter().map(|part| u64::from(*part)).sum();
        (within <= total && newest <= u64::MAX / PART_MS).then_some(Self { total, newest, parts })
    }

    /// Returns the number of all events.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of events in the last 50 to 60 seconds.
    pub fn within_a_minute(&self, now_ms: u64) -> u64 {
        let oldest = (now_ms / PART_MS).saturating_sub(PARTS as u64 - 1);
        let parts = self.newest.saturating_sub(PARTS as u64 - 1).max(oldest)..=self.newest;
        parts.map(|part| u64::from(self.parts[place(part)])).sum()
    }
}

fn place(part: u64) -> usize {
    (part % PARTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A model that keeps the time of each event counts the same.
        #[test]
        fn the_last_minute_is_counted(steps in prop::collection::vec((0..40_000_u64, 0..4_u8), 0..60), start in 0..200_000_u64) {
            let (mut lately, mut times, mut now) = (Lately::NONE, Vec::new(), start);
            for (passed, events) in steps {
                now += passed;
                if events > 0 {
                    lately.count(now);
                    lately.count_all(u64::from(events) - 1, now);
                }
                times.extend((0..events).map(|_| now));
                let oldest = (now / PART_MS).saturating_sub(5) * PART_MS;
                let expected = times.iter().filter(|at| **at >= oldest).count() as u64;
                prop_assert_eq!(lately.within_a_minute(now), expected);
                prop_assert_eq!(lately.total(), times.len() as u64);
                prop_assert_eq!(lately.within_a_minute(now + 120_000), 0);
                prop_assert_eq!(Lately::from_bytes(&lately.to_bytes()), Some(lately));
            }
        }
    }

    #[test]
    fn bytes_that_no_count_has_are_refused() {
        let with = |at: usize, byte: u8| {
            let mut lately = Lately::NONE;
            lately.count_all(7, 20_000);
            let mut bytes = lately.to_bytes();
            bytes[at] = byte;
            Lately::from_bytes(&bytes).map(|lately| lately.total())
        };
        assert_eq!((with(0, 7), with(0, 6)), (Some(7), None), "fewer events than within a minute");
        assert_eq!(with(15, 1), None, "no clock shows this time");
        assert_eq!((with(24, 7), with(24, 8)), (Some(7), None), "more events in a part than at all");
    }

    #[test]
    fn a_clock_that_is_set_back_does_no_harm() {
        let mut lately = Lately::default();
        lately.count(100_000);
        lately.count(10_000);
        assert_eq!((lately.total(), lately.within_a_minute(100_000)), (2, 2));
        assert_eq!(lately.within_a_minute(10_000), 2);
        assert_eq!(lately.within_a_minute(u64::MAX), 0);
    }
}
