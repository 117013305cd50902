//! `/api/queues/{vhost}/{name}/messages`: reads messages of a stream without consuming them.
//! `/api/queues/{vhost}/{name}/peek/{position}` does this for one ready message of another queue.
//!
//! A row is a message. It has the field names of RabbitMQ's `POST /get`, its offset, and all sections but the
//! body as [`crate::message_to_json`] shows them. A message of AMQP 0.9.1 has the properties that RabbitMQ shows. The next page starts at the offset of the last row plus
//! one.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::admin_api::{AdminError, BrowsedRow, Peek, PeekedRow, ShownMessage, Start};
use broker::stream_offset::parse_offset;
use client::Message;
use serde_json::{Map as Object, Value};

use crate::call::Call;
use crate::clock::now_ms;
use crate::query::Query;
use crate::reply::{Failure, Reply};
use crate::shown;

/// The number of messages if the request has no `count`.
const COUNT_DEFAULT: u32 = 10;

/// The most messages of a response; a request for more is refused. The admin API bounds the bytes.
const COUNT_MAX: u32 = 1_000;

pub(crate) async fn browse(call: &Call<'_>) -> Result<Reply, Failure> {
    let start = start(&call.query, now_ms())?;
    let count = count(&call.query)?;
    let truncate = call.query.number("truncate")?.unwrap_or(usize::MAX);
    let rows = call.api.browse(&call.who, call.param(0), call.param(1), start, count).await?;
    // The rows are encoded one by one. As trees of values they would take several times as much memory.
    let mut text = String::from("[");
    for row in &rows {
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{}", to_json(row, truncate));
    }
    text.push(']');
    Ok(Reply::Rows(text.into()))
}

pub(crate) async fn peek(call: &Call<'_>) -> Result<Reply, Failure> {
    let position = call.param(2);
    let not_a_number = || Failure::bad_request(format!("position '{position}' is not a whole number"));
    let at: u64 = position.parse().map_err(|_| not_a_number())?;
    let truncate = call.query.number("truncate")?.unwrap_or(usize::MAX);
    let (vhost, name) = (call.param(0), call.param(1));
    let part = call.api.peek(&call.who, vhost, name, Peek { position: at, count: 1, hint: None }).await?;
    let row = part.rows.first().ok_or_else(|| AdminError::no_message(vhost, name, at))?;
    Ok(Reply::Json(peeked_to_json(at, row, truncate)))
}

/// Returns a ready message of a queue.
pub(crate) fn peeked_to_json(position: u64, row: &PeekedRow, truncate: usize) -> Value {
    let mut object = Object::new();
    object.insert("position".into(), position.into());
    object.insert("seq".into(), row.seq.into());
    object.insert("arrived_at".into(), row.at_ms.into());
    object.insert("exchange".into(), (*row.exchange).into());
    object.insert("routing_key".into(), (*row.routing_key).into());
    object.insert("redelivered".into(), row.redelivered.into());
    object.insert("delivery_count".into(), row.delivery_count.into());
    object.insert("acquired_count".into(), row.acquired_count.into());
    match &row.message {
        ShownMessage::Amqp10(encoded) => put_message(&mut object, encoded, truncate),
        ShownMessage::Amqp091 { properties, payload } => {
            put_payload(&mut object, payload, truncate, false);
            object.insert("properties".into(), shown::basic_properties(properties));
        }
    }
    Value::Object(object)
}

/// Returns where to start: at `offset`, at the time `at` in milliseconds since the epoch, or at the oldest
/// message.
fn start(query: &Query, now_ms: u64) -> Result<Start, Failure> {
    match (query.get("offset"), query.number("at")?) {
        (None, None) => Ok(Start::First),
        (None, Some(ms)) => Ok(Start::Time(ms as u64)),
        (Some(text), None) => offset(text, now_ms),
        (Some(_), Some(_)) => Err(Failure::bad_request("offset and at exclude each other")),
    }
}

/// Parses an offset of a stream. `now_ms` is the time since the epoch.
pub(crate) fn offset(text: &str, now_ms: u64) -> Result<Start, Failure> {
    let start = text.parse().ok().map(Start::Offset).or_else(|| parse_offset(text, now_ms));
    start.ok_or_else(|| {
        Failure::bad_request(format!(
            "offset '{text}' is not first, last, next, a whole number or a time span such as 10m (units: Y M D h m s)"
        ))
    })
}

/// Returns how many messages are wanted.
pub(crate) fn count(query: &Query) -> Result<u32, Failure> {
    match query.number("count")? {
        None => Ok(COUNT_DEFAULT),
        Some(count) => {
            u32::try_from(count).ok().filter(|count| (1..=COUNT_MAX).contains(count)).ok_or_else(|| {
                Failure::bad_request(format!("count '{count}' is not a number from 1 to {COUNT_MAX}"))
            })
        }
    }
}

/// Returns a message of a stream.
pub(crate) fn to_json(row: &BrowsedRow, truncate: usize) -> Value {
    let mut object = Object::new();
    object.insert("offset".into(), row.offset.into());
    object.insert("exchange".into(), (*row.exchange).into());
    object.insert("routing_key".into(), (*row.routing_key).into());
    object.insert("redelivered".into(), false.into());
    put_message(&mut object, &row.message, truncate);
    Value::Object(object)
}

/// Adds the payload and all sections of an encoded message to a row.
fn put_message(object: &mut Object<String, Value>, encoded: &[u8], truncate: usize) {
    match Message::decode(encoded) {
        Ok(message) => {
            put_payload(object, &shown::body(&message), truncate, false);
            object.append(&mut shown::sections(&message));
        }
        // The stored bytes are shown instead, because one unreadable message must not hide the later ones.
        Err(error) => {
            object.insert("error".into(), format!("the message cannot be read: {error}").into());
            put_payload(object, encoded, truncate, false);
        }
    }
}

/// Adds the first octets of a payload to a row. If the whole payload is UTF-8 and `is_base64` is false, they are added as text,
/// and no character is cut in two.
pub(crate) fn put_payload(
    object: &mut Object<String, Value>,
    octets: &[u8],
    truncate: usize,
    is_base64: bool,
) {
    let text = if is_base64 { None } else { std::str::from_utf8(octets).ok() };
    let (encoding, shown) = match text {
        Some(text) => ("string", text[..text.floor_char_boundary(truncate)].to_owned()),
        None => ("base64", STANDARD.encode(&octets[..octets.len().min(truncate)])),
    };
    object.insert("payload_bytes".into(), octets.len().into());
    object.insert("payload_encoding".into(), encoding.into());
    object.insert("payload".into(), shown.into());
}
