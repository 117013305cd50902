//! Clients that connect again when a node or a queue has failed them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amqp10::{AmqpError, DeliveryState};
use client::{Connection, Error, Options, Outcome, ReceiverOptions, SenderOptions, Session};
use tokio::task::JoinHandle;

use crate::broker::Broker;
use crate::kill::content::{Id, identify, message};
use crate::nodes::{Node, wait_until};

/// The queues. Each node has one. Its publisher is on the next node, and its consumer on the node after that.
pub(super) const QUEUES: [&str; 3] = ["queue-1", "queue-2", "queue-3"];

/// The most messages of a publisher that wait for their outcome.
const WAITING_MAX: usize = 100;
/// The time between two messages of a publisher.
const BETWEEN: Duration = Duration::from_millis(2);
/// The time between two tries to connect.
const AGAIN: Duration = Duration::from_millis(100);

/// What the clients of a round share.
pub(super) struct Traffic {
    /// The seed of this round, and that of the round before.
    seeds: [u64; 2],
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The URL of each node. A node that starts again has others.
    urls: Mutex<Vec<String>>,
    /// Publishers end when this is true.
    is_over: AtomicBool,
    /// The confirmed messages of each publisher.
    confirmed: [Mutex<BTreeSet<u64>>; QUEUES.len()],
    /// The messages that were refused, or whose outcome is unknown.
    others: Mutex<BTreeMap<String, u64>>,
    /// What the consumer of each queue has accepted, in its order.
    taken: [Mutex<Vec<u64>>; QUEUES.len()],
}

/// The clients of a round.
pub(super) struct Clients {
    publishers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(super) fn new(seeds: [u64; 2]) -> Self {
        Self { seeds, state: Arc::default() }
    }

    /// Called when a node has started again.
    pub(super) fn set_url(&self, at: usize, broker: &Broker) {
        self.state.urls.lock().unwrap()[at] = broker.amqp_url();
    }

    /// Starts a publisher and a consumer of each queue.
    pub(super) fn start(&self, nodes: &[Node]) -> Clients {
        *self.state.urls.lock().unwrap() = nodes.iter().map(|node| node.broker().amqp_url()).collect();
        let places = 0..QUEUES.len();
        let publisher = |at: usize| tokio::spawn(publish(self.seeds[0], at, self.state.clone()));
        let consumer = |at: usize| tokio::spawn(consume(self.seeds, at, self.state.clone()));
        Clients {
            publishers: places.clone().map(publisher).collect(),
            consumers: places.map(consumer).collect(),
        }
    }
}

impl Clients {
    /// Waits until all that was published is taken, ends the clients, and checks the rules. Returns what to say of
    /// the round. `may_repeat` is true if messages may be delivered twice.
    pub(super) async fn finish(self, traffic: &Traffic, nodes: &[Node], may_repeat: bool) -> String {
        let state = &traffic.state;
        state.is_over.store(true, Ordering::Relaxed);
        for publisher in self.publishers {
            publisher.await.unwrap();
        }
        for (at, queue) in QUEUES.into_iter().enumerate() {
            wait_until(&format!("all of {queue} is accepted"), || {
                let taken: BTreeSet<u64> = state.taken[at].lock().unwrap().iter().copied().collect();
                let (status, row) = nodes[at].broker().get(&format!("/api/queues/%2F/{queue}"));
                assert_eq!(status, 200, "{row}");
                row["messages"] == 0 && state.confirmed[at].lock().unwrap().is_subset(&taken)
            });
        }
        self.consumers.iter().for_each(JoinHandle::abort);
        let mut all = 0;
        for (at, queue) in QUEUES.into_iter().enumerate() {
            let taken = state.taken[at].lock().unwrap();
            let confirmed = state.confirmed[at].lock().unwrap();
            assert!(!confirmed.is_empty(), "nothing of {queue} was confirmed");
            all += confirmed.len();
            let disorder = taken.windows(2).find(|pair| pair[0] >= pair[1]);
            assert!(may_repeat || disorder.is_none(), "{queue}: twice, or in the wrong order: {disorder:?}");
        }
        format!("{all} messages confirmed, others: {:?}", state.others.lock().unwrap())
    }
}

async fn connect(state: &State, at: usize) -> Result<(Connection, Session), Error> {
    let url = state.urls.lock().unwrap()[at].parse()?;
    let connection = Connection::open(&url, Options::default()).await?;
    let session = connection.session().await?;
    Ok((connection, session))
}

/// Publishes to a queue until the end, over one connection after the other.
async fn publish(seed: u64, at: usize, state: Arc<State>) {
    let mut next = Id { publisher: at, number: 0 };
    while !state.is_over.load(Ordering::Relaxed) {
        if let Err(error) = publish_over_one(seed, at, &state, &mut next).await {
            note(&state, &error.to_string());
            tokio::time::sleep(AGAIN).await;
        }
    }
}

async fn publish_over_one(seed: u64, at: usize, state: &State, next: &mut Id) -> Result<(), Error> {
    let (_connection, session) = connect(state, (at + 1) % QUEUES.len()).await?;
    let address = format!("/queues/{}", QUEUES[at]);
    let sender = session.sender(Some(&address), SenderOptions::default()).await?;
    let mut waiting = std::collections::VecDeque::new();
    while !state.is_over.load(Ordering::Relaxed) {
        let id = *next;
        // From here on the message may be in the queue, whatever the client hears of it.
        next.number += 1;
        waiting.push_back((id.number, sender.send_pipelined(message(seed, id)).await?));
        while waiting.len() >= WAITING_MAX {
            take_outcome(at, state, waiting.pop_front()).await?;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    while !waiting.is_empty() {
        take_outcome(at, state, waiting.pop_front()).await?;
    }
    Ok(())
}

async fn take_outcome(at: usize, state: &State, waiting: Option<(u64, Outcome)>) -> Result<(), Error> {
    let Some((number, outcome)) = waiting else { return Ok(()) };
    match outcome.await? {
        DeliveryState::Accepted => _ = state.confirmed[at].lock().unwrap().insert(number),
        DeliveryState::Rejected(Some(AmqpError { description: Some(why), .. })) => note(state, &why),
        other => note(state, &format!("{other:?}")),
    }
    Ok(())
}

/// Counts a refusal or an error. Those that differ only in digits count together.
fn note(state: &State, what: &str) {
    let what = what.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    *state.others.lock().unwrap().entry(what).or_default() += 1;
}

/// Consumes from a queue until it is aborted, over one connection after the other.
async fn consume(seeds: [u64; 2], at: usize, state: Arc<State>) {
    loop {
        if let Err(error) = consume_over_one(seeds, at, &state).await {
            note(&state, &error.to_string());
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn consume_over_one([seed, before]: [u64; 2], at: usize, state: &State) -> Result<(), Error> {
    let (_connection, session) = connect(state, (at + 2) % QUEUES.len()).await?;
    let address = format!("/queues/{}", QUEUES[at]);
    let receiver = session.receiver(Some(&address), ReceiverOptions::default()).await?;
    loop {
        let delivery = receiver.recv().await?;
        let message = delivery.message.clone();
        delivery.accept()?;
        let id = identify(seed, &message);
        match id {
            Ok(id) => {
                assert_eq!(id.publisher, at);
                state.taken[at].lock().unwrap().push(id.number);
            }
            // A node that was killed may give back what was accepted just before, at the end of the last round.
            Err(why) => assert!(identify(before, &message).is_ok(), "{why}"),
        }
    }
}
