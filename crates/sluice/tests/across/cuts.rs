//! Links between nodes that are cut for a short time, while clients publish and consume. Nobody notices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use amqp10::{DeliveryState, Described, Map, Symbol, Value};
use client::{Credit, Message, ReceiverOptions, SenderOptions};
use random::Random;
use tokio::sync::watch;

use super::client091::Client;
use super::{CONSUMER, PUBLISHER, QUEUE, run, session};
use crate::broker::Broker;
use crate::kill::content::{Id, body, identify, identify_body, message};
use crate::nodes::{Cluster, wait_until};

const SEED: u64 = 5;

/// How often a link is cut, and how long it is cut each time and healed afterwards.
const CUTS: u64 = 6;
const CUT: Duration = Duration::from_secs(2);

/// The queues, by type. Each type has two publishers, whose numbers follow each other.
const KINDS: [&str; 3] = ["classic", "quorum", "stream"];

/// A publisher sends this many messages at once, and then waits, so that the queues do not grow for ever.
const AT_ONCE: u64 = 10;
const BETWEEN: Duration = Duration::from_millis(10);

/// What one consumer has taken, in its order.
type Taken = Vec<Id>;

/// What the clients of all queues share.
#[derive(Default)]
struct Shared {
    /// Publishers end when this is true.
    is_over: AtomicBool,
    /// The messages that were taken, by the place of the queue in [`KINDS`].
    taken: [AtomicU64; KINDS.len()],
}

async fn publish10(url: Url, place: usize, shared: Arc<Shared>) -> u64 {
    let publisher = 2 * place;
    let (_connection, session) = url.session().await;
    let address = format!("/queues/{}", KINDS[place]);
    let sender = session.sender(Some(&address), SenderOptions::default()).await.unwrap();
    let (mut number, mut outcomes) = (0, Vec::new());
    while !shared.is_over.load(Ordering::Relaxed) {
        for _ in 0..AT_ONCE {
            let sent = sender.send_pipelined(message(SEED, Id { publisher, number })).await.unwrap();
            outcomes.push(sent);
            number += 1;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    for (number, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.await.unwrap(), DeliveryState::Accepted, "{address}: message {number}");
    }
    number
}

async fn publish091(mut client: Client, place: usize, shared: Arc<Shared>) -> u64 {
    let publisher = 2 * place + 1;
    client.confirm().await;
    let mut number = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        let body = body(SEED, Id { publisher, number });
        assert!(client.publish(KINDS[place], body).await.unwrap(), "{}: message {number}", KINDS[place]);
        number += 1;
    }
    number
}

async fn consume10(url: Url, place: usize, shared: Arc<Shared>, mut end: watch::Receiver<bool>) -> Taken {
    let (_connection, session) = url.session().await;
    let address = format!("/queues/{}", KINDS[place]);
    // Only a stream has such a filter: its reader begins with the first message, whenever it comes.
    let first = Value::Described(Box::new(Described {
        descriptor: Symbol::from_static("rabbitmq:stream-offset-spec").into(),
        value: "first".into(),
    }));
    let filter = (KINDS[place] == "stream")
        .then(|| Map(vec![(Symbol::from_static("rabbitmq:stream-offset-spec").into(), first)]));
    let options = ReceiverOptions { filter, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some(&address), options).await.unwrap();
    let mut taken = Taken::new();
    loop {
        let delivery = tokio::select! {
            delivery = receiver.recv() => delivery.unwrap(),
            _ = end.changed() => return taken,
        };
        taken.push(identify(SEED, &delivery.message).unwrap());
        delivery.accept().unwrap();
        shared.taken[place].fetch_add(1, Ordering::Relaxed);
    }
}

async fn consume091(
    mut client: Client,
    place: usize,
    shared: Arc<Shared>,
    mut end: watch::Receiver<bool>,
) -> Taken {
    client.qos(50).await;
    client.consume(KINDS[place], "c", false, 0).await;
    let mut taken = Taken::new();
    loop {
        let message = tokio::select! {
            message = client.next() => message.unwrap(),
            _ = end.changed() => return taken,
        };
        assert!(!message.redelivered, "{}: {message:?}", KINDS[place]);
        taken.push(identify_body(SEED, &message.body, true).unwrap());
        client.ack(message.tag).await;
        shared.taken[place].fetch_add(1, Ordering::Relaxed);
    }
}

/// Where a client connects.
struct Url(String);

impl Url {
    fn of(broker: &Broker) -> Self {
        Self(broker.amqp_url())
    }

    async fn session(&self) -> (client::Connection, client::Session) {
        let connection =
            client::Connection::open(&self.0.parse().unwrap(), client::Options::default()).await.unwrap();
        let session = connection.session().await.unwrap();
        (connection, session)
    }
}

/// Cuts one link after the other, in both directions or in one.
async fn cut_and_heal(cluster: &Cluster) {
    let mut random = Random(SEED);
    for _ in 0..CUTS {
        let (a, b) =
            [(PUBLISHER, QUEUE), (QUEUE, CONSUMER), (PUBLISHER, CONSUMER)][random.next() as usize % 3];
        match random.next() % 3 {
            0 => cluster.pipes.cut(a, b),
            1 => cluster.pipes.cut_way(a, b),
            _ => cluster.pipes.cut_way(b, a),
        }
        tokio::time::sleep(CUT).await;
        // What was on its way is lost, or it arrives late.
        if random.next().is_multiple_of(2) {
            cluster.pipes.end(a, b);
        }
        cluster.pipes.heal();
        tokio::time::sleep(CUT).await;
    }
}

