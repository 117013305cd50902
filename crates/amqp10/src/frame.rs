//! Frames and protocol headers [2.2, 2.3, 5.3].
//!
//! ```text
//!   byte  0        4        5        6         8              doff * 4          size
//!        +--------+--------+--------+---------+--- ... ------+------- ... -----+
//!        | size   | doff   | type   | channel | extended     | body: one       |
//!        | u32    | u8     | u8     | u16     | header, if   | performative,   |
//!        |        | >= 2   | 0 AMQP | (SASL:  | doff > 2;    | then payload    |
//!        |        |        | 1 SASL | unused) | skipped      | (transfer only) |
//!        +--------+--------+--------+---------+--- ... ------+------- ... -----+
//!   size counts the whole frame, including these 8 bytes. A frame with an empty body is a heartbeat.
//! ```

use std::fmt;

use bytes::{BufMut, BytesMut};

/// The size in bytes of a frame header and of a protocol header [2.3.1].
pub const HEADER_SIZE: usize = 8;

/// The smallest max-frame-size that a peer may announce, in bytes [2.8.18 MIN-MAX-FRAME-SIZE].
pub const MIN_MAX_FRAME_SIZE: u32 = 512;

/// The largest frame that we accept before the peer's OPEN, in bytes. It is enough for a token of almost
/// 8 KiB as SASL response, and not much for a peer that is not logged in.
pub const INITIAL_MAX_FRAME_SIZE: u32 = 8192;

/// The protocol header of plain AMQP 1.0 [2.2].
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// The protocol header of the SASL layer [5.3].
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";
/// The protocol header of AMQP 0.9.1.
pub const AMQP091_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// The protocol header of AMQP 0.9 with a minor version, as old clients send it.
pub const AMQP09_HEADER: [u8; 8] = *b"AMQP\x01\x01\x00\x09";
/// The protocol header of AMQP 0.8.
pub const AMQP08_HEADER: [u8; 8] = *b"AMQP\x01\x01\x08\x00";

/// The kinds of frames [2.3.1].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Type 0: performatives.
    Amqp,
    /// Type 1: SASL [5.3.1].
    Sasl,
}

/// A checked frame header: the first eight bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The size of the whole frame in bytes, including this header. At least `doff * 4`.
    pub size: u32,
    /// Where the body starts, in words of four bytes; at least 2.
    pub doff: u8,
    /// The kind of the frame: AMQP or SASL.
    pub kind: FrameKind,
    /// The sender's number of the session. It has no meaning in SASL frames.
    pub channel: u16,
}

impl FrameHeader {
    /// Returns where the body starts, in bytes from the start of the frame.
    pub fn body_offset(&self) -> usize {
        usize::from(self.doff) * 4
    }

    /// Returns the size of the body in bytes. 0 is a heartbeat.
    pub fn body_len(&self) -> u32 {
        self.size.saturating_sub(u32::from(self.doff) * 4)
    }
}

/// What is wrong with a frame header. Each error closes the connection with `amqp:connection:framing-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A size below the eight bytes of the header.
    TooSmall {
        /// The announced size, in bytes.
        size: u32,
    },
    /// The announced size of the frame is above our max-frame-size.
    TooLarge {
        /// The announced size, in bytes.
        size: u32,
        /// The limit, in bytes.
        max: u32,
    },
    /// A data offset below 2, inside the header.
    OffsetInHeader {
        /// The offset, in words of four bytes.
        doff: u8,
    },
    /// A data offset beyond the end of the frame.
    OffsetBeyondFrame {
        /// The offset, in words of four bytes.
        doff: u8,
        /// The size of the frame, in bytes.
        size: u32,
    },
    /// A type other than 0 (AMQP) and 1 (SASL).
    UnknownType {
        /// The type.
        kind: u8,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooSmall { size } => write!(f, "frame size ({size} bytes) below the header of 8 bytes"),
            Self::TooLarge { size, max } => {
                write!(f, "frame size ({size} bytes) > maximum frame size ({max} bytes)")
            }
            Self::OffsetInHeader { doff } => write!(f, "data offset ({doff}) below 2"),
            Self::OffsetBeyondFrame { doff, size } => {
                write!(f, "data offset ({doff}) beyond the frame of {size} bytes")
            }
            Self::UnknownType { kind } => write!(f, "unknown frame type ({kind})"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Returns the length of a frame or protocol header, given its first bytes.
pub(crate) fn output_frame_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'A', b'M', b'Q', b'P', ..] => Some(HEADER_SIZE),
        [a, b, c, d, ..] => usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok(),
        _ => None,
    }
}

