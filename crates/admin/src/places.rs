//! Chooses which connection to close when an HTTP port is crowded.
//!
//! Each connection has a place. A connection with a request in flight keeps its place. A connection that
//! waits for its client can lose its place to a new connection. It waits for a request or for the rest of a
//! head. The one that has waited longest goes first. Then come connections whose client does not read its
//! response.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use catalog::access::network;
use tokio::sync::Notify;

/// The time after which a connection may lose its place if its client reads nothing of its response. Any
/// client that reads is faster, unless its network is lost.
const STALL_MIN: Duration = Duration::from_secs(1);

/// The places of one port.
#[derive(Debug)]
pub(crate) struct Places {
    places_max: usize,
    /// The most places that connections from one address may have.
    share_max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<u64, Holder>,
    by_address: HashMap<IpAddr, usize>,
    /// The number of the next event. It numbers connections, and orders the times at which they began to
    /// wait.
    next: u64,
}

#[derive(Debug)]
struct Holder {
    from: IpAddr,
    state: State,
    leave: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The connection waits for a request. Lower numbers began earlier.
    Waiting(u64),
    /// A request is in flight.
    Working,
    /// A request is in flight, and its client has read nothing of the response since then.
    Stalled(Instant),
}

/// The order in which connections lose their places: the least goes first. Among equals, connections of the
/// address with the most connections go first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Waiting(Reverse<usize>, u64),
    Stalled(Reverse<usize>, Instant),
}

/// The outcome for a new connection.
#[derive(Debug)]
pub(crate) enum Taken {
    Free(Place),
    /// Another connection was closed to make room.
    Instead(Place),
    /// The new connection is refused, because requests are in flight on all others.
    Refused,
}

/// A place. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    leave: Arc<Notify>,
}

impl Places {
    /// Creates the places. One address may have half of them, so that the other half is left for other
    /// addresses.
    pub(crate) fn new(places_max: usize) -> Arc<Self> {
        let share_max = (places_max / 2).max(1);
        Arc::new(Self { places_max, share_max, table: Mutex::default() })
    }

    /// Takes a place for a new connection. Another connection may lose its place.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr, now: Instant) -> Taken {
        let from = network(from);
        let mut table = self.table();
        let has_share = table.by_address.get(&from).is_some_and(|count| *count >= self.share_max);
        let is_crowded = has_share || table.held.len() >= self.places_max;
        if is_crowded {
            let Some(leaving) = table.least(has_share.then_some(from), now) else { return Taken::Refused };
            if let Some(held) = table.remove(leaving) {
                held.leave.notify_one();
            }
        }
        let (number, since) = (table.draw(), table.draw());
        let leave = Arc::new(Notify::new());
        *table.by_address.entry(from).or_default() += 1;
        table.held.insert(number, Holder { from, state: State::Waiting(since), leave: leave.clone() });
        let place = Place { places: self.clone(), number, leave };
        if is_crowded { Taken::Instead(place) } else { Taken::Free(place) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn draw(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the connection that would lose its place first, among those of `from` or among all.
    fn least(&self, from: Option<IpAddr>, now: Instant) -> Option<u64> {
        let all = self.held.iter().filter(|(_, held)| from.is_none_or(|from| held.from == from));
        let ranked = all.filter_map(|(number, held)| {
            let many = Reverse(self.by_address.get(&held.from).copied().unwrap_or(0));
            let rank = match held.state {
                State::Waiting(since) => Rank::Waiting(many, since),
                State::Stalled(since) if now.saturating_duration_since(since) >= STALL_MIN => {
                    Rank::Stalled(many, since)
                }
                State::Stalled(_) | State::Working => return None,
            };
            Some((rank, *number))
        });
        ranked.min().map(|(_, number)| number)
    }

    fn remove(&mut self, number: u64) -> Option<Holder> {
        let held = self.held.remove(&number)?;
        if let Some(count) = self.by_address.get_mut(&held.from) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&held.from);
            }
        }
        Some(held)
    }
}

