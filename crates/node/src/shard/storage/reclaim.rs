//! Frees space in the log. When most of it is garbage, every shard writes the live records of the oldest
//! files again, and then these files are deleted. This is called an evacuation (docs/decisions/0005).
//!
//! ```text
//!   handle_evacuate ──> walk_evacuation, turn by turn: queues ──> definitions ──> written ──> Mail::Evacuated
//! ```
//!
//! Between two turns of an evacuation, all other work continues. Records that are handed over after its
//! beginning are in newer files, so the evacuation need not write them again.

use std::sync::atomic::Ordering;

use broker::ids::NODE_SHARD;
use broker::mail::Mail;
use catalog::{Change, DefinitionsCursor};
use queue::{ALL_DUE, LocalFact, Logged};
use wal::{SPARE_FILES_MAX, Size};

use super::journal::Journal;
use super::{Storage, extent_of};
use crate::facts::push_definition;
use crate::shard::Shard;
use crate::shard::slot::{QueueSlot, RunPlace};
use crate::shard::walks::Walk;

/// Bytes of garbage that the log may hold, however much is alive. Freeing it costs a sync.
pub(super) const GARBAGE_ALLOWED: u64 = 24 * 1024 * 1024;

/// While the log uses its reserve, live records must fit into this fraction of it (one half). The rest is for
/// what was in flight when the disk became full, and for what arrives meanwhile.
const RESERVE_PART: u64 = 2;

/// The evacuation in progress, on the node shard.
#[derive(Debug)]
pub(super) struct Evacuation {
    file: u64,
    /// The number of shards that have not written their part.
    left: usize,
    /// Bytes that the shards have written so far.
    bytes: u64,
}

/// The progress of a shard's part of an evacuation.
#[derive(Debug)]
pub(super) struct Evacuating {
    file: u64,
    queues: Walk,
    definitions: Option<CatalogBase>,
    /// Bytes that this shard has written so far.
    bytes: u64,
}

/// A base of the catalog that is being written (see [`crate::facts::definitions`]).
#[derive(Debug)]
pub(super) struct CatalogBase {
    cursor: DefinitionsCursor,
    /// The file where they begin, or an earlier one.
    file: u64,
    /// The number of definitions so far.
    count: u64,
    bytes: u64,
}

impl CatalogBase {
    /// Adds a definition.
    pub(super) fn push(&mut self, change: &Change, journal: &mut Journal) {
        self.count += 1;
        let before = journal.open_bytes();
        journal.push_records(|into| push_definition(into, self.count, change));
        self.bytes += journal.open_bytes() - before;
    }
}

impl Evacuating {
    /// Returns the base of the catalog, if a part of it was written.
    pub(super) fn definitions(&mut self) -> Option<&mut CatalogBase> {
        self.definitions.as_mut().filter(|definitions| definitions.count > 0)
    }
}

/// If an evacuation writes fewer bytes than this, the next one may take twice as many files. Otherwise it
/// takes half as many, because the log grows meanwhile.
const EVACUATION_BYTES: u64 = 4 * 1024 * 1024;

/// The most files of one evacuation.
const EVACUATION_FILES_MAX: u64 = 1024;

impl Shard {
    /// Publishes the approximate live bytes of this shard to the others.
    pub(in crate::shard) fn publish_live_bytes(&self) {
        if let Some(mine) = self.storage.live.get(usize::from(self.here.id)) {
            // An evacuation also writes the deferred messages, and may have nothing but the reserve for them.
            let unwritten = if self.storage.log_on_reserve { self.storage.unwritten.bytes } else { 0 };
            mine.store(
                self.storage.live_bytes + self.storage.definitions_bytes + unwritten,
                Ordering::Relaxed,
            );
        }
    }

