//! What the management front end can be asked, with the permission for each question.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use amqp10::sasl::Secret;
use broker::admin_api::{
    AdminError, Alarms, BrowsedRow, BudgetRow, ConnectionRow, Contents, ExchangeRow, ExchangeSpec,
    NamedVhost, Overview, QueueRow, QueueSpec, ResourceLimits, Start,
};
use broker::explain::Resources;
use broker::settings::SLUICE_VERSION;
use broker::traces::TraceChange;
use catalog::access::Protocol;
use catalog::access::{
    Credentials, Identity, Login, PasswordHash, Permissions, Refusal, Resource, Users, Verb, permit_exchange,
    permit_policy, permit_queue,
};
use catalog::ids::QueueId;
use catalog::{
    AccountChange, Answer, Binding, Caller, Catalog, Command, DeclareExchange, DeclareQueue, ParameterKey,
    Parameters, Policy, QueueRecord, SetPolicy,
};
use queue::{Effect, Replay, Request};

use super::ask::NO_TICKET;
use super::messages::browsed;
use super::reports::Asks;
use super::{AdminApi, by_name};
use crate::incoming::Checked;
use crate::logins::NewHash;
use crate::randomness::random;
use crate::shard::looks;
use crate::shard::questions::Act;

/// Returns up to `limit` rows, in the order of their names, from `offset` on. Only these rows are sorted.
fn page_of(mut rows: Vec<Arc<QueueRecord>>, offset: usize, limit: usize) -> Vec<Arc<QueueRecord>> {
    if offset >= rows.len() {
        return Vec::new();
    }
    rows.select_nth_unstable_by(offset, by_name);
    rows.drain(..offset);
    if limit < rows.len() {
        rows.select_nth_unstable_by(limit, by_name);
        rows.truncate(limit);
    }
    rows.sort_unstable_by(by_name);
    rows
}

fn changed(answer: Answer) -> bool {
    match answer {
        Answer::Queue { created, .. } => created,
        Answer::Done { changed } => changed,
        Answer::Set { created } => created,
    }
}

impl AdminApi {
    /// Checks the name and the password of a user who asks from `peer`.
    ///
    /// # Errors
    /// The login is refused, or was not checked in time.
    pub async fn login(&self, user: &str, password: &Secret, peer: IpAddr) -> Result<Identity, AdminError> {
        if let Some(why) = self.inner.access.refuses_all() {
            return Err(AdminError::Impossible(format!("login refused: {why}")));
        }
        // Users of other backends are usually not in the catalog.
        if self.inner.checker.asks_catalog_only() && self.inner.access.users().get(user).is_none() {
            self.catch_up().await;
        }
        let was_known = self.inner.access.users().get(user).is_some();
        let mut checked = self.check_login(user, password, peer).await;
        // Another backend may know users who are in no catalog. So the node catches up only if all have refused the user.
        if !self.inner.checker.asks_catalog_only()
            && !was_known
            && matches!(checked, Ok(Err(_)))
            && self.catch_up().await
            && self.inner.access.users().get(user).is_some()
        {
            checked = self.check_login(user, password, peer).await;
        }
        let checked = checked.and_then(|login| {
            let identity = login.map_err(|refused| self.refuse(user, peer, &(&refused).into()))?;
            let origin = self.inner.access.check_origin(&identity, peer);
            let refused = origin.map_err(|refused| self.refuse(user, peer, &Refusal::other(refused.reason)));
            refused.map(|()| identity)
        });
        self.inner.logins.count(checked.is_ok());
        let user = checked.as_ref().map_or(user, |identity| &identity.user);
        self.inner.access.sources().count(Protocol::Http, peer, user, checked.is_ok());
        self.emit_login(user, peer, checked.as_ref().err());
        checked
    }

