//! `sluice move`: moves the messages of one queue to another queue of the same broker.
//!
//! Messages are moved in batches. A message is accepted at the source only after the target has accepted it.
//! So a crash loses nothing, and repeats at most the messages of one batch.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use amqp10::encode::{Encode as _, put_descriptor, put_map};
use amqp10::{DecodeError, DeliveryState, Header, Map, Reader, descriptor, sections};
use bytes::{Bytes, BytesMut};
use clap::Args;
use client::management::QueueInfo;
use client::{
    Connection, Credit, Delivery, Error, Management, Receiver, ReceiverOptions, Sender, SenderOptions,
};

use crate::amqp::{Broker, address};
use crate::failure::Failure;
use crate::output::print;
use crate::recv::Signals;
use crate::send::words;

/// The default size of a batch in messages. A quorum queue syncs the disk for each batch, so a batch should
/// be large. At most this many messages are repeated after a crash.
const IN_FLIGHT: u32 = 500;

/// The largest size of a batch in messages. The command holds a whole batch in memory.
const IN_FLIGHT_MAX: i64 = 10_000;

/// The time between two lines of progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(1);

/// Annotations that are not copied. The broker sets the first two for each publish. The third is an
/// instruction to the broker: it would send more copies of the message to the queues that it names.
const NOT_COPIED: [&str; 3] = ["x-exchange", "x-routing-key", "x-cc"];

#[derive(Args, Debug)]
pub struct Move {
    /// The name of the queue that has the messages
    queue: String,
    /// The name of the queue that gets them; it must exist
    to: String,
    /// End after this many messages (default: when the queue is empty)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// The most messages in flight; with 1, a refused message is not overtaken by those behind it
    #[arg(long, value_name = "N", default_value_t = IN_FLIGHT, value_parser = clap::value_parser!(u32).range(1..=IN_FLIGHT_MAX))]
    in_flight: u32,
    #[command(flatten)]
    broker: Broker,
}

/// Moves messages until the queue is empty, the limit is reached, or a signal arrives. Prints one line.
///
/// # Errors
/// A queue cannot be used, the target refuses a message, or the connection fails.
pub fn run(arguments: &Move) -> Result<(), Failure> {
    if arguments.queue == arguments.to {
        let name = &arguments.queue;
        return Err(Failure::usage(format!("queue '{name}' cannot be moved to itself")));
    }
    crate::amqp::block_on(arguments.run())
}

impl Move {
    async fn run(&self) -> Result<(), Failure> {
        let mut signals =
            Signals::new().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
        let (connection, _) = self.broker.connect().await?;
        let (moved, stop) = (Cell::new(0), Cell::new(false));
        let ended = {
            let mut work = std::pin::pin!(self.move_over(connection, &moved, &stop));
            tokio::select! {
                ended = &mut work => ended,
                () = signals.recv() => {
                    // The batch in flight is completed, unless somebody is impatient.
                    stop.set(true);
                    tokio::select! {
                        ended = &mut work => ended,
                        () = signals.recv() => Err(self.failed("interrupted; messages in flight may be in both queues")),
                    }
                }
            }
        };
        let moved = match moved.get() {
            1 => "1 message".to_owned(),
            moved => format!("{moved} messages"),
        };
        ended.map_err(|failure| Failure { line: format!("{}; {moved} moved", failure.line), ..failure })?;
        let Self { queue, to, .. } = self;
        print(&format!("{moved} moved from queue '{queue}' to queue '{to}'\n"))
    }

    async fn move_over(
        &self,
        connection: Connection,
        moved: &Cell<u64>,
        stop: &Cell<bool>,
    ) -> Result<(), Failure> {
        let failed = |error: Error| self.failed(error);
        let session = connection.session().await.map_err(failed)?;
        let management = Management::open(&session).await.map_err(failed)?;
        let source = self.look_up(&management, &self.queue).await?;
        self.look_up(&management, &self.to).await?;
        if source.kind == "stream" {
            let line = format!("'{}' is a stream: reading a stream removes nothing from it", self.queue);
            return Err(self.failed(line));
        }
        let options = SenderOptions::default();
        let sender = session.sender(Some(&address(&self.to)), options).await.map_err(failed)?;
        let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
        let receiver = session.receiver(Some(&address(&self.queue)), options).await.map_err(failed)?;
        let links = Links { management: &management, receiver: &receiver, sender: &sender };
        let ended = self.move_all(&links, source.messages, moved, stop).await;
        // Detaching returns what was not moved to the source. Once CLOSE is answered, the source has removed
        // what was moved. After a failure the links may be closed already, and the failure is what counts.
        let closed = async {
            receiver.detach().await?;
            connection.close().await
        };
        let closed = closed.await.map_err(failed);
        ended.and(closed)
    }

