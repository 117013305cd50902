//! The note in the file `lock`: the last written and synced batch, and the boot of the machine in which they
//! were written.
//!
//! ```text
//!  0       8      24     32        40       48      52
//!  | magic | boot | file | written | synced | check |
//!  | 8     | 16   | u64  | u64     | u64    | u32   |
//! ```
//!
//! Numbers are little-endian, as in all files of the log. The notes of streams (`stream/notes.rs`) are
//! big-endian.
//!
//! * `magic`: `SluiceN1`. A note with another magic is ignored.
//! * `boot`: the identifier of this boot of the machine; zeros if the system does not give one.
//! * `file`: the newest log file with an acknowledged batch.
//! * `written`, `synced`: every acknowledged batch up to this one was written, or synced.
//! * `check`: CRC-32C over bytes 0..48.
//!
//! The note is written in place, in one sector, and never synced. So it survives the process. After a power
//! failure an older note may be there, which claims less but nothing wrong. It is written with the first
//! batch of each file, after each sync, when the log becomes idle, and when it is closed.

use crate::checksum::crc32c;
use crate::file::u64_at;

/// The length of a note in bytes: less than a sector, so that it is never torn.
pub(crate) const NOTE: usize = 52;
const _: () = assert!(NOTE == 8 + 16 + 3 * 8 + 4);

const MAGIC: [u8; 8] = *b"SluiceN1";

/// An identifier of one boot of the machine.
pub type BootId = [u8; 16];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub boot: BootId,
    pub file: u64,
    pub written: u64,
    pub synced: u64,
}

impl Note {
    pub(crate) fn encode(&self) -> [u8; NOTE] {
        let mut bytes = [0; NOTE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.boot);
        bytes[24..32].copy_from_slice(&self.file.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.written.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced.to_le_bytes());
        let check = crc32c(&bytes[..48]);
        bytes[48..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the note at the front of `bytes`. Returns `None` if its check fails.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..NOTE)?;
        let is_valid = bytes[..8] == MAGIC && bytes[48..] == crc32c(&bytes[..48]).to_le_bytes();
        is_valid.then(|| {
            let mut boot = BootId::default();
            boot.copy_from_slice(&bytes[8..24]);
            Self { boot, file: u64_at(bytes, 24), written: u64_at(bytes, 32), synced: u64_at(bytes, 40) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_makes_a_note_invalid() {
        let note = Note { boot: [7; 16], file: 1, written: 3, synced: 2 };
        let bytes = note.encode();
        assert_eq!(Note::decode(&bytes), Some(note));
        for at in 0..NOTE {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(Note::decode(&bad), None, "byte {at}");
            assert_eq!(Note::decode(&bytes[..at]), None, "{at} bytes");
        }
    }
}
