//! Policies: settings for all queues or exchanges whose names match a pattern (docs/compatibility.md, Queue arguments
//! and policies).
//!
//! ```text
//!   arguments of the queue ─────────────────────────────┐
//!   policy: the matching one of highest priority ──┐    ├─> effective settings (`queue::Config`)
//!   operator policy: likewise ─────────────────────┴────┘
//! ```
//!
//! One policy and one operator policy apply to each object. Where several give a value:
//!
//! | setting | policy and operator policy | the result and the arguments |
//! |---|---|---|
//! | numbers | the smaller | the smaller |
//! | `overflow` | the operator policy's | the policy's |
//! | `fsync` | the operator policy's | true if one of them is true |
//! | dead-letter exchange and key | not in operator policies | the argument's |
//!
//! A changed policy costs the same for any number of queues and exchanges, because it only makes their records
//! outdated. Updating one record costs one match of each policy of its virtual host, on every shard. So does a
//! declaration. The steps of these matches are bounded together. Measured with 3,000 queues and one policy whose pattern matches all: 2 microseconds per queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp10::Value;
use queue::QueueType;

use super::arguments::{LEADER_LOCATORS, span_ms};
use super::values::ValueKind as Kind;
use super::{Arguments, Catalog, CatalogError, Vhost};
use crate::nearest::did_you_mean;
use crate::pattern::Pattern;

/// The longest time to which a timer may be set, in milliseconds, as in arguments.
const TIMER_MS_MAX: i64 = u32::MAX as i64;

/// The longest time to live of a message or of an unused queue, in milliseconds.
const EXPIRY_MS_MAX: i64 = message::Message::TTL_MS_MAX as i64;

/// A policy or an operator policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    /// True for an operator policy, which also limits the users who may set policies.
    pub operator: bool,
    pub pattern: Pattern,
    /// The priority. Of the policies that match a name, the one with the highest priority applies. Of equal
    /// priorities, the first by name applies.
    pub priority: i64,
    pub apply_to: ApplyTo,
    pub definition: Arguments,
}

/// The kinds of objects that a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyTo {
    All,
    Exchanges,
    Queues,
    ClassicQueues,
    QuorumQueues,
    Streams,
}

/// The kind of an object, as policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Exchange,
    ClassicQueue,
    QuorumQueue,
    Stream,
}

impl ApplyTo {
    pub const ALL: [Self; 6] =
        [Self::All, Self::Exchanges, Self::Queues, Self::ClassicQueues, Self::QuorumQueues, Self::Streams];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Exchanges => "exchanges",
            Self::Queues => "queues",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Streams => "streams",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.as_str() == text)
    }

    fn covers(self, subject: Subject) -> bool {
        match subject {
            Subject::Exchange => matches!(self, Self::All | Self::Exchanges),
            Subject::ClassicQueue => matches!(self, Self::All | Self::Queues | Self::ClassicQueues),
            Subject::QuorumQueue => matches!(self, Self::All | Self::Queues | Self::QuorumQueues),
            Subject::Stream => matches!(self, Self::All | Self::Queues | Self::Streams),
        }
    }
}

impl From<QueueType> for Subject {
    fn from(kind: QueueType) -> Self {
        match kind {
            QueueType::Classic => Self::ClassicQueue,
            QueueType::Quorum => Self::QuorumQueue,
            QueueType::Stream => Self::Stream,
        }
    }
}

impl Policy {
    /// Returns true if the policy matches a queue of this type: `classic`, `quorum` or `stream`. Another policy that matches may have a
    /// higher priority.
    pub fn matches_queue(&self, kind: &str, name: &str) -> bool {
        QueueType::from_name(kind).is_some_and(|kind| self.matches(kind.into(), name))
    }

    pub(super) fn matches(&self, subject: Subject, name: &str) -> bool {
        self.apply_to.covers(subject) && self.pattern.is_match(name)
    }
}

/// How the values of a policy and an operator policy are merged. See the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Merge {
    Min,
    /// The smaller number. A negative number means no limit.
    MinOfLimits,
    Operator,
    /// Operator policies may not have this key, so nothing is merged.
    Never,
}

