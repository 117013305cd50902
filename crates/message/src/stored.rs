//! The stored form of a message: a small head, followed by the bytes as they arrived.
//!
//! ```text
//! | format u8 | flags u8 | priority u8 | ttl u40 |                                format 1, since 0.1
//! | bare_at u32 | application_properties_at u32 | body_at u32 | deaths u32 |       numbers are big-endian
//! | keys u16 | exchange length u16 | exchange | key length u16 | key | ... |
//! | deaths: an AMQP list, `deaths` bytes: position of the first, array of maps, delivery-count unless 0,     |
//! |   number and time of redrives if there were any (then with the delivery-count, too)                      |
//! | wire ...                                                                      to the end
//! ```
//!
//! A message of AMQP 0.9.1 has format 2, and a flag bit says so, too. Versions that do not know such messages refuse the
//! format. Everything else is the same in both formats.

use std::fmt;
use std::sync::Arc;

use amqp10::{Array, Map, Reader, Value, encode};
use bytes::{Buf, Bytes, BytesMut};

use crate::deaths::{Death, DeathReason, Deaths, Redrives};
use crate::delivery::deaths_value;
use crate::envelope::{AMQP091, DURABLE, DURABLE_HEADER, Format, HAS_PRIORITY, HAS_TTL, Message, Parts};
use crate::route::Route;

/// The format of a message of AMQP 1.0.
const FORMAT: u8 = 1;

/// The format of a message of AMQP 0.9.1.
const FORMAT_AMQP091: u8 = FORMAT + 1;

/// The number of bytes before the route.
const HEAD: usize = 8 + 16;

/// Why bytes are not a valid stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredError {
    /// The message was written by a newer version.
    Format(u8),
    Malformed,
}

impl fmt::Display for StoredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => write!(f, "stored message of unknown format {format}"),
            Self::Malformed => f.write_str("malformed stored message"),
        }
    }
}

impl std::error::Error for StoredError {}

