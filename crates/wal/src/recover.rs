//! Reads an opened directory. Decides which batches are valid, what is an interrupted tail (`cut.rs`) and
//! what is damage (`damage.rs`).
//!
//! Every batch names the one before it in `previous`. The chain leads from the highest intact batch down to
//! the oldest. Batches that it passes over are void. Where the chain breaks, a batch is missing:
//!
//! * It is **damage** if the missing batch is known to have been synced, or if the machine has not restarted
//!   since. The damage is reported with all owners that it may affect. The bytes are kept, and the chain
//!   continues below.
//! * Otherwise a power failure lost writes that were not synced. Everything from the break on is **cut** and
//!   saved in separate files.
//!
//! Two sources say what must be there. Every batch says up to which batch the log was synced. The note in the
//! file `lock` (`note.rs`) says up to which batch it was written and synced, and in which boot of the
//! machine. The page cache survives the process. So within the same boot only damage explains a missing
//! batch, except for the last one if it was never completed. If the chain ends below what is known, the end
//! is damaged. Then nothing is cut, so that every open reports it until something is written after it.
//!
//! Batches below the floor of the last valid batch were forgotten. They may be missing. If they are there,
//! they are not passed on, and the oldest files are removed if they hold nothing else. A floor is valid only
//! if everything from it on is there. A floor that was written just before a power failure may be cut
//! together with torn batches. Then the batches below it are valid again, because none of their files was
//! removed yet.
//!
//! The numbers of cut batches are not used again. So if their bytes reappear, the next batch makes them void.

mod cut;
mod damage;

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use crate::batch::{BATCH_HEADER, BatchHeader};
use crate::disk::Disk;
use crate::file::{self, FileHeader, LOG_MAGIC, LOG_VERSION};
use crate::files::LOCK;
use crate::note::Note;
use crate::record::{self, Record};
use crate::scan::{self, Found, Scan};
use crate::space::{Closed, Size, Span};

/// The reason why a directory could not be opened. Nothing was written, except that [`OpenError::Io`] may
/// occur while the tail is cut. Another open continues there.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has the directory open.
    Locked,
    /// A file was written by a newer program.
    NewerFormat { file: String, version: u32 },
    /// The disk refused an operation that the open needs; `file` is empty if it was the directory.
    Io { file: String, error: io::Error },
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked => write!(f, "the log is in use by another process"),
            Self::NewerFormat { file, version } => {
                write!(f, "log file {file} has format version {version}; this program knows {LOG_VERSION}")
            }
            Self::Io { file, error } if file.is_empty() => write!(f, "the log's directory: {error}"),
            Self::Io { file, error } => write!(f, "log file {file}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// The result of [`crate::Log::open`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// True if the log was closed by an orderly stop, or was never written to.
    pub clean: bool,
    pub files: u32,
    /// The number of bytes that were read from all files.
    pub bytes: u64,
    /// The number of records that were passed to the caller.
    pub records: u64,
    /// The disk space of the log, after cutting and removing forgotten files.
    pub size: Size,
    pub cut: Option<Cut>,
    /// Every place where acknowledged records are known to be missing. Every open reports it again.
    pub damage: Vec<Damage>,
    /// The files whose header is corrupt, although their batches could be read.
    pub corrupt_headers: Vec<String>,
    /// True if the note in the file `lock` is corrupt.
    pub corrupt_note: bool,
}

/// A tail that was cut: from `offset` in `file` to the end of the newest file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    /// True if batches were begun in the cut bytes. Otherwise the bytes are from an earlier use of the file,
    /// or from a write that was interrupted before its batch header was complete.
    pub torn: bool,
    /// The number of records in complete batches of the cut bytes, by owner. It is unknown which of them were
    /// acknowledged.
    pub records: BTreeMap<u64, u64>,
    /// The files that hold the cut bytes, if the tail was torn; empty if the disk refused. See
    /// [`is_cut`].
    pub kept: Vec<String>,
}

/// The suffix of files that hold what was cut from a log file: `{the file's number}-{the offset}.cut`. The
/// user of the directory moves or removes them.
const CUT_SUFFIX: &str = ".cut";

