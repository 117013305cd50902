//! What a shard knows of the whole node: the catalog, where queues live, who may come in, and the settings. On the shard
//! that decides, also the decider and the messages that exchanges keep.
//!
//! A command comes as `Mail::Propose` to the shard that decides. Its changes go to the log, and when they are synced to every
//! shard as `Mail::Changes`. The answer leaves when all have applied them. So nobody sees what a crash could take back.

mod decider;
mod history;
mod placing;

use std::sync::Arc;

use broker::access::Access;
use broker::catalog::{Catalog, Change, Histories, QueueRecord};
use broker::ids::{DECIDER, QueueId, ShardId};
use broker::placements::Placements;
use broker::settings::Settings;

use self::decider::Decider;

/// See the module.
#[derive(Debug)]
pub(super) struct Metadata {
    settings: Arc<Settings>,
    access: Arc<Access>,
    catalog: Catalog,
    placements: Placements,
    /// On the shard that decides: decides changes of the catalog.
    decider: Option<Decider>,
    /// On the shard that decides: what exchanges keep for later bindings.
    histories: Histories,
}

impl Metadata {
    pub fn new(
        here: ShardId,
        shards: ShardId,
        settings: Arc<Settings>,
        access: Arc<Access>,
        catalog: Catalog,
        placements: Placements,
    ) -> Self {
        let decider = (here == DECIDER).then(|| Decider::new(shards, &catalog));
        Self { settings, access, catalog, placements, decider, histories: Histories::default() }
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Where queues live.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// The version of the policies. A queue with settings of another version is configured before anything is applied to it.
    pub fn policies(&self) -> u64 {
        self.catalog.policies_version()
    }

    /// The record of a queue, which is kept up to date from now on.
    pub fn refresh_queue(&mut self, queue: QueueId) -> Option<Arc<QueueRecord>> {
        self.catalog.refresh_queue_at(queue.slot()).filter(|record| record.id == queue)
    }

    /// Keeps the exchange at this place of the catalog up to date.
    pub fn refresh_exchange_at(&mut self, place: usize) {
        self.catalog.refresh_exchange_at(place);
    }

    pub fn access(&self) -> &Access {
        &self.access
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// On the shard that decides: the durable changes that are decided and not applied, in their order.
    pub fn pending(&self) -> impl Iterator<Item = &Change> {
        let pending = self.decider.iter().flat_map(|decider| decider.pending.changes());
        pending.filter(|change| self.catalog.is_durable(change))
    }

    /// Whether this shard decides.
    pub fn decides(&self) -> bool {
        self.decider.is_some()
    }
}
