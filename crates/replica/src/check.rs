//! Checks a message before the engine sees it. `docs/raft-engine.md` lists where the engine would panic, and
//! which of these rules prevents each panic.

use crate::entry::{Base, Entry, NUMBER_MAX, Payload, Position};
use crate::member::{Change, Member, Members};
use crate::message::{Body, Message};
use crate::store::Store;
use raft::{Raft, StateRole};

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The message is for another member, or for an earlier member on this node.
    NotForMe,
    /// The sender was removed from the group.
    Former,
    /// The message is a response, and the sender is not a member.
    NotMember,
    /// An index, a term or a member is outside the bounds of a group.
    Unsound,
    /// The entries are not consecutive, or their terms do not ascend.
    Gap,
    /// The sender claims to lead in a term in which another member leads.
    OtherLeader,
    /// The message says that more is committed than this member has. If the sender is right, this member has
    /// lost entries.
    CommitBeyondLog,
    /// The message acknowledges entries that this leader does not have.
    BeyondLog,
    /// The base contradicts what this member knows to be committed.
    Contradiction,
    /// The message answers a request for votes that was not sent yet, or that never existed.
    NotAsked,
    /// Records of this member are not synced yet, so that it cannot campaign.
    Unsynced,
    /// This node supports the leader that the sender wants to replace.
    LeaderSupported,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotForMe => "the message is for another member",
            Self::Former => "the sender was removed",
            Self::NotMember => "the sender is not a member",
            Self::Unsound => "no group can have such an index, term or member",
            Self::Gap => "the entries are not consecutive",
            Self::OtherLeader => "another member leads in this term",
            Self::CommitBeyondLog => "more is committed than this member has",
            Self::BeyondLog => "the message acknowledges entries that this leader does not have",
            Self::Contradiction => "the base contradicts what is committed",
            Self::NotAsked => "no vote was requested",
            Self::Unsynced => "this member has records that are not synced yet",
            Self::LeaderSupported => "this node still supports the leader",
        })
    }
}

impl std::error::Error for Rejected {}

/// The state against which a message is checked.
pub(crate) struct View<'a> {
    pub(crate) me: Member,
    pub(crate) members: &'a Members,
    pub(crate) raft: &'a Raft<Store>,
    pub(crate) is_settled: bool,
    /// True if the requests for votes of the running election were sent.
    pub(crate) votes_are_expected: bool,
}

/// Returns an error unless `condition` holds.
fn require(condition: bool, otherwise: Rejected) -> Result<(), Rejected> {
    if condition { Ok(()) } else { Err(otherwise) }
}

impl View<'_> {
    pub(crate) fn check(&self, message: &Message) -> Result<(), Rejected> {
        let Message { from, to, term, body } = message;
        require(*to == self.me && *from != self.me, Rejected::NotForMe)?;
        require(from.number > 0 && (1..=NUMBER_MAX).contains(term), Rejected::Unsound)?;
        require(!self.members.is_former(*from), Rejected::Former)?;
        match body {
            Body::Append { previous, commit, entries } => {
                // Every log begins with a base, so each entry has a predecessor.
                require(previous.is_sound() && previous.index > 0, Rejected::Unsound)?;
                require(*commit <= NUMBER_MAX, Rejected::Unsound)?;
                check_entries(*previous, *term, entries)?;
                self.check_leader(*from, *term)
            }
            Body::Ping { commit } => {
                self.check_leader(*from, *term)?;
                let is_old = *term < self.raft.term;
                require(is_old || *commit <= self.raft.raft_log.last_index(), Rejected::CommitBeyondLog)
            }
            Body::InstallBase(base) => {
                self.check_base(base, *term)?;
                self.check_leader(*from, *term)
            }
            Body::TimeoutNow => {
                self.check_leader(*from, *term)?;
                let is_leader = self.raft.leader_id == from.id() && self.raft.term == *term;
                require(is_leader, Rejected::OtherLeader)?;
                require(self.is_settled, Rejected::Unsynced)
            }
            Body::VoteRequest { last, commit, .. } => {
                require(last.is_sound() && commit.is_sound(), Rejected::Unsound)?;
                require(commit.index <= last.index && last.term < *term, Rejected::Unsound)
            }
            Body::Appended { index, commit } => {
                require(*index <= NUMBER_MAX && *commit <= NUMBER_MAX, Rejected::Unsound)?;
                self.check_member(*from)?;
                require(
                    !self.leads_in(*term) || *index <= self.raft.raft_log.last_index(),
                    Rejected::BeyondLog,
                )
            }
            Body::AppendRefused { index, hint, commit } => {
                require(*index <= NUMBER_MAX && *commit <= NUMBER_MAX, Rejected::Unsound)?;
                require(hint.is_sound() && hint.index <= *index, Rejected::Unsound)?;
                self.check_member(*from)
            }
            Body::Pong { commit } => {
                require(*commit <= NUMBER_MAX, Rejected::Unsound)?;
                self.check_member(*from)
            }
            Body::VoteResponse { pre, granted, commit } => {
                require(commit.is_sound(), Rejected::Unsound)?;
                self.check_member(*from)?;
                // A refusal in a newer term ends the election, whichever request for votes it answers. So it
                // is accepted.
                let ends = !granted && *term > self.raft.term;
                let election = self.raft.term + u64::from(*pre && *granted);
                require(ends || (self.votes_are_expected && *term == election), Rejected::NotAsked)
            }
        }
    }

    fn leads_in(&self, term: u64) -> bool {
        self.raft.state == StateRole::Leader && self.raft.term == term
    }

    fn check_member(&self, from: Member) -> Result<(), Rejected> {
        require(self.members.contains(from), Rejected::NotMember)
    }

    /// Checks a message of a leader. The sender may be unknown: a follower that lags does not know the newest
    /// members.
    fn check_leader(&self, from: Member, term: u64) -> Result<(), Rejected> {
        let leader = if term == self.raft.term { self.raft.leader_id } else { raft::INVALID_ID };
        require(leader == raft::INVALID_ID || leader == from.id(), Rejected::OtherLeader)
    }

    fn check_base(&self, base: &Base, term: u64) -> Result<(), Rejected> {
        let at = base.at;
        require(at.is_sound() && at.index > 0 && at.term <= term, Rejected::Unsound)?;
        require(!base.members.voters().is_empty(), Rejected::Unsound)?;
        let log = &self.raft.raft_log;
        let contradicts = at.index == log.committed && !log.match_term(at.index, at.term);
        require(!contradicts, Rejected::Contradiction)
    }
}

fn check_entries(previous: Position, term: u64, entries: &[Entry]) -> Result<(), Rejected> {
    let mut before = previous;
    for entry in entries {
        require(entry.at.is_sound(), Rejected::Unsound)?;
        require(entry.at.index == before.index + 1 && entry.at.term >= before.term, Rejected::Gap)?;
        match &entry.payload {
            Payload::Empty => {}
            Payload::Facts(facts) => require(!facts.is_empty(), Rejected::Unsound)?,
            Payload::Change(Change::Add(member) | Change::Promote(member) | Change::Remove(member)) => {
                require(member.number > 0, Rejected::Unsound)?;
            }
        }
        before = entry.at;
    }
    require(before.term <= term, Rejected::Gap)
}
