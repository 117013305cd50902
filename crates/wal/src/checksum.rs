//! CRC-32C, the checksum of all formats.

use crc_fast::{CrcAlgorithm, Digest};

/// Computes the checksum of a payload that is given in pieces. The seed distinguishes the payload from equal
/// bytes elsewhere.
pub(crate) struct Proof(Digest);

impl Proof {
    pub(crate) fn new<const N: usize>(seed: [u64; N]) -> Self {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        seed.iter().for_each(|word| digest.update(&word.to_le_bytes()));
        Self(digest)
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// Returns the checksum of bytes that lie together.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