/// All keys. Keys for other queue types are accepted, because one policy may be for several types, and those of federation,
/// because definitions from RabbitMQ have them. They have no effect here.
pub(super) const KEYS: &[(&str, Kind, Merge)] = &[
    ("expires", Kind::Number(1, EXPIRY_MS_MAX), Merge::Min),
    ("message-ttl", Kind::Number(0, EXPIRY_MS_MAX), Merge::Min),
    ("max-length", Kind::Number(0, i64::MAX), Merge::Min),
    ("max-length-bytes", Kind::Number(0, i64::MAX), Merge::Min),
    ("overflow", Kind::OneOf(&["drop-head", "reject-publish", "reject-publish-dlx"]), Merge::Operator),
    ("dead-letter-exchange", Kind::Exchange, Merge::Never),
    ("dead-letter-routing-key", Kind::Text, Merge::Never),
    ("fsync", Kind::Boolean, Merge::Operator),
    (super::exchange::ALTERNATE, Kind::Exchange, Merge::Never),
    ("queue-version", Kind::Number(2, 2), Merge::Operator),
    ("queue-leader-locator", Kind::OneOf(LEADER_LOCATORS), Merge::Never),
    ("delivery-limit", Kind::Number(i64::MIN, i64::MAX), Merge::MinOfLimits),
    ("dead-letter-strategy", Kind::OneOf(&["at-most-once", "at-least-once"]), Merge::Never),
    ("target-group-size", Kind::Number(1, 255), Merge::Operator),
    ("consumer-timeout", Kind::Number(1, TIMER_MS_MAX), Merge::Never),
    ("delayed-retry-type", Kind::OneOf(&["disabled", "all", "failed", "returned"]), Merge::Never),
    ("delayed-retry-min", Kind::Number(0, TIMER_MS_MAX), Merge::Never),
    ("delayed-retry-max", Kind::Number(0, TIMER_MS_MAX), Merge::Never),
    ("max-age", Kind::Span, Merge::Never),
    ("stream-max-segment-size-bytes", Kind::Number(1, 3_000_000_000), Merge::Never),
    ("stream-filter-size-bytes", Kind::Number(16, 255), Merge::Never),
    ("federation-upstream", Kind::Text, Merge::Never),
    ("federation-upstream-set", Kind::Text, Merge::Never),
];

/// Returns the kind of value of a key. `None` if policies, or operator policies, have no such key.
fn kind_of(operator: bool, key: &str) -> Option<&'static Kind> {
    let known = KEYS.iter().find(|(k, _, merge)| *k == key && !(operator && *merge == Merge::Never));
    known.map(|(_, kind, _)| kind)
}

/// Returns true if policies, or operator policies, have this key.
pub fn is_policy_key(operator: bool, key: &str) -> bool {
    kind_of(operator, key).is_some()
}

/// Checks a definition.
///
/// # Errors
/// The definition is empty, a key is unknown, or a value is invalid.
pub(super) fn check_definition(operator: bool, definition: &Arguments) -> Result<(), CatalogError> {
    let invalid = |why: String| Err(CatalogError::Invalid { reason: format!("Validation failed: {why}") });
    if definition.is_empty() {
        return invalid("the definition is empty".into());
    }
    for (key, value) in definition.iter() {
        let Some(kind) = kind_of(operator, key) else {
            let what = if operator { "operator policy" } else { "policy" };
            let known = KEYS.iter().filter(|(.., merge)| !(operator && *merge == Merge::Never));
            let meant = did_you_mean(key, known.map(|(known, ..)| *known));
            return invalid(format!("'{key}' is not recognised: there is no such {what} setting{meant}"));
        };
        let wanted = match kind {
            Kind::Number(min, max) if value.as_i64().is_none_or(|n| !(*min..=*max).contains(&n)) => {
                format!("a whole number from {min} to {max}")
            }
            Kind::Text | Kind::Exchange if value.as_str().is_none() => "a string".into(),
            Kind::Span if value.as_str().and_then(span_ms).is_none() => {
                "a number and one of Y, M, D, h, m, s".into()
            }
            Kind::Boolean if value.as_bool().is_none() => "a boolean".into(),
            Kind::OneOf(words) if value.as_str().is_none_or(|word| !words.contains(&word)) => {
                words.join(" or ")
            }
            _ => continue,
        };
        return invalid(format!("'{key}' needs {wanted}"));
    }
    Ok(())
}

