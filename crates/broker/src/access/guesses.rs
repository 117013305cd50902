//! Slows guessing of passwords down, and nobody else: a right password is never made to wait for the failures of others.
//!
//! ```text
//!   login ──▶ checked, always ──┬─ right ──▶ let in at once
//!                               └─ wrong ──▶ counted for the address and user, and for the address in total
//!                                            above a bound ──▶ the answer waits ──▶ refused
//!                                            64 of the address wait already ──▶ the socket is closed
//! ```
//!
//! Only a check tells a right password from a wrong one. So no login is refused without a check, and no user is locked out. What
//! checks may cost is bounded where they are made: addresses that guess share one thread (`node::logins`).

use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::names::cut;

/// The number of failures of an address, with whatever users, above which its failures wait. A few clients that keep retrying an
/// old password stay below it: one failure is forgiven every [`FAILURE_MS`].
const ADDRESS_MAX: u64 = 60;

/// The number of failures of an address with one user above which they wait. Whoever guesses the password of one user is slowed
/// down sooner.
const USER_MAX: u64 = 20;

/// The time after which one failure is forgiven, in milliseconds.
const FAILURE_MS: u64 = 1_000;

/// How much longer each further failure waits, in milliseconds.
const WAIT_STEP_MS: u64 = 100;

/// The longest wait, in milliseconds.
const WAIT_MAX_MS: u64 = 5_000;

/// Failures that are counted beyond a bound: from there on the wait does not grow. An address that stops guessing is forgiven
/// [`WAIT_MAX_MS`] worth of steps later.
const OVER_MAX: u64 = WAIT_MAX_MS / WAIT_STEP_MS;

/// The most failures of one address that wait. Each keeps a socket and its buffers.
const WAITING_MAX: u32 = 64;

/// The number of places in each table. What has the same place is counted together. Outsiders cannot tell which place an address
/// has, and who shares the place of a guesser only fails more slowly.
const PLACES: usize = 4096;

/// Failed logins.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    addresses: Failures,
    /// By address and user.
    users: Failures,
    waiting: Arc<Waiting>,
}

/// What happens to a login that has failed.
#[derive(Debug)]
pub enum Failed {
    /// It is refused as usual.
    Refused,
    /// It is refused after these milliseconds, unless the usual delay is longer.
    Waits { ms: u64, place: WaitingPlace },
    /// Too many failures of its address wait already. Its socket is closed without an answer.
    Closed,
}

impl Failed {
    /// Returns a reason for the log, with what happens to the login.
    pub fn told(&self, reason: &str) -> String {
        match self {
            Self::Refused => reason.to_owned(),
            Self::Waits { ms, .. } => {
                format!("{reason}; many logins of its address have failed, so the answer waits for {ms} ms")
            }
            Self::Closed => format!(
                "{reason}; {WAITING_MAX} failed logins of its address wait for their answers, so the socket is closed"
            ),
        }
    }

    /// Returns the place that the login keeps while it waits.
    pub fn into_place(self) -> Option<WaitingPlace> {
        match self {
            Self::Waits { place, .. } => Some(place),
            Self::Refused | Self::Closed => None,
        }
    }
}

/// The place of a failed login that waits. It is free again when this is dropped.
#[derive(Debug)]
pub struct WaitingPlace {
    waiting: Arc<Waiting>,
    network: IpAddr,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut counts = self.waiting.counts();
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

/// The failed logins that wait, by address. Addresses with none have no row, so their sockets bound it.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashMap<IpAddr, u32>>);

impl Waiting {
    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guesses {
    /// Counts a failed login.
    pub fn record_failure(&self, from: IpAddr, user: &str, now_ms: u64) {
        let network = network(from);
        self.addresses.add(network, ADDRESS_MAX, now_ms);
        self.users.add((network, cut(user)), USER_MAX, now_ms);
    }

    /// Returns true if a failure of this address with this user would wait.
    pub fn is_suspect(&self, from: IpAddr, user: &str, now_ms: u64) -> bool {
        self.over(network(from), user, now_ms) > 0
    }

    /// Returns by how many failures an address exceeds a bound.
    fn over(&self, network: IpAddr, user: &str, now_ms: u64) -> u64 {
        let of_address = self.addresses.over(network, ADDRESS_MAX, now_ms);
        of_address.max(self.users.over((network, cut(user)), USER_MAX, now_ms))
    }

    /// Returns what happens to a login that has failed. Takes a place for it if it waits.
    pub fn fail(&self, from: IpAddr, user: &str, now_ms: u64) -> Failed {
        let network = network(from);
        let over = self.over(network, user, now_ms);
        if over == 0 {
            return Failed::Refused;
        }
        let mut counts = self.waiting.counts();
        let count = counts.entry(network).or_default();
        if *count >= WAITING_MAX {
            return Failed::Closed;
        }
        *count += 1;
        drop(counts);
        let ms = (over * WAIT_STEP_MS).min(WAIT_MAX_MS);
        Failed::Waits { ms, place: WaitingPlace { waiting: self.waiting.clone(), network } }
    }
}

/// Counts of failures, each of which is forgiven after [`FAILURE_MS`].
#[derive(Debug)]
struct Failures {
    /// For each place, when all its failures are forgiven, in milliseconds.
    forgiven_ms: Box<[AtomicU64]>,
    places: DefaultHashBuilder,
}

impl Default for Failures {
    fn default() -> Self {
        let forgiven_ms = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { forgiven_ms, places: DefaultHashBuilder::default() }
    }
}

impl Failures {
    fn add(&self, of: impl std::hash::Hash, max: u64, now_ms: u64) {
        let latest = now_ms + (max + OVER_MAX) * FAILURE_MS;
        let later = |forgiven_ms: u64| Some((forgiven_ms.max(now_ms) + FAILURE_MS).min(latest));
        // `later` always returns `Some`, so the update cannot fail.
        let _ = self.place(of).fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Returns by how many the failures exceed the bound.
    fn over(&self, of: impl std::hash::Hash, max: u64, now_ms: u64) -> u64 {
        let left_ms = self.place(of).load(Ordering::Relaxed).saturating_sub(now_ms);
        left_ms.div_ceil(FAILURE_MS).saturating_sub(max)
    }

    fn place(&self, of: impl std::hash::Hash) -> &AtomicU64 {
        &self.forgiven_ms[self.places.hash_one(of) as usize % PLACES]
    }
}

/// Returns the network that one peer can use: an IPv4 address, or the first 64 bits of an IPv6 address.
pub fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_000_000;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Fails once. Returns how long that waits, and `None` if the socket is closed. The place is free again at once.
    fn fail(guesses: &Guesses, from: &str, user: &str, now_ms: u64) -> Option<u64> {
        guesses.record_failure(ip(from), user, now_ms);
        match guesses.fail(ip(from), user, now_ms) {
            Failed::Refused => Some(0),
            Failed::Waits { ms, .. } => Some(ms),
            Failed::Closed => None,
        }
    }

