//! Records on their way to the log, and what waits for them.
//!
//! ```text
//!   facts, rounds ───> open ──poll_handover──> in flight ──written──> OnWritten: receipts leave, puts are located
//!                                              │  ▲       │
//!                                      refused ▼  │ again │ before anything newer
//!                                            returned     └──> unsynced ──synced──> OnSynced: receipts of x-fsync
//!                                                                                   queues, rounds of groups
//! ```
//!
//! One handover is in flight at a time, until it is written (docs/decisions/0001). So the log has the
//! order of the shard, and a slow disk makes larger batches. A record that must be synced does not delay later
//! records (docs/decisions/0012).

use std::collections::VecDeque;

use catalog::ids::QueueId;
use queue::{Effect, Fact, Level, LocalFact, Put};
use wal::{Extent, Handover, Records, WriteError};

use crate::facts;
use crate::shard::batching::{CAPACITY_MAX, LAZY_BYTES_MAX, LAZY_MS};
use crate::shard::receipts::{Receipt, Receipts};
use crate::shard::slot::QueueSlot;

/// Released extents wait for a sync for this long, in milliseconds, because a sync is expensive.
const RELEASE_MS: u64 = 1000;

/// Released extents force a sync once there are this many.
const RELEASED_MAX: usize = 16;

/// The number of recent ranges that a put may continue.
const RANGES_OPEN: usize = 4;

/// Records of one handover, and what waits for them.
#[derive(Debug, Default)]
struct Load {
    records: Records,
    sync: bool,
    /// Somebody waits for one of the records.
    urgent: bool,
    on_written: OnWritten,
    on_synced: OnSynced,
}

/// What happens when the records of a handover are written.
#[derive(Debug, Default)]
pub(super) struct OnWritten {
    pub receipts: Receipts,
    /// Answers to settlements of classic queues.
    pub answers: Vec<Answer>,
    /// Messages that were put: queue, first and last sequence number.
    pub puts: Vec<(QueueId, u64, u64)>,
    /// Queues whose groups were founded.
    pub founded: Vec<QueueId>,
    /// Runs whose `Stored` records are among them.
    pub stored: Vec<(QueueId, u32)>,
    /// All definitions are in this file, in later files, or in these records.
    pub definitions: Option<u64>,
    /// Set if these records end an evacuation: the file up to which live records were written again, and the
    /// size of these records in bytes.
    pub evacuated: Option<(u64, u64)>,
}

/// A queue's answer to a settlement that must be stored first: an [`Effect::Settled`].
#[derive(Debug)]
pub(in crate::shard) struct Answer {
    pub queue: QueueId,
    pub effect: Effect,
}

/// What happens when the records of a handover are synced.
#[derive(Debug, Default)]
pub(super) struct OnSynced {
    /// Receipts of queues with `x-fsync`, and their answers to settlements.
    pub receipts: Receipts,
    pub answers: Vec<Answer>,
    /// Extents to be released.
    pub released: Vec<Extent>,
    /// How many rounds have the last of their records among the records. They are synced in the order in which they were added.
    pub rounds: usize,
}

impl OnWritten {
    /// Returns true if somebody outside of this shard waits until the records are written.
    fn is_awaited(&self) -> bool {
        !self.receipts.is_empty() || !self.answers.is_empty()
    }
}

impl OnSynced {
    fn is_empty(&self) -> bool {
        let Self { receipts, answers, released, rounds } = self;
        receipts.is_empty() && answers.is_empty() && released.is_empty() && *rounds == 0
    }
}

/// The journal of a shard. See the module.
#[derive(Debug, Default)]
pub(super) struct Journal {
    open: Load,
    /// When the oldest record that nobody waits for was added.
    since_ms: Option<u64>,
    in_flight: Option<(u64, Load)>,
    /// The handover that the log returned unwritten.
    returned: Option<Load>,
    /// What waits for a sync, by ticket, oldest first. It is bounded by the unanswered requests that
    /// publishers, consumers and clients of the catalog may have.
    unsynced: VecDeque<(u64, OnSynced)>,
    /// When the oldest extent that waits for a sync was released.
    released_ms: Option<u64>,
    next_ticket: u64,
    /// The approximate size of the largest recent handover, in bytes.
    recent_bytes: usize,
}

impl Journal {
    /// Adds one fact.
    pub(super) fn push_fact(&mut self, queue: QueueId, fact: &Fact, fsync: bool) {
        facts::push_fact(&mut self.open.records, queue, fact);
        self.open.sync |= fsync;
        match fact {
            Fact::Put { seq, .. } => self.note_put(queue, *seq),
            Fact::Gone(_) | Fact::Returned { .. } | Fact::Ended { .. } => {}
        }
    }