    /// Returns how many bytes are too much garbage if the log has `bytes`.
    pub fn excess(&self, bytes: u64) -> u64 {
        if self.storage.keeps_log {
            return 0;
        }
        let live: u64 = self.storage.live.iter().map(|live| live.load(Ordering::Relaxed)).sum();
        let allowed = match self.storage.log_on_reserve {
            // Publishers wait for space. Emptying queues must give it back, down to the last file.
            false if self.connections.is_blocked() => 0,
            false => self.storage.garbage_allowed,
            // Any garbage is too much, if the live records certainly fit into the reserve.
            true if live <= self.storage.reserve_bytes / RESERVE_PART => 0,
            true => return 0,
        };
        bytes.saturating_sub(live.saturating_mul(2).saturating_add(allowed))
    }

    /// Called when an alarm begins. The log may hold less garbage now.
    pub(in crate::shard) fn report_size_again(&mut self) {
        if let Some(size) = self.storage.log_size {
            self.report_size(size);
        }
    }

    /// Called if the log has records that could not be copied. It deletes no file until the next start.
    pub fn keep_log(&mut self) {
        self.storage.keeps_log = true;
    }

    /// Notes the size of the log before the shard has written anything to it.
    pub fn note_log_size(&mut self, size: Size) {
        self.storage.log_size = Some(size);
    }

    /// Called with the size of the log. The shard that receives it informs the node shard, which may
    /// write nothing itself and so receive no answers from the log.
    pub(in crate::shard) fn report_size(&mut self, size: Size) {
        self.publish_live_bytes();
        self.storage.log_size = Some(size);
        if let Some(oldest) = size.oldest.filter(|_| self.excess(size.bytes) > 0) {
            let (bytes, newest) = (size.bytes, self.storage.log_file);
            self.mail.send(NODE_SHARD, Mail::LogFull { bytes, oldest, newest, on_reserve: size.on_reserve });
        }
    }

    /// Handles the report of a large log on the node shard.
    pub(in crate::shard) fn handle_log_full(
        &mut self,
        bytes: u64,
        oldest: u64,
        newest: u64,
        on_reserve: bool,
    ) {
        self.note_log_on_reserve(on_reserve);
        self.storage.log_full = Some((bytes, oldest, newest));
        self.reclaim();
    }

    /// Called from time to time on the node shard. Asks the log again to delete evacuated files if it has
    /// reported them since: the report may be older than the deletion, or the deletion may have failed.
    pub(in crate::shard) fn forget_again(&mut self) {
        let evacuated = self.storage.evacuated;
        if self.storage.log_full.take_if(|(_, oldest, _)| *oldest <= evacuated).is_some() {
            self.storage.forget = Some(evacuated);
        }
    }

    /// Called from time to time on the node shard. Asks the log for its size: it is reported with records only, and an idle
    /// broker writes none. Since the last report, files may have been deleted, or records have become garbage.
    pub(in crate::shard) fn ask_for_size(&mut self) {
        // A log that accepts nothing is asked anyway; see `Shard::retry_log`. At the end of an evacuation a size is reported. While
        // publishers wait for space, any garbage is too much, so an evacuation might follow each answer.
        let is_asked = self.storage.evacuation.is_some() || self.log_refuses();
        if self.here.id == NODE_SHARD
            && !is_asked
            && !self.connections.is_blocked()
            && self.storage.log_size.is_some()
        {
            self.storage.journal.ask();
        }
    }

