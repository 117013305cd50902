//! Whole shards in one thread, and peers built from our own endpoints. Every frame of a peer is checked. The
//! log writes after the turns of a round; streams write during the turns.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use crate::quiet::assert_nothing_waits;
use crate::world::take;
use amqp10::connection::Config;
use amqp10::link::NAME_MAX;
use amqp10::sasl::Secret;
use amqp10::{
    Attach, Chunk, Connection, DeliveryState, Described, Event, Map, Modified, Open, Outgoing, Role,
    SaslInit, SenderSettleMode, SessionConfig, Source, Symbol, Tag, Target, TargetArchetype,
    TerminusExpiryPolicy, TransferHead, Value, Violation, put_transfer_frame,
};
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::{BufMut, Bytes, BytesMut};
use catalog::access::{Access, Credentials, Grants, Hashing, Identity, Login, Permissions, User};
use catalog::ids::{QueueId, ShardId};
use catalog::{Answer, Arguments, Binding, Caller, Command, DeclareQueue, Destination};
use node::facts::Restored;
use node::shard::{Occupancy, Shard, Writes};
use node::{StorageLimits, make_shards};
use queue::{Request, Ticket};
use wal::{ChunkJob, ChunksRead, Completion, Handover, Step, StreamAnswer, StreamJob, StreamReader, Streams};
use wal_testing::SimDisk;

/// The capability of a link that receives direct replies.
const REPLIES: &str = "rabbitmq:volatile-queue";

/// The user of most clients.
pub(super) const GUEST: &str = "guest";

/// A user besides guest, with the same password and rights.
pub(super) const OTHER: &str = "other";

pub(super) struct House {
    pub shards: Vec<Shard>,
    pub peers: Vec<Peer>,
    /// The container-id of clients that connect.
    pub container: String,
    /// The properties of clients that connect.
    pub properties: Option<Map>,
    /// The idle-time-out of clients that connect, in milliseconds. The broker is told half of it [2.4.5].
    pub idle_time_out_ms: u32,
    /// The keys of other clients of the first shard. Their sockets take nothing during a round.
    pub others: Vec<usize>,
    /// True if their sockets take all output of a round before it is counted, as sockets that are not full do.
    pub others_take_at_once: bool,
    /// True if the log does not write what it was given.
    pub log_stopped: bool,
    /// True if shards write records themselves when no sync is needed.
    pub at_once: bool,
    /// True if mail between shards is not delivered.
    pub mail_stopped: bool,
    /// Says which mail between shards is lost, and what was.
    pub is_lost: fn(&Mail) -> bool,
    pub lost: Vec<Mail>,
    /// True if chunks of streams are not read.
    pub reads_stopped: bool,
    /// The chunk jobs that wait.
    pub reads: Vec<ChunkJob>,
    mail: VecDeque<(usize, Vec<Mail>)>,
    with_log: Vec<Handover>,
    streams: Streams<SimDisk>,
    stream_reader: StreamReader<SimDisk>,
    occupancy: Option<Arc<Occupancy>>,
    /// True if no connection can move to another shard.
    pub cannot_move: bool,
    pub now_ms: u64,
    access: Arc<Access>,
    /// The token of clients that log in from now on. `None`: they have a password only.
    pub token: Option<Arc<Grants>>,
    /// True if logins are not checked.
    pub logins_stopped: bool,
    /// The logins that wait, each with its shard.
    pub logins: Vec<(usize, Ticket, Login)>,
}

/// A client. It logs in and begins a session by itself.
pub(super) struct Peer {
    pub shard: usize,
    pub key: usize,
    pub conn: Connection,
    /// The user, if the client does not log in as ANONYMOUS.
    user: Option<&'static str>,
    container: String,
    properties: Option<Map>,
    /// True if the client reads nothing, so that its socket is full.
    pub deaf: bool,
    input: Vec<u8>,
    /// The addresses of sources that the broker has assigned, by link.
    pub sources: Vec<(u32, String)>,
    /// The bodies of received deliveries, each with its link.
    pub got: Vec<(u32, Bytes)>,
    /// The outcomes of the client's own deliveries.
    pub outcomes: Vec<String>,
    /// The error conditions of links that the broker has detached, and of sessions that it has ended.
    pub detached: Vec<String>,
    /// True if the broker may close the connection and end sessions.
    pub doomed: bool,
    /// The condition and the description with which the broker has closed the connection.
    pub closed: Option<(String, String)>,
    /// True if the broker has answered CLOSE.
    pub is_closed: bool,
}

