//! From an exchange and a message to queues.

use std::sync::Arc;

use smallvec::SmallVec;

use super::exchange::{Facts, Letter};
use super::{Catalog, Destination, Exchange};
use crate::ids::{QueueId, ShardId};

/// A queue that a message is routed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTarget {
    pub queue: QueueId,
    pub home: Option<ShardId>,
}

/// Most routes lead to a few queues.
pub type RouteTargets = SmallVec<[RouteTarget; 2]>;

/// Where a message goes.
#[derive(Clone, Debug, Default)]
pub struct Routed {
    /// Each queue once.
    pub targets: RouteTargets,
    /// Another message with the same keys goes the same way, until the catalog changes: it may be cached.
    pub by_key_alone: bool,
    /// Exchanges on the way that keep the message for whoever binds later.
    pub histories: SmallVec<[Arc<Exchange>; 1]>,
}

impl Catalog {
    /// Every queue that a message to `exchange` reaches; `None` if the exchange does not exist.
    pub fn route(&self, vhost: &str, exchange: &str, letter: &Letter<'_>) -> Option<Routed> {
        let vhost = self.vhosts.get(vhost)?;
        let mut routed = Routed { by_key_alone: true, ..Routed::default() };
        if exchange.is_empty() {
            for key in letter.keys {
                vhost.queues.get(key).into_iter().for_each(|id| self.push_target(*id, &mut routed.targets));
            }
            return Some(routed);
        }
        let facts = Facts::new(*letter);
        let mut seen: SmallVec<[&str; 4]> = SmallVec::new();
        let mut todo: SmallVec<[&str; 4]> = SmallVec::new();
        todo.push(vhost.exchanges.get_key_value(exchange)?.0);
        while let Some(name) = todo.pop() {
            // Cycles of exchanges and alternate exchanges end here: each handles a message once.
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let Some(table) = vhost.exchanges.get(name) else { continue };
            routed.by_key_alone &= table.by_key_alone();
            if table.remembers(&facts) {
                routed.histories.push(table.exchange.clone());
            }
            let mut any = false;
            table.route(&facts, &mut |destination| {
                any = true;
                match destination {
                    Destination::Queue(queue) => {
                        if let Some(id) = vhost.queues.get(queue) {
                            self.push_target(*id, &mut routed.targets);
                        }
                    }
                    Destination::Exchange(exchange) => {
                        if let Some((name, _)) = vhost.exchanges.get_key_value(exchange) {
                            todo.push(name);
                        }
                    }
                }
            });
            if !any
                && let Some(alternate) = &table.exchange.alternate
                && let Some((name, _)) = vhost.exchanges.get_key_value(alternate)
            {
                todo.push(name);
            }
        }
        Some(routed)
    }

    fn push_target(&self, id: QueueId, targets: &mut RouteTargets) {
        if targets.iter().all(|t| t.queue != id)
            && let Some(record) = self.queue_by_id(id)
        {
            targets.push(RouteTarget { queue: id, home: record.home });
        }
    }
}
