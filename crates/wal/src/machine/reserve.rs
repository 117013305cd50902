//! A part of the disk that is kept for the time when it is full.
//!
//! ```text
//!            the disk is full              there is room for it again
//!   kept ────────────────────▶ given up ──────────────────────────────▶ kept
//! ```
//!
//! Spares are one as well: while there are enough of them, no other file is kept for it (docs/decisions/0016).
//!
//! What frees space has to be written first: that messages are gone, the copies of what is alive in an old file. While
//! the reserve is given up, [`Size::short`](super::Size) tells everybody to hand over nothing else.

use std::io;

use super::Log;
use crate::disk::Disk;
use crate::handover::Failure;

/// What a full disk is to be emptied with: what was under way when it got full, and the copy of what is alive in a file,
/// at most a [`FILE_SIZE`](crate::FILE_SIZE).
pub const RESERVE_BYTES: u64 = 2 * crate::FILE_SIZE;

/// The file that takes the space. Nothing stands in it.
const NAME: &str = "reserve";

impl<D: Disk> Log<D> {
    /// The disk is full, and the log lives on what was its reserve.
    pub(super) fn is_short(&self) -> bool {
        !self.reserved && !self.spares_are_enough()
    }

    /// The spares take as much of the disk as the reserve has to.
    fn spares_are_enough(&self) -> bool {
        self.spares.len() as u64 * self.options.file_bytes >= self.options.reserve_bytes
    }

    /// Takes the reserve, if it is given up and there is room for it, or spares can make room.
    pub(super) fn take_reserve(&mut self) {
        while self.is_short() {
            self.reserved = self.disk.reserve(NAME, self.options.reserve_bytes).is_ok();
            if self.reserved || self.spares.is_empty() {
                return;
            }
            self.drop_spares();
        }
    }

    /// Gives the reserve up if it was for want of space that something failed.
    pub(super) fn give_way(&mut self, failure: &Failure) {
        if matches!(failure.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            self.drop_spares();
            self.drop_reserve();
        }
    }

    /// There is another spare: what it stands for need not be kept twice.
    pub(super) fn has_spared(&mut self) {
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
