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
//! - [`Storage::close`] after each run of requests, which asks the queue's driver;
//! - [`Storage::hold`] for the receipts that depend on its facts, and [`Storage::hold_settled`] for such answers to
//!   settlements;
//! - at the end, `poll_handover` and the other polls of [`super::Shard`].
//!
//! Receipts and answers that are held leave when the log has answered.

mod compact;
mod engine;
mod group;
mod journal;
mod logged;
mod pages;
mod reclaim;
mod slot;
mod unwritten;
mod writes;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::explain::LogFacts;
use catalog::Change;
use catalog::ids::{QueueId, ShardId};
use queue::{Drive, Effect, Fact, Level, Mark, Put, Solo};
use replica::Member;
use wal::{Extent, Size, Step};

pub(super) use self::group::GroupSlot;
pub(crate) use self::group::NODE;
pub(super) use self::journal::GroupRound;
use self::journal::{Answer, Journal};
use self::pages::Pages;
use self::reclaim::{Evacuating, Evacuation, GARBAGE_ALLOWED};
pub(super) use self::slot::{Peeking, Purpose, QueueSlot, Reading, RunPlace};
use self::unwritten::AllUnwritten;
pub(super) use self::unwritten::UNWRITTEN_BYTES_MAX;
pub use self::writes::Writes;
use super::receipts::{Receipt, Receipts};

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
    /// Quorum queues with facts that are in no entry yet.
    groups: Vec<QueueId>,
    /// When the oldest of these facts must become an entry.
    groups_due_ms: Option<u64>,
    /// True if the end of a turn has moved more than records: another turn has work.
    pub(in crate::shard) has_moved: bool,
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
            has_moved: false,
            unwritten: AllUnwritten::new(limits.unwritten_max),
            pages: Pages::new(limits.backlog_memory / u64::from(shards)),
            with_kept_facts: Vec::new(),
            groups: Vec::new(),
            groups_due_ms: None,
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

    /// Returns what may hold receipts back, for `sluice explain`.
    pub(super) fn facts(&self) -> LogFacts {
        LogFacts {
            failed: self.refuses() || self.is_stuck(),
            receipts_held: self.journal.receipts_held() + self.unwritten.messages,
            groups_held: self.journal.rounds_held(),
            memory_receipts_held: self.pages.receipts.messages(),
        }
    }

    /// Returns the approximate bytes of memory that messages take, and the limit above which some are paged
    /// out.
    pub(super) fn backlog(&self) -> (u64, u64) {
        (self.pages.used(), self.pages.limit())
    }

    /// Returns true if records wait to be written, or for the log's answer.
    pub(super) fn has_unlogged(&self) -> bool {
        !self.journal.is_idle() || self.unwritten.messages > 0 || !self.groups.is_empty()
    }

    /// Returns true if receipts wait for the log, or for memory.
    pub(super) fn holds_receipts(&self) -> bool {
        self.journal.holds_receipts()
            || self.journal.holds_rounds()
            || self.unwritten.messages > 0
            || !self.groups.is_empty()
            || !self.pages.receipts.is_empty()
    }

    /// Returns when the polls of [`super::Shard`] have something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let journal = self.journal.next_deadline().filter(|_| self.log_failed.is_none());
        let pages = self.pages.next_deadline(!self.log_on_reserve);
        let unwritten = self.unwritten.next_deadline(!self.log_on_reserve);
        journal.into_iter().chain(pages).chain(unwritten).chain(self.groups_due_ms).min()
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
        let (queue, before) = (slot.id, slot.driver.deferral());
        if let queue::Driver::Solo(solo) = &mut slot.driver {
            solo.release(|receipt| receipts.push(Receipt::of(queue, receipt)));
        }
        self.unwritten.recount(before, slot.driver.deferral());
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

    /// Called for each message that has a fact. Returns true if its writing is deferred: the driver then sends
    /// the receipt, and the message may be settled before it is written (docs/decisions/0022). For `defers` see
    /// [`QueueSlot::defers`].
    #[inline]
    pub(super) fn put(&mut self, queue: QueueId, solo: &mut Solo, defers: &mut bool, put: Put<'_>) -> bool {
        let is_deferred = self.unwritten.defer(queue, solo, defers, put);
        if !is_deferred {
            self.journal.push_put(queue, put, solo.syncs());
        }
        is_deferred
    }

    /// Ends a queue's turn: its driver decides what waits for the facts. Moves facts, loads and released runs
    /// out of `output`. Returns the driver's mark, and the number of messages that need never be written.
    pub(super) fn close(
        &mut self,
        shard: ShardId,
        now_ms: u64,
        slot: &mut QueueSlot,
        output: &mut queue::Output,
    ) -> (Mark, u64) {
        let before = slot.driver.deferral();
        let mark = slot.driver.close(&mut slot.fifo, output);
        let never_written = self.unwritten.recount(before, slot.driver.deferral());
        if slot.group.is_some() {
            self.collect_facts(slot, now_ms, output);
        }
        if !output.local.is_empty() {
            output.facts.append(&mut output.local);
        }
        if !output.facts.is_empty() {
            self.log_facts(slot, &output.facts);
            output.facts.clear();
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

    /// Holds a receipt back until the records so far have reached a level.
    pub(super) fn hold(&mut self, receipt: Receipt, level: Level) {
        self.journal.hold(receipt, level);
    }

    /// Holds the answers to settlements that wait for the records so far back, until these have reached a level. They are
    /// removed from `effects`. A quorum queue holds its own answers back ([`queue::Replica`]).
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

    /// Adds a durable change of the catalog.
    pub(super) fn push_change(&mut self, version: u64, change: &Change) {
        self.journal.push_change(version, change);
    }

    /// Called after all changes of a decision. The decider is notified when they are synced.
    pub(super) fn end_decision(&mut self) {
        self.journal.end_decision();
    }

    /// Adds the facts of a quorum queue to its next entry.
    fn collect_facts(&mut self, slot: &mut QueueSlot, now_ms: u64, output: &mut queue::Output) {
        let Some(group) = &mut slot.group else { return };
        output.facts.drain(..).for_each(|fact| group.push(&fact, now_ms));
        let waits = matches!(&slot.driver, queue::Driver::Replica(driver) if driver.has_unproposed());
        if waits || group.has_open() {
            self.list_group(slot.id, group);
        }
    }

    /// Notes that a quorum queue has facts that are in no entry.
    pub(super) fn list_group(&mut self, queue: QueueId, group: &mut GroupSlot) {
        if !std::mem::replace(&mut group.is_listed, true) {
            self.groups.push(queue);
        }
        self.groups_due_ms = self.groups_due_ms.into_iter().chain(group.due_ms()).min();
    }

    /// Removes and returns the list of quorum queues that have facts in no entry.
    pub(super) fn take_groups(&mut self) -> Vec<QueueId> {
        self.groups_due_ms = None;
        std::mem::take(&mut self.groups)
    }

    /// Hands a record of a Raft group to the log. Nobody waits for it.
    pub(super) fn push_group(&mut self, queue: QueueId, me: Member, record: &replica::Record) {
        self.journal.push_group(queue, me, record);
    }

    /// Hands the records of a round of a Raft group to the log, which reports when they are synced.
    pub(super) fn push_round(&mut self, round: GroupRound, me: Member, records: &[replica::Record]) {
        self.journal.push_round(round, me, records);
    }

    /// Notes that messages between these seqs, inclusive, are among the records.
    pub(super) fn note_puts(&mut self, queue: QueueId, first: u64, last: u64) {
        self.journal.note_puts(queue, first, last);
    }

    /// Adds facts of a queue to the journal. A fact that the next one may continue is kept back until the end
    /// of the turn. Facts of quorum queues are never kept back, because an entry of the group may come next.
    fn log_facts(&mut self, slot: &mut QueueSlot, facts: &[Fact]) {
        let (queue, fsync) = (slot.id, slot.driver.syncs());
        for fact in facts {
            match fact {
                Fact::Gone(_) | Fact::GoneFromRun(_) if slot.group.is_none() => {
                    if slot.gone.is_none() && slot.taken.is_none() {
                        self.with_kept_facts.push(queue);
                    }
                    if let Some(ended) = slot.keep_back(fact) {
                        self.journal.push_fact(queue, &ended, None, fsync);
                    }
                }
                Fact::Put { .. }
                | Fact::Gone(_)
                | Fact::Returned { .. }
                | Fact::Stored(_)
                | Fact::GoneFromRun(_)
                | Fact::Damaged => {
                    let run =
                        if let Fact::Stored(stored) = fact { slot.extents.get(&stored.run) } else { None };
                    self.journal.push_fact(queue, fact, run.map(|kept| kept.extent), fsync);
                }
            }
        }
    }
}
