//! A login request. It leaves the shard that asks, and the answer comes back to `handle_login`, because the check may
//! be slow.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use amqp10::sasl::{Secret, parse_plain};

use super::Identity;

/// One login to be checked.
#[derive(Clone, Debug)]
pub struct Login {
    pub credentials: Credentials,
    /// The address of the client.
    pub from: IpAddr,
    /// When the login was requested, in milliseconds since the epoch.
    pub at_ms: u64,
}

/// One place where logins are checked.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The users of the catalog.
    Internal,
    /// Somebody else.
    External(Arc<dyn ExternalBackend>),
}

/// An entry of `auth_backends`.
#[derive(Clone, Debug)]
pub struct BackendPair {
    /// Says who a client is.
    pub authn: Backend,
    /// Says what the client may do, if `authn` does not say this, too. It is asked with [`Credentials::Authenticated`].
    pub authz: Option<Backend>,
}

impl From<Backend> for BackendPair {
    /// Returns the entry with one backend for both.
    fn from(authn: Backend) -> Self {
        Self { authn, authz: None }
    }
}

/// The answer of a backend, which may have to ask others over the network.
pub type Checking<'a> = Pin<Box<dyn Future<Output = Result<Identity, LoginRefused>> + Send + 'a>>;

/// A backend that knows who a client is without the catalog. It may be slow: nobody waits for it but the client.
pub trait ExternalBackend: fmt::Debug + Send + Sync {
    /// Checks a login.
    fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a>;
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
    /// Another backend has authenticated the user, who has these tags there. This backend says what the user may do. It gets no
    /// password.
    Authenticated {
        user: Arc<str>,
        tags: Arc<[String]>,
    },
}

impl Credentials {
    /// Returns true if there is a password or a token to check, which may be guessed.
    pub fn has_password(&self) -> bool {
        matches!(self, Self::Plain { .. })
    }

    /// Returns the name of the user who logs in.
    pub fn user(&self) -> &str {
        match self {
            Self::Plain { user, .. } | Self::Anonymous { user } | Self::Certificate { user } => user,
            Self::Authenticated { user, .. } => user,
        }
    }

    /// Reads a response of the mechanism PLAIN, which several protocols have.
    ///
    /// # Errors
    /// Says why the response is malformed.
    pub fn parse_plain(response: &[u8]) -> Result<Self, String> {
        let plain =
            parse_plain(response).map_err(|malformed| format!("malformed PLAIN response: {malformed}"))?;
        Ok(Self::Plain { user: plain.user, password: plain.password })
    }
}

/// Why a login is refused. The reason is logged and not sent to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginRefused {
    UnknownUserOrPassword,
    AnonymousDisabled,
    /// There is no user with the name in the certificate.
    UnknownCertificate,
    /// The reason of an external backend. It names no secret.
    External(String),
    /// The reasons of several backends for a login without a password: an anonymous one, or one with a certificate.
    NoPassword(String),
    /// A backend could not be asked, so that nothing is known about the login.
    Unavailable(String),
}

impl fmt::Display for LoginRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::External(why) | Self::NoPassword(why) | Self::Unavailable(why) => why,
            Self::UnknownUserOrPassword => "unknown user or wrong password",
            Self::AnonymousDisabled => "anonymous login is disabled",
            Self::UnknownCertificate => "there is no user with this name of the certificate",
        })
    }
}

/// Why a login is refused, and whether it may have been a guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Logged, and not sent to the peer.
    pub reason: String,
    /// True if credentials were checked and are wrong.
    pub is_guess: bool,
}

impl Refusal {
    /// Returns the refusal of a login whose credentials are not wrong, or were not checked.
    pub fn other(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_guess: false }
    }
}

impl From<&LoginRefused> for Refusal {
    fn from(refused: &LoginRefused) -> Self {
        let is_guess = match refused {
            LoginRefused::UnknownUserOrPassword | LoginRefused::External(_) => true,
            LoginRefused::AnonymousDisabled
            | LoginRefused::UnknownCertificate
            | LoginRefused::NoPassword(_)
            | LoginRefused::Unavailable(_) => false,
        };
        Self { reason: refused.to_string(), is_guess }
    }
}

/// What is known about a login before it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was right within the last minute.
    Known,
    Calm,
    /// Many logins of its address have failed lately, so it may be a guess. If `is_proven`, its user has logged in from there within
    /// the last day.
    Suspect {
        is_proven: bool,
    },
}
