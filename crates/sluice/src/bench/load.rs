//! The coordinator: starts the threads, sets the phase, and watches progress.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, MissedTickBehavior};

use super::amqp091::Declared091;
use super::clock::{SECOND_NS, cpu_ns, now_ns};
use super::endpoint::{Event, Phase, Role, ThreadState};
use super::plan::{Declared, Plan};
use super::report::{Measured, Report, thousands};
use super::run::Run;
use super::tally::Totals;
use super::{Bench, DURATION_S, Protocol, say};
use crate::amqp::block_on;
use crate::failure::Failure;

/// A run is given up after this time without progress.
const SILENCE: Duration = Duration::from_secs(10);

/// The interval at which the coordinator checks whether everything was received.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The largest latency recorded, in nanoseconds. Longer ones count as this long.
const LONGEST_NS: u64 = 3600 * SECOND_NS;

/// The number of significant digits of recorded latencies.
const DIGITS: u8 = 3;

/// Runs a pattern with messages.
///
/// # Errors
/// The broker's error.
pub(super) fn run(bench: Bench) -> Result<Report, Failure> {
    let mut measured = None;
    let plan = Plan::of(&bench);
    let run = Arc::new(Run::new(bench, plan));
    block_on(async {
        measured = Some(match (run.bench.no_declare, run.bench.protocol) {
            (true, _) => drive(&run).await?,
            (false, Protocol::Amqp10) => {
                let declared = Declared::make(&run.bench, &run.plan).await?;
                let result = drive(&run).await;
                declared.delete().await;
                result?
            }
            (false, Protocol::Amqp091) => {
                let declared = Declared091::make(&run.bench, &run.plan).await?;
                let result = drive(&run).await;
                declared.delete().await;
                result?
            }
        });
        Ok(())
    })?;
    let Some(measured) = measured else { return Err(Failure::failed("nothing was measured")) };
    Ok(Report::of_load(&run, &measured))
}

impl Bench {
    /// How long to send, in seconds; `None` if only `--count` limits the run.
    pub(crate) fn duration_s(&self) -> Option<u32> {
        self.duration.or(self.count.is_none().then_some(DURATION_S))
    }
}

impl Run {
    /// Returns the endpoints of one thread. Both ends of a pair are on the same thread.
    fn roles(&self, thread: usize) -> impl Iterator<Item = Role> {
        let own = move |all| <[String]>::iter(all).skip(thread).step_by(self.tallies.len()).cloned();
        own(&self.plan.receivers).map(Role::Receiver).chain(own(&self.plan.senders).map(Role::Sender))
    }
}

type Thread = JoinHandle<Result<Histogram<u64>, Failure>>;

async fn drive(run: &Arc<Run>) -> Result<Measured, Failure> {
    let (phase, phases) = watch::channel(Phase::Attach);
    let (events, inbox) = mpsc::unbounded_channel();
    let mut threads: Vec<Thread> = Vec::new();
    for number in 0..run.tallies.len() {
        let (theirs, phases, events) = (Arc::clone(run), phases.clone(), events.clone());
        let thread = std::thread::Builder::new().name(format!("bench-{number}"));
        let started = thread.spawn(move || work(theirs, number, phases, events));
        threads.push(started.map_err(|e| cannot_start(&e))?);
    }
    drop((phases, events));
    let mut watcher = Watcher { run, phase, inbox, ready: 0, sent: 0 };
    let watched = watcher.watch().await;
    watcher.phase.send_replace(Phase::Stop);
    let mut latencies = histogram()?;
    for thread in threads {
        let theirs = thread.join().map_err(|_| Failure::failed("a thread panicked"))??;
        latencies.add(theirs).map_err(|e| Failure::failed(e.to_string()))?;
    }
    let (start_ns, cpu_ns) = watched?;
    Ok(Measured { totals: Totals::of(&run.tallies), latencies, start_ns, cpu_ns })
}

