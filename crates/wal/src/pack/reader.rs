//! Reading packs, block by block.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use super::block::{BLOCK_HEADER, BlockHeader, BlockPosition, Flaw};
use super::{BLOCK_BYTES, Extent};
use crate::disk::{Disk, read_all};
use crate::file::{self, FILE_HEADER, FileHeader, PACK_MAGIC};
use crate::record::{self, Record};

/// The maximum number of packs kept open. Small, because a removed pack keeps its disk space while it is
/// open.
pub(crate) const OPEN_PACKS_MAX: usize = 8;

/// One block of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The records, in the order in which they were added to the run. Their `file` is 0. Their bodies are
    /// slices of one buffer, so keeping one body keeps the whole buffer. The buffer has at most
    /// [`BLOCK_BYTES`] and a header, or the size of the single record.
    pub records: Vec<Record>,
    /// The position of the next block in the extent. `None` after the last block.
    pub next: Option<u32>,
    /// The bytes that the block takes in the pack, with its header.
    pub bytes: u32,
}

/// The reason why a block could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The records are lost. `offset` is the offset of the block in the pack, in bytes.
    Damaged { pack: u64, offset: u64, what: Flaw },
    /// The disk refused to read the block. Its records may be intact.
    Io { pack: u64, offset: u64, error: io::Error },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { pack, what: Flaw::Opening, .. } => {
                write!(f, "pack {}, at 0: {}", file::pack_name(*pack), Flaw::Opening)
            }
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

/// The reason why a block could not be read, without its place.
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

/// Reads the packs of a directory, even while they are written. Memory: the block being read, and a few open
/// files.
pub struct PackReader<D: Disk> {
    disk: D,
    /// The open packs. The most recently used one is the last.
    open: VecDeque<(u64, D::File)>,
}

impl<D: Disk> PackReader<D> {
    /// Creates a reader of the directory that [`crate::Packs`] uses. Does not lock it.
    pub fn new(disk: D) -> Self {
        Self { disk, open: VecDeque::with_capacity(OPEN_PACKS_MAX) }
    }

    /// Reads the block at position `at` of the extent: 0, or [`Block::next`] of the block before it. Takes
    /// one read of the disk, or two if the block is one record of more than [`BLOCK_BYTES`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&mut self, extent: Extent, owner: u64, at: u32) -> Result<Block, ReadError> {
        let Extent { pack, offset, bytes } = extent;
        let offset = u64::from(offset) + u64::from(at);
        let read = self.try_read(BlockPosition { pack, offset, owner }, bytes.saturating_sub(at));
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

    /// Checks the header of a pack. Reading blocks does not need it.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn check_header(&mut self, pack: u64) -> Result<(), ReadError> {
        let mut bytes = [0; FILE_HEADER];
        let read = self.handle(pack).and_then(|(disk, file)| Ok(read_all(disk, file, 0, &mut bytes)?));
        match read {
            Ok(read) if FileHeader::decode(&bytes[..read], PACK_MAGIC).is_some() => Ok(()),
            Ok(_) => Err(ReadError::Damaged { pack, offset: 0, what: Flaw::Opening }),
            Err(Trouble::Flaw(what)) => Err(ReadError::Damaged { pack, offset: 0, what }),
            Err(Trouble::Io(error)) => Err(ReadError::Io { pack, offset: 0, error }),
        }
    }

    /// Returns the records of a block and its size in bytes. The block can have at most `room` bytes.
    fn try_read(&mut self, place: BlockPosition, room: u32) -> Result<(Vec<Record>, u32), Trouble> {
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
        if !header.matches(&payload, place) {
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
