//! The entry that a group's owner is collecting.

use bytes::Bytes;
use queue::{Fact, Put};

use crate::entries;
use crate::shard::batching::{CAPACITY_MAX, LAZY_BYTES_MAX, LAZY_MS};

/// Facts of closed turns that are in no entry.
#[derive(Default)]
pub(in crate::shard) struct OpenEntry {
    facts: Vec<u8>,
    /// The approximate size of the largest recent entry, in bytes.
    recent_bytes: usize,
    /// The first and the last seq of the messages among the facts.
    puts: Option<(u64, u64)>,
    /// The time since which there are facts.
    since_ms: Option<u64>,
}

impl OpenEntry {
    /// Collects a message.
    pub(in crate::shard) fn put(&mut self, put: Put<'_>, now_ms: u64) {
        self.reserve();
        entries::push_put(&mut self.facts, put);
        let (first, last) = self.puts.unwrap_or((put.seq, put.seq));
        self.puts = Some((first.min(put.seq), last.max(put.seq)));
        self.since_ms.get_or_insert(now_ms);
    }

    /// Collects a fact.
    pub(in crate::shard) fn push(&mut self, fact: &Fact, now_ms: u64) {
        self.reserve();
        entries::push_fact(&mut self.facts, fact);
        self.since_ms.get_or_insert(now_ms);
    }

    /// Gives a new entry room for as many facts as recent ones had. Growing step by step would copy them several times.
    fn reserve(&mut self) {
        if self.facts.is_empty() {
            self.facts.reserve(self.recent_bytes.min(CAPACITY_MAX));
        }
    }

    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns when the facts must be proposed even if nobody waits for them, in milliseconds since the epoch. They wait as long, and
    /// for as many, as records of the journal do.
    pub(in crate::shard) fn due_ms(&self) -> Option<u64> {
        let due = if self.facts.len() >= LAZY_BYTES_MAX { 0 } else { LAZY_MS };
        self.since_ms.map(|since| since + due)
    }

    /// Removes and returns the facts, and the first and the last seq of the messages among them.
    pub(super) fn take(&mut self) -> (Bytes, Option<(u64, u64)>) {
        self.since_ms = None;
        // Large and small entries alternate, because messages arrive in one turn and are settled in another.
        self.recent_bytes = self.facts.len().max(self.recent_bytes - self.recent_bytes / 16);
        (std::mem::take(&mut self.facts).into(), self.puts.take())
    }

    /// Drops the facts, because the leadership in which they were decided has ended, or their queue.
    pub(in crate::shard) fn clear(&mut self) {
        (self.facts, self.puts, self.since_ms) = (Vec::new(), None, None);
    }

    /// Lets the facts wait for as long as new ones do.
    pub(super) fn postpone(&mut self, now_ms: u64) {
        self.since_ms = (!self.is_empty()).then_some(now_ms);
    }
}