    /// On the node shard: begins an evacuation if most of the log is garbage.
    pub(in crate::shard) fn reclaim(&mut self) {
        if self.here.id != NODE_SHARD || self.storage.evacuation.is_some() {
            return;
        }
        let Some((bytes, oldest, newest)) = self.storage.log_full else { return };
        let excess = self.excess(bytes);
        if excess == 0 {
            self.storage.log_full = None;
            return;
        }
        if oldest <= self.storage.evacuated {
            // The oldest file is being deleted already.
            return;
        }
        // At least as many files as the log can reuse next (docs/decisions/0016), because each evacuation
        // syncs the files that remain (docs/decisions/0021). More only if the garbage is more than that. The
        // newest file is excluded, because it is being written.
        let file_bytes = (bytes / (newest.saturating_sub(oldest) + 1)).max(1);
        let most = match self.connections.is_blocked() {
            // After an alarm has begun, nothing may be written any more, and so no size is reported after this evacuation.
            true => EVACUATION_FILES_MAX,
            false => self.storage.evacuation_files,
        };
        let files = most.min(excess.div_ceil(file_bytes).max(SPARE_FILES_MAX as u64));
        let file = (oldest + files - 1).min(newest.saturating_sub(1)).max(oldest);
        self.storage.evacuation = Some(Evacuation { file, left: self.mail.shards().len(), bytes: 0 });
        for to in self.mail.shards() {
            self.mail.send(to, Mail::Evacuate { file });
        }
    }

    /// Begins to write the live records of the files up to `file` again. It waits until the place of all
    /// earlier handovers is known.
    pub(in crate::shard) fn handle_evacuate(&mut self, file: u64) {
        let storage = &mut self.storage;
        if storage.journal.has_unwritten() {
            storage.evacuate_next = Some(file);
            return;
        }
        // The log already writes to a newer file. New records need no evacuation.
        storage.log_file = storage.log_file.max(file + 1);
        let definitions = self.here.id == NODE_SHARD && storage.definitions_file <= file;
        let definitions = definitions.then(|| CatalogBase {
            cursor: DefinitionsCursor::default(),
            file: storage.log_file,
            count: 0,
            bytes: 0,
        });
        let mut queues = Walk::default();
        queues.begin();
        storage.evacuating = Some(Evacuating { file, queues, definitions, bytes: 0 });
    }

    /// Continues an evacuation, as far as this turn may.
    pub(in crate::shard) fn walk_evacuation(&mut self) {
        let Some(mut evacuating) = self.storage.evacuating.take() else { return };
        let before = self.storage.journal.open_bytes();
        while let Some(place) = evacuating.queues.next(self.queues.places(), &mut self.rows) {
            if !self.evacuate_queue(place, evacuating.file) {
                evacuating.queues.stay();
                break;
            }
        }
        let mut is_written = !evacuating.queues.is_under_way();
        if let Some(definitions) = &mut evacuating.definitions {
            is_written = is_written && self.evacuate_definitions(definitions);
        }
        evacuating.bytes += self.storage.journal.open_bytes() - before;
        // Without the base, the definitions would not count.
        let count = evacuating.definitions.as_ref().map(|definitions| definitions.count);
        if !is_written || count.is_some_and(|count| !self.write_catalog_base(count)) {
            self.storage.evacuating = Some(evacuating);
            return;
        }
        let Evacuating { file, definitions, bytes, .. } = evacuating;
        if let Some(definitions) = &definitions {
            self.storage.definitions_bytes = definitions.bytes;
        }
        self.storage.journal.evacuated(file, bytes, definitions.map(|definitions| definitions.file));
    }

    /// Writes the next live records of a queue in the files up to `file`. Returns true if those were the
    /// last.
    fn evacuate_queue(&mut self, place: usize, file: u64) -> bool {
        let Storage { journal, unwritten, live_bytes, .. } = &mut self.storage;
        let Some(slot) = self.queues.at_mut(place) else { return true };
        let id = slot.id;
        if !slot.fifo.is_repeating() {
            if slot.fifo.is_damaged() {
                journal.evacuate_local(id, &LocalFact::Damaged, None);
            }
            let old = slot.places.extract_if(.., |place| place.file <= file);
            let ranges = join(old.map(|place| (place.first, place.last)).collect());
            let are_all_old = slot.repeats_all_runs(file);
            let is_old = |kept: &RunPlace| are_all_old || kept.file.is_some_and(|stored| stored <= file);
            let runs = slot.extents.iter().filter(|(_, kept)| is_old(kept));
            let runs: Vec<u32> = runs.map(|(run, _)| *run).collect();
            if ranges.is_empty() && runs.is_empty() {
                self.queue_evacuated(id, file);
                return true;
            }
            // The ranges also include messages that were never written.
            unwritten.write(slot, ALL_DUE, journal);
            slot.recount_live(live_bytes);
            slot.fifo.begin_repeat(ranges, runs);
        }
        if self.rows.left() == 0 {
            return false;
        }
        // Facts that were kept back come first. Otherwise they would remove records that are written again
        // after them.
        journal.push_kept(slot);
        let extents = &slot.extents;
        let walked = slot.fifo.repeat(self.rows.left(), |fact| match fact {
            Logged::Shared(fact) => journal.evacuate_fact(id, &fact),
            Logged::Local(fact) => journal.evacuate_local(id, &fact, extent_of(extents, &fact)),
        });
        self.rows.count(walked);
        let is_last = !slot.fifo.is_repeating();
        if is_last {
            self.queue_evacuated(id, file);
        }
        is_last
    }

