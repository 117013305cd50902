//! Where queues live: a table of this node, beside the catalog. What the catalog says is the same everywhere; on which shard
//! the machine of a queue runs is this node's own affair.
//!
//! Every shard has a copy. One shard ([`crate::ids::DECIDER`]) places queues and numbers the placements; the first to ask for a
//! queue without a home wins. Nothing of it is stored: a node that starts may have another number of shards, and places
//! its queues anew.

use crate::ids::{QueueId, ShardId};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    version: u64,
    /// By the slot of the queue's id.
    homes: Vec<Home>,
}

/// The home of the queue that has this slot and this incarnation.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    /// 0: there is none. No queue has this incarnation.
    incarnation: u32,
    shard: ShardId,
}

impl Placements {
    /// Counts the placements.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The shard on which a queue lives. `None` until its first link comes, unless it may expire or is exclusive.
    pub fn home(&self, queue: QueueId) -> Option<ShardId> {
        let home = self.homes.get(queue.slot())?;
        (home.incarnation > 0 && home.incarnation == queue.incarnation()).then_some(home.shard)
    }

    /// The queue has this home from now on.
    pub fn place(&mut self, queue: QueueId, shard: ShardId) {
        self.version += 1;
        if self.homes.len() <= queue.slot() {
            self.homes.resize(queue.slot() + 1, Home::default());
        }
        self.homes[queue.slot()] = Home { incarnation: queue.incarnation(), shard };
    }

    /// The catalog has forgotten the queue.
    pub fn forget(&mut self, queue: QueueId) {
        if self.home(queue).is_some() {
            self.homes[queue.slot()] = Home::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_never_has_the_home_of_its_namesake() {
        let mut placements = Placements::default();
        let (old, new) = (QueueId::new(1, 3), QueueId::new(2, 3));
        placements.place(old, 1);
        assert_eq!((placements.home(old), placements.home(new)), (Some(1), None));
        placements.forget(new);
        assert_eq!(placements.home(old), Some(1));
        placements.forget(old);
        placements.place(new, 0);
        placements.forget(old);
        assert_eq!((placements.home(old), placements.home(new)), (None, Some(0)));
        assert_eq!((placements.home(QueueId::NONE), placements.home(QueueId::new(1, 9))), (None, None));
        assert_eq!(placements.version(), 2);
    }
}
