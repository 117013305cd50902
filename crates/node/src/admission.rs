//! Decides whether an AMQP connection is accepted. Some file descriptors stay reserved for storage and
//! operators, and the number of connections that have not logged in is limited.

use std::fs;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::categories::{CONNECTION, PEER};
use catalog::ids::ShardId;
use rustix::process::{Resource, getrlimit};

use crate::handshakes::{Evicted, Handshake, Handshakes};
use crate::incoming::{Incoming, Shards};
use crate::shard::Occupancy;

/// Storage has this fraction of all descriptors in reserve (one in 16). It opens and closes files of the log
/// and packs, and every used stream needs two or more.
const STORAGE_PART: u64 = 16;

/// The bounds of that reserve.
const STORAGE_RESERVE: std::ops::RangeInclusive<u64> = 16..=1024;

/// The number of open descriptors assumed if the system does not report it: threads, listeners, and files of
/// the log.
const OTHERS_UNKNOWN: u64 = 64;

/// Accepting resumes when this fraction of all descriptors is free (one in 50). If a single one were enough,
/// each connection that ends would cause two log lines.
const RESUME_PART: u64 = 50;

/// At the reserve, only connections that are older than this are closed for a new one: a normal login takes
/// less. Otherwise clients that connect at the same time would evict each other.
const HANDSHAKE_GRACE: Duration = Duration::from_secs(1);

/// At the reserve, the interval at which a listener checks whether an evicted connection is closed, or
/// whether the oldest connection is old enough to be evicted.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// With less than this fraction of all descriptors free (one in 8), other descriptors are counted every
/// second on any system.
const NEAR_PART: u64 = 8;

/// The interval at which open descriptors are counted on a system where they must be listed, while enough are
/// free. Listing 20,000 takes 25 ms. Storage would have to open more than [`NEAR_PART`] of all descriptors in
/// this time to lose some of its reserve.
const LIST_INTERVAL: Duration = Duration::from_secs(60);

/// The interval at which a paused listener checks for free descriptors.
const PAUSE_INTERVAL: Duration = Duration::from_millis(100);

/// The rules for accepting connections.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The limit of descriptors of the process. `None` means no limit.
    limit: Option<u64>,
    /// The number of descriptors that connections may not use.
    reserve: u64,
    /// The number of descriptors that are not connections, at the last count.
    others: AtomicU64,
    /// True if that count is more than a second old.
    is_old: AtomicBool,
    /// The time at which the descriptors are listed next.
    list_at: Mutex<Instant>,
    occupancy: Arc<Occupancy>,
    handshakes: Arc<Handshakes>,
    shards: Shards,
    paused: AtomicBool,
}

impl Admission {
    /// Creates the rules. `reserved` is the number of descriptors for parts of this process other than
    /// storage.
    pub(crate) fn new(
        reserved: u64,
        handshakes: Arc<Handshakes>,
        occupancy: Arc<Occupancy>,
        shards: Shards,
    ) -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        let storage = limit.map_or(0, |limit| {
            (limit / STORAGE_PART).clamp(*STORAGE_RESERVE.start(), *STORAGE_RESERVE.end())
        });
        let admission = Self {
            limit,
            reserve: storage + reserved,
            others: AtomicU64::new(OTHERS_UNKNOWN),
            is_old: AtomicBool::new(true),
            list_at: Mutex::new(Instant::now()),
            occupancy,
            handshakes,
            shards,
            paused: AtomicBool::new(false),
        };
        admission.count(Instant::now());
        if let Some(limit) = limit {
            let connections = admission.room();
            tracing::info!(
                limit,
                reserve = admission.reserve,
                connections,
                "AMQP connections that the limit of descriptors allows"
            );
        }
        admission
    }

    /// Counts the descriptors that are not connections, if that is cheap or needed. Called once a second.
    pub(crate) fn count(&self, now: Instant) {
        if self.limit.is_none() {
            return;
        }
        let is_counted = self.note(reported_open) || (self.is_listing_due(now) && self.list(now));
        self.is_old.store(!is_counted, Relaxed);
    }

    /// Returns true if the descriptors must be listed. Asked only on a system that does not report how many
    /// are open.
    fn is_listing_due(&self, now: Instant) -> bool {
        self.is_near(self.room()) || *self.list_at.lock().unwrap_or_else(PoisonError::into_inner) <= now
    }

    /// Counts the descriptors by listing them. Returns false if the system has no list of them.
    fn list(&self, now: Instant) -> bool {
        *self.list_at.lock().unwrap_or_else(PoisonError::into_inner) = now + LIST_INTERVAL;
        self.note(listed_open)
    }

    /// Records how many descriptors are not connections. Returns false if the number of open descriptors is
    /// unknown.
    fn note(&self, count_open: fn() -> Option<u64>) -> bool {
        let connections = self.occupancy.total();
        let Some(open) = count_open() else { return false };
        // The number of connections may include some that closed during the count.
        let connections = connections.min(self.occupancy.total());
        self.others.store(open.saturating_sub(connections), Relaxed);
        true
    }

    fn is_near(&self, room: u64) -> bool {
        self.limit.is_some_and(|limit| room < limit / NEAR_PART)
    }

    /// Returns how many more connections may be accepted. Near the reserve, the count behind it is at most a
    /// second old.
    fn room_now(&self) -> u64 {
        let room = self.room();
        if self.is_near(room) && self.is_old.swap(false, Relaxed) {
            self.list(Instant::now());
            return self.room();
        }
        room
    }

    /// Returns how many more connections may be accepted, by the last count.
    fn room(&self) -> u64 {
        let taken = self.reserve + self.others.load(Relaxed) + self.occupancy.total();
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(taken))
    }

    /// Completes when there is a free descriptor for a connection that was accepted. At the reserve, it
    /// closes connections that have not logged in. If there are none, accepting pauses until others have
    /// closed.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            let room = self.room_now();
            let is_paused = self.paused.load(Relaxed);
            let wanted = if is_paused { self.limit.unwrap_or(0) / RESUME_PART } else { 0 };
            if room > wanted {
                if is_paused {
                    self.resume(room);
                }
                return;
            }
            let graced = Instant::now().checked_sub(HANDSHAKE_GRACE);
            match graced.and_then(|began| self.handshakes.evict_oldest(began)) {
                Some(evicted) => {
                    evict(&self.shards, evicted);
                    self.wait_for_change(room).await;
                }
                None if self.handshakes.is_empty() => {
                    self.pause();
                    tokio::time::sleep(PAUSE_INTERVAL).await;
                }
                None => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    }

    /// Waits until the shard has closed an evicted connection. It gives up after a while, because the shard
    /// may be overloaded.
    async fn wait_for_change(&self, room: u64) {
        let gave_up = Instant::now() + PAUSE_INTERVAL;
        while self.room() <= room && Instant::now() < gave_up {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Admits a connection. Returns the shard that will serve it. The address is `None` if a proxy will say it.
    pub(crate) fn begin(&self, from: Option<IpAddr>) -> (Handshake, ShardId) {
        let (handshake, evicted) = self.handshakes.begin(from, Instant::now());
        if let Some(evicted) = evicted {
            evict(&self.shards, evicted);
        }
        (handshake, self.occupancy.assign())
    }

    /// Returns the number of connections that were closed before they logged in, to make room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.handshakes.evicted()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Relaxed)
    }

    fn pause(&self) {
        if self.paused.swap(true, Relaxed) {
            return;
        }
        let (limit, reserve) = (self.limit.unwrap_or(0), self.reserve);
        let connections = self.occupancy.total();
        tracing::warn!(
            name: PEER, target: CONNECTION,
            limit,
            reserve,
            connections,
            "accepting AMQP connections is paused: the remaining file descriptors are reserved for storage and operators"
        );
    }

    fn resume(&self, room: u64) {
        self.paused.store(false, Relaxed);
        tracing::info!(name: PEER, target: CONNECTION, room, "accepting AMQP connections resumes");
    }
}

