//! The log itself: handovers in, completions out. Its parts: `sync.rs` syncs, `space.rs` reclaims space,
//! `spare.rs` reuses files, `reserve.rs` keeps a reserve for a full disk, `at_once.rs` lets a shard write by
//! itself, `direct.rs` writes and syncs in one.
//!
//! ```text
//!             first write            full, or a write failed
//!   (none) ─────────────▶ current ──────────────────────────▶ dirty ──── synced ───▶ closed ── forgotten ──▶ (none, or spare)
//!      ▲                     │                                  ▲ │
//!      └─ removed: no batch ─┘               a sync failed: ────┘ └─ doomed: every later sync first copies it
//!                                            doomed                  into the current file, until a sync succeeds
//! ```
//!
//! A file is removed if no batch in it was acknowledged. A file that failed a write or a sync is never
//! written again. Batches that a failed sync may have lost are copied to the current file: from memory if
//! somebody waits for the sync, else from the old file.

mod at_once;
mod direct;
mod reserve;
mod space;
mod spare;
mod sync;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};

use aio::BLOCK;

use crate::batch::{BATCH_HEADER, BatchHeader, CLEAN, WAITED};
use crate::disk::{Disk, write_all};
use crate::file::{self, FILE_HEADER, FILE_SIZE, FileHeader, LOG_MAGIC, LOG_VERSION};
use crate::handover::{Completion, Failure, Handover, Step, WriteError};
use crate::note::Note;
use crate::record::{Record, Records};
use crate::recover::{self, OpenError, Recovery};
use crate::space::{Closed, Size, Span};

pub use at_once::AT_ONCE_BYTES_MAX;
use direct::{Direct, DirectFile};
pub(crate) use reserve::NAME as RESERVE;
pub use reserve::RESERVE_BYTES;
pub use spare::{FillEnd, FillJob, SPARE_FILES_MAX};
use spare::{Spare, Taken};
use sync::Unsynced;
pub use sync::{SyncEnd, SyncJob, UNSYNCED_BYTES_MAX};

/// The maximum number of files without an acknowledged batch that could not be removed. At the bound, nothing
/// is written until one of them is removed.
const LEFTOVERS_MAX: usize = 4;

/// The padding up to the end of a block.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The size in bytes at which a file is full.
    pub file_bytes: u64,
    /// The number of files before the current one that may stay unsynced while nobody asks for a sync. Beyond
    /// this number, the log syncs the oldest one by itself. At twice the number, writes wait for that sync,
    /// or fail if the disk refuses it.
    pub dirty_files_max: usize,
    /// The seed of the generations of files. With `None` the seed is random. In a product it must be random:
    /// a client that could predict generations could hide a false batch in a message body.
    pub seed: Option<u64>,
    /// The bytes of disk space that are reserved for a full disk. 0 means no reserve. See [`Size::on_reserve`].
    pub reserve_bytes: u64,
    /// The maximum number of forgotten files that are kept as spares, to be overwritten. Each takes
    /// `file_bytes` or one batch more. Further forgotten files are removed. The spares replace the reserve if
    /// together they are as large.
    pub spare_files_max: usize,
    /// How many handovers in a row must wait for nothing but their sync before the log writes directly. 16 are a sign that the log has
    /// few other records, which it would have to write in another way.
    pub direct_after: u32,
    /// A mistake that a test wants.
    pub mutation: Option<Mutation>,
}

/// A deliberate mistake, which tests must find. A program without debug assertions makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The end of a direct write counts for all that was written meanwhile.
    EndForLater,
    /// A direct write begins in the block in which the last one has ended, and writes zeros over its bytes.
    ForgetTail,
    /// A direct write begins although what was written to the page cache is not synced.
    WriteOverUnsynced,
}

impl Options {
    fn makes(&self, mutation: Mutation) -> bool {
        cfg!(debug_assertions) && self.mutation == Some(mutation)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            file_bytes: FILE_SIZE,
            dirty_files_max: 8,
            seed: None,
            reserve_bytes: 0,
            spare_files_max: SPARE_FILES_MAX,
            direct_after: 16,
            mutation: None,
        }
    }
}

