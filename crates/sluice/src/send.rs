//! `sluice send`: sends one message, once or many times.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use amqp10::{DeliveryState, Symbol, Value};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use client::{Checksum, Message, Outcome, SenderOptions, Settle, Waiting};

use crate::amqp::{Broker, address};
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::words::counted;

/// The most messages that may be in flight.
const IN_FLIGHT_MAX: usize = 1_000;

#[derive(Args, Debug)]
pub(crate) struct Send {
    /// /queues/QUEUE, /exchanges/EXCHANGE or /exchanges/EXCHANGE/KEY with each part percent-encoded, or the
    /// plain name of a queue
    address: String,
    /// The body; `-` or no argument reads standard input
    #[arg(conflicts_with = "file")]
    body: Option<String>,
    /// Read the body from this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How often to send the message
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Whether the message survives a restart of the broker
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    durable: bool,
    /// An application property, a string; may be repeated
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
    /// The subject of the message
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// The filter value, by which consumers of a stream select chunks
    #[arg(long, value_name = "VALUE")]
    filter_value: Option<String>,
    /// Milliseconds after which the message expires
    #[arg(long, value_name = "MS")]
    ttl: Option<u32>,
    /// Add a checksum of properties, application properties and body to the footer, for `recv --verify`
    #[arg(long, value_name = "KIND")]
    checksum: Option<Kind>,
    /// Send the message settled: its outcome is not reported
    #[arg(long)]
    settled: bool,
    #[command(flatten)]
    broker: Broker,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Crc32,
    Adler32,
}

impl From<Kind> for Checksum {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Crc32 => Self::Crc32,
            Kind::Adler32 => Self::Adler32,
        }
    }
}

/// Sends, waits for every outcome, and prints one line.
///
/// # Errors
/// The outcomes other than accepted, with their reasons; or why nothing could be sent.
pub(crate) fn run(send: &Send) -> Result<(), Failure> {
    let message = send.message()?;
    crate::amqp::block_on(send.send(message))
}

impl Send {
    async fn send(&self, message: Bytes) -> Result<(), Failure> {
        let address = address(&self.address);
        // Opening the connection may take long for a reason of its own.
        let (opening, patience) = (Patience::default(), Patience::default());
        let answer = || "the answer of the broker".to_owned();
        let (connection, place) = opening.wait(self.broker.connect(), answer).await?;
        let failed = |error| place.failed("send to", &address, &error);
        let session = opening.wait(connection.session(), answer).await.map_err(failed)?;
        let settle = if self.settled { Settle::Settled } else { Settle::Unsettled };
        let checksum = self.checksum.map(Checksum::from);
        let options = SenderOptions { settle, checksum, ..SenderOptions::default() };
        let attached = session.sender(Some(&address), options);
        let sender = opening.wait(attached, answer).await.map_err(failed)?;
        let credit = || awaited(sender.waits_for(), 0);
        let mut tally = Tally::default();
        let mut under_way: VecDeque<Outcome> = VecDeque::new();
        for _ in 0..self.count {
            if under_way.len() >= IN_FLIGHT_MAX
                && let Some(oldest) = under_way.pop_front()
            {
                let count = under_way.len() + 1;
                let outcome = patience.wait(oldest, || awaited(sender.waits_for(), count));
                tally.add(outcome.await.map_err(failed)?);
            }
            let sent = patience.wait(sender.send_pipelined(message.clone()), credit);
            under_way.push_back(sent.await.map_err(failed)?);
        }
        let count = under_way.len();
        for outcome in under_way {
            let outcome = patience.wait(outcome, || awaited(sender.waits_for(), count));
            tally.add(outcome.await.map_err(failed)?);
        }
        let why = awaited(sender.waits_for(), 0);
        // When DETACH is answered, the broker has also processed the messages that were sent settled.
        patience.wait(sender.detach(), || why).await.map_err(failed)?;
        connection.close().await.map_err(failed)?;
        let count = counted(self.count, "message");
        if let Some(refused) = tally.refused() {
            return Err(Failure::failed(format!("{count} sent to {address}: {refused}")));
        }
        let end = if self.settled { "settled" } else { "accepted" };
        print(&format!("{count} sent to {address}: {end}\n"))
    }

    fn message(&self) -> Result<Bytes, Failure> {
        let body = body(self.body.as_deref(), self.file.as_deref())?;
        let mut message = Message::data(body).durable(self.durable);
        if let Some(ttl) = self.ttl {
            message = message.ttl(ttl);
        }
        if let Some(subject) = &self.subject {
            message = message.subject(subject);
        }
        if let Some(value) = &self.filter_value {
            message =
                message.message_annotation(Symbol::from_static("x-stream-filter-value"), value.as_str());
        }
        for (key, value) in &self.properties {
            message = message.application_property(key, value.as_str());
        }
        Ok(message.encode())
    }
}

/// The time after which a verb says what it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says once what the verb waits for.
#[derive(Debug, Default)]
struct Patience {
    has_said: Cell<bool>,
}

