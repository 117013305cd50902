//! The buffers that a shard reads its sockets into. Large frames stay in them
//! (`docs/decisions/0020-large-frames-stay-where-they-were-read.md`).

use std::collections::VecDeque;

use bytes::BytesMut;

/// The most lent buffers that are kept for reuse. With the runtime's 272 KiB each they take 17 MiB per shard.
const LENT_MAX: usize = 64;

/// The time between two trims, in milliseconds.
const TRIM_MS: u64 = 500;

/// One buffer to read into, and the buffers that are lent to frames. A lent buffer is reused when its last
/// frame is dropped: memory that is new from the allocator is mostly new from the kernel, which costs a page
/// fault for each page.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    /// The size of each buffer, in bytes.
    capacity: usize,
    current: BytesMut,
    /// The buffers that are lent to frames, oldest first. Each handle is empty and keeps the memory of its
    /// frames.
    lent: VecDeque<BytesMut>,
    /// The number of buffers lent since `trimmed_ms`.
    lent_lately: usize,
    trimmed_ms: u64,
}

impl ReadBuffers {
    /// Makes buffers of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let current = BytesMut::with_capacity(capacity);
        Self { capacity, current, lent: VecDeque::new(), lent_lately: 0, trimmed_ms: 0 }
    }

    /// Returns an empty buffer of the full capacity. A frame that is split off it may be kept for any time.
    pub(crate) fn ready(&mut self) -> &mut BytesMut {
        self.current.clear();
        if !self.current.try_reclaim(self.capacity) {
            let next = self.returned().unwrap_or_else(|| BytesMut::with_capacity(self.capacity));
            self.lend(next);
        }
        &mut self.current
    }

    /// Returns a lent buffer without frames. Frames are mostly dropped in the order of arrival, so only the
    /// oldest buffer is checked.
    fn returned(&mut self) -> Option<BytesMut> {
        let oldest = self.lent.front_mut()?;
        if oldest.try_reclaim(self.capacity) { self.lent.pop_front() } else { None }
    }

    /// Leaves the current buffer to its frames and continues with `next`. If too many are lent, the oldest is
    /// given up: its memory is freed with its last frame.
    fn lend(&mut self, next: BytesMut) {
        if self.lent.len() == LENT_MAX {
            self.lent.pop_front();
        }
        self.lent.push_back(std::mem::replace(&mut self.current, next));
        self.lent_lately += 1;
    }

    /// Called from time to time. Keeps only as many lent buffers as were lent since the last trim.
    pub(crate) fn trim(&mut self, now_ms: u64) {
        if now_ms >= self.trimmed_ms + TRIM_MS {
            self.trimmed_ms = now_ms;
            let needed = std::mem::take(&mut self.lent_lately);
            self.lent.drain(..self.lent.len().saturating_sub(needed));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const CAPACITY: usize = 1000;

    /// Reads a frame that stays. Returns it and the address of its buffer.
    fn lend(buffers: &mut ReadBuffers) -> (Bytes, *const u8) {
        let buffer = buffers.ready();
        assert!(buffer.is_empty() && buffer.capacity() >= CAPACITY, "{} of room", buffer.capacity());
        let at = buffer.as_ptr();
        buffer.extend_from_slice(&[7; 700]);
        (buffer.split_to(600).freeze(), at)
    }

    #[test]
    fn a_buffer_is_reused_when_its_last_frame_is_dropped() {
        let mut buffers = ReadBuffers::new(CAPACITY);
        let first = lend(&mut buffers);
        let second = lend(&mut buffers);
        assert_ne!(first.1, second.1, "the first frame is still there");
        let slice = first.0.slice(100..200);
        drop(first.0);
        let third = lend(&mut buffers);
        assert_ne!(first.1, third.1, "a part of the first frame is still there");
        drop(slice);
        let fourth = lend(&mut buffers);
        assert_eq!(first.1, fourth.1);
        for frame in [second.0, third.0, fourth.0] {
            assert_eq!(&frame[..], [7; 600], "what was kept has changed");
        }
    }

    #[test]
    fn a_buffer_without_frames_is_reused() {
        let mut buffers = ReadBuffers::new(CAPACITY);
        let at = lend(&mut buffers).1;
        assert_eq!(lend(&mut buffers).1, at);
        assert!(buffers.lent.is_empty());
    }

    #[test]
    fn a_frame_that_stays_for_ever_costs_its_buffer_and_no_other() {
        let mut buffers = ReadBuffers::new(CAPACITY);
        let stuck = lend(&mut buffers);
        let (frames, places): (Vec<_>, Vec<_>) = (0..LENT_MAX + 1).map(|_| lend(&mut buffers)).unzip();
        assert_eq!(buffers.lent.len(), LENT_MAX);
        drop(frames);
        let more: Vec<_> = (0..2 * LENT_MAX).map(|_| lend(&mut buffers).1).collect();
        assert!(more.iter().all(|at| places.contains(at) && *at != stuck.1), "a buffer was made anew");
    }

    #[test]
    fn no_more_buffers_are_kept_than_were_needed_lately() {
        let mut buffers = ReadBuffers::new(CAPACITY);
        let frames: Vec<_> = (0..10).map(|_| lend(&mut buffers).0).collect();
        buffers.trim(TRIM_MS);
        assert_eq!(buffers.lent.len(), 9, "all were lent lately");
        drop(frames);
        let _frames = [lend(&mut buffers).0, lend(&mut buffers).0, lend(&mut buffers).0];
        buffers.trim(2 * TRIM_MS - 1);
        assert_eq!(buffers.lent.len(), 9, "it is too soon");
        buffers.trim(2 * TRIM_MS);
        assert_eq!(buffers.lent.len(), 2, "the first frame stays where the last was");
        buffers.trim(3 * TRIM_MS);
        assert!(buffers.lent.is_empty());
    }
}
