//! The largest delivery that a consumer takes.

use amqp091::frame::header_frame_len;
use bytes::BytesMut;

use crate::convert::Additions;
use crate::envelope::{Format, Message};

/// The largest delivery that a consumer takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMax {
    /// A consumer of AMQP 1.0 takes deliveries of at most this many bytes; see [`Message::delivery_bytes`].
    Whole(u64),
    /// A consumer of AMQP 0.9.1 takes frames with content headers of at most this many bytes; see
    /// [`Message::head_bytes`].
    Head(u64),
}

impl Message {
    /// Returns the size of the frame with the content header that a consumer of AMQP 0.9.1 gets, in bytes, without the
    /// headers that say how often the message was delivered.
    pub fn head_bytes(&self) -> u64 {
        let list_len = match self.format() {
            Format::Amqp091 if self.deaths().is_none() => self.property_list().len(),
            Format::Amqp091 | Format::Amqp10 => {
                let mut list = BytesMut::new();
                self.put_amqp091_properties(&Additions::default(), &mut list);
                list.len()
            }
        };
        header_frame_len(list_len) as u64
    }

    /// Returns true if a consumer with this limit takes the message. `delivery_count` is the number of failed deliveries so
    /// far. `redelivered` is true if a consumer has received the message before.
    pub fn fits(&self, max: DeliveryMax, delivery_count: u32, redelivered: bool) -> bool {
        match max {
            DeliveryMax::Whole(max) => self.fits_whole(max, delivery_count, redelivered),
            DeliveryMax::Head(max) => self.head_bytes() <= max,
        }
    }
}
