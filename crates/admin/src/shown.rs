//! Shows a message: its body alone, or all of it as JSON.

use std::borrow::Cow;

use amqp10::{Map, Value as Amqp};
use amqp091::{Array, Properties, Table, Value as Field};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Body, Message};
use serde_json::{Map as Object, Value, json};

use crate::json::from_amqp as amqp_to_json;

/// Returns the body's octets. Values that are neither text nor octets become JSON.
pub fn body(message: &Message) -> Cow<'_, [u8]> {
    match &message.body {
        Body::Data(sections) if sections.len() == 1 => Cow::Borrowed(&sections[0]),
        Body::Data(sections) => Cow::Owned(sections.concat()),
        Body::Value(Amqp::String(text)) => Cow::Borrowed(text.as_bytes()),
        Body::Value(Amqp::Binary(octets)) => Cow::Borrowed(octets),
        Body::Value(value) => Cow::Owned(amqp_to_json(value).to_string().into_bytes()),
        Body::Sequence(lists) => Cow::Owned(sequence(lists).to_string().into_bytes()),
    }
}

/// Returns a message as JSON:
///
/// ```text
/// {"header": {..}, "message_annotations": {..}, "properties": {..}, "application_properties": {..},
///  "footer": {..}, "body": .., "body_type": "text" | "base64" | "value" | "sequence"}
/// ```
///
/// Absent sections and fields are omitted. Octets are text if they are UTF-8, else base64.
pub fn object(message: &Message) -> Value {
    let mut object = sections(message);
    let (kind, value) = match &message.body {
        Body::Data(_) => {
            let octets = body(message);
            match std::str::from_utf8(&octets) {
                Ok(text) => ("text", text.into()),
                Err(_) => ("base64", STANDARD.encode(&octets).into()),
            }
        }
        Body::Value(value) => ("value", amqp_to_json(value)),
        Body::Sequence(lists) => ("sequence", sequence(lists)),
    };
    object.insert("body".into(), value);
    object.insert("body_type".into(), kind.into());
    Value::Object(object)
}

/// Returns all sections but the body, as in [`object`].
pub(crate) fn sections(message: &Message) -> Object<String, Value> {
    let mut object = Object::new();
    let mut put = |name: &str, section: Option<Value>| {
        section.map(|section| object.insert(name.to_owned(), section));
    };
    put("header", header(message));
    put("delivery_annotations", message.delivery_annotations.as_ref().map(map));
    put("message_annotations", message.message_annotations.as_ref().map(map));
    put("properties", properties(message));
    put("application_properties", message.application_properties.as_ref().map(map));
    put("footer", message.footer.as_ref().map(map));
    object
}

fn header(message: &Message) -> Option<Value> {
    let header = message.header.as_ref()?;
    Some(present([
        ("durable", header.durable.map(Value::from)),
        ("priority", header.priority.map(Value::from)),
        ("ttl", header.ttl.map(Value::from)),
        ("first_acquirer", header.first_acquirer.map(Value::from)),
        ("delivery_count", header.delivery_count.map(Value::from)),
    ]))
}

fn properties(message: &Message) -> Option<Value> {
    let properties = message.properties.as_ref()?;
    let text = |field: &Option<String>| field.as_deref().map(Value::from);
    let symbol = |field: &Option<amqp10::Symbol>| field.as_ref().map(|s| Value::from(s.as_str()));
    Some(present([
        ("message_id", properties.message_id.as_ref().map(amqp_to_json)),
        ("user_id", properties.user_id.as_ref().map(|octets| amqp_to_json(&Amqp::Binary(octets.clone())))),
        ("to", text(&properties.to)),
        ("subject", text(&properties.subject)),
        ("reply_to", text(&properties.reply_to)),
        ("correlation_id", properties.correlation_id.as_ref().map(amqp_to_json)),
        ("content_type", symbol(&properties.content_type)),
        ("content_encoding", symbol(&properties.content_encoding)),
        ("absolute_expiry_time", properties.absolute_expiry_time.map(Value::from)),
        ("creation_time", properties.creation_time.map(Value::from)),
        ("group_id", text(&properties.group_id)),
        ("group_sequence", properties.group_sequence.map(Value::from)),
        ("reply_to_group_id", text(&properties.reply_to_group_id)),
    ]))
}

fn present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn map(map: &Map) -> Value {
    amqp_to_json(&Amqp::Map(map.clone()))
}

fn sequence(lists: &[Vec<Amqp>]) -> Value {
    json!(lists.iter().flatten().map(amqp_to_json).collect::<Vec<_>>())
}

