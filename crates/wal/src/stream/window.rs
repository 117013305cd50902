//! A part of a segment in memory, that moves along as chunks are looked at.

use std::io;

use std::sync::Arc;

use bytes::Bytes;

use super::chunk::{CHUNK_HEADER, ChunkHeader, Place};
use super::held::{Held, counted};
use crate::disk::{Disk, read_all};

/// Bytes read at a time, if nobody asks for other.
pub(super) const WINDOW_BYTES: usize = 128 << 10;

/// What stands at a place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The header of a chunk, and a filter, that hold there. The data may not, and may not be there.
    Chunk(ChunkHeader),
    /// The end of the file.
    End,
    /// Something else.
    Bad,
}

/// Bytes of one file. No more than what was asked for, and no more than the file has.
#[derive(Debug, Default)]
pub(super) struct Window {
    bytes: Bytes,
    /// The byte of the file at which they begin.
    at: u64,
    /// Read so far.
    pub read: u64,
    /// Where its buffers count.
    held: Option<Arc<Held>>,
}

impl Window {
    /// One whose buffers count there.
    pub fn counted(held: Option<Arc<Held>>) -> Self {
        Self { held, ..Self::default() }
    }

    /// Looks at the chunk at a place, reading `want` bytes from there on if they are not at hand.
    pub fn look<D: Disk>(
        &mut self,
        (disk, file): (&mut D, &mut D::File),
        place: Place,
        want: usize,
    ) -> io::Result<Look> {
        let Some(bytes) = self.fill((&mut *disk, &mut *file), place.at, CHUNK_HEADER, want)? else {
            return Ok(if disk.len(file)? == place.at { Look::End } else { Look::Bad });
        };
        let Some(header) = ChunkHeader::decode(&bytes) else { return Ok(Look::Bad) };
        let head = self.fill((disk, file), place.at, header.head(), want)?;
        let holds = head.is_some_and(|head| header.holds(&head, place));
        Ok(if holds { Look::Chunk(header) } else { Look::Bad })
    }

    /// The whole chunk whose header was found at a place, if its data proves right.
    pub fn chunk<D: Disk>(
        &mut self,
        file: (&mut D, &mut D::File),
        place: Place,
        header: &ChunkHeader,
        want: usize,
    ) -> io::Result<Option<Bytes>> {
        let chunk = self.fill(file, place.at, header.bytes() as usize, want)?;
        Ok(chunk.filter(|chunk| header.proves(&chunk[header.head()..])))
    }

    /// Bytes at hand.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether so many bytes from `at` on are at hand.
    pub fn has(&self, at: u64, need: u64) -> bool {
        at >= self.at && at + need <= self.at + self.bytes.len() as u64
    }

    /// `need` bytes from `at` on, reading `want` if they are not at hand; `None` if the file ends before.
    pub fn fill<D: Disk>(
        &mut self,
        (disk, file): (&mut D, &mut D::File),
        at: u64,
        need: usize,
        want: usize,
    ) -> io::Result<Option<Bytes>> {
        if !self.has(at, need as u64) {
            // Before anything is allocated: a length that was read is a claim.
            let there = disk.len(file)?.saturating_sub(at);
            if there < need as u64 {
                return Ok(None);
            }
            let mut bytes = vec![0; there.min(need.max(want) as u64) as usize];
            // What is at hand need not be read again.
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
