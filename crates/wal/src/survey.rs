//! The files of a data directory with their formats, for people who want to know before a program uses it.

use std::collections::BTreeMap;
use std::io;

use crate::disk::{Disk, read_all};
use crate::file::{self, FILE_HEADER, FileHeader, LOG_MAGIC, LOG_VERSION, PACK_MAGIC, PACK_VERSION};
use crate::stream::{self, STREAM_VERSION};

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A file of the log.
    Log,
    /// A file with parts of backlogs.
    Pack,
    /// A segment of a stream.
    Segment,
    /// Something else: an index, a note, a reserve, a file to be written over, or a file of somebody else.
    Other,
}

/// The files of one kind that have the same format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    pub files: u64,
    pub bytes: u64,
}

/// Returns the files of a directory by their kind and the version of their format. The version is `None` if the kind has none,
/// or if the header of the file is damaged or not written yet. Reads the headers only.
///
/// # Errors
/// A file cannot be read.
pub fn survey<D: Disk>(disk: &mut D) -> io::Result<BTreeMap<(FileKind, Option<u32>), Surveyed>> {
    let mut found: BTreeMap<_, Surveyed> = BTreeMap::new();
    for name in disk.list()? {
        let kind = kind(&name);
        let mut handle = disk.open(&name)?;
        let version = match kind {
            FileKind::Log => version(disk, &mut handle, LOG_MAGIC)?,
            FileKind::Pack => version(disk, &mut handle, PACK_MAGIC)?,
            FileKind::Segment => {
                let mut header = [0; FILE_HEADER];
                let read = read_all(disk, &mut handle, 0, &mut header)?;
                stream::segment_version(&header[..read])
            }
            FileKind::Other => None,
        };
        let row = found.entry((kind, version)).or_default();
        row.files += 1;
        row.bytes += disk.len(&mut handle)?;
    }
    Ok(found)
}

/// Returns a file of a directory whose format is newer than this program, and its version. Reads the headers of the log and of
/// packs, and the version of the directory of streams. So a program can refuse a directory before it changes any of it.
///
/// # Errors
/// A file cannot be read.
pub fn newer_file<D: Disk>(disk: &mut D) -> io::Result<Option<(FileKind, String, u32)>> {
    for name in disk.list()? {
        let (kind, newest) = match kind(&name) {
            FileKind::Log => (FileKind::Log, LOG_VERSION),
            FileKind::Pack => (FileKind::Pack, PACK_VERSION),
            _ if stream::is_version_file(&name) => (FileKind::Segment, STREAM_VERSION),
            _ => continue,
        };
        let mut handle = disk.open(&name)?;
        let version = match kind {
            FileKind::Log => version(disk, &mut handle, LOG_MAGIC)?,
            FileKind::Pack => version(disk, &mut handle, PACK_MAGIC)?,
            _ => stream::directory_version_of(disk, &mut handle)?,
        };
        if let Some(version) = version.filter(|version| *version > newest) {
            return Ok(Some((kind, name, version)));
        }
    }
    Ok(None)
}

/// Returns true if the directory has a file of the log: a broker has run on it.
///
/// # Errors
/// The directory cannot be read.
pub fn has_log<D: Disk>(disk: &mut D) -> io::Result<bool> {
    Ok(disk.list()?.iter().any(|name| kind(name) == FileKind::Log))
}

fn kind(name: &str) -> FileKind {
    if file::number(name).is_some() {
        FileKind::Log
    } else if file::pack_number(name).is_some() {
        FileKind::Pack
    } else if stream::is_segment(name) {
        FileKind::Segment
    } else {
        FileKind::Other
    }
}

/// Returns the version of a file of the log, or of a pack. `None` if its header is damaged.
fn version<D: Disk>(disk: &mut D, file: &mut D::File, magic: [u8; 8]) -> io::Result<Option<u32>> {
    let mut header = [0; FILE_HEADER];
    let read = read_all(disk, file, 0, &mut header)?;
    Ok(FileHeader::decode(&header[..read], magic).map(|header| header.version))
}
