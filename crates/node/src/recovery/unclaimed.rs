//! Data of queues that the catalog does not know.
//!
//! An owner of records, of runs in packs or of segments may be unknown because its queue was deleted, or because its declaration
//! is missing. Only the first is garbage:
//!
//! | what is known | the owner is |
//! |---|---|
//! | the log has its deletion | deleted |
//! | a copy of its records lies aside, or a note says that there was no room for one | unclaimed |
//! | the log is damaged where definitions may have been | unclaimed |
//! | its incarnation is below the next one of the catalog: it was handed out, and is gone | deleted |
//! | anything else | unclaimed |
//!
//! Nobody writes the records of an unclaimed owner again when the log evacuates their files. So they are copied to a file of their
//! own ([`wal::Aside`]), which is synced before the log may delete anything. Packs and segments stay. Without room for a copy,
//! nothing is evacuated until the next start.
//!
//! An owner that the catalog knows at a later start is *claimed*: the file is read first, then what the log has beyond it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use catalog::Change;
use catalog::ids::QueueId;
use wal::{ASIDE_VERSION, Aside, AsideRecords, Disk, Log, OpenError, Record, Records, Recovery, Streams};

use super::{Mutation, OpenFolder, RecoverError};
use crate::facts::{self, DAMAGED, Restored};
use crate::quarantine::concerns_definitions;

/// The name of notes about owners without a copy, in place of the name of a damaged file.
const NOTE: &str = "unclaimed";

/// The most unclaimed owners that a start logs one by one.
const TOLD_MAX: usize = 16;

/// Returns the copies of a directory, by owner.
///
/// # Errors
/// The disk failed, or a newer program has written a copy.
pub(crate) fn list<D: Disk>(disk: &mut D) -> io::Result<BTreeMap<u64, Aside>> {
    let mut files = Aside::list(disk).map_err(|error| match error {
        OpenError::NewerFormat { file, version } => io::Error::other(format!(
            "file {file} has format version {version}; this program knows {ASIDE_VERSION}"
        )),
        OpenError::Io { error, .. } => error,
        OpenError::Locked => io::ErrorKind::WouldBlock.into(),
    })?;
    // They are no queues. A copy of their records would hide those in the log.
    files.retain(|owner, _| ![facts::CATALOG, facts::NODE].contains(owner));
    Ok(files)
}

/// The copies that lie aside.
pub(super) struct Copies<'a, D> {
    open: &'a mut OpenFolder<'a, D>,
    /// `None` if there is no directory.
    disk: Option<D>,
    /// The files, by owner.
    files: BTreeMap<u64, Aside>,
    /// Owners with a file and later records in the log.
    newer: BTreeSet<u64>,
}

impl<'a, D: Disk> Copies<'a, D> {
    pub(super) fn list(open: &'a mut OpenFolder<'a, D>) -> Result<Self, RecoverError> {
        let mut disk = open(false).map_err(RecoverError::Unclaimed)?;
        let files = disk.as_mut().map(list).transpose().map_err(RecoverError::Unclaimed)?;
        Ok(Self { open, disk, files: files.unwrap_or_default(), newer: BTreeSet::new() })
    }

    /// Returns true if the record may only be read after the file of its owner.
    pub(super) fn comes_later(&mut self, record: &Record) -> bool {
        let Some(aside) = self.files.get(&record.owner) else { return false };
        if record.batch > aside.through {
            self.newer.insert(record.owner);
        }
        true
    }

    fn read(&mut self, aside: Aside, on_record: &mut dyn FnMut(Record)) -> Result<bool, RecoverError> {
        let Some(disk) = &mut self.disk else { return Ok(false) };
        aside.read(disk, on_record).map_err(RecoverError::Unclaimed)
    }

