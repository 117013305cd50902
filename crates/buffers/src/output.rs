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

/// The most bytes of answers between two deliveries that belong together: a few small answers, such as that to the request of
/// another consumer, do not make answers of the deliveries behind them.
const BETWEEN_MAX: usize = 4096;

/// The fewest and the most bytes that are reserved at once after the buffer was freed. In the fewest, a few short answers have room.
const EXPECTED_MIN: usize = 64;
const EXPECTED_MAX: usize = 64 * 1024;

/// If less was written than expected, the expected size shrinks by this fraction.
const EXPECTED_FADES: usize = 8;

/// Returns the length of the frame that begins with these bytes, or `None` if no frame begins like this.
pub type FrameLen = fn(&[u8]) -> Option<usize>;

/// The bytes that a connection has still to write, in order.
#[derive(Debug, Default)]
pub struct Output {
    segments: VecDeque<Segment>,
    segment_bytes: usize,
    /// The bytes of memory that the segments keep.
    segments_held: usize,
    /// The bytes of memory that payloads of answers keep, and how many of them are not yet written.
    answers_held: usize,
    answers_unwritten: usize,
    /// The bytes of memory that payloads of deliveries keep.
    deliveries_held: usize,
    tail: BytesMut,
    /// The number of bytes written since the output was created or its memory was freed.
    written: usize,
    /// The most bytes that were recently written between two calls of `shrink`. A freed buffer reserves this
    /// many bytes at once, so that it grows in one step. This also helps if large and small outputs
    /// alternate.
    expected: usize,
    /// The number of bytes up to the end of the last delivery that [`Output::note_delivery`] has accepted.
    delivered: usize,
    /// Splits the output into frames. `None` if nobody asks for that.
    frame_len: Option<FrameLen>,
    /// The bytes that are left of a frame that was written in part. `None` if that is not known.
    begun: Option<usize>,
}

/// Bytes in front of the tail.
#[derive(Debug)]
struct Segment {
    bytes: Bytes,
    /// The bytes of memory that are free when this segment is written. All of a payload stays in memory until its last part is
    /// written, so they count for that part.
    held: usize,
    /// What the payload belongs to that this is a part of. `None` for frames without payload.
    of: Option<PayloadOf>,
}

/// What a payload belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadOf {
    /// A message that a consumer has asked for.
    Delivery,
    /// The answer to a request, such as a returned message.
    Answer,
}

impl Output {
    /// Creates an output that can be cut between two frames; see [`Output::drop_unbegun`].
    pub fn framed(frame_len: FrameLen) -> Self {
        Self { frame_len: Some(frame_len), begun: Some(0), ..Self::default() }
    }

    /// The number of bytes of memory that are in use until they are written: also what was written of a payload whose rest was
    /// not.
    pub fn held(&self) -> usize {
        self.segments_held + self.tail.len()
    }

    /// The part of [`Output::held`] that is no delivery: what is not yet written behind the last one, and what was written of the
    /// payloads of answers and is still in use.
    pub fn answers_held(&self) -> usize {
        self.len_behind_delivery() + self.answers_held.saturating_sub(self.answers_unwritten)
    }

    /// The part of [`Output::held`] that is shared payloads of deliveries.
    pub fn deliveries_held(&self) -> usize {
        self.deliveries_held
    }

    fn held_of(&mut self, of: PayloadOf) -> &mut usize {
        match of {
            PayloadOf::Delivery => &mut self.deliveries_held,
            PayloadOf::Answer => &mut self.answers_held,
        }
    }

    /// Returns true if a part of this payload is not yet written, and is shared.
    pub fn holds(&self, payload: &[u8]) -> bool {
        self.segments.iter().any(|segment| segment.is_of(payload))
    }

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
    /// to wait, or if no more than [`BETWEEN_MAX`] bytes of answers were appended since the last one that counts.
    #[inline]
    pub fn note_delivery(&mut self, before: usize) {
        if before < HIGH_WATER || before - self.delivered <= BETWEEN_MAX {
            self.delivered = self.len();
        }
    }

