//! The log itself: batches in, completions out. Syncing stands in `sync.rs`, giving space back in `space.rs`, what becomes
//! of the files then in `spare.rs`, what a full disk is emptied with in `reserve.rs`, what a shard may write itself in
//! `at_once.rs`.
//!
//! ```text
//!             first write            full, or a write failed
//!   (none) ─────────────▶ current ──────────────────────────▶ dirty ──── synced ───▶ closed ── forgotten ──▶ (none, or spare)
//!      ▲                     │                                  ▲ │
//!      └── nothing good in it, removed ◀─┘   a sync failed: ────┘ └─ doomed: copied into the current file by
//!                                            doomed                  every later sync, until one succeeds
//! ```
//!
//! A file that failed a write or a sync is never written again. What a failed sync may have lost is written anew: from
//! memory, if somebody waits to see it synced, else as it reads back.

mod at_once;
mod reserve;
mod space;
mod spare;
mod sync;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};

use crate::batch::{BATCH_HEADER, BatchHeader, CLEAN, Proof, WAITED};
use crate::disk::{Disk, write_all};
use crate::file::{self, FILE_HEADER, FILE_SIZE, FileHeader, LOG_MAGIC, LOG_VERSION};
use crate::handover::{Completion, Failure, Handover, Step, WriteError};
use crate::note::Note;
use crate::record::{Record, Records};
use crate::recover::{self, OpenError, Recovery};

pub use at_once::AT_ONCE_BYTES_MAX;
pub use reserve::RESERVE_BYTES;
pub(crate) use space::Closed;
pub use space::Size;
pub use spare::SPARE_FILES_MAX;
use sync::Unsynced;
pub use sync::{SyncEnd, SyncJob, UNSYNCED_BYTES_MAX};

/// Names of files that hold nothing good and could not be removed; at the bound nothing is written until one can.
const LEFTOVERS_MAX: usize = 4;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes after which a file is full.
    pub file_bytes: u64,
    /// Files behind the current one that may wait for a sync nobody asked for. Beyond, the next sync is due, that of
    /// the oldest alone if nobody asks for more; at twice the bound writes wait for it, or fail if the disk refuses.
    pub dirty_files_max: usize,
    /// Where the files' generations come from. `None` takes the process's randomness: a client that could foresee
    /// them could plant a batch in a message's body.
    pub seed: Option<u64>,
    /// Bytes of the disk that are kept for the time when it is full; 0: none. See [`Size::short`].
    pub reserve_bytes: u64,
    /// Forgotten files that are kept to be written over, each of `file_bytes` or one batch more; beyond, they are removed. They
    /// stand for the reserve if they are as large.
    pub spare_files_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            file_bytes: FILE_SIZE,
            dirty_files_max: 8,
            seed: None,
            reserve_bytes: 0,
            spare_files_max: SPARE_FILES_MAX,
        }
    }
}

/// What a file holds; batches that were copied elsewhere are counted where they were first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub first_batch: u64,
    pub last_batch: u64,
    pub records: u64,
}

/// The log of one directory.
pub struct Log<D: Disk> {
    disk: D,
    options: Options,
    random: u64,
    current: Option<Open<D::File>>,
    /// Oldest first. With the current file, all that is not known to be synced.
    dirty: VecDeque<Open<D::File>>,
    spans: BTreeMap<u64, Span>,
    /// Every file with something good in it, but the current one.
    closed: Closed,
    leftovers: Vec<u64>,
    /// What were the files with these numbers, oldest first.
    spares: VecDeque<u64>,
    next_file: u64,
    next_batch: u64,
    /// The last acknowledged batch.
    last: u64,
    /// Every acknowledged batch up to this one is synced.
    synced: u64,
    unsynced: Unsynced,
    /// The disk has refused to sync, and nobody waited to be told so: whoever writes next is, until it does not refuse.
    sync_refused: bool,
    /// The first batch that is still needed.
    floor: u64,
    /// The batch that said so first; 0: it was there at the open.
    said: u64,
    /// Files up to this one are to go.
    forgetting: u64,
    /// What the file `lock` says of this log, as far as this process has told it.
    noted: Note,
    /// The last batch is the mark of a clean stop, or there is none.
    clean: bool,
    /// The reserve is there.
    reserved: bool,
}

