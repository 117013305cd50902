//! Queue arguments: the known names, the allowed values, and the settings of the queue's machine that they become
//! (docs/compatibility.md, Queue arguments and policies).

use std::ops::RangeInclusive;
use std::sync::Arc;

use amqp10::Value;
use message::Message;

use super::Arguments;

use super::error::CatalogError;

/// The maximum number of arguments in one declaration, without the type of a queue. Every shard keeps them.
pub(super) const ARGUMENTS_MAX: usize = 256;

/// The most bytes of memory of the arguments of one declaration. A small value takes many times what it takes on the wire: a frame
/// of 128 KiB could hold 7 MB.
pub(super) const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;

/// The queue type. A queue without this argument is classic.
pub(super) const QUEUE_TYPE: &str = "x-queue-type";

/// The prefix of a name that the broker generates. It has no effect on a queue that has a name, and in AMQP 1.0 every
/// queue has one. It is never stored, because it says nothing about the queue.
pub(super) const NAME_PREFIX: &str = "x-name-prefix";

/// The longest time to which a timer may be set, in milliseconds: about 49 days, as in RabbitMQ.
pub(super) const TIMER_MS_MAX: u64 = u32::MAX as u64;

/// The largest segment of a stream in bytes, as in RabbitMQ.
pub(super) const SEGMENT_BYTES_MAX: u64 = 3_000_000_000;

/// Arguments that not every queue type takes: the name, and whether each [`queue::QueueType`] takes it, in its order.
/// Arguments that none takes belong to features that do not exist here.
const OF_TYPES: &[(&str, [bool; 3])] = &[
    ("x-message-ttl", [true, true, false]),
    ("x-expires", [true, true, false]),
    ("x-max-length", [true, true, false]),
    ("x-overflow", [true, true, false]),
    ("x-dead-letter-exchange", [true, true, false]),
    ("x-dead-letter-routing-key", [true, true, false]),
    ("x-max-priority", [true, false, false]),
    ("x-single-active-consumer", [true, true, false]),
    ("x-max-age", [false, false, true]),
    ("x-stream-max-segment-size-bytes", [false, false, true]),
    ("x-stream-filter-size-bytes", [false, false, true]),
    ("x-initial-cluster-size", [false, false, true]),
    ("x-delivery-limit", [false, true, false]),
    ("x-quorum-initial-group-size", [false, true, false]),
    ("x-quorum-target-group-size", [false, true, false]),
    ("x-dead-letter-strategy", [false, true, false]),
    ("x-consumer-timeout", [false, true, false]),
    ("x-consumer-disconnected-timeout", [false, true, false]),
    ("x-member-placement-tag", [false, false, false]),
    ("x-delayed-retry-type", [false, true, false]),
    ("x-delayed-retry-min", [false, true, false]),
    ("x-delayed-retry-max", [false, true, false]),
];

/// The arguments that the broker reads for every queue type. Others that are in neither table are stored and shown, because
/// clients use them for notes. They are never compared.
const OF_ALL_TYPES: [&str; 6] = [
    QUEUE_TYPE,
    "x-max-length-bytes",
    "x-fsync",
    "x-queue-leader-locator",
    "x-queue-mode",
    "x-queue-version",
];

/// Returns the names of all arguments of queues that the broker reads.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    OF_TYPES.iter().map(|(name, _)| *name).chain(OF_ALL_TYPES)
}

/// Returns true if queues of this type may have the argument.
pub(super) fn takes(kind: queue::QueueType, argument: &str) -> bool {
    OF_TYPES.iter().all(|(known, types)| *known != argument || types[kind as usize])
}

/// Returns true if queues of no type take this argument with this value: RabbitMQ has removed it, or it belongs to a feature that does
/// not exist here.
pub fn is_obsolete_argument(name: &str, value: &Value) -> bool {
    match name {
        "x-queue-mode" => true,
        // Version 2 is the only behaviour of classic queues.
        "x-queue-version" => value.as_u64() != Some(2),
        _ => OF_TYPES.iter().any(|(known, types)| *known == name && !types.contains(&true)),
    }
}

