//! Requeued messages that are not delivered before a given time. Only quorum queues have them.
//!
//! ```text
//!   unsettled ──requeue, with a delay──► delayed ──due──► ready, at its place in its level
//! ```
//!
//! The fact [`Fact::Returned`](crate::Fact::Returned) says until when a message is delayed. That it has become due needs
//! no fact and is never rolled back: it follows from the time.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Entry;
use super::settle::Returned;
use super::{Fifo, QuorumConfig};

/// The delayed messages of a queue.
#[derive(Default)]
pub(super) struct Delayed {
    /// `None` if no message is delayed. Boxed because few queues ever have any.
    all: Option<Box<All>>,
}

#[derive(Default)]
struct All {
    /// By sequence number, with the times at which they become due.
    entries: BTreeMap<u64, (u64, Entry)>,
    /// The times and sequence numbers of the same messages.
    order: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl Delayed {
    pub(super) fn len(&self) -> u64 {
        self.all.as_ref().map_or(0, |all| all.entries.len() as u64)
    }

    /// Returns the bytes of all delayed messages.
    pub(super) fn bytes(&self) -> u64 {
        self.all.as_ref().map_or(0, |all| all.bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    /// Returns when the next message becomes due, in milliseconds since the epoch.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.all.as_ref()?.order.first().map(|(due_ms, _)| *due_ms)
    }

    /// Adds a message that becomes due at `due_ms`.
    pub(super) fn add(&mut self, entry: Entry, due_ms: u64) {
        let all = self.all.get_or_insert_default();
        all.order.insert((due_ms, entry.seq));
        all.bytes += entry.len();
        all.entries.insert(entry.seq, (due_ms, entry));
    }

    /// Removes and returns the message with this sequence number.
    pub(super) fn take(&mut self, seq: u64) -> Option<Entry> {
        let all = self.all.as_mut()?;
        let (due_ms, entry) = all.entries.remove(&seq)?;
        all.order.remove(&(due_ms, seq));
        all.bytes -= entry.len();
        if all.entries.is_empty() {
            self.all = None;
        }
        Some(entry)
    }

    /// Removes and returns the next message, if it is due.
    fn pop(&mut self, now_ms: u64) -> Option<Entry> {
        let (due_ms, seq) = *self.all.as_ref()?.order.first()?;
        if due_ms <= now_ms { self.take(seq) } else { None }
    }

    /// Iterates over the messages between `first` and `last`, with the times at which they become due.
    pub(super) fn range(&self, first: u64, last: u64) -> impl Iterator<Item = (&Entry, u64)> {
        let all = self.all.iter().flat_map(move |all| all.entries.range(first..=last.max(first)));
        all.map(|(_, (due_ms, entry))| (entry, *due_ms))
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.all.iter_mut().flat_map(|all| all.entries.values_mut()).map(|(_, entry)| entry)
    }

    /// Returns when this message becomes due. `None` if it is not delayed.
    pub(super) fn due_ms(&self, seq: u64) -> Option<u64> {
        self.all.as_ref()?.entries.get(&seq).map(|(due_ms, _)| *due_ms)
    }

    /// Removes and returns everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry> + use<> {
        let all = self.all.take().unwrap_or_default();
        all.entries.into_values().map(|(_, entry)| entry)
    }
}

/// The rule for messages that are requeued together.
#[derive(Clone, Copy)]
pub(super) struct Delay {
    quorum: QuorumConfig,
    failed: bool,
    /// The time of the queue that the consumer has asked for.
    asked_ms: Option<u64>,
    now_ms: u64,
}

impl Delay {
    /// Returns when a requeued message becomes due. `None` if it is ready at once, or if it has failed too often and is not
    /// requeued.
    pub(super) fn due_ms(&self, delivery_count: u32) -> Option<u64> {
        let Self { quorum, failed, asked_ms, now_ms } = *self;
        if failed && quorum.delivery_limit().is_some_and(|limit| delivery_count > limit) {
            return None;
        }
        let due_ms = match asked_ms {
            Some(asked_ms) => Some(asked_ms),
            None => quorum.retry.delay_ms(failed, delivery_count).map(|delay| now_ms.saturating_add(delay)),
        };
        due_ms.filter(|due_ms| *due_ms > now_ms)
    }
}

impl Fifo {
    /// Returns the rule for these requeued messages. `None` if the queue never delays messages.
    pub(super) fn delay(&self, returned: &Returned, now_ms: u64) -> Option<Delay> {
        let quorum = self.config.quorum?;
        let asked_ms = returned.annotations.as_ref().and_then(|set| set.delivery_time_ms());
        // The consumer knows no other time than that of the clocks. A time before the epoch is over.
        let ahead_ms = self.journal.uncommitted.as_ref().map_or(0, |all| all.ahead_ms);
        let asked_ms = asked_ms.map(|asked_ms| u64::try_from(asked_ms).unwrap_or(0).saturating_add(ahead_ms));
        Some(Delay { quorum, failed: returned.failed, asked_ms, now_ms })
    }

    /// Makes the messages ready that are due.
    pub(super) fn end_delays(&mut self, now_ms: u64) {
        let mut due: Vec<Entry> = std::iter::from_fn(|| self.delayed.pop(now_ms)).collect();
        due.sort_unstable_by_key(|entry| entry.seq);
        // In descending order, because inserting at the front of a level is cheap.
        due.into_iter().rev().for_each(|entry| self.ready.put_back(entry));
    }
}
