//! The content of a group's log: entries, votes and bases.

use crate::member::{Change, Member, Members};
use bytes::Bytes;

/// The largest index and the largest term. A message with a larger one is malformed. Additions to valid
/// numbers cannot overflow.
pub const NUMBER_MAX: u64 = 1 << 56;

/// A position in the log of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The term of the entry at this index.
    pub term: u64,
    /// The number of the entry, counted from 1. 0 is the position before the first entry.
    pub index: u64,
}

impl Position {
    /// Returns true if a log can have this position. Only the position before the first entry has term 0.
    pub fn is_sound(self) -> bool {
        (self.index == 0) == (self.term == 0) && self.index <= NUMBER_MAX && self.term <= NUMBER_MAX
    }
}

/// One entry of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Position,
    pub payload: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The first entry of each leader.
    Empty,
    /// Facts that the owner of the group has proposed. There is at least one byte.
    Facts(Bytes),
    Change(Change),
}

impl Payload {
    /// Returns the size of the facts, in bytes.
    pub fn bytes(&self) -> u64 {
        if let Self::Facts(facts) = self { facts.len() as u64 } else { 0 }
    }
}

/// State that a member must store besides its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The newest term that the member knows.
    pub term: u64,
    /// The member that it votes for in this term.
    pub candidate: Option<Member>,
    /// The last entry that it had applied. A vote is not written each time this changes, because an election
    /// finds out again what is committed. It is written with each change of the members: a removed voter may no
    /// longer exist at the next election.
    pub applied: u64,
}

/// The state up to an index, which replaces the entries up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The last entry that is included.
    pub at: Position,
    /// The newest vote of the member when it wrote the base. The vote has no meaning in a message.
    pub vote: Vote,
    /// The members at that index.
    pub members: Members,
    /// True if the base came from a leader. Then all earlier entries of this member are void, also those
    /// after the base's index.
    pub installed: bool,
    /// The state of the owner, or a reference to it. Opaque to this crate.
    pub content: Bytes,
}

impl Base {
    /// Returns the base with which every founding member of a group begins. `content` is the initial state of
    /// the owner.
    pub fn founding(nodes: &[u32], content: Bytes) -> Self {
        Self {
            at: Position { term: 1, index: 1 },
            vote: Vote { term: 1, candidate: None, applied: 1 },
            members: Members::founding(nodes),
            installed: false,
            content,
        }
    }
}

/// A record of a member's log. Records are written in the order in which they are handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Vote(Vote),
    Base(Base),
    /// Voids all earlier entries from its index on if the earlier one there has another term. The entries up to
    /// `committed`, which is at most its own index, are known to be committed: they are never voided.
    Entry {
        entry: Entry,
        committed: u64,
    },
}