    /// Returns the buffer to which frames are encoded.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.tail.capacity() == 0 {
            self.tail.reserve(self.expected.max(EXPECTED_MIN));
        }
        &mut self.tail
    }

    /// Appends `from..to` of a payload. A large part is shared, not copied. `continues`: an earlier part was appended, so the payload
    /// counts already. It is mostly in the last segment: only the sessions of AMQP 1.0 send payloads in turns.
    pub fn put_payload(&mut self, payload: &Bytes, from: usize, to: usize, continues: bool, of: PayloadOf) {
        if to - from < SHARE_FROM {
            self.tail.extend_from_slice(&payload[from..to]);
            return;
        }
        let mut earlier = continues.then(|| self.segments.iter_mut().rev()).into_iter().flatten();
        let (held, before) = earlier
            .find(|segment| segment.is_of(payload))
            .map_or((0, None), |part| (std::mem::take(&mut part.held), part.of));
        self.segments_held -= held;
        if let Some(before) = before {
            *self.held_of(before) -= held;
        }
        if !self.tail.is_empty() {
            let head = self.tail.split().freeze();
            let held = head.len();
            self.push(Segment { bytes: head, held, of: None });
        }
        let held = held.max(payload.len());
        *self.held_of(of) += held;
        if of == PayloadOf::Answer {
            self.answers_unwritten += to - from;
        }
        self.push(Segment { bytes: payload.slice(from..to), held, of: Some(of) });
    }

    fn push(&mut self, segment: Segment) {
        self.segment_bytes += segment.bytes.len();
        self.segments_held += segment.held;
        self.segments.push_back(segment);
    }

    /// Fills in the next slices for a vectored write. Returns the number of slices.
    pub fn slices<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut n = 0;
        for segment in &self.segments {
            if n == into.len() {
                return n;
            }
            into[n] = IoSlice::new(&segment.bytes);
            n += 1;
        }
        if n < into.len() && !self.tail.is_empty() {
            into[n] = IoSlice::new(&self.tail);
            n += 1;
        }
        n
    }

    /// Returns all bytes as one slice. `None` if they are in several, or if there are none.
    pub fn only_slice(&self) -> Option<IoSlice<'_>> {
        (self.segments.is_empty() && !self.tail.is_empty()).then(|| IoSlice::new(&self.tail))
    }

    /// Removes the first `n` bytes. Called when they were written to the socket.
    pub fn advance(&mut self, mut n: usize) {
        self.written += n;
        self.delivered = self.delivered.saturating_sub(n);
        self.begun = if n >= self.len() { Some(0) } else { self.end_of_frame(n).map(|end| end - n) };
        while n > 0 {
            match self.segments.front_mut() {
                Some(front) if front.bytes.len() > n => {
                    front.bytes.advance(n);
                    self.segment_bytes -= n;
                    if front.of == Some(PayloadOf::Answer) {
                        self.answers_unwritten -= n;
                    }
                    return;
                }
                Some(front) => {
                    n -= front.bytes.len();
                    self.segment_bytes -= front.bytes.len();
                    self.segments_held -= front.held;
                    match front.of {
                        Some(PayloadOf::Answer) => {
                            self.answers_unwritten -= front.bytes.len();
                            self.answers_held -= front.held;
                        }
                        Some(PayloadOf::Delivery) => self.deliveries_held -= front.held,
                        None => {}
                    }
                    self.segments.pop_front();
                }
                None => {
                    self.tail.advance(n.min(self.tail.len()));
                    return;
                }
            }
        }
    }

    /// Returns the first place from `n` on at which a frame ends or begins. It looks at frames only as far as `n`. There
    /// is nothing to look for if everything was written at once.
    fn end_of_frame(&self, n: usize) -> Option<usize> {
        let (frame_len, mut end) = (self.frame_len?, self.begun?);
        let mut slices = self.pieces();
        let (mut slice, mut from) = (slices.next()?, 0);
        while end < n {
            while from + slice.len() <= end {
                from += slice.len();
                slice = slices.next()?;
            }
            // The head of a frame is in one piece: only payloads are shared.
            end += frame_len(&slice[end - from..])?.max(1);
        }
        Some(end)
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(|segment| &segment.bytes[..]).chain([&self.tail[..]])
    }

    /// Drops all frames that were not begun. Returns true if other frames may follow. Returns false if more than `max` bytes were
    /// left of a frame that was begun: then this rest is dropped, too.
    pub fn drop_unbegun(&mut self, max: usize) -> bool {
        let begun = self.begun.filter(|begun| *begun <= max);
        let mut left = begun.unwrap_or(0);
        // Copied, because a part of a payload would keep all of it.
        let mut tail = BytesMut::with_capacity(left);
        for piece in self.pieces() {
            let part = left.min(piece.len());
            tail.extend_from_slice(&piece[..part]);
            left -= part;
        }
        let Self { expected, frame_len, .. } = *self;
        *self = Self { tail, expected, frame_len, begun, ..Self::default() };
        begun.is_some()
    }

    /// Frees the memory of the buffer if the output is empty. If there was no output since the last call, the expected size stays.
    pub fn shrink(&mut self) {
        if self.is_empty() && (self.written > 0 || self.tail.capacity() > 0) {
            let faded = self.expected - self.expected / EXPECTED_FADES;
            let expected = self.written.min(EXPECTED_MAX).max(faded);
            *self = Self { expected, frame_len: self.frame_len, begun: Some(0), ..Self::default() };
        }
    }
}

impl Segment {
    /// Returns true if this is a part of the payload.
    fn is_of(&self, payload: &[u8]) -> bool {
        payload.as_ptr_range().contains(&self.bytes.as_ptr())
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
        assert_eq!(put(&mut output, 5, true), 0, "a small answer between two deliveries");
        let much = BETWEEN_MAX + 1;
        assert_eq!(put(&mut output, much, false), much);
        assert_eq!(put(&mut output, 5, true), much + 5, "a delivery that should have waited");
        output.advance(HIGH_WATER);
        assert_eq!(output.len_behind_delivery(), much + 5);
        assert_eq!(put(&mut output, 5, true), 0);
        output.advance(much + 45);
        assert_eq!((output.len(), output.len_behind_delivery()), (5, 0));
    }