impl House {
    pub(super) fn new(shards: ShardId, settings: Settings) -> Self {
        Self::with(shards, settings, StorageLimits::default())
    }

    pub(super) fn with(shards: ShardId, settings: Settings, limits: StorageLimits) -> Self {
        let user = |name: &str| User {
            name: name.into(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new("guest")),
            tags: Vec::new(),
            loopback_only: true,
            permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
        };
        let (settings, access) = (Arc::new(settings), Arc::new(Access::new([user(GUEST), user(OTHER)])));
        let shards = make_shards(Restored::default(), shards, &settings, &access, limits, 1000);
        let disk = SimDisk::new(1);
        Self {
            shards,
            peers: Vec::new(),
            container: "peer".into(),
            properties: None,
            idle_time_out_ms: 0,
            others: Vec::new(),
            others_take_at_once: false,
            log_stopped: false,
            at_once: false,
            mail_stopped: false,
            is_lost: |_| false,
            lost: Vec::new(),
            reads_stopped: false,
            reads: Vec::new(),
            mail: VecDeque::new(),
            with_log: Vec::new(),
            stream_reader: StreamReader::new(disk.clone()),
            streams: Streams::new(disk).expect("an empty disk"),
            occupancy: None,
            cannot_move: false,
            now_ms: 1000,
            access,
            token: None,
            logins_stopped: false,
            logins: Vec::new(),
        }
    }

    /// Counts this number of failed logins from this machine.
    pub(super) fn fail_logins(&self, number: usize) {
        let credentials = Credentials::Plain { user: "guest".into(), password: Secret::new("wrong") };
        let login = Login { credentials, from: [127, 0, 0, 1].into(), at_ms: self.now_ms };
        (0..number).for_each(|_| self.access.note_failure(&login));
    }

    /// Makes connections follow their queues from now on.
    pub(super) fn follow_queues(&mut self) {
        let occupancy = Arc::new(Occupancy::new(self.shards.len() as ShardId));
        self.peers.iter().for_each(|peer| occupancy.add(peer.shard as ShardId));
        self.shards.iter_mut().for_each(|shard| shard.follow_queues(occupancy.clone()));
        self.occupancy = Some(occupancy);
    }

    /// Connects a client to a shard, with a session. Returns its number.
    pub(super) fn connect(&mut self, shard: usize) -> usize {
        self.connect_as(shard, None)
    }

    /// Connects a client of this user.
    pub(super) fn connect_as(&mut self, shard: usize, user: Option<&'static str>) -> usize {
        self.occupancy.iter().for_each(|occupancy| occupancy.add(shard as ShardId));
        let local: SocketAddr = ([127, 0, 0, 1], 1000 + self.peers.len() as u16).into();
        let key = self.shards[shard].connect(local, local);
        let session = SessionConfig { incoming_window: 50, handle_max: 255 };
        let config = Config {
            max_frame_size: 128 * 1024,
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            channel_max: 30,
            idle_time_out_ms: self.idle_time_out_ms,
            incomplete_bytes_max: usize::MAX,
            session,
        };
        self.peers.push(Peer {
            shard,
            key,
            conn: Connection::client(config, self.now_ms),
            user,
            container: self.container.clone(),
            properties: self.properties.clone(),
            deaf: false,
            input: Vec::new(),
            sources: Vec::new(),
            got: Vec::new(),
            outcomes: Vec::new(),
            detached: Vec::new(),
            doomed: false,
            closed: None,
            is_closed: false,
        });
        self.settle();
        self.peers.len() - 1
    }

    /// Attaches a link that publishes to an address. Returns its number.
    pub(super) fn sender(&mut self, peer: usize, address: &str) -> u32 {
        let target = Target { address: Some(address.to_owned()), ..Target::default() };
        self.attach(peer, Role::Sender, Source::default(), target)
    }

    pub(super) fn receiver(&mut self, peer: usize, address: &str) -> u32 {
        let source = Source { address: Some(address.to_owned()), ..Source::default() };
        self.attach(peer, Role::Receiver, source, Target::default())
    }

    /// Attaches a receiver that takes messages up to `max_message_size` bytes.
    pub(super) fn small_receiver(&mut self, peer: usize, address: &str, max_message_size: u64) -> u32 {
        let source = Source { address: Some(address.to_owned()), ..Source::default() };
        let attach = self.attach_of(peer, Role::Receiver, source, Target::default());
        self.attach_as(peer, Attach { max_message_size: Some(max_message_size), ..attach })
    }

