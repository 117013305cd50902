//! Why the catalog does not do what it is asked.

use std::fmt;

/// Why a command is not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogError {
    /// The thing named does not exist.
    NotFound { reason: String },
    /// It exists and is different, or is in use, or an argument does not fit.
    PreconditionFailed { reason: String },
    /// It exists with other properties.
    Inequivalent { reason: String },
    /// The name or the operation is not for clients.
    Forbidden { reason: String },
    /// Another connection has it for itself.
    Locked { reason: String },
    /// The request makes no sense.
    Invalid { reason: String },
    /// Too many other commands wait.
    Busy { reason: String },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { reason }
            | Self::PreconditionFailed { reason }
            | Self::Inequivalent { reason }
            | Self::Forbidden { reason }
            | Self::Locked { reason }
            | Self::Invalid { reason }
            | Self::Busy { reason } => f.write_str(reason),
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
