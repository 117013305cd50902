//! What members of one group say to each other. A proposal cannot be said: nobody proposes through somebody else.

use crate::entry::{Base, Entry, Position};
use crate::member::Member;

/// A message from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: Member,
    pub to: Member,
    /// The sender's term; of a request for a pre-vote, and of a pre-vote that is granted, the term of the election.
    pub term: u64,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The leader's entries behind `previous`.
    Append {
        previous: Position,
        commit: u64,
        entries: Vec<Entry>,
    },
    /// The follower's log is the leader's up to `index`, and synced.
    Appended {
        index: u64,
        commit: u64,
    },
    /// The follower's log does not have `previous.index` of the leader. `hint` is where the two may be equal.
    AppendRefused {
        index: u64,
        hint: Position,
        commit: u64,
    },
    /// The leader asks whether the follower is there.
    Ping {
        commit: u64,
    },
    Pong {
        commit: u64,
    },
    /// Asks for a vote, or whether the vote would be given.
    VoteRequest {
        pre: bool,
        /// The last entry of the candidate.
        last: Position,
        /// The last entry that the candidate knows to be committed.
        commit: Position,
        /// The leader wants this election: it is no reason to ignore it that the leader is there.
        transfer: bool,
    },
    VoteResponse {
        pre: bool,
        granted: bool,
        commit: Position,
    },
    /// Replaces the follower's log up to the base. Its vote means nothing.
    InstallBase(Base),
    /// The leader asks the follower to campaign at once.
    TimeoutNow,
}
