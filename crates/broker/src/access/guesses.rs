//! How fast passwords can be guessed: as many tries an address, over however many connections and protocols it spreads
//! them. The delay of a refused login is one connection's; this is everybody's together.
//!
//! An address that has failed too often is refused without looking at its password, right or wrong: else the
//! guesser would know at once when it is right, and would not wait for the rest. So whoever shares an address with a
//! guesser waits with it, on this machine too.

use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::DefaultHashBuilder;

/// Failures that an address may have at once. Some clients with an old password, trying again as they do, must not get
/// there: with [`FAILURE_MS`] between two failures nobody else is kept waiting.
const BURST: u64 = 60;

/// One failure is forgiven after this long, in milliseconds: what is left to a guesser, 86,400 tries a day.
const FAILURE_MS: u64 = 1000;

/// Places for addresses. Two that fall on one place count together: at the bound more of them do. Which place an address
/// has is not known outside.
const PLACES: usize = 4096;

/// Failed logins, by address.
#[derive(Debug)]
pub(super) struct Guesses {
    /// When all failures of a place are forgiven, in milliseconds.
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
    /// Whether an address has failed too often to be looked at now.
    pub fn are_too_many(&self, from: IpAddr, now_ms: u64) -> bool {
        self.place(from).load(Ordering::Relaxed) > now_ms + (BURST - 1) * FAILURE_MS
    }

    /// A login from there has failed.
    pub fn note(&self, from: IpAddr, now_ms: u64) {
        let later = |forgiven_ms: u64| Some(forgiven_ms.max(now_ms) + FAILURE_MS);
        // It is never refused, so there is nothing to look at.
        let _ = self.place(from).fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    fn place(&self, from: IpAddr) -> &AtomicU64 {
        let hash = self.places.hash_one(network(from));
        &self.forgiven_ms[hash as usize % PLACES]
    }
}

/// The addresses that one peer can use: an IPv4 address, or the 64 bits that an IPv6 network begins with.
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

    /// How many of so many tries, each at once, are looked at.
    fn looked_at(guesses: &Guesses, from: IpAddr, now_ms: u64, tries: u64) -> u64 {
        let tried = (0..tries).filter(|_| {
            let looks = !guesses.are_too_many(from, now_ms);
            if looks {
                guesses.note(from, now_ms);
            }
            looks
        });
        tried.count() as u64
    }

    #[test]
    fn an_address_has_so_many_tries_at_once_and_then_one_a_second() {
        let guesses = Guesses::default();
        let loopback = ip("127.0.0.1");
        assert_eq!(looked_at(&guesses, loopback, START_MS, 10_000), BURST);
        assert_eq!(looked_at(&guesses, loopback, START_MS + FAILURE_MS - 1, 10), 0);
        let later = (1..=100).map(|n| looked_at(&guesses, loopback, START_MS + n * FAILURE_MS, 10));
        assert_eq!(later.collect::<Vec<_>>(), [1; 100]);
        assert_eq!(looked_at(&guesses, loopback, START_MS + 1_000_000, 10_000), BURST, "all is forgiven");
    }

    #[test]
    fn a_guesser_is_its_network_and_nobody_else() {
        let guesses = Guesses::default();
        let tries = |from: &str| looked_at(&guesses, ip(from), START_MS, 1_000);
        assert_eq!(tries("192.0.2.1"), BURST);
        assert_eq!(tries("::ffff:192.0.2.1"), 0, "the same address");
        assert_eq!(tries("2001:db8::1"), BURST);
        assert_eq!(tries("2001:db8::ffff:2"), 0, "the same network");
        // One of them may have the place of another, but not all.
        assert!((0..8).any(|n| tries(&format!("198.51.100.{n}")) == BURST));
    }
}
