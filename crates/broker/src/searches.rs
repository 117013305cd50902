//! The share of a turn that messages may take to find their routes, and to be given to many queues.
//!
//! ```text
//!   a message arrives ── few steps, or the turn has steps left ──> it is routed at once
//!                     └─ no ──> its connection waits, and a search begins
//!                               each turn goes on with the searches ── found ──> the message is handled again
//! ```
//!
//! A message of an exchange with many bindings may need millions of steps, and so may a few messages that go to thousands of queues. So that it does not stop the other connections of its
//! shard, such a route is found in parts. A few searches take turns, and the others wait in their order. Each finds the route that the
//! message had when the search began ([`Search`]).

use std::collections::VecDeque;
use std::sync::Arc;

use amqp10::sections;
use bytes::Bytes;
use catalog::ids::QueueId;
use catalog::{Catalog, Routable, Routed, Search, Unrouted};
use hashbrown::HashMap;
use message::Message;
use queue::{PublisherId, Ticket};

/// The steps that every message of a client may take when it arrives, whatever others have used. Most messages take fewer, so they
/// never wait. A turn reads some thousands of messages at most, so all of them together take some ten milliseconds.
const SHORT_STEPS: u64 = 256;

/// The steps that the messages of a turn may take together when they arrive, and those of the broker itself. A step takes 1 to
/// 50 ns, so these take a few milliseconds at most. Messages that need more wait for a search.
const TURN_STEPS: u64 = 50_000;

/// The most of them that one message takes. If its route is not found then, they were in vain.
const ATTEMPT_STEPS: u64 = 10_000;

/// The steps that giving a message to a further queue counts for. It takes some hundreds of ns. The first queue is part of handling the
/// message at all.
const PUT_STEPS: u64 = 8;

/// The most targets of a route that its publisher remembers: so few that they are never put off ([`SHORT_STEPS`]). A message with more must
/// ask each time whether the turn has steps left for them.
pub const REMEMBERED_MAX: usize = (SHORT_STEPS / PUT_STEPS / 2) as usize;

/// The steps that a turn goes on with searches. One key of a topic exchange is matched in one go, and may take more.
const SEARCH_STEPS: u64 = 50_000;

/// The steps of a search before it is the next one's turn. A message that needs little more than others gets its route after a few
/// parts, whatever the others need.
const PART_STEPS: u64 = 10_000;

/// The most searches that have begun and not ended. Each may keep bindings that were removed since its beginning.
const BEGUN_MAX: usize = 4;

/// The most of them in one virtual host, so that its messages do not stop those of others.
const BEGUN_IN_VHOST_MAX: usize = 2;

/// Places of searches that have been given up are dropped when there are this many more of them than searches that wait. Dropping them
/// looks at all places, so it must be rare.
const GONE_MAX: usize = 64;

/// Whose message is to be routed. Each has one message at a time that waits for its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asker {
    Publisher(PublisherId),
    Own(Own),
}

/// The messages that the broker publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Own {
    /// The dead letter of this queue with this token. The queue may be purged meanwhile, and the next one has another route.
    DeadLetter(QueueId, u64),
    /// The messages of this publisher are moved.
    Moves(PublisherId),
    /// The histories that exchanges give to new bindings.
    Histories,
    /// See [`crate::notices`].
    Notices,
}

/// What goes on when a route is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// The connection of this ticket.
    Connection(Ticket),
    Own(Own),
}

/// A route that takes too many steps to find at once. The message is held, and is handled again when the route is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongRoute {
    pub asker: Asker,
    pub vhost: Arc<str>,
    pub exchange: Arc<str>,
    pub keys: Vec<Arc<str>>,
    /// See [`Routable::random`].
    pub random: u64,
}

/// The route of a message takes too many steps to find at once, and the search for it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The steps that were taken in vain.
    pub steps: u64,
}