/// The log of one directory.
pub struct Log<D: Disk> {
    disk: D,
    options: Options,
    random: u64,
    current: Option<Open<D::File>>,
    /// The files before the current one that may be unsynced, oldest first. Together with the current one,
    /// these are all unsynced files.
    dirty: VecDeque<Open<D::File>>,
    spans: BTreeMap<u64, Span>,
    /// All files with an acknowledged batch, except the current one.
    closed: Closed,
    leftovers: Vec<u64>,
    /// The spares, oldest first.
    spares: VecDeque<Spare>,
    /// After a fill has failed: no further one before this file number is in use.
    no_fill_before: u64,
    direct: Direct,
    /// See [`Log::keep_spares`].
    keeps_spares: bool,
    next_file: u64,
    next_batch: u64,
    /// The number of the last acknowledged batch.
    last: u64,
    /// Every acknowledged batch up to this one is synced.
    synced: u64,
    unsynced: Unsynced,
    /// The disk refused a sync that no handover waited for. So the next write must sync first, and reports
    /// the error if that fails too.
    sync_refused: bool,
    /// The number of the first batch that is still needed.
    floor: u64,
    /// The number of the first batch with this floor. 0 if the floor was found when the log was opened.
    floor_batch: u64,
    /// The number of the newest file that is to be removed. All older files are to be removed, too.
    forgotten_to: u64,
    /// The last note written to the file `lock`.
    noted: Note,
    /// True if the last batch is the mark of a clean stop, or if there are no batches.
    clean: bool,
    /// True if the reserve file exists.
    reserved: bool,
}

