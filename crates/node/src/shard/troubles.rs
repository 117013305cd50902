//! What is not well with the queues and connections of a shard. Whoever asks visits them, part by part: nothing is kept for it.

use std::collections::HashMap;
use std::sync::Arc;

use broker::access::{Identity, UserRef};
use broker::explain::Troubles;
use broker::ids::DECIDER;

use super::Shard;
use crate::questions::{PLACES_PER_PART, Part};

impl Shard {
    /// Returns the troubles by virtual host, of the queues and connections of this shard at one part of the places, which begins
    /// at `from`. If `of` is a user, connections of others are left out. A queue is troubled at its home. The deciding shard
    /// counts all queues, because those without a home are at none.
    pub fn troubles(&self, of: Option<UserRef<'_>>, from: usize) -> Part<(Arc<str>, Troubles)> {
        let mut by_vhost: HashMap<Arc<str>, Troubles> = HashMap::new();
        let places = self.vhost_places();
        let end = places.min(from.saturating_add(PLACES_PER_PART));
        let now_ms = self.here.now_ms;
        for place in from..end {
            let id = self.catalog().queue_id_at(place);
            let report = id.and_then(|id| self.queue_report(id));
            if (report.is_some() || self.here.id == DECIDER)
                && let Some(record) = self.catalog().queue_at(place)
            {
                let troubles = of_vhost(&mut by_vhost, &record.vhost);
                troubles.queues += u64::from(self.here.id == DECIDER);
                if let Some(report) = report {
                    troubles.add_queue(&record, &report, self.group_row(record.id).as_ref(), now_ms);
                }
            }
            if let Some(conn) = self.connections.get(place).filter(|conn| conn.gate.phase().is_open())
                && let Some(owner) = conn.gate.peer().identity.as_ref().map(Identity::owner)
                && of.is_none_or(|of| of == owner)
            {
                let peer = conn.gate.peer();
                let troubles = of_vhost(&mut by_vhost, &peer.vhost);
                troubles.connections += 1;
                troubles.add_holder(&peer.vhost, &peer.name, &conn.gate.held_long(now_ms));
            }
        }
        Part { rows: by_vhost.into_iter().collect(), next: (end < places).then_some(end) }
    }
}

fn of_vhost<'a>(all: &'a mut HashMap<Arc<str>, Troubles>, vhost: &Arc<str>) -> &'a mut Troubles {
    if !all.contains_key(vhost) {
        all.insert(vhost.clone(), Troubles::default());
    }
    all.entry(vhost.clone()).or_default()
}
