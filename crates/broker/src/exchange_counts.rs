//! The messages that publishers sent to each exchange, counted per shard.
//!
//! ```text
//!   Intake::publish: a cached route costs nothing more per message; the account numbers the messages anyway
//!   the end of a turn, a change of the route, the end of the publisher ──> ExchangeCounters::of(exchange)
//!   the admin API ──> ExchangeCounters::get on every shard, and their sum
//! ```
//!
//! As in RabbitMQ, a message counts for the exchange to which its publisher sent it. The exchanges that are bound to
//! this one count nothing, and neither do dead letters and messages of the broker itself.

use std::ops::AddAssign;

use catalog::ExchangeId;

/// The number of messages that an exchange got. All of them only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeCounts {
    /// The number of messages that publishers sent to the exchange, including those that reached no queue.
    pub published: u64,
    /// The number of messages that queues were sent. A message that reaches two queues counts twice.
    pub routed: u64,
    /// The number of messages that reached no queue and went back to their publishers.
    pub unroutable_returned: u64,
    /// The number of messages that reached no queue and were dropped.
    pub unroutable_dropped: u64,
}

impl AddAssign for ExchangeCounts {
    fn add_assign(&mut self, other: Self) {
        let Self { published, routed, unroutable_returned, unroutable_dropped } = other;
        self.published += published;
        self.routed += routed;
        self.unroutable_returned += unroutable_returned;
        self.unroutable_dropped += unroutable_dropped;
    }
}

/// The counts of all exchanges on one shard. An exchange to which nobody has published on the shard costs nothing, or 40
/// bytes if an exchange with a higher place has counts.
#[derive(Debug, Default)]
pub struct ExchangeCounters {
    /// By place. A row belongs to the exchange that was declared in `since`; the rows of other exchanges at the place are
    /// replaced when the new one is counted.
    rows: Vec<(u64, ExchangeCounts)>,
}

impl ExchangeCounters {
    /// Returns the counts of an exchange, to add to them.
    pub fn of(&mut self, exchange: ExchangeId) -> &mut ExchangeCounts {
        let place = exchange.place as usize;
        if self.rows.len() <= place {
            self.rows.resize_with(place + 1, Default::default);
        }
        let (since, counts) = &mut self.rows[place];
        if *since != exchange.since {
            (*since, *counts) = (exchange.since, ExchangeCounts::default());
        }
        counts
    }

    /// Returns the counts of an exchange.
    pub fn get(&self, exchange: ExchangeId) -> ExchangeCounts {
        let row = self.rows.get(exchange.place as usize).filter(|(since, _)| *since == exchange.since);
        row.map(|(_, counts)| *counts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_at_the_place_of_a_deleted_one_starts_at_0() {
        let mut counters = ExchangeCounters::default();
        let (old, new) = (ExchangeId { place: 2, since: 5 }, ExchangeId { place: 2, since: 9 });
        counters.of(old).published += 3;
        assert_eq!((counters.get(old).published, counters.get(new).published), (3, 0));
        counters.of(new).published += 1;
        assert_eq!((counters.get(old).published, counters.get(new).published), (0, 1));
        let never = ExchangeId { place: 7, since: 0 };
        assert_eq!(counters.get(never), ExchangeCounts::default());
    }
}
