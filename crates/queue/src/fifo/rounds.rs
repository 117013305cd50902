//! Messages that go round: consumers give them back, and the queue delivers them again at once.

use super::entry::Entry;
use super::settle::Returned;
use super::{Counts, Fifo};
use crate::Lately;

/// The returns of messages that had come back before, since a message last left the queue: acknowledged, rejected, expired, or removed by
/// a limit.
///
/// A return of a message that never came back before does not count: a client that stops returns all that it holds, once.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    returns: Lately,
    /// The number of messages that had left when they were counted. If it is another one now, they count no more.
    left: u64,
}

impl Rounds {
    pub(super) const NONE: Self = Self { returns: Lately::NONE, left: 0 };
}

impl Default for Rounds {
    fn default() -> Self {
        Self::NONE
    }
}

impl Fifo {
    /// See [`Report::returned_again`](crate::Report::returned_again).
    pub(super) fn returned_again(&self) -> Lately {
        let Rounds { returns, left } = self.seldom.rounds;
        if left == self.left() { returns } else { Lately::NONE }
    }

    /// Counts deliveries that a consumer gives back. They are not marked yet.
    pub(super) fn count_rounds(&mut self, entries: &[Entry], returned: &Returned, now_ms: u64) {
        let rounds = self.rounds(entries, returned, now_ms);
        if rounds > 0 {
            let left = self.left();
            let counted = &mut self.seldom.make().rounds;
            if counted.left != left {
                *counted = Rounds { left, ..Rounds::NONE };
            }
            counted.returns.count_all(rounds, now_ms);
        }
    }

    /// Returns a number that grows with each message that leaves the queue, except those after which [`Fifo::end_rounds`] is called.
    fn left(&self) -> u64 {
        let Counts { acknowledged, expired, .. } = self.counts;
        acknowledged.wrapping_add(expired).wrapping_add(self.seldom.over_length)
    }

    /// Called when a consumer has rejected a message, or a message has failed too often.
    pub(super) fn end_rounds(&mut self) {
        if let Some(seldom) = self.seldom.made() {
            seldom.rounds = Rounds::NONE;
        }
    }

    /// Returns how many of the deliveries come back again, and are delivered again at once, without an end. A delivery limit ends
    /// those that it counts as failures, and a delay makes them few.
    fn rounds(&self, entries: &[Entry], returned: &Returned, now_ms: u64) -> u64 {
        let is_limited = self.config.quorum.is_some_and(|quorum| quorum.delivery_limit().is_some());
        if returned.failed && is_limited {
            return 0;
        }
        let delay = self.delay(returned, now_ms);
        let is_delayed = |entry: &Entry| {
            let failures = entry.delivery_count.saturating_add(u32::from(returned.failed));
            delay.as_ref().is_some_and(|delay| delay.due_ms(failures).is_some())
        };
        entries.iter().filter(|entry| entry.redelivered && !is_delayed(entry)).count() as u64
    }
}
