//! Deliberate mistakes in what follows from a change of the catalog, and from a round of a Raft group. Tests must find them.

use super::Shard;

/// A mistake that a test makes a shard make. The program that is shipped makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// What follows from a change is done where it was decided, and not where it is applied.
    ActWhereDecided,
    /// A command is answered when one shard has applied its entry.
    AnswerBeforeAll,
    /// A change is applied before it is synced.
    ApplyBeforeSync,
    /// The end of a queue is proposed once only.
    ProposeOnce,
    /// Entries that a round of a Raft group commits are dropped.
    IgnoreCommitted,
    /// The catalog is told that a quorum queue has ended when the queue decides so, and not when that is committed.
    DeleteWithoutEnded,
    /// What waits for the commit of an entry is answered when this member has synced it. With one member that is the same.
    CommitWhenSynced,
    /// A proposal that was sent again is decided again.
    ForgetProposals,
    /// A member decides changes as soon as it leads, before it knows all that was committed.
    DecideAtOnce,
    /// A proposal that was sent to a leader is refused when there is no leader, as if nobody had it.
    RefuseSent,
    /// A change is answered before the other nodes in sight have applied it.
    AnswerBeforeOthers,
    /// What is not found does not exist, without a question to the leader.
    MissAtOnce,
    /// A node is lost after 2 s out of sight.
    LoseSoon,
    /// A number of a proposal is used again when no proposal is open.
    ReuseNumbers,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ActWhereDecided,
        Self::AnswerBeforeAll,
        Self::ApplyBeforeSync,
        Self::ProposeOnce,
        Self::IgnoreCommitted,
        Self::DeleteWithoutEnded,
        Self::CommitWhenSynced,
        Self::ForgetProposals,
        Self::DecideAtOnce,
        Self::RefuseSent,
        Self::AnswerBeforeOthers,
        Self::MissAtOnce,
        Self::LoseSoon,
        Self::ReuseNumbers,
    ];
}

impl Shard {
    /// Makes the shard make a mistake from now on. For tests.
    #[cfg(debug_assertions)]
    pub fn mutate(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
    }

    /// Returns true if a test has activated this mistake.
    #[inline]
    pub(super) fn has(&self, mutation: Mutation) -> bool {
        #[cfg(debug_assertions)]
        return self.mutation == Some(mutation);
        #[cfg(not(debug_assertions))]
        {
            let _ = mutation;
            false
        }
    }
}
