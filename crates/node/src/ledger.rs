//! What the clients of a node use of one of its budgets, and whose connection is closed when the budget is exceeded: the
//! largest user's.
//!
//! If the largest connection of all were closed, a user with many small ones would have a stranger's closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::access::{Authority, UserRef};
use catalog::ids::ShardId;

/// Who uses the memory of a connection: its user in its virtual host. Connections that have not logged in have no user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub user: Option<(Authority, Arc<str>)>,
    pub vhost: Arc<str>,
}

impl Owner {
    /// Returns true if these are surely the same. Equal names may come from different logins.
    pub(crate) fn is(&self, user: Option<(Authority, &Arc<str>)>, vhost: &Arc<str>) -> bool {
        let is_user = match (&self.user, user) {
            (Some((of, mine)), Some((authority, user))) => *of == authority && Arc::ptr_eq(mine, user),
            (None, None) => true,
            _ => false,
        };
        is_user && Arc::ptr_eq(&self.vhost, vhost)
    }

    fn user(&self) -> Option<UserRef<'_>> {
        self.user.as_ref().map(|(authority, name)| UserRef { authority: *authority, name })
    }
}

/// The use of a budget. Each shard changes its own accounts. The others look at them only while the budget is exceeded, so
/// there is no contention.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: u64,
    pages: Box<[Page]>,
}

/// The accounts of one shard. They have cache lines of their own, so that writing them does not slow down other shards.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Page {
    used: AtomicU64,
    /// What connections use besides, for which none is closed.
    uncharged: AtomicU64,
    accounts: Mutex<Accounts>,
}

/// The bytes that the connections of one shard use, by owner.
#[derive(Debug, Default)]
struct Accounts(HashMap<Owner, Account>);

#[derive(Debug, Default)]
struct Account {
    used: u64,
    /// The bytes and the key of each connection that uses any.
    connections: BTreeSet<(u64, usize)>,
}

/// The connection that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub shard: ShardId,
    pub key: usize,
    /// The bytes that the connection uses.
    pub bytes: u64,
    /// The bytes that all connections of its user use.
    pub of_user: u64,
}

impl Ledger {
    pub(crate) fn new(shards: ShardId, limit: u64) -> Self {
        Self { limit, pages: (0..shards).map(|_| Page::default()).collect() }
    }

    /// Returns the bytes that all shards together may use.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns this shard's part of the limit. The parts of all shards add up to the limit.
    pub(crate) fn limit_part(&self, shard: ShardId) -> u64 {
        let shards = self.pages.len().max(1) as u64;
        self.limit / shards + if shard == 0 { self.limit % shards } else { 0 }
    }

    /// Returns the bytes that a shard uses.
    pub(crate) fn used(&self, shard: ShardId) -> u64 {
        self.pages.get(usize::from(shard)).map_or(0, |page| page.used.load(Ordering::Relaxed))
    }

    /// Returns the bytes that all shards use.
    pub(crate) fn used_by_all(&self) -> u64 {
        self.pages.iter().map(|page| page.used.load(Ordering::Relaxed)).sum()
    }

    /// Returns the bytes that a shard uses, those included for which no connection is closed.
    pub(crate) fn held(&self, shard: ShardId) -> u64 {
        self.pages.get(usize::from(shard)).map_or(0, Page::held)
    }

    /// Returns the bytes that all shards use, those included for which no connection is closed.
    pub(crate) fn held_by_all(&self) -> u64 {
        self.pages.iter().map(Page::held).sum()
    }

    /// Notes that a connection used `before` bytes for which it is not closed, and uses `after` now.
    pub(crate) fn change_uncharged(&self, shard: ShardId, before: u64, after: u64) {
        let Some(page) = self.pages.get(usize::from(shard)) else { return };
        let used = page.uncharged.load(Ordering::Relaxed);
        page.uncharged.store(used.saturating_sub(before) + after, Ordering::Relaxed);
    }

    /// Notes that a connection used `before` bytes and uses `after` now.
    pub(crate) fn change(&self, shard: ShardId, owner: &Owner, key: usize, before: u64, after: u64) {
        let Some(page) = self.pages.get(usize::from(shard)) else { return };
        page.lock().change(owner, key, before, after);
        let used = page.used.load(Ordering::Relaxed);
        page.used.store(used.saturating_sub(before) + after, Ordering::Relaxed);
    }

    /// Returns the connection that must be closed. `None` while the budget is not exceeded.
    pub(crate) fn victim(&self) -> Option<Victim> {
        if self.used_by_all() <= self.limit {
            return None;
        }
        // Every shard locks in this order, and none holds its own lock here.
        let pages: Vec<MutexGuard<'_, Accounts>> = self.pages.iter().map(Page::lock).collect();
        largest(&pages.iter().map(|page| &**page).collect::<Vec<_>>())
    }
}

