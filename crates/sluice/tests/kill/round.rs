//! One round: publish and kill the broker, start it again, publish the rest, drain the queues and check what arrived.
//! Then stop the broker, start it once more, and check that the queues are empty.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use amqp10::{Map, Value};
use client::management::{Binding, ExchangeSpec, Management, QueueSpec};
use random::Random;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::content::Id;
use super::copies::Copied;
use super::moment::Moment;
use super::traffic::{Protocol, Published, connect, consume, drain, publish};
use super::traffic091;
use super::verdict::{Came, Figures, Ledger, judge};
use crate::broker::{Broker, Directory, Starting};

const QUEUES: [&str; 2] = ["kill-1", "kill-2"];
const FANOUT: &str = "kill";
/// The number of consumers per queue after the kill.
const DRAINERS: u64 = 2;
/// The queues in which messages expire. Each sends its dead letters to the next one, and the last one of a round to the first
/// queue of [`QUEUES`].
const RUNGS: [&str; 5] = ["kill-source", "kill-rung-1", "kill-rung-2", "kill-rung-3", "kill-rung-4"];
/// The time to live of messages in such a queue, in milliseconds.
const RUNG_TTL_MS: u64 = 20;
/// The time to live of other messages, in milliseconds. It is longer than any round.
const TTL_MS: u64 = 3_600_000;
/// A memory limit that is so small that nearly all messages are paged out.
const PAGING: &str = "classic_queue.backlog_memory=256KiB";
/// A memory limit that is so large that messages are paged out in packs of full size, with hundreds of live
/// messages.
const PAGING_LATE: &str = "classic_queue.backlog_memory=8MiB";
/// In rounds in which the broker is killed while it copies a run, the consumer starts when this many messages are
/// confirmed. They fill about ten packs.
const BACKLOG: u64 = 80_000;
/// In rounds in which the broker is killed while it copies a run or a log file, the consumer accepts a message when
/// this many later ones have arrived. This is more than a publisher may have unconfirmed. So all messages are written
/// before they are settled, and then become garbage in the log.
const LAG: usize = 5_000;
/// Such a round is repeated up to this many times, until the kill comes while a copy and its original both exist.
const COPY_TRIES: usize = 3;
/// In such rounds, the consumer leaves one out of this many messages unsettled. These live messages are copied.
const KEEPS: u64 = 16;
/// The least number of messages that each publisher sends after the kill.
const REST_MIN: u64 = 100;
/// The most attempts to kill the broker during recovery. An attempt fails if the broker recovers before the
/// kill.
const TRIES: usize = 20;

/// The plan of a round. It is determined by number, seed and messages.
#[derive(Clone, Debug)]
pub(super) struct Round {
    seed: u64,
    publishers: usize,
    /// The number of queues. With two, an exchange sends each message to both. With one, publishers send to
    /// the queue directly.
    queues: usize,
    /// True if a consumer accepts messages until the kill.
    consumer: bool,
    kind: Kind,
    /// The limit of backlog memory, if messages are to be paged out.
    paging: Option<&'static str>,
    /// The number of times that the broker is killed during recovery.
    recovery_kills: usize,
    /// The event to wait for before the first kill.
    moment: Moment,
    /// The time from that event to the kill.
    delay: Duration,
    /// The longest time from the start of the program to a kill during recovery, in milliseconds.
    recovery_ms_max: u64,
    messages: u64,
    /// The number of shards before and after the kill.
    shards: [u64; 2],
}

/// The kind of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Messages have a time to live, but none expires.
    Ttl,
    Fsync,
    /// The queues are quorum queues.
    Quorum,
    /// The first queue receives dead letters. Everything is sent to the first queue of a ladder of `rungs` queues. Bit `n` of
    /// `quorum` is set if the n-th rung is a quorum queue, and bit `rungs` if the first queue is one.
    Dead {
        rungs: usize,
        quorum: u64,
    },
}

/// The result of a round.
#[derive(Debug)]
pub(super) struct Report {
    round: Round,
    sent: u64,
    confirmed: u64,
    /// The number of unconfirmed messages at the first kill.
    unconfirmed: u64,
    taken: usize,
    drained: usize,
    figures: Figures,
    /// The number of copies that existed together with their originals at the kill.
    copies: usize,
    /// The number of earlier attempts without such a copy.
    misses: usize,
}