/// What stands in a batch.
#[derive(Clone, Copy)]
enum Batch<'a> {
    Records(&'a [Handover]),
    /// Nothing: the header raises the floor.
    Floor,
    /// Nothing: the mark of a clean stop.
    Clean,
}

impl<'a> Batch<'a> {
    fn records(self) -> impl Iterator<Item = &'a Records> {
        let group = if let Batch::Records(group) = self { group } else { &[] };
        group.iter().map(|handover| &handover.records)
    }

    fn len(self) -> u64 {
        self.records().map(|records| records.len() as u64).sum()
    }
}

/// Where a batch was written.
#[derive(Clone, Copy)]
struct Stands {
    file: u64,
    offset: u64,
    header: BatchHeader,
}

struct Open<F> {
    number: u64,
    generation: u64,
    handle: F,
    /// Bytes of complete writes.
    end: u64,
    /// Bytes it had when it was taken: those behind `end` are of a former life.
    former: u64,
    /// The last acknowledged batch in it.
    last: u64,
    /// Acknowledged batches in it.
    good: u32,
    /// Its name is known to be synced.
    named: bool,
    /// A sync failed: what is not known to be synced may be lost, whatever later syncs say.
    doomed: bool,
}

impl<D: Disk> Log<D> {
    /// Takes the directory, reads it, calls `on_record` with every record in the order of acknowledgement, cuts an
    /// interrupted tail and syncs what is left. Writes nothing else, but takes its reserve. Memory: the bytes of one file, some 150 for each
    /// batch, and what `on_record` keeps. On an error some records may have been passed on already: forget them.
    ///
    /// # Errors
    /// See [`OpenError`]. Damage is no error; see [`Recovery::damage`].
    pub fn open(
        mut disk: D,
        options: Options,
        on_record: &mut dyn FnMut(Record),
    ) -> Result<(Self, Recovery), OpenError> {
        let found = recover::recover(&mut disk, on_record)?;
        let random = options.seed.unwrap_or_else(|| RandomState::new().hash_one(found.next_file));
        let noted = Note { life: disk.life().unwrap_or_default(), ..Note::default() };
        let mut log = Self {
            disk,
            options,
            random,
            current: None,
            dirty: VecDeque::new(),
            spans: found.spans,
            closed: found.closed,
            leftovers: Vec::new(),
            spares: VecDeque::new(),
            next_file: found.next_file,
            next_batch: found.next_batch,
            last: found.last,
            synced: found.last,
            unsynced: Unsynced::default(),
            sync_refused: false,
            floor: found.floor,
            said: 0,
            forgetting: 0,
            noted,
            clean: found.recovery.clean,
            reserved: false,
        };
        log.take_reserve();
        Ok((log, found.recovery))
    }

    /// Writes everything handed over, in order: one batch, one vectored append; then one completion each, in the same
    /// order. (A round of more bytes than a file takes one batch per file.) Who asked for a sync waits for
    /// [`Log::begin_sync`], unless there is nothing to sync.
    ///
    /// Leaves `handovers` empty. While the disk refuses, every call tries it again, twice: the caller paces. The second
    /// time it has the reserve, and every call takes that back if there is room.
    pub fn append(&mut self, handovers: &mut Vec<Handover>, done: &mut Vec<Completion>) {
        while !handovers.is_empty() {
            let mut bytes = 0;
            let group = handovers
                .iter()
                .take_while(|handover| {
                    let first = bytes == 0;
                    bytes += handover.records.bytes() as u64;
                    first || bytes <= self.options.file_bytes
                })
                .count();
            let empty = handovers[..group].iter().all(|handover| handover.records.is_empty());
            let batch = (!empty).then_some(Batch::Records(&handovers[..group]));
            let committed = self.commit(batch, false);
            self.take_reserve();
            match committed {
                Ok(header) => self.written(handovers.drain(..group), header, done),
                Err(failure) => done.extend(handovers.drain(..group).map(|handover| {
                    let Handover { shard, ticket, records, .. } = handover;
                    let (result, size) = (Err(failure.with(records)), Size::default());
                    Completion { shard, ticket, step: Step::Written, result, file: 0, size }
                })),
            }
        }
    }

