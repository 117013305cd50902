//! A search for a route that takes more steps than a message may take in one turn. It goes on in later turns, and finds the route
//! that the message had when the search began, whatever is bound and unbound meanwhile.
//!
//! A search keeps the exchanges that it can reach, with their bindings ([`Kept`]). They are shared with the catalog until one of
//! them changes, so keeping them costs a pointer for each. The first change of an exchange after that copies its bindings once.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::exchange::{Facts, PausedFacts, Routable, Routes};
use super::route::Distinct;
use super::{Catalog, Destination, Exchange, RouteTarget, Routed};
use crate::ExchangeId;

/// A search that has begun.
#[derive(Debug)]
pub struct Search {
    vhost: Arc<str>,
    exchange: ExchangeId,
    kept: Vec<Kept>,
    /// The places of the exchanges in `kept`, by their names.
    places: HashMap<Arc<str>, usize>,
    /// The exchanges that are still to be searched.
    todo: Vec<usize>,
    /// Where the search goes on.
    at: Option<At>,
    targets: Distinct<[RouteTarget; 2]>,
    histories: SmallVec<[Arc<Exchange>; 1]>,
    facts: PausedFacts,
    /// The steps that it took to begin, until they are counted.
    begun_in: u64,
}

/// An exchange as it was when the search began.
#[derive(Debug)]
struct Kept {
    exchange: Arc<Exchange>,
    routes: Routes,
    /// True if the message has been to this exchange. It handles a message once, so cycles end here.
    is_seen: bool,
}

/// A place in an exchange.
#[derive(Clone, Copy, Debug)]
struct At {
    exchange: usize,
    /// The next place of it ([`Routes::route`]).
    place: usize,
    /// True if a binding has matched so far.
    any: bool,
}

impl Catalog {
    /// Begins the search for the route of a message to this exchange. Returns `None` if the exchange does not exist.
    pub fn search(&self, vhost: &Arc<str>, exchange: &str) -> Option<Search> {
        let of_vhost = self.vhosts.get(vhost)?;
        let mut search = Search {
            vhost: vhost.clone(),
            exchange: of_vhost.exchanges.get(exchange)?.id,
            kept: Vec::new(),
            places: HashMap::new(),
            todo: vec![0],
            at: None,
            targets: Distinct::default(),
            histories: SmallVec::new(),
            facts: PausedFacts::default(),
            begun_in: 0,
        };
        search.places.insert(exchange.into(), 0);
        let mut todo: Vec<Arc<str>> = vec![exchange.into()];
        while let Some(name) = todo.pop() {
            let Some(table) = of_vhost.exchanges.get(&name) else { continue };
            let exchange = table.current(&of_vhost.policies, self.policies).into_owned();
            for next in table.exchanges().chain(&exchange.alternate) {
                search.begun_in += 1;
                if !search.places.contains_key(next) {
                    search.places.insert(next.clone(), usize::MAX);
                    todo.push(next.clone());
                }
            }
            search.places.insert(name, search.kept.len());
            search.kept.push(Kept { exchange, routes: table.routes().clone(), is_seen: false });
        }
        // An alternate exchange need not exist.
        search.places.retain(|_, place| *place != usize::MAX);
        Some(search)
    }
}

impl Search {
    /// Goes on for about as many steps. Returns the route if it is found, and the number of steps that were taken.
    pub fn go_on(
        &mut self,
        catalog: &Catalog,
        routable: &Routable<'_>,
        steps_max: u64,
    ) -> (Option<Routed>, u64) {
        let begun_in = std::mem::take(&mut self.begun_in);
        let facts = self.facts.go_on(routable, steps_max.saturating_sub(begun_in));
        let end = loop {
            let at = match self.at.take() {
                Some(at) => at,
                None => match self.next_exchange(&facts) {
                    Some(at) => at,
                    None => break true,
                },
            };
            self.at = self.search_one(at, catalog, &facts);
            if facts.is_used_up() && (self.at.is_some() || !self.todo.is_empty()) {
                break false;
            }
        };
        self.facts = facts.pause();
        (end.then(|| self.found()), begun_in + facts.steps() + facts.steps_again())
    }

    /// Returns the start of the next exchange.
    fn next_exchange(&mut self, facts: &Facts<'_>) -> Option<At> {
        loop {
            let exchange = self.todo.pop()?;
            let kept = &mut self.kept[exchange];
            if !std::mem::replace(&mut kept.is_seen, true) {
                if kept.exchange.remembers(facts) {
                    self.histories.push(kept.exchange.clone());
                }
                return Some(At { exchange, place: 0, any: false });
            }
        }
    }

    /// Searches an exchange from a place on. Returns the place where it pauses, if it does.
    fn search_one(&mut self, mut at: At, catalog: &Catalog, facts: &Facts<'_>) -> Option<At> {
        let Self { vhost, kept, places, todo, targets, .. } = self;
        let Kept { exchange, routes, .. } = &kept[at.exchange];
        let paused = routes.route(facts, at.place, &mut |destination| {
            at.any = true;
            facts.count(1);
            match destination {
                Destination::Queue(queue) => catalog.add_queue_named(vhost, queue, targets),
                Destination::Exchange(name) => todo.extend(places.get(name)),
            }
        });
        if let Some(place) = paused {
            return Some(At { place, ..at });
        }
        if !at.any {
            todo.extend(exchange.alternate.as_ref().and_then(|name| places.get(name)));
        }
        None
    }

    fn found(&mut self) -> Routed {
        Routed {
            targets: std::mem::take(&mut self.targets).into_list(),
            // It may be the route of an earlier version of the catalog.
            by_key_alone: false,
            exchange: Some(self.exchange),
            // They were counted when they were taken.
            steps: 0,
            histories: std::mem::take(&mut self.histories),
        }
    }
}
