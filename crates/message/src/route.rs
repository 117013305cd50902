//! The route of a message, with its two encodings: for receivers, and for the stored form (`stored.rs`).

use std::sync::Arc;

use amqp10::encode::{put_str, put_symbol};
use bytes::{BufMut, BytesMut};

/// Annotations that only the broker sets. If the publisher set them, they are dropped.
pub(crate) const BROKER_ANNOTATIONS: &[&str] = &["x-exchange", "x-routing-key"];

/// How a message was routed: the exchange and the routing keys.
///
/// All messages of a link with a fixed target share one route, so each message needs only a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    exchange: Arc<str>,
    keys: Vec<Arc<str>>,
    /// The encoded route: first the two annotations for receivers, then the stored form.
    encoded: Box<[u8]>,
    /// Where the stored form begins in `encoded`.
    stored_at: usize,
}

impl Route {
    /// The most keys of a route: the key of the address and those of `x-cc` together. The stored form cannot
    /// count more, and leaves out further keys.
    pub const KEYS_MAX: usize = u16::MAX as usize;

    /// The most bytes of each key. The stored form cuts off the rest.
    pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

    /// Creates a route. `exchange` is empty for the default exchange. The first of `keys` is the routing key;
    /// the others are from `x-cc` (docs/compatibility.md, Publishing).
    pub fn new(exchange: impl Into<Arc<str>>, keys: Vec<Arc<str>>) -> Self {
        let exchange = exchange.into();
        let mut encoded = BytesMut::new();
        put_route_annotations(&exchange, keys.first().map_or("", |k| k), &mut encoded);
        let stored_at = encoded.len();
        put_stored_route(&exchange, &keys, &mut encoded);
        Self { exchange, keys, encoded: encoded.as_ref().into(), stored_at }
    }

    /// Creates a route with one key.
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

    /// Returns the encoding in a stored message.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.encoded[self.stored_at..]
    }

    /// Returns the routing key, without the keys of `x-cc`.
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", |k| k)
    }
}

/// Appends the pairs for exchange and routing key.
fn put_route_annotations(exchange: &str, key: &str, out: &mut BytesMut) {
    put_symbol(out, BROKER_ANNOTATIONS[0]);
    put_str(out, exchange);
    put_symbol(out, BROKER_ANNOTATIONS[1]);
    put_str(out, key);
}

/// Appends the route as it is encoded in stored messages.
fn put_stored_route(exchange: &str, keys: &[Arc<str>], out: &mut BytesMut) {
    let keys = &keys[..keys.len().min(Route::KEYS_MAX)];
    out.put_u16(keys.len() as u16);
    put_text(exchange, out);
    keys.iter().for_each(|key| put_text(key, out));
}

fn put_text(text: &str, out: &mut BytesMut) {
    let len = text.floor_char_boundary(Route::KEY_BYTES_MAX);
    out.put_u16(len as u16);
    out.put_slice(&text.as_bytes()[..len]);
}
