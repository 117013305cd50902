//! What a member says of itself: rounds, its standing, and refusals.

use crate::entry::{Entry, Record};
use crate::member::Member;
use crate::message::Message;

/// What a member is in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub term: u64,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower {
        leader: Option<Member>,
    },
    /// Asks for votes, or whether it would get them.
    Candidate,
    Leader,
}

/// Why a member does not do what its owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This member does not lead. Ask the leader, if one is known.
    NotLeader { leader: Option<Member> },
    /// This member leads in another term than the one in which this was decided.
    OtherTerm { term: u64 },
    /// The leadership is being transferred to another member.
    Transferring,
    /// There is nothing to propose.
    Empty,
    /// An earlier change is not applied yet, or entries of earlier terms are not.
    ChangePending,
    /// The change does not fit the members.
    Unfit,
    /// The learner has not acknowledged that it is a member, so it would be a voter that does not run.
    Lags,
    /// The leader cannot remove itself. It transfers the leadership first.
    IsLeader,
    /// Only voters lead.
    NotVoter,
    /// A member campaigns only when all that it has is synced.
    Unsynced,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotLeader { .. } => "this member does not lead the group",
            Self::OtherTerm { .. } => "this member leads in another term",
            Self::Transferring => "the leadership is being transferred",
            Self::Empty => "an entry without facts cannot be proposed",
            Self::ChangePending => "an earlier change of the members is pending",
            Self::Unfit => "the change does not fit the members",
            Self::Lags => "the learner has not caught up",
            Self::IsLeader => "the leader cannot remove itself",
            Self::NotVoter => "the member is no voter",
            Self::Unsynced => "the member has records that are not synced",
        })
    }
}

impl std::error::Error for Refused {}

/// What is to be done after one or more calls, in the order of the fields: the owner takes the `standing`, `records` are handed
/// to the log, `now` is sent, the owner applies `committed`. When the records of this round and of all rounds before it are
/// synced, `after_sync` is sent, and [`Group::on_synced`] called.
#[derive(Debug, Default)]
pub struct Round {
    /// Counts the rounds of this group in this process.
    pub number: u64,
    /// The new standing, if it has changed. An owner whose term or leadership ends drops what it has proposed and not seen
    /// committed.
    pub standing: Option<Standing>,
    /// The records to write, in this order. An installed base is among them: the owner's state is its content from now on.
    pub records: Vec<Record>,
    /// The messages that leave at once.
    pub now: Vec<Message>,
    /// Entries that will never be undone, in ascending order without gaps. The owner applies them in this turn.
    pub committed: Vec<Entry>,
    /// The messages that leave when the rounds up to this one are synced. They must not leave earlier, and are lost with the
    /// process. Empty if there is nothing to wait for: a round without records, and all before it are synced.
    pub after_sync: Vec<Message>,
}