    async fn check_login(&self, user: &str, password: &Secret, peer: IpAddr) -> Result<Checked, AdminError> {
        let credentials = Credentials::Plain { user: user.to_owned(), password: password.clone() };
        let login = Login { credentials, from: peer, at_ms: self.inner.clock.now_ms() };
        let checked = self.inner.checker.ask_for_admin_api(login);
        let answer = tokio::time::timeout(self.inner.deadlines.login, checked).await;
        answer.ok().and_then(Result::ok).ok_or(AdminError::TimedOut)
    }

    /// See [`DeclareRules::is_left_over`](catalog::DeclareRules::is_left_over).
    pub fn is_left_over_exchange(&self, vhost: &str, name: &str) -> bool {
        self.settings().declare_rules.is_left_over(vhost, name)
    }

    /// Returns the type of a new queue whose declaration names none.
    pub fn default_queue_type(&self) -> queue::QueueType {
        self.settings().declare_rules.default_type
    }

    /// Returns an overview of the node. What it has is summed over the shards.
    ///
    /// # Errors
    /// The user may not see it, or a shard did not answer in time.
    pub async fn overview(&self, who: &Identity) -> Result<Overview, AdminError> {
        self.permit(who, "", Verb::ReadOverview, &[]).await?;
        let settings = self.settings();
        let overview = Overview {
            product: settings.compat_product.clone(),
            product_version: settings.compat_version.clone(),
            sluice_version: SLUICE_VERSION.into(),
            node: settings.node_name.clone(),
            node_id: self.inner.identity.node_hex(),
            cluster_id: self
                .inner
                .nodes
                .now(&self.inner.node)
                .cluster
                .unwrap_or_else(|| self.inner.identity.node_hex()),
            boots: self.inner.identity.boots,
            unclaimed: self.inner.unclaimed,
            listeners: self.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            uptime_ms: self.inner.clock.uptime_ms(),
            connections_max: settings.connection_max.map(u64::from),
            denied: settings.denied_features(),
            ..Overview::default()
        };
        let cluster_name = settings.cluster_name.clone();
        let of_catalog = move |catalog: &Catalog, _: &_| Overview {
            cluster_name: catalog.cluster_name().map_or(cluster_name, str::to_owned),
            cluster_tags: catalog.cluster_tags().cloned(),
            queues: catalog.queue_count() as u64,
            exchanges: catalog.exchange_count() as u64,
            ..overview
        };
        let mut overview = self.read(0, of_catalog).await?;
        for totals in self.look_everywhere(looks::Sums).await? {
            overview.sessions += totals.sessions;
            overview.channels += totals.channels;
            overview.depth += totals.depth;
            overview.counters.add(&totals.counters);
            overview.commit_latency_ms = overview.commit_latency_ms.max(totals.commit_latency_ms);
            BudgetRow::add_all(&mut overview.budgets, totals.budgets);
            overview.shards.push(totals.shard);
        }
        overview.counters.over_mut(Protocol::Http).auth_attempts = self.inner.logins.over_http();
        overview.counters.notices_dropped += self.inner.notices.dropped();
        overview.handshakes_evicted = self.inner.admission.evicted();
        let Resources { memory_limit, disk_free, disk_free_limit, .. } = self.resources();
        overview.limits = ResourceLimits { memory_limit, disk_free, disk_free_limit };
        overview.accepting_paused = self.inner.admission.is_paused();
        overview.connections = overview.counters.connections;
        overview.consumers = overview.counters.traffic().consumers;
        overview.limited = self.permit(who, "", Verb::ReadAllStatistics, &[]).await.is_err();
        Ok(overview)
    }

    /// Returns the queues of one virtual host or of all, ordered by name: at most `limit` from `offset` on, and the
    /// total number.
    pub async fn queues(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<QueueRow>, usize), AdminError> {
        let records = self.visible_queues(who, vhost).await?;
        let total = records.len();
        let page = page_of(records, offset, limit);
        Ok((self.with_numbers(Asks::AllNodes, &page).await?, total))
    }

