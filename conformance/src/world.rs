//! A whole broker in one thread, without sockets and clock: shards, their mail, and the real log and streams
//! on false disks.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;

use broker::gate::Phase;
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::ids::ShardId;
use catalog::pattern::Pattern;
use catalog::{
    Arguments, Binding, Caller, Command, DEFAULT_VHOST, DeclareExchange, DeclareQueue, Destination, SetPolicy,
};
use node::make_shards;
use node::shard::Shard;
use node::shard::questions::{Act, AnswerTo, Question};
use queue::{Effect, Report, Request};

use crate::fields::Seen;
use crate::remote::Remote;
use crate::storage::Storage;
use crate::text::{Parsed, Token};
use crate::{amqp10, amqp091};

/// The number of rounds after which the broker is assumed to loop forever.
const ROUNDS_MAX: usize = 10_000;

/// The configuration of a world.
#[derive(Debug)]
pub struct Setup {
    pub shards: ShardId,
    pub settings: Settings,
    pub users: Vec<User>,
    /// The address of another broker to which the clients connect.
    pub against: Option<SocketAddr>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            shards: 1,
            settings: Settings::default(),
            users: vec![user("guest", Permissions::ALL)],
            against: None,
        }
    }
}

/// A user whose password equals the name.
pub(crate) fn user(name: &str, permissions: Permissions) -> User {
    User {
        name: name.into(),
        hash: Hashing::Sha256.hash([1; 16], &::amqp10::sasl::Secret::new(name.to_owned())),
        tags: Vec::new(),
        loopback_only: true,
        permissions: [(DEFAULT_VHOST.into(), permissions)].into_iter().collect(),
    }
}

/// Parses `configure=no`, `write=no`, `read=no`.
pub(crate) fn permissions(granted: impl Fn(&str) -> bool) -> Permissions {
    let grant = |verb| if granted(verb) { Pattern::Everything } else { Pattern::Nothing };
    Permissions { configure: grant("configure"), write: grant("write"), read: grant("read") }
}

/// One client connection.
#[derive(Debug)]
pub struct Client {
    shard: usize,
    key: usize,
    input: Vec<u8>,
    /// What the client has sent, and the broker does not read yet.
    unread: BytesMut,
    pub track: Track,
    /// Frames that were received and not yet compared.
    pub seen: VecDeque<Seen>,
    closed: bool,
    /// True if the client's bytes must not be parsed as frames.
    raw: bool,
}

/// What a client knows about its connection, by its protocol.
#[derive(Debug)]
pub enum Track {
    Amqp10(amqp10::track::Track),
    Amqp091(amqp091::Track),
}

impl Client {
    /// Returns the bytes of one line. The first line of a client decides its protocol.
    ///
    /// # Errors
    /// The line cannot be read.
    pub fn encode(&mut self, line: &str, tokens: Vec<Token>) -> Parsed<Bytes> {
        if amqp091::send::is_ours(line, &tokens) && matches!(self.track, Track::Amqp10(_)) {
            self.track = Track::Amqp091(amqp091::Track::default());
        }
        match &mut self.track {
            Track::Amqp10(track) => amqp10::send::frame(line, track, tokens),
            Track::Amqp091(track) => amqp091::send::frame(line, track, tokens),
        }
    }

    /// Passes to the broker what the client has sent, if its socket is read. Returns true if there was anything.
    fn feed(&mut self, shards: &mut [Shard]) -> bool {
        let shard = &mut shards[self.shard];
        let is_read = !self.unread.is_empty() && shard.takes_input(self.key);
        if is_read {
            shard.handle_input(self.key, &mut std::mem::take(&mut self.unread));
        }
        is_read
    }

    /// Describes the next frame that the client has received.
    fn take(&mut self) -> Option<Seen> {
        match &mut self.track {
            Track::Amqp10(track) => amqp10::receive::take(&mut self.input, track),
            Track::Amqp091(track) => amqp091::receive::take(&mut self.input, track),
        }
    }
}

/// A broker and its clients; see the module.
pub struct World {
    setup: (Arc<Settings>, Arc<Access>, ShardId),
    now_ms: u64,
    storage: Storage,
    shards: Vec<Shard>,
    pub clients: BTreeMap<String, Client>,
    /// Another broker, if the clients are connected to one. Then there are no shards.
    remote: Option<Remote>,
}

