//! One shard: its connections, its queues, its copy of the catalog, and the turn that moves work between them.
//!
//! ```text
//!   handle_input ──> gates ──> requests ──┐                      ┌──> records ──> write
//!   handle_mail ───────────────────────> turn: apply, carry out ─┼──> mail ─────> poll_mail
//!   handle_logged ──> receipts ───────────┘                      └──> output ───> dirty connections
//! ```
//!
//! No sockets, no clock, no tasks: whoever drives it brings bytes and time and takes away what it made.
//!
//! A shard is made of rooms. What a room keeps is private to its folder; [`Shard`] is the hallway between them, and what
//! needs two rooms is a method of it, in the folder of the room that it changes most.
//!
//! | room | what it keeps |
//! |---|---|
//! | [`connections`] | sockets' gates, what gates share, what is dirty |
//! | [`queues`] | machines of classic queues, requests without a home |
//! | [`streams`] | streams that live here, readers that are here |
//! | [`storage`] | journal, deferred writes, backlog, space |
//! | [`metadata`] | catalog, placements, access, settings, and the decider |
//! | [`mail`] | what is posted, boxes to and from shards, receipts |
//!
//! Whoever drives a shard calls, in this order: 1. [`Shard::set_now`]; 2. the `handle_*` of what has come;
//! 3. [`Shard::handle_timeout`]; 4. [`Shard::turn`]; 5. [`Shard::write`]; 6. the other polls; 7. [`Shard::take_dirty`], and
//! writes what those connections have.

mod budgets;
mod connections;
mod deadlines;
mod desk;
mod direct;
mod mail;
mod metadata;
mod queues;
mod receipts;
mod requests;
mod storage;
mod streams;
mod turn;
mod walks;

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::access::Access;
use broker::catalog::Catalog;
use broker::counters::Counters;
use broker::ids::ShardId;
use broker::placements::Placements;
use broker::settings::Settings;
use wal::Held;

use self::connections::{Connections, Gates};
pub use self::connections::{Moved, Occupancy};
pub(crate) use self::connections::{READ_BUFFER, READ_MAX};
use self::mail::Mailroom;
use self::metadata::Metadata;
use self::queues::Queues;
use self::storage::Storage;
pub use self::storage::{StorageLimits, Writes};
use self::streams::Streams;
use self::walks::{Rows, Walks};
use crate::tally::Tally;

/// How often a shard looks after what nobody waits for: room in the log, runs that hold too much, what was read and is
/// not wanted. Being woken for it is most of what a broker costs that does nothing.
const CHORES_MS: u64 = 1000;

/// What a shard is made with.
#[derive(Debug)]
pub struct Setup {
    pub id: ShardId,
    pub shards: ShardId,
    pub settings: Arc<Settings>,
    pub access: Arc<Access>,
    pub catalog: Catalog,
    pub placements: Placements,
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

/// Which shard this is, and what time it is there.
#[derive(Clone, Copy, Debug)]
struct Here {
    id: ShardId,
    now_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    here: Here,
    metadata: Metadata,
    connections: Connections,
    queues: Queues,
    streams: Streams,
    storage: Storage,
    mail: Mailroom,
    /// Questions of the desk that are not answered.
    desk: desk::Waiting,
    rows: Rows,
    walks: Walks,
    pub counters: Counters,
    chores_done_ms: u64,
    stopping: bool,
}

impl Shard {
    pub fn new(setup: Setup) -> Self {
        let Setup { id, shards, settings, access, catalog, placements, live, limits, reply_keys, tallies } =
            setup;
        Self {
            here: Here { id, now_ms: 0 },
            metadata: Metadata::new(id, shards, settings, access, catalog, placements),
            connections: Connections::new(id, shards, tallies, reply_keys),
            queues: Queues::default(),
            streams: Streams::default(),
            storage: Storage::new(shards, limits, live),
            mail: Mailroom::new(id, shards),
            desk: desk::Waiting::default(),
            rows: Rows::default(),
            walks: Walks::default(),
            counters: Counters::default(),
            chores_done_ms: 0,
            stopping: false,
        }
    }

    pub fn id(&self) -> ShardId {
        self.here.id
    }

    /// Time goes on. It never goes back.
    pub fn set_now(&mut self, now_ms: u64) {
        self.here.now_ms = self.here.now_ms.max(now_ms);
    }

    pub fn now_ms(&self) -> u64 {
        self.here.now_ms
    }

    /// The gates of this shard. To be made once for a run of deliveries.
    fn gates(&mut self) -> Gates<'_> {
        self.connections.gates(self.here, &self.metadata, &mut self.mail, &mut self.counters)
    }

    /// Timers of connections and queues, and the chores. Those over all queues are done by the turn.
    pub fn handle_timeout(&mut self) {
        self.connection_timeouts();
        self.stream_timeouts();
        self.queue_timeouts();
        if self.chores_done_ms + CHORES_MS <= self.here.now_ms {
            self.chores_done_ms = self.here.now_ms;
            self.publish_live_bytes();
            self.forget_again();
            self.reclaim();
            self.walks.chores.begin_if_idle();
            if self.streams.have_less_room() {
                self.walks.tails.begin();
            }
        }
    }

    /// When [`Shard::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> u64 {
        let deadlines = [
            self.queues.next_due(),
            self.streams.next_deadline(),
            self.storage.next_deadline(),
            self.connections.next_check(),
        ];
        deadlines.into_iter().flatten().fold(self.chores_done_ms + CHORES_MS, u64::min)
    }

    /// The most rows that one turn has walked so far, for tests.
    pub fn most_rows_walked(&self) -> usize {
        self.rows.most()
    }

    /// Lets a turn walk so many rows from now on, for tests.
    pub fn walk_at_most(&mut self, rows: usize) {
        self.rows.set_max(rows);
    }

    /// Whether records wait for the log, or for its answer.
    pub fn has_unlogged(&self) -> bool {
        self.storage.has_unlogged()
    }

    /// Whether receipts wait for the disk.
    pub fn has_held_receipts(&self) -> bool {
        self.storage.holds_receipts() || self.streams.hold_receipts()
    }

    /// Bytes that the end of this turn writes, so far: records and chunks.
    pub fn bytes_to_write(&self) -> u64 {
        self.storage.bytes_to_write() + self.streams.bytes_to_write()
    }
}