impl Place {
    /// Called when a request has arrived. Returns false if the place is lost already: then the request must
    /// not be started.
    pub(crate) fn begin(&self) -> bool {
        self.change(|_, _| Some(State::Working))
    }

    /// Called when the response has been sent.
    pub(crate) fn wait(&self) {
        self.change(|_, since| Some(State::Waiting(since)));
    }

    /// Called when the client stops reading its response.
    pub(crate) fn stall(&self, now: Instant) {
        self.change(|state, _| (state == State::Working).then_some(State::Stalled(now)));
    }

    /// Called when the client reads its response again.
    pub(crate) fn resume(&self) {
        self.change(|state, _| matches!(state, State::Stalled(_)).then_some(State::Working));
    }

    /// Completes when the place has been given to another connection.
    pub(crate) async fn lost(&self) {
        self.leave.notified().await;
    }

    fn change(&self, to: impl FnOnce(State, u64) -> Option<State>) -> bool {
        let mut table = self.places.table();
        let number = table.draw();
        let Some(held) = table.held.get_mut(&self.number) else { return false };
        held.state = to(held.state, number).unwrap_or(held.state);
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An HTTP port on which a test takes places one by one.
    struct Port(Arc<Places>, Instant);

    impl Port {
        fn new(places_max: usize) -> Self {
            Self(Places::new(places_max), Instant::now())
        }

        fn take(&self, from: u8) -> Taken {
            self.0.take([10, 0, 0, from].into(), self.1)
        }

        fn free(&self, from: u8) -> Place {
            match self.take(from) {
                Taken::Free(place) => place,
                other => panic!("{other:?}"),
            }
        }

        fn instead(&self, from: u8) -> Place {
            match self.take(from) {
                Taken::Instead(place) => place,
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_there(place: &Place) -> bool {
        place.change(|_, _| None)
    }

    #[test]
    fn the_longest_waiting_connection_goes_first() {
        let port = Port::new(6);
        let (a, b, c) = (port.free(1), port.free(1), port.free(1));
        assert!(a.begin() && b.begin());
        // Connection `a` begins to wait now, after all others.
        a.wait();
        let d = port.instead(1);
        assert!(is_there(&a) && is_there(&b) && !is_there(&c) && is_there(&d));
        assert!(!c.begin(), "a request of a connection without a place is not begun");
        let e = port.instead(1);
        assert!(!is_there(&a) && is_there(&b) && is_there(&d) && is_there(&e));
    }

    #[test]
    fn a_request_in_flight_keeps_its_place() {
        let port = Port::new(4);
        let (a, b) = (port.free(1), port.free(1));
        assert!(a.begin() && b.begin());
        assert!(matches!(port.take(1), Taken::Refused));
        let (c, d) = (port.free(2), port.free(2));
        assert!(c.begin() && d.begin());
        assert!(matches!(port.take(3), Taken::Refused));
        drop(b);
        let e = port.free(3);
        assert!(is_there(&e));
    }

    #[test]
    fn a_stalled_response_can_lose_its_place() {
        let mut port = Port::new(4);
        let (a, b) = (port.free(1), port.free(1));
        assert!(a.begin() && b.begin());
        a.stall(port.1);
        b.stall(port.1);
        assert!(matches!(port.take(1), Taken::Refused), "it has stalled just now");
        a.resume();
        port.1 += STALL_MIN;
        let c = port.instead(1);
        assert!(is_there(&a) && !is_there(&b) && is_there(&c));
    }

    #[test]
    fn one_address_has_half_of_the_places_and_loses_first() {
        let port = Port::new(4);
        let (a, b) = (port.free(1), port.free(2));
        let c = port.free(2);
        let d = port.instead(2);
        assert!(is_there(&a) && !is_there(&b) && is_there(&c) && is_there(&d));
        let e = port.free(3);
        let f = port.instead(4);
        assert!(is_there(&a) && !is_there(&c), "the address with the most connections pays");
        assert!([&d, &e, &f].into_iter().all(is_there));
        drop([a, b, c, d, e, f]);
        let table = port.0.table();
        assert!(table.held.is_empty() && table.by_address.is_empty());
    }
}
