//! The newest chunks of a stream.

use std::collections::VecDeque;

use crate::contract::Chunk;

/// The last chunks of a stream, without gaps.
#[derive(Debug, Default)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    bytes: usize,
}

impl Tail {
    /// Adds chunks that were written. A chunk that does not continue the tail replaces all of it. Drops the oldest
    /// chunks beyond `bytes_max`, but never the last.
    pub(super) fn extend(&mut self, chunks: Vec<Chunk>, bytes_max: usize) {
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

    /// Drops the oldest chunks beyond `bytes_max`, even the last. Readers that have not seen it read it from the disk.
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            self.drop_oldest();
        }
    }

    /// Returns the offset of the first message.
    pub(super) fn first(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.first)
    }

    /// Returns the chunk that contains this offset.
    pub(super) fn get(&self, offset: u64) -> Option<&Chunk> {
        self.chunks.front().filter(|first| first.first <= offset)?;
        self.chunks.get(self.chunks.partition_point(|chunk| chunk.end() <= offset))
    }

    /// Drops the chunks before the lowest of these offsets. Offsets before the tail do not count.
    pub(super) fn keep_from(&mut self, offsets: impl Iterator<Item = u64>) {
        let Some(first) = self.first() else { return };
        let needed = offsets.filter(|offset| *offset >= first).min().unwrap_or(u64::MAX);
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= needed) {
            self.drop_oldest();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn drop_oldest(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.bytes -= chunk.data.len();
        }
    }
}
