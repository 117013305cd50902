//! Files that are overwritten in place.
//!
//! ```text
//!             forgotten                      the current file is full
//!   N.log ─────────────────▶ N.spare ───────────────────────────────────▶ M.log, over the old contents
//!                               │
//!                               └── the disk is full or short, or the log is closed or opened: removed
//! ```
//!
//! A spare already has pages in memory and blocks on the disk. A new file must be given both, one by one. For
//! large records that costs more than copying the records (docs/decisions/0016).
//!
//! Leftovers of an earlier use are never mistaken for new data: every batch carries its generation
//! (`batch.rs`), and the header of the file carries its number. When the log moves on to the next file, the
//! old one is cut where its batches end. The last file is cut when the log is closed, or else by the next
//! open.
//!
//! Only files that this process has written without a failure are overwritten. A file from before the open
//! may be damaged, or somebody may have linked it under another name. A file that failed a write or a sync
//! may have bad blocks.

use std::io;

use super::{Log, Open};
use crate::disk::Disk;
use crate::file;

/// The default number of forgotten files that are kept (see [`Options`](super::Options)). With fewer, new
/// files are made during long syncs. Each spare takes the disk space of a file permanently, and two of them
/// replace the reserve (docs/decisions/0016).
pub const SPARE_FILES_MAX: usize = 3;

impl<D: Disk> Log<D> {
    /// Opens the file with this number, to be written from its start: a spare or a new file. Also returns how
    /// many bytes of an earlier use it holds.
    pub(super) fn take_file(&mut self, number: u64) -> io::Result<(D::File, u64)> {
        let name = file::name(number);
        let Some(spare) = self.spares.pop_front() else { return Ok((self.disk.create(&name)?, 0)) };
        let taken = self.disk.rename(&file::spare_name(spare), &name).and_then(|()| {
            let mut handle = self.disk.open_over(&name)?;
            let former = self.disk.len(&mut handle)?;
            Ok((handle, former))
        });
        if taken.is_err() {
            // If the rename succeeded and the open failed, the file is a leftover under its new name.
            let _ = self.disk.remove(&file::spare_name(spare));
        }
        // The reserve is taken again now, before other files can take the space, because the remaining spares
        // may be too small to replace it.
        self.take_reserve();
        taken
    }

    /// With `false`, gives up all spares and keeps none from now on, because others need the disk space. With `true`, keeps
    /// forgotten files as spares again.
    pub fn keep_spares(&mut self, keeps: bool) {
        self.keeps_spares = keeps;
        if !keeps {
            self.drop_spares();
            // The spares may have replaced the reserve.
            self.take_reserve();
        }
    }

    /// Removes a forgotten file, or renames it to a spare if it can be overwritten.
    pub(super) fn remove_or_spare(&mut self, number: u64) -> io::Result<()> {
        let (name, spare) = (file::name(number), file::spare_name(number));
        if self.keeps_spares
            && self.spares.len() < self.options.spare_files_max
            && !self.is_on_reserve()
            && self.closed.is_sound(number)
        {
            if self.disk.rename(&name, &spare).is_ok() {
                self.spares.push_back(number);
                self.spare_added();
                return Ok(());
            }
            // A disk may report a failure although it has renamed the file.
            let _ = self.disk.remove(&spare);
        }
        match self.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the spares. The next open retries those that cannot be removed.
    pub(super) fn drop_spares(&mut self) {
        for spare in self.spares.drain(..) {
            let _ = self.disk.remove(&file::spare_name(spare));
        }
    }
}

/// Cuts off the bytes that an earlier use of the file has left. If the disk refuses, they look like an
/// interrupted write and are ignored.
pub(super) fn cut_former<D: Disk>(disk: &mut D, open: &mut Open<D::File>) {
    if open.former > open.end {
        let _ = disk.truncate(&mut open.handle, open.end);
        open.former = 0;
    }
}
