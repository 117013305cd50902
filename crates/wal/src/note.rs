//! The note in the file `lock`: how far the log had come when it was last told, and in which boot of the machine.
//!
//! ```text
//!  0       8      24     32        40       48      52
//!  | magic | life | file | written | synced | check |
//!  | 8     | 16   | u64  | u64     | u64    | u32   |
//! ```
//!
//! Numbers are little-endian, as in all files of the log. Those of the notes of streams (`stream/notes.rs`) are big-endian.
//!
//! * `magic`: `SluiceN1`. Another one is none of this program's, and says nothing.
//! * `life`: what the system calls this boot of the machine; zeros if it does not say.
//! * `file`: the newest log file in which a batch was acknowledged.
//! * `written`, `synced`: every acknowledged batch up to this one was written, or synced.
//! * `check`: CRC-32C over bytes 0..48.
//!
//! It is written in place, in one sector, and never synced. So it survives the process. After a power failure it may be
//! an older one, which says less and nothing wrong. It is written with the first batch of each file, when a sync has
//! ended, when the log falls idle, and when it is closed.

use crate::batch::crc32c;
use crate::file::u64_at;

/// Bytes of a note: less than a sector, so that it is never torn.
pub(crate) const NOTE: usize = 52;
const _: () = assert!(NOTE == 8 + 16 + 3 * 8 + 4);

const MAGIC: [u8; 8] = *b"SluiceN1";

/// What tells one boot of the machine from another.
pub type Life = [u8; 16];

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub life: Life,
    pub file: u64,
    pub written: u64,
    pub synced: u64,
}

impl Note {
    pub fn encode(&self) -> [u8; NOTE] {
        let mut bytes = [0; NOTE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.life);
        bytes[24..32].copy_from_slice(&self.file.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.written.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced.to_le_bytes());
        let check = crc32c(&bytes[..48]);
        bytes[48..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The note at the front of `bytes`, if there is one and its check holds.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..NOTE)?;
        let holds = bytes[..8] == MAGIC && bytes[48..] == crc32c(&bytes[..48]).to_le_bytes();
        holds.then(|| {
            let mut life = Life::default();
            life.copy_from_slice(&bytes[8..24]);
            Self { life, file: u64_at(bytes, 24), written: u64_at(bytes, 32), synced: u64_at(bytes, 40) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_note_is_no_note() {
        let note = Note { life: [7; 16], file: 1, written: 3, synced: 2 };
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
