//! The files of streams: their names and headers.
//!
//! ```text
//!  {stream: 16 hex digits}-{first: 20 decimal digits}.segment    chunks, from offset `first` on
//!  {stream}-{first}.index                                        positions of some of the chunks; see index.rs
//!  {stream}-{first}.new                                          a segment that will replace a failed one
//!  streams.version                                               only a header
//!
//!  0       4         8
//!  | magic | version | chunks, or entries ...
//!  | 4     | u32     |
//! ```
//!
//! * `magic`: `SLsg` in a segment, `SLsi` in an index, `SLsv` in the version file of the directory. In the
//!   version file a CRC-32C of the header follows. A version that this program does not know counts only with
//!   a valid CRC; the first programs wrote none.
//! * `version`: [`STREAM_VERSION`]. The version of the directory is checked before anything is written, those
//!   of segments when their stream is opened or read.
//!
//! The header of a segment is written together with its first chunk.

use std::io;

use super::STREAM_VERSION;
use crate::checksum::crc32c;
use crate::disk::{Disk, read_all};

/// The length of a file header in bytes.
pub(super) const FILE_HEADER: usize = 8;
const _: () = assert!(FILE_HEADER == 4 + 4);

pub(super) const SEGMENT_MAGIC: [u8; 4] = *b"SLsg";
pub(super) const INDEX_MAGIC: [u8; 4] = *b"SLsi";
pub(super) const VERSION_MAGIC: [u8; 4] = *b"SLsv";

/// The length of the version file of the directory in bytes.
pub(super) const VERSION_BYTES: usize = FILE_HEADER + 4;

/// The name of the version file of the directory.
pub(super) const VERSION_FILE: &str = "streams.version";

/// The kind of a file, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Segment,
    Index,
    New,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Index => "index",
            Self::New => "new",
        }
    }

    /// Returns the name of this file of a stream's segment.
    pub(super) fn name(self, stream: u64, first: u64) -> String {
        format!("{stream:016x}-{first:020}.{}", self.suffix())
    }
}

/// Returns the stream, the first offset and the kind of the file with this name.
pub(super) fn parse(name: &str) -> Option<(u64, u64, Kind)> {
    let (numbers, suffix) = name.split_once('.')?;
    let kind = [Kind::Segment, Kind::Index, Kind::New].into_iter().find(|kind| kind.suffix() == suffix)?;
    let (stream, first) = numbers.split_once('-')?;
    let (stream, first) = (u64::from_str_radix(stream, 16).ok()?, first.parse().ok()?);
    (kind.name(stream, first) == name).then_some((stream, first, kind))
}

/// Returns true for the name of a segment.
pub(crate) fn is_segment(name: &str) -> bool {
    matches!(parse(name), Some((_, _, Kind::Segment)))
}

/// Returns true for the name of the version file of the directory.
pub(crate) fn is_version_file(name: &str) -> bool {
    name == VERSION_FILE
}

/// Returns the version of a segment that begins with these bytes; `None` if the header is damaged.
pub(crate) fn segment_version(bytes: &[u8]) -> Option<u32> {
    version(bytes, SEGMENT_MAGIC)
}

pub(super) fn header(magic: [u8; 4]) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..4].copy_from_slice(&magic);
    bytes[4..].copy_from_slice(&STREAM_VERSION.to_be_bytes());
    bytes
}

/// Returns the contents of the version file of the directory.
pub(super) fn version_file() -> [u8; VERSION_BYTES] {
    let mut bytes = [0; VERSION_BYTES];
    bytes[..FILE_HEADER].copy_from_slice(&header(VERSION_MAGIC));
    let check = crc32c(&bytes[..FILE_HEADER]);
    bytes[FILE_HEADER..].copy_from_slice(&check.to_be_bytes());
    bytes
}

/// Returns the version of the directory; `None` if the version file is corrupt.
pub(super) fn directory_version(bytes: &[u8]) -> Option<u32> {
    let is_valid =
        bytes.len() == VERSION_BYTES && u32_at(bytes, FILE_HEADER) == crc32c(&bytes[..FILE_HEADER]);
    version(bytes, VERSION_MAGIC).filter(|&version| is_valid || version <= STREAM_VERSION)
}

/// Reads the version file of the directory. Returns the version as [`directory_version`] does.
pub(crate) fn directory_version_of<D: Disk>(disk: &mut D, file: &mut D::File) -> io::Result<Option<u32>> {
    let mut bytes = [0; VERSION_BYTES];
    let read = read_all(disk, file, 0, &mut bytes)?;
    Ok(directory_version(&bytes[..read]))
}

/// Returns the version in a file's header; `None` if it is not such a header. Versions start at 1.
pub(super) fn version(bytes: &[u8], magic: [u8; 4]) -> Option<u32> {
    let (found, version) = bytes.get(..FILE_HEADER)?.split_at(4);
    (found == magic).then(|| u32_at(version, 0)).filter(|&version| version > 0)
}

/// Returns the big-endian word at `at`. The caller has checked the length.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the big-endian word at `at`. The caller has checked the length.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for kind in [Kind::Segment, Kind::Index, Kind::New] {
            for (stream, first) in [(0, 0), (0xfeed, 17), (u64::MAX, u64::MAX)] {
                assert_eq!(parse(&kind.name(stream, first)), Some((stream, first, kind)));
            }
        }
        let name = "000000000000feed-00000000000000000017.segment";
        assert_eq!(Kind::Segment.name(0xfeed, 17), name);
        for other in
            ["lock", VERSION_FILE, "feed-17.segment", &name.to_uppercase(), &format!("+{}", &name[1..])]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse(&name.replace("00000000000000000017", "99999999999999999999")), None);
    }

    #[test]
    fn a_header_has_a_version() {
        assert_eq!(version(&header(INDEX_MAGIC), INDEX_MAGIC), Some(STREAM_VERSION));
        assert_eq!(version(&header(INDEX_MAGIC), SEGMENT_MAGIC), None);
        assert_eq!(version(&header(INDEX_MAGIC)[..7], INDEX_MAGIC), None);
        assert_eq!(version(b"SLsg\0\0\0\0", SEGMENT_MAGIC), None);
    }
}
