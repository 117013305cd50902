//! Reclaiming space (docs/decisions/0021).
//!
//! ```text
//!  a batch               carries the floor: no batch below it is needed, provided that everything from it on is there
//!  sync                  of the files that stay, with the copies of what is still needed; not of the forgotten ones
//!  remove ... remove     oldest first, or rename to a spare; after a crash in between the next open removes the rest
//! ```
//!
//! The sync runs on the other thread (docs/decisions/0012), and writing continues meanwhile. Most forgotten
//! files were never synced at all. If a removed file reappears after a power failure, its batches are below
//! the floor.

use super::{Batch, Log, Open};
use crate::disk::Disk;
use crate::handover::Failure;
use crate::space::Size;

impl<D: Disk> Log<D> {
    /// Returns the disk space that the log takes now.
    pub fn size(&self) -> Size {
        let mut size = Size { on_reserve: self.is_on_reserve(), ..self.closed.size() };
        if let Some(current) = &self.current {
            size.bytes += current.end;
            size.files += 1;
        }
        size
    }

    /// Gives up all files up to and including `file`. The caller guarantees that each of their records is no
    /// longer needed, or that a copy of it was acknowledged as written. The files are removed when the next
    /// sync has succeeded; this call asks for that sync (see [`Log::begin_sync`]). If the disk refuses to
    /// sync or to remove a file, every later sync tries again, and so does the next open. Does nothing if
    /// `file` is the current file or a later one.
    pub fn forget(&mut self, file: u64) {
        let head = self.current.as_ref().map_or(self.next_file, |current| current.number);
        if file < head {
            self.forgotten_to = self.forgotten_to.max(file);
        }
    }

    /// Writes a batch that sets the floor above the files to be removed. Returns the number of the last of
    /// those files, because a sync can skip them. Returns `None` if there is none, or if the disk refuses.
    pub(super) fn begin_forget(&mut self) -> Option<u64> {
        self.remove_forgotten();
        let file = self.forgotten_to;
        self.oldest_forgotten()?;
        if !self.floor_is_above(file) {
            // If nothing else is left, the first batch that is needed is the one that carries the floor.
            let floor = self.first_above(file).unwrap_or(self.next_batch);
            let before = std::mem::replace(&mut self.floor, floor);
            if self.commit(Some(Batch::Floor), false).is_err() {
                self.floor = before;
                return None;
            }
            self.floor_batch = self.last;
        }
        (self.synced < self.floor_batch).then_some(file)
    }

    /// Removes the forgotten files, if the floor above them is synced. Stops when the disk refuses.
    pub(super) fn remove_forgotten(&mut self) {
        let file = self.forgotten_to;
        if self.oldest_forgotten().is_none() || self.synced < self.floor_batch || !self.floor_is_above(file) {
            return;
        }
        self.drop_dirty(|open| open.number <= file);
        while let Some(oldest) = self.oldest_forgotten() {
            if self.remove_or_spare(oldest).is_err() {
                return;
            }
            self.closed.remove(oldest);
            self.spans.remove(&oldest);
        }
        self.take_reserve();
    }

    /// Returns true if files are to be removed.
    pub(super) fn has_forgotten(&self) -> bool {
        self.oldest_forgotten().is_some()
    }

    fn oldest_forgotten(&self) -> Option<u64> {
        self.closed.oldest().filter(|&oldest| oldest <= self.forgotten_to)
    }

    /// Returns the first batch after a file.
    fn first_above(&self, file: u64) -> Option<u64> {
        self.spans.range(file + 1..).next().map(|(_, span)| span.first_batch)
    }

    /// Returns true if the floor is above a file.
    fn floor_is_above(&self, file: u64) -> bool {
        self.first_above(file).map_or(self.floor > self.last, |above| above <= self.floor)
    }

    /// Drops the files that need no further sync, because they are synced or no longer needed.
    pub(super) fn drop_dirty(&mut self, is_done: impl Fn(&Open<D::File>) -> bool) {
        let closed = &mut self.closed;
        self.dirty.retain(|open| {
            let is_done = is_done(open);
            if is_done && open.doomed {
                closed.mark_unsound(open.number);
            }
            !is_done
        });
    }

    /// Syncs the names of all files.
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