    async fn move_all(
        &self,
        links: &Links<'_>,
        expected: u64,
        moved: &Cell<u64>,
        stop: &Cell<bool>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(expected);
        let mut empty = 0;
        while !stop.get() {
            let left = self.limit.map_or(u64::MAX, |limit| limit - moved.get());
            let size = self.in_flight.min(u32::try_from(left).unwrap_or(u32::MAX));
            if size == 0 {
                break;
            }
            if self.move_batch(links, size, moved).await? > 0 {
                empty = 0;
                progress.show(&self.queue, moved.get());
                continue;
            }
            let messages = self.look_up(links.management, &self.queue).await?.messages;
            if messages == 0 {
                break;
            }
            // A message may have arrived after the batch. If there is none in the next batch either, the queue
            // gives its messages to others only.
            empty += 1;
            if empty > 1 {
                return Err(self.failed(format!(
                    "queue '{0}' delivers none of its messages ({messages} ready); \
                     `sluice explain queue {0}` may say why",
                    self.queue
                )));
            }
        }
        Ok(())
    }

    /// Moves at most `size` messages, and returns how many there were.
    async fn move_batch(&self, links: &Links<'_>, size: u32, moved: &Cell<u64>) -> Result<usize, Failure> {
        let broken = |error: Error| {
            self.failed(format!("{error}; run the command again, the last messages may be in both queues"))
        };
        links.receiver.flow(size, false, false);
        links.receiver.drain().await.map_err(broken)?;
        let mut sent = Vec::new();
        let mut unsent: Vec<Delivery> = Vec::new();
        let mut trouble: Option<Failure> = None;
        while let Some(delivery) = links.receiver.try_recv().map_err(broken)? {
            if trouble.is_some() {
                unsent.push(delivery);
                continue;
            }
            let copy = copy(&delivery.message).map_err(|error| Error::Message(error.to_string()));
            let outcome = match copy {
                Ok(copy) => links.sender.send_pipelined(copy).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(outcome) => sent.push((delivery, outcome)),
                Err(error) => {
                    trouble = Some(self.failed(format!("queue '{}': {error}", self.to)));
                    unsent.push(delivery);
                }
            }
        }
        let count = sent.len();
        for (delivery, outcome) in sent {
            let settled = match outcome.await {
                Ok(DeliveryState::Accepted) => {
                    moved.set(moved.get() + 1);
                    delivery.accept()
                }
                Ok(other) => {
                    trouble.get_or_insert_with(|| {
                        let line = format!("{}; the message stays in queue '{}'", words(&other), self.queue);
                        self.failed(line)
                    });
                    delivery.release()
                }
                // The target may or may not have the message, so the source keeps it. It is returned to the
                // source when the link ends.
                Err(error) => {
                    trouble.get_or_insert_with(|| broken(error));
                    Ok(())
                }
            };
            settled.map_err(broken)?;
        }
        for delivery in unsent {
            delivery.release().map_err(broken)?;
        }
        trouble.map_or(Ok(count), Err)
    }

    async fn look_up(&self, management: &Management, name: &str) -> Result<QueueInfo, Failure> {
        match management.queue_info(name).await {
            Ok(answer) => Ok(answer.value),
            Err(Error::Status { status: 404, .. }) => Err(self.failed(format!("there is no queue '{name}'"))),
            Err(error) => Err(self.failed(format!("queue '{name}': {error}"))),
        }
    }

    fn failed(&self, why: impl Display) -> Failure {
        Failure::failed(format!("cannot move queue '{}' to queue '{}': {why}", self.queue, self.to))
    }
}

/// The links of one run.
struct Links<'a> {
    management: &'a Management,
    receiver: &'a Receiver,
    sender: &'a Sender,
}

/// Tells people how far the command is.
struct Progress {
    /// The number of messages that the source had at the start.
    expected: u64,
    shown: Instant,
    warned: bool,
}

