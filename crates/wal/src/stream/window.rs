//! A part of a segment in memory, which moves on as chunks are inspected.

use std::io;

use std::sync::Arc;

use bytes::Bytes;

use super::buffer_budget::{BufferBudget, counted};
use super::chunk::{CHUNK_HEADER, ChunkHeader, ChunkPosition};
use crate::disk::{Disk, read_all};

/// The default number of bytes per read.
pub(super) const WINDOW_BYTES: usize = 128 << 10;

/// What a place of a segment contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A chunk whose header and filter are valid at this place. Its data may be corrupt or incomplete.
    Chunk(ChunkHeader),
    /// The place is at the end of the file.
    End,
    /// The place has bytes that are not a valid chunk.
    Bad,
}

/// A part of one file in memory. It never has more bytes than were requested, nor more than the file has.
#[derive(Debug, Default)]
pub(super) struct Window {
    bytes: Bytes,
    /// The position of the first byte in the file.
    at: u64,
    /// The number of bytes that were read from the file so far.
    pub read: u64,
    /// The budget in which its buffers count.
    held: Option<Arc<BufferBudget>>,
}

impl Window {
    /// Returns an empty window whose buffers count in this budget.
    pub(super) fn counted(held: Option<Arc<BufferBudget>>) -> Self {
        Self { held, ..Self::default() }
    }

    /// Inspects the chunk at a place. Reads `want` bytes from there on if they are not in memory.
    pub(super) fn look<D: Disk>(
        &mut self,
        (disk, file): (&mut D, &mut D::File),
        place: ChunkPosition,
        want: usize,
    ) -> io::Result<Look> {
        let Some(bytes) = self.fill((&mut *disk, &mut *file), place.at, CHUNK_HEADER, want)? else {
            return Ok(if disk.len(file)? == place.at { Look::End } else { Look::Bad });
        };
        let Some(header) = ChunkHeader::decode(&bytes) else { return Ok(Look::Bad) };
        let head = self.fill((disk, file), place.at, header.head(), want)?;
        let is_valid = head.is_some_and(|head| header.is_valid_at(&head, place));
        Ok(if is_valid { Look::Chunk(header) } else { Look::Bad })
    }

    /// Returns the whole chunk at a place, whose header was found there. Returns `None` if its data is
    /// corrupt or incomplete.
    pub(super) fn chunk<D: Disk>(
        &mut self,
        file: (&mut D, &mut D::File),
        place: ChunkPosition,
        header: &ChunkHeader,
        want: usize,
    ) -> io::Result<Option<Bytes>> {
        let chunk = self.fill(file, place.at, header.bytes() as usize, want)?;
        Ok(chunk.filter(|chunk| header.matches(&chunk[header.head()..])))
    }

    /// The number of bytes in memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if `need` bytes from `at` on are in memory.
    pub(super) fn has(&self, at: u64, need: u64) -> bool {
        at >= self.at && at + need <= self.at + self.bytes.len() as u64
    }

    /// Returns `need` bytes from `at` on. Reads `want` bytes if they are not in memory. Returns `None` if the
    /// file ends before.
    pub(super) fn fill<D: Disk>(
        &mut self,
        (disk, file): (&mut D, &mut D::File),
        at: u64,
        need: usize,
        want: usize,
    ) -> io::Result<Option<Bytes>> {
        if !self.has(at, need as u64) {
            // The length of the file is checked before memory is allocated, because a length that was read
            // from a file may be wrong.
            let there = disk.len(file)?.saturating_sub(at);
            if there < need as u64 {
                return Ok(None);
            }
            let mut bytes = vec![0; there.min(need.max(want) as u64) as usize];
            // Bytes in memory need not be read again.
            let known = at.checked_sub(self.at).and_then(|from| self.bytes.get(from as usize..));
            let known = known.unwrap_or_default().len().min(bytes.len());
            bytes[..known].copy_from_slice(&self.bytes[self.bytes.len() - known..]);
            let read = read_all(disk, file, at + known as u64, &mut bytes[known..])?;
            bytes.truncate(known + read);
            self.read += read as u64;
            (self.bytes, self.at) = (counted(bytes, self.held.as_ref()), at);
            if known + read < need {
                return Ok(None);
            }
        }
        let from = (at - self.at) as usize;
        Ok(Some(self.bytes.slice(from..from + need)))
    }
}
