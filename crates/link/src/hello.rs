//! Who is at an end of a connection.

use std::fmt;

/// The random identity of a data directory. It is chosen once, and stays when the name or the address of the node changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIdentity(pub [u8; 16]);

/// The random identity of a cluster. Its first node chooses it. All zeros for a node that is in no cluster yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub [u8; 16]);

impl ClusterId {
    /// No cluster.
    pub const NONE: Self = Self([0; 16]);
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// What a connection is for. The side that dials chooses it, and alone sends messages over the connection; the other side only
/// acknowledges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Heartbeats, and what nodes say about themselves. They have a connection of their own, so that no large message delays them.
    Heartbeats,
    /// The messages of this shard of the node that dials.
    Shard(u8),
}

/// What a node says about itself when a connection opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub role: Role,
    pub node: NodeIdentity,
    /// The number of this start of the node.
    pub boot: u64,
    pub cluster: ClusterId,
    /// The number of the node in its cluster; 0 if it is in none.
    pub number: u32,
    /// The newest form of messages that the node understands.
    pub format: u32,
    /// The name of the node, of at most 255 bytes.
    pub name: String,
}
