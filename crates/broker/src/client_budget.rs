//! The budgets of a node for memory that connections hold. When one is exceeded, the user who holds most loses connections.

use crate::settings::Settings;

/// A budget for memory that connections hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientBudget {
    /// Deliveries and frames whose end has not arrived.
    Unfinished,
}

impl ClientBudget {
    pub const ALL: [Self; 1] = [Self::Unfinished];

    /// The name in listings and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished_deliveries",
        }
    }

    /// Says what takes the memory, for people.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Unfinished => "incomplete deliveries",
        }
    }

    /// The setting of the limit.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Unfinished => "amqp10.unfinished_memory",
        }
    }

    /// Returns what all connections of the node together may hold, in bytes.
    pub fn limit(self, settings: &Settings) -> u64 {
        match self {
            Self::Unfinished => settings.node_unfinished_memory(),
        }
    }
}
