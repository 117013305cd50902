//! What stands before the bare message when it is delivered: a header and the annotations (behaviour B.8).

use amqp10::encode::{ListWriter, put_descriptor, put_str, put_symbol, put_value};
use amqp10::sections::map_pairs;
use amqp10::{Array, Map, Symbol, Value, descriptor};
use bytes::{BufMut, BytesMut};

use crate::deaths::{Death, Deaths};
use crate::envelope::Message;

/// Annotations that only the broker sets; the publisher's are not passed on.
const OURS: &[&str] = &["x-exchange", "x-routing-key"];

/// Those it sets when a message has died.
const OURS_OF_THE_DEAD: &[&str] = &[
    "x-opt-deaths",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-last-death-exchange",
];

/// Where a message stands in its stream (behaviour B.8).
pub(crate) const STREAM_OFFSET: &str = "x-stream-offset";

/// Largest content of a `map8`, its count included.
const MAP8_MAX: usize = 255;

/// Most that the pair of [`STREAM_OFFSET`] takes.
const STREAM_OFFSET_PAIR_MAX: usize = 2 + STREAM_OFFSET.len() + 9;

/// Appends the pairs for exchange and routing key.
pub(crate) fn put_route_annotations(exchange: &str, key: &str, out: &mut BytesMut) {
    put_symbol(out, OURS[0]);
    put_str(out, exchange);
    put_symbol(out, OURS[1]);
    put_str(out, key);
}

impl Message {
    /// Appends header and annotations for one delivery. The bare message follows as it is.
    /// `delivery_count`: failed deliveries before; `redelivered`: somebody has had it before; `stream_offset`: where it
    /// stands, if it comes from a stream.
    pub fn put_delivery_head(
        &self,
        delivery_count: u32,
        redelivered: bool,
        stream_offset: Option<u64>,
        out: &mut BytesMut,
    ) {
        let mut header = ListWriter::new(out, descriptor::HEADER);
        header.put(&self.durable_header());
        header.optional(&self.priority());
        header.optional(&self.ttl_ms());
        header.put(&(!redelivered && delivery_count == 0 && self.deaths().is_none()));
        header.put(&delivery_count);
        header.finish();
        self.put_annotations(stream_offset, out);
    }

    /// Appends the annotations that receivers see.
    pub(crate) fn put_annotations(&self, stream_offset: Option<u64>, out: &mut BytesMut) {
        put_descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        let route = self.route().annotations();
        let plain = self.annotations().is_empty() && self.deaths().is_none();
        if !plain || route.len() + STREAM_OFFSET_PAIR_MAX >= MAP8_MAX {
            self.put_all_annotations(stream_offset, out);
            return;
        }
        let start = out.len();
        out.put_slice(&[0xc1, 0, if stream_offset.is_some() { 6 } else { 4 }]);
        out.put_slice(route);
        put_stream_offset(stream_offset, out);
        out[start + 1] = (out.len() - start - 2) as u8;
    }

    fn put_all_annotations(&self, stream_offset: Option<u64>, out: &mut BytesMut) {
        let start = out.len();
        out.put_slice(&[0xd1, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.put_slice(self.route().annotations());
        let mut pairs = 2 + put_stream_offset(stream_offset, out);
        // The scan at intake has shown that the section is well-formed.
        for (key, value) in map_pairs(self.annotations()).into_iter().flatten().flatten() {
            let ours = OURS.contains(&key)
                || (stream_offset.is_some() && key == STREAM_OFFSET)
                || (self.deaths().is_some() && OURS_OF_THE_DEAD.contains(&key));
            if !ours {
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

/// Returns the number of pairs.
fn put_stream_offset(stream_offset: Option<u64>, out: &mut BytesMut) -> u32 {
    let Some(offset) = stream_offset else { return 0 };
    put_symbol(out, STREAM_OFFSET);
    put_value(out, &Value::Long(offset as i64));
    1
}

fn put_deaths(deaths: &Deaths, out: &mut BytesMut) -> u32 {
    let mut pairs = 0;
    put_symbol(out, OURS_OF_THE_DEAD[0]);
    put_value(out, &deaths_value(deaths));
    pairs += 1;
    for (names, death) in
        [(&OURS_OF_THE_DEAD[1..4], deaths.first()), (&OURS_OF_THE_DEAD[4..7], deaths.last())]
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

/// An array of maps, most recent first.
pub(crate) fn deaths_value(deaths: &Deaths) -> Value {
    let items: Vec<Value> = deaths.iter().map(death_value).collect();
    Array::try_from_items(items).map_or(Value::Null, Value::Array)
}

fn death_value(death: &Death) -> Value {
    let mut map = Map::new();
    let mut put = |key: &'static str, value: Value| map.insert(Symbol::from_static(key), value);
    if let Some(ttl) = death.ttl_ms {
        put("ttl", Value::Uint(ttl));
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
    use bytes::Bytes;

    use super::*;
    use crate::{DeathReason, Route, kept};

    fn receive(wire: &[u8]) -> Message {
        let sections = scan(wire).unwrap();
        let kept = kept(&sections, true);
        let home = Bytes::copy_from_slice(&wire[kept.range.clone()]);
        Message::new(kept.into_parts(home), Arc::new(Route::simple("x", "k")))
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
    fn deaths_are_told() {
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
        assert_eq!(keys[3..], OURS_OF_THE_DEAD[..]);
    }
}
