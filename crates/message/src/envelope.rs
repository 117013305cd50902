//! A message inside the broker: its bytes, its route, and what the broker knows about it.

use std::sync::Arc;

use bytes::Bytes;

use crate::deaths::Deaths;
use crate::route::Route;

/// The message format in which the publisher wrote a message. The broker stores the message in this format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Sections of AMQP 1.0.
    #[default]
    Amqp10,
    /// A property list and a payload of AMQP 0.9.1.
    Amqp091,
}

/// The parts of a message.
///
/// | format | `wire` | `bare_at` | `application_properties_at` | `body_at` |
/// |---|---|---|---|---|
/// | AMQP 1.0 | message-annotations section, if any; bare message; footer | start of the bare message | start of that section | start of the body |
/// | AMQP 0.9.1 | encoded property list, payload | start of the payload | the same | the same |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pub format: Format,
    pub wire: Bytes,
    /// Where the bare message starts.
    pub bare_at: u32,
    /// Where the application-properties section starts; equal to `body_at` if there is none.
    pub application_properties_at: u32,
    /// Where the body starts.
    pub body_at: u32,
    /// True if the message must survive a restart.
    pub durable: bool,
    /// True if the sender's header has `durable=true`. Receivers see this value.
    pub durable_header: bool,
    pub priority: Option<u8>,
    /// The sender's time to live, in milliseconds. At most [`Message::TTL_MS_MAX`].
    pub ttl_ms: Option<u64>,
}

/// A message and what the broker knows about it. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    wire: Bytes,
    route: Arc<Route>,
    deaths: Option<Box<Deaths>>,
    ttl_ms: u64,
    bare_at: u32,
    application_properties_at: u32,
    body_at: u32,
    priority: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Message>() <= 128, "a message takes at most 128 bytes beside its own");

/// Messages that are equal in these values get the same encoding before their bare messages: the route, and
/// the fields of the header that the sender set.
#[derive(Clone, Debug)]
pub(crate) struct SharedHead {
    route: Arc<Route>,
    flags: u8,
    priority: u8,
    ttl_ms: u64,
}

impl SharedHead {
    /// Returns `None` if the message has annotations or deaths, because its encoding then contains more.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let Message { route, flags, priority, ttl_ms, .. } = message;
        let (flags, priority, ttl_ms) = (flags & SENDER_FLAGS, *priority, *ttl_ms);
        message.is_plain().then(|| Self { route: route.clone(), flags, priority, ttl_ms })
    }

    /// Returns true if this message gets the same encoding before its bare message.
    pub(crate) fn covers(&self, message: &Message) -> bool {
        Arc::ptr_eq(&self.route, &message.route)
            && self.flags == message.flags & SENDER_FLAGS
            && (self.priority, self.ttl_ms) == (message.priority, message.ttl_ms)
            && message.is_plain()
    }
}

// The flag bits of a message. They are part of stored messages, so they must not change.
pub(crate) const DURABLE: u8 = 1;
pub(crate) const DURABLE_HEADER: u8 = 1 << 1;
pub(crate) const HAS_PRIORITY: u8 = 1 << 2;
pub(crate) const HAS_TTL: u8 = 1 << 3;
/// The message is in [`Format::Amqp091`].
pub(crate) const AMQP091: u8 = 1 << 4;

/// The flags that the sender set and that receivers see.
const SENDER_FLAGS: u8 = DURABLE_HEADER | HAS_PRIORITY | HAS_TTL;

impl Message {
    /// The longest time to live, in milliseconds: ten years, as in RabbitMQ. AMQP 1.0 cannot express more than 50 days,
    /// AMQP 0.9.1 can. The stored form has 40 bits for it.
    pub const TTL_MS_MAX: u64 = 315_360_000_000;

    /// Replaces the bytes of the message. `places` says where the bare message, the application-properties
    /// and the body begin in them. Nothing else changes.
    pub(crate) fn set_wire(&mut self, wire: Bytes, places: &[u32; 3]) {
        debug_assert!(places.is_sorted() && places[2] as usize <= wire.len());
        self.wire = wire;
        [self.bare_at, self.application_properties_at, self.body_at] = *places;
    }

