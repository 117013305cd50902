//! Counts logins by source, for operators who want to know who fails to log in (`track_auth_attempt_source`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::names::cut;

/// The number of sources with their own counts, so that names and addresses that a guesser makes up take at most 1 MB.
/// The logins of further sources are counted in one row for each protocol.
const SOURCES_MAX: usize = 1000;

/// The source of a login.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The address of the client. `None` if the row is for all sources above the maximum.
    pub address: Option<IpAddr>,
    /// The user as whom the client is logged in. If the login failed, the name that the client sent, cut to the length that
    /// is logged.
    pub user: Arc<str>,
    pub protocol: Protocol,
}

/// The protocols over which clients come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Amqp10,
    Amqp091,
    Http,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Amqp10, Self::Amqp091, Self::Http];

    /// Returns RabbitMQ's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amqp10 => "amqp10",
            Self::Amqp091 => "amqp091",
            Self::Http => "http",
        }
    }
}

/// The number of logins: over one protocol, or from one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthAttempts {
    /// All of them. A login whose client left before it was checked neither succeeded nor failed.
    pub all: u64,
    pub succeeded: u64,
    pub failed: u64,
}

impl AuthAttempts {
    pub fn add(&mut self, other: Self) {
        let Self { all, succeeded, failed } = other;
        self.all += all;
        self.succeeded += succeeded;
        self.failed += failed;
    }

    /// Counts a login and its result.
    pub fn count(&mut self, succeeded: bool) {
        self.all += 1;
        *if succeeded { &mut self.succeeded } else { &mut self.failed } += 1;
    }

    /// Returns the number of logins after an `earlier` time. A login that was being checked at that time counts as one after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let succeeded = self.succeeded.saturating_sub(earlier.succeeded);
        let failed = self.failed.saturating_sub(earlier.failed);
        let all = self.all.saturating_sub(earlier.all).max(succeeded + failed);
        Self { all, succeeded, failed }
    }
}

/// The logins of each source. They are counted only if the operator wants it, because every login then takes a lock.
#[derive(Debug, Default)]
pub struct Sources {
    rows: Option<Mutex<BTreeMap<Source, AuthAttempts>>>,
}

impl Sources {
    /// Counts from now on if `tracks` is true.
    pub fn new(tracks: bool) -> Self {
        Self { rows: tracks.then(Mutex::default) }
    }

    /// Counts one login.
    pub fn count(&self, protocol: Protocol, address: IpAddr, user: &str, succeeded: bool) {
        let Some(mut rows) = self.lock() else { return };
        let source = Source { address: Some(address.to_canonical()), user: cut(user).into(), protocol };
        let source = match rows.len() < SOURCES_MAX || rows.contains_key(&source) {
            true => source,
            false => Source { address: None, user: "".into(), protocol },
        };
        rows.entry(source).or_default().count(succeeded);
    }

    /// Returns all sources in order, each with its counts.
    pub fn rows(&self) -> Vec<(Source, AuthAttempts)> {
        let Some(rows) = self.lock() else { return Vec::new() };
        rows.iter().map(|(source, attempts)| (source.clone(), *attempts)).collect()
    }

    /// Forgets all sources.
    pub fn clear(&self) {
        if let Some(mut rows) = self.lock() {
            rows.clear();
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, BTreeMap<Source, AuthAttempts>>> {
        Some(self.rows.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn count(sources: &Sources, number: u32, user: &str, succeeded: bool) {
        sources.count(Protocol::Amqp10, Ipv4Addr::from(number).into(), user, succeeded);
    }

    #[test]
    fn sources_are_counted_if_the_operator_wants_it() {
        let sources = Sources::new(false);
        count(&sources, 1, "ann", true);
        assert_eq!(sources.rows(), []);

        let sources = Sources::new(true);
        count(&sources, 1, "ann", true);
        count(&sources, 1, "ann", false);
        sources.count(Protocol::Http, "::ffff:0.0.0.1".parse().unwrap(), "ann", true);
        let row = |protocol, all, failed| {
            let source = Source { address: Some(Ipv4Addr::from(1).into()), user: "ann".into(), protocol };
            (source, AuthAttempts { all, succeeded: 1, failed })
        };
        assert_eq!(sources.rows(), [row(Protocol::Amqp10, 2, 1), row(Protocol::Http, 1, 0)]);
        sources.clear();
        assert_eq!(sources.rows(), []);
    }

    #[test]
    fn sources_above_the_maximum_share_a_row() {
        let sources = Sources::new(true);
        for number in 0..SOURCES_MAX as u32 + 50 {
            count(&sources, number, &"x".repeat(100_000), false);
        }
        // A source that is known keeps its row.
        count(&sources, 0, &"x".repeat(100_000), true);
        let rows = sources.rows();
        assert_eq!(rows.len(), SOURCES_MAX + 1);
        assert!(rows.iter().all(|(source, _)| source.user.len() < 1000));
        assert_eq!((rows[0].0.address, rows[0].1.all), (None, 50));
        assert_eq!((rows[1].1.succeeded, rows[1].1.failed), (1, 1));
    }

    #[test]
    fn attempts_are_counted_from_a_time_on() {
        let attempts = |all, succeeded, failed| AuthAttempts { all, succeeded, failed };
        assert_eq!(attempts(9, 5, 3).since(attempts(4, 2, 2)), attempts(5, 3, 1));
        // This one was being checked at that time.
        assert_eq!(attempts(4, 2, 2).since(attempts(4, 2, 1)), attempts(1, 0, 1));
        let mut counted = AuthAttempts::default();
        [true, false, true].into_iter().for_each(|succeeded| counted.count(succeeded));
        assert_eq!(counted, attempts(3, 2, 1));
    }
}