/// The policies of one virtual host, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    own: BTreeMap<Arc<str>, Arc<Policy>>,
    operator: BTreeMap<Arc<str>, Arc<Policy>>,
    /// The most steps that matching one name with all of them takes: those of policies, and those of operator policies.
    steps: [u64; 2],
}

impl Policies {
    pub(super) fn len(&self) -> usize {
        self.own.len() + self.operator.len()
    }

    pub(super) fn of(&self, operator: bool) -> &BTreeMap<Arc<str>, Arc<Policy>> {
        if operator { &self.operator } else { &self.own }
    }

    /// Adds a policy, or replaces the one with its name.
    pub(super) fn insert(&mut self, policy: Arc<Policy>) {
        self.remove(policy.operator, &policy.name);
        let (all, steps) = self.of_mut(policy.operator);
        *steps = steps.saturating_add(policy.pattern.steps_of_name());
        all.insert(policy.name.clone(), policy);
    }

    pub(super) fn remove(&mut self, operator: bool, name: &str) {
        let (all, steps) = self.of_mut(operator);
        if let Some(removed) = all.remove(name) {
            *steps = steps.saturating_sub(removed.pattern.steps_of_name());
        }
    }

    fn of_mut(&mut self, operator: bool) -> (&mut BTreeMap<Arc<str>, Arc<Policy>>, &mut u64) {
        let [own, of_operators] = &mut self.steps;
        if operator { (&mut self.operator, of_operators) } else { (&mut self.own, own) }
    }

    /// Returns the most steps that matching one name with all policies, or with all operator policies, takes.
    pub(super) fn steps(&self, operator: bool) -> u64 {
        self.steps[usize::from(operator)]
    }

    /// Returns the policy that applies to this object, if there is one.
    pub(super) fn best(&self, operator: bool, subject: Subject, name: &str) -> Option<&Arc<Policy>> {
        let matching = self.of(operator).values().filter(|p| p.matches(subject, name));
        // The policies are searched from the last to the first name, because `max_by_key` returns the last of
        // equal elements.
        matching.rev().max_by_key(|p| p.priority)
    }
}

impl Catalog {
    /// Returns the largest number of policies that one name must be matched against.
    pub fn most_policies(&self) -> usize {
        self.vhosts.values().map(|vhost| vhost.policies.len()).max().unwrap_or_default()
    }

    /// Returns the largest number of steps that matching one name with policies takes ([`Pattern::steps`]).
    pub fn most_policy_steps(&self) -> u64 {
        let steps = |vhost: &Vhost| vhost.policies.steps(false).saturating_add(vhost.policies.steps(true));
        self.vhosts.values().map(steps).max().unwrap_or_default()
    }
}

/// Merges the definitions of a policy and an operator policy.
pub(crate) fn merged_definition(policy: Option<&Policy>, operator: Option<&Policy>) -> Arguments {
    let mut merged = policy.map(|p| p.definition.clone()).unwrap_or_default();
    for (key, value) in operator.iter().flat_map(|p| p.definition.iter()) {
        let merge = KEYS.iter().find(|(k, ..)| k == key).map_or(Merge::Never, |(_, _, merge)| *merge);
        let own = merged.get(key).and_then(Value::as_i64);
        let keep = match (merge, own, value.as_i64()) {
            (Merge::Never, ..) => true,
            (Merge::Min, Some(own), Some(operator)) => own <= operator,
            (Merge::MinOfLimits, Some(own), Some(operator)) if own < 0 || operator < 0 => own >= operator,
            (Merge::MinOfLimits, Some(own), Some(operator)) => own <= operator,
            _ => false,
        };
        if !keep {
            merged.insert(key.clone(), value.clone());
        }
    }
    merged
}

