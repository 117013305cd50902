//! Scenes of two nodes, of which the second lacks what a client of the first was told. Its clients find it all the same.

use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;

use ::node::peer::PeerMessage;
use ::node::shard::questions::{Act, Question};
use ::node::shard::{Mutation, Shard};
use amqp10::{
    Attach, Chunk, Open, Role, SaslInit, SenderSettleMode, Source, Symbol, Target, TargetArchetype,
};
use amqp091::{
    BasicConsume, BasicPublish, Config, Connection, ConnectionStartOk, Event, ExchangeDeclare, Method,
    QueueDelete, Secret, Table, TableWriter, Value,
};
use buffers::Output;
use bytes::{Bytes, BytesMut};
use catalog::access::{Hashing, Permissions};
use catalog::{AccountChange, Arguments, Command, DeclareExchange, DeclareQueue};
use replica::Body;
use wal_testing::Random;

use super::node::{Answered, SimNode};
use super::scenes::{broker, pair_with};
use crate::asks::{Asks, keep};

/// Two nodes in sight of each other. The messages of the group for the second one are kept back while `lags`.
pub(super) struct Pair {
    pub nodes: [SimNode; 2],
    random: Random,
    now: u64,
    lags: bool,
    kept_back: Vec<Bytes>,
    /// Whether all messages are lost.
    is_cut: bool,
    /// Whether questions to the leader are lost.
    is_deaf: bool,
    /// The number of questions to the leader.
    questions: u32,
    /// The number of bases that were sent.
    pub bases: u32,
    /// The messages that are lost.
    pub loses: fn(&PeerMessage) -> bool,
    /// What the nodes have sent about lists and limits.
    pub sent: Vec<PeerMessage>,
}

impl Pair {
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Self::of(None, mutation)
    }

    /// The second node has this many shards.
    pub(super) fn with_shards(shards: u8) -> Self {
        Self::of(Some(shards), None)
    }

    fn of(shards: Option<u8>, mutation: Option<Mutation>) -> Self {
        let (nodes, random, now) = pair_with(shards, mutation);
        let mut pair = Self {
            nodes,
            random,
            now,
            lags: false,
            kept_back: Vec::new(),
            is_cut: false,
            is_deaf: false,
            questions: 0,
            bases: 0,
            loses: |_| false,
            sent: Vec::new(),
        };
        // The second node waits for its start.
        pair.run(6000);
        pair
    }

    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            if !self.lags {
                for bytes in std::mem::take(&mut self.kept_back) {
                    broker(&mut self.nodes[1]).shards[0].handle_peer_message(1, bytes);
                }
            }
            for from in 0..2 {
                let shown_ms = self.nodes[from].shown_ms(self.now);
                for mail in broker(&mut self.nodes[from]).step(shown_ms, &mut self.random) {
                    let message = PeerMessage::decode(mail.bytes.clone()).expect("a message");
                    let is_question = matches!(message, PeerMessage::HowFar { .. });
                    self.questions += u32::from(is_question);
                    self.bases += u32::from(is_base(&message));
                    if is_noted(&message) {
                        self.sent.push(message.clone());
                    }
                    if (self.loses)(&message) {
                        continue;
                    }
                    if self.lags && from == 0 && matches!(message, PeerMessage::Raft { .. }) {
                        self.kept_back.push(mail.bytes);
                    } else if !(self.is_cut || self.is_deaf && is_question) {
                        broker(&mut self.nodes[1 - from]).shards[0]
                            .handle_peer_message(from as u32 + 1, mail.bytes);
                    }
                }
            }
        }
    }

    /// Cuts the nodes off from each other, or connects them again.
    pub(super) fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
        for at in 0..2 {
            for shard in &mut broker(&mut self.nodes[at]).shards {
                shard.handle_link(2 - at as u32, !is_cut);
                shard.handle_support(2 - at as u32, !is_cut);
            }
        }
    }

    /// Carries out a command on the first node. The second one does not hear of it while it lags.
    pub(super) fn change(&mut self, command: Command) {
        let answer = Rc::new(RefCell::new(None));
        let to = answer.clone();
        broker(&mut self.nodes[0]).shards[0]
            .propose(command, Box::new(move |answered: Answered| *to.borrow_mut() = Some(answered)));
        self.run(2000);
        let answer: Option<Answered> = answer.take();
        assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
    }

    fn shard(&mut self) -> &mut Shard {
        &mut broker(&mut self.nodes[1]).shards[0]
    }

    /// Runs both nodes, and lets a client of the second one talk to it.
    pub(super) fn talk(&mut self, client: &mut impl Client, ms: u64) {
        for _ in 0..ms {
            let now = self.now;
            client.exchange(self.shard(), now);
            self.run(1);
        }
    }
}

