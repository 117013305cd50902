//! Shards, their mail, the real log on a simulated disk, and clients of AMQP 0.9.1, in one thread. The broker can be killed after any
//! step.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;

use amqp091::{
    BasicPublish, Config, Connection, ConnectionStartOk, Content, Event, Method, Output, Properties,
    QueueDeclare, Secret, Table, TableWriter, Value,
};
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
use catalog::Command;
use catalog::access::{Access, Hashing, Identity, Permissions, User};
use catalog::ids::ShardId;
use node::recovery::Recovered;
use node::shard::questions::{Act, AnswerTo, Question};
use node::shard::{Shard, Writes};
use node::{StorageLimits, make_shards};
use wal::{Completion, Handover, Log, Options, StreamAnswer, StreamJob};
use wal_testing::{Crash, SimDisk};

use crate::recovered;

/// The one channel of every client.
pub(super) const CHANNEL: u16 = 1;

/// Longer than the broker holds a record back that nobody waits for, in milliseconds.
const LAZY_MS: u64 = 30;

/// The number of rounds after which the broker is assumed to run in an endless loop.
const ROUNDS_MAX: usize = 10_000;

/// The kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Classic,
    /// A classic queue with `x-fsync`.
    Synced,
    Quorum,
}

/// The broker was killed.
#[derive(Debug)]
pub(super) struct Killed;

pub(super) struct Broker {
    pub shards: Vec<Shard>,
    pub clients: Vec<Client>,
    /// The number of steps so far, and the one after which the broker is killed.
    pub steps: u64,
    pub last_step: u64,
    count: ShardId,
    disk: SimDisk,
    log: Log<SimDisk>,
    mail: VecDeque<(usize, Vec<Mail>)>,
    to_log: Vec<Handover>,
    from_log: VecDeque<Completion>,
    access: Arc<Access>,
    /// The identity of clients that log in, if somebody else decides their permissions.
    pub remote: Option<Identity>,
    now_ms: u64,
}

pub(super) struct Client {
    shard: usize,
    key: usize,
    pub conn: Connection,
    user: &'static str,
    input: Vec<u8>,
    pub seen: Vec<Seen>,
}

/// What the broker has told a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The name of a method that answers one of the client.
    Answer(&'static str),
    /// `basic.deliver`, or `basic.get-ok` if it was fetched.
    Delivery {
        tag: u64,
        number: u64,
        fetched: bool,
    },
    Returned(u64),
    Confirmed,
    Rejected,
    /// The channel was closed with this code.
    Closed(u16),
}

impl Broker {
    pub(super) fn new(count: ShardId, seed: u64) -> Self {
        let user = |name: &str| User {
            name: name.into(),
            hash: Hashing::Sha256.hash([1; 16], &amqp10::sasl::Secret::new(name.to_owned())),
            tags: Vec::new(),
            loopback_only: true,
            permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
        };
        let access = Arc::new(Access::new([user("guest"), user("tx")]));
        let (disk, now_ms) = (SimDisk::new(seed), 1_000_000);
        let (log, shards) = open(&disk, count, &access, now_ms);
        Self {
            shards,
            clients: Vec::new(),
            steps: 0,
            last_step: u64::MAX,
            count,
            disk,
            log,
            mail: VecDeque::new(),
            to_log: Vec::new(),
            from_log: VecDeque::new(),
            access,
            remote: None,
            now_ms,
        }
    }

    /// Starts another broker on what is left on the disk.
    pub(super) fn crash(self, how: Crash) -> Self {
        let Self { count, disk, access, now_ms, .. } = self;
        let disk = disk.crash(how);
        let (log, shards) = open(&disk, count, &access, now_ms);
        Self {
            shards,
            clients: Vec::new(),
            steps: 0,
            last_step: u64::MAX,
            count,
            disk,
            log,
            mail: VecDeque::new(),
            to_log: Vec::new(),
            from_log: VecDeque::new(),
            access,
            remote: None,
            now_ms,
        }
    }

    /// Connects a client, and opens its channel. Returns its number.
    pub(super) fn connect(&mut self, shard: usize, user: &'static str) -> Result<usize, Killed> {
        let local: SocketAddr = ([127, 0, 0, 1], 91).into();
        let key = self.shards[shard].connect(local, local);
        let config = Config {
            channel_max: 0,
            frame_max: 0,
            initial_frame_max: 8192,
            heartbeat_s: 0,
            max_message_size: u64::MAX,
            incomplete_bytes_max: usize::MAX,
        };
        let conn = Connection::client(config, self.now_ms);
        self.clients.push(Client { shard, key, conn, user, input: Vec::new(), seen: Vec::new() });
        self.settle()?;
        Ok(self.clients.len() - 1)
    }

    /// Sends a method. Returns what the broker tells the client until nothing moves.
    pub(super) fn ask(&mut self, client: usize, method: &Method<'_>) -> Result<Vec<Seen>, Killed> {
        self.clients[client].conn.send(CHANNEL, method);
        self.settle()?;
        Ok(self.take_seen(client))
    }

