//! Counts of what happened, and a model of each link.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub received: u64,
    /// Deliveries that needed several transfers.
    pub split: u64,
    pub settled: u64,
    pub aborted: u64,
    /// Settled deliveries sent without credit.
    pub anyway: u64,
    /// Deliveries that had to wait for the window or the socket.
    pub starved: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.received += other.received;
        self.split += other.split;
        self.settled += other.settled;
        self.aborted += other.aborted;
        self.anyway += other.anyway;
        self.starved += other.starved;
    }
}

/// The true state of a link, independent of its two ends.
pub(crate) struct Model {
    /// The side that sends.
    pub sender: usize,
    /// Messages sent and not yet received.
    pub expected: VecDeque<Bytes>,
    pub sent: u64,
    /// Cookies of deliveries sent unsettled and not settled since.
    pub outstanding: HashSet<u64>,
    /// The sender's delivery-count may not exceed this. It counts from the sender's start.
    pub limit: u32,
    pub initial: u32,
    /// The sender's credit when it was last inspected.
    pub credit: u32,
    pub closed: bool,
}