impl Round {
    pub(super) fn plan(number: u64, seed: u64, messages: u64) -> Self {
        let mut random = Random(seed);
        let confirmed = Moment::Confirmed(random.between(messages / 4, messages.max(4)).max(1));
        let plain = Self {
            seed,
            publishers: random.between(2, 4) as usize,
            queues: 1,
            consumer: false,
            kind: Kind::Plain,
            paging: None,
            recovery_kills: 0,
            moment: confirmed,
            delay: Duration::from_micros(random.between(0, 3_000)),
            recovery_ms_max: random.between(1, 40),
            messages,
            shards: [random.between(1, 5), random.between(1, 5)],
        };
        let few = random.between(1, 4) as usize;
        match number {
            1 => plain,
            2 => Self { recovery_kills: few, ..plain },
            3 => Self { consumer: true, ..plain },
            4 => Self { queues: 2, recovery_kills: few, ..plain },
            5 => Self { queues: 2, consumer: true, recovery_kills: 1, ..plain },
            6 => Self { kind: Kind::Ttl, paging: Some(PAGING), moment: Moment::Pack(few as u64), ..plain },
            7 => Self { consumer: true, paging: Some(PAGING), moment: Moment::GivenBack, ..plain },
            8 => Self { kind: Kind::Fsync, recovery_kills: few, moment: Moment::Roll, ..plain },
            9 => Self { kind: Kind::Dead { rungs: 1, quorum: 0 }, paging: Some(PAGING), ..plain },
            // This round has one publisher. With more, the consumer accepts too few of the messages: the log is
            // evacuated only if most of it is garbage.
            10 => Self {
                publishers: 1,
                consumer: true,
                moment: Moment::Copy(Copied::Log),
                delay: Duration::ZERO,
                ..plain
            },
            11 => Self {
                consumer: true,
                paging: Some(PAGING_LATE),
                moment: Moment::Copy(Copied::Run),
                delay: Duration::ZERO,
                shards: [1, plain.shards[1]],
                ..plain
            },
            13 => Self::plan_ladder(&mut random, few, plain),
            _ => Self { kind: Kind::Quorum, queues: 2, consumer: true, recovery_kills: few, ..plain },
        }
    }

    /// A round with a ladder of dead letters: all queues are classic, or all are quorum queues, or each is one of the two.
    fn plan_ladder(random: &mut Random, few: usize, plain: Self) -> Self {
        // A message is written once for each rung.
        let messages = plain.messages / 5;
        let quorum = match random.between(0, 4) {
            0 => 0,
            1 => u64::MAX,
            _ => random.next(),
        };
        let rungs = random.between(3, RUNGS.len() as u64 + 1);
        // By the end of this time, messages have come to the end of the ladder.
        let climb_us = 2 * rungs * RUNG_TTL_MS * 1_000;
        Self {
            kind: Kind::Dead { rungs: rungs as usize, quorum: quorum % (1 << (rungs + 1)) },
            delay: Duration::from_micros(random.between(0, climb_us)),
            consumer: random.between(0, 2) == 0,
            recovery_kills: few * random.between(0, 2) as usize,
            moment: Moment::Confirmed(random.between(messages / 4, messages.max(4)).max(1)),
            messages,
            ..plain
        }
    }

    /// Runs the round.
    ///
    /// # Errors
    /// What the broker did wrong.
    pub(super) async fn run(&self) -> Result<Report, String> {
        for misses in 0..COPY_TRIES {
            let report = Report { misses, ..self.run_once().await? };
            if report.copies > 0 || !matches!(self.moment, Moment::Copy(_)) {
                return Ok(report);
            }
        }
        Err(format!("in {COPY_TRIES} rounds there was no copy beside its original at the kill"))
    }

    async fn run_once(&self) -> Result<Report, String> {
        let directory = Directory::new("kill");
        let result = self.run_in(&directory).await;
        let panicked = directory.logged().contains("panicked");
        let result = if panicked { Err(format!("the broker panicked; {result:?}")) } else { result };
        result.map_err(|why| format!("{why}; see {}", directory.keep().display()))
    }

