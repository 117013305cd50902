//! AMQP 1.0 to AMQP 0.9.1.

use std::borrow::Cow;
use std::io::Write as _;
use std::ops::Range;

use amqp10::Reader;
use amqp10::sections::{self, SectionKind, map_pairs, property_fields};
use amqp091::{KEY_BYTES_MAX, Properties, Value};
use bytes::{BufMut, Bytes, BytesMut};

use super::arrived::{NOT_PERSISTENT, PERSISTENT};
use super::headers::{Additions, Headers};
use super::values::{Urn, ms_to_seconds, percent_decoded, simple, text, urn_of};
use super::{AMQP10_TYPE, QUEUES, name};
use crate::stored::read_death_array;
use crate::{Deaths, Format, Message, Parts};

/// The most bytes of a property that is a short string.
const SHORT_STRING_MAX: usize = KEY_BYTES_MAX;

/// The number of digits of the largest number of 64 bits.
const DIGITS_MAX: usize = 20;

/// Returns the message in AMQP 0.9.1.
#[inline(never)]
pub(super) fn converted(message: &Message) -> Message {
    let mut wire = BytesMut::with_capacity(message.wire().len() + SHORT_STRING_MAX);
    put_properties(message, None, &mut wire);
    let payload_at = wire.len() as u32;
    let (payload, from) = payload(message);
    wire.put_slice(&payload[from..]);
    let parts = Parts {
        format: Format::Amqp091,
        wire: wire.freeze(),
        bare_at: payload_at,
        application_properties_at: payload_at,
        body_at: payload_at,
        ..message.parts()
    };
    let converted = Message::new(parts, message.route().clone());
    match message.deaths() {
        Some(deaths) => converted.with_deaths(deaths.clone()),
        None => converted,
    }
}

/// Appends the property list. `additions` are those of a delivery, together with the headers about deaths. Without them,
/// the headers are only those of the message.
#[inline(never)]
pub(super) fn put_properties(message: &Message, additions: Option<&Additions>, out: &mut BytesMut) {
    let mut headers = Headers::default();
    if let Some(additions) = additions {
        headers.add(additions, message.deaths());
    }
    let basic = Annotated::read(message.annotations(), &mut headers);
    let fields = Fields::read(message.properties());
    let (mut message_text, mut correlation_text) = (Text::default(), Text::default());
    let correlation_id =
        fields.id(Fields::CORRELATION_ID, name::CORRELATION_ID, &mut headers, &mut correlation_text);
    let message_id = fields.id(Fields::MESSAGE_ID, name::MESSAGE_ID, &mut headers, &mut message_text);
    for (name, encoded) in map_pairs(message.application_properties()).into_iter().flatten().flatten() {
        headers.add_amqp10(name, encoded);
    }
    let reply_to = fields.reply_to();
    let mut expiration = Text::default();
    let is_octets = matches!(body(message), Body::Octets(_) | Body::Joined(_));
    // Every message of a stream has a header, as in RabbitMQ. A queue keeps no header that says nothing.
    let is_of_stream = additions.is_some_and(|additions| additions.stream_offset.is_some());
    let properties = Properties {
        content_type: fields.symbol(Fields::CONTENT_TYPE),
        content_encoding: fields.symbol(Fields::CONTENT_ENCODING),
        headers: None,
        delivery_mode: match message.durable_header() {
            true => Some(PERSISTENT),
            false if is_of_stream => Some(NOT_PERSISTENT),
            false => basic.delivery_mode,
        },
        priority: message.priority().or(basic.priority),
        correlation_id,
        reply_to: reply_to.as_deref(),
        expiration: match message.ttl_ms() {
            Some(ttl_ms) => Some(expiration.number(ttl_ms)),
            // A death takes the time to live away.
            None => basic.expiration.filter(|_| message.deaths().is_none()),
        },
        message_id,
        timestamp: fields.timestamp(Fields::CREATION_TIME),
        message_type: if is_octets { basic.message_type } else { Some(AMQP10_TYPE.as_bytes()) },
        user_id: fields.user_id(),
        app_id: fields.string(Fields::GROUP_ID),
        cluster_id: None,
    };
    properties.put_with_headers(out, |out| headers.put(out));
}

/// What the annotations say about properties of AMQP 0.9.1. The message was in this protocol before.
#[derive(Default)]
pub(super) struct Annotated<'a> {
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    expiration: Option<&'a [u8]>,
    message_type: Option<&'a [u8]>,
}

