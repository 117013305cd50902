//! The properties and the payload that a consumer of AMQP 0.9.1 gets.

use std::borrow::Cow;

use amqp091::Properties;
use bytes::{Bytes, BytesMut};

use super::from_amqp10::{self, Annotated};
use super::headers::{Additions, Headers};
use crate::{Format, Message};

impl Message {
    /// Appends the property list that a consumer of AMQP 0.9.1 gets. If nothing is added to a message of AMQP 0.9.1, it is
    /// the publisher's, bit by bit.
    ///
    /// The headers about deaths replace headers of the same names, and so do those of `additions`.
    pub fn put_amqp091_properties(&self, additions: &Additions, out: &mut BytesMut) {
        match self.format() {
            Format::Amqp091 if additions.is_empty() && self.deaths().is_none() => {
                out.extend_from_slice(self.property_list());
            }
            Format::Amqp091 => put_with_additions(self, additions, out),
            Format::Amqp10 => from_amqp10::put_properties(self, Some(additions), out),
        }
    }

    /// Returns the payload that a consumer of AMQP 0.9.1 gets: a buffer, and the offset at which the payload begins in it.
    /// It ends with the buffer. The payload is copied only if the body of a message of AMQP 1.0 has several data sections.
    #[inline]
    pub fn amqp091_payload(&self) -> (Cow<'_, Bytes>, usize) {
        match self.format() {
            Format::Amqp091 => (Cow::Borrowed(self.wire()), self.offsets().2 as usize),
            Format::Amqp10 => from_amqp10::payload(self),
        }
    }
}

#[inline(never)]
fn put_with_additions(message: &Message, additions: &Additions, out: &mut BytesMut) {
    // The list was checked when the message arrived.
    let properties = Properties::view(message.property_list()).unwrap_or_default();
    let mut headers = Headers::default();
    headers.add(additions, message.deaths());
    headers.add_entries(properties.headers.unwrap_or_default());
    // A death takes the time to live away.
    let expiration = properties.expiration.filter(|_| message.ttl_ms().is_some());
    Properties { expiration, ..properties }.put_with_headers(out, |out| headers.put(out));
}

/// See [`Message::with_headers`].
pub(super) fn with_annotations(message: &Message, annotations: &[u8]) -> Message {
    let properties = Properties::view(message.property_list()).unwrap_or_default();
    let mut headers = Headers::default();
    // What annotations say about properties is ignored: only the publisher sets these.
    Annotated::read(annotations, &mut headers);
    headers.add_entries(properties.headers.unwrap_or_default());
    let mut wire = BytesMut::with_capacity(message.wire().len() + annotations.len());
    properties.put_with_headers(&mut wire, |out| headers.put(out));
    let payload_at = wire.len() as u32;
    wire.extend_from_slice(message.body());
    let mut annotated = message.clone();
    annotated.set_wire(wire.freeze(), &[payload_at; 3]);
    annotated
}