/// Returns true if a file of this name has what was cut off a log file.
pub fn is_cut(name: &str) -> bool {
    let parts = name.strip_suffix(CUT_SUFFIX).and_then(|name| name.split_once('-'));
    parts.is_some_and(|(number, from)| file::digits(number).is_some() && from.parse::<u64>().is_ok())
}

/// A part of a file that holds or held acknowledged records and is corrupt or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    /// The number of damaged bytes. If 0, records before `offset` are missing, possibly whole files, or the
    /// file itself is missing.
    pub bytes: u64,
    /// True if the file does not exist any more.
    pub missing: bool,
    pub owners: Owners,
    /// True if a record may be lost that was certainly synced: its handover asked for a sync, or it was written again before files
    /// were deleted. If false, an owner that waits for the sync has shown nothing of the lost records to others.
    pub synced: bool,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, offset, bytes, missing, .. } = self;
        match bytes {
            _ if *missing => write!(f, "log file {file} is missing"),
            0 => {
                write!(f, "log file {file} is damaged at offset {offset}: records before it are missing")
            }
            _ => write!(f, "log file {file} is damaged at offset {offset}, {bytes} bytes"),
        }
    }
}

/// The owners that may have lost a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    All,
    /// These owners may have lost a record. The list is sorted and has no duplicates.
    Only(Vec<u64>),
}

/// The state with which the log continues.
pub(crate) struct Opened {
    pub recovery: Recovery,
    pub spans: BTreeMap<u64, Span>,
    pub next_file: u64,
    pub next_batch: u64,
    /// The number of the last valid batch.
    pub last: u64,
    /// The number of the first batch that is still needed.
    pub floor: u64,
    pub closed: Closed,
}

/// A file as it was read.
struct Scanned {
    number: u64,
    /// The length of the file in bytes.
    length: u64,
    header: Option<FileHeader>,
    /// True if the header belongs to a file with another number. This happens when the name of a file
    /// reappears after the file was overwritten under another name.
    misnamed: bool,
    scan: Scan,
    unreadable: bool,
}

/// The missing batches between two batches of the chain.
struct Gap {
    /// The number of the batch below the gap. 0 if there is no batch between the gap and the floor.
    below: u64,
    lowest: u64,
    above: u64,
}

/// Locks a directory, as [`crate::Log::open`] does. For callers that write to it before the log is opened.
///
/// # Errors
/// Somebody else has locked it, or the disk refuses.
pub fn lock<D: Disk>(disk: &mut D) -> Result<(), OpenError> {
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked,
        _ => OpenError::Io { file: LOCK.to_owned(), error },
    })
}

pub(crate) fn recover<D: Disk>(disk: &mut D, on_record: &mut dyn FnMut(Record)) -> Result<Opened, OpenError> {
    lock(disk)?;
    let mut directory = Directory::read(disk)?;
    let mut recovery = Recovery {
        files: directory.files.len() as u32,
        bytes: directory.files.iter().map(|file| file.length).sum(),
        corrupt_headers: directory.corrupt_headers(),
        corrupt_note: directory.corrupt_note,
        ..Recovery::default()
    };

    let (floor, chain, damage) = directory.valid();
    let raised = directory.raised(floor, &chain);
    for gap in &damage {
        directory.damage(disk, gap, raised, &mut recovery.damage)?;
    }
    let damage_inside = recovery.damage.len();

    let mut spans: BTreeMap<u64, Span> = BTreeMap::new();
    let mut tail = None;
    let mut marked = true;
    for (number, file) in directory.files_of(&chain) {
        let (index, found) = directory.place(number);
        tail = tail.max(Some((index, found.end)));
        let records = directory.emit(disk, index, &found, file, on_record)?;
        marked = found.header.is_mark();
        recovery.records += records;
        let span = spans.entry(file).or_default();
        let first = if span.first_batch == 0 { number } else { span.first_batch };
        *span = Span { first_batch: first, last_batch: number, records: span.records + records };
    }

    directory.end_damage(disk, tail, chain.last().copied().unwrap_or(0), &mut recovery.damage)?;
    let is_whole = recovery.damage.len() == damage_inside;
    let cuts = if is_whole { directory.tail(disk, tail, &mut recovery)? } else { Vec::new() };
    recovery.clean = marked && recovery.cut.is_none() && recovery.damage.is_empty();
    let forgotten = directory.forgotten(floor, recovery.damage.is_empty());
    // This is done even if nothing is left to cut, because an earlier open may have cut a file and then
    // failed before it synced it.
    if !directory.files.is_empty() {
        // The mark of a clean stop guarantees that everything except itself is synced.
        let from = if recovery.clean { tail.map_or(0, |(index, _)| index) } else { forgotten };
        directory.cut_and_sync(disk, from, &cuts)?;
    }
    let closed = directory.remove(disk, forgotten, &cuts);
    for spare in directory.spares {
        // Spares that cannot be removed are harmless; the next open tries again.
        let _ = disk.remove(&file::spare_name(spare));
    }
    recovery.size = closed.size();
    Ok(Opened {
        recovery,
        spans,
        next_file: directory.last_file + 1,
        next_batch: directory.last_batch + 1,
        last: chain.last().copied().unwrap_or(0),
        floor,
        closed,
    })
}

