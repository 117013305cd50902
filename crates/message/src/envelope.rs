//! One message inside the broker.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::deaths::Deaths;
use crate::delivery::put_route_annotations;
use crate::stored::put_stored_route;

/// Where a message was published to: the exchange and the routing keys it was routed by.
///
/// Shared by every message of a link with a fixed target, so that it costs a message one pointer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    exchange: Arc<str>,
    keys: Vec<Arc<str>>,
    /// Encoded once: the two annotations that tell receivers of it, and behind them its stored form.
    encoded: Box<[u8]>,
    /// Where in `encoded` the stored form begins.
    stored_at: usize,
}

impl Route {
    /// Keys that a route can hold, that of the address and those of `x-cc` together: what the stored form can count.
    /// Further ones are left out there.
    pub const KEYS_MAX: usize = u16::MAX as usize;

    /// Bytes that each of them can have there. What is behind them is cut off.
    pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

    /// `exchange` is empty for the default exchange. The first of `keys` is the routing key; the others came
    /// from `x-cc` (behaviour B.4).
    pub fn new(exchange: impl Into<Arc<str>>, keys: Vec<Arc<str>>) -> Self {
        let exchange = exchange.into();
        let mut encoded = BytesMut::new();
        put_route_annotations(&exchange, keys.first().map_or("", |k| k), &mut encoded);
        let stored_at = encoded.len();
        put_stored_route(&exchange, &keys, &mut encoded);
        Self { exchange, keys, encoded: encoded.as_ref().into(), stored_at }
    }

    /// A route with one key.
    pub fn simple(exchange: &str, key: &str) -> Self {
        Self::new(exchange, vec![key.into()])
    }

    pub fn exchange(&self) -> &Arc<str> {
        &self.exchange
    }

    pub fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    pub(crate) fn annotations(&self) -> &[u8] {
        &self.encoded[..self.stored_at]
    }

    /// As it stands in a stored message.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.encoded[self.stored_at..]
    }

    /// The routing key, without those of `x-cc`.
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", |k| k)
    }
}

/// What a message is made of; see [`Message`] for each field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The encoded message-annotations section, if any, followed by the bare message and footer.
    pub wire: Bytes,
    /// Length of the message-annotations section: the bare message starts here.
    pub bare_at: u32,
    /// Where the application-properties section starts; equal to `body_at` if there is none.
    pub application_properties_at: u32,
    /// Where the body starts.
    pub body_at: u32,
    /// Stored so that it survives the process.
    pub durable: bool,
    /// The sender's header said `durable=true`; shown to receivers.
    pub durable_header: bool,
    pub priority: Option<u8>,
    /// The sender's time to live, in milliseconds.
    pub ttl_ms: Option<u32>,
}

/// A message and what the broker knows of it. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    wire: Bytes,
    route: Arc<Route>,
    deaths: Option<Box<Deaths>>,
    bare_at: u32,
    application_properties_at: u32,
    body_at: u32,
    ttl_ms: u32,
    priority: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Message>() <= 128, "house.md section 4: an envelope is at most 128 bytes");

/// What messages have in common before whose bare messages the same stands, wherever that is written: route, and what their
/// senders said that lasts.
#[derive(Clone, Debug)]
pub(crate) struct Alike {
    route: Arc<Route>,
    flags: u8,
    priority: u8,
    ttl_ms: u32,
}

impl Alike {
    /// `None` if more is told of the message.
    pub fn of(message: &Message) -> Option<Self> {
        let Message { route, flags, priority, ttl_ms, .. } = message;
        let (flags, priority, ttl_ms) = (flags & LASTING, *priority, *ttl_ms);
        message.is_plain().then(|| Self { route: route.clone(), flags, priority, ttl_ms })
    }

    /// Whether this message has it, too.
    pub fn covers(&self, message: &Message) -> bool {
        Arc::ptr_eq(&self.route, &message.route)
            && self.flags == message.flags & LASTING
            && (self.priority, self.ttl_ms) == (message.priority, message.ttl_ms)
            && message.is_plain()
    }
}

// They stand in stored messages, too.
pub(crate) const DURABLE: u8 = 1;
pub(crate) const DURABLE_HEADER: u8 = 1 << 1;
pub(crate) const HAS_PRIORITY: u8 = 1 << 2;
pub(crate) const HAS_TTL: u8 = 1 << 3;

/// Said by the sender, and shown to receivers.
const LASTING: u8 = DURABLE_HEADER | HAS_PRIORITY | HAS_TTL;

impl Message {
    /// Another wire, in which bare message, application-properties and body begin at these places. All else stays.
    pub(crate) fn set_wire(&mut self, wire: Bytes, places: &[u32; 3]) {
        debug_assert!(places.is_sorted() && places[2] as usize <= wire.len());
        self.wire = wire;
        [self.bare_at, self.application_properties_at, self.body_at] = *places;
    }

    /// Offsets must lie within `wire` and ascend: a caller's error otherwise.
    pub fn new(parts: Parts, route: Arc<Route>) -> Self {
        debug_assert!(parts.bare_at <= parts.application_properties_at);
        debug_assert!(parts.application_properties_at <= parts.body_at);
        debug_assert!(parts.body_at as usize <= parts.wire.len());
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        Self {
            flags: flag(parts.durable, DURABLE)
                | flag(parts.durable_header, DURABLE_HEADER)
                | flag(parts.priority.is_some(), HAS_PRIORITY)
                | flag(parts.ttl_ms.is_some(), HAS_TTL),
            priority: parts.priority.unwrap_or(0),
            ttl_ms: parts.ttl_ms.unwrap_or(0),
            bare_at: parts.bare_at,
            application_properties_at: parts.application_properties_at,
            body_at: parts.body_at,
            deaths: None,
            wire: parts.wire,
            route,
        }
    }

