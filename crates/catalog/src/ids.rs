//! The ids that the changes of the catalog name: queues, and who has asked for a change. All but [`ShardId`] mean the same on every
//! node and after every restart.

/// The most queues at once: 16 million. The lower 24 bits of a queue's id are its slot.
pub const QUEUES_MAX: u32 = 1 << QUEUE_SLOT_BITS;
const QUEUE_SLOT_BITS: u32 = 24;

/// The incarnations of queues are below this number. Each declaration takes one: at 1,000 a second they last for 34 years. The last
/// one is left out, so that no id is `u64::MAX`.
pub(crate) const INCARNATIONS_END: u64 = (1 << (u64::BITS - QUEUE_SLOT_BITS)) - 1;

/// A queue from its declaration to its deletion: its slot in the catalog (24 bits) and an incarnation (40 bits). So nothing
/// that was sent to a deleted queue can reach a new queue with the same name or slot (docs/decisions/0051).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u64);

impl QueueId {
    /// The id that stands for the queue in the mail of a reply link. Incarnations start at 1, so no queue has
    /// this id.
    pub const NONE: Self = Self(0);

    /// `incarnation` is below [`INCARNATIONS_END`], and `slot` below [`QUEUES_MAX`].
    pub const fn new(incarnation: u64, slot: u32) -> Self {
        debug_assert!(incarnation < INCARNATIONS_END && slot < QUEUES_MAX);
        Self(incarnation << QUEUE_SLOT_BITS | slot as u64)
    }

    /// Returns the index in a table of queues.
    pub const fn slot(self) -> usize {
        (self.0 & (QUEUES_MAX as u64 - 1)) as usize
    }

    pub const fn incarnation(self) -> u64 {
        self.0 >> QUEUE_SLOT_BITS
    }

    /// Returns true if a queue may have this id.
    pub const fn is_possible(self) -> bool {
        self.incarnation() > 0 && self.incarnation() < INCARNATIONS_END
    }
}

/// A node. A cluster has few of them, so that the first 32 bits of the random identity of a data directory tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The number of a node in its cluster. It is 1 for a node that is alone. Members of Raft groups are named by it.
pub type NodeNumber = u32;

/// The number of the node that founds a cluster. There is no other node yet.
pub const FIRST_NODE: NodeNumber = 1;

/// The numbers of nodes, in the order in which they were chosen. By default the first node, which needs no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Option<Box<[NodeNumber]>>);

impl Members {
    pub fn new(nodes: &[NodeNumber]) -> Self {
        Self((nodes != [FIRST_NODE]).then(|| nodes.into()))
    }

    pub fn nodes(&self) -> &[NodeNumber] {
        self.0.as_deref().unwrap_or(&[FIRST_NODE])
    }

    pub fn has(&self, node: NodeNumber) -> bool {
        self.nodes().contains(&node)
    }

    pub fn is_empty(&self) -> bool {
        self.nodes().is_empty()
    }

    /// Returns the other nodes.
    #[must_use]
    pub fn without(&self, node: NodeNumber) -> Self {
        let others: Vec<_> = self.nodes().iter().copied().filter(|other| *other != node).collect();
        Self::new(&others)
    }
}

/// One start of one node. What a node numbers from 1 at each start is unique together with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    pub node: NodeId,
    /// The number of this start of the node. No node starts 2^32 times.
    pub boot: u32,
}

/// A shard of a node, by number.
pub type ShardId = u8;

/// A connection. It identifies the owner of exclusive queues, so no other connection ever has the same id: on no node, and after no
/// restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub origin: Origin,
    /// Counts from 1 on each shard. The upper 8 bits are the shard.
    pub number: u64,
}
