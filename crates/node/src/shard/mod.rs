//! One shard: its connections, its queues, its copy of the catalog, and the turn that moves work between them.
//!
//! ```text
//!   handle_input ──> gates ──> requests ──┐                      ┌──> records ──> write
//!   handle_mail ───────────────────────> turn: apply, carry out ─┼──> mail ─────> poll_mail
//!   handle_logged ──> receipts ───────────┘                      └──> output ───> dirty connections
//! ```
//!
//! No sockets, no clock, no tasks: whoever drives it brings bytes and time and takes away what it made.

mod apply;
mod budgets;
mod catalog;
mod compact;
mod connections;
mod desk;
mod direct;
mod history;
mod journal;
mod logged;
mod occupancy;
mod pages;
mod receipts;
mod reclaim;
mod slot;
mod streams;
mod unfinished;
mod unwritten;
mod writes;

use std::collections::BTreeSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::access::Access;
use broker::catalog::{Catalog, Histories};
use broker::counters::Counters;
use broker::gate::amqp10::{Budget, Cx, Gate};
use broker::ids::{QueueId, Registry, ShardId};
use broker::mail::{LinkAddress, Mail, Post, PublisherAddress, TicketOwner};
use broker::settings::Settings;
use bytes::BytesMut;
use hashbrown::HashMap;
use log::{Extent, Handover, Held, RESERVE_BYTES, Step};
use message::DeliveryHeads;
use queue::{Output, Request};
use slab::Slab;

use self::catalog::Decider;
pub use self::connections::Moved;
pub(crate) use self::connections::{READ_BUFFER, READ_MAX};
pub use self::desk::DeskCall;
use self::journal::Journal;
pub use self::occupancy::Occupancy;
use self::pages::Pages;
use self::receipts::Receipt;
use self::reclaim::Evacuation;
use self::reclaim::GARBAGE_ALLOWED;
pub use self::reclaim::Place;
use self::slot::QueueSlot;
use self::streams::Streams;
use self::unfinished::Unfinished;
use crate::tally::Tally;

use self::unwritten::{KeptOfAll, UNWRITTEN_BYTES_MAX};
pub use self::writes::Writes;

/// Rounds of one turn: what is still there then waits for the next, so that sockets get their share.
const ROUNDS_MAX: usize = 64;

/// How often the deadlines of connections are looked at, at most: they are whole seconds.
const CONNECTION_CHECK_MS: u64 = 500;

/// How often a shard looks after what nobody waits for: room in the log, runs that hold too much, what was read and is
/// not wanted. Being woken for it is most of what a broker costs that does nothing.
const CHORES_MS: u64 = 1000;

/// One connection of a shard.
#[derive(Debug)]
pub struct Conn {
    pub gate: Gate,
    /// The beginning of a frame whose rest has not been read, in the buffer that will hold it whole.
    pub partial: BytesMut,
    /// Its output is to be written at the end of the turn.
    dirty: bool,
    /// Bytes of the beginning while somebody reads on at it.
    partial_taken: usize,
    /// What it holds of deliveries and frames whose end has not come, as it was counted last.
    unfinished: usize,
    /// What is in memory for its readers of streams, if it had any.
    reader_memory: Option<Arc<Held>>,
    /// When it is looked at for its deadline, as [`Shard::deadlines`] has it.
    looked_at_ms: Option<u64>,
    /// Bytes that the socket did not take when it was last written to.
    pub unwritten_bytes: usize,
    pub recv_bytes: u64,
    pub send_bytes: u64,
}

impl Conn {
    /// Marks it, whose key this is, as having something to write or to close.
    fn touch(&mut self, key: usize, dirty: &mut Vec<usize>) {
        if !self.dirty {
            self.dirty = true;
            dirty.push(key);
        }
    }
}

/// What is to be done when the catalog has forgotten a queue.
#[derive(Debug, Default)]
struct Forgetting {
    told_later: Vec<Mail>,
    extents: Vec<Extent>,
}

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub struct StorageLimits {
    /// Bytes of garbage that the log may hold whatever is alive.
    pub garbage_allowed: u64,
    /// Bytes of memory that the ready messages of all queues may take before some of them go to the disk.
    pub backlog_memory: u64,
    /// Bytes of the disk that the log keeps for the time when it is full; see [`log::Size::short`].
    pub reserve_bytes: u64,
    /// Bytes of messages that may be settled before they are written.
    pub unwritten_max: u64,
}

impl StorageLimits {
    /// 64 MiB: some 200,000 small messages, which a fast consumer drains in a second; a tenth of what a small
    /// machine has.
    pub const BACKLOG_MEMORY: u64 = 64 << 20;
}

