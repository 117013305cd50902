//! Mistakes that the simulator must find.

/// A mistake that a test makes on purpose. Outside of tests no group has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Messages that acknowledge entries leave before the entries are synced.
    AcknowledgeBeforeSync,
    /// Requests for votes, and votes, leave before they are synced.
    VoteBeforeSync,
    /// The base of an evacuation does not carry the vote.
    ForgetVoteAtEvacuation,
    /// A deposed leader's proposal is left to the engine, which sends it to the new leader.
    ForwardProposal,
    /// A proposal that was decided in one term is taken in a later one.
    ProposeInLaterTerm,
    /// The owner is not told that its leader was deposed, and keeps what it staged.
    KeepStaged,
}

impl Mutation {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 6] = [
        Self::AcknowledgeBeforeSync,
        Self::VoteBeforeSync,
        Self::ForgetVoteAtEvacuation,
        Self::ForwardProposal,
        Self::ProposeInLaterTerm,
        Self::KeepStaged,
    ];
}
