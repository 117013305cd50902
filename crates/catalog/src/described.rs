//! What the arguments of queues and exchanges and the keys of policies mean, and which values they have. People choose from it, in the
//! web page and in other tools. What a declaration accepts is decided by [`super::arguments`], [`super::exchange`] and
//! [`super::policy`]; tests compare the two.

use message::Message;
use queue::QueueType;

use super::arguments::{self, LEADER_LOCATORS, SEGMENT_BYTES_MAX, TIMER_MS_MAX};
use super::exchange::ExchangeKind;
use super::policy::{self, Merge};
use super::values::ValueKind;

/// An argument of queues or exchanges, or a key of policies.
#[derive(Clone, Debug)]
pub struct Described {
    pub name: &'static str,
    pub kind: ValueKind,
    /// What it does, for people.
    pub about: &'static str,
    /// The types of the queues, or of the exchanges, that take it.
    pub types: Vec<&'static str>,
    /// True for a key that operator policies may have.
    pub operator: bool,
}

use ValueKind::{Boolean, Exchange, Number, OneOf, Span, Text};

const ANY: ValueKind = Number(0, i64::MAX);
const EXPIRY: ValueKind = Number(1, Message::TTL_MS_MAX as i64);
const TIMER: ValueKind = Number(0, TIMER_MS_MAX as i64);

/// The arguments that a queue may be declared with. Those that no type takes are not here.
const OF_QUEUES: &[(&str, ValueKind, &str)] = &[
    (
        "x-message-ttl",
        Number(0, Message::TTL_MS_MAX as i64),
        "How long a message may wait in the queue, in milliseconds. Then it is dead-lettered or dropped.",
    ),
    ("x-expires", EXPIRY, "The queue is deleted when nobody has used it for this long, in milliseconds."),
    ("x-max-length", ANY, "The most messages of the queue. x-overflow says what happens at this limit."),
    (
        "x-max-length-bytes",
        ANY,
        "The most bytes of messages. A stream removes its oldest segments beyond it.",
    ),
    (
        "x-overflow",
        OneOf(&["drop-head", "reject-publish", "reject-publish-dlx"]),
        "What happens at a limit of the length: the oldest message leaves, or a new one is refused. The last one also dead-letters what is refused, in classic queues.",
    ),
    (
        "x-dead-letter-exchange",
        Exchange,
        "The exchange that gets messages that expire, are rejected, or leave at a limit. An empty name is the default exchange.",
    ),
    (
        "x-dead-letter-routing-key",
        Text,
        "The routing key of dead letters. Without it they keep their own keys.",
    ),
    (
        "x-max-priority",
        Number(1, 255),
        "The highest priority of messages. Those with a higher priority are delivered first.",
    ),
    ("x-single-active-consumer", Boolean, "One consumer gets all messages. The others wait until it leaves."),
    ("x-max-age", Span, "How long the stream keeps messages, such as 7D. The units are Y, M, D, h, m and s."),
    (
        "x-stream-max-segment-size-bytes",
        Number(1, SEGMENT_BYTES_MAX as i64),
        "The size of a segment in bytes. Old messages leave by whole segments.",
    ),
    (
        "x-stream-filter-size-bytes",
        Number(16, 255),
        "The size of the filter of each chunk, in bytes. A larger one lets consumers with a filter skip more.",
    ),
    (
        "x-initial-cluster-size",
        ANY,
        "The number of members of the group. There is one node, so it has no effect.",
    ),
    (
        "x-delivery-limit",
        Number(i64::MIN, i64::MAX),
        "How often the delivery of a message may fail before it is dead-lettered or dropped. A negative number is no limit.",
    ),
    (
        "x-quorum-initial-group-size",
        Number(1, i64::MAX),
        "The number of members of the group. There is one node, so it has no effect.",
    ),
    (
        "x-quorum-target-group-size",
        Number(1, i64::MAX),
        "The number of members that the group should have. There is one node, so it has no effect.",
    ),
    (
        "x-dead-letter-strategy",
        OneOf(&["at-most-once", "at-least-once"]),
        "Whether a dead letter may be lost. at-least-once needs the overflow reject-publish.",
    ),
    (
        "x-consumer-timeout",
        Number(1, TIMER_MS_MAX as i64),
        "How long a consumer may hold a message, in milliseconds. Then the message goes back to the queue.",
    ),
    (
        "x-consumer-disconnected-timeout",
        TIMER,
        "How long to wait for consumers of a node that is out of reach, in milliseconds. There is one node, so it has no effect.",
    ),
    (
        "x-delayed-retry-type",
        OneOf(&["disabled", "all", "failed", "returned"]),
        "Which messages wait before they are delivered again: none, all, those that failed, or those that were given back.",
    ),
    (
        "x-delayed-retry-min",
        TIMER,
        "The wait before the first retry, in milliseconds. It grows with each failure. Without it there is no wait.",
    ),
    ("x-delayed-retry-max", TIMER, "The longest wait before a retry, in milliseconds."),
    ("x-fsync", Boolean, "Every message is synced to the disk before it is confirmed."),
    (
        "x-queue-leader-locator",
        OneOf(LEADER_LOCATORS),
        "The node of the leader. There is one node, so it has no effect.",
    ),
    ("x-queue-version", Number(2, 2), "The version of classic queues. There is only 2."),
];

