//! The notes in the file `lock` of the streams: how far each stream had come when its note was written.
//!
//! ```text
//!  64 bytes for each stream, in any order
//!  0       4        12     20     28       36      44        52       60
//!  | magic | stream | boot | from | newest | bytes | written | synced | check |
//!  | u32   | u64    | u64  | u64  | u64    | u64   | u64     | u64    | u32   |
//! ```
//!
//! Numbers are big-endian, as in all files of streams. The note of the log (`note.rs`) is little-endian.
//!
//! * `magic`: `SLsn`. Zeros say that the place is free.
//! * `boot`: the boot of the machine: the two halves of `boot` in the note of the log, combined by XOR. 0:
//!   the system does not say. All bits set: a part of the stream was found missing in the boot that wrote the
//!   note, so that it counts as damage in every later boot as well.
//! * `from`: nothing may be missing from this offset on. What is missing before it was removed by retention
//!   or lost with the power.
//! * `newest`: the first offset of the newest segment. `bytes`: how many bytes of it were confirmed.
//! * `written`, `synced`: every entry below was confirmed as written, or synced.
//! * `check`: CRC-32C over bytes 0..60.
//!
//! A note is written when a segment was added, when a sync has ended, when the streams become idle, and when
//! they are closed. Notes are never synced. After a power failure an older note may be found, which claims
//! less but nothing wrong. Older programs write no notes. The segments of a stream without a note are
//! accepted as they are.

use std::collections::HashMap;
use std::io;

use super::files::{u32_at, u64_at};
use crate::checksum::crc32c;
use crate::disk::Disk;
use crate::note::BootId;

/// The length of a note in bytes. It divides the size of a sector, so that no note is torn.
const NOTE: usize = 64;
const _: () = assert!(NOTE == 4 + 7 * 8 + 4);

const MAGIC: [u8; 4] = *b"SLsn";

/// The `boot` that has all bits set; see the module.
const EVERY_BOOT: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub boot: u64,
    pub from: u64,
    pub newest: u64,
    pub bytes: u64,
    pub written: u64,
    pub synced: u64,
}

impl Note {
    fn encode(&self, stream: u64) -> [u8; NOTE] {
        let mut bytes = [0; NOTE];
        bytes[..4].copy_from_slice(&MAGIC);
        let Self { boot, from, newest, bytes: end, written, synced } = *self;
        for (at, word) in [stream, boot, from, newest, end, written, synced].into_iter().enumerate() {
            bytes[4 + 8 * at..12 + 8 * at].copy_from_slice(&word.to_be_bytes());
        }
        let check = crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let is_valid =
            bytes.len() == NOTE && bytes[..4] == MAGIC && u32_at(bytes, 60) == crc32c(&bytes[..60]);
        is_valid.then(|| {
            let [stream, boot, from, newest, end, written, synced] =
                [4, 12, 20, 28, 36, 44, 52].map(|at| u64_at(bytes, at));
            (stream, Self { boot, from, newest, bytes: end, written, synced })
        })
    }
}

/// The notes of all streams.
pub(super) struct Notes {
    /// The identifier of the current boot of the machine. 0 if it is not known.
    boot: u64,
    /// The note of each stream, and its place in the file.
    known: HashMap<u64, (u64, Note)>,
    /// The places in the file that hold no valid note.
    free: Vec<u64>,
    /// The places in the file that held something else than a valid note or zeros when they were read.
    corrupt: Vec<u64>,
    /// The number of all places in the file.
    places: u64,
}

impl Notes {
    /// Reads all notes. The caller must hold the lock.
    pub(super) fn read<D: Disk>(disk: &mut D) -> io::Result<Self> {
        let bytes = disk.read_notes()?;
        let mut notes = Self {
            boot: disk.boot_id().map_or(0, fold),
            known: HashMap::new(),
            free: Vec::new(),
            corrupt: Vec::new(),
            places: bytes.len().div_ceil(NOTE) as u64,
        };
        for (place, bytes) in bytes.chunks(NOTE).enumerate() {
            let note = Note::decode(bytes);
            if note.is_none() && bytes.iter().any(|&byte| byte != 0) {
                notes.corrupt.push(place as u64);
            }
            match note {
                Some((stream, note)) if !notes.known.contains_key(&stream) => {
                    notes.known.insert(stream, (place as u64, note));
                }
                _ => notes.free.push(place as u64),
            }
        }
        Ok(notes)
    }

