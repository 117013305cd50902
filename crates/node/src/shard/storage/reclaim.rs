//! Giving the log's space back: when most of it is garbage, every shard writes what is alive of the oldest
//! file once more, and then the file goes (docs/decisions/0005).
//!
//! ```text
//!   handle_evacuate ──> walk_evacuation, turn by turn: queues ──> definitions ──> written ──> Mail::Evacuated
//! ```
//!
//! Between two turns everything goes on. What is handed over after the beginning stands behind the file.

use std::sync::atomic::Ordering;

use broker::catalog::Told;
use broker::ids::DECIDER;
use broker::mail::Mail;
use queue::{ALL_DUE, Fact};
use wal::{SPARE_FILES_MAX, Size};

use super::Storage;
use crate::shard::Shard;
use crate::shard::walks::Walk;

/// The log may hold this much garbage whatever is alive: to give it back costs a sync.
pub const GARBAGE_ALLOWED: u64 = 24 * 1024 * 1024;

/// While the log lives on its reserve, what is alive must fit into this part of it: the rest is for what was under way
/// when the disk got full, and for what comes meanwhile.
const RESERVE_PART: u64 = 2;

/// On the shard that decides: an evacuation under way.
#[derive(Debug)]
pub(super) struct Evacuation {
    file: u64,
    /// Shards that have not written their part.
    left: usize,
    /// Bytes that the others have written.
    bytes: u64,
}

/// On each shard: how far its part of an evacuation has come.
#[derive(Debug)]
pub(super) struct Evacuating {
    file: u64,
    queues: Walk,
    definitions: Option<Definitions>,
    /// Bytes that have been written so far.
    bytes: u64,
}

/// Definitions that are written once more.
#[derive(Debug)]
struct Definitions {
    told: Told,
    /// The file where they begin, or an earlier one.
    file: u64,
    /// The number of the last.
    version: u64,
    bytes: u64,
}

/// An evacuation that writes less than this tries twice as many files the next time, one that writes more half as
/// many: all the while the log grows.
const EVACUATION_BYTES: u64 = 4 * 1024 * 1024;

/// Files of one evacuation, at most.
const EVACUATION_FILES_MAX: u64 = 1024;

impl Shard {
    /// Tells the others how much is alive here, about.
    pub(in crate::shard) fn publish_live_bytes(&self) {
        if let Some(mine) = self.storage.live.get(usize::from(self.here.id)) {
            // An evacuation writes what is kept from the log, and may find nothing but the reserve.
            let unwritten = if self.storage.log_short { self.storage.unwritten.bytes } else { 0 };
            mine.store(
                self.storage.live_bytes + self.storage.definitions_bytes + unwritten,
                Ordering::Relaxed,
            );
        }
    }

    /// How many bytes of a log of so many are too much garbage.
    fn excess(&self, bytes: u64) -> u64 {
        let live: u64 = self.storage.live.iter().map(|live| live.load(Ordering::Relaxed)).sum();
        let allowed = match self.storage.log_short {
            false => self.storage.garbage_allowed,
            // Every file counts, if there is surely room for what is alive.
            true if live <= self.storage.reserve_bytes / RESERVE_PART => 0,
            true => return 0,
        };
        bytes.saturating_sub(live.saturating_mul(2).saturating_add(allowed))
    }

    /// The log has said how large it is: whichever shard hears of it tells the one that decides, which may have
    /// nothing to write and hear nothing itself.
    pub(in crate::shard) fn tell_size(&mut self, size: Size) {
        self.publish_live_bytes();
        if let Some(oldest) = size.oldest.filter(|_| self.excess(size.bytes) > 0) {
            let (bytes, newest) = (size.bytes, self.storage.log_file);
            self.mail.send(DECIDER, Mail::LogFull { bytes, oldest, newest, short: size.short });
        }
    }

    /// On the shard that decides.
    pub(in crate::shard) fn handle_log_full(&mut self, bytes: u64, oldest: u64, newest: u64, short: bool) {
        self.note_log_short(short);
        self.storage.log_full = Some((bytes, oldest, newest));
        self.reclaim();
    }

    /// On the shard that decides, now and then: what is still there may have been told of before it went, or could not go.
    pub(in crate::shard) fn forget_again(&mut self) {
        let evacuated = self.storage.evacuated;
        if self.storage.log_full.take_if(|(_, oldest, _)| *oldest <= evacuated).is_some() {
            self.storage.forget = Some(evacuated);
        }
    }

