//! Ids of the objects that mail is addressed to. An id includes the shard of the object, and is not reused while the process lives. It
//! never leaves the node: another start of this node, or another node, gives the same ids to other objects.

use catalog::ids::{NodeId, ShardId};
use slab::Slab;

/// The number of bits for the slot. A registry has 2^24 slots: 16 million objects at once per shard.
const SLOT_BITS: u32 = 24;
/// The position of the shard in an id: the upper 8 bits. So there are at most 256 shards.
const SHARD_SHIFT: u32 = 56;

/// The shard that does what a node does once: it takes in the questions of management, places queues, frees log space, keeps
/// what exchanges remember, and publishes the notices of other threads. Each shard can do it, and one must.
pub const NODE_SHARD: ShardId = 0;

/// Returns the shard of the object with this id.
pub const fn shard_of(id: u64) -> ShardId {
    (id >> SHARD_SHIFT) as u8
}

/// Where a queue is, as seen from this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Where {
    /// On a shard of this node.
    Here(ShardId),
    /// On another node. Only that node knows the shard.
    On(NodeId),
    /// Nowhere yet. The first shard that asks for it gets it.
    #[default]
    Unplaced,
    /// On no node in reach: its node is down, or it has no leader.
    Nobody,
}

impl Where {
    /// Returns the shard of this node, if it is on one.
    pub const fn here(self) -> Option<ShardId> {
        match self {
            Self::Here(shard) => Some(shard),
            Self::On(_) | Self::Unplaced | Self::Nobody => None,
        }
    }
}

/// The objects of one shard that mail is addressed to. An id consists of shard, generation and slot.
#[derive(Debug)]
pub struct Registry<T> {
    shard: ShardId,
    generation: u32,
    slots: Slab<(u64, T)>,
}

impl<T> Registry<T> {
    pub fn new(shard: ShardId) -> Self {
        Self { shard, generation: 0, slots: Slab::new() }
    }

    /// Adds an object and returns its id, or `None` if all 16 million slots are taken.
    pub fn insert(&mut self, value: T) -> Option<u64> {
        let entry = self.slots.vacant_entry();
        let slot = entry.key() as u64;
        if slot >> SLOT_BITS != 0 {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let id = u64::from(self.shard) << SHARD_SHIFT | u64::from(self.generation) << SLOT_BITS | slot;
        entry.insert((id, value));
        Some(id)
    }

    pub fn get(&self, id: u64) -> Option<&T> {
        let (known, value) = self.slots.get((id & ((1 << SLOT_BITS) - 1)) as usize)?;
        (*known == id).then_some(value)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (known, value) = self.slots.get_mut((id & ((1 << SLOT_BITS) - 1)) as usize)?;
        (*known == id).then_some(value)
    }

    pub fn remove(&mut self, id: u64) -> Option<T> {
        self.get(id)?;
        Some(self.slots.remove((id & ((1 << SLOT_BITS) - 1)) as usize).1)
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_reused() {
        let mut registry = Registry::new(3);
        let a = registry.insert("a").unwrap();
        assert_eq!((shard_of(a), registry.get(a)), (3, Some(&"a")));
        assert_eq!(registry.remove(a), Some("a"));
        let b = registry.insert("b").unwrap();
        assert_ne!(a, b);
        assert_eq!(registry.get(a), None);
        assert_eq!(registry.remove(a), None);
        assert_eq!(registry.get(b), Some(&"b"));
    }
}
