//! Everything of a shard that is on the disk: records of the log, the backlog in packs, and the space that
//! both take. Streams are a component of their own.
//!
//! ```text
//!   facts ──> unwritten, journal ──> the log         (journal, unwritten, logged, writes)
//!   ready messages ──> pages ──> packs               (pages)
//!   garbage ──> evacuation, copies ──> space         (reclaim, compact)
//! ```
//!
//! An evacuation copies live records out of an old log file. The order of one turn is:
//!
//! - [`Storage::put`] for each durable message;
//! - [`Storage::close`] after each run of requests;
//! - [`Storage::hold`] for the receipts that depend on its facts, and [`Storage::hold_settled`] for such answers to
//!   settlements;
//! - at the end, `poll_handover` and the other polls of [`super::Shard`]. It calls `close_records` first, which adds the records of rounds of
//!   groups ([`Storage::push_round`]).
//!
//! Receipts and answers that are held leave when the log has answered.

mod compact;
mod journal;
mod logged;
mod pages;
mod reading;
mod reclaim;
mod unwritten;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use catalog::Change;
use catalog::ids::{QueueId, ShardId};
use queue::{Deferral, Effect, Fact, Level, LocalFact, Put};
use wal::{Extent, Records, Size, Step};

use self::journal::{Answer, Journal};
use self::pages::Pages;
pub(super) use self::reading::{Peeking, Purpose, Reading};
use self::reclaim::{Evacuating, Evacuation, GARBAGE_ALLOWED};
use self::unwritten::AllUnwritten;
pub(super) use self::unwritten::UNWRITTEN_BYTES_MAX;
pub use self::writes::Writes;
use super::receipts::{Receipt, Receipts};
use super::slot::{QueueSlot, RunPlace};

/// Limits of what is stored.
#[derive(Clone, Copy, Debug)]
pub struct StorageLimits {
    /// Bytes of garbage that the log may hold, however much is alive.
    pub garbage_allowed: u64,
    /// Bytes of memory that the ready messages of all queues may take before some of them are paged out.
    pub backlog_memory: u64,
    /// Bytes of disk that the log reserves for the time when the disk is full; see [`wal::Size::on_reserve`].
    pub reserve_bytes: u64,
    /// Bytes of messages whose writing may be deferred, in the hope that they are settled first.
    pub unwritten_max: u64,
    pub direct_writes: DirectWrites,
}

/// On which file systems the log may be written past the page cache (docs/decisions/0062).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectWrites {
    /// Those that are known to sync such a write when it asks for that.
    #[default]
    Known,
    /// All that allow it.
    All,
    None,
}

impl StorageLimits {
    /// 64 MiB: some 200,000 small messages, which a fast consumer drains in a second. It is a tenth of the
    /// memory of a small machine.
    pub const BACKLOG_MEMORY: u64 = 64 << 20;
}

impl Default for StorageLimits {
    fn default() -> Self {
        Self {
            garbage_allowed: GARBAGE_ALLOWED,
            backlog_memory: Self::BACKLOG_MEMORY,
            reserve_bytes: wal::RESERVE_BYTES,
            unwritten_max: UNWRITTEN_BYTES_MAX,
            direct_writes: DirectWrites::default(),
        }
    }
}

/// The storage of a shard. See the module.
#[derive(Debug)]
pub(super) struct Storage {
    journal: Journal,
    /// The bytes that were waiting to be written when the turn began.
    turn_began_at: u64,
    unwritten: AllUnwritten,
    pages: Pages,
    /// Queues that keep facts back until the end of the turn.
    with_kept_facts: Vec<QueueId>,
    // ---- the state of the log
    /// The log has failed. Nothing durable is applied until it has accepted what it returned.
    log_failed: Option<Step>,
    /// One handover may be tried although the log has failed.
    log_retry: bool,
    /// The disk is full, and the log uses its reserve.
    log_on_reserve: bool,
    /// See [`Shard::keep_log`](crate::shard::Shard::keep_log).
    keeps_log: bool,
    /// The newest file of the log that this shard knows. New records are written there or later.
    log_file: u64,
    // ---- space
    /// The file where the catalog's records begin.
    definitions_file: u64,
    /// The size of the catalog's records when they were last written together. They are alive, too.
    definitions_bytes: u64,
    /// For each shard, the approximate number of live bytes in the log.
    live: Arc<[AtomicU64]>,
    /// The approximate size of the records that the queues of this shard need.
    live_bytes: u64,
    garbage_allowed: u64,
    reserve_bytes: u64,
    /// On the node shard: the last report of a log that is mostly garbage, as its bytes, oldest file and
    /// newest file.
    log_full: Option<(u64, u64, u64)>,
    /// The last file that was evacuated.
    evacuated: u64,
    evacuation: Option<Evacuation>,
    /// The progress of this shard's part of an evacuation.
    evacuating: Option<Evacuating>,
    /// The number of files that the next evacuation may take.
    evacuation_files: u64,
    /// The file to evacuate as soon as no handover is in flight.
    evacuate_next: Option<u64>,
    forget: Option<u64>,
    /// The size of the log, when this shard heard of it last.
    log_size: Option<Size>,
}

