//! Messages of AMQP 0.9.1, and the conversion between them and messages of AMQP 1.0.
//!
//! ```text
//!   publisher ── Basic ──> Message as it was written ──┬── same protocol:  its bytes
//!                                                      └── other protocol: converted for the delivery
//! ```
//!
//! The conversion follows RabbitMQ. The tables are in `docs/compatibility.md`, Conversion of messages.

mod arrived;
mod deliver;
mod from_amqp10;
mod headers;
#[cfg(test)]
mod tests;
mod to_amqp10;
mod values;

use std::borrow::Cow;

pub use arrived::{Basic, BasicError, ExpirationError};
pub use headers::{ADDED_HEADERS_MAX, Additions};
pub use values::{amqp10_argument, amqp10_value, put_amqp091_value};

use crate::envelope::{Format, Message};

impl Message {
    /// Returns the message in AMQP 1.0. If it is in AMQP 0.9.1, this is a converted copy. Everything else stays: route,
    /// deaths, priority, time to live.
    #[inline(always)]
    pub fn in_amqp10(&self) -> Cow<'_, Self> {
        match self.format() {
            Format::Amqp10 => Cow::Borrowed(self),
            Format::Amqp091 => Cow::Owned(to_amqp10::converted(self)),
        }
    }

    /// Returns the message in AMQP 0.9.1. If it is in AMQP 1.0, this is a converted copy. Everything else stays: route,
    /// deaths, priority, time to live.
    ///
    /// A delivery to a consumer of AMQP 0.9.1 needs no copy of the payload: see [`Message::put_amqp091_properties`] and
    /// [`Message::amqp091_payload`].
    #[inline(always)]
    pub fn in_amqp091(&self) -> Cow<'_, Self> {
        match self.format() {
            Format::Amqp091 => Cow::Borrowed(self),
            Format::Amqp10 => Cow::Owned(from_amqp10::converted(self)),
        }
    }

    /// Returns the most bytes that a message of AMQP 0.9.1 has in AMQP 1.0, without header and route.
    pub(crate) fn bytes_in_amqp10_max(&self) -> u64 {
        to_amqp10::bytes_max(self.property_list().len(), self.body().len()) as u64
    }

    /// Returns the message, which is in AMQP 0.9.1, with the pairs of an annotations section as headers. They replace
    /// headers of the same names.
    pub(crate) fn with_headers(&self, annotations: &[u8]) -> Self {
        deliver::with_annotations(self, annotations)
    }
}

/// The name of the property `type` of a message whose payload is a body of AMQP 1.0 that is not octets, as in RabbitMQ.
const AMQP10_TYPE: &str = "amqp-1.0";

/// Names of headers and annotations that have a meaning.
mod name {
    /// The further routing keys of a message of AMQP 0.9.1.
    pub(super) const CC: &str = "CC";
    /// The same keys in AMQP 1.0.
    pub(super) const X_CC: &str = "x-cc";
    /// Further routing keys that receivers do not see.
    pub(super) const BCC: &str = "BCC";
    /// The property `type` in AMQP 1.0.
    pub(super) const TYPE: &str = "x-basic-type";
    pub(super) const DELIVERY_MODE: &str = "x-basic-delivery-mode";
    pub(super) const PRIORITY: &str = "x-basic-priority";
    pub(super) const EXPIRATION: &str = "x-basic-expiration";
    pub(super) const MESSAGE_ID: &str = "x-message-id";
    pub(super) const CORRELATION_ID: &str = "x-correlation-id";
    pub(super) const DEATH: &str = "x-death";
    pub(super) const DEATHS: &str = "x-opt-deaths";
    /// When a broker received the message, in milliseconds since the Unix epoch.
    pub(super) const RECEIVED: &str = "timestamp_in_ms";
    pub(super) const OPT_RECEIVED: &str = "x-opt-rabbitmq-received-time";
}

/// The prefix of the address of a queue in AMQP 1.0. The rest is percent-encoded.
const QUEUES: &str = "/queues/";

/// The prefix of a UUID that is written as text.
const URN_UUID: &str = "urn:uuid:";
