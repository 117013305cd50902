//! Frames and protocol headers.
//!
//! ```text
//!   byte  0        1         3        7                7 + size
//!        +--------+---------+--------+------- ... -----+--------+
//!        | type   | channel | size   | payload         | end    |
//!        | 1 .. 8 | u16     | u32    | `size` bytes    | 0xCE   |
//!        +--------+---------+--------+------- ... -----+--------+
//!
//!   type 1  method     class u16, method u16, arguments
//!        2  header     class u16, weight u16 (0), body size u64, property list
//!        3  body       a part of the body
//!        8  heartbeat  nothing, on channel 0
//! ```

use std::fmt;

use buffers::Put;
use bytes::BytesMut;

use crate::constants::{FRAME_END, FRAME_HEARTBEAT};

/// The size in bytes of a protocol header.
pub const PROTOCOL_HEADER_SIZE: usize = 8;

/// The size in bytes of type, channel and size at the start of a frame.
pub const HEADER_SIZE: usize = 7;

/// The size in bytes of a frame without payload: its header and the end octet.
pub const OVERHEAD: usize = HEADER_SIZE + 1;

/// The size in bytes of class, weight and body size in a content header. The property list follows.
pub const CONTENT_HEADER_SIZE: usize = 12;

/// Returns the size of the frame with a content header, in bytes. The property list has `properties_len` bytes.
pub const fn header_frame_len(properties_len: usize) -> usize {
    OVERHEAD + CONTENT_HEADER_SIZE + properties_len
}

/// Returns the length of a frame or protocol header, given its first bytes.
pub(crate) fn output_frame_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'A', b'M', b'Q', b'P', ..] => Some(PROTOCOL_HEADER_SIZE),
        [_, _, _, s0, s1, s2, s3, ..] => {
            usize::try_from(u32::from_be_bytes([*s0, *s1, *s2, *s3])).ok()?.checked_add(OVERHEAD)
        }
        _ => None,
    }
}

/// The bytes by which a frame may be larger than agreed. Some clients do not count header and end octet, so RabbitMQ
/// accepts as much.
pub const SIZE_TOLERANCE: u32 = OVERHEAD as u32;

/// The protocol header of AMQP 0.9.1.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// The protocol header of AMQP 0.9. The methods are the same as far as a broker notices.
pub const PROTOCOL_HEADER_0_9: [u8; 8] = *b"AMQP\x01\x01\x00\x09";

/// The first bytes of every protocol header.
pub(crate) const PROTOCOL_NAME: &[u8; 4] = b"AMQP";

/// A heartbeat.
pub const HEARTBEAT: [u8; OVERHEAD] = [FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END];

/// The start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The type, not checked.
    pub kind: u8,
    pub channel: u16,
    /// The size of the payload in bytes, not checked.
    pub size: u32,
}

impl FrameHeader {
    /// Returns the header at the start of `input`, if all of it is there.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<Self> {
        let [kind, c0, c1, s0, s1, s2, s3] = *input.first_chunk::<HEADER_SIZE>()?;
        let (channel, size) = (u16::from_be_bytes([c0, c1]), u32::from_be_bytes([s0, s1, s2, s3]));
        Some(Self { kind, channel, size })
    }

    /// Returns the size of the whole frame, in bytes.
    #[inline]
    pub fn frame_len(&self) -> usize {
        (self.size as usize).saturating_add(OVERHEAD)
    }
}

/// Appends a frame header for a payload of `size` bytes.
#[inline]
pub(crate) fn put_header(out: &mut BytesMut, kind: u8, channel: u16, size: u32) {
    let ([c0, c1], [s0, s1, s2, s3]) = (channel.to_be_bytes(), size.to_be_bytes());
    out.put_slice(&[kind, c0, c1, s0, s1, s2, s3]);
}

/// Appends a frame whose payload is written by `put`.
#[inline]
pub(crate) fn put_frame(out: &mut BytesMut, kind: u8, channel: u16, put: impl FnOnce(&mut BytesMut)) {
    put_header(out, kind, channel, 0);
    let start = out.len();
    put(out);
    let size = out.len() - start;
    debug_assert!(u32::try_from(size).is_ok(), "the parts of a method are bounded by other frames");
    out[start - 4..start].copy_from_slice(&(size as u32).to_be_bytes());
    out.put_u8(FRAME_END);
}

/// The number of octets of a payload that an error text shows, as in RabbitMQ.
const SHOWN: usize = 16;

/// The type of a frame and the first octets of its payload, for error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excerpt {
    kind: u8,
    octets: [u8; SHOWN],
    len: u8,
    whole: bool,
}

impl Excerpt {
    /// Creates the excerpt of a frame.
    pub fn new(kind: u8, payload: &[u8]) -> Self {
        let len = payload.len().min(SHOWN);
        let mut octets = [0; SHOWN];
        octets[..len].copy_from_slice(&payload[..len]);
        Self { kind, octets, len: len as u8, whole: payload.len() <= SHOWN }
    }
}

impl fmt::Display for Excerpt {
    /// Writes what RabbitMQ writes: `type 1, all octets = <<0,10>>`, or `<<"text">>` if all octets are printable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = if self.whole { "all" } else { "first 16" };
        write!(f, "type {}, {which} octets = <<", self.kind)?;
        let octets = &self.octets[..usize::from(self.len)];
        if !octets.is_empty() && octets.iter().all(|octet| matches!(octet, b' '..=b'~')) {
            // They are ASCII, so nothing is lost.
            return write!(f, "{:?}>>", String::from_utf8_lossy(octets));
        }
        for (at, octet) in octets.iter().enumerate() {
            write!(f, "{}{octet}", if at > 0 { "," } else { "" })?;
        }
        f.write_str(">>")
    }
}
