//! Moves: messages of a queue go to another queue or an exchange, or dead letters go back to where they died.

use std::sync::Arc;

use message::{Death, DeathReason, Deaths};

/// Which messages of a queue to move, and where they go. The default redrives all dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// At most so many messages.
    pub count: Option<u64>,
    /// The message with this sequence number only.
    pub seq: Option<u64>,
    /// Messages with all of these headers only: see [`catalog::has_headers`].
    pub headers: Vec<(String, String)>,
    /// At most so many messages per second. `None` means as many as possible; 0 means the same as 1.
    pub per_second: Option<u32>,
    pub which: Which,
}

/// The choice between moving all messages and redriving dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Messages whether dead or not, all to one target.
    All {
        to: MoveTo,
        /// Messages up to this sequence number only. `None` is the newest message at the start of the move, so that a
        /// message that comes back meanwhile is not moved again.
        until_seq: Option<u64>,
    },
    /// Dead letters go back.
    Dead(Redrive),
}

impl Default for Which {
    fn default() -> Self {
        Self::Dead(Redrive::default())
    }
}

/// The target of moved messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// The queue of this name. Messages keep their exchange and routing keys.
    Queue(Arc<str>),
    /// Each queue to which this exchange routes the message.
    Exchange {
        name: Arc<str>,
        /// The new routing key. `None` keeps the keys of each message.
        key: Option<Arc<str>>,
    },
}

/// Which dead letters of a queue to redrive, and where they go. The default is all of them, each to the queue where it died.
///
/// All filters look at one death of each message: the most recent one, or with `died_in` the most recent one in that queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redrive {
    pub reason: Option<DeathReason>,
    /// Messages that died in the queue of this name.
    pub died_in: Option<Arc<str>>,
    /// Messages that died at this time or earlier, in milliseconds since the epoch. `None` is the start of the redrive, so
    /// that a message that dies again meanwhile is not redriven again.
    pub until_ms: Option<u64>,
    /// Messages that died at this time or later, in milliseconds since the epoch.
    pub since_ms: Option<u64>,
    pub to: RedriveTo,
}

/// Where redriven messages go. They keep the exchange and the routing keys with which they came to the queue where they died.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RedriveTo {
    /// To the queue where the message died, and to no other queue.
    #[default]
    DiedIn,
    /// To the exchange to which the message was published before it died. Each queue that the exchange routes it to gets it.
    Exchange,
    /// To the queue of this name.
    Queue(Arc<str>),
}

impl Redrive {
    /// Returns the death that counts for a message in the queue `source`. `None` if the message is not redriven.
    /// `until_ms` is the time by which it must have died.
    ///
    /// A message that died in `source` itself would only return there, so it does not count.
    pub fn matching<'a>(&self, deaths: &'a Deaths, source: &str, until_ms: u64) -> Option<&'a Death> {
        let death = match &self.died_in {
            Some(queue) => deaths.iter().find(|death| death.queue == *queue),
            None => deaths.last(),
        }?;
        let matches = *death.queue != *source
            && self.reason.is_none_or(|reason| reason == death.reason)
            && death.last_ms <= until_ms
            && self.since_ms.is_none_or(|since_ms| death.last_ms >= since_ms);
        matches.then_some(death)
    }
}

/// What a move has done. Repeating the request goes on where it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The number of messages that have left the queue.
    pub moved: u64,
    /// The number of messages that were looked at and stay.
    pub skipped: u64,
    /// The number of messages that are ready in the queue at the end. They include those that were skipped.
    pub left: u64,
    /// The bound that a request which goes on must repeat: `until_seq` of [`Which::All`], or [`Redrive::until_ms`].
    pub until: u64,
    pub ended: MoveEnd,
}