    /// Adds one fact about the disk. For `extent` see [`facts::push_local_fact`].
    pub(super) fn push_local(
        &mut self,
        queue: QueueId,
        fact: &LocalFact,
        extent: Option<Extent>,
        fsync: bool,
    ) {
        facts::push_local_fact(&mut self.open.records, queue, fact, extent);
        self.open.sync |= fsync;
        match fact {
            LocalFact::Stored(stored) => self.open.on_written.stored.push((queue, stored.run)),
            LocalFact::GoneFromRun(_) | LocalFact::Marked { .. } | LocalFact::Damaged => {}
        }
    }

    /// Adds the facts that a queue has kept back ([`QueueSlot::take_kept`]).
    pub(super) fn push_kept(&mut self, slot: &mut QueueSlot) {
        let (queue, fsync) = (slot.id, slot.syncs());
        let (gone, taken) = slot.take_kept();
        gone.iter().for_each(|fact| self.push_fact(queue, fact, fsync));
        taken.iter().for_each(|fact| self.push_local(queue, fact, None, fsync));
    }

    pub(super) fn push_put(&mut self, queue: QueueId, put: Put<'_>, fsync: bool) {
        facts::push_put(&mut self.open.records, queue, put);
        self.open.sync |= fsync;
        self.note_put(queue, put.seq);
    }

    /// Calls `add` to add the records of a round. They are synced, because somebody waits for that.
    pub(super) fn push_round(&mut self, add: impl FnOnce(&mut Records)) {
        self.push_records(add);
        self.open.on_synced.rounds += 1;
        (self.open.sync, self.open.urgent) = (true, true);
    }

    /// Calls `add` to add records that nobody waits for.
    pub(super) fn push_records(&mut self, add: impl FnOnce(&mut Records)) {
        add(&mut self.open.records);
    }

    /// Notes that the founding base of a queue's group is among the records.
    pub(super) fn note_founded(&mut self, queue: QueueId) {
        self.open.on_written.founded.push(queue);
    }

    /// Notes that messages between these seqs, inclusive, are among the records.
    pub(super) fn note_puts(&mut self, queue: QueueId, first: u64, last: u64) {
        self.open.on_written.puts.push((queue, first, last));
    }

    fn note_put(&mut self, queue: QueueId, seq: u64) {
        let puts = &mut self.open.on_written.puts;
        let continued = puts.iter_mut().rev().take(RANGES_OPEN).find(|(q, _, _)| *q == queue);
        match continued {
            // The range may include numbers in between that have no record. If those messages are alive, they
            // are written before an evacuation asks for the live messages of the range (`write_kept`).
            Some((_, _, last)) if *last < seq => *last = seq,
            _ => puts.push((queue, seq, seq)),
        }
    }

    /// Writes a live fact of an old file again. The log syncs it before it deletes that file.
    pub(super) fn evacuate_fact(&mut self, queue: QueueId, fact: &Fact) {
        self.push_fact(queue, fact, false);
    }

    /// As [`Journal::evacuate_fact`]. For `extent` see [`facts::push_local_fact`].
    pub(super) fn evacuate_local(&mut self, queue: QueueId, fact: &LocalFact, extent: Option<Extent>) {
        self.push_local(queue, fact, extent, false);
    }

    /// Holds a receipt back until the records so far have reached a level.
    pub(super) fn hold(&mut self, receipt: Receipt, level: Level) {
        let Load { sync, urgent, on_written, on_synced, .. } = &mut self.open;
        *urgent = true;
        match level {
            Level::Written => on_written.receipts.push(receipt),
            Level::Synced => {
                *sync = true;
                on_synced.receipts.push(receipt);
            }
        }
    }

    /// Holds an answer back until the records so far have reached a level.
    pub(super) fn hold_answer(&mut self, answer: Answer, level: Level) {
        let Load { sync, urgent, on_written, on_synced, .. } = &mut self.open;
        *urgent = true;
        match level {
            Level::Written => on_written.answers.push(answer),
            Level::Synced => {
                *sync = true;
                on_synced.answers.push(answer);
            }
        }
    }