/// The contents of a batch.
#[derive(Clone, Copy)]
enum Batch<'a> {
    Records(&'a [Handover]),
    /// The batch has no records. Its header raises the floor.
    Floor,
    /// The batch has no records. It is the mark of a clean stop.
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

/// The place where a batch was written.
#[derive(Clone, Copy)]
struct BatchPlace {
    file: u64,
    offset: u64,
    header: BatchHeader,
}

struct Open<F> {
    number: u64,
    generation: u64,
    handle: F,
    /// The end of the last complete write, in bytes.
    end: u64,
    /// The length of the file when it was opened. Bytes between `end` and this are from an earlier use of the
    /// file.
    former: u64,
    /// The number of the last acknowledged batch in the file.
    last: u64,
    /// The number of acknowledged batches in the file.
    good: u32,
    /// True if the name of the file is known to be synced.
    named: bool,
    /// True if a sync of the file has failed. Then everything that was not known to be synced before may be
    /// lost, whatever later syncs report.
    doomed: bool,
    direct: DirectFile<F>,
}

impl<D: Disk> Log<D> {
    /// Locks the directory, reads it, calls `on_record` with every record in the order of acknowledgement,
    /// cuts an interrupted tail and syncs the rest. Writes nothing else except the reserve. Memory: the bytes
    /// of one file, about 150 bytes per batch, and what `on_record` keeps.
    ///
    /// # Errors
    /// See [`OpenError`]. `on_record` may have received some records by then; the caller must discard them.
    /// Damage is no error; see [`Recovery::damage`].
    pub fn open(
        mut disk: D,
        options: Options,
        on_record: &mut dyn FnMut(Record),
    ) -> Result<(Self, Recovery), OpenError> {
        let found = recover::recover(&mut disk, on_record)?;
        let random = options.seed.unwrap_or_else(|| RandomState::new().hash_one(found.next_file));
        let noted = Note { boot: disk.boot_id().unwrap_or_default(), ..Note::default() };
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
            no_fill_before: 0,
            direct: Direct::default(),
            keeps_spares: true,
            next_file: found.next_file,
            next_batch: found.next_batch,
            last: found.last,
            synced: found.last,
            unsynced: Unsynced::default(),
            sync_refused: false,
            floor: found.floor,
            floor_batch: 0,
            forgotten_to: 0,
            noted,
            clean: found.recovery.clean,
            reserved: false,
        };
        log.take_reserve();
        Ok((log, found.recovery))
    }

    /// Writes all handovers in order: one batch, one vectored write, then one completion each in the same
    /// order. If they have more bytes than a file takes, each file gets one batch. A handover that asked for
    /// a sync waits for [`Log::begin_sync`], unless there is nothing to sync.
    ///
    /// Leaves `handovers` empty. While the disk refuses, every call tries twice; the caller must limit its
    /// retries. The second attempt may use the reserve. Every call takes the reserve again if the disk has
    /// capacity.
    pub fn append(&mut self, handovers: &mut Vec<Handover>, done: &mut Vec<Completion>) {
        self.take_direct(handovers, done);
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
                Ok(header) => self.answer_written(handovers.drain(..group), header, false, done),
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
    /// The next open will find everything acknowledged, as far as guaranteed, but no clean mark.
    /// [`io::ErrorKind::WouldBlock`]: a sync is in flight.
    pub fn close(mut self) -> Result<(), WriteError> {
        self.refuse_while_syncing()?;
        self.drop_spares();
        self.take_reserve();
        if self.clean {
            return Ok(());
        }
        // Without this, the old bytes would look as if something had been written after the mark.
        if let Some(current) = &mut self.current {
            spare::cut_former(&mut self.disk, current);
            // The mark follows the last batch also within a block that was written directly: everything is synced before it.
            current.direct = DirectFile::new(None, 0);
        }
        self.commit(None, true)?;
        self.commit(Some(Batch::Clean), true)?;
        self.note();
        Ok(())
    }

    /// Reads every record again, in the order in which [`Log::open`] has passed them. Called before anything is written. `recovery` is
    /// what [`Log::open`] has returned.
    ///
    /// # Errors
    /// The disk refuses, or it has not the same records any more.
    pub fn read_again(
        &mut self,
        recovery: &Recovery,
        on_record: &mut dyn FnMut(Record),
    ) -> Result<(), OpenError> {
        recover::read_again(&mut self.disk, recovery.records, on_record)
    }

    /// The number of the first batch that is still needed. It grows only when files are deleted because their records are not needed.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The number of the last batch that was written. 0 if there is none.
    pub fn last_batch(&self) -> u64 {
        self.last
    }

    /// Returns true if [`Log::note`] has something new to write.
    pub fn has_news(&self) -> bool {
        (self.noted.written, self.noted.synced) != (self.last, self.synced) && self.noted.file > 0
    }

    /// Writes a note of the last written and synced batch, for the next open. Called when the log becomes
    /// idle. Costs one small write to the page cache. If the disk refuses it, the next call tries again.
    pub fn note(&mut self) {
        let file = self.current.as_ref().filter(|current| current.good > 0).map(|current| current.number);
        let file = file.unwrap_or(self.noted.file);
        let note = Note { file, written: self.last, synced: self.synced, ..self.noted };
        if note != self.noted && file > 0 && self.disk.write_note(0, &note.encode()).is_ok() {
            self.noted = note;
        }
    }

    /// Returns the acknowledged batches of each file, by file number.
    pub fn spans(&self) -> &BTreeMap<u64, Span> {
        &self.spans
    }

    /// Writes one batch (or none), and syncs it at once if `sync`. Tries twice.
    fn commit(&mut self, batch: Option<Batch<'_>>, sync: bool) -> Result<Option<BatchHeader>, Failure> {
        let number = self.next_batch;
        self.next_batch += u64::from(batch.is_some());
        let mut at = None;
        let mut outcome = self.attempt(batch, number, sync, &mut at);
        if let Err(failure) = &outcome {
            self.release_reserve_if_full(failure);
            outcome = self.attempt(batch, number, sync, &mut at);
        }
        if outcome.is_err() {
            // The batch may be complete in the current file, but it was never acknowledged. So no later batch
            // may follow it there.
            if let Some(place) = at
                && self.current.as_ref().is_some_and(|current| current.number == place.file)
            {
                self.abandon(Some(place.offset));
            }
        } else if let Some(batch) = batch {
            self.committed(batch, number, sync);
        }
        outcome.map(|()| at.map(|place| place.header))
    }

    /// Counts a batch that was written to the current file (and synced, if `sync`) as acknowledged.
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

    /// Writes a batch and syncs, once. `at` is the place where an earlier attempt has written it, if it has.
    fn attempt(
        &mut self,
        batch: Option<Batch<'_>>,
        number: u64,
        sync: bool,
        at: &mut Option<BatchPlace>,
    ) -> Result<(), Failure> {
        if let Some(batch) = batch {
            let is_written = at.is_some_and(|at| self.current.as_ref().is_some_and(|c| c.number == at.file));
            if !is_written {
                self.ensure_room()?;
                let header = self.header(batch, number);
                let mut pieces = Vec::new();
                batch.records().for_each(|records| records.slices(&mut pieces));
                let offset = self.write_batch(header, &pieces)?;
                *at =
                    self.current.as_ref().map(|current| BatchPlace { file: current.number, offset, header });
            }
        }
        if sync && (batch.is_some() || self.synced < self.last) { self.sync_all() } else { Ok(()) }
    }

    /// Returns the header of the next batch, without what depends on its file and its bytes.
    fn header(&self, batch: Batch<'_>, number: u64) -> BatchHeader {
        let waited = if self.unsynced.is_empty() { 0 } else { WAITED };
        BatchHeader {
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
        }
    }

    /// Makes sure that there is a current file and that it is not full.
    fn ensure_room(&mut self) -> Result<(), Failure> {
        let is_full = self.current.as_ref().is_some_and(|current| current.end >= self.options.file_bytes);
        if is_full || self.leaves_file_early() {
            self.retire(true);
        }
        let syncs_first = self.sync_refused || self.dirty.len() > 2 * self.options.dirty_files_max;
        if syncs_first && !self.is_syncing() {
            self.sync_all()?;
        }
        self.ensure_current()
    }

    /// Makes sure that there is a current file.
    fn ensure_current(&mut self) -> Result<(), Failure> {
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
            Ok(Taken { handle, former, direct }) => {
                let (end, last, good, named, doomed) = (0, 0, 0, false, false);
                self.current =
                    Some(Open { number, generation, handle, end, former, last, good, named, doomed, direct });
                Ok(())
            }
            Err(error) => {
                self.leftovers.push(number);
                Err(fail(error))
            }
        }
    }

    /// Writes a batch after the last one of the current file and returns its offset. After an error there is
    /// no current file.
    fn write_batch(&mut self, mut header: BatchHeader, payload: &[IoSlice<'_>]) -> Result<u64, Failure> {
        let Some(current) = &mut self.current else {
            return Err(Failure { error: io::ErrorKind::NotFound.into(), file: String::new() });
        };
        header.seal(current.generation, payload);
        let (number, generation) = (current.number, current.generation);
        let opening = FileHeader { version: LOG_VERSION, number, generation }.encode(LOG_MAGIC);
        let header_bytes = header.encode();
        let mut pieces = Vec::with_capacity(payload.len() + 3);
        let mut length = BATCH_HEADER as u64 + header.length;
        let begin = current.next_cached();
        let mut offset = begin;
        if begin == 0 {
            pieces.push(IoSlice::new(&opening));
            length += FILE_HEADER as u64;
            offset = FILE_HEADER as u64;
        }
        pieces.push(IoSlice::new(&header_bytes));
        pieces.extend_from_slice(payload);
        let end = begin + length;
        pieces.push(IoSlice::new(&ZEROS[..current.padding(end)]));
        match write_all(&mut self.disk, &mut current.handle, begin, &mut pieces) {
            Ok(()) => {
                current.end = end;
                current.note_cached();
                Ok(offset)
            }
            Err(error) => {
                let file = file::name(number);
                self.abandon(None);
                Err(Failure { error, file })
            }
        }
    }

    /// Cuts the current file at an offset (by default at its last complete write) and never writes to it
    /// again.
    fn abandon(&mut self, offset: Option<u64>) {
        if let Some(current) = &mut self.current {
            // Bytes that the disk does not cut off are harmless, because no later batch of this file will
            // name them as `previous`.
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

    /// Stops writing to the current file for good. `sound` says that no write or sync of the file has failed.
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

    /// Returns the next generation (SplitMix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mix = self.random;
        mix = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mix ^ (mix >> 31)
    }
}
