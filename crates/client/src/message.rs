//! Encoding and decoding whole messages, with owned sections [3.2].

use amqp10::encode::{Encode, put_binary, put_descriptor, put_map, put_value};
use amqp10::{DecodeError, Header, Map, Properties, Reader, Symbol, Value, descriptor, sections};
use bytes::{Bytes, BytesMut};

use crate::error::Error;

/// A message with all its sections. Sections that are `None` are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub header: Option<Header>,
    pub delivery_annotations: Option<Map>,
    /// The message-annotations. Keys are symbols that start with `x-`.
    pub message_annotations: Option<Map>,
    pub properties: Option<Properties>,
    /// The application-properties. Keys are strings, values are simple types.
    pub application_properties: Option<Map>,
    pub body: Body,
    pub footer: Option<Map>,
}

/// The body of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One or more sections of octets.
    Data(Vec<Bytes>),
    /// One or more lists.
    Sequence(Vec<Vec<Value>>),
    Value(Value),
}

impl Message {
    /// Creates a message with a body of octets.
    pub fn data(octets: impl Into<Bytes>) -> Self {
        Self::new(Body::Data(vec![octets.into()]))
    }

    /// Creates a message with a body of one value.
    pub fn value(value: impl Into<Value>) -> Self {
        Self::new(Body::Value(value.into()))
    }

    pub fn new(body: Body) -> Self {
        Self {
            header: None,
            delivery_annotations: None,
            message_annotations: None,
            properties: None,
            application_properties: None,
            body,
            footer: None,
        }
    }

    // ---- header -------------------------------------------------------------------------------------------

    pub fn durable(mut self, durable: bool) -> Self {
        self.header_mut().durable = Some(durable);
        self
    }

    pub fn priority(mut self, priority: u8) -> Self {
        self.header_mut().priority = Some(priority);
        self
    }

    /// Sets the time to live in milliseconds.
    pub fn ttl(mut self, ms: u32) -> Self {
        self.header_mut().ttl = Some(ms);
        self
    }

    // ---- properties ---------------------------------------------------------------------------------------

    /// Sets the message-id. `id` must be a ulong, uuid, binary or string.
    pub fn message_id(mut self, id: impl Into<Value>) -> Self {
        self.properties_mut().message_id = Some(id.into());
        self
    }

    pub fn user_id(mut self, user: impl Into<Bytes>) -> Self {
        self.properties_mut().user_id = Some(user.into());
        self
    }

    pub fn to(mut self, address: impl Into<String>) -> Self {
        self.properties_mut().to = Some(address.into());
        self
    }

    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.properties_mut().subject = Some(subject.into());
        self
    }

    pub fn reply_to(mut self, address: impl Into<String>) -> Self {
        self.properties_mut().reply_to = Some(address.into());
        self
    }

    /// Sets the correlation-id. `id` must be a ulong, uuid, binary or string.
    pub fn correlation_id(mut self, id: impl Into<Value>) -> Self {
        self.properties_mut().correlation_id = Some(id.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<Symbol>) -> Self {
        self.properties_mut().content_type = Some(content_type.into());
        self
    }

    /// Sets the creation time in milliseconds since the Unix epoch.
    pub fn creation_time(mut self, unix_ms: i64) -> Self {
        self.properties_mut().creation_time = Some(unix_ms);
        self
    }

    pub fn group_id(mut self, group: impl Into<String>) -> Self {
        self.properties_mut().group_id = Some(group.into());
        self
    }

    // ---- maps ---------------------------------------------------------------------------------------------

    pub fn application_property(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.application_properties.get_or_insert_default().insert(key.into(), value);
        self
    }

    /// Adds a message-annotation. The key must start with `x-`.
    pub fn message_annotation(mut self, key: impl Into<Symbol>, value: impl Into<Value>) -> Self {
        self.message_annotations.get_or_insert_default().insert(key.into(), value);
        self
    }

    fn header_mut(&mut self) -> &mut Header {
        self.header.get_or_insert_default()
    }

    fn properties_mut(&mut self) -> &mut Properties {
        self.properties.get_or_insert_default()
    }

    // ---- bytes --------------------------------------------------------------------------------------------

    /// Returns the encoded message.
    pub fn encode(&self) -> Bytes {
        let body = match &self.body {
            Body::Data(sections) => sections.iter().map(|s| s.len() + 8).sum(),
            _ => 64,
        };
        let mut out = BytesMut::with_capacity(body + 128);
        if let Some(header) = &self.header {
            header.encode(&mut out);
        }
        put_section(&mut out, descriptor::DELIVERY_ANNOTATIONS, self.delivery_annotations.as_ref());
        put_section(&mut out, descriptor::MESSAGE_ANNOTATIONS, self.message_annotations.as_ref());
        if let Some(properties) = &self.properties {
            properties.encode(&mut out);
        }
        put_section(&mut out, descriptor::APPLICATION_PROPERTIES, self.application_properties.as_ref());
        match &self.body {
            Body::Data(sections) => {
                for octets in sections {
                    put_descriptor(&mut out, descriptor::DATA);
                    put_binary(&mut out, octets);
                }
            }
            Body::Sequence(lists) => {
                for list in lists {
                    put_descriptor(&mut out, descriptor::AMQP_SEQUENCE);
                    put_value(&mut out, &Value::List(list.clone()));
                }
            }
            Body::Value(value) => {
                put_descriptor(&mut out, descriptor::AMQP_VALUE);
                put_value(&mut out, value);
            }
        }
        put_section(&mut out, descriptor::FOOTER, self.footer.as_ref());
        out.freeze()
    }

    /// Decodes a message. Everything is copied.
    ///
    /// # Errors
    /// `Message` if it is malformed or has no body.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        sections::scan(bytes).map_err(|e| Error::Message(e.to_string()))?;
        decode_sections(bytes).map_err(|e| Error::Message(e.to_string()))
    }

    /// Returns the octets of a data body, with all sections joined. Returns `None` for other bodies.
    pub fn body_bytes(&self) -> Option<Bytes> {
        match &self.body {
            Body::Data(sections) if sections.len() == 1 => Some(sections[0].clone()),
            Body::Data(sections) => Some(sections.concat().into()),
            _ => None,
        }
    }
}

