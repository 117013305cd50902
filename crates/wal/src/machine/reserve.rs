//! Disk space that is reserved for the time when the disk is full.
//!
//! ```text
//!            the disk is full              the disk has capacity again
//!   kept ────────────────────▶ released ────────────────────────────────▶ kept
//! ```
//!
//! Spares count as a reserve: while there are enough of them, no other file is reserved
//! (docs/decisions/0016).
//!
//! Freeing space needs writes first: records of deleted messages, and copies of the live records of an old
//! file. While the reserve is released, [`Size::on_reserve`](super::Size) tells all owners to hand over nothing
//! else.

use std::io;

use super::Log;
use crate::disk::{Disk, is_full};
use crate::handover::Failure;

/// The size of the reserve in bytes. It must hold what was in flight when the disk became full, and the copy
/// of the live records of one file, at most a [`FILE_SIZE`](crate::FILE_SIZE).
pub const RESERVE_BYTES: u64 = 2 * crate::FILE_SIZE;

/// The file that takes the space. Its contents are ignored.
pub(crate) const NAME: &str = "reserve";

impl<D: Disk> Log<D> {
    /// Returns true if the disk is full and the log uses the space of its reserve.
    pub(super) fn is_on_reserve(&self) -> bool {
        !self.reserved && !self.spares_are_enough()
    }

    /// Returns true if the spares take as much of the disk as the reserve must.
    fn spares_are_enough(&self) -> bool {
        let with_space = self.spares.iter().filter(|spare| spare.has_space()).count();
        with_space as u64 * self.options.file_bytes >= self.options.reserve_bytes
    }

    /// Takes the reserve again if it is released and the disk, or the space of the spares, has capacity for
    /// it.
    pub(super) fn take_reserve(&mut self) {
        while self.is_on_reserve() {
            self.reserved = self.disk.reserve(NAME, self.options.reserve_bytes).is_ok();
            if self.reserved || self.spares.is_empty() {
                return;
            }
            self.drop_spares();
        }
    }

    /// Releases the reserve if the failure was due to a full disk.
    pub(super) fn release_reserve_if_full(&mut self, failure: &Failure) {
        if is_full(&failure.error) {
            self.drop_spares();
            self.drop_reserve();
        }
    }

    /// Called after a spare was added. Releases the reserve if the spares replace it now.
    pub(super) fn spare_added(&mut self) {
        if self.spares_are_enough() {
            self.drop_reserve();
        }
    }

    fn drop_reserve(&mut self) {
        if self.reserved {
            self.reserved =
                self.disk.remove(NAME).is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
        }
    }
}
