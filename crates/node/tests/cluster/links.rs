//! The connections between simulated nodes.

use std::collections::VecDeque;

use node::shard::PeerMail;
use nodes::SILENCE_MS;
use wal_testing::Random;

/// The longest time between two tries to open a connection.
const REDIAL_MS: u64 = 5000;

/// What travels over a connection.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    /// Of the machine that knows which nodes are alive.
    Word(Vec<u8>),
    /// Of a shard.
    Mail(PeerMail),
}

/// Which connection from one node to another: they have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Heartbeats,
    Data,
}

/// A connection in one direction. The network below it is the same for both kinds.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub is_open: bool,
    /// True if the receiver has ended, and the sender has not heard of it.
    pub is_reset: bool,
    /// When the sender dials next.
    pub dial_ms: u64,
    in_flight: VecDeque<(u64, Sent)>,
}

/// The network from one node to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    /// True if everything is dropped in this direction. What was sent is sent again, and arrives if the cut ends before the connection does.
    pub is_cut: bool,
    /// Everything takes this long.
    pub delay_ms: u64,
}

impl Pipe {
    pub(super) fn send(&mut self, now_ms: u64, network: Network, sent: Sent, random: &mut Random) {
        if !self.is_open || self.is_reset {
            return;
        }
        let at_ms = now_ms + network.delay_ms + random.below(3);
        // In order within a connection.
        let at_ms = self.in_flight.back().map_or(at_ms, |(last, _)| at_ms.max(*last));
        self.in_flight.push_back((at_ms, sent));
    }

    /// Takes the next thing that has arrived.
    pub(super) fn take(&mut self, now_ms: u64) -> Option<Sent> {
        self.in_flight.pop_front_if(|(at_ms, _)| *at_ms <= now_ms).map(|(_, sent)| sent)
    }

    /// Returns true if the sender gives the connection up: nothing of what it has sent has arrived for long.
    pub(super) fn is_silent(&self, now_ms: u64) -> bool {
        self.in_flight.front().is_some_and(|(at_ms, _)| at_ms + SILENCE_MS <= now_ms)
    }

    pub(super) fn close(&mut self, now_ms: u64, random: &mut Random) {
        *self = Self { dial_ms: now_ms + 1 + random.below(REDIAL_MS), ..Self::default() };
    }

    /// Called when the process of the receiver has ended. Its system tells the sender, or the system of its next start does.
    pub(super) fn reset(&mut self) {
        self.in_flight.clear();
        self.is_reset = self.is_open;
    }
}
