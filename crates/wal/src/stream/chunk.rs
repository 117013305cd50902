//! A chunk: entries that were appended together and are read together.
//!
//! ```text
//!  0    1      2         4         8           16      24      32    36     40        44      45      48
//!  | 50 | type | entries | records | timestamp | epoch | first | crc | data | trailer | bloom | check | bloom ... | data ...
//!  | u8 | u8   | u16     | u32     | i64       | u64   | u64   | u32 | u32  | u32     | u8    | u24   | bytes     | bytes
//! ```
//!
//! Big-endian. This is the chunk of the stream protocol as osiris writes it. So clients of that protocol can
//! be sent bytes straight from the file.
//!
//! * `50`: magic 5 and version 0, four bits each. `type`: 0, entries of users. `epoch`: 1. `trailer`: 0, no
//!   bytes.
//! * `entries`, `records`: the same number, at least 1.
//! * `timestamp`: milliseconds since 1970, not before the timestamp of the previous chunk.
//! * `first`: the offset of the first entry, where the previous chunk ends.
//! * `crc`: CRC-32 (ISO-HDLC, as in zlib) over the data. `data`: the length of the data in bytes, at least 1.
//! * `bloom`: the length in bytes of the filter (`bloom.rs`) before the data: 0, or 16 and more.
//! * `check`: the lower 24 bits of a CRC-32C. It covers the number of the stream and the position of the
//!   chunk in the file (each as u64), bytes 0..45, and the filter.
//!
//! `check` uses bytes that the protocol reserves and that clients ignore. It is needed because `crc` does not
//! cover the header: plausibility checks alone would accept a wrong timestamp, a shorter length or a corrupt
//! filter. It covers the position, so that a chunk inside the body of an entry is not taken for a chunk.

use crc_fast::CrcAlgorithm;

use super::Bloom;
use super::files::{u32_at, u64_at};
use crate::checksum::Proof;

/// The length of a chunk's header in bytes.
pub(super) const CHUNK_HEADER: usize = 48;
const _: () = assert!(CHUNK_HEADER == 1 + 1 + 2 + 4 + 8 + 8 + 8 + 4 + 4 + 4 + 1 + 3);

/// The position of `check` in the header.
const CHECK: usize = 45;

/// Magic and version, and the type of entries of users.
const OPENING: [u8; 2] = [0x50, 0];

const EPOCH: u64 = 1;

/// The maximum bytes of data in a chunk: the protocol has 31 bits for the length of an entry.
pub(super) const DATA_MAX: usize = i32::MAX as usize;

/// The place of a chunk. It is part of the chunk's check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPosition {
    pub stream: u64,
    /// The position in the segment's file, in bytes.
    pub at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub first: u64,
    pub entries: u16,
    pub timestamp_ms: u64,
    /// The length of the filter in bytes.
    pub bloom: u8,
    /// The length of the data in bytes.
    pub data: u32,
    crc: u32,
    check: u32,
}

impl ChunkHeader {
    /// Appends the encoded header and the filter of a chunk with this data to `into`. The data has 1 to
    /// [`DATA_MAX`] bytes.
    pub(super) fn encode(
        place: ChunkPosition,
        (first, entries, timestamp_ms): (u64, u16, u64),
        bloom: Option<&Bloom>,
        data: &[u8],
        into: &mut Vec<u8>,
    ) {
        let bloom = bloom.map_or(&[][..], Bloom::as_bytes);
        let start = into.len();
        into.extend_from_slice(&OPENING);
        into.extend_from_slice(&entries.to_be_bytes());
        into.extend_from_slice(&u32::from(entries).to_be_bytes());
        into.extend_from_slice(&timestamp_ms.to_be_bytes());
        into.extend_from_slice(&EPOCH.to_be_bytes());
        into.extend_from_slice(&first.to_be_bytes());
        into.extend_from_slice(&crc32(data).to_be_bytes());
        into.extend_from_slice(&(data.len() as u32).to_be_bytes());
        into.extend_from_slice(&[0; 4]);
        into.push(bloom.len() as u8);
        let check = check(place, &into[start..], bloom);
        into.extend_from_slice(&check.to_be_bytes()[1..]);
        into.extend_from_slice(bloom);
    }

