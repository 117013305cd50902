//! The connections of a shard: their gates, what gates share, and the list of dirty connections for the end
//! of the turn. A gate translates the protocol of one connection. Also the seats of other nodes, which have consumers and publishers
//! as gates have.
//!
//! Nothing here knows queues or the log. The decisions of a gate leave as mail in [`super::mail::Mailroom`].
//!
//! Other components call [`Connections::gates`] to tell a gate something, the registries (`consumer`,
//! `publisher`, `ticket`) to find it, and [`Connections::draw`].

mod held;
mod input;
mod life;
mod migration;
mod occupancy;
mod seats;

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use broker::client_budget::{ClientBudget, output_room};
use broker::counters::Counters;
use broker::credit_budget::CreditBudget;
use broker::cx::Cx;
use broker::exchange_counts::{ExchangeCounters, ExchangeCounts};
use broker::gate::Gate;
use broker::ids::Registry;
use broker::input::Input;
use broker::mail::{ConsumerAddress, GateAddress, PublisherAddress, TicketOwner};
use broker::peer::Peer;
use broker::searches::Searches;
use broker::unguessable::Names;
use broker::watchers::Watchers;
use bytes::BytesMut;
use catalog::ExchangeId;
use catalog::access::Login;
use catalog::ids::{ConnectionId, QueueId, ShardId};
use hashbrown::HashMap;
use message::DeliveryHeads;
use queue::{ConsumerId, Deliver, DeliveryRef, PublisherId, Ticket};
use slab::Slab;
use wal::BufferBudget;

use self::held::BudgetUse;
pub(crate) use self::held::Encrypted;
pub(crate) use self::input::{FAIR_PART, READ_BUFFER, READ_MAX};
pub use self::migration::Migration;
pub use self::occupancy::Occupancy;
use self::seats::Seats;
use super::deadlines::Deadlines;
use super::mail::Mailroom;
use super::metadata::Metadata;
use super::{Here, NodeBudgets};
use crate::ledger::Owner;

/// The shortest time between two checks of the deadlines, in milliseconds. No heartbeat and no closing is later than that, and
/// the heartbeats of thousands of connections wake an idle shard no more often.
const CHECK_MS: u64 = 20;

/// One connection of a shard.
#[derive(Debug)]
pub struct Conn {
    pub gate: Gate,
    /// The beginning of an incomplete frame, in the buffer that will hold the whole frame.
    pub partial: BytesMut,
    /// True if `partial` may have more than the beginning of one frame; see [`Conn::keeps_input`].
    is_kept: bool,
    /// True if the connection is in [`Connections::dirty`].
    dirty: bool,
    /// The length of `partial` while the reading task has it.
    partial_taken: usize,
    /// True if the frames of the last long input were small; see [`Shard::read_max`].
    sends_small: bool,
    /// What the connection holds for each budget, in bytes, at the last count.
    held: [u64; ClientBudget::ALL.len()],
    /// What it holds of each budget besides, for which it is not closed; see [`broker::client_budget::Unread`] and
    /// [`broker::client_budget::STATE_UNCHARGED`].
    uncharged: [u64; ClientBudget::ALL.len()],
    /// What its TLS session keeps.
    encrypted: Encrypted,
    /// Who held it at the last count.
    owner: Owner,
    /// True if the connection was closed because a budget was exceeded. What is left of it is not counted.
    is_shed: bool,
    /// True if the socket must be closed at once, without writing what is left.
    pub is_cut: bool,
    /// The memory of the connection's stream readers. `None` if it never had any.
    reader_memory: Option<Arc<BufferBudget>>,
    /// The time of the connection's entry in [`Connections::deadlines`].
    noted_ms: Option<NonZeroU64>,
    /// The bytes that the socket did not take when it was last written to.
    pub unwritten_bytes: usize,
    pub recv_bytes: u64,
    pub send_bytes: u64,
    /// The number of this connection's sessions or channels that [`Connections::open`] includes.
    sessions: u64,
    /// Dropped with the connection. `None` before its first login.
    login_alive: Option<Arc<()>>,
}

impl Conn {
    /// Marks this connection, whose key is `key`, as having something to write or to close.
    fn touch(&mut self, key: usize, dirty: &mut Vec<usize>) {
        if !self.dirty {
            self.dirty = true;
            dirty.push(key);
        }
    }

