//! Everything of a shard that goes to the disk and comes back: records of the log, the backlog in packs, and the space that
//! both take. Streams have a room of their own.
//!
//! ```text
//!   facts ──> unwritten, journal ──> the log         (journal, unwritten, logged, writes)
//!   ready messages ──> pages ──> packs               (pages)
//!   garbage ──> evacuation, copies ──> space         (reclaim, compact)
//! ```
//!
//! The order of one turn: 1. [`Storage::put`] for each durable message; 2. [`Storage::close`] for each run of requests that were
//! applied, which asks the queue's driver; 3. [`Storage::hold`] for the receipts that stand on its facts; 4. at the end, `poll_handover` and the other polls of
//! [`super::Shard`]. What is held leaves with the completion.

mod compact;
mod journal;
mod logged;
mod pages;
mod reclaim;
mod slot;
mod unwritten;
mod writes;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::catalog::Change;
use broker::explain::LogFacts;
use broker::ids::{QueueId, ShardId};
use queue::{Drive, Fact, Level, Mark, Put, Solo};
use wal::{Extent, Step};

use self::journal::Journal;
use self::pages::Pages;
use self::reclaim::{Evacuating, Evacuation, GARBAGE_ALLOWED};
use self::slot::Reading;
pub(super) use self::slot::{QueueSlot, RunPlace};
use self::unwritten::AllUnwritten;
pub use self::unwritten::UNWRITTEN_BYTES_MAX;
pub use self::writes::Writes;
use super::receipts::{Receipt, Receipts};

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub struct StorageLimits {
    /// Bytes of garbage that the log may hold whatever is alive.
    pub garbage_allowed: u64,
    /// Bytes of memory that the ready messages of all queues may take before some of them go to the disk.
    pub backlog_memory: u64,
    /// Bytes of the disk that the log keeps for the time when it is full; see [`wal::Size::short`].
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
        Self {
            garbage_allowed: GARBAGE_ALLOWED,
            backlog_memory: Self::BACKLOG_MEMORY,
            reserve_bytes: wal::RESERVE_BYTES,
            unwritten_max: UNWRITTEN_BYTES_MAX,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Storage {
    journal: Journal,
    /// What was to be written when the turn began.
    turn_began_at: u64,
    unwritten: AllUnwritten,
    pages: Pages,
    /// Queues that keep facts back until the end of the turn.
    gone: Vec<QueueId>,
    // ---- how the log is
    /// The log has failed: nothing durable is applied until it has taken what it gave back.
    log_failed: Option<Step>,
    /// One handover may be tried though the log has failed.
    log_retry: bool,
    /// The disk is full, and the log lives on its reserve.
    log_short: bool,
    /// The newest file of the log that this shard has heard of: what it writes now stands there or later.
    log_file: u64,
    // ---- space
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
    /// What this shard has written of the evacuation.
    evacuating: Option<Evacuating>,
    /// Of the next evacuation.
    evacuation_files: u64,
    /// To be evacuated as soon as nothing is away.
    evacuate_next: Option<u64>,
    forget: Option<u64>,
}

impl Storage {
    pub fn new(shards: ShardId, limits: StorageLimits, live: Arc<[AtomicU64]>) -> Self {
        Self {
            journal: Journal::default(),
            turn_began_at: 0,
            unwritten: AllUnwritten::new(limits.unwritten_max),
            pages: Pages::new(limits.backlog_memory / u64::from(shards)),
            gone: Vec::new(),
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
            evacuating: None,
            evacuation_files: 1,
            evacuate_next: None,
            forget: None,
        }
    }

    // ---- what the other rooms ask -------------------------------------------------------------------------

    /// Whether the log takes nothing new: it has failed, or the disk is full.
    pub fn refuses(&self) -> bool {
        self.log_failed.is_some() || self.log_short
    }

    /// Whether the log lives on its reserve, which is for nothing new.
    pub fn is_short(&self) -> bool {
        self.log_short
    }

    /// Whether there is too much in memory, and it cannot leave.
    pub fn is_stuck(&self) -> bool {
        self.pages.is_stuck(!self.log_short)
    }

    /// Whether receipts must wait until memory has left for the disk.
    pub fn holds_memory(&self) -> bool {
        self.pages.is_full()
    }

    /// Receipts that wait until there is memory for more.
    pub fn waiting_for_memory(&mut self) -> &mut Receipts {
        &mut self.pages.receipts
    }

    /// What may keep receipts back, for people.
    pub fn facts(&self) -> LogFacts {
        LogFacts {
            failed: self.refuses() || self.is_stuck(),
            receipts_held: self.journal.receipts_held() + self.unwritten.messages,
            memory_receipts_held: self.pages.receipts.messages(),
        }
    }

    /// Bytes of memory that messages take, about, and how many they may take before some of them leave.
    pub fn backlog(&self) -> (u64, u64) {
        (self.pages.used(), self.pages.limit())
    }

    /// Whether records wait for the log, or for its answer.
    pub fn has_unlogged(&self) -> bool {
        !self.journal.is_idle() || self.unwritten.messages > 0
    }

    /// Whether receipts wait for the log, or for memory.
    pub fn holds_receipts(&self) -> bool {
        self.journal.holds_receipts() || self.unwritten.messages > 0 || !self.pages.receipts.is_empty()
    }

    /// When the polls of [`super::Shard`] have something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        let journal = self.journal.next_deadline().filter(|_| self.log_failed.is_none());
        let pages = self.pages.next_deadline(!self.log_short);
        journal.into_iter().chain(pages).chain(self.unwritten.next_deadline(!self.log_short)).min()
    }

    /// Whether records of old files are to be written once more, by the turns that follow.
    pub fn is_evacuating(&self) -> bool {
        self.evacuating.is_some()
    }

    /// Bytes of records that the end of this turn writes, so far.
    pub fn bytes_to_write(&self) -> u64 {
        self.journal.open_bytes()
    }

    /// A turn begins.
    pub fn begin_turn(&mut self) {
        self.turn_began_at = self.bytes_to_write();
    }

    /// Bytes of records that this turn has made.
    pub fn bytes_made(&self) -> u64 {
        self.bytes_to_write().saturating_sub(self.turn_began_at)
    }

    // ---- what a queue says --------------------------------------------------------------------------------

    /// A queue that has its home here from now on.
    pub fn add(&mut self, slot: &mut QueueSlot) {
        self.pages.recount(0, slot.pageable);
        self.pages.note_large(slot);
        slot.live_counted = slot.live_bytes();
        self.live_bytes += slot.live_counted;
    }

    /// A queue that is gone. Nobody has what was not settled or written of it.
    pub fn remove(&mut self, slot: &mut QueueSlot, receipts: &mut Receipts) {
        let (queue, before) = (slot.id, slot.driver.deferral());
        if let queue::Driver::Solo(solo) = &mut slot.driver {
            solo.release(|receipt| receipts.push(Receipt::of(queue, receipt)));
        }
        self.unwritten.recount(before, slot.driver.deferral());
        self.pages.recount(slot.pageable, 0);
        self.pages.forget_large(slot);
        self.live_bytes -= slot.live_counted;
    }

    /// Called by the chores: forgets a queue that no longer has enough in memory for a run.
    pub fn forget_small(&mut self, slot: &mut QueueSlot) {
        if !slot.fifo.may_page_out() {
            self.pages.forget_large(slot);
        }
    }

    /// A message of a queue that has a fact. Returns true if its driver gives the receipt: then the message may be settled
    /// before it is written (docs/decisions/0022). `defers`: [`QueueSlot::defers`].
    #[inline]
    pub fn put(&mut self, queue: QueueId, solo: &mut Solo, defers: &mut bool, put: Put<'_>) -> bool {
        let is_deferred = self.unwritten.defer(queue, solo, defers, put);
        if !is_deferred {
            self.journal.push_put(queue, put, solo.syncs());
        }
        is_deferred
    }

    /// Closes what a queue has said since it was asked last: its driver decides, and facts, reads and runs are taken out of
    /// `output`. Returns the mark, and how many messages the log need never hear of.
    pub fn close(&mut self, shard: ShardId, slot: &mut QueueSlot, output: &mut queue::Output) -> (Mark, u64) {
        let before = slot.driver.deferral();
        let mark = slot.driver.close(&mut slot.fifo, output);
        let never_written = self.unwritten.recount(before, slot.driver.deferral());
        if !output.facts.is_empty() {
            self.log_facts(slot, &output.facts);
            output.facts.clear();
        }
        for load in output.loads.drain(..) {
            if let Some(kept) = slot.extents.get(&load.run) {
                let reading = Reading { queue: slot.id, load, extent: kept.extent, copied: false };
                self.pages.read(u32::from(shard), reading);
            }
        }
        for run in output.released.drain(..) {
            match slot.extents.remove(&run) {
                Some(kept) if slot.driver.is_logged() => self.journal.release(kept.extent),
                Some(kept) => self.pages.release(kept.extent),
                None => {}
            }
        }
        let pageable = slot.fifo.pageable_bytes();
        self.pages.recount(slot.pageable, pageable);
        slot.pageable = pageable;
        self.pages.note_large(slot);
        slot.recount_live(&mut self.live_bytes);
        (mark, never_written)
    }

    /// Keeps a receipt until the records so far have reached a level.
    pub fn hold(&mut self, receipt: Receipt, level: Level) {
        self.journal.hold(receipt, level);
    }

    /// Nothing in it is needed any more, and the log knows.
    pub fn release(&mut self, extent: Extent) {
        self.pages.release(extent);
    }

    // ---- what the catalog says ----------------------------------------------------------------------------

    /// A change of the catalog that must last.
    pub fn push_change(&mut self, version: u64, change: &Change) {
        self.journal.push_change(version, change);
    }

    /// All changes of the decision of this number have been pushed: the decider wants to know when they are synced.
    pub fn decided(&mut self, number: u64) {
        self.journal.decided(number);
    }

    /// Facts of a queue to the journal. Those that the next may continue are kept back until the end of the turn.
    fn log_facts(&mut self, slot: &mut QueueSlot, facts: &[Fact]) {
        let (queue, fsync) = (slot.id, slot.driver.syncs());
        for fact in facts {
            match fact {
                Fact::Gone(_) | Fact::Taken(_) => {
                    if slot.gone.is_none() && slot.taken.is_none() {
                        self.gone.push(queue);
                    }
                    if let Some(ended) = slot.keep_back(fact) {
                        self.journal.push_fact(queue, &ended, None, fsync);
                    }
                }
                Fact::Put { .. } | Fact::Returned { .. } | Fact::Stored(_) | Fact::Damaged => {
                    let run =
                        if let Fact::Stored(stored) = fact { slot.extents.get(&stored.run) } else { None };
                    self.journal.push_fact(queue, fact, run.map(|kept| kept.extent), fsync);
                }
            }
        }
    }
}
