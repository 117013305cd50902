//! Files that are written over in place.
//!
//! ```text
//!             forgotten                      the current file is full
//!   N.log ─────────────────▶ N.spare ───────────────────────────────────▶ M.log, over what stands there
//!                               │
//!                               └── the disk is full, or the log is closed or opened: removed
//! ```
//!
//! The system has the pages of a spare in memory, and its blocks on the disk. A file that is made has to be given both,
//! page by page and block by block, which for large records costs more than to copy them (docs/decisions/0016).
//!
//! What is left of a former life is never taken for something else: every batch says the generation it was written in
//! (`batch.rs`), and the header of the file its number. Once the file is left for the next one it is cut where its batches
//! end; so is the last one when the log is closed, and by the next open when it was not.
//!
//! Only what this process has written without a fault is written over. Whatever was there when the log was opened may
//! be damaged, and kept somewhere else under another name; a file that has failed a write or a sync may stand on bad blocks.

use std::io;

use super::{Log, Open};
use crate::disk::Disk;
use crate::file;

/// Forgotten files that are kept, unless [`Options`](super::Options) say otherwise. With fewer, files are made anew while
/// syncs last; each takes the disk of a file for ever, and two of them stand for the reserve (docs/decisions/0016).
pub const SPARE_FILES_MAX: usize = 3;

impl<D: Disk> Log<D> {
    /// The file with this number, to be written from its front: a spare, or a new one. The second word is how many bytes
    /// of a former life stand in it.
    pub(super) fn take_file(&mut self, number: u64) -> io::Result<(D::File, u64)> {
        let name = file::name(number);
        let Some(spare) = self.spares.pop_front() else { return Ok((self.disk.create(&name)?, 0)) };
        let taken = self.disk.rename(&file::spare_name(spare), &name).and_then(|()| {
            let mut handle = self.disk.open_over(&name)?;
            let former = self.disk.len(&mut handle)?;
            Ok((handle, former))
        });
        if taken.is_err() {
            // Under its new name it is a leftover.
            let _ = self.disk.remove(&file::spare_name(spare));
        }
        // Before anybody asks: those that are left may not be enough.
        self.take_reserve();
        taken
    }

    /// Takes the name of a forgotten file away; keeps the file, if it is to be written over.
    pub(super) fn give_back(&mut self, number: u64) -> io::Result<()> {
        let (name, spare) = (file::name(number), file::spare_name(number));
        if self.spares.len() < self.options.spare_files_max
            && !self.is_short()
            && self.closed.is_sound(number)
        {
            if self.disk.rename(&name, &spare).is_ok() {
                self.spares.push_back(number);
                self.has_spared();
                return Ok(());
            }
            // A disk may say that it could not, when it has.
            let _ = self.disk.remove(&spare);
        }
        match self.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the spares. One that cannot be removed is left to the next open.
    pub(super) fn drop_spares(&mut self) {
        for spare in self.spares.drain(..) {
            let _ = self.disk.remove(&file::spare_name(spare));
        }
    }
}

/// Cuts off what is left of a former life. If the disk refuses, it looks like an interrupted write, and is never vouched for.
pub(super) fn cut_former<D: Disk>(disk: &mut D, open: &mut Open<D::File>) {
    if open.former > open.end {
        let _ = disk.truncate(&mut open.handle, open.end);
        open.former = 0;
    }
}
