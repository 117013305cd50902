//! The kinds of checksum. See `sealing.rs` for how messages get one.

use std::fmt;

use crc_fast::CrcAlgorithm;

/// The kinds of checksum. The keys in the footer are those of RabbitMQ's Erlang client. The values are uints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The CRC of IEEE 802.3, as in zlib. It detects any burst error of up to 32 bits.
    Crc32,
    /// The checksum of RFC 1950. It is fast to compute, but weak for short messages.
    Adler32,
}

impl Checksum {
    pub const ALL: [Self; 2] = [Self::Crc32, Self::Adler32];

    /// Returns the key in the footer.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Crc32 => "x-opt-crc-32",
            Self::Adler32 => "x-opt-adler-32",
        }
    }

    /// Computes the checksum of these bytes.
    pub(crate) fn of(self, bytes: &[u8]) -> u32 {
        match self {
            // A CRC-32 has only 32 bits, so nothing is lost.
            Self::Crc32 => crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32,
            Self::Adler32 => adler32(bytes),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crc32 => "CRC-32",
            Self::Adler32 => "Adler-32",
        })
    }
}

/// The largest prime below 2^16.
const ADLER_MODULUS: u32 = 65_521;

/// The number of bytes that can be added before the sums must be reduced to stay below 2^32 (RFC 1950, zlib's
/// NMAX).
const ADLER_BLOCK: usize = 5_552;

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for block in bytes.chunks(ADLER_BLOCK) {
        for byte in block {
            a += u32::from(*byte);
            b += a;
        }
        (a, b) = (a % ADLER_MODULUS, b % ADLER_MODULUS);
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_known_values() {
        assert_eq!(Checksum::Crc32.of(b"123456789"), 0xcbf4_3926);
        assert_eq!(Checksum::Crc32.of(b""), 0);
        assert_eq!(Checksum::Adler32.of(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(Checksum::Adler32.of(b""), 1);
        // The input is so long that the sums are reduced. The expected value was computed with zlib.
        assert_eq!(Checksum::Adler32.of(&[0xff; 100_000]), 0x149a_302c);
    }
}
