//! What can go wrong, for every call of this crate.

use std::fmt;
use std::io;
use std::sync::Arc;

use amqp10::{AmqpError, SaslCode, Violation};

use crate::checksum::Checksum;
use crate::url::UrlError;

/// Cheap to clone: everything that waits on a broken connection gets the same one.
#[derive(Clone, Debug)]
pub enum Error {
    /// The socket failed, or the peer hung up without CLOSE (`UnexpectedEof`).
    Io(Arc<io::Error>),
    Url(UrlError),
    /// The peer refused the user; the code is that of SASL-OUTCOME.
    Login(SaslCode),
    /// The peer offers no SASL mechanism that fits the URL: PLAIN with a user, ANONYMOUS without.
    Mechanism,
    /// The peer ended the connection, session or link, or refused it, and said why.
    Remote {
        scope: Scope,
        error: AmqpError,
    },
    /// The connection, session or link is closed, by us or by the peer without a reason.
    Closed,
    /// The peer broke the protocol.
    Protocol(Violation),
    /// The peer did not answer within [`Options::handshake_timeout`](crate::Options::handshake_timeout).
    Timeout,
    /// All channels of the connection or all handles of the session are in use.
    Exhausted(Scope),
    /// The message is larger than the link takes; `max` in bytes.
    TooLarge {
        max: u64,
    },
    /// The management node refused a request; `status` as in HTTP, 4xx or 5xx.
    Status {
        status: u16,
        explanation: String,
    },
    /// The bare message is not what its sender put the checksum on.
    Damaged {
        kind: Checksum,
        /// What its footer says.
        sent: u32,
        computed: u32,
    },
    /// A message or an answer that cannot be understood.
    Message(String),
}

/// What an error has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Connection,
    Session,
    Link,
}

impl Error {
    /// The condition that the peer gave, if it gave one.
    pub fn condition(&self) -> Option<&str> {
        match self {
            Self::Remote { error, .. } => Some(error.condition.as_str()),
            _ => None,
        }
    }

    pub(crate) fn remote(scope: Scope, error: Option<AmqpError>) -> Self {
        match error {
            Some(error) => Self::Remote { scope, error },
            None => Self::Closed,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "connection",
            Self::Session => "session",
            Self::Link => "link",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Url(error) => write!(f, "{error}"),
            Self::Login(code) => write!(f, "login refused ({code:?})"),
            Self::Mechanism => f.write_str("the peer offers no SASL mechanism that we can use"),
            Self::Remote { scope, error } => {
                write!(f, "{scope} closed by the peer: {}", error.condition)?;
                error.description.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
            }
            Self::Closed => f.write_str("closed"),
            Self::Protocol(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Self::Timeout => f.write_str("the peer did not answer in time"),
            Self::Exhausted(Scope::Session) => f.write_str("no free channel"),
            Self::Exhausted(_) => f.write_str("no free link handle"),
            Self::TooLarge { max } => write!(f, "the message is larger than {max} bytes"),
            Self::Status { status, explanation } => write!(f, "{status}: {explanation}"),
            Self::Damaged { kind, sent, computed } => {
                write!(
                    f,
                    "the message is damaged: its {kind} is {computed:#010x}, its footer says {sent:#010x}"
                )
            }
            Self::Message(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error.as_ref()),
            Self::Url(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<UrlError> for Error {
    fn from(error: UrlError) -> Self {
        Self::Url(error)
    }
}