    /// Bytes of the records that have not been handed over.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open.records.bytes() as u64
    }

    /// Called when the live records of `file` and all earlier files have been added again, `bytes` in total.
    /// If `definitions` is set, they include all definitions, which begin in that file.
    pub(super) fn evacuated(&mut self, file: u64, bytes: u64, definitions: Option<u64>) {
        self.open.on_written.definitions = definitions;
        self.open.on_written.evacuated = Some((file, bytes));
        self.open.urgent = true;
    }

    /// Releases an extent once the records so far are synced. Otherwise a log that lost those records could
    /// refer to a run that no longer exists.
    pub(super) fn release(&mut self, extent: Extent) {
        self.open.on_synced.released.push(extent);
    }

    /// Returns the next handover, if one is due and none is in flight.
    pub(super) fn poll_handover(&mut self, shard: u32, now_ms: u64, at_once: bool) -> Option<Handover> {
        if let Some(load) = self.returned.take() {
            return Some(self.hand_over(shard, load));
        }
        if self.in_flight.is_some() {
            return None;
        }
        let released = &self.open.on_synced.released;
        if !released.is_empty() {
            let since = *self.released_ms.get_or_insert(now_ms);
            if at_once || released.len() >= RELEASED_MAX || now_ms >= since + RELEASE_MS {
                (self.open.sync, self.open.urgent) = (true, true);
            }
        }
        if self.open.records.is_empty() && !self.open.urgent {
            return None;
        }
        let due = at_once || self.open.urgent || self.open.records.bytes() >= LAZY_BYTES_MAX;
        if !due && now_ms < *self.since_ms.get_or_insert(now_ms) + LAZY_MS {
            return None;
        }
        self.since_ms = None;
        if self.open.sync {
            self.released_ms = None;
        }
        // Large and small handovers alternate, because messages are delivered in one turn and settled in
        // another.
        self.recent_bytes = self.open.records.bytes().max(self.recent_bytes - self.recent_bytes / 16);
        let capacity = (self.recent_bytes + self.recent_bytes / 8).min(CAPACITY_MAX);
        let next = Load { records: Records::with_capacity(capacity), ..Load::default() };
        let load = std::mem::replace(&mut self.open, next);
        Some(self.hand_over(shard, load))
    }

    fn hand_over(&mut self, shard: u32, mut load: Load) -> Handover {
        self.next_ticket += 1;
        let records = std::mem::take(&mut load.records);
        let (sync, urgent) = (load.sync, load.on_written.is_awaited());
        let handover = Handover { shard, ticket: self.next_ticket, records, sync, urgent };
        self.in_flight = Some((self.next_ticket, load));
        handover
    }

    /// Returns true if somebody waits for records to be written behind a handover that the log may keep until a sync has ended. Or if there
    /// are many records behind it: the shard would soon read no more from those who wait for nothing.
    pub(super) fn is_held_up(&self) -> bool {
        let may_be_kept = self.in_flight.as_ref().is_some_and(|(_, load)| !load.on_written.is_awaited());
        may_be_kept && (self.open.on_written.is_awaited() || self.open.records.bytes() >= LAZY_BYTES_MAX)
    }

    /// Handles the log's answer to the handover in flight. Returns what waited for it to be written, or the
    /// reason why it must be handed over again.
    pub(super) fn handle_written(
        &mut self,
        ticket: u64,
        result: Result<(), WriteError>,
    ) -> Option<Result<OnWritten, WriteError>> {
        let (_, mut load) = self.in_flight.take_if(|(in_flight, _)| *in_flight == ticket)?;
        if let Err(mut error) = result {
            load.records = std::mem::take(&mut error.records);
            self.returned = Some(load);
            return Some(Err(error));
        }
        let Load { sync, on_written, mut on_synced, .. } = load;
        if !sync {
            // The handover asked for no sync, so nothing waits for one except released extents. They wait for the
            // next sync.
            self.open.on_synced.released.append(&mut on_synced.released);
        } else if !on_synced.is_empty() {
            self.unsynced.push_back((ticket, on_synced));
        }
        Some(Ok(on_written))
    }

    /// Called when everything up to this handover is synced. Returns what waited for it, oldest first, one
    /// per call.
    pub(super) fn handle_synced(&mut self, ticket: u64) -> Option<OnSynced> {
        self.unsynced.pop_front_if(|(waiting, _)| *waiting <= ticket).map(|(_, on_synced)| on_synced)
    }

    /// Called when the log could not sync. The next handover asks for it again.
    pub(super) fn sync_again(&mut self) {
        (self.open.sync, self.open.urgent) = (true, true);
    }

    /// Forces a handover, even an empty one: its answer has the size of the log, and says whether the log works again.
    pub(super) fn ask(&mut self) {
        self.open.urgent = true;
    }

    /// Returns when records, or released extents, have waited long enough.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let release = self.released_ms.filter(|_| !self.has_unwritten()).map(|since| since + RELEASE_MS);
        self.since_ms.map(|since| since + LAZY_MS).into_iter().chain(release).min()
    }

    /// Returns true if a handover is not written yet.
    pub(super) fn has_unwritten(&self) -> bool {
        self.in_flight.is_some() || self.returned.is_some()
    }

    pub(super) fn is_idle(&self) -> bool {
        let open = &self.open;
        !self.has_unwritten()
            && self.unsynced.is_empty()
            && open.records.is_empty()
            && open.on_synced.is_empty()
    }

    /// The number of messages whose receipts wait for the log.
    pub(super) fn receipts_held(&self) -> u64 {
        self.receipts().map(Receipts::messages).sum()
    }

    /// Returns whether receipts, or answers to settlements, wait for the log.
    pub(super) fn holds_receipts(&self) -> bool {
        let answers = self.loads().any(|load| !load.on_written.answers.is_empty())
            || self.on_synced().any(|on_synced| !on_synced.answers.is_empty());
        answers || self.receipts().any(|receipts| !receipts.is_empty())
    }

    fn receipts(&self) -> impl Iterator<Item = &Receipts> {
        let written = self.loads().map(|load| &load.on_written.receipts);
        written.chain(self.on_synced().map(|on_synced| &on_synced.receipts))
    }

    /// Returns everything that is not written.
    fn loads(&self) -> impl Iterator<Item = &Load> {
        let in_flight = self.in_flight.iter().map(|(_, load)| load);
        in_flight.chain(&self.returned).chain([&self.open])
    }

    /// Returns everything that waits for a sync.
    fn on_synced(&self) -> impl Iterator<Item = &OnSynced> {
        let unsynced = self.unsynced.iter().map(|(_, on_synced)| on_synced);
        self.loads().map(|load| &load.on_synced).chain(unsynced)
    }
}