    /// Returns the directory, which is made if it does not exist.
    fn disk(&mut self) -> io::Result<&mut D> {
        if self.disk.is_none() {
            self.disk = (self.open)(true)?;
        }
        self.disk.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// What a start writes about unclaimed owners.
#[derive(Default)]
pub(super) struct Sorted {
    /// New copies.
    copies: BTreeMap<u64, AsideRecords>,
    /// The files of owners that are known.
    claimed: Vec<Aside>,
    /// Files that nobody needs any more.
    gone: Vec<Aside>,
    /// The unclaimed owners that were closed before this start.
    closed: BTreeSet<QueueId>,
}

/// Divides the owners that the catalog does not know into deleted and unclaimed ones. Reads the files of the claimed ones.
pub(super) fn sort<D: Disk>(
    restored: &mut Restored,
    log: &mut Log<D>,
    recovery: &Recovery,
    copies: &mut Copies<'_, D>,
    mut streams: Option<&mut Streams<D>>,
    mutation: Option<Mutation>,
) -> Result<Sorted, RecoverError> {
    let mut sorted = Sorted::default();
    let floor = log.floor();
    let mut files = copies.files.clone();
    // Everything in these files was written to the log again.
    let void = |aside: &Aside| aside.returned.is_some_and(|returned| floor > returned);
    let voided: Vec<u64> = files.values().filter(|aside| void(aside)).map(|aside| aside.owner).collect();
    sorted.gone.extend(voided.iter().filter_map(|owner| files.remove(owner)));

    let in_log: BTreeSet<u64> = restored.queues.keys().map(|id| id.0).chain(voided.iter().copied()).collect();
    let in_streams: BTreeSet<u64> = streams.iter().flat_map(|streams| streams.owners()).collect();
    let owners: BTreeSet<u64> = in_log.iter().chain(&in_streams).chain(files.keys()).copied().collect();
    let definitions_lost = restored.lacks_definitions()
        || recovery.damage.iter().any(|damage| concerns_definitions(restored, damage));
    let mut unclaimed = BTreeSet::new();
    for owner in owners {
        let id = QueueId(owner);
        if restored.catalog.queue_by_id(id).is_some() {
            continue;
        }
        let is_kept = files.get(&owner).is_some_and(|aside| aside.returned.is_none())
            || restored.noted.contains(&(NOTE.to_owned(), owner));
        let was_handed_out = id.incarnation() < restored.catalog.next_incarnation();
        let is_deleted = restored.forgotten.contains(&id) || was_handed_out && !is_kept && !definitions_lost;
        if is_deleted || super::has(mutation, Mutation::DeleteUnclaimed) {
            restored.queues.remove(&id);
            sorted.gone.extend(files.remove(&owner));
        } else {
            unclaimed.insert(owner);
        }
    }

    // What is read again from the log: the owner, and the batch after which its records count.
    let mut again: BTreeMap<u64, u64> = BTreeMap::new();
    again.extend(voided.iter().map(|owner| (*owner, 0)));
    let mut kept: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (&owner, &aside) in &files {
        let is_unclaimed = unclaimed.contains(&owner);
        let is_newer = copies.newer.contains(&owner);
        if is_newer {
            again.insert(owner, aside.through);
        }
        let mut raw = AsideRecords::default();
        let is_whole = copies.read(aside, &mut |record| {
            let (records, bytes) = kept.entry(owner).or_default();
            (*records, *bytes) = (*records + 1, *bytes + record.body.len() as u64);
            if is_unclaimed {
                raw.push(&record);
            }
            restored.handle_record(record);
        })?;
        if !is_whole {
            restored.unreadable_owners.insert(owner);
            restored.unreadable.push(format!("copy of records, file unclaimed/{}", aside.name()));
        }
        match is_unclaimed {
            // It has less than there is.
            true if is_newer || !is_whole || aside.returned.is_some() => _ = sorted.copies.insert(owner, raw),
            true => {}
            false => sorted.claimed.push(aside),
        }
    }
    for &owner in unclaimed.iter().filter(|owner| !files.contains_key(owner)) {
        sorted.copies.insert(owner, AsideRecords::default());
        if in_log.contains(&owner) {
            again.entry(owner).or_insert(0);
        }
    }
    again.retain(|owner, _| {
        unclaimed.contains(owner) || restored.catalog.queue_by_id(QueueId(*owner)).is_some()
    });
    if !again.is_empty() {
        let read = log.read_again(recovery, &mut |record| {
            let Some(through) = again.get(&record.owner) else { return };
            if record.batch <= *through {
                return;
            }
            if let Some(copy) = sorted.copies.get_mut(&record.owner) {
                copy.push(&record);
            }
            // Owners without a file were handled when the log was opened.
            if copies.files.contains_key(&record.owner) {
                restored.handle_record(record);
            }
        });
        read.map_err(RecoverError::Log)?;
    }
    for owner in unclaimed {
        let queue = restored.queues.remove(&QueueId(owner)).unwrap_or_default();
        let in_file = kept.get(&owner).copied().unwrap_or_default();
        let (records, bytes) = sorted.copies.get(&owner).map_or(in_file, |copy| (copy.len(), copy.bytes()));
        let in_segments = streams.as_mut().map_or(0, |streams| streams.bytes_of(owner));
        let bytes = bytes + queue.paged_bytes() + in_segments;
        if queue.is_damaged() {
            sorted.closed.insert(QueueId(owner));
        }
        restored.unclaimed.insert(QueueId(owner), facts::Unclaimed { queue, records, bytes });
    }
    Ok(sorted)
}

impl Sorted {
    /// Writes the copies, and removes those that nobody needs. Called when what the quarantine has found is in the log. Returns
    /// the records that must be synced before a queue is declared.
    pub(super) fn write<D: Disk>(
        mut self,
        restored: &mut Restored,
        log: &Log<D>,
        mut copies: Copies<'_, D>,
    ) -> Result<Records, RecoverError> {
        let mut records = Records::new();
        for (id, unclaimed) in &mut restored.unclaimed {
            if unclaimed.queue.is_damaged() && !self.closed.contains(id) {
                self.close(*id, &mut copies)?;
                unclaimed.records += 1;
            }
        }
        let mut stuck = BTreeSet::new();
        for aside in self.gone {
            // If the disk refuses, the next start tries again.
            if let Err(error) = copies.disk().and_then(|disk| aside.remove(disk)) {
                tracing::warn!("file unclaimed/{} cannot be removed: {error}", aside.name());
                stuck.insert(aside.owner);
            }
        }
        // An earlier start may have been killed before it synced the name of a file that is there now.
        let is_kept = |owner: &u64| {
            restored.unclaimed.contains_key(&QueueId(*owner)) && !self.copies.contains_key(owner)
        };
        let kept: Vec<u64> = copies.files.keys().copied().filter(is_kept).collect();
        if !kept.is_empty()
            && let Err(error) = copies.disk().and_then(|disk| disk.sync_dir())
        {
            tracing::error!(
                "the directory 'unclaimed' cannot be synced: {error}. The log deletes none of its files until the next start"
            );
            restored.keeps_log = true;
            kept.iter().for_each(|owner| facts::push_noted(&mut records, NOTE, *owner));
        }
        let through = log.last_batch();
        for (owner, copy) in std::mem::take(&mut self.copies) {
            let written = match stuck.contains(&owner) {
                true => Err(io::Error::other("an older file of the owner cannot be removed")),
                false => copies.disk().and_then(|disk| Aside::write(disk, owner, through, &copy)),
            };
            if let Err(error) = written {
                tracing::error!(
                    owner = %format_args!("{owner:016x}"),
                    "no copy of the records of an unclaimed owner can be written: {error}. The log deletes none of its files until \
                     the next start"
                );
                restored.keeps_log = true;
                facts::push_noted(&mut records, NOTE, owner);
            }
        }
        for aside in self.claimed {
            let owner = aside.owner;
            if let Err(error) = copies.disk().and_then(|disk| aside.give_back(disk, log.floor())) {
                tracing::error!(
                    owner = %format_args!("{owner:016x}"),
                    "it cannot be noted that data is not unclaimed any more: {error}. The log deletes none of its files until \
                     the next start"
                );
                restored.keeps_log = true;
            }
        }
        // No new queue may have the id of an unclaimed owner.
        let possible = restored.unclaimed.keys().filter(|id| id.is_possible()).map(|id| id.incarnation());
        if let Some(last) = possible.max().filter(|last| *last >= restored.catalog.next_incarnation()) {
            let change = Change::Incarnations { next: last + 1 };
            restored.change(change);
        }
        Ok(records)
    }

    /// Adds to the copy that the queue is closed, because a record of it may be lost.
    fn close<D: Disk>(&mut self, id: QueueId, copies: &mut Copies<'_, D>) -> Result<(), RecoverError> {
        let copy = match self.copies.entry(id.0) {
            Entry::Occupied(copy) => copy.into_mut(),
            Entry::Vacant(copy) => {
                let mut raw = AsideRecords::default();
                if let Some(aside) = copies.files.get(&id.0).copied() {
                    copies.read(aside, &mut |record| raw.push(&record))?;
                }
                copy.insert(raw)
            }
        };
        copy.push(&Record { owner: id.0, seq: 0, kind: DAMAGED, file: 0, batch: 0, body: Bytes::new() });
        Ok(())
    }
}

/// Logs which owners are unclaimed.
pub(super) fn report(restored: &Restored) {
    for (id, unclaimed) in restored.unclaimed.iter().take(TOLD_MAX) {
        let facts::Unclaimed { records, bytes, .. } = unclaimed;
        tracing::warn!(
            owner = %format_args!("{:016x}", id.0),
            records,
            bytes,
            "unclaimed data: its queue is not known, and nothing says that it was deleted; it is kept in 'unclaimed'"
        );
    }
    let more = restored.unclaimed.len().saturating_sub(TOLD_MAX);
    if more > 0 {
        tracing::warn!(more, "unclaimed data: there are more owners; sluice doctor lists all of them");
    }
}
