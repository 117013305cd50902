//! Chunks that were written just now.

use std::collections::VecDeque;

use crate::contract::Chunk;

/// The last chunks of a stream, without gaps.
#[derive(Debug, Default)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    bytes: usize,
}

impl Tail {
    /// Adds what was written; what does not follow takes the place of everything. Beyond `bytes_max` the oldest go, but for
    /// the last chunk.
    pub fn extend(&mut self, chunks: Vec<Chunk>, bytes_max: usize) {
        for chunk in chunks {
            if self.chunks.back().is_some_and(|last| last.end() != chunk.first) {
                self.clear();
            }
            self.bytes += chunk.data.len();
            self.chunks.push_back(chunk);
        }
        while self.bytes > bytes_max && self.chunks.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Beyond `bytes_max` the oldest go, the last chunk too: whoever has not been shown it reads the disk.
    pub fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            self.drop_oldest();
        }
    }

    /// The offset of its first message.
    pub fn first(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.first)
    }

    /// The chunk with this offset.
    pub fn get(&self, offset: u64) -> Option<&Chunk> {
        self.chunks.front().filter(|first| first.first <= offset)?;
        self.chunks.get(self.chunks.partition_point(|chunk| chunk.end() <= offset))
    }

    /// Keeps what is needed from the first of these offsets on that stand here at all.
    pub fn keep_from(&mut self, offsets: impl Iterator<Item = u64>) {
        let Some(first) = self.first() else { return };
        let needed = offsets.filter(|offset| *offset >= first).min().unwrap_or(u64::MAX);
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= needed) {
            self.drop_oldest();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn drop_oldest(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.bytes -= chunk.data.len();
        }
    }
}
