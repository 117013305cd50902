//! What an opened directory holds: which batches count, what is a tail (`cut.rs`), what is damage (`damage.rs`).
//!
//! Every batch names the one before it. From the highest number that is proved, the chain of `previous` leads down
//! to the oldest; what it passes over is void. Where it breaks, a batch is missing:
//!
//! * below what is known to have been synced, and in the same boot of the machine everywhere, that is **damage**: reported
//!   with everybody it may concern, the bytes kept, the chain taken up again below;
//! * else it is what a power failure left of writes nobody had synced: everything from there on is **cut**, and kept in
//!   files of its own.
//!
//! What is known: every batch says how far the log was synced, and the note in the file `lock` (`note.rs`) says how far it
//! was written and synced, and in which boot. The page cache survives the process. So in the same boot a batch is missing
//! only because of damage, unless it is the last one and was never finished. Where the chain ends below what is known, its
//! end is damaged; then nothing is cut, so that every open says so until something is written behind it.
//!
//! What lies below the floor of the last batch that counts was forgotten: it may be missing, is not passed on if
//! it is still there, and the oldest files, as far as they hold nothing else, are removed. A floor counts only where
//! everything from it on is there: one that was written just before a power failure is cut, with what is torn behind
//! it, and what is below it counts again, for nothing of that was removed yet.
//!
//! Numbers of cut batches are not used again, so that the next batch voids them should their bytes come back.

mod cut;
mod damage;

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use crate::batch::{BATCH_HEADER, BatchHeader};
use crate::disk::{Disk, LOCK};
use crate::file::{self, FileHeader, LOG_MAGIC, LOG_VERSION};
use crate::machine::{Closed, Size, Span};
use crate::note::Note;
use crate::record::{self, Record};
use crate::scan::{self, Found, Scan};

/// Why a directory could not be opened. Nothing was written, except that [`OpenError::Io`] may come while the tail
/// is cut; opening again then goes on from there.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it open.
    Locked,
    /// A file was written by a newer program.
    NewerFormat { file: String, version: u32 },
    /// The disk refused something that open cannot do without; `file` is empty if it was the directory.
    Io { file: String, error: io::Error },
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked => write!(f, "the log is in use by another process"),
            Self::NewerFormat { file, version } => {
                write!(f, "log file {file} has format version {version}; this program knows {LOG_VERSION}")
            }
            Self::Io { file, error } if file.is_empty() => write!(f, "its directory: {error}"),
            Self::Io { file, error } => write!(f, "log file {file}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What [`crate::Log::open`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The log was closed, or never written to.
    pub clean: bool,
    pub files: u32,
    /// Bytes read, all files.
    pub bytes: u64,
    /// Records passed on.
    pub records: u64,
    /// What the log takes on the disk, once cut and rid of what was forgotten.
    pub size: Size,
    pub cut: Option<Cut>,
    /// Every place where acknowledged records are known to be missing. Reported again by every open.
    pub damage: Vec<Damage>,
}

/// A tail that was cut: from `offset` in `file` to the end of the newest file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    /// Batches were begun there. If not, it is what a former life of the file has left, or a write that was interrupted
    /// before the header of its batch.
    pub torn: bool,
    /// How many records stand in whole batches there, by owner: nobody knows which of them were acknowledged.
    pub records: BTreeMap<u64, u64>,
    /// The files with what was cut, if it was torn; empty if the disk refused to keep it. See [`CUT_SUFFIX`].
    pub kept: Vec<String>,
}

/// How the name of a file ends that keeps what was cut from a log file: `{the file's number}-{the offset}.cut`. It is the
/// owner of the directory who moves or removes them.
pub const CUT_SUFFIX: &str = ".cut";

/// Bytes that hold, or held, synced records and cannot be read as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    /// 0: something is missing in front of `offset`, down to whole files; or the file itself is.
    pub bytes: u64,
    /// There is no such file any more.
    pub missing: bool,
    pub owners: Owners,
    /// A hand-over that asked to be synced may have stood here. If not, nothing that its owner lets nobody see before
    /// it is synced is missing.
    pub synced: bool,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, offset, bytes, missing, .. } = self;
        match bytes {
            _ if *missing => write!(f, "log file {file} is missing"),
            0 => {
                write!(f, "log file {file} is damaged at offset {offset}: records in front of it are missing")
            }
            _ => write!(f, "log file {file} is damaged at offset {offset}, {bytes} bytes"),
        }
    }
}