/// The parts of a held message that exchanges read. They share the memory of the message.
#[derive(Debug)]
pub enum HeldParts {
    /// A message of AMQP 1.0.
    Amqp10(Bytes),
    /// The encoded property list of a message of AMQP 0.9.1.
    Amqp091(Bytes),
    /// A message of the broker.
    Stored(Message),
}

/// The numbers of steps; see the constants.
#[derive(Clone, Copy, Debug)]
struct Shares {
    short: u64,
    turn: u64,
    search: u64,
}

/// The searches of a shard; see the module.
#[derive(Debug)]
pub struct Searches {
    shares: Shares,
    /// The steps that messages may still take in this turn when they arrive.
    left: u64,
    /// The steps that this turn still goes on with searches.
    left_to_search: u64,
    /// The searches that have begun. The first one goes on next.
    begun: VecDeque<Begun>,
    /// The searches that wait.
    waiting: HashMap<Asker, Waiting>,
    /// Their order, by virtual host. Those that are not in `waiting` any more have been given up.
    lanes: HashMap<Arc<str>, Lane>,
    /// The most places in `lanes` of searches that have been given up.
    gone: usize,
    /// The virtual hosts of `lanes`. They take turns.
    order: VecDeque<Arc<str>>,
    /// Those whose publisher has ended.
    given_up: Vec<Waiter>,
    /// The route of the message that is handled again now.
    found: Option<(Asker, Found)>,
}

/// What a search has found. `None`: the exchange does not exist.
pub type Found = Option<Routed>;

#[derive(Debug)]
struct Waiting {
    whom: Waiter,
    route: Box<LongRoute>,
    parts: HeldParts,
}

/// The searches of a virtual host that wait: those of connections, and those of queues and moves. They take turns, because a queue
/// can have a thousand dead letters, one after the other.
#[derive(Debug, Default)]
struct Lane {
    connections: VecDeque<Asker>,
    others: VecDeque<Asker>,
    /// True if the last search that began was that of a connection.
    was_connection: bool,
}

impl Lane {
    /// Takes the next search, of either kind in turn.
    fn next(&mut self) -> Option<Asker> {
        let Self { connections, others, was_connection } = self;
        let (first, second) = if *was_connection { (others, connections) } else { (connections, others) };
        let next = first.pop_front().or_else(|| second.pop_front())?;
        *was_connection = matches!(next, Asker::Publisher(_));
        Some(next)
    }

    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.others.is_empty()
    }
}

#[derive(Debug)]
struct Begun {
    of: Waiting,
    search: Box<Search>,
}

impl Default for Searches {
    fn default() -> Self {
        let shares = Shares { short: SHORT_STEPS, turn: TURN_STEPS, search: SEARCH_STEPS };
        Self {
            shares,
            left: TURN_STEPS,
            left_to_search: SEARCH_STEPS,
            begun: VecDeque::new(),
            waiting: HashMap::new(),
            lanes: HashMap::new(),
            gone: 0,
            order: VecDeque::new(),
            given_up: Vec::new(),
            found: None,
        }
    }
}

impl Searches {
    /// Takes what a search has found for the message that is handled again now. Called first of all, because another message of
    /// the same publisher must not get it.
    pub fn take_found(&mut self, asker: Asker) -> Option<Found> {
        self.found.take_if(|(of, _)| *of == asker).map(|(_, found)| found)
    }

    /// Finds the route of a message of a client.
    ///
    /// # Errors
    /// The exchange does not exist, or the route takes too many steps.
    pub fn route(
        &mut self,
        found: Option<Found>,
        catalog: &Catalog,
        vhost: &str,
        exchange: &str,
        routable: &Routable<'_>,
    ) -> Result<Routed, Unrouted> {
        self.route_or_attempt(found, self.shares.short, catalog, (vhost, exchange), routable)
    }

