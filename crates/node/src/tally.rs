//! What all shards together use of one of the node's budgets.

use std::sync::atomic::{AtomicU64, Ordering};

use broker::ids::ShardId;

/// The bytes that each shard uses. A shard writes only its own line, and seldom, so there is no contention.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: u64,
    lines: Box<[Line]>,
}

/// The numbers of one shard. It has its own cache line, so that writing it does not slow down other shards.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line {
    used: AtomicU64,
    /// The bytes that the shard's largest connection uses.
    most: AtomicU64,
}

impl Tally {
    pub fn new(shards: ShardId, limit: u64) -> Self {
        Self { limit, lines: (0..shards).map(|_| Line::default()).collect() }
    }

    /// Returns the bytes that all shards together may use.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns this shard's part of the limit. The parts of all shards add up to the limit.
    pub fn limit_part(&self, shard: ShardId) -> u64 {
        let shards = self.lines.len().max(1) as u64;
        self.limit / shards + if shard == 0 { self.limit % shards } else { 0 }
    }

    /// Publishes the bytes that a shard uses, and those of its connection that uses most.
    pub fn publish(&self, shard: ShardId, used: u64, most: u64) {
        if let Some(line) = self.lines.get(usize::from(shard)) {
            line.used.store(used, Ordering::Relaxed);
            line.most.store(most, Ordering::Relaxed);
        }
    }

    /// Returns the shard whose largest connection must be closed: the shard with the largest connection.
    /// Returns `None` while the budget is not exceeded.
    pub fn shard_to_shed(&self) -> Option<ShardId> {
        let used: u64 = self.lines.iter().map(|line| line.used.load(Ordering::Relaxed)).sum();
        if used <= self.limit {
            return None;
        }
        let most = self.lines.iter().map(|line| line.most.load(Ordering::Relaxed));
        let (most, shard) = most.zip(0..).max()?;
        (most > 0).then_some(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_the_largest_connection_is_chosen_above_the_limit() {
        let tally = Tally::new(3, 100);
        assert_eq!(tally.shard_to_shed(), None);
        tally.publish(0, 60, 20);
        tally.publish(2, 40, 40);
        assert_eq!(tally.shard_to_shed(), None, "exactly the limit");
        tally.publish(1, 1, 1);
        assert_eq!(tally.shard_to_shed(), Some(2), "a shard with a larger sum comes later");
        tally.publish(2, 0, 0);
        assert_eq!(tally.shard_to_shed(), None);
    }
}
