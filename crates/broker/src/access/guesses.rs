//! Limits how fast passwords can be guessed. Each address has a limited number of failures, over all its connections
//! and protocols together. (The delay after a refused login applies to one connection only.)
//!
//! An address that has failed too often is refused without a check of its password. Otherwise a guesser would learn at
//! once which password is right, and would not have to wait. So all clients that share an address with a guesser wait
//! with it, on this machine too.

use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::DefaultHashBuilder;

/// The number of failures that an address may have at once. A few clients that keep retrying an old password must not
/// reach it: while failures are [`FAILURE_MS`] apart, nobody else has to wait.
const BURST: u64 = 60;

/// The time after which one failure is forgiven, in milliseconds. It leaves a guesser 86,400 tries a day.
const FAILURE_MS: u64 = 1000;

/// The number of places in the table. Addresses with the same place are counted together, and with more addresses more
/// of them share a place. Outsiders cannot tell which place an address has.
const PLACES: usize = 4096;

/// Failed logins, by address.
#[derive(Debug)]
pub(super) struct Guesses {
    /// For each place, when all its failures are forgiven, in milliseconds.
    forgiven_ms: Box<[AtomicU64]>,
    places: DefaultHashBuilder,
}

impl Default for Guesses {
    fn default() -> Self {
        let forgiven_ms = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { forgiven_ms, places: DefaultHashBuilder::default() }
    }
}

impl Guesses {
    /// Returns true if the address has failed too often for another login to be checked now.
    pub fn is_blocked(&self, from: IpAddr, now_ms: u64) -> bool {
        self.place(from).load(Ordering::Relaxed) > now_ms + (BURST - 1) * FAILURE_MS
    }

    /// Records a failed login from this address.
    pub fn record_failure(&self, from: IpAddr, now_ms: u64) {
        // Logins that other backends check fail many at the same time. The block must not become longer than by one after the other.
        let later =
            |forgiven_ms: u64| Some(forgiven_ms.clamp(now_ms, now_ms + BURST * FAILURE_MS) + FAILURE_MS);
        // `later` always returns `Some`, so the update cannot fail.
        let _ = self.place(from).fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    fn place(&self, from: IpAddr) -> &AtomicU64 {
        let hash = self.places.hash_one(network(from));
        &self.forgiven_ms[hash as usize % PLACES]
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

    /// Returns the number of logins whose password is checked, if `tries` failing logins arrive at the same
    /// time.
    fn looked_at(guesses: &Guesses, from: IpAddr, now_ms: u64, tries: u64) -> u64 {
        let tried = (0..tries).filter(|_| {
            let looks = !guesses.is_blocked(from, now_ms);
            if looks {
                guesses.record_failure(from, now_ms);
            }
            looks
        });
        tried.count() as u64
    }

    #[test]
    fn an_address_has_a_burst_of_tries_and_then_one_per_second() {
        let guesses = Guesses::default();
        let loopback = ip("127.0.0.1");
        assert_eq!(looked_at(&guesses, loopback, START_MS, 10_000), BURST);
        assert_eq!(looked_at(&guesses, loopback, START_MS + FAILURE_MS - 1, 10), 0);
        let later = (1..=100).map(|n| looked_at(&guesses, loopback, START_MS + n * FAILURE_MS, 10));
        assert_eq!(later.collect::<Vec<_>>(), [1; 100]);
        assert_eq!(
            looked_at(&guesses, loopback, START_MS + 1_000_000, 10_000),
            BURST,
            "all failures are forgiven"
        );
    }

    #[test]
    fn failures_are_counted_per_network() {
        let guesses = Guesses::default();
        let tries = |from: &str| looked_at(&guesses, ip(from), START_MS, 1_000);
        assert_eq!(tries("192.0.2.1"), BURST);
        assert_eq!(tries("::ffff:192.0.2.1"), 0, "the same address");
        assert_eq!(tries("2001:db8::1"), BURST);
        assert_eq!(tries("2001:db8::ffff:2"), 0, "the same network");
        // One of these addresses may share a place with the blocked address, but not all of them.
        assert!((0..8).any(|n| tries(&format!("198.51.100.{n}")) == BURST));
    }
}
