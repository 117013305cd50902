//! The figures of a node in a test, and the users whom it begins with.

use std::collections::BTreeMap;

use amqp10::sasl::Secret;
use broker::admin_api::{BrowsedRow, ConnectionRow, GroupRow, ShardRow, Start, VhostNumbers};
use broker::counters::Counters;
use broker::exchange_counts::ExchangeCounts;
use broker::explain::ConnectionFacts;
use catalog::QueueRecord;
use catalog::access::{Hashing, Permissions, User};
use node::admin_api::detached::OpenConnection;
use node::shard::looks::CatalogSight;
use queue::Report;

use super::super::metrics::counters;

/// What clients have brought about. Tests change it at will.
#[derive(Default)]
pub(crate) struct State {
    /// The number of ready messages by queue.
    pub ready: BTreeMap<String, u64>,
    /// The number of consumers of each queue.
    pub consumers: u64,
    /// The number of published messages by queue.
    pub published: BTreeMap<String, u64>,
    /// What was published to exchanges, by their names.
    pub exchange_counts: BTreeMap<String, ExchangeCounts>,
    pub vhost_numbers: BTreeMap<String, VhostNumbers>,
    /// How often the numbers of virtual hosts were asked for.
    pub vhost_walks: usize,
    pub shards: Vec<ShardRow>,
    /// Who decides about definitions. `None` for a node that is alone.
    pub sight: Option<CatalogSight>,
    /// The counters of the node.
    pub counters: Counters,
    /// The Raft groups by queue.
    pub groups: BTreeMap<String, GroupRow>,
    /// Names of damaged queues.
    pub damaged: Vec<String>,
    pub connections: Vec<ConnectionRow>,
    pub facts: Vec<ConnectionFacts>,
    /// True if looks at the shards get no answer.
    pub stuck: bool,
    /// The messages of every queue and stream, oldest first.
    pub messages: Vec<BrowsedRow>,
    /// The messages from this position or offset on cannot be read.
    pub damaged_from: Option<u64>,
    /// For each browse: where it starts, and how many messages it asks for.
    pub looks: Vec<(Start, u32)>,
    /// Why connections were to be closed.
    pub close_reasons: Vec<String>,
    /// True if the connections that the admin API opens stay open.
    pub keeps_open: bool,
    pub opened: Vec<OpenConnection>,
    /// The number of queues that each question for reports asked for.
    pub reports: Vec<usize>,
}

/// Returns users. `guest` is the administrator; `monitor`, `own` and `powerless` have one tag less each; `app` has none.
pub(super) fn users() -> [User; 6] {
    let user = |name: &str, tags: &[&str], permissions| User {
        name: name.into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new(name.to_owned())),
        tags: tags.iter().map(|t| (*t).to_owned()).collect(),
        loopback_only: name == "guest",
        permissions: [("/".into(), permissions)].into_iter().collect(),
    };
    [
        user("guest", &["administrator"], Permissions::ALL),
        user("monitor", &["monitoring"], Permissions::ALL),
        user("own", &["management"], Permissions::ALL),
        user("powerless", &["management"], Permissions::NONE),
        user("policymaker", &["policymaker"], Permissions::ALL),
        user("app", &[], Permissions::ALL),
    ]
}

impl State {
    pub(super) fn new(shards: u8) -> Self {
        let shards = (0..shards).map(|number| ShardRow { number, ..ShardRow::default() }).collect();
        Self { counters: counters(), shards, ..Self::default() }
    }

    /// Sets the figures of a queue in its report.
    pub(super) fn set_report(&self, queue: &QueueRecord, report: &mut Report) {
        if let Some(ready) = self.ready.get(&*queue.name).copied() {
            report.ready = ready;
            report.ready_bytes = ready * 10;
            report.head_at_ms = (ready > 0).then_some(super::NOW_MS - 1);
            report.tail_at_ms = report.head_at_ms;
        }
        report.consumers = self.consumers as _;
        report.published = self.published.get(&*queue.name).copied().unwrap_or(0);
        report.damaged = self.damaged.iter().any(|name| **name == *queue.name);
    }
}
