//! Giving space back.
//!
//! ```text
//!  sync                  the copies of what is still needed, and all else
//!  a batch, synced       carries the floor: nothing below it is required any more
//!  remove ... remove     oldest first, or make a spare of it; a crash in between leaves files that the next open removes
//!  sync the directory    no file comes back
//! ```
//!
//! All of this is done on the log's thread, between two rounds and two syncs of the other thread
//! (docs/decisions/0012), and holds up writing for three syncs. That is once for all the files of an evacuation, so for
//! each 8 MiB of log at the least; the first sync has little left to do, for what was copied has just been synced.
//! To begin them on the other thread would be three steps, each with its own way to fail and to be taken up again, between
//! which the floor is said and not yet true; to save some milliseconds of latency in every few hundred.

use std::collections::BTreeMap;

use super::{Batch, Log, Open};
use crate::disk::Disk;
use crate::file;
use crate::handover::{Failure, WriteError};

/// What a log takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Of all files, without what is left of a former life in the one that is written to, and without spares.
    pub bytes: u64,
    pub files: u32,
    /// The number of the oldest file that is no longer written to.
    pub oldest: Option<u64>,
    /// The disk is full, and what the log writes now takes its reserve: hand over what frees space, and no more than
    /// that, until there is room for the reserve again. Told by every completion that is no error.
    pub short: bool,
}

/// The files that are no longer written to, and their bytes.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    files: BTreeMap<u64, ClosedFile>,
    bytes: u64,
}

#[derive(Debug)]
struct ClosedFile {
    bytes: u64,
    sound: bool,
}

impl Closed {
    /// A file is sound if this process has written it, and nothing has failed in it.
    pub fn add(&mut self, file: u64, bytes: u64, sound: bool) {
        self.bytes += bytes;
        let before = self.files.insert(file, ClosedFile { bytes, sound });
        debug_assert!(before.is_none(), "a file is closed once");
    }

    pub fn is_sound(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|file| file.sound)
    }

    /// It is sound no more.
    fn spoil(&mut self, file: u64) {
        self.files.entry(file).and_modify(|file| file.sound = false);
    }

    pub fn size(&self) -> Size {
        Size { bytes: self.bytes, files: self.files.len() as u32, oldest: self.oldest(), short: false }
    }

    fn oldest(&self) -> Option<u64> {
        self.files.first_key_value().map(|(&file, _)| file)
    }

    fn remove(&mut self, file: u64) {
        self.bytes -= self.files.remove(&file).map_or(0, |file| file.bytes);
    }
}

impl<D: Disk> Log<D> {
    /// What the log takes on the disk now.
    pub fn size(&self) -> Size {
        let mut size = Size { short: self.is_short(), ..self.closed.size() };
        if let Some(current) = &self.current {
            size.bytes += current.end;
            size.files += 1;
        }
        size
    }

    /// Gives up all files up to and including `file`: no record in them is needed any more, or a copy of it was
    /// acknowledged with `sync`. Does nothing if that would take the file that is written to.
    ///
    /// # Errors
    /// Some of the files are still there: the next call, or the next open, goes on with them.
    /// [`io::ErrorKind::WouldBlock`]: nothing was done, for a sync is under way.
    pub fn forget(&mut self, file: u64) -> Result<(), WriteError> {
        self.refuse_while_syncing()?;
        let head = self.current.as_ref().map_or(self.next_file, |current| current.number);
        let due = self.removed || self.closed.oldest().is_some_and(|oldest| oldest <= file);
        if due && file < head {
            self.raise_floor(file)?;
            self.remove_through(file)?;
            self.take_reserve();
        }
        Ok(())
    }

    fn raise_floor(&mut self, file: u64) -> Result<(), Failure> {
        let above = self.spans.range(file + 1..).next().map(|(_, span)| span.first_batch);
        if above.map_or(self.floor > self.last, |above| above <= self.floor) {
            return Ok(());
        }
        self.commit(None, true)?;
        // Where nothing else is left, the first batch that is needed is the one that says so.
        let floor = above.unwrap_or(self.next_batch);
        let before = std::mem::replace(&mut self.floor, floor);
        self.commit(Some(Batch::Floor), true).inspect_err(|_| self.floor = before)?;
        Ok(())
    }

    fn remove_through(&mut self, file: u64) -> Result<(), Failure> {
        self.leave_dirty(|open| open.number <= file);
        while let Some(oldest) = self.closed.oldest().filter(|&oldest| oldest <= file) {
            self.give_back(oldest).map_err(|error| Failure { error, file: file::name(oldest) })?;
            self.closed.remove(oldest);
            self.spans.remove(&oldest);
            self.removed = true;
        }
        if self.removed { self.sync_names() } else { Ok(()) }
    }

    /// Nothing more is to be done for the files that are synced, or needed no more.
    pub(super) fn leave_dirty(&mut self, is_done: impl Fn(&Open<D::File>) -> bool) {
        let closed = &mut self.closed;
        self.dirty.retain(|open| {
            let is_done = is_done(open);
            if is_done && open.doomed {
                closed.spoil(open.number);
            }
            !is_done
        });
    }

    /// Makes the names synced, of those that were made and of those that were removed.
    pub(super) fn sync_names(&mut self) -> Result<(), Failure> {
        let outcome = self.disk.sync_dir();
        let synced = outcome.is_ok();
        for file in self.dirty.iter_mut().chain(&mut self.current).filter(|file| !file.named) {
            file.named = synced;
            file.doomed |= !synced;
        }
        self.removed &= !synced;
        self.retire_doomed();
        outcome.map_err(|error| Failure { error, file: String::new() })
    }
}