    /// Reads the header at the front of `bytes`. Returns `None` if it is implausible. Its check is not
    /// verified yet; see [`ChunkHeader::is_valid_at`].
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..CHUNK_HEADER)?;
        let header = Self {
            first: u64_at(bytes, 24),
            entries: u16::from_be_bytes([bytes[2], bytes[3]]),
            timestamp_ms: u64_at(bytes, 8),
            bloom: bytes[44],
            data: u32_at(bytes, 36),
            crc: u32_at(bytes, 32),
            check: u32_at(bytes, 44) & 0xff_ffff,
        };
        let is_valid = bytes[..2] == OPENING
            && header.entries > 0
            && u32_at(bytes, 4) == u32::from(header.entries)
            && i64::try_from(header.timestamp_ms).is_ok()
            && u64_at(bytes, 16) == EPOCH
            && header.first.checked_add(u64::from(header.entries)).is_some()
            && (1..=DATA_MAX).contains(&(header.data as usize))
            && u32_at(bytes, 40) == 0;
        is_valid.then_some(header)
    }

    /// Returns true if `bytes`, at least the header and the filter, were written for this place.
    pub(super) fn is_valid_at(&self, bytes: &[u8], place: ChunkPosition) -> bool {
        self.bloom_of(bytes).is_some_and(|bloom| check(place, &bytes[..CHECK], bloom) == self.check)
    }

    /// Returns the filter in `bytes`, which begin with the header.
    pub(super) fn bloom_of<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(CHUNK_HEADER..self.head())
    }

    /// Returns true if this header was written for `data`.
    pub(super) fn matches(&self, data: &[u8]) -> bool {
        data.len() == self.data as usize && crc32(data) == self.crc
    }

    /// The number of bytes before the data.
    pub(super) fn head(&self) -> usize {
        CHUNK_HEADER + usize::from(self.bloom)
    }

    /// The number of bytes of the whole chunk.
    pub(super) fn bytes(&self) -> u64 {
        self.head() as u64 + u64::from(self.data)
    }

    /// Returns the offset after the last entry of the chunk.
    pub(super) fn next(&self) -> u64 {
        self.first + u64::from(self.entries)
    }
}

fn check(place: ChunkPosition, header: &[u8], bloom: &[u8]) -> u32 {
    let mut proof = Proof::new([place.stream, place.at]);
    proof.update(header);
    proof.update(bloom);
    proof.finish() & 0xff_ffff
}

fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: ChunkPosition = ChunkPosition { stream: 7, at: 8 };

    #[test]
    fn crc_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_layout_is_that_of_the_protocol() {
        let mut bytes = Vec::new();
        ChunkHeader::encode(PLACE, (0x0102, 3, 0x0a0b), Some(&Bloom::new(16)), b"123456789", &mut bytes);
        let wanted = [
            &[0x50, 0, 0, 3, 0, 0, 0, 3][..],
            &[0, 0, 0, 0, 0, 0, 0x0a, 0x0b],
            &[0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 1, 2],
            &[0xcb, 0xf4, 0x39, 0x26, 0, 0, 0, 9],
            &[0, 0, 0, 0, 16],
        ];
        assert_eq!(bytes[..CHECK], wanted.concat());
        assert_eq!(bytes[CHUNK_HEADER..], [0; 16]);
    }

    #[test]
    fn a_header_is_valid_for_its_place_only() {
        for bloom in [None, Some(Bloom::new(20))] {
            let mut bytes = Vec::new();
            ChunkHeader::encode(PLACE, (5, 3, 9), bloom.as_ref(), b"data", &mut bytes);
            let header = ChunkHeader::decode(&bytes).unwrap();
            assert_eq!((header.first, header.next(), header.timestamp_ms), (5, 8, 9));
            assert_eq!((header.head(), header.bytes()), (bytes.len(), bytes.len() as u64 + 4));
            assert!(header.is_valid_at(&bytes, PLACE) && header.matches(b"data") && !header.matches(b"date"));
            assert!(!header.is_valid_at(&bytes, ChunkPosition { stream: 8, ..PLACE }));
            assert!(!header.is_valid_at(&bytes, ChunkPosition { at: 9, ..PLACE }));
            for bit in 0..8 * bytes.len() {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 0x80 >> (bit % 8);
                let is_valid =
                    ChunkHeader::decode(&bad).is_some_and(|header| header.is_valid_at(&bad, PLACE));
                assert!(!is_valid, "bit {bit}");
            }
            assert_eq!(ChunkHeader::decode(&bytes[..CHUNK_HEADER - 1]), None);
        }
    }
}