impl Progress {
    fn new(expected: u64) -> Self {
        Self { expected, shown: Instant::now(), warned: false }
    }

    /// Called after each batch. Writes a line of progress to a terminal, and one warning if more messages are
    /// moved than there were. If standard error is closed, there is nobody left to notify.
    fn show(&mut self, queue: &str, moved: u64) {
        let mut err = std::io::stderr();
        if moved > self.expected && !self.warned {
            self.warned = true;
            drop(writeln!(
                err,
                "sluice: messages arrive in queue '{queue}' while it is moved; \
                 the command ends when the queue is empty, or at --limit"
            ));
        }
        if err.is_terminal() && self.shown.elapsed() >= PROGRESS_PERIOD {
            self.shown = Instant::now();
            drop(writeln!(err, "sluice: {moved} messages moved, of {} at the start", self.expected));
        }
    }
}

/// Returns the message to publish for a delivery. The bare message is the same, byte for byte. The header
/// keeps priority and time to live. It is always durable: the delivery does not say whether a message that
/// was sent without a header is durable.
fn copy(delivery: &[u8]) -> Result<Bytes, sections::SectionError> {
    let found = sections::scan(delivery)?;
    let header = found.header.unwrap_or_default();
    let header = Header {
        durable: Some(true),
        priority: header.priority,
        ttl: header.ttl,
        first_acquirer: None,
        delivery_count: None,
    };
    let mut out = BytesMut::with_capacity(delivery.len() + 16);
    header.encode(&mut out);
    if let Some(range) = found.message_annotations {
        let annotations = copied_annotations(&delivery[range.start as usize..range.end as usize])?;
        if !annotations.is_empty() {
            put_descriptor(&mut out, descriptor::MESSAGE_ANNOTATIONS);
            put_map(&mut out, &annotations);
        }
    }
    out.extend_from_slice(&delivery[found.bare.start as usize..found.bare.end as usize]);
    Ok(out.freeze())
}

/// Returns the annotations of a section, without those that are not copied.
fn copied_annotations(section: &[u8]) -> Result<Map, DecodeError> {
    let mut reader = Reader::new(section);
    reader.read_descriptor()?;
    let value = reader.read_value()?;
    let all = value.as_map().into_iter().flat_map(Map::iter);
    let copied = all.filter(|(key, _)| !key.as_str().is_some_and(|key| NOT_COPIED.contains(&key)));
    Ok(copied.map(|(key, value)| (key.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use amqp10::{Symbol, Value};
    use client::{Body, Message};

    use super::*;

    #[test]
    fn only_header_and_instructions_change() {
        let message = Message::new(Body::Value(Value::from("body")))
            .priority(7)
            .ttl(60_000)
            .subject("s")
            .application_property("k", 1i32);
        let mut delivered = message.clone();
        delivered.footer = Some(Map::from_iter([(Symbol::from("x-f"), 1u32)]));
        let header = delivered.header.as_mut().unwrap();
        (header.durable, header.first_acquirer, header.delivery_count) = (Some(false), Some(false), Some(3));
        for (key, value) in [("x-exchange", "e"), ("x-kept", "v"), ("x-routing-key", "k"), ("x-cc", "c")] {
            delivered = delivered.message_annotation(key, value);
        }
        delivered.delivery_annotations = Some(Map::from_iter([(Symbol::from("x-d"), 1u32)]));
        let delivered = delivered.encode();
        let copied = copy(&delivered).unwrap();
        let bare = |bytes: &Bytes| bytes.slice(sections::scan(bytes).unwrap().bare.start as usize..);
        assert_eq!(bare(&copied), bare(&delivered));
        let copied = Message::decode(&copied).unwrap();
        let header = Header { durable: Some(true), ..message.header.unwrap() };
        assert_eq!(copied.header, Some(header));
        assert_eq!(copied.delivery_annotations, None);
        assert_eq!(copied.message_annotations, Some(Map::from_iter([(Symbol::from("x-kept"), "v")])));
    }

    #[test]
    fn a_message_with_annotations_of_the_broker_only_has_none() {
        let delivered = Message::data("d").message_annotation("x-exchange", "").encode();
        let copied = Message::decode(&copy(&delivered).unwrap()).unwrap();
        assert_eq!(copied, Message::data("d").durable(true));
        assert!(copy(b"").is_err(), "there is no body");
    }
}
