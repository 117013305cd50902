//! Reading packs, block by block.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use super::block::{BLOCK_HEADER, BlockHeader, Place};
use super::{BLOCK_BYTES, Extent};
use crate::disk::{Disk, read_all};
use crate::file;
use crate::record::{self, Record};

/// Packs that are kept open. Few: an open pack keeps its bytes on the disk when it is removed.
pub(crate) const OPEN_PACKS_MAX: usize = 8;

/// One block of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// In the order in which they were put into the run; `file` is 0. Their bodies are slices of one buffer of
    /// [`BLOCK_BYTES`] and a header at most, or of the size of the only record: keeping one keeps all.
    pub records: Vec<Record>,
    /// Where the next block of the extent is; `None` behind the last.
    pub next: Option<u32>,
    /// What it takes in the pack, its header included.
    pub bytes: u32,
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The pack is not there.
    Missing,
    /// The pack ends in front of the block's end.
    Short,
    /// No block header, or that of another place or owner.
    Header,
    /// The records do not match the header.
    Payload,
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "the pack is missing",
            Self::Short => "the pack ends too early",
            Self::Header => "the block's header does not hold",
            Self::Payload => "the block's records do not hold",
        })
    }
}

/// Why a block could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The records are lost. `offset` is that of the block, in bytes from the start of the pack.
    Damaged { pack: u64, offset: u64, what: Flaw },
    /// The disk refused: nothing is known about the records.
    Io { pack: u64, offset: u64, error: io::Error },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { pack, offset, what } => {
                write!(f, "pack {}, block at {offset}: {what}", file::pack_name(*pack))
            }
            Self::Io { pack, offset, error } => {
                write!(f, "pack {}, block at {offset}: {error}", file::pack_name(*pack))
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// What went wrong in a block, before it is said which.
enum Trouble {
    Flaw(Flaw),
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Flaw> for Trouble {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

/// Reads the packs of a directory, whether or not somebody writes there. Memory: the block that is being read, and
/// a few open files.
pub struct PackReader<D: Disk> {
    disk: D,
    /// The one used last stands last.
    open: VecDeque<(u64, D::File)>,
}

impl<D: Disk> PackReader<D> {
    /// Reads from `disk`, which it does not lock: the same directory that [`crate::Packs`] has.
    pub fn new(disk: D) -> Self {
        Self { disk, open: VecDeque::with_capacity(OPEN_PACKS_MAX) }
    }

    /// Reads the block at byte `at` of the extent: 0, or [`Block::next`] of the block before it. One read of the disk,
    /// two if the block is one record of more than [`BLOCK_BYTES`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&mut self, extent: Extent, owner: u64, at: u32) -> Result<Block, ReadError> {
        let Extent { pack, offset, bytes } = extent;
        let offset = u64::from(offset) + u64::from(at);
        let read = self.try_read(Place { pack, offset, owner }, bytes.saturating_sub(at));
        let (records, taken) = read.map_err(|trouble| match trouble {
            Trouble::Flaw(what) => ReadError::Damaged { pack, offset, what },
            Trouble::Io(error) => {
                self.open.retain(|(open, _)| *open != pack);
                ReadError::Io { pack, offset, error }
            }
        })?;
        let next = (at + taken < bytes).then_some(at + taken);
        Ok(Block { records, next, bytes: taken })
    }

    /// The records of the block, which takes at most `room` bytes, and what it takes.
    fn try_read(&mut self, place: Place, room: u32) -> Result<(Vec<Record>, u32), Trouble> {
        let room = room as usize;
        let (disk, handle) = self.handle(place.pack)?;
        let mut bytes = vec![0; room.min(BLOCK_HEADER + BLOCK_BYTES)];
        let read = read_all(disk, handle, place.offset, &mut bytes)?;
        bytes.truncate(read);
        let header = BlockHeader::decode(&bytes, place)?;
        let end = BLOCK_HEADER + header.length as usize;
        if end > room {
            return Err(Flaw::Header.into());
        }
        if bytes.len() < end {
            let from = bytes.len();
            bytes.resize(end, 0);
            let read = read_all(disk, handle, place.offset + from as u64, &mut bytes[from..])?;
            if from + read < end {
                return Err(Flaw::Short.into());
            }
        }
        bytes.truncate(end);
        let payload = Bytes::from(bytes).slice(BLOCK_HEADER..);
        if !header.proves(&payload, place) {
            return Err(Flaw::Payload.into());
        }
        let records = records(payload).filter(|records| records.len() == header.records as usize);
        Ok((records.ok_or(Flaw::Payload)?, end as u32))
    }

    fn handle(&mut self, pack: u64) -> Result<(&mut D, &mut D::File), Trouble> {
        let known = self.open.iter().position(|(open, _)| *open == pack).and_then(|at| self.open.remove(at));
        let handle = match known {
            Some((_, handle)) => handle,
            None => self.disk.open(&file::pack_name(pack)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Trouble::Flaw(Flaw::Missing),
                _ => Trouble::Io(error),
            })?,
        };
        if self.open.len() == OPEN_PACKS_MAX {
            self.open.pop_front();
        }
        self.open.push_back((pack, handle));
        let (_, handle) = self.open.back_mut().ok_or(Flaw::Missing)?;
        Ok((&mut self.disk, handle))
    }
}

fn records(mut payload: Bytes) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !payload.is_empty() {
        let (record, end) = record::front(&payload, 0)?;
        payload = payload.slice(end..);
        records.push(record);
    }
    Some(records)
}