impl Default for StorageLimits {
    fn default() -> Self {
        let (garbage_allowed, backlog_memory) = (GARBAGE_ALLOWED, Self::BACKLOG_MEMORY);
        let (reserve_bytes, unwritten_max) = (RESERVE_BYTES, UNWRITTEN_BYTES_MAX);
        Self { garbage_allowed, backlog_memory, reserve_bytes, unwritten_max }
    }
}

/// What a shard is made with.
#[derive(Debug)]
pub struct Setup {
    pub id: ShardId,
    pub shards: ShardId,
    pub settings: Arc<Settings>,
    pub access: Arc<Access>,
    pub catalog: Catalog,
    /// One number per shard: about the bytes that are alive in the log.
    pub live: Arc<[AtomicU64]>,
    pub limits: StorageLimits,
    /// Makes names of reply links that cannot be guessed.
    pub reply_keys: RandomState,
    pub(crate) tallies: Tallies,
}

/// What the shards of a node share to keep its budgets.
#[derive(Clone, Debug)]
pub struct Tallies {
    unfinished: Arc<Tally>,
    readers: Arc<Held>,
}

impl Tallies {
    /// Of a node with so many shards.
    pub fn new(shards: ShardId, settings: &Settings) -> Self {
        let unfinished = Tally::new(shards, settings.node_unfinished_memory());
        let readers = streams::node_budget(settings.reader_memory);
        Self { unfinished: Arc::new(unfinished), readers: Arc::new(readers) }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    id: ShardId,
    settings: Arc<Settings>,
    access: Arc<Access>,
    catalog: Catalog,
    /// On the first shard: decides changes of the catalog.
    decider: Option<Decider>,
    conns: Slab<Conn>,
    /// Connections follow their queues as far as this allows; `None`: they stay.
    occupancy: Option<Arc<Occupancy>>,
    consumers: Registry<LinkAddress>,
    publishers: Registry<PublisherAddress>,
    tickets: Registry<TicketOwner>,
    watchers: HashMap<QueueId, Vec<u64>>,
    /// By the slot of their id; only those that live here.
    queues: Vec<Option<Box<QueueSlot>>>,
    /// Requests for queues that have no home yet. Bounded by what paid for each request.
    homeless: HashMap<QueueId, Vec<Request>>,
    /// Deletions that the catalog has not confirmed, by our ticket.
    forgetting: HashMap<u64, Forgetting>,
    desk: desk::Waiting,
    /// On the shard that decides: what exchanges keep for later bindings.
    histories: Histories,
    post: Post,
    /// Empty; the memory for what is posted next.
    requests: Vec<(QueueId, Request)>,
    inbox: Vec<Mail>,
    outboxes: Vec<Vec<Mail>>,
    output: Output,
    journal: Journal,
    pages: Pages,
    unwritten: KeptOfAll,
    streams: Streams,
    /// Queues that keep facts back until the end of the turn.
    gone: Vec<QueueId>,
    next_queue_due: Option<u64>,
    /// The log has failed: nothing durable is applied until it has taken what it gave back.
    log_failed: Option<Step>,
    /// One handover may be tried though the log has failed.
    log_retry: bool,
    /// The disk is full, and the log lives on its reserve.
    log_short: bool,
    /// The newest file of the log that this shard has heard of: what it writes now stands there or later.
    log_file: u64,
    /// The file where the catalog's records begin.
    definitions_file: u64,
    /// What the catalog's records took when they were last written together. They are alive, too.
    definitions_bytes: u64,
    /// About the bytes that are alive in the log, by shard.
    live: Arc<[AtomicU64]>,
    /// Bytes of records that the queues of this shard need, about.
    live_bytes: u64,
    garbage_allowed: u64,
    reserve_bytes: u64,
    /// On the shard that decides: what was told last of a log that is mostly garbage.
    log_full: Option<(u64, u64, u64)>,
    /// The last file that was evacuated.
    evacuated: u64,
    evacuation: Option<Evacuation>,
    /// Of the next evacuation.
    evacuation_files: u64,
    /// To be evacuated as soon as nothing is away.
    evacuate_next: Option<u64>,
    forget: Option<u64>,
    /// Receipts to be sent in this round.
    receipts: Vec<Receipt>,
    dirty: Vec<usize>,
    unfinished: Unfinished,
    /// Of the node: what is in memory for readers of streams.
    reader_memory: Arc<Held>,
    home: BytesMut,
    heads: DeliveryHeads,
    pub counters: Counters,
    budget: Budget,
    unique: u64,
    reply_keys: RandomState,
    now_ms: u64,
    connections_checked_ms: u64,
    chores_done_ms: u64,
    /// When which connection is looked at for its deadline, which may have moved on meanwhile: none of thousands that
    /// have time left is touched.
    deadlines: BTreeSet<(u64, usize)>,
    blocked: bool,
    stopping: bool,
}

/// The context that gates are given.
macro_rules! context {
    ($shard:expr) => {
        Cx {
            now_ms: $shard.now_ms,
            shard: $shard.id,
            catalog: &$shard.catalog,
            access: &$shard.access,
            settings: &$shard.settings,
            consumers: &mut $shard.consumers,
            publishers: &mut $shard.publishers,
            tickets: &mut $shard.tickets,
            watchers: &mut $shard.watchers,
            post: &mut $shard.post,
            home: &mut $shard.home,
            input: broker::gate::amqp10::Input::default(),
            heads: &mut $shard.heads,
            counters: &mut $shard.counters,
            budget: &mut $shard.budget,
            unique: &mut $shard.unique,
            reply_keys: &$shard.reply_keys,
        }
    };
}

use context;

/// Splits a shard into a gate and its context.
macro_rules! with_gate {
    ($shard:expr, $key:expr, |$gate:ident, $cx:ident| $body:expr) => {
        if let Some(conn) = $shard.conns.get_mut($key) {
            let ($gate, $cx) = (&mut conn.gate, &mut $crate::shard::context!($shard));
            $body;
            conn.touch($key, &mut $shard.dirty);
        }
    };
}
use with_gate;

/// Offers a delivery to its consumer. Returns false if the consumer is not on this shard, or reads a stream and has no room.
/// Consumers of streams are always on this shard, or already detaching. The context is put together once for all.
macro_rules! deliver {
    ($shard:expr) => {{
        let (mut cx, conns, dirty) = ($crate::shard::context!($shard), &mut $shard.conns, &mut $shard.dirty);
        move |lent: queue::Lent<'_>| {
            let Some(to) = cx.consumers.get(lent.consumer.0).copied() else { return false };
            let Some(conn) = conns.get_mut(to.connection) else { return true };
            let taken = conn.gate.handle_delivery(to, lent, &mut cx);
            conn.touch(to.connection, dirty);
            taken
        }
    }};
}
use deliver;

