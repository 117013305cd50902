//! The sections before the bare message in a delivery: the header and the annotations.

use amqp10::encode::{Gathered, put_str, put_symbol, put_value};
use amqp10::sections::map_pairs;
use amqp10::{Array, Map, Symbol, Value, descriptor};
use bytes::{BufMut, BytesMut};

use crate::deaths::{Death, Deaths};
use crate::envelope::{Format, Message, SharedHead};
use crate::route::BROKER_ANNOTATIONS;

/// Annotations that the broker sets on a dead-lettered message.
const DEATH_ANNOTATIONS: &[&str] = &[
    "x-opt-deaths",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-last-death-exchange",
];

/// The annotation with the offset of a message in its stream.
pub(crate) const STREAM_OFFSET: &str = "x-stream-offset";

/// The annotations of quorum queues that say how often a message was acquired, and how often its delivery has failed.
const ACQUIRED_COUNT: &str = "x-acquired-count";
const DELIVERY_COUNT: &str = "x-delivery-count";

/// Descriptors in their short form.
const HEADER: u8 = descriptor::HEADER as u8;
const ANNOTATIONS: u8 = descriptor::MESSAGE_ANNOTATIONS as u8;

const NULL: u8 = 0x40;

/// The most bytes of a header section with two booleans, a ubyte and two uints.
pub(crate) const HEADER_MAX: usize = 6 + 2 + 2 + 2 * 5;

/// The largest content of a `map8`, including its count.
const MAP8_MAX: usize = 255;

/// The most bytes before the pairs of an annotations section: the descriptor, and the code, size and count of
/// a `map32`.
const ANNOTATIONS_START: usize = 3 + 9;

/// The most bytes of the pair of [`STREAM_OFFSET`].
const STREAM_OFFSET_PAIR_MAX: usize = 2 + STREAM_OFFSET.len() + 9;

/// Encodes the delivery heads (header and annotations) of consecutive deliveries. Most messages have the same
/// head except for the stream offset, so the last head is reused.
#[derive(Debug, Default)]
pub struct DeliveryHeads {
    /// The encoding of the last head.
    bytes: BytesMut,
    /// Identifies the messages whose first delivery has this head, apart from the offset. `None` if the head
    /// cannot be reused.
    shared: Option<SharedHead>,
    /// The encoding of the stream offset at the end of the last head.
    offset: OffsetForm,
}

/// How the stream offset is encoded in a head, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OffsetForm {
    #[default]
    None,
    Small,
    Whole,
}

impl OffsetForm {
    fn of(offset: Option<u64>) -> Self {
        match offset.map(i8::try_from) {
            None => Self::None,
            Some(Ok(_)) => Self::Small,
            Some(Err(_)) => Self::Whole,
        }
    }
}

impl DeliveryHeads {
    /// Returns header and annotations for one delivery. The caller sends the bare message after it.
    /// The message must be in AMQP 1.0: see [`Message::in_amqp10`].
    /// `delivery_count` is the number of failed deliveries so far. `redelivered` is true if a consumer has
    /// received the message before. `stream_offset` is its offset if it is from a stream.
    pub fn head(
        &mut self,
        message: &Message,
        delivery_count: u32,
        redelivered: bool,
        stream_offset: Option<u64>,
    ) -> &[u8] {
        let (first, form) = (delivery_count == 0 && !redelivered, OffsetForm::of(stream_offset));
        let same = first && self.shared.as_ref().is_some_and(|shared| shared.covers(message));
        match (same && self.offset == form, stream_offset) {
            (false, _) => {
                self.bytes.clear();
                message.put_delivery_head(delivery_count, redelivered, stream_offset, &mut self.bytes);
                self.shared = SharedHead::of(message).filter(|_| first);
                self.offset = form;
            }
            (true, None) => {}
            // The offset is at the end of the last pair.
            (true, Some(offset)) if form == OffsetForm::Whole => {
                if let Some(last) = self.bytes.last_chunk_mut() {
                    *last = offset.to_be_bytes();
                }
            }
            (true, Some(offset)) => {
                if let Some(last) = self.bytes.last_mut() {
                    *last = offset as u8;
                }
            }
        }
        &self.bytes
    }