    /// Finds the route of a message, which may take `short` steps even if the turn has none left.
    fn route_or_attempt(
        &mut self,
        found: Option<Found>,
        short: u64,
        catalog: &Catalog,
        (vhost, exchange): (&str, &str),
        routable: &Routable<'_>,
    ) -> Result<Routed, Unrouted> {
        if let Some(found) = found {
            return found.ok_or(Unrouted::NoExchange);
        }
        let steps_max = self.left.min(ATTEMPT_STEPS).max(short);
        let routed = catalog.route_within(vhost, exchange, routable, steps_max);
        let (steps, puts) = match &routed {
            Ok(routed) => (routed.steps, steps_of_puts(routed)),
            Err(Unrouted::TooLong { steps }) => (*steps, 0),
            Err(Unrouted::NoExchange) => (0, 0),
        };
        // The route is searched again, although it is known: kept for each connection that waits, routes to thousands of queues would take
        // much memory. The default exchange has no bindings to search, and its queues are those of a few hundred keys at most.
        if puts > 0 && !exchange.is_empty() && steps + puts > self.left.max(short) {
            self.left = self.left.saturating_sub(steps);
            return Err(Unrouted::TooLong { steps });
        }
        self.left = self.left.saturating_sub(steps + puts);
        routed
    }

    /// Finds the route of a message that the broker publishes: a dead letter, for example. Returns `None` if the exchange does not
    /// exist. It takes steps only if the turn has some left: a turn can have many of them, and nobody has to read them first.
    ///
    /// # Errors
    /// The route takes too many steps. The search for it has begun, and [`Searches::go_on`] returns who waits for it.
    pub fn route_stored(
        &mut self,
        own: Own,
        found: Option<Found>,
        catalog: &Catalog,
        (vhost, exchange): (&Arc<str>, &Arc<str>),
        message: &Message,
        random: u64,
    ) -> Result<Option<Routed>, TooLong> {
        let routable = Routable::of_message(message, random);
        match self.route_or_attempt(found, 0, catalog, (vhost, exchange), &routable) {
            Ok(routed) => Ok(Some(routed)),
            Err(Unrouted::NoExchange) => Ok(None),
            Err(Unrouted::TooLong { steps }) => {
                let keys = message.route().keys().to_vec();
                let (vhost, exchange) = (vhost.clone(), exchange.clone());
                let route = LongRoute { asker: Asker::Own(own), vhost, exchange, keys, random };
                self.push(Waiter::Own(own), Box::new(route), HeldParts::Stored(message.clone()));
                Err(TooLong { steps })
            }
        }
    }

    /// Begins a search. [`Searches::go_on`] returns who waits for it.
    pub fn push(&mut self, whom: Waiter, route: Box<LongRoute>, parts: HeldParts) {
        let (asker, vhost) = (route.asker, route.vhost.clone());
        self.waiting.insert(asker, Waiting { whom, route, parts });
        let lane = self.lanes.entry(vhost.clone()).or_default();
        if lane.is_empty() {
            self.order.push_back(vhost);
        }
        match asker {
            Asker::Publisher(_) => lane.connections.push_back(asker),
            Asker::Own(_) => lane.others.push_back(asker),
        }
    }

    /// Ends the search of a publisher that has ended. Its connection is returned all the same.
    pub fn give_up(&mut self, publisher: PublisherId) {
        let found = self.remove(Asker::Publisher(publisher));
        self.given_up.extend(found.map(|waiting| waiting.whom));
    }

    /// Ends the search for messages that the broker is not to publish any more.
    pub fn forget(&mut self, own: Own) {
        self.remove(Asker::Own(own));
    }

    fn remove(&mut self, asker: Asker) -> Option<Waiting> {
        if let Some(waiting) = self.waiting.remove(&asker) {
            self.gone += 1;
            if self.gone > self.waiting.len() + GONE_MAX {
                self.forget_gone();
            }
            return Some(waiting);
        }
        let at = self.begun.iter().position(|begun| begun.of.route.asker == asker)?;
        self.begun.remove(at).map(|begun| begun.of)
    }

