//! The tables of `docs/compatibility.md`, Conversion of messages: one case for each row, and the rules beside the tables.

mod amqp091_to_10;
mod amqp10_to_091;
mod deliveries;

use std::sync::Arc;

use amqp10::sections::{self, map_pairs};
use amqp10::{Encode, Map, Reader, Symbol, Value as Amqp10, descriptor, encode};
use amqp091::{Array, Properties, Table, TableWriter, Value};
use bytes::{BufMut, Bytes, BytesMut};

use super::Basic;
use crate::{Format, Message, Route, trim};

/// The encoding of one data section with the octets `hi`.
const HI: &[u8] = b"\x00\x53\x75\xa0\x02hi";

fn route() -> Arc<Route> {
    Arc::new(Route::simple("x", "k"))
}

/// A message of AMQP 0.9.1 as a publisher writes it.
#[derive(Default)]
struct Written091 {
    properties: Properties<'static>,
    headers: Vec<(&'static str, Value<'static>)>,
    payload: &'static [u8],
}

impl Written091 {
    fn list(&self) -> Vec<u8> {
        let mut list = BytesMut::new();
        self.properties.put_with_headers(&mut list, |out| {
            if self.headers.is_empty() {
                return None;
            }
            let mut table = TableWriter::new(out);
            self.headers.iter().for_each(|(name, value)| table.put(name, value));
            Some(())
        });
        list.to_vec()
    }

    fn message(&self) -> Message {
        let list = self.list();
        let basic = Basic::borrowed(&list, self.payload).unwrap();
        let wire = [basic.list(), self.payload].concat();
        Message::new(basic.parts(wire.into()), route())
    }
}

/// A message of AMQP 1.0 as a publisher writes it.
#[derive(Default)]
struct Written10 {
    header: amqp10::Header,
    annotations: Map,
    properties: amqp10::Properties,
    application_properties: Map,
    /// `HI` if it is empty.
    body: Vec<u8>,
}

impl Written10 {
    fn message(&self) -> Message {
        let mut wire = BytesMut::new();
        if self.header != amqp10::Header::default() {
            self.header.encode(&mut wire);
        }
        let mut section = |code, map: &Map| {
            if !map.is_empty() {
                encode::put_descriptor(&mut wire, code);
                encode::put_map(&mut wire, map);
            }
        };
        section(descriptor::MESSAGE_ANNOTATIONS, &self.annotations);
        let mut application_properties = BytesMut::new();
        if !self.application_properties.is_empty() {
            encode::put_descriptor(&mut application_properties, descriptor::APPLICATION_PROPERTIES);
            encode::put_map(&mut application_properties, &self.application_properties);
        }
        if self.properties != amqp10::Properties::default() {
            self.properties.encode(&mut wire);
        }
        wire.put_slice(&application_properties);
        wire.put_slice(if self.body.is_empty() { HI } else { &self.body });
        let found = sections::scan(&wire).unwrap();
        let trimmed = trim(&found, false);
        let kept = Bytes::copy_from_slice(&wire[trimmed.range.clone()]);
        Message::new(trimmed.into_parts(kept), route())
    }
}