    /// Attaches a link that receives before those of lower priority.
    pub(super) fn prior_receiver(&mut self, peer: usize, address: &str, priority: i32) -> u32 {
        let source = Source { address: Some(address.to_owned()), ..Source::default() };
        let attach = self.attach_of(peer, Role::Receiver, source, Target::default());
        let properties = [(Symbol::from_static("rabbitmq:priority"), Value::Int(priority))];
        self.attach_as(peer, Attach { properties: Some(properties.into_iter().collect()), ..attach })
    }

    /// Attaches a link that reads a stream from its first message on.
    pub(super) fn reader(&mut self, peer: usize, address: &str) -> u32 {
        self.reader_with(peer, address, "rabbitmq:stream-offset-spec", "first")
    }

    /// Attaches a link that reads a stream with a filter of this descriptor.
    pub(super) fn reader_with(
        &mut self,
        peer: usize,
        address: &str,
        descriptor: &'static str,
        value: impl Into<Value>,
    ) -> u32 {
        let name = Symbol::from_static(descriptor);
        let filter = Described { descriptor: name.clone().into(), value: value.into() };
        let filter = Map(vec![(name.into(), Value::Described(Box::new(filter)))]);
        let source = Source { address: Some(address.to_owned()), filter: Some(filter), ..Source::default() };
        self.attach(peer, Role::Receiver, source, Target::default())
    }

    /// Attaches a link that receives direct replies. Returns its number and its address.
    pub(super) fn replies(&mut self, peer: usize) -> (u32, String) {
        let source = Source {
            dynamic: true,
            expiry_policy: TerminusExpiryPolicy::LinkDetach,
            capabilities: vec![Symbol::from_static(REPLIES)],
            ..Source::default()
        };
        let link = self.attach(peer, Role::Receiver, source, Target::default());
        let found = self.peers[peer].sources.iter().rev().find(|(l, _)| *l == link);
        (link, found.expect("the broker names the source").1.clone())
    }

    /// Attaches a link, called `link-PEER-NUMBER`. Returns its number.
    pub(super) fn attach(&mut self, peer: usize, role: Role, source: Source, target: Target) -> u32 {
        let attach = self.attach_of(peer, role, source, target);
        self.attach_as(peer, attach)
    }

    fn attach_of(&self, peer: usize, role: Role, source: Source, target: Target) -> Attach {
        let settled = source.capabilities.contains(&Symbol::from_static(REPLIES));
        Attach {
            snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
            source: Some(source),
            target: Some(TargetArchetype::Target(target)),
            initial_delivery_count: (role == Role::Sender).then_some(0),
            ..Attach::new(
                format!("link-{peer}-{}", self.peers[peer].conn.session(0).unwrap().links().count()),
                0,
                role,
            )
        }
    }

    /// Attaches a link like [`Self::attach`], but the ATTACH is sent in the next round.
    pub(super) fn begin_attach(&mut self, peer: usize, role: Role, source: Source, target: Target) {
        let attach = self.attach_of(peer, role, source, target);
        self.peers[peer].conn.attach(0, None, attach).expect("a free handle");
    }

    fn attach_as(&mut self, peer: usize, attach: Attach) -> u32 {
        let link = self.peers[peer].conn.attach(0, None, attach).expect("a free handle");
        self.settle();
        link
    }

    pub(super) fn grant(&mut self, peer: usize, link: u32, credit: u32) {
        self.peers[peer].conn.grant(0, link, credit, false, false);
        self.settle();
    }

    /// Releases the delivery with this id.
    pub(super) fn release(&mut self, peer: usize, id: u32) {
        self.peers[peer].conn.disposition(0, Role::Receiver, (id, id), true, &DeliveryState::Released);
        self.settle();
    }

    /// Accepts the delivery with this id.
    pub(super) fn accept(&mut self, peer: usize, id: u32) {
        self.peers[peer].conn.disposition(0, Role::Receiver, (id, id), true, &DeliveryState::Accepted);
        self.settle();
    }

    /// Returns the delivery with this id as failed.
    pub(super) fn fail(&mut self, peer: usize, id: u32) {
        let failed = Modified { delivery_failed: Some(true), ..Modified::default() };
        let state = DeliveryState::Modified(failed);
        self.peers[peer].conn.disposition(0, Role::Receiver, (id, id), true, &state);
        self.settle();
    }

