//! The files of the log: what each of them holds, and the disk space that all of them take.

use std::collections::BTreeMap;

/// The batches that a file holds. A batch that was copied to a newer file counts for the file in which it was
/// written first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub first_batch: u64,
    pub last_batch: u64,
    pub records: u64,
}

/// The disk space that a log takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The bytes of all files. Spares are not included, nor the bytes that an earlier use has left in the
    /// current file.
    pub bytes: u64,
    pub files: u32,
    /// The number of the oldest file that is no longer written to.
    pub oldest: Option<u64>,
    /// True if the disk is full and the log writes to the space of its reserve. Until this is false again,
    /// owners must hand over only records that free space. Every completion without an error reports it.
    pub on_reserve: bool,
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
    /// Adds a file. `sound` says that this process has written the file, and that no write or sync of it has
    /// failed.
    pub(crate) fn add(&mut self, file: u64, bytes: u64, sound: bool) {
        self.bytes += bytes;
        let before = self.files.insert(file, ClosedFile { bytes, sound });
        debug_assert!(before.is_none(), "a file is closed only once");
    }

    /// Returns true if no write or sync of the file has failed; see [`Closed::add`].
    pub(crate) fn is_sound(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|file| file.sound)
    }

    /// Marks the file as not sound.
    pub(crate) fn mark_unsound(&mut self, file: u64) {
        self.files.entry(file).and_modify(|file| file.sound = false);
    }

    pub(crate) fn size(&self) -> Size {
        Size { bytes: self.bytes, files: self.files.len() as u32, oldest: self.oldest(), on_reserve: false }
    }

    /// Returns the number of the oldest file.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.files.first_key_value().map(|(&file, _)| file)
    }

    pub(crate) fn remove(&mut self, file: u64) {
        self.bytes -= self.files.remove(&file).map_or(0, |file| file.bytes);
    }
}