    async fn run_in(&self, directory: &Directory) -> Result<Report, String> {
        let broker = self.start(directory, self.shards[0]).finish();
        self.declare(&broker.amqp_url()).await?;
        let (firsts, before, copies) = self.publish_and_kill(broker, directory).await?;
        self.kill_in_recovery(directory)?;

        let broker = self.start(directory, self.shards[1]).finish();
        let (rests, after) = self.finish_and_drain(&broker, &firsts).await?;
        let unconfirmed = firsts.iter().map(|p| p.next - p.confirmed.len() as u64).sum();
        if unconfirmed == 0 {
            return Err("nothing was under way at the kill, so that it proves nothing".to_owned());
        }
        let mut ledger = Ledger::default();
        for (first, rest) in firsts.iter().zip(&rests) {
            ledger.sent.push(rest.next);
            ledger.confirmed.push(first.confirmed.iter().chain(&rest.confirmed).copied().collect());
        }
        let mut report = Report {
            round: self.clone(),
            sent: ledger.sent.iter().sum(),
            confirmed: ledger.confirmed.iter().map(|c| c.len() as u64).sum(),
            unconfirmed,
            taken: 0,
            drained: 0,
            figures: Figures::default(),
            copies,
            misses: 0,
        };
        for ((before, after), queue) in before.into_iter().zip(after).zip(QUEUES) {
            let came = Came { before: vec![before], after };
            let figures = judge(&ledger, &came, !self.rungs().is_empty())
                .map_err(|why| format!("queue '{queue}': {why}"))?;
            report.taken += came.before.iter().map(Vec::len).sum::<usize>();
            report.drained += came.after.iter().map(Vec::len).sum::<usize>();
            report.figures.unconfirmed_came += figures.unconfirmed_came;
            report.figures.came_again += figures.came_again;
        }
        self.stop_and_look(broker, directory).await?;
        Ok(report)
    }

    fn start(&self, directory: &Directory, shards: u64) -> Starting {
        let shards = format!("shards={shards}");
        let sets: Vec<&str> = [shards.as_str()].into_iter().chain(self.paging).collect();
        Starting::spawn(directory, &sets)
    }

