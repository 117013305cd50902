//! One shard: its connections, its queues, its copy of the catalog, and the turn that moves work between
//! them. A turn is one iteration of the shard's event loop. A gate translates one connection's protocol.
//!
//! ```text
//!   handle_input ──> gates ──> requests ──┐                      ┌──> records ──> write
//!   handle_mail ───────────────────────> turn: apply, carry out ─┼──> mail ─────> poll_mail
//!   handle_logged ──> receipts ───────────┘                      └──> output ───> dirty connections
//! ```
//!
//! A shard has no sockets, clock or tasks. Its driver (the runtime, or a test) supplies bytes and time, and
//! takes away the results.
//!
//! A shard consists of components. The fields of a component are private to its folder. A method of [`Shard`]
//! that needs two components is in the folder of the component that it changes most.
//!
//! | component | what it has |
//! |---|---|
//! | [`connections`] | the gates of the sockets, what gates share, and which have output; the seats of other nodes |
//! | [`queues`] | machines of classic and quorum queues, and requests for queues without a home (an owning shard) |
//! | [`streams`] | streams that live here, and readers that are here |
//! | [`groups`] | Raft groups: their members here, and what these have to propose |
//! | [`peers`] | the other nodes of the cluster: which can be reached, which are supported, and what waits to be sent |
//! | [`remote`] | queues of other nodes that clients of this shard use, and clients of other nodes that use queues of this one |
//! | [`far_looks`] | what the admin API asks of other nodes, until it is answered |
//! | [`limited`] | what the nodes tell each other for limits of users and virtual hosts |
//! | [`storage`] | journal, deferred writes, backlog in packs, and disk space |
//! | [`metadata`] | catalog, placements, access and settings; on one shard also the decider |
//! | [`mail`] | what is posted, boxes to and from other shards, and receipts |
//!
//! The driver calls, in this order: 1. [`Shard::set_now`]; 2. the `handle_*` of everything that arrived;
//! 3. [`Shard::set_busy`] and [`Shard::begin_turn`]; 4. [`Shard::handle_timeout`]; 5. [`Shard::turn`]; 6. [`Shard::write`]; 7. the other polls;
//! 8. [`Shard::take_dirty`], and then it writes the output of those connections.

mod admin_api;
mod batching;
mod budgets;
mod connections;
mod deadlines;
mod direct;
pub mod far_looks;
mod groups;
mod late;
pub mod limited;
pub mod looks;
mod mail;
mod metadata;
mod moving;
mod mutation;
mod notices;
mod peers;
pub mod questions;
mod queues;
mod receipts;
mod remote;
mod requests;
mod slot;
mod storage;
mod streams;
mod troubles;
mod turn;
mod vhosts;
mod walks;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::client_budget::ClientBudget;
use broker::counters::Counters;
use broker::explain::Comers;
use broker::load::{BusyTime, Load};
use broker::placements::Placements;
use broker::settings::Settings;
use broker::unguessable::Names;
use catalog::Catalog;
use catalog::access::Access;
use catalog::ids::{NodeNumber, Origin, ShardId};
use hashbrown::HashMap;
use queue::PublisherId;
use wal::BufferBudget;

use self::connections::{Connections, Gates};
pub(crate) use self::connections::{Encrypted, FAIR_PART, READ_BUFFER, READ_MAX};
pub use self::connections::{Migration, Occupancy};
use self::far_looks::FarLooks;
use self::groups::Groups;
pub use self::late::{LATE_SHARD, LATE_TURN, Late};
use self::limited::Limited;
use self::mail::Mailroom;
pub(crate) use self::metadata::DECIDER;
use self::metadata::Metadata;
pub use self::mutation::Mutation;
pub use self::peers::PeerMail;
use self::peers::Peers;
use self::queues::Queues;
use self::remote::Remote;
use self::storage::Storage;
pub use self::storage::{DirectWrites, StorageLimits, Writes};
use self::streams::Streams;
use self::walks::{Rows, Walks};
use crate::facts::FinishedGroup;
use crate::ledger::Ledger;

