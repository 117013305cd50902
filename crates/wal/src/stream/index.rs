//! The index of a segment: the positions of some of its chunks.
//!
//! ```text
//!  8 (after the file's header), and every 28 bytes
//!  | first | timestamp | position | check |
//!  | u64   | u64       | u64      | u32   |
//! ```
//!
//! Big-endian. There is an entry for the first chunk. The next entry is for the first chunk that begins at
//! least 64 KiB after the chunk of the entry before. `position` is the position of the chunk in the segment.
//! `check` is a CRC-32C over the stream, the segment's first offset (each as u64) and the entry.
//!
//! Entries are written several at a time, and the rest when the next segment begins.
//!
//! The index only repeats what the segment says. An index that is missing, torn or incomplete makes searching
//! slower and is never an error. It is never synced.

use std::io;

use super::chunk::{CHUNK_HEADER, ChunkPosition};
use super::files::{self, FILE_HEADER, INDEX_MAGIC, Kind, u32_at, u64_at};
use super::window::{Look, Window};
use crate::checksum::Proof;
use crate::disk::{Disk, read_all};

/// The minimum distance in bytes between the chunks of two entries. It bounds what must be read to find a
/// chunk.
pub(super) const INDEX_EVERY: u64 = 64 << 10;

/// The number of entries that are written together. Writing eight takes as many system calls as writing one.
/// The price: the newest chunks, up to this many entries, are not in the index yet, so a search among them
/// reads the segment.
const ENTRIES_TOGETHER: usize = 8;

/// The length of an entry in bytes.
const ENTRY: usize = 28;
const _: () = assert!(ENTRY == 3 * 8 + 4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub first: u64,
    pub timestamp_ms: u64,
    pub position: u64,
}

impl Entry {
    fn encode(&self, stream: u64, segment: u64) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..8].copy_from_slice(&self.first.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_be_bytes());
        let check = check(stream, segment, &bytes[..24]);
        bytes[24..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY], stream: u64, segment: u64) -> Option<Self> {
        let is_valid = u32_at(bytes, 24) == check(stream, segment, &bytes[..24]);
        is_valid.then(|| Self {
            first: u64_at(bytes, 0),
            timestamp_ms: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
        })
    }
}

fn check(stream: u64, segment: u64, entry: &[u8]) -> u32 {
    let mut proof = Proof::new([stream, segment]);
    proof.update(entry);
    proof.finish()
}

/// Returns the last entry for which `is_before` is true, and its number. `is_before` must be true up to some
/// entry and false after it. A corrupt entry counts as not before.
pub(super) fn find<D: Disk>(
    disk: &mut D,
    stream: u64,
    segment: u64,
    is_before: impl Fn(&Entry) -> bool,
) -> Option<(u64, Entry)> {
    let mut file = disk.open(&Kind::Index.name(stream, segment)).ok()?;
    let length = disk.len(&mut file).ok()?;
    let (mut low, mut high) = (0, length.saturating_sub(FILE_HEADER as u64) / ENTRY as u64);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let mut bytes = [0; ENTRY];
        let read = read_all(disk, &mut file, offset(middle), &mut bytes).ok()?;
        let entry = Entry::decode(&bytes, stream, segment).filter(|_| read == ENTRY).filter(&is_before);
        match entry {
            Some(entry) => {
                found = Some((middle, entry));
                low = middle + 1;
            }
            None => high = middle,
        }
    }
    found
}

/// Like [`find`], but returns only entries that point to a chunk. After power loss the index may belong to a
/// segment that was replaced.
pub(super) fn find_chunk<D: Disk>(
    (disk, file): (&mut D, &mut D::File),
    stream: u64,
    segment: u64,
    is_before: impl Fn(&Entry) -> bool,
) -> io::Result<Option<Entry>> {
    let mut below = u64::MAX;
    while let Some((_, entry)) =
        find(disk, stream, segment, |entry| entry.position < below && is_before(entry))
    {
        let place = ChunkPosition { stream, at: entry.position };
        let look = Window::default().look((&mut *disk, &mut *file), place, CHUNK_HEADER)?;
        if matches!(look, Look::Chunk(header) if header.first == entry.first) {
            return Ok(Some(entry));
        }
        below = entry.position;
    }
    Ok(None)
}