    fn address(&self) -> &'static str {
        match (self.kind, self.queues) {
            (Kind::Dead { .. }, _) => "/queues/kill-source",
            (_, 1) => "/queues/kill-1",
            _ => "/exchanges/kill",
        }
    }

    /// Returns the protocol of the consumer of a queue until the kill, and of the one after a clean stop. With two queues,
    /// each protocol has one.
    fn consumer_protocol(&self, queue: usize) -> Protocol {
        match self.moment {
            // This consumer leaves messages unsettled, and settles others late.
            Moment::Copy(_) => Protocol::Amqp10,
            _ => Protocol::of(self.seed ^ queue as u64),
        }
    }

    /// The queues in which messages expire.
    fn rungs(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Dead { rungs, .. } => &RUNGS[..rungs],
            _ => &[],
        }
    }

    /// Returns true if this rung of a ladder is a quorum queue. The first queue of [`QUEUES`] counts as the rung after the last.
    fn is_quorum(&self, rung: usize) -> bool {
        matches!(self.kind, Kind::Dead { quorum, .. } if quorum >> rung & 1 == 1)
    }

    fn queue_names(&self) -> impl Iterator<Item = &'static str> {
        QUEUES.into_iter().take(self.queues)
    }

    async fn declare(&self, url: &str) -> Result<(), String> {
        let declared = async {
            let (connection, session) = connect(url).await?;
            let management = Management::open(&session).await?;
            let spec = ExchangeSpec { kind: "fanout".to_owned(), ..ExchangeSpec::default() };
            management.declare_exchange(FANOUT, &spec).await?;
            let spec = |arguments: &[(&str, Value)]| {
                let arguments =
                    arguments.iter().map(|(name, value)| (Value::String((*name).into()), value.clone()));
                QueueSpec { arguments: arguments.collect(), ..QueueSpec::default() }
            };
            let text = |text: &str| Value::String(text.into());
            let kind_of = |is_quorum| ("x-queue-type", text(if is_quorum { "quorum" } else { "classic" }));
            let rungs = self.rungs();
            for (number, rung) in rungs.iter().enumerate() {
                let dies = spec(&[
                    kind_of(self.is_quorum(number)),
                    ("x-message-ttl", Value::Ulong(RUNG_TTL_MS)),
                    ("x-dead-letter-exchange", text("")),
                    ("x-dead-letter-routing-key", text(rungs.get(number + 1).unwrap_or(&QUEUES[0]))),
                ]);
                management.declare_queue(rung, &dies).await?;
            }
            let queues = match self.kind {
                Kind::Plain => spec(&[]),
                Kind::Dead { rungs, .. } => spec(&[kind_of(self.is_quorum(rungs))]),
                Kind::Ttl => spec(&[("x-message-ttl", Value::Ulong(TTL_MS))]),
                Kind::Fsync => spec(&[("x-fsync", Value::Boolean(true))]),
                Kind::Quorum => spec(&[kind_of(true)]),
            };
            for queue in self.queue_names() {
                management.declare_queue(queue, &queues).await?;
                management
                    .bind(&Binding { arguments: Map::new(), ..Binding::to_queue(FANOUT, queue, "") })
                    .await?;
            }
            management.close().await?;
            connection.close().await
        };
        declared.await.map_err(|error: client::Error| format!("declaring: {error}"))
    }

    /// Returns what each publisher did until the kill, the messages from each queue, and the number of
    /// copies.
    async fn publish_and_kill(
        &self,
        broker: Broker,
        directory: &Directory,
    ) -> Result<(Vec<Published>, Vec<Vec<Id>>, usize), String> {
        let url = broker.amqp_url();
        let (trigger, triggered) = mpsc::channel::<()>();
        let (delay, moment, data) = (self.delay, self.moment, directory.path().join("data"));
        // The killer runs on its own thread, so that the publishers and consumers continue until the kill.
        let seed = self.seed;
        let killer = std::thread::spawn(move || moment.wait_and_kill(broker, &data, seed, &triggered, delay));
        let (keeps, lag) = if matches!(moment, Moment::Copy(_)) { (KEEPS, LAG) } else { (0, 0) };
        let backlog = if moment == Moment::Copy(Copied::Run) { BACKLOG } else { 0 };
        let (count, counted) = watch::channel(0_u64);
        let consumers: Vec<JoinHandle<_>> = self
            .queue_names()
            .filter(|_| self.consumer)
            .enumerate()
            .map(|(number, queue)| {
                let (mut counted, url) = (counted.clone(), url.clone());
                let (protocol, address) = (self.consumer_protocol(number), format!("/queues/{queue}"));
                tokio::spawn(async move {
                    match counted.wait_for(|count| *count >= backlog).await.map(|_| ()) {
                        Ok(()) => match protocol {
                            Protocol::Amqp10 => consume(url, address, seed, keeps, lag).await,
                            Protocol::Amqp091 => traffic091::consume(url, address, seed).await,
                        },
                        // The publishers ended before the kill.
                        Err(_) => Ok(Vec::new()),
                    }
                })
            })
            .collect();
        let publishers: Vec<JoinHandle<Published>> = (0..self.publishers)
            .map(|publisher| {
                let (count, trigger) = (count.clone(), trigger.clone());
                let confirmed = move || {
                    let mut confirmed = 0;
                    count.send_modify(|count| {
                        *count += 1;
                        confirmed = *count;
                    });
                    if moment == Moment::Confirmed(confirmed) {
                        // The killer may have ended already.
                        let _ = trigger.send(());
                    }
                };
                let first = Id { publisher, number: 0 };
                let (protocol, url) = (Protocol::of(publisher as u64), url.clone());
                tokio::spawn(publish(protocol, url, self.address(), self.seed, first, u64::MAX, confirmed))
            })
            .collect();
        // When all publishers have ended, nobody sends to these channels any more. Then the killer stops waiting
        // and kills the broker, and consumers that wait for a backlog end.
        drop((trigger, count));
        let mut firsts = Vec::new();
        for publisher in publishers {
            firsts.push(publisher.await.map_err(|error| error.to_string())?);
        }
        let killed = killer.join().unwrap_or(Err("the killer panicked"));
        let copies = killed.map_err(|why| format!("{why}: {:?}", ended(&firsts)))?;
        require_no_refusal(&firsts)?;
        let mut before = Vec::new();
        for consumer in consumers {
            before.push(consumer.await.map_err(|error| error.to_string())??);
        }
        before.resize(self.queues, Vec::new());
        Ok((firsts, before, copies))
    }

    /// Starts the broker and kills it before it listens, as often as planned.
    fn kill_in_recovery(&self, directory: &Directory) -> Result<(), String> {
        let mut random = Random(!self.seed);
        let mut limit_us = self.recovery_ms_max * 1_000;
        let mut killed = 0;
        for _ in 0..TRIES {
            if killed == self.recovery_kills {
                return Ok(());
            }
            let starting = self.start(directory, self.shards[1]);
            std::thread::sleep(Duration::from_micros(random.between(0, limit_us)));
            if starting.kill() {
                limit_us = (limit_us / 2).max(1);
            } else {
                killed += 1;
            }
        }
        Err(format!("the broker recovers too quickly to be killed: {killed} of {}", self.recovery_kills))
    }

    /// Returns what each publisher did in total, and the messages from each queue by consumer.
    async fn finish_and_drain(
        &self,
        broker: &Broker,
        firsts: &[Published],
    ) -> Result<(Vec<Published>, Vec<Vec<Vec<Id>>>), String> {
        let url = broker.amqp_url();
        let last = Arc::new(AtomicBool::new(false));
        // A single consumer speaks either protocol.
        let first = self.seed % 2;
        let drainers: Vec<Vec<JoinHandle<_>>> = self
            .queue_names()
            .map(|queue| {
                let drainer = |number| {
                    let (url, seed, last) = (url.clone(), self.seed, Arc::clone(&last));
                    let (protocol, address) = (Protocol::of(number), format!("/queues/{queue}"));
                    tokio::spawn(async move { drain(protocol, url, address, seed, &last).await })
                };
                // The order of dead letters can be judged with one consumer only.
                let drainers = if self.rungs().is_empty() { DRAINERS } else { 1 };
                (0..drainers).map(|number| drainer(number + first)).collect()
            })
            .collect();
        let share = self.messages / self.publishers as u64;
        let publishers: Vec<JoinHandle<Published>> = firsts
            .iter()
            .enumerate()
            .map(|(publisher, first)| {
                let next = Id { publisher, number: first.next };
                let until = share.max(first.next + REST_MIN);
                let (protocol, url) = (Protocol::of(publisher as u64), url.clone());
                tokio::spawn(publish(protocol, url, self.address(), self.seed, next, until, || ()))
            })
            .collect();
        let mut rests = Vec::new();
        for publisher in publishers {
            rests.push(publisher.await.map_err(|error| error.to_string())?);
        }
        require_no_refusal(&rests)?;
        if rests.iter().any(|p| p.ended.is_some()) {
            return Err(format!("publishing after the kill failed: {:?}", ended(&rests)));
        }
        // A rung that is empty stays so if those before it are empty. So they are asked one after the other.
        for rung in self.rungs() {
            while has_messages(broker, rung) {
                tokio::time::sleep(Duration::from_millis(RUNG_TTL_MS)).await;
            }
        }
        last.store(true, Ordering::Release);
        let mut after = Vec::new();
        for queue in drainers {
            let mut came = Vec::new();
            for drainer in queue {
                came.push(drainer.await.map_err(|error| error.to_string())??);
            }
            after.push(came);
        }
        Ok((rests, after))
    }

    /// All messages are accepted, so after a clean stop the queues must be empty.
    async fn stop_and_look(&self, broker: Broker, directory: &Directory) -> Result<(), String> {
        let status = broker.terminate();
        if !status.success() {
            return Err(format!("the broker did not stop cleanly: {status}"));
        }
        let broker = self.start(directory, self.shards[0]).finish();
        for (number, queue) in self.queue_names().enumerate() {
            let none_comes = AtomicBool::new(true);
            let (url, address) = (broker.amqp_url(), format!("/queues/{queue}"));
            let came = drain(self.consumer_protocol(number), url, address, self.seed, &none_comes).await?;
            if !came.is_empty() {
                return Err(format!("{} accepted messages came back after a clean stop", came.len()));
            }
        }
        Ok(())
    }
}