impl<'a> Annotated<'a> {
    /// Reads the pairs of an annotations section, and adds all others to the headers.
    pub(super) fn read(section: &'a [u8], headers: &mut Headers<'a>) -> Self {
        let mut basic = Self::default();
        if section.is_empty() {
            return basic;
        }
        for (name, encoded) in map_pairs(section).into_iter().flatten().flatten() {
            match name {
                name::X_CC => headers.add_amqp10(name::CC, encoded),
                name::TYPE => basic.message_type = short_string(encoded),
                name::EXPIRATION => basic.expiration = short_string(encoded),
                name::DELIVERY_MODE => basic.delivery_mode = octet(encoded),
                name::PRIORITY => basic.priority = octet(encoded),
                name::DEATHS => {
                    let array = Reader::new(encoded).read_value().ok();
                    // Anything but an array of deaths means nothing.
                    if let Some(deaths) = array.as_ref().and_then(read_death_array) {
                        headers.add_deaths(Deaths::restore(deaths, 0, 0));
                    }
                }
                name::OPT_RECEIVED if encoded.first() == Some(&TIMESTAMP) => {
                    if let Ok(Some(ms)) = Reader::new(encoded).read_timestamp_opt() {
                        headers.add_value(name::RECEIVED, Value::I64(ms));
                    }
                }
                "x-exchange" | "x-routing-key" | name::DEATH => {}
                _ if name.starts_with("x-basic-") => {}
                _ => headers.add_amqp10(name, encoded),
            }
        }
        basic
    }
}

/// The code of a timestamp.
const TIMESTAMP: u8 = 0x83;

/// Returns the bytes of a string, symbol or binary, if they fit into a short string.
fn short_string(encoded: &[u8]) -> Option<&[u8]> {
    match simple(encoded)? {
        Value::LongString(bytes) if bytes.len() <= SHORT_STRING_MAX => Some(bytes),
        _ => None,
    }
}

/// Returns a number of any type, if it fits into an octet.
fn octet(encoded: &[u8]) -> Option<u8> {
    simple(encoded)?.as_i64()?.try_into().ok()
}

/// The encoded fields of a properties section [3.2.4]. A field that is null, absent or malformed is `None`.
#[derive(Default)]
struct Fields<'a>([Option<&'a [u8]>; 13]);

impl<'a> Fields<'a> {
    const MESSAGE_ID: usize = 0;
    const USER_ID: usize = 1;
    const REPLY_TO: usize = 4;
    const CORRELATION_ID: usize = 5;
    const CONTENT_TYPE: usize = 6;
    const CONTENT_ENCODING: usize = 7;
    const CREATION_TIME: usize = 9;
    const GROUP_ID: usize = 10;

    fn read(section: &'a [u8]) -> Self {
        let mut fields = Self::default();
        if section.is_empty() {
            return fields;
        }
        let Ok((count, mut reader)) = property_fields(section) else { return fields };
        for field in fields.0.iter_mut().take(count as usize) {
            let rest = reader.rest();
            if reader.take_null() {
                continue;
            }
            if reader.skip_value().is_err() {
                break;
            }
            *field = Some(&rest[..rest.len() - reader.rest().len()]);
        }
        fields
    }

    fn reader(&self, field: usize) -> Option<Reader<'a>> {
        self.0[field].map(Reader::new)
    }

    fn string(&self, field: usize) -> Option<&'a [u8]> {
        let text = self.reader(field)?.read_str_opt().ok()??;
        Some(text.as_bytes()).filter(|text| text.len() <= SHORT_STRING_MAX)
    }

    fn symbol(&self, field: usize) -> Option<&'a [u8]> {
        let text = self.reader(field)?.read_symbol_opt().ok()??;
        Some(text.as_bytes()).filter(|text| text.len() <= SHORT_STRING_MAX)
    }

    /// Returns a timestamp in seconds.
    fn timestamp(&self, field: usize) -> Option<u64> {
        self.reader(field)?.read_timestamp_opt().ok()?.map(ms_to_seconds)
    }

    /// Returns the user-id, if it is text.
    fn user_id(&self) -> Option<&'a [u8]> {
        let user_id = self.reader(Self::USER_ID)?.read_binary_opt().ok()??;
        (user_id.len() <= SHORT_STRING_MAX && text(user_id).is_some()).then_some(user_id)
    }

    /// Returns the name of the queue, if it is the address of one. Any other short address is returned as it is.
    fn reply_to(&self) -> Option<Cow<'a, [u8]>> {
        let address = self.string(Self::REPLY_TO)?;
        match address.strip_prefix(QUEUES.as_bytes()) {
            Some(queue) => percent_decoded(queue).map(Cow::Owned),
            None => Some(Cow::Borrowed(address)),
        }
    }

    /// Returns a message-id or correlation-id. One that AMQP 0.9.1 has no property for becomes a header. `buffer` is for
    /// the text of a UUID or of a number.
    fn id<'b>(
        &self,
        field: usize,
        header: &'static str,
        headers: &mut Headers<'a>,
        buffer: &'b mut Text,
    ) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let encoded = self.0[field]?;
        let mut reader = Reader::new(encoded);
        match encoded.first()? {
            0xa1 | 0xb1 => {
                let text = reader.read_str_opt().ok()??.as_bytes();
                if text.len() <= SHORT_STRING_MAX {
                    return Some(text);
                }
                headers.add_value(header, Value::LongString(text));
            }
            0xa0 | 0xb0 => headers.add_value(header, Value::Binary(reader.read_binary_opt().ok()??)),
            0x98 => return Some(buffer.uuid(encoded.get(1..)?.try_into().ok()?)),
            0x44 | 0x53 | 0x80 => return Some(buffer.number(reader.read_u64_opt().ok()??)),
            _ => {}
        }
        None
    }
}

