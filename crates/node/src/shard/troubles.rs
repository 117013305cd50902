//! What is not well with the queues and connections of a shard. Whoever asks visits them, part by part: nothing is kept for it.

use std::collections::HashMap;
use std::sync::Arc;

use broker::explain::{Comer, Comers, Troubles};
use broker::ids::NODE_SHARD;
use catalog::access::{Identity, UserRef};

use super::Shard;
use super::connections::Conn;
use crate::shard::questions::{PLACES_PER_PART, Part};

impl Shard {
    /// Returns the troubles by virtual host, of the queues and connections of this shard at one part of the places, which begins
    /// at `from`. If `of` is a user, connections of others are left out. A queue is troubled at its home. The node shard
    /// counts all queues, because those without a home are at none.
    pub fn troubles(&self, of: Option<UserRef<'_>>, from: usize) -> Part<(Arc<str>, Troubles)> {
        let mut by_vhost: HashMap<Arc<str>, Troubles> = HashMap::new();
        let places = self.vhost_places();
        let end = places.min(from.saturating_add(PLACES_PER_PART));
        let now_ms = self.here.now_ms;
        for place in from..end {
            let id = self.catalog().queue_id_at(place);
            let report = id.and_then(|id| self.queue_report(id));
            if (report.is_some() || self.here.id == NODE_SHARD)
                && let Some(record) = self.catalog().queue_at(place)
            {
                let troubles = of_vhost(&mut by_vhost, &record.vhost);
                troubles.queues += u64::from(self.here.id == NODE_SHARD);
                if let Some(report) = report {
                    let is_led = self.group_row(record.id).is_none_or(|group| group.is_healthy());
                    troubles.add_queue(&record, &report, is_led, now_ms);
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
                troubles.add_left_out(&peer.vhost, &peer.name, conn.gate.filters_left_out());
            }
        }
        Part { rows: by_vhost.into_iter().collect(), next: (end < places).then_some(end) }
    }

    /// Counts a connection that has closed soon after it was opened. Connections of the node itself, and those that were never
    /// open, do not count.
    pub(super) fn note_brief(&mut self, gone: &Conn) {
        let (peer, now_ms) = (gone.gate.peer(), self.here.now_ms);
        if !Comers::is_brief(peer.connected_at_ms, now_ms) || peer.past.is_none() || peer.is_of_node() {
            return;
        }
        if let Some(identity) = &peer.identity {
            let comer = Comer {
                vhost: peer.vhost.clone(),
                authority: identity.authority(),
                user: identity.user.clone(),
                address: peer.address.to_canonical(),
            };
            self.comers.count(comer, now_ms);
        }
    }

    /// Returns the clients of this user, or of all, whose connections here were brief, and how many there were within the last
    /// minute.
    pub fn brief_clients(&self, of: Option<UserRef<'_>>) -> Vec<(Comer, u64)> {
        self.comers.within_a_minute(of, self.here.now_ms)
    }
}

fn of_vhost<'a>(all: &'a mut HashMap<Arc<str>, Troubles>, vhost: &Arc<str>) -> &'a mut Troubles {
    if !all.contains_key(vhost) {
        all.insert(vhost.clone(), Troubles::default());
    }
    all.entry(vhost.clone()).or_default()
}