    /// The parts it was made of.
    pub fn parts(&self) -> Parts {
        Parts {
            wire: self.wire.clone(),
            bare_at: self.bare_at,
            application_properties_at: self.application_properties_at,
            body_at: self.body_at,
            durable: self.is_durable(),
            durable_header: self.durable_header(),
            priority: self.priority(),
            ttl_ms: self.ttl_ms(),
        }
    }

    /// The bare message and footer: bit-identical from sender to receiver.
    pub fn bare(&self) -> Bytes {
        self.wire.slice(self.bare_at as usize..)
    }

    /// The same, without a share of its own: a buffer, and where in it the bare message begins. It ends with the buffer.
    pub fn bare_in(&self) -> (&Bytes, usize) {
        (&self.wire, self.bare_at as usize)
    }

    /// All its bytes: annotations, bare message and footer.
    pub(crate) fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Where in them the bare message, the application-properties and the body start.
    pub(crate) fn offsets(&self) -> (u32, u32, u32) {
        (self.bare_at, self.application_properties_at, self.body_at)
    }

    /// Flags, priority and time to live as they are stored: 0 where there is none.
    pub(crate) fn terms(&self) -> (u8, u8, u32) {
        (self.flags, self.priority, self.ttl_ms)
    }

    /// Nothing is told of it beside its route: neither has its sender annotated it nor has it died.
    pub(crate) fn is_plain(&self) -> bool {
        self.bare_at == 0 && self.deaths.is_none()
    }

    pub(crate) fn bare_slice(&self) -> &[u8] {
        &self.wire[self.bare_at as usize..]
    }

    /// The encoded message-annotations section as the sender wrote it, or nothing.
    pub fn annotations(&self) -> &[u8] {
        &self.wire[..self.bare_at as usize]
    }

    /// The encoded properties section, or nothing.
    pub fn properties(&self) -> &[u8] {
        &self.wire[self.bare_at as usize..self.application_properties_at as usize]
    }

    /// The encoded application-properties section, or nothing.
    pub fn application_properties(&self) -> &[u8] {
        &self.wire[self.application_properties_at as usize..self.body_at as usize]
    }

    /// The encoded body sections and footer.
    pub fn body(&self) -> &[u8] {
        &self.wire[self.body_at as usize..]
    }

    /// Bytes that limits in bytes count (`x-max-length-bytes`): the bare message.
    pub fn len(&self) -> u64 {
        (self.wire.len() - self.bare_at as usize) as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it must survive the process (house.md section 6, "header").
    pub fn is_durable(&self) -> bool {
        self.flags & DURABLE != 0
    }

    /// Whether the sender's header said `durable=true`.
    pub fn durable_header(&self) -> bool {
        self.flags & DURABLE_HEADER != 0
    }

    pub fn priority(&self) -> Option<u8> {
        (self.flags & HAS_PRIORITY != 0).then_some(self.priority)
    }

    /// The sender's time to live in milliseconds.
    pub fn ttl_ms(&self) -> Option<u32> {
        (self.flags & HAS_TTL != 0).then_some(self.ttl_ms)
    }

    pub fn route(&self) -> &Arc<Route> {
        &self.route
    }

    pub fn deaths(&self) -> Option<&Deaths> {
        self.deaths.as_deref()
    }

    /// Failed deliveries in the queues where it died.
    pub fn delivery_count(&self) -> u32 {
        self.deaths().map_or(0, Deaths::delivery_count)
    }

    /// The same message on another route.
    pub fn rerouted(mut self, route: Arc<Route>) -> Self {
        self.route = route;
        self
    }

    /// Marks a death and takes the time to live away, which must not kill it again (behaviour B.8).
    /// `delivery_count`: failed deliveries so far.
    pub fn with_death(mut self, death: crate::Death, delivery_count: u32) -> Self {
        let death = crate::Death { ttl_ms: self.ttl_ms(), ..death };
        self.deaths.get_or_insert_default().record(death, delivery_count);
        self.flags &= !HAS_TTL;
        self.ttl_ms = 0;
        self
    }

    /// The same message with the deaths that were stored with it.
    pub fn with_deaths(mut self, deaths: Deaths) -> Self {
        self.deaths = Some(Box::new(deaths));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let parts = Parts {
            wire: Bytes::from_static(b"annoPROPappBODY"),
            bare_at: 4,
            application_properties_at: 8,
            body_at: 11,
            durable: true,
            durable_header: false,
            priority: Some(0),
            ttl_ms: None,
        };
        let message = Message::new(parts.clone(), Arc::new(Route::simple("x", "k")));
        assert_eq!(message.parts(), parts);
        assert_eq!(message.annotations(), b"anno");
        assert_eq!(message.properties(), b"PROP");
        assert_eq!(message.application_properties(), b"app");
        assert_eq!(message.body(), b"BODY");
        assert_eq!(message.len(), 11);
    }
}