/// The time between two rounds of a shard's chores, in milliseconds. The chores inspect the space in the log,
/// runs that pin too much, and loaded messages that nobody needs. Waking up for them is most of the cost of
/// an idle broker.
pub(crate) const CHORES_MS: u64 = 1000;

/// What a shard is made from.
#[derive(Debug)]
pub struct Setup {
    pub id: ShardId,
    pub shards: ShardId,
    /// The number of the node in its cluster.
    pub number: NodeNumber,
    pub settings: Arc<Settings>,
    pub access: Arc<Access>,
    pub catalog: Catalog,
    /// The member of the catalog's group. Present for the deciding shard only, and not on a node that has just joined a cluster.
    pub(crate) member: Option<FinishedGroup>,
    /// The index of the last entry that the catalog has applied.
    pub applied: u64,
    pub placements: Placements,
    /// For each shard, the approximate number of live bytes in the log.
    pub live: Arc<[AtomicU64]>,
    pub limits: StorageLimits,
    /// Makes names that nobody can guess.
    pub names: Names,
    pub(crate) budgets: NodeBudgets,
}

/// What the shards of a node share to enforce its budgets.
#[derive(Clone, Debug)]
pub struct NodeBudgets {
    of_clients: [Arc<Ledger>; ClientBudget::ALL.len()],
    readers: Arc<BufferBudget>,
}

impl NodeBudgets {
    /// Makes the budgets of a node with this many shards.
    pub fn new(shards: ShardId, settings: &Settings) -> Self {
        let ledger = |budget: ClientBudget| Arc::new(Ledger::new(shards, budget.limit(settings)));
        let readers = streams::node_budget(settings.reader_memory);
        Self { of_clients: ClientBudget::ALL.map(ledger), readers: Arc::new(readers) }
    }
}

/// The number of this shard, its node and the start of that, and its current time.
#[derive(Clone, Copy, Debug)]
struct Here {
    id: ShardId,
    origin: Origin,
    /// The number of the node in its cluster.
    number: NodeNumber,
    now_ms: u64,
}

/// A shard; see the module.
#[derive(Debug)]
pub struct Shard {
    here: Here,
    metadata: Metadata,
    connections: Connections,
    queues: Queues,
    streams: Streams,
    groups: Groups,
    peers: Peers,
    remote: Remote,
    far_looks: FarLooks,
    limited: Limited,
    storage: Storage,
    mail: Mailroom,
    /// The questions of the admin API that are not answered yet.
    admin_api: admin_api::Waiting,
    rows: Rows,
    walks: Walks,
    pub counters: Counters,
    past: vhosts::Past,
    /// Clients whose connections were brief.
    comers: Comers,
    /// What was done when the current turn began.
    done: late::Done,
    load: Load,
    chores_done_ms: u64,
    /// The batches of messages that are moved and whose routes take more than a turn, by their publisher.
    moves: HashMap<PublisherId, moving::Moves>,
    /// The publisher of the broker's own messages. `None` until a queue gets one of them.
    notice_publisher: Option<PublisherId>,
    stopping: bool,
    #[cfg(debug_assertions)]
    mutation: Option<Mutation>,
}

impl Shard {
    pub fn new(setup: Setup) -> Self {
        let Setup {
            id,
            shards,
            number,
            settings,
            access,
            catalog,
            member,
            applied,
            placements,
            live,
            limits,
            names,
            budgets,
        } = setup;
        Self {
            here: Here { id, origin: names.origin, number, now_ms: 0 },
            metadata: Metadata::new((id, shards), settings, access, catalog, (member, applied), placements),
            connections: Connections::new(id, shards, budgets, names),
            queues: Queues::default(),
            groups: Groups::default(),
            peers: Peers::default(),
            remote: Remote::default(),
            far_looks: FarLooks::default(),
            limited: Limited::default(),
            streams: Streams::default(),
            storage: Storage::new(shards, limits, live),
            mail: Mailroom::new(id, shards),
            admin_api: admin_api::Waiting::default(),
            rows: Rows::default(),
            walks: Walks::default(),
            counters: Counters::default(),
            past: vhosts::Past::default(),
            comers: Comers::default(),
            done: late::Done::default(),
            load: Load::default(),
            chores_done_ms: 0,
            moves: HashMap::default(),
            notice_publisher: None,
            stopping: false,
            #[cfg(debug_assertions)]
            mutation: None,
        }
    }

