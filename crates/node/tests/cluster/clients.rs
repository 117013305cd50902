//! Clients that publish to queues of any node and consume from them, and what they know.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use bytes::BytesMut;
use wal_testing::Random;

use super::node::{Broker, SimNode};
use crate::world::take;

/// The most connections of a run, and the most messages.
const CLIENTS_MAX: usize = 12;
const MESSAGES_MAX: u64 = 300;

/// The most messages of a publisher without an answer.
const UNANSWERED_MAX: usize = 8;

/// The numbers of a client's publisher and of its consumer.
const PUBLISHER: u64 = 1;
const CONSUMER: u64 = 2;

/// The credit of a consumer.
const CREDIT: u64 = 4;

/// What the publisher of a message was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Accepted,
    Refused,
    Unknown,
}

#[derive(Debug)]
struct Message {
    queue: String,
    told: Told,
    /// How often it was delivered as a message that was never delivered before.
    received_first: u32,
    received: u32,
}

/// One connection, to one start of a node.
#[derive(Debug)]
struct Client {
    node: usize,
    boot: u32,
    shard: usize,
    key: usize,
    queue: String,
    may_publish: bool,
    publishes: bool,
    consumes: bool,
    is_attached: bool,
    /// How many messages its consumer may still get.
    credit: u64,
    unanswered: BTreeMap<u64, u64>,
    tag: u64,
    input: BytesMut,
    /// What it was told, for a failed check.
    heard: Vec<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Clients {
    clients: Vec<Client>,
    messages: BTreeMap<u64, Message>,
    /// No more than what empties the queues is done.
    finishes: bool,
}

fn broker(nodes: &mut [SimNode], at: usize, now_ms: u64) -> Option<(u32, &mut Broker)> {
    let node = &mut nodes[at];
    let boot = node.boot;
    let process = node.process.as_mut().filter(|process| process.paused_until_ms <= now_ms)?;
    process.broker.as_mut().map(|broker| (boot, broker))
}

impl Client {
    /// Says a line. What the node does not read now stays.
    fn say(&mut self, line: &str) {
        self.input.extend_from_slice(format!("{line}\n").as_bytes());
    }

    fn send(&mut self, broker: &mut Broker) {
        if !self.input.is_empty() {
            broker.shards[self.shard].handle_input(self.key, &mut self.input);
        }
    }
}

impl Clients {
    /// Something happens.
    pub(super) fn step(
        &mut self,
        nodes: &mut [SimNode],
        queues: &[String],
        now_ms: u64,
        random: &mut Random,
    ) {
        if queues.is_empty() {
            return;
        }
        if self.clients.len() < CLIENTS_MAX && !self.finishes && random.one_in(10) {
            let queue = queues[random.index(queues.len())].clone();
            let publishes = random.one_in(2);
            let consumes = !publishes || random.one_in(2);
            self.connect(nodes, random.index(nodes.len()), (&queue, publishes, consumes), now_ms, random);
        }
        if self.clients.is_empty() {
            return;
        }
        let at = random.index(self.clients.len());
        let client = &self.clients[at];
        if nodes[client.node].process.is_none() || nodes[client.node].boot != client.boot {
            self.lose(at);
            return;
        }
        let node = client.node;
        let Some((_, broker)) = broker(nodes, node, now_ms) else { return };
        if !self.hear(broker, at) {
            self.lose(at);
            return;
        }
        if !self.finishes && random.one_in(60) {
            // It goes without a word.
            let Client { shard, key, .. } = self.clients[at];
            broker.shards[shard].disconnect(key);
            self.lose(at);
            return;
        }
        if !self.finishes && random.one_in(3) {
            self.publish(at);
        }
        self.clients[at].send(broker);
    }

    /// Called when nothing is to be published any more: each queue gets a consumer that stays.
    pub(super) fn finish(
        &mut self,
        nodes: &mut [SimNode],
        queues: &[String],
        now_ms: u64,
        random: &mut Random,
    ) {
        self.finishes = true;
        for queue in queues {
            let has_consumer = self.clients.iter().any(|client| {
                client.consumes
                    && client.queue == *queue
                    && nodes[client.node].boot == client.boot
                    && nodes[client.node].process.is_some()
            });
            if !has_consumer {
                self.connect(nodes, random.index(nodes.len()), (queue, false, true), now_ms, random);
            }
        }
    }

