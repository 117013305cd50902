//! Deliberate mistakes that the simulation must find.

/// A mistake that a test activates. The program that is shipped has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The first node in sight founds when it has waited for some seconds.
    FoundByTimeout,
    /// A majority of the listed nodes is enough to found.
    FoundWithoutAll,
    /// Nodes found although their lists differ.
    FoundWithOtherLists,
    /// Heartbeats that arrive are enough for support.
    SupportWithoutAcknowledgement,
    /// Connections and words of an earlier boot count.
    BootNotChecked,
    /// A node says that it is a member before that is on disk.
    SayBeforePersisted,
    /// A node says that it is empty while its membership is being written.
    HidePending,
    /// A node counts itself as supported though its own words say what ends support.
    LeadWhileIll,
    /// The alarms of a node count although it is not supported any more.
    KeepAlarms,
}

impl Mutation {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 9] = [
        Self::FoundByTimeout,
        Self::FoundWithoutAll,
        Self::FoundWithOtherLists,
        Self::SupportWithoutAcknowledgement,
        Self::BootNotChecked,
        Self::SayBeforePersisted,
        Self::HidePending,
        Self::LeadWhileIll,
        Self::KeepAlarms,
    ];
}
