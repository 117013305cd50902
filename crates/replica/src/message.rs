//! Messages between the members of a group. There is no message for a proposal: a member proposes only as the
//! leader.

use crate::entry::{Base, Entry, Position};
use crate::member::Member;

/// A message from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: Member,
    pub to: Member,
    /// The sender's term. In a request for a pre-vote, and in a granted pre-vote, it is the term of the
    /// election.
    pub term: u64,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The leader's entries after `previous`.
    Append {
        previous: Position,
        commit: u64,
        entries: Vec<Entry>,
    },
    /// The follower's log equals the leader's up to `index`, and is synced.
    Appended {
        index: u64,
        commit: u64,
    },
    /// The follower's log lacks the leader's entry at `previous.index`. `hint` is a position at which the two
    /// logs may match.
    AppendRefused {
        index: u64,
        hint: Position,
        commit: u64,
    },
    /// The leader asks whether the follower is alive.
    Ping {
        commit: u64,
    },
    Pong {
        commit: u64,
    },
    /// Requests a vote. If `pre` is true, it only asks whether the vote would be granted.
    VoteRequest {
        pre: bool,
        /// The last entry of the candidate.
        last: Position,
        /// The last entry that the candidate knows to be committed.
        commit: Position,
        /// True if the leader itself wants this election. A voter must not ignore it because that leader is
        /// alive.
        transfer: bool,
    },
    VoteResponse {
        pre: bool,
        granted: bool,
        commit: Position,
    },
    /// Replaces the follower's log up to the base. The vote in the base has no meaning.
    InstallBase(Base),
    /// The leader asks the follower to campaign at once.
    TimeoutNow,
}
