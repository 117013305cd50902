//! One round with transactions: movers take messages from one queue and publish them to another, each batch in a transaction of AMQP
//! 0.9.1. The broker is killed, started again, and both queues are drained.
//!
//! These rules must hold:
//!
//! 1. Each confirmed message is in one of the queues.
//! 2. A message whose transaction is committed is in the second queue, and in no other.
//! 3. A message whose transaction was rolled back, or that no transaction has touched, is in the first queue only.
//! 4. A message whose commit has no answer may be in both queues. Nothing occurs twice in a queue, and nothing is invented.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use amqp10::Value;
use amqp091::{
    BasicAck, BasicConsume, BasicNack, BasicPublish, BasicQos, Event, Method, Properties, TxCommit,
    TxRollback, TxSelect,
};
use bytes::{Bytes, BytesMut};
use client::Error;
use client::amqp091::{Connection, Options};
use client::management::{Management, QueueSpec};
use random::Random;

use super::content::{Id, body, identify_body};
use super::traffic::{Protocol, Published, connect, drain, publish};
use crate::broker::{Broker, Directory, Starting};

const FROM: &str = "kill-from";
const TO: &str = "kill-to";
const PUBLISHERS: usize = 2;
const MOVERS: u64 = 3;
/// Every mover uses one channel.
const CHANNEL: u16 = 1;
const PREFETCH: u16 = 100;
/// The most messages of one transaction.
const BATCH_MAX: u64 = 20;
/// One of this many transactions is rolled back first, and one of its messages is returned.
const ROLLBACKS: u64 = 4;
/// The number of messages that each publisher sends after the kill.
const REST: u64 = 100;
/// The delivery mode of durable messages.
const DURABLE: u8 = 2;

/// The kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Classic,
    Quorum,
    /// A classic queue with `x-fsync`.
    Synced,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Classic, Self::Quorum, Self::Synced];
    /// The kinds that survive a loss of power.
    const POWER: [Self; 2] = [Self::Quorum, Self::Synced];

    fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Synced => "classic x-fsync",
        }
    }

    fn argument(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Classic => None,
            Self::Quorum => Some(("x-queue-type", Value::String("quorum".into()))),
            Self::Synced => Some(("x-fsync", Value::Boolean(true))),
        }
    }
}

/// The plan of a round. It is determined by seed and messages.
#[derive(Clone, Debug)]
pub(super) struct TransactionRound {
    seed: u64,
    /// The kinds of the two queues.
    kinds: [Kind; 2],
    /// The number of messages that are published before the kill.
    messages: u64,
    /// The kill comes when this many of them are committed.
    committed: u64,
    /// The time from then to the kill.
    delay: Duration,
    /// The number of shards before and after the kill.
    shards: [u64; 2],
}

/// What a mover knows at its end.
#[derive(Debug, Default)]
struct Moved {
    committed: Vec<Id>,
    /// The messages of the commit that has no answer.
    in_doubt: Vec<Id>,
    rollbacks: u64,
}

/// The result of a round.
#[derive(Debug)]
pub(super) struct TransactionReport {
    round: TransactionRound,
    confirmed: usize,
    committed: usize,
    in_doubt: usize,
    rollbacks: u64,
    left: usize,
}

impl TransactionRound {
    pub(super) fn plan(seed: u64, messages: u64) -> Self {
        let mut random = Random(seed);
        let kinds = if crate::forget::disk().is_some() { &Kind::POWER[..] } else { &Kind::ALL };
        Self {
            seed,
            kinds: [(); 2].map(|()| kinds[random.between(0, kinds.len() as u64) as usize]),
            messages,
            committed: random.between(messages / 20, messages / 5 + 2).max(1),
            delay: Duration::from_micros(random.between(0, 3_000)),
            shards: [random.between(1, 5), random.between(1, 5)],
        }
    }

    /// A round with two classic queues with `x-fsync`.
    pub(super) fn plan_synced(seed: u64, messages: u64) -> Self {
        Self { kinds: [Kind::Synced; 2], ..Self::plan(seed, messages) }
    }