impl Default for World {
    fn default() -> Self {
        Self::new(Setup::default())
    }
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let Setup { shards, settings, users, against } = setup;
        let remote = against.map(|at| Remote::new(at, &users).expect("the other broker can be used"));
        let mut world = Self {
            setup: (Arc::new(settings), Arc::new(Access::new(users)), shards),
            now_ms: 1_000_000,
            storage: Storage::new(),
            shards: Vec::new(),
            clients: BTreeMap::new(),
            remote,
        };
        if world.remote.is_none() {
            world.start();
        }
        world
    }

    fn start(&mut self) {
        let restored = self.storage.start();
        let (settings, access, count) = &self.setup;
        self.shards =
            make_shards(restored, *count, settings, access, node::StorageLimits::default(), self.now_ms);
    }

    /// Kills the process and starts it again. Every client is disconnected.
    pub fn restart(&mut self) {
        self.settle();
        self.clients.clear();
        self.storage.crash();
        self.start();
    }

    pub fn pass(&mut self, ms: u64) {
        self.settle();
        if self.remote.is_some() {
            std::thread::sleep(std::time::Duration::from_millis(ms));
        }
        self.now_ms += ms;
        self.settle();
    }

    // ---- clients ------------------------------------------------------------------------------------------

    pub fn connect(&mut self, name: &str, shard: usize, peer: SocketAddr) {
        let shard = shard % self.shards.len().max(1);
        let key = match &mut self.remote {
            Some(remote) => {
                remote.connect(name);
                0
            }
            None => self.shards[shard].connect(peer, peer),
        };
        let client = Client {
            shard,
            key,
            input: Vec::new(),
            unread: BytesMut::new(),
            track: Track::Amqp10(amqp10::track::Track::default()),
            seen: VecDeque::new(),
            closed: false,
            raw: false,
        };
        self.clients.insert(name.to_owned(), client);
    }

    /// Passes bytes from a client to the broker. The broker does not act on them yet.
    pub fn input(&mut self, name: &str, bytes: &[u8]) {
        if let Some(remote) = &mut self.remote {
            return remote.send(name, bytes);
        }
        if let Some(client) = self.clients.get_mut(name)
            && !client.closed
        {
            client.unread.extend_from_slice(bytes);
            client.feed(&mut self.shards);
        }
    }

    /// Returns true if the broker reads the client's socket.
    ///
    /// # Errors
    /// There is no such client.
    pub fn is_read(&mut self, name: &str) -> Parsed<bool> {
        self.settle();
        let client = self.clients.get(name).ok_or("no such client")?;
        Ok(self.shards[client.shard].takes_input(client.key))
    }

    /// Passes bytes from a client that parses the answers itself. The broker acts on them at once.
    pub fn raw(&mut self, name: &str, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(name) {
            client.raw = true;
        }
        self.input(name, bytes);
        self.settle();
    }

    /// Takes the bytes that the client has received.
    pub fn received(&mut self, name: &str) -> Vec<u8> {
        self.clients.get_mut(name).map(|c| std::mem::take(&mut c.input)).unwrap_or_default()
    }

    /// Breaks a client's connection before the broker has acted on its last bytes.
    pub fn cut(&mut self, name: &str) {
        if let Some(client) = self.clients.remove(name) {
            self.shards[client.shard].disconnect(client.key);
        }
        self.settle();
    }

    /// Breaks a client's connection.
    pub fn drop_client(&mut self, name: &str) {
        self.settle();
        if let Some(remote) = &mut self.remote {
            self.clients.remove(name);
            return remote.drop_client(name);
        }
        if let Some(client) = self.clients.remove(name)
            && !client.closed
        {
            self.shards[client.shard].disconnect(client.key);
        }
        self.settle();
    }

    // ---- the broker works -----------------------------------------------------------------------------------

    /// Runs turns, mail and log until nothing is left to do.
    pub fn settle(&mut self) {
        if self.remote.is_some() {
            return self.receive();
        }
        for _ in 0..ROUNDS_MAX {
            if !self.round() {
                return;
            }
        }
        panic!("the broker runs in a circle");
    }

    /// Takes what another broker has sent.
    fn receive(&mut self) {
        let Some(remote) = &mut self.remote else { return };
        for (name, received) in remote.receive() {
            let Some(client) = self.clients.get_mut(&name) else { continue };
            client.input.extend_from_slice(&received.bytes);
            while let Some(seen) = client.take() {
                client.seen.push_back(seen);
            }
            if received.is_closed {
                client.seen.push_back(Seen { name: "closed".into(), tokens: Vec::new() });
                client.closed = true;
            }
        }
    }

    /// Returns true if the clients are connected to another broker.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    fn round(&mut self) -> bool {
        let mut moved = false;
        for id in 0..self.shards.len() {
            let shard = &mut self.shards[id];
            shard.set_now(self.now_ms);
            shard.handle_timeout();
            moved |= shard.turn();
            for (ticket, login) in shard.poll_logins() {
                shard.handle_login(ticket, self.setup.1.check(&login));
                moved = true;
            }
            self.storage.take(shard);
            for to in 0..self.shards.len() {
                let mail = self.shards[id].poll_mail(to as ShardId);
                if !mail.is_empty() {
                    moved = true;
                    self.shards[to].handle_mail(mail);
                }
            }
        }
        for id in 0..self.shards.len() {
            moved |= self.write(id);
        }
        for client in self.clients.values_mut() {
            moved |= client.feed(&mut self.shards);
        }
        moved |= self.storage.answer(&mut self.shards);
        moved
    }

    /// Takes the output of a shard's connections.
    fn write(&mut self, id: usize) -> bool {
        let mut dirty = Vec::new();
        self.shards[id].take_dirty(&mut dirty);
        let mut moved = false;
        for key in dirty {
            let Some(conn) = self.shards[id].conn(key) else { continue };
            let mut bytes = Vec::new();
            take_output(conn.gate.output(), &mut bytes);
            let (done, pending) = (conn.gate.phase() == Phase::Done, conn.gate.has_pending());
            if !bytes.is_empty() {
                moved = true;
                conn.gate.handle_written(bytes.len(), self.now_ms);
                if pending {
                    self.shards[id].touch(key);
                }
            }
            let found = self.clients.values_mut().find(|c| c.shard == id && c.key == key && !c.closed);
            let Some(client) = found else { continue };
            client.input.extend_from_slice(&bytes);
            while !client.raw
                && let Some(seen) = client.take()
            {
                client.seen.push_back(seen);
            }
            if done {
                client.seen.push_back(Seen { name: "closed".into(), tokens: Vec::new() });
                client.closed = true;
                self.shards[id].disconnect(key);
                moved = true;
            }
        }
        moved
    }

    // ---- the operator ---------------------------------------------------------------------------------------

    fn propose(&mut self, command: Command) -> Parsed<()> {
        let result = self.act(|to| Act::Change { command, by: "guest".into(), to })?;
        result.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Declares a queue.
    ///
    /// # Errors
    /// The catalog's reason for a refusal.
    pub fn declare_queue(&mut self, name: &str, arguments: Arguments, auto_delete: bool) -> Parsed<()> {
        self.propose(Command::DeclareQueue(DeclareQueue {
            auto_delete,
            ..DeclareQueue::new(DEFAULT_VHOST, name, arguments)
        }))
    }

    pub fn declare_exchange(&mut self, declare: DeclareExchange) -> Parsed<()> {
        self.propose(Command::DeclareExchange(declare))
    }

    pub fn delete_exchange(&mut self, name: &str) -> Parsed<()> {
        self.propose(Command::DeleteExchange {
            vhost: DEFAULT_VHOST.into(),
            name: name.into(),
            if_unused: false,
        })
    }

    pub fn set_policy(
        &mut self,
        name: &str,
        pattern: String,
        apply_to: String,
        definition: Arguments,
    ) -> Parsed<()> {
        let (vhost, name) = (DEFAULT_VHOST.into(), name.into());
        let set = SetPolicy { vhost, name, operator: false, pattern, priority: 0, apply_to, definition };
        self.propose(Command::SetPolicy(set))
    }

    pub fn clear_policy(&mut self, name: &str) -> Parsed<()> {
        let (vhost, name) = (DEFAULT_VHOST.into(), name.into());
        self.propose(Command::ClearPolicy { vhost, name, operator: false })
    }

    pub fn bind(
        &mut self,
        source: &str,
        destination: Destination,
        key: &str,
        arguments: Arguments,
    ) -> Parsed<()> {
        let vhost = DEFAULT_VHOST.into();
        let binding = Binding { vhost, source: source.into(), destination, key: key.into(), arguments };
        self.propose(Command::Bind(binding, Caller::Management))
    }

    pub fn delete_queue(&mut self, name: &str) -> Parsed<()> {
        self.ask(name, |ticket| Request::Delete { ticket, if_unused: false, if_empty: false }).map(|_| ())
    }

    /// Returns the queue's report, or `None` if it does not exist.
    pub fn queue(&mut self, name: &str) -> Parsed<Option<Report>> {
        if self.shards[0].catalog().listed_queue(DEFAULT_VHOST, name).is_none() {
            return Ok(None);
        }
        match self.ask(name, |ticket| Request::Report { ticket })? {
            Effect::Report { report, .. } => Ok(Some(*report)),
            _ => Err("the queue does not report".into()),
        }
    }

    fn ask(&mut self, queue: &str, request: impl Fn(queue::Ticket) -> Request) -> Parsed<Effect> {
        self.settle();
        let id = self.shards[0].catalog().listed_queue(DEFAULT_VHOST, queue).map(|q| q.id);
        let id = id.ok_or_else(|| format!("no queue {queue}"))?;
        self.act(|to| Act::Request { queue: id, request: request(queue::Ticket(0)), to })
    }

    /// Has the first shard do something, as the admin API does.
    fn act<T>(&mut self, act: impl FnOnce(AnswerTo<T>) -> Act) -> Parsed<T> {
        let (to, mut answer) = AnswerTo::new(0);
        self.shards[0].handle_question(Question::Act(act(to)));
        self.settle();
        answer.try_recv().map_err(|_| "no answer".into())
    }

    /// Starts or ends a memory or disk alarm.
    pub fn alarm(&mut self, on: bool) {
        self.settle();
        self.shards.iter_mut().for_each(|shard| shard.set_blocked(on));
        self.settle();
    }

    /// Closes a connection as an operator.
    pub fn force_close(&mut self, name: &str, why: &str) {
        self.settle();
        if let Some(client) = self.clients.get(name) {
            self.shards[client.shard].close(client.key, why);
        }
        self.settle();
    }
}

fn take_output(output: &mut ::amqp10::Output, into: &mut Vec<u8>) {
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