    /// Returns where in the file there are corrupt notes, in bytes.
    pub(super) fn corrupt(&self) -> impl Iterator<Item = u64> + '_ {
        self.corrupt.iter().map(|place| place * NOTE as u64)
    }

    /// The streams that have a note.
    pub(super) fn streams(&self) -> impl Iterator<Item = u64> + '_ {
        self.known.keys().copied()
    }

    /// Returns the note of a stream, and whether it counts as written in this boot of the machine.
    pub(super) fn get(&self, stream: u64) -> Option<(Note, bool)> {
        let note = self.known.get(&stream)?.1;
        Some((note, note.boot == EVERY_BOOT || note.boot == self.boot && self.boot != 0))
    }

    /// Returns true if a note was certainly written in another boot of the machine. Then everything found was
    /// read from the disk.
    pub(super) fn is_of_another_boot(&self, note: &Note) -> bool {
        ![0, self.boot, EVERY_BOOT].contains(&note.boot) && self.boot != 0
    }

    /// Writes the note of a stream. Returns false if the disk refuses.
    pub(super) fn put<D: Disk>(&mut self, disk: &mut D, stream: u64, note: Note) -> bool {
        self.write(disk, stream, Note { boot: self.boot, ..note })
    }

    /// Notes that entries before `from` will be removed. Returns false if the disk refuses.
    pub(super) fn note_removal<D: Disk>(&mut self, disk: &mut D, stream: u64, from: u64) -> bool {
        let note = self.known.get(&stream).map(|(_, note)| Note { from: note.from.max(from), ..*note });
        note.is_none_or(|note| self.write(disk, stream, note))
    }

    /// Called when entries are missing that were there in this boot of the machine. From now on no power
    /// failure counts as an explanation.
    pub(super) fn mark_missing<D: Disk>(&mut self, disk: &mut D, stream: u64) {
        if let Some((note, true)) = self.get(stream) {
            self.write(disk, stream, Note { boot: EVERY_BOOT, ..note });
        }
    }

    fn write<D: Disk>(&mut self, disk: &mut D, stream: u64, note: Note) -> bool {
        let known = self.known.get(&stream);
        if known.is_some_and(|(_, known)| *known == note) {
            return true;
        }
        let place = known.map(|(place, _)| *place).or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        let is_written = disk.write_note(place * NOTE as u64, &note.encode(stream)).is_ok();
        if is_written {
            self.known.insert(stream, (place, note));
        } else if !self.known.contains_key(&stream) {
            self.free.push(place);
        }
        is_written
    }

    /// Removes the note of a stream. If the disk refuses, [`super::Streams::keep`] removes it later.
    pub(super) fn remove<D: Disk>(&mut self, disk: &mut D, stream: u64) {
        if let Some((place, _)) = self.known.remove(&stream) {
            let _ = disk.write_note(place * NOTE as u64, &[0; NOTE]);
            self.free.push(place);
        }
    }
}

fn fold(boot: BootId) -> u64 {
    let boot = u128::from_be_bytes(boot);
    (boot >> 64) as u64 ^ boot as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Crash, SimDisk};

    fn note(n: u64) -> Note {
        Note { from: 5 * n, newest: n, bytes: 2 * n, written: 3 * n, synced: n, ..Note::default() }
    }

    #[test]
    fn each_stream_has_one_note_that_is_overwritten() {
        let mut disk = SimDisk::new(1);
        let mut notes = Notes::read(&mut disk).unwrap();
        (1..=3).for_each(|stream| assert!(notes.put(&mut disk, stream, note(stream))));
        notes.put(&mut disk, 2, note(20));
        notes.remove(&mut disk, 1);
        notes.put(&mut disk, 4, note(4));
        assert_eq!(disk.note().len(), 3 * NOTE, "the place of the removed note is reused");
        for (crash, same) in [(Crash::Process, true), (Crash::Power, false)] {
            let mut after = disk.crash(crash);
            after.put_note(&disk.note());
            let read = Notes::read(&mut after).unwrap();
            for (stream, told) in [(2, note(20)), (3, note(3)), (4, note(4))] {
                let (found, same_boot) = read.get(stream).unwrap();
                assert_eq!((Note { boot: 0, ..found }, same_boot), (told, same));
            }
            assert_eq!(read.get(1), None);
        }
    }

    #[test]
    fn a_corrupt_note_is_ignored_and_harms_no_other() {
        let mut disk = SimDisk::new(1);
        let mut notes = Notes::read(&mut disk).unwrap();
        (1..=3).for_each(|stream| assert!(notes.put(&mut disk, stream, note(stream))));
        let bytes = disk.note();
        for at in NOTE..2 * NOTE {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            disk.put_note(&bad);
            let notes = Notes::read(&mut disk).unwrap();
            let mut streams: Vec<_> = notes.streams().collect();
            streams.sort_unstable();
            assert_eq!((streams, &notes.free[..]), (vec![1, 3], &[1][..]), "byte {at}");
        }
    }
}