    /// Returns the queues of one virtual host or of all, ordered by name, without statistics. See [`Self::numbered`].
    pub async fn queue_records(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        let mut records = self.visible_queues(who, vhost).await?;
        records.sort_unstable_by(by_name);
        Ok(records)
    }

    /// Returns the queues with these ids, in this order, for [`Self::numbered`]. Queues that were deleted, and queues
    /// that the user may not see, are left out.
    pub async fn queues_by_id(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        let mut records = self.records(ids).await?;
        self.keep_visible(who, Verb::ReadQueue, &mut records, |q| &q.vhost).await;
        Ok(records)
    }

    /// Returns these queues with their statistics. A queue that was deleted meanwhile has none.
    pub async fn numbered(
        &self,
        who: &Identity,
        records: &[Arc<QueueRecord>],
    ) -> Result<Vec<QueueRow>, AdminError> {
        for record in records {
            self.permit(who, &record.vhost, Verb::ReadQueue, &[]).await?;
        }
        self.with_numbers(Asks::AllNodes, records).await
    }

    /// Returns a queue with its statistics.
    ///
    /// # Errors
    /// There is none of this name, or the user may not see it.
    pub async fn queue(&self, who: &Identity, vhost: &str, name: &str) -> Result<QueueRow, AdminError> {
        self.permit(who, vhost, Verb::ReadQueue, &[]).await?;
        let record = self.listed(self.inner.deadlines.numbers, vhost, name).await?;
        Ok(self.with_numbers(Asks::AllNodes, std::slice::from_ref(&record)).await?.remove(0))
    }

    /// Declares a queue. Returns true if it was created, false if it existed with the same properties.
    pub async fn declare_queue(&self, who: &Identity, spec: QueueSpec) -> Result<bool, AdminError> {
        let QueueSpec { vhost, name, durable, auto_delete, arguments } = spec;
        let ask = || permit_queue(&name, &arguments, |verb, on| self.known(who, &vhost, verb, on));
        self.decide(who, ask).await?;
        let declare = DeclareQueue { durable, auto_delete, ..DeclareQueue::new(vhost, name, arguments) };
        Ok(changed(self.change(who, Command::DeclareQueue(declare)).await?))
    }

    /// Deletes a queue. Returns the number of ready messages that were deleted with it.
    pub async fn delete_queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<u64, AdminError> {
        self.permit(who, vhost, Verb::DeleteQueue, &[Resource::Queue(name)]).await?;
        let record = self.usable(vhost, name).await?;
        self.count(record, Request::Delete { ticket: NO_TICKET, if_unused, if_empty }).await
    }

    /// Purges a queue. Returns the number of messages that were removed.
    ///
    /// # Errors
    /// The user may not do this, or the queue refuses.
    pub async fn purge_queue(&self, who: &Identity, vhost: &str, name: &str) -> Result<u64, AdminError> {
        self.permit(who, vhost, Verb::PurgeQueue, &[Resource::Queue(name)]).await?;
        let record = self.usable(vhost, name).await?;
        self.count(record, Request::Purge { ticket: NO_TICKET }).await
    }

    /// Returns up to `count` messages of a stream from a place on, fewer if they are large. Nothing is consumed.
    pub async fn browse(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        start: Start,
        count: u32,
    ) -> Result<Vec<BrowsedRow>, AdminError> {
        self.permit(who, vhost, Verb::Get, &[Resource::Queue(name)]).await?;
        let record = self.usable(vhost, name).await?;
        if !record.is_stream() {
            return Err(AdminError::no_stream(&record));
        }
        let replay = Box::new(Replay { start, ..Replay::default() });
        match self.ask_queue(record.id, Request::Browse { ticket: NO_TICKET, replay, n: count }).await? {
            Effect::Fetched { deliveries, .. } => Ok(deliveries.into_iter().map(browsed).collect()),
            other => Err(self.refused(&record, &other).await),
        }
    }