impl Storage {
    pub(super) fn new(shards: ShardId, limits: StorageLimits, live: Arc<[AtomicU64]>) -> Self {
        Self {
            journal: Journal::default(),
            turn_began_at: 0,
            unwritten: AllUnwritten::new(limits.unwritten_max),
            pages: Pages::new(limits.backlog_memory / u64::from(shards)),
            with_kept_facts: Vec::new(),
            log_failed: None,
            log_retry: false,
            log_on_reserve: false,
            keeps_log: false,
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
            log_size: None,
        }
    }

    // ---- for other components
    // ------------------------------------------------------------------------------

    /// Returns true if the log accepts nothing new: it has failed, or the disk is full.
    pub(super) fn refuses(&self) -> bool {
        self.log_failed.is_some() || self.log_on_reserve
    }

    /// Returns true if the log uses its reserve, which accepts nothing new.
    pub(super) fn is_on_reserve(&self) -> bool {
        self.log_on_reserve
    }

    /// Returns true if too much is in memory and it cannot be paged out.
    pub(super) fn is_stuck(&self) -> bool {
        self.pages.is_stuck(!self.log_on_reserve)
    }

    /// Returns true if receipts must wait until memory has been paged out.
    pub(super) fn holds_memory(&self) -> bool {
        self.pages.is_full()
    }

    /// Receipts that wait until memory is free.
    pub(super) fn waiting_for_memory(&mut self) -> &mut Receipts {
        &mut self.pages.receipts
    }

    /// Pages out this many bytes of a queue, even if memory is not short.
    pub(super) fn page_out_soon(&mut self, queue: QueueId, bytes: u64) {
        self.pages.page_out_soon(queue, bytes);
    }

    /// Returns the number of messages whose receipts wait for the log.
    pub(super) fn receipts_held(&self) -> u64 {
        self.journal.receipts_held() + self.unwritten.messages
    }

    /// Returns the number of messages whose receipts wait until memory is free.
    pub(super) fn memory_receipts_held(&self) -> u64 {
        self.pages.receipts.messages()
    }

    /// Returns the newest file of the log that this shard knows. New records are written there or later.
    pub(super) fn newest_file(&self) -> u64 {
        self.log_file
    }

    /// Returns the approximate bytes of memory that messages take, and the limit above which some are paged
    /// out.
    pub(super) fn backlog(&self) -> (u64, u64) {
        (self.pages.used(), self.pages.limit())
    }

    /// Returns true if records wait to be written, or for the log's answer.
    pub(super) fn has_unlogged(&self) -> bool {
        !self.journal.is_idle() || self.unwritten.messages > 0
    }

    /// Returns true if receipts wait for the log, or for memory.
    pub(super) fn holds_receipts(&self) -> bool {
        self.journal.holds_receipts() || self.unwritten.messages > 0 || !self.pages.receipts.is_empty()
    }

