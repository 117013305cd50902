//! Sends methods and contents on channels.

use buffers::{Output, PayloadOf, Put};
use bytes::{Bytes, BytesMut};

use super::Connection;
use crate::constants::{FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD};
use crate::frame::{CONTENT_HEADER_SIZE, OVERHEAD, put_frame, put_header};
use crate::generated::{BasicDeliver, BasicPublish, Method};

/// Content with bodies of at most this many bytes are written to memory that is reserved at once. It is enough for typical
/// messages; larger bodies are worth the few steps in which the output grows.
const RESERVED_MAX: usize = 1024;

/// The bytes that are reserved for the method of a content: three short strings of usual length, and the numbers.
const METHOD_EXPECTED: usize = 128;

impl Connection {
    /// Sends a method without content. Sends nothing if the channel is not open.
    #[inline]
    pub fn send(&mut self, channel: u16, method: &Method<'_>) {
        if self.channel_is_open(channel) {
            self.put_on(channel, method);
        }
    }

    /// Sends a method with content, in frames of at most the negotiated size. Sends nothing if the channel is not open.
    /// `properties` is the encoded property list. The body is `payload` from the byte `from` on; large parts of it are
    /// shared, not copied. The protocol cannot split properties, so the peer gets them in one frame of any size. The caller
    /// observes [`Tuned::header_frame_max`](super::Tuned::header_frame_max).
    pub fn send_content(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        properties: &[u8],
        payload: &Bytes,
        from: usize,
    ) {
        if self.channel_is_open(channel) {
            let body_max = self.body_max();
            put_content(
                &mut self.output,
                channel,
                body_max,
                |out| method.put(out),
                properties,
                (payload, from, PayloadOf::Answer),
            );
        }
    }

    /// Does the same as [`Connection::send_content`] for `basic.deliver`, the most frequent method.
    #[inline]
    pub fn send_deliver(
        &mut self,
        channel: u16,
        deliver: &BasicDeliver<'_>,
        properties: &[u8],
        payload: &Bytes,
        from: usize,
    ) {
        if self.channel_is_open(channel) {
            let before = self.output.len();
            let body_max = self.body_max();
            put_content(
                &mut self.output,
                channel,
                body_max,
                |out| deliver.put(out),
                properties,
                (payload, from, PayloadOf::Delivery),
            );
            self.output.note_delivery(before);
        }
    }

    /// Returns the largest part of a body in one frame, in bytes.
    #[inline]
    fn body_max(&self) -> usize {
        match self.tuned.frame_max {
            0 => u32::MAX as usize - OVERHEAD,
            max => (max as usize).saturating_sub(OVERHEAD).max(1),
        }
    }
}

#[inline(always)]
fn put_content(
    output: &mut Output,
    channel: u16,
    body_max: usize,
    put_method: impl FnOnce(&mut BytesMut),
    properties: &[u8],
    (payload, from, of): (&Bytes, usize, PayloadOf),
) {
    let body_size = payload.len() - from;
    let out = output.buffer();
    out.reserve(METHOD_EXPECTED + properties.len() + body_size.min(RESERVED_MAX));
    put_frame(out, FRAME_METHOD, channel, put_method);

    put_header(out, FRAME_HEADER, channel, (CONTENT_HEADER_SIZE + properties.len()) as u32);
    let mut head = [0; CONTENT_HEADER_SIZE];
    head[..2].copy_from_slice(&BasicPublish::CLASS_ID.to_be_bytes());
    head[4..].copy_from_slice(&(body_size as u64).to_be_bytes());
    out.put_slice(&head);
    out.put_slice(properties);
    out.put_u8(FRAME_END);

    let mut at = from;
    while at < payload.len() {
        let end = payload.len().min(at + body_max);
        put_header(output.buffer(), FRAME_BODY, channel, (end - at) as u32);
        output.put_payload(payload, at, end, at > from, of);
        output.buffer().put_u8(FRAME_END);
        at = end;
    }
}
