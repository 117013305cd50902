//! Finding the batches in a file's bytes, whatever happened to them.

use std::io;
use std::ops::Range;

use bytes::Bytes;

use crate::batch::{BATCH_HEADER, BATCH_MAGIC, BatchHeader};
use crate::disk::Disk;
use crate::file::FILE_HEADER;

/// A batch whose header holds.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub header: BatchHeader,
    /// Where its header starts.
    pub offset: u64,
    /// Where its payload ends, or the file if that is earlier.
    pub end: u64,
    /// The payload is complete and proved.
    pub intact: bool,
}

/// What is in a file behind its header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub batches: Vec<Found>,
    /// Bytes that belong to no batch whose header holds.
    pub bad: Vec<Range<u64>>,
}

/// Walks the batches of a generation; behind one whose header does not hold, searches for the next that does.
pub(crate) fn scan(bytes: &[u8], generation: u64) -> Scan {
    let mut scan = Scan::default();
    let mut at = FILE_HEADER.min(bytes.len());
    while at < bytes.len() {
        if let Some(header) = BatchHeader::decode(&bytes[at..], Some(generation)) {
            let payload = at + BATCH_HEADER;
            let wanted = usize::try_from(header.length).ok().and_then(|length| payload.checked_add(length));
            let end = wanted.map_or(bytes.len(), |end| end.min(bytes.len()));
            let intact = wanted == Some(end) && header.proves(&bytes[payload..end]);
            scan.batches.push(Found { header, offset: at as u64, end: end as u64, intact });
            at = end;
        } else {
            let next = next_header(bytes, at + 1, generation).unwrap_or(bytes.len());
            scan.bad.push(at as u64..next as u64);
            at = next;
        }
    }
    scan
}

/// The generation of a file whose own header is damaged: that of the batch which must follow it.
pub(crate) fn guess_generation(bytes: &[u8]) -> Option<u64> {
    Some(BatchHeader::decode(bytes.get(FILE_HEADER..)?, None)?.generation)
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

/// A file's bytes, read at once. Blocks that cannot be read are zeros, and the flag says that there are some.
///
/// # Errors
/// Only if the file's length cannot be had.
pub(crate) fn read_file<D: Disk>(disk: &mut D, file: &mut D::File) -> io::Result<(Bytes, bool)> {
    const BLOCK: usize = 4096;
    let length = usize::try_from(disk.len(file)?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let mut unreadable = false;
    let mut at = 0;
    while at < length {
        // The whole rest at once; block by block once the disk has refused something.
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