/// Returns the property list of a message of AMQP 0.9.1 as RabbitMQ's HTTP API shows it: the properties that are set, by
/// name.
pub(crate) fn basic_properties(list: &[u8]) -> Value {
    // The list was checked when the message arrived.
    let properties = Properties::view(list).unwrap_or_default();
    present([
        ("content_type", properties.content_type.map(octets)),
        ("content_encoding", properties.content_encoding.map(octets)),
        ("headers", properties.headers.map(table)),
        ("delivery_mode", properties.delivery_mode.map(Value::from)),
        ("priority", properties.priority.map(Value::from)),
        ("correlation_id", properties.correlation_id.map(octets)),
        ("reply_to", properties.reply_to.map(octets)),
        ("expiration", properties.expiration.map(octets)),
        ("message_id", properties.message_id.map(octets)),
        ("timestamp", properties.timestamp.map(Value::from)),
        ("type", properties.message_type.map(octets)),
        ("user_id", properties.user_id.map(octets)),
        ("app_id", properties.app_id.map(octets)),
        ("cluster_id", properties.cluster_id.map(octets)),
    ])
}

fn table(table: Table<'_>) -> Value {
    Value::Object(table.iter().map(|(name, value)| (name.to_owned(), field(value))).collect())
}

fn field(value: Field<'_>) -> Value {
    match value {
        Field::Bool(value) => value.into(),
        Field::I8(value) => value.into(),
        Field::U8(value) => value.into(),
        Field::I16(value) => value.into(),
        Field::U16(value) => value.into(),
        Field::I32(value) => value.into(),
        Field::U32(value) => value.into(),
        Field::I64(value) => value.into(),
        // Numbers that JSON does not have are null.
        Field::F32(value) => value.into(),
        Field::F64(value) => value.into(),
        Field::Decimal { scale, value } => (f64::from(value) / 10f64.powi(scale.into())).into(),
        Field::LongString(bytes) | Field::Binary(bytes) => octets(bytes),
        Field::Timestamp(seconds) => seconds.into(),
        Field::Table(nested) => table(nested),
        Field::Array(array) => Array::iter(array).map(field).collect(),
        Field::Void => Value::Null,
    }
}

/// Returns octets as text if they are UTF-8, else in base64.
fn octets(octets: &[u8]) -> Value {
    std::str::from_utf8(octets).map_or_else(|_| STANDARD.encode(octets).into(), Value::from)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn every_body_has_a_plain_and_a_json_form() {
        let octets = Message::data(Bytes::from_static(b"\xff\x00"));
        let two = Message::new(Body::Data(vec!["a".into(), "b".into()]));
        let list = Message::new(Body::Sequence(vec![vec![Amqp::Uint(1)], vec![Amqp::Uint(2)]]));
        for (message, plain, json) in [
            (Message::data("hi"), &b"hi"[..], r#"{"body":"hi","body_type":"text"}"#),
            (octets, b"\xff\x00", r#"{"body":"/wA=","body_type":"base64"}"#),
            (two, b"ab", r#"{"body":"ab","body_type":"text"}"#),
            (Message::value("hi"), b"hi", r#"{"body":"hi","body_type":"value"}"#),
            (Message::value(true), b"true", r#"{"body":true,"body_type":"value"}"#),
            (list, b"[1,2]", r#"{"body":[1,2],"body_type":"sequence"}"#),
        ] {
            assert_eq!(body(&message), plain);
            assert_eq!(object(&message).to_string(), json);
        }
    }

    #[test]
    fn properties_are_shown_as_rabbitmq_shows_them() {
        let mut headers = bytes::BytesMut::new();
        let mut writer = amqp091::TableWriter::new(&mut headers);
        writer.put("s", &Field::LongString(b"text"));
        writer.put("b", &Field::LongString(b"\xff"));
        writer.put("d", &Field::Decimal { scale: 2, value: 314 });
        writer.put("v", &Field::Void);
        let mut array = writer.array("a");
        array.put(&Field::I64(1));
        array.table().put("k", &Field::Bool(true));
        drop(array);
        drop(writer);
        let properties = Properties {
            headers: Some(Table::from_entries(&headers[4..])),
            delivery_mode: Some(2),
            timestamp: Some(7),
            message_type: Some(b"t"),
            ..Properties::default()
        };
        let mut list = bytes::BytesMut::new();
        properties.put(&mut list);
        let expected = r#"{"headers":{"s":"text","b":"/w==","d":3.14,"v":null,"a":[1,{"k":true}]},"delivery_mode":2,"timestamp":7,"type":"t"}"#;
        assert_eq!(basic_properties(&list).to_string(), expected);
    }

    #[test]
    fn sections_show_what_is_there() {
        let message = Message::data("b")
            .durable(true)
            .ttl(5)
            .subject("s")
            .message_id(7u64)
            .application_property("k", "v")
            .message_annotation("x-n", 1u32);
        let expected = r#"{"header":{"durable":true,"ttl":5},"message_annotations":{"x-n":1},"properties":{"message_id":7,"subject":"s"},"application_properties":{"k":"v"},"body":"b","body_type":"text"}"#;
        assert_eq!(object(&message).to_string(), expected);
    }
}