    fn connect(
        &mut self,
        nodes: &mut [SimNode],
        node: usize,
        (queue, publishes, consumes): (&str, bool, bool),
        now_ms: u64,
        random: &mut Random,
    ) {
        let Some((boot, broker)) = broker(nodes, node, now_ms) else { return };
        let shard = random.index(broker.shards.len());
        // The node may not have applied the declaration.
        if broker.shards[shard].catalog().listed_queue("/", queue).is_none() {
            return;
        }
        let local: SocketAddr = ([127, 0, 0, 1], 9).into();
        let key = broker.shards[shard].connect(local, local);
        let mut client = Client {
            node,
            boot,
            shard,
            key,
            queue: queue.to_owned(),
            may_publish: false,
            publishes,
            consumes,
            is_attached: false,
            credit: 0,
            unanswered: BTreeMap::new(),
            tag: 0,
            input: BytesMut::new(),
            heard: Vec::new(),
        };
        client.say("LINE 1\r\nLOGIN /");
        client.send(broker);
        self.clients.push(client);
    }

    fn lose(&mut self, at: usize) {
        // Its messages without an answer stay in doubt.
        self.clients.swap_remove(at);
    }

    fn publish(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if !client.may_publish
            || client.unanswered.len() >= UNANSWERED_MAX
            || self.messages.len() as u64 >= MESSAGES_MAX
        {
            return;
        }
        let number = self.messages.len() as u64 + 1;
        client.tag += 1;
        client.unanswered.insert(client.tag, number);
        let queue = client.queue.clone();
        self.messages.insert(number, Message { queue, told: Told::Nothing, received_first: 0, received: 0 });
        client.say(&format!("PUT {PUBLISHER} {} {number}", client.tag));
    }

    /// Takes what the client was sent. Returns false if the connection has ended.
    fn hear(&mut self, broker: &mut Broker, at: usize) -> bool {
        let client = &mut self.clients[at];
        let Some(connection) = broker.shards[client.shard].conn(client.key) else { return false };
        let mut heard = Vec::new();
        take(connection.gate.output(), &mut heard);
        let heard = String::from_utf8(heard).expect("lines");
        for line in heard.lines() {
            client.heard.push(line.to_owned());
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["OK"] => {
                    if client.publishes {
                        client.say(&format!("OPEN {PUBLISHER} {}", client.queue));
                    }
                    if client.consumes {
                        client.say(&format!("SUB {CONSUMER} {}", client.queue));
                    }
                }
                ["CREDIT", _, _] => client.may_publish = true,
                ["DONE", _, first, last, verdict] => {
                    let told = match verdict {
                        "Accepted" => Told::Accepted,
                        "Unknown" => Told::Unknown,
                        _ => Told::Refused,
                    };
                    for tag in number(first)..=number(last) {
                        let sent = client.unanswered.remove(&tag);
                        let sent = sent.unwrap_or_else(|| panic!("tag {tag} has two answers: {client:?}"));
                        self.messages.get_mut(&sent).expect("it was sent").told = told;
                    }
                }
                ["SUBBED", _] => {
                    client.is_attached = true;
                    client.credit = CREDIT;
                    client.say(&format!("CREDIT {CONSUMER} {CREDIT}"));
                }
                ["MSG", _, delivery, redelivered, body] => {
                    let message = self.messages.get_mut(&number(body)).expect("it was sent");
                    assert_eq!(message.queue, client.queue, "message {body} is in another queue");
                    message.received += 1;
                    assert!(client.credit > 0, "message {body} has no credit: {:?}", client.heard);
                    message.received_first += u32::from(redelivered == "0");
                    client.say(&format!("ACK {CONSUMER} {delivery} {delivery}"));
                    client.say(&format!("CREDIT {CONSUMER} 1"));
                }
                ["REFUSED", ..] | ["GONE", ..] | ["BAD", ..] => {
                    broker.shards[client.shard].disconnect(client.key);
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    /// Checks what holds when everything has healed. `may_repeat` says that a node was lost, so that a message in doubt may be there twice. `lost` are
    /// the queues whose messages may be lost.
    pub(super) fn check_end(&self, nodes: &[SimNode], may_repeat: bool, lost: &BTreeSet<String>) {
        for client in &self.clients {
            if nodes[client.node].boot == client.boot {
                assert!(client.unanswered.is_empty(), "not answered: {client:?}");
            }
        }
        for (number, message) in &self.messages {
            match message.told {
                Told::Accepted => assert!(
                    message.received > 0 || lost.contains(&message.queue),
                    "message {number} is lost: {message:?}"
                ),
                Told::Refused => assert_eq!(message.received, 0, "message {number} was refused: {message:?}"),
                Told::Nothing | Told::Unknown => {}
            }
            assert!(
                may_repeat || message.received_first <= 1,
                "message {number} is there twice: {message:?}"
            );
        }
    }

    /// Returns how many messages were accepted.
    pub(super) fn accepted(&self) -> usize {
        self.messages.values().filter(|message| message.told == Told::Accepted).count()
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}
