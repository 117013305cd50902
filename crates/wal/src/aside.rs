//! Records of one owner that were copied aside from the log, because nobody knows the owner now and the log may delete its files.
//!
//! ```text
//!  0000000001000002               the owner, in hexadecimal: the records
//!  0000000001000002.returned-32   an empty file: the owner is known again
//!
//!  | file header, see `file.rs`; magic SluiceAs, number = through | batch | batch | ... | mark |
//! ```
//!
//! * `through`: the records are those of the log's batches up to this one. So a reader that also has the log takes only the
//!   owner's later batches from there.
//! * A batch has the format of the log's (`batch.rs`). Its number counts from 1, `previous` and `synced` are the number before
//!   it, and `floor` is 1. The mark has the format of a clean stop. A file that does not end with it has lost something.
//! * `.returned-N`: the owner was known when N was the first batch that the log needed. Its machine writes its records again when the
//!   files of that time are evacuated. So the copy is void once the log needs later batches only. What the log has lost, to
//!   damage, raises no N. The copy is not renamed: with a loss of power, it could have neither name. When both are removed, the
//!   copy goes first.
//!
//! A copy is written to `{name}.new`, synced and renamed. So a file without that suffix is whole, unless it is damaged.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, IoSlice};

use bytes::Bytes;

use crate::batch::{BATCH_HEADER, BatchHeader, CLEAN};
use crate::checksum::Proof;
use crate::disk::{Disk, read_all, write_all};
use crate::file::{FILE_HEADER, FileHeader};
use crate::record::{self, Record, Records};
use crate::recover::OpenError;
use crate::scan;

const MAGIC: [u8; 8] = *b"SluiceAs";

/// The version of these files; see [`crate::LOG_VERSION`].
pub const ASIDE_VERSION: u32 = 1;

/// A new batch begins after this many bytes of records, so that damage makes little of a file unreadable.
const BATCH_BYTES: usize = 1 << 20;

const RETURNED: &str = ".returned-";
const NEW: &str = ".new";

/// A file of records that were copied aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    pub owner: u64,
    /// The last batch of the log whose records are in the file. 0 if the header is damaged.
    pub through: u64,
    /// The first batch that the log needed when the owner was known again; see [`crate::Log::floor`]. `None` before that.
    pub returned: Option<u64>,
}

/// The records that are copied aside for one owner.
#[derive(Debug, Default)]
pub struct AsideRecords {
    batches: Vec<Records>,
}

impl AsideRecords {
    /// Adds a record.
    pub fn push(&mut self, record: &Record) {
        let Record { owner, seq, kind, body, .. } = record;
        if self.batches.last().is_none_or(|batch| batch.bytes() >= BATCH_BYTES) {
            self.batches.push(Records::new());
        }
        if let Some(batch) = self.batches.last_mut() {
            batch.push_shared(*owner, *seq, *kind, |_| {}, body);
        }
    }

    /// The number of records.
    pub fn len(&self) -> u64 {
        self.batches.iter().map(|batch| batch.len() as u64).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The bytes of the records, headers included.
    pub fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.bytes() as u64).sum()
    }
}

impl Aside {
    /// Returns the files of a directory, by owner. An interrupted copy is no file.
    ///
    /// # Errors
    /// The disk failed, or a newer program has written a file.
    pub fn list<D: Disk>(disk: &mut D) -> Result<BTreeMap<u64, Self>, OpenError> {
        let names = disk.list().map_err(|error| OpenError::Io { file: String::new(), error })?;
        let names: Vec<(u64, Option<u64>)> = names.iter().filter_map(|name| parse(name)).collect();
        let mut found = BTreeMap::new();
        for &(owner, _) in names.iter().filter(|(_, returned)| returned.is_none()) {
            let returned = names.iter().filter(|(of, _)| *of == owner).filter_map(|(_, floor)| *floor).max();
            let mut aside = Self { owner, through: 0, returned };
            let header = aside.header(disk).map_err(|error| OpenError::Io { file: aside.name(), error })?;
            if let Some(FileHeader { version, number, .. }) = header {
                if version > ASIDE_VERSION {
                    return Err(OpenError::NewerFormat { file: aside.name(), version });
                }
                aside.through = number;
            }
            found.insert(owner, aside);
        }
        Ok(found)
    }