    /// Rejects the delivery with this id.
    pub(super) fn reject(&mut self, peer: usize, id: u32) {
        let state = DeliveryState::Rejected(None);
        self.peers[peer].conn.disposition(0, Role::Receiver, (id, id), true, &state);
        self.settle();
    }

    pub(super) fn send(&mut self, peer: usize, link: u32, body: &[u8]) {
        self.say(peer, link, body);
        self.settle();
    }

    /// Sends a message, which is read in the next round.
    pub(super) fn say(&mut self, peer: usize, link: u32, body: &[u8]) {
        self.say_message(peer, link, &message(body));
    }

    /// Sends a message like [`Self::say`], but with all its sections.
    pub(super) fn say_message(&mut self, peer: usize, link: u32, message: &Bytes) {
        let sent = Outgoing::whole(Tag::from_number(1), false, message, 1);
        let taken = self.peers[peer].conn.send(0, link, &sent);
        assert!(taken, "the link has credit: {:?}", self.peers[peer].detached);
    }

    /// Sends one TRANSFER with this head and payload, and settles.
    pub(super) fn transfer(&mut self, peer: usize, head: &TransferHead<'_>, payload: &[u8]) {
        let output = self.peers[peer].conn.output();
        put_transfer_frame(output.buffer(), 0, head, payload.len());
        output.buffer().extend_from_slice(payload);
        self.settle();
    }

    /// Returns the bytes that all shards use of a budget, and its limit.
    pub(super) fn budget(&self, name: &str) -> (u64, u64) {
        let rows = self.shards.iter().flat_map(|shard| shard.budgets()).filter(|row| row.name == name);
        rows.fold((0, 0), |(used, limit), row| (used + row.used, limit + row.limit))
    }

    /// Starts or ends an alarm.
    pub(super) fn alarm(&mut self, is_on: bool) {
        self.shards.iter_mut().for_each(|shard| shard.set_blocked(is_on));
        self.settle();
    }

    /// Returns the number of messages in a queue.
    pub(super) fn messages(&self, name: &str) -> u64 {
        let queue = self.shards[0].catalog().listed_queue("/", name).expect("a queue").id;
        let report = self.shards.iter().find_map(|shard| shard.queue_report(queue));
        report.map_or(0, |report| report.messages())
    }

