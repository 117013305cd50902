//! A login request. It leaves the shard that asks, and the answer comes back to `handle_login`, because the check may
//! be slow.

use std::fmt;
use std::net::IpAddr;

use amqp10::sasl::Secret;

/// One login to be checked.
#[derive(Clone, Debug)]
pub struct Login {
    pub credentials: Credentials,
    /// The address of the client.
    pub from: IpAddr,
    /// When the login was requested, in milliseconds since the epoch.
    pub at_ms: u64,
}

/// The credentials of a client.
#[derive(Clone, Debug)]
pub enum Credentials {
    Plain {
        user: String,
        password: Secret,
    },
    /// An anonymous login. The client becomes this user.
    Anonymous {
        user: String,
    },
    /// The client has a certificate, which was verified, and becomes the user whom it names.
    Certificate {
        user: String,
    },
}

/// Why a login is refused. The reason is logged and not sent to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefused {
    UnknownUserOrPassword,
    /// Too many logins from this address have failed. The password was not checked.
    TooManyFailures,
    AnonymousDisabled,
    /// There is no user with the name in the certificate.
    UnknownCertificate,
}

impl fmt::Display for LoginRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownUserOrPassword => "unknown user or wrong password",
            Self::TooManyFailures => "too many failed logins from its address",
            Self::AnonymousDisabled => "anonymous login is disabled",
            Self::UnknownCertificate => "there is no user with this name of the certificate",
        })
    }
}
