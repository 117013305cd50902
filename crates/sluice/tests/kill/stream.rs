//! One round with a stream: publish and read, kill, start again, publish the rest, and read everything from
//! the first message.
//!
//! These rules must hold for the offsets and the messages:
//!
//! 1. From the first to the last offset, none is missing and none occurs twice. No message has two offsets.
//! 2. What a consumer received at an offset before the kill is still there afterwards, with the same octets, unless
//!    retention deleted it. Also before the kill, each consumer sees ascending offsets without gaps.
//! 3. Each confirmed message is there. In a stream with retention, messages may be missing that are older than all
//!    others of their publisher, but no more of them than there are offsets before the first.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use amqp10::Value;
use client::management::{Management, QueueSpec};
use client::{Credit, Error};
use random::Random;

use super::content::Id;
use super::reading::{CREDIT, Shown, attach, read_all, take};
use super::traffic::{Protocol, Published, connect, is_broken, publish};
use crate::broker::{Broker, Directory, Starting};

const STREAM: &str = "kill-stream";
const ADDRESS: &str = "/queues/kill-stream";
const PUBLISHERS: usize = 2;
/// The segment size of a stream with retention. It is so small that a segment holds a few hundred messages.
const SEGMENT_BYTES: u64 = 128 << 10;
/// The retention limit of a stream with retention, in bytes.
const KEPT_BYTES: u64 = 16 * SEGMENT_BYTES;
/// The interval at which the stream's directory is inspected.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);
/// The number of messages that each publisher sends after the kill.
const REST: u64 = 500;

/// The plan of a round. It is determined by seed and messages.
#[derive(Clone, Debug)]
pub(super) struct StreamRound {
    seed: u64,
    /// If set, the stream has small segments and a retention limit, and the kill comes after this many
    /// segments were begun.
    rolls: Option<u64>,
    /// If `rolls` is not set, the kill comes after this many messages are confirmed.
    confirmed: u64,
    fsync: bool,
    /// The time from that event to the kill.
    delay: Duration,
    /// The offset at which the second consumer starts; the first consumer starts at the first message.
    offset: u64,
    /// The number of shards before and after the kill.
    shards: [u64; 2],
}

/// The result of a round.
#[derive(Debug)]
pub(super) struct StreamReport {
    round: StreamRound,
    sent: u64,
    confirmed: usize,
    unconfirmed: u64,
    shown: [usize; 2],
    first: u64,
    read: usize,
}

impl StreamRound {
    pub(super) fn plan(rolls: bool, seed: u64, messages: u64) -> Self {
        let mut random = Random(seed);
        Self {
            seed,
            rolls: rolls.then(|| random.between(20, 60)),
            confirmed: random.between(messages / 4, messages.max(4)).max(1),
            fsync: random.between(0, 2) == 0 || crate::forget::disk().is_some(),
            delay: Duration::from_micros(random.between(0, 3_000)),
            offset: random.between(0, 1_000),
            shards: [random.between(1, 5), random.between(1, 5)],
        }
    }

    /// Runs the round.
    ///
    /// # Errors
    /// What the broker did wrong.
    pub(super) async fn run(&self) -> Result<StreamReport, String> {
        let directory = Directory::new("kill-stream");
        let result = self.run_in(&directory).await;
        let panicked = directory.logged().contains("panicked");
        let result = if panicked { Err(format!("the broker panicked; {result:?}")) } else { result };
        result.map_err(|why| format!("{why}; see {}", directory.keep().display()))
    }

