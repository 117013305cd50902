//! Reporting missing batches: where they were, and who their owners may be.

use super::{Damage, Directory, Gap, OpenError, Owners};
use crate::batch::BATCH_HEADER;
use crate::disk::Disk;
use crate::file::{self, FILE_HEADER};
use crate::record;

/// The maximum number of missing files that are reported one by one. Each of them held megabytes.
const MISSING_MAX: usize = 64;

impl Directory {
    /// Returns true if the gap counts as damage. If a file is unreadable, the gap always counts as damage,
    /// because the file may be readable tomorrow.
    pub(super) fn is_damage(&self, gap: &Gap) -> bool {
        self.same_boot || gap.lowest <= self.synced || self.files.iter().any(|file| file.unreadable)
    }

    /// Returns the first of the valid batches that has their floor. 0 if no floor was ever raised.
    ///
    /// Before that batch was written, everything that was still needed of deleted files was written again. Nobody asked for the
    /// sync of these records, but the files were deleted only after it.
    pub(super) fn raised(&self, floor: u64, chain: &[u64]) -> u64 {
        let mut valid = chain.iter().filter(|_| floor > 1);
        valid.find(|&&number| self.place(number).1.header.floor == floor).copied().unwrap_or(0)
    }

    /// Reports the places of the missing batches and their possible owners. For `raised` see [`Directory::raised`].
    pub(super) fn damage<D: Disk>(
        &mut self,
        disk: &mut D,
        gap: &Gap,
        raised: u64,
        into: &mut Vec<Damage>,
    ) -> Result<(), OpenError> {
        let (last, above) = self.place(gap.above);
        // The batch after the gap says whether somebody waited for the sync of an earlier one.
        let waited = above.header.has_waited() && self.synced >= gap.lowest;
        let synced = waited || above.header.synced >= gap.lowest || gap.lowest < raised;
        let from = match gap.below {
            0 => (0, 0),
            below => {
                let (index, found) = self.place(below);
                (index, found.end)
            }
        };
        let (reported, mut bad) = (into.len(), 0);
        for index in from.0..=last {
            let inside = |offset: u64| (index, offset) >= from && (index, offset) < (last, above.offset);
            let scan = &self.files[index].scan;
            let lost = scan.batches.iter().filter(|found| {
                !found.intact
                    && (gap.lowest..gap.above).contains(&found.header.number)
                    && inside(found.offset)
            });
            let mut places: Vec<(u64, u64)> = lost.map(|found| (found.offset, found.end)).collect();
            let corrupt = scan.bad.iter().filter(|bad| inside(bad.start));
            places.extend(corrupt.map(|bad| (bad.start, bad.end)).inspect(|_| bad += 1));
            places.sort_unstable();
            for (offset, end) in places {
                let owners = self.owners(disk, index, offset, end)?;
                let file = file::name(self.files[index].number);
                into.push(Damage { file, offset, bytes: end - offset, missing: false, owners, synced });
            }
        }
        let below = gap.below.max(gap.lowest.saturating_sub(1));
        if self.unexplained(above.header.previous, below) <= bad && into.len() > reported {
            return Ok(());
        }
        // Some of the missing batches left no trace, so any owner may be affected. (Skipped file numbers look
        // the same, but they are rare.)
        let owners = Owners::All;
        let between = self.files[from.0].number + 1..self.files[last].number;
        let absent = |number: &u64| self.files.iter().all(|file| file.number != *number);
        let gone: Vec<u64> = between.filter(absent).take(MISSING_MAX).collect();
        let gone = if gap.below > 0 { gone } else { Vec::new() };
        for number in &gone {
            let (file, owners) = (file::name(*number), owners.clone());
            into.push(Damage { file, offset: 0, bytes: 0, missing: true, owners, synced });
        }
        if gone.is_empty() {
            let file = file::name(self.files[last].number);
            into.push(Damage { file, offset: above.offset, bytes: 0, missing: false, owners, synced });
        }
        Ok(())
    }

    /// Reports what is missing after the last valid batch, if something is known to have been there. `tail`
    /// is the end of that batch.
    pub(super) fn end_damage<D: Disk>(
        &mut self,
        disk: &mut D,
        tail: Option<(usize, u64)>,
        top: u64,
        into: &mut Vec<Damage>,
    ) -> Result<(), OpenError> {
        let known = self.synced.max(self.written);
        if known <= top {
            return Ok(());
        }
        let synced = self.synced > top;
        let missing = self.noted_file > 0
            && self.files.iter().all(|file| file.number != self.noted_file)
            && tail.is_none_or(|(index, _)| self.files[index].number < self.noted_file);
        let unexplained = self.unexplained(known, top);
        let (reported, from) = (into.len(), tail.unwrap_or((0, FILE_HEADER as u64)));
        for index in from.0..self.files.len() {
            let inside = |offset: u64| (index, offset) >= from;
            let scan = &self.files[index].scan;
            let lost = scan.batches.iter().filter(|found| !found.intact && inside(found.offset));
            let mut places: Vec<(u64, u64)> = lost.map(|found| (found.offset, found.end)).collect();
            if unexplained > 0 {
                places
                    .extend(scan.bad.iter().filter(|bad| inside(bad.start)).map(|bad| (bad.start, bad.end)));
            }
            places.sort_unstable();
            for (offset, end) in places {
                // If more batches are missing than this one place explains, it may also have held batches of
                // which no trace is left. Then any owner may be affected.
                let owners = match unexplained {
                    0 | 1 => self.owners(disk, index, offset, end)?,
                    _ => Owners::All,
                };
                let file = file::name(self.files[index].number);
                into.push(Damage { file, offset, bytes: end - offset, missing: false, owners, synced });
            }
        }
        let owners = Owners::All;
        if missing {
            let file = file::name(self.noted_file);
            into.push(Damage { file, offset: 0, bytes: 0, missing, owners, synced });
        } else if into.len() == reported {
            let newest = self.files.last();
            let (number, offset) = newest.map_or((self.noted_file, 0), |file| (file.number, file.length));
            into.push(Damage { file: file::name(number), offset, bytes: 0, missing, owners, synced });
        }
        Ok(())
    }

    /// Returns how many batches may be missing from `above` down to `below` (exclusive) without even a valid
    /// header.
    fn unexplained(&self, above: u64, below: u64) -> u64 {
        let mut number = above;
        while number > below
            && let Some(&previous) = self.broken.get(&number)
        {
            number = previous;
        }
        number.saturating_sub(below)
    }

    /// Returns the owners of the records between two offsets; the first is the offset of a batch header.
    fn owners<D: Disk>(
        &mut self,
        disk: &mut D,
        index: usize,
        offset: u64,
        end: u64,
    ) -> Result<Owners, OpenError> {
        let bytes = self.bytes(disk, index)?;
        let batch = self.files[index].scan.batches.iter().find(|found| found.offset == offset);
        // The file may end before the batch does. Then not all owners can be read from it.
        let is_whole =
            batch.is_none_or(|found| found.end - offset == BATCH_HEADER as u64 + found.header.length);
        let payload = bytes.get(offset as usize + BATCH_HEADER..end as usize).filter(|_| is_whole);
        let owners = payload.filter(|payload| !payload.is_empty()).and_then(record::owners);
        Ok(owners.map_or(Owners::All, Owners::Only))
    }
}
