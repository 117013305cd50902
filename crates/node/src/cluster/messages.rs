//! The thread of the messages: one connection from each shard of this node to each other member, and those that the other members have opened.
//!
//! ```text
//!   shard ── MailWay ──> by member and shard ──> sending: link::Outgoing ──> socket
//!   shard <── Incoming::Link ─────────────────────┘
//!   shard <── Incoming::Peer ─────────────────── receiving: link::Incoming <── socket of the other node
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use catalog::categories::PEER;
use catalog::ids::ShardId;
use link::{Hello, NodeIdentity, Role};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, spawn_local};

use super::receiving::{self, Sender};
use super::said::Said;
use super::sending::{self, Line, Target};
use super::sockets::{Introduction, Opened};
use super::stream::Detached;
use crate::cluster_settings::ListedNode;
use crate::incoming::Shards;
use crate::links::Waiting;
use crate::shard::PeerMail;

/// The connections that other nodes have opened before the shards of this node run, or before this node knows the member. A node with 255 shards
/// opens 255; of more, the oldest is closed, and its node dials again.
const EARLY_MAX: usize = 1024;

/// The nodes whose highest boot is remembered. Each node of the list has one, and each wiped directory makes one more.
const BOOTS_MAX: usize = 1024;

/// What a shard sends to other nodes.
type Mail = (ShardId, Vec<PeerMail>);

/// What the thread of the messages is told.
#[derive(Debug)]
pub(super) enum Order {
    /// The shards run, and this node says this of itself.
    Run { shards: Shards, introduction: Introduction },
    /// At this place of the list is this member, and it can be reached.
    Target { place: usize, target: Target },
    /// Another node has opened a connection.
    Accepted { stream: Detached, hello: Hello, rest: BytesMut },
    /// This boot of a node was seen. What comes from its earlier boots is refused.
    Boot { node: NodeIdentity, boot: u64 },
    /// The node stops.
    End,
}

/// The way of orders to the thread of the messages. They are few.
#[derive(Clone, Debug)]
pub(super) struct Orders(mpsc::UnboundedSender<Order>);

impl Orders {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Order>) {
        let (orders, receiver) = mpsc::unbounded_channel();
        (Self(orders), receiver)
    }

    pub(super) fn give(&self, order: Order) {
        // The thread is gone only when the node stops.
        drop(self.0.send(order));
    }

    /// Passes on a connection that another node has opened for the messages of one of its shards.
    pub(super) fn accepted(&self, opened: Opened) {
        let Opened { stream, hello, rest } = opened;
        // If the system refuses, the connection is closed, and the node dials again.
        if let Ok(stream) = stream.detach() {
            self.give(Order::Accepted { stream, hello, rest });
        }
    }
}

/// Where the mail for one member goes.
struct Place {
    node: ListedNode,
    /// `None` until a member was seen there.
    target: watch::Sender<Option<Target>>,
    /// End the pauses between tries to dial, by shard.
    kicks: Vec<Arc<Notify>>,
    /// By shard. Empty until the shards run.
    mail: Vec<mpsc::UnboundedSender<PeerMail>>,
}

/// A connection that another node has opened.
struct Receiving {
    boot: u64,
    reader: AbortHandle,
}

pub(super) struct Messages {
    places: Vec<Place>,
    /// The place in the list of each member that was seen.
    by_number: BTreeMap<u32, usize>,
    waiting: Waiting,
    running: Option<(Shards, Introduction)>,
    early: VecDeque<(Detached, Hello, BytesMut)>,
    boots: HashMap<NodeIdentity, u64>,
    /// By node and shard there.
    receiving: HashMap<(NodeIdentity, u8), Receiving>,
    /// Why connections were refused, by the name that the node has said.
    said: Said<String>,
}

impl Messages {
    pub(super) fn new(listed: &[ListedNode], waiting: Waiting) -> Self {
        let place = |node: &ListedNode| Place {
            node: node.clone(),
            target: watch::Sender::new(None),
            kicks: Vec::new(),
            mail: Vec::new(),
        };
        Self {
            places: listed.iter().map(place).collect(),
            by_number: BTreeMap::new(),
            waiting,
            running: None,
            early: VecDeque::new(),
            boots: HashMap::new(),
            receiving: HashMap::new(),
            said: Said::default(),
        }
    }