    /// Returns when the polls of [`super::Shard`] have something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let journal = self.journal.next_deadline().filter(|_| self.log_failed.is_none());
        let pages = self.pages.next_deadline(!self.log_on_reserve);
        let unwritten = self.unwritten.next_deadline(!self.log_on_reserve);
        journal.into_iter().chain(pages).chain(unwritten).min()
    }

    /// Returns true while an evacuation is in progress. The next turns continue it.
    pub(super) fn is_evacuating(&self) -> bool {
        self.evacuating.is_some()
    }

    /// Bytes of records that the end of this turn will write, so far.
    pub(super) fn bytes_to_write(&self) -> u64 {
        self.journal.open_bytes()
    }

    /// Called at the beginning of a turn.
    pub(super) fn begin_turn(&mut self) {
        self.turn_began_at = self.bytes_to_write();
    }

    /// Bytes of records that this turn has made.
    pub(super) fn bytes_made(&self) -> u64 {
        self.bytes_to_write().saturating_sub(self.turn_began_at)
    }

    /// See [`Writes::hurry`].
    pub(super) fn is_held_up(&self) -> bool {
        self.journal.is_held_up()
    }

    // ---- for queues
    // -----------------------------------------------------------------------------------------

    /// Adds a queue whose home is this shard.
    pub(super) fn add(&mut self, slot: &mut QueueSlot) {
        self.pages.recount(0, slot.pageable);
        self.pages.note_large(slot);
        slot.live_counted = slot.live_bytes();
        self.live_bytes += slot.live_counted;
    }

    /// Removes a deleted queue. Its deferred messages get the outcome released, because they are neither
    /// settled nor written.
    pub(super) fn remove(&mut self, slot: &mut QueueSlot, receipts: &mut Receipts) {
        let (queue, before) = (slot.id, slot.deferral());
        slot.release_deferred(|receipt| receipts.push(Receipt::of(queue, receipt)));
        self.unwritten.recount(before, slot.deferral());
        self.pages.recount(slot.pageable, 0);
        self.pages.forget_large(slot);
        self.live_bytes -= slot.live_counted;
    }

    /// Called by the chores. Forgets a queue that no longer has enough in memory for a run.
    pub(super) fn forget_small(&mut self, slot: &mut QueueSlot) {
        if !slot.fifo.may_page_out() {
            self.pages.forget_large(slot);
        }
    }

    /// Called for each message that is written now. With `fsync`, its record is synced.
    #[inline]
    pub(super) fn put(&mut self, queue: QueueId, put: Put<'_>, fsync: bool) {
        self.journal.push_put(queue, put, fsync);
    }

    /// Returns the size of the largest record whose writing may be deferred now, in bytes.
    #[inline]
    pub(super) fn room_to_defer(&self) -> u64 {
        self.unwritten.room()
    }

    /// Called for each message whose writing is deferred: it may be settled before it is written (docs/decisions/0022). `bytes` is
    /// the size of its record. For `defers` see [`QueueSlot::defers`].
    #[inline]
    pub(super) fn note_deferred(&mut self, queue: QueueId, defers: &mut bool, bytes: u64, at_ms: u64) {
        self.unwritten.note(queue, defers, bytes, at_ms);
    }

    /// Called when the turn of a queue has ended, with what was deferred before that. Returns the number of messages that need never be
    /// written.
    pub(super) fn recount_deferred(&mut self, before: Deferral, slot: &QueueSlot) -> u64 {
        self.unwritten.recount(before, slot.deferral())
    }

    /// Called at the end of a queue's turn. Moves facts, loads and released runs out of `output`.
    pub(super) fn close(&mut self, shard: ShardId, slot: &mut QueueSlot, output: &mut queue::Output) {
        if !output.facts.is_empty() {
            self.log_facts(slot, &output.facts);
            output.facts.clear();
        }
        if !output.local.is_empty() {
            self.log_local(slot, &output.local);
            output.local.clear();
        }
        for load in output.loads.drain(..) {
            if let Some(kept) = slot.extents.get(&load.run) {
                let reading =
                    Reading { queue: slot.id, load, extent: kept.extent, purpose: Purpose::Deliver };
                self.pages.read(u32::from(shard), reading);
            }
        }
        for run in output.released.drain(..) {
            match slot.extents.remove(&run) {
                Some(kept) if slot.is_logged() => self.journal.release(kept.extent),
                Some(kept) => self.pages.release(kept.extent),
                None => {}
            }
        }
        let pageable = slot.fifo.pageable_bytes();
        self.pages.recount(slot.pageable, pageable);
        slot.pageable = pageable;
        self.pages.note_large(slot);
        slot.recount_live(&mut self.live_bytes);
    }

    /// Holds a receipt back until the records so far have reached a level.
    pub(super) fn hold(&mut self, receipt: Receipt, level: Level) {
        self.journal.hold(receipt, level);
    }

    /// Holds the answers to settlements that wait for the records so far back, until these have reached a level. They are
    /// removed from `effects`.
    pub(super) fn hold_settled(&mut self, queue: QueueId, effects: &mut Vec<Effect>, level: Level) {
        let waits = |effect: &Effect| matches!(effect, Effect::Settled { journaled: true, .. });
        if effects.iter().any(waits) {
            for effect in effects.extract_if(.., |effect| waits(effect)) {
                self.journal.hold_answer(Answer { queue, effect }, level);
            }
        }
    }

    /// Releases an extent. Nothing in it is needed any more, and the log has recorded that.
    pub(super) fn release(&mut self, extent: Extent) {
        self.pages.release(extent);
    }

    // ---- for the catalog
    // ------------------------------------------------------------------------------------

    /// Adds the records that must come before all others of the shard.
    pub(super) fn push_first(&mut self, first: Records) {
        self.journal.push_records(|into| {
            debug_assert!(into.is_empty(), "nothing was added before");
            *into = first;
        });
    }

    /// Returns true if a part of a base of the catalog was written.
    pub(super) fn writes_definitions(&mut self) -> bool {
        self.evacuating.as_mut().is_some_and(|evacuating| evacuating.definitions().is_some())
    }

    /// Called on every shard for each change that is applied. A base that is being written includes it.
    pub(super) fn note_applied(&mut self, change: &Change) {
        if let Some(definitions) = self.evacuating.as_mut().and_then(Evacuating::definitions) {
            definitions.push(change, &mut self.journal);
        }
    }

    // ---- for those who write records themselves

    /// Calls `add` to add the records of a round. They are synced. [`super::Shard::rounds_synced`] is called when they are, in the
    /// order of these calls.
    pub(super) fn push_round(&mut self, add: impl FnOnce(&mut Records)) {
        self.journal.push_round(add);
    }

    /// Calls `add` to add records that nobody waits for.
    pub(super) fn push_records(&mut self, add: impl FnOnce(&mut Records)) {
        self.journal.push_records(add);
    }

    /// Notes that the founding base of a queue's group is among the records. The node shard hears of it when they are written.
    pub(super) fn note_founded(&mut self, queue: QueueId) {
        self.journal.note_founded(queue);
    }

    /// Notes that messages between these seqs, inclusive, are among the records.
    pub(super) fn note_puts(&mut self, queue: QueueId, first: u64, last: u64) {
        self.journal.note_puts(queue, first, last);
    }

    /// Adds facts of a queue to the journal. A fact that the next one may continue is kept back until the end of the turn.
    fn log_facts(&mut self, slot: &mut QueueSlot, facts: &[Fact]) {
        let (queue, fsync) = (slot.id, slot.syncs());
        for fact in facts {
            match fact {
                Fact::Gone(span) => {
                    self.note_kept(slot);
                    let ended = slot.keep_gone(*span);
                    ended.iter().for_each(|ended| self.journal.push_fact(queue, ended, fsync));
                }
                Fact::Put { .. } | Fact::Returned { .. } | Fact::Ended { .. } => {
                    self.journal.push_fact(queue, fact, fsync);
                }
            }
        }
    }

    /// Adds facts about the disk to the journal. They are kept back in the same way, if the queue allows that.
    fn log_local(&mut self, slot: &mut QueueSlot, facts: &[LocalFact]) {
        let (queue, fsync) = (slot.id, slot.syncs());
        for fact in facts {
            match fact {
                LocalFact::GoneFromRun(taken) if slot.may_keep_back() => {
                    self.note_kept(slot);
                    let ended = slot.keep_taken(*taken);
                    ended.iter().for_each(|ended| self.journal.push_local(queue, ended, None, fsync));
                }
                LocalFact::GoneFromRun(_)
                | LocalFact::Stored(_)
                | LocalFact::Marked { .. }
                | LocalFact::Damaged => {
                    self.journal.push_local(queue, fact, extent_of(&slot.extents, fact), fsync);
                }
            }
        }
    }

    /// Called before the queue keeps a fact back.
    fn note_kept(&mut self, slot: &QueueSlot) {
        if !slot.has_kept() {
            self.with_kept_facts.push(slot.id);
        }
    }
}

/// Returns where the run is that this fact says is stored.
fn extent_of(extents: &BTreeMap<u32, RunPlace>, fact: &LocalFact) -> Option<Extent> {
    match fact {
        LocalFact::Stored(stored) => extents.get(&stored.run).map(|kept| kept.extent),
        LocalFact::GoneFromRun(_) | LocalFact::Marked { .. } | LocalFact::Damaged => None,
    }
}
