//! `POST /api/exchanges/{vhost}/{name}/publish` and `POST /api/queues/{vhost}/{name}/get`: RabbitMQ's requests, for one
//! message and for some messages.
//!
//! As in RabbitMQ, each request opens a connection to the broker in the name of its user ([`AdminApi::connect`]) and closes it
//! before it is answered. So permissions, limits, routing and conversions are those of AMQP 0.9.1. These requests are for
//! people and scripts: a client of AMQP moves thousands of messages in the time of one request.

mod connection;
mod properties;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use amqp091::{
    BasicAck, BasicGet, BasicGetOk, BasicNack, BasicPublish, BasicQos, ConfirmSelect, Content, Event,
    KEY_BYTES_MAX, Method,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::Error;
use client::amqp091::Connection;
use serde_json::{Map as Object, Value, json};

pub(crate) use self::connection::place;
use self::connection::{CHANNEL, failure, in_time, open};
use crate::browse::put_payload;
use crate::call::Call;
use crate::exchanges::unaliased;
use crate::reply::{Failure, Reply};
use crate::shown;

/// The most messages that one request may take. A request for more is refused.
const COUNT_MAX: i64 = 10_000;

/// No more messages are taken when the answer has this many bytes. It then has fewer messages than were asked for, and the
/// others stay in the queue.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// No more messages are taken after this time. The answer then has fewer messages than were asked for. It is half of the time
/// of a request, because the other half is for connecting and closing.
const TAKING_TIME_MAX: Duration = Duration::from_secs(connection::TIME_MAX.as_secs() / 2);

/// The longest name and routing key of AMQP 0.9.1, in bytes.
const SHORT_STRING_MAX: usize = KEY_BYTES_MAX;

// ---- publish ----------------------------------------------------------------------------------------------------------

/// Publishes a message, and waits until the broker has confirmed it.
///
/// # Errors
/// 400 for a bad field and for a message that the broker refuses, 401 without the permission, 404 without the exchange, 503
/// while an alarm stops publishers and if the broker does not answer in time.
pub(crate) async fn publish(call: &Call<'_>) -> Result<Reply, Failure> {
    let [routing_key, properties, payload, encoding] =
        required(&call.fields, ["routing_key", "properties", "payload", "payload_encoding"])?;
    let exchange = name(call.param(1), "exchange")?;
    let Some(routing_key) = routing_key.as_str().filter(|key| key.len() <= SHORT_STRING_MAX) else {
        return Err(Failure::bad_request(format!(
            "'routing_key' is not a string of at most {SHORT_STRING_MAX} bytes"
        )));
    };
    let payload = payload.as_str().ok_or_else(|| Failure::bad_request("payload_not_string"))?;
    let properties = properties::encode(properties)?;
    let payload = decode(payload, encoding)?;
    require_no_alarm(call)?;
    let publish = BasicPublish {
        exchange: unaliased(exchange),
        routing_key,
        mandatory: true,
        ..BasicPublish::default()
    };
    let _place = place(call, "nothing was published").await?;
    let is_sent = AtomicBool::new(false);
    let then = || match is_sent.load(Ordering::Relaxed) {
        true => "the message may have been published, or not",
        false => "nothing was published",
    };
    let routed = in_time(then, async {
        let mut connection = open(call).await?;
        is_sent.store(true, Ordering::Relaxed);
        let outcome = send(&mut connection, &publish, &properties, &payload).await;
        // The outcome is known, so the way in which the connection ends does not change it. A connection that an alarm stops is
        // not read, so nothing would answer.
        if !matches!(outcome, Ok(Outcome::Stopped)) {
            drop(connection.close().await);
        }
        outcome.map_err(|error| failure(&error))
    })
    .await?;
    match routed {
        Outcome::Routed => Ok(Reply::Json(json!({ "routed": true }))),
        Outcome::Unroutable => Ok(Reply::Json(json!({ "routed": false }))),
        // RabbitMQ's words.
        Outcome::Rejected => {
            Err(Failure::bad_request("rejected Unable to publish message. Check queue limits."))
        }
        Outcome::Stopped => Err(Failure::alarm(
            "publishing is stopped: an alarm has begun meanwhile, and the message may be published when it ends, or not",
        )),
    }
}

/// What happened to a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Routed,
    /// No queue takes it.
    Unroutable,
    /// A queue has refused it.
    Rejected,
    /// An alarm has begun since it was sent.
    Stopped,
}

