//! Copying the small messages of one read.
//!
//! The first small message of a read copies everything after it that may hold more messages, as far as the gate says.
//!
//! ```text
//!   bytes read       │ frame │ frame with a message │ frame with a message │ frame │ part of a frame
//!                             └─────────────────── one copy ────────────────────┘
//!   messages                           └── slice ──┘         └── slice ──┘
//! ```

use bytes::{Bytes, BytesMut};

/// Messages of at most this many bytes are copied to the batch buffer. Larger ones keep the buffer into which they were
/// read.
pub(crate) const COPY_MAX: usize = 16 * 1024;

/// The capacity of a new batch buffer.
const CAPACITY: usize = 256 * 1024;

/// Returns the number of bytes at the start of the input that are whole frames shorter than the second argument. Each
/// gate has its own function, because only the gate knows its frames.
pub type SmallFrames = fn(&[u8], usize) -> usize;

/// The bytes of one read from a connection. Its small messages share one copy.
#[derive(Debug, Default)]
pub struct Input<'a> {
    bytes: &'a [u8],
    large: usize,
    /// Finds the small frames of the gate's protocol. `None` if no frame may be copied.
    small_frames: Option<SmallFrames>,
    /// The shared copy, and its start in `bytes`. `None` until the first small message.
    copy: Option<(Bytes, usize)>,
}

impl<'a> Input<'a> {
    /// Creates the input from the bytes of one read. Frames of `large` bytes and more are not copied, and nothing after
    /// the first of them.
    pub fn new(bytes: &'a [u8], large: usize, small_frames: SmallFrames) -> Self {
        Self { bytes, large, small_frames: Some(small_frames), copy: None }
    }

    /// Copies everything from `at` on, as far as frames are whole and small. Copies nothing if `at` is outside the
    /// input.
    #[inline(never)]
    fn copy_from(&mut self, at: usize, buffer: &mut BytesMut) {
        let Some(small_frames) = self.small_frames else { return };
        let small = self.bytes.get(at..small_frames(self.bytes, self.large));
        self.copy = small.map(|small| (copy(small, buffer), at));
    }
}

/// Returns a copy of the bytes of a message that will be retained. All small messages of one read share one
/// copy (see the module), so if the bytes are part of `input`, the result is a slice of that copy.
#[inline(always)]
pub(crate) fn copy_of(kept: &[u8], input: &mut Input<'_>, buffer: &mut BytesMut) -> Bytes {
    let at = kept.as_ptr().addr().wrapping_sub(input.bytes.as_ptr().addr());
    if input.copy.is_none() {
        input.copy_from(at, buffer);
    }
    if let Some((shared, shared_at)) = &input.copy {
        let from = at.wrapping_sub(*shared_at);
        if from <= shared.len() && kept.len() <= shared.len() - from {
            return shared.slice(from..from + kept.len());
        }
    }
    copy(kept, buffer)
}

/// Copies the bytes to the batch buffer.
#[inline(never)]
fn copy(bytes: &[u8], buffer: &mut BytesMut) -> Bytes {
    if buffer.capacity() - buffer.len() < bytes.len() {
        buffer.reserve(CAPACITY.max(bytes.len()));
    }
    buffer.extend_from_slice(bytes);
    buffer.split().freeze()
}

/// Returns one copy of both parts of a message that will be retained.
pub(crate) fn copy_of_parts([first, second]: [&[u8]; 2], buffer: &mut BytesMut) -> Bytes {
    let len = first.len() + second.len();
    if buffer.capacity() - buffer.len() < len {
        buffer.reserve(CAPACITY.max(len));
    }
    buffer.extend_from_slice(first);
    buffer.extend_from_slice(second);
    buffer.split().freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_read_share_a_copy() {
        // The test reads three small frames, of which the last is incomplete.
        let read: Vec<u8> = (0..150).collect();
        let (mut buffer, cut) = (BytesMut::new(), read.len() - 1);
        let mut input = Input::new(&read[..cut], 50, |_, _| 100);
        let mut copy = |part: &[u8]| copy_of(part, &mut input, &mut buffer);
        let (first, second) = (copy(&read[30..50]), copy(&read[60..90]));
        assert_eq!((&first[..], &second[..]), (&read[30..50], &read[60..90]));
        assert_eq!(second.as_ptr().addr() - first.as_ptr().addr(), 30, "in the order of the input");
        // Bytes that are not part of the input are copied, and so is a message that is incomplete in the
        // input.
        let (other, cut) = (copy(b"another"), copy(&read[100..cut]));
        assert_eq!((&other[..], &cut[..]), (&b"another"[..], &read[100..149]));
        assert_eq!(cut.as_ptr().addr() - other.as_ptr().addr(), other.len());
    }

    #[test]
    fn the_parts_of_a_message_are_copied_together() {
        let mut buffer = BytesMut::new();
        let mut copy = |parts| copy_of_parts(parts, &mut buffer);
        let (first, second) = (copy([b"head", b"body"]), copy([b"", b"more"]));
        assert_eq!((&first[..], &second[..]), (&b"headbody"[..], &b"more"[..]));
        assert_eq!(second.as_ptr().addr() - first.as_ptr().addr(), 8, "they share a buffer");
        let large = vec![7; 2 * CAPACITY];
        assert_eq!(copy([&large, b"x"]).len(), large.len() + 1);
    }
}