    /// Keeps input for later. Input that was kept before (`is_own`) stays in its buffer. Otherwise the rest would be copied for
    /// each request of a client that sends many at once.
    fn keep(&mut self, input: &mut BytesMut, is_own: bool) {
        match is_own && self.partial.is_empty() {
            true => self.partial = std::mem::take(input),
            false => self.partial.extend_from_slice(input),
        }
        self.is_kept = true;
    }

    /// Returns true if input is kept: the gate waits for an answer, or the client must read before it is given more answers.
    fn keeps_input(&self) -> bool {
        let phase = self.gate.phase();
        phase.keeps_input() || phase.is_open() && !self.gate.has_room_for_answers()
    }

    /// Returns the bytes of an incomplete frame.
    pub(super) fn partial_bytes(&self) -> usize {
        self.partial.len() + self.partial_taken
    }
}

/// The numbers of open sessions of AMQP 1.0, and of open channels of AMQP 0.9.1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenSessions {
    pub sessions: u64,
    pub channels: u64,
}

impl OpenSessions {
    /// Returns the number that includes those of this gate.
    fn of(&mut self, gate: &Gate) -> &mut u64 {
        if gate.has_channels() { &mut self.channels } else { &mut self.sessions }
    }
}

/// The connections of a shard; see the module.
#[derive(Debug)]
pub(super) struct Connections {
    conns: Slab<Conn>,
    /// The keys of connections with something to write or to close.
    dirty: Vec<usize>,
    /// The deadlines of connections, by key. A connection whose deadline is not near costs nothing.
    deadlines: Deadlines<usize>,
    checked_ms: u64,
    /// The limit for connections that follow their queues. With `None` no connection moves.
    occupancy: Option<Arc<Occupancy>>,
    /// The open sessions and channels of all connections here. A connection is recounted when it is taken from `dirty`,
    /// because every begin or end of a session marks it.
    open: OpenSessions,
    held: [BudgetUse; ClientBudget::ALL.len()],
    /// See [`Cx::output_room`].
    output_room: usize,
    /// The memory of stream readers of the whole node.
    reader_memory: Arc<BufferBudget>,
    /// True if publishing is stopped, by an alarm or because the node is stopping.
    blocked: bool,
    /// The reason for which every connection is being ended. `None` while the node does not stop.
    ending: Option<Arc<str>>,
    seats: Seats,
    /// The logins of unknown users that wait until the node has caught up with the catalog. At most one for each connection.
    unsure_logins: HashMap<Ticket, Login>,
    shared: Shared,
}

/// The state that the gates of a shard share.
#[derive(Debug)]
struct Shared {
    consumers: Registry<ConsumerAddress>,
    publishers: Registry<PublisherAddress>,
    tickets: Registry<TicketOwner>,
    /// The publishers that are detached when their target queue is deleted.
    watchers: Watchers,
    batch_buffer: BytesMut,
    heads: DeliveryHeads,
    exchange_counters: ExchangeCounters,
    searches: Searches,
    budget: CreditBudget,
    unique: u64,
    names: Names,
}

impl Connections {
    pub(super) fn new(here: ShardId, shards: ShardId, budgets: NodeBudgets, names: Names) -> Self {
        Self {
            conns: Slab::new(),
            dirty: Vec::new(),
            deadlines: Deadlines::default(),
            checked_ms: 0,
            occupancy: None,
            open: OpenSessions::default(),
            held: budgets.of_clients.map(BudgetUse::new),
            output_room: output_room(0, u64::MAX),
            reader_memory: budgets.readers,
            blocked: false,
            ending: None,
            seats: Seats::default(),
            unsure_logins: HashMap::default(),
            shared: Shared {
                consumers: Registry::new(here),
                publishers: Registry::new(here),
                tickets: Registry::new(here),
                watchers: Watchers::default(),
                batch_buffer: BytesMut::new(),
                heads: DeliveryHeads::default(),
                exchange_counters: ExchangeCounters::default(),
                searches: Searches::default(),
                budget: CreditBudget::share(shards.into()),
                unique: 0,
                names,
            },
        }
    }

    // ---- gates ------------------------------------------------------------------------------------------

