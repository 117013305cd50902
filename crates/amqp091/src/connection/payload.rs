//! The payload of a frame.

use crate::constants::{FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD};

/// The payload of a frame, by its type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    Method { class: u16, method: u16, arguments: &'a [u8] },
    Header { class: u16, weight: u16, body_size: u64, properties: &'a [u8] },
    Body(&'a [u8]),
    Heartbeat,
}

impl<'a> Payload<'a> {
    /// Returns the payload of a frame of this type. `None` if the type is unknown or the payload does not fit it.
    #[inline]
    pub(super) fn parse(kind: u8, payload: &'a [u8]) -> Option<Self> {
        match kind {
            FRAME_METHOD => {
                let ([c0, c1, m0, m1], arguments) = payload.split_first_chunk()?;
                let (class, method) = (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]));
                Some(Self::Method { class, method, arguments })
            }
            FRAME_HEADER => {
                let ([c0, c1, w0, w1], rest) = payload.split_first_chunk()?;
                let (body_size, properties) = rest.split_first_chunk()?;
                let (class, weight) = (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*w0, *w1]));
                Some(Self::Header { class, weight, body_size: u64::from_be_bytes(*body_size), properties })
            }
            FRAME_BODY => Some(Self::Body(payload)),
            FRAME_HEARTBEAT if payload.is_empty() => Some(Self::Heartbeat),
            _ => None,
        }
    }
}