/// What keys of policies mean that are no arguments of queues without their `x-`, or whose meaning names another key.
const OF_POLICIES: &[(&str, &str)] = &[
    ("max-length", "The most messages of the queue. overflow says what happens at this limit."),
    (super::exchange::ALTERNATE, "The exchange that gets the messages that no binding takes."),
    (
        "target-group-size",
        "The number of members that groups should have. There is one node, so it has no effect.",
    ),
    ("federation-upstream", "It has no effect: there is no federation."),
    ("federation-upstream-set", "It has no effect: there is no federation."),
];

/// The arguments of exchanges.
const OF_EXCHANGES: &[(&str, ValueKind, &str)] = &[
    (super::exchange::ALTERNATE, Exchange, "The exchange that gets the messages that no binding takes."),
    ("hash-header", Text, "The header whose hash chooses the queue, instead of the routing key."),
    (
        "hash-property",
        OneOf(&["message_id", "correlation_id", "timestamp"]),
        "The property whose hash chooses the queue, instead of the routing key.",
    ),
    (
        "x-recent-history-length",
        Number(1, 10_000),
        "How many of the last messages a new binding gets at once.",
    ),
];

/// Returns the arguments of queues, with the types of queues that take them.
pub fn described_queue_arguments() -> Vec<Described> {
    let shown = |&(name, kind, about): &(&'static str, ValueKind, &'static str)| Described {
        name,
        kind,
        about,
        types: queue_types(name),
        operator: false,
    };
    OF_QUEUES.iter().map(shown).collect()
}

/// Returns the arguments of exchanges, with the types of exchanges that take them.
pub fn described_exchange_arguments() -> Vec<Described> {
    let types = |name: &str| {
        let takes = |kind: &&ExchangeKind| kind.known_arguments().contains(&name);
        ExchangeKind::ALL.iter().filter(takes).map(|kind| kind.as_str()).collect()
    };
    let shown = |&(name, kind, about): &(&'static str, ValueKind, &'static str)| Described {
        name,
        kind,
        about,
        types: types(name),
        operator: false,
    };
    OF_EXCHANGES.iter().map(shown).collect()
}

/// Returns the keys of policies, with the types of queues that they have an effect on. There are none for a key of exchanges.
pub fn described_policy_keys() -> Vec<Described> {
    let shown = |&(name, kind, merge): &(&'static str, ValueKind, Merge)| {
        let own = OF_POLICIES.iter().find(|(key, _)| *key == name).map(|(_, about)| *about);
        let argument = OF_QUEUES.iter().find(|(argument, ..)| argument.strip_prefix("x-") == Some(name));
        let about = own.or(argument.map(|(.., about)| *about)).unwrap_or_default();
        let types = match (argument, name) {
            (Some((argument, ..)), _) => queue_types(argument),
            (None, "target-group-size") => queue_types("x-quorum-target-group-size"),
            (None, _) => Vec::new(),
        };
        Described { name, kind, about, types, operator: merge != Merge::Never }
    };
    policy::KEYS.iter().map(shown).collect()
}

