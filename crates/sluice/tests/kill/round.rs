//! One round: publish, kill, start again, publish the rest, drain, judge, stop, and look once more.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use amqp10::Map;
use client::management::{Binding, ExchangeSpec, Management, QueueSpec};
use tokio::task::JoinHandle;

use crate::broker::{Broker, Directory, Starting};
use crate::content::{Id, Random};
use crate::traffic::{Published, connect, consume, drain, publish};
use crate::verdict::{Came, Figures, Ledger, judge};

const QUEUES: [&str; 2] = ["kill-1", "kill-2"];
const FANOUT: &str = "kill";
/// Consumers per queue after the kill.
const DRAINERS: usize = 2;
/// What each publisher sends after the kill at least.
const REST_MIN: u64 = 100;
/// How often a kill during recovery is tried again if the broker was quicker.
const TRIES: usize = 20;

/// What a round will do. All of it follows from number, seed and messages.
#[derive(Clone, Debug)]
pub struct Round {
    seed: u64,
    publishers: usize,
    /// Two queues get each message from an exchange; one is sent to directly.
    queues: usize,
    /// A consumer accepts messages until the kill.
    consumer: bool,
    /// Kills while the broker recovers.
    recovery_kills: usize,
    /// The kill comes when so many messages are confirmed,
    kill_at: u64,
    /// and so much later.
    delay: Duration,
    /// In milliseconds, from the start of the program to the kill during recovery.
    recovery_ms_max: u64,
    messages: u64,
    /// Event loops of the broker before the kill, and after it.
    shards: [u64; 2],
}

/// What a round has seen.
#[derive(Debug)]
pub struct Report {
    round: Round,
    sent: u64,
    confirmed: u64,
    /// At the first kill.
    unconfirmed: u64,
    taken: usize,
    drained: usize,
    figures: Figures,
}

impl Round {
    pub fn plan(number: u64, seed: u64, messages: u64) -> Self {
        let mut random = Random::new(seed);
        let (queues, consumer, recovery_kills) = match number % 5 {
            1 => (1, false, 0),
            2 => (1, false, random.between(1, 4) as usize),
            3 => (1, true, 0),
            4 => (2, false, random.between(1, 3) as usize),
            _ => (2, true, 1),
        };
        Self {
            seed,
            publishers: random.between(2, 4) as usize,
            queues,
            consumer,
            recovery_kills,
            kill_at: random.between(messages / 4, messages.max(4)).max(1),
            delay: Duration::from_micros(random.between(0, 3_000)),
            recovery_ms_max: random.between(1, 40),
            messages,
            shards: [random.between(1, 5), random.between(1, 5)],
        }
    }

    /// # Errors
    /// What the broker did wrong.
    pub async fn run(&self) -> Result<Report, String> {
        let directory = Directory::new("kill");
        let result = self.run_in(&directory).await;
        let panicked = directory.logged().contains("panicked");
        let result = if panicked { Err(format!("the broker panicked; {result:?}")) } else { result };
        result.map_err(|why| format!("{why}; see {}", directory.keep().display()))
    }