/// Returns the facts of a message of AMQP 1.0, one a line.
fn shown10(message: &Message) -> Vec<String> {
    assert_eq!(message.format(), Format::Amqp10);
    let mut head = BytesMut::new();
    message.put_delivery_head(0, false, None, &mut head);
    let delivered = [&head[..], &message.bare()].concat();
    let found = sections::scan(&delivered).expect("a delivery is a valid message");
    let mut lines = Vec::new();
    let header = found.header.expect("a delivery has a header");
    if header.durable == Some(true) {
        lines.push("durable".to_owned());
    }
    lines.extend(header.priority.map(|priority| format!("priority {priority}")));
    lines.extend(header.ttl.map(|ttl| format!("ttl {ttl}")));
    let pairs = |section: &[u8], prefix: &str| -> Vec<String> {
        let pairs = map_pairs(section).into_iter().flatten().map(|pair| pair.expect("a pair"));
        let line =
            |(key, value)| format!("{prefix}{key}={:?}", Reader::new(value).read_value().expect("a value"));
        pairs.map(line).collect()
    };
    lines.extend(pairs(message.annotations(), "annotation "));
    if !message.properties().is_empty() {
        let properties = sections::properties(message.properties()).expect("properties");
        let mut field = |name: &str, value: Option<Amqp10>| {
            lines.extend(value.map(|value| format!("{name}={value:?}")));
        };
        let text = |text: Option<String>| text.map(Amqp10::String);
        field("message-id", properties.message_id);
        field("user-id", properties.user_id.map(Amqp10::Binary));
        field("to", text(properties.to));
        field("subject", text(properties.subject));
        field("reply-to", text(properties.reply_to));
        field("correlation-id", properties.correlation_id);
        field("content-type", properties.content_type.map(Amqp10::Symbol));
        field("content-encoding", properties.content_encoding.map(Amqp10::Symbol));
        field("creation-time", properties.creation_time.map(Amqp10::Timestamp));
        field("group-id", text(properties.group_id));
    }
    lines.extend(pairs(message.application_properties(), ""));
    if message.body() != HI {
        lines.push(format!("body {}", message.body().escape_ascii()));
    }
    lines
}

/// Returns the facts of a message of AMQP 0.9.1, one a line.
fn shown091(message: &Message) -> Vec<String> {
    assert_eq!(message.format(), Format::Amqp091);
    shown_list(message.property_list(), message.body())
}

fn shown_list(list: &[u8], payload: &[u8]) -> Vec<String> {
    let properties = Properties::parse(list).expect("a property list");
    let mut lines = Vec::new();
    let mut field = |name: &str, text: Option<&[u8]>| {
        lines.extend(text.map(|text| format!("{name}={}", text.escape_ascii())));
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string().into_bytes());
    field("content_type", properties.content_type);
    field("content_encoding", properties.content_encoding);
    field("delivery_mode", number(properties.delivery_mode.map(u64::from)).as_deref());
    field("priority", number(properties.priority.map(u64::from)).as_deref());
    field("correlation_id", properties.correlation_id);
    field("reply_to", properties.reply_to);
    field("expiration", properties.expiration);
    field("message_id", properties.message_id);
    field("timestamp", number(properties.timestamp).as_deref());
    field("type", properties.message_type);
    field("user_id", properties.user_id);
    field("app_id", properties.app_id);
    let headers = properties.headers.unwrap_or_default();
    lines.extend(headers.iter().map(|(name, value)| format!("{name}={}", shown_value(value))));
    if payload != b"hi" {
        lines.push(format!("payload {}", payload.escape_ascii()));
    }
    lines
}

fn shown_value(value: Value<'_>) -> String {
    match value {
        Value::LongString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Binary(bytes) => format!("x\"{}\"", bytes.escape_ascii()),
        Value::Array(array) => format!("[{}]", array.iter().map(shown_value).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let entry = |(name, value)| format!("{name}: {}", shown_value(value));
            format!("{{{}}}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// Returns an array of AMQP 0.9.1 that lives as long as the test.
fn array(items: &[Value<'_>]) -> Value<'static> {
    let mut out = BytesMut::new();
    let mut table = TableWriter::new(&mut out);
    let mut array = table.array("");
    items.iter().for_each(|item| array.put(item));
    drop(array);
    drop(table);
    // The length of the table, an empty name, the letter, and the length of the array.
    Value::Array(Array::from_items(out[4 + 1 + 1 + 4..].to_vec().leak()))
}

/// Returns a table of AMQP 0.9.1 that lives as long as the test.
fn table(entries: &[(&str, Value<'_>)]) -> Value<'static> {
    let mut out = BytesMut::new();
    let mut table = TableWriter::new(&mut out);
    entries.iter().for_each(|(name, value)| table.put(name, value));
    drop(table);
    Value::Table(Table::from_entries(out[4..].to_vec().leak()))
}

fn text(text: &'static str) -> Value<'static> {
    Value::LongString(text.as_bytes())
}

/// Returns a map whose keys are symbols.
fn annotations<const N: usize>(pairs: [(&'static str, Amqp10); N]) -> Map {
    Map(pairs.into_iter().map(|(key, value)| (Symbol::from_static(key).into(), value)).collect())
}