    /// Writes the next part of the definitions. Returns true if that was the last.
    fn evacuate_definitions(&mut self, definitions: &mut CatalogBase) -> bool {
        let mut cursor = std::mem::take(&mut definitions.cursor);
        let journal = &mut self.storage.journal;
        let walked = self.metadata.catalog().walk_definitions(&mut cursor, self.rows.left(), |change| {
            definitions.push(&change, journal);
        });
        self.rows.count(walked);
        definitions.cursor = cursor;
        definitions.cursor.is_at_end()
    }

    /// On the node shard: called when a shard has written its part. When all have, the log may delete the
    /// files.
    pub(in crate::shard) fn handle_evacuated(&mut self, file: u64, bytes: u64) {
        let Some(evacuation) = self.storage.evacuation.as_mut().filter(|e| e.file == file) else { return };
        evacuation.left -= 1;
        evacuation.bytes += bytes;
        if evacuation.left == 0 {
            self.storage.evacuation_files = match evacuation.bytes < EVACUATION_BYTES {
                true => (self.storage.evacuation_files * 2).min(EVACUATION_FILES_MAX),
                false => (self.storage.evacuation_files / 2).max(1),
            };
            self.storage.evacuation = None;
            self.storage.evacuated = file;
            self.storage.forget = Some(file);
        }
    }

    /// Returns the newest file of the log that is no longer needed, together with all earlier files.
    pub fn poll_forget(&mut self) -> Option<u64> {
        self.storage.forget.take()
    }
}

impl Storage {
    /// Writes the records of all runs of a queue again.
    pub(crate) fn repeat_runs(&mut self, slot: &mut QueueSlot) {
        let (id, extents) = (slot.id, &slot.extents);
        let runs: Vec<u32> = extents.keys().copied().collect();
        slot.fifo.run_facts(&runs, |fact| self.journal.evacuate_local(id, &fact, extent_of(extents, &fact)));
    }
}

