//! `sluice follow`: prints lines of the log, or events, as they come.
//!
//! The broker publishes them to exchanges. An exclusive queue of this connection gets them, so it is gone when the connection ends. The
//! queue has a bound: if this program or its terminal is slow, the oldest are dropped, and the broker loses no memory.

use std::fmt::Write as _;

use admin::{message_body, message_to_json};
use clap::{Args, Subcommand, ValueEnum};
use client::management::{Binding, QueueSpec};
use client::{Error, Management, Message, Options, Receiver, ReceiverOptions};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use crate::amqp::{Broker, BrokerAddress, SEGMENT, block_on};
use crate::escape;
use crate::failure::Failure;
use crate::output::print;
use crate::recv::Signals;
use crate::table::cell;

/// The most messages and bytes in the queue. A terminal shows that many lines in a few seconds.
const QUEUE_MESSAGES_MAX: u32 = 10_000;
const QUEUE_BYTES_MAX: u32 = 16 * 1024 * 1024;

const EXIT_CODES: &str = "\
Exit codes:
  0  interrupted
  1  the broker refused, or the connection has ended
  2  wrong usage
  3  nobody answers there";

#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Follow {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The lines of the log; the broker needs log.exchange = true
    Log {
        /// The lowest level to show
        #[arg(long, value_enum, default_value = "info")]
        level: Level,
        #[command(flatten)]
        options: FollowOptions,
    },
    /// The events; the broker needs event_exchange.enabled = true
    #[command(alias = "event")]
    Events {
        /// Only events whose key matches this pattern, such as queue.* or user.#; may be repeated
        #[arg(long = "key", value_name = "PATTERN", default_value = "#")]
        keys: Vec<String>,
        #[command(flatten)]
        options: FollowOptions,
    },
}

#[derive(Args, Debug)]
struct FollowOptions {
    /// Print each message with its sections as a JSON object on a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

/// The levels that the broker publishes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    /// Returns the keys of this level and of those above it.
    fn keys(self) -> Vec<String> {
        let names: &[&str] = match self {
            Self::Info => &["info", "warning", "error"],
            Self::Warning => &["warning", "error"],
            Self::Error => &["error"],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// What is followed.
struct Source {
    /// What it is called in messages.
    words: &'static str,
    exchange: &'static str,
    /// What the broker needs, so that the exchange exists.
    needs: &'static str,
    keys: Vec<String>,
    /// Renders a message as one line.
    line: fn(&Message) -> String,
}

/// Prints lines until a signal arrives.
///
/// # Errors
/// The broker does not publish them, the user may not read them, or the connection has ended.
pub(crate) fn run(follow: &Follow) -> Result<(), Failure> {
    let (source, options) = match &follow.what {
        What::Log { level, options } => (
            Source {
                words: "follow the log",
                exchange: "amq.rabbitmq.log",
                needs: "log.exchange = true in the configuration makes it, in default_vhost",
                keys: level.keys(),
                line: |message| String::from_utf8_lossy(&message_body(message)).into_owned(),
            },
            options,
        ),
        What::Events { keys, options } => (
            Source {
                words: "follow the events",
                exchange: "amq.rabbitmq.event",
                needs: "event_exchange.enabled = true in the configuration makes it, in event_exchange.vhost",
                keys: keys.clone(),
                line: |message| event(&message_to_json(message)),
            },
            options,
        ),
    };
    block_on(options.follow(&source))
}

impl FollowOptions {
    async fn follow(&self, source: &Source) -> Result<(), Failure> {
        // Before anything is opened: an interrupt ends the connection, and the queue with it.
        let mut signals =
            Signals::new().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
        let (connection, place) = self.broker.connect_with(Options::default()).await?;
        let failed = |error: Error| source.failed(&place, &error);
        let session = connection.session().await.map_err(failed)?;
        let queue = own_name()?;
        let management = Management::open(&session).await.map_err(failed)?;
        source.bind(&management, &queue).await.map_err(failed)?;
        let address = format!("/queues/{}", utf8_percent_encode(&queue, SEGMENT));
        let options = ReceiverOptions { settled: true, ..ReceiverOptions::default() };
        let receiver = session.receiver(Some(&address), options).await.map_err(failed)?;
        let followed = tokio::select! {
            followed = self.print_all(&receiver, source, &place) => followed,
            () = signals.recv() => Ok(()),
        };
        // The queue goes with the connection. If that has ended, there is nothing to close.
        drop(connection.close().await);
        followed
    }

    async fn print_all(
        &self,
        receiver: &Receiver,
        source: &Source,
        place: &BrokerAddress,
    ) -> Result<(), Failure> {
        loop {
            let delivery = receiver.recv().await.map_err(|error| source.failed(place, &error))?;
            let message = Message::decode(&delivery.message)
                .map_err(|error| Failure::failed(format!("a message cannot be read: {error}")))?;
            let line = match self.json {
                true => escape::json_text(&message_to_json(&message).to_string()).into_owned(),
                false => escape::line(&(source.line)(&message)).into_owned(),
            };
            print(&format!("{line}\n"))?;
        }
    }
}

impl Source {
    /// Declares the queue, and binds it with each key.
    async fn bind(&self, management: &Management, queue: &str) -> Result<(), Error> {
        let spec = QueueSpec { durable: false, exclusive: true, ..QueueSpec::default() };
        let spec = spec.argument("x-max-length", QUEUE_MESSAGES_MAX);
        let spec = spec.argument("x-max-length-bytes", QUEUE_BYTES_MAX);
        management.declare_queue(queue, &spec).await?;
        for key in &self.keys {
            management.bind(&Binding::to_queue(self.exchange, queue, key)).await?;
        }
        Ok(())
    }

    fn failed(&self, place: &BrokerAddress, error: &Error) -> Failure {
        match error {
            Error::Status { explanation, .. } if explanation.starts_with("no exchange") => {
                place.failed_because(self.words, &format!("{explanation}; {}", self.needs))
            }
            error => place.failed_because(self.words, &error.to_string()),
        }
    }
}

/// Returns a name that no other queue has.
fn own_name() -> Result<String, Failure> {
    let random: [u8; 8] = node::random()
        .map_err(|error| Failure::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(format!("sluice-follow-{:016x}", u64::from_be_bytes(random)))
}

/// Renders an event: its time, its key, and its headers.
fn event(message: &Value) -> String {
    let headers = &message["application_properties"];
    let time = headers["timestamp_in_ms"].as_u64().map_or_else(|| "-".to_owned(), admin::utc);
    let mut text = format!("{time} {}", cell(&message["message_annotations"]["x-routing-key"]));
    for (name, value) in headers.as_object().into_iter().flatten() {
        if name != "timestamp_in_ms" {
            // Writing to a string cannot fail.
            let _ = write!(text, "  {}={}", escape::line(name), cell(value));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let message = json!({
            "message_annotations": { "x-routing-key": "queue.created", "x-exchange": "amq.rabbitmq.event" },
            "application_properties": { "timestamp_in_ms": 951_868_799_999_u64, "name": "a\nb", "durable": true },
        });
        assert_eq!(event(&message), "2000-02-29T23:59:59.999+00:00 queue.created  name=a\\nb  durable=yes");
        assert_eq!(event(&json!({})), "- -");
    }

    #[test]
    fn a_level_includes_those_above_it() {
        assert_eq!(Level::Info.keys(), ["info", "warning", "error"]);
        assert_eq!(Level::Error.keys(), ["error"]);
    }
}
