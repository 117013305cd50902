//! Memory that a direct write may read from.

use std::fmt;

/// The size to which offset, length and memory of a direct write are aligned, in bytes. No usual disk needs more.
pub const BLOCK: usize = 4096;

/// Bytes in whole blocks, in memory that begins at a multiple of [`BLOCK`]. They are filled from the front.
#[derive(Default)]
pub struct Blocks {
    memory: Vec<u8>,
    /// Where the first block begins in `memory`.
    start: usize,
    len: usize,
}

impl Blocks {
    /// Makes it empty, with room for this many bytes. Memory that is large enough is used again.
    pub fn clear(&mut self, capacity: usize) {
        let wanted = capacity.next_multiple_of(BLOCK) + BLOCK;
        if self.memory.len() < wanted {
            self.memory = vec![0; wanted];
            self.start = self.memory.as_ptr().align_offset(BLOCK);
        }
        self.len = 0;
    }

    /// Adds bytes.
    ///
    /// # Panics
    /// There is no room for them; see [`Blocks::clear`].
    pub fn push(&mut self, bytes: &[u8]) {
        let at = self.start + self.len;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds zeros up to the end of the last block.
    pub fn pad(&mut self) {
        let end = self.len.next_multiple_of(BLOCK);
        self.memory[self.start + self.len..self.start + end].fill(0);
        self.len = end;
    }

    /// The bytes that were added.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_padded_with_zeros_whatever_was_there_before() {
        let mut blocks = Blocks::default();
        for length in [3 * BLOCK, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK] {
            blocks.clear(length);
            blocks.push(&vec![7; length / 2]);
            blocks.push(&vec![8; length - length / 2]);
            assert_eq!(blocks.bytes().len(), length);
            blocks.pad();
            let bytes = blocks.bytes();
            assert_eq!(bytes.len(), length.next_multiple_of(BLOCK));
            assert_eq!(bytes.as_ptr().align_offset(BLOCK), 0);
            assert!(bytes[..length / 2].iter().all(|&byte| byte == 7));
            assert!(bytes[length / 2..length].iter().all(|&byte| byte == 8));
            assert!(bytes[length..].iter().all(|&byte| byte == 0));
        }
    }
}
