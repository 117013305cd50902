//! Routing: finds the queues that a message to an exchange reaches.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::exchange::{Facts, Routable};
use super::{Catalog, Destination, Exchange};
use crate::ExchangeId;
use crate::ids::QueueId;
use crate::reply_to::ReplyTo;

/// The end of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteTarget {
    Queue(QueueId),
    /// A link that takes replies. The message is delivered if the link has credit; otherwise it is dropped
    /// and counted. It is always accepted.
    Direct(ReplyTo),
}

/// The targets of a route. Most routes lead to a few queues.
pub type RouteTargets = SmallVec<[RouteTarget; 2]>;

/// The route of a message.
#[derive(Clone, Debug, Default)]
pub struct Routed {
    /// The targets of the route. Each occurs once.
    pub targets: RouteTargets,
    /// True if other messages with the same keys take the same route until the catalog changes. Then the
    /// route may be cached.
    pub by_key_alone: bool,
    /// The exchange at which the route begins. `None` if it begins at a queue.
    pub exchange: Option<ExchangeId>,
    /// The number of steps that it took to find the route. A step visits a node, a binding, a header or a destination.
    pub steps: u64,
    /// The exchanges on the route that keep the message for destinations that are bound later.
    pub histories: SmallVec<[Arc<Exchange>; 1]>,
}

/// Why a message has no route yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrouted {
    /// The exchange does not exist.
    NoExchange,
    /// The route takes more steps than are allowed now. [`Catalog::search`] finds it in parts.
    TooLong {
        /// The steps that were taken in vain.
        steps: u64,
    },
}

impl Catalog {
    /// Returns everything that a message to `exchange` reaches, or `None` if the exchange does not exist.
    pub fn route(&self, vhost: &str, exchange: &str, routable: &Routable<'_>) -> Option<Routed> {
        self.route_within(vhost, exchange, routable, u64::MAX).ok()
    }

    /// Returns everything that a message to `exchange` reaches, if that takes about as many steps at most.
    ///
    /// # Errors
    /// The exchange does not exist, or there are more steps.
    pub fn route_within(
        &self,
        vhost: &str,
        exchange: &str,
        routable: &Routable<'_>,
        steps_max: u64,
    ) -> Result<Routed, Unrouted> {
        let vhost = self.vhosts.get(vhost).ok_or(Unrouted::NoExchange)?;
        let mut routed = Routed { by_key_alone: true, ..Routed::default() };
        let mut targets = Distinct::default();
        if exchange.is_empty() {
            routed.exchange = vhost.default_exchange;
            for key in routable.keys {
                match vhost.queues.get(key) {
                    Some(id) => self.add_queue(*id, &mut targets),
                    // The key may name a link that takes replies. Such names cannot be declared or bound.
                    None => ReplyTo::parse(key)
                        .into_iter()
                        .for_each(|to| _ = targets.insert(RouteTarget::Direct(to))),
                }
            }
            routed.targets = targets.list;
            routed.steps = routable.keys.len() as u64;
            return Ok(routed);
        }
        let facts = Facts::new(*routable, steps_max);
        let mut seen = Distinct::<[&str; 4]>::default();
        let mut todo: SmallVec<[&str; 4]> = SmallVec::new();
        let (first, table) = vhost.exchanges.get_key_value(exchange).ok_or(Unrouted::NoExchange)?;
        routed.exchange = Some(table.id);
        todo.push(first);
        while let Some(name) = todo.pop() {
            // Each exchange handles a message only once, so cycles of exchanges and alternate exchanges end
            // here.
            if !seen.insert(name) {
                continue;
            }
            if facts.is_used_up() {
                return Err(Unrouted::TooLong { steps: facts.steps() });
            }
            let Some(table) = vhost.exchanges.get(name) else { continue };
            routed.by_key_alone &= table.by_key_alone();
            if table.exchange.remembers(&facts) {
                routed.histories.push(table.exchange.clone());
            }
            let mut any = false;
            let paused = table.routes().route(&facts, 0, &mut |destination| {
                any = true;
                facts.count(1);
                match destination {
                    Destination::Queue(queue) => {
                        if let Some(id) = vhost.queues.get(queue) {
                            self.add_queue(*id, &mut targets);
                        }
                    }
                    Destination::Exchange(exchange) => {
                        if let Some((name, _)) = vhost.exchanges.get_key_value(exchange) {
                            todo.push(name);
                        }
                    }
                }
            });
            if paused.is_some() {
                return Err(Unrouted::TooLong { steps: facts.steps() });
            }
            if !any
                && let Some(alternate) = &table.current(&vhost.policies, self.policies).alternate
                && let Some((name, _)) = vhost.exchanges.get_key_value(alternate)
            {
                todo.push(name);
            }
        }
        routed.targets = targets.list;
        routed.steps = facts.steps();
        Ok(routed)
    }

    /// Adds the queue of this name, if it exists.
    pub(super) fn add_queue_named(&self, vhost: &str, name: &str, targets: &mut Distinct<[RouteTarget; 2]>) {
        if let Some(id) = self.vhosts.get(vhost).and_then(|vhost| vhost.queues.get(name)) {
            self.add_queue(*id, targets);
        }
    }

    fn add_queue(&self, id: QueueId, targets: &mut Distinct<[RouteTarget; 2]>) {
        if self.is_stream(id).is_some() {
            targets.insert(RouteTarget::Queue(id));
        }
    }
}

/// The longest list that is searched from its start. Above this, a set is faster.
const FEW_MAX: usize = 16;

/// A list without duplicates. An insertion costs a constant time, also if there are many items.
#[derive(Debug)]
pub(super) struct Distinct<A: smallvec::Array> {
    list: SmallVec<A>,
    /// The same items, if there are more than [`FEW_MAX`].
    set: Option<HashSet<A::Item>>,
}

impl<A: smallvec::Array> Default for Distinct<A> {
    fn default() -> Self {
        Self { list: SmallVec::new(), set: None }
    }
}

impl<A: smallvec::Array<Item: Copy + Eq + Hash>> Distinct<A> {
    /// Adds an item. Returns false if it was in the list.
    fn insert(&mut self, item: A::Item) -> bool {
        let list = &self.list;
        let is_new = match list.len() < FEW_MAX {
            true => !list.contains(&item),
            false => self.set.get_or_insert_with(|| list.iter().copied().collect()).insert(item),
        };
        if is_new {
            self.list.push(item);
        }
        is_new
    }

    pub(super) fn into_list(self) -> SmallVec<A> {
        self.list
    }
}
