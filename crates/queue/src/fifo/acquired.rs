//! The acquired counts of a replicated queue: how many deliveries of a message have ended without success, whether they
//! failed or not.
//!
//! Most messages are requeued at most once, and [`Entry::redelivered`] says so. Only higher counts are kept here, outside
//! the entries. So queues whose messages are rarely requeued pay nothing, and classic queues never do.

use std::collections::BTreeMap;

use super::entry::Entry;

#[derive(Default)]
pub(super) struct Acquired {
    /// By sequence number. Each count is at least 2.
    counts: BTreeMap<u64, u32>,
}

impl Acquired {
    /// Returns the acquired count of a message.
    pub(super) fn count(&self, entry: &Entry) -> u32 {
        match entry.redelivered {
            true => self.counts.get(&entry.seq).copied().unwrap_or(1),
            false => 0,
        }
    }

    /// Counts a delivery that has ended without success. Must be called before the entry is marked.
    pub(super) fn raise(&mut self, entry: &Entry) {
        self.restore(entry.seq, self.count(entry).saturating_add(1));
    }

    /// Sets the count of a message to a known value.
    pub(super) fn restore(&mut self, seq: u64, count: u32) {
        if count > 1 {
            self.counts.insert(seq, count);
        } else {
            self.counts.remove(&seq);
        }
    }

    /// Called when the message was removed.
    pub(super) fn forget(&mut self, seq: u64) {
        self.counts.remove(&seq);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }
}