    pub(super) fn declare(&mut self, name: &str, arguments: Arguments) -> QueueId {
        let answer = Arc::new(Mutex::new(None));
        let into = answer.clone();
        let declare = DeclareQueue::new("/", name, arguments);
        let then = Box::new(move |result| *into.lock().unwrap() = Some(result));
        self.shards[0].propose(Command::DeclareQueue(declare), then);
        self.settle();
        match answer.lock().unwrap().take() {
            Some(Ok(Answer::Queue { record, .. })) => record.id,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes a queue.
    pub(super) fn delete(&mut self, name: &str) {
        let queue = self.shards[0].catalog().listed_queue("/", name).expect("a queue").id;
        let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
        self.shards[0].ask(queue, request, Box::new(|_| ()));
        self.settle();
    }

    pub(super) fn bind(&mut self, exchange: &str, queue: &str, key: &str) {
        self.bind_at_once(exchange, queue, key, true);
        self.settle();
    }

    /// Asks for a binding, or for its end, and does not wait for the answer.
    pub(super) fn bind_at_once(&mut self, exchange: &str, queue: &str, key: &str, is_made: bool) {
        let binding = Binding {
            vhost: "/".into(),
            source: exchange.into(),
            destination: Destination::Queue(queue.into()),
            key: key.into(),
            arguments: Arguments::new(),
        };
        let then = Box::new(|result: Result<Answer, _>| assert!(result.is_ok(), "{result:?}"));
        let command = match is_made {
            true => Command::Bind(binding, Caller::Management),
            false => Command::Unbind(binding, Caller::Management),
        };
        self.shards[0].propose(command, then);
    }

    /// Takes the handovers that the log has not written.
    pub(super) fn take_handovers(&mut self) -> Vec<Handover> {
        std::mem::take(&mut self.with_log)
    }

    /// Gives back to the log what [`Self::take_handovers`] has taken.
    pub(super) fn give_back(&mut self, handovers: Vec<Handover>) {
        self.with_log.splice(0..0, handovers);
    }

    /// Returns the bytes of the handovers that the log has not written.
    pub(super) fn unlogged_bytes(&self) -> usize {
        self.with_log.iter().map(|handover| handover.records.bytes()).sum()
    }

    /// Writes and syncs what the log was given.
    pub(super) fn answer_as_log(&mut self) {
        for handover in self.with_log.drain(..) {
            for step in [Step::Written, Step::Synced] {
                self.shards[handover.shard as usize].handle_logged(done(&handover, step));
            }
        }
    }

    /// Runs rounds until no work is left.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.round() {
                return self.assert_nothing_waits();
            }
        }
        panic!("the shards do not become idle");
    }

    /// Asserts that no shard has left work for its next timer, and no output to clients that read. A shard to which the log owes an
    /// answer may have left work until then.
    fn assert_nothing_waits(&mut self) {
        let count = self.shards.len() as ShardId;
        for (id, shard) in self.shards.iter_mut().enumerate() {
            if self.with_log.iter().all(|handover| handover.shard as usize != id) {
                assert_nothing_waits(shard, count);
            }
        }
        for peer in self.peers.iter().filter(|peer| !peer.deaf) {
            let output = self.shards[peer.shard].conn(peer.key).map_or(0, |conn| conn.gate.output().len());
            assert_eq!(output, 0, "output was left");
        }
    }

    fn check_logins(&mut self) -> bool {
        for (id, shard) in self.shards.iter_mut().enumerate() {
            self.logins.extend(shard.poll_logins().into_iter().map(|(ticket, login)| (id, ticket, login)));
        }
        if self.logins_stopped {
            return false;
        }
        let moved = !self.logins.is_empty();
        for (id, ticket, login) in self.logins.drain(..) {
            let token = self.token.clone();
            let checked = self.access.check(&login).map(|who| Identity { token, ..who });
            self.shards[id].handle_login(ticket, checked);
        }
        moved
    }

    /// Runs one turn of each shard and passes on the results. Returns false if nothing has moved.
    pub(super) fn round(&mut self) -> bool {
        let (mut moved, count) = (false, self.shards.len());
        for shard in &mut self.shards {
            shard.set_now(self.now_ms);
            shard.handle_timeout();
            moved |= shard.turn();
            shard.take_replies();
            let (at_once, with_log, streams) = (self.at_once, &mut self.with_log, &mut self.streams);
            moved |= shard.write(&mut Threads { at_once, with_log, streams });
            // The list of dirty connections is not needed, because every peer checks its output in every
            // round.
            shard.take_dirty(&mut Vec::new());
            self.reads.extend(shard.poll_chunk_jobs());
            for to in 0..count {
                let mut batch = shard.poll_mail(to as ShardId);
                self.lost.extend(batch.extract_if(.., |mail| (self.is_lost)(mail)));
                if !batch.is_empty() {
                    self.mail.push_back((to, batch));
                }
            }
        }
        if !self.others_take_at_once {
            self.others.iter().for_each(|key| self.shards[0].note_written(*key, 0));
        }
        moved |= self.check_logins();
        if !self.mail_stopped {
            moved |= !self.mail.is_empty();
            self.mail.drain(..).for_each(|(to, batch)| self.shards[to].handle_mail(batch));
        }
        if !self.log_stopped {
            moved |= !self.with_log.is_empty();
            self.answer_as_log();
        }
        if !self.reads_stopped {
            moved |= !self.reads.is_empty();
            for job in self.reads.drain(..) {
                let ChunkJob { shard, ticket, .. } = job;
                let result = self.stream_reader.read(&job);
                self.shards[shard as usize].handle_chunks(ChunksRead { shard, ticket, result });
            }
        }
        for peer in &mut self.peers {
            moved |= peer.round(&mut self.shards, self.cannot_move, self.now_ms);
        }
        moved
    }
}

/// The log and the streams of all shards.
struct Threads<'a> {
    at_once: bool,
    with_log: &'a mut Vec<Handover>,
    streams: &'a mut Streams<SimDisk>,
}

impl Writes for Threads<'_> {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        if self.at_once && !handover.sync {
            return Some(done(&handover, Step::Written));
        }
        self.with_log.push(handover);
        None
    }

    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer> {
        let mut answers = Vec::new();
        assert!(self.streams.handle(job, &mut answers).is_none(), "nothing is to be synced");
        answers.pop()
    }
}

fn done(&Handover { shard, ticket, .. }: &Handover, step: Step) -> Completion {
    Completion { shard, ticket, step, file: 0, size: Default::default(), result: Ok(()) }
}

impl Peer {
    /// Returns the bytes that the peer sends.
    pub(super) fn up(&mut self) -> Vec<u8> {
        self.conn.pump();
        let mut up = Vec::new();
        take(self.conn.output(), &mut up);
        up
    }

