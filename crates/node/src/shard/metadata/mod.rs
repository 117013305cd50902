//! What a shard knows about the whole node: the catalog, where queues live, access, and the settings. The
//! deciding shard also has the decider. The node shard also has the answers that wait, the copy of the users, and the messages that
//! exchanges remember.
//!
//! A command is proposed ([`Shard::propose_change`](super::Shard)), and reaches the deciding shard as `Mail::Propose`. Its changes become
//! an entry of the catalog's Raft group (`owner`). Once that is committed, they go to every shard as one `Mail::Entry`. The answer is sent
//! when all shards have applied it, and in a cluster the other nodes in sight (`sight`). So no client sees a change that a crash could undo.
//!
//! Two numbers follow a command: the ticket of its asker, and the index of its entry.

mod answers;
mod applying;
mod catalog_sight;
mod copied;
mod decider;
mod founding;
mod history;
mod installing;
mod lost;
mod minority;
mod misses;
mod owner;
mod placing;
mod proposals;
mod sight;

use std::collections::VecDeque;
use std::sync::Arc;

use broker::ids::NODE_SHARD;
use broker::placements::Placements;
use broker::settings::Settings;
use broker::traces::Traces;
use catalog::access::Access;
use catalog::ids::{QueueId, ShardId};
use catalog::{Catalog, Histories, QueueRecord};

use self::answers::Answers;
pub use self::catalog_sight::CatalogSight;
use self::copied::Copied;
pub(crate) use self::decider::DECIDER;
use self::decider::Decider;
use self::founding::Founding;
use self::history::Replay;
use self::lost::OutOfSight;
use self::misses::Misses;
use self::proposals::Proposals;
use self::sight::Sight;
use crate::facts::FinishedGroup;

/// The metadata of a shard; see the module.
#[derive(Debug)]
pub(super) struct Metadata {
    settings: Arc<Settings>,
    access: Arc<Access>,
    /// What is traced.
    traces: Arc<Traces>,
    catalog: Catalog,
    placements: Placements,
    /// The index of the last entry that this shard has applied.
    applied: u64,
    /// The decider of changes of the catalog. Present on the deciding shard only.
    decider: Option<Decider>,
    /// The answers that wait until all shards have applied an entry. Present on the node shard only.
    answers: Option<Answers>,
    /// The groups that are being founded. Present on the node shard only.
    founding: Option<Founding>,
    /// The copy of the users. Present on the node shard of a node with a data directory.
    copied: Option<Copied>,
    /// The proposals of this node for which no answer has come. Used on the node shard of a node in a cluster only.
    proposals: Proposals,
    /// What the other nodes have applied, and the answers that wait for them. Used on the node shard of a node in a cluster only.
    sight: Sight,
    /// What was not found and may be on other nodes. Used on the node shard of a node in a cluster only.
    misses: Misses,
    /// The other nodes that this one does not see. Used on the node shard of the node that decides changes in a cluster.
    out_of_sight: OutOfSight,
    /// The messages that exchanges remember for later bindings. Used on the node shard only.
    histories: Histories,
    /// The remembered messages for new bindings that wait for their routes, in their order.
    replays: VecDeque<Replay>,
    /// The number of remembered messages that new bindings got so far.
    replayed: u64,
}

impl Metadata {
    pub(super) fn new(
        (here, shards): (ShardId, ShardId),
        settings: Arc<Settings>,
        access: Arc<Access>,
        catalog: Catalog,
        (member, applied): (Option<FinishedGroup>, u64),
        placements: Placements,
    ) -> Self {
        let decider = (here == DECIDER).then(|| Decider::new(&catalog, member));
        let answers = (here == NODE_SHARD).then(|| Answers::new(shards, applied));
        let traces = Arc::default();
        Self {
            settings,
            access,
            traces,
            catalog,
            placements,
            applied,
            decider,
            answers,
            founding: None,
            copied: None,
            proposals: Proposals::default(),
            sight: Sight::default(),
            misses: Misses::default(),
            out_of_sight: OutOfSight::default(),
            histories: Histories::default(),
            replays: VecDeque::new(),
            replayed: 0,
        }
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the index of the last entry that this shard has applied.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns the homes of the queues.
    pub(super) fn placements(&self) -> &Placements {
        &self.placements
    }

    /// Returns the lower half of the version of the policies. A queue that was configured for another version is
    /// reconfigured before a request is applied to it. So the halves are equal by mistake only after 2^32 changes between
    /// two requests.
    pub(super) fn policies(&self) -> u32 {
        self.catalog.policies_version() as u32
    }

    /// Returns the record of a queue, after refreshing it for the current policies.
    pub(super) fn refresh_queue(&mut self, queue: QueueId) -> Option<Arc<QueueRecord>> {
        self.catalog.refresh_queue_at(queue.slot()).filter(|record| record.id == queue)
    }

    /// Refreshes the record of the exchange at this place of the catalog.
    pub(super) fn refresh_exchange_at(&mut self, place: usize) {
        self.catalog.refresh_exchange_at(place);
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Returns what is traced, or `None` if nothing is.
    pub(super) fn traces(&self) -> Option<&Traces> {
        Some(&*self.traces).filter(|traces| !traces.is_off())
    }

    pub(super) fn set_traces(&mut self, traces: Arc<Traces>) {
        self.traces = traces;
    }

    /// Removes the traces that are over, so that messages are compared with none of them.
    pub(super) fn remove_traces_over(&mut self, now_ms: u64) {
        if self.traces.limited().iter().any(|trace| trace.is_over(now_ms)) {
            Arc::make_mut(&mut self.traces).remove_over(now_ms);
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns true if the catalog may lack what another node has told its clients.
    pub(super) fn may_lag(&self) -> bool {
        self.catalog.nodes().len() > 1
    }

    /// Returns true on the node shard.
    pub(super) fn is_of_node_shard(&self) -> bool {
        self.answers.is_some()
    }

    /// Returns when answers or misses have waited long enough for other nodes.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.sight.next_deadline().into_iter().chain(self.misses.next_deadline()).min()
    }

    pub(super) fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }
}
