//! Queues of one node and clients of another, step by step.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::BytesMut;
use catalog::{Arguments, Command, DeclareQueue};
use node::peer::PeerMessage;
use wal_testing::Random;

use super::node::SimNode;
use super::scenes::{ask_on, broker, declare, pair, pair_run};
use crate::asks::Asks;
use crate::world::take;

/// Two nodes. The second one has the queue `q`.
struct Pair {
    nodes: [SimNode; 2],
    random: Random,
    now_ms: u64,
}

impl Pair {
    fn with_queue() -> Self {
        let (mut nodes, mut random, mut now_ms) = pair();
        let done = ask_on(&mut nodes, &mut random, &mut now_ms, 1, declare(true), &mut |_, _| false);
        assert!(matches!(done, Some(Ok(_))), "{done:?}");
        Self { nodes, random, now_ms }
    }

    /// Connects a client that says this when it has logged in.
    fn connect(&mut self, at: usize, line: &str) -> usize {
        let local: SocketAddr = ([127, 0, 0, 1], 9).into();
        let client = broker(&mut self.nodes[at]).shards[0].connect(local, local);
        for line in ["LINE 1\r\nLOGIN /", line] {
            self.say(at, client, line);
            self.run(1000);
        }
        client
    }

    fn say(&mut self, at: usize, client: usize, line: &str) {
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        broker(&mut self.nodes[at]).shards[0].handle_input(client, &mut input);
        assert!(input.is_empty());
    }

    fn hear(&mut self, at: usize, client: usize) -> String {
        let mut heard = Vec::new();
        let connection = broker(&mut self.nodes[at]).shards[0].conn(client).expect("it is there");
        take(connection.gate.output(), &mut heard);
        String::from_utf8(heard).expect("lines")
    }

    fn run(&mut self, ms: u64) {
        pair_run(&mut self.nodes, &mut self.random, &mut self.now_ms, ms, &mut |_, _| false);
    }
}

/// Each shard has a connection of its own to each other node, and each may be lost alone.
#[test]
fn an_idle_consumer_gets_its_message_after_the_connection_from_the_queue_was_lost() {
    let mut pair = Pair::with_queue();
    let (consumer, publisher) = (pair.connect(0, "SUB 2 q"), pair.connect(1, "OPEN 1 q"));
    pair.say(0, consumer, "CREDIT 2 10");
    pair.run(10_000);
    for up in [false, true] {
        broker(&mut pair.nodes[1]).shards.iter_mut().for_each(|shard| shard.handle_link(1, up));
    }
    pair.say(1, publisher, "PUT 1 1 first");
    pair.run(1000);
    let heard = pair.hear(0, consumer);
    assert!(heard.contains("first"), "{heard}");
}

/// The node of the queue may be cut off from the node that decides about definitions, and not from the client.
#[test]
fn a_node_that_lags_behind_with_definitions_serves_the_queues_that_it_knows() {
    let mut pair = Pair::with_queue();
    let client = pair.connect(0, "OPEN 1 q");
    let mut other = DeclareQueue::new("/", "r", Arguments::default());
    other.durable = true;
    let mut is_lost = |_: u32, message: &PeerMessage| matches!(message, PeerMessage::Raft { .. });
    let Pair { nodes, random, now_ms } = &mut pair;
    ask_on(nodes, random, now_ms, 0, Command::DeclareQueue(other), &mut is_lost);
    pair.say(0, client, "PUT 1 1 first");
    let Pair { nodes, random, now_ms } = &mut pair;
    pair_run(nodes, random, now_ms, 3000, &mut is_lost);
    let heard = pair.hear(0, client);
    assert!(heard.contains("DONE 1 1 1 Accepted"), "{heard}");
}

/// What a consumer holds returns with the stop of its node, and not a minute later.
#[test]
fn an_orderly_stop_of_the_node_of_a_consumer_returns_what_it_holds() {
    let mut pair = Pair::with_queue();
    let (consumer, other) = (pair.connect(0, "SUB 2 q"), pair.connect(1, "OPEN 1 q"));
    pair.say(0, consumer, "CREDIT 2 10");
    pair.say(1, other, "PUT 1 1 first");
    pair.run(1000);
    assert!(pair.hear(0, consumer).contains("first"));
    broker(&mut pair.nodes[0]).shards.iter_mut().for_each(|shard| shard.shut_down("stop"));
    pair.run(3000);
    broker(&mut pair.nodes[1]).shards.iter_mut().for_each(|shard| shard.handle_link(1, false));
    pair.say(1, other, "SUB 2 q");
    pair.run(1000);
    pair.say(1, other, "CREDIT 2 10");
    pair.run(1000);
    let heard = pair.hear(1, other);
    assert!(heard.contains("first"), "{heard}");
}

/// A long message of a client must not hold up what concerns the catalog.
#[test]
fn requests_to_queues_have_another_lane_than_definitions() {
    let mut pair = Pair::with_queue();
    let client = pair.connect(0, "OPEN 1 q");
    broker(&mut pair.nodes[0]).shards[0]
        .propose(Command::DeclareQueue(DeclareQueue::new("/", "r", Arguments::default())), Box::new(|_| ()));
    pair.say(0, client, "PUT 1 1 first");
    let (mut of_queues, mut of_others) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..100 {
        pair.now_ms += 1;
        for mail in broker(&mut pair.nodes[0]).step(pair.now_ms, &mut pair.random) {
            match PeerMessage::decode(mail.bytes).expect("a message") {
                PeerMessage::Seat(_) => of_queues.insert(mail.lane),
                _ => of_others.insert(mail.lane),
            };
        }
    }
    assert_eq!(of_queues.len(), 1, "{of_queues:?}");
    assert!(!of_others.is_empty() && of_queues.is_disjoint(&of_others), "{of_queues:?} {of_others:?}");
}
