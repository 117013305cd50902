//! A message that has just arrived from a publisher.

use std::ops::Deref;

use amqp10::sections::Sections;
use std::sync::Arc;

use bytes::Bytes;
use message::{Basic, Message, Route};

/// The bytes of a message in the format of AMQP 1.0.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// The bytes are in the read buffer. They must be copied to be retained.
    Borrowed(&'a [u8]),
    /// The bytes are in a buffer that may be retained.
    Owned(&'a Bytes),
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Borrowed(bytes) => bytes,
            Body::Owned(bytes) => bytes,
        }
    }
}

/// A message that was checked. Gates whose protocol has no message format of its own use that of AMQP 1.0.
#[derive(Clone, Copy, Debug)]
pub enum Arrived<'a> {
    Amqp10 {
        body: Body<'a>,
        /// The sections of the message, as [`super::Intake::scan`] has found them. It is a reference, because the value is large
        /// and moving it costs as much as routing.
        found: &'a Sections,
    },
    /// A message of AMQP 0.9.1. It is a reference for the same reason.
    Amqp091(&'a Basic<'a>),
}

impl<'a> Arrived<'a> {
    /// Returns a message in the format of AMQP 1.0. `found` are its sections, as [`super::Intake::scan`] has found them.
    #[inline(always)]
    pub fn with_sections(body: Body<'a>, found: &'a Sections) -> Self {
        Self::Amqp10 { body, found }
    }

    /// Returns a copy of the message, with this route.
    pub fn to_message(self, route: &Arc<Route>, durable_by_default: bool) -> Message {
        let parts = match self {
            Self::Amqp10 { body, found } => {
                let trimmed = message::trim(found, durable_by_default);
                let wire = Bytes::copy_from_slice(&body[trimmed.range.clone()]);
                trimmed.into_parts(wire)
            }
            Self::Amqp091(basic) => basic.parts([basic.list(), basic.payload()].concat().into()),
        };
        Message::new(parts, route.clone())
    }
}
