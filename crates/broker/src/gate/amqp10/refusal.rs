//! The refusal of an ATTACH.

use amqp10::{AmqpError, Attach, Symbol, condition};
use catalog::access::{AccessRefused, Question};

use super::{error, shown};
use crate::unguessable::NoRandomness;

/// Why an ATTACH or a request is not carried out.
pub(super) enum Refused {
    /// The error ends the link.
    Link(AmqpError),
    /// The error ends the session.
    Session(AmqpError),
    /// This must be asked first ([`catalog::access::Remote`]).
    Unknown(Box<Question>),
}

impl From<AmqpError> for Refused {
    fn from(error: AmqpError) -> Self {
        Self::Link(error)
    }
}

impl From<AccessRefused> for Refused {
    fn from(refused: AccessRefused) -> Self {
        match refused.question {
            Some(question) => Self::Unknown(question),
            None => Self::Session(super::unauthorized(refused)),
        }
    }
}

impl From<NoRandomness> for Refused {
    fn from(error: NoRandomness) -> Self {
        Self::Link(super::error(condition::INTERNAL_ERROR, error.to_string()))
    }
}

/// The exchange that an address names does not exist.
pub(super) fn no_exchange(exchange: &str, vhost: &str) -> AmqpError {
    error(condition::NOT_FOUND, format!("no exchange '{exchange}' in vhost '{vhost}'"))
}

pub(super) fn not_implemented(what: &str, attach: &Attach) -> Refused {
    on_link(condition::NOT_IMPLEMENTED, what, attach)
}

pub(super) fn on_link(condition: Symbol, what: &str, attach: &Attach) -> Refused {
    Refused::Link(error(condition, format!("{what} on link '{}'", shown(&attach.name))))
}