    pub(super) fn take_seen(&mut self, client: usize) -> Vec<Seen> {
        std::mem::take(&mut self.clients[client].seen)
    }

    /// Declares a durable queue with further arguments. Its dead letters go to the queue `dead`, if it is not that one.
    pub(super) fn declare(
        &mut self,
        client: usize,
        (queue, kind): (&str, Kind),
        more: &[(&str, Value<'_>)],
    ) -> Result<(), Killed> {
        let mut table = BytesMut::new();
        let mut arguments = TableWriter::new(&mut table);
        match kind {
            Kind::Classic => {}
            Kind::Synced => arguments.put("x-fsync", &Value::Bool(true)),
            Kind::Quorum => {
                arguments.put("x-queue-type", &Value::LongString(b"quorum"));
                arguments.put("x-delivery-limit", &Value::I32(-1));
            }
        }
        if queue != "dead" {
            arguments.put("x-dead-letter-exchange", &Value::LongString(b""));
            arguments.put("x-dead-letter-routing-key", &Value::LongString(b"dead"));
        }
        more.iter().for_each(|(name, value)| arguments.put(name, value));
        drop(arguments);
        let arguments = Table::parse(&table[4..]).expect("it was just written");
        let declare = QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() };
        assert_eq!(self.ask(client, &Method::QueueDeclare(declare))?, [Seen::Answer("queue.declare-ok")]);
        Ok(())
    }

    /// Changes the catalog.
    pub(super) fn change(&mut self, command: Command) -> Result<(), Killed> {
        let (to, _) = AnswerTo::new(1);
        self.shards[0].handle_question(Question::Act(Act::Change { command, by: "guest".into(), to }));
        self.settle()
    }

    /// Starts or ends an alarm.
    pub(super) fn alarm(&mut self, on: bool) -> Result<(), Killed> {
        self.shards.iter_mut().for_each(|shard| shard.set_blocked(on));
        self.settle()
    }

    /// Returns the numbers of ready and of unsettled messages of a queue.
    pub(super) fn depth(&self, queue: &str) -> (u64, u64) {
        let id = self.shards[0].catalog().listed_queue("/", queue).expect("a queue").id;
        let report = self.shards.iter().find_map(|shard| shard.queue_report(id));
        report.map_or((0, 0), |report| (report.ready, report.unsettled))
    }

    /// Returns true if there is a queue of this name.
    pub(super) fn has(&self, queue: &str) -> bool {
        self.shards[0].catalog().listed_queue("/", queue).is_some()
    }

    /// Runs until nothing moves.
    pub(super) fn settle(&mut self) -> Result<(), Killed> {
        let mut is_quiet = false;
        for _ in 0..ROUNDS_MAX {
            match (self.round()?, is_quiet) {
                (true, _) => is_quiet = false,
                (false, true) => return Ok(()),
                // Records that nobody waits for are written some time later.
                (false, false) => {
                    is_quiet = true;
                    self.now_ms += LAZY_MS;
                }
            }
        }
        panic!("the broker does not become idle");
    }

    fn step(&mut self) -> Result<(), Killed> {
        self.steps += 1;
        if self.steps > self.last_step { Err(Killed) } else { Ok(()) }
    }

    fn round(&mut self) -> Result<bool, Killed> {
        let mut moved = false;
        for at in 0..self.clients.len() {
            let mut up = Vec::new();
            take(self.clients[at].conn.output(), &mut up);
            if !up.is_empty() {
                self.step()?;
                let Client { shard, key, .. } = self.clients[at];
                self.shards[shard].handle_input(key, &mut BytesMut::from(&up[..]));
                moved = true;
            }
        }
        for id in 0..self.shards.len() {
            self.step()?;
            let (shard, to_log) = (&mut self.shards[id], &mut self.to_log);
            shard.set_now(self.now_ms);
            shard.handle_timeout();
            moved |= shard.turn();
            for (ticket, login) in shard.poll_logins() {
                let checked = match &self.remote {
                    Some(who) => Ok(who.clone()),
                    None => self.access.check(&login),
                };
                shard.handle_login(ticket, checked);
                moved = true;
            }
            for (ticket, remote, question) in shard.poll_questions() {
                now(remote.ask(&question));
                shard.handle_permission(ticket);
                moved = true;
            }
            moved |= shard.write(&mut ToLog(to_log));
            shard.take_dirty(&mut Vec::new());
            for to in 0..self.count {
                let mail = self.shards[id].poll_mail(to);
                if !mail.is_empty() {
                    self.mail.push_back((usize::from(to), mail));
                }
            }
        }
        while let Some((to, mail)) = self.mail.pop_front() {
            self.step()?;
            self.shards[to].handle_mail(mail);
            moved = true;
        }
        moved |= self.write()?;
        for at in 0..self.clients.len() {
            let Client { shard, key, .. } = self.clients[at];
            let Some(conn) = self.shards[shard].conn(key) else { continue };
            let before = self.clients[at].input.len();
            take(conn.gate.output(), &mut self.clients[at].input);
            if self.clients[at].input.len() > before {
                moved = true;
                self.clients[at].read(self.now_ms);
            }
        }
        Ok(moved)
    }

    /// Lets the log write and sync. The broker can be killed before and after each of these.
    fn write(&mut self) -> Result<bool, Killed> {
        let mut done = Vec::new();
        let moved = !self.to_log.is_empty();
        if moved {
            self.step()?;
            self.log.append(&mut self.to_log, &mut done);
            self.step()?;
        }
        if let Some(job) = self.log.begin_sync(&mut done) {
            self.step()?;
            let end = job.run();
            self.step()?;
            self.log.end_sync(end, &mut done);
        }
        self.from_log.extend(done);
        while let Some(completion) = self.from_log.pop_front() {
            self.step()?;
            self.shards[completion.shard as usize].handle_logged(completion);
        }
        Ok(moved)
    }
}

fn open(disk: &SimDisk, count: ShardId, access: &Arc<Access>, now_ms: u64) -> (Log<SimDisk>, Vec<Shard>) {
    let options = Options { file_bytes: 64 * 1024, ..Options::default() };
    let recovered = recovered::start(disk, options, access, false, None);
    let Recovered { restored, log, recovery, .. } = recovered.expect("a log that only crashed can be opened");
    assert_eq!(recovery.damage, [], "a crash is not damage");
    assert!(restored.unclaimed.is_empty(), "whatever a crash leaves has an owner");
    let settings = Arc::new(Settings { heartbeat_s: 0, ..Settings::default() });
    (log, make_shards(restored, count, &settings, access, StorageLimits::default(), now_ms))
}

/// Polls a future that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

struct ToLog<'a>(&'a mut Vec<Handover>);