    /// On the shard that decides: begins an evacuation if most of the log is garbage.
    pub(in crate::shard) fn reclaim(&mut self) {
        if !self.metadata.decides() || self.storage.evacuation.is_some() {
            return;
        }
        let Some((bytes, oldest, newest)) = self.storage.log_full else { return };
        let excess = self.excess(bytes);
        if excess == 0 {
            self.storage.log_full = None;
            return;
        }
        if oldest <= self.storage.evacuated {
            // It is going.
            return;
        }
        // As many as can be written over next (docs/decisions/0016): those that stay are synced each time (0021), so none goes
        // alone. More only if more are too much. And all but the newest: that one is being written.
        let file_bytes = (bytes / (newest.saturating_sub(oldest) + 1)).max(1);
        let files =
            self.storage.evacuation_files.min(excess.div_ceil(file_bytes).max(SPARE_FILES_MAX as u64));
        let file = (oldest + files - 1).min(newest.saturating_sub(1)).max(oldest);
        self.storage.evacuation = Some(Evacuation { file, left: self.mail.shards().len(), bytes: 0 });
        for to in self.mail.shards() {
            self.mail.send(to, Mail::Evacuate { file });
        }
    }

    /// Begins to write once more what is alive of the files up to `file`: when the place of all that was handed over
    /// before is known.
    pub(in crate::shard) fn handle_evacuate(&mut self, file: u64) {
        let storage = &mut self.storage;
        if storage.journal.is_away() {
            storage.evacuate_next = Some(file);
            return;
        }
        // The log writes to a newer one. What is written from now on is not evacuated.
        storage.log_file = storage.log_file.max(file + 1);
        let definitions = self.metadata.decides() && storage.definitions_file <= file;
        let definitions = definitions.then(|| Definitions {
            told: Told::default(),
            file: storage.log_file,
            version: 0,
            bytes: 0,
        });
        let mut queues = Walk::default();
        queues.begin();
        storage.evacuating = Some(Evacuating { file, queues, definitions, bytes: 0 });
    }

    /// Goes on with an evacuation, as far as this turn may.
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
        if !is_written {
            self.storage.evacuating = Some(evacuating);
            return;
        }
        let Evacuating { file, definitions, bytes, .. } = evacuating;
        if let Some(definitions) = &definitions {
            self.storage.definitions_bytes = definitions.bytes;
        }
        self.storage.journal.evacuated(file, bytes, definitions.map(|definitions| definitions.file));
    }

    /// Writes the next part of what is alive of a queue in the files up to `file`. Returns whether that was the last.
    fn evacuate_queue(&mut self, place: usize, file: u64) -> bool {
        let Storage { journal, unwritten, live_bytes, .. } = &mut self.storage;
        let Some(slot) = self.queues.at_mut(place) else { return true };
        let id = slot.id;
        if !slot.fifo.is_repeating() {
            if slot.fifo.is_damaged() {
                journal.evacuate_fact(id, &Fact::Damaged, None);
            }
            let old = slot.places.extract_if(.., |place| place.file <= file);
            let ranges = join(old.map(|place| (place.first, place.last)).collect());
            let runs = slot.extents.iter().filter(|(_, kept)| kept.file.is_some_and(|f| f <= file));
            let runs: Vec<u32> = runs.map(|(run, _)| *run).collect();
            if ranges.is_empty() && runs.is_empty() {
                return true;
            }
            // What the log has not been given is in the ranges, too.
            unwritten.write(slot, ALL_DUE, journal);
            slot.recount_live(live_bytes);
            slot.fifo.begin_repeat(ranges, runs);
        }
        if self.rows.left() == 0 {
            return false;
        }
        // What is said again must not be taken once more by what was kept back before.
        for fact in slot.take_kept() {
            journal.push_fact(id, &fact, None, slot.driver.syncs());
        }
        let extents = &slot.extents;
        let walked = slot.fifo.repeat(self.rows.left(), |fact| {
            let run = if let Fact::Stored(stored) = &fact { extents.get(&stored.run) } else { None };
            journal.evacuate_fact(id, &fact, run.map(|kept| kept.extent));
        });
        self.rows.count(walked);
        !slot.fifo.is_repeating()
    }

    /// Writes the next part of the definitions. Returns whether that was the last.
    fn evacuate_definitions(&mut self, definitions: &mut Definitions) -> bool {
        let Definitions { told, version, bytes, .. } = definitions;
        let journal = &mut self.storage.journal;
        let before = journal.open_bytes();
        let walked = self.metadata.catalog().tell(told, self.rows.left(), |change| {
            *version += 1;
            journal.evacuate_change(*version, &change);
        });
        // What is decided and not committed stands in the log before this part, and counts after it.
        let mut pending = 0;
        for change in self.metadata.pending() {
            (*version, pending) = (*version + 1, pending + 1);
            journal.evacuate_change(*version, change);
        }
        self.rows.count(walked + pending);
        *bytes += journal.open_bytes() - before;
        told.is_all()
    }

    /// On the shard that decides: a shard has written its part. Returns the file that may go when all have.
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

    /// The newest file of the log of which, and of all before it, nothing is needed any more.
    pub fn poll_forget(&mut self) -> Option<u64> {
        self.storage.forget.take()
    }
}