#[test]
fn nothing_is_lost_or_there_twice_while_links_are_cut_again_and_again() {
    let cluster = Cluster::start("across-cuts", &[]);
    for kind in KINDS {
        cluster.declare(QUEUE, kind, &["--type", kind]);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let shared = Arc::new(Shared::default());
    let (end, ended) = watch::channel(false);
    let mut publishers = Vec::new();
    let mut consumers = Vec::new();
    for (place, kind) in KINDS.into_iter().enumerate() {
        let [publisher, consumer] = [PUBLISHER, CONSUMER].map(|at| cluster.broker(at));
        let client = |broker| runtime.block_on(Client::open(broker));
        consumers
            .push((place, runtime.spawn(consume10(Url::of(consumer), place, shared.clone(), ended.clone()))));
        if kind != "stream" {
            let consume = consume091(client(publisher), place, shared.clone(), ended.clone());
            consumers.push((place, runtime.spawn(consume)));
        }
        publishers.push(runtime.spawn(publish10(Url::of(publisher), place, shared.clone())));
        publishers.push(runtime.spawn(publish091(client(consumer), place, shared.clone())));
    }
    runtime.block_on(cut_and_heal(&cluster));
    shared.is_over.store(true, Ordering::Relaxed);
    let sent: Vec<u64> =
        publishers.into_iter().map(|publisher| runtime.block_on(publisher).unwrap()).collect();
    for (place, kind) in KINDS.into_iter().enumerate() {
        let all = sent[2 * place] + sent[2 * place + 1];
        wait_until(&format!("all {all} messages of {kind} have arrived"), || {
            shared.taken[place].load(Ordering::Relaxed) >= all
        });
        if kind != "stream" {
            wait_until("all are settled", || cluster.messages(kind) == (0, 0));
        }
    }
    end.send(true).unwrap();
    let mut taken: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (place, consumer) in consumers {
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        for Id { publisher, number } in runtime.block_on(consumer).unwrap() {
            let before = last.insert(publisher, number);
            assert!(before < Some(number), "{}: {number} comes after {before:?}", KINDS[place]);
            assert_eq!(publisher / 2, place);
            let is_new = taken.entry(publisher).or_default().insert(number);
            assert!(is_new, "{}: {number} of publisher {publisher} is there twice", KINDS[place]);
        }
    }
    for (publisher, sent) in sent.into_iter().enumerate() {
        assert!(sent > 0);
        let taken = taken.remove(&publisher).unwrap();
        assert!(taken.iter().copied().eq(0..sent), "publisher {publisher}: {} of {sent} came", taken.len());
    }
    cluster.stop();
}

#[test]
fn a_consumer_keeps_what_it_holds_while_a_link_is_cut() {
    const HELD: u64 = 5;
    let cluster = Cluster::start("across-held", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let (_there, there) = session(cluster.broker(CONSUMER)).await;
            let (_here, here) = session(cluster.broker(QUEUE)).await;
            let address = format!("/queues/{kind}");
            let sender = here.sender(Some(&address), SenderOptions::default()).await.unwrap();
            let options = || ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
            let receiver = there.receiver(Some(&address), options()).await.unwrap();
            receiver.flow(HELD as u32, false, false);
            for number in 0..HELD {
                sender.send(message(SEED, Id { publisher: 0, number })).await.unwrap();
            }
            let mut held = Vec::new();
            for number in 0..HELD {
                held.push(receiver.recv().await.unwrap());
                let id = identify(SEED, &held.last().unwrap().message).unwrap();
                assert_eq!(id.number, number, "{kind}");
            }
            cluster.pipes.cut(QUEUE, CONSUMER);
            let other = here.receiver(Some(&address), options()).await.unwrap();
            other.flow(2 * HELD as u32, false, false);
            // One half is settled while the link is cut, the other half afterwards.
            let rest = held.split_off(2);
            held.into_iter().for_each(|delivery| delivery.accept().unwrap());
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(cluster.messages(kind), (0, HELD), "{kind}: the queue waits");
            if kind == "quorum" {
                cluster.pipes.end(QUEUE, CONSUMER);
            }
            cluster.pipes.heal();
            wait_until("what was settled has arrived", || cluster.messages(kind) == (0, HELD - 2));
            rest.into_iter().for_each(|delivery| delivery.accept().unwrap());
            wait_until("all is settled", || cluster.messages(kind) == (0, 0));
            assert_eq!(other.waiting(), 0, "{kind}: another consumer has got what was held");
            other.detach().await.unwrap();
            receiver.flow(1, false, false);
            sender.send(Message::data("more").encode()).await.unwrap();
            receiver.recv().await.unwrap().accept().unwrap();
        });
    }
    cluster.stop();
}

/// On a slow network everything takes longer, and nothing else changes.
#[test]
fn a_slow_network_changes_no_order() {
    let cluster = Cluster::start("across-slow", &[]);
    cluster.pipes.delay(Duration::from_millis(30));
    cluster.declare(QUEUE, "q", &[]);
    run(async {
        let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
        let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
        let sender = publishing.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
        let receiver = consuming.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
        let publish = async {
            let mut outcomes = Vec::new();
            for number in 0..500 {
                let message = message(SEED, Id { publisher: 0, number });
                outcomes.push(sender.send_pipelined(message).await.unwrap());
            }
            for outcome in outcomes {
                assert_eq!(outcome.await.unwrap(), DeliveryState::Accepted);
            }
        };
        let consume = async {
            for number in 0..500 {
                let delivery = receiver.recv().await.unwrap();
                assert_eq!(identify(SEED, &delivery.message).unwrap().number, number);
                delivery.accept().unwrap();
            }
        };
        tokio::join!(publish, consume);
        wait_until("all is settled", || cluster.messages("q") == (0, 0));
    });
    cluster.stop();
}
