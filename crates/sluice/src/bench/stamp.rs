//! Messages that carry the time when they were sent.

use amqp10::{Value, sections};
use amqp091::{Properties, Table, TableWriter};
use bytes::{Bytes, BytesMut};
use client::Message;

/// The application property with the time: a long, in nanoseconds of `CLOCK_MONOTONIC`. Over AMQP 0.9.1 it is a header.
const PROPERTY: &str = "SendTime";

/// The value of the property `delivery_mode` of durable messages, and of others.
const DURABLE: u8 = 2;
const TRANSIENT: u8 = 1;

/// The constructor of an eight-byte long [1.6.9].
const LONG: u8 = 0x81;

/// The size of the buffers from which messages are cut, in bytes. So most messages need no allocation of
/// their own.
const BUFFER: usize = 64 * 1024;

/// Makes the messages of one sender.
pub(super) struct Stamper {
    message: Bytes,
    /// The offset in the encoded message of the eight bytes of the time.
    time_at: usize,
    buffer: BytesMut,
}

impl Stamper {
    pub(super) fn new(size: usize, durable: bool) -> Self {
        // A header is always present, because a message without one may count as durable.
        let placeholder = Value::Long(i64::MIN);
        let message = Message::data(vec![b'x'; size])
            .durable(durable)
            .application_property(PROPERTY, placeholder)
            .encode();
        let key = [PROPERTY.as_bytes(), &[LONG]].concat();
        let key_at = message.windows(key.len()).position(|w| w == key).unwrap_or_default();
        Self { message, time_at: key_at + key.len(), buffer: BytesMut::new() }
    }

    /// Returns the message with this time, in nanoseconds.
    pub(super) fn at(&mut self, sent_ns: u64) -> Bytes {
        if self.buffer.capacity() - self.buffer.len() < self.message.len() {
            self.buffer.reserve(BUFFER.max(self.message.len()));
        }
        self.buffer.extend_from_slice(&self.message);
        self.buffer[self.time_at..self.time_at + 8].copy_from_slice(&sent_ns.to_be_bytes());
        self.buffer.split().freeze()
    }
}

/// Returns when the message was sent, in nanoseconds; `None` if it has no valid time.
pub(super) fn sent_ns(message: &[u8]) -> Option<u64> {
    let range = sections::scan(message).ok()?.application_properties?;
    let section = message.get(range.start as usize..range.end as usize)?;
    let (_, value) = sections::map_pairs(section).ok()?.flatten().find(|(key, _)| *key == PROPERTY)?;
    let (&LONG, time) = value.split_first()? else { return None };
    Some(u64::from_be_bytes(time.try_into().ok()?))
}

/// The properties of the messages of one sender over AMQP 0.9.1, encoded.
pub(super) struct Stamped091 {
    list: BytesMut,
    /// The offset of the eight bytes of the time.
    time_at: usize,
}

impl Stamped091 {
    pub(super) fn new(durable: bool) -> Self {
        let mut headers = BytesMut::new();
        TableWriter::new(&mut headers).put(PROPERTY, &amqp091::Value::I64(i64::MAX));
        let properties = Properties {
            delivery_mode: Some(if durable { DURABLE } else { TRANSIENT }),
            // The table begins with the four bytes of its length.
            headers: Some(Table::from_entries(&headers[4..])),
            ..Properties::default()
        };
        let mut list = BytesMut::new();
        properties.put(&mut list);
        let time = i64::MAX.to_be_bytes();
        let time_at = list.windows(time.len()).position(|w| w == time).unwrap_or_default();
        Self { list, time_at }
    }

    /// Returns the property list with this time, in nanoseconds.
    pub(super) fn at(&mut self, sent_ns: u64) -> &[u8] {
        self.list[self.time_at..self.time_at + 8].copy_from_slice(&sent_ns.to_be_bytes());
        &self.list
    }
}

/// Returns when the message with this property list was sent, in nanoseconds; `None` if it has no valid time.
pub(super) fn sent_ns_091(properties: &[u8]) -> Option<u64> {
    match Properties::view(properties).ok()?.headers?.get(PROPERTY)? {
        amqp091::Value::I64(time) => u64::try_from(time).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_properties_come_back() {
        for durable in [false, true] {
            let mut stamped = Stamped091::new(durable);
            for time in [0, 1, u64::from(u32::MAX), i64::MAX as u64] {
                let list = stamped.at(time);
                assert_eq!(sent_ns_091(list), Some(time));
                assert_eq!(Properties::parse(list).unwrap().delivery_mode, Some(1 + u8::from(durable)));
            }
        }
        assert_eq!(sent_ns_091(&[0, 0]), None);
        assert_eq!(sent_ns_091(b""), None);
    }

    #[test]
    fn stamps_come_back() {
        for size in [0, 12, 300, 100_000] {
            let mut stamper = Stamper::new(size, true);
            for time in [0, 1, u64::from(u32::MAX), i64::MAX as u64] {
                let message = stamper.at(time);
                assert_eq!(sent_ns(&message), Some(time));
                assert_eq!(Message::decode(&message).unwrap().body_bytes().unwrap().len(), size);
            }
        }
        assert_eq!(sent_ns(&Message::data("x").encode()), None);
        assert_eq!(sent_ns(&Message::data("x").application_property(PROPERTY, 1i32).encode()), None);
        assert_eq!(sent_ns(b""), None);
    }
}
