//! A file: its name and its header.
//!
//! ```text
//!  name: 20 decimal digits, the file's number, and ".log" or ".pack"
//!
//!  0       8         12       16       24           32     44      48
//!  | magic | version | header | number | generation | zero | check | batches or blocks ...
//!  | 8     | u32     | u32    | u64    | u64        | 12   | u32   |
//! ```
//!
//! Little-endian. All 48 bytes keep their place in every later version, so that an older program can tell a newer
//! file from a damaged one.
//!
//! * `magic`: `SluiceLg` in a log file, `SluicePk` in a pack.
//! * `version`: [`LOG_VERSION`] or [`PACK_VERSION`]. `header`: bytes of the header, 48.
//! * `number`: the same as in the name; files are read in this order. Never used twice.
//! * `generation`: random; stands in every batch of the file. 0 in a pack.
//! * `check`: CRC-32C over bytes 0..44.
//!
//! The header is written together with what follows it first. A log file ends where its batches end; bytes after the last
//! batch are an interrupted write, or a former life of the file. A log file that has only its name in this life has the header
//! of the former one, with another number: nothing in it counts.
//!
//! `N.spare` is what was the log file with the number N, until it is written over under another name. Nothing in it counts.

use crate::batch::crc32c;

/// Bytes after which a log file is full. One file may exceed it by one batch.
pub const FILE_SIZE: u64 = 8 << 20;

/// The version of a log file: of the batches, and of the records of the broker in them. Raised when an older program
/// must not read what a newer one writes. Files of every version from 1 on are read; those of a newer one are refused.
///
/// 2: a message that comes back keeps more than its counts (record kind 9 of the broker).
pub const LOG_VERSION: u32 = 3;

/// The version of a pack, as [`LOG_VERSION`].
pub const PACK_VERSION: u32 = 1;

/// Bytes of a file header.
pub(crate) const FILE_HEADER: usize = 48;
const _: () = assert!(FILE_HEADER == 8 + 4 + 4 + 8 + 8 + 12 + 4);

pub(crate) const LOG_MAGIC: [u8; 8] = *b"SluiceLg";
pub(crate) const PACK_MAGIC: [u8; 8] = *b"SluicePk";

const LOG_SUFFIX: &str = ".log";
const PACK_SUFFIX: &str = ".pack";
const SPARE_SUFFIX: &str = ".spare";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub version: u32,
    pub number: u64,
    pub generation: u64,
}

impl FileHeader {
    pub fn encode(&self, magic: [u8; 8]) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[..8].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&(FILE_HEADER as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.generation.to_le_bytes());
        let check = crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The header at the front of `bytes`, of whatever version, if its check holds.
    pub fn decode(bytes: &[u8], magic: [u8; 8]) -> Option<Self> {
        let bytes = bytes.get(..FILE_HEADER)?;
        let holds = bytes[..8] == magic && bytes[44..] == crc32c(&bytes[..44]).to_le_bytes();
        holds.then(|| Self {
            version: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            number: u64_at(bytes, 16),
            generation: u64_at(bytes, 24),
        })
    }
}

/// The name of the log file with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{number:020}{LOG_SUFFIX}")
}

/// The name of the pack with this number.
pub(crate) fn pack_name(number: u64) -> String {
    format!("{number:020}{PACK_SUFFIX}")
}

/// The name that the log file with this number has from when it is forgotten to when it is written over.
pub(crate) fn spare_name(number: u64) -> String {
    format!("{number:020}{SPARE_SUFFIX}")
}

/// The number in a file's name, if it is the name of a log file.
pub(crate) fn number(name: &str) -> Option<u64> {
    digits(name.strip_suffix(LOG_SUFFIX)?)
}

/// The number in a file's name, if it is the name of a pack.
pub(crate) fn pack_number(name: &str) -> Option<u64> {
    digits(name.strip_suffix(PACK_SUFFIX)?)
}

/// The number in a file's name, if it is the name of a spare.
pub(crate) fn spare_number(name: &str) -> Option<u64> {
    digits(name.strip_suffix(SPARE_SUFFIX)?)
}

fn digits(digits: &str) -> Option<u64> {
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The little-endian word at `at`; the caller has checked the length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(name(1), "00000000000000000001.log");
        assert_eq!(number(&name(u64::MAX)), Some(u64::MAX));
        for other in ["lock", "1.log", "0000000000000000000a.log", "+0000000000000000001.log", ""] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(number("99999999999999999999.log"), None, "more than 64 bits");
        assert_eq!(
            (pack_number(&pack_name(7)), number(&pack_name(7)), pack_number(&name(7))),
            (Some(7), None, None)
        );
        assert_eq!((spare_number(&spare_name(7)), number(&spare_name(7))), (Some(7), None));
    }

    #[test]
    fn a_flipped_header_is_no_header() {
        let header = FileHeader { version: LOG_VERSION, number: 3, generation: 9 };
        let bytes = header.encode(LOG_MAGIC);
        assert_eq!(FileHeader::decode(&bytes, LOG_MAGIC), Some(header));
        assert_eq!(FileHeader::decode(&bytes, PACK_MAGIC), None);
        for at in 0..FILE_HEADER {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(FileHeader::decode(&bad, LOG_MAGIC), None, "byte {at}");
        }
    }
}