    /// Creates a message. The caller ensures that the offsets are within `wire` and ascending.
    pub fn new(parts: Parts, route: Arc<Route>) -> Self {
        debug_assert!(parts.bare_at <= parts.application_properties_at);
        debug_assert!(parts.application_properties_at <= parts.body_at);
        debug_assert!(parts.body_at as usize <= parts.wire.len());
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        Self {
            flags: flag(parts.format == Format::Amqp091, AMQP091)
                | flag(parts.durable, DURABLE)
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

    /// Returns the parts of the message.
    pub fn parts(&self) -> Parts {
        Parts {
            format: self.format(),
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

    /// Returns the format in which the message is stored.
    #[inline(always)]
    pub fn format(&self) -> Format {
        if self.flags & AMQP091 == 0 { Format::Amqp10 } else { Format::Amqp091 }
    }

    /// Returns the bare message and footer. They are bit-identical from sender to receiver. The message must be in
    /// AMQP 1.0: see [`Message::in_amqp10`].
    pub fn bare(&self) -> Bytes {
        self.debug_assert_amqp10();
        self.wire.slice(self.bare_at as usize..)
    }

    /// Returns the buffer and the offset at which the bare message begins in it. It ends with the buffer.
    /// Unlike [`Message::bare`], this does not create another reference to the buffer. The message must be in AMQP 1.0.
    pub fn bare_in(&self) -> (&Bytes, usize) {
        self.debug_assert_amqp10();
        (&self.wire, self.bare_at as usize)
    }

    /// Returns all bytes: annotations, bare message and footer, or property list and payload.
    pub(crate) fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Returns where the bare message, the application-properties and the body start in `wire`.
    pub(crate) fn offsets(&self) -> (u32, u32, u32) {
        (self.bare_at, self.application_properties_at, self.body_at)
    }

    /// Returns flags, priority and time to live as they are stored. An absent value is 0.
    pub(crate) fn terms(&self) -> (u8, u8, u64) {
        (self.flags, self.priority, self.ttl_ms)
    }

    /// Returns true if receivers see nothing besides the route: the message has no annotations and no deaths.
    pub(crate) fn is_plain(&self) -> bool {
        self.debug_assert_amqp10();
        self.bare_at == 0 && self.deaths.is_none()
    }

    pub(crate) fn bare_slice(&self) -> &[u8] {
        self.debug_assert_amqp10();
        &self.wire[self.bare_at as usize..]
    }

    /// Checks that the sections of AMQP 1.0 may be read from the message.
    #[inline(always)]
    fn debug_assert_amqp10(&self) {
        debug_assert_eq!(self.format(), Format::Amqp10);
    }

    /// Returns the encoded message-annotations section as the sender wrote it. Empty if there is none. The message must
    /// be in AMQP 1.0, here and in the next two functions.
    pub fn annotations(&self) -> &[u8] {
        self.debug_assert_amqp10();
        &self.wire[..self.bare_at as usize]
    }

    /// Returns the encoded properties section. Empty if there is none.
    pub fn properties(&self) -> &[u8] {
        self.debug_assert_amqp10();
        &self.wire[self.bare_at as usize..self.application_properties_at as usize]
    }

    /// Returns the encoded application-properties section. Empty if there is none.
    pub fn application_properties(&self) -> &[u8] {
        self.debug_assert_amqp10();
        &self.wire[self.application_properties_at as usize..self.body_at as usize]
    }

    /// Returns the encoded body sections and footer of AMQP 1.0, or the payload of AMQP 0.9.1.
    pub fn body(&self) -> &[u8] {
        &self.wire[self.body_at as usize..]
    }

    /// Returns the encoded property list of AMQP 0.9.1. The message must be in this format: see
    /// [`Message::in_amqp091`].
    pub fn property_list(&self) -> &[u8] {
        debug_assert_eq!(self.format(), Format::Amqp091);
        &self.wire[..self.body_at as usize]
    }

    /// The size of the message in bytes, which limits in bytes (`x-max-length-bytes`) count. As in RabbitMQ, it is the
    /// size of the bare message of AMQP 1.0, and of the payload of AMQP 0.9.1.
    pub fn len(&self) -> u64 {
        (self.wire.len() - self.bare_at as usize) as u64
    }

    /// The number of bytes of the message in memory: all of its sections, or its properties and its payload.
    pub fn bytes_in_memory(&self) -> u64 {
        self.wire.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the message must survive a restart.
    pub fn is_durable(&self) -> bool {
        self.flags & DURABLE != 0
    }

    /// Returns true if the sender's header has `durable=true`.
    pub fn durable_header(&self) -> bool {
        self.flags & DURABLE_HEADER != 0
    }

    pub fn priority(&self) -> Option<u8> {
        (self.flags & HAS_PRIORITY != 0).then_some(self.priority)
    }

    /// Returns the sender's time to live in milliseconds.
    pub fn ttl_ms(&self) -> Option<u64> {
        (self.flags & HAS_TTL != 0).then_some(self.ttl_ms)
    }

    pub fn route(&self) -> &Arc<Route> {
        &self.route
    }

    pub fn deaths(&self) -> Option<&Deaths> {
        self.deaths.as_deref()
    }

    /// Returns the number of failed deliveries in all queues in which the message died.
    pub fn delivery_count(&self) -> u32 {
        self.deaths().map_or(0, Deaths::delivery_count)
    }

    /// Returns the message with another route.
    pub fn rerouted(mut self, route: Arc<Route>) -> Self {
        self.route = route;
        self
    }

    /// Records a death, and removes the time to live so that the message does not expire again
    /// (docs/compatibility.md, Dead lettering). `delivery_count` is the number of failed deliveries so far.
    pub fn with_death(mut self, death: crate::Death, delivery_count: u32) -> Self {
        let death = crate::Death { ttl_ms: self.ttl_ms(), ..death };
        self.deaths_mut().record(death, delivery_count);
        self.flags &= !HAS_TTL;
        self.ttl_ms = 0;
        self
    }

    /// Returns the deaths, to be changed. There are none at first.
    pub(crate) fn deaths_mut(&mut self) -> &mut Deaths {
        self.deaths.get_or_insert_default()
    }

    /// Adds the deaths that were stored with the message.
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
            format: Format::Amqp10,
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