    /// Runs the round.
    ///
    /// # Errors
    /// What the broker did wrong.
    pub(super) async fn run(&self) -> Result<TransactionReport, String> {
        let directory = Directory::new("kill-transactions");
        let result = self.run_in(&directory).await;
        let panicked = directory.logged().contains("panicked");
        let result = if panicked { Err(format!("the broker panicked; {result:?}")) } else { result };
        result.map_err(|why| format!("{why}; see {}", directory.keep().display()))
    }

    async fn run_in(&self, directory: &Directory) -> Result<TransactionReport, String> {
        let broker = self.start(directory, 0);
        self.declare(&broker.amqp_url()).await.map_err(|error| format!("declaring: {error}"))?;
        let (mut published, moved) = self.move_and_kill(broker).await?;
        let broker = self.start(directory, 1);
        for (publisher, first) in published.iter_mut().enumerate() {
            let id = Id { publisher, number: first.next };
            let protocol = Protocol::of(publisher as u64);
            let address = "/queues/kill-from";
            let until = first.next + REST;
            let rest = publish(protocol, broker.amqp_url(), address, self.seed, id, until, || ()).await;
            if rest.ended.is_some() || rest.confirmed.len() as u64 != REST {
                return Err(format!("publishing after the kill failed: {rest:?}"));
            }
            first.next = rest.next;
            first.confirmed.extend(rest.confirmed);
        }
        let mut left = Vec::new();
        for (number, queue) in [FROM, TO].into_iter().enumerate() {
            let protocol = Protocol::of(self.seed ^ number as u64);
            let (url, address) = (broker.amqp_url(), format!("/queues/{queue}"));
            left.push(drain(protocol, url, address, self.seed, &AtomicBool::new(true)).await?);
        }
        let report = self.judge(&published, &moved, &left[0], &left[1])?;
        let status = broker.terminate();
        if !status.success() {
            return Err(format!("the broker did not stop cleanly: {status}"));
        }
        Ok(report)
    }

    fn start(&self, directory: &Directory, life: usize) -> Broker {
        Starting::spawn(directory, &[&format!("shards={}", self.shards[life])]).finish()
    }

    async fn declare(&self, url: &str) -> Result<(), Error> {
        let (connection, session) = connect(url).await?;
        let management = Management::open(&session).await?;
        for (queue, kind) in [FROM, TO].into_iter().zip(self.kinds) {
            let text = |text: &str| Value::String(text.into());
            // A message may come back as often as it has to.
            let limit = (text("x-delivery-limit"), Value::Int(-1));
            // Only a quorum queue has such a limit by default.
            let limit = (kind == Kind::Quorum).then_some(limit);
            let argument = kind.argument().map(|(name, value)| (text(name), value));
            let arguments = argument.into_iter().chain(limit).collect();
            management.declare_queue(queue, &QueueSpec { arguments, ..QueueSpec::default() }).await?;
        }
        management.close().await?;
        connection.close().await
    }

