//! Delays the answers to guessed passwords, and bounds how many of them keep a socket. A right password is answered as soon as it is
//! checked. A guesser who closes the socket does not wait for the answer, so this does not bound how fast somebody can guess.
//!
//! ```text
//!   login ──▶ checked, always ──┬─ right ──▶ let in at once
//!                               └─ wrong ──▶ counted for the address and user, and for the address in total
//!                                            above a bound ──▶ the answer waits ──▶ refused
//!                                            64 of the address wait already ──▶ the socket is closed
//! ```
//!
//! Only a check tells a right password from a wrong one. So no login is refused because others have failed, and no user is locked
//! out. How fast somebody can guess, and what that costs, is bounded where logins are checked: those that may be guesses share one
//! thread (`node::logins`).

use std::borrow::Cow;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use amqp10::sasl::Secret;
use hashbrown::{DefaultHashBuilder, HashMap};

use crate::categories::{CONNECTION, PEER};
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
const WAITING_MAX: usize = 64;

/// The number of places in each table. What has the same place is counted together. Outsiders cannot tell which place an address
/// has. Who shares the place of a guesser fails more slowly, and waits for the thread of those who may be guessers.
const PLACES: usize = 4096;

/// How long a user counts as known at an address after a right login, in milliseconds: a day.
const PROVEN_MS: u64 = 24 * 60 * 60 * 1000;

/// The time between two warnings about one address, in milliseconds.
const WARNED_MS: u64 = 60 * 1000;

/// The number of addresses above which rows that are no longer needed are looked for: no failure waits, and no warning was written lately.
const ROWS_MIN: usize = 1024;

/// Failed logins.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    addresses: Failures,
    /// By address and user.
    users: Failures,
    waiting: Mutex<Waiting>,
    successes: Successes,
}

/// The failed logins of one address, over all connections and protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guessing {
    /// The failures that are not forgiven yet, with whatever users.
    pub failures: u64,
    /// The failed logins whose answers wait.
    pub waiting: usize,
}

impl Guessing {
    /// The most failures of an address after which no failure waits. With one user, it is [`Self::OF_USER_MAX`].
    pub const FAILURES_MAX: u64 = ADDRESS_MAX;
    pub const OF_USER_MAX: u64 = USER_MAX;
    /// The most failures that wait. The sockets of further ones are closed.
    pub const WAITING_MAX: usize = WAITING_MAX;
}

/// What happens to a login that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is refused as usual.
    Refused,
    /// It is refused after these milliseconds.
    Waits { ms: u64 },
    /// Too many failures of its address wait already. Its socket is closed without an answer.
    Closed,
}

impl Failed {
    /// Returns a reason for the log, with what happens to the login.
    pub fn told(&self, reason: &str) -> String {
        match self {
            Self::Refused => reason.to_owned(),
            Self::Waits { ms } => {
                format!(
                    "{reason}; many logins of its address have failed, so the answer waits for {ms} ms (sluice explain address)"
                )
            }
            Self::Closed => format!(
                "{reason}; {WAITING_MAX} failed logins of its address wait for their answers, so the socket is closed \
                 (sluice explain address)"
            ),
        }
    }
}

/// The failed logins that wait. A place lasts its time even if the socket is closed before.
#[derive(Debug, Default)]
struct Waiting {
    rows: HashMap<IpAddr, Row>,
    /// The number of rows above which those that are no longer needed are looked for.
    rows_max: usize,
}

/// The failed logins of one address that wait.
#[derive(Debug, Default)]
struct Row {
    /// When the waits end, in milliseconds: at most [`WAITING_MAX`] of them.
    until_ms: Vec<u64>,
    /// Until when no further warning about the address is written, in milliseconds.
    warned_until_ms: u64,
}

impl Waiting {
    /// Takes a place. Returns false if there is none.
    fn take(&mut self, network: IpAddr, now_ms: u64, ms: u64) -> bool {
        if self.rows.len() >= self.rows_max.max(ROWS_MIN) {
            self.rows.retain(|_, row| {
                row.warned_until_ms > now_ms || row.until_ms.iter().any(|until_ms| *until_ms > now_ms)
            });
            self.rows_max = 2 * self.rows.len();
        }
        let waits = &mut self.rows.entry(network).or_default().until_ms;
        waits.retain(|until_ms| *until_ms > now_ms);
        let is_free = waits.len() < WAITING_MAX;
        if is_free {
            waits.push(now_ms + ms);
        }
        is_free
    }

