//! Why a message was dead-lettered, how often and from which queue. Receivers see it as `x-opt-deaths`.

use std::sync::Arc;

/// Why a queue dead-lettered a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeathReason {
    Expired,
    Rejected,
    MaxLength,
    DeliveryLimit,
}

impl DeathReason {
    /// Returns the reason as it is encoded in annotations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Rejected => "rejected",
            Self::MaxLength => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }
}

/// The deaths of one message in one queue for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    pub queue: Arc<str>,
    pub reason: DeathReason,
    /// The number of deaths.
    pub count: u64,
    /// Milliseconds since the Unix epoch.
    pub first_ms: u64,
    pub last_ms: u64,
    /// The exchange to which the message was published before this death. `keys` are its routing keys then.
    pub exchange: Arc<str>,
    pub keys: Vec<Arc<str>>,
    /// The time to live that the message had before this death, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// All deaths of one message, most recent first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deaths {
    deaths: Vec<Death>,
    /// The position in `deaths` of the very first death (`x-first-death-*`), counted from the end.
    first_from_end: usize,
    /// The number of failed deliveries before the last death. The next queue continues this count, as in
    /// RabbitMQ (docs/compatibility.md, Dead lettering).
    delivery_count: u32,
    redrives: Redrives,
}

/// The redrives of one message: how often it was sent back to where it had died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redrives {
    pub count: u32,
    /// The time of the last one, in milliseconds since the Unix epoch. 0 if there was none.
    pub last_ms: u64,
}

impl Deaths {
    /// Creates the deaths that were read from storage. `deaths` has the most recent one first.
    pub fn restore(deaths: Vec<Death>, first_from_end: usize, delivery_count: u32) -> Self {
        let first_from_end = first_from_end.min(deaths.len().saturating_sub(1));
        Self { first_from_end, deaths, delivery_count, redrives: Redrives::default() }
    }

    /// Adds the redrives that were stored with the deaths.
    pub fn with_redrives(self, redrives: Redrives) -> Self {
        Self { redrives, ..self }
    }

    pub fn redrives(&self) -> Redrives {
        self.redrives
    }

    pub fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    /// Returns the deaths, most recent first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Death> {
        self.deaths.iter()
    }

    pub fn last(&self) -> Option<&Death> {
        self.deaths.first()
    }

    pub fn first(&self) -> Option<&Death> {
        self.deaths.len().checked_sub(1 + self.first_from_end).and_then(|i| self.deaths.get(i))
    }

    pub fn first_from_end(&self) -> usize {
        self.first_from_end
    }

    /// Returns true if sending this message to `queue` would be a cycle: it died there before, and since then
    /// no consumer has rejected it and nobody has redriven it (docs/compatibility.md, Dead lettering).
    pub fn is_cycle(&self, queue: &str) -> bool {
        match self.deaths.iter().position(|d| &*d.queue == queue) {
            Some(i) => {
                let Redrives { count, last_ms } = self.redrives;
                (count == 0 || self.deaths[i].last_ms > last_ms)
                    && self.deaths[..=i].iter().all(|d| d.reason != DeathReason::Rejected)
            }
            None => false,
        }
    }

    /// Counts a redrive. The deaths stay as they are. The failed deliveries are forgotten, so that a queue with
    /// a delivery limit delivers the message as often as a new one.
    pub(crate) fn redrive(&mut self, now_ms: u64) {
        self.delivery_count = 0;
        self.redrives = Redrives { count: self.redrives.count.saturating_add(1), last_ms: now_ms };
    }

    /// Adds a death. If there is a death in the same queue for the same reason, its count grows and it moves
    /// to the front.
    pub(crate) fn record(&mut self, death: Death, delivery_count: u32) {
        self.delivery_count = delivery_count;
        let first = self.first().map(|d| (d.queue.clone(), d.reason));
        let known = self.deaths.iter().position(|d| d.queue == death.queue && d.reason == death.reason);
        let entry = match known {
            Some(i) => {
                let mut known = self.deaths.remove(i);
                known.count += death.count;
                known.last_ms = death.last_ms;
                known
            }
            None => death,
        };
        self.deaths.insert(0, entry);
        if let Some((queue, reason)) = first {
            let at = self.deaths.iter().rposition(|d| d.queue == queue && d.reason == reason);
            self.first_from_end = at.map_or(0, |i| self.deaths.len() - 1 - i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(queue: &str, reason: DeathReason, at: u64) -> Death {
        Death {
            queue: queue.into(),
            reason,
            count: 1,
            first_ms: at,
            last_ms: at,
            exchange: "".into(),
            keys: vec![queue.into()],
            ttl_ms: None,
        }
    }

    #[test]
    fn the_same_death_is_counted_and_comes_first() {
        let mut deaths = Deaths::default();
        deaths.record(death("a", DeathReason::Expired, 1), 0);
        deaths.record(death("b", DeathReason::Expired, 2), 0);
        deaths.record(death("a", DeathReason::Expired, 3), 0);
        let seen: Vec<_> = deaths.iter().map(|d| (&*d.queue, d.count, d.first_ms, d.last_ms)).collect();
        assert_eq!(seen, [("a", 2, 1, 3), ("b", 1, 2, 2)]);
        assert_eq!(&*deaths.first().unwrap().queue, "a");
        assert_eq!(&*deaths.last().unwrap().queue, "a");
    }

    #[test]
    fn a_rejection_breaks_a_cycle() {
        let mut deaths = Deaths::default();
        assert!(!deaths.is_cycle("a"));
        deaths.record(death("a", DeathReason::Expired, 1), 0);
        deaths.record(death("b", DeathReason::Expired, 2), 0);
        assert!(deaths.is_cycle("a"));
        deaths.record(death("b", DeathReason::Rejected, 3), 0);
        assert!(!deaths.is_cycle("a"));
    }

    #[test]
    fn a_redrive_breaks_a_cycle_until_the_message_dies_again() {
        let mut deaths = Deaths::default();
        deaths.record(death("a", DeathReason::Expired, 1), 0);
        deaths.record(death("b", DeathReason::DeliveryLimit, 2), 7);
        assert!(deaths.is_cycle("a") && deaths.is_cycle("b"));
        deaths.redrive(3);
        assert!(!deaths.is_cycle("a") && !deaths.is_cycle("b"));
        assert_eq!((deaths.redrives(), deaths.delivery_count()), (Redrives { count: 1, last_ms: 3 }, 0));
        deaths.record(death("a", DeathReason::Expired, 4), 0);
        assert!(deaths.is_cycle("a") && !deaths.is_cycle("b"));
        deaths.redrive(5);
        assert_eq!(deaths.redrives(), Redrives { count: 2, last_ms: 5 });
        assert_eq!(deaths.last().map(|last| (&*last.queue, last.count)), Some(("a", 2)));
    }
}