/// The smallest part of a file that a disk writes as a whole, in bytes.
const SECTOR: u64 = 512;

/// Returns true if one of the sectors that this entry is in was not written, as far as the entry shows.
fn has_lost_sector(entry: &[u8; ENTRY], at: u64) -> bool {
    let first = (SECTOR - at % SECTOR).min(ENTRY as u64) as usize;
    let parts = [&entry[..first], &entry[first..]];
    parts.iter().any(|part| !part.is_empty() && part.iter().all(|&byte| byte == 0))
}

/// Returns the position of the first corrupt entry that has a good entry after it, or 0 if only the file's header is corrupt.
/// An end that was not written, and sectors of zeros, are no damage: the index is never synced. An entry can be in two sectors.
pub(super) fn corrupt_at<D: Disk>(disk: &mut D, stream: u64, segment: u64) -> io::Result<Option<u64>> {
    let mut file = match disk.open(&Kind::Index.name(stream, segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut header = [0; FILE_HEADER];
    let read = read_all(disk, &mut file, 0, &mut header)?;
    let (mut corrupt, mut number) = (None, 0);
    if files::version(&header[..read], INDEX_MAGIC).is_none() && header.iter().any(|&byte| byte != 0) {
        corrupt = Some(0);
    }
    loop {
        let mut bytes = [0; ENTRY];
        if read_all(disk, &mut file, offset(number), &mut bytes)? < ENTRY {
            return Ok(None);
        }
        match Entry::decode(&bytes, stream, segment) {
            Some(_) if corrupt.is_some() => return Ok(corrupt),
            None if corrupt.is_none() && !has_lost_sector(&bytes, offset(number)) => {
                corrupt = Some(offset(number));
            }
            _ => {}
        }
        number += 1;
    }
}

fn offset(entry: u64) -> u64 {
    FILE_HEADER as u64 + entry * ENTRY as u64
}

/// The index of the segment that is being written.
#[derive(Debug)]
pub(super) struct Index {
    /// The number of good entries in the index file. Bytes after them are overwritten.
    entries: u64,
    /// The position in the segment of the chunk of the last entry, whether that entry is written or not.
    position: Option<u64>,
    /// Entries that were picked for the index and are not written yet.
    due: Vec<Entry>,
}

impl Index {
    /// The index of a segment without chunks.
    pub(super) const EMPTY: Self = Self { entries: 0, position: None, due: Vec::new() };

    /// Returns an index that ends with this entry.
    pub(super) fn after(number: u64, entry: &Entry) -> Self {
        Self { entries: number + 1, position: Some(entry.position), due: Vec::new() }
    }

    /// Picks the entries for the index from consecutive chunks. Writes them once there are enough.
    pub(super) fn add<D: Disk>(
        &mut self,
        disk: &mut D,
        stream: u64,
        segment: u64,
        chunks: impl IntoIterator<Item = Entry>,
    ) {
        for chunk in chunks {
            if self.position.is_none_or(|position| chunk.position >= position + INDEX_EVERY) {
                self.due.push(chunk);
                self.position = Some(chunk.position);
            }
        }
        if self.due.len() >= ENTRIES_TOGETHER {
            self.flush(disk, stream, segment);
        }
    }

    /// Writes the entries that are due. If the disk refuses, they are dropped, and later entries take their
    /// place.
    pub(super) fn flush<D: Disk>(&mut self, disk: &mut D, stream: u64, segment: u64) {
        if !self.due.is_empty() && self.write(disk, stream, segment).is_ok() {
            self.entries += self.due.len() as u64;
        }
        self.due.clear();
    }

    /// Drops unwritten entries of chunks from this position on, because those chunks are cut.
    pub(super) fn cut(&mut self, position: u64) {
        self.due.retain(|entry| entry.position < position);
    }

    fn write<D: Disk>(&self, disk: &mut D, stream: u64, segment: u64) -> io::Result<()> {
        let name = &Kind::Index.name(stream, segment);
        let due: Vec<u8> = self.due.iter().flat_map(|entry| entry.encode(stream, segment)).collect();
        let mut file = match disk.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(name)?,
            opened => opened?,
        };
        let end = if self.entries == 0 { 0 } else { offset(self.entries) };
        if disk.len(&mut file)? != end {
            disk.truncate(&mut file, end)?;
        }
        let header = files::header(INDEX_MAGIC);
        let header = if end == 0 { &header[..] } else { &[] };
        let mut pieces = [io::IoSlice::new(header), io::IoSlice::new(&due)];
        crate::disk::write_all(disk, &mut file, end, &mut pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SimDisk;

    fn entry(n: u64) -> Entry {
        Entry { first: 10 * n, timestamp_ms: 100 * n, position: 8 + n * INDEX_EVERY / 2 }
    }

    #[test]
    fn entries_are_sparse_and_found() {
        let mut disk = SimDisk::new(0);
        let mut index = Index::EMPTY;
        for n in 0..9 {
            index.add(&mut disk, 1, 0, [entry(2 * n), entry(2 * n + 1)]);
            let written = disk.files().get(&Kind::Index.name(1, 0)).map_or(0, |index| index.len() / ENTRY);
            assert_eq!(written, (n as usize + 1) / ENTRIES_TOGETHER * ENTRIES_TOGETHER);
        }
        index.flush(&mut disk, 1, 0);
        for first in 0..190 {
            let wanted = entry((first / 20).min(8) * 2);
            let found = find(&mut disk, 1, 0, |entry| entry.first <= first);
            assert_eq!(found, Some((wanted.first / 20, wanted)), "{first}");
        }
        assert_eq!(find(&mut disk, 1, 0, |_| false), None);
        assert_eq!(find(&mut disk, 2, 0, |_| true), None);
    }

    #[test]
    fn a_torn_end_is_overwritten() {
        for torn in 0..ENTRY {
            let disk = SimDisk::new(0);
            let name = Kind::Index.name(1, 0);
            let mut index = Index::EMPTY;
            index.add(&mut disk.clone(), 1, 0, [entry(0), entry(2)]);
            index.flush(&mut disk.clone(), 1, 0);
            let mut bytes = disk.files()[&name].clone();
            bytes.extend_from_slice(&[0xee; ENTRY][..torn]);
            disk.put(&name, &bytes);
            let (number, found) = find(&mut disk.clone(), 1, 0, |_| true).unwrap();
            assert_eq!(found, entry(2));
            let mut index = Index::after(number, &found);
            index.add(&mut disk.clone(), 1, 0, [entry(3), entry(4)]);
            index.flush(&mut disk.clone(), 1, 0);
            assert_eq!(find(&mut disk.clone(), 1, 0, |_| true), Some((2, entry(4))));
        }
    }

    /// After a failure of the power, a sector can be missing although a later one was written.
    #[test]
    fn a_lost_sector_is_no_damage_and_a_flipped_bit_is() {
        let disk = SimDisk::new(0);
        let name = Kind::Index.name(1, 0);
        let mut index = Index::EMPTY;
        index.add(&mut disk.clone(), 1, 0, (0..60).map(|n| entry(2 * n)));
        index.flush(&mut disk.clone(), 1, 0);
        let bytes = disk.files()[&name].clone();
        let sector = SECTOR as usize;
        let look = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = bytes.clone();
            change(&mut changed);
            disk.put(&name, &changed);
            corrupt_at(&mut disk.clone(), 1, 0).unwrap()
        };
        assert_eq!(look(&|_| {}), None);
        for lost in 0..bytes.len() / sector {
            assert_eq!(look(&|bytes| bytes[lost * sector..][..sector].fill(0)), None, "sector {lost}");
        }
        for at in [FILE_HEADER + 1, sector - 1, sector, 2 * sector] {
            let number = (at - FILE_HEADER) / ENTRY;
            assert_eq!(look(&|bytes| bytes[at] ^= 1), Some(offset(number as u64)), "byte {at}");
        }
    }
}
