//! The refusal of an ATTACH.

use amqp10::{AmqpError, Attach, Symbol, condition};

use super::{error, shown};

/// The error with which an ATTACH is refused. It ends the link or the session.
pub(super) enum Refused {
    Link(AmqpError),
    Session(AmqpError),
}

impl From<AmqpError> for Refused {
    fn from(error: AmqpError) -> Self {
        Self::Link(error)
    }
}

pub(super) fn not_implemented(what: &str, attach: &Attach) -> Refused {
    on_link(condition::NOT_IMPLEMENTED, what, attach)
}

pub(super) fn on_link(condition: Symbol, what: &str, attach: &Attach) -> Refused {
    Refused::Link(error(condition, format!("{what} on link '{}'", shown(&attach.name))))
}
