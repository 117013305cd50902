//! Syncing while writing continues.
//!
//! ```text
//!  append        writes; a handover that asked for a sync waits from now on, and its batch stays in memory
//!  begin_sync    takes everything written so far: a job for another thread
//!  append ...    continues meanwhile; handovers that ask now wait for the next job, all together
//!  end_sync      answers every handover that was written before the job began
//! ```
//!
//! Only one sync is in flight at a time, and nothing else syncs meanwhile, because the system reports an
//! error only once and only to one caller. A failed job is retried at once by [`Log::end_sync`]: what it may
//! have lost must be copied first. So a failing disk slows everyone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSlice};

use super::{Log, Mutation, Open};
use crate::batch::{BATCH_HEADER, BatchHeader};
use crate::disk::{Disk, PendingSync};
use crate::file;
use crate::handover::{Completion, Failure, Handover, Step, WriteError};
use crate::record::Records;
use crate::scan;

/// The maximum bytes of batches kept in memory until they are synced: what a fast disk syncs in a tenth of a
/// second. At the bound [`Log::is_full`] returns true.
pub const UNSYNCED_BYTES_MAX: u64 = 64 << 20;

/// The files to sync, and possibly the directory. The job may run in parallel with all writes.
#[must_use = "waiting handovers are answered when the sync job ends"]
pub struct SyncJob {
    files: Vec<(u64, PendingSync)>,
    names: Option<PendingSync>,
}

/// The result of a [`SyncJob`].
#[derive(Debug)]
#[must_use = "the log waits for the result of its sync job"]
pub struct SyncEnd(pub(super) Result<(), Refused>);

#[derive(Debug)]
pub(super) struct Refused {
    /// The number of the file. `None` if the directory was synced.
    pub file: Option<u64>,
}

impl SyncEnd {
    /// Returns true if the sync has failed. Then [`Log::end_sync`] syncs again, and waits for that.
    pub fn is_failure(&self) -> bool {
        self.0.is_err()
    }
}

impl SyncJob {
    /// Syncs everything and waits for it. Stops at the first error.
    pub fn run(self) -> SyncEnd {
        for (file, sync) in self.files {
            if sync().is_err() {
                return SyncEnd(Err(Refused { file: Some(file) }));
            }
        }
        let names = self.names.map_or(Ok(()), |sync| sync());
        SyncEnd(names.map_err(|_| Refused { file: None }))
    }
}

impl std::fmt::Debug for SyncJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SyncJob({} files)", self.files.len())
    }
}

/// The handovers that wait for a sync, and their batches.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// The waiting handovers, in the order of their batches.
    waiting: VecDeque<Waiting>,
    /// Batches that a handover waits for, oldest first. Until a batch is synced, only this copy is certainly
    /// good.
    batches: VecDeque<UnsyncedBatch>,
    /// The sum of the lengths of `batches`.
    bytes: u64,
    in_flight: Option<InFlight>,
}

impl Unsynced {
    /// Returns true if nobody waits for the sync of a written batch.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    shard: u32,
    ticket: u64,
    /// The number of the last batch that must be synced.
    batch: u64,
}

#[derive(Debug)]
struct UnsyncedBatch {
    file: u64,
    header: BatchHeader,
    records: Vec<Records>,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// The number of the last batch that is synced if the sync succeeds.
    batch: u64,
    /// The names of files below this number are synced as well.
    names: Option<u64>,
    /// The number of the file that is written directly, if this sync is a direct write.
    direct: Option<u64>,
}

/// The source from which a batch of a doomed file is copied.
enum Source {
    Memory(usize),
    /// The batch is read from the file, between these two offsets.
    File(usize, usize),
}

impl<D: Disk> Log<D> {
    /// Begins a sync. The caller runs the job on another thread and passes its result to [`Log::end_sync`].
    /// Until then no other sync begins. What the sync covers:
    ///
    /// * everything written so far, if a handover waits for a sync;
    /// * else all files except the forgotten ones, if there are forgotten files (files that will be removed);
    /// * else only the oldest unsynced file, if too many files are unsynced.
    ///
    /// Files whose sync failed before are copied and synced at once, without a job.
    pub fn begin_sync(&mut self, done: &mut Vec<Completion>) -> Option<SyncJob> {
        if self.is_syncing() {
            return None;
        }
        // Another call may have synced everything meanwhile (see `ensure_room`). So the handovers that are
        // covered by it are answered now.
        self.answer(&Ok(()), done);
        let forgotten = self.begin_forget();
        let asked = !self.unsynced.waiting.is_empty() || forgotten.is_some();
        if !asked && self.dirty.len() <= self.options.dirty_files_max {
            return None;
        }
        let stays = |file: &Open<D::File>| forgotten.is_none_or(|forgotten| file.number > forgotten);
        let files = if asked { self.dirty.len() } else { 1 };
        if self.dirty.iter().filter(|file| stays(file)).take(files).any(|file| file.doomed) {
            if asked {
                let outcome = self.sync_all().or_else(|failure| {
                    self.release_reserve_if_full(&failure);
                    self.sync_all()
                });
                self.answer(&outcome, done);
                self.remove_forgotten();
            }
            return None;
        }
        let (mut job, mut named) = (SyncJob { files: Vec::new(), names: None }, true);
        let current = self.current.as_mut().filter(|_| asked);
        for file in self.dirty.iter_mut().filter(|file| stays(file)).take(files).chain(current) {
            job.files.push((file.number, self.disk.begin_sync(&mut file.handle)));
            named &= file.named;
        }
        if !named {
            job.names = Some(self.disk.begin_sync_dir());
        }
        let batch = if asked { self.last } else { self.dirty.front().map_or(0, |oldest| oldest.last) };
        self.unsynced.in_flight =
            Some(InFlight { batch, names: (!named).then_some(self.next_file), direct: None });
        Some(job)
    }