impl Page {
    fn held(&self) -> u64 {
        self.used.load(Ordering::Relaxed) + self.uncharged.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    fn change(&mut self, owner: &Owner, key: usize, before: u64, after: u64) {
        if !self.0.contains_key(owner) {
            self.0.insert(owner.clone(), Account::default());
        }
        let Some(account) = self.0.get_mut(owner) else { return };
        account.connections.remove(&(before, key));
        if after > 0 {
            account.connections.insert((after, key));
        }
        account.used = account.used.saturating_sub(before) + after;
        if account.connections.is_empty() {
            self.0.remove(owner);
        }
    }
}

/// Returns the largest connection of the largest virtual host of the largest user, given the accounts of all shards. The
/// connections of different virtual hosts often belong to different people who share a user.
fn largest(shards: &[&Accounts]) -> Option<Victim> {
    let all = || shards.iter().flat_map(|accounts| &accounts.0);
    let (user, of_user) = most(all().map(|(owner, account)| (owner.user(), account.used)))?;
    let of = all().filter(|(owner, _)| owner.user() == user);
    let (vhost, _) = most(of.map(|(owner, account)| (&*owner.vhost, account.used)))?;
    let connections = (0..).zip(shards).flat_map(|(shard, accounts)| {
        let is_it = |owner: &Owner| owner.user() == user && *owner.vhost == *vhost;
        let of = accounts.0.iter().filter(move |(owner, _)| is_it(owner));
        of.filter_map(move |(_, account)| {
            account.connections.last().map(|(bytes, key)| (*bytes, shard, *key))
        })
    });
    let (bytes, shard, key) = connections.max()?;
    Some(Victim { shard, key, bytes, of_user })
}

/// Returns the name with the largest sum, and the sum.
fn most<'a, N: Ord + Copy + 'a>(uses: impl Iterator<Item = (N, u64)>) -> Option<(N, u64)> {
    let mut sums = BTreeMap::new();
    uses.for_each(|(name, used)| *sums.entry(name).or_insert(0) += used);
    sums.into_iter().max_by_key(|(_, sum)| *sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner(user: u8, vhost: u8) -> Owner {
        // User 0 stands for the connections that have not logged in.
        Owner {
            user: (user > 0).then(|| (Authority::Internal, format!("u{user}").into())),
            vhost: format!("v{vhost}").into(),
        }
    }

    #[test]
    fn nobody_is_closed_up_to_the_limit() {
        let ledger = Ledger::new(3, 100);
        assert_eq!(ledger.victim(), None);
        ledger.change(0, &owner(1, 0), 7, 0, 60);
        ledger.change(2, &owner(2, 0), 7, 0, 40);
        assert_eq!(ledger.victim(), None, "exactly the limit");
        ledger.change(1, &owner(2, 0), 5, 0, 1);
        assert_eq!(ledger.victim(), Some(Victim { shard: 0, key: 7, bytes: 60, of_user: 60 }));
        ledger.change(0, &owner(1, 0), 7, 60, 0);
        assert_eq!((ledger.victim(), ledger.used(0), ledger.used(1), ledger.used(2)), (None, 0, 1, 40));
        assert_eq!((0..3).map(|shard| ledger.limit_part(shard)).collect::<Vec<_>>(), [34, 33, 33]);
    }

    #[test]
    fn many_small_connections_of_one_user_do_not_close_a_large_one_of_another() {
        let ledger = Ledger::new(2, 100);
        ledger.change(0, &owner(1, 0), 0, 0, 40);
        (1..=31).for_each(|key| ledger.change(key as ShardId % 2, &owner(2, 0), key, 0, 2));
        assert_eq!(ledger.victim(), Some(Victim { shard: 1, key: 31, bytes: 2, of_user: 62 }));
    }

    #[test]
    fn of_one_user_the_largest_virtual_host_pays() {
        let ledger = Ledger::new(1, 100);
        ledger.change(0, &owner(1, 0), 0, 0, 45);
        (1..=28).for_each(|key| ledger.change(0, &owner(1, 1), key, 0, 2));
        assert_eq!(ledger.victim(), Some(Victim { shard: 0, key: 28, bytes: 2, of_user: 101 }));
    }

    /// What one connection uses. The place in the list is its key.
    #[derive(Clone, Debug)]
    struct Use {
        shard: ShardId,
        owner: (u8, u8),
        bytes: u64,
    }

    fn uses() -> impl Strategy<Value = Vec<(Use, u64)>> {
        let a_use = (0..3u8, (0..4u8, 0..3u8), 0..20u64);
        let a_use = a_use.prop_map(|(shard, owner, bytes)| Use { shard, owner, bytes });
        prop::collection::vec((a_use, 0..20u64), 1..40)
    }

    proptest! {
        /// The ledger against sums over a list. Each connection has used something else before.
        #[test]
        fn the_largest_connection_of_the_largest_owner_is_closed(uses in uses()) {
            let ledger = Ledger::new(3, 0);
            for (key, (one, before)) in uses.iter().enumerate() {
                let owner = owner(one.owner.0, one.owner.1);
                ledger.change(one.shard, &owner, key, 0, *before);
                ledger.change(one.shard, &owner, key, *before, one.bytes);
            }
            let sum = |is_it: &dyn Fn(&Use) -> bool| -> u64 {
                uses.iter().filter(|(one, _)| is_it(one)).map(|(one, _)| one.bytes).sum()
            };
            let of_user = |user: u8| sum(&|one| one.owner.0 == user);
            let of_owner = |owner: (u8, u8)| sum(&|one| one.owner == owner);
            for shard in 0..3 {
                prop_assert_eq!(ledger.used(shard), sum(&|one| one.shard == shard));
            }
            let Some(victim) = ledger.victim() else {
                prop_assert_eq!(sum(&|_| true), 0);
                return Ok(());
            };
            let (found, _) = &uses[victim.key];
            prop_assert_eq!((found.shard, found.bytes), (victim.shard, victim.bytes));
            prop_assert_eq!(of_user(found.owner.0), victim.of_user);
            prop_assert!((0..4).all(|user| of_user(user) <= victim.of_user), "the largest user");
            let user = found.owner.0;
            prop_assert!((0..3).all(|vhost| of_owner((user, vhost)) <= of_owner(found.owner)), "its largest virtual host");
            let is_largest = uses.iter().all(|(one, _)| one.owner != found.owner || one.bytes <= found.bytes);
            prop_assert!(is_largest, "the largest connection of that");
        }
    }
}
