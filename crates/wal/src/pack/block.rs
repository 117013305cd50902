//! A block: the unit that is read and verified.
//!
//! ```text
//!  0       4       8        12        16      20
//!  | magic | check | length | records | proof | payload ...
//!  | u32   | u32   | u32    | u32     | u32   | length bytes
//! ```
//!
//! Little-endian. The blocks of an extent follow each other without gaps, and so do the extents of a pack.
//!
//! * `check`: CRC-32C over the seed and bytes 8..20, so that `length` can be trusted before the payload is
//!   read.
//! * `length`, `records`: the bytes and the number of the records in the payload; both at least 1.
//! * `proof`: CRC-32C over the seed and the payload.
//!
//! The seed is the number of the pack, the block's offset in it and the owner, each as u64. So a block is
//! valid only at the place, and for the owner, for which it was written. The seed is not stored in the block.

use crate::checksum::Proof;
use crate::record::Records;

/// The length of a block's header in bytes.
pub(crate) const BLOCK_HEADER: usize = 20;
const _: () = assert!(BLOCK_HEADER == 5 * 4);

const BLOCK_MAGIC: [u8; 4] = *b"SLbk";

/// The kind of damage of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The pack does not exist.
    Missing,
    /// The pack ends before the block does.
    Short,
    /// There is no block header, or it belongs to another place or owner.
    Header,
    /// The records do not match the header.
    Payload,
    /// The header of the pack is corrupt. Its blocks can be read all the same.
    Opening,
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "the pack is missing",
            Self::Short => "the pack ends too early",
            Self::Header => "the block's header is corrupt",
            Self::Payload => "the block's records are corrupt",
            Self::Opening => "the header of the pack is corrupt",
        })
    }
}

/// The place and owner for which a block must have been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPosition {
    pub pack: u64,
    /// The offset of the block's header in bytes.
    pub offset: u64,
    pub owner: u64,
}

impl BlockPosition {
    fn proof(self) -> Proof {
        Proof::new([self.pack, self.offset, self.owner])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// The length of the payload in bytes.
    pub length: u32,
    pub records: u32,
    proof: u32,
}

impl BlockHeader {
    /// Returns the encoded header for these records at this place. Their bytes must fit a u32.
    pub(super) fn encode(records: &Records, place: BlockPosition) -> [u8; BLOCK_HEADER] {
        let mut proof = place.proof();
        records.pieces(|piece| proof.update(piece));
        let mut bytes = [0; BLOCK_HEADER];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[8..12].copy_from_slice(&(records.bytes() as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(records.len() as u32).to_le_bytes());
        bytes[16..].copy_from_slice(&proof.finish().to_le_bytes());
        let mut check = place.proof();
        check.update(&bytes[8..]);
        bytes[4..8].copy_from_slice(&check.finish().to_le_bytes());
        bytes
    }

    /// Reads the header at the front of `bytes` and checks that it was written for this place.
    pub(super) fn decode(bytes: &[u8], place: BlockPosition) -> Result<Self, Flaw> {
        let bytes = bytes.get(..BLOCK_HEADER).ok_or(Flaw::Short)?;
        let mut check = place.proof();
        check.update(&bytes[8..]);
        if bytes[..4] != BLOCK_MAGIC || bytes[4..8] != check.finish().to_le_bytes() {
            return Err(Flaw::Header);
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(Self { length: word(8), records: word(12), proof: word(16) })
    }

    /// Returns true if this header was written for `payload`.
    pub(super) fn matches(&self, payload: &[u8], place: BlockPosition) -> bool {
        let mut proof = place.proof();
        proof.update(payload);
        proof.finish() == self.proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_valid_for_its_place_only() {
        let place = BlockPosition { pack: 7, offset: 48, owner: 9 };
        let mut records = Records::new();
        records.push(9, 1, 2, &[b"body"]);
        let bytes = BlockHeader::encode(&records, place);
        let header = BlockHeader::decode(&bytes, place).unwrap();
        assert_eq!((header.length as usize, header.records), (records.bytes(), 1));
        for other in [
            BlockPosition { pack: 8, ..place },
            BlockPosition { offset: 49, ..place },
            BlockPosition { owner: 1, ..place },
        ] {
            assert_eq!(BlockHeader::decode(&bytes, other), Err(Flaw::Header), "{other:?}");
            records.pieces(|piece| assert!(header.matches(piece, place) && !header.matches(piece, other)));
        }
        for at in 0..BLOCK_HEADER {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(BlockHeader::decode(&bad, place), Err(Flaw::Header), "byte {at}");
        }
        assert_eq!(BlockHeader::decode(&bytes[..BLOCK_HEADER - 1], place), Err(Flaw::Short));
    }
}
