//! Counters of the endpoints of one thread. The coordinator can read them at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that one thread writes. The alignment keeps two threads from sharing a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    pub sent: Counter,
    pub accepted: Counter,
    pub rejected: Counter,
    pub released: Counter,
    pub modified: Counter,
    pub received: Counter,
    /// The number of received messages that do not belong to this run.
    pub strange: Counter,
    /// The time at which the last message was received, in nanoseconds.
    pub last_received_ns: Counter,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        // Only one thread writes a counter, so a load and a store suffice.
        self.0.store(self.get() + n, Ordering::Relaxed);
    }

    pub(super) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub sent: u64,
    pub accepted: u64,
    pub rejected: u64,
    pub released: u64,
    pub modified: u64,
    pub received: u64,
    pub strange: u64,
    pub last_received_ns: u64,
}

impl Totals {
    pub(super) fn of(tallies: &[Tally]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            sent: sum.sent + tally.sent.get(),
            accepted: sum.accepted + tally.accepted.get(),
            rejected: sum.rejected + tally.rejected.get(),
            released: sum.released + tally.released.get(),
            modified: sum.modified + tally.modified.get(),
            received: sum.received + tally.received.get(),
            strange: sum.strange + tally.strange.get(),
            last_received_ns: sum.last_received_ns.max(tally.last_received_ns.get()),
        })
    }
}