/// Publishes a message in confirm mode, and waits for its confirm.
async fn send(
    connection: &mut Connection,
    publish: &BasicPublish<'_>,
    properties: &[u8],
    payload: &Bytes,
) -> Result<Outcome, Error> {
    let select = Method::ConfirmSelect(ConfirmSelect { nowait: false });
    let selected = |method: &Method<'_>| matches!(method, Method::ConfirmSelectOk(_)).then_some(());
    connection.ask(CHANNEL, &select, selected, |_| ()).await?;
    connection.publish(CHANNEL, publish, properties, payload);
    let (mut is_returned, mut outcome) = (false, None);
    loop {
        connection
            .exchange(|event| match event {
                Event::Content { content, .. } => is_returned |= content.returned().is_some(),
                // The return comes before the confirm.
                Event::Method { method: Method::BasicAck(_), .. } => {
                    outcome = Some(if is_returned { Outcome::Unroutable } else { Outcome::Routed });
                }
                Event::Method { method: Method::BasicNack(_), .. } => outcome = Some(Outcome::Rejected),
                Event::Blocked(_) => outcome = Some(Outcome::Stopped),
                _ => {}
            })
            .await?;
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
}

/// Refuses to publish while an alarm stops publishers. A client of AMQP would wait until the alarm is over, which is too long
/// for a request.
fn require_no_alarm(call: &Call<'_>) -> Result<(), Failure> {
    let alarms = call.api.alarms(&call.who)?;
    let Some((resource, node)) = alarms.first() else { return Ok(()) };
    Err(Failure::alarm(format!("publishing is stopped: {resource} alarm on node '{node}'")))
}

fn decode(payload: &str, encoding: &Value) -> Result<Bytes, Failure> {
    match encoding.as_str() {
        Some("string") => Ok(payload.to_owned().into()),
        Some("base64") => {
            let decoded = STANDARD.decode(payload);
            decoded.map(Bytes::from).map_err(|_| Failure::bad_request("'payload' is not base64"))
        }
        _ => Err(Failure::bad_request(format!(
            "unsupported payload_encoding {encoding}. Please use string or base64."
        ))),
    }
}

// ---- get ----------------------------------------------------------------------------------------------------------------

/// What happens to the messages that a request has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckMode {
    /// They return to the queue, as those of a client that is gone.
    AckRequeue,
    /// They are acknowledged.
    Ack,
    /// They are rejected and return to the queue.
    RejectRequeue,
    /// They are rejected, and become dead letters.
    Reject,
}

impl AckMode {
    fn parse(value: &Value) -> Result<Self, Failure> {
        match value.as_str() {
            Some("ack_requeue_true") => Ok(Self::AckRequeue),
            Some("ack_requeue_false") => Ok(Self::Ack),
            Some("reject_requeue_true") => Ok(Self::RejectRequeue),
            Some("reject_requeue_false") => Ok(Self::Reject),
            _ => Err(Failure::bad_request(format!(
                "unsupported ackmode {value}. Please use ack_requeue_true, ack_requeue_false, reject_requeue_true or \
                 reject_requeue_false."
            ))),
        }
    }

    /// Returns the method that settles all messages of the channel. `None` if they return when the channel ends.
    fn settle(self) -> Option<Method<'static>> {
        // The tag 0 stands for all of them.
        let nack = |requeue| Method::BasicNack(BasicNack { delivery_tag: 0, multiple: true, requeue });
        match self {
            Self::AckRequeue => None,
            Self::Ack => Some(Method::BasicAck(BasicAck { delivery_tag: 0, multiple: true })),
            Self::RejectRequeue => Some(nack(true)),
            Self::Reject => Some(nack(false)),
        }
    }
}

/// What a request for messages asks for.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    queue: &'a str,
    count: i64,
    mode: AckMode,
    /// False: payloads that are not UTF-8 are base64. True: all are.
    is_base64: bool,
    /// The most bytes of a payload that are shown.
    truncate: usize,
}

/// Takes messages from a queue. They are settled when all of them have been taken, so that none is lost if the request fails
/// before.
///
/// # Errors
/// 400 for a bad field, and for a queue that refuses, for example a stream; 401 without the permission, 404 without the queue,
/// 503 if the broker does not answer in time.
pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let wanted = wanted(call)?;
    let mut held = call.ports.answers().hold();
    let _place = place(call, "no message was taken").await?;
    let settles = AtomicBool::new(false);
    let then = || match settles.load(Ordering::Relaxed) {
        true => "the messages may have been settled, or not",
        false => "the messages are in the queue again",
    };
    let text = in_time(then, async {
        let mut connection = open(call).await?;
        let began = Instant::now();
        let (mut text, mut taken) = (String::from("["), 0);
        let result = loop {
            let is_full = taken == wanted.count || text.len() >= ANSWER_BYTES_MAX;
            if is_full || began.elapsed() >= TAKING_TIME_MAX {
                break Ok(());
            }
            match take(&mut connection, &wanted).await {
                Ok(Some(row)) => {
                    let comma = if taken > 0 { "," } else { "" };
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{comma}{row}");
                    taken += 1;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(failure(&error)),
            }
            // The answer needs no more memory after the messages are settled, so it cannot be refused then.
            if !held.grow_to(text.len() + "]".len()) {
                break Err(call.ports.answers_are_full());
            }
        };
        let result = match result {
            Ok(()) => {
                settles.store(wanted.mode.settle().is_some(), Ordering::Relaxed);
                settle(&mut connection, wanted.mode, taken > 0).await
            }
            failed => failed,
        };
        drop(connection.close().await);
        result?;
        text.push(']');
        Ok(text)
    })
    .await?;
    Ok(Reply::Counted(text, held))
}

