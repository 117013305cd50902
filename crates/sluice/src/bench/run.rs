//! A run with messages: what the coordinator and all threads share.

use std::sync::OnceLock;

use super::Bench;
use super::plan::Plan;
use super::tally::{Tally, Totals};

/// The state that the coordinator and all threads share.
pub(super) struct Run {
    pub bench: Bench,
    pub plan: Plan,
    /// The counters of the endpoints, one tally per thread.
    pub tallies: Vec<Tally>,
    /// When the run began, in nanoseconds. It is set before anybody sends.
    pub start_ns: OnceLock<u64>,
}

impl Run {
    pub(super) fn new(bench: Bench, plan: Plan) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(plan.senders.len().max(plan.receivers.len()));
        let tallies = std::iter::repeat_with(Tally::default).take(threads).collect();
        Self { bench, plan, tallies, start_ns: OnceLock::new() }
    }

    /// The number of messages that receivers should get.
    pub(super) fn expected(&self, totals: &Totals) -> u64 {
        let taken = if self.bench.settled { totals.sent } else { totals.accepted };
        taken * self.plan.copies
    }
}