    pub fn id(&self) -> ShardId {
        self.here.id
    }

    /// Advances the time, in milliseconds since the epoch. An earlier time is ignored.
    pub fn set_now(&mut self, now_ms: u64) {
        self.here.now_ms = self.here.now_ms.max(now_ms);
    }

    pub fn now_ms(&self) -> u64 {
        self.here.now_ms
    }

    /// Says how busy the thread of the shard was until now. Call it before [`Shard::begin_turn`].
    pub fn set_busy(&mut self, busy: BusyTime) {
        self.load.note(busy);
    }

    /// Sets the settings for everything that is opened from now on.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.metadata.set_settings(settings);
    }

    /// Returns the gates of this shard. Make them once for a run of deliveries.
    fn gates(&mut self) -> Gates<'_> {
        self.connections.gates(self.here, &self.metadata, &mut self.mail, &mut self.counters)
    }

    /// Handles the timers of connections and queues, and starts the chores. Walks over all queues are part of
    /// the turn.
    pub fn handle_timeout(&mut self) {
        self.connection_timeouts();
        self.stream_timeouts();
        self.queue_timeouts();
        self.peer_timeouts();
        self.remote_timeouts();
        self.far_look_timeouts();
        self.sight_timeouts();
        self.miss_timeouts();
        self.loss_timeouts();
        if self.chores_done_ms + CHORES_MS <= self.here.now_ms {
            self.chores_done_ms = self.here.now_ms;
            self.groups.end_period();
            self.refuse_in_minority();
            self.metadata.remove_traces_over(self.here.now_ms);
            self.publish_live_bytes();
            self.forget_again();
            self.copy_users_again();
            self.reclaim();
            self.ask_for_size();
            self.walks.chores.begin_if_idle();
            if self.streams.shares_have_shrunk() {
                self.walks.tails.begin();
            }
        }
    }

    /// Returns when [`Shard::handle_timeout`] must be called next, in milliseconds since the epoch.
    pub fn next_timeout(&self) -> u64 {
        let deadlines = [
            self.queues.next_due(),
            self.streams.next_deadline(),
            self.groups.next_deadline(),
            self.peers.next_deadline(),
            self.remote.next_deadline(),
            self.far_looks.next_deadline(),
            self.metadata.next_deadline(),
            self.next_loss(),
            self.next_limited(),
            self.storage.next_deadline(),
            self.connections.next_check(),
        ];
        deadlines.into_iter().flatten().fold(self.chores_done_ms + CHORES_MS, u64::min)
    }

    /// The most rows that one turn has walked so far, for tests.
    pub fn most_rows_walked(&self) -> usize {
        self.rows.most()
    }

    /// Limits the rows that a turn walks, for tests.
    pub fn walk_at_most(&mut self, rows: usize) {
        self.rows.set_max(rows);
    }

    /// Returns true if records wait to be written, or for the log's answer.
    pub fn has_unlogged(&self) -> bool {
        self.storage.has_unlogged() || self.groups.has_unproposed()
    }

    /// Returns true if receipts wait for the disk.
    pub fn has_held_receipts(&self) -> bool {
        self.storage.holds_receipts() || self.groups.holds_receipts() || self.streams.hold_receipts()
    }

    /// Returns the bytes of records and chunks that the end of this turn will write, as far as they are known
    /// now.
    pub fn bytes_to_write(&self) -> u64 {
        self.storage.bytes_to_write() + self.streams.bytes_to_write()
    }
}