/// A short text that is made for a property.
enum Text {
    Number { digits: [u8; DIGITS_MAX] },
    Uuid(Urn),
}

impl Default for Text {
    fn default() -> Self {
        Self::Number { digits: [0; DIGITS_MAX] }
    }
}

impl Text {
    fn number(&mut self, number: u64) -> &[u8] {
        *self = Self::default();
        match self {
            Self::Number { digits } => {
                let mut rest = &mut digits[..];
                // The largest number fits.
                let _ = write!(rest, "{number}");
                let left = rest.len();
                &digits[..DIGITS_MAX - left]
            }
            Self::Uuid(urn) => urn.as_bytes(),
        }
    }

    fn uuid(&mut self, uuid: &[u8; 16]) -> &[u8] {
        *self = Self::Uuid(urn_of(uuid));
        match self {
            Self::Uuid(urn) => urn.as_bytes(),
            Self::Number { digits } => digits,
        }
    }
}

/// The body of a message of AMQP 1.0 as AMQP 0.9.1 gets it.
enum Body {
    /// The octets of the only data section, as a range of the message's bytes.
    Octets(Range<usize>),
    /// Several data sections.
    Joined(Bytes),
    /// A value or sequences, as they are encoded, with the footer.
    Encoded,
}

#[inline]
fn body(message: &Message) -> Body {
    let at = message.offsets().2 as usize;
    match message.body() {
        // Most messages have one short data section and no footer.
        [0x00, 0x53, 0x75, 0xa0, len, octets @ ..] if octets.len() == usize::from(*len) => {
            Body::Octets(message.wire().len() - octets.len()..message.wire().len())
        }
        sections => body_of(sections, at),
    }
}

/// `at` is the position of the sections in the message's bytes.
fn body_of(sections: &[u8], at: usize) -> Body {
    let mut octets: Vec<Range<usize>> = Vec::new();
    for section in sections::each(sections) {
        match section {
            Ok((SectionKind::Data, range)) => {
                let section = &sections[range.start as usize..range.end as usize];
                let mut reader = Reader::new(section);
                let found = reader.read_descriptor().and_then(|_| reader.read_binary_opt());
                let Ok(Some(found)) = found else { return Body::Encoded };
                let end = at + range.end as usize;
                octets.push(end - found.len()..end);
            }
            Ok((SectionKind::Footer, _)) if !octets.is_empty() => break,
            _ => return Body::Encoded,
        }
    }
    match &octets[..] {
        [] => Body::Encoded,
        [only] => Body::Octets(only.clone()),
        several => {
            let parts: Vec<&[u8]> =
                several.iter().map(|range| &sections[range.start - at..range.end - at]).collect();
            Body::Joined(parts.concat().into())
        }
    }
}

/// See [`Message::amqp091_payload`].
#[inline(never)]
pub(super) fn payload(message: &Message) -> (Cow<'_, Bytes>, usize) {
    let wire = message.wire();
    match body(message) {
        Body::Octets(range) if range.end == wire.len() => (Cow::Borrowed(wire), range.start),
        Body::Octets(range) => (Cow::Owned(wire.slice(range)), 0),
        Body::Joined(octets) => (Cow::Owned(octets), 0),
        Body::Encoded => (Cow::Borrowed(wire), message.offsets().2 as usize),
    }
}