fn wanted<'a>(call: &'a Call<'_>) -> Result<Wanted<'a>, Failure> {
    let [mode, count, encoding] = required(&call.fields, ["ackmode", "count", "encoding"])?;
    let queue = name(call.param(1), "queue")?;
    let mode = AckMode::parse(mode)?;
    let count = whole_number(count).filter(|count| (0..=COUNT_MAX).contains(count)).ok_or_else(|| {
        Failure::bad_request(format!("count '{}' is not a number from 0 to {COUNT_MAX}", bare(count)))
    })?;
    let is_base64 = match encoding.as_str() {
        Some("auto") => false,
        Some("base64") => true,
        // RabbitMQ's words.
        _ => return Err(Failure::bad_request("Unsupported encoding. Please use auto or base64.")),
    };
    let truncate = match call.fields.get("truncate") {
        None | Some(Value::Null) => usize::MAX,
        Some(value) => {
            whole_number(value).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
                Failure::bad_request(format!("truncate '{}' is not a number of bytes", bare(value)))
            })?
        }
    };
    Ok(Wanted { queue, count, mode, is_base64, truncate })
}

/// Takes one message. Returns `None` if the queue has none.
async fn take(connection: &mut Connection, wanted: &Wanted<'_>) -> Result<Option<Value>, Error> {
    let get = BasicGet { queue: wanted.queue, no_ack: false };
    connection.send(CHANNEL, &Method::BasicGet(get));
    let mut answer = None;
    loop {
        connection
            .exchange(|event| match event {
                Event::Content { content, .. } => {
                    if let Some(get_ok) = content.get_ok() {
                        answer = Some(Some(row(&get_ok, &content, wanted)));
                    }
                }
                Event::Method { method: Method::BasicGetEmpty(_), .. } => answer = Some(None),
                _ => {}
            })
            .await?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

/// Settles the messages that were taken, if there are any. Whoever looks at the queue then sees what has become of them.
async fn settle(connection: &mut Connection, mode: AckMode, any: bool) -> Result<(), Failure> {
    if let Some(method) = mode.settle().filter(|_| any) {
        connection.send(CHANNEL, &method);
        // A settlement has no answer. The answer to this says that it was not refused.
        let qos = Method::BasicQos(BasicQos::default());
        let answer = |method: &Method<'_>| matches!(method, Method::BasicQosOk(_)).then_some(());
        connection.ask(CHANNEL, &qos, answer, |_| ()).await.map_err(|error| failure(&error))?;
    }
    connection.close_channel(CHANNEL).await.map_err(|error| failure(&error))
}

/// Returns a message with RabbitMQ's fields, in RabbitMQ's order.
fn row(get_ok: &BasicGetOk<'_>, content: &Content<'_>, wanted: &Wanted<'_>) -> Value {
    let mut object = Object::new();
    object.insert("payload_bytes".into(), content.payload.len().into());
    object.insert("redelivered".into(), get_ok.redelivered.into());
    object.insert("exchange".into(), get_ok.exchange.into());
    object.insert("routing_key".into(), get_ok.routing_key.into());
    object.insert("message_count".into(), get_ok.message_count.into());
    object.insert("properties".into(), shown::basic_properties(&content.properties));
    put_payload(&mut object, &content.payload, wanted.truncate, wanted.is_base64);
    Value::Object(object)
}

// ---- fields -------------------------------------------------------------------------------------------------------------

/// Returns the fields of these names.
///
/// # Errors
/// 400, in RabbitMQ's words, if some are missing.
fn required<'a, const N: usize>(
    fields: &'a Object<String, Value>,
    names: [&str; N],
) -> Result<[&'a Value; N], Failure> {
    let missing: Vec<String> = names
        .iter()
        .filter(|name| !fields.contains_key(**name))
        .map(|name| format!("{{key_missing,{name}}}"))
        .collect();
    if !missing.is_empty() {
        return Err(Failure::bad_request(format!("[{}]", missing.join(","))));
    }
    Ok(names.map(|name| &fields[name]))
}

/// Returns the name unless it is too long for a method of AMQP 0.9.1. A longer name would be cut off, and would name something else.
///
/// # Errors
/// 404: nothing has such a name.
fn name<'a>(name: &'a str, what: &str) -> Result<&'a str, Failure> {
    if name.len() > SHORT_STRING_MAX {
        return Err(Failure::not_found(format!(
            "no {what} has a name of more than {SHORT_STRING_MAX} bytes"
        )));
    }
    Ok(name)
}

/// Returns a whole number. As in RabbitMQ, it may also be a string.
fn whole_number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns a value for a message: a string without quotes.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
