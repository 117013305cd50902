//! The output of a member: rounds, standings, and refusals.

use crate::entry::{Entry, Record};
use crate::member::Member;
use crate::message::Message;

/// The role of a member in its term.
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
    /// The member requests votes or pre-votes.
    Candidate,
    Leader,
}

/// How far the log of a member has come. Each index is at most [`Progress::last`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The index of the last entry.
    pub last: u64,
    /// The index up to which entries are synced.
    pub written: u64,
    /// The index up to which entries are known to be committed.
    pub committed: u64,
    /// The index up to which entries were handed out as committed.
    pub applied: u64,
}

/// Why a member refuses a request of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This member does not lead. The owner can ask the leader, if one is known.
    NotLeader { leader: Option<Member> },
    /// This member leads in another term than the one in which the proposal was decided.
    OtherTerm { term: u64 },
    /// The leadership is being transferred to another member.
    Transferring,
    /// The proposal contains no facts.
    Empty,
    /// An earlier change, or an entry of an earlier term, is not applied yet.
    ChangePending,
    /// The change does not fit the current members.
    Unfit,
    /// The learner has not acknowledged that it is a member. As a voter, it might not run.
    Lags,
    /// The leader cannot remove itself. It must transfer the leadership first.
    IsLeader,
    /// The member is not a voter, and only voters can lead.
    NotVoter,
    /// A member campaigns only when everything that it has is synced.
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
            Self::NotVoter => "the member is not a voter",
            Self::Unsynced => "the member has records that are not synced",
        })
    }
}

impl std::error::Error for Refused {}

/// The actions to take after one or more calls, in the order of the fields. The owner takes over the
/// `standing`, hands `records` to the log, sends `now`, and applies `committed`. When the records of this
/// round and all earlier ones are synced, it sends `after_sync` and calls [`crate::Group::on_synced`].
#[derive(Debug, Default)]
pub struct Round {
    /// The number of the round, counted per group and process.
    pub number: u64,
    /// The new standing, if it has changed. An owner whose term or leadership ends drops its proposals that
    /// were not committed.
    pub standing: Option<Standing>,
    /// The records to write, in this order. If an installed base is among them, the owner's state is its
    /// content from now on.
    pub records: Vec<Record>,
    /// The messages to send at once.
    pub now: Vec<Message>,
    /// Entries that are final, in ascending order without gaps. The owner applies them in this turn.
    pub committed: Vec<Entry>,
    /// The messages to send when all rounds up to this one are synced. They must not be sent earlier, and are
    /// lost with the process. Empty if there is nothing to wait for: this round has no records, and all earlier
    /// rounds are synced.
    pub after_sync: Vec<Message>,
    /// A follower lags so far that it needs a base: after it has applied `committed`, the owner calls
    /// [`crate::Group::send_base`]. A round in which only this is set has the number of the round before.
    pub wants_base: bool,
}