/// Applies a definition to the settings that the arguments of a queue have made.
pub(super) fn apply_definition(definition: &Arguments, config: &mut queue::Config, fsync: &mut bool) {
    let number = |key: &str| definition.get(key).and_then(Value::as_u64);
    let text = |key: &str| definition.get(key).and_then(Value::as_str).map(Arc::<str>::from);
    let min = |own: &mut Option<u64>, key: &str| *own = own.iter().copied().chain(number(key)).min();
    *fsync |= definition.get("fsync").and_then(Value::as_bool) == Some(true);
    min(&mut config.max_length_bytes, "max-length-bytes");
    if let Some(stream) = &mut config.stream {
        let age = text("max-age").and_then(|age| span_ms(&age));
        stream.age_max_ms = stream.age_max_ms.into_iter().chain(age).min();
        if let Some(bytes) = number("stream-max-segment-size-bytes") {
            stream.segment_bytes = stream.segment_bytes.min(bytes);
        }
        if let Some(bytes) = number("stream-filter-size-bytes").and_then(|bytes| u8::try_from(bytes).ok()) {
            stream.filter_bytes = stream.filter_bytes.min(bytes);
        }
        return;
    }
    if let Some(quorum) = &mut config.quorum {
        let policy = definition.get("delivery-limit").and_then(Value::as_i64);
        quorum.delivery_limit = match (quorum.delivery_limit, policy) {
            // A negative number means no limit.
            (Some(own), Some(policy)) if own < 0 || policy < 0 => Some(own.max(policy)),
            (own, policy) => own.into_iter().chain(policy).min(),
        };
        // An argument overrides the policy.
        if quorum.retry.kind == queue::RetryKind::Disabled {
            let kind = text("delayed-retry-type").and_then(|kind| queue::RetryKind::from_name(&kind));
            quorum.retry.kind = kind.unwrap_or_default();
        }
        min(&mut quorum.retry.min_ms, "delayed-retry-min");
        min(&mut quorum.retry.max_ms, "delayed-retry-max");
        min(&mut quorum.consumer_timeout_ms, "consumer-timeout");
        let strategy = text("dead-letter-strategy").map(|strategy| *strategy == *"at-least-once");
        quorum.at_least_once = quorum.at_least_once.or(strategy);
    }
    min(&mut config.expires_ms, "expires");
    min(&mut config.message_ttl_ms, "message-ttl");
    min(&mut config.max_length, "max-length");
    match text("overflow").as_deref() {
        Some("drop-head") => config.overflow = queue::Overflow::DropHead,
        Some("reject-publish") => config.overflow = queue::Overflow::RejectPublish,
        // Quorum queues do not have this kind of overflow, so the key has no effect.
        Some("reject-publish-dlx") if config.quorum.is_some() => {}
        Some("reject-publish-dlx") => config.overflow = queue::Overflow::RejectPublishDlx,
        _ => {}
    }
    let own = config.dead_letter.take();
    let (exchange, key) = own.map_or((None, None), |d| (Some(d.exchange), d.key));
    let key = key.or_else(|| text("dead-letter-routing-key"));
    config.dead_letter = exchange
        .or_else(|| text("dead-letter-exchange"))
        .map(|exchange| queue::DeadLetter { exchange, key, at_least_once: false }.into());
    super::arguments::choose_strategy(config);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_limits_the_deliveries_of_quorum_queues() {
        let limit = |own: Option<i64>, policy: i32| {
            let quorum = Some(queue::QuorumConfig { delivery_limit: own, ..Default::default() });
            let mut config = queue::Config { quorum, ..queue::Config::new("q") };
            let definition = [("delivery-limit".to_owned(), Value::Int(policy))].into();
            apply_definition(&definition, &mut config, &mut false);
            config.quorum.unwrap().delivery_limit()
        };
        assert_eq!(
            [limit(None, 5), limit(None, 50), limit(Some(3), 5), limit(Some(9), 5)],
            [5, 50, 3, 5].map(Some)
        );
        assert_eq!([limit(None, -1), limit(Some(-1), -1)], [None, None]);
        assert_eq!([limit(Some(3), -1), limit(Some(-1), 5)], [Some(3), Some(5)]);
    }

    #[test]
    fn a_policy_delays_the_retries_of_quorum_queues() {
        let retry = |own: queue::DelayedRetry| {
            let quorum = Some(queue::QuorumConfig { retry: own, ..Default::default() });
            let mut config = queue::Config { quorum, ..queue::Config::new("q") };
            let definition = [
                ("delayed-retry-type".to_owned(), Value::from("all")),
                ("delayed-retry-min".to_owned(), Value::Int(100)),
            ];
            apply_definition(&definition.into(), &mut config, &mut false);
            config.quorum.unwrap().retry
        };
        let (kind, min_ms) = (queue::RetryKind::All, Some(100));
        let expected = queue::DelayedRetry { kind, min_ms, max_ms: None };
        assert_eq!(retry(queue::DelayedRetry::default()), expected);
        let own = queue::DelayedRetry { kind: queue::RetryKind::Failed, min_ms: Some(50), max_ms: Some(70) };
        assert_eq!(retry(own), own);
    }

    fn policy(operator: bool, name: &str, priority: i64, definition: &[(&str, Value)]) -> Arc<Policy> {
        Arc::new(Policy {
            vhost: "/".into(),
            name: name.into(),
            operator,
            pattern: Pattern::new("^q").unwrap(),
            priority,
            apply_to: ApplyTo::Queues,
            definition: definition.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        })
    }

    #[test]
    fn the_highest_priority_wins_and_then_the_name() {
        let mut policies = Policies::default();
        for (name, priority) in [("c", 1), ("b", 5), ("a", 5), ("d", -1)] {
            policies.insert(policy(false, name, priority, &[]));
        }
        let best = |name| policies.best(false, Subject::ClassicQueue, name).map(|p| &*p.name);
        assert_eq!(best("q1"), Some("a"));
        assert_eq!(best("1q"), None);
        assert_eq!(policies.best(false, Subject::Exchange, "q1"), None);
        assert_eq!(policies.best(true, Subject::ClassicQueue, "q1"), None);
    }

    #[test]
    fn the_steps_are_those_of_the_policies_that_are_left() {
        let mut policies = Policies::default();
        let one = policy(false, "a", 0, &[]);
        let each = one.pattern.steps_of_name();
        policies.insert(one.clone());
        policies.insert(one);
        policies.insert(policy(false, "b", 0, &[]));
        policies.insert(policy(true, "b", 0, &[]));
        assert_eq!([policies.steps(false), policies.steps(true)], [2 * each, each]);
        policies.remove(false, "b");
        policies.remove(false, "b");
        policies.remove(true, "b");
        assert_eq!([policies.steps(false), policies.steps(true)], [each, 0]);
    }

    #[test]
    fn apply_to_selects_the_kinds_of_objects() {
        let covers = |subject| ApplyTo::ALL.map(|a| a.covers(subject));
        assert_eq!(covers(Subject::Exchange), [true, true, false, false, false, false]);
        assert_eq!(covers(Subject::ClassicQueue), [true, false, true, true, false, false]);
        assert_eq!(covers(Subject::Stream), [true, false, true, false, false, true]);
        assert!(ApplyTo::ALL.iter().all(|a| ApplyTo::parse(a.as_str()) == Some(*a)));
    }

    #[test]
    fn operator_policies_lower_numbers_and_replace_texts() {
        let own = policy(
            false,
            "own",
            0,
            &[
                ("max-length", Value::Int(5)),
                ("message-ttl", Value::Int(1000)),
                ("overflow", "reject-publish".into()),
                ("delivery-limit", Value::Int(-1)),
                ("dead-letter-exchange", "x".into()),
            ],
        );
        let operator = policy(
            true,
            "op",
            0,
            &[
                ("max-length", Value::Ulong(10)),
                ("message-ttl", Value::Ulong(7)),
                ("overflow", "drop-head".into()),
                ("delivery-limit", Value::Ulong(3)),
                ("expires", Value::Ulong(9)),
            ],
        );
        let merged = merged_definition(Some(&own), Some(&operator));
        let expected: Arguments = [
            ("max-length", Value::Int(5)),
            ("message-ttl", Value::Ulong(7)),
            ("overflow", "drop-head".into()),
            ("delivery-limit", Value::Ulong(3)),
            ("expires", Value::Ulong(9)),
            ("dead-letter-exchange", "x".into()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into();
        assert_eq!(merged, expected);
        assert_eq!(merged_definition(None, None), Arguments::new());
        assert_eq!(merged_definition(None, Some(&operator)), operator.definition);
    }

    #[test]
    fn arguments_and_policies_are_merged() {
        let name: Arc<str> = "q".into();
        let arguments = |pairs: &[(&str, Value)]| -> Arguments {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
        };
        let effective = |own: &[(&str, Value)], definition: &[(&str, Value)]| {
            let (mut config, mut fsync) =
                super::super::queue_config("/", &name, false, &arguments(own)).unwrap();
            apply_definition(&arguments(definition), &mut config, &mut fsync);
            (config, fsync)
        };
        let (config, fsync) = effective(
            &[
                ("x-max-length", Value::Int(5)),
                ("x-message-ttl", Value::Int(10)),
                ("x-overflow", "reject-publish".into()),
                ("x-dead-letter-exchange", "own".into()),
            ],
            &[
                ("max-length", Value::Int(7)),
                ("message-ttl", Value::Int(3)),
                ("max-length-bytes", Value::Int(100)),
                ("expires", Value::Int(60)),
                ("overflow", "drop-head".into()),
                ("dead-letter-exchange", "policy".into()),
                ("dead-letter-routing-key", "k".into()),
                ("fsync", Value::Boolean(true)),
            ],
        );
        assert_eq!((config.max_length, config.message_ttl_ms), (Some(5), Some(3)));
        assert_eq!((config.max_length_bytes, config.expires_ms), (Some(100), Some(60)));
        assert_eq!(config.overflow, queue::Overflow::DropHead);
        let dead_letter = config.dead_letter.unwrap();
        assert_eq!((&*dead_letter.exchange, dead_letter.key.as_deref()), ("own", Some("k")));
        assert!(fsync);

        let (config, fsync) = effective(
            &[("x-fsync", Value::Boolean(true))],
            &[("dead-letter-routing-key", "k".into()), ("fsync", Value::Boolean(false))],
        );
        assert_eq!(config.dead_letter, None, "a key without an exchange has no effect");
        assert!(fsync, "a policy cannot switch off the declared fsync");
    }

    #[test]
    fn a_stream_uses_only_its_own_policy_keys() {
        let own = Arguments::from([
            ("x-queue-type".to_owned(), "stream".into()),
            ("x-max-age".to_owned(), "7D".into()),
        ]);
        let (mut config, mut fsync) = super::super::queue_config("/", &"q".into(), false, &own).unwrap();
        let definition = [
            ("max-age", "1h".into()),
            ("max-length-bytes", Value::Int(100)),
            ("max-length", Value::Int(7)),
            ("dead-letter-exchange", "x".into()),
            ("stream-max-segment-size-bytes", Value::Int(9)),
            ("stream-filter-size-bytes", Value::Int(20)),
        ];
        let definition = definition.map(|(key, value)| (key.to_owned(), value)).into();
        apply_definition(&definition, &mut config, &mut fsync);
        let stream = queue::StreamConfig { segment_bytes: 9, age_max_ms: Some(3_600_000), filter_bytes: 16 };
        assert_eq!((config.stream, config.max_length_bytes), (Some(stream), Some(100)));
        assert_eq!((config.max_length, config.dead_letter, fsync), (None, None, false));
    }

    #[test]
    fn invalid_definitions_are_refused() {
        let check = |operator, key: &str, value: Value| {
            check_definition(operator, &Arguments::from([(key.to_owned(), value)])).map_err(|e| e.to_string())
        };
        assert_eq!(check(false, "max-length", Value::Int(0)), Ok(()));
        assert_eq!(check(true, "max-length", Value::Int(0)), Ok(()));
        assert_eq!(check(false, "delivery-limit", Value::Int(-1)), Ok(()));
        assert_eq!(
            check(false, "max-len", Value::Int(1)).unwrap_err(),
            "Validation failed: 'max-len' is not recognised: there is no such policy setting"
        );
        assert_eq!(
            check(true, "dead-letter-exchange", "x".into()).unwrap_err(),
            "Validation failed: 'dead-letter-exchange' is not recognised: there is no such operator policy setting"
        );
        assert_eq!(
            check(false, "expires", Value::Int(0)).unwrap_err(),
            "Validation failed: 'expires' needs a whole number from 1 to 315360000000"
        );
        assert!(check(false, "overflow", "sometimes".into()).is_err());
        for locator in ["client-local", "balanced", "random", "least-leaders", "min-masters"] {
            assert_eq!(check(false, "queue-leader-locator", locator.into()), Ok(()), "{locator}");
        }
        assert!(check(false, "queue-leader-locator", "nearest".into()).is_err());
        assert!(check(false, "fsync", "yes".into()).is_err());
        assert!(check(false, "dead-letter-exchange", Value::Int(1)).is_err());
        assert!(check(false, "max-age", "old".into()).is_err());
        assert!(check_definition(false, &Arguments::new()).is_err());
    }
}