    /// The name of the file.
    pub fn name(&self) -> String {
        format!("{:016x}", self.owner)
    }

    /// Reads the file and calls `on_record` with each record, in the order of the log. Returns false if something in it is
    /// damaged: then only some records are there.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn read<D: Disk>(&self, disk: &mut D, on_record: &mut dyn FnMut(Record)) -> io::Result<bool> {
        let mut file = disk.open(&self.name())?;
        let (bytes, unreadable) = scan::read_file(disk, &mut file)?;
        let Some(header) = FileHeader::decode(&bytes, MAGIC) else { return Ok(false) };
        let found = scan::scan(&bytes, header.generation);
        let mut is_whole = !unreadable && found.bad.is_empty();
        let (mut next, mut is_ended) = (1, false);
        for batch in found.batches {
            is_whole = is_whole && batch.intact && batch.header.number == next && !is_ended;
            next = batch.header.number + 1;
            is_ended = batch.header.is_mark();
            if !batch.intact {
                continue;
            }
            let mut payload: Bytes = bytes.slice(batch.offset as usize + BATCH_HEADER..batch.end as usize);
            while !payload.is_empty() {
                let Some((mut record, end)) = record::front(&payload, 0) else {
                    is_whole = false;
                    break;
                };
                payload = payload.slice(end..);
                // A slice would keep the whole file in memory.
                record.body = Bytes::copy_from_slice(&record.body);
                match record.owner == self.owner {
                    true => on_record(record),
                    false => is_whole = false,
                }
            }
        }
        Ok(is_whole && is_ended)
    }

    /// Writes the records of an owner to its file. The file and its name are synced when this function returns. It replaces the
    /// earlier file of the owner, which may not be void.
    ///
    /// # Errors
    /// The disk refused. Then the records of the earlier file are as they were.
    pub fn write<D: Disk>(
        disk: &mut D,
        owner: u64,
        through: u64,
        records: &AsideRecords,
    ) -> io::Result<Self> {
        let aside = Self { owner, through, returned: None };
        aside.unmark(disk)?;
        let new = format!("{}{NEW}", aside.name());
        let written = write_new(disk, &new, through, records);
        if written.is_err() {
            // What was written takes room that others need.
            drop(disk.remove(&new));
        }
        written?;
        disk.rename(&new, &aside.name())?;
        disk.sync_dir()?;
        Ok(aside)
    }

    /// Notes that the owner is known again, and that `floor` is the first batch that the log needs. Does nothing if that is noted already.
    /// Synced when this function returns.
    ///
    /// # Errors
    /// The disk refused.
    pub fn give_back<D: Disk>(self, disk: &mut D, floor: u64) -> io::Result<Self> {
        if self.returned.is_none() {
            disk.create(&format!("{}{RETURNED}{floor}", self.name()))?;
        }
        // An earlier start may have failed here.
        disk.sync_dir()?;
        Ok(Self { returned: self.returned.or(Some(floor)), ..self })
    }

    /// Removes the file. Synced when this function returns.
    ///
    /// # Errors
    /// The disk refused. Then the file may still be there.
    pub fn remove<D: Disk>(self, disk: &mut D) -> io::Result<()> {
        match disk.remove(&self.name()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => disk.sync_dir()?,
        }
        self.unmark(disk)
    }

    /// Removes the notes that the owner is known.
    fn unmark<D: Disk>(&self, disk: &mut D) -> io::Result<()> {
        let is_mark = |name: &String| matches!(parse(name), Some((owner, Some(_))) if owner == self.owner);
        let marks: Vec<String> = disk.list()?.into_iter().filter(is_mark).collect();
        if marks.is_empty() {
            return Ok(());
        }
        marks.iter().try_for_each(|name| disk.remove(name))?;
        disk.sync_dir()
    }

    fn header<D: Disk>(&self, disk: &mut D) -> io::Result<Option<FileHeader>> {
        let mut file = disk.open(&self.name())?;
        let mut header = [0; FILE_HEADER];
        let read = read_all(disk, &mut file, 0, &mut header)?;
        Ok(FileHeader::decode(&header[..read], MAGIC))
    }
}