    #[test]
    fn failures_wait_longer_and_longer_above_the_bound() {
        let guesses = Guesses::default();
        let waits: Vec<_> =
            (0..200).map(|n| fail(&guesses, "127.0.0.1", &format!("user-{n}"), START_MS).unwrap()).collect();
        assert!(waits[..60].iter().all(|ms| *ms == 0), "{waits:?}");
        assert_eq!(waits[60..63], [100, 200, 300]);
        assert!(waits[110..].iter().all(|ms| *ms == WAIT_MAX_MS), "{waits:?}");
        assert!(guesses.is_suspect(ip("127.0.0.1"), "anna", START_MS));
        // One failure is forgiven each second, so nobody who has stopped guessing waits for long.
        assert_eq!(fail(&guesses, "127.0.0.1", "a", START_MS + 1_000), Some(WAIT_MAX_MS));
        let calm_ms = START_MS + 1_000 + (OVER_MAX + 1) * FAILURE_MS;
        assert_eq!(fail(&guesses, "127.0.0.1", "a", calm_ms), Some(0));
        assert!(!guesses.is_suspect(ip("127.0.0.1"), "anna", calm_ms + FAILURE_MS));
    }

    #[test]
    fn one_user_is_counted_for_each_address() {
        let guesses = Guesses::default();
        assert!((0..20).all(|_| fail(&guesses, "192.0.2.1", "anna", START_MS) == Some(0)));
        assert!(fail(&guesses, "192.0.2.1", "anna", START_MS) > Some(0));
        assert!((0..9).any(|n| fail(&guesses, "192.0.2.1", &n.to_string(), START_MS) == Some(0)));
        assert!(
            (2..10).any(|n| fail(&guesses, &format!("192.0.2.{n}"), "anna", START_MS) == Some(0)),
            "nobody is slowed down at other addresses"
        );
    }

    #[test]
    fn failures_are_counted_per_network() {
        let guesses = Guesses::default();
        let fails = |from: &str, n: i32| fail(&guesses, from, &n.to_string(), START_MS);
        let waits = |from: &str| (0..61).filter_map(|n| fails(from, n)).max() > Some(0);
        assert!(waits("192.0.2.1") && waits("2001:db8::1"));
        for same in ["::ffff:192.0.2.1", "2001:db8::ffff:2"] {
            assert!(fail(&guesses, same, "v", START_MS) > Some(0), "{same} is of the same network");
        }
        // One of these networks may share a place with another, but not all of them.
        assert!((1..9).any(|n| fail(&guesses, &format!("2001:db8:0:{n}::1"), "u", START_MS) == Some(0)));
    }

    #[test]
    fn few_failures_of_an_address_wait_at_the_same_time() {
        let guesses = Guesses::default();
        (0..61).for_each(|n| guesses.record_failure(ip("192.0.2.1"), &n.to_string(), START_MS));
        let fail = |from: &str| guesses.fail(ip(from), "u", START_MS);
        let mut places: Vec<_> = (0..WAITING_MAX).map(|_| fail("192.0.2.1")).collect();
        assert!(places.iter().all(|failed| matches!(failed, Failed::Waits { ms: 100, .. })));
        assert!(matches!(fail("192.0.2.1"), Failed::Closed));
        places.pop();
        assert!(matches!(fail("192.0.2.1"), Failed::Waits { .. }));
        drop(places);
        assert!(guesses.waiting.counts().is_empty());
    }
}
