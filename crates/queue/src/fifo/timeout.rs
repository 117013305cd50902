//! The consumer timeout: how long one consumer holds its deliveries.
//!
//! A delivery does not record when it was sent. Instead, the queue looks at its consumers from time to time and marks how
//! far the numbers have come. So a delivery is taken back after the timeout, but at most an eighth of it later.

use std::collections::VecDeque;

use ranges::{Ranges, Span};

use super::unsettled::Unsettled;
use crate::ConsumerTimeout;

/// The number of checks during one timeout. With more of them, deliveries are taken back sooner after their timeout.
pub(super) const CHECKS: u64 = 8;

/// What a consumer of a quorum queue is given to settle its deliveries. Consumers of other queues have none.
#[derive(Debug, Default)]
pub(super) struct Timeout {
    limits: ConsumerTimeout,
    /// At most one for each check of a timeout, and one more.
    marks: VecDeque<Mark>,
    /// The number of deliveries that were taken back so far.
    pub taken_back: u64,
    /// True from when deliveries were taken back until the consumer has settled them, too.
    pub paused: bool,
}

/// The deliveries below `next` were sent before `at_ms`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    next: u64,
    at_ms: u64,
}

impl Timeout {
    pub(super) fn new(limits: ConsumerTimeout) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the timeout in milliseconds. `None` means that there is none.
    pub(super) fn after_ms(&self, queue_ms: Option<u64>) -> Option<u64> {
        self.limits.own_ms.or(queue_ms).or(self.limits.default_ms)
    }

    /// Returns when the oldest mark is as old as the timeout.
    pub(super) fn due_ms(&self, after_ms: u64) -> Option<u64> {
        self.marks.front().map(|mark| mark.at_ms.saturating_add(after_ms))
    }

    /// Marks the deliveries so far, and returns those of the unsettled ones that are held for too long. `after_ms` is the
    /// timeout.
    pub(super) fn check(&mut self, unsettled: &Unsettled, after_ms: u64, now_ms: u64) -> Vec<Span> {
        let mut end = 0;
        while self.due_ms(after_ms).is_some_and(|due_ms| due_ms <= now_ms)
            && let Some(mark) = self.marks.pop_front()
        {
            end = mark.next;
        }
        let mut overdue: Vec<Span> = Vec::new();
        if end > 0 {
            for number in unsettled.numbers(0, end - 1) {
                overdue.push_joined(Span { first: number, last: number });
            }
        }
        let next = unsettled.next_number();
        let is_needed = match self.marks.back() {
            Some(mark) => next > mark.next && mark.at_ms.saturating_add(after_ms / CHECKS) <= now_ms,
            None => next > end,
        };
        if is_needed && !unsettled.is_empty() {
            self.marks.push_back(Mark { next, at_ms: now_ms });
        }
        overdue
    }
}
