//! A batch: the unit that is written, verified and recovered.
//!
//! ```text
//!  0       4       8            16       24         32       40      48       56        60      64
//!  | magic | check | generation | number | previous | synced | floor | length | records | proof | payload ...
//!  | u32   | u32   | u64        | u64    | u64      | u64    | u64   | u64    | u32     | u32   | length bytes
//! ```
//!
//! Little-endian.
//!
//! * `check`: CRC-32C over bytes 8..64, so that a batch with a corrupt payload can still be skipped and
//!   reported.
//! * `generation`: the generation of the file. It is random. So neither an earlier use of the file nor a
//!   message body that looks like a batch is mistaken for one.
//! * `number`: counts up over all files and is never used for two different payloads. A batch that is copied
//!   to another file keeps its number.
//! * `previous`: the number of the batch before it. The numbers between `previous` and `number` are void:
//!   their batches failed or were cut, and are ignored wherever their bytes are found.
//! * `synced`: every batch up to this one was known to be synced when this one was encoded.
//! * `floor`: the number of the first batch that is still needed; 1 at first. Batches below it may be in no
//!   file. Files are removed only once everything from there up to the first batch with this floor is synced.
//! * `length`, `records`: the bytes and the number of the records in the payload. A batch without a payload
//!   raises the floor. If its number of records is [`CLEAN`], it is the mark of a clean stop. The top bit of
//!   `records` says that somebody waited for the sync of an earlier batch when this one was written; older
//!   programs did not set it.
//! * `proof`: CRC-32C over generation, number and payload.

use std::io::IoSlice;

use crate::checksum::{Proof, crc32c};
use crate::file::u64_at;

/// The length of a batch header in bytes.
pub(crate) const BATCH_HEADER: usize = 64;
const _: () = assert!(BATCH_HEADER == 4 + 4 + 6 * 8 + 4 + 4);

/// The first bytes of every batch header.
pub(crate) const BATCH_MAGIC: [u8; 4] = *b"SLbt";

/// The number of records in the mark of a clean stop.
pub(crate) const CLEAN: u32 = u32::MAX;

/// The bit in a number of records that says that somebody waited for a sync.
pub(crate) const WAITED: u32 = 1 << 31;

/// A batch header without its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub generation: u64,
    pub number: u64,
    pub previous: u64,
    pub synced: u64,
    pub floor: u64,
    /// The length of the payload in bytes.
    pub length: u64,
    pub records: u32,
    pub proof: u32,
}

impl BatchHeader {
    /// Makes it the header of this payload, in a file of this generation.
    pub(crate) fn seal(&mut self, generation: u64, payload: &[IoSlice<'_>]) {
        self.generation = generation;
        let mut proof = Proof::new([self.generation, self.number]);
        payload.iter().for_each(|piece| proof.update(piece));
        self.proof = proof.finish();
    }

    pub(crate) fn encode(&self) -> [u8; BATCH_HEADER] {
        let mut bytes = [0; BATCH_HEADER];
        bytes[..4].copy_from_slice(&BATCH_MAGIC);
        bytes[8..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.previous.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.synced.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.floor.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.length.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.records.to_le_bytes());
        bytes[60..].copy_from_slice(&self.proof.to_le_bytes());
        let check = crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the header at the front of `bytes`. Returns `None` if its check fails, or if its generation is
    /// not `generation`. With `generation` = `None`, any generation is accepted.
    pub(crate) fn decode(bytes: &[u8], generation: Option<u64>) -> Option<Self> {
        let bytes = bytes.get(..BATCH_HEADER)?;
        let header = Self {
            generation: u64_at(bytes, 8),
            number: u64_at(bytes, 16),
            previous: u64_at(bytes, 24),
            synced: u64_at(bytes, 32),
            floor: u64_at(bytes, 40),
            length: u64_at(bytes, 48),
            records: u32::from_le_bytes(bytes[56..60].try_into().ok()?),
            proof: u32::from_le_bytes(bytes[60..64].try_into().ok()?),
        };
        let is_valid = bytes[..4] == BATCH_MAGIC
            && generation.is_none_or(|generation| generation == header.generation)
            && header.previous < header.number
            && header.synced < header.number
            && (1..=header.number).contains(&header.floor)
            && bytes[4..8] == crc32c(&bytes[8..]).to_le_bytes();
        is_valid.then_some(header)
    }

    /// Returns true if this batch is the mark of a clean stop.
    pub(crate) fn is_mark(&self) -> bool {
        self.length == 0 && self.records == CLEAN
    }

    /// Returns true if somebody waited for the sync of an earlier batch when this one was written.
    pub(crate) fn has_waited(&self) -> bool {
        self.records & WAITED != 0 && !self.is_mark()
    }

    /// Returns true if this header was written for `payload`.
    pub(crate) fn matches(&self, payload: &[u8]) -> bool {
        let mut proof = Proof::new([self.generation, self.number]);
        proof.update(payload);
        proof.finish() == self.proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_valid_for_its_generation_only() {
        let (generation, number, previous, synced, floor) = (7, 5, 3, 2, 1);
        let (length, records, proof) = (9, 1, 4);
        let header = BatchHeader { generation, number, previous, synced, floor, length, records, proof };
        let bytes = header.encode();
        assert_eq!(BatchHeader::decode(&bytes, Some(7)), Some(header));
        assert_eq!(BatchHeader::decode(&bytes, None), Some(header));
        assert_eq!(BatchHeader::decode(&bytes, Some(8)), None);
        for at in 0..BATCH_HEADER {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(BatchHeader::decode(&bad, Some(7)), None, "byte {at}");
        }
    }
}
