//! The messages that the management interface shows, encoded.

use broker::admin_api::{BrowsedRow, PeekedRow, ShownMessage};
use bytes::{Bytes, BytesMut};
use message::{Additions, DeliveryHeads, Format, Message};
use queue::{Delivery, PeekedMessage};

/// The usual size of a message's header and annotations, in bytes.
const HEAD_BYTES: usize = 128;

/// Returns a message of a stream.
pub(super) fn browsed(delivery: Delivery) -> BrowsedRow {
    let Delivery { seq, message, .. } = delivery;
    let route = message.route();
    BrowsedRow {
        offset: seq,
        exchange: route.exchange().clone(),
        routing_key: route.keys().first().cloned().unwrap_or_default(),
        // A stream has messages of AMQP 1.0 only.
        message: encoded(&message, 0, false, Some(seq)),
    }
}

/// Returns a message of AMQP 1.0 as a consumer gets it.
fn encoded(message: &Message, delivery_count: u32, redelivered: bool, offset: Option<u64>) -> Bytes {
    let bare = message.bare();
    let mut encoded = BytesMut::with_capacity(bare.len() + HEAD_BYTES);
    encoded.extend_from_slice(DeliveryHeads::default().head(message, delivery_count, redelivered, offset));
    encoded.extend_from_slice(&bare);
    encoded.freeze()
}

/// Returns a ready message of a queue.
pub(super) fn peeked_row(peeked: PeekedMessage) -> PeekedRow {
    let PeekedMessage { seq, message, at_ms, delivery_count, acquired_count, redelivered } = peeked;
    let route = message.route();
    PeekedRow {
        seq,
        exchange: route.exchange().clone(),
        routing_key: route.keys().first().cloned().unwrap_or_default(),
        at_ms,
        delivery_count,
        acquired_count,
        redelivered,
        message: match message.format() {
            Format::Amqp10 => ShownMessage::Amqp10(encoded(&message, delivery_count, redelivered, None)),
            Format::Amqp091 => {
                let (delivery_count, acquired_count) = (Some(delivery_count), Some(acquired_count));
                let additions = Additions { delivery_count, acquired_count, ..Additions::default() };
                let mut properties = BytesMut::new();
                message.put_amqp091_properties(&additions, &mut properties);
                let (payload, from) = message.amqp091_payload();
                ShownMessage::Amqp091 { properties: properties.freeze(), payload: payload.slice(from..) }
            }
        },
    }
}
