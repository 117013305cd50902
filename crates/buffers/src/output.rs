//! The output of a connection: bytes that wait to be written to the socket. Small frames are collected in one
//! buffer; large payloads are shared slices. So one vectored write sends everything, and no large body is
//! copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Payloads of this size in bytes and more are shared instead of copied. Below, a copy is cheaper than one
/// more slice in the vectored write.
const SHARE_FROM: usize = 4096;

/// If this many bytes are unwritten, deliveries should wait where they are. There they can still be given to others.
pub const HIGH_WATER: usize = 256 * 1024;

/// The most bytes that are reserved at once after the buffer was freed.
const EXPECTED_MAX: usize = 64 * 1024;

/// If less was written than expected, the expected size shrinks by this fraction.
const EXPECTED_FADES: usize = 8;

/// The bytes that a connection has still to write, in order.
#[derive(Debug, Default)]
pub struct Output {
    segments: VecDeque<Bytes>,
    segment_bytes: usize,
    tail: BytesMut,
    /// The number of bytes written since the output was created or its memory was freed.
    written: usize,
    /// The most bytes that were recently written between two calls of `shrink`. A freed buffer reserves this
    /// many bytes at once, so that it grows in one step. This also helps if large and small outputs
    /// alternate.
    expected: usize,
    /// The number of bytes up to the end of the last delivery that [`Output::note_delivery`] has accepted.
    delivered: usize,
}

impl Output {
    /// The number of bytes not yet written.
    pub fn len(&self) -> usize {
        self.segment_bytes + self.tail.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes not yet written behind the last delivery ([`Output::note_delivery`]).
    pub fn len_behind_delivery(&self) -> usize {
        self.len() - self.delivered
    }

    /// Called when a delivery was appended to the `before` bytes that were not yet written. It counts if deliveries had not
    /// to wait, or if nothing but deliveries was appended since the last one that counts.
    #[inline]
    pub fn note_delivery(&mut self, before: usize) {
        if before < HIGH_WATER || before == self.delivered {
            self.delivered = self.len();
        }
    }

    /// Returns the buffer to which frames are encoded.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.tail.capacity() == 0 {
            self.tail.reserve(self.expected);
        }
        &mut self.tail
    }

    /// Appends `from..to` of a payload. A large part is shared, not copied.
    pub fn put_payload(&mut self, payload: &Bytes, from: usize, to: usize) {
        if to - from < SHARE_FROM {
            self.tail.extend_from_slice(&payload[from..to]);
            return;
        }
        if !self.tail.is_empty() {
            let head = self.tail.split().freeze();
            self.segment_bytes += head.len();
            self.segments.push_back(head);
        }
        self.segment_bytes += to - from;
        self.segments.push_back(payload.slice(from..to));
    }

    /// Fills in the next slices for a vectored write. Returns the number of slices.
    pub fn slices<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut n = 0;
        for segment in &self.segments {
            if n == into.len() {
                return n;
            }
            into[n] = IoSlice::new(segment);
            n += 1;
        }
        if n < into.len() && !self.tail.is_empty() {
            into[n] = IoSlice::new(&self.tail);
            n += 1;
        }
        n
    }

    /// Removes the first `n` bytes. Called when they were written to the socket.
    pub fn advance(&mut self, mut n: usize) {
        self.written += n;
        self.delivered = self.delivered.saturating_sub(n);
        while n > 0 {
            match self.segments.front_mut() {
                Some(front) if front.len() > n => {
                    front.advance(n);
                    self.segment_bytes -= n;
                    return;
                }
                Some(front) => {
                    n -= front.len();
                    self.segment_bytes -= front.len();
                    self.segments.pop_front();
                }
                None => {
                    self.tail.advance(n.min(self.tail.len()));
                    return;
                }
            }
        }
    }

    /// Frees the memory of the buffer if the output is empty.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            let faded = self.expected - self.expected / EXPECTED_FADES;
            *self = Self { expected: self.written.min(EXPECTED_MAX).max(faded), ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_behind_the_last_delivery() {
        let mut output = Output::default();
        let put = |output: &mut Output, bytes: usize, delivers: bool| {
            let before = output.len();
            output.buffer().resize(before + bytes, b'x');
            if delivers {
                output.note_delivery(before);
            }
            output.len_behind_delivery()
        };
        assert_eq!(put(&mut output, 10, false), 10, "no delivery");
        assert_eq!(put(&mut output, HIGH_WATER, true), 0, "a large delivery, and what is ahead of it");
        assert_eq!(put(&mut output, 5, true), 0, "another one directly behind it");
        assert_eq!(put(&mut output, 20, false), 20);
        assert_eq!(put(&mut output, 5, true), 25, "a delivery that should have waited");
        output.advance(HIGH_WATER);
        assert_eq!(output.len_behind_delivery(), 25);
        assert_eq!(put(&mut output, 5, true), 0);
        output.advance(40);
        assert_eq!((output.len(), output.len_behind_delivery()), (5, 0));
    }

    #[test]
    fn an_output_in_use_grows_once() {
        let mut output = Output::default();
        let mut turn = |bytes: usize| {
            output.shrink();
            assert_eq!(output.tail.capacity(), 0, "an idle one has nothing");
            output.buffer().extend_from_slice(b"x");
            let at_once = output.tail.capacity();
            output.buffer().resize(bytes, b'x');
            output.advance(bytes / 2);
            output.advance(bytes - bytes / 2);
            at_once
        };
        turn(10_000);
        assert!((10_000..20_000).contains(&turn(100)));
        assert!((8_000..10_000).contains(&turn(100)), "large and small outputs may alternate");
        for _ in 0..50 {
            turn(100);
        }
        assert!((100..1_000).contains(&turn(1 << 20)), "small outputs lower the expectation");
        assert!((EXPECTED_MAX..1 << 20).contains(&turn(1)));
    }
}
