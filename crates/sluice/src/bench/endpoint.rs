//! One sender or receiver, on its own connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use amqp10::DeliveryState;
use client::{Connection, Credit, Error, Outcome, ReceiverOptions, SenderOptions, Settle};
use hdrhistogram::Histogram;
use tokio::sync::{mpsc, watch};

use super::clock::{Pacer, SECOND_NS, now_ns};
use super::run::Run;
use super::stamp::{Stamper, sent_ns};
use super::tally::Tally;
use super::{Bench, Protocol};
use crate::failure::Failure;

/// The most unread outcomes of one sender. This suffices for any credit that brokers grant in practice.
const OUTCOMES_MAX: usize = 8192;

/// The time that a connection may take to close.
pub(super) const CLOSE: Duration = Duration::from_secs(2);

/// The phase of a run, set by the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Attach,
    Run,
    /// Senders send nothing more, but wait for outcomes.
    Finish,
    Stop,
}

/// A message from an endpoint to the coordinator.
#[derive(Debug)]
pub(super) enum Event {
    /// The endpoint is attached.
    Ready,
    /// A sender has sent all its messages and received their outcomes.
    Sent,
    Failed(Failure),
}

/// The kind of endpoint, and its address.
pub(super) enum Role {
    Sender(String),
    Receiver(String),
}

/// The state that the endpoints of one thread share.
pub(super) struct ThreadState {
    pub run: Arc<Run>,
    /// The index of the thread.
    pub number: usize,
    /// The latencies of received messages, in nanoseconds.
    pub latencies: RefCell<Histogram<u64>>,
    pub phase: watch::Receiver<Phase>,
    pub events: mpsc::UnboundedSender<Event>,
}

impl ThreadState {
    /// Runs an endpoint until the coordinator stops it or the connection fails.
    pub(super) async fn live(self: Rc<Self>, role: Role) {
        match self.bench().protocol {
            Protocol::Amqp10 => self.live_10(role).await,
            Protocol::Amqp091 => self.live_091(role).await,
        }
    }

    async fn live_10(&self, role: Role) {
        let connected = tokio::select! {
            connected = self.bench().connect() => connected,
            () = self.until(|phase| phase == Phase::Stop) => return,
        };
        let (connection, place) = match connected {
            Ok(connected) => connected,
            Err(failure) => return self.tell(Event::Failed(failure)),
        };
        let work = async {
            match &role {
                Role::Sender(address) => (address, self.send(&connection, address).await),
                Role::Receiver(address) => (address, self.receive(&connection, address).await),
            }
        };
        tokio::select! {
            (address, ended) = work => if let Err(error) = ended {
                self.tell(Event::Failed(place.failed("use", address, &error)));
            },
            () = self.until(|phase| phase == Phase::Stop) => {}
        }
        // The counts are complete, so the way in which the connection ends does not change the result.
        drop(tokio::time::timeout(CLOSE, connection.close()).await);
    }

    pub(super) fn bench(&self) -> &Bench {
        &self.run.bench
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.run.tallies[self.number]
    }

    pub(super) fn tell(&self, event: Event) {
        // If the coordinator is gone, nobody needs the event.
        drop(self.events.send(event));
    }

    pub(super) async fn until(&self, reached: impl Fn(Phase) -> bool) {
        // If the coordinator is gone, the run is over.
        drop(self.phase.clone().wait_for(|phase| reached(*phase) || *phase == Phase::Stop).await);
    }

    pub(super) async fn start(&self) -> u64 {
        self.tell(Event::Ready);
        self.until(|phase| phase != Phase::Attach).await;
        self.start_ns()
    }

    /// When the run began, in nanoseconds; `u64::MAX` if it has not begun.
    pub(super) fn start_ns(&self) -> u64 {
        self.run.start_ns.get().copied().unwrap_or(u64::MAX)
    }

    // ---- sending ------------------------------------------------------------------------------------------

    async fn send(&self, connection: &Connection, address: &str) -> Result<(), Error> {
        let settle = if self.bench().settled { Settle::Settled } else { Settle::Unsettled };
        let options = SenderOptions { settle, ..SenderOptions::default() };
        let session = connection.session().await?;
        let link = session.sender(Some(address), options).await?;
        let start_ns = self.start().await;
        let mut outcomes = VecDeque::new();
        tokio::select! {
            sent = self.send_all(&link, start_ns, &mut outcomes) => sent?,
            () = self.until(|phase| phase == Phase::Finish) => {}
        }
        while let Some(outcome) = outcomes.pop_front() {
            self.count(&outcome.await?);
        }
        self.tell(Event::Sent);
        // The link is kept open until the receivers have everything.
        std::future::pending().await
    }

    async fn send_all(
        &self,
        link: &client::Sender,
        start_ns: u64,
        outcomes: &mut VecDeque<Outcome>,
    ) -> Result<(), Error> {
        let bench = self.bench();
        let mut stamper = Stamper::new(bench.size as usize, bench.durable);
        let pacer = bench.rate.map(|rate| Pacer::new(start_ns, rate)).transpose()?;
        let end_ns = bench.duration_s().map(|s| start_ns.saturating_add(u64::from(s) * SECOND_NS));
        for n in 0..bench.count.unwrap_or(u64::MAX) {
            let due_ns = match &pacer {
                Some(pacer) => pacer.due(n).await?,
                None => {
                    // Latency counts from the time at which the message can be sent, so it does not include
                    // waiting for credit.
                    link.ready().await?;
                    now_ns()
                }
            };
            if end_ns.is_some_and(|end| due_ns >= end) {
                break;
            }
            let outcome = link.send_pipelined(stamper.at(due_ns)).await?;
            self.tally().sent.add(1);
            if bench.settled {
                continue;
            }
            outcomes.push_back(outcome);
            if outcomes.len() > OUTCOMES_MAX
                && let Some(oldest) = outcomes.pop_front()
            {
                self.count(&oldest.await?);
            }
        }
        Ok(())
    }

    fn count(&self, outcome: &DeliveryState) {
        match outcome {
            DeliveryState::Accepted => self.tally().accepted.add(1),
            DeliveryState::Rejected(_) => self.tally().rejected.add(1),
            DeliveryState::Modified(_) => self.tally().modified.add(1),
            _ => self.tally().released.add(1),
        }
    }

    // ---- receiving ----------------------------------------------------------------------------------------

    async fn receive(&self, connection: &Connection, address: &str) -> Result<(), Error> {
        let options = ReceiverOptions {
            credit: Credit::Auto(self.bench().credit),
            settled: self.bench().settled,
            ..ReceiverOptions::default()
        };
        let session = connection.session().await?;
        let link = session.receiver(Some(address), options).await?;
        self.tell(Event::Ready);
        loop {
            let delivery = link.recv().await?;
            let now = now_ns();
            match sent_ns(&delivery.message) {
                // The comparison uses the start of the run, not the phase that this thread knows: a message
                // can arrive before this thread learns that the run has started. A message that was sent
                // before the start belongs to another run.
                Some(sent_ns) if sent_ns >= self.start_ns() => {
                    self.latencies.borrow_mut().saturating_record(now.saturating_sub(sent_ns));
                    self.tally().received.add(1);
                    self.tally().last_received_ns.set(now);
                }
                _ => self.tally().strange.add(1),
            }
            delivery.accept()?;
        }
    }
}
