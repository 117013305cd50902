//! What a group writes: entries, votes and bases.

use crate::member::{Change, Member, Members};
use bytes::Bytes;

/// The largest index and the largest term. A message beyond is malformed: what is added to them does not overflow.
pub const NUMBER_MAX: u64 = 1 << 56;

/// A place in the log of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The term of the entry at this index.
    pub term: u64,
    /// Counts the entries of the group. 0 is before the first.
    pub index: u64,
}

impl Position {
    /// Returns whether a log can have this place. Only the place before the first entry has term 0.
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
    /// What the owner of the group has proposed. Never empty.
    Facts(Bytes),
    Change(Change),
}

/// What a member must not forget beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The newest term that the member knows.
    pub term: u64,
    /// Whom it votes for in this term.
    pub candidate: Option<Member>,
    /// The last entry that it had applied. Not every vote is written for this: what is committed is found out again by an
    /// election. It is written with each change of the members, because a removed voter may be gone at the next election.
    pub applied: u64,
}

/// Everything up to an index, in place of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The last entry that is part of it.
    pub at: Position,
    /// The newest vote of the member when it wrote the base. Means nothing in a message.
    pub vote: Vote,
    /// The members at its index.
    pub members: Members,
    /// Whether it came from a leader. Then all earlier entries of this member are void, also those behind its index.
    pub installed: bool,
    /// The state of the owner, or what names it. Opaque.
    pub content: Bytes,
}

impl Base {
    /// Returns the base that every founding member of a group begins with. `content` is the initial state of the owner.
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

/// What a member has in its log. Records are written in the order in which they are handed out.
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