fn is_noted(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Look(_) | PeerMessage::Looked(_) | PeerMessage::Clients(_))
}

fn is_base(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Raft { message, .. } if matches!(message.body, Body::InstallBase(_)))
}

fn address() -> SocketAddr {
    ([127, 0, 0, 1], 5672).into()
}

fn take(output: &mut Output, into: &mut Vec<u8>) {
    while !output.is_empty() {
        let mut slices = [IoSlice::new(&[]); 16];
        let n = output.slices(&mut slices);
        let taken = slices[..n].iter().map(|slice| {
            into.extend_from_slice(slice);
            slice.len()
        });
        let taken = taken.sum();
        output.advance(taken);
    }
}

pub(super) trait Client {
    fn exchange(&mut self, shard: &mut Shard, now_ms: u64);
}

/// A client of AMQP 0.9.1, which notes what the broker says.
pub(super) struct Client091 {
    key: usize,
    conn: Connection,
    login: &'static [u8],
    vhost: &'static str,
    pub said: Vec<String>,
}

const CHANNEL: u16 = 1;

impl Client091 {
    pub(super) fn new(pair: &mut Pair, login: &'static [u8], vhost: &'static str) -> Self {
        let config = Config {
            channel_max: 10,
            frame_max: 4096,
            initial_frame_max: 8192,
            heartbeat_s: 0,
            max_message_size: u64::MAX,
            incomplete_bytes_max: usize::MAX,
        };
        let conn = Connection::client(config, pair.now);
        let key = pair.shard().connect(address(), address());
        Self { key, conn, login, vhost, said: Vec::new() }
    }

    /// Returns a client of `guest` with an open channel.
    pub(super) fn open(pair: &mut Pair) -> Self {
        let mut client = Self::new(pair, b"\0guest\0guest", "/");
        pair.talk(&mut client, 100);
        assert_eq!(client.said, ["open", "channel"]);
        client.said.clear();
        client
    }

    pub(super) fn send_content(&mut self, method: &Method<'_>, body: &Bytes) {
        self.conn.send_content(CHANNEL, method, &[0, 0], body, 0);
    }

    pub(super) fn send(&mut self, method: Method<'_>) {
        self.conn.send(CHANNEL, &method);
    }
}

impl Client for Client091 {
    fn exchange(&mut self, shard: &mut Shard, now_ms: u64) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        take(self.conn.output(), &mut up);
        if !up.is_empty() {
            shard.handle_input(self.key, &mut BytesMut::from(&up[..]));
        }
        if let Some(conn) = shard.conn(self.key) {
            take(conn.gate.output(), &mut down);
        }
        let mut at = 0;
        loop {
            let (used, event) = self.conn.handle_input(&down[at..], usize::MAX, now_ms);
            at += used;
            match event.expect("no violation") {
                Some(Event::Start(_)) => {
                    let mut properties = BytesMut::new();
                    let mut table = TableWriter::new(&mut properties);
                    table.table("capabilities").put("consumer_cancel_notify", &Value::Bool(true));
                    drop(table);
                    self.conn.start_ok(ConnectionStartOk {
                        // A table begins with the four bytes of its length.
                        client_properties: Table::from_entries(&properties[4..]),
                        mechanism: "PLAIN",
                        response: Secret::new(self.login),
                        locale: "en_US",
                    });
                }
                Some(Event::Tuned) => self.conn.open(self.vhost),
                Some(Event::Opened) => {
                    self.said.push("open".to_owned());
                    assert!(self.conn.open_channel(CHANNEL));
                }
                Some(Event::ChannelOpened(_)) => self.said.push("channel".to_owned()),
                Some(Event::Close { text, .. } | Event::ChannelClose { text, .. }) => {
                    self.said.push(text.to_owned());
                }
                Some(Event::Method { method, .. }) => {
                    let text = format!("{method:?}");
                    self.said.push(text.split(['(', ' ']).next().unwrap_or_default().to_owned());
                }
                Some(Event::Content { .. }) => self.said.push("returned".to_owned()),
                Some(_) => {}
                None if used == 0 => break,
                None => {}
            }
        }
        assert_eq!(at, down.len(), "whole frames");
    }
}

/// A client of AMQP 1.0 that attaches to an address.
struct Client10 {
    key: usize,
    conn: amqp10::Connection,
    address: &'static str,
    said: Vec<String>,
}