/// Calls `on_record` with every valid record of a directory that was recovered, in the same order. There must be `expected` records.
/// Fewer would mean that the disk has failed meanwhile, and the caller would miss records without knowing it.
pub(crate) fn read_again<D: Disk>(
    disk: &mut D,
    expected: u64,
    on_record: &mut dyn FnMut(Record),
) -> Result<(), OpenError> {
    let mut directory = Directory::read(disk)?;
    let (_, chain, _) = directory.valid();
    let mut records = 0;
    for (number, file) in directory.files_of(&chain) {
        let (index, found) = directory.place(number);
        records += directory.emit(disk, index, &found, file, on_record)?;
    }
    if records == expected {
        return Ok(());
    }
    let what = format!("{records} of {expected} records were there when the log was read again");
    Err(OpenError::Io { file: String::new(), error: io::Error::other(what) })
}

struct Directory {
    /// The files, oldest first.
    files: Vec<Scanned>,
    /// The place of each intact batch: the index of its file, and its index in the scan of that file. If
    /// there are several copies, the place of the newest.
    intact: BTreeMap<u64, (usize, usize)>,
    /// `previous` of each batch with a valid header and a corrupt payload, by its number.
    broken: BTreeMap<u64, u64>,
    /// The number of the last batch that is known to be synced. All batches before it are synced, too.
    synced: u64,
    /// The number of the last batch that is known to have been acknowledged in this boot of the machine.
    written: u64,
    /// True if the machine has not restarted since the note was written. Then its page cache has survived, so
    /// only damage explains missing batches.
    same_boot: bool,
    /// The newest file with an acknowledged batch according to the note, or 0.
    noted_file: u64,
    last_file: u64,
    last_batch: u64,
    /// The last file that was read. It is dropped before another one is read.
    cache: Option<(usize, Bytes)>,
    /// The numbers in the names of spares.
    spares: Vec<u64>,
    /// See [`Recovery::corrupt_note`].
    corrupt_note: bool,
}

