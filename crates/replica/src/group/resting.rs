//! Groups at rest: a compact form of a group that has nothing to do.

use super::{Group, Options};
use crate::entry::{Position, Vote};
use crate::member::{Member, Members};
use crate::round::{Role, Standing};
use crate::store::Store;
use raft::{ProgressState, StateRole};

impl Group {
    /// Returns the compact form of a quiet group. A group is quiet if, as far as this member can tell, every
    /// member has all entries and knows that they are committed. So is the only voter of a group that has not campaigned
    /// since its restart. Returns `None` if the group is not quiet.
    pub fn rest(&self) -> Option<Resting> {
        let raft = &self.raw.raft;
        let log = &raft.raft_log;
        let last = self.last();
        let all_is_applied = log.applied == last.index && self.installing.is_none();
        let is_quiet = match self.standing.role {
            Role::Candidate => false,
            Role::Follower { leader } => leader.is_some() || self.members.voters() == [self.me],
            Role::Leader => {
                raft.lead_transferee.is_none()
                    && raft
                        .prs()
                        .iter()
                        .all(|(_, peer)| peer.matched == last.index && peer.committed_index == last.index)
            }
        };
        let is_at_rest = self.is_settled() && all_is_applied && is_quiet && self.standing == self.standing();
        is_at_rest.then(|| Resting {
            me: self.me,
            vote: self.vote(),
            last,
            members: self.members.clone(),
            role: self.standing.role,
        })
    }
}

/// A group at rest: the state that a member needs to continue. It exists in memory only. After a restart, a
/// group is restored from its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    me: Member,
    vote: Vote,
    /// The last entry. It is applied.
    last: Position,
    members: Members,
    role: Role,
}

impl Resting {
    /// Continues the group. A leader still leads in its term.
    pub fn wake(self, options: Options) -> Group {
        let Self { me, vote, last, members, role } = self;
        let store = Store::new(last, Default::default(), vote, &members);
        let mut group = Group::with_store(me, options, store, members, last.index);
        let raft = &mut group.raw.raft;
        match role {
            Role::Leader => {
                raft.state = StateRole::Leader;
                raft.leader_id = me.id();
                for (_, peer) in raft.mut_prs().iter_mut() {
                    (peer.matched, peer.next_idx) = (last.index, last.index + 1);
                    (peer.state, peer.recent_active) = (ProgressState::Replicate, true);
                    peer.committed_index = last.index;
                }
            }
            Role::Follower { leader } => raft.leader_id = leader.map_or(raft::INVALID_ID, Member::id),
            Role::Candidate => {}
        }
        group.standing = group.standing();
        group
    }

    pub fn me(&self) -> Member {
        self.me
    }

    /// Returns the last entry.
    pub fn last(&self) -> Position {
        self.last
    }

    /// Returns the term and the role of the member.
    pub fn standing(&self) -> Standing {
        Standing { term: self.vote.term, role: self.role }
    }
}