    /// Returns true if a warning about this address is due. From then on it counts as written. One of its failures waits.
    fn warns(&mut self, network: IpAddr, now_ms: u64) -> bool {
        let Some(row) = self.rows.get_mut(&network) else { return false };
        let is_due = row.warned_until_ms <= now_ms;
        if is_due {
            row.warned_until_ms = now_ms + WARNED_MS;
        }
        is_due
    }

    /// Returns how many failures of an address wait.
    fn count(&self, network: IpAddr, now_ms: u64) -> usize {
        let waits = self.rows.get(&network).into_iter().flat_map(|row| &row.until_ms);
        waits.filter(|until_ms| **until_ms > now_ms).count()
    }
}

impl Guesses {
    /// Counts a failed login.
    pub(super) fn record_failure(&self, from: IpAddr, user: &str, now_ms: u64) {
        let network = network(from);
        self.addresses.add(network, ADDRESS_MAX, now_ms);
        self.users.add((network, cut(user)), USER_MAX, now_ms);
    }

    /// Returns true if a failure of this address with this user would wait.
    pub(super) fn is_suspect(&self, from: IpAddr, user: &str, now_ms: u64) -> bool {
        self.over(network(from), user, now_ms) > 0
    }

    /// Returns by how many failures an address exceeds a bound.
    fn over(&self, network: IpAddr, user: &str, now_ms: u64) -> u64 {
        let of_address = self.addresses.over(network, ADDRESS_MAX, now_ms);
        of_address.max(self.users.over((network, cut(user)), USER_MAX, now_ms))
    }

    /// Returns what happens to a login that has failed, and that would otherwise be answered after `usual_ms`. Takes a place for it
    /// if it waits.
    pub(super) fn fail(&self, from: IpAddr, user: &str, now_ms: u64, usual_ms: u64) -> Failed {
        let network = network(from);
        let over = self.over(network, user, now_ms);
        if over == 0 {
            return Failed::Refused;
        }
        let ms = (over * WAIT_STEP_MS).min(WAIT_MAX_MS).max(usual_ms);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_place = waiting.take(network, now_ms, ms);
        let warns = waiting.warns(network, now_ms);
        drop(waiting);
        if warns {
            // The lines about single logins are shortened when they are many.
            tracing::warn!(
                name: PEER, target: CONNECTION, address = %network,
                "many logins of this address have failed, so the answers to failed ones wait: see sluice explain address {network}"
            );
        }
        if has_place { Failed::Waits { ms } } else { Failed::Closed }
    }

    /// Returns what is known about the failures of an address.
    pub(super) fn of_address(&self, from: IpAddr, now_ms: u64) -> Guessing {
        let network = network(from);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).count(network, now_ms);
        Guessing { failures: self.addresses.count(network, now_ms), waiting }
    }

    /// Notes that a user has logged in from this address.
    pub(super) fn note_success(&self, from: IpAddr, user: &str, now_ms: u64) {
        self.successes.place(network(from), user).store(now_ms, Ordering::Relaxed);
    }

    /// Returns true if this user has logged in from this address within the last day.
    pub(super) fn is_proven(&self, from: IpAddr, user: &str, now_ms: u64) -> bool {
        let at_ms = self.successes.place(network(from), user).load(Ordering::Relaxed);
        at_ms > 0 && now_ms.saturating_sub(at_ms) < PROVEN_MS
    }

    /// Returns the name by which a login is counted. A token names its user itself, so each token without a user name has a name of
    /// its own.
    pub(super) fn name_of<'a>(&self, user: &'a str, password: &Secret) -> Cow<'a, str> {
        match user {
            "" => format!("token {:016x}", self.successes.names.hash_one(password.expose())).into(),
            user => cut(user).into(),
        }
    }
}

/// When users have last logged in, by address.
#[derive(Debug)]
struct Successes {
    /// In milliseconds. 0: never.
    at_ms: Box<[AtomicU64]>,
    names: DefaultHashBuilder,
}

impl Default for Successes {
    fn default() -> Self {
        Self { at_ms: (0..PLACES).map(|_| AtomicU64::new(0)).collect(), names: DefaultHashBuilder::default() }
    }
}

