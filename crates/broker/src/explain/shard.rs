//! The shards that an explanation is about.

use catalog::ids::ShardId;

use super::{Facts, LinkInPlace};

/// What is known about a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardFacts {
    pub number: ShardId,
    /// For which part of the last five seconds its thread was awake, in percent.
    pub busy_percent: u64,
    /// True if it has no time left for more work: see [`crate::load::Load::is_at_limit`].
    pub is_at_limit: bool,
    /// The number of queues and streams whose home it is.
    pub queues: u64,
    /// The number of shards of the node.
    pub shards: u64,
    /// True if publishers are stopped: an alarm is raised, or the node stops.
    pub is_blocked: bool,
}

impl ShardFacts {
    /// Returns the numbers that show the load, and whether other shards could help.
    pub(super) fn numbers(self) -> [(&'static str, u64); 4] {
        let Self { number, busy_percent, queues, shards, .. } = self;
        [
            ("shard", number.into()),
            ("shard_busy_percent", busy_percent),
            ("shard_queues", queues),
            ("node_shards", shards),
        ]
    }
}

impl LinkInPlace<'_> {
    /// Returns the shard at its limit that handles the messages of this link: the home of the queue, or the shard of the
    /// connection.
    pub(super) fn shard_at_limit(&self) -> Option<ShardFacts> {
        let home = self.queue.and_then(|queue| queue.home);
        [home, Some(self.connection.shard)].into_iter().flatten().find(|shard| shard.is_at_limit)
    }
}

impl Facts<'_> {
    /// Returns the shard at its limit that slows the subject, or the link `at` which the cause was found.
    pub(super) fn shard_at_limit(&self, is_at: impl Fn(&LinkInPlace<'_>) -> bool) -> Option<ShardFacts> {
        match self {
            Self::Link(link) => link.shard_at_limit(),
            Self::Queue { queue, consumers, .. } => {
                let of_consumer = || consumers.iter().find(|c| is_at(c))?.shard_at_limit();
                queue.home.filter(|home| home.is_at_limit).or_else(of_consumer)
            }
            Self::Connection { links, .. } => links.iter().find(|link| is_at(link))?.shard_at_limit(),
        }
    }
}