    /// Syncs everything and marks the stop as clean.
    ///
    /// # Errors
    /// The next open will find everything acknowledged (as far as promised), but no clean mark.
    /// [`io::ErrorKind::WouldBlock`]: a sync is under way.
    pub fn close(mut self) -> Result<(), WriteError> {
        self.refuse_while_syncing()?;
        self.drop_spares();
        self.take_reserve();
        if self.clean {
            return Ok(());
        }
        // Or it would look as if something had been written behind the mark.
        if let Some(current) = &mut self.current {
            spare::cut_former(&mut self.disk, current);
        }
        self.commit(None, true)?;
        self.commit(Some(Batch::Clean), true)?;
        self.note();
        Ok(())
    }

    /// Whether [`Log::note`] would say something new.
    pub fn has_news(&self) -> bool {
        (self.noted.written, self.noted.synced) != (self.last, self.synced) && self.noted.file > 0
    }

    /// Notes how far the log has come, for the next open: to be called when it falls idle. One small write to the page
    /// cache. What the disk refuses is said the next time.
    pub fn note(&mut self) {
        let file = self.current.as_ref().filter(|current| current.good > 0).map(|current| current.number);
        let file = file.unwrap_or(self.noted.file);
        let note = Note { file, written: self.last, synced: self.synced, ..self.noted };
        if note != self.noted && file > 0 && self.disk.write_note(0, &note.encode()).is_ok() {
            self.noted = note;
        }
    }

    /// What each file holds, by file number, as far as it is known to be good.
    pub fn spans(&self) -> &BTreeMap<u64, Span> {
        &self.spans
    }

    /// The disk, for tests that look behind the log's back.
    #[cfg(any(test, feature = "testing"))]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Makes one batch (or none) written, and synced on the spot if asked. Tries twice.
    fn commit(&mut self, batch: Option<Batch<'_>>, sync: bool) -> Result<Option<BatchHeader>, Failure> {
        let number = self.next_batch;
        self.next_batch += u64::from(batch.is_some());
        let mut at = None;
        let mut outcome = self.attempt(batch, number, sync, &mut at);
        if let Err(failure) = &outcome {
            self.give_way(failure);
            outcome = self.attempt(batch, number, sync, &mut at);
        }
        if outcome.is_err() {
            // The batch may stand whole in the current file, but nobody was told so: no later batch may follow it
            // there.
            if let Some(stands) = at
                && self.current.as_ref().is_some_and(|current| current.number == stands.file)
            {
                self.abandon(Some(stands.offset));
            }
        } else if let Some(batch) = batch {
            self.committed(batch, number, sync);
        }
        outcome.map(|()| at.map(|stands| stands.header))
    }

    /// A batch stands in the current file, synced if that was asked: it counts from now on.
    fn committed(&mut self, batch: Batch<'_>, number: u64, sync: bool) {
        let Some(current) = &mut self.current else { return };
        current.last = number;
        current.good += 1;
        let is_first = current.good == 1;
        let span = self.spans.entry(current.number).or_default();
        if span.first_batch == 0 {
            span.first_batch = number;
        }
        span.last_batch = number;
        span.records += batch.len();
        self.last = number;
        self.clean = matches!(batch, Batch::Clean);
        if sync {
            self.synced = number;
        }
        if is_first {
            self.note();
        }
    }

    /// `at` is where the batch already stands.
    fn attempt(
        &mut self,
        batch: Option<Batch<'_>>,
        number: u64,
        sync: bool,
        at: &mut Option<Stands>,
    ) -> Result<(), Failure> {
        if let Some(batch) = batch {
            let stands =
                at.is_some_and(|stands| self.current.as_ref().is_some_and(|c| c.number == stands.file));
            if !stands {
                self.ready()?;
                let waited = if self.unsynced.is_empty() { 0 } else { WAITED };
                let header = BatchHeader {
                    generation: 0,
                    number,
                    previous: self.last,
                    synced: self.synced,
                    floor: self.floor,
                    length: batch.records().map(|records| records.bytes() as u64).sum(),
                    records: match batch {
                        Batch::Clean => CLEAN,
                        _ => batch.len() as u32 | waited,
                    },
                    proof: 0,
                };
                let mut pieces = Vec::new();
                batch.records().for_each(|records| records.slices(&mut pieces));
                let offset = self.write_batch(header, &pieces)?;
                *at = self.current.as_ref().map(|current| Stands { file: current.number, offset, header });
            }
        }
        if sync && (batch.is_some() || self.synced < self.last) { self.sync_all() } else { Ok(()) }
    }

