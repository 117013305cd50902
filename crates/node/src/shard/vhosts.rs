//! The statistics of virtual hosts. Nothing is counted by virtual host while messages move: who asks for them visits the
//! queues and connections of the shard, part by part. Only what connections had that have closed is kept.

use std::collections::HashMap;
use std::sync::Arc;

use broker::admin_api::VhostNumbers;

use super::Shard;
use super::connections::Conn;
use crate::shard::questions::{PLACES_PER_PART, Part};

/// What the connections had that have closed, by virtual host. It has at most as many entries as there are virtual hosts.
#[derive(Debug, Default)]
pub(super) struct Past(HashMap<Arc<str>, VhostNumbers>);

impl Past {
    fn add(&mut self, vhost: &Arc<str>, numbers: VhostNumbers) {
        match self.0.get_mut(vhost) {
            Some(sum) => *sum += numbers,
            None => _ = self.0.insert(vhost.clone(), numbers),
        }
    }

    /// Called when a virtual host is deleted. A new one of the same name starts at 0.
    pub(super) fn forget(&mut self, vhost: &str) {
        self.0.remove(vhost);
    }
}

impl Shard {
    /// Keeps what a connection had that has closed.
    pub(super) fn keep_numbers(&mut self, gone: &Conn) {
        let vhost = &gone.gate.peer().vhost;
        if let Some(numbers) = numbers_of(gone).filter(|_| self.catalog().has_vhost(vhost)) {
            self.past.add(vhost, numbers);
        }
    }

    /// Returns the number of places that [`Shard::vhost_numbers`] visits.
    pub fn vhost_places(&self) -> usize {
        self.catalog().queue_places().max(self.connections.places())
    }

    /// Returns the sums, by virtual host, over the queues and connections of this shard at one part of the places, which
    /// begins at `from`. The first part also has what the connections had that have closed.
    pub fn vhost_numbers(&self, from: usize) -> Part<(Arc<str>, VhostNumbers)> {
        let mut sums = Past(if from == 0 { self.past.0.clone() } else { HashMap::new() });
        let places = self.vhost_places();
        let end = places.min(from.saturating_add(PLACES_PER_PART));
        for place in from..end {
            if let Some(depth) = self.catalog().queue_id_at(place).and_then(|id| self.depth_of(id))
                && let Some(queue) = self.catalog().queue_at(place)
            {
                sums.add(&queue.vhost, VhostNumbers { depth, ..VhostNumbers::default() });
            }
            if let Some(conn) = self.connections.get(place)
                && let Some(numbers) = numbers_of(conn)
            {
                sums.add(&conn.gate.peer().vhost, numbers);
            }
        }
        Part { rows: sums.0.into_iter().collect(), next: (end < places).then_some(end) }
    }
}

/// Returns what a connection has had. `None` if it was never open.
fn numbers_of(conn: &Conn) -> Option<VhostNumbers> {
    let counts = conn.gate.counts()?;
    let (recv_bytes, send_bytes) = (conn.recv_bytes, conn.send_bytes);
    Some(VhostNumbers { recv_bytes, send_bytes, counts, ..VhostNumbers::default() })
}