    /// Drops the places of searches that have been given up.
    fn forget_gone(&mut self) {
        let Self { waiting, lanes, order, .. } = self;
        lanes.retain(|_, lane| {
            lane.connections.retain(|asker| waiting.contains_key(asker));
            lane.others.retain(|asker| waiting.contains_key(asker));
            !lane.is_empty()
        });
        order.retain(|vhost| lanes.contains_key(vhost));
        self.gone = 0;
    }

    /// Begins a turn.
    pub fn begin_turn(&mut self) {
        (self.left, self.left_to_search) = (self.shares.turn, self.shares.search);
    }

    /// Goes on with the searches as far as this turn may. Returns who waits for a route that is found. The caller has the
    /// message handled again and calls [`Searches::end_found`]. Adds the steps that it takes to `steps`.
    pub fn go_on(&mut self, catalog: &Catalog, steps: &mut u64) -> Option<Waiter> {
        if let Some(whom) = self.given_up.pop() {
            return Some(whom);
        }
        while self.left_to_search > 0 {
            if let Some(of) = self.begin(catalog) {
                return Some(self.end(&of, None));
            }
            let Begun { of, mut search } = self.begun.pop_front()?;
            let part = self.left_to_search.min(PART_STEPS);
            let (found, taken) = search.go_on(catalog, &of.parts.routable(&of.route), part);
            *steps += taken;
            self.left_to_search = self.left_to_search.saturating_sub(taken);
            match found {
                Some(found) => {
                    self.left_to_search = self.left_to_search.saturating_sub(steps_of_puts(&found));
                    return Some(self.end(&of, Some(found)));
                }
                None => self.begun.push_back(Begun { of, search }),
            }
        }
        None
    }

    /// Notes what was found.
    fn end(&mut self, of: &Waiting, found: Found) -> Waiter {
        self.found = Some((of.route.asker, found));
        of.whom
    }

    /// Begins as many searches as may have begun. If the exchange of one does not exist, stops there and returns it.
    fn begin(&mut self, catalog: &Catalog) -> Option<Waiting> {
        while let Some(of) = self.next() {
            match catalog.search(&of.route.vhost, &of.route.exchange) {
                Some(search) => self.begun.push_back(Begun { of, search: Box::new(search) }),
                None => return Some(of),
            }
        }
        None
    }

    /// Takes the next search that may begin. The virtual hosts take turns.
    fn next(&mut self) -> Option<Waiting> {
        if self.begun.len() >= BEGUN_MAX {
            return None;
        }
        // Those with as many as they may have are few, so this passes over few.
        for at in 0..self.order.len().min(BEGUN_MAX / BEGUN_IN_VHOST_MAX + 1) {
            let of = |begun: &&Begun| begun.of.route.vhost == self.order[at];
            if self.begun.iter().filter(of).count() >= BEGUN_IN_VHOST_MAX {
                continue;
            }
            let vhost = self.order.remove(at)?;
            let lane = self.lanes.get_mut(&vhost)?;
            let next = std::iter::from_fn(|| lane.next()).find_map(|asker| self.waiting.remove(&asker));
            match lane.is_empty() {
                true => _ = self.lanes.remove(&vhost),
                false => self.order.push_back(vhost),
            }
            // None: they have all been given up.
            return next.or_else(|| self.next());
        }
        None
    }

    /// Called when a message was handled again, before any other is. If it is held for another reason, its route is searched again
    /// later.
    pub fn end_found(&mut self) {
        self.found = None;
    }

    /// Has every route searched, this many steps in a turn. For tests.
    pub fn search_all(&mut self, steps: u64) {
        self.shares = Shares { short: 0, turn: 0, search: steps };
        (self.left, self.left_to_search) = (0, steps);
    }

    /// Returns true if no message waits.
    pub fn is_idle(&self) -> bool {
        self.begun.is_empty() && self.waiting.is_empty() && self.given_up.is_empty()
    }
}