impl Writes for ToLog<'_> {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        self.0.push(handover);
        None
    }

    fn append(&mut self, _: StreamJob) -> Option<StreamAnswer> {
        panic!("there is no stream");
    }
}

impl Client {
    /// Publishes a durable message with this number.
    pub(super) fn publish(&mut self, (exchange, routing_key): (&str, &str), mandatory: bool, number: u64) {
        let mut properties = BytesMut::new();
        Properties { delivery_mode: Some(2), ..Properties::default() }.put(&mut properties);
        let publish = BasicPublish { exchange, routing_key, mandatory, ..BasicPublish::default() };
        let body = Bytes::copy_from_slice(&number.to_be_bytes());
        self.conn.send_content(CHANNEL, &Method::BasicPublish(publish), &properties, &body, 0);
    }

    fn read(&mut self, now_ms: u64) {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let (used, event) = self.conn.handle_input(&input[at..], usize::MAX, now_ms);
            at += used;
            match event.expect("the broker keeps to the rules") {
                Some(Event::Start(_)) => {
                    let response = format!("\0{0}\0{0}", self.user);
                    self.conn.start_ok(ConnectionStartOk {
                        client_properties: Table::EMPTY,
                        mechanism: "PLAIN",
                        response: Secret::new(response.as_bytes()),
                        locale: "en_US",
                    });
                }
                Some(Event::Tuned) => self.conn.open("/"),
                Some(Event::Opened) => assert!(self.conn.open_channel(CHANNEL)),
                Some(Event::Close { text, .. }) => panic!("the connection is closed: {text}"),
                Some(Event::ChannelClose { channel, code, .. }) => {
                    self.conn.channel_close_ok(channel);
                    self.seen.push(Seen::Closed(code));
                }
                Some(Event::ChannelClosed(_)) => self.seen.push(Seen::Closed(200)),
                Some(Event::Content { content, .. }) => self.seen.push(content_of(&content)),
                Some(Event::Method { method, .. }) => self.seen.push(match method {
                    Method::BasicAck(_) => Seen::Confirmed,
                    Method::BasicNack(_) => Seen::Rejected,
                    method => Seen::Answer(method.name()),
                }),
                None if used == 0 => break,
                _ => {}
            }
        }
        self.input = input[at..].to_vec();
    }
}

fn content_of(content: &Content<'_>) -> Seen {
    let number = content.payload.last_chunk().copied().map(u64::from_be_bytes).expect("a number");
    match (content.deliver(), content.get_ok()) {
        (Some(deliver), _) => Seen::Delivery { tag: deliver.delivery_tag, number, fetched: false },
        (_, Some(get_ok)) => Seen::Delivery { tag: get_ok.delivery_tag, number, fetched: true },
        _ => Seen::Returned(number),
    }
}

/// Takes all bytes of an output.
fn take(output: &mut Output, into: &mut Vec<u8>) {
    while !output.is_empty() {
        let mut slices = [IoSlice::new(&[]); 16];
        let n = output.slices(&mut slices);
        let mut taken = 0;
        for slice in &slices[..n] {
            into.extend_from_slice(slice);
            taken += slice.len();
        }
        output.advance(taken);
    }
}
