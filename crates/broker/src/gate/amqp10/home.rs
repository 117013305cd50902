//! The home of small messages (house.md section 4, "Where bodies live").
//!
//! ```text
//!   what was read    │ frame │ frame with a message │ frame with a message │ frame │ part of a frame
//!                             └─────────────────── one copy ────────────────────┘
//!   messages                            └── slice ──┘         └── slice ──┘
//! ```

use amqp10::frame::parse_header;
use bytes::{Bytes, BytesMut};

/// Capacity of a fresh batch buffer.
const CAPACITY: usize = 256 * 1024;

/// What was read of a connection at once. Its small messages get their homes with one copy for all of them.
#[derive(Debug, Default)]
pub struct Input<'a> {
    bytes: &'a [u8],
    large: usize,
    /// The copy, once there is a message, and where in `bytes` it begins.
    home: Option<(Bytes, usize)>,
}

impl<'a> Input<'a> {
    /// Frames of `large` bytes and more are none of its own, nor is what follows the first of them.
    pub(super) fn new(bytes: &'a [u8], large: usize) -> Self {
        Self { bytes, large, home: None }
    }

    /// Copies what is `at` this place and behind it, as far as frames are whole and small. Nothing, if that is elsewhere.
    #[inline(never)]
    fn copy_from(&mut self, at: usize, buffer: &mut BytesMut) {
        let small = self.bytes.get(at..small_frames(self.bytes, self.large));
        self.home = small.map(|small| (copy(small, buffer), at));
    }
}

/// Gives the kept bytes of a message their home: with others, if they stand in `input`.
#[inline(always)]
pub(super) fn home(kept: &[u8], input: &mut Input<'_>, buffer: &mut BytesMut) -> Bytes {
    let at = kept.as_ptr().addr().wrapping_sub(input.bytes.as_ptr().addr());
    if input.home.is_none() {
        input.copy_from(at, buffer);
    }
    if let Some((home, home_at)) = &input.home {
        let from = at.wrapping_sub(*home_at);
        if from <= home.len() && kept.len() <= home.len() - from {
            return home.slice(from..from + kept.len());
        }
    }
    copy(kept, buffer)
}

/// Copies to the batch buffer.
#[inline(never)]
fn copy(bytes: &[u8], buffer: &mut BytesMut) -> Bytes {
    if buffer.capacity() - buffer.len() < bytes.len() {
        buffer.reserve(CAPACITY.max(bytes.len()));
    }
    buffer.extend_from_slice(bytes);
    buffer.split().freeze()
}

/// Bytes of the frames at the start that are whole and smaller than `large`.
fn small_frames(bytes: &[u8], large: usize) -> usize {
    let mut end = 0;
    while let Some(header) = bytes[end..].first_chunk()
        && let Ok(header) = parse_header(header, u32::MAX)
        && (header.size as usize) < large
        && header.size as usize <= bytes.len() - end
    {
        end += header.size as usize;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Vec<u8> {
        let mut frame = [&(bytes as u32).to_be_bytes()[..], &[2, 0, 0, 0]].concat();
        frame.resize(bytes, bytes as u8);
        frame
    }

    #[test]
    fn messages_of_one_read_share_a_home() {
        let read = [frame(20), frame(30), frame(40), frame(10), frame(50)].concat();
        let (mut buffer, cut) = (BytesMut::new(), read.len() - 1);
        let mut input = Input::new(&read[..cut], 50);
        let mut home = |part: &[u8]| home(part, &mut input, &mut buffer);
        let (first, second) = (home(&read[30..50]), home(&read[60..90]));
        assert_eq!((&first[..], &second[..]), (&read[30..50], &read[60..90]));
        assert_eq!(second.as_ptr().addr() - first.as_ptr().addr(), 30, "as they stood");
        // One that was never there has a home of its own, and so has one of which more is to come.
        let (other, cut) = (home(b"another"), home(&read[100..cut]));
        assert_eq!((&other[..], &cut[..]), (&b"another"[..], &read[100..149]));
        assert_eq!(cut.as_ptr().addr() - other.as_ptr().addr(), other.len());
    }

    #[test]
    fn a_home_holds_whole_and_small_frames() {
        for (read, large, end) in [
            (vec![], 100, 0),
            (b"AMQP\x00\x01\x00\x00".to_vec(), 100, 0),
            (vec![0, 0, 0, 7, 2, 0, 0, 0], 100, 0),
            (frame(8), 100, 8),
            (frame(100), 100, 0),
            ([frame(99), frame(8)].concat(), 100, 107),
            ([frame(99), frame(100), frame(8)].concat(), 100, 99),
            ([frame(99), vec![0, 0]].concat(), 100, 99),
            ([frame(99), vec![0xff; 8]].concat(), usize::MAX, 99),
        ] {
            assert_eq!(small_frames(&read, large), end, "{read:?}");
        }
    }
}
