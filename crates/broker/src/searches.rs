//! The share of a turn that messages may take to find their routes.
//!
//! ```text
//!   a message arrives ── few steps, or the turn has steps left ──> it is routed at once
//!                     └─ no ──> its connection waits, and a search begins
//!                               each turn goes on with the searches ── found ──> the message is handled again
//! ```
//!
//! A message of an exchange with many bindings may need millions of steps. So that it does not stop the other connections of its
//! shard, such a route is found in parts. One search is under way at a time, and the others wait in their order. It finds the
//! route that the message had when the search began ([`Search`]).

use std::collections::VecDeque;
use std::sync::Arc;

use amqp10::sections;
use bytes::Bytes;
use queue::{PublisherId, Ticket};

use crate::catalog::{Catalog, Letter, Routed, Search, Unrouted};

/// The steps that every message may take when it arrives, whatever others have used. Most messages take fewer, so they never
/// wait. A turn reads some thousands of messages at most, so all of them together take some ten milliseconds.
const SHORT_STEPS: u64 = 256;

/// The steps that the messages of a turn may take together when they arrive. A step takes 1 to 50 ns, so these take a few
/// milliseconds at most. Messages that need more wait for a search.
const TURN_STEPS: u64 = 100_000;

/// The steps that a turn goes on with searches. One key of a topic exchange is matched in one go, and may take more.
const SEARCH_STEPS: u64 = 100_000;

/// A route that takes too many steps to find at once. The message is held, and is handled again when the route is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongRoute {
    pub publisher: PublisherId,
    pub vhost: Arc<str>,
    pub exchange: Arc<str>,
    pub keys: Vec<Arc<str>>,
    /// See [`Letter::random`].
    pub random: u64,
}

/// The parts of a held message that exchanges read. They share the memory of the message.
#[derive(Debug)]
pub enum HeldParts {
    /// A message of AMQP 1.0.
    Amqp10(Bytes),
    /// The encoded property list of a message of AMQP 0.9.1.
    Amqp091(Bytes),
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
    /// The first one is under way.
    waiting: VecDeque<Waiting>,
    /// The route of the message that is handled again now. `None` in it: its exchange does not exist.
    found: Option<(PublisherId, Option<Routed>)>,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    /// `None` if the publisher has ended.
    wanted: Option<(Box<LongRoute>, HeldParts)>,
    search: Option<Box<Search>>,
}

impl Default for Searches {
    fn default() -> Self {
        let shares = Shares { short: SHORT_STEPS, turn: TURN_STEPS, search: SEARCH_STEPS };
        Self { shares, left: TURN_STEPS, left_to_search: SEARCH_STEPS, waiting: VecDeque::new(), found: None }
    }
}

impl Searches {
    /// Finds the route of a message that has arrived, or takes the one that a search has found for it.
    ///
    /// # Errors
    /// The exchange does not exist, or the route takes too many steps.
    pub fn route(
        &mut self,
        publisher: PublisherId,
        catalog: &Catalog,
        vhost: &str,
        exchange: &str,
        letter: &Letter<'_>,
    ) -> Result<Routed, Unrouted> {
        if let Some((of, found)) = self.found.take_if(|(of, _)| *of == publisher) {
            debug_assert_eq!(of, publisher);
            return found.ok_or(Unrouted::NoExchange);
        }
        let routed = catalog.route_within(vhost, exchange, letter, self.left.max(self.shares.short));
        let steps = match &routed {
            Ok(routed) => routed.steps,
            Err(Unrouted::TooLong { steps }) => *steps,
            Err(Unrouted::NoExchange) => 0,
        };
        self.left = self.left.saturating_sub(steps);
        routed
    }

    /// Begins a search. Its ticket is returned by [`Searches::go_on`].
    pub fn push(&mut self, ticket: Ticket, route: Box<LongRoute>, parts: HeldParts) {
        self.waiting.push_back(Waiting { ticket, wanted: Some((route, parts)), search: None });
    }

    /// Ends the searches of a publisher that has ended. Their tickets are returned all the same.
    pub fn give_up(&mut self, publisher: PublisherId) {
        for waiting in &mut self.waiting {
            if waiting.wanted.as_ref().is_some_and(|(route, _)| route.publisher == publisher) {
                (waiting.wanted, waiting.search) = (None, None);
            }
        }
    }

    /// Begins a turn.
    pub fn begin_turn(&mut self) {
        (self.left, self.left_to_search) = (self.shares.turn, self.shares.search);
    }

    /// Goes on with the searches as far as this turn may. Returns the ticket of a message whose route is found. The caller
    /// has it handled again and calls [`Searches::end_found`].
    pub fn go_on(&mut self, catalog: &Catalog, steps: &mut u64) -> Option<Ticket> {
        let Waiting { ticket, wanted, search } = self.waiting.front_mut()?;
        let ticket = *ticket;
        let Some((route, parts)) = wanted else {
            self.waiting.pop_front();
            return Some(ticket);
        };
        if self.left_to_search == 0 {
            return None;
        }
        let begun = match search.take() {
            Some(search) => Some(search),
            None => catalog.search(&route.vhost, &route.exchange).map(Box::new),
        };
        let found = match begun {
            None => None,
            Some(mut begun) => {
                let before = self.left_to_search;
                let found = begun.go_on(catalog, &parts.letter(route), &mut self.left_to_search);
                *steps += before - self.left_to_search;
                if found.is_none() {
                    *search = Some(begun);
                    return None;
                }
                found
            }
        };
        self.found = Some((route.publisher, found));
        self.waiting.pop_front();
        Some(ticket)
    }

    /// Called when a message was handled again. If it is held for another reason, its route is searched again later.
    pub fn end_found(&mut self) {
        self.found = None;
    }

    /// Has every route searched, this many steps in a turn. For tests.
    pub fn search_all(&mut self, steps: u64) {
        self.shares = Shares { short: 0, turn: 0, search: steps };
        self.left = 0;
    }

    /// Returns true if no message waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl HeldParts {
    fn letter<'a>(&'a self, route: &'a LongRoute) -> Letter<'a> {
        match self {
            Self::Amqp10(message) => match sections::scan(message) {
                Ok(found) => Letter::arrived(&route.keys, &found, message, route.random),
                // It was scanned when it arrived.
                Err(_) => Letter { keys: &route.keys, random: route.random, ..Letter::default() },
            },
            Self::Amqp091(list) => Letter::of_properties(&route.keys, list, route.random),
        }
    }
}
