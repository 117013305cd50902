//! Why a method is not carried out, as the errors of this protocol. The texts are RabbitMQ's, because clients look for them.

use amqp091::{Fault, ReplyCode};
use catalog::access::AccessRefused;
use catalog::ids::NodeId;
use catalog::{Catalog, CatalogError};
use message::BasicError;
use queue::Refusal;

use crate::intake::Awaited;
use crate::placements::{NO_LEADER, name_of_node, out_of_reach, outcome_unknown};
use crate::unguessable::NoRandomness;

/// Why a method is not carried out.
#[derive(Debug)]
pub(super) enum Refused {
    /// The code says whether the channel or the connection ends.
    Fault { code: ReplyCode, text: String },
    /// What the client wants is held, and handled again when this is there.
    Awaits(Awaited),
}

impl Refused {
    pub(super) fn new(code: ReplyCode, text: impl Into<String>) -> Self {
        Self::Fault { code, text: text.into() }
    }
}

impl From<NoRandomness> for Refused {
    fn from(error: NoRandomness) -> Self {
        Self::new(ReplyCode::InternalError, error.to_string())
    }
}

pub(super) fn not_implemented(what: &str) -> Refused {
    Refused::new(ReplyCode::NotImplemented, what)
}

pub(super) fn precondition_failed(why: impl Into<String>) -> Refused {
    Refused::new(ReplyCode::PreconditionFailed, why)
}

pub(super) fn not_found(what: &str, name: &str, vhost: &str) -> Refused {
    Refused::new(ReplyCode::NotFound, format!("no {what} '{name}' in vhost '{vhost}'"))
}

/// Maps an error in the properties of a message.
pub(super) fn of_message(bad: &BasicError) -> Refused {
    match bad {
        BasicError::Syntax(error) => Refused::new(ReplyCode::FrameError, error.to_string()),
        other => precondition_failed(other.to_string()),
    }
}

/// A method that only servers send.
pub(super) fn unimplemented_method() -> Refused {
    Refused::new(ReplyCode::CommandInvalid, "unimplemented method")
}

pub(super) fn busy() -> Refused {
    Refused::new(ReplyCode::ResourceError, "too many requests in flight on this shard")
}

/// Returns a fault that ends the connection and is not that of a method.
pub(super) fn connection(code: ReplyCode, text: impl Into<String>) -> Fault {
    Fault { channel: None, code, text: text.into().into(), class_id: 0, method_id: 0 }
}

impl From<AccessRefused> for Refused {
    fn from(refused: AccessRefused) -> Self {
        match refused.question {
            Some(question) => Self::Awaits(Awaited::Answer(question)),
            None => Self::new(ReplyCode::AccessRefused, refused.reason),
        }
    }
}

impl From<CatalogError> for Refused {
    fn from(error: CatalogError) -> Self {
        let code = match &error {
            CatalogError::NotFound { .. } => ReplyCode::NotFound,
            CatalogError::PreconditionFailed { .. }
            | CatalogError::Inequivalent { .. }
            | CatalogError::Invalid { .. }
            | CatalogError::LimitReached { .. }
            // Gates send no batches.
            | CatalogError::InBatch { .. } => ReplyCode::PreconditionFailed,
            CatalogError::Forbidden { .. } => ReplyCode::AccessRefused,
            CatalogError::Denied { .. }
            | CatalogError::Unavailable { .. }
            | CatalogError::OutcomeUnknown { .. } => ReplyCode::InternalError,
            CatalogError::Locked { .. } => ReplyCode::ResourceLocked,
            CatalogError::Busy { .. } => ReplyCode::ResourceError,
        };
        Self::new(code, error.to_string())
    }
}

/// Maps a queue's refusal of what the client wants from it.
pub(super) fn by_queue(why: Refusal, queue: &str, vhost: &str, catalog: &Catalog) -> Refused {
    let name = |node: Option<u32>| node.map(|node| name_of_node(catalog, NodeId(node)));
    let (code, text) = match why {
        Refusal::NotFound => return not_found("queue", queue, vhost),
        Refusal::ExclusiveConsumer => {
            (ReplyCode::AccessRefused, format!("queue '{queue}' in vhost '{vhost}' in exclusive use"))
        }
        Refusal::InUse => {
            (ReplyCode::PreconditionFailed, format!("queue '{queue}' in vhost '{vhost}' in use"))
        }
        Refusal::NotEmpty => {
            (ReplyCode::PreconditionFailed, format!("queue '{queue}' in vhost '{vhost}' not empty"))
        }
        Refusal::NotSupported => (
            ReplyCode::NotImplemented,
            format!("queue '{queue}' in vhost '{vhost}' has a type that does not support this"),
        ),
        Refusal::Unavailable => (
            ReplyCode::InternalError,
            format!("queue '{queue}' in vhost '{vhost}' cannot be opened: the disk has failed"),
        ),
        Refusal::OutOfReach { node } => (
            ReplyCode::NotFound,
            format!("queue '{queue}' in vhost '{vhost}' {}", out_of_reach(name(node).as_deref())),
        ),
        Refusal::OutcomeUnknown { node } => (
            ReplyCode::PreconditionFailed,
            format!("queue '{queue}' in vhost '{vhost}' {}", outcome_unknown(name(node).as_deref())),
        ),
        Refusal::NoLeader => (ReplyCode::NotFound, format!("queue '{queue}' in vhost '{vhost}' {NO_LEADER}")),
        // This protocol has no browsers.
        Refusal::TooManyBrowsers => {
            (ReplyCode::ResourceError, format!("queue '{queue}' in vhost '{vhost}' has too many browsers"))
        }
        Refusal::Damaged => {
            (ReplyCode::InternalError, format!("queue '{queue}' in vhost '{vhost}' is damaged on the disk"))
        }
    };
    Refused::new(code, text)
}