#[cfg(test)]
mod tests {
    use queue::{ConsumerId, PublisherId, Span, Verdict};

    use super::*;

    const QUEUE: QueueId = QueueId(1);

    fn receipt(seq: u64) -> Receipt {
        let verdict = Verdict::Accepted;
        Receipt { queue: QUEUE, publisher: PublisherId(1), first: seq, last: seq, verdict }
    }

    fn put(journal: &mut Journal, seq: u64, fsync: bool) {
        journal.push_fact(QUEUE, &Fact::Gone(Span { first: seq, last: seq }), fsync);
        journal.hold(receipt(seq), if fsync { Level::Synced } else { Level::Written });
    }

    fn written(journal: &mut Journal, ticket: u64) -> Vec<Receipt> {
        journal
            .handle_written(ticket, Ok(()))
            .expect("it is in flight")
            .expect("it is written")
            .receipts
            .drain()
            .collect()
    }

    fn synced(answer: Option<OnSynced>) -> Vec<Receipt> {
        answer.expect("it is synced").receipts.drain().collect()
    }

    fn refused(records: Records) -> Result<(), WriteError> {
        Err(WriteError { kind: std::io::ErrorKind::StorageFull, errno: None, file: String::new(), records })
    }

    #[test]
    fn records_to_be_synced_delay_no_later_ones() {
        let mut journal = Journal::default();
        put(&mut journal, 1, true);
        put(&mut journal, 2, false);
        let first = journal.poll_handover(0, 0, false).unwrap();
        assert!(first.sync);
        put(&mut journal, 3, false);
        assert!(journal.poll_handover(0, 0, false).is_none(), "it is not written");
        assert_eq!(written(&mut journal, first.ticket), [receipt(2)]);
        let second = journal.poll_handover(0, 0, false).unwrap();
        assert!(!second.sync);
        assert_eq!(written(&mut journal, second.ticket), [receipt(3)]);
        assert_eq!((journal.receipts_held(), journal.is_idle()), (1, false));
        assert_eq!(synced(journal.handle_synced(first.ticket)), [receipt(1)]);
        assert!(journal.is_idle() && journal.handle_synced(first.ticket).is_none());
    }

    #[test]
    fn a_handover_that_may_be_kept_holds_up_urgent_records_and_many_records() {
        let mut journal = Journal::default();
        put(&mut journal, 1, true);
        assert!(!journal.is_held_up(), "nothing is in flight");
        let handover = journal.poll_handover(0, 0, false).unwrap();
        assert!(!handover.urgent && !journal.is_held_up());
        put(&mut journal, 2, true);
        assert!(!journal.is_held_up(), "this waits for a sync, too");
        let mut many = 0;
        while journal.open_bytes() < LAZY_BYTES_MAX as u64 {
            assert!(!journal.is_held_up(), "{many} records");
            many += 1;
            journal.push_fact(QUEUE, &Fact::Gone(Span { first: many, last: many }), false);
        }
        assert!(journal.is_held_up());
        written(&mut journal, handover.ticket);
        assert!(!journal.is_held_up());
        journal.poll_handover(0, 0, false).unwrap();
        put(&mut journal, 3, false);
        assert!(journal.is_held_up());
    }