    /// Takes the result of the job from [`Log::begin_sync`] and answers the handovers it covered. Retries a
    /// failed sync once.
    pub fn end_sync(&mut self, end: SyncEnd, done: &mut Vec<Completion>) {
        let Some(InFlight { mut batch, names, direct }) = self.unsynced.in_flight.take() else { return };
        if direct.is_some() && self.options.makes(Mutation::EndForLater) {
            batch = self.last;
        }
        let covered = |file: &Open<D::File>| names.is_some_and(|below| file.number < below);
        match end.0 {
            Ok(()) => {
                self.dirty.iter_mut().chain(&mut self.current).for_each(|file| file.named |= covered(file));
                self.drop_dirty(|file| file.last <= batch);
                self.synced = self.synced.max(batch);
                self.note();
                self.remove_forgotten();
                self.answer(&Ok(()), done);
            }
            Err(Refused { file }) => {
                for open in self.dirty.iter_mut().chain(&mut self.current) {
                    open.doomed |= file.map_or(!open.named && covered(open), |file| open.number == file);
                }
                self.retire_doomed();
                let outcome = self.sync_all();
                self.answer(&outcome, done);
            }
        }
    }

    /// Syncs everything that handovers wait for, without another thread.
    pub fn sync(&mut self, done: &mut Vec<Completion>) {
        loop {
            if let Some(end) = self.ended_direct(true) {
                self.end_sync(end, done);
            }
            let mut kept = self.write_kept(done);
            self.append(&mut kept, done);
            match self.begin_sync(done) {
                Some(job) => self.end_sync(job.run(), done),
                None if self.is_writing_directly() => {}
                None => return,
            }
        }
    }

    /// Called when a batch is written directly: it counts as a sync.
    pub(super) fn begin_direct_sync(&mut self, batch: u64) {
        self.unsynced.in_flight = Some(InFlight { batch, names: None, direct: Some(self.current_file()) });
    }

    /// Returns the file of the direct write in flight.
    pub(super) fn direct_in_flight(&self) -> Option<u64> {
        self.unsynced.in_flight.and_then(|in_flight| in_flight.direct)
    }

    /// Returns true while a job of [`Log::begin_sync`] has not ended.
    pub fn is_syncing(&self) -> bool {
        self.unsynced.in_flight.is_some()
    }

    /// Returns true if nothing more should be written before the sync in flight has ended.
    pub fn is_full(&self) -> bool {
        let full =
            self.unsynced.bytes >= UNSYNCED_BYTES_MAX || self.dirty.len() > 2 * self.options.dirty_files_max;
        full && self.is_syncing()
    }

    pub(super) fn refuse_while_syncing(&self) -> Result<(), WriteError> {
        match self.is_syncing() {
            true => Err(WriteError::without_file(io::ErrorKind::WouldBlock.into())),
            false => Ok(()),
        }
    }

    /// Answers the handovers of one batch that was written. Keeps the records of the batch if one of the
    /// handovers waits for a sync, or if the batch is written directly: until that has ended, they are nowhere else. `header` is the
    /// header of the batch.
    pub(super) fn answer_written(
        &mut self,
        group: impl Iterator<Item = Handover>,
        header: Option<BatchHeader>,
        is_direct: bool,
        done: &mut Vec<Completion>,
    ) {
        let (mut keeps, mut all) = (is_direct, Vec::new());
        for handover in group {
            keeps |= handover.sync;
            let (completion, records) = self.written(handover);
            done.push(completion);
            all.push(records);
        }
        if !keeps {
            return;
        }
        if let Some(header) = header {
            self.keep(header, all);
        }
        self.answer(&Ok(()), done);
    }

    /// Returns the completion of a handover that the last batch has written, and its records. If it asked for a
    /// sync, it waits from now on.
    pub(super) fn written(&mut self, handover: Handover) -> (Completion, Records) {
        let Handover { shard, ticket, records, sync, .. } = handover;
        if sync {
            self.unsynced.waiting.push_back(Waiting { shard, ticket, batch: self.last });
        }
        let file = if records.is_empty() { 0 } else { self.current_file() };
        let (step, size) = (Step::Written, self.size());
        (Completion { shard, ticket, step, result: Ok(()), file, size }, records)
    }

