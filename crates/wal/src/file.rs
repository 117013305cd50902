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
//! Little-endian. All 48 bytes keep their place in every later version, so that an older program can tell a
//! newer file from a corrupt one.
//!
//! * `magic`: `SluiceLg` in a log file, `SluicePk` in a pack.
//! * `version`: [`LOG_VERSION`] or [`PACK_VERSION`]. `header`: the length of the header, 48 bytes.
//! * `number`: the same as in the name. Files are read in this order. A number is never used twice.
//! * `generation`: random; repeated in every batch of the file. 0 in a pack.
//! * `check`: CRC-32C over bytes 0..44.
//!
//! The header is written together with the first batch or block. A log file ends where its batches end. Bytes
//! after the last batch are left from an interrupted write or from an earlier use of the file, or are zeros with which it was filled. A reused log
//! file in which nothing was written yet still has its old header, with another number; its contents are
//! ignored.
//!
//! `N.spare` was the log file with the number N. It will be overwritten under another name; its contents are
//! ignored.

use crate::checksum::crc32c;

/// The size in bytes at which a log file is full. A file may exceed it by one batch.
pub const FILE_SIZE: u64 = 8 << 20;

/// The version of log files: of the batches, and of the broker's records in them. It is raised when an older
/// program must not read what a newer one writes. All versions from 1 on can be read; newer ones are refused.
///
/// * 2: a message that is returned to its queue keeps more than its counts (record kind 9 of the broker).
/// * 3: changes of users and virtual hosts (docs/decisions/0026).
/// * 4: record kind 10 of the broker (docs/decisions/0030).
/// * 5: users whose passwords are not hashed with SHA-256 (docs/decisions/0026).
/// * 6: permissions and policies with patterns that were refused before, topic permissions, and users whose
///   passwords are hashed with MD5 (docs/decisions/0026).
/// * 7: messages that were redriven (docs/decisions/0041).
/// * 8: queue ids with 24 bits for the slot (docs/decisions/0051).
/// * 9: record kinds 11 and 12 of the broker (docs/decisions/0060 and 0061); entries of a quorum queue say that it has ended
///   (docs/decisions/0059).
/// * 10: a batch may begin at the next multiple of 4,096 after the one before; zeros are in between (docs/decisions/0062).
/// * 11: entries of the catalog have the number of their proposal; the catalog has the nodes of a cluster and their proposals; a base of the
///   catalog may have all of it (docs/decisions/0065).
pub const LOG_VERSION: u32 = 11;

/// The version of packs; see [`LOG_VERSION`].
pub const PACK_VERSION: u32 = 1;

/// The length of a file header in bytes.
pub(crate) const FILE_HEADER: usize = 48;
const _: () = assert!(FILE_HEADER == 8 + 4 + 4 + 8 + 8 + 12 + 4);

pub(crate) const LOG_MAGIC: [u8; 8] = *b"SluiceLg";
pub(crate) const PACK_MAGIC: [u8; 8] = *b"SluicePk";

pub(crate) const LOG_SUFFIX: &str = ".log";
const PACK_SUFFIX: &str = ".pack";
pub(crate) const SPARE_SUFFIX: &str = ".spare";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub version: u32,
    pub number: u64,
    pub generation: u64,
}

impl FileHeader {
    pub(crate) fn encode(&self, magic: [u8; 8]) -> [u8; FILE_HEADER] {
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

    /// Reads the header at the front of `bytes`, of any version. Returns `None` if its check fails.
    pub(crate) fn decode(bytes: &[u8], magic: [u8; 8]) -> Option<Self> {
        let bytes = bytes.get(..FILE_HEADER)?;
        let is_valid = bytes[..8] == magic && bytes[44..] == crc32c(&bytes[..44]).to_le_bytes();
        is_valid.then(|| Self {
            version: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            number: u64_at(bytes, 16),
            generation: u64_at(bytes, 24),
        })
    }
}

/// Returns the name of the log file with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{number:020}{LOG_SUFFIX}")
}

/// Returns the name of the pack with this number.
pub(crate) fn pack_name(number: u64) -> String {
    format!("{number:020}{PACK_SUFFIX}")
}

/// Returns the name of the log file with this number while it is a spare: after it is forgotten and before it
/// is overwritten.
pub(crate) fn spare_name(number: u64) -> String {
    format!("{number:020}{SPARE_SUFFIX}")
}

/// Returns the number in `name` if it is the name of a log file.
pub(crate) fn number(name: &str) -> Option<u64> {
    digits(name.strip_suffix(LOG_SUFFIX)?)
}

/// Returns the number in `name` if it is the name of a pack.
pub(crate) fn pack_number(name: &str) -> Option<u64> {
    digits(name.strip_suffix(PACK_SUFFIX)?)
}

/// Returns the number in `name` if it is the name of a spare.
pub(crate) fn spare_number(name: &str) -> Option<u64> {
    digits(name.strip_suffix(SPARE_SUFFIX)?)
}

pub(crate) fn digits(digits: &str) -> Option<u64> {
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Returns the little-endian word at `at`. The caller has checked the length.
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
    fn a_flipped_bit_makes_a_header_invalid() {
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
