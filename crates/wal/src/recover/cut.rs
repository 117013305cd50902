//! Cutting off the end that a crash has left.

use std::io::{self, IoSlice};

use super::{CUT_SUFFIX, Cut, Damage, Directory, OpenError, Owners, Recovery};
use crate::batch::BATCH_HEADER;
use crate::disk::{Disk, write_all};
use crate::file::{self, FILE_HEADER};
use crate::record;
use crate::scan::Found;

impl Directory {
    /// Finds the bytes after the last valid batch: returns (file, bytes to keep) for each file to cut, newest
    /// first. Saves a copy of them if batches were begun there.
    pub(super) fn tail<D: Disk>(
        &mut self,
        disk: &mut D,
        end: Option<(usize, u64)>,
        recovery: &mut Recovery,
    ) -> Result<Vec<(usize, u64)>, OpenError> {
        let mut cuts = Vec::new();
        let (last, kept) = end.unwrap_or((0, 0));
        for (index, file) in self.files.iter().enumerate().skip(last).rev() {
            let opening = if file.header.is_some() { FILE_HEADER as u64 } else { 0 };
            let keep = if index == last { kept.max(opening) } else { opening };
            if file.length > keep {
                cuts.push((index, keep));
            }
        }
        if let Some(&(index, keep)) = cuts.iter().find(|(index, _)| self.files[*index].unreadable) {
            let file = &self.files[index];
            let bytes = file.length - keep;
            let file = file::name(file.number);
            let (missing, owners) = (false, Owners::All);
            recovery.damage.push(Damage { file, offset: keep, bytes, missing, owners, synced: true });
            return Ok(Vec::new());
        }
        let Some(&(index, offset)) = cuts.last() else { return Ok(cuts) };
        let mut cut = Cut {
            file: file::name(self.files[index].number),
            offset,
            bytes: cuts.iter().map(|&(index, keep)| self.files[index].length - keep).sum(),
            ..Cut::default()
        };
        for &(index, keep) in &cuts {
            let behind = self.files[index].scan.batches.iter().filter(|found| found.offset >= keep);
            let behind: Vec<Found> = behind.cloned().collect();
            cut.torn |= !behind.is_empty();
            for found in behind.iter().filter(|found| found.intact) {
                let bytes = self.bytes(disk, index)?;
                let mut payload = bytes.slice(found.offset as usize + BATCH_HEADER..found.end as usize);
                while let Some((record, end)) = record::front(&payload, 0) {
                    *cut.records.entry(record.owner).or_default() += 1;
                    payload = payload.slice(end..);
                }
            }
        }
        if cut.torn {
            cut.kept = self.save(disk, &cuts)?;
        }
        recovery.cut = Some(cut);
        Ok(cuts)
    }

    /// Copies the bytes to be cut to separate files and returns their names; none if the disk refuses.
    fn save<D: Disk>(&mut self, disk: &mut D, cuts: &[(usize, u64)]) -> Result<Vec<String>, OpenError> {
        let mut kept = Vec::new();
        for &(index, from) in cuts {
            let bytes = self.bytes(disk, index)?;
            let name = format!("{:020}-{from}{CUT_SUFFIX}", self.files[index].number);
            let made = make(disk, &name, &bytes[from as usize..]);
            kept.push(name);
            if made.is_err() {
                kept.iter().for_each(|name| drop(disk.remove(name)));
                return Ok(Vec::new());
            }
        }
        Ok(kept)
    }

    /// Cuts the files, and syncs everything that an earlier process left unsynced, because later batches
    /// depend on it.
    pub(super) fn cut_and_sync<D: Disk>(
        &self,
        disk: &mut D,
        from: usize,
        cuts: &[(usize, u64)],
    ) -> Result<(), OpenError> {
        for (index, file) in self.files.iter().enumerate().skip(from).rev() {
            let name = file::name(file.number);
            let keep = cuts.iter().find(|cut| cut.0 == index).map(|cut| cut.1);
            let done = match keep {
                Some(0) => disk.remove(&name),
                _ => disk.open(&name).and_then(|mut handle| {
                    keep.map_or(Ok(()), |keep| disk.truncate(&mut handle, keep))?;
                    disk.sync(&mut handle)
                }),
            };
            done.map_err(|error| OpenError::Io { file: name, error })?;
        }
        disk.sync_dir().map_err(|error| OpenError::Io { file: String::new(), error })
    }
}

/// Creates or replaces a file and syncs it, except its name.
fn make<D: Disk>(disk: &mut D, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = match disk.create(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(name)?,
        created => created?,
    };
    disk.truncate(&mut file, 0)?;
    write_all(disk, &mut file, 0, &mut [IoSlice::new(bytes)])?;
    disk.sync(&mut file)
}
