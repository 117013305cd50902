//! Deliberate mistakes that the simulator must find.

/// A mistake that a test activates. Outside of tests, no group has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Messages that acknowledge entries are sent before the entries are synced.
    AcknowledgeBeforeSync,
    /// Votes and requests for votes are sent before they are synced.
    VoteBeforeSync,
    /// The base of an evacuation does not carry the vote.
    ForgetVoteAtEvacuation,
    /// The base of an evacuation does not carry the term of the member, only that of its last entry.
    ForgetTermAtEvacuation,
    /// A deposed leader hands a proposal to the engine, which sends it to the new leader.
    ForwardProposal,
    /// A proposal that was decided in one term is accepted in a later term.
    ProposeInLaterTerm,
    /// The owner is not notified that its leader was deposed, and keeps its staged proposals.
    KeepStaged,
    /// A leader waits for ever for the answer to a base that was lost.
    KeepLostBase,
    /// A member follows a leader that asks for votes, and so leads no more.
    FollowCandidate,
    /// A group that was at rest is not told what its node supports, and votes against a supported leader.
    #[cfg(test)]
    WakeWithoutSupport,
}

impl Mutation {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 10] = [
        Self::AcknowledgeBeforeSync,
        Self::VoteBeforeSync,
        Self::ForgetVoteAtEvacuation,
        Self::ForgetTermAtEvacuation,
        Self::ForwardProposal,
        Self::ProposeInLaterTerm,
        Self::KeepStaged,
        Self::KeepLostBase,
        Self::FollowCandidate,
        Self::WakeWithoutSupport,
    ];
}
