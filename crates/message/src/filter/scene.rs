//! Messages for tests, written as a line of text.
//!
//! ```text
//!  city=string Lisbon; pieces=ushort 6; fresh=true; p.subject=string hello; h.priority=7; h.durable; m.x-a=int 1
//! ```
//!
//! A name with `p.` is a field of the properties, and a name with `m.` is a message-annotation. All other
//! names are application-properties, with or without `a.`. Octets are written in hex.

use std::sync::Arc;

use amqp10::{Encode, Map, Symbol, Value, descriptor, encode};
use bytes::{Bytes, BytesMut};

use super::property::Property;
use crate::{Message, Parts, Route};

/// Returns the message of a line. `-` is a message without properties.
pub(super) fn message(line: &str) -> Message {
    let (mut annotations, mut properties, mut application) = (Map::new(), Vec::new(), Map::new());
    let (mut priority, mut durable_header) = (None, false);
    for entry in line.split(';').map(str::trim_start).filter(|entry| !matches!(*entry, "" | "-")) {
        if entry == "h.durable" {
            durable_header = true;
            continue;
        }
        let (name, written) = entry.split_once('=').unwrap_or_else(|| panic!("no '=' in {entry:?}"));
        if name == "h.priority" {
            priority = Some(written.parse().expect("a number"));
        } else if let Some(annotation) = name.strip_prefix("m.") {
            annotations.insert(Symbol::from(annotation.to_owned()), value(written));
        } else if let Some(field) = name.strip_prefix("p.") {
            let property =
                Property::from_identifier(field).unwrap_or_else(|| panic!("no property {field:?}"));
            properties.push((property, value(written)));
        } else {
            application.insert(name.strip_prefix("a.").unwrap_or(name), value(written));
        }
    }
    let mut wire = BytesMut::new();
    if !annotations.is_empty() {
        encode::put_descriptor(&mut wire, descriptor::MESSAGE_ANNOTATIONS);
        annotations.encode(&mut wire);
    }
    let bare_at = wire.len() as u32;
    if !properties.is_empty() {
        encode::put_descriptor(&mut wire, descriptor::PROPERTIES);
        let mut fields = vec![Value::Null; 13];
        for (property, value) in properties {
            fields[property.place()] = value;
        }
        Value::List(fields).encode(&mut wire);
    }
    let application_properties_at = wire.len() as u32;
    if !application.is_empty() {
        encode::put_descriptor(&mut wire, descriptor::APPLICATION_PROPERTIES);
        application.encode(&mut wire);
    }
    with_body(
        wire,
        Parts { bare_at, application_properties_at, priority, durable_header, ..Parts::default() },
    )
}

/// Returns a message with these encoded properties and application-properties.
pub(super) fn with_sections(wire: BytesMut, application_properties_at: u32) -> Message {
    with_body(wire, Parts { application_properties_at, ..Parts::default() })
}

/// Returns a message with these sections before its body.
fn with_body(mut wire: BytesMut, parts: Parts) -> Message {
    let body_at = wire.len() as u32;
    wire.extend_from_slice(b"\x00\x53\x75\xa0\x00");
    Message::new(Parts { wire: wire.freeze(), body_at, ..parts }, Arc::new(Route::simple("", "stream")))
}

/// Returns a value, written as its type and its text.
pub(super) fn value(written: &str) -> Value {
    let (kind, text) = written.split_once(' ').unwrap_or((written, ""));
    fn number<T: std::str::FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| panic!("{text:?} is no number of this type"))
    }
    match kind {
        "null" => Value::Null,
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        "byte" => Value::Byte(number(text)),
        "short" => Value::Short(number(text)),
        "int" => Value::Int(number(text)),
        "long" => Value::Long(number(text)),
        "ubyte" => Value::Ubyte(number(text)),
        "ushort" => Value::Ushort(number(text)),
        "uint" => Value::Uint(number(text)),
        "ulong" => Value::Ulong(number(text)),
        "float" => Value::Float(number(text)),
        "double" => Value::Double(number(text)),
        "char" => Value::Char(number(text)),
        "timestamp" => Value::Timestamp(number(text)),
        "string" => Value::String(text.to_owned()),
        "symbol" => Value::Symbol(Symbol::from(text.to_owned())),
        "binary" => Value::Binary(Bytes::from(hex(text))),
        "uuid" => Value::Uuid(hex(text).try_into().expect("16 octets")),
        "decimal" => Value::Decimal32([0; 4]),
        "list" => Value::List(vec![Value::Uint(1)]),
        "map" => Value::Map([("k", 1u32)].into_iter().collect()),
        other => panic!("no type {other:?}"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(pair).collect()
}
