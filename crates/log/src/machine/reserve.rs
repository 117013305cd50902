//! A part of the disk that is kept for the time when it is full.
//!
//! ```text
//!            the disk is full              there is room for it again
//!   kept ────────────────────▶ given up ──────────────────────────────▶ kept
//! ```
//!
//! Before that, the spares are given up, and there are none until the reserve is back.
//!
//! What frees space has to be written first: that messages are gone, the copies of what is alive in an old file. While
//! the reserve is given up, [`Size::short`](super::Size) tells everybody to hand over nothing else.

use std::io;

use super::Log;
use crate::disk::Disk;
use crate::handover::Failure;

/// What a full disk is to be emptied with: as much as the largest copy of what is alive in one file
/// ([`FILE_SIZE`](crate::FILE_SIZE)).
pub const RESERVE_BYTES: u64 = crate::FILE_SIZE;

/// The file that takes the space. Nothing stands in it.
const NAME: &str = "reserve";

impl<D: Disk> Log<D> {
    /// The disk is full, and the log lives on what was its reserve.
    pub(super) fn is_short(&self) -> bool {
        self.options.reserve_bytes > 0 && !self.reserved
    }

    /// Takes the reserve, if it is given up and there is room for it.
    pub(super) fn take_reserve(&mut self) {
        if self.is_short() {
            self.reserved = self.disk.reserve(NAME, self.options.reserve_bytes).is_ok();
        }
    }

    /// Gives the spares up if it was for want of space that something failed; if there are none, the reserve.
    pub(super) fn give_way(&mut self, failure: &Failure) {
        let full = matches!(failure.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        if full && !self.spares.is_empty() {
            self.drop_spares();
        } else if full && self.reserved {
            self.reserved =
                self.disk.remove(NAME).is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
        }
    }
}
