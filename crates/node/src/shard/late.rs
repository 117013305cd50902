//! A shard that was late: its clients do not pay for that (docs/operations/size.md, Late turns).

use catalog::access::Protocol;
use catalog::categories::PEER;

use super::Shard;

/// The line of the log about a turn that took long begins with this, and the next word is a number of milliseconds.
pub const LATE_TURN: &str = "a turn took";

/// Like [`LATE_TURN`], if the thread of the shard did not run.
pub const LATE_SHARD: &str = "a shard did not run for";

/// By how much a shard was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The time for which the shard did not look at its sockets, in milliseconds.
    pub ms: u64,
    /// True if its thread has worked meanwhile. False if it did not run.
    pub has_worked: bool,
}

/// What a shard has done up to a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    received: u64,
    sent: u64,
    routing_steps: u64,
    changes: u64,
}

impl Shard {
    /// Called at the start of each turn, before [`Shard::handle_timeout`]. `late` says that the one before was late.
    pub fn begin_turn(&mut self, late: Option<Late>) {
        let now = self.done_so_far();
        let before = std::mem::replace(&mut self.done, now);
        if let Some(late) = late {
            self.handle_late(late, before);
        }
    }

    fn done_so_far(&self) -> Done {
        let over = || Protocol::ALL.into_iter().map(|protocol| self.counters.over(protocol));
        Done {
            received: over().map(|traffic| traffic.received).sum(),
            sent: over().map(|traffic| traffic.deliveries().sent()).sum(),
            routing_steps: self.counters.routing_steps,
            changes: self.metadata.catalog().version(),
        }
    }

    fn handle_late(&mut self, late: Late, before: Done) {
        self.counters.late_turns += 1;
        self.connections.forgive_lateness(late.ms, self.here.now_ms);
        let (shard, ms) = (self.here.id, late.ms);
        if !late.has_worked {
            tracing::warn!(
                name: PEER, shard, late_ms = ms,
                "{LATE_SHARD} {ms} ms: the machine is overloaded, or the process was stopped; the deadlines of its connections \
                 moved by as much"
            );
            return;
        }
        let done = self.done;
        tracing::warn!(
            name: PEER, shard, late_ms = ms,
            // A message that is held until somebody has said whether it is permitted is counted again later.
            received = done.received.saturating_sub(before.received),
            sent = done.sent - before.sent,
            routing_steps = done.routing_steps - before.routing_steps,
            changes = done.changes - before.changes,
            "{LATE_TURN} {ms} ms; the deadlines of its connections moved by as much"
        );
    }
}