/// Why a move has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveEnd {
    /// All messages were looked at.
    Done,
    /// [`Move::count`] messages were moved.
    Count,
    /// The time of one request is over.
    Time,
    /// As many messages were skipped as one request may hold back. Those behind them were not looked at.
    Skipped,
    /// Publishing is stopped by an alarm: its resource, and the node. The move may go on when the alarm has ended.
    Alarm { resource: &'static str, node: Arc<str> },
    /// A message was refused. It stays in the queue.
    Refused(MoveRefusal),
}

/// Why a message was not moved. It names what refused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveRefusal {
    /// There is no queue of this name.
    NoQueue(Arc<str>),
    /// There is no exchange of this name.
    NoExchange(Arc<str>),
    /// Clients may not publish to the exchange of this name.
    InternalExchange(Arc<str>),
    /// The exchange routes the message to no queue.
    Unroutable { exchange: Arc<str>, key: Arc<str> },
    /// The queue of this name is full and rejects publishes.
    Full(Arc<str>),
    /// The queue of this name cannot store messages at the moment.
    Unavailable(Arc<str>),
    /// Messages of the queue of this name are damaged, so it takes none.
    Damaged(Arc<str>),
    /// The user may not publish there. The text is that of the permission.
    NotPermitted(Arc<str>),
    /// The shard has no number left for another publisher.
    NoPublisher,
}

impl std::fmt::Display for MoveRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoQueue(queue) => write!(f, "there is no queue '{queue}'"),
            Self::NoExchange(exchange) => write!(f, "there is no exchange '{exchange}'"),
            Self::InternalExchange(exchange) => {
                write!(f, "exchange '{exchange}' is internal: clients may not publish to it")
            }
            Self::Unroutable { exchange, key } => {
                write!(f, "exchange '{exchange}' routes the key '{key}' to no queue")
            }
            Self::Full(queue) => write!(f, "queue '{queue}' is full"),
            Self::Unavailable(queue) => write!(f, "queue '{queue}' cannot store messages at the moment"),
            Self::Damaged(queue) => write!(f, "queue '{queue}' is damaged on the disk"),
            Self::NotPermitted(reason) => f.write_str(reason),
            Self::NoPublisher => f.write_str("the broker has too many publishers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deaths() -> Deaths {
        let death = |queue: &str, reason, last_ms| Death {
            queue: queue.into(),
            reason,
            count: 1,
            first_ms: 1,
            last_ms,
            exchange: "x".into(),
            keys: vec!["k".into()],
            ttl_ms: None,
        };
        let deaths =
            vec![death("retry", DeathReason::Expired, 20), death("orders", DeathReason::Rejected, 10)];
        Deaths::restore(deaths, 0, 0)
    }

    #[test]
    fn filters_look_at_one_death() {
        let all = Redrive::default();
        let orders = Redrive { died_in: Some("orders".into()), ..all.clone() };
        let of = |reason| Redrive { reason: Some(reason), ..all.clone() };
        for (wanted, source, until_ms, queue) in [
            (all.clone(), "dead", 20, Some("retry")),
            (all.clone(), "dead", 19, None),
            (all.clone(), "retry", 20, None),
            (orders.clone(), "dead", 10, Some("orders")),
            (orders.clone(), "dead", 9, None),
            (orders.clone(), "orders", 10, None),
            (Redrive { died_in: Some("other".into()), ..all.clone() }, "dead", 99, None),
            (of(DeathReason::Expired), "dead", 99, Some("retry")),
            (of(DeathReason::Rejected), "dead", 99, None),
            (Redrive { reason: Some(DeathReason::Rejected), ..orders }, "dead", 99, Some("orders")),
            (Redrive { since_ms: Some(20), ..all.clone() }, "dead", 99, Some("retry")),
            (Redrive { since_ms: Some(21), ..all }, "dead", 99, None),
        ] {
            let deaths = deaths();
            let found = wanted.matching(&deaths, source, until_ms).map(|death| &*death.queue);
            assert_eq!(found, queue, "{wanted:?} in {source} until {until_ms}");
        }
        assert_eq!(Redrive::default().matching(&Deaths::default(), "dead", 99), None);
    }
}