    /// Like [`Self::head`], for a message that has returned to its quorum queue. It says how often consumers have acquired the
    /// message, and how often its delivery has failed. As in RabbitMQ, no annotation says 0.
    pub fn head_after_return(
        &mut self,
        message: &Message,
        delivery_count: u32,
        acquired_count: u32,
    ) -> &[u8] {
        let counts = [(ACQUIRED_COUNT, acquired_count.into()), (DELIVERY_COUNT, delivery_count.into())];
        let known = if delivery_count == 0 { 1 } else { 2 };
        self.shared = None;
        self.bytes.clear();
        message.put_delivery_header(delivery_count, true, &mut self.bytes);
        message.put_all_annotations(&counts[..known], &mut self.bytes);
        &self.bytes
    }
}

impl Message {
    /// Returns the size of a delivery in bytes: header, annotations, bare message and footer. The arguments
    /// are those of [`DeliveryHeads::head`].
    pub fn delivery_bytes(&self, delivery_count: u32, redelivered: bool) -> u64 {
        if self.format() == Format::Amqp091 {
            return self.in_amqp10().delivery_bytes(delivery_count, redelivered);
        }
        let mut head = BytesMut::new();
        self.put_delivery_head(delivery_count, redelivered, None, &mut head);
        self.len() + head.len() as u64
    }

    /// Returns true if [`Message::delivery_bytes`] is at most `max_bytes`. Encodes the head only if an
    /// estimate does not decide.
    pub(crate) fn fits_whole(&self, max_bytes: u64, delivery_count: u32, redelivered: bool) -> bool {
        let sections = match self.format() {
            Format::Amqp10 => self.bytes_in_memory(),
            Format::Amqp091 => self.bytes_in_amqp10_max(),
        };
        let most = sections + (HEADER_MAX + ANNOTATIONS_START + self.route().annotations().len()) as u64;
        match self.deaths() {
            _ if self.len() > max_bytes => false,
            None if most <= max_bytes => true,
            _ => self.delivery_bytes(delivery_count, redelivered) <= max_bytes,
        }
    }

    /// Appends header and annotations for one delivery. The arguments are those of [`DeliveryHeads::head`].
    pub(crate) fn put_delivery_head(
        &self,
        delivery_count: u32,
        redelivered: bool,
        stream_offset: Option<u64>,
        out: &mut BytesMut,
    ) {
        self.put_delivery_header(delivery_count, redelivered, out);
        self.put_annotations(stream_offset, out);
    }

    #[inline]
    fn put_delivery_header(&self, delivery_count: u32, redelivered: bool, out: &mut BytesMut) {
        Gathered::append(out, |head| {
            self.put_header(5, head, |head| {
                head.boolean(!redelivered && delivery_count == 0 && self.deaths().is_none());
                head.uint(delivery_count);
            });
        });
    }