impl Shard {
    pub fn new(setup: Setup) -> Self {
        let Setup { id, shards, settings, access, catalog, live, limits, reply_keys, tallies } = setup;
        Self {
            id,
            settings,
            access,
            decider: (id == 0).then(|| Decider::new(shards, catalog.version())),
            catalog,
            conns: Slab::new(),
            occupancy: None,
            consumers: Registry::new(id),
            publishers: Registry::new(id),
            tickets: Registry::new(id),
            watchers: HashMap::new(),
            queues: Vec::new(),
            homeless: HashMap::new(),
            forgetting: HashMap::new(),
            desk: desk::Waiting::default(),
            histories: Histories::default(),
            post: Post::default(),
            requests: Vec::new(),
            inbox: Vec::new(),
            outboxes: (0..shards).map(|_| Vec::new()).collect(),
            output: Output::default(),
            journal: Journal::default(),
            pages: Pages::new(limits.backlog_memory / u64::from(shards)),
            unwritten: KeptOfAll::new(limits.unwritten_max),
            streams: Streams::default(),
            gone: Vec::new(),
            next_queue_due: None,
            log_failed: None,
            log_retry: false,
            log_short: false,
            log_file: 0,
            definitions_file: 0,
            definitions_bytes: 0,
            live,
            live_bytes: 0,
            garbage_allowed: limits.garbage_allowed,
            reserve_bytes: limits.reserve_bytes,
            log_full: None,
            evacuated: 0,
            evacuation: None,
            evacuation_files: 1,
            evacuate_next: None,
            forget: None,
            receipts: Vec::new(),
            dirty: Vec::new(),
            unfinished: Unfinished::new(tallies.unfinished),
            reader_memory: tallies.readers,
            home: BytesMut::new(),
            heads: DeliveryHeads::default(),
            counters: Counters::default(),
            budget: Budget::share(shards.into()),
            unique: 0,
            reply_keys,
            now_ms: 0,
            connections_checked_ms: 0,
            chores_done_ms: 0,
            deadlines: BTreeSet::new(),
            blocked: false,
            stopping: false,
        }
    }

    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Time goes on. It never goes back.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Timers of connections and queues, and the chores.
    pub fn handle_timeout(&mut self) {
        self.queue_timeouts();
        self.stream_timeouts();
        if self.chores_done_ms + CHORES_MS <= self.now_ms {
            self.chores_done_ms = self.now_ms;
            self.publish_live_bytes();
            self.forget_again();
            self.reclaim();
            self.find_stuck();
            self.streams.shrink_tails();
            self.queues.iter_mut().flatten().for_each(|slot| slot.fifo_mut().forget_loaded());
        }
        if self.next_connection_check().is_some_and(|at| at <= self.now_ms) {
            self.connections_checked_ms = self.now_ms;
            self.connection_timeouts();
        }
    }