/// How the node of a queue's leader is chosen. The last three are deprecated names of `balanced` that old clients and
/// definitions use.
pub(super) const LEADER_LOCATORS: &[&str] =
    &["client-local", "balanced", "random", "least-leaders", "min-masters"];

/// Parses a duration such as `7D` into milliseconds: a whole number and one of the units Y M D h m s. A month has 30
/// days.
pub fn span_ms(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'D' => 86_400,
        'M' => 30 * 86_400,
        'Y' => 365 * 86_400,
        _ => return None,
    };
    let digits = &text[..text.len() - unit.len_utf8()];
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(seconds)?.checked_mul(1000)
}

/// Returns the settings of the queue's machine, and whether every record is synced (`x-fsync`).
///
/// # Errors
/// [`CatalogError::PreconditionFailed`] names an argument that this queue type does not take, or whose value is
/// invalid.
pub(super) fn queue_config(
    vhost: &str,
    name: &Arc<str>,
    auto_delete: bool,
    arguments: &Arguments,
) -> Result<(queue::Config, bool), CatalogError> {
    let invalid = |key: &str, why: &str| CatalogError::PreconditionFailed {
        reason: format!("invalid arg '{key}' for queue '{name}' in vhost '{vhost}': {why}"),
    };
    let mut config = queue::Config { auto_delete, ..queue::Config::new(name.clone()) };
    let kind = arguments.get(QUEUE_TYPE);
    match kind
        .map(|kind| kind.as_str().ok_or_else(|| invalid(QUEUE_TYPE, "a string is needed")))
        .transpose()?
    {
        None | Some("classic") => {}
        Some("stream") => config.stream = Some(queue::StreamConfig::default()),
        Some("quorum") => {
            config.quorum = Some(queue::QuorumConfig::default());
            config.max_priority = Some(queue::QuorumConfig::MAX_PRIORITY);
        }
        Some(other) => {
            return Err(CatalogError::PreconditionFailed {
                reason: format!(
                    "queue type '{other}' of queue '{name}' in vhost '{vhost}' is not available: only \
                     'classic', 'quorum' and 'stream' are"
                ),
            });
        }
    }
    let mut stream = config.stream.unwrap_or_default();
    let mut quorum = config.quorum.unwrap_or_default();
    let mut fsync = false;
    let mut dead_letter_exchange = None;
    let mut dead_letter_key = None;
    for (key, value) in arguments.iter() {
        let number = |within: RangeInclusive<u64>| {
            value.as_u64().filter(|n| within.contains(n)).ok_or_else(|| {
                let (least, most) = within.into_inner();
                invalid(key, &format!("a whole number from {least} to {most} is needed"))
            })
        };
        let text = || value.as_str().ok_or_else(|| invalid(key, "a string is needed"));
        let boolean = || value.as_bool().ok_or_else(|| invalid(key, "a boolean is needed"));
        match key.as_str() {
            QUEUE_TYPE => {}
            other if !takes(config.queue_type(), other) => {
                let kind = config.queue_type().name();
                return Err(invalid(key, &format!("queue type '{kind}' does not take it")));
            }
            "x-max-age" => {
                let age = span_ms(text()?);
                stream.age_max_ms =
                    Some(age.ok_or_else(|| invalid(key, "a number and one of Y, M, D, h, m, s is needed"))?);
            }
            "x-stream-max-segment-size-bytes" => stream.segment_bytes = number(1..=SEGMENT_BYTES_MAX)?,
            "x-stream-filter-size-bytes" => stream.filter_bytes = number(16..=255)? as u8,
            // There is one node, so any size means the same.
            "x-initial-cluster-size" => drop(number(0..=u64::MAX)?),
            "x-quorum-initial-group-size" | "x-quorum-target-group-size" => drop(number(1..=u64::MAX)?),
            "x-delivery-limit" => {
                let limit = value.as_i64().ok_or_else(|| invalid(key, "a whole number is needed"))?;
                quorum.delivery_limit = Some(limit);
            }
            "x-delayed-retry-type" => {
                quorum.retry.kind = queue::RetryKind::from_name(text()?)
                    .ok_or_else(|| invalid(key, "disabled, all, failed or returned is needed"))?;
            }
            "x-delayed-retry-min" => quorum.retry.min_ms = Some(number(0..=TIMER_MS_MAX)?),
            "x-delayed-retry-max" => quorum.retry.max_ms = Some(number(0..=TIMER_MS_MAX)?),
            "x-consumer-timeout" => quorum.consumer_timeout_ms = Some(number(1..=TIMER_MS_MAX)?),
            // It is the time to wait for consumers on a node that cannot be reached. There is one node.
            "x-consumer-disconnected-timeout" => drop(number(0..=TIMER_MS_MAX)?),
            "x-dead-letter-strategy" => {
                quorum.at_least_once = match text()? {
                    "at-most-once" => Some(false),
                    "at-least-once" => Some(true),
                    _ => return Err(invalid(key, "at-most-once or at-least-once is needed")),
                };
            }
            "x-message-ttl" => config.message_ttl_ms = Some(number(0..=Message::TTL_MS_MAX)?),
            "x-expires" => config.expires_ms = Some(number(1..=Message::TTL_MS_MAX)?),
            "x-max-length" => config.max_length = Some(number(0..=u64::MAX)?),
            "x-max-length-bytes" => config.max_length_bytes = Some(number(0..=u64::MAX)?),
            "x-overflow" => {
                config.overflow = match text()? {
                    "drop-head" => queue::Overflow::DropHead,
                    "reject-publish" => queue::Overflow::RejectPublish,
                    "reject-publish-dlx" => queue::Overflow::RejectPublishDlx,
                    _ => {
                        return Err(invalid(
                            key,
                            "drop-head, reject-publish or reject-publish-dlx is needed",
                        ));
                    }
                }
            }
            "x-dead-letter-exchange" => dead_letter_exchange = Some(Arc::from(text()?)),
            "x-dead-letter-routing-key" => dead_letter_key = Some(Arc::from(text()?)),
            "x-max-priority" => config.max_priority = Some(number(1..=255)? as u8),
            "x-single-active-consumer" => config.single_active_consumer = boolean()?,
            "x-fsync" => fsync = boolean()?,
            // There is one node, so every locator chooses the same leader.
            "x-queue-leader-locator" if LEADER_LOCATORS.contains(&text()?) => {}
            "x-queue-leader-locator" => return Err(invalid(key, "client-local or balanced is needed")),
            other if is_obsolete_argument(other, value) => {
                return Err(invalid(key, "it is no longer supported"));
            }
            // Unknown arguments are stored and shown: clients use them for notes.
            _ => {}
        }
    }
    config.stream = config.stream.map(|_| stream);
    config.quorum = config.quorum.map(|_| quorum);
    // Quorum queues do not have this kind of overflow. As in RabbitMQ, it has no effect.
    if config.quorum.is_some() && config.overflow == queue::Overflow::RejectPublishDlx {
        config.overflow = queue::Overflow::DropHead;
    }
    config.dead_letter = match (dead_letter_exchange, dead_letter_key) {
        (Some(exchange), key) => Some(queue::DeadLetter { exchange, key, at_least_once: false }.into()),
        (None, Some(_)) => {
            return Err(invalid("x-dead-letter-routing-key", "it needs x-dead-letter-exchange"));
        }
        (None, None) => None,
    };
    choose_strategy(&mut config);
    Ok((config, fsync))
}