/// Parses and checks a frame header [2.3.1]. `max_frame_size` is the limit at this time, in bytes.
pub fn parse_header(header: &[u8; HEADER_SIZE], max_frame_size: u32) -> Result<FrameHeader, FrameError> {
    let [s0, s1, s2, s3, doff, kind, c0, c1] = *header;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if size < 8 {
        return Err(FrameError::TooSmall { size });
    }
    if size > max_frame_size {
        return Err(FrameError::TooLarge { size, max: max_frame_size });
    }
    if doff < 2 {
        return Err(FrameError::OffsetInHeader { doff });
    }
    if u32::from(doff) * 4 > size {
        return Err(FrameError::OffsetBeyondFrame { doff, size });
    }
    let kind = match kind {
        0 => FrameKind::Amqp,
        1 => FrameKind::Sasl,
        kind => return Err(FrameError::UnknownType { kind }),
    };
    Ok(FrameHeader { size, doff, kind, channel: u16::from_be_bytes([c0, c1]) })
}

/// An empty frame without its last field, the channel, which may have any value [2.4.5].
pub(crate) const EMPTY: [u8; 6] = [0, 0, 0, 8, 2, 0];

/// Appends the empty frame that keeps a connection alive [2.4.5].
pub fn put_empty_frame(out: &mut BytesMut) {
    out.put_slice(&EMPTY);
    out.put_u16(0);
}

/// Appends a frame header. [`end_frame`] fills in its size later. Returns the start of the frame.
#[inline]
pub(crate) fn begin_frame(out: &mut BytesMut, kind: FrameKind, channel: u16) -> usize {
    let start = out.len();
    let kind = match kind {
        FrameKind::Amqp => 0,
        FrameKind::Sasl => 1,
    };
    let [c0, c1] = channel.to_be_bytes();
    out.put_slice(&[0, 0, 0, 0, 2, kind, c0, c1]);
    start
}

/// Fills in the size of the frame that ends `payload_len` bytes after the end of `out`.
#[inline]
pub(crate) fn end_frame(out: &mut BytesMut, start: usize, payload_len: usize) {
    let size = out.len() - start + payload_len;
    debug_assert!(u32::try_from(size).is_ok(), "a frame is bounded by the peer's max-frame-size");
    out[start..start + 4].copy_from_slice(&(size as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: [u8; 8], expected: Result<FrameHeader, FrameError>) {
        assert_eq!(parse_header(&header, 512), expected);
    }

    #[test]
    fn header_rules_of_2_3_1() {
        let ok = FrameHeader { size: 8, doff: 2, kind: FrameKind::Amqp, channel: 0x0102 };
        check([0, 0, 0, 8, 2, 0, 1, 2], Ok(ok));
        check([0, 0, 2, 0, 2, 1, 1, 2], Ok(FrameHeader { size: 512, kind: FrameKind::Sasl, ..ok }));
        check([0, 0, 0, 12, 3, 0, 1, 2], Ok(FrameHeader { size: 12, doff: 3, ..ok }));
        check([0, 0, 0, 7, 2, 0, 0, 0], Err(FrameError::TooSmall { size: 7 }));
        check([0, 0, 2, 1, 2, 0, 0, 0], Err(FrameError::TooLarge { size: 513, max: 512 }));
        check([0, 0, 0, 8, 1, 0, 0, 0], Err(FrameError::OffsetInHeader { doff: 1 }));
        check([0, 0, 0, 11, 3, 0, 0, 0], Err(FrameError::OffsetBeyondFrame { doff: 3, size: 11 }));
        check([0, 0, 0, 8, 2, 2, 0, 0], Err(FrameError::UnknownType { kind: 2 }));
        check([255; 8], Err(FrameError::TooLarge { size: u32::MAX, max: 512 }));
    }

    #[test]
    fn heartbeat_is_a_header_without_body() {
        let mut out = BytesMut::new();
        put_empty_frame(&mut out);
        let header = parse_header(out[..].try_into().unwrap(), MIN_MAX_FRAME_SIZE).unwrap();
        assert_eq!((header.size, header.body_offset(), header.body_len()), (8, 8, 0));
        assert_eq!(header.channel, 0, "the only one before channel-max is agreed [2.4.5]");
    }
}
