//! The node that the address of a link names: format v2, and format v1 of RabbitMQ 3 if the setting permits it
//! (docs/compatibility.md, Addresses).
//!
//! | v1 address | as a target | as a source |
//! |---|---|---|
//! | `/queue/Q`, `Q` | the queue, declared if there is none | likewise |
//! | `/amq/queue/Q` | the queue | likewise |
//! | `/exchange/X/K` | the exchange, with this routing key | an exclusive queue, bound with this key |
//! | `/exchange/X` | the exchange; routing keys are the subjects of the messages | likewise, with an empty key |
//! | `/topic/K` | the exchange `amq.topic`, with this routing key | likewise |
//! | `/queue` | the default exchange; routing keys are the subjects of the messages | not an address |
//!
//! Each part is percent-decoded, but its characters need not be encoded. An address that starts with `/queues/` or
//! `/exchanges/` always has format v2.

use percent_encoding::percent_decode_str;

use super::address::{ADDRESS_MAX, Address, BadAddress};

/// The exchange of `/topic/K`.
const TOPIC_EXCHANGE: &str = "amq.topic";

/// The node that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Queue {
        name: String,
        /// True if the queue is declared when it does not exist.
        declare: bool,
    },
    Exchange {
        exchange: String,
        /// The routing key. `None` if the key is the subject of each message.
        key: Option<String>,
    },
}

/// The format of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    V1,
    V2,
}

/// Parses the address of a target.
///
/// # Errors
/// The address has neither format, or it has format v1 and that is not permitted.
pub(super) fn of_target(address: &str, permit_v1: bool) -> Result<(Node, Format), BadAddress> {
    match Address::parse(address) {
        Ok(Address::Queue(name)) => Ok((Node::Queue { name, declare: false }, Format::V2)),
        Ok(Address::Exchange { exchange, key }) => {
            Ok((Node::Exchange { exchange, key: Some(key) }, Format::V2))
        }
        Err(bad) => permitted(address, parse_v1(address), bad, permit_v1),
    }
}

/// Parses the address of a source.
///
/// # Errors
/// The same as for [`of_target`]. In format v2, only a queue can be a source.
pub(super) fn of_source(address: &str, permit_v1: bool) -> Result<(Node, Format), BadAddress> {
    if let Ok(Address::Queue(name)) = Address::parse(address) {
        return Ok((Node::Queue { name, declare: false }, Format::V2));
    }
    // A source cannot be the default exchange, because nothing can be consumed from it.
    let node = parse_v1(address)
        .filter(|node| !matches!(node, Node::Exchange { exchange, .. } if exchange.is_empty()));
    permitted(address, node, BadAddress::of_source(address), permit_v1)
}

fn permitted(
    address: &str,
    node: Option<Node>,
    bad: BadAddress,
    permit_v1: bool,
) -> Result<(Node, Format), BadAddress> {
    match node {
        Some(node) if permit_v1 => Ok((node, Format::V1)),
        Some(_) => Err(BadAddress::of_v1(address)),
        None => Err(bad),
    }
}

fn parse_v1(address: &str) -> Option<Node> {
    if address.len() > ADDRESS_MAX {
        return None;
    }
    let queue = |name, declare| Some(Node::Queue { name: part(name)?, declare });
    let exchange = |exchange, key| Some(Node::Exchange { exchange, key });
    let Some(path) = address.strip_prefix('/') else { return queue(address, true) };
    match path.split('/').collect::<Vec<_>>()[..] {
        ["queue"] => exchange(String::new(), None),
        ["queue", name] => queue(name, true),
        ["amq", "queue", name] => queue(name, false),
        ["exchange", name] => exchange(part(name)?, None),
        ["exchange", name, key] => exchange(part(name)?, Some(decoded(key)?)),
        ["topic", key] => exchange(TOPIC_EXCHANGE.to_owned(), Some(part(key)?)),
        _ => None,
    }
}

/// Decodes a name, which must not be empty or contain a slash.
fn part(encoded: &str) -> Option<String> {
    decoded(encoded).filter(|name| !name.is_empty() && !encoded.contains('/'))
}

fn decoded(encoded: &str) -> Option<String> {
    percent_decode_str(encoded).decode_utf8().ok().map(|name| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, declare: bool) -> Option<Node> {
        Some(Node::Queue { name: name.into(), declare })
    }

    fn exchange(exchange: &str, key: Option<&str>) -> Option<Node> {
        Some(Node::Exchange { exchange: exchange.into(), key: key.map(Into::into) })
    }

    #[test]
    fn every_form_of_v1_is_parsed() {
        for (address, target, source) in [
            ("q", queue("q", true), queue("q", true)),
            ("a b", queue("a b", true), queue("a b", true)),
            ("/queue/q", queue("q", true), queue("q", true)),
            ("/queue/a%2Fb", queue("a/b", true), queue("a/b", true)),
            ("/amq/queue/amq.gen-1", queue("amq.gen-1", false), queue("amq.gen-1", false)),
            ("/exchange/x/k", exchange("x", Some("k")), exchange("x", Some("k"))),
            ("/exchange/x/", exchange("x", Some("")), exchange("x", Some(""))),
            ("/exchange/x", exchange("x", None), exchange("x", None)),
            ("/topic/a.*", exchange("amq.topic", Some("a.*")), exchange("amq.topic", Some("a.*"))),
            ("/queue", exchange("", None), None),
        ] {
            assert_eq!(of_target(address, true).ok(), target.map(|node| (node, Format::V1)), "{address}");
            assert_eq!(of_source(address, true).ok(), source.map(|node| (node, Format::V1)), "{address}");
        }
    }

    #[test]
    fn v2_takes_precedence_and_v1_needs_the_setting() {
        let v2 = |node: Option<Node>| node.map(|node| (node, Format::V2));
        for permit_v1 in [false, true] {
            assert_eq!(of_target("/queues/q", permit_v1).ok(), v2(queue("q", false)));
            assert_eq!(of_source("/queues/q", permit_v1).ok(), v2(queue("q", false)));
            assert_eq!(of_target("/exchanges/x", permit_v1).ok(), v2(exchange("x", Some(""))));
            assert!(of_source("/exchanges/x/k", permit_v1).is_err());
        }
        for address in ["q", "/queue/q", "/exchange/x/k", "/topic/k", "/amq/queue/q"] {
            let refused = of_target(address, false).expect_err("not permitted").to_string();
            assert!(refused.contains("amqp_address_v1_not_permitted"), "{refused}");
            assert!(refused.contains("deprecated_features.permit.amqp_address_v1"), "{refused}");
            assert!(of_source(address, false).is_err());
        }
    }

    #[test]
    fn an_address_of_neither_format_is_refused() {
        for address in [
            "",
            "/",
            "//",
            "a/b",
            "/queue/",
            "/queue/a/b",
            "/amq/queue",
            "/amq/queue/",
            "/exchange",
            "/exchange/",
            "/exchange//k",
            "/exchange/x/k/l",
            "/topic",
            "/topic/",
            "/temp-queue/q",
            "/reply-queue/q",
            "/queue/%ff",
            "/queues",
            "/queues/",
            "/exchanges/amq.default",
        ] {
            assert!(of_target(address, true).is_err(), "{address}");
            assert!(of_source(address, true).is_err(), "{address}");
        }
        assert!(of_target(&"q".repeat(ADDRESS_MAX + 1), true).is_err());
    }
}
