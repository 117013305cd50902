//! Connections that have not logged in. They are limited for each address and in total. At a limit the oldest
//! is evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use catalog::access::network;
use catalog::ids::ShardId;
use hashbrown::HashMap;

/// The handshakes of all listeners.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    per_address_max: usize,
    table: Mutex<Table>,
    /// The number of connections that were evicted.
    evicted: AtomicU64,
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
    /// The address of the client. `None` until a proxy has said it.
    from: Option<IpAddr>,
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
    pub(crate) fn new(max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { max, per_address_max, table: Mutex::default(), evicted: AtomicU64::new(0) })
    }

    /// Adds a connection. Also returns the connection that is evicted for it. A connection of a proxy has no address yet: it
    /// counts in total only, until [`Handshake::set_from`] is called.
    pub(crate) fn begin(
        self: &Arc<Self>,
        from: Option<IpAddr>,
        now: Instant,
    ) -> (Handshake, Option<Evicted>) {
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        let all_are_taken = table.open.len() >= self.max;
        table.open.insert(number, Open { from: None, since: now, at: None });
        let of_address = from.and_then(|from| table.count(number, from, self.per_address_max));
        let leaving = of_address.or_else(|| all_are_taken.then(|| table.oldest()).flatten());
        let evicted = leaving.and_then(|number| self.evict(&mut table, number));
        (Handshake { all: self.clone(), number }, evicted)
    }

    /// Evicts the oldest connection, if it began before `began`.
    pub(crate) fn evict_oldest(&self, began: Instant) -> Option<Evicted> {
        let mut table = self.table();
        let (number, open) = table.open.first_key_value()?;
        if open.since >= began {
            return None;
        }
        let number = *number;
        self.evict(&mut table, number)
    }

    /// Returns the number of connections that were evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table().open.is_empty()
    }

    fn evict(&self, table: &mut Table, number: u64) -> Option<Evicted> {
        let evicted = table.remove(number)?;
        self.evicted.fetch_add(1, Relaxed);
        Some(evicted)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn oldest(&self) -> Option<u64> {
        self.open.first_key_value().map(|(number, _)| *number)
    }

    /// Counts a connection for its address. If the address has more than `max`, returns the oldest of them.
    fn count(&mut self, number: u64, from: IpAddr, max: usize) -> Option<u64> {
        let from = network(from);
        let open = self.open.get_mut(&number)?;
        open.from = Some(from);
        let numbers = self.by_address.entry(from).or_default();
        numbers.insert(number);
        numbers.first().copied().filter(|_| numbers.len() > max)
    }

    fn remove(&mut self, number: u64) -> Option<Evicted> {
        let Open { from, at, .. } = self.open.remove(&number)?;
        if let Some(from) = from
            && let Some(numbers) = self.by_address.get_mut(&from)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_address.remove(&from);
            }
        }
        Some(Evicted { number, at })
    }
}

impl Handshake {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Records the shard that serves the connection. Returns false if the connection was evicted meanwhile:
    /// the caller must close it.
    pub(crate) fn serve_at(&self, shard: ShardId, key: usize) -> bool {
        let mut table = self.all.table();
        let open = table.open.get_mut(&self.number);
        open.map(|open| open.at = Some((shard, key))).is_some()
    }

    /// Counts the connection for the address of its client, once. Returns the connection that is evicted for it. That may be
    /// this one, if it is the oldest of its address.
    pub(crate) fn set_from(&self, from: IpAddr) -> Option<Evicted> {
        let mut table = self.all.table();
        let leaving = table.count(self.number, from, self.all.per_address_max)?;
        self.all.evict(&mut table, leaving)
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
        all.begin(Some([10, 0, 0, from].into()), Instant::now())
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
        assert_eq!(all.evicted(), 3);
    }

    #[test]
    fn clients_of_a_proxy_count_for_their_own_addresses() {
        let all = Handshakes::new(5, 2);
        let of_proxy = || all.begin(None, Instant::now());
        let opened: Vec<_> = (0..5).map(|_| of_proxy()).collect();
        assert!(opened.iter().all(|(_, evicted)| evicted.is_none()), "no address has more than two");
        let [a, b, c, d, e] = opened.try_into().unwrap();
        let evicted = |(handshake, _): &(Handshake, _), from| handshake.set_from([10, 0, 0, from].into());
        assert!(a.0.serve_at(1, 7));
        assert_eq!([evicted(&b, 1), evicted(&c, 1), evicted(&d, 2)], [None, None, None]);
        assert_eq!(
            evicted(&e, 1),
            Some(Evicted { number: b.0.number(), at: None }),
            "the oldest of its address"
        );
        assert_eq!(evicted(&b, 1), None, "it is gone");
        assert_eq!(
            evicted(&a, 1),
            Some(Evicted { number: a.0.number(), at: Some((1, 7)) }),
            "older than both"
        );
        let more: Vec<_> = (0..3).map(|_| of_proxy()).collect();
        assert_eq!(more[2].1, Some(Evicted { number: c.0.number(), at: None }), "of all");
        drop((a, b, c, d, e, more));
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
