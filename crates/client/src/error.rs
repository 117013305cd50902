//! The errors of all calls of this crate.

use std::fmt;
use std::io;
use std::sync::Arc;

use amqp10::{AmqpError, SaslCode, Violation};
use amqp091::Fault;

use crate::checksum::Checksum;
use crate::url::UrlError;

/// An error. Cloning is cheap: all waiters of a failed connection get the same one.
#[derive(Clone, Debug)]
pub enum Error {
    /// The socket failed, or the peer closed it without CLOSE (`UnexpectedEof`).
    Io(Arc<io::Error>),
    Url(UrlError),
    /// The peer refused the login. The code is that of SASL-OUTCOME.
    Login(SaslCode),
    /// The peer does not offer the needed SASL mechanism: PLAIN with a user in the URL, EXTERNAL or ANONYMOUS without.
    Mechanism,
    /// The peer closed or refused the connection, session or link, and gave a reason.
    Remote {
        scope: Scope,
        error: AmqpError,
    },
    /// AMQP 0.9.1: the peer closed the connection, or this channel of it. `text` begins with the name of the code.
    Refused {
        channel: Option<u16>,
        code: u16,
        text: String,
    },
    /// AMQP 0.9.1: the peer violated the protocol.
    Fault(Fault),
    /// AMQP 0.9.1: the peer speaks another protocol.
    Version,
    /// The connection, session or link is closed, by us or by the peer without a reason. AMQP 0.9.1: also if the peer
    /// has cancelled a consumer, because its queue is gone.
    Closed,
    /// The peer violated the protocol.
    Protocol(Violation),
    /// The peer did not answer within [`Options::handshake_timeout`](crate::Options::handshake_timeout).
    Timeout,
    /// All channels of the connection or all handles of the session are in use.
    Exhausted(Scope),
    /// The message is larger than the limit of the link. `max` is in bytes.
    TooLarge {
        max: u64,
    },
    /// The management node refused a request. `status` is as in HTTP, 4xx or 5xx.
    Status {
        status: u16,
        explanation: String,
    },
    /// The bare message does not match the checksum of its sender.
    Damaged {
        kind: Checksum,
        /// The checksum in the footer.
        sent: u32,
        computed: u32,
    },
    /// A message or an answer that cannot be decoded.
    Message(String),
}

/// What was closed by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Connection,
    Session,
    Link,
}

impl Error {
    /// Returns the error condition that the peer sent, if any.
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
            Self::Refused { channel, text, .. } => {
                let what = if channel.is_some() { "channel" } else { "connection" };
                write!(f, "{what} closed by the peer: {text}")
            }
            Self::Fault(fault) => write!(f, "the peer violated the protocol: {}", fault.text),
            Self::Version => f.write_str("the peer does not speak AMQP 0.9.1"),
            Self::Closed => f.write_str("closed"),
            Self::Protocol(violation) => write!(f, "the peer violated the protocol: {violation}"),
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