/// Decides whether dead letters are sent until a target takes them. This was asked for with `dead-letter-strategy`, but it
/// needs the overflow `reject-publish`: with `drop-head`, messages would be dropped while dead letters wait.
pub(super) fn choose_strategy(config: &mut queue::Config) {
    let is_asked = config.quorum.and_then(|quorum| quorum.at_least_once) == Some(true);
    if let Some(dead_letter) = &mut config.dead_letter {
        dead_letter.at_least_once = is_asked && config.overflow == queue::Overflow::RejectPublish;
    }
}

#[cfg(test)]
mod tests {
    use amqp10::Value;

    use super::*;

    fn config(arguments: &[(&str, Value)]) -> Result<(queue::Config, bool), String> {
        let arguments = arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        queue_config("/", &"q".into(), false, &arguments).map_err(|refused| refused.to_string())
    }

    #[test]
    fn durations_are_parsed() {
        let day = 86_400_000;
        for (text, ms) in
            [("7D", Some(7 * day)), ("1Y", Some(365 * day)), ("2M", Some(60 * day)), ("0s", Some(0))]
        {
            assert_eq!(span_ms(text), ms, "{text}");
        }
        for text in ["", "D", "7", "7d", "-1s", "+1s", "1.5h", "7 D", "99999999999999999999s", "7é"] {
            assert_eq!(span_ms(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_with_the_bounds() {
        for (key, number, bounds) in [
            ("x-max-priority", 300, "from 1 to 255"),
            ("x-max-priority", 0, "from 1 to 255"),
            ("x-message-ttl", Message::TTL_MS_MAX + 1, "from 0 to 315360000000"),
            ("x-expires", 0, "from 1 to 315360000000"),
        ] {
            let refused = config(&[(key, Value::Ulong(number))]).unwrap_err();
            let expected =
                format!("invalid arg '{key}' for queue 'q' in vhost '/': a whole number {bounds} is needed");
            assert!(refused.contains(&expected), "{refused}");
        }
    }

    #[test]
    fn every_leader_locator_is_accepted() {
        let locator = |value: Value| config(&[("x-queue-leader-locator", value)]);
        for name in ["client-local", "balanced", "random", "least-leaders", "min-masters"] {
            assert!(locator(name.into()).is_ok(), "{name}");
        }
        for value in [Value::from("nearest"), Value::Ulong(1)] {
            assert!(locator(value).unwrap_err().contains("x-queue-leader-locator"));
        }
    }

    #[test]
    fn a_quorum_queue_has_its_own_arguments() {
        let kind = ("x-queue-type", "quorum".into());
        let (plain, _) = config(std::slice::from_ref(&kind)).unwrap();
        assert_eq!(plain.quorum.and_then(|quorum| quorum.delivery_limit()), Some(20));
        for (limit, expected) in
            [(Value::Int(5), Some(5)), (Value::Int(-1), None), (Value::Ulong(0), Some(0))]
        {
            let (config, _) = config(&[kind.clone(), ("x-delivery-limit", limit)]).unwrap();
            assert_eq!(config.quorum.unwrap().delivery_limit(), expected);
        }
        let (delaying, _) = config(&[
            kind.clone(),
            ("x-delayed-retry-type", "failed".into()),
            ("x-delayed-retry-min", Value::Uint(100)),
            ("x-delayed-retry-max", Value::Uint(500)),
        ])
        .unwrap();
        let retry =
            queue::DelayedRetry { kind: queue::RetryKind::Failed, min_ms: Some(100), max_ms: Some(500) };
        assert_eq!(delaying.quorum.unwrap().retry, retry);
        for (key, value) in [
            ("x-delayed-retry-type", "sometimes".into()),
            ("x-delayed-retry-min", Value::Int(-1)),
            ("x-max-priority", Value::Ulong(5)),
            ("x-max-age", "1h".into()),
            ("x-delivery-limit", "many".into()),
            ("x-dead-letter-strategy", "sometimes".into()),
            ("x-quorum-initial-group-size", Value::Ulong(0)),
            ("x-consumer-timeout", Value::Ulong(0)),
            ("x-consumer-disconnected-timeout", Value::Int(-1)),
        ] {
            let refused = config(&[kind.clone(), (key, value)]).unwrap_err();
            assert!(refused.contains(key), "{refused}");
        }
        assert!(config(&[("x-delivery-limit", Value::Int(5))]).unwrap_err().contains("x-delivery-limit"));
    }

    #[test]
    fn dead_letters_are_kept_if_the_queue_rejects_at_its_limit() {
        let at_least_once = |overflow: &'static str| {
            let (config, _) = config(&[
                ("x-queue-type", "quorum".into()),
                ("x-dead-letter-exchange", "x".into()),
                ("x-dead-letter-strategy", "at-least-once".into()),
                ("x-overflow", overflow.into()),
            ])
            .unwrap();
            config.dead_letter.unwrap().at_least_once
        };
        assert!(at_least_once("reject-publish"));
        assert!(!at_least_once("drop-head"));
    }

    #[test]
    fn a_quorum_queue_may_set_the_timeout_of_its_consumers() {
        let (config, _) = config(&[
            ("x-queue-type", "quorum".into()),
            ("x-consumer-timeout", Value::Uint(1000)),
            ("x-consumer-disconnected-timeout", Value::Uint(60_000)),
        ])
        .unwrap();
        assert_eq!(config.quorum.unwrap().consumer_timeout_ms, Some(1000));
    }

    #[test]
    fn a_stream_has_its_own_arguments() {
        let kind = ("x-queue-type", "stream".into());
        let (plain, _) = config(std::slice::from_ref(&kind)).unwrap();
        assert_eq!(plain.stream, Some(queue::StreamConfig::default()));
        let (config_of, fsync) = config(&[
            kind.clone(),
            ("x-max-length-bytes", Value::Ulong(1 << 30)),
            ("x-max-age", "1h".into()),
            ("x-stream-max-segment-size-bytes", Value::Ulong(1000)),
            ("x-stream-filter-size-bytes", Value::Ulong(32)),
            ("x-fsync", Value::Boolean(true)),
        ])
        .unwrap();
        assert_eq!((config_of.max_length_bytes, fsync), (Some(1 << 30), true));
        let stream = config_of.stream.unwrap();
        assert_eq!(
            (stream.segment_bytes, stream.age_max_ms, stream.filter_bytes),
            (1000, Some(3_600_000), 32)
        );
        for (key, value) in [
            ("x-max-length", Value::Ulong(1)),
            ("x-message-ttl", Value::Ulong(1)),
            ("x-expires", Value::Ulong(1)),
            ("x-overflow", "drop-head".into()),
            ("x-dead-letter-exchange", "x".into()),
            ("x-max-priority", Value::Ulong(1)),
            ("x-single-active-consumer", Value::Boolean(true)),
            ("x-delivery-limit", Value::Ulong(1)),
        ] {
            let why = config(&[kind.clone(), (key, value)]).unwrap_err();
            assert!(why.contains(key) && why.contains("queue type 'stream' does not take it"), "{why}");
        }
        for (key, value) in [
            ("x-max-age", Value::from("week")),
            ("x-max-age", Value::Ulong(7)),
            ("x-stream-max-segment-size-bytes", Value::Ulong(0)),
            ("x-stream-max-segment-size-bytes", Value::Ulong(3_000_000_001)),
            ("x-stream-filter-size-bytes", Value::Ulong(15)),
            ("x-stream-filter-size-bytes", Value::Ulong(256)),
        ] {
            assert!(config(&[kind.clone(), (key, value)]).unwrap_err().contains(key), "{key}");
            let why = config(&[(key, Value::Ulong(1))]).unwrap_err();
            assert!(why.contains("queue type 'classic' does not take it"), "{why}");
        }
    }
}
