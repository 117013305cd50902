//! What is known of the timeout of one consumer. [`super::timeouts`] acts on it.

use std::collections::VecDeque;

use crate::ConsumerTimeout;

/// What a consumer of a quorum queue is given to settle its deliveries. Consumers of other queues have none.
#[derive(Debug, Default)]
pub(super) struct Timeout {
    pub limits: ConsumerTimeout,
    /// At most one for each check of a timeout, and one more.
    pub marks: VecDeque<Mark>,
    /// The number of deliveries that were taken back so far.
    pub taken_back: u64,
    /// True from when deliveries were taken back until the consumer has settled them, too.
    pub paused: bool,
}

/// The deliveries below `next` were sent before `at_ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub next: u64,
    pub at_ms: u64,
}

impl Timeout {
    pub fn new(limits: ConsumerTimeout) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the timeout in milliseconds. `None` means that there is none.
    pub fn after_ms(&self, queue_ms: Option<u64>) -> Option<u64> {
        self.limits.own_ms.or(queue_ms).or(self.limits.default_ms)
    }
}