/// Returns true if the queue has messages, or dead letters that have not arrived.
fn has_messages(broker: &Broker, queue: &str) -> bool {
    let rows = broker.list("queues");
    let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == queue));
    row.is_none_or(|row| row["messages"] != 0)
}

fn require_no_refusal(published: &[Published]) -> Result<(), String> {
    let refused = |(publisher, published): (usize, &Published)| {
        let first = published.refused.first()?;
        Some(format!("{} refusals of publisher {publisher}, first: {first}", published.refused.len()))
    };
    published.iter().enumerate().find_map(refused).map_or(Ok(()), Err)
}

fn ended(published: &[Published]) -> Vec<String> {
    published.iter().filter_map(|p| p.ended.as_ref()).map(ToString::to_string).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, sent, confirmed, unconfirmed, taken, drained, figures, copies, misses } = self;
        write!(f, "{} publishers, {} queues, ", round.publishers, round.queues)?;
        write!(f, "{} shards, then {}, ", round.shards[0], round.shards[1])?;
        write!(f, "{:?}{}, ", round.kind, if round.paging.is_some() { " on the disk" } else { "" })?;
        write!(f, "killed {:?} after {:?}", round.delay, round.moment)?;
        match round.recovery_kills {
            0 => {}
            n => write!(f, " and {n} times in recovery")?,
        }
        write!(f, "; {sent} sent, {confirmed} confirmed, {unconfirmed} under way at the kill")?;
        write!(f, ", {} of these received", figures.unconfirmed_came)?;
        if round.consumer {
            write!(f, "; {taken} accepted before, {} of these received again", figures.came_again)?;
        }
        if *copies > 0 {
            write!(f, "; {copies} copies beside their originals, after {misses} misses")?;
        }
        write!(f, "; {drained} drained")
    }
}
