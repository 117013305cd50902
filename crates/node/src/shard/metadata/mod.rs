//! What a shard knows of the whole node: the catalog, who may come in, and the settings. On the shard that decides, also the
//! decider and the messages that exchanges keep.
//!
//! A change comes as `Mail::Propose` to the shard that decides, is numbered there, and goes to every shard as
//! `Mail::Changes`. An answer leaves when all have applied it and the log has synced it.

mod decider;
mod history;

use std::sync::Arc;

use broker::access::Access;
use broker::catalog::{Catalog, Histories, QueueRecord};
use broker::ids::{DECIDER, QueueId, ShardId};
use broker::settings::Settings;

use self::decider::Decider;

/// See the module.
#[derive(Debug)]
pub(super) struct Metadata {
    settings: Arc<Settings>,
    access: Arc<Access>,
    catalog: Catalog,
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
    ) -> Self {
        let decider = (here == DECIDER).then(|| Decider::new(shards, catalog.version()));
        Self { settings, access, catalog, decider, histories: Histories::default() }
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
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

    /// Whether this shard decides.
    pub fn decides(&self) -> bool {
        self.decider.is_some()
    }
}