    /// Returns what each publisher and each mover did until the kill.
    async fn move_and_kill(&self, broker: Broker) -> Result<(Vec<Published>, Vec<Moved>), String> {
        let url = broker.amqp_url();
        let (trigger, triggered) = mpsc::channel::<()>();
        let delay = self.delay;
        // The killer has its own thread, because the traffic must continue until the kill.
        let killer = std::thread::spawn(move || {
            let reached = triggered.recv().is_ok();
            std::thread::sleep(delay);
            broker.kill();
            reached
        });
        let count = Arc::new(AtomicU64::new(0));
        let movers: Vec<_> = (0..MOVERS)
            .map(|mover| {
                let (count, trigger, wanted) = (Arc::clone(&count), trigger.clone(), self.committed);
                let committed = move |messages: u64| {
                    let before = count.fetch_add(messages, Ordering::Relaxed);
                    if before < wanted && before + messages >= wanted {
                        // The killer may have ended already.
                        let _ = trigger.send(());
                    }
                };
                tokio::spawn(move_messages(url.clone(), self.seed, Random(self.seed ^ mover), committed))
            })
            .collect();
        // When all movers have ended, this ends the wait of the killer, which then kills anyway.
        drop(trigger);
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let (protocol, first) = (Protocol::of(publisher as u64), Id { publisher, number: 0 });
                let (address, until) = ("/queues/kill-from", self.messages / PUBLISHERS as u64);
                tokio::spawn(publish(protocol, url.clone(), address, self.seed, first, until, || ()))
            })
            .collect();
        let (mut published, mut moved) = (Vec::new(), Vec::new());
        for mover in movers {
            moved.push(mover.await.map_err(|error| error.to_string())??);
        }
        for publisher in publishers {
            published.push(publisher.await.map_err(|error| error.to_string())?);
        }
        if !killer.join().unwrap_or(false) {
            return Err(format!("the movers ended before the kill: {moved:?}"));
        }
        match published.iter().find_map(|published| published.refused.first()) {
            Some(refused) => Err(refused.clone()),
            None => Ok((published, moved)),
        }
    }

    /// Checks the rules at the top of this file.
    fn judge(
        &self,
        published: &[Published],
        moved: &[Moved],
        from: &[Id],
        to: &[Id],
    ) -> Result<TransactionReport, String> {
        let unique = |name: &str, ids: &[Id]| -> Result<HashSet<Id>, String> {
            let set: HashSet<Id> = ids.iter().copied().collect();
            let invented =
                set.iter().find(|id| published.get(id.publisher).is_none_or(|p| id.number >= p.next));
            match invented {
                Some(id) => Err(format!("{id:?} in {name} was never sent")),
                None if set.len() < ids.len() => Err(format!("{name} has a message twice")),
                None => Ok(set),
            }
        };
        let (from, to) = (unique(FROM, from)?, unique(TO, to)?);
        let committed: HashSet<Id> = moved.iter().flat_map(|moved| moved.committed.iter().copied()).collect();
        let in_doubt: HashSet<Id> = moved.iter().flat_map(|moved| moved.in_doubt.iter().copied()).collect();
        let mut confirmed = 0;
        for (publisher, published) in published.iter().enumerate() {
            confirmed += published.confirmed.len();
            for number in &published.confirmed {
                let id = Id { publisher, number: *number };
                if !from.contains(&id) && !to.contains(&id) {
                    return Err(format!("{id:?} is confirmed, and lost"));
                }
            }
        }
        if let Some(id) = committed.iter().find(|id| from.contains(id) || !to.contains(id)) {
            let (back, there) = (from.contains(id), to.contains(id));
            return Err(format!("{id:?} is committed; it has come back: {back}, it was published: {there}"));
        }
        let is_known = |id: &&Id| committed.contains(id) || in_doubt.contains(id);
        if let Some(id) = to.iter().find(|id| !is_known(id)) {
            return Err(format!("no commit was sent for {id:?}, and it was published"));
        }
        Ok(TransactionReport {
            round: self.clone(),
            confirmed,
            committed: committed.len(),
            in_doubt: in_doubt.len(),
            rollbacks: moved.iter().map(|moved| moved.rollbacks).sum(),
            left: from.len(),
        })
    }
}

/// Moves messages in transactions until the connection breaks. Calls `committed` with the number of messages of each.
///
/// # Errors
/// A message that cannot have been sent, or that the broker refuses something.
async fn move_messages(
    url: String,
    seed: u64,
    mut random: Random,
    committed: impl Fn(u64) + Send,
) -> Result<Moved, String> {
    let mut moved = Moved::default();
    match try_move(&url, seed, &mut random, &mut moved, committed).await {
        Err(error @ Error::Refused { .. }) => Err(format!("a transaction is refused: {error}")),
        Err(_) => Ok(moved),
        Ok(strange) => Err(strange),
    }
}