    /// Returns the gates with their context. Make them once for a run of deliveries.
    pub(super) fn gates<'a>(
        &'a mut self,
        here: Here,
        metadata: &'a Metadata,
        mail: &'a mut Mailroom,
        counters: &'a mut Counters,
    ) -> Gates<'a> {
        let Shared {
            consumers,
            publishers,
            tickets,
            watchers,
            batch_buffer,
            heads,
            exchange_counters,
            searches,
            budget,
            unique,
            names,
        } = &mut self.shared;
        let cx = Cx {
            now_ms: here.now_ms,
            shard: here.id,
            catalog: metadata.catalog(),
            may_lag: metadata.may_lag(),
            placements: metadata.placements(),
            access: metadata.access(),
            settings: metadata.settings(),
            output_room: self.output_room,
            traces: metadata.traces(),
            consumers,
            publishers,
            tickets,
            watchers,
            post: &mut mail.post,
            batch_buffer,
            input: Input::default(),
            heads,
            counters,
            exchange_counters,
            searches,
            budget,
            unique,
            names: *names,
        };
        Gates { cx, conns: &mut self.conns, dirty: &mut self.dirty, seats: &mut self.seats }
    }

    pub(super) fn get(&self, key: usize) -> Option<&Conn> {
        self.conns.get(key)
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Conn> {
        self.conns.get_mut(key)
    }

    /// Returns the searches for routes that take more than a turn.
    pub(super) fn searches(&mut self) -> &mut Searches {
        &mut self.shared.searches
    }

    /// Returns true if a message waits for its route.
    pub(super) fn is_searching(&self) -> bool {
        !self.shared.searches.is_idle()
    }

    /// Returns a number that is larger than all keys.
    pub(super) fn places(&self) -> usize {
        self.conns.capacity()
    }

    /// Returns the messages that were published to an exchange on this shard.
    pub(super) fn counts_of_exchange(&self, exchange: ExchangeId) -> ExchangeCounts {
        self.shared.exchange_counters.get(exchange)
    }

    pub(super) fn open_sessions(&self) -> OpenSessions {
        self.open
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns the reason why the node stops, if it does.
    pub(super) fn ending(&self) -> Option<Arc<str>> {
        self.ending.clone()
    }

    /// Returns the key of the connection of this name.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.conns.iter().find(|(_, conn)| *conn.gate.peer().name == *name).map(|(key, _)| key)
    }

    /// Adds a connection. Returns its key.
    fn open(&mut self, here: Here, metadata: &Metadata, peer: IpAddr, name: Arc<str>) -> usize {
        let id = ConnectionId { origin: self.shared.names.origin, number: self.draw(here.id) };
        let entry = self.conns.vacant_entry();
        let key = entry.key();
        let client = Peer::new(id, key, peer, name, metadata.settings(), here.now_ms);
        let vhost = client.vhost.clone();
        let gate = Gate::new(client, self.blocked, metadata.settings());
        entry.insert(Conn {
            gate,
            partial: BytesMut::new(),
            is_kept: false,
            dirty: false,
            partial_taken: 0,
            sends_small: true,
            held: Default::default(),
            uncharged: Default::default(),
            encrypted: Encrypted::default(),
            owner: Owner { user: None, vhost },
            is_shed: false,
            is_cut: false,
            reader_memory: None,
            noted_ms: None,
            unwritten_bytes: 0,
            recv_bytes: 0,
            send_bytes: 0,
            sessions: 0,
            login_alive: None,
        });
        key
    }

    // ---- who is who -------------------------------------------------------------------------------------

    /// Returns a number that is unique in the node.
    pub(super) fn draw(&mut self, here: ShardId) -> u64 {
        self.shared.unique += 1;
        u64::from(here) << 56 | self.shared.unique
    }

    /// Returns the address of a consumer of this shard.
    pub(super) fn consumer(&self, consumer: ConsumerId) -> Option<ConsumerAddress> {
        self.shared.consumers.get(consumer.0).copied()
    }

    /// Returns an id for a holder of fetched messages that no gate owns. Effects for it are dropped, like those for a consumer
    /// that has ended. `None` if there are too many consumers.
    pub(super) fn new_holder(&mut self) -> Option<ConsumerId> {
        let nobody = ConsumerAddress::Gate(GateAddress { connection: usize::MAX, place: 0 });
        let id = self.shared.consumers.insert(nobody)?;
        self.shared.consumers.remove(id);
        Some(ConsumerId(id))
    }

    pub(super) fn publisher(&mut self, publisher: PublisherId) -> Option<&mut PublisherAddress> {
        self.shared.publishers.get_mut(publisher.0)
    }

    pub(super) fn add_publisher(&mut self, address: PublisherAddress) -> Option<PublisherId> {
        self.shared.publishers.insert(address).map(PublisherId)
    }

    pub(super) fn remove_publisher(&mut self, publisher: PublisherId) {
        self.shared.publishers.remove(publisher.0);
    }

    /// Returns a new ticket. Its answer belongs to `owner`.
    pub(super) fn ticket(&mut self, owner: TicketOwner) -> Option<Ticket> {
        self.shared.tickets.insert(owner).map(Ticket)
    }

    pub(super) fn ticket_owner(&self, ticket: Ticket) -> Option<TicketOwner> {
        self.shared.tickets.get(ticket.0).copied()
    }

    pub(super) fn remove_ticket(&mut self, ticket: Ticket) {
        self.shared.tickets.remove(ticket.0);
    }

    /// Takes the links of clients' publishers that end when this queue is deleted. Another node watches for its own clients.
    pub(super) fn take_watchers(&mut self, queue: QueueId) -> Vec<GateAddress> {
        let watchers = self.shared.watchers.take(queue);
        let links =
            watchers.into_iter().filter_map(|publisher| match self.shared.publishers.get(publisher.0) {
                Some(PublisherAddress::Gate(to)) => Some(*to),
                _ => None,
            });
        links.collect()
    }

    // ---- the end of the turn ----------------------------------------------------------------------------

    /// Marks a connection as having something to write or to close.
    pub(super) fn touch(&mut self, key: usize) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.touch(key, &mut self.dirty);
        }
    }

    /// Moves the deadlines of all clients: their sockets were not read for `late_ms`. Their entries are made again when they
    /// are visited.
    pub(super) fn forgive_lateness(&mut self, late_ms: u64, now_ms: u64) {
        self.conns.iter_mut().for_each(|(_, conn)| conn.gate.forgive_lateness(late_ms, now_ms));
    }

    /// Returns when the deadlines must be checked next, in milliseconds since the epoch.
    pub(super) fn next_check(&self) -> Option<u64> {
        self.deadlines.first().map(|at| at.max(self.checked_ms + CHECK_MS))
    }

    // ---- memory -----------------------------------------------------------------------------------------

    /// Returns the reader memory of one connection. `part` makes it at the first call.
    pub(super) fn reader_memory(
        &mut self,
        key: usize,
        part: impl FnOnce(&Arc<BufferBudget>) -> Arc<BufferBudget>,
    ) -> Option<Arc<BufferBudget>> {
        let node = &self.reader_memory;
        let conn = self.conns.get_mut(key)?;
        Some(conn.reader_memory.get_or_insert_with(|| part(node)).clone())
    }

    /// Returns the reader memory of the whole node.
    pub(super) fn node_reader_memory(&self) -> &Arc<BufferBudget> {
        &self.reader_memory
    }

    /// Returns the bytes of credit granted to publishers beyond the fixed credit, and their limit.
    pub(super) fn publisher_credit(&self) -> (u64, u64) {
        (self.shared.budget.used(), self.shared.budget.limit())
    }
}