    async fn run_in(&self, directory: &Directory) -> Result<Report, String> {
        let broker = self.start(directory, self.shards[0]).finish();
        self.declare(&broker.amqp_url()).await?;
        let (firsts, before) = self.publish_and_kill(broker).await?;
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
        };
        for ((before, after), queue) in before.into_iter().zip(after).zip(QUEUES) {
            let came = Came { before: vec![before], after };
            let figures = judge(&ledger, &came).map_err(|why| format!("queue '{queue}': {why}"))?;
            report.taken += came.before.iter().map(Vec::len).sum::<usize>();
            report.drained += came.after.iter().map(Vec::len).sum::<usize>();
            report.figures.unconfirmed_came += figures.unconfirmed_came;
            report.figures.came_again += figures.came_again;
        }
        self.stop_and_look(broker, directory).await?;
        Ok(report)
    }

    fn start(&self, directory: &Directory, shards: u64) -> Starting {
        Starting::spawn(directory, &[&format!("shards={shards}")])
    }

    fn address(&self) -> &'static str {
        if self.queues == 1 { "/queues/kill-1" } else { "/exchanges/kill" }
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
            for queue in self.queue_names() {
                management.declare_queue(queue, &QueueSpec::default()).await?;
                management
                    .bind(&Binding { arguments: Map::new(), ..Binding::to_queue(FANOUT, queue, "") })
                    .await?;
            }
            management.close().await?;
            connection.close().await
        };
        declared.await.map_err(|error: client::Error| format!("declaring: {error}"))
    }

    /// What each publisher has done until the kill, and what came from each queue.
    async fn publish_and_kill(&self, broker: Broker) -> Result<(Vec<Published>, Vec<Vec<Id>>), String> {
        let url = broker.amqp_url();
        let (trigger, triggered) = mpsc::channel::<()>();
        let delay = self.delay;
        // A thread, so that the traffic goes on until the very moment.
        let killer = std::thread::spawn(move || {
            let reached = triggered.recv().is_ok();
            std::thread::sleep(delay);
            broker.kill();
            reached
        });
        let consumers: Vec<JoinHandle<_>> = self
            .queue_names()
            .filter(|_| self.consumer)
            .map(|queue| tokio::spawn(consume(url.clone(), format!("/queues/{queue}"), self.seed)))
            .collect();
        let (count, kill_at) = (Arc::new(AtomicU64::new(0)), self.kill_at);
        let publishers: Vec<JoinHandle<Published>> = (0..self.publishers)
            .map(|publisher| {
                let (count, trigger) = (Arc::clone(&count), trigger.clone());
                let confirmed = move || {
                    if count.fetch_add(1, Ordering::Relaxed) + 1 == kill_at {
                        // The killer ends before the last publisher only if it has been told.
                        let _ = trigger.send(());
                    }
                };
                let first = Id { publisher, number: 0 };
                tokio::spawn(publish(url.clone(), self.address(), self.seed, first, u64::MAX, confirmed))
            })
            .collect();
        // The killer waits for the last of the others, and kills anyway when all publishers have ended.
        drop(trigger);
        let mut firsts = Vec::new();
        for publisher in publishers {
            firsts.push(publisher.await.map_err(|error| error.to_string())?);
        }
        if !killer.join().unwrap_or(false) {
            return Err(format!("the publishers ended before the kill: {:?}", ended(&firsts)));
        }
        require_no_refusal(&firsts)?;
        let mut before = Vec::new();
        for consumer in consumers {
            before.push(consumer.await.map_err(|error| error.to_string())??);
        }
        before.resize(self.queues, Vec::new());
        Ok((firsts, before))
    }

    /// Starts the broker and kills it before it listens, as often as planned.
    fn kill_in_recovery(&self, directory: &Directory) -> Result<(), String> {
        let mut random = Random::new(!self.seed);
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

    /// What each publisher has done in the end, and what came from each queue by consumer.
    async fn finish_and_drain(
        &self,
        broker: &Broker,
        firsts: &[Published],
    ) -> Result<(Vec<Published>, Vec<Vec<Vec<Id>>>), String> {
        let url = broker.amqp_url();
        let last = Arc::new(AtomicBool::new(false));
        let drainers: Vec<Vec<JoinHandle<_>>> = self
            .queue_names()
            .map(|queue| {
                let drainer = |_| {
                    let (url, seed, last) = (url.clone(), self.seed, Arc::clone(&last));
                    let address = format!("/queues/{queue}");
                    tokio::spawn(async move { drain(url, address, seed, &last).await })
                };
                (0..DRAINERS).map(drainer).collect()
            })
            .collect();
        let share = self.messages / self.publishers as u64;
        let publishers: Vec<JoinHandle<Published>> = firsts
            .iter()
            .enumerate()
            .map(|(publisher, first)| {
                let next = Id { publisher, number: first.next };
                let until = share.max(first.next + REST_MIN);
                tokio::spawn(publish(url.clone(), self.address(), self.seed, next, until, || ()))
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

    /// Everything is accepted: after a clean stop, too, nothing comes.
    async fn stop_and_look(&self, broker: Broker, directory: &Directory) -> Result<(), String> {
        let status = broker.terminate();
        if !status.success() {
            return Err(format!("the broker did not stop cleanly: {status}"));
        }
        let broker = self.start(directory, self.shards[0]).finish();
        for queue in self.queue_names() {
            let none_comes = AtomicBool::new(true);
            let came = drain(broker.amqp_url(), format!("/queues/{queue}"), self.seed, &none_comes).await?;
            if !came.is_empty() {
                return Err(format!("{} accepted messages came back after a clean stop", came.len()));
            }
        }
        Ok(())
    }
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
        let Self { round, sent, confirmed, unconfirmed, taken, drained, figures } = self;
        write!(f, "{} publishers, {} queues, ", round.publishers, round.queues)?;
        write!(f, "{} shards, then {}, ", round.shards[0], round.shards[1])?;
        write!(f, "killed {:?} behind confirm {}", round.delay, round.kill_at)?;
        match round.recovery_kills {
            0 => {}
            n => write!(f, " and {n} times in recovery")?,
        }
        write!(f, "; {sent} sent, {confirmed} confirmed, {unconfirmed} under way at the kill")?;
        write!(f, ", {} of these came", figures.unconfirmed_came)?;
        if round.consumer {
            write!(f, "; {taken} taken before, {} of these came again", figures.came_again)?;
        }
        write!(f, "; {drained} drained")
    }
}
