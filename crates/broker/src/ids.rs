//! Names for things that mail is addressed to. Each says on which shard the thing lives and is never reused.

use slab::Slab;

/// Places in a registry: 16 million at once per shard.
const SLOT_BITS: u32 = 24;
/// Shards: 256.
const SHARD_SHIFT: u32 = 56;

/// A shard of the node, by number.
pub type ShardId = u8;

/// The shard that decides and numbers the changes of the catalog. Nothing else says which one it is.
pub const DECIDER: ShardId = 0;

/// The shard on which the owner of an id lives.
pub const fn shard_of(id: u64) -> ShardId {
    (id >> SHARD_SHIFT) as u8
}

/// A queue in all its life: its place in the catalog and an incarnation, so that nothing of a deleted queue
/// can hit its namesake or whoever has its place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u64);

impl QueueId {
    /// Stands for the queue in the mail of a link that takes replies: incarnations start at 1.
    pub const NONE: Self = Self(0);

    pub const fn new(incarnation: u32, slot: u32) -> Self {
        Self((incarnation as u64) << 32 | slot as u64)
    }

    /// Index into a table of queues.
    pub const fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    pub const fn incarnation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A connection, for exclusive queues and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Things that mail is addressed to, on their own shard: the id holds shard, generation and slot.
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

    /// `None` when the 16 million places are taken.
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