impl Client10 {
    fn new(pair: &mut Pair, address: &'static str) -> Self {
        let session = amqp10::SessionConfig { incoming_window: 50, handle_max: 10 };
        let config = amqp10::connection::Config {
            max_frame_size: 4096,
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            channel_max: 10,
            idle_time_out_ms: 0,
            incomplete_bytes_max: usize::MAX,
            session,
        };
        let conn = amqp10::Connection::client(config, pair.now);
        let key = pair.shard().connect(self::address(), self::address());
        Self { key, conn, address, said: Vec::new() }
    }
}

impl Client for Client10 {
    fn exchange(&mut self, shard: &mut Shard, now_ms: u64) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        take(self.conn.output(), &mut up);
        if !up.is_empty() {
            shard.handle_input(self.key, &mut BytesMut::from(&up[..]));
        }
        if let Some(conn) = shard.conn(self.key) {
            take(conn.gate.output(), &mut down);
        }
        let mut rest = &down[..];
        while let Some(len) = self.conn.frame_len(rest).expect("valid frames") {
            let (frame, after) = rest.split_at(len);
            rest = after;
            let frame = Chunk::Owned(Bytes::copy_from_slice(frame));
            match self.conn.handle_frame(frame, now_ms).expect("no violation") {
                Some(amqp10::Event::SaslMechanisms(_)) => {
                    let mut init = SaslInit::new(Symbol::from_static("PLAIN"));
                    init.initial_response = Some(amqp10::sasl::Secret::new("\0guest\0guest"));
                    self.conn.sasl_init(init);
                }
                Some(amqp10::Event::HeaderExchanged) => {
                    self.conn.open(Open { container_id: "sim".into(), ..Open::default() });
                }
                Some(amqp10::Event::Open(_)) => _ = self.conn.begin(None, true),
                Some(amqp10::Event::Begin { .. }) => {
                    let target = Target { address: Some(self.address.into()), ..Target::default() };
                    let attach = Attach {
                        snd_settle_mode: SenderSettleMode::Unsettled,
                        source: Some(Source::default()),
                        target: Some(TargetArchetype::Target(target)),
                        initial_delivery_count: Some(0),
                        ..Attach::new("link".to_owned(), 0, Role::Sender)
                    };
                    self.conn.attach(0, None, attach);
                }
                Some(amqp10::Event::Attach { attach, .. }) if attach.target.is_some() => {
                    self.said.push("attached".to_owned());
                }
                Some(amqp10::Event::Detach { detach, .. }) => self.said.push(format!("{:?}", detach.error)),
                Some(amqp10::Event::End { error, .. }) => self.said.push(format!("{error:?}")),
                _ => {}
            }
        }
    }
}

fn exchange(name: &str) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: name.into(),
        kind: "fanout".to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::default(),
    })
}

pub(super) fn queue(name: &str) -> Command {
    let mut declare = DeclareQueue::new("/", name, Arguments::default());
    declare.durable = true;
    Command::DeclareQueue(declare)
}

fn inspect(exchange: &str) -> Method<'_> {
    Method::ExchangeDeclare(ExchangeDeclare { exchange, kind: "fanout", passive: true, ..Default::default() })
}

/// Lets the client say something while the node lags. Returns what the broker says, and how much of it before the node has caught up.
fn said_while_lagging(pair: &mut Pair, client: &mut Client091, says: Method<'_>) -> (usize, Vec<String>) {
    client.send(says);
    pair.talk(client, 100);
    let early = client.said.len();
    pair.lags = false;
    pair.talk(client, 200);
    (early, std::mem::take(&mut client.said))
}

/// Returns true if the scene finds nothing wrong.
pub(super) fn an_exchange_of_another_node_is_found(mutation: Option<Mutation>) -> bool {
    let mut pair = Pair::new(mutation);
    let mut client = Client091::open(&mut pair);
    pair.lags = true;
    pair.change(exchange("x"));
    let (early, said) = said_while_lagging(&mut pair, &mut client, inspect("x"));
    early == 0 && said == ["ExchangeDeclareOk"]
}

#[test]
fn an_exchange_that_was_declared_on_another_node_is_found() {
    assert!(an_exchange_of_another_node_is_found(None));
}