    /// Returns the virtual hosts that the user may see, in the order of their names.
    pub async fn vhosts(&self, who: &Identity) -> Result<Vec<NamedVhost>, AdminError> {
        let rows = |catalog: &Catalog| catalog.vhosts_with_settings().len();
        let vhosts = |catalog: &Catalog, _: &_| {
            let all = catalog.vhosts_with_settings();
            all.map(|(name, settings)| (name.clone(), settings.clone())).collect::<Vec<_>>()
        };
        let mut all = self.read_within(self.inner.deadlines.numbers, rows, vhosts).await?;
        self.keep_visible(who, Verb::ReadVhost, &mut all, |(name, _)| name).await;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// Returns all parameters of components that this broker does not have.
    ///
    /// # Errors
    /// The user may not see them.
    pub async fn parameters(&self, who: &Identity) -> Result<Parameters, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        let rows = |catalog: &Catalog| catalog.parameters().len();
        let parameters = |catalog: &Catalog, _: &_| catalog.parameters().clone();
        self.read_within(self.inner.deadlines.numbers, rows, parameters).await
    }

    /// Returns what is in one virtual host or in all, for definitions. Other than the lists, it needs no permissions there.
    ///
    /// # Errors
    /// The user may not see everything.
    pub async fn contents(&self, who: &Identity, vhost: Option<&str>) -> Result<Contents, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        let mut contents = Contents {
            policies: self.all_policies(false).await?,
            operator_policies: self.all_policies(true).await?,
            queues: self.all_queues(vhost).await?,
            exchanges: self.all_exchanges().await?.into_iter().map(|row| row.exchange).collect(),
            bindings: self.declared_bindings().await?,
        };
        contents.keep(vhost);
        Ok(contents)
    }

    /// Carries out commands that definitions consist of: all of them, or none.
    ///
    /// # Errors
    /// The user may not do this, or a command is refused ([`CatalogError::InBatch`]).
    pub async fn import(&self, who: &Identity, commands: Vec<Command>) -> Result<(), AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        self.change(who, Command::Batch(commands)).await.map(|_| ())
    }

    /// Sets a parameter to a value in JSON, or removes it. Returns true if it was created or removed.
    pub async fn change_parameter(
        &self,
        who: &Identity,
        key: ParameterKey,
        value: Option<Arc<str>>,
    ) -> Result<bool, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        let command = match value {
            Some(value) => Command::SetParameter { key, value },
            None => Command::ClearParameter { key },
        };
        Ok(changed(self.change(who, command).await?))
    }

    /// Deletes a virtual host with everything in it, and closes its connections. Returns false if there is none of this name.
    ///
    /// # Errors
    /// It is protected, the user may not do this, or a queue could not be deleted in time. Then nobody can use the virtual
    /// host any more, and the deletion can be asked for again.
    pub async fn delete_vhost(&self, who: &Identity, name: &str) -> Result<bool, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        let name: Arc<str> = name.into();
        let close = AccountChange::CloseVhost { name: name.clone() };
        if !changed(self.change(who, Command::Account(close)).await?) {
            return Ok(false);
        }
        self.delete_queues_in(&name).await?;
        self.set_traces(TraceChange::Forget { vhost: name.clone() }).await?;
        Ok(changed(self.change(who, Command::Account(AccountChange::DeleteVhost { name })).await?))
    }

    /// Returns the exchanges of one virtual host or of all, in the order of their names.
    pub async fn exchanges(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> Result<Vec<ExchangeRow>, AdminError> {
        self.permit_list(who, vhost, Verb::ReadExchange).await?;
        let mut all = self.all_exchanges().await?;
        all.retain(|row| vhost.is_none_or(|v| *row.exchange.vhost == *v));
        self.keep_visible(who, Verb::ReadExchange, &mut all, |row| &row.exchange.vhost).await;
        self.count_exchanges(&mut all).await?;
        Ok(all)
    }

    /// Declares an exchange. Returns true if it was created, false if it existed with the same properties.
    pub async fn declare_exchange(&self, who: &Identity, spec: ExchangeSpec) -> Result<bool, AdminError> {
        let ExchangeSpec { vhost, name, kind, durable, auto_delete, internal, arguments } = spec;
        let ask = || permit_exchange(&name, &arguments, |verb, on| self.known(who, &vhost, verb, on));
        self.decide(who, ask).await?;
        let declare = DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
        Ok(changed(self.change(who, Command::DeclareExchange(declare)).await?))
    }

    /// Deletes an exchange. Returns true if there was one.
    ///
    /// # Errors
    /// There is none, the user may not do this, or it is in use and `if_unused` is set.
    pub async fn delete_exchange(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
    ) -> Result<bool, AdminError> {
        self.permit(who, vhost, Verb::DeleteExchange, &[Resource::Exchange(name)]).await?;
        let command = Command::DeleteExchange { vhost: vhost.into(), name: name.into(), if_unused };
        Ok(changed(self.change(who, command).await?))
    }

    /// Returns the bindings of one virtual host or of all that the user may see, in order.
    pub async fn bindings(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> Result<Vec<Arc<Binding>>, AdminError> {
        self.permit_list(who, vhost, Verb::ReadBinding).await?;
        let mut all = self.all_bindings().await?;
        all.retain(|b| vhost.is_none_or(|v| *b.vhost == *v));
        self.keep_visible(who, Verb::ReadBinding, &mut all, |b| &b.vhost).await;
        Ok(all)
    }

    /// Makes a binding. Returns false if it existed.
    pub async fn bind(&self, who: &Identity, binding: Binding) -> Result<bool, AdminError> {
        self.permit_binding(who, Verb::Bind, &binding).await?;
        Ok(changed(self.change(who, Command::Bind(binding, Caller::Management)).await?))
    }

    /// Removes a binding. Returns false if there was none.
    pub async fn unbind(&self, who: &Identity, binding: Binding) -> Result<bool, AdminError> {
        self.permit_binding(who, Verb::Unbind, &binding).await?;
        Ok(changed(self.change(who, Command::Unbind(binding, Caller::Management)).await?))
    }

    /// Returns the policies, or the operator policies, of one virtual host or of all.
    pub async fn policies(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        operator: bool,
    ) -> Result<Vec<Arc<Policy>>, AdminError> {
        let verb = if operator { Verb::ReadOperatorPolicy } else { Verb::ReadPolicy };
        self.permit_list(who, vhost, verb).await?;
        let mut all = self.all_policies(operator).await?;
        all.retain(|p| vhost.is_none_or(|v| *p.vhost == *v));
        self.keep_visible(who, verb, &mut all, |p| &p.vhost).await;
        Ok(all)
    }

    /// Sets a policy. Returns true if it was created, false if one of this name existed.
    pub async fn set_policy(&self, who: &Identity, policy: SetPolicy) -> Result<bool, AdminError> {
        let SetPolicy { vhost, name, operator, definition, .. } = &policy;
        let ask = || permit_policy(name, *operator, Some(definition), |v, on| self.known(who, vhost, v, on));
        self.decide(who, ask).await?;
        Ok(changed(self.change(who, Command::SetPolicy(policy)).await?))
    }

    /// Clears a policy. Returns false if there was none.
    pub async fn clear_policy(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        operator: bool,
    ) -> Result<bool, AdminError> {
        let ask = || permit_policy(name, operator, None, |v, on| self.known(who, vhost, v, on));
        self.decide(who, ask).await?;
        let command = Command::ClearPolicy { vhost: vhost.into(), name: name.into(), operator };
        Ok(changed(self.change(who, command).await?))
    }

    /// Returns all users and their permissions.
    ///
    /// # Errors
    /// The user may not see them.
    pub fn users(&self, who: &Identity) -> Result<Arc<Users>, AdminError> {
        self.permit_by_tag(who, Verb::Administer)?;
        Ok(self.inner.access.users())
    }

    /// Returns the permissions of the caller, by virtual host. Returns `None` if the catalog does not decide them.
    pub fn own_permissions(&self, who: &Identity) -> Option<Vec<(Arc<str>, Permissions)>> {
        self.inner.access.users().permissions_of(who)
    }

    /// Hashes a new password with the node's algorithm (`password_hashing`). Without one, nobody can log in with the hash.
    pub async fn hash_password(
        &self,
        who: &Identity,
        password: Option<Secret>,
    ) -> Result<PasswordHash, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        let hashing = self.inner.access.hashing();
        let Some(password) = password else { return Ok(hashing.of_nobody()) };
        let no_salt = |error| AdminError::Impossible(format!("there is no random salt: {error}"));
        let salt = random().map_err(no_salt)?;
        let hashed = self.inner.checker.hash(NewHash { hashing, salt, password });
        let answer = tokio::time::timeout(self.inner.deadlines.login, hashed).await;
        answer.ok().and_then(Result::ok).ok_or(AdminError::TimedOut)
    }

    /// Changes a user, permissions or a virtual host. Returns true if something was created or deleted, false if it existed
    /// before or there was nothing to delete.
    pub async fn change_account(&self, who: &Identity, change: AccountChange) -> Result<bool, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        Ok(changed(self.change(who, Command::Account(change)).await?))
    }

    /// Returns the connections of this node that the user may see, in any order.
    pub async fn connections_here(&self, who: &Identity) -> Result<Vec<ConnectionRow>, AdminError> {
        self.visible_connections(Asks::ThisNode, who).await
    }

    /// Returns the connections of all nodes in sight that the user may see, ordered by name.
    pub async fn connections(&self, who: &Identity) -> Result<Vec<ConnectionRow>, AdminError> {
        let mut rows = self.visible_connections(Asks::AllNodes, who).await?;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(rows)
    }

    /// Returns a connection by name, or `None` if the user may not see one of this name.
    pub async fn connection(&self, who: &Identity, name: &str) -> Result<Option<ConnectionRow>, AdminError> {
        let names = HashSet::from([name.into()]);
        let found = self.named_connections(Arc::new(names)).await?.pop();
        // Without the permission, the answer is the same as for a connection that does not exist.
        let Some(row) = found else { return Ok(None) };
        if self.permit(who, &row.vhost, Verb::ReadVhost, &[]).await.is_err() {
            return Ok(None);
        }
        self.permit_connection(who, &row).await.map(|()| Some(row))
    }

    /// Closes a connection by name, on this node or on another one. Returns false if there is none.
    pub async fn close_connection(
        &self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> Result<bool, AdminError> {
        let mut any = false;
        for shard in 0..self.inner.shards.len() {
            let (who_asks, named, why) = (who.clone(), name.to_owned(), reason.to_owned());
            let close = |to| Act::Close { who: who_asks, name: named, reason: why, to };
            match self.act(self.inner.deadlines.change, shard, close).await? {
                Ok(closed) => any |= closed,
                // Who does not see its virtual host is not told that the connection exists.
                Err(_) if matches!(self.connection(who, name).await, Ok(None)) => return Ok(false),
                Err(refused) => return Err(AdminError::AccessRefused(refused.reason)),
            }
        }
        if any { Ok(true) } else { self.close_at_others(who, name, reason).await }
    }

    /// Returns the active alarms of all nodes.
    ///
    /// # Errors
    /// The user may not read them.
    pub fn alarms(&self, who: &Identity) -> Result<Alarms, AdminError> {
        self.permit_by_tag(who, Verb::ReadAlarms)?;
        Ok(self.raised_alarms().into_iter().map(|(what, node)| (what, node.to_string())).collect())
    }
}

#[cfg(test)]
mod tests;
