//! The headers that a consumer of AMQP 0.9.1 gets: those of the message, and what the delivery adds.

use std::borrow::Cow;

use amqp091::{ArrayWriter, KEY_BYTES_MAX, Table, TableWriter, Value};
use bytes::BytesMut;

use super::{name, values};
use crate::deaths::{Death, Deaths};

/// The most bytes of headers that the broker adds to a message of AMQP 0.9.1 in its deliveries: `x-death`, the other headers
/// about deaths, and how often the message was delivered. It holds if the names of queues and exchanges have at most 255
/// bytes, as they have in AMQP 0.9.1. A publisher may send headers that are that much smaller than the largest frame, so
/// that a consumer with the same frame size still takes them.
pub const ADDED_HEADERS_MAX: u32 = 4096;

/// The most bytes of the entries of `x-death`. The newest entries that fit are sent. The others count for cycles and for
/// redrives. Without this bound, a message that dies in many queues would get a header that no client takes. All other
/// headers that deliveries add take less than the rest of [`ADDED_HEADERS_MAX`].
pub(crate) const DEATHS_BYTES_MAX: usize = 2560;

/// What a delivery adds to the headers of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// The header `x-delivery-count`: the number of failed deliveries so far. Only quorum queues add it.
    pub delivery_count: Option<u32>,
    /// The header `x-acquired-count`: how often consumers have received the message so far. Only quorum queues add it.
    pub acquired_count: Option<u32>,
    /// The header `x-stream-offset`: the offset of the message in its stream.
    pub stream_offset: Option<u64>,
}

