//! `sluice trace`: prints the messages that pass through a queue or a connection, for a limited time.
//!
//! Everything goes over the management API: a queue that is bound to the exchange `amq.rabbitmq.trace` gets the copies, and is
//! deleted at the end. If this program is killed, the trace ends by itself, and the queue expires.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hyper::Method;
use serde_json::{Value, json};

use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::objects::segment;
use crate::output::print;
use crate::table::cell;

/// The time between two questions for messages, when there were none.
const INTERVAL: Duration = Duration::from_millis(200);

/// The most messages of one question.
const PART: u64 = 500;

/// The bytes of each payload that are shown.
const PAYLOAD_BYTES: u64 = 65_536;

/// The queue of the copies is deleted when nobody has asked for messages for this long, in milliseconds.
const EXPIRES_MS: u64 = 60_000;

/// The most copies and bytes in that queue. Older ones are dropped, if this program is too slow.
const QUEUE_MESSAGES_MAX: u64 = 10_000;
const QUEUE_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    /// What is traced
    #[arg(value_enum)]
    kind: Kind,
    /// The name of the queue, or of the connection as `sluice list connections` shows it
    name: String,
    /// How long the trace lasts, such as 30s or 5m; an hour at most
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = seconds)]
    seconds: u64,
    /// End after so many messages
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    #[command(flatten)]
    vhost: Vhost,
    /// Print each message as a JSON object on a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Queue,
    Connection,
}

/// Prints the messages until the trace ends, or until a signal arrives.
///
/// # Errors
/// The broker's error, for example that the user may not trace.
pub(crate) fn run(trace: &TraceArgs) -> Result<(), Failure> {
    crate::amqp::block_on(trace.run())
}

impl TraceArgs {
    async fn run(&self) -> Result<(), Failure> {
        let random: [u8; 8] = node::random()
            .map_err(|error| Failure::failed(format!("the system gives no random numbers: {error}")))?;
        let name = format!("sluice-trace-{:016x}", u64::from_be_bytes(random));
        let vhost = segment(&self.vhost.vhost);
        let (queue, trace) = (format!("/api/queues/{vhost}/{name}"), format!("/api/traces/{vhost}/{name}"));
        let copies = json!({
            "durable": true,
            "arguments": {
                "x-expires": EXPIRES_MS, "x-max-length": QUEUE_MESSAGES_MAX, "x-max-length-bytes": QUEUE_BYTES_MAX,
            },
        });
        self.ask(Method::PUT, &queue, Some(&copies)).await?;
        let begun = self.begin(&vhost, &name, &trace).await;
        let ended = match begun {
            Ok(()) => tokio::select! {
                ended = self.follow(&vhost, &name) => ended,
                _ = tokio::signal::ctrl_c() => self.ask(Method::DELETE, &trace, None).await.map(drop),
            },
            Err(failure) => Err(failure),
        };
        let deleted = self.ask(Method::DELETE, &queue, None).await.map(drop);
        ended.and(deleted)
    }

    /// Binds the queue, and starts the trace.
    async fn begin(&self, vhost: &str, name: &str, trace: &str) -> Result<(), Failure> {
        let binding = format!("/api/bindings/{vhost}/e/amq.rabbitmq.trace/q/{name}");
        self.ask(Method::POST, &binding, Some(&json!({ "routing_key": "#" }))).await?;
        let kind = match self.kind {
            Kind::Queue => "queue",
            Kind::Connection => "connection",
        };
        let start = json!({ kind: self.name, "seconds": self.seconds, "messages": self.limit });
        self.ask(Method::PUT, trace, Some(&start)).await.map(drop)
    }