/// The gates of a shard with their context.
pub(super) struct Gates<'a> {
    cx: Cx<'a>,
    conns: &'a mut Slab<Conn>,
    dirty: &'a mut Vec<usize>,
    seats: &'a mut Seats,
}

impl<'a> Gates<'a> {
    /// Returns the dirty connection at position `at`.
    pub(super) fn dirty(&self, at: usize) -> Option<usize> {
        self.dirty.get(at).copied()
    }

    /// Lets one gate do something, and marks its connection as dirty. Returns `None` if the connection is
    /// closed.
    #[inline(always)]
    pub(super) fn with<R>(&mut self, key: usize, act: impl FnOnce(&mut Gate, &mut Cx<'a>) -> R) -> Option<R> {
        let conn = self.conns.get_mut(key)?;
        let result = act(&mut conn.gate, &mut self.cx);
        conn.touch(key, self.dirty);
        Some(result)
    }
}

impl Deliver for Gates<'_> {
    /// Returns false if the consumer is not on this shard, or if it reads a stream and has no capacity.
    /// Consumers of streams are always on this shard, or already detaching.
    #[inline]
    fn deliver(&mut self, lent: DeliveryRef<'_>) -> bool {
        match self.cx.consumers.get(lent.consumer.0).copied() {
            Some(ConsumerAddress::Gate(to)) => {
                self.with(to.connection, |gate, cx| gate.handle_delivery(to, lent, cx)).unwrap_or(true)
            }
            Some(ConsumerAddress::Seat(seat)) => {
                self.seats.deliver(seat, lent);
                true
            }
            None => false,
        }
    }
}
