//! `sluice publish` and `sluice get`: one message to an exchange, and some messages of a queue, over the management API. Like
//! RabbitMQ's tools, they need no port of AMQP. `sluice send` and `sluice recv` are for many messages.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::declare::value;
use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Ask, Vhost};
use crate::objects;
use crate::output::print;
use crate::send::{body, pair};
use crate::table::{Column, rows_of, table};

/// The properties of AMQP 0.9.1 that are strings.
const TEXTS: [&str; 10] = [
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
];

/// The properties that are numbers. `--durable` sets the delivery mode.
const NUMBERS: [&str; 2] = ["priority", "timestamp"];

const COLUMNS: &[Column] = &[
    ("EXCHANGE", "exchange"),
    ("KEY", "routing_key"),
    ("REDELIVERED", "redelivered"),
    ("LEFT", "message_count"),
    ("BYTES", "payload_bytes"),
    ("PROPERTIES", "properties"),
    ("PAYLOAD", "payload"),
];

#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// The exchange; amq.default is the default exchange, whose keys are names of queues
    exchange: String,
    /// The body; `-` or no argument reads standard input
    #[arg(conflicts_with = "file")]
    body: Option<String>,
    /// Read the body from this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The routing key
    #[arg(long, default_value = "")]
    key: String,
    /// Whether the message survives a restart of the broker
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    durable: bool,
    /// A property of AMQP 0.9.1, such as content_type=text/plain; may be repeated
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, Value)>,
    /// A header; the value is JSON, or a string if it is not valid JSON; may be repeated
    #[arg(long = "header", value_name = "KEY=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Args, Debug)]
pub(crate) struct Get {
    /// The queue
    queue: String,
    /// The most messages to take
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// What becomes of the messages
    #[arg(long, value_enum, value_name = "MODE", default_value_t = AckMode::AckRequeueTrue)]
    ackmode: AckMode,
    /// Show every payload in base64, and not only those that are not UTF-8
    #[arg(long)]
    base64: bool,
    /// Show only so many bytes of each payload
    #[arg(long, value_name = "BYTES")]
    truncate: Option<u64>,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// RabbitMQ's names.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum AckMode {
    /// They return to the queue, and count as redelivered
    AckRequeueTrue,
    /// They are gone
    AckRequeueFalse,
    /// They are rejected, and return to the queue
    RejectRequeueTrue,
    /// They are rejected, and become dead letters or are gone
    RejectRequeueFalse,
}

/// Publishes a message, and prints whether a queue has it.
///
/// # Errors
/// The broker's error, or that no queue takes the message.
pub(crate) fn publish(publish: &Publish) -> Result<(), Failure> {
    let Publish { exchange: name, key, vhost, api, .. } = publish;
    let body = body(publish.body.as_deref(), publish.file.as_deref())?;
    let (payload, encoding) = match String::from_utf8(body) {
        Ok(text) => (text, "string"),
        Err(octets) => (STANDARD.encode(octets.as_bytes()), "base64"),
    };
    let request = json!({
        "routing_key": key, "properties": publish.properties(), "payload": payload, "payload_encoding": encoding,
    });
    let path = format!("{}/publish", objects::exchange(&vhost.vhost, name).path);
    let what = format!("publish to exchange '{name}'");
    crate::amqp::block_on(async {
        let (_, answer) = api.ask(&what, Method::POST, &path, Some(&request)).await?;
        let is_routed = answer["routed"] == true;
        if publish.json {
            print(&escape::json(&answer))?;
        } else if is_routed {
            print(&format!("1 message published to exchange '{name}': routed\n"))?;
        }
        if is_routed {
            return Ok(());
        }
        Err(api.failed(&what, &format!("no queue takes a message with the key '{key}'")))
    })
}

/// Prints messages of a queue.
///
/// # Errors
/// The broker's error.
pub(crate) fn get(get: &Get) -> Result<(), Failure> {
    let Get { queue: name, count, vhost, api, .. } = get;
    let mode = get.ackmode.to_possible_value().map(|mode| mode.get_name().to_owned());
    let encoding = if get.base64 { "base64" } else { "auto" };
    let request = json!({
        "count": count, "ackmode": mode, "encoding": encoding, "truncate": get.truncate,
    });
    let path = format!("{}/get", objects::queue(&vhost.vhost, name).path);
    let what = format!("get messages of queue '{name}'");
    let ask = Ask::new(&what, Method::POST, &path).with(Some(&request));
    crate::amqp::block_on(ask.print(api, get.json, |answer| table(COLUMNS, rows_of(answer))))
}

impl Publish {
    fn properties(&self) -> Value {
        let mut properties: Map<String, Value> = self.properties.iter().cloned().collect();
        properties.insert("delivery_mode".to_owned(), if self.durable { 2 } else { 1 }.into());
        if !self.headers.is_empty() {
            let headers = self.headers.iter().map(|(key, text)| (key.clone(), value(text)));
            properties.insert("headers".to_owned(), headers.collect::<Map<_, _>>().into());
        }
        properties.into()
    }
}

/// Parses a property.
fn property(text: &str) -> Result<(String, Value), String> {
    let (name, text) = pair(text)?;
    if TEXTS.contains(&name.as_str()) {
        return Ok((name, text.into()));
    }
    if NUMBERS.contains(&name.as_str()) {
        let number: u64 = text.parse().map_err(|_| format!("{name} is a number"))?;
        return Ok((name, number.into()));
    }
    Err(format!("the properties are {} and {}", TEXTS.join(", "), NUMBERS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_their_types() {
        assert_eq!(property("app_id=1"), Ok(("app_id".into(), "1".into())));
        assert_eq!(property("priority=1"), Ok(("priority".into(), 1.into())));
        assert_eq!(property("timestamp=soon"), Err("timestamp is a number".into()));
        assert!(property("colour=red").unwrap_err().starts_with("the properties are content_type, "));
    }
}
