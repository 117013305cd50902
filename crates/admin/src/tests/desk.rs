//! A desk in memory: the broker's own catalog and access, and messages that are only counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use amqp10::sasl::Secret;
use broker::access::{Access, Grant, Identity, Permission, Permissions, Resource, User};
use broker::catalog::{
    Answer, Binding, Catalog, CatalogError, Command, DeclareExchange, DeclareQueue, Destination, Exchange,
    Policy, QueueRecord, SetPolicy,
};
use broker::counters::{Counters, Deliveries};
use broker::desk::*;
use broker::explain::{ConnectionFacts, Explanation, Look, QueueFacts, Subject};
use broker::ids::QueueId;

/// What stands behind the desk; tests change it at will.
#[derive(Default)]
pub struct State {
    pub catalog: Catalog,
    pub access: Access,
    /// Ready messages by queue.
    pub ready: BTreeMap<String, u64>,
    pub connections: Vec<ConnectionRow>,
    pub facts: Vec<ConnectionFacts>,
    pub alarms: Alarms,
    pub listening: bool,
    /// No answer comes in time.
    pub stuck: bool,
    /// Messages of every stream, from the oldest on.
    pub messages: Vec<BrowsedRow>,
    /// Where each look into a stream was to begin, and how many messages it asked for.
    pub looks: Vec<(Start, u32)>,
    /// How many rows each question for queues asked for.
    pub limits: Vec<usize>,
    /// Rows of queues that were made.
    pub rows: usize,
}

#[derive(Clone)]
pub struct FakeDesk(Arc<Mutex<State>>);