impl Successes {
    fn place(&self, network: IpAddr, user: &str) -> &AtomicU64 {
        &self.at_ms[self.names.hash_one((network, cut(user))) as usize % PLACES]
    }
}

/// Counts failures. One of them is forgiven every [`FAILURE_MS`].
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
        self.count(of, now_ms).saturating_sub(max)
    }

    /// Returns the number of failures that are not forgiven.
    fn count(&self, of: impl std::hash::Hash, now_ms: u64) -> u64 {
        self.place(of).load(Ordering::Relaxed).saturating_sub(now_ms).div_ceil(FAILURE_MS)
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
        let failed = guesses.fail(ip(from), user, now_ms, 0);
        guesses.waiting.lock().unwrap().rows.clear();
        match failed {
            Failed::Refused => Some(0),
            Failed::Waits { ms } => Some(ms),
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
        let fail = |at_ms| guesses.fail(ip("192.0.2.1"), "u", at_ms, 250);
        for _ in 0..WAITING_MAX {
            assert_eq!(fail(START_MS), Failed::Waits { ms: 250 }, "the usual wait is longer");
        }
        assert_eq!(fail(START_MS), Failed::Closed);
        let guessing = |at_ms| guesses.of_address(ip("192.0.2.1"), at_ms);
        assert_eq!(guessing(START_MS), Guessing { failures: 61, waiting: WAITING_MAX });
        assert_eq!(guessing(START_MS + 250), Guessing { failures: 61, waiting: 0 });
        assert_eq!(guessing(START_MS + 61 * FAILURE_MS), Guessing::default());
        // No socket gives a place back before its time.
        assert_eq!(fail(START_MS + 249), Failed::Closed);
        assert_eq!(fail(START_MS + 250), Failed::Waits { ms: 250 });
    }

    #[test]
    fn addresses_whose_failures_no_longer_wait_are_forgotten() {
        let mut waiting = Waiting::default();
        let address = |n: usize| IpAddr::V4((n as u32).into());
        for n in 0..10 * ROWS_MIN {
            assert!(waiting.take(address(n), START_MS + n as u64, 1));
            assert!(waiting.rows.len() <= ROWS_MIN);
        }
    }

    #[test]
    fn an_address_is_warned_about_once_a_minute() {
        let mut waiting = Waiting::default();
        let (one, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        // Each failure comes when the one before waits no longer.
        let warnings = |waiting: &mut Waiting, from, end_ms| {
            let at_ms = (START_MS..end_ms).step_by(1_000);
            at_ms.filter(|at_ms| waiting.take(from, *at_ms, 100) && waiting.warns(from, *at_ms)).count()
        };
        assert_eq!(warnings(&mut waiting, one, START_MS + WARNED_MS), 1);
        assert_eq!(warnings(&mut waiting, other, START_MS + WARNED_MS), 1, "another address");
        assert_eq!(warnings(&mut waiting, ip("192.0.2.3"), START_MS + 3 * WARNED_MS), 3);
        // The address is remembered, however many others guess.
        waiting.rows_max = 0;
        (0..ROWS_MIN).for_each(|n| {
            waiting.take(IpAddr::V4((n as u32).into()), START_MS, 1);
        });
        waiting.rows_max = 0;
        assert!(
            waiting.take(one, START_MS + WARNED_MS - 1, 1) && !waiting.warns(one, START_MS + WARNED_MS - 1)
        );
        assert!(waiting.rows.len() < ROWS_MIN, "the others are forgotten");
    }

    #[test]
    fn a_user_is_known_for_a_day_at_the_address_of_a_login() {
        let guesses = Guesses::default();
        assert!(!guesses.is_proven(ip("192.0.2.1"), "anna", START_MS));
        guesses.note_success(ip("192.0.2.1"), "anna", START_MS);
        assert!(guesses.is_proven(ip("192.0.2.1"), "anna", START_MS + PROVEN_MS - 1));
        assert!(!guesses.is_proven(ip("192.0.2.1"), "anna", START_MS + PROVEN_MS));
        assert!(!(0..9).all(|n| guesses.is_proven(ip("192.0.2.1"), &n.to_string(), START_MS)));
        assert!(!(2..9).all(|n| guesses.is_proven(ip(&format!("192.0.2.{n}")), "anna", START_MS)));
    }
}