impl Message {
    /// Appends the head of the stored form. The caller appends [`Message::stored_tail`] after it.
    #[inline]
    pub fn put_stored_head(&self, out: &mut Vec<u8>) {
        let (flags, priority, ttl_ms) = self.terms();
        let (bare_at, application_properties_at, body_at) = self.offsets();
        let deaths = self.deaths().map(encode_deaths);
        let deaths_len = deaths.as_ref().map_or(0, |deaths| deaths.len() as u32);
        let mut head = [0; HEAD];
        // Of the eight bytes of the time to live, the first three are 0. They are overwritten.
        head[..8].copy_from_slice(&ttl_ms.to_be_bytes());
        head[..3].copy_from_slice(&[FORMAT + u8::from(flags & AMQP091 != 0), flags, priority]);
        for (at, number) in (8..).step_by(4).zip([bare_at, application_properties_at, body_at, deaths_len]) {
            head[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&head);
        out.extend_from_slice(self.route().stored());
        if let Some(deaths) = deaths {
            out.extend_from_slice(&deaths);
        }
    }

    /// Returns the bytes of the message as they arrived, which end the stored form.
    pub fn stored_tail(&self) -> &Bytes {
        self.wire()
    }

    /// Reads a stored message. The result shares the bytes of `stored`. It also shares its route with the
    /// previous message if that has the same.
    ///
    /// # Errors
    /// See [`StoredError`].
    pub fn from_stored(mut stored: Bytes, last: &mut LastRoute) -> Result<Self, StoredError> {
        let format = *stored.first().ok_or(StoredError::Malformed)?;
        let format = match format {
            FORMAT => Format::Amqp10,
            FORMAT_AMQP091 => Format::Amqp091,
            newer => return Err(StoredError::Format(newer)),
        };
        if stored.len() < HEAD + 2 {
            return Err(StoredError::Malformed);
        }
        stored.advance(1);
        let flags = stored.get_u8();
        let priority = stored.get_u8();
        let ttl_ms = u64::from(stored.get_u8()) << 32 | u64::from(stored.get_u32());
        let (bare_at, application_properties_at, body_at) =
            (stored.get_u32(), stored.get_u32(), stored.get_u32());
        let deaths_len = stored.get_u32() as usize;
        let route = last.take(&mut stored)?;
        if stored.len() < deaths_len {
            return Err(StoredError::Malformed);
        }
        let deaths = stored.split_to(deaths_len);
        let ascending = bare_at <= application_properties_at
            && application_properties_at <= body_at
            && body_at as usize <= stored.len();
        let is_amqp091 = flags & AMQP091 != 0;
        if !ascending || is_amqp091 != (format == Format::Amqp091) || is_amqp091 && bare_at != body_at {
            return Err(StoredError::Malformed);
        }
        let parts = Parts {
            format,
            wire: stored,
            bare_at,
            application_properties_at,
            body_at,
            durable: flags & DURABLE != 0,
            durable_header: flags & DURABLE_HEADER != 0,
            priority: (flags & HAS_PRIORITY != 0).then_some(priority),
            ttl_ms: (flags & HAS_TTL != 0).then_some(ttl_ms),
        };
        let message = Self::new(parts, route);
        if deaths.is_empty() {
            return Ok(message);
        }
        Ok(message.with_deaths(read_deaths(&deaths).ok_or(StoredError::Malformed)?))
    }
}

/// The route of the message that was read last. Most messages of a queue have the same route.
#[derive(Debug, Default)]
pub struct LastRoute(Option<(Box<[u8]>, Arc<Route>)>);

impl LastRoute {
    /// Reads the route at the start of `stored`.
    fn take(&mut self, stored: &mut Bytes) -> Result<Arc<Route>, StoredError> {
        if let Some((bytes, route)) = self.0.as_ref().filter(|(bytes, _)| stored.starts_with(bytes)) {
            stored.advance(bytes.len());
            return Ok(route.clone());
        }
        let whole = stored.clone();
        if stored.len() < 2 {
            return Err(StoredError::Malformed);
        }
        let keys = stored.get_u16();
        let exchange = take_text(stored)?;
        let keys = (0..keys).map(|_| take_text(stored)).collect::<Result<Vec<_>, _>>()?;
        let bytes = whole[..whole.len() - stored.len()].into();
        let route = Arc::new(Route::new(exchange, keys));
        self.0 = Some((bytes, route.clone()));
        Ok(route)
    }
}

fn encode_deaths(deaths: &Deaths) -> BytesMut {
    let mut list = vec![Value::Ulong(deaths.first_from_end() as u64), deaths_value(deaths)];
    let redrives = deaths.redrives();
    if deaths.delivery_count() > 0 || redrives.count > 0 {
        list.push(Value::Uint(deaths.delivery_count()));
    }
    if redrives.count > 0 {
        list.extend([Value::Uint(redrives.count), Value::Ulong(redrives.last_ms)]);
    }
    let mut encoded = BytesMut::new();
    encode::put_value(&mut encoded, &Value::List(list));
    encoded
}

fn take_text(stored: &mut Bytes) -> Result<Arc<str>, StoredError> {
    if stored.len() < 2 {
        return Err(StoredError::Malformed);
    }
    let len = usize::from(stored.get_u16());
    if stored.len() < len {
        return Err(StoredError::Malformed);
    }
    let text = stored.split_to(len);
    std::str::from_utf8(&text).map(Arc::from).map_err(|_| StoredError::Malformed)
}

fn read_deaths(stored: &[u8]) -> Option<Deaths> {
    let value = Reader::new(stored).read_value().ok()?;
    let [first_from_end, deaths, more @ ..] = value.as_list()? else { return None };
    let (delivery_count, redrives) = match *more {
        [] => (0, Redrives::default()),
        [Value::Uint(delivery_count)] => (delivery_count, Redrives::default()),
        [Value::Uint(delivery_count), Value::Uint(count), Value::Ulong(last_ms)] => {
            (delivery_count, Redrives { count, last_ms })
        }
        _ => return None,
    };
    let deaths = read_death_array(deaths)?;
    Some(Deaths::restore(deaths, first_from_end.as_u64()? as usize, delivery_count).with_redrives(redrives))
}

/// Reads the deaths of a message from an array of maps, as in the annotation `x-opt-deaths`.
pub(crate) fn read_death_array(array: &Value) -> Option<Vec<Death>> {
    let Value::Array(deaths) = array else { return None };
    deaths.items().iter().map(|death| read_death(death.as_map()?)).collect()
}

fn read_death(map: &Map) -> Option<Death> {
    let text = |key| map.get(key)?.as_str().map(Arc::<str>::from);
    let time = |key| match map.get(key)? {
        Value::Timestamp(ms) => Some(*ms as u64),
        _ => None,
    };
    let reason = text("reason")?;
    let reasons =
        [DeathReason::Expired, DeathReason::Rejected, DeathReason::MaxLength, DeathReason::DeliveryLimit];
    let keys = match map.get("routing-keys")? {
        Value::Array(keys) => read_keys(keys)?,
        _ => Vec::new(),
    };
    Some(Death {
        queue: text("queue")?,
        reason: reasons.into_iter().find(|r| r.as_str() == &*reason)?,
        count: map.get("count")?.as_u64()?,
        first_ms: time("first-time")?,
        last_ms: time("last-time")?,
        exchange: text("exchange")?,
        keys,
        ttl_ms: map.get("ttl").and_then(Value::as_u64),
    })
}

fn read_keys(keys: &Array) -> Option<Vec<Arc<str>>> {
    keys.items().iter().map(|k| k.as_str().map(Arc::<str>::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(message: &Message) -> Bytes {
        let mut out = Vec::new();
        message.put_stored_head(&mut out);
        out.extend_from_slice(message.stored_tail());
        out.into()
    }

    fn example() -> Message {
        let parts = Parts {
            format: Format::Amqp10,
            wire: Bytes::from_static(b"AAPPPPbody"),
            bare_at: 2,
            application_properties_at: 6,
            body_at: 6,
            durable: true,
            durable_header: true,
            priority: Some(9),
            ttl_ms: Some(60_000),
        };
        Message::new(parts, Arc::new(Route::new("x", vec!["k".into(), "cc".into()])))
    }

    /// The AMQP gate never accepts such keys, but a dead-letter key may be too long. Only the part beyond the
    /// limit is lost.
    #[test]
    fn a_route_that_is_too_large_is_cut_and_the_message_can_be_read() {
        let long: Arc<str> = "é".repeat(40_000).into();
        for (keys, first) in [
            (vec!["k".into(); 70_000], "k"),
            (vec!["k".into(); 65_536], "k"),
            (vec![long.clone(), "k".into()], &long[..65_534]),
        ] {
            let message = Message::new(example().parts(), Arc::new(Route::new("x", keys.clone())));
            let back = Message::from_stored(stored(&message), &mut LastRoute::default()).unwrap();
            assert_eq!(back.parts(), message.parts());
            assert_eq!((back.route().key(), &**back.route().exchange()), (first, "x"));
            assert_eq!(back.route().keys().len(), keys.len().min(Route::KEYS_MAX));
        }
    }

    #[test]
    fn stored_messages_round_trip() {
        let message = example();
        assert_eq!(Message::from_stored(stored(&message), &mut LastRoute::default()), Ok(message.clone()));
        let death = |queue: &str, reason| Death {
            queue: queue.into(),
            reason,
            count: 1,
            first_ms: 1,
            last_ms: 2,
            exchange: "x".into(),
            keys: vec!["k".into(), "cc".into()],
            ttl_ms: None,
        };
        let dead = message
            .with_death(death("q", DeathReason::Expired), 0)
            .with_death(death("r", DeathReason::MaxLength), 0);
        assert_eq!(Message::from_stored(stored(&dead), &mut LastRoute::default()), Ok(dead.clone()));
        let dead = dead.with_death(death("q", DeathReason::Expired), 3);
        assert_eq!(dead.delivery_count(), 3);
        assert_eq!(Message::from_stored(stored(&dead), &mut LastRoute::default()), Ok(dead.clone()));
        let redriven = dead.redriven(9);
        assert_eq!(redriven.deaths().map(Deaths::redrives), Some(Redrives { count: 1, last_ms: 9 }));
        assert_eq!(Message::from_stored(stored(&redriven), &mut LastRoute::default()), Ok(redriven));
    }

    #[test]
    fn truncated_bytes_are_no_message() {
        let whole = stored(&example());
        let tail = example().stored_tail().len();
        for len in 0..whole.len() - tail + 5 {
            assert_eq!(
                Message::from_stored(whole.slice(..len), &mut LastRoute::default()),
                Err(StoredError::Malformed),
                "{len}"
            );
        }
    }

    #[test]
    fn a_newer_format_is_refused() {
        let mut bytes = stored(&example()).to_vec();
        bytes[0] = 3;
        assert_eq!(
            Message::from_stored(bytes.into(), &mut LastRoute::default()),
            Err(StoredError::Format(3))
        );
    }

    #[test]
    fn messages_of_one_route_share_it() {
        let mut last = LastRoute::default();
        let of = |key: &str| stored(&Message::new(Parts::default(), Arc::new(Route::simple("x", key))));
        let mut read = |key: &str| Message::from_stored(of(key), &mut last).unwrap().route().clone();
        let (first, second, other) = (read("a"), read("a"), read("ab"));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((other.key(), read("a").key()), ("ab", "a"));
    }
}
