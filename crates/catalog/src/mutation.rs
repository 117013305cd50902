//! Deliberate mistakes that the properties of the catalog must find.

use super::Catalog;

/// A mistake that a test makes a catalog have ([`Catalog::with_mutation`]). Programs without debug assertions cannot have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A new virtual host gets the exchanges that the settings of the node ask for where it is applied, not where it was decided.
    ApplyReadsSetting,
    /// In a batch, everybody may bind exclusive queues.
    BatchForgetsOwner,
    /// A queue gets the incarnation of the one that was declared before it.
    ReuseIncarnation,
    /// Two commands are decided at once although they concern the same names.
    IgnoreClaims,
    /// A command is decided before an earlier one that waits and concerns the same names.
    OvertakeWaiting,
    /// A start of the node ends nothing.
    KeepTransient,
    /// A base leaves out bindings.
    ForgetBinding,
    /// A base leaves out policies.
    ForgetPolicies,
    /// A base leaves out which incarnations were used.
    ForgetIncarnations,
    /// A base leaves out what is not durable.
    ForgetTransient,
    /// A base that is being written when a node starts goes on as if nothing had happened.
    WalkOverStart,
    /// A start of a node ends exclusive queues of connections of other nodes.
    EndOthers,
    /// A base leaves out which proposals entries have.
    ForgetProposals,
}

impl Mutation {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 13] = [
        Self::ApplyReadsSetting,
        Self::BatchForgetsOwner,
        Self::ReuseIncarnation,
        Self::IgnoreClaims,
        Self::OvertakeWaiting,
        Self::KeepTransient,
        Self::ForgetBinding,
        Self::ForgetPolicies,
        Self::ForgetIncarnations,
        Self::ForgetTransient,
        Self::WalkOverStart,
        Self::EndOthers,
        Self::ForgetProposals,
    ];
}

impl Catalog {
    /// Makes the catalog have a mistake. Its clones have it, too.
    #[cfg(any(test, debug_assertions))]
    #[must_use]
    pub fn with_mutation(mut self, mutation: Option<Mutation>) -> Self {
        self.mutation = mutation;
        self
    }

    pub(super) fn has(&self, mutation: Mutation) -> bool {
        #[cfg(any(test, debug_assertions))]
        return self.mutation == Some(mutation);
        #[cfg(not(any(test, debug_assertions)))]
        {
            let _ = mutation;
            false
        }
    }
}