pub(crate) fn put_footer(out: &mut BytesMut, footer: &Map) {
    put_section(out, descriptor::FOOTER, Some(footer));
}

fn put_section(out: &mut BytesMut, code: u64, map: Option<&Map>) {
    if let Some(map) = map {
        put_descriptor(out, code);
        put_map(out, map);
    }
}

/// Decodes the sections. The scan has checked their order and completeness.
fn decode_sections(bytes: &[u8]) -> Result<Message, DecodeError> {
    let mut message = Message::new(Body::Data(Vec::new()));
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.read_descriptor()? {
            descriptor::HEADER => message.header = Some(Header::decode_fields(&mut reader)?),
            descriptor::PROPERTIES => message.properties = Some(Properties::decode_fields(&mut reader)?),
            descriptor::DELIVERY_ANNOTATIONS => message.delivery_annotations = read_map(&mut reader)?,
            descriptor::MESSAGE_ANNOTATIONS => message.message_annotations = read_map(&mut reader)?,
            descriptor::APPLICATION_PROPERTIES => message.application_properties = read_map(&mut reader)?,
            descriptor::FOOTER => message.footer = read_map(&mut reader)?,
            descriptor::DATA => {
                let octets = Bytes::copy_from_slice(reader.read_binary_opt()?.unwrap_or_default());
                match &mut message.body {
                    Body::Data(sections) => sections.push(octets),
                    other => *other = Body::Data(vec![octets]),
                }
            }
            descriptor::AMQP_SEQUENCE => {
                let list = match reader.read_value()? {
                    Value::List(list) => list,
                    _ => Vec::new(),
                };
                match &mut message.body {
                    Body::Sequence(lists) => lists.push(list),
                    other => *other = Body::Sequence(vec![list]),
                }
            }
            _ => message.body = Body::Value(reader.read_value()?),
        }
    }
    Ok(message)
}

fn read_map(reader: &mut Reader<'_>) -> Result<Option<Map>, DecodeError> {
    Ok(match reader.read_value()? {
        Value::Map(map) => Some(map),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let full = Message::data("hello")
            .durable(true)
            .priority(4)
            .ttl(60_000)
            .message_id(7u64)
            .user_id("guest")
            .to("/queues/q")
            .subject("s")
            .reply_to("/queues/r")
            .correlation_id("c")
            .content_type("text/plain")
            .creation_time(1)
            .group_id("g")
            .application_property("k", 1i32)
            .message_annotation("x-k", "v");
        assert_eq!(Message::decode(&full.encode()).unwrap(), full);
        assert_eq!(full.body_bytes().unwrap(), "hello");
        for body in [
            Body::Data(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]),
            Body::Sequence(vec![vec![Value::Uint(1)], vec![]]),
            Body::Value(Value::Null),
        ] {
            let message =
                Message { footer: Some(Map::from_iter([(Symbol::from("x-f"), 1u32)])), ..Message::new(body) };
            assert_eq!(Message::decode(&message.encode()).unwrap(), message);
        }
    }

    #[test]
    fn bad_messages_are_refused() {
        assert!(Message::decode(b"").is_err());
        assert!(Message::decode(b"\x00\x53\x75\xa0\x05hell").is_err());
        assert!(Message::decode(b"\x00\x53\x74\x45").is_err());
    }
}
