//! Finding the batches in the bytes of a file, even if the file is damaged.

use std::io;
use std::ops::Range;

use aio::BLOCK;
use bytes::Bytes;

use crate::batch::{BATCH_HEADER, BATCH_MAGIC, BatchHeader};
use crate::disk::Disk;
use crate::file::FILE_HEADER;

/// A batch with a valid header.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub header: BatchHeader,
    /// The offset of the batch's header.
    pub offset: u64,
    /// The end of the batch's payload, or the end of the file if that is earlier.
    pub end: u64,
    /// True if the payload is complete and matches its checksum.
    pub intact: bool,
}

/// The contents of a file after its header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub batches: Vec<Found>,
    /// The ranges of bytes that belong to no batch with a valid header.
    pub bad: Vec<Range<u64>>,
}

/// Finds the batches of a generation. After an invalid header, searches for the next valid one.
pub(crate) fn scan(bytes: &[u8], generation: u64) -> Scan {
    let mut scan = Scan::default();
    let mut at = FILE_HEADER.min(bytes.len());
    while at < bytes.len() {
        if let Some(header) = BatchHeader::decode(&bytes[at..], Some(generation)) {
            let payload = at + BATCH_HEADER;
            let wanted = usize::try_from(header.length).ok().and_then(|length| payload.checked_add(length));
            let end = wanted.map_or(bytes.len(), |end| end.min(bytes.len()));
            let intact = wanted == Some(end) && header.matches(&bytes[payload..end]);
            scan.batches.push(Found { header, offset: at as u64, end: end as u64, intact });
            at = end;
        } else if let Some(next) = after_padding(bytes, at, generation) {
            at = next;
        } else {
            let next = next_header(bytes, at + 1, generation).unwrap_or(bytes.len());
            scan.bad.push(at as u64..next as u64);
            at = next;
        }
    }
    scan
}

/// Guesses the generation of a file with a corrupt header, from the batch that must follow the header.
pub(crate) fn guess_generation(bytes: &[u8]) -> Option<u64> {
    Some(BatchHeader::decode(bytes.get(FILE_HEADER..)?, None)?.generation)
}

/// Returns the start of the next block, if there is only padding before it and a batch begins there.
fn after_padding(bytes: &[u8], at: usize, generation: u64) -> Option<usize> {
    let next = at.next_multiple_of(BLOCK);
    let is_padding = bytes.get(at..next)?.iter().all(|&byte| byte == 0);
    (is_padding && BatchHeader::decode(&bytes[next..], Some(generation)).is_some()).then_some(next)
}

fn next_header(bytes: &[u8], from: usize, generation: u64) -> Option<usize> {
    let mut at = from;
    while at + BATCH_HEADER <= bytes.len() {
        at += bytes[at..].iter().position(|&byte| byte == BATCH_MAGIC[0])?;
        if bytes[at..].starts_with(&BATCH_MAGIC)
            && BatchHeader::decode(&bytes[at..], Some(generation)).is_some()
        {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Reads a whole file. Blocks that cannot be read become zeros; the flag says whether there are any.
///
/// # Errors
/// Only if the length of the file is not available.
pub(crate) fn read_file<D: Disk>(disk: &mut D, file: &mut D::File) -> io::Result<(Bytes, bool)> {
    const BLOCK: usize = 4096;
    let length = usize::try_from(disk.len(file)?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let mut unreadable = false;
    let mut at = 0;
    while at < length {
        // The whole file is read at once. After the first error it is read block by block, to skip only the
        // unreadable blocks.
        let to = if unreadable { length.min((at / BLOCK + 1) * BLOCK) } else { length };
        match disk.read_at(file, at as u64, &mut bytes[at..to]) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if !unreadable => unreadable = true,
            Err(_) => {
                bytes[at..to].fill(0);
                at = to;
            }
        }
    }
    if !unreadable {
        bytes.truncate(at);
    }
    Ok((bytes.into(), unreadable))
}