/// Joins ranges that overlap, so that live messages are written once. Ranges overlap because a queue writes
/// the messages that its consumers hold in no particular order. Written once per range, a message would be in
/// more ranges after every evacuation.
fn join(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, joined| {
        let overlaps = next.0 <= joined.1;
        joined.1 = joined.1.max(if overlaps { next.1 } else { 0 });
        overlaps
    });
    ranges
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use broker::settings::Settings;
    use catalog::access::Access;
    use catalog::{Arguments, Command, DeclareQueue};
    use message::{Message, Parts, Route};
    use queue::{Fact, Publish, PublisherId, Request};
    use replica::{Base, Member, Payload, Position, Vote};
    use wal::{Completion, Handover, Step};

    use super::*;
    use crate::entries;
    use crate::facts::Restored;
    use crate::shard::CHORES_MS;
    use crate::shard::questions::{Act, AnswerTo, Question};
    use crate::{StorageLimits, make_shards};

    /// Returns the question for a change of the catalog.
    fn asked(command: Command) -> Question {
        let (to, _) = AnswerTo::new(0);
        Question::Act(Act::Change { command, by: "guest".into(), to })
    }

    /// A log of one shard with one file per handover, numbered from 1. `files` has their sizes in bytes.
    struct Files {
        shard: Shard,
        files: Vec<u64>,
        forgotten: usize,
        written: u64,
    }

    impl Files {
        fn with_garbage_allowed(garbage_allowed: u64) -> Self {
            let limits = StorageLimits { garbage_allowed, ..StorageLimits::default() };
            let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
            let mut shards = make_shards(Restored::default(), 1, &settings, &access, limits, 0);
            Self { shard: shards.remove(0), files: Vec::new(), forgotten: 0, written: 0 }
        }

        fn declare(&mut self, name: &str) {
            let declare = DeclareQueue::new("/", name, Arguments::new());
            self.shard.handle_question(asked(Command::DeclareQueue(declare)));
            self.work();
        }

        /// Takes turns and writes until nothing is left to do.
        fn work(&mut self) {
            while self.shard.turn() {}
            while let Some(handover) = self.shard.poll_handover() {
                let bytes = handover.records.bytes() as u64;
                self.files.push(bytes);
                self.written += bytes;
                let oldest = (self.forgotten + 1 < self.files.len()).then_some(self.forgotten as u64 + 1);
                for step in [Step::Written, Step::Synced] {
                    let size = Size { bytes: self.bytes(), oldest, ..Size::default() };
                    let (ticket, file, result) = (handover.ticket, self.files.len() as u64, Ok(()));
                    self.shard.handle_logged(Completion { shard: 0, ticket, step, file, size, result });
                    while self.shard.turn() {}
                }
                if let Some(file) = self.shard.poll_forget() {
                    self.forgotten = file as usize;
                }
            }
        }

        fn bytes(&self) -> u64 {
            self.files[self.forgotten..].iter().sum()
        }
    }

    #[test]
    fn definitions_larger_than_the_garbage_allowed_are_not_rewritten_each_time() {
        let (count, one) = (300, 100);
        let mut log = Files::with_garbage_allowed(10 * one);
        (0..count).for_each(|i| log.declare(&format!("queue-{i:080}")));
        assert!(log.forgotten > 0);
        // If they counted as garbage, they would be written again with each declaration, 150 times in all.
        assert!(log.written < 10 * count * one, "{} bytes for {count} definitions", log.written);
        assert!(log.bytes() < 5 * count * one, "{} bytes are kept", log.bytes());
    }

    /// The queue is gone when the last record is written, and then the broker is idle.
    #[test]
    fn an_idle_broker_frees_what_a_deleted_queue_has_left() {
        const MESSAGES: u64 = 100;
        const GARBAGE: u64 = 2000;
        let mut log = Files::with_garbage_allowed(GARBAGE);
        let quorum = [("x-queue-type".to_owned(), amqp10::Value::from("quorum"))].into();
        let change = |log: &mut Files, command| {
            log.shard.handle_question(asked(command));
            log.work();
        };
        change(&mut log, Command::DeclareQueue(DeclareQueue::new("/", "q", quorum)));
        let queue = log.shard.catalog().listed_queue("/", "q").unwrap().id;
        for seq in 1..=MESSAGES {
            let publish = Publish { publisher: PublisherId(1), seq, message: message(), pipelines: false };
            log.shard.mail.post.request(queue, Request::Publish(publish));
            log.work();
        }
        assert_eq!(log.shard.queue_report(queue).unwrap().ready, MESSAGES);
        let before = log.bytes();
        change(&mut log, Command::ForgetQueue { queue });
        for second in 1..=10 {
            log.shard.set_now(second * CHORES_MS);
            log.shard.handle_timeout();
            log.work();
        }
        assert_eq!(log.shard.excess(log.bytes()), 0, "{} bytes of {before} are kept", log.bytes());
        assert!(log.bytes() < before / 2, "{} bytes of {before} are kept", log.bytes());
    }

    /// An alarm may begin when nothing is written any more.
    #[test]
    fn while_an_alarm_lasts_no_garbage_is_allowed() {
        let mut log = Files::with_garbage_allowed(u64::MAX / 2);
        (0..20).for_each(|i| log.declare(&format!("queue-{i}")));
        assert_eq!(log.forgotten, 0);
        log.shard.set_blocked(true);
        log.work();
        assert!(log.forgotten > 10, "{} files are forgotten", log.forgotten);
    }

    /// The definitions are written in parts while a declaration and a deletion wait for their sync. Both are
    /// in files that are deleted. They are synced before one of the parts, or after the last.
    #[test]
    fn pending_changes_outlive_an_evacuation() {
        (0..10).for_each(evacuate_while_changes_are_pending);
    }

    fn evacuate_while_changes_are_pending(synced_at: usize) {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let limits = StorageLimits::default();
        let mut shard = make_shards(Restored::default(), 1, &settings, &access, limits, 0).remove(0);
        let declare = |name: &str| Command::DeclareQueue(DeclareQueue::new("/", name, Arguments::new()));
        let propose = |shard: &mut Shard, command| {
            shard.handle_question(asked(command));
            while shard.turn() {}
        };
        let log = |shard: &mut Shard, ticket, step, file| {
            let size = Size::default();
            shard.handle_logged(Completion { shard: 0, ticket, step, file, size, result: Ok(()) });
            while shard.turn() {}
        };
        for name in ["a", "b", "old", "c", "d"] {
            propose(&mut shard, declare(name));
        }
        let ticket = shard.poll_handover().unwrap().ticket;
        [Step::Written, Step::Synced].into_iter().for_each(|step| log(&mut shard, ticket, step, 1));
        let queue = shard.catalog().listed_queue("/", "old").unwrap().id;

        propose(&mut shard, declare("new"));
        propose(&mut shard, Command::ForgetQueue { queue });
        let pending = shard.poll_handover().unwrap();
        log(&mut shard, pending.ticket, Step::Written, 1);
        shard.handle_mail(vec![Mail::Evacuate { file: 1 }]);
        shard.walk_at_most(2);
        let mut evacuated = Vec::new();
        for part in 0.. {
            if part == synced_at {
                log(&mut shard, pending.ticket, Step::Synced, 1);
            }
            let is_left = shard.turn();
            while let Some(handover) = shard.poll_handover() {
                log(&mut shard, handover.ticket, Step::Written, 2);
                evacuated.push(handover);
            }
            if !is_left && part > synced_at {
                break;
            }
        }

        // What remains after file 1 is deleted and the process is killed.
        let disk = wal_testing::SimDisk::new(1);
        let options = wal::Options { seed: Some(1), ..wal::Options::default() };
        let (mut files, _) = wal::Log::open(disk.clone(), options, &mut |_| {}).unwrap();
        files.append(&mut evacuated, &mut Vec::new());
        drop(files);
        let mut restored = Restored::default();
        let options = wal::Options { seed: Some(1), ..wal::Options::default() };
        let _ = wal::Log::open(disk, options, &mut |record| restored.handle_record(record)).unwrap();
        restored.begin(&Access::default()).unwrap();
        for catalog in [&restored.catalog, shard.catalog()] {
            let mut names: Vec<_> = catalog.queues().map(|queue| queue.name.to_string()).collect();
            names.sort();
            assert_eq!(names, ["a", "b", "c", "d", "new"], "synced at {synced_at}");
        }
    }

    /// Two messages of a quorum queue are written again by every evacuation: one whose entry is not known to be
    /// committed at a restart, and one whose entry is not synced when its file is evacuated.
    #[test]
    fn uncommitted_entries_outlive_evacuations() {
        let mut restored = Restored::default();
        let quorum = [("x-queue-type".to_owned(), amqp10::Value::from("quorum"))].into();
        let declare = Command::DeclareQueue(DeclareQueue::new("/", "q", quorum));
        let catalog = &mut restored.catalog;
        for change in catalog.decide(declare, &mut catalog.queue_ids()).unwrap().changes {
            catalog.apply(&change);
        }
        let queue = catalog.listed_queue("/", "q").unwrap().id;
        let me = Member { node: 1, number: 1 };
        let mut facts = Vec::new();
        entries::push_fact(&mut facts, &Fact::Put { seq: 1, message: message(), at_ms: 1 });
        let entry = |index, payload| {
            let entry = replica::Entry { at: Position { term: 2, index }, payload };
            replica::Record::Entry { entry, committed: index - 1 }
        };
        let mut records = wal::Records::new();
        for record in [
            replica::Record::Base(Base::founding(&[1], entries::content(1))),
            replica::Record::Vote(Vote { term: 2, candidate: Some(me), applied: 1 }),
            entry(2, Payload::Empty),
            entry(3, Payload::Facts(facts.into())),
        ] {
            crate::facts::push_group(&mut records, queue, me, &record);
        }
        read(vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }], &mut restored);
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let mut shard = make_shards(restored, 1, &settings, &access, StorageLimits::default(), 0).remove(0);
        let log = |shard: &mut Shard, ticket, step, file| {
            let size = Size::default();
            shard.handle_logged(Completion { shard: 0, ticket, step, file, size, result: Ok(()) });
            while shard.turn() {}
        };
        let write_all = |shard: &mut Shard, file| {
            let mut written = Vec::new();
            loop {
                while shard.turn() {}
                let Some(handover) = shard.poll_handover() else { return written };
                log(shard, handover.ticket, Step::Written, file);
                log(shard, handover.ticket, Step::Synced, file);
                written.push(handover);
            }
        };
        write_all(&mut shard, 2);
        assert_eq!(shard.queue_report(queue).unwrap().ready, 1, "the entry is committed");
        let publish = Publish { publisher: PublisherId(1), seq: 1, message: message(), pipelines: false };
        shard.apply_one(queue, Request::Publish(publish));
        while shard.turn() {}
        let second = shard.poll_handover().unwrap();
        log(&mut shard, second.ticket, Step::Written, 2);
        // The second message is written and not synced.
        shard.handle_mail(vec![Mail::Evacuate { file: 2 }]);
        write_all(&mut shard, 3);
        assert_eq!(shard.queue_report(queue).unwrap().ready, 2);
        shard.handle_mail(vec![Mail::Evacuate { file: 3 }]);
        let written = write_all(&mut shard, 4);
        let mut again = Restored::default();
        read(written, &mut again);
        assert_eq!(again.unreadable, Vec::<String>::new());
        assert_eq!(again.queues.remove(&queue).unwrap().len(), 2, "both messages are in the newest file");
    }

    fn message() -> Message {
        let parts = Parts { wire: vec![0, 0x53, 0x75, 0xa0, 1, 7].into(), durable: true, ..Parts::default() };
        Message::new(parts, Arc::new(Route::simple("", "q")))
    }

    /// Reads what the log has of these handovers.
    fn read(mut handovers: Vec<Handover>, restored: &mut Restored) {
        let disk = wal_testing::SimDisk::new(1);
        let options = || wal::Options { seed: Some(1), ..wal::Options::default() };
        let (mut log, _) = wal::Log::open(disk.clone(), options(), &mut |_| {}).unwrap();
        log.append(&mut handovers, &mut Vec::new());
        drop(log);
        wal::Log::open(disk, options(), &mut |record| restored.handle_record(record)).unwrap();
    }

    #[test]
    fn overlapping_ranges_are_written_once() {
        assert_eq!(join(Vec::new()), []);
        assert_eq!(join(vec![(517, 569), (458, 514), (459, 568)]), [(458, 569)]);
        assert_eq!(join(vec![(5, 9), (1, 4), (9, 9), (11, 20), (12, 13)]), [(1, 4), (5, 9), (11, 20)]);
    }
}
