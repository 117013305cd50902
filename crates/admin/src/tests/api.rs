//! An admin API in memory. It uses the broker's own catalog and access; messages are only counted.

mod state;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use amqp10::sasl::Secret;
use broker::admin_api::*;
use broker::exchange_counts::ExchangeCounts;
use broker::explain::{AddressFacts, Explanation, Look, QueueFacts, Subject, Troubles};
use broker::traces::{TraceChange, Traces};
use catalog::ExchangeId;
use catalog::access::{
    Credentials, Guessing, Hashing, Identity, Login, PasswordHash, Permissions, Resource, Users, Verb,
    permit_exchange, permit_policy, permit_queue,
};
use catalog::ids::QueueId;
use catalog::{
    AccountChange, Binding, Caller, Command, DeclareExchange, DeclareQueue, ParameterKey, Parameters, Policy,
    QueueRecord, SetPolicy,
};

use self::state::State;

#[derive(Clone)]
pub(super) struct FakeAdminApi(Arc<Mutex<State>>);

impl AdminApi for FakeAdminApi {
    fn traces(&self, who: &Identity) -> Result<Traces, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        Ok(state.traces.clone())
    }

    fn is_traced(&self, vhost: &str) -> bool {
        self.state().traces.has_vhost(vhost)
    }

    async fn change_traces(&self, who: &Identity, change: TraceChange) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        // Its clock stands still at the end of time, where no trace ends.
        let changed = state.traces.change(change, u64::MAX / 2);
        changed.map_err(|_| AdminError::Refused("too many traces".to_owned()))
    }

    async fn login(&self, user: &str, password: &Secret, peer: IpAddr) -> Result<Identity, AdminError> {
        let access = &self.state().access;
        let refused = |why: String| AdminError::LoginRefused(why);
        let credentials = Credentials::Plain { user: user.to_owned(), password: password.clone() };
        let login = Login { credentials, from: peer, at_ms: 0 };
        let who = access.check(&login).map_err(|e| refused(format!("{e:?}")))?;
        access.check_origin(&who, peer).map_err(|e| refused(e.reason))?;
        Ok(who)
    }

    async fn connect(
        &self,
        _who: &Identity,
        _peer: std::net::SocketAddr,
    ) -> Result<std::os::fd::OwnedFd, AdminError> {
        Err(AdminError::Impossible("there is no broker".into()))
    }

    fn is_left_over_exchange(&self, _: &str, _: &str) -> bool {
        false
    }

    fn default_queue_type(&self) -> broker::settings::QueueType {
        broker::settings::QueueType::Classic
    }

    async fn overview(&self, who: &Identity) -> Result<Overview, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadOverview, &[])?;
        if state.stuck {
            return Err(AdminError::TimedOut);
        }
        let listeners = if state.listening {
            vec![("amqp".into(), "127.0.0.1".into(), 5672), ("http".into(), "127.0.0.1".into(), 15672)]
        } else {
            vec![]
        };
        Ok(Overview {
            product: "RabbitMQ".into(),
            product_version: "4.3.6".into(),
            sluice_version: "0.1.0".into(),
            cluster_name: state.catalog.cluster_name().unwrap_or("c").to_owned(),
            cluster_tags: state.catalog.cluster_tags().cloned(),
            node: "n@h".into(),
            node_id: "0a".into(),
            boots: 3,
            connections: state.connections.len() as u64,
            connections_max: Some(2),
            denied: vec![broker::counters::Deprecated::AmqpAddressV1],
            queues: state.catalog.queues().count() as u64,
            depth: Depth { ready: state.ready.values().sum(), ..Depth::default() },
            counters: state.counters.clone(),
            listeners,
            handshakes_evicted: 4,
            commit_latency_ms: 1_250,
            uptime_ms: 61_500,
            shards: state.shards.clone(),
            limits: ResourceLimits { memory_limit: 1_000, disk_free: 2_000, disk_free_limit: 500 },
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
    ) -> Result<(Vec<QueueRow>, usize), AdminError> {
        self.state().limits.push(limit);
        let records = self.queue_records(who, vhost).await?;
        let total = records.len();
        let page: Vec<_> = records.into_iter().skip(offset).take(limit).collect();
        Ok((self.numbered(who, &page).await?, total))
    }

    async fn queue_records(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        let state = self.state();
        state.permit_list(who, vhost, Verb::ReadQueue)?;
        let seen = |q: &Arc<QueueRecord>| state.is_seen(who, vhost, &q.vhost, Verb::ReadQueue);
        let mut records: Vec<_> = state.catalog.queues().filter(seen).collect();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(records)
    }

    async fn queues_by_id(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        let state = self.state();
        let found = ids.iter().filter_map(|id| state.catalog.queue_by_id(*id));
        let may_read = |q: &Arc<QueueRecord>| state.permit(who, &q.vhost, Verb::ReadQueue, &[]).is_ok();
        Ok(found.filter(may_read).collect())
    }

    async fn numbered(
        &self,
        who: &Identity,
        records: &[Arc<QueueRecord>],
    ) -> Result<Vec<QueueRow>, AdminError> {
        let mut state = self.state();
        records.iter().try_for_each(|q| state.permit(who, &q.vhost, Verb::ReadQueue, &[]))?;
        Ok(state.rows(records))
    }

    async fn queue(&self, who: &Identity, vhost: &str, name: &str) -> Result<QueueRow, AdminError> {
        let state = self.state();
        state.permit(who, vhost, Verb::ReadQueue, &[])?;
        Ok(state.row(&*state.record(vhost, name)?))
    }

    async fn declare_queue(&self, who: &Identity, spec: QueueSpec) -> Result<bool, AdminError> {
        let mut state = self.state();
        permit_queue(&spec.name, &spec.arguments, |verb, on| state.permit(who, &spec.vhost, verb, on))?;
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
    ) -> Result<u64, AdminError> {
        let mut state = self.state();
        state.permit(who, vhost, Verb::DeleteQueue, &[Resource::Queue(name)])?;
        let record = state.record(vhost, name)?;
        let ready = state.ready.get(name).copied().unwrap_or(0);
        if if_empty && ready > 0 {
            return Err(AdminError::Refused(format!("queue '{name}' in vhost '{vhost}' not empty")));
        }
        state.run(Command::ForgetQueue { queue: record.id })?;
        Ok(ready)
    }

    async fn purge_queue(&self, who: &Identity, vhost: &str, name: &str) -> Result<u64, AdminError> {
        let mut state = self.state();
        state.permit(who, vhost, Verb::PurgeQueue, &[Resource::Queue(name)])?;
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
    ) -> Result<Vec<BrowsedRow>, AdminError> {
        let mut state = self.state();
        state.permit(who, vhost, Verb::Get, &[Resource::Queue(name)])?;
        let record = state.record(vhost, name)?;
        if !record.is_stream() {
            return Err(AdminError::no_stream(&record));
        }
        state.looks.push((start, count));
        // A message has arrived as many seconds after 1970 as its offset says.
        let from = match start {
            Start::Offset(offset) => offset,
            Start::Time(ms) => ms.div_ceil(1000),
            _ => 0,
        };
        let end = state.damaged_from.unwrap_or(u64::MAX);
        if from >= end {
            return Err(AdminError::Refused("damaged".into()));
        }
        let rows = state.messages.iter().filter(|row| (from..end).contains(&row.offset));
        Ok(rows.take(count as usize).cloned().collect())
    }

    async fn move_messages(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        wanted: &Move,
    ) -> Result<Moved, AdminError> {
        let state = self.state();
        state.permit(who, vhost, Verb::Get, &[Resource::Queue(name)])?;
        state.record(vhost, name)?;
        let until = match &wanted.which {
            Which::All { until_seq, .. } => until_seq.unwrap_or(9),
            Which::Dead(redrive) => redrive.until_ms.unwrap_or(1_700_000_000_000),
        };
        Ok(Moved { moved: wanted.count.unwrap_or(7), skipped: 1, left: 2, until, ended: MoveEnd::Time })
    }

    async fn peek(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        peek: Peek,
    ) -> Result<PeekedPart, AdminError> {
        let state = self.state();
        state.permit(who, vhost, Verb::Get, &[Resource::Queue(name)])?;
        state.record(vhost, name)?;
        let readable = state.damaged_from.map_or(u64::MAX, |from| from - 1);
        if peek.position > readable {
            return Err(AdminError::Refused("damaged".into()));
        }
        let count = u64::from(peek.count).min(readable - peek.position + 1) as usize;
        let from = state.messages.iter().skip(peek.position as usize - 1);
        let rows: Vec<PeekedRow> = from.clone().take(count).cloned().map(peeked).collect();
        let position = peek.position + rows.len() as u64;
        let next = (from.len() > rows.len()).then_some(Peek { position, ..peek });
        Ok(PeekedPart { rows, next })
    }

    async fn checkpoint(&self, who: &Identity, vhost: &str, name: &str) -> Result<u64, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::MaintainGroups, &[])?;
        state.record(vhost, name)?;
        state
            .groups
            .get(name)
            .map(|group| group.applied_index)
            .ok_or_else(|| AdminError::no_group(vhost, name, "classic"))
    }

    async fn reclaim_memory(&self, who: &Identity, vhost: &str, name: &str) -> Result<Reclaimed, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::MaintainGroups, &[])?;
        state.record(vhost, name)?;
        Ok(Reclaimed { freed_bytes: 5, paging_bytes: 70 })
    }

    async fn change_member(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        node: &str,
        change: MemberChange,
    ) -> Result<(), AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::MaintainGroups, &[])?;
        state.record(vhost, name)?;
        state.changes.push((node.to_owned(), change));
        if node == "n@h" { Ok(()) } else { Err(AdminError::Impossible(format!("no node '{node}'"))) }
    }

    fn grow(&self, who: &Identity, _node: &str) -> Result<(), AdminError> {
        self.state().permit(who, "", Verb::MaintainGroups, &[])
    }

    async fn shrink(&self, who: &Identity, _node: &str) -> Result<(), AdminError> {
        self.state().permit(who, "", Verb::MaintainGroups, &[])
    }

    fn rebalance(&self, who: &Identity) -> Result<(), AdminError> {
        self.state().permit(who, "", Verb::MaintainGroups, &[])
    }

    async fn vhosts(&self, who: &Identity) -> Result<Vec<NamedVhost>, AdminError> {
        let state = self.state();
        let all = state.catalog.vhosts_with_settings();
        let seen = all.filter(|(name, _)| state.permit(who, name, Verb::ReadVhost, &[]).is_ok());
        let mut rows: Vec<_> = seen.map(|(name, settings)| (name.clone(), settings.clone())).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(rows)
    }

    async fn vhost_numbers(&self, who: &Identity) -> Result<HashMap<Arc<str>, VhostNumbers>, AdminError> {
        let mut state = self.state();
        state.vhost_walks += 1;
        let seen = state.vhost_numbers.iter();
        let seen = seen.filter(|(name, _)| state.permit(who, name, Verb::ReadVhost, &[]).is_ok());
        Ok(seen.map(|(name, numbers)| (name.as_str().into(), *numbers)).collect())
    }

    async fn parameters(&self, who: &Identity) -> Result<Parameters, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        Ok(state.catalog.parameters().clone())
    }

    async fn contents(&self, who: &Identity, vhost: Option<&str>) -> Result<Contents, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        let catalog = &state.catalog;
        let mut contents = Contents {
            policies: catalog.policies(false).cloned().collect(),
            operator_policies: catalog.policies(true).cloned().collect(),
            queues: catalog.queues().collect(),
            exchanges: catalog.exchanges().collect(),
            bindings: catalog.bindings(),
        };
        contents.keep(vhost);
        contents.queues.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        contents.exchanges.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        Ok(contents)
    }

    async fn import(&self, who: &Identity, commands: Vec<Command>) -> Result<(), AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        state.run(Command::Batch(commands)).map(|_| ())
    }

    async fn change_parameter(
        &self,
        who: &Identity,
        key: ParameterKey,
        value: Option<Arc<str>>,
    ) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        state.run(match value {
            Some(value) => Command::SetParameter { key, value },
            None => Command::ClearParameter { key },
        })
    }

    async fn delete_vhost(&self, who: &Identity, name: &str) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        if !state.run(Command::Account(AccountChange::CloseVhost { name: name.into() }))? {
            return Ok(false);
        }
        let queues: Vec<_> = state.catalog.queues_in(name).collect();
        for queue in queues {
            state.run(Command::ForgetQueue { queue })?;
        }
        state.run(Command::Account(AccountChange::DeleteVhost { name: name.into() }))
    }

    async fn exchanges(&self, who: &Identity, vhost: Option<&str>) -> Result<Vec<ExchangeRow>, AdminError> {
        let state = self.state();
        state.permit_list(who, vhost, Verb::ReadExchange)?;
        let seen = |row: &ExchangeRow| state.is_seen(who, vhost, &row.exchange.vhost, Verb::ReadExchange);
        Ok(state.exchange_rows().into_iter().filter(seen).collect())
    }

    async fn declare_exchange(&self, who: &Identity, spec: ExchangeSpec) -> Result<bool, AdminError> {
        let mut state = self.state();
        permit_exchange(&spec.name, &spec.arguments, |verb, on| state.permit(who, &spec.vhost, verb, on))?;
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
    ) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit(who, vhost, Verb::DeleteExchange, &[Resource::Exchange(name)])?;
        state.run(Command::DeleteExchange { vhost: vhost.into(), name: name.into(), if_unused })
    }

    async fn bindings(&self, who: &Identity, vhost: Option<&str>) -> Result<Vec<Arc<Binding>>, AdminError> {
        let state = self.state();
        state.permit_list(who, vhost, Verb::ReadBinding)?;
        let seen = |b: &Arc<Binding>| state.is_seen(who, vhost, &b.vhost, Verb::ReadBinding);
        Ok(state.catalog.bindings().into_iter().filter(seen).collect())
    }

    async fn bind(&self, who: &Identity, binding: Binding) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit_binding(who, Verb::Bind, &binding)?;
        state.run(Command::Bind(binding, Caller::Management))
    }

    async fn unbind(&self, who: &Identity, binding: Binding) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit_binding(who, Verb::Unbind, &binding)?;
        state.run(Command::Unbind(binding, Caller::Management))
    }

    async fn policies(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        operator: bool,
    ) -> Result<Vec<Arc<Policy>>, AdminError> {
        let state = self.state();
        let verb = if operator { Verb::ReadOperatorPolicy } else { Verb::ReadPolicy };
        state.permit_list(who, vhost, verb)?;
        let seen = |p: &&Arc<Policy>| state.is_seen(who, vhost, &p.vhost, verb);
        Ok(state.catalog.policies(operator).filter(seen).cloned().collect())
    }

    async fn set_policy(&self, who: &Identity, policy: SetPolicy) -> Result<bool, AdminError> {
        let mut state = self.state();
        let SetPolicy { vhost, name, operator, definition, .. } = &policy;
        permit_policy(name, *operator, Some(definition), |verb, on| state.permit(who, vhost, verb, on))?;
        state.run(Command::SetPolicy(policy))
    }

    async fn clear_policy(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        operator: bool,
    ) -> Result<bool, AdminError> {
        let mut state = self.state();
        permit_policy(name, operator, None, |verb, on| state.permit(who, vhost, verb, on))?;
        state.run(Command::ClearPolicy { vhost: vhost.into(), name: name.into(), operator })
    }

    fn users(&self, who: &Identity) -> Result<Arc<Users>, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        Ok(state.access.users())
    }

    fn own_permissions(&self, who: &Identity) -> Option<Vec<(Arc<str>, Permissions)>> {
        self.state().access.users().permissions_of(who)
    }

    async fn hash_password(
        &self,
        who: &Identity,
        password: Option<Secret>,
    ) -> Result<PasswordHash, AdminError> {
        self.state().permit(who, "", Verb::Administer, &[])?;
        Ok(match password {
            Some(password) => Hashing::Sha256.hash([2; 16], &password),
            None => Hashing::Sha256.of_nobody(),
        })
    }

    async fn auth_attempts(
        &self,
        who: &Identity,
        node: &str,
        by_source: bool,
    ) -> Result<Vec<AttemptsRow>, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadNodes, &[])?;
        if node != "n@h" {
            return Err(AdminError::no_node(node));
        }
        let all = state.attempts.iter();
        Ok(all.filter(|row| row.source.is_some() == by_source).cloned().collect())
    }

    async fn reset_auth_attempts(&self, who: &Identity, node: &str) -> Result<(), AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        if node != "n@h" {
            return Err(AdminError::no_node(node));
        }
        state.attempts.clear();
        Ok(())
    }

    async fn change_account(&self, who: &Identity, change: AccountChange) -> Result<bool, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::Administer, &[])?;
        state.run(Command::Account(change))
    }

    async fn connections(&self, who: &Identity) -> Result<Vec<ConnectionRow>, AdminError> {
        let state = self.state();
        let seen = |row: &&ConnectionRow| state.permit_connection(who, Verb::ReadConnection, row).is_ok();
        Ok(state.connections.iter().filter(seen).cloned().collect())
    }

    async fn connection(&self, who: &Identity, name: &str) -> Result<Option<ConnectionRow>, AdminError> {
        let state = self.state();
        let found = state.connections.iter().find(|row| *row.name == *name);
        let seen = found.filter(|row| state.permit(who, &row.vhost, Verb::ReadVhost, &[]).is_ok());
        let permit = |row: &ConnectionRow| state.permit_connection(who, Verb::ReadConnection, row);
        seen.map(|row| permit(row).map(|()| row.clone())).transpose()
    }

    async fn close_connection(&self, who: &Identity, name: &str, reason: &str) -> Result<bool, AdminError> {
        self.state().close_reasons.push(reason.to_owned());
        let mut state = self.state();
        let found = state.connections.iter().position(|row| *row.name == *name);
        let Some(at) = found else { return Ok(false) };
        state.permit_connection(who, Verb::CloseConnection, &state.connections[at])?;
        state.connections.remove(at);
        Ok(true)
    }

    async fn explain(&self, who: &Identity, subject: Subject) -> Result<Explanation, AdminError> {
        let state = self.state();
        let mut look = Look { connections: state.facts.clone(), ..Look::default() };
        match &subject {
            Subject::Queue { vhost, name } => {
                state.permit(who, vhost, Verb::ExplainQueue, &[Resource::Queue(name)])?;
                let record = state.record(vhost, name)?;
                look.queues.push(QueueFacts::new(&record, state.row(&record).report, 8_000));
            }
            Subject::Link { .. } | Subject::Connection { .. } => {
                if let Subject::Link { vhost: Some(vhost), .. } = &subject {
                    look.connections.retain(|c| *c.vhost == **vhost);
                }
                for c in &look.connections {
                    state.permit(
                        who,
                        &c.vhost,
                        Verb::ExplainConnection,
                        &[Resource::Connection(c.owner())],
                    )?;
                }
            }
        }
        look.explain(&look, &subject).map_err(AdminError::Catalog)
    }

    async fn troubles(&self, who: &Identity) -> Result<Troubles, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::ReadOverview, &[])?;
        let records: Vec<_> = state.catalog.queues_from(0).map(|(_, record)| record.clone()).collect();
        let mut troubles = Troubles::default();
        for row in state.rows(&records) {
            let record = state.record(&row.vhost, &row.name)?;
            if state.permit(who, &row.vhost, Verb::ReadQueue, &[]).is_ok() {
                troubles.queues += 1;
                let is_led = row.group.as_ref().is_none_or(|group| group.is_healthy());
                troubles.add_queue(&record, &row.report, is_led, 8_000);
            }
        }
        Ok(troubles)
    }

    async fn explain_address(&self, who: &Identity, address: IpAddr) -> Result<AddressFacts, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadNodes, &[])?;
        let guessing = match address.is_loopback() {
            true => Guessing { failures: 61, waiting: 3 },
            false => Guessing::default(),
        };
        Ok(AddressFacts { guessing, unchecked: 2 })
    }

    async fn queue_rows(
        &self,
        who: &Identity,
        from: usize,
        limit: usize,
    ) -> Result<Vec<(usize, QueueRow)>, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        let (places, found): (Vec<_>, Vec<_>) =
            state.catalog.queues_from(from).take(limit).map(|(place, q)| (place, q.clone())).unzip();
        Ok(places.into_iter().zip(state.rows(&found)).collect())
    }

    async fn sampled_queues(&self, who: &Identity, ids: &[QueueId]) -> Result<Vec<QueueRow>, AdminError> {
        let mut state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        let found: Vec<_> = ids.iter().filter_map(|id| state.catalog.queue_by_id(*id)).collect();
        Ok(state.rows(&found))
    }

    async fn used_queues(&self, who: &Identity) -> Result<Vec<(QueueId, u64)>, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        let passed = |q: &QueueRecord| state.published.get(&*q.name).copied().unwrap_or(0);
        let all = state.catalog.queues().map(|q| (q.id, passed(&q)));
        Ok(all.filter(|(_, passed)| *passed > 0).collect())
    }

    async fn sampled_connections(
        &self,
        who: &Identity,
        names: Arc<HashSet<Arc<str>>>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        Ok(state.connections.iter().filter(|row| names.contains(&row.name)).cloned().collect())
    }

    /// Every part has one connection.
    async fn connection_rows(
        &self,
        who: &Identity,
        from: ConnectionCursor,
    ) -> Result<(Vec<ConnectionRow>, Option<ConnectionCursor>), AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        let part: Vec<_> = state.connections.get(from.place).cloned().into_iter().collect();
        let next = ConnectionCursor { place: from.place + 1, ..from };
        Ok((part, (next.place < state.connections.len()).then_some(next)))
    }

    async fn exchange_rows(&self, who: &Identity) -> Result<Vec<ExchangeRow>, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        Ok(state.exchange_rows())
    }

    async fn sampled_exchanges(
        &self,
        who: &Identity,
        ids: &[ExchangeId],
    ) -> Result<Vec<ExchangeCounts>, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadAllStatistics, &[])?;
        let rows = state.exchange_rows();
        let counts = |id: &ExchangeId| rows.iter().find(|row| row.id == *id).map(|row| row.counts);
        Ok(ids.iter().map(|id| counts(id).unwrap_or_default()).collect())
    }

    fn alarms(&self, who: &Identity) -> Result<Alarms, AdminError> {
        let state = self.state();
        state.permit(who, "", Verb::ReadAlarms, &[])?;
        Ok(state.alarms.clone())
    }
}

/// Returns a message as it would be in a queue. It has arrived as many seconds after 1970 as its offset says.
fn peeked(row: BrowsedRow) -> PeekedRow {
    let BrowsedRow { offset, exchange, routing_key, message } = row;
    PeekedRow {
        seq: offset,
        exchange,
        routing_key,
        at_ms: offset * 1000,
        delivery_count: 2,
        acquired_count: 3,
        redelivered: true,
        message: ShownMessage::Amqp10(message),
    }
}