    fn round(&mut self, shards: &mut [Shard], cannot_move: bool, now_ms: u64) -> bool {
        let up = self.up();
        shards[self.shard].handle_input(self.key, &mut BytesMut::from(&up[..]));
        if cannot_move {
            shards[self.shard].stay(self.key);
        } else if let Some(to) = shards[self.shard].leaving(self.key) {
            let gone = shards[self.shard].release(self.key).expect("it is leaving");
            self.shard = to.into();
            self.key = shards[self.shard].adopt(gone);
        }
        let shard = &mut shards[self.shard];
        let mut moved = !up.is_empty();
        let Some(conn) = shard.conn(self.key) else { return moved };
        let before = self.input.len();
        if !self.deaf {
            take(conn.gate.output(), &mut self.input);
        }
        let came = self.input.len() > before;
        moved |= came;
        if came && conn.gate.has_pending() {
            shard.touch(self.key);
        }
        shard.note_written(self.key, self.input.len() - before);
        self.read(now_ms);
        moved
    }

    fn read(&mut self, now_ms: u64) {
        let input = std::mem::take(&mut self.input);
        let mut used = 0;
        while let Some(len) = self.conn.frame_len(&input[used..]).expect("the broker's frames are valid")
            && input.len() - used >= len
        {
            let frame = Bytes::copy_from_slice(&input[used..used + len]);
            used += len;
            let event = match self.conn.handle_frame(Chunk::Owned(frame), now_ms) {
                Ok(event) => event,
                // A client that sends transfers without its endpoint does not understand what the broker counts.
                Err(fault) if self.doomed && matches!(fault.violation, Violation::NeverSent { .. }) => None,
                Err(fault) => panic!("{fault:?}"),
            };
            match event {
                Some(Event::SaslMechanisms(_)) => {
                    let (mechanism, response) = match self.user {
                        None => (Symbol::from_static("ANONYMOUS"), String::new()),
                        Some(user) => (Symbol::from_static("PLAIN"), format!("\0{user}\0guest")),
                    };
                    let mut init = SaslInit::new(mechanism);
                    init.initial_response = Some(Secret::new(response));
                    self.conn.sasl_init(init);
                }
                Some(Event::HeaderExchanged) => {
                    self.conn.open(Open {
                        container_id: self.container.clone(),
                        properties: self.properties.clone(),
                        ..Open::default()
                    });
                }
                Some(Event::Open(_)) => _ = self.conn.begin(None, true),
                Some(Event::Attach { link, attach, .. }) => {
                    let address = attach.source.and_then(|s| s.address);
                    self.sources.extend(address.map(|address| (link, address)));
                }
                Some(Event::Transfer { link, delivery, .. }) => {
                    let found = amqp10::sections::scan(&delivery.message[..]).expect("a message");
                    // The body begins after the descriptor, the type and the length.
                    let section = &delivery.message[found.body.start as usize..];
                    let body = &section[if section[3] == 0xb0 { 8 } else { 5 }..];
                    self.got.push((link, Bytes::copy_from_slice(body)));
                }
                Some(Event::Disposition { state, first, last, .. }) => {
                    let state = state.map_or("none".to_owned(), |s| format!("{s:?}"));
                    (first..=last).for_each(|_| self.outcomes.push(state.clone()));
                }
                Some(Event::Detach { detach, .. }) => {
                    let why = detach.error.map_or("none".to_owned(), |e| e.condition.to_string());
                    self.detached.push(why);
                }
                Some(Event::End { error: Some(error), .. }) if self.doomed => {
                    self.detached.push(error.condition.to_string());
                }
                Some(Event::End { error: Some(error), .. }) => panic!("the session has ended: {error:?}"),
                Some(Event::Close(Some(error))) if self.doomed || self.container.len() > NAME_MAX => {
                    self.closed = Some((error.condition.to_string(), error.description.unwrap_or_default()));
                }
                Some(Event::Close(None)) => self.is_closed = true,
                Some(Event::Close(error)) => panic!("the connection is closed: {error:?}"),
                _ => {}
            }
        }
        self.input = input[used..].to_vec();
    }
}

/// Returns a message of one data section.
pub(super) fn message(body: &[u8]) -> Bytes {
    let mut message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75".to_vec();
    if let Ok(len) = u8::try_from(body.len()) {
        message.extend([0xa0, len]);
    } else {
        message.put_u8(0xb0);
        message.put_u32(body.len() as u32);
    }
    message.extend_from_slice(body);
    message.into()
}
