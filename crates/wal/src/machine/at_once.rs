//! Writing without waiting: a shard writes its handover itself (docs/decisions/0015).

use super::{Batch, Log, SyncEnd};
use crate::disk::Disk;
use crate::handover::{Completion, Handover};

/// The largest handover in bytes that a shard writes itself: as many as a turn reads from one connection.
/// Copying them to the page cache takes less than a tenth of a millisecond. Larger ones go to the thread, so
/// that the shard can serve its connections meanwhile.
pub const AT_ONCE_BYTES_MAX: u64 = 256 << 10;

impl<D: Disk> Log<D> {
    /// Writes a handover if this takes a single write to the current file: no new file, no change of the
    /// reserve. Tries once. If the handover asked for a sync, it waits for [`Log::begin_sync`], which then
    /// neither writes nor removes anything itself.
    ///
    /// Or writes it directly, or keeps it until the sync in flight has ended; see [`Log::write_kept`]. Then it is answered later.
    ///
    /// # Errors
    /// Returns the handover unwritten, for [`Log::append`].
    pub fn append_at_once(&mut self, handover: Handover) -> Result<Option<Completion>, Handover> {
        let handover = match self.take_direct_at_once(handover) {
            Ok(taken) => return Ok(taken),
            Err(handover) => handover,
        };
        if !self.takes_at_once(&handover) {
            return Err(handover);
        }
        let batch = Batch::Records(std::slice::from_ref(&handover));
        let number = self.next_batch;
        self.next_batch += 1;
        let mut at = None;
        if self.attempt(Some(batch), number, false, &mut at).is_err() {
            return Err(handover);
        }
        self.committed(batch, number, false);
        let sync = handover.sync;
        let (completion, records) = self.written(handover);
        if let Some(place) = at.filter(|_| sync) {
            self.keep(place.header, vec![records]);
        }
        Ok(Some(completion))
    }

    fn takes_at_once(&self, handover: &Handover) -> bool {
        let Handover { records, sync, .. } = handover;
        let has_room = self.current.as_ref().is_some_and(|current| current.end < self.options.file_bytes);
        let waits =
            self.is_full() || self.sync_refused || self.dirty.len() > 2 * self.options.dirty_files_max;
        let is_small = !records.is_empty() && records.bytes() as u64 <= AT_ONCE_BYTES_MAX;
        is_small
            && has_room
            && !self.leaves_file_early()
            && !waits
            && !self.is_on_reserve()
            && (!sync || self.syncs_on_another_thread())
    }

    /// Returns true if to end a direct write, and to begin what comes next, does not wait for the disk.
    pub fn ends_at_once(&self, end: &SyncEnd) -> bool {
        !end.is_failure() && self.syncs_on_another_thread()
    }

    /// Returns true if the next [`Log::begin_sync`] does nothing but return a job.
    fn syncs_on_another_thread(&self) -> bool {
        !self.dirty.iter().any(|file| file.doomed) && !self.has_forgotten()
    }
}