    async fn run_in(&self, directory: &Directory) -> Result<StreamReport, String> {
        let broker = self.start(directory, 0);
        self.declare(&broker.amqp_url()).await.map_err(|error| format!("declaring: {error}"))?;
        let (mut published, shown) = self.publish_and_kill(broker, directory).await?;
        let unconfirmed = published.iter().map(|p| p.next - p.confirmed.len() as u64).sum();
        if unconfirmed == 0 {
            return Err("nothing was under way at the kill, so that it proves nothing".to_owned());
        }
        let broker = self.start(directory, 1);
        for (publisher, first) in published.iter_mut().enumerate() {
            let id = Id { publisher, number: first.next };
            let until = first.next + REST;
            let protocol = Protocol::of(publisher as u64);
            let rest = publish(protocol, broker.amqp_url(), ADDRESS, self.seed, id, until, || ()).await;
            if rest.ended.is_some() || rest.confirmed.len() as u64 != REST {
                return Err(format!("publishing after the kill failed: {rest:?}"));
            }
            first.next = rest.next;
            first.confirmed.extend(rest.confirmed);
        }
        let read = read_all(&broker.amqp_url(), ADDRESS, self.seed).await?;
        self.judge(&published, &shown, &read)?;
        let status = broker.terminate();
        if !status.success() {
            return Err(format!("the broker did not stop cleanly: {status}"));
        }
        let broker = self.start(directory, 0);
        let again = read_all(&broker.amqp_url(), ADDRESS, self.seed).await?;
        // The last segment has grown since the retention limit was last checked, so a start may delete the
        // oldest ones.
        let is_same = if self.rolls.is_some() { read.ends_with(&again) } else { read == again };
        if !is_same || again.is_empty() {
            let ends = |shown: &Shown| (shown.first().copied(), shown.last().copied(), shown.len());
            let (before, after) = (ends(&read), ends(&again));
            return Err(format!(
                "a clean stop has changed the content of the stream: {before:?}, then {after:?}"
            ));
        }
        Ok(StreamReport {
            round: self.clone(),
            sent: published.iter().map(|p| p.next).sum(),
            confirmed: published.iter().map(|p| p.confirmed.len()).sum(),
            unconfirmed,
            shown: shown.map(|shown| shown.len()),
            first: read.first().map_or(0, |(offset, _)| *offset),
            read: read.len(),
        })
    }

    fn start(&self, directory: &Directory, life: usize) -> Broker {
        Starting::spawn(directory, &[&format!("shards={}", self.shards[life])]).finish()
    }

    async fn declare(&self, url: &str) -> Result<(), Error> {
        let mut arguments =
            vec![("x-queue-type", Value::String("stream".into())), ("x-fsync", Value::Boolean(self.fsync))];
        if self.rolls.is_some() {
            arguments.push(("x-stream-max-segment-size-bytes", Value::Ulong(SEGMENT_BYTES)));
            arguments.push(("x-max-length-bytes", Value::Ulong(KEPT_BYTES)));
        }
        let arguments = arguments.into_iter().map(|(name, value)| (Value::String(name.into()), value));
        let spec = QueueSpec { arguments: arguments.collect(), ..QueueSpec::default() };
        let (connection, session) = connect(url).await?;
        let management = Management::open(&session).await?;
        management.declare_queue(STREAM, &spec).await?;
        management.close().await?;
        connection.close().await
    }