#[test]
fn what_a_method_needs_is_looked_for_on_other_nodes() {
    let mut pair = Pair::new(None);
    let publish =
        |exchange, routing_key| BasicPublish { exchange, routing_key, mandatory: true, ..Default::default() };
    for (name, declared, says) in [
        (
            "consume",
            queue("consume"),
            Method::BasicConsume(BasicConsume { queue: "consume", ..Default::default() }),
        ),
        (
            "delete",
            queue("delete"),
            Method::QueueDelete(QueueDelete { queue: "delete", ..Default::default() }),
        ),
        ("publish", exchange("publish"), Method::BasicPublish(publish("publish", ""))),
        ("to", queue("to"), Method::BasicPublish(publish("", "to"))),
    ] {
        let mut client = Client091::open(&mut pair);
        pair.lags = true;
        pair.change(declared);
        match says {
            Method::BasicPublish(publish) => {
                client.conn.send_content(
                    CHANNEL,
                    &Method::BasicPublish(publish),
                    &[0, 0],
                    &Bytes::from_static(b"m"),
                    0,
                );
            }
            says => client.send(says),
        }
        pair.talk(&mut client, 100);
        assert!(client.said.is_empty(), "{name}: {:?}", client.said);
        pair.lags = false;
        pair.talk(&mut client, 200);
        let said = client.said.join(" ");
        assert!(!said.contains("no queue") && !said.contains("no exchange"), "{name}: {said}");
        let expected = match name {
            // No queue is bound.
            "publish" => said.contains("eturn"),
            "to" => !said.contains("eturn"),
            _ => !said.is_empty(),
        };
        assert!(expected, "{name}: {said}");
    }
}

#[test]
fn a_link_finds_an_exchange_of_another_node() {
    let mut pair = Pair::new(None);
    pair.lags = true;
    pair.change(exchange("x"));
    let mut client = Client10::new(&mut pair, "/exchanges/x");
    pair.talk(&mut client, 100);
    assert!(client.said.is_empty(), "{:?}", client.said);
    pair.lags = false;
    pair.talk(&mut client, 200);
    assert_eq!(client.said, ["attached"]);
}

fn add_user(name: &str) -> Command {
    let hash = Hashing::Sha256.hash([1; 16], &amqp10::sasl::Secret::new("secret"));
    Command::Account(AccountChange::AddUser { name: name.into(), hash, tags: [].into() })
}

fn permit(user: &str) -> Command {
    let (user, vhost, permissions) = (user.into(), "/".into(), Permissions::ALL);
    Command::Account(AccountChange::SetPermissions { user, vhost, permissions })
}

#[test]
fn a_user_of_another_node_can_log_in() {
    let mut pair = Pair::new(None);
    pair.lags = true;
    pair.change(add_user("ann"));
    pair.change(permit("ann"));
    let mut client = Client091::new(&mut pair, b"\0ann\0secret", "/");
    pair.talk(&mut client, 100);
    assert!(client.said.is_empty(), "{:?}", client.said);
    pair.lags = false;
    pair.talk(&mut client, 200);
    assert_eq!(client.said, ["open", "channel"]);
}

#[test]
fn a_permission_that_was_given_on_another_node_counts() {
    let mut pair = Pair::new(None);
    pair.change(add_user("ann"));
    pair.lags = true;
    pair.change(permit("ann"));
    let mut client = Client091::new(&mut pair, b"\0ann\0secret", "/");
    pair.talk(&mut client, 100);
    assert!(client.said.is_empty(), "{:?}", client.said);
    pair.lags = false;
    pair.talk(&mut client, 200);
    assert_eq!(client.said, ["open", "channel"]);
}

#[test]
fn a_node_without_a_leader_says_at_once_what_it_does_not_find() {
    let mut pair = Pair::new(None);
    let mut client = Client091::open(&mut pair);
    pair.shard().handle_support(1, false);
    pair.shard().handle_link(1, false);
    client.send(inspect("x"));
    pair.talk(&mut client, 100);
    assert!(client.said.join(" ").contains("no exchange 'x'"), "{:?}", client.said);
}

#[test]
fn a_leader_that_does_not_answer_is_waited_for_a_second() {
    let mut pair = Pair::new(None);
    let mut client = Client091::open(&mut pair);
    pair.is_deaf = true;
    client.send(inspect("x"));
    pair.talk(&mut client, 950);
    assert!(client.said.is_empty(), "{:?}", client.said);
    pair.talk(&mut client, 150);
    assert!(client.said.join(" ").contains("no exchange 'x'"), "{:?}", client.said);
}

#[test]
fn many_misses_share_a_question() {
    let mut pair = Pair::new(None);
    let answered = Rc::new(Cell::new(0));
    pair.questions = 0;
    for _ in 0..100 {
        let answered = answered.clone();
        let to = keep(move |()| answered.update(|count| count + 1));
        pair.shard().handle_question(Question::Act(Act::CatchUp(to)));
    }
    pair.run(100);
    assert_eq!(answered.get(), 100);
    assert!((1..=2).contains(&pair.questions), "{} questions", pair.questions);
}