/// Runs the endpoints of one thread until all have ended.
fn work(
    run: Arc<Run>,
    number: usize,
    phase: watch::Receiver<Phase>,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Histogram<u64>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| cannot_start(&e))?;
    let latencies = RefCell::new(histogram()?);
    let roles: Vec<Role> = run.roles(number).collect();
    let place = Rc::new(ThreadState { run, number, latencies, phase, events });
    LocalSet::new().block_on(&runtime, async {
        let mut endpoints = JoinSet::new();
        for role in roles {
            endpoints.spawn_local(Rc::clone(&place).live(role));
        }
        while let Some(ended) = endpoints.join_next().await {
            ended.map_err(|e| Failure::failed(e.to_string()))?;
        }
        Ok(())
    })?;
    Ok(place.latencies.replace(histogram()?))
}

/// Returns an empty histogram of times in nanoseconds.
pub(super) fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_max(LONGEST_NS, DIGITS).map_err(|e| Failure::failed(e.to_string()))
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot start the threads of the load: {error}"))
}

/// The coordinator during a run.
struct Watcher<'a> {
    run: &'a Run,
    phase: watch::Sender<Phase>,
    inbox: mpsc::UnboundedReceiver<Event>,
    /// The number of attached endpoints.
    ready: usize,
    /// The number of senders that are done.
    sent: usize,
}

impl Watcher<'_> {
    /// Runs the phases. Returns when the run began and the CPU time that this process used during it, both in
    /// nanoseconds.
    async fn watch(&mut self) -> Result<(u64, u64), Failure> {
        let Plan { senders, receivers, .. } = &self.run.plan;
        while self.ready < senders.len() + receivers.len() {
            self.hear().await?;
        }
        let (start_ns, cpu) = (*self.run.start_ns.get_or_init(now_ns), cpu_ns());
        self.phase.send_replace(Phase::Run);
        let mut progress = Progress::new();
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        let mut looks = tokio::time::interval(CHECK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = self.hear() => heard?,
                _ = looks.tick() => {}
                _ = &mut interrupted => break,
            }
            let totals = Totals::of(&self.run.tallies);
            let all_sent = self.sent == senders.len();
            if all_sent && totals.received >= self.run.expected(&totals) || progress.is_silent(&totals) {
                break;
            }
            progress.tell(&totals);
        }
        Ok((start_ns, cpu_ns() - cpu))
    }

    async fn hear(&mut self) -> Result<(), Failure> {
        match self.inbox.recv().await {
            Some(Event::Ready) => self.ready += 1,
            Some(Event::Sent) => self.sent += 1,
            Some(Event::Failed(failure)) => return Err(failure),
            None => return Err(Failure::failed("all connections have ended")),
        }
        Ok(())
    }
}

/// Prints a line each second, and detects a run without progress.
struct Progress {
    start: Instant,
    told: Instant,
    last: Totals,
    moved: Instant,
    seen: Totals,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self { start: now, told: now, last: Totals::default(), moved: now, seen: Totals::default() }
    }

    /// Returns true if nothing has moved for [`SILENCE`].
    fn is_silent(&mut self, totals: &Totals) -> bool {
        if *totals != self.seen {
            (self.seen, self.moved) = (*totals, Instant::now());
        }
        self.moved.elapsed() >= SILENCE
    }

    fn tell(&mut self, totals: &Totals) {
        let seconds = self.told.elapsed().as_secs_f64();
        if seconds < 1.0 {
            return;
        }
        let per_second = |now: u64, before: u64| thousands(((now - before) as f64 / seconds).round() as u64);
        say(&format!(
            "{:>4} s  sent {:>11}/s  received {:>11}/s  total {} and {}",
            self.start.elapsed().as_secs(),
            per_second(totals.sent, self.last.sent),
            per_second(totals.received, self.last.received),
            thousands(totals.sent),
            thousands(totals.received),
        ));
        (self.told, self.last) = (Instant::now(), *totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_kept_to_three_digits_up_to_an_hour() {
        let mut latencies = histogram().unwrap();
        for ns in [1_234_567, 60 * SECOND_NS, u64::MAX] {
            latencies.reset();
            latencies.saturating_record(ns);
            let kept = latencies.value_at_percentile(50.0);
            assert!(kept.abs_diff(ns.min(LONGEST_NS)) <= LONGEST_NS.min(ns) / 1000, "{ns} became {kept}");
        }
    }
}