impl Directory {
    fn read<D: Disk>(disk: &mut D) -> Result<Self, OpenError> {
        let names = disk.list().map_err(|error| OpenError::Io { file: String::new(), error })?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| file::number(name)).collect();
        numbers.sort_unstable();
        let bytes = disk.read_notes().map_err(|error| OpenError::Io { file: LOCK.to_owned(), error })?;
        let found = Note::decode(&bytes);
        let note = found.unwrap_or_default();
        // A corrupt note counts as a note of this boot. A power failure cannot have torn it, because notes
        // are smaller than a sector.
        let is_corrupt = found.is_none() && bytes.iter().any(|&byte| byte != 0);
        let same_boot = is_corrupt || disk.boot_id().is_some_and(|boot| note.boot == boot);
        let mut directory = Self {
            files: Vec::with_capacity(numbers.len()),
            intact: BTreeMap::new(),
            broken: BTreeMap::new(),
            synced: note.synced,
            written: if same_boot { note.written } else { 0 },
            same_boot,
            noted_file: note.file,
            last_file: numbers.last().copied().unwrap_or(0).max(note.file),
            last_batch: note.written.max(note.synced),
            cache: None,
            spares: names.iter().filter_map(|name| file::spare_number(name)).collect(),
            corrupt_note: is_corrupt,
        };
        for number in numbers {
            directory.read_file(disk, number)?;
        }
        Ok(directory)
    }

    fn read_file<D: Disk>(&mut self, disk: &mut D, number: u64) -> Result<(), OpenError> {
        self.cache = None;
        let (bytes, unreadable) = load(disk, number)?;
        let mut header = FileHeader::decode(&bytes, LOG_MAGIC);
        let (mut generation, mut misnamed) = (None, false);
        if let Some(found) = header {
            if found.version > LOG_VERSION {
                return Err(OpenError::NewerFormat { file: file::name(number), version: found.version });
            }
            self.last_file = self.last_file.max(found.number);
            if found.number == number && (1..=LOG_VERSION).contains(&found.version) {
                generation = Some(found.generation);
            } else {
                misnamed = found.number != number;
                header = None;
            }
        } else {
            generation = scan::guess_generation(&bytes);
        }
        let length = bytes.len() as u64;
        let mut scanned = Scan::default();
        if let Some(generation) = generation {
            scanned = scan::scan(&bytes, generation);
        } else if length > 0 {
            scanned.bad.push(0..length);
        }
        let index = self.files.len();
        for (place, found) in scanned.batches.iter().enumerate() {
            self.synced = self.synced.max(found.header.synced);
            self.last_batch = self.last_batch.max(found.header.number);
            if found.intact {
                self.intact.insert(found.header.number, (index, place));
            } else {
                self.broken.insert(found.header.number, found.header.previous);
            }
        }
        self.files.push(Scanned { number, length, header, misnamed, scan: scanned, unreadable });
        self.cache = Some((index, bytes));
        Ok(())
    }

    /// Finds the last valid batch. No batch between its floor and it may be missing, except because of damage. Returns the floor,
    /// the valid batches from there on, and what damage has removed among them.
    fn valid(&self) -> (u64, Vec<u64>, Vec<Gap>) {
        let mut end = u64::MAX;
        loop {
            let floor = self.floor(end);
            let (chain, gaps) = self.chain(end, floor);
            match gaps.iter().find(|gap| !self.is_damage(gap)) {
                Some(torn) if torn.below > 0 => end = torn.below,
                // If this floor does not count, an earlier floor does. So the search continues below it.
                Some(torn) => end = torn.lowest - 1,
                None => return (floor, chain, gaps),
            }
        }
    }

    /// Returns the names of files whose header is corrupt and whose batches were found. A header and the start of the
    /// first batch share a sector, so no interrupted write explains this.
    fn corrupt_headers(&self) -> Vec<String> {
        let files = self.files.iter().filter(|file| file.header.is_none() && !file.misnamed);
        files.filter(|file| !file.scan.batches.is_empty()).map(|file| file::name(file.number)).collect()
    }

    /// Returns the valid batches from `end` down to the floor, in ascending order, and the gaps between them.
    fn chain(&self, end: u64, floor: u64) -> (Vec<u64>, Vec<Gap>) {
        let (mut chain, mut gaps) = (Vec::new(), Vec::new());
        let mut at = self.intact.range(..=end).next_back().map(|(&number, _)| number);
        while let Some(above) = at {
            chain.push(above);
            let mut next = self.place(above).1.header.previous;
            let mut lowest = None;
            at = loop {
                if next < floor {
                    break None;
                }
                if self.intact.contains_key(&next) {
                    break Some(next);
                }
                if let Some(&previous) = self.broken.get(&next) {
                    lowest = Some(next);
                    next = previous;
                } else {
                    next =
                        self.intact.range(floor..next).next_back().map_or(floor - 1, |(&number, _)| number);
                    lowest = Some(next + 1);
                }
            };
            gaps.extend(lowest.map(|lowest| Gap { below: at.unwrap_or(0), lowest, above }));
        }
        chain.reverse();
        gaps.reverse();
        (chain, gaps)
    }

    /// Returns the floor of the last intact batch up to `end`.
    fn floor(&self, end: u64) -> u64 {
        let last = self.intact.range(..=end).next_back();
        last.map_or(1, |(_, &(index, place))| self.files[index].scan.batches[place].header.floor)
    }

    /// Returns the batches, each with the file that it counts for. A batch may have been copied to a newer
    /// file than a later batch. Then it counts for the file of that later batch. So forgetting files oldest
    /// first forgets batches oldest first.
    fn files_of(&self, chain: &[u64]) -> Vec<(u64, u64)> {
        let mut oldest = u64::MAX;
        let mut files: Vec<(u64, u64)> = chain
            .iter()
            .rev()
            .map(|&number| {
                oldest = oldest.min(self.files[self.intact[&number].0].number);
                (number, oldest)
            })
            .collect();
        files.reverse();
        files
    }

    /// Returns how many of the oldest files hold nothing that is needed. The newest file stays, because its
    /// number must not be used again. A file with unreadable or corrupt bytes stays. A misnamed file stays
    /// only while something is missing elsewhere.
    fn forgotten(&self, floor: u64, is_whole: bool) -> usize {
        let older = &self.files[..self.files.len().saturating_sub(1)];
        let needed = |file: &Scanned| {
            file.unreadable
                || !(file.scan.bad.is_empty() || file.misnamed && is_whole)
                || file.scan.batches.iter().any(|found| found.header.number >= floor)
        };
        older.iter().take_while(|file| !needed(file)).count()
    }

    /// Removes the oldest files. [`crate::Log::forget`] tries again with those that cannot be removed.
    fn remove<D: Disk>(&self, disk: &mut D, forgotten: usize, cuts: &[(usize, u64)]) -> Closed {
        let mut closed = Closed::default();
        for (index, file) in self.files.iter().enumerate() {
            let cut = cuts.iter().find(|cut| cut.0 == index).map(|cut| cut.1);
            let gone = cut == Some(0) || index < forgotten && disk.remove(&file::name(file.number)).is_ok();
            if !gone {
                closed.add(file.number, cut.unwrap_or(file.length), false);
            }
        }
        closed
    }

    fn place(&self, number: u64) -> (usize, Found) {
        let (index, place) = self.intact[&number];
        (index, self.files[index].scan.batches[place].clone())
    }

    /// Passes the records of a batch to the caller and returns their number. They count for the file
    /// `number`.
    fn emit<D: Disk>(
        &mut self,
        disk: &mut D,
        index: usize,
        found: &Found,
        number: u64,
        on_record: &mut dyn FnMut(Record),
    ) -> Result<u64, OpenError> {
        let bytes = self.bytes(disk, index)?;
        let file = || file::name(self.files[index].number);
        let changed = || OpenError::Io {
            file: file(),
            error: io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the batch at {} is corrupt", found.offset),
            ),
        };
        let range = found.offset as usize + BATCH_HEADER..found.end as usize;
        if bytes.len() < range.end {
            return Err(changed());
        }
        let header = BatchHeader::decode(&bytes[found.offset as usize..], Some(found.header.generation));
        let mut payload = bytes.slice(range);
        if header != Some(found.header) || !found.header.matches(&payload) {
            return Err(changed());
        }
        let mut records = 0;
        while !payload.is_empty() {
            let (mut record, end) = record::front(&payload, number).ok_or_else(changed)?;
            payload = payload.slice(end..);
            records += 1;
            // The body is copied, because a slice would keep the whole file in memory as long as the record
            // exists.
            record.body = Bytes::copy_from_slice(&record.body);
            record.batch = found.header.number;
            on_record(record);
        }
        Ok(records)
    }

    fn bytes<D: Disk>(&mut self, disk: &mut D, index: usize) -> Result<Bytes, OpenError> {
        if let Some((cached, bytes)) = &self.cache
            && *cached == index
        {
            return Ok(bytes.clone());
        }
        self.cache = None;
        let (bytes, _) = load(disk, self.files[index].number)?;
        self.cache = Some((index, bytes.clone()));
        Ok(bytes)
    }
}

fn load<D: Disk>(disk: &mut D, number: u64) -> Result<(Bytes, bool), OpenError> {
    disk.open(&file::name(number))
        .and_then(|mut handle| scan::read_file(disk, &mut handle))
        .map_err(|error| OpenError::Io { file: file::name(number), error })
}
