//! One round: fill, kill, damage, start, check.

use std::collections::HashSet;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use amqp10::Value;
use client::management::{Management, QueueSpec};
use random::Random;

use super::fault::{Fault, copy};
use crate::broker::verb::sluice;
use crate::broker::{Broker, Directory, Starting};
use crate::kill::content::Id;
use crate::kill::reading::read_all;
use crate::kill::traffic::{Protocol, connect, drain, publish};

/// The queues of a round: name, address, type, and whether it has `x-fsync`.
const QUEUES: [(&str, &str, &str, bool); 5] = [
    ("plain", "/queues/plain", "classic", false),
    ("synced", "/queues/synced", "classic", true),
    ("quorum", "/queues/quorum", "quorum", false),
    ("stream", "/queues/stream", "stream", false),
    ("synced-stream", "/queues/synced-stream", "stream", true),
];
/// The queue that is declared last, so that no later records follow its declaration in the log.
const LATE: &str = "late";
/// The size of a segment. It is so small that a stream has several segments.
const SEGMENT_BYTES: u64 = 8 << 10;
/// The setting with which most of a large backlog is paged out.
const PAGING: &str = "classic_queue.backlog_memory=256KiB";

/// How often, and at which interval, the round checks whether the broker is idle and has written its notes.
const NOTED_TRIES: usize = 3_000;
/// The broker is idle if this many checks in a row find nothing new.
const IDLE_CHECKS: usize = 20;
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A round. It is determined by the seed.
#[derive(Clone, Debug)]
pub(super) struct Round {
    seed: u64,
    fault: Fault,
    /// The number of messages in each queue.
    messages: u64,
    shards: u64,
}

impl Round {
    pub(super) fn plan(seed: u64) -> Self {
        let mut random = Random(seed);
        let fault = Fault::pick(&mut random);
        let messages = if random.between(0, 6) == 0 { 3_000 } else { random.between(2, 120) };
        Self { seed, fault, messages, shards: random.between(1, 3) }
    }

    /// Runs the round.
    ///
    /// # Errors
    /// What the broker did wrong.
    pub(super) async fn run(&self) -> Result<String, String> {
        let directory = Directory::new("damage");
        let result = self.run_in(&directory).await;
        let panicked = directory.logged().contains("panicked");
        let result = if panicked { Err(format!("the broker panicked; {result:?}")) } else { result };
        result.map_err(|why| format!("{why}; see {}", directory.keep().display()))
    }

