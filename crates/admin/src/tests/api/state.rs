//! The state behind the admin API in memory, and the users whom it begins with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use amqp10::sasl::Secret;
use broker::admin_api::*;
use broker::counters::Counters;
use broker::exchange_counts::ExchangeCounts;
use broker::explain::ConnectionFacts;
use broker::traces::Traces;
use catalog::access::{Access, Hashing, Identity, Permissions, Resource, User, Verb};
use catalog::{Answer, Binding, Catalog, CatalogError, Command, QueueRecord};

use super::super::metrics::counters;
use super::FakeAdminApi;

/// The state behind the admin API. Tests change it at will.
#[derive(Default)]
pub(crate) struct State {
    pub traces: Traces,
    pub catalog: Catalog,
    pub access: Access,
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
    /// The counters of the node.
    pub counters: Counters,
    /// The Raft groups by queue.
    pub groups: BTreeMap<String, GroupRow>,
    /// Names of damaged queues.
    pub damaged: Vec<String>,
    pub connections: Vec<ConnectionRow>,
    pub facts: Vec<ConnectionFacts>,
    pub alarms: Alarms,
    pub listening: bool,
    /// True if requests to the shards get no answer.
    pub stuck: bool,
    /// The messages of every stream, oldest first.
    pub messages: Vec<BrowsedRow>,
    /// The messages from this position or offset on cannot be read.
    pub damaged_from: Option<u64>,
    /// For each browse: where it starts, and how many messages it asks for.
    pub looks: Vec<(Start, u32)>,
    /// Why connections were to be closed.
    pub close_reasons: Vec<String>,
    /// The number of rows that each request for queues asked for.
    pub limits: Vec<usize>,
    /// The number of queue rows that were made.
    pub rows: usize,
    /// For each change of a group: the node, and what was to be done.
    pub changes: Vec<(String, MemberChange)>,
    /// The logins by protocol and by source.
    pub attempts: Vec<AttemptsRow>,
}

impl FakeAdminApi {
    /// Creates users. `guest` is the administrator; `monitor`, `own` and `powerless` have one tag less each;
    /// `app` has none.
    pub(crate) fn new() -> Self {
        let user = |name: &str, tags: &[&str], permissions| User {
            name: name.into(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new(name.to_owned())),
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            loopback_only: name == "guest",
            permissions: [("/".into(), permissions)].into_iter().collect(),
        };
        let mut catalog = Catalog::default();
        let access = Access::new([
            user("guest", &["administrator"], Permissions::ALL),
            user("monitor", &["monitoring"], Permissions::ALL),
            user("own", &["management"], Permissions::ALL),
            user("powerless", &["management"], Permissions::NONE),
            user("policymaker", &["policymaker"], Permissions::ALL),
            user("app", &[], Permissions::ALL),
        ]);
        catalog.begin_users(&access);
        Self(Arc::new(Mutex::new(State {
            catalog,
            access,
            listening: true,
            counters: counters(),
            shards: vec![ShardRow::default()],
            ..State::default()
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    pub(crate) fn permit(
        &self,
        who: &Identity,
        vhost: &str,
        verb: Verb,
        on: &[Resource<'_>],
    ) -> Result<(), AdminError> {
        self.access.permit(who, vhost, verb, on).map_err(|e| AdminError::AccessRefused(e.reason))
    }

    pub(crate) fn permit_list(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        verb: Verb,
    ) -> Result<(), AdminError> {
        vhost.map_or(Ok(()), |vhost| self.permit(who, vhost, verb, &[]))
    }

    /// Returns true if an object in `at` belongs to a list of `wanted`.
    pub(crate) fn is_seen(&self, who: &Identity, wanted: Option<&str>, at: &str, verb: Verb) -> bool {
        wanted.is_none_or(|wanted| wanted == at) && self.permit(who, at, verb, &[]).is_ok()
    }

    pub(crate) fn run(&mut self, command: Command) -> Result<bool, AdminError> {
        let decision =
            self.catalog.decide(command, &mut self.catalog.queue_ids()).map_err(AdminError::Catalog)?;
        decision.changes.iter().for_each(|change| self.catalog.apply(change));
        self.access.publish(self.catalog.users().clone());
        Ok(match decision.answer {
            Answer::Queue { created, .. } => created,
            Answer::Done { changed } => changed,
            Answer::Set { created } => created,
        })
    }

    pub(crate) fn row(&self, q: &QueueRecord) -> QueueRow {
        let mut row = QueueRow::new(q, Default::default(), "n@h".into());
        row.report.ready = self.ready.get(&*q.name).copied().unwrap_or(0);
        row.report.consumers = self.consumers as _;
        row.report.ready_bytes = row.report.ready * 10;
        row.report.head_at_ms = (row.report.ready > 0).then_some(7_999);
        row.report.tail_at_ms = row.report.head_at_ms;
        row.report.published = self.published.get(&*q.name).copied().unwrap_or(0);
        row.report.damaged = self.damaged.iter().any(|name| **name == *q.name);
        row.group = self.groups.get(&*q.name).copied();
        row
    }

    /// In the order of their names.
    pub(crate) fn exchange_rows(&self) -> Vec<ExchangeRow> {
        let rows = (0..self.catalog.exchange_places()).filter_map(|place| {
            let (exchange, id, bindings) = self.catalog.exchange_at(place)?;
            let counts = self.exchange_counts.get(&*exchange.name).copied().unwrap_or_default();
            Some(ExchangeRow { id, exchange, bindings, counts })
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| (row.exchange.vhost.clone(), row.exchange.name.clone()));
        rows
    }

    pub(crate) fn record(&self, vhost: &str, name: &str) -> Result<Arc<QueueRecord>, AdminError> {
        let record = self.catalog.listed_queue(vhost, name);
        record.ok_or_else(|| AdminError::Catalog(CatalogError::no_queue(vhost, name)))
    }

    pub(crate) fn permit_binding(&self, who: &Identity, verb: Verb, b: &Binding) -> Result<(), AdminError> {
        let on = [(&b.destination).into(), Resource::Exchange(&b.source)];
        self.permit(who, &b.vhost, verb, &on)
    }

    pub(crate) fn permit_connection(
        &self,
        who: &Identity,
        verb: Verb,
        row: &ConnectionRow,
    ) -> Result<(), AdminError> {
        self.permit(who, &row.vhost, verb, &[Resource::Connection(row.owner())])
    }

    pub(crate) fn rows(&mut self, records: &[Arc<QueueRecord>]) -> Vec<QueueRow> {
        self.rows += records.len();
        records.iter().map(|q| self.row(q)).collect()
    }
}