impl Patience {
    /// Waits. Says what for, if it takes longer than [`PATIENCE`] and nothing was said before.
    async fn wait<T>(&self, awaited: impl Future<Output = T>, what: impl FnOnce() -> String) -> T {
        let mut awaited = pin!(awaited);
        if self.has_said.get() {
            return awaited.await;
        }
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut awaited).await {
            return done;
        }
        self.has_said.set(true);
        tell(&format!("waiting for {}", what()));
        awaited.await
    }
}

/// Describes what a sender waits for. `outcomes` is the number of messages whose outcomes have not arrived.
fn awaited(waiting: Option<Waiting>, outcomes: usize) -> String {
    match waiting {
        Some(Waiting::Window) => {
            "the end of an alarm: the broker has stopped publishers; `sluice status` says why".to_owned()
        }
        Some(Waiting::Socket) => "the broker to read what was sent".to_owned(),
        Some(Waiting::Credit) if outcomes == 0 => {
            "credit, which the broker withholds from this address; `sluice explain` with the queue says why"
                .to_owned()
        }
        _ => match outcomes {
            0 => "the answer of the broker".to_owned(),
            1 => "the outcome of 1 message: the broker has it and has not confirmed it".to_owned(),
            n => format!("the outcomes of {n} messages: the broker has not confirmed them"),
        },
    }
}

/// Counts the outcomes of the messages.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    /// The count of each other outcome, in the order of their first occurrence.
    others: Vec<(String, u64)>,
}

impl Tally {
    fn add(&mut self, outcome: DeliveryState) {
        if outcome == DeliveryState::Accepted {
            self.accepted += 1;
            return;
        }
        let words = words(&outcome);
        match self.others.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => self.others.push((words, 1)),
        }
    }

    fn refused(&self) -> Option<String> {
        if self.others.is_empty() {
            return None;
        }
        let others = self.others.iter().map(|(words, count)| format!("{count} {words}"));
        let accepted = (self.accepted > 0).then(|| format!("{} accepted", self.accepted));
        Some(others.chain(accepted).collect::<Vec<_>>().join(", "))
    }
}

/// Describes an outcome, with the reason and the queue if the broker names them.
pub(crate) fn words(outcome: &DeliveryState) -> String {
    match outcome {
        DeliveryState::Released => "released (no queue accepts it)".to_owned(),
        DeliveryState::Rejected(None) => "rejected".to_owned(),
        DeliveryState::Rejected(Some(error)) => {
            let mut words = format!("rejected ({}", error.condition);
            if let Some(text) = &error.description {
                words += &format!(": {text}");
            }
            let info = |key| error.info.as_ref().and_then(|info| info.get(key)).and_then(Value::as_str);
            if let Some(reason) = info("reason") {
                words += &format!(", reason {reason}");
            }
            if let Some(queue) = info("queue") {
                words += &format!(", queue '{queue}'");
            }
            words + ")"
        }
        DeliveryState::Modified(_) => "modified".to_owned(),
        other => format!("left as {other:?}"),
    }
}

/// Returns the body of a message: the text, the content of the file, or what is on standard input.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn body(text: Option<&str>, file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    match (text, file) {
        (_, Some(file)) => std::fs::read(file)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display()))),
        (Some(text), None) if text != "-" => Ok(text.into()),
        (None, None) if std::io::stdin().is_terminal() => {
            Err(Failure::usage("no body: give BODY, --file FILE, or - for standard input"))
        }
        _ => {
            let mut body = Vec::new();
            std::io::stdin()
                .read_to_end(&mut body)
                .map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
            Ok(body)
        }
    }
}

/// Parses `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use amqp10::{AmqpError, Map};

    use super::*;

    #[test]
    fn pairs_have_a_key() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }

    #[test]
    fn what_is_awaited_is_named() {
        let begins = |waiting, outcomes, words: &str| {
            let awaited = awaited(waiting, outcomes);
            assert!(awaited.starts_with(words), "{waiting:?}, {outcomes}: {awaited}");
        };
        begins(Some(Waiting::Window), 1, "the end of an alarm");
        begins(Some(Waiting::Credit), 0, "credit");
        begins(Some(Waiting::Credit), 1, "the outcome of 1 message:");
        begins(Some(Waiting::Outcomes), 2, "the outcomes of 2 messages:");
        begins(Some(Waiting::Socket), 2, "the broker to read");
        begins(None, 0, "the answer of the broker");
    }

    #[test]
    fn refused_outcomes_are_named() {
        let mut tally = Tally::default();
        tally.add(DeliveryState::Accepted);
        assert_eq!(tally.refused(), None);
        let info = Map::from_iter([
            (Symbol::from_static("queue"), Value::from("q")),
            (Symbol::from_static("reason"), Symbol::from_static("maxlen").into()),
        ]);
        let condition = Symbol::from_static("amqp:resource-limit-exceeded");
        let error = AmqpError { condition, description: None, info: Some(info) };
        tally.add(DeliveryState::Rejected(Some(error.clone())));
        tally.add(DeliveryState::Released);
        tally.add(DeliveryState::Rejected(Some(error)));
        let expected = "2 rejected (amqp:resource-limit-exceeded, reason maxlen, queue 'q'), \
                        1 released (no queue accepts it), 1 accepted";
        assert_eq!(tally.refused().as_deref(), Some(expected));
    }
}