    /// Frames of this test: their length in one byte, which counts itself.
    fn frame_len(head: &[u8]) -> Option<usize> {
        head.first().map(|len| usize::from(*len)).filter(|len| *len > 0)
    }

    fn frames(output: &mut Output, sizes: &[u8]) {
        for size in sizes {
            output.buffer().extend_from_slice(&vec![*size; usize::from(*size)]);
        }
    }

    #[test]
    fn only_a_frame_that_has_begun_is_kept() {
        for written in 0..=60 {
            let mut output = Output::framed(frame_len);
            frames(&mut output, &[10, 20, 30]);
            // The socket takes a little at a time.
            (0..written).for_each(|_| output.advance(1));
            assert!(output.drop_unbegun(30));
            let end = [0, 10, 30, 60].into_iter().find(|end| *end >= written).unwrap();
            assert_eq!(output.len(), end - written, "{written} bytes were written");
            frames(&mut output, &[5]);
            output.advance(end - written);
            assert_eq!(output.pieces().collect::<Vec<_>>().concat(), [5; 5]);
        }
    }

    #[test]
    fn a_large_frame_that_has_begun_is_dropped_with_its_payload() {
        let mut output = Output::framed(|_| Some(1 + SHARE_FROM));
        let payload = Bytes::from(vec![1; 2 * SHARE_FROM]);
        output.buffer().extend_from_slice(b"h");
        output.put_payload(&payload, 0, SHARE_FROM, false, PayloadOf::Delivery);
        assert_eq!(
            (output.len(), output.held()),
            (1 + SHARE_FROM, 1 + 2 * SHARE_FROM),
            "all of the payload is kept"
        );
        output.advance(3);
        assert!(!output.drop_unbegun(SHARE_FROM - 3));
        assert_eq!((output.len(), output.held()), (0, 0));
    }

    /// The earlier ones are not looked through for it: this test would take minutes.
    #[test]
    fn a_new_payload_counts_by_itself() {
        let mut output = Output::default();
        let payload = Bytes::from(vec![1; SHARE_FROM]);
        let times = 300_000;
        for _ in 0..times {
            output.put_payload(&payload, 0, SHARE_FROM, false, PayloadOf::Answer);
        }
        assert_eq!((output.held(), output.answers_held()), (times * SHARE_FROM, times * SHARE_FROM));
        output.advance((times - 1) * SHARE_FROM);
        assert_eq!((output.held(), output.answers_held()), (SHARE_FROM, SHARE_FROM));
    }

    #[test]
    fn a_payload_counts_once_until_its_last_part_is_written() {
        let mut output = Output::default();
        let (large, next) = (Bytes::from(vec![1; 10 * SHARE_FROM]), Bytes::from(vec![2; 3 * SHARE_FROM]));
        output.buffer().extend_from_slice(b"head");
        output.put_payload(&large, 9, 9 + SHARE_FROM, false, PayloadOf::Delivery);
        output.put_payload(&next, 0, 3 * SHARE_FROM, false, PayloadOf::Answer);
        // The rest of a message that has waited without what is not sent of it.
        output.put_payload(&large.slice(9..), SHARE_FROM, 3 * SHARE_FROM, true, PayloadOf::Delivery);
        output.buffer().extend_from_slice(b"tail");
        let all = large.len() + next.len() + 8;
        assert_eq!((output.held(), output.len()), (all, 6 * SHARE_FROM + 8));
        output.advance(4 + SHARE_FROM - 1);
        assert_eq!(output.held(), all - 4);
        output.advance(1 + 3 * SHARE_FROM - 1);
        assert_eq!(output.held(), all - 4, "two payloads whose first bytes were written");
        assert_eq!(output.answers_held(), output.len() + next.len() - 1, "nothing was noted as a delivery");
        assert!(output.holds(&large) && output.holds(&next));
        output.advance(1);
        assert_eq!((output.held(), output.answers_held()), (large.len() + 4, output.len()));
        assert_eq!(output.deliveries_held(), large.len());
        assert!(output.holds(&large) && !output.holds(&next));
        output.advance(2 * SHARE_FROM + 3);
        assert_eq!((output.held(), output.len()), (1, 1), "the output was never empty");
    }

    #[test]
    fn an_output_without_frames_is_dropped_as_a_whole() {
        let mut output = Output::default();
        frames(&mut output, &[10]);
        output.advance(1);
        assert!(!output.drop_unbegun(100));
        assert!(output.is_empty());
    }

    #[test]
    fn an_output_in_use_grows_once() {
        let mut output = Output::default();
        let mut turn = |bytes: usize| {
            output.shrink();
            // A turn without output changes nothing.
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
