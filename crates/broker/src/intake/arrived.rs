//! A message that has just come from a publisher.

use std::ops::Deref;

use amqp10::sections::{self, SectionError, Sections};
use bytes::Bytes;

use crate::cx::Cx;

/// The bytes of a message in the broker's format, which is the message format of AMQP 1.0.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// In the read buffer: they must be copied to be kept.
    Borrowed(&'a [u8]),
    /// In a buffer that may be kept.
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

/// A message whose sections have been found.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    pub body: Body<'a>,
    /// See [`scan`]. It is lent, because it is large and moving it costs as much as routing.
    pub found: &'a Sections,
}

/// Counts a message that has come, and finds its sections.
///
/// # Errors
/// It is not a message. It is counted all the same.
#[inline(always)]
pub fn scan(body: Body<'_>, wants_receipt: bool, cx: &mut Cx<'_>) -> Result<Sections, SectionError> {
    cx.counters.received += 1;
    cx.counters.received_confirm += u64::from(wants_receipt);
    sections::scan(&body)
}
