//! Why a message was dead-lettered, how often and from where (behaviour B.8, `x-opt-deaths`).

use std::sync::Arc;

/// Why a queue gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeathReason {
    Expired,
    Rejected,
    MaxLength,
    DeliveryLimit,
}

impl DeathReason {
    /// The word on the wire.
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
    /// How often.
    pub count: u64,
    /// Milliseconds since the epoch.
    pub first_ms: u64,
    pub last_ms: u64,
    /// Where it had been published to before this death.
    pub exchange: Arc<str>,
    pub keys: Vec<Arc<str>>,
    /// The time to live it had then.
    pub ttl_ms: Option<u32>,
}

/// All deaths of one message, most recent first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deaths {
    deaths: Vec<Death>,
    /// Place in `deaths` of the first death of all (`x-first-death-*`), counted from the end.
    first_from_end: usize,
    /// Failed deliveries before the last death: the count goes on where the message arrives (behaviour B.8).
    delivery_count: u32,
}

impl Deaths {
    /// As read back from storage: `deaths` most recent first.
    pub fn restore(deaths: Vec<Death>, first_from_end: usize, delivery_count: u32) -> Self {
        Self { first_from_end: first_from_end.min(deaths.len().saturating_sub(1)), deaths, delivery_count }
    }

    pub fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    /// Most recent first.
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

    /// Whether sending this message to `queue` would be a cycle: it died there before, and nobody has
    /// rejected it since (behaviour B.8).
    pub fn is_cycle(&self, queue: &str) -> bool {
        match self.deaths.iter().position(|d| &*d.queue == queue) {
            Some(i) => self.deaths[..=i].iter().all(|d| d.reason != DeathReason::Rejected),
            None => false,
        }
    }

    /// Adds a death: raises the count of the same queue and reason and moves it to the front.
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
    fn a_cycle_needs_that_nobody_rejected() {
        let mut deaths = Deaths::default();
        assert!(!deaths.is_cycle("a"));
        deaths.record(death("a", DeathReason::Expired, 1), 0);
        deaths.record(death("b", DeathReason::Expired, 2), 0);
        assert!(deaths.is_cycle("a"));
        deaths.record(death("b", DeathReason::Rejected, 3), 0);
        assert!(!deaths.is_cycle("a"));
    }
}
