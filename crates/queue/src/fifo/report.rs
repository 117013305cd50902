//! What the machine says of itself, for people.

use super::Fifo;
use super::entry::Body;
use super::level::Tail;
use crate::{Depth, Overflow, Report};

impl Fifo {
    /// Returns what the machine knows of itself.
    pub fn report(&self) -> Report {
        let Depth { ready, unsettled, delayed, leaving } = self.depth();
        Report {
            ready,
            unsettled,
            leaving,
            staged: self.journal.staged().0,
            delayed,
            ready_bytes: self.ready.bytes(),
            unsettled_bytes: self.held.bytes(),
            leaving_bytes: self.leaving.bytes(),
            delayed_bytes: self.delayed.bytes(),
            full: self.config.overflow != Overflow::DropHead && self.overflows(1, 1),
            next_seq: self.next_seq,
            consumers: self.consumers.count() as u32,
            damaged: self.is_damaged(),
            reading: self.reading.is_some() && self.ready.missing().is_some(),
            next_bytes: self.next_bytes(),
            next_head_bytes: self.next_head_bytes(),
            head_at_ms: self.head_at_ms(),
            active_consumer: self.consumers.active().map(|id| id.0),
            yielding: self.consumers.is_yielding(),
            published: self.counts.published,
            delivered: self.counts.delivered,
            delivered_settled: self.counts.delivered_settled,
            fetched: self.seldom.fetched,
            fetched_settled: self.seldom.fetched_settled,
            redelivered: self.counts.redelivered,
            acknowledged: self.counts.acknowledged,
            expired: self.counts.expired,
            dropped: self.counts.dropped,
            dead_lettered: self.counts.dead_lettered,
            over_limit: self.counts.over_limit,
            last_was_over_limit: self.counts.over_limit > 0
                && self.counts.acknowledged == self.counts.acknowledged_before,
            returned_again: self.returned_again(),
            annotations_refused: self.journal.annotated.refused(),
            rejected: self.seldom.rejected,
            over_length: self.seldom.over_length,
            tail_at_ms: self.tail_at_ms(),
            stream: None,
        }
    }

    /// Returns the time at which the newest ready message arrived, in milliseconds since the epoch. Without it, the time at
    /// which no later one of its run arrived.
    fn tail_at_ms(&self) -> Option<u64> {
        let at_ms = |tail| match tail {
            Tail::Entry(entry) => match entry.body {
                Body::InMemory { at_ms, .. } => Some(at_ms),
                Body::OnDisk { .. } => self.last_arrival_ms(entry.spot?.run),
            },
            Tail::Run(run) => self.last_arrival_ms(run),
        };
        self.ready.tails().filter_map(at_ms).max()
    }

    fn last_arrival_ms(&self, run: u32) -> Option<u64> {
        Some(self.journal.runs.get(run)?.ages.last_arrival_ms)
    }
}