/// Ranges that overlap become one, so that what is alive of them is said once. They do overlap: a queue does not say
/// what its consumers hold in order. Said once per range, it would stand in more ranges after every evacuation.
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

    use broker::access::Access;
    use broker::catalog::{Arguments, Command, DeclareQueue};
    use broker::settings::Settings;
    use wal::{Completion, Step};

    use super::*;
    use crate::facts::Restored;
    use crate::questions::Question;
    use crate::{StorageLimits, make_shards};

    /// A log of one shard with a file for each handover, numbered from 1: their bytes.
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
            self.shard.handle_question(0, Question::Change(Command::DeclareQueue(declare)));
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
    fn definitions_that_are_more_than_the_garbage_allowed_are_not_written_again_for_every_other() {
        let (count, one) = (300, 100);
        let mut log = Files::with_garbage_allowed(10 * one);
        (0..count).for_each(|i| log.declare(&format!("queue-{i:080}")));
        assert!(log.forgotten > 0);
        // As garbage they would be written with each of them, 150 times in all.
        assert!(log.written < 10 * count * one, "{} bytes for {count} definitions", log.written);
        assert!(log.bytes() < 5 * count * one, "{} bytes are kept", log.bytes());
    }

    /// The definitions are said, in parts, while a declaration and a deletion wait for their sync: both stand in files that go.
    /// They are synced before one of the parts, or behind the last.
    #[test]
    fn what_is_pending_outlives_an_evacuation() {
        (0..10).for_each(evacuate_while_changes_are_pending);
    }

    fn evacuate_while_changes_are_pending(synced_at: usize) {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let limits = StorageLimits::default();
        let mut shard = make_shards(Restored::default(), 1, &settings, &access, limits, 0).remove(0);
        let declare = |name: &str| Command::DeclareQueue(DeclareQueue::new("/", name, Arguments::new()));
        let propose = |shard: &mut Shard, command| {
            shard.handle_question(0, Question::Change(command));
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
        let queue = shard.catalog().queue("/", "old").unwrap().id;

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

        // What is left when file 1 is gone, and the process with it.
        let disk = wal::testing::FalseDisk::new(1);
        let options = wal::Options { seed: Some(1), ..wal::Options::default() };
        let (mut files, _) = wal::Log::open(disk.clone(), options, &mut |_| {}).unwrap();
        files.append(&mut evacuated, &mut Vec::new());
        drop(files);
        let mut restored = Restored::default();
        let options = wal::Options { seed: Some(1), ..wal::Options::default() };
        let _ = wal::Log::open(disk, options, &mut |record| restored.handle_record(record)).unwrap();
        for catalog in [&restored.catalog, shard.catalog()] {
            let mut names: Vec<_> = catalog.queues().map(|queue| queue.name.to_string()).collect();
            names.sort();
            assert_eq!(names, ["a", "b", "c", "d", "new"], "synced at {synced_at}");
        }
    }

    #[test]
    fn ranges_that_overlap_are_said_once() {
        assert_eq!(join(Vec::new()), []);
        assert_eq!(join(vec![(517, 569), (458, 514), (459, 568)]), [(458, 569)]);
        assert_eq!(join(vec![(5, 9), (1, 4), (9, 9), (11, 20), (12, 13)]), [(1, 4), (5, 9), (11, 20)]);
    }
}