    async fn run_in(&self, directory: &Directory) -> Result<String, String> {
        let (data, older) = (directory.path().join("data"), directory.path().join("older"));
        let broker = self.start(directory, &[])?;
        declare(&broker, QUEUES.iter().map(|&(name, _, kind, sync)| (name, kind, sync))).await?;
        self.fill(Protocol::Amqp10, &broker, 0, self.messages / 2).await?;
        copy(&data, &older);
        self.fill(Protocol::Amqp091, &broker, self.messages / 2, self.messages).await?;
        declare(&broker, [(LATE, "classic", false)]).await?;
        // A queue may still page out, which writes to the log again.
        let mut idle = 0;
        for _ in 0..NOTED_TRIES {
            idle = if self.is_noted(&data) { idle + 1 } else { 0 };
            if idle == IDLE_CHECKS {
                break;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        if idle < IDLE_CHECKS {
            return Err("the notes do not say how far the log was written".to_owned());
        }
        broker.kill();
        let what = self.fault.make(&data, &older, &mut Random(!self.seed));
        let examined = sluice(&["doctor", &data.display().to_string()]);
        let outcome = async {
            // Without this file, the directory counts as that of no broker.
            let is_directory = data.join("lock").exists();
            if self.fault == Fault::Nothing && examined.code != 0 {
                return Err(format!("nothing was damaged, and sluice doctor says {examined:?}"));
            }
            let before = directory.logged().len();
            let mut started = self.start(directory, &[]);
            if started.is_err() && directory.logged()[before..].contains("file identity is damaged") {
                // The operator does what the message says.
                std::fs::remove_file(data.join("identity")).map_err(|error| format!("identity: {error}"))?;
                started = self.start(directory, &[]);
            }
            let refused = started.is_err();
            if refused && !directory.logged()[before..].contains(".log is ") {
                return Err(format!(
                    "the broker does not start, and does not name a file: {}",
                    &directory.logged()[before..]
                ));
            }
            let broker = match started {
                Ok(broker) => broker,
                Err(_) => self.start(directory, &["accept_lost_definitions=true"])?,
            };
            let mut closed = Vec::new();
            for (number, (name, address, kind, _)) in QUEUES.into_iter().enumerate() {
                let stream = kind == "stream";
                let looked = match stream {
                    true => self.check_stream(&broker, number, address).await,
                    false => self.check_queue(&broker, number, address).await,
                };
                let logged = &directory.logged()[before..];
                match (looked, state(&broker, name)) {
                    (_, None) if refused => closed.push(format!("{name} is lost")),
                    (_, None) => {
                        return Err(format!("queue '{name}' is lost, and the broker does not say so"));
                    }
                    (_, Some(state)) if state == "damaged" => closed.push(format!("{name} is closed")),
                    (Ok(0), _) => {}
                    (Ok(lost), _) => {
                        return Err(format!(
                            "queue '{name}' has lost {lost} messages, and the broker does not say so"
                        ));
                    }
                    (Err(_), _) if stream && logged.contains("has reached damaged messages") => {
                        // The consumer has said so to its stream, which may live on another shard.
                        let mut tries = NOTED_TRIES;
                        while state(&broker, name).is_some_and(|state| state != "damaged") {
                            tries -= 1;
                            if tries == 0 {
                                return Err(format!(
                                    "a consumer of '{name}' has reached damage, and its state does not say so"
                                ));
                            }
                            tokio::time::sleep(CHECK_INTERVAL).await;
                        }
                        closed.push(format!("{name} can be read in part"));
                    }
                    (Err(why), _) => return Err(format!("queue '{name}': {why}")),
                }
            }
            if state(&broker, LATE).is_none() && !refused {
                return Err("the last declaration is lost, and the broker does not say so".to_owned());
            }
            if self.fault == Fault::Nothing && (refused || !closed.is_empty()) {
                return Err(format!("nothing was damaged, and {closed:?} {refused}"));
            }
            if (refused || !closed.is_empty()) && examined.code != 1 && is_directory {
                return Err(format!("{closed:?} {refused}, and sluice doctor said {examined:?}"));
            }
            let refused = if refused { "it did not start; " } else { "" };
            Ok(format!("{} messages, {refused}{}", self.messages, closed.join(", ")))
        };
        let outcome = outcome.await;
        outcome.map(|outcome| format!("{what}: {outcome}")).map_err(|why| format!("{what}: {why}"))
    }

    /// Returns true if the notes in the files `lock` cover everything that was written.
    fn is_noted(&self, data: &Path) -> bool {
        let Ok(note) = std::fs::read(data.join("lock")) else { return false };
        let logs = names(data).into_iter().filter(|name| name.ends_with(".log"));
        let newest = logs.flat_map(|name| batches(&std::fs::read(data.join(name)).unwrap_or_default())).max();
        let written = note.get(32..40).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let streams = std::fs::read(data.join("streams").join("lock")).unwrap_or_default();
        let offsets =
            streams.chunks_exact(64).map(|note| u64::from_be_bytes(note[44..52].try_into().unwrap()));
        written == newest && offsets.collect::<Vec<_>>() == [self.messages; 2]
    }

    fn start(&self, directory: &Directory, more: &[&str]) -> Result<Broker, String> {
        let shards = format!("shards={}", self.shards);
        let sets: Vec<&str> = [shards.as_str(), PAGING].into_iter().chain(more.iter().copied()).collect();
        Starting::spawn(directory, &sets).try_finish()
    }

    /// Returns the protocol of the clients after the damage, except for consumers of streams.
    fn protocol(&self) -> Protocol {
        Protocol::of(self.seed)
    }

    /// Publishes to every queue. Every message must be confirmed.
    async fn fill(&self, protocol: Protocol, broker: &Broker, from: u64, until: u64) -> Result<(), String> {
        for (publisher, (name, address, ..)) in QUEUES.into_iter().enumerate() {
            let first = Id { publisher, number: from };
            let url = broker.amqp_url();
            let published = publish(protocol, url, address, self.seed, first, until, || ()).await;
            if published.confirmed.len() as u64 != until - from {
                return Err(format!("filling '{name}': {published:?}"));
            }
        }
        Ok(())
    }

    /// Sends another message and drains the queue. Returns the number of missing messages.
    async fn check_queue(
        &self,
        broker: &Broker,
        number: usize,
        address: &'static str,
    ) -> Result<u64, String> {
        self.send_more(broker, number, address).await?;
        let last = AtomicBool::new(true);
        let (url, address) = (broker.amqp_url(), address.to_owned());
        let came = drain(self.protocol(), url, address, self.seed, &last).await?;
        let ids: HashSet<Id> = came.iter().copied().collect();
        if ids.len() != came.len() || came.iter().any(|id| id.publisher != number) {
            return Err("a message was received twice, or from another queue".to_owned());
        }
        self.require_more(came.last().copied(), number)?;
        Ok(self.messages + 1 - ids.len() as u64)
    }

    /// Sends another message, which must get a new offset, and reads the stream. Returns the number of
    /// missing messages.
    async fn check_stream(
        &self,
        broker: &Broker,
        number: usize,
        address: &'static str,
    ) -> Result<u64, String> {
        self.send_more(broker, number, address).await?;
        let came = read_all(&broker.amqp_url(), address, self.seed).await?;
        let lost = self.messages + 1 - came.len() as u64;
        let mut offsets = came.iter().map(|(offset, id)| (*offset, id.number));
        if offsets.any(|(offset, number)| offset != number) {
            return Err("a message has another offset".to_owned());
        }
        self.require_more(came.last().map(|(_, id)| *id), number)?;
        Ok(lost)
    }

    async fn send_more(
        &self,
        broker: &Broker,
        publisher: usize,
        address: &'static str,
    ) -> Result<(), String> {
        let more = Id { publisher, number: self.messages };
        let (url, until) = (broker.amqp_url(), self.messages + 1);
        let published = publish(self.protocol(), url, address, self.seed, more, until, || ()).await;
        match published.confirmed[..] {
            [_] => Ok(()),
            _ => Err(format!("it takes no other message: {published:?}")),
        }
    }

    fn require_more(&self, last: Option<Id>, publisher: usize) -> Result<(), String> {
        let more = Some(Id { publisher, number: self.messages });
        if last == more { Ok(()) } else { Err(format!("the last message was {last:?}")) }
    }
}

async fn declare(
    broker: &Broker,
    queues: impl IntoIterator<Item = (&str, &str, bool)>,
) -> Result<(), String> {
    let declared = async {
        let (connection, session) = connect(&broker.amqp_url()).await?;
        let management = Management::open(&session).await?;
        for (name, kind, sync) in queues {
            let mut arguments = vec![("x-queue-type", Value::String(kind.into()))];
            if kind == "stream" {
                arguments.push(("x-stream-max-segment-size-bytes", Value::Ulong(SEGMENT_BYTES)));
            }
            if sync {
                arguments.push(("x-fsync", Value::Boolean(true)));
            }
            let arguments = arguments.into_iter().map(|(name, value)| (Value::String(name.into()), value));
            let spec = QueueSpec { arguments: arguments.collect(), ..QueueSpec::default() };
            management.declare_queue(name, &spec).await?;
        }
        management.close().await?;
        connection.close().await
    };
    declared.await.map_err(|error: client::Error| format!("declaring: {error}"))
}

/// Returns the numbers of the batches in a log file. It looks at each `S` only, which the standard library finds quickly also
/// where this crate is not optimised.
fn batches(mut bytes: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    while bytes.skip_until(b'S').is_ok_and(|passed| passed > 0) {
        if bytes.starts_with(b"Lbt")
            && let Some(number) = bytes.get(15..23)
        {
            let number = u64::from_le_bytes(number.try_into().unwrap());
            // A body of random bytes may look like the head of a batch. The numbers of batches have no gaps.
            if numbers.last().is_none_or(|last| number == last + 1) {
                numbers.push(number);
            }
        }
    }
    numbers
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the state of a queue; `None` if there is no such queue.
fn state(broker: &Broker, name: &str) -> Option<String> {
    let rows = broker.list("queues");
    let row = rows.as_array()?.iter().find(|row| row["name"] == name)?;
    Some(row["state"].as_str()?.to_owned())
}
