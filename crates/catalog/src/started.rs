//! What the start of a node ends.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::{Catalog, Destination, Mutation, QueueRecord};
use crate::ids::{NodeNumber, QueueId};

impl QueueRecord {
    /// Returns true if the queue ends when this node starts: nothing of it survives that, and it lived there. No connection of the node is older
    /// than its start, so no exclusive queue can have an owner there.
    pub(super) fn ends_at_start(&self, node: NodeNumber) -> bool {
        !self.outlives_restart() && self.members.has(node)
    }
}

impl Catalog {
    /// Removes what is not durable and belonged to an earlier start of this node: exclusive queues and others that lived there, exchanges of
    /// which it was the last node, and the bindings of all of these. Nothing ends as a consequence: an exchange that has lost its last binding
    /// in this way stays, also if it deletes itself with its last binding.
    ///
    /// The places of the queues are free for a [`super::Pending`] that is made afterwards.
    ///
    /// Looks at all queues and exchanges once, and at all bindings if something ends. This is one step: it takes some 0.15 s if 50,000
    /// exclusive queues end with a binding of each, and 1 ms if there are 50,000 queues and none ends.
    pub(super) fn start_node(&mut self, node: NodeNumber) {
        self.starts += 1;
        if self.has(Mutation::KeepTransient) {
            return;
        }
        let ends = |record: &QueueRecord| {
            record.ends_at_start(node) || record.exclusive.is_some() && self.has(Mutation::EndOthers)
        };
        let ended = self.queues.from(0).filter(|(_, row)| ends(&row.record));
        let ended: Vec<QueueId> = ended.map(|(_, row)| row.record.id).collect();
        let mut gone: HashMap<Arc<str>, HashSet<Destination>> = HashMap::new();
        for id in ended {
            let Some(row) = self.queues.remove(id) else { continue };
            let QueueRecord { vhost, name, .. } = &*row.record;
            if let Some(vhost) = self.vhosts.get_mut(vhost) {
                vhost.queues.remove(name);
            }
            gone.entry_ref(vhost).or_default().insert(Destination::Queue(name.clone()));
        }
        let mut places = Vec::new();
        for (name, vhost) in &mut self.vhosts {
            vhost.exchanges.retain(|exchange, table| {
                if table.exchange.durable || !table.exchange.nodes.has(node) {
                    return true;
                }
                let nodes = table.exchange.nodes.without(node);
                if !nodes.is_empty() {
                    Arc::make_mut(&mut table.exchange).nodes = nodes;
                    return true;
                }
                places.push(table.id);
                gone.entry_ref(name).or_default().insert(Destination::Exchange(exchange.clone()));
                false
            });
        }
        self.free_places(places.into_iter());
        for (name, gone) in gone {
            let Some(vhost) = self.vhosts.get_mut(&name) else { continue };
            for table in vhost.exchanges.values_mut() {
                let bindings = table.bindings.iter();
                let unbound: Vec<_> =
                    bindings.filter(|binding| gone.contains(&binding.destination)).cloned().collect();
                unbound.iter().for_each(|binding| table.unbind(binding));
            }
        }
    }
}
