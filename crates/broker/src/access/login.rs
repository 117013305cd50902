//! The question who somebody is. It leaves the shard that asks, and the answer comes back to `handle_login`: whoever checks
//! may take its time.

use std::fmt;
use std::net::IpAddr;

use amqp10::sasl::Secret;

/// One login, to be checked.
#[derive(Clone, Debug)]
pub struct Login {
    pub credentials: Credentials,
    /// The address that it comes from.
    pub from: IpAddr,
    /// When it was asked for, in milliseconds since the epoch.
    pub at_ms: u64,
}

/// What somebody shows.
#[derive(Clone, Debug)]
pub enum Credentials {
    Plain {
        user: String,
        password: Secret,
    },
    /// Nothing. This user stands for whoever does so.
    Anonymous {
        user: String,
    },
}

/// Why somebody is not let in. The reason goes to the log, not to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefused {
    UnknownUserOrPassword,
    /// From this address; nobody has looked at the password.
    TooManyFailures,
    AnonymousDisabled,
}

impl fmt::Display for LoginRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownUserOrPassword => "unknown user or wrong password",
            Self::TooManyFailures => "too many failed logins from its address",
            Self::AnonymousDisabled => "anonymous login is disabled",
        })
    }
}