/// Returns the steps for which giving a message to its queues counts.
fn steps_of_puts(routed: &Routed) -> u64 {
    (routed.targets.len() as u64).saturating_sub(1) * PUT_STEPS
}

impl HeldParts {
    fn routable<'a>(&'a self, route: &'a LongRoute) -> Routable<'a> {
        match self {
            Self::Amqp10(message) => match sections::scan(message) {
                Ok(found) => Routable::arrived(&route.keys, &found, message, route.random),
                // It was scanned when it arrived.
                Err(_) => Routable { keys: &route.keys, random: route.random, ..Routable::default() },
            },
            Self::Amqp091(list) => Routable::of_properties(&route.keys, list, route.random),
            Self::Stored(message) => {
                Routable { keys: &route.keys, ..Routable::of_message(message, route.random) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use catalog::Change;

    use super::*;

    /// Many messages with long routes wait in two virtual hosts. One of a third is found after a few parts, whoever was there first,
    /// and each virtual host gets its turn. Some are given up while they wait and while they are searched.
    #[test]
    fn virtual_hosts_take_turns() {
        const WAITING: u64 = 50;
        let mut catalog = Catalog::default();
        for vhost in ["a", "b", "c"] {
            catalog.apply(&Change::VhostAdded { name: vhost.into() });
        }
        let mut searches = Searches::default();
        let push = |searches: &mut Searches, vhost: &str, number: u64, keys: usize| {
            let asker = Asker::Publisher(PublisherId(number));
            let keys = (0..keys).map(|n| n.to_string().into()).collect();
            let route =
                LongRoute { asker, vhost: vhost.into(), exchange: "amq.topic".into(), keys, random: 0 };
            let parts = HeldParts::Amqp091(Bytes::from_static(&[0, 0]));
            searches.push(Waiter::Connection(Ticket(number)), Box::new(route), parts);
        };
        for number in 0..WAITING {
            push(&mut searches, "a", number, 100_000);
            push(&mut searches, "b", WAITING + number, 100_000);
        }
        let turn = |searches: &mut Searches| {
            searches.begin_turn();
            let mut steps = 0;
            let found: Vec<_> = std::iter::from_fn(|| searches.go_on(&catalog, &mut steps)).collect();
            (found, steps)
        };
        let (found, steps) = turn(&mut searches);
        assert!(found.is_empty() && (SEARCH_STEPS..=SEARCH_STEPS + PART_STEPS).contains(&steps), "{steps}");
        assert_eq!(searches.begun.len(), BEGUN_MAX);
        let (third, last) = (2 * WAITING, 2 * WAITING + 1);
        push(&mut searches, "c", third, 12_000);
        push(&mut searches, "a", last, 1);
        searches.give_up(PublisherId(0));
        searches.give_up(PublisherId(WAITING - 1));
        // Clients that come, wait and go leave nothing behind, although no search ends.
        for number in last + 1..last + 1_000 {
            push(&mut searches, "a", number, 1);
            searches.give_up(PublisherId(number));
            assert_eq!(searches.given_up.pop(), Some(Waiter::Connection(Ticket(number))));
        }
        let places: usize = searches.lanes.values().map(|lane| lane.connections.len()).sum();
        assert!(places <= 2 * searches.waiting.len() + GONE_MAX, "{places}");
        let mut found = Vec::new();
        while !found.contains(&Waiter::Connection(Ticket(third))) {
            found.extend(turn(&mut searches).0);
            assert!(found.len() < 8, "{found:?}");
        }
        assert!(!found.contains(&Waiter::Connection(Ticket(last))));
        while !searches.is_idle() {
            found.extend(turn(&mut searches).0);
        }
        let mut of: Vec<_> = found.iter().map(|whom| format!("{whom:?}")).collect();
        of.sort();
        of.dedup();
        assert_eq!((of.len() as u64, found.len() as u64), (last + 1, last + 1), "each once");
        assert!(searches.lanes.is_empty() && searches.order.is_empty(), "{searches:?}");
    }
}
