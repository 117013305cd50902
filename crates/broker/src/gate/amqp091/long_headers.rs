//! Messages whose content header does not fit into a frame of a client with a small `frame_max`.
//!
//! The protocol cannot split a content header. A client that has agreed on at least [`LONG_HEADERS_FROM`] gets it in a frame of
//! any size, as from RabbitMQ. A client with less may close its connection for it, so it never gets one:
//!
//! | from | a longer header |
//! |---|---|
//! | a queue | the queue skips the consumer ([`queue::Attach::message_bytes_max`]) |
//! | a stream | the consumer is cancelled: it would not notice the gap |
//! | `basic.get` | the message returns to its queue, and the channel ends with 406 |
//! | a direct reply | the reply is dropped, and the channel ends with 406 |
//!
//! [`LONG_HEADERS_FROM`]: amqp091::connection::LONG_HEADERS_FROM

use amqp091::frame::header_frame_len;
use bytes::BytesMut;
use message::{Additions, DeliveryMax, Message};

use super::{Gate, Refused, refusal};

impl Gate {
    /// Returns the largest frame with a content header that the client may be sent. `None` means any size.
    pub(super) fn header_max(&self) -> Option<DeliveryMax> {
        self.conn.tuned().header_frame_max().map(|max| DeliveryMax::Head(max.into()))
    }

    /// Returns the size of the frame for the content header in the buffer, in bytes.
    pub(super) fn header_needs(&self) -> usize {
        header_frame_len(self.properties.len())
    }

    /// Returns the error for a message whose content header is in the buffer and too long for the client.
    pub(super) fn long_header(&self, what: &str) -> Refused {
        let (needed, frame_max) = (self.header_needs(), self.conn.tuned().frame_max);
        refusal::precondition_failed(format!(
            "the headers of {what} need a frame of {needed} bytes, but the client has negotiated frame_max = {frame_max}"
        ))
    }
}

/// Leaves out how often the message was delivered, if the content header fits only then. A queue does not count these headers
/// when it checks that a message fits. Returns false if the content header is too long all the same.
#[inline(never)]
pub(super) fn shorten(
    message: &Message,
    additions: &Additions,
    max: DeliveryMax,
    properties: &mut BytesMut,
) -> bool {
    if is_within(max, properties) {
        return true;
    }
    properties.clear();
    let offset = Additions { stream_offset: additions.stream_offset, ..Additions::default() };
    message.put_amqp091_properties(&offset, properties);
    is_within(max, properties)
}

/// Returns whether a property list fits.
fn is_within(max: DeliveryMax, properties: &[u8]) -> bool {
    match max {
        DeliveryMax::Head(max) => header_frame_len(properties.len()) as u64 <= max,
        // A limit of the other protocol.
        DeliveryMax::Whole(_) => true,
    }
}
