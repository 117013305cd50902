//! The settings of a queue: what its arguments and its policy say.

use std::sync::Arc;

/// The settings of one queue, with its policy merged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub name: Arc<str>,
    /// True if the queue is deleted when its last consumer leaves.
    pub auto_delete: bool,
    pub single_active_consumer: bool,
    pub max_length: Option<u64>,
    pub max_length_bytes: Option<u64>,
    pub overflow: Overflow,
    pub message_ttl_ms: Option<u64>,
    /// The time after which the queue is deleted if it is unused, in milliseconds.
    pub expires_ms: Option<u64>,
    /// Boxed because few queues have one.
    pub dead_letter: Option<Box<DeadLetter>>,
    /// The highest priority, which is the number of priority levels minus one. `None` means a plain fifo.
    pub max_priority: Option<u8>,
    /// The settings of a stream, if the queue is one. A stream uses only `name` and `max_length_bytes` of the
    /// settings above.
    pub stream: Option<StreamConfig>,
    /// The settings of a quorum queue, if the queue is one.
    pub quorum: Option<QuorumConfig>,
}

impl Config {
    /// Returns the settings of a queue without arguments and policies: a plain fifo without limits.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            auto_delete: false,
            single_active_consumer: false,
            max_length: None,
            max_length_bytes: None,
            overflow: Overflow::DropHead,
            message_ttl_ms: None,
            expires_ms: None,
            dead_letter: None,
            max_priority: None,
            stream: None,
            quorum: None,
        }
    }

    /// Returns the type of the queue.
    pub fn queue_type(&self) -> QueueType {
        match self {
            Self { stream: Some(_), .. } => QueueType::Stream,
            Self { quorum: Some(_), .. } => QueueType::Quorum,
            _ => QueueType::Classic,
        }
    }
}

/// The type of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueType {
    Classic,
    Quorum,
    Stream,
}

impl QueueType {
    pub const ALL: [Self; 3] = [Self::Classic, Self::Quorum, Self::Stream];

    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the value of the argument `x-queue-type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

/// Settings of a quorum queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumConfig {
    /// The number of failed deliveries that was asked for, see [`QuorumConfig::delivery_limit`]. A negative number is no limit,
    /// `None` is the default.
    pub delivery_limit: Option<i64>,
    pub retry: DelayedRetry,
    /// The timeout of consumers that ask for none, in milliseconds; see [`ConsumerTimeout`](super::ConsumerTimeout).
    pub consumer_timeout_ms: Option<u64>,
    /// Whether dead letters should be sent until a target takes them; see [`DeadLetter::at_least_once`]. `None` is the
    /// default, which is at most once.
    pub at_least_once: Option<bool>,
}

/// Which requeued messages of a quorum queue are delivered again only after a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayedRetry {
    pub kind: RetryKind,
    /// The delay for each failed delivery, in milliseconds. `None` is no delay.
    pub min_ms: Option<u64>,
    /// The longest delay, in milliseconds. `None` means `min_ms`.
    pub max_ms: Option<u64>,
}

/// The requeued messages that are delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryKind {
    #[default]
    Disabled,
    All,
    /// Those whose delivery counts as failed.
    Failed,
    /// Those whose delivery does not count as failed.
    Returned,
}

impl RetryKind {
    /// Returns the kind with this name in arguments and policies.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "disabled" => Self::Disabled,
            "all" => Self::All,
            "failed" => Self::Failed,
            "returned" => Self::Returned,
            _ => return None,
        })
    }
}

impl DelayedRetry {
    /// Returns the delay of a requeued message in milliseconds, or `None` if it is not delayed.
    pub fn delay_ms(&self, failed: bool, delivery_count: u32) -> Option<u64> {
        let applies = match self.kind {
            RetryKind::Disabled => false,
            RetryKind::All => true,
            RetryKind::Failed => failed,
            RetryKind::Returned => !failed,
        };
        let min_ms = self.min_ms.filter(|_| applies)?;
        let delay_ms = min_ms.saturating_mul(u64::from(delivery_count.max(1)));
        Some(delay_ms.min(self.max_ms.unwrap_or(min_ms)))
    }
}

impl QuorumConfig {
    /// The priority levels of every quorum queue, minus one.
    pub const MAX_PRIORITY: u8 = 31;
    /// The priority of a message that has none.
    pub const DEFAULT_PRIORITY: u8 = 4;
    /// The number of failed deliveries that a message may have if neither the declaration nor a policy sets
    /// it.
    pub const DEFAULT_DELIVERY_LIMIT: i64 = 20;

    /// Returns the number of failed deliveries that a message may have. With one more, it is dead-lettered,
    /// or dropped if there is nowhere to send dead letters. `None` means no limit.
    pub fn delivery_limit(&self) -> Option<u32> {
        let limit = self.delivery_limit.unwrap_or(Self::DEFAULT_DELIVERY_LIMIT);
        (limit >= 0).then(|| u32::try_from(limit).unwrap_or(u32::MAX))
    }
}

/// The settings of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// The maximum size of a segment, in bytes. Retention removes whole segments.
    pub segment_bytes: u64,
    /// The time for which a message is retained, in milliseconds.
    pub age_max_ms: Option<u64>,
    /// The size of each chunk's filter, in bytes, for chunks whose messages have filter values.
    pub filter_bytes: u8,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self { segment_bytes: 500_000_000, age_max_ms: None, filter_bytes: 16 }
    }
}

/// What happens to messages when the queue is at its length limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overflow {
    #[default]
    DropHead,
    RejectPublish,
    RejectPublishDlx,
}

/// Where dead messages are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub exchange: Arc<str>,
    /// The routing key of dead letters. `None` keeps the keys of the message.
    pub key: Option<Arc<str>>,
    /// True if a dead letter is kept and sent again until all its targets have taken it. False if it is sent only once, and
    /// dropped if no target takes it.
    pub at_least_once: bool,
}