    fn next_connection_check(&self) -> Option<u64> {
        self.deadlines.first().map(|&(at, _)| at.max(self.connections_checked_ms + CONNECTION_CHECK_MS))
    }

    /// When [`Shard::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> u64 {
        let connections = self.next_connection_check();
        let journal = self.journal.next_deadline().filter(|_| self.log_failed.is_none());
        let pages = self.pages.next_deadline(!self.log_short);
        let disk = journal.into_iter().chain(pages).chain(self.streams.next_deadline());
        let disk = disk.chain(self.unwritten.next_deadline(!self.log_short));
        let others = self.next_queue_due.into_iter().chain(connections).chain(disk);
        others.fold(self.chores_done_ms + CHORES_MS, u64::min)
    }

    /// Whether records wait for the log, or for its answer.
    pub fn has_unlogged(&self) -> bool {
        !self.journal.is_idle() || self.unwritten.messages > 0
    }

    /// Whether receipts wait for the log.
    pub fn has_held_receipts(&self) -> bool {
        self.journal.holds_receipts()
            || self.unwritten.messages > 0
            || !self.pages.receipts.is_empty()
            || self.streams.hold_receipts()
    }

    // ---- the turn ---------------------------------------------------------------------------------------

    /// Mail from other shards.
    pub fn handle_mail(&mut self, mail: Vec<Mail>) {
        self.inbox.extend(mail);
    }

    /// Moves everything that can be moved. True if something is left for another turn.
    pub fn turn(&mut self) -> bool {
        self.go_on_reading();
        // Those that waited for memory.
        self.send_receipts();
        for _ in 0..ROUNDS_MAX {
            if self.inbox.is_empty() && self.post.is_empty() {
                self.flush_gates();
                if self.post.is_empty() {
                    return self.streams.is_going();
                }
            }
            let mut inbox = std::mem::take(&mut self.inbox);
            for mail in inbox.drain(..) {
                self.handle_one(mail);
            }
            if self.inbox.is_empty() {
                self.inbox = inbox;
            }
            self.sort_post();
            self.send_receipts();
        }
        // Nobody would flush what the last round has told the gates: the next turn knows only its own connections.
        self.flush_gates();
        !self.inbox.is_empty() || !self.post.is_empty() || self.streams.is_going()
    }

    fn flush_gates(&mut self) {
        for i in 0..self.dirty.len() {
            let Some(&key) = self.dirty.get(i) else { return };
            with_gate!(self, key, |gate, cx| gate.flush(cx));
        }
    }

    /// Does what gates and machines have posted, if it is to be done here, and sends the rest to those it is for.
    fn sort_post(&mut self) {
        // What is posted meanwhile is for the next round.
        let (direct, proposals) =
            (std::mem::take(&mut self.post.direct), std::mem::take(&mut self.post.proposals));
        let remembered = std::mem::take(&mut self.post.remembered);
        self.sort_requests();
        for (to, vhost, request) in direct {
            self.dispatch_direct(to, vhost, request);
        }
        for (ticket, command) in proposals {
            self.do_or_send(0, Mail::Propose { ticket, from: self.id, command });
        }
        for (exchange, messages) in remembered {
            self.do_or_send(0, Mail::Remember { exchange, messages });
        }
    }

    /// Handles mail for this shard at once; other mail is sent.
    fn do_or_send(&mut self, to: ShardId, mail: Mail) {
        match to == self.id {
            true => self.handle_one(mail),
            false => self.send(to, mail),
        }
    }

    fn send(&mut self, to: ShardId, mail: Mail) {
        if to == self.id {
            self.inbox.push(mail);
        } else if let Some(outbox) = self.outboxes.get_mut(usize::from(to)) {
            outbox.push(mail);
        }
    }

    /// Mail for another shard.
    pub fn poll_mail(&mut self, to: ShardId) -> Vec<Mail> {
        self.outboxes.get_mut(usize::from(to)).map(std::mem::take).unwrap_or_default()
    }

    /// Records for the log, if it has taken the last ones.
    pub fn poll_handover(&mut self) -> Option<Handover> {
        self.write_overdue();
        self.close_records();
        if self.log_failed.is_some() && !self.log_retry {
            return None;
        }
        let handover = self.journal.poll_handover(u32::from(self.id), self.now_ms, self.stopping)?;
        self.log_retry = false;
        Some(handover)
    }
}