fn parse(name: &str) -> Option<(u64, Option<u64>)> {
    let (owner, returned) = match name.split_once(RETURNED) {
        Some((owner, floor)) => (owner, Some(floor.parse().ok()?)),
        None => (name, None),
    };
    let is_owner = owner.len() == 16 && owner.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_owner.then(|| u64::from_str_radix(owner, 16).ok()).flatten().map(|owner| (owner, returned))
}

fn write_new<D: Disk>(disk: &mut D, name: &str, through: u64, records: &AsideRecords) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = disk.create(name)?;
    // A client that could predict it could hide a false batch in a message body.
    let generation = RandomState::new().hash_one(through);
    let header = FileHeader { version: ASIDE_VERSION, number: through, generation }.encode(MAGIC);
    write_all(disk, &mut file, 0, &mut [IoSlice::new(&header)])?;
    let (mut offset, mut number) = (FILE_HEADER as u64, 1);
    let empty = Records::new();
    let batches = records.batches.iter().map(|batch| (batch, batch.len() as u32));
    for (batch, count) in batches.chain([(&empty, CLEAN)]) {
        let mut proof = Proof::new([generation, number]);
        batch.pieces(|piece| proof.update(piece));
        let header = BatchHeader {
            generation,
            number,
            previous: number - 1,
            synced: number - 1,
            floor: 1,
            length: batch.bytes() as u64,
            records: count,
            proof: proof.finish(),
        };
        let header = header.encode();
        let mut pieces = vec![IoSlice::new(&header)];
        batch.slices(&mut pieces);
        write_all(disk, &mut file, offset, &mut pieces)?;
        offset += (BATCH_HEADER + batch.bytes()) as u64;
        number += 1;
    }
    disk.sync(&mut file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Crash, SimDisk};

    const OWNER: u64 = 0x0100_0002;

    fn records() -> (AsideRecords, Vec<Record>) {
        let (mut records, mut all) = (AsideRecords::default(), Vec::new());
        for (seq, size) in [(1, 3), (2, 700_000), (3, 700_000), (4, 0)] {
            let body = Bytes::from(vec![seq as u8; size]);
            let record = Record { owner: OWNER, seq, kind: 1, file: 0, batch: 0, body };
            records.push(&record);
            all.push(record);
        }
        (records, all)
    }

    fn read(disk: &mut SimDisk) -> (bool, Vec<Record>) {
        let mut read = Vec::new();
        let aside = Aside::list(disk).unwrap()[&OWNER];
        let is_whole = aside.read(disk, &mut |record| read.push(record)).unwrap();
        (is_whole, read)
    }

    #[test]
    fn records_are_read_back_after_power_loss() {
        let disk = SimDisk::new(1);
        let (records, all) = records();
        assert_eq!((records.len(), records.batches.len()), (4, 2));
        Aside::write(&mut disk.clone(), OWNER, 77, &records).unwrap();
        let mut disk = disk.crash(Crash::Power);
        assert_eq!(read(&mut disk), (true, all.clone()));
        let aside = Aside::list(&mut disk).unwrap()[&OWNER];
        assert_eq!((aside.through, aside.name().as_str()), (77, "0000000001000002"));

        aside.give_back(&mut disk.clone(), 5).unwrap();
        let mut disk = disk.crash(Crash::Power);
        let aside = Aside::list(&mut disk).unwrap()[&OWNER];
        assert_eq!((aside.through, aside.returned), (77, Some(5)));
        assert_eq!(read(&mut disk), (true, all));
        aside.remove(&mut disk.clone()).unwrap();
        let mut disk = disk.crash(Crash::Power);
        assert_eq!(Aside::list(&mut disk).unwrap(), BTreeMap::new());
        // A later copy of the same owner is not void because of an earlier note.
        Aside::write(&mut disk, OWNER, 78, &AsideRecords::default()).unwrap();
        assert_eq!(Aside::list(&mut disk).unwrap()[&OWNER].returned, None);
    }

    #[test]
    fn a_copy_that_was_interrupted_or_refused_leaves_the_one_before_it() {
        let (records, all) = records();
        let mut refused = 0;
        for step in 0..12 {
            for dies in [false, true] {
                let disk = SimDisk::new(step);
                Aside::write(&mut disk.clone(), OWNER, 1, &AsideRecords::default()).unwrap();
                if dies {
                    disk.die_at(step)
                } else {
                    disk.fail_nth(step, libc::EIO)
                }
                let written = Aside::write(&mut disk.clone(), OWNER, 2, &records);
                refused += u32::from(written.is_err());
                let mut disk = disk.crash(Crash::Power);
                let through = Aside::list(&mut disk).unwrap()[&OWNER].through;
                assert!(through == 2 || written.is_err(), "step {step}");
                let expected = if through == 2 { all.clone() } else { Vec::new() };
                assert_eq!(read(&mut disk), (true, expected), "step {step}");
            }
        }
        assert!(refused > 10, "{refused}");
    }

    /// A loss of power at any step loses neither the records nor the note that they are void.
    #[test]
    fn a_return_that_was_interrupted_loses_nothing() {
        for seed in 0..200 {
            let (disk, (records, all)) = (SimDisk::new(seed), records());
            let aside = Aside::write(&mut disk.clone(), OWNER, 1, &records).unwrap();
            disk.die_at(seed % 3);
            let returned = aside.give_back(&mut disk.clone(), 5);
            let mut disk = disk.crash(Crash::Power);
            assert_eq!(read(&mut disk), (true, all), "seed {seed}");
            let found = Aside::list(&mut disk).unwrap()[&OWNER];
            assert!(returned.is_err() || found.returned == Some(5), "seed {seed}");
            let found = found.give_back(&mut disk, 5).unwrap();
            disk.die_at(seed % 4);
            let removed = found.remove(&mut disk.clone());
            let left = Aside::list(&mut disk.crash(Crash::Power)).unwrap();
            assert!(
                left.values().all(|left| left.returned == Some(5)) && (left.is_empty() || removed.is_err())
            );
        }
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let mut small = AsideRecords::default();
        small.push(&Record {
            owner: OWNER,
            seq: 1,
            kind: 1,
            file: 0,
            batch: 0,
            body: Bytes::from_static(b"abc"),
        });
        let disk = SimDisk::new(1);
        let name = Aside::write(&mut disk.clone(), OWNER, 9, &small).unwrap().name();
        let sound = disk.files()[&name].clone();
        for at in 0..sound.len() {
            for bytes in [sound[..at].to_vec(), {
                let mut flipped = sound.clone();
                flipped[at] ^= 1;
                flipped
            }] {
                let mut disk = SimDisk::new(2);
                disk.put(&name, &bytes);
                assert!(!read(&mut disk).0, "byte {at}");
            }
        }
    }

    #[test]
    fn a_newer_file_is_refused() {
        let disk = SimDisk::new(1);
        let header = FileHeader { version: ASIDE_VERSION + 1, number: 3, generation: 4 }.encode(MAGIC);
        disk.put("0000000000000007", &header);
        let refused = Aside::list(&mut disk.clone());
        assert!(matches!(refused, Err(OpenError::NewerFormat { version: 2, .. })), "{refused:?}");
    }

    #[test]
    fn the_format_is_versioned() {
        let mut records = AsideRecords::default();
        records.push(&Record {
            owner: OWNER,
            seq: 1,
            kind: 3,
            file: 0,
            batch: 0,
            body: Bytes::from_static(b"abc"),
        });
        let disk = SimDisk::new(1);
        let name = Aside::write(&mut disk.clone(), OWNER, 258, &records).unwrap().name();
        let bytes = &disk.files()[&name];
        assert_eq!(&bytes[..24], b"SluiceAs\x01\0\0\0\x30\0\0\0\x02\x01\0\0\0\0\0\0");
        assert_eq!(bytes.len(), FILE_HEADER + BATCH_HEADER + 24 + 3 + BATCH_HEADER);
        assert_eq!(&bytes[FILE_HEADER + BATCH_HEADER + 24..][..3], b"abc");
    }
}
