//! Giving space back (docs/decisions/0021).
//!
//! ```text
//!  a batch               carries the floor: nothing below it is required any more, if everything from it on is there
//!  sync                  of the files that stay, the copies of what is still needed among them; of no other
//!  remove ... remove     oldest first, or make a spare of it; a crash in between leaves files that the next open removes
//! ```
//!
//! The sync is one of those that the other thread does (docs/decisions/0012): writing goes on meanwhile. What is forgotten
//! was mostly never synced at all. A file that comes back after a power failure stands below the floor.

use std::collections::BTreeMap;

use super::{Batch, Log, Open};
use crate::disk::Disk;
use crate::handover::Failure;

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
    /// acknowledged as written. They go when the next sync has ended well, which this asks for: see [`Log::begin_sync`].
    /// While the disk refuses that, or refuses to remove one, every later sync tries again; so does the next open. Does
    /// nothing if that would take the file that is written to.
    pub fn forget(&mut self, file: u64) {
        let head = self.current.as_ref().map_or(self.next_file, |current| current.number);
        if file < head {
            self.forgetting = self.forgetting.max(file);
        }
    }

    /// Says the floor above the files that are to go, and returns the last of them: a sync need not have them.
    /// `None`: there is none, or the disk refuses.
    pub(super) fn begin_forget(&mut self) -> Option<u64> {
        self.remove_forgotten();
        let file = self.forgetting;
        self.oldest_forgotten()?;
        if !self.is_said(file) {
            // Where nothing else is left, the first batch that is needed is the one that says so.
            let floor = self.first_above(file).unwrap_or(self.next_batch);
            let before = std::mem::replace(&mut self.floor, floor);
            if self.commit(Some(Batch::Floor), false).is_err() {
                self.floor = before;
                return None;
            }
            self.said = self.last;
        }
        (self.synced < self.said).then_some(file)
    }

    /// Removes what is to go, as far as the floor above it is synced and the disk lets it.
    pub(super) fn remove_forgotten(&mut self) {
        let file = self.forgetting;
        if self.oldest_forgotten().is_none() || self.synced < self.said || !self.is_said(file) {
            return;
        }
        self.leave_dirty(|open| open.number <= file);
        while let Some(oldest) = self.oldest_forgotten() {
            if self.give_back(oldest).is_err() {
                return;
            }
            self.closed.remove(oldest);
            self.spans.remove(&oldest);
        }
        self.take_reserve();
    }

    fn oldest_forgotten(&self) -> Option<u64> {
        self.closed.oldest().filter(|&oldest| oldest <= self.forgetting)
    }

    /// The first batch behind a file.
    fn first_above(&self, file: u64) -> Option<u64> {
        self.spans.range(file + 1..).next().map(|(_, span)| span.first_batch)
    }

    /// Whether the floor is above a file.
    fn is_said(&self, file: u64) -> bool {
        self.first_above(file).map_or(self.floor > self.last, |above| above <= self.floor)
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

    /// Makes the names of all files synced.
    pub(super) fn sync_names(&mut self) -> Result<(), Failure> {
        let outcome = self.disk.sync_dir();
        let synced = outcome.is_ok();
        for file in self.dirty.iter_mut().chain(&mut self.current).filter(|file| !file.named) {
            file.named = synced;
            file.doomed |= !synced;
        }
        self.retire_doomed();
        outcome.map_err(|error| Failure { error, file: String::new() })
    }
}