    /// Adds a header section with `fields` fields: first the lasting fields that the sender set (at most
    /// three), then those that `more` adds.
    #[inline]
    pub(crate) fn put_header(
        &self,
        fields: u8,
        head: &mut Gathered<'_, HEADER_MAX>,
        more: impl FnOnce(&mut Gathered<'_, HEADER_MAX>),
    ) {
        head.bytes(&[0x00, 0x53, HEADER, 0xc0]);
        let size_at = head.len();
        head.bytes(&[0, fields]);
        head.boolean(self.durable_header());
        match self.priority() {
            Some(priority) => head.bytes(&[0x50, priority]),
            None if fields > 1 => head.byte(NULL),
            None => {}
        }
        match self.ttl_ms() {
            Some(ttl_ms) => head.uint(u32::try_from(ttl_ms).unwrap_or(u32::MAX)),
            None if fields > 2 => head.byte(NULL),
            None => {}
        }
        more(head);
        // The size field counts everything after itself.
        head.overwrite(size_at, &[(head.len() - size_at - 1) as u8]);
    }

    /// Appends the annotations that receivers see.
    pub(crate) fn put_annotations(&self, stream_offset: Option<u64>, out: &mut BytesMut) {
        let route = self.route().annotations();
        if !self.is_plain() || route.len() + STREAM_OFFSET_PAIR_MAX >= MAP8_MAX {
            let offset = stream_offset.map(|offset| (STREAM_OFFSET, offset));
            self.put_all_annotations(offset.as_slice(), out);
            return;
        }
        let start = out.len();
        let items = if stream_offset.is_some() { 6 } else { 4 };
        out.put_slice(&[0x00, 0x53, ANNOTATIONS, 0xc1, 0, items]);
        out.put_slice(route);
        stream_offset.into_iter().for_each(|offset| put_long(STREAM_OFFSET, offset, out));
        // The size field counts everything after itself.
        out[start + 4] = (out.len() - start - 5) as u8;
    }

    /// Appends the annotations that receivers see, with the numbers that the queue adds.
    fn put_all_annotations(&self, added: &[(&str, u64)], out: &mut BytesMut) {
        out.put_slice(&[0x00, 0x53, ANNOTATIONS]);
        let start = out.len();
        out.put_slice(&[0xd1, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.put_slice(self.route().annotations());
        added.iter().for_each(|(name, number)| put_long(name, *number, out));
        let mut pairs = 2 + added.len() as u32;
        // The scan at intake has checked that the section is well-formed.
        for (key, value) in map_pairs(self.annotations()).into_iter().flatten().flatten() {
            let reserved = BROKER_ANNOTATIONS.contains(&key)
                || added.iter().any(|(name, _)| *name == key)
                || (self.deaths().is_some() && DEATH_ANNOTATIONS.contains(&key));
            if !reserved {
                put_symbol(out, key);
                out.put_slice(value);
                pairs += 1;
            }
        }
        if let Some(deaths) = self.deaths() {
            pairs += put_deaths(deaths, out);
        }
        let size = (out.len() - start - 5) as u32;
        out[start + 1..start + 5].copy_from_slice(&size.to_be_bytes());
        out[start + 5..start + 9].copy_from_slice(&(pairs * 2).to_be_bytes());
    }
}

/// Appends an annotation with a number: a symbol and a long.
fn put_long(name: &str, number: u64, out: &mut BytesMut) {
    put_symbol(out, name);
    match i8::try_from(number) {
        Ok(small) => out.put_slice(&[0x55, small as u8]),
        Err(_) => {
            out.put_u8(0x81);
            out.put_u64(number);
        }
    }
}

/// Appends the annotations about deaths. Returns the number of pairs.
fn put_deaths(deaths: &Deaths, out: &mut BytesMut) -> u32 {
    let mut pairs = 0;
    put_symbol(out, DEATH_ANNOTATIONS[0]);
    put_value(out, &deaths_value(deaths));
    pairs += 1;
    for (names, death) in
        [(&DEATH_ANNOTATIONS[1..4], deaths.first()), (&DEATH_ANNOTATIONS[4..7], deaths.last())]
    {
        let Some(death) = death else { continue };
        for (name, text) in names.iter().zip([&*death.queue, death.reason.as_str(), &*death.exchange]) {
            put_symbol(out, name);
            put_str(out, text);
            pairs += 1;
        }
    }
    pairs
}

/// Returns the deaths as an array of maps, most recent first.
pub(crate) fn deaths_value(deaths: &Deaths) -> Value {
    let items: Vec<Value> = deaths.iter().map(death_value).collect();
    Array::try_from_items(items).map_or(Value::Null, Value::Array)
}

fn death_value(death: &Death) -> Value {
    let mut map = Map::new();
    let mut put = |key: &'static str, value: Value| map.insert(Symbol::from_static(key), value);
    if let Some(ttl) = death.ttl_ms {
        put("ttl", u32::try_from(ttl).map_or(Value::Ulong(ttl), Value::Uint));
    }
    put("queue", Value::String(death.queue.to_string()));
    put("reason", Value::Symbol(Symbol::from_static(death.reason.as_str())));
    put("count", Value::Ulong(death.count));
    put("first-time", Value::Timestamp(death.first_ms as i64));
    put("last-time", Value::Timestamp(death.last_ms as i64));
    put("exchange", Value::String(death.exchange.to_string()));
    let keys: Vec<Value> = death.keys.iter().map(|k| Value::String(k.to_string())).collect();
    put("routing-keys", Array::try_from_items(keys).map_or(Value::Null, Value::Array));
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use amqp10::sections::scan;
    use amqp10::{Header, Reader};
    use bytes::Bytes;

    use super::*;
    use crate::{DeathReason, DeliveryMax, Parts, Route, trim};

    fn receive(wire: &[u8]) -> Message {
        let sections = scan(wire).unwrap();
        let trimmed = trim(&sections, true);
        let wire = Bytes::copy_from_slice(&wire[trimmed.range.clone()]);
        Message::new(trimmed.into_parts(wire), Arc::new(Route::simple("x", "k")))
    }

    fn deliver(message: &Message, count: u32, redelivered: bool) -> Vec<u8> {
        let mut out = BytesMut::new();
        message.put_delivery_head(count, redelivered, None, &mut out);
        out.extend_from_slice(&message.bare());
        out.to_vec()
    }

    /// Header, delivery-annotations, message-annotations {x-a: 1, x-exchange: "lie"}, data.
    const FULL: &[u8] = b"\x00\x53\x70\xc0\x05\x03\x42\x50\x05\x40\
        \x00\x53\x71\xc1\x01\x00\
        \x00\x53\x72\xc1\x19\x04\xa3\x03x-a\x54\x01\xa3\x0ax-exchange\xa1\x03lie\
        \x00\x53\x75\xa0\x02hi";

    #[test]
    fn header_and_annotations_are_rebuilt() {
        let message = receive(FULL);
        assert!(!message.is_durable() && !message.durable_header());
        let out = deliver(&message, 0, false);
        let sections = scan(&out).unwrap();
        let header = sections.header.unwrap();
        assert_eq!(
            (header.durable, header.priority, header.first_acquirer),
            (Some(false), Some(5), Some(true))
        );
        assert_eq!(sections.delivery_annotations, None);
        let range = sections.message_annotations.unwrap();
        let section = &out[range.start as usize..range.end as usize];
        let keys: Vec<_> = map_pairs(section).unwrap().map(|p| p.unwrap().0.to_owned()).collect();
        assert_eq!(keys, ["x-exchange", "x-routing-key", "x-a"]);
        assert!(out.ends_with(b"\x00\x53\x75\xa0\x02hi"));
    }

    /// Tests every field of the header in each of its encodings.
    #[test]
    fn headers_contain_every_known_field() {
        for priority in [None, Some(0), Some(9)] {
            for ttl_ms in [None, Some(0), Some(0xff), Some(0x100), Some(u64::from(u32::MAX))] {
                for (durable, count) in [(false, 0), (true, 0xff), (true, 0x100), (false, u32::MAX)] {
                    let parts = Parts {
                        wire: Bytes::from_static(b"\x00\x53\x77\x40"),
                        durable_header: durable,
                        priority,
                        ttl_ms,
                        ..Parts::default()
                    };
                    let message = Message::new(parts, Arc::new(Route::simple("x", "k")));
                    let header = scan(&deliver(&message, count, false)).unwrap().header.unwrap();
                    let expected = Header {
                        durable: Some(durable),
                        priority,
                        ttl: ttl_ms.map(|ttl_ms: u64| ttl_ms as u32),
                        first_acquirer: Some(count == 0),
                        delivery_count: Some(count),
                    };
                    assert_eq!(header, expected);
                }
            }
        }
    }

    /// Tests the lengths around the largest annotations that a `map8` can hold.
    #[test]
    fn long_routes_are_encoded_completely() {
        for len in 150..250 {
            let key = "k".repeat(len);
            let parts = Parts { wire: Bytes::from_static(b"\x00\x53\x77\x40"), ..Parts::default() };
            let message = Message::new(parts, Arc::new(Route::simple("x", &key)));
            for offset in [None, Some(0), Some(127), Some(128), Some(u64::MAX >> 1)] {
                let mut out = BytesMut::new();
                message.put_delivery_head(0, false, offset, &mut out);
                out.extend_from_slice(&message.bare());
                let range = scan(&out).unwrap().message_annotations.unwrap();
                let section = &out[range.start as usize..range.end as usize];
                let pairs: Vec<_> = map_pairs(section).unwrap().map(Result::unwrap).collect();
                let text = |i: usize| Reader::new(pairs[i].1).read_str_opt().unwrap();
                assert_eq!((text(0), text(1)), (Some("x"), Some(&*key)));
                let found = pairs.get(2).map(|(name, value)| (*name, Reader::new(value).read_value()));
                let expected = offset.map(|n| (STREAM_OFFSET, Ok(Value::Long(n as i64))));
                assert_eq!(found, expected, "{len}");
            }
        }
    }

    #[test]
    fn a_redelivery_is_not_the_first_acquisition() {
        let message = receive(b"\x00\x53\x77\x40");
        assert!(message.is_durable(), "no header at all: durable by default");
        for (count, redelivered, first) in [(0, false, true), (0, true, false), (1, false, false)] {
            let header = scan(&deliver(&message, count, redelivered)).unwrap().header.unwrap();
            assert_eq!((header.first_acquirer, header.delivery_count), (Some(first), Some(count)));
        }
    }

    #[test]
    fn deaths_are_in_the_annotations() {
        let death = Death {
            queue: "q".into(),
            reason: DeathReason::Rejected,
            count: 1,
            first_ms: 7,
            last_ms: 7,
            exchange: "".into(),
            keys: vec!["q".into()],
            ttl_ms: None,
        };
        let message = receive(FULL).with_death(death, 1);
        let out = deliver(&message, 1, false);
        let range = scan(&out).unwrap().message_annotations.unwrap();
        let section = &out[range.start as usize..range.end as usize];
        let keys: Vec<_> = map_pairs(section).unwrap().map(|p| p.unwrap().0.to_owned()).collect();
        assert_eq!(keys[3..], DEATH_ANNOTATIONS[..]);
    }

    /// Tests the limits around the exact size, for messages with few and with many bytes before the bare
    /// message.
    #[test]
    fn a_delivery_fits_to_the_byte() {
        let death = Death {
            queue: "q".into(),
            reason: DeathReason::Rejected,
            count: 1,
            first_ms: 7,
            last_ms: 7,
            exchange: "".into(),
            keys: vec!["q".into()],
            ttl_ms: None,
        };
        let long = Arc::new(Route::simple("x", &"k".repeat(300)));
        let plain = receive(b"\x00\x53\x75\xa0\x02hi");
        let messages =
            [plain.clone(), plain.clone().rerouted(long), receive(FULL), receive(FULL).with_death(death, 1)];
        for (i, message) in messages.iter().enumerate() {
            for (count, redelivered) in [(0, false), (0, true), (1, true), (256, true)] {
                let bytes = deliver(message, count, redelivered).len() as u64;
                assert_eq!(message.delivery_bytes(count, redelivered), bytes);
                for max in bytes.saturating_sub(200)..bytes + 200 {
                    assert_eq!(
                        message.fits(DeliveryMax::Whole(max), count, redelivered),
                        bytes <= max,
                        "{i}: {bytes} of {max}"
                    );
                }
                let fits = |max| message.fits(DeliveryMax::Whole(max), count, redelivered);
                assert!(!fits(0) && fits(u64::MAX));
            }
        }
    }

    #[test]
    fn reused_heads_equal_fresh_heads() {
        let wire = |section: &[u8]| [section, b"\x00\x53\x75\xa0\x02hi"].concat();
        let plain = receive(&wire(b""));
        let again = Message::new(plain.parts(), plain.route().clone());
        let urgent = receive(&wire(b"\x00\x53\x70\xc0\x04\x02\x41\x50\x09"));
        let full = receive(FULL);
        let mut heads = DeliveryHeads::default();
        for step in 0..2000u64 {
            // The steps visit the pairs such that every message precedes every other one, and every offset
            // every other one.
            let message = [&plain, &again, &plain, &urgent, &full][(step % 5) as usize];
            let offset =
                [None, Some(1), Some(127), Some(128), Some(u64::MAX), Some(3)][(step / 5 % 6) as usize];
            let offset = offset.filter(|_| step % 7 != 6);
            let (count, redelivered) =
                [(0, false), (0, false), (0, true), (1, true)][(step / 3 % 4) as usize];
            let mut each = BytesMut::new();
            message.put_delivery_head(count, redelivered, offset, &mut each);
            assert_eq!(heads.head(message, count, redelivered, offset), each, "step {step}");
        }
    }
}
