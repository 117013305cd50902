//! Chance from a seed, and a tally of what it brought.

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub received: u64,
    /// Deliveries that needed several transfers.
    pub split: u64,
    pub settled: u64,
    pub aborted: u64,
    /// Settled deliveries without credit.
    pub anyway: u64,
    /// Deliveries that had to wait for window or socket.
    pub starved: u64,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.received += other.received;
        self.split += other.split;
        self.settled += other.settled;
        self.aborted += other.aborted;
        self.anyway += other.anyway;
        self.starved += other.starved;
    }
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len() as u64) as usize])
    }
}
