//! The number of connections on each shard, and whether another may move there.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use catalog::ids::ShardId;

/// The number of connections that may always share a shard, however few the others have: a publisher and a
/// consumer of one queue.
const TOGETHER: usize = 2;

/// A shard may exceed its share of connections by this fraction (one quarter).
const SPARE_PART: usize = 4;

/// The number of connections on each shard. A count may be slightly wrong for a moment. That is harmless,
/// because it only decides where a connection is served.
#[derive(Debug)]
pub struct Occupancy(Box<[AtomicUsize]>);

impl Occupancy {
    pub fn new(shards: ShardId) -> Self {
        Self((0..shards).map(|_| AtomicUsize::new(0)).collect())
    }

    /// Assigns a new connection to the shard with the fewest connections.
    pub fn assign(&self) -> ShardId {
        let least = (0..self.0.len()).min_by_key(|&shard| self.0[shard].load(Relaxed)).unwrap_or(0);
        self.add(least as ShardId);
        least as ShardId
    }

    /// Returns the number of connections on all shards.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Relaxed) as u64).sum()
    }

    /// Counts a new connection on this shard.
    pub fn add(&self, shard: ShardId) {
        self.0[usize::from(shard)].fetch_add(1, Relaxed);
    }

    /// Counts a closed connection of this shard.
    pub(super) fn remove(&self, shard: ShardId) {
        self.0[usize::from(shard)].fetch_sub(1, Relaxed);
    }

    /// Counts a connection that moves.
    pub(super) fn shift(&self, from: ShardId, to: ShardId) {
        self.add(to);
        self.remove(from);
    }

    /// Returns true if another connection may move to this shard. The limit is a little more than its share,
    /// so that the connections of one busy queue do not all end up on one core.
    pub(super) fn has_room(&self, to: ShardId) -> bool {
        let all: usize = self.0.iter().map(|count| count.load(Relaxed)).sum();
        let share = all.div_ceil(self.0.len());
        self.0[usize::from(to)].load(Relaxed) < TOGETHER.max(share + share / SPARE_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupancy(counts: &[usize]) -> Occupancy {
        Occupancy(counts.iter().map(|&count| AtomicUsize::new(count)).collect())
    }

    #[test]
    fn a_new_connection_goes_where_there_are_fewest() {
        let shards = occupancy(&[2, 1, 1]);
        assert_eq!([shards.assign(), shards.assign(), shards.assign()], [1, 2, 0]);
    }

    #[test]
    fn a_pair_may_be_together_however_many_shards_are_idle() {
        let shards = occupancy(&[1, 1, 0, 0, 0, 0, 0, 0]);
        assert!(shards.has_room(0));
        shards.shift(1, 0);
        assert!(!shards.has_room(0), "a third connection stays where it is");
    }

    #[test]
    fn one_shard_gets_no_more_than_its_share_and_a_little() {
        let shards = occupancy(&[100, 100]);
        while shards.has_room(0) {
            shards.shift(1, 0);
        }
        assert_eq!(shards.0[0].load(Relaxed), 125);
    }
}
