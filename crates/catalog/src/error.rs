//! The reasons for which the catalog refuses a command.

use std::fmt;

/// Why a command is refused. Nothing has changed, except as [`Self::OutcomeUnknown`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogError {
    /// The object that the command names does not exist.
    NotFound { reason: String },
    /// The object exists but differs or is in use, or an argument is invalid.
    PreconditionFailed { reason: String },
    /// The object exists with other properties.
    Inequivalent { reason: String },
    /// Clients may not use this name, or may not perform this operation.
    Forbidden { reason: String },
    /// The setting of a deprecated feature denies this.
    Denied { reason: String },
    /// The queue is exclusive to another connection.
    Locked { reason: String },
    /// The request is invalid.
    Invalid { reason: String },
    /// As many queues, exchanges or virtual hosts as possible exist.
    LimitReached { reason: String },
    /// The command at this place of a batch is refused, so nothing of the batch is carried out.
    InBatch { at: usize, error: Box<CatalogError> },
    /// Too many other commands are waiting.
    Busy { reason: String },
    /// The nodes that decide changes are out of reach. The command was not sent to any.
    Unavailable { reason: String },
    /// The command was sent to a node that decides changes, and no answer came. It may have been carried out, or may be later. Unlike with all
    /// other errors, something may have changed.
    OutcomeUnknown { reason: String },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { reason }
            | Self::PreconditionFailed { reason }
            | Self::Inequivalent { reason }
            | Self::Forbidden { reason }
            | Self::Denied { reason }
            | Self::Locked { reason }
            | Self::Invalid { reason }
            | Self::LimitReached { reason }
            | Self::Unavailable { reason }
            | Self::OutcomeUnknown { reason }
            | Self::Busy { reason } => f.write_str(reason),
            Self::InBatch { at, error } => write!(f, "entry {at}: {error}"),
        }
    }
}

impl std::error::Error for CatalogError {}

impl CatalogError {
    pub fn no_queue(vhost: &str, name: &str) -> Self {
        Self::NotFound { reason: format!("no queue '{name}' in vhost '{vhost}'") }
    }

    pub fn no_exchange(vhost: &str, name: &str) -> Self {
        Self::NotFound { reason: format!("no exchange '{name}' in vhost '{vhost}'") }
    }

    pub fn locked(vhost: &str, name: &str) -> Self {
        Self::Locked {
            reason: format!(
                "cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be \
                 originally declared on another connection or the exclusive property value does not match \
                 that of the original declaration."
            ),
        }
    }
}