    /// Sees to a current file that has room.
    fn ready(&mut self) -> Result<(), Failure> {
        if self.current.as_ref().is_some_and(|current| current.end >= self.options.file_bytes) {
            self.retire(true);
        }
        let syncs_first = self.sync_refused || self.dirty.len() > 2 * self.options.dirty_files_max;
        if syncs_first && !self.is_syncing() {
            self.sync_all()?;
        }
        self.open_fresh()
    }

    /// Sees to a current file.
    fn open_fresh(&mut self) -> Result<(), Failure> {
        if self.current.is_some() {
            return Ok(());
        }
        let number = self.next_file;
        let fail = |error| Failure { error, file: file::name(number) };
        let disk = &mut self.disk;
        self.leftovers.retain(|&leftover| match disk.remove(&file::name(leftover)) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
        if self.leftovers.len() >= LEFTOVERS_MAX {
            return Err(fail(io::Error::other("files of failed writes cannot be removed")));
        }
        self.next_file += 1;
        let generation = self.random();
        match self.take_file(number) {
            Ok((handle, former)) => {
                let (end, last, good, named, doomed) = (0, 0, 0, false, false);
                self.current =
                    Some(Open { number, generation, handle, end, former, last, good, named, doomed });
                Ok(())
            }
            Err(error) => {
                self.leftovers.push(number);
                Err(fail(error))
            }
        }
    }

    /// Writes a batch behind the last one of the current file and returns its offset. After an error there is no current file.
    fn write_batch(&mut self, mut header: BatchHeader, payload: &[IoSlice<'_>]) -> Result<u64, Failure> {
        let Some(current) = &mut self.current else {
            return Err(Failure { error: io::ErrorKind::NotFound.into(), file: String::new() });
        };
        header.generation = current.generation;
        let mut proof = Proof::new([header.generation, header.number]);
        payload.iter().for_each(|piece| proof.update(piece));
        header.proof = proof.finish();

        let (number, generation) = (current.number, current.generation);
        let opening = FileHeader { version: LOG_VERSION, number, generation }.encode(LOG_MAGIC);
        let header_bytes = header.encode();
        let mut pieces = Vec::with_capacity(payload.len() + 2);
        let mut length = BATCH_HEADER as u64 + header.length;
        let mut offset = current.end;
        if current.end == 0 {
            pieces.push(IoSlice::new(&opening));
            length += FILE_HEADER as u64;
            offset = FILE_HEADER as u64;
        }
        pieces.push(IoSlice::new(&header_bytes));
        pieces.extend_from_slice(payload);
        match write_all(&mut self.disk, &mut current.handle, current.end, &mut pieces) {
            Ok(()) => {
                current.end += length;
                Ok(offset)
            }
            Err(error) => {
                let file = file::name(number);
                self.abandon(None);
                Err(Failure { error, file })
            }
        }
    }

    /// Cuts the current file at an offset (at its last complete write, if none is given) and leaves it for good.
    fn abandon(&mut self, offset: Option<u64>) {
        if let Some(current) = &mut self.current {
            // Bytes that stay are harmless: no later batch of this file will ever vouch for them.
            current.end = offset.unwrap_or(current.end);
            let _ = self.disk.truncate(&mut current.handle, current.end);
            current.former = 0;
        }
        self.retire(false);
    }

    fn retire_doomed(&mut self) {
        if self.current.as_ref().is_some_and(|current| current.doomed) {
            self.retire(false);
        }
    }

    /// Leaves the current file for good. It is sound if nothing has failed in it.
    fn retire(&mut self, sound: bool) {
        let Some(mut current) = self.current.take() else { return };
        if current.good > 0 {
            spare::cut_former(&mut self.disk, &mut current);
            self.closed.add(current.number, current.end, sound);
            self.dirty.push_back(current);
        } else if self.disk.remove(&file::name(current.number)).is_err() {
            self.leftovers.push(current.number);
        }
    }

    /// The next generation (SplitMix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mix = self.random;
        mix = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mix ^ (mix >> 31)
    }
}