/// Who may have lost a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    All,
    /// Sorted, each once.
    Only(Vec<u64>),
}

/// What the log goes on with.
pub(crate) struct Opened {
    pub recovery: Recovery,
    pub spans: BTreeMap<u64, Span>,
    pub next_file: u64,
    pub next_batch: u64,
    /// The last batch that counts.
    pub last: u64,
    /// The first batch that is still needed.
    pub floor: u64,
    pub closed: Closed,
}

/// One file as it was read.
struct Scanned {
    number: u64,
    /// Bytes.
    length: u64,
    header: Option<FileHeader>,
    /// Its header is that of another file: a name that came back after the file was written over.
    misnamed: bool,
    scan: Scan,
    unreadable: bool,
}

/// The missing batches between two of the chain.
struct Gap {
    /// 0: there is none below, down to the floor.
    below: u64,
    lowest: u64,
    above: u64,
}

pub(crate) fn recover<D: Disk>(disk: &mut D, on_record: &mut dyn FnMut(Record)) -> Result<Opened, OpenError> {
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked,
        _ => OpenError::Io { file: LOCK.to_owned(), error },
    })?;
    let mut directory = Directory::read(disk)?;
    let mut recovery = Recovery {
        files: directory.files.len() as u32,
        bytes: directory.files.iter().map(|file| file.length).sum(),
        ..Recovery::default()
    };

    // Where the chain stops counting: where it has everything down to the floor of its last batch, but for what somebody
    // had seen synced.
    let mut end = u64::MAX;
    let (floor, chain, damage) = loop {
        let floor = directory.floor(end);
        let (chain, gaps) = directory.chain(end, floor);
        match gaps.iter().find(|gap| !directory.is_damage(gap)) {
            Some(torn) if torn.below > 0 => end = torn.below,
            // What is below the floor counts if the floor does not.
            Some(torn) => end = torn.lowest - 1,
            None => break (floor, chain, gaps),
        }
    };
    for gap in &damage {
        directory.damage(disk, gap, &mut recovery.damage)?;
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
    // Also where nothing is left: an open that failed may have cut a file and not synced that.
    if !directory.files.is_empty() {
        // The mark of a clean stop vouches for all but itself.
        let from = if recovery.clean { tail.map_or(0, |(index, _)| index) } else { forgotten };
        directory.settle(disk, from, &cuts)?;
    }
    let closed = directory.remove(disk, forgotten, &cuts);
    for spare in directory.spares {
        // Those that stay are in nobody's way, and are tried again by the next open.
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

struct Directory {
    /// Oldest first.
    files: Vec<Scanned>,
    /// Where each proved batch stands: file and place in its scan; the newest copy.
    proved: BTreeMap<u64, (usize, usize)>,
    /// `previous` of the batches of which only the header holds.
    broken: BTreeMap<u64, u64>,
    /// Every batch up to this one was once synced.
    synced: u64,
    /// Every batch up to this one was acknowledged in this boot of the machine.
    written: u64,
    /// Nothing can be missing but what damage took: the machine has not lost its page cache.
    same_life: bool,
    /// The newest file that was known to have a batch, or 0.
    noted_file: u64,
    last_file: u64,
    last_batch: u64,
    /// The bytes read last; given up before others are read.
    cache: Option<(usize, Bytes)>,
    /// Numbers in the names of spares.
    spares: Vec<u64>,
}

impl Directory {
    fn read<D: Disk>(disk: &mut D) -> Result<Self, OpenError> {
        let names = disk.list().map_err(|error| OpenError::Io { file: String::new(), error })?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| file::number(name)).collect();
        numbers.sort_unstable();
        let bytes = disk.read_notes().map_err(|error| OpenError::Io { file: LOCK.to_owned(), error })?;
        let found = Note::decode(&bytes);
        let note = found.unwrap_or_default();
        // A note that does not hold may well be of this boot: it is never torn.
        let is_spoilt = found.is_none() && bytes.iter().any(|&byte| byte != 0);
        let same_life = is_spoilt || disk.life().is_some_and(|life| note.life == life);
        let mut directory = Self {
            files: Vec::with_capacity(numbers.len()),
            proved: BTreeMap::new(),
            broken: BTreeMap::new(),
            synced: note.synced,
            written: if same_life { note.written } else { 0 },
            same_life,
            noted_file: note.file,
            last_file: numbers.last().copied().unwrap_or(0).max(note.file),
            last_batch: note.written.max(note.synced),
            cache: None,
            spares: names.iter().filter_map(|name| file::spare_number(name)).collect(),
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
                self.proved.insert(found.header.number, (index, place));
            } else {
                self.broken.insert(found.header.number, found.header.previous);
            }
        }
        self.files.push(Scanned { number, length, header, misnamed, scan: scanned, unreadable });
        self.cache = Some((index, bytes));
        Ok(())
    }

    /// The numbers that count from `end` down to the floor, ascending, and where some are missing between them.
    fn chain(&self, end: u64, floor: u64) -> (Vec<u64>, Vec<Gap>) {
        let (mut chain, mut gaps) = (Vec::new(), Vec::new());
        let mut at = self.proved.range(..=end).next_back().map(|(&number, _)| number);
        while let Some(above) = at {
            chain.push(above);
            let mut next = self.place(above).1.header.previous;
            let mut lowest = None;
            at = loop {
                if next < floor {
                    break None;
                }
                if self.proved.contains_key(&next) {
                    break Some(next);
                }
                if let Some(&previous) = self.broken.get(&next) {
                    lowest = Some(next);
                    next = previous;
                } else {
                    next =
                        self.proved.range(floor..next).next_back().map_or(floor - 1, |(&number, _)| number);
                    lowest = Some(next + 1);
                }
            };
            gaps.extend(lowest.map(|lowest| Gap { below: at.unwrap_or(0), lowest, above }));
        }
        chain.reverse();
        gaps.reverse();
        (chain, gaps)
    }

    /// The highest floor of the batches up to `end`.
    fn floor(&self, end: u64) -> u64 {
        let last = self.proved.range(..=end).next_back();
        last.map_or(1, |(_, &(index, place))| self.files[index].scan.batches[place].header.floor)
    }

    /// The batches with the file that each is counted in. A batch that was copied to a newer file than that of a
    /// batch above it is counted there, so that to forget files oldest first is to forget batches oldest first.
    fn files_of(&self, chain: &[u64]) -> Vec<(u64, u64)> {
        let mut oldest = u64::MAX;
        let mut files: Vec<(u64, u64)> = chain
            .iter()
            .rev()
            .map(|&number| {
                oldest = oldest.min(self.files[self.proved[&number].0].number);
                (number, oldest)
            })
            .collect();
        files.reverse();
        files
    }

    /// How many of the oldest files hold nothing that is still needed. The newest keeps its number taken, and a file with
    /// bytes that cannot be read stays: with the wrong header only while something is missing elsewhere.
    fn forgotten(&self, floor: u64, is_whole: bool) -> usize {
        let older = &self.files[..self.files.len().saturating_sub(1)];
        let needed = |file: &Scanned| {
            file.unreadable
                || !(file.scan.bad.is_empty() || file.misnamed && is_whole)
                || file.scan.batches.iter().any(|found| found.header.number >= floor)
        };
        older.iter().take_while(|file| !needed(file)).count()
    }

    /// Removes the oldest files; one that cannot be removed is left to [`crate::Log::forget`].
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
        let (index, place) = self.proved[&number];
        (index, self.files[index].scan.batches[place].clone())
    }

    /// Passes on the records of a batch and returns their number.
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
                format!("batch at {} does not hold", found.offset),
            ),
        };
        let range = found.offset as usize + BATCH_HEADER..found.end as usize;
        if bytes.len() < range.end {
            return Err(changed());
        }
        let header = BatchHeader::decode(&bytes[found.offset as usize..], Some(found.header.generation));
        let mut payload = bytes.slice(range);
        if header != Some(found.header) || !found.header.proves(&payload) {
            return Err(changed());
        }
        let mut records = 0;
        while !payload.is_empty() {
            let (mut record, end) = record::front(&payload, number).ok_or_else(changed)?;
            payload = payload.slice(end..);
            records += 1;
            // A slice would keep the whole file in memory for as long as the record is kept.
            record.body = Bytes::copy_from_slice(&record.body);
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