/// Returns what is strange about a message, or the error that has ended the connection.
async fn try_move(
    url: &str,
    seed: u64,
    random: &mut Random,
    moved: &mut Moved,
    committed: impl Fn(u64) + Send,
) -> Result<String, Error> {
    let mut connection = Connection::open(&url.parse()?, Options::default()).await?;
    connection.open_channel(CHANNEL).await?;
    let mut came: Vec<Result<(u64, Id), String>> = Vec::new();
    let select = |m: &Method<'_>| matches!(m, Method::TxSelectOk(_)).then_some(());
    connection.ask(CHANNEL, &Method::TxSelect(TxSelect), select, |_| ()).await?;
    let qos = Method::BasicQos(BasicQos { prefetch_count: PREFETCH, ..BasicQos::default() });
    connection.ask(CHANNEL, &qos, |m| matches!(m, Method::BasicQosOk(_)).then_some(()), |_| ()).await?;
    connection.send(CHANNEL, &Method::BasicConsume(BasicConsume { queue: FROM, ..BasicConsume::default() }));
    let mut properties = BytesMut::new();
    Properties { delivery_mode: Some(DURABLE), ..Properties::default() }.put(&mut properties);
    loop {
        while came.is_empty() {
            connection.exchange(|event| came.extend(delivery(seed, &event))).await?;
        }
        let length = (random.between(1, BATCH_MAX + 1) as usize).min(came.len());
        let mut batch = Vec::new();
        for delivery in came.drain(..length) {
            match delivery {
                Ok(delivery) => batch.push(delivery),
                Err(strange) => return Ok(strange),
            }
        }
        let publishes = |connection: &mut Connection, batch: &[(u64, Id)]| {
            let method = BasicPublish { routing_key: TO, ..BasicPublish::default() };
            for (delivery_tag, id) in batch {
                connection.publish(CHANNEL, &method, &properties, &Bytes::from(body(seed, *id)));
                let ack = BasicAck { delivery_tag: *delivery_tag, multiple: false };
                connection.send(CHANNEL, &Method::BasicAck(ack));
            }
        };
        publishes(&mut connection, &batch);
        if random.between(0, ROLLBACKS) == 0 {
            let is_answer = |m: &Method<'_>| matches!(m, Method::TxRollbackOk(_)).then_some(());
            let take = |event: Event<'_>| came.extend(delivery(seed, &event));
            connection.ask(CHANNEL, &Method::TxRollback(TxRollback), is_answer, take).await?;
            moved.rollbacks += 1;
            let returned = batch.pop();
            publishes(&mut connection, &batch);
            if let Some((delivery_tag, _)) = returned {
                let nack = BasicNack { delivery_tag, multiple: false, requeue: true };
                connection.send(CHANNEL, &Method::BasicNack(nack));
            }
        }
        // From here on, the messages may be in the second queue.
        moved.in_doubt = batch.iter().map(|(_, id)| *id).collect();
        let is_answer = |m: &Method<'_>| matches!(m, Method::TxCommitOk(_)).then_some(());
        let take = |event: Event<'_>| came.extend(delivery(seed, &event));
        connection.ask(CHANNEL, &Method::TxCommit(TxCommit), is_answer, take).await?;
        moved.committed.append(&mut moved.in_doubt);
        committed(batch.len() as u64);
    }
}

/// Returns the tag of a delivery and what it is, or why it cannot have been sent.
fn delivery(seed: u64, event: &Event<'_>) -> Option<Result<(u64, Id), String>> {
    let Event::Content { content, .. } = event else { return None };
    let tag = content.deliver()?.delivery_tag;
    let mode = Properties::parse(&content.properties).ok().and_then(|properties| properties.delivery_mode);
    Some(identify_body(seed, &content.payload, mode == Some(DURABLE)).map(|id| (tag, id)))
}

impl fmt::Display for TransactionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, confirmed, committed, in_doubt, rollbacks, left } = self;
        let [from, to] = round.kinds.map(Kind::name);
        write!(
            f,
            "transactions from a {from} to a {to} queue, {} shards, then {}, ",
            round.shards[0], round.shards[1]
        )?;
        write!(f, "killed {:?} after {} were committed; ", round.delay, round.committed)?;
        write!(f, "{confirmed} confirmed, {committed} moved, {in_doubt} in doubt at the kill, ")?;
        write!(f, "{rollbacks} rollbacks; {left} left")
    }
}
