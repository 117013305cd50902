//! Deliberate mistakes that the tests of the drivers must find.

/// A mistake that a test activates. Outside of tests, no driver makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// A rollback forgets that somebody waits for the answer to a settlement.
    DropSettledAtRollback,
    /// A rollback rejects publishes that the next leader may commit.
    RejectAtRollback,
    /// The entry at an index counts as the one that was proposed, whoever proposed it.
    TakeAnyEntryForMine,
    /// Those who wait for commits are answered when the queue decides to end, and not when that is committed.
    AnswerBeforeTheEnd,
}

impl Mutation {
    #[cfg(test)]
    pub(super) const ALL: [Self; 4] = [
        Self::DropSettledAtRollback,
        Self::RejectAtRollback,
        Self::TakeAnyEntryForMine,
        Self::AnswerBeforeTheEnd,
    ];
}
