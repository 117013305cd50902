//! What the start of a node ends.

use std::sync::Arc;

use hashbrown::HashSet;

use super::{Catalog, Destination, Mutation};
use crate::ids::{NodeNumber, Origin, QueueId};

impl Catalog {
    /// Removes what is not durable and belonged to an earlier start of this node: exclusive queues of its connections, queues that lived
    /// there, exchanges of which it was the last node, and the bindings of all of these. Nothing ends as a consequence: an exchange that
    /// has lost its last binding in this way stays.
    pub(super) fn start_node(&mut self, node: NodeNumber, origin: Origin) {
        if self.has(Mutation::KeepTransient) {
            return;
        }
        let ended = self.queues.from(0).filter(|(_, row)| row.record.ends_at_start(node, origin));
        let ended: Vec<QueueId> = ended.map(|(_, row)| row.record.id).collect();
        let mut gone: HashSet<(Arc<str>, Destination)> = HashSet::new();
        for id in ended {
            let Some(row) = self.queues.remove(id) else { continue };
            let record = row.record;
            if let Some(vhost) = self.vhosts.get_mut(&record.vhost) {
                vhost.queues.remove(&record.name);
            }
            gone.insert((record.vhost.clone(), Destination::Queue(record.name.clone())));
        }
        let mut places = Vec::new();
        for (name, vhost) in &mut self.vhosts {
            vhost.exchanges.retain(|exchange, table| {
                let stays = table.exchange.durable || {
                    let nodes = table.exchange.nodes.without(node);
                    let stays = !nodes.is_empty();
                    Arc::make_mut(&mut table.exchange).nodes = nodes;
                    stays
                };
                if !stays {
                    places.push(table.id);
                    gone.insert((name.clone(), Destination::Exchange(exchange.clone())));
                }
                stays
            });
        }
        self.free_places(places.into_iter());
        if gone.is_empty() {
            return;
        }
        for (name, vhost) in &mut self.vhosts {
            for table in vhost.exchanges.values_mut() {
                let of_gone = |to: &Destination| gone.contains(&(name.clone(), to.clone()));
                let unbound: Vec<_> =
                    table.bindings.iter().filter(|binding| of_gone(&binding.destination)).cloned().collect();
                unbound.iter().for_each(|binding| table.unbind(binding));
            }
        }
    }
}