    /// Prints messages until the trace has ended and there are no more.
    async fn follow(&self, vhost: &str, name: &str) -> Result<(), Failure> {
        let (list, get) = (format!("/api/traces/{vhost}"), format!("/api/queues/{vhost}/{name}/get"));
        let take = json!({
            "count": PART, "ackmode": "ack_requeue_false", "encoding": "auto", "truncate": PAYLOAD_BYTES,
        });
        loop {
            let running = self.ask(Method::GET, &list, None).await?;
            let is_over = !rows(&running).iter().any(|trace| trace["name"] == *name);
            let messages = self.ask(Method::POST, &get, Some(&take)).await?;
            let mut text = String::new();
            for message in rows(&messages).iter().filter(|message| is_of(message, name)) {
                // Writing to a string cannot fail.
                let _ = match self.json {
                    true => writeln!(text, "{}", escape::json_text(&message.to_string())),
                    false => writeln!(text, "{}", line(message)),
                };
            }
            print(&text)?;
            match (rows(&messages).is_empty(), is_over) {
                (true, true) => return Ok(()),
                (true, false) => tokio::time::sleep(INTERVAL).await,
                (false, _) => {}
            }
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.api.ask("trace messages", method, path, body).await.map(|(_, answer)| answer)
    }
}

fn rows(answer: &Value) -> &[Value] {
    answer.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns true if the copy is one of this trace. Others trace at the same time.
fn is_of(message: &Value, trace: &str) -> bool {
    rows(&message["properties"]["headers"]["traces"]).iter().any(|name| *name == *trace)
}

/// Renders a copy as one line.
fn line(message: &Value) -> String {
    let headers = &message["properties"]["headers"];
    let key = message["routing_key"].as_str().unwrap_or_default();
    let (what, name) = key.split_once('.').unwrap_or((key, ""));
    let mut text = format!("{what:<7}");
    let mut put = |field: &str, value: &Value| {
        // Writing to a string cannot fail.
        let _ = write!(text, "  {field}={}", cell(value));
    };
    if what == "publish" {
        put("queues", &headers["routed_queues"]);
    } else {
        put("queue", &json!(name));
        put("redelivered", &json!(headers["redelivered"] == 1));
    }
    put("exchange", &headers["exchange_name"]);
    put("keys", &headers["routing_keys"]);
    put("user", &headers["user"]);
    put("connection", &headers["connection"]);
    put("channel", &headers["channel"]);
    put("bytes", &message["payload_bytes"]);
    put("payload", &message["payload"]);
    text
}

/// Reads a time: a number of seconds, or one with the unit s, m or h.
fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let max = broker::traces::TRACE_SECONDS_MAX;
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds
        .filter(|seconds| (1..=max).contains(seconds))
        .ok_or_else(|| format!("a time from 1s to {}h, such as 30s or 5m", max / 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_a_limit() {
        for (text, expected) in [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("3600s", 3600)] {
            assert_eq!(seconds(text), Ok(expected));
        }
        for text in
            ["", "0", "0s", "-1s", "s", "2h", "1d", "1.5m", "99999999999999999999h", "18446744073709551615m"]
        {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_copy_is_one_line() {
        let copy = |key: &str, more: Value| {
            let mut headers = json!({
                "exchange_name": "x", "routing_keys": ["k"], "user": "ann", "connection": "c", "channel": 1,
                "traces": ["t"],
            });
            headers.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({
                "routing_key": key, "properties": { "headers": headers }, "payload": "a\nb", "payload_bytes": 3,
            })
        };
        let published = copy("publish.x", json!({ "routed_queues": ["q", "r.s"] }));
        assert_eq!(
            line(&published),
            "publish  queues=q,r.s  exchange=x  keys=k  user=ann  connection=c  channel=1  bytes=3  payload=a\\nb"
        );
        let delivered = copy("deliver.r.s", json!({ "redelivered": 1 }));
        assert_eq!(
            line(&delivered),
            "deliver  queue=r.s  redelivered=yes  exchange=x  keys=k  user=ann  connection=c  channel=1  bytes=3  payload=a\\nb"
        );
        assert!(is_of(&delivered, "t") && !is_of(&delivered, "u") && !is_of(&json!({}), "t"));
    }
}