/// Tells the shard of an evicted connection to close it.
pub(crate) fn evict(shards: &Shards, evicted: Evicted) {
    tracing::warn!(name: PEER, target: CONNECTION, "the oldest connection that had not logged in was closed for a new one");
    if let Some((shard, key)) = evicted.at
        && let Some(shard) = shards.get(usize::from(shard))
    {
        // Sending fails if the shard has ended. Then it has no connections.
        drop(shard.send(Incoming::Evict { key, handshake: evicted.number }));
    }
}

const DESCRIPTORS: &str = "/proc/self/fd";

/// Returns the number of open descriptors. Linux reports it since 6.2, in some microseconds for any number.
/// Returns `None` on other systems.
fn reported_open() -> Option<u64> {
    fs::metadata(DESCRIPTORS).ok().map(|directory| directory.len()).filter(|open| *open > 0)
}

/// Returns the number of open descriptors by listing them, which takes more than a microsecond for each.
fn listed_open() -> Option<u64> {
    // The listing itself has one descriptor open.
    fs::read_dir(DESCRIPTORS).ok().map(|open| (open.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rules with this limit. `others` is the number of other descriptors at the last count.
    fn admission(limit: u64, others: u64) -> Admission {
        let occupancy = Arc::new(Occupancy::new(1));
        let admission = Admission::new(0, Handshakes::new(1, 1), occupancy, Vec::new());
        let admission = Admission { limit: Some(limit), reserve: 100, ..admission };
        admission.others.store(others, Relaxed);
        admission
    }

    #[test]
    fn the_reported_number_of_descriptors_equals_the_listed_one() {
        // The comparison is repeated, because other tests open files at the same time.
        let same = || reported_open().is_none_or(|open| Some(open) == listed_open());
        assert!((0..1000).any(|_| same()));
    }

    #[test]
    fn descriptors_are_listed_rarely_unless_few_are_left() {
        let begin = Instant::now();
        let admission = admission(1 << 40, 0);
        assert!(admission.list(begin));
        let second = Duration::from_secs(1);
        let listed = (1..=600).filter(|n| {
            let now = begin + second * *n;
            admission.is_listing_due(now) && admission.list(now)
        });
        assert_eq!(listed.count(), 10);
        admission.others.store((1 << 40) - (1 << 36), Relaxed);
        assert!(admission.is_listing_due(begin + second * 601));
    }

    #[test]
    fn near_the_reserve_no_connection_is_accepted_by_an_old_count() {
        let (limit, old) = (1_000_000, 999_000);
        let admission = admission(limit, old);
        admission.is_old.store(false, Relaxed);
        assert_eq!(admission.room_now(), limit - 100 - old, "a new count is not counted again");
        admission.is_old.store(true, Relaxed);
        assert!(admission.room_now() > limit / 2, "nothing of it was open");
        assert!(!admission.is_old.load(Relaxed));
    }
}
