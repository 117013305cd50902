//! Address format v2: `/queues/:queue`, `/exchanges/:exchange[/:routing-key]` (docs/compatibility.md, Addresses).

use std::fmt;

use catalog::access::DEFAULT_EXCHANGE_ALIAS;
use message::Route;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The node that answers management requests (docs/compatibility.md, Management over AMQP).
pub(super) const MANAGEMENT: &str = "/management";

/// The characters that are encoded in a segment: all except the unreserved ones of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The maximum length of an address in bytes. The name in it must fit into a stored message.
pub(super) const ADDRESS_MAX: usize = Route::KEY_BYTES_MAX;

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Queue(String),
    Exchange { exchange: String, key: String },
}

/// An address that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress {
    /// The first 256 characters of the address.
    address: String,
    why: WhyBad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhyBad {
    NoAddress,
    NoSource,
    /// The address has format v1, which is not permitted.
    V1,
}

/// The beginning of an address of an exchange.
const EXCHANGES: &str = "/exchanges/";

impl BadAddress {
    fn new(address: &str, why: WhyBad) -> Self {
        Self { address: address.chars().take(256).collect(), why }
    }

    /// Returns the error for an address from which nothing can be consumed.
    pub(super) fn of_source(address: &str) -> Self {
        Self::new(address, WhyBad::NoSource)
    }

    pub(super) fn of_v1(address: &str) -> Self {
        Self::new(address, WhyBad::V1)
    }
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.escape_default();
        match self.why {
            WhyBad::NoAddress => write!(
                f,
                "bad address string '{address}': expected /queues/:queue or /exchanges/:exchange/:routing-key, each \
                 part percent-encoded"
            ),
            WhyBad::NoSource => {
                write!(f, "bad source address '{address}': expected /queues/:queue, percent-encoded")?;
                match self.address.starts_with(EXCHANGES) {
                    true => f.write_str(" (to consume from an exchange, bind a queue to it)"),
                    false => Ok(()),
                }
            }
            WhyBad::V1 => write!(
                f,
                "amqp_address_v1_not_permitted: address '{address}' has format v1, which is permitted only by \
                 the setting deprecated_features.permit.amqp_address_v1; the format v2 is /queues/:queue or \
                 /exchanges/:exchange/:routing-key"
            ),
        }
    }
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// The address does not have one of the three forms in the first line of the module, or a part is not
    /// percent-encoded UTF-8, or the address is longer than 65,535 bytes.
    pub fn parse(address: &str) -> Result<Self, BadAddress> {
        let parsed = if address.len() <= ADDRESS_MAX { parse(address) } else { None };
        parsed.ok_or_else(|| BadAddress::new(address, WhyBad::NoAddress))
    }
}

fn parse(address: &str) -> Option<Address> {
    if let Some(queue) = address.strip_prefix("/queues/") {
        let queue = decode_segment(queue)?;
        return (!queue.is_empty()).then_some(Address::Queue(queue));
    }
    let rest = address.strip_prefix(EXCHANGES)?;
    let (exchange, key) = match rest.split_once('/') {
        Some((exchange, key)) => (decode_segment(exchange)?, decode_segment(key)?),
        None => (decode_segment(rest)?, String::new()),
    };
    // The default exchange has no address. Its queues are reached by `/queues/` only.
    if exchange.is_empty() || exchange == DEFAULT_EXCHANGE_ALIAS {
        return None;
    }
    Some(Address::Exchange { exchange, key })
}

/// Percent-decodes one path segment. Returns `None` if a character that must be encoded is not, or if the result is not
/// UTF-8.
pub(crate) fn decode_segment(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let hex = bytes.get(i + 1..i + 3)?;
                if !hex.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                i += 3;
            }
            b'/' => return None,
            c if c.is_ascii_graphic() => i += 1,
            _ => return None,
        }
    }
    percent_decode_str(segment).decode_utf8().ok().map(|s| s.into_owned())
}

/// Returns the address of a queue.
pub fn queue_address(queue: &str) -> String {
    format!("/queues/{}", utf8_percent_encode(queue, SEGMENT))
}

/// Percent-encodes one path segment.
pub(crate) fn encode_segment(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(exchange: &str, key: &str) -> Result<Address, BadAddress> {
        Ok(Address::Exchange { exchange: exchange.into(), key: key.into() })
    }

    #[test]
    fn the_three_forms_of_an_address_are_parsed() {
        assert_eq!(Address::parse("/queues/q"), Ok(Address::Queue("q".into())));
        assert_eq!(Address::parse("/queues/a%2Fb%20%F0%9F%A5%95"), Ok(Address::Queue("a/b 🥕".into())));
        assert_eq!(Address::parse("/exchanges/x/k"), exchange("x", "k"));
        assert_eq!(Address::parse("/exchanges/x/a%2Fb.%23"), exchange("x", "a/b.#"));
        assert_eq!(Address::parse("/exchanges/x"), exchange("x", ""));
        assert_eq!(Address::parse("/exchanges/x/"), exchange("x", ""));
        assert_eq!(Address::parse(&queue_address("a/b ü~")), Ok(Address::Queue("a/b ü~".into())));
    }

    #[test]
    fn an_address_has_a_maximum_length() {
        let key = |bytes: usize| "k".repeat(bytes - "/exchanges/x/".len());
        let address = |bytes| format!("/exchanges/x/{}", key(bytes));
        assert_eq!(Address::parse(&address(ADDRESS_MAX)), exchange("x", &key(ADDRESS_MAX)));
        assert!(Address::parse(&address(ADDRESS_MAX + 1)).is_err());
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in [
            "",
            "/",
            "q",
            "myqueue",
            "/queue",
            "/queue/q",
            "/queues",
            "/queues/",
            "/queues/a/b",
            "queues/q",
            "/queues/%",
            "/queues/%2",
            "/queues/%zz",
            "/queues/%ff",
            "/queues/ü",
            "/queues/a b",
            "/exchange/x",
            "/exchange/x/k",
            "/exchanges",
            "/exchanges/",
            "/exchanges//k",
            "/exchanges/x/k/l",
            "/exchanges/amq.default",
            "/exchanges/amq.default/k",
            "/exchanges/ü/k",
            "/exchanges/x/ü",
            "/topic/x",
            "/amq/queue/q",
            "/Queues/q",
            "/queues/q\n",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad:?}");
        }
    }
}