impl Additions {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The headers of a message, in any order. Of several with the same name, the first one counts.
#[derive(Default)]
pub(super) struct Headers<'a>(Vec<(&'a str, Header<'a>)>);

/// The value of a header.
enum Header<'a> {
    Value(Value<'a>),
    /// A whole entry of a table as AMQP 0.9.1 encodes it.
    Entry(&'a [u8]),
    /// A value as AMQP 1.0 encodes it.
    Amqp10(&'a [u8]),
    Deaths(Cow<'a, Deaths>),
}

impl<'a> Headers<'a> {
    /// Adds the headers of a delivery, and those about deaths.
    pub(super) fn add(&mut self, additions: &Additions, deaths: Option<&'a Deaths>) {
        let Additions { delivery_count, acquired_count, stream_offset } = *additions;
        let numbers = [
            ("x-delivery-count", delivery_count.map(i64::from)),
            ("x-acquired-count", acquired_count.map(i64::from)),
            // An offset is far smaller than 2^63.
            ("x-stream-offset", stream_offset.map(|offset| offset as i64)),
        ];
        for (name, number) in numbers {
            number.into_iter().for_each(|number| self.add_value(name, Value::I64(number)));
        }
        let Some(deaths) = deaths else { return };
        self.0.push((name::DEATH, Header::Deaths(Cow::Borrowed(deaths))));
        let names = [
            ["x-first-death-queue", "x-first-death-reason", "x-first-death-exchange"],
            ["x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"],
        ];
        for (names, death) in names.into_iter().zip([deaths.first(), deaths.last()]) {
            let Some(death) = death else { continue };
            for (name, text) in
                names.into_iter().zip([&*death.queue, death.reason.as_str(), &*death.exchange])
            {
                self.add_value(name, Value::LongString(text.as_bytes()));
            }
        }
    }

    /// Adds the entries of a table.
    pub(super) fn add_entries(&mut self, table: Table<'a>) {
        let mut entries = table.iter();
        let mut before = entries.rest();
        while let Some((name, _)) = entries.next() {
            let after = entries.rest();
            self.0.push((name, Header::Entry(&before[..before.len() - after.len()])));
            before = after;
        }
    }

    pub(super) fn add_value(&mut self, name: &'a str, value: Value<'a>) {
        self.0.push((name, Header::Value(value)));
    }

    /// Adds a value as AMQP 1.0 encodes it. Leaves it out if the name is too long for AMQP 0.9.1.
    pub(super) fn add_amqp10(&mut self, name: &'a str, encoded: &'a [u8]) {
        if name.len() <= KEY_BYTES_MAX {
            self.0.push((name, Header::Amqp10(encoded)));
        }
    }

    /// Adds the deaths that a message of AMQP 1.0 has as an annotation.
    pub(super) fn add_deaths(&mut self, deaths: Deaths) {
        self.0.push((name::DEATH, Header::Deaths(Cow::Owned(deaths))));
    }

    /// Appends a table with the headers, in the order of their names, as in RabbitMQ. Appends nothing and returns `None`
    /// if there are none.
    pub(super) fn put(mut self, out: &mut BytesMut) -> Option<()> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by_key(|(name, _)| *name);
        self.0.dedup_by(|later, first| later.0 == first.0);
        let mut table = TableWriter::new(out);
        for (name, header) in &self.0 {
            match header {
                Header::Value(value) => table.put(name, value),
                Header::Entry(entry) => table.put_entries(entry),
                Header::Amqp10(encoded) => values::put_amqp091_entry(&mut table, name, encoded),
                Header::Deaths(deaths) => put_deaths(&mut table.array(name), deaths),
            }
        }
        Some(())
    }
}

/// Appends the newest entries of `x-death`, in at most [`DEATHS_BYTES_MAX`] bytes.
fn put_deaths(array: &mut ArrayWriter<'_>, deaths: &Deaths) {
    let mut room = DEATHS_BYTES_MAX;
    for death in deaths.iter() {
        let own = death_bytes(death);
        let (keys, keys_bytes) = keys_within(room.saturating_sub(own), death);
        let is_whole = own <= room && keys == death.keys.len();
        // The newest entry is always there. If it has very many routing keys, only the first of them are.
        if !(is_whole || array.is_empty()) {
            return;
        }
        put_death(&mut array.table(), death, keys);
        room = room.saturating_sub(own + keys_bytes);
    }
}

/// Returns how many of the first routing keys of a death take at most `room` bytes, and how many they take.
fn keys_within(room: usize, death: &Death) -> (usize, usize) {
    let (mut keys, mut bytes) = (0, 0);
    for key in &death.keys {
        let more = VALUE_START + key.len();
        if bytes + more > room {
            break;
        }
        (keys, bytes) = (keys + 1, bytes + more);
    }
    (keys, bytes)
}

/// The bytes before the text of a value: its type, and the length of a long string, a table or an array.
const VALUE_START: usize = 5;

/// Returns the size of an entry of `x-death` without its routing keys, in bytes.
fn death_bytes(death: &Death) -> usize {
    let number = |name: &str| 1 + name.len() + 9;
    let text = |name: &str, len: usize| 1 + name.len() + VALUE_START + len;
    let expiration = death.ttl_ms.map(|ttl_ms| text("original-expiration", ttl_ms.to_string().len()));
    VALUE_START
        + expiration.unwrap_or(0)
        + number("count")
        + text("reason", death.reason.as_str().len())
        + text("queue", death.queue.len())
        + number("time")
        + text("exchange", death.exchange.len())
        + text("routing-keys", 0)
}

/// Appends one entry of `x-death`, with the first `keys` of its routing keys.
fn put_death(table: &mut TableWriter<'_>, death: &Death, keys: usize) {
    if let Some(ttl_ms) = death.ttl_ms {
        table.put("original-expiration", &Value::LongString(ttl_ms.to_string().as_bytes()));
    }
    // Counts are far smaller than 2^63.
    table.put("count", &Value::I64(death.count as i64));
    table.put("reason", &Value::LongString(death.reason.as_str().as_bytes()));
    table.put("queue", &Value::LongString(death.queue.as_bytes()));
    table.put("time", &Value::Timestamp(death.first_ms / 1_000));
    table.put("exchange", &Value::LongString(death.exchange.as_bytes()));
    let mut array = table.array("routing-keys");
    death.keys.iter().take(keys).for_each(|key| array.put(&Value::LongString(key.as_bytes())));
}