impl FakeDesk {
    /// `guest` is the administrator; `monitor`, `own` and `powerless` have a tag less each, `app` has none.
    pub fn new() -> Self {
        let none = Permissions { configure: Grant::Nothing, write: Grant::Nothing, read: Grant::Nothing };
        let user = |name: &str, tags: &[&str], permissions| User {
            name: name.into(),
            password: Secret::new(name.to_owned()),
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            loopback_only: name == "guest",
            permissions: [("/".into(), permissions)].into_iter().collect(),
        };
        let access = Access::new([
            user("guest", &["administrator"], Permissions::ALL),
            user("monitor", &["monitoring"], Permissions::ALL),
            user("own", &["management"], Permissions::ALL),
            user("powerless", &["management"], none),
            user("policymaker", &["policymaker"], Permissions::ALL),
            user("app", &[], Permissions::ALL),
        ]);
        Self(Arc::new(Mutex::new(State { access, listening: true, ..State::default() })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn allow(&self, who: &Identity, vhost: &str, on: Resource<'_>, to: Permission) -> Result<(), DeskError> {
        self.access.authorize(who, vhost, on, to).map_err(|e| DeskError::AccessRefused(e.reason))
    }

    fn check_vhost(&self, who: &Identity, vhost: Option<&str>) -> Result<(), DeskError> {
        let Some(vhost) = vhost else { return Ok(()) };
        self.access.check_vhost(who, vhost).map_err(|e| DeskError::AccessRefused(e.reason))
    }

    fn run(&mut self, command: Command) -> Result<bool, DeskError> {
        let decision = self.catalog.decide(command).map_err(DeskError::Catalog)?;
        decision.changes.iter().for_each(|change| self.catalog.apply(change));
        Ok(match decision.answer {
            Answer::Queue { created, .. } => created,
            Answer::Done { changed } => changed,
            Answer::Policy { created } => created,
        })
    }

    fn row(&self, q: &QueueRecord) -> QueueRow {
        let mut row = QueueRow::new(q, Default::default(), "n@h".into());
        row.report.ready = self.ready.get(&*q.name).copied().unwrap_or(0);
        row.report.ready_bytes = row.report.ready * 10;
        row
    }

    fn record(&self, vhost: &str, name: &str) -> Result<Arc<QueueRecord>, DeskError> {
        let record = self.catalog.queue(vhost, name).cloned();
        record.ok_or_else(|| DeskError::Catalog(CatalogError::no_queue(vhost, name)))
    }

    fn may_bind(&self, who: &Identity, b: &Binding) -> Result<(), DeskError> {
        let destination = match &b.destination {
            Destination::Queue(name) => Resource::Queue(name),
            Destination::Exchange(name) => Resource::Exchange(name),
        };
        self.allow(who, &b.vhost, destination, Permission::Write)?;
        self.allow(who, &b.vhost, Resource::Exchange(&b.source), Permission::Read)
    }
}

fn policy_resource(name: &str, operator: bool) -> Resource<'_> {
    if operator { Resource::OperatorPolicy(name) } else { Resource::Policy(name) }
}

impl Desk for FakeDesk {
    fn login(&self, user: &str, password: &Secret, peer: IpAddr) -> Result<Identity, DeskError> {
        let access = &self.state().access;
        let refused = |why: String| DeskError::LoginRefused(why);
        let who = access.login(user, password.expose(), peer, 0).map_err(|e| refused(format!("{e:?}")))?;
        access.check_origin(&who, peer).map_err(|e| refused(e.reason))?;
        Ok(who)
    }

    async fn overview(&self) -> Result<Overview, DeskError> {
        let state = self.state();
        if state.stuck {
            return Err(DeskError::TimedOut);
        }
        let listeners =
            if state.listening { vec![("amqp".into(), "127.0.0.1".into(), 5672)] } else { vec![] };
        Ok(Overview {
            product: "RabbitMQ".into(),
            product_version: "4.3.6".into(),
            sluice_version: "0.1.0".into(),
            cluster_name: "c".into(),
            node: "n@h".into(),
            connections: state.connections.len() as u64,
            queues: state.catalog.queues().count() as u64,
            messages_ready: state.ready.values().sum(),
            counters: Counters {
                received: 7,
                from_classic: Deliveries { manual_ack: 4, auto_ack: 1, ..Default::default() },
                from_streams: Deliveries { manual_ack: 3, ..Default::default() },
                ..Default::default()
            },
            listeners,
            handshakes_evicted: 4,
            budgets: vec![
                BudgetRow { name: "one", used: 1, limit: 10 },
                BudgetRow { name: "two", used: 2, limit: 20 },
            ],
            ..Overview::default()
        })
    }

    async fn queues(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<QueueRow>, usize), DeskError> {
        self.state().limits.push(limit);
        let records = self.queue_records(who, vhost).await?;
        let total = records.len();
        let page: Vec<_> = records.into_iter().skip(offset).take(limit).collect();
        Ok((self.numbered(&page).await?, total))
    }

    async fn queue_records(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> Result<Vec<Arc<QueueRecord>>, DeskError> {
        let state = self.state();
        state.check_vhost(who, vhost)?;
        let seen = |q: &&Arc<QueueRecord>| {
            vhost.is_none_or(|v| v == &*q.vhost) && state.access.check_vhost(who, &q.vhost).is_ok()
        };
        let mut records: Vec<_> = state.catalog.queues().filter(seen).cloned().collect();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(records)
    }

    async fn queues_by_id(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> Result<Vec<Arc<QueueRecord>>, DeskError> {
        let state = self.state();
        let found = ids.iter().filter_map(|id| state.catalog.queue_by_id(*id));
        Ok(found.filter(|q| state.check_vhost(who, Some(&q.vhost)).is_ok()).cloned().collect())
    }

    async fn numbered(&self, records: &[Arc<QueueRecord>]) -> Result<Vec<QueueRow>, DeskError> {
        let mut state = self.state();
        state.rows += records.len();
        Ok(records.iter().map(|q| state.row(q)).collect())
    }

    async fn queue(&self, who: &Identity, vhost: &str, name: &str) -> Result<QueueRow, DeskError> {
        let state = self.state();
        state.allow(who, vhost, Resource::Queue(name), Permission::Read)?;
        Ok(state.row(&*state.record(vhost, name)?))
    }

    async fn declare_queue(&self, who: &Identity, spec: QueueSpec) -> Result<bool, DeskError> {
        let mut state = self.state();
        state.allow(who, &spec.vhost, Resource::Queue(&spec.name), Permission::Configure)?;
        state.run(Command::DeclareQueue(DeclareQueue {
            durable: spec.durable,
            auto_delete: spec.auto_delete,
            ..DeclareQueue::new(spec.vhost, spec.name, spec.arguments)
        }))
    }

    async fn delete_queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        _if_unused: bool,
        if_empty: bool,
    ) -> Result<u64, DeskError> {
        let mut state = self.state();
        state.allow(who, vhost, Resource::Queue(name), Permission::Configure)?;
        let record = state.record(vhost, name)?;
        let ready = state.ready.get(name).copied().unwrap_or(0);
        if if_empty && ready > 0 {
            return Err(DeskError::Refused(format!("queue '{name}' in vhost '{vhost}' not empty")));
        }
        state.run(Command::ForgetQueue { queue: record.id })?;
        Ok(ready)
    }

    async fn purge_queue(&self, who: &Identity, vhost: &str, name: &str) -> Result<u64, DeskError> {
        let mut state = self.state();
        state.allow(who, vhost, Resource::Queue(name), Permission::Read)?;
        state.record(vhost, name)?;
        Ok(state.ready.remove(name).unwrap_or(0))
    }

    async fn browse(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        start: Start,
        count: u32,
    ) -> Result<Vec<BrowsedRow>, DeskError> {
        let mut state = self.state();
        state.allow(who, vhost, Resource::Queue(name), Permission::Read)?;
        let record = state.record(vhost, name)?;
        if !record.is_stream() {
            return Err(DeskError::no_stream(&record));
        }
        state.looks.push((start, count));
        Ok(state.messages.iter().take(count as usize).cloned().collect())
    }

    async fn exchanges(&self, who: &Identity, vhost: Option<&str>) -> Result<Vec<Arc<Exchange>>, DeskError> {
        let state = self.state();
        state.check_vhost(who, vhost)?;
        let seen = |e: &&Arc<Exchange>| {
            vhost.is_none_or(|v| v == &*e.vhost) && state.access.check_vhost(who, &e.vhost).is_ok()
        };
        Ok(state.catalog.exchanges().filter(seen).cloned().collect())
    }

    async fn declare_exchange(&self, who: &Identity, spec: ExchangeSpec) -> Result<bool, DeskError> {
        let mut state = self.state();
        state.allow(who, &spec.vhost, Resource::Exchange(&spec.name), Permission::Configure)?;
        state.run(Command::DeclareExchange(DeclareExchange {
            vhost: spec.vhost,
            name: spec.name,
            kind: spec.kind,
            durable: spec.durable,
            auto_delete: spec.auto_delete,
            internal: spec.internal,
            arguments: spec.arguments,
        }))
    }

    async fn delete_exchange(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
    ) -> Result<bool, DeskError> {
        let mut state = self.state();
        state.allow(who, vhost, Resource::Exchange(name), Permission::Configure)?;
        state.run(Command::DeleteExchange { vhost: vhost.into(), name: name.into(), if_unused })
    }

    async fn bindings(&self, who: &Identity, vhost: Option<&str>) -> Result<Vec<Arc<Binding>>, DeskError> {
        let state = self.state();
        state.check_vhost(who, vhost)?;
        let seen = |b: &Arc<Binding>| {
            vhost.is_none_or(|v| v == &*b.vhost) && state.access.check_vhost(who, &b.vhost).is_ok()
        };
        Ok(state.catalog.bindings().filter(seen).collect())
    }

    async fn bind(&self, who: &Identity, binding: Binding) -> Result<bool, DeskError> {
        let mut state = self.state();
        state.may_bind(who, &binding)?;
        state.run(Command::Bind(binding))
    }

    async fn unbind(&self, who: &Identity, binding: Binding) -> Result<bool, DeskError> {
        let mut state = self.state();
        state.may_bind(who, &binding)?;
        state.run(Command::Unbind(binding))
    }

    async fn policies(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        operator: bool,
    ) -> Result<Vec<Arc<Policy>>, DeskError> {
        let state = self.state();
        if let Some(vhost) = vhost {
            state.allow(who, vhost, policy_resource("", operator), Permission::Read)?;
        }
        let seen = |p: &&Arc<Policy>| vhost.is_none_or(|v| v == &*p.vhost);
        Ok(state.catalog.policies(operator).filter(seen).cloned().collect())
    }

    async fn set_policy(&self, who: &Identity, policy: SetPolicy) -> Result<bool, DeskError> {
        let mut state = self.state();
        let resource = policy_resource(&policy.name, policy.operator);
        state.allow(who, &policy.vhost, resource, Permission::Configure)?;
        state.run(Command::SetPolicy(policy))
    }

    async fn clear_policy(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        operator: bool,
    ) -> Result<bool, DeskError> {
        let mut state = self.state();
        state.allow(who, vhost, policy_resource(name, operator), Permission::Configure)?;
        state.run(Command::ClearPolicy { vhost: vhost.into(), name: name.into(), operator })
    }

    async fn connections(&self, _who: &Identity) -> Result<Vec<ConnectionRow>, DeskError> {
        Ok(self.state().connections.clone())
    }

    async fn close_connection(&self, _who: &Identity, name: &str, _reason: &str) -> Result<bool, DeskError> {
        let mut state = self.state();
        let before = state.connections.len();
        state.connections.retain(|c| *c.name != *name);
        Ok(state.connections.len() < before)
    }

    async fn explain(&self, who: &Identity, subject: Subject) -> Result<Explanation, DeskError> {
        let state = self.state();
        let mut look = Look { connections: state.facts.clone(), ..Look::default() };
        match &subject {
            Subject::Queue { vhost, name } => {
                state.allow(who, vhost, Resource::Queue(name), Permission::Read)?;
                let record = state.record(vhost, name)?;
                look.queues.push(QueueFacts::new(&record, state.row(&record).report));
            }
            Subject::Link { .. } | Subject::Connection { .. } => {
                if let Subject::Link { vhost: Some(vhost), .. } = &subject {
                    look.connections.retain(|c| *c.vhost == **vhost);
                }
                for c in &look.connections {
                    state.allow(who, &c.vhost, Resource::Connection(&c.user), Permission::Read)?;
                }
            }
        }
        look.explain(&look, &subject).map_err(DeskError::Catalog)
    }

    async fn queue_rows(&self, from: usize, limit: usize) -> Result<Vec<(usize, QueueRow)>, DeskError> {
        let (places, found): (Vec<_>, Vec<_>) = {
            let state = self.state();
            state.catalog.queues_from(from).take(limit).map(|(place, q)| (place, q.clone())).unzip()
        };
        Ok(places.into_iter().zip(self.numbered(&found).await?).collect())
    }

    fn alarms(&self) -> Alarms {
        self.state().alarms.clone()
    }
}
