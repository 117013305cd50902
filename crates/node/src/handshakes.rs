//! Connections that have not logged in. They are limited for each address and in total. At a limit the oldest
//! is evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use broker::access::network;
use broker::ids::ShardId;
use hashbrown::HashMap;

/// The handshakes of all listeners.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    per_address_max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The last number that was given to a connection. Older connections have smaller numbers.
    next: u64,
    open: BTreeMap<u64, Open>,
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
}

#[derive(Debug)]
struct Open {
    from: IpAddr,
    since: Instant,
    /// The shard that serves the connection, and the key of the connection there. `None` before a shard
    /// serves it.
    at: Option<(ShardId, usize)>,
}

/// A connection that was evicted. If a shard serves it, that shard must be notified. Otherwise
/// [`Handshake::serve_at`] returns false later.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub number: u64,
    pub at: Option<(ShardId, usize)>,
}

/// A connection that has not logged in. It is dropped when the client logs in or the connection ends.
#[derive(Debug)]
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
}

impl Handshakes {
    pub fn new(max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { max, per_address_max, table: Mutex::default() })
    }

    /// Adds a connection. Also returns the connection that is evicted for it.
    pub fn begin(self: &Arc<Self>, from: IpAddr, now: Instant) -> (Handshake, Option<Evicted>) {
        let from = network(from);
        let mut table = self.table();
        let of_address = table.by_address.get(&from);
        let leaving = match of_address.filter(|numbers| numbers.len() >= self.per_address_max) {
            Some(numbers) => numbers.first().copied(),
            None if table.open.len() >= self.max => table.oldest(),
            None => None,
        };
        let evicted = leaving.and_then(|number| table.remove(number));
        table.next += 1;
        let number = table.next;
        table.open.insert(number, Open { from, since: now, at: None });
        table.by_address.entry(from).or_default().insert(number);
        (Handshake { all: self.clone(), number }, evicted)
    }

    /// Evicts the oldest connection, if it began before `began`.
    pub fn evict_oldest(&self, began: Instant) -> Option<Evicted> {
        let mut table = self.table();
        let (number, open) = table.open.first_key_value()?;
        if open.since >= began {
            return None;
        }
        let number = *number;
        table.remove(number)
    }

    pub fn is_empty(&self) -> bool {
        self.table().open.is_empty()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn oldest(&self) -> Option<u64> {
        self.open.first_key_value().map(|(number, _)| *number)
    }

    fn remove(&mut self, number: u64) -> Option<Evicted> {
        let Open { from, at, .. } = self.open.remove(&number)?;
        if let Some(numbers) = self.by_address.get_mut(&from) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_address.remove(&from);
            }
        }
        Some(Evicted { number, at })
    }
}

impl Handshake {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records the shard that serves the connection. Returns false if the connection was evicted meanwhile:
    /// the caller must close it.
    pub fn serve_at(&self, shard: ShardId, key: usize) -> bool {
        let mut table = self.all.table();
        let open = table.open.get_mut(&self.number);
        open.map(|open| open.at = Some((shard, key))).is_some()
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.table().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(all: &Arc<Handshakes>, from: u8) -> (Handshake, Option<Evicted>) {
        all.begin([10, 0, 0, from].into(), Instant::now())
    }

    #[test]
    fn the_oldest_of_an_address_or_of_all_is_evicted() {
        let all = Handshakes::new(3, 2);
        let (a, none) = begin(&all, 1);
        assert_eq!(none, None);
        assert!(a.serve_at(1, 7));
        let (b, none) = begin(&all, 2);
        assert_eq!(none, None);
        let (c, none) = begin(&all, 2);
        assert_eq!(none, None);
        let (d, evicted) = begin(&all, 2);
        assert_eq!(evicted, Some(Evicted { number: b.number(), at: None }), "of its own address");
        assert!(!b.serve_at(0, 0), "it is closed before it is served");
        let (e, evicted) = begin(&all, 3);
        assert_eq!(evicted, Some(Evicted { number: a.number(), at: Some((1, 7)) }), "of all");
        let since = all.table().open[&c.number()].since;
        assert_eq!(all.evict_oldest(since), None, "it may still log in");
        assert_eq!(all.evict_oldest(Instant::now()), Some(Evicted { number: c.number(), at: None }));
        drop((a, b, c, d, e));
        assert!(all.is_empty());
        assert!(all.table().by_address.is_empty());
    }

    #[test]
    fn a_connection_that_has_logged_in_is_not_counted() {
        let all = Handshakes::new(1, 1);
        for _ in 0..3 {
            let (opened, evicted) = begin(&all, 1);
            assert_eq!(evicted, None);
            drop(opened);
        }
    }
}