    /// Runs until the node stops.
    pub(super) async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut mail: mpsc::UnboundedReceiver<Mail>,
    ) {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Run { shards, introduction }) => self.begin(shards, introduction),
                    Some(Order::Target { place, target }) => self.set_target(place, target),
                    Some(Order::Accepted { stream, hello, rest }) => self.accept(stream, hello, rest),
                    Some(Order::Boot { node, boot }) => self.note_boot(node, boot),
                    Some(Order::End) | None => return,
                },
                Some((from, mail)) = mail.recv() => self.send(from, mail),
            }
        }
    }

    fn send(&self, from: ShardId, mail: Vec<PeerMail>) {
        for mail in mail {
            let place = self.by_number.get(&mail.to).map(|place| &self.places[*place]);
            if let Some(line) = place.and_then(|place| place.mail.get(usize::from(from))) {
                // The task ends with this thread.
                drop(line.send(mail));
            }
        }
    }

    fn begin(&mut self, shards: Shards, introduction: Introduction) {
        let own = &introduction.hello.name;
        for (number, place) in self.places.iter_mut().enumerate().filter(|(_, place)| place.node.name != *own)
        {
            for (shard, sender) in shards.iter().enumerate() {
                let (mail, to_send) = mpsc::unbounded_channel();
                let kick = Arc::new(Notify::new());
                let line = Line {
                    shard: shard as ShardId,
                    node: place.node.clone(),
                    introduction: introduction.clone(),
                    target: place.target.subscribe(),
                    kick: kick.clone(),
                    to_shard: sender.clone(),
                    mail: to_send,
                    waiting: self.waiting.part(number),
                };
                place.mail.push(mail);
                place.kicks.push(kick);
                spawn_local(sending::send_for_ever(line));
            }
        }
        self.running = Some((shards, introduction));
        self.accept_early();
    }

    fn set_target(&mut self, place: usize, target: Target) {
        self.by_number.retain(|_, known| *known != place);
        self.by_number.insert(target.number, place);
        let place = &self.places[place];
        place.target.send_if_modified(|known| known.replace(target) != Some(target));
        place.kicks.iter().for_each(|kick| kick.notify_one());
        self.accept_early();
    }

    /// Accepts the connections that have waited, as far as they need not wait any more.
    fn accept_early(&mut self) {
        for (stream, hello, rest) in std::mem::take(&mut self.early) {
            self.accept(stream, hello, rest);
        }
    }

    fn note_boot(&mut self, node: NodeIdentity, boot: u64) {
        if self.boots.len() >= BOOTS_MAX && !self.boots.contains_key(&node) {
            self.boots.clear();
        }
        let known = self.boots.entry(node).or_insert(boot);
        *known = boot.max(*known);
        let boot = *known;
        self.receiving.retain(|(of, _), receiving| {
            let is_earlier = *of == node && receiving.boot < boot;
            if is_earlier {
                receiving.reader.abort();
            }
            !is_earlier && !receiving.reader.is_finished()
        });
    }

    /// Takes a connection of a member. Its certificate may prove the name only, so the name, the number and the identity must be those of one member:
    /// otherwise a node could send messages as another one, or shut it out by a higher boot.
    fn accept(&mut self, stream: Detached, hello: Hello, rest: BytesMut) {
        let place = self.by_number.get(&hello.number).map(|place| &self.places[*place]);
        let (Some((shards, introduction)), Some(place)) = (&self.running, place) else {
            if self.early.len() >= EARLY_MAX {
                self.early.pop_front();
            }
            return self.early.push_back((stream, hello, rest));
        };
        let Role::Shard(shard) = hello.role else { return };
        let own = &introduction.hello;
        let is_member = place.node.name == hello.name
            && place.target.borrow().is_some_and(|known| known.node == hello.node);
        if hello.cluster != own.cluster || hello.number == own.number || !is_member {
            let (name, number) = (&hello.name, hello.number);
            let why = format!("it is not the member of this cluster with number {number}");
            if self.said.is_news(hello.name.clone(), &why) {
                tracing::warn!(name: PEER, "a connection of node {name:?} is refused: {why}");
            }
            return;
        }
        if self.boots.get(&hello.node).is_some_and(|known| hello.boot < *known) {
            return;
        }
        let Ok(stream) = stream.attach() else { return };
        let sender = Sender { number: hello.number, name: hello.name.clone() };
        let reader = spawn_local(receiving::receive(stream, rest, sender, shards.clone())).abort_handle();
        let receiving = Receiving { boot: hello.boot, reader };
        if let Some(before) = self.receiving.insert((hello.node, shard), receiving) {
            before.reader.abort();
        }
        self.note_boot(hello.node, hello.boot);
    }
}