    /// Keeps the last batch in memory until it is synced.
    pub(super) fn keep(&mut self, header: BatchHeader, records: Vec<Records>) {
        self.unsynced.bytes += header.length;
        let file = self.current_file();
        self.unsynced.batches.push_back(UnsyncedBatch { file, header, records });
    }

    /// Returns the number of the current file, or 0 if there is none.
    fn current_file(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.number)
    }

    /// Answers the waiting handovers whose batches are synced; if `outcome` is an error, all of them.
    fn answer(&mut self, outcome: &Result<(), Failure>, done: &mut Vec<Completion>) {
        let synced = self.synced;
        while let Some(batch) = self.unsynced.batches.pop_front_if(|batch| batch.header.number <= synced) {
            self.unsynced.bytes -= batch.header.length;
        }
        if self.unsynced.waiting.is_empty() {
            self.sync_refused |= outcome.is_err();
            return;
        }
        let (size, step) = (self.size(), Step::Synced);
        let waiting = &mut self.unsynced.waiting;
        while let Some(Waiting { shard, ticket, .. }) =
            waiting.pop_front_if(|waiting| outcome.is_err() || waiting.batch <= synced)
        {
            let result = outcome.as_ref().map_err(|failure| failure.with(Records::new())).copied();
            let size = if result.is_ok() { size } else { Default::default() };
            done.push(Completion { shard, ticket, step, result, file: 0, size });
        }
    }

    /// Syncs everything written so far at once. Must not be called while a sync is in flight.
    pub(super) fn sync_all(&mut self) -> Result<(), Failure> {
        let outcome = self.try_sync_all();
        self.sync_refused &= outcome.is_err();
        outcome
    }

    fn try_sync_all(&mut self) -> Result<(), Failure> {
        let copies = self.copy_doomed()?;
        for file in self.dirty.iter_mut().filter(|file| !file.doomed).chain(&mut self.current) {
            if let Err(error) = self.disk.sync(&mut file.handle) {
                file.doomed = true;
                let name = file::name(file.number);
                self.retire_doomed();
                return Err(Failure { error, file: name });
            }
        }
        let unnamed = |file: &Open<D::File>| !file.named && !file.doomed;
        if self.dirty.iter().chain(&self.current).any(unnamed) {
            self.sync_names()?;
        }
        self.drop_dirty(|_| true);
        self.synced = self.last;
        if let Some(current) = &mut self.current {
            current.good += copies;
        }
        self.note();
        Ok(())
    }

    /// Copies the acknowledged batches of doomed files (files whose sync has failed) to the current file. If
    /// one of these files cannot be read, nothing is synced. A batch is lost if it is not in memory and its
    /// bytes in the file have changed: the disk accepted the batch and dropped it. The next open reports it.
    fn copy_doomed(&mut self) -> Result<u32, Failure> {
        let batches = std::mem::take(&mut self.unsynced.batches);
        let copies = self.copy_doomed_with(&batches);
        self.unsynced.batches = batches;
        copies
    }

    fn copy_doomed_with(&mut self, batches: &VecDeque<UnsyncedBatch>) -> Result<u32, Failure> {
        let mut copied = BTreeSet::new();
        for index in 0..self.dirty.len() {
            let file = &mut self.dirty[index];
            if !file.doomed {
                continue;
            }
            let (number, last) = (file.number, file.last);
            let name = file::name(number);
            let bytes = match scan::read_file(&mut self.disk, &mut file.handle) {
                Ok((bytes, false)) => bytes,
                Ok((_, true)) => {
                    return Err(Failure { error: io::Error::from_raw_os_error(libc::EIO), file: name });
                }
                Err(error) => return Err(Failure { error, file: name }),
            };
            let mut sources = BTreeMap::new();
            for found in scan::scan(&bytes, file.generation).batches {
                let header = found.header;
                if found.intact && header.number > self.synced && header.number <= last {
                    let (from, to) = (found.offset as usize + BATCH_HEADER, found.end as usize);
                    sources.insert(header.number, (header, Source::File(from, to)));
                }
            }
            for (place, batch) in batches.iter().enumerate().filter(|(_, batch)| batch.file == number) {
                sources.insert(batch.header.number, (batch.header, Source::Memory(place)));
            }
            for (number, (header, source)) in sources {
                if !copied.insert(number) {
                    continue;
                }
                let mut payload = Vec::new();
                match source {
                    Source::File(from, to) => payload.push(IoSlice::new(&bytes[from..to])),
                    Source::Memory(at) => batches[at].records.iter().for_each(|r| r.slices(&mut payload)),
                }
                self.ensure_current()?;
                self.write_batch(header, &payload)?;
            }
        }
        Ok(copied.len() as u32)
    }
}