    #[test]
    fn a_failed_sync_is_retried_and_covers_everything_before() {
        let mut journal = Journal::default();
        for seq in 1..=2 {
            put(&mut journal, seq, true);
            let ticket = journal.poll_handover(0, 0, false).unwrap().ticket;
            assert_eq!(written(&mut journal, ticket), []);
        }
        journal.sync_again();
        let again = journal.poll_handover(0, 0, false).unwrap();
        assert_eq!((again.sync, again.records.len()), (true, 0));
        written(&mut journal, again.ticket);
        let mut answers = std::iter::from_fn(|| journal.handle_synced(again.ticket));
        assert_eq!(synced(answers.next()), [receipt(1)]);
        assert_eq!(synced(answers.next()), [receipt(2)]);
        assert!(answers.next().is_none());
    }

    #[test]
    fn a_returned_handover_goes_before_anything_newer() {
        let mut journal = Journal::default();
        put(&mut journal, 1, false);
        let first = journal.poll_handover(0, 0, false).unwrap();
        put(&mut journal, 2, true);
        assert!(journal.handle_written(first.ticket, refused(first.records)).unwrap().is_err());
        assert!(journal.has_unwritten());
        let again = journal.poll_handover(0, 0, false).unwrap();
        assert_eq!((again.sync, again.records.len()), (false, 1));
        assert_eq!(written(&mut journal, again.ticket), [receipt(1)]);
        assert!(journal.poll_handover(0, 0, false).unwrap().sync);
    }

    #[test]
    fn a_released_extent_waits_for_a_sync() {
        let mut journal = Journal::default();
        let extent = Extent { pack: 1, offset: 2, bytes: 3 };
        put(&mut journal, 1, false);
        journal.release(extent);
        let plain = journal.poll_handover(0, 0, false).unwrap();
        assert!(!plain.sync);
        written(&mut journal, plain.ticket);
        assert!(journal.handle_synced(plain.ticket).is_none());
        assert!(journal.poll_handover(0, RELEASE_MS - 1, false).is_none());
        let synced = journal.poll_handover(0, RELEASE_MS, false).unwrap();
        assert!(synced.sync);
        written(&mut journal, synced.ticket);
        assert_eq!(journal.handle_synced(synced.ticket).unwrap().released, [extent]);
    }

    #[test]
    fn an_answer_to_a_settlement_waits_for_its_level() {
        let consumer = ConsumerId(7);
        for level in [Level::Written, Level::Synced] {
            let mut journal = Journal::default();
            journal.push_fact(QUEUE, &Fact::Gone(Span { first: 1, last: 1 }), false);
            let effect = Effect::Settled { consumer, first: 1, last: 1, journaled: true };
            journal.hold_answer(Answer { queue: QUEUE, effect }, level);
            assert!(journal.holds_receipts());
            let handover = journal.poll_handover(0, 0, false).expect("somebody waits for it");
            assert_eq!(handover.sync, level == Level::Synced);
            let on_written = journal.handle_written(handover.ticket, Ok(())).unwrap().unwrap();
            assert_eq!(on_written.answers.len(), usize::from(level == Level::Written));
            assert_eq!(journal.holds_receipts(), level == Level::Synced);
            let on_synced = journal.handle_synced(handover.ticket);
            assert_eq!(on_synced.map_or(0, |on_synced| on_synced.answers.len()), usize::from(handover.sync));
            assert!(journal.is_idle());
        }
    }

    #[test]
    fn rounds_next_to_an_evacuation_do_not_count_as_all_definitions() {
        for definitions in [None, Some(4)] {
            let mut journal = Journal::default();
            journal.push_round(|records| records.push(1, 1, 10, &[b"round"]));
            journal.evacuated(5, 0, definitions);
            let ticket = journal.poll_handover(0, 0, false).unwrap().ticket;
            let on_written = journal.handle_written(ticket, Ok(())).unwrap().unwrap();
            assert_eq!(on_written.definitions, definitions);
            assert_eq!(on_written.evacuated.map(|(file, _)| file), Some(5));
            assert_eq!(journal.handle_synced(ticket).unwrap().rounds, 1);
        }
    }
}