fn queue_types(argument: &str) -> Vec<&'static str> {
    let all = [QueueType::Classic, QueueType::Quorum, QueueType::Stream];
    all.into_iter().filter(|kind| arguments::takes(*kind, argument)).map(QueueType::name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use amqp10::Value;

    use super::super::Arguments;
    use super::*;

    /// Values of a kind, and values that are not of it.
    fn values(kind: ValueKind) -> (Vec<Value>, Vec<Value>) {
        let text = |text: &str| Value::String(text.to_owned());
        match kind {
            Number(least, most) => {
                let beyond =
                    [least.checked_sub(1), most.checked_add(1)].into_iter().flatten().map(Value::Long);
                (vec![Value::Long(least), Value::Long(most)], beyond.chain([text("many")]).collect())
            }
            Text | Exchange => (vec![text("name")], vec![Value::Long(1)]),
            Span => (vec![text("7D")], vec![text("a week")]),
            Boolean => (vec![Value::Boolean(true), Value::Boolean(false)], vec![text("yes")]),
            OneOf(words) => (words.iter().map(|word| text(word)).collect(), vec![text("no such word")]),
        }
    }

    fn declare(kind: &str, name: &str, value: Value) -> Result<(), String> {
        let mut arguments: Arguments =
            [("x-queue-type".to_owned(), Value::String(kind.to_owned())), (name.to_owned(), value)].into();
        if name == "x-dead-letter-routing-key" {
            arguments.insert("x-dead-letter-exchange".to_owned(), Value::String("x".to_owned()));
        }
        let declared = arguments::queue_config("/", &"q".into(), false, &arguments);
        declared.map(|_| ()).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn each_argument_of_queues_that_some_type_takes_is_described() {
        let described: BTreeSet<&str> = described_queue_arguments().iter().map(|of| of.name).collect();
        // The type has a choice of its own. No type takes the last two.
        let others = ["x-queue-type", "x-queue-mode", "x-member-placement-tag"];
        let known: BTreeSet<&str> = arguments::known().filter(|name| !others.contains(name)).collect();
        assert_eq!(described, known);
    }

    #[test]
    fn a_queue_takes_the_described_values_and_no_others() {
        for of in described_queue_arguments() {
            assert!(!of.types.is_empty() && !of.about.is_empty(), "{}", of.name);
            let (good, bad) = values(of.kind);
            for kind in ["classic", "quorum", "stream"] {
                let takes = of.types.contains(&kind);
                for value in &good {
                    let declared = declare(kind, of.name, value.clone());
                    assert_eq!(declared.is_ok(), takes, "{kind} {} {value:?}: {declared:?}", of.name);
                }
                for value in &bad {
                    assert!(declare(kind, of.name, value.clone()).is_err(), "{kind} {} {value:?}", of.name);
                }
            }
        }
    }

    #[test]
    fn each_argument_of_exchanges_is_described() {
        let described: BTreeSet<&str> = described_exchange_arguments().iter().map(|of| of.name).collect();
        let known = ExchangeKind::ALL.iter().flat_map(|kind| kind.known_arguments()).copied();
        assert_eq!(described, known.collect());
        for of in described_exchange_arguments() {
            let (good, bad) = values(of.kind);
            for kind in ExchangeKind::ALL.into_iter().filter(|kind| of.types.contains(&kind.as_str())) {
                let check = |value| kind.check_arguments("x", &[(of.name.to_owned(), value)].into());
                for value in good.clone() {
                    assert!(check(value.clone()).is_ok(), "{} {value:?}", of.name);
                }
                // The name of the alternate exchange is checked where all exchanges are known.
                for value in bad.iter().filter(|_| of.kind != Exchange) {
                    assert!(check(value.clone()).is_err(), "{} {value:?}", of.name);
                }
            }
        }
    }

    #[test]
    fn a_policy_takes_the_described_values_and_no_others() {
        for of in described_policy_keys() {
            assert!(
                !of.about.is_empty() && !of.about.split(' ').any(|word| word.starts_with("x-")),
                "{}: {}",
                of.name,
                of.about
            );
            let (good, bad) = values(of.kind);
            for operator in [false, true] {
                let check =
                    |value: Value| policy::check_definition(operator, &[(of.name.to_owned(), value)].into());
                for value in good.clone() {
                    assert_eq!(
                        check(value.clone()).is_ok(),
                        of.operator || !operator,
                        "{} {value:?}",
                        of.name
                    );
                }
                for value in &bad {
                    assert!(check(value.clone()).is_err(), "{} {value:?}", of.name);
                }
            }
        }
    }
}