    /// Returns what each publisher did until the kill, and what each consumer received.
    async fn publish_and_kill(
        &self,
        broker: Broker,
        directory: &Directory,
    ) -> Result<(Vec<Published>, [Shown; 2]), String> {
        let url = broker.amqp_url();
        let (trigger, triggered) = mpsc::channel::<()>();
        let (delay, rolls) = (self.delay, self.rolls);
        let segments = directory.path().join("data/streams");
        // The killer has its own thread, because the traffic must continue until the kill.
        let killer = std::thread::spawn(move || {
            let reached = match rolls {
                None => triggered.recv().is_ok(),
                Some(rolls) => wait_for_rolls(&segments, rolls, &triggered),
            };
            std::thread::sleep(delay);
            broker.kill();
            reached
        });
        let consumers = [Value::String("first".into()), Value::Ulong(self.offset)]
            .map(|start| tokio::spawn(follow(url.clone(), self.seed, start)));
        let count = Arc::new(AtomicU64::new(0));
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let (count, trigger) = (Arc::clone(&count), trigger.clone());
                let (rolls, wanted) = (self.rolls.is_some(), self.confirmed);
                let confirmed = move || {
                    if count.fetch_add(1, Ordering::Relaxed) + 1 == wanted && !rolls {
                        // The killer may have ended already.
                        let _ = trigger.send(());
                    }
                };
                let first = Id { publisher, number: 0 };
                let (protocol, url) = (Protocol::of(publisher as u64), url.clone());
                tokio::spawn(publish(protocol, url, ADDRESS, self.seed, first, u64::MAX, confirmed))
            })
            .collect();
        // When all publishers have ended, this ends the wait of the killer, which then kills anyway.
        drop(trigger);
        let mut published = Vec::new();
        for publisher in publishers {
            published.push(publisher.await.map_err(|error| error.to_string())?);
        }
        if !killer.join().unwrap_or(false) {
            return Err(format!("the publishers ended before the kill: {published:?}"));
        }
        if let Some(refused) = published.iter().find_map(|published| published.refused.first()) {
            return Err(refused.clone());
        }
        let mut shown = [Shown::new(), Shown::new()];
        for (shown, consumer) in shown.iter_mut().zip(consumers) {
            *shown = consumer.await.map_err(|error| error.to_string())??;
        }
        Ok((published, shown))
    }

    /// Checks the rules at the top of this file.
    fn judge(&self, published: &[Published], shown: &[Shown; 2], read: &Shown) -> Result<(), String> {
        let first = read.first().ok_or("nothing was received")?.0;
        if self.rolls.is_none() && first != 0 {
            return Err(format!("the first message is that of offset {first}"));
        }
        require_dense(read, first)?;
        let places: BTreeMap<u64, Id> = read.iter().copied().collect();
        let ids: HashMap<Id, u64> = read.iter().map(|(offset, id)| (*id, *offset)).collect();
        if ids.len() != read.len() {
            return Err("a message has two offsets".to_owned());
        }
        for (shown, from) in shown.iter().zip([0, self.offset]) {
            if self.rolls.is_none() {
                require_dense(shown, from)?;
            } else if let Some(two) = shown.windows(2).find(|two| two[0].0 >= two[1].0) {
                return Err(format!("{:?} was received after {:?}", two[1], two[0]));
            }
            for (offset, id) in shown.iter().filter(|(offset, _)| *offset >= first) {
                if places.get(offset) != Some(id) {
                    let now = places.get(offset);
                    return Err(format!("offset {offset} was {id:?} before the kill, and is {now:?}"));
                }
            }
        }
        let mut missing = 0;
        for (publisher, published) in published.iter().enumerate() {
            let numbers: Vec<u64> =
                read.iter().filter(|(_, id)| id.publisher == publisher).map(|(_, id)| id.number).collect();
            if let Some(two) = numbers.windows(2).find(|two| two[0] >= two[1]) {
                return Err(format!("publisher {publisher}: {} was received after {}", two[1], two[0]));
            }
            if let Some(last) = numbers.last().filter(|last| **last >= published.next) {
                return Err(format!("publisher {publisher}: {last} was received but never sent"));
            }
            let oldest = if self.rolls.is_some() { numbers.first().copied().unwrap_or(u64::MAX) } else { 0 };
            for &number in &published.confirmed {
                if ids.contains_key(&Id { publisher, number }) {
                    continue;
                }
                if number >= oldest {
                    return Err(format!("publisher {publisher}: {number} was confirmed and is lost"));
                }
                missing += 1;
            }
        }
        if missing > first {
            return Err(format!("{missing} confirmed are missing, with {first} offsets before the first"));
        }
        if self.rolls.is_some() && first == 0 {
            return Err("retention took nothing".to_owned());
        }
        Ok(())
    }
}

fn require_dense(shown: &Shown, from: u64) -> Result<(), String> {
    let gap = shown.iter().zip(from..).find(|((offset, _), expected)| offset != expected);
    gap.map_or(Ok(()), |((offset, _), expected)| {
        Err(format!("offset {offset} was received, {expected} was expected"))
    })
}

/// Waits until this many segments were begun. Returns false if the publishers have ended first.
fn wait_for_rolls(segments: &Path, rolls: u64, published: &mpsc::Receiver<()>) -> bool {
    let newest = || {
        let names =
            std::fs::read_dir(segments).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        names.filter(|name| name.ends_with(".segment")).max()
    };
    let (mut last, mut seen) = (newest(), 0);
    while seen < rolls {
        if published.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
            return false;
        }
        std::thread::sleep(CHECK_INTERVAL);
        let now = newest();
        seen += u64::from(now != last);
        last = now;
    }
    true
}

/// Reads until the connection breaks.
async fn follow(url: String, seed: u64, start: Value) -> Result<Shown, String> {
    let receiver = match attach(&url, ADDRESS, start, Credit::Auto(CREDIT)).await {
        Ok(receiver) => receiver,
        Err(error) if is_broken(&error) => return Ok(Shown::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut shown = Shown::new();
    while let Ok(delivery) = receiver.recv().await {
        shown.push(take(seed, delivery)?);
    }
    Ok(shown)
}

impl fmt::Display for StreamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, sent, confirmed, unconfirmed, shown, first, read } = self;
        write!(f, "a stream, {} shards, then {}, ", round.shards[0], round.shards[1])?;
        write!(f, "{}killed {:?} after ", if round.fsync { "synced, " } else { "" }, round.delay)?;
        match round.rolls {
            Some(rolls) => write!(f, "its roll number {rolls}")?,
            None => write!(f, "confirmation {}", round.confirmed)?,
        }
        write!(f, "; {sent} sent, {confirmed} confirmed, {unconfirmed} under way at the kill; ")?;
        write!(f, "{} and {} read before; {read} read from offset {first}", shown[0], shown[1])
    }
}
