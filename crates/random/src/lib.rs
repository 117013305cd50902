//! Random numbers from a seed, for tests that must fail in the same way when repeated.
//!
//! The numbers for a seed never change, so that a seed in a comment or in a report stays useful. docs/decisions/0052 says why this is
//! not a crate of others.

/// A generator (SplitMix64) with its seed. Any seed will do, also the next number.
#[derive(Clone, Debug, Default)]
pub struct Random(pub u64);

impl Random {
    #[allow(clippy::should_implement_trait, reason = "a generator never ends, so it need not be an iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mix = self.0;
        mix = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mix ^ (mix >> 31)
    }

    /// Returns a number less than `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns an index of a list of this length; 0 if the list is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from `low` up to, but not including, `high`.
    ///
    /// # Panics
    /// `high` is less than `low`, in builds that check for overflow.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns true with this probability, in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items, or `None` if there are none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.index(from.len())).cloned()
    }
}
