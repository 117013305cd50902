//! The catalog: virtual hosts, exchanges, queues, bindings, policies, users and their permissions.
//!
//! The catalog is a deterministic machine with a copy on every shard. One shard decides commands on the committed state
//! ([`Catalog::decide`]). A decision is [`Pending`] until the log has it. When it is committed, its changes get their place in the one order
//! in which every shard applies them ([`Catalog::apply`]). An answer leaves when all shards have applied them.
//!
//! [`access`] says who may do what. The users are part of the catalog; the counts of logins and connections are those of one node.
//!
//! The crate is pure: no sockets, files, clock, tasks or randomness. It knows no connections, no mail and no messages that wait
//! in queues, so it can run alone.
#![forbid(unsafe_code)]

pub mod access;
mod arguments;
mod bindings;
pub mod categories;
mod change;
mod claims;
mod decide;
mod definitions;
mod described;
mod entry;
mod error;
mod exchange;
mod exchanges;
mod fields;
pub mod ids;
mod mutation;
mod named;
pub mod names;
pub mod nearest;
mod nodes;
mod parameters;
pub mod pattern;
mod pending;
mod policy;
pub mod reply_to;
mod route;
mod rules;
mod search;
mod sent;
mod slots;
mod started;
mod stored;
#[cfg(test)]
mod tests;
pub mod unguessable;
mod unknown;
mod values;
mod vhost;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use slab::Slab;

use arguments::queue_config;
pub use arguments::{is_obsolete_argument, span_ms};
pub use bindings::BindingCursor;
pub use change::Change;
pub use decide::{AccountChange, Answer, Command, Decision, DeclareExchange, DeclareQueue, SetPolicy};
pub use definitions::{DefinitionsCursor, definitions_of};
pub use described::{
    Described, described_exchange_arguments, described_policy_keys, described_queue_arguments,
};
pub use entry::{Asker, Entry, decode_entry, encode_entry};
pub use error::CatalogError;
pub use exchange::{
    EVENT_EXCHANGE, Exchange, ExchangeId, ExchangeKind, Histories, LOG_EXCHANGE, Routable, TRACE_EXCHANGE,
    has_headers, history_length,
};
pub use mutation::Mutation;
pub use named::Arguments;
pub use nodes::{KnownNode, NODE_NAME_MAX, NODES_MAX};
pub use parameters::{
    CLUSTER_NAME, CLUSTER_NAME_BYTES_MAX, CLUSTER_TAGS, ParameterKey, Parameters, is_cluster_name,
};
pub use pending::{At, Committed, Offered, Pending};
use policy::merged_definition;
pub use policy::{ApplyTo, Policy, is_policy_key};
pub use route::{RouteTarget, RouteTargets, Routed, Unrouted};
pub use rules::DeclareRules;
pub use search::Search;
pub use sent::{decode_command, encode_command};
pub use slots::QueueIds;
pub use stored::{decode_change, encode_change};
pub use unknown::{argument_warnings, unknown_exchange_arguments, unknown_queue_arguments};
pub use values::ValueKind;
pub use vhost::{DefaultLimits, DefaultPolicy, DefaultUser, VhostDefaults, VhostPatch, VhostSettings};

use self::policy::Subject;
use self::slots::Slots;
use crate::access::{Resource, Users};
use crate::ids::{ConnectionId, Members, NodeId, NodeNumber, QueueId};

/// The virtual host that exists from the start.
pub const DEFAULT_VHOST: &str = "/";

/// The prefix of the names that only the broker itself may declare.
pub const RESERVED_PREFIX: &str = "amq.";

/// Who wants to use a queue. It decides whether an exclusive queue is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Connection(ConnectionId),
    /// A request over HTTP, or the broker itself. No exclusive queue belongs to it.
    Management,
}

/// A queue as the catalog knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRecord {
    pub id: QueueId,
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub durable: bool,
    /// The only connection that may use the queue. The queue is deleted with it. `None` if the queue is not
    /// exclusive.
    pub exclusive: Option<ConnectionId>,
    pub auto_delete: bool,
    pub arguments: Arguments,
    /// The settings of the queue's machine, from its arguments and policies.
    pub config: Arc<queue::Config>,
    /// True if every record of the queue is synced before it is confirmed (`x-fsync`).
    pub fsync: bool,
    /// The policy that applies to the queue. It follows from the name, so it is never stored with the queue.
    pub policy: Option<Arc<Policy>>,
    pub operator_policy: Option<Arc<Policy>>,
    /// The index of the entry that declared the queue, in the log of the catalog's group. 0 if it was declared before there was one.
    pub declared: u64,
    /// The nodes that have the queue: its home, or the members with which its Raft group was founded.
    pub members: Members,
}

impl QueueRecord {
    /// Returns true if the queue is a stream.
    pub fn is_stream(&self) -> bool {
        self.config.stream.is_some()
    }

    /// Returns true if the queue is a quorum queue.
    pub fn is_quorum(&self) -> bool {
        self.config.quorum.is_some()
    }

    /// Returns true if the queue exists after a restart. An exclusive queue ends with its connection.
    pub fn outlives_restart(&self) -> bool {
        self.durable && self.exclusive.is_none()
    }

    /// Returns true if the queue is deleted after some time without use. Its machine measures the time.
    pub fn may_expire(&self) -> bool {
        self.config.expires_ms.is_some()
    }

    /// Checks that the caller may use the queue: an exclusive queue is there for its own connection only. Nobody else asks whether a
    /// queue is exclusive to somebody else.
    fn check_caller(&self, caller: Caller) -> Result<(), CatalogError> {
        match self.exclusive {
            Some(owner) if caller != Caller::Connection(owner) => Err(self.locked()),
            _ => Ok(()),
        }
    }

    /// Checks that the queue may be declared again by the owner, or by anybody if the declaration is not exclusive. What it is declared as
    /// must be what it is.
    fn check_owner(&self, owner: Option<ConnectionId>) -> Result<(), CatalogError> {
        if self.exclusive == owner { Ok(()) } else { Err(self.locked()) }
    }

    fn locked(&self) -> CatalogError {
        CatalogError::locked(&self.vhost, &self.name)
    }

    /// Returns the name of the queue type.
    pub fn kind(&self) -> &'static str {
        self.config.queue_type().name()
    }

    /// Returns the binding that every queue has with the default exchange.
    fn implied_binding(&self) -> Binding {
        Binding {
            vhost: self.vhost.clone(),
            source: "".into(),
            destination: Destination::Queue(self.name.clone()),
            key: self.name.clone(),
            arguments: Arguments::default(),
        }
    }

    /// Returns the kind of object that the queue is for policies.
    fn subject(&self) -> Subject {
        self.config.queue_type().into()
    }

    /// Returns the merged definition of its policy and its operator policy.
    pub fn effective_policy(&self) -> Arguments {
        merged_definition(self.policy.as_deref(), self.operator_policy.as_deref())
    }

    /// Finds the policies of the queue and recomputes its settings from them and its arguments.
    fn refresh(self: &mut Arc<Self>, policies: &policy::Policies) {
        let best = |operator| policies.best(operator, self.subject(), &self.name).cloned();
        let (policy, operator_policy) = (best(false), best(true));
        if policy == self.policy && operator_policy == self.operator_policy {
            return;
        }
        let record = Arc::make_mut(self);
        (record.policy, record.operator_policy) = (policy, operator_policy);
        let QueueRecord { vhost, name, auto_delete, arguments, .. } = &*record;
        // The arguments are valid, because they were checked when the queue was declared.
        let Ok((mut config, mut fsync)) = queue_config(vhost, name, *auto_delete, arguments) else { return };
        let definition = record.effective_policy();
        policy::apply_definition(&definition, &mut config, &mut fsync);
        (record.config, record.fsync) = (Arc::new(config), fsync);
    }
}

/// A queue at its place in the table. The record may be outdated, so readers call [`Catalog::current`].
#[derive(Clone, Debug)]
struct QueueRow {
    record: Arc<QueueRecord>,
    /// The version of the policies for which the record was computed.
    policies: u64,
}

/// The destination of a binding or a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    Queue(Arc<str>),
    Exchange(Arc<str>),
}

impl<'a> From<&'a Destination> for Resource<'a> {
    fn from(destination: &'a Destination) -> Self {
        match destination {
            Destination::Queue(name) => Self::Queue(name),
            Destination::Exchange(name) => Self::Exchange(name),
        }
    }
}

/// A binding of one exchange to a destination in the same virtual host.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    pub vhost: Arc<str>,
    pub source: Arc<str>,
    pub destination: Destination,
    pub key: Arc<str>,
    pub arguments: Arguments,
}

/// The contents of one virtual host.
#[derive(Clone, Debug, Default)]
struct Vhost {
    exchanges: HashMap<Arc<str>, exchange::Table>,
    /// The id of the default exchange, which every virtual host has.
    default_exchange: Option<ExchangeId>,
    queues: HashMap<Arc<str>, QueueId>,
    policies: policy::Policies,
    settings: Arc<VhostSettings>,
}

/// The catalog; see the module. A clone is an independent replica.
///
/// A changed policy costs the same for any number of queues and exchanges, because it only marks their
/// records as outdated. A reader gets a copy of the record that is brought up to date for it.
/// [`Catalog::refresh_queue_at`] and [`Catalog::refresh_exchange_at`] store the updated record. After a
/// change of policies they must be called for each place.
#[derive(Clone, Debug)]
pub struct Catalog {
    version: u64,
    /// The number of policy changes that were applied.
    policies: u64,
    vhosts: HashMap<Arc<str>, Vhost>,
    queues: Slots,
    /// The virtual host and the name of each exchange, by its place.
    exchange_places: Slab<(Arc<str>, Arc<str>)>,
    next_incarnation: u64,
    /// The number of starts of nodes that were applied.
    starts: u64,
    users: Arc<Users>,
    parameters: Parameters,
    nodes: BTreeMap<NodeNumber, KnownNode>,
    proposals: BTreeMap<NodeId, nodes::Proposals>,
    rules: DeclareRules,
    #[cfg(any(test, debug_assertions))]
    mutation: Option<Mutation>,
}

impl Default for Catalog {
    fn default() -> Self {
        let mut catalog = Self {
            version: 0,
            policies: 0,
            vhosts: HashMap::new(),
            queues: Slots::default(),
            exchange_places: Slab::new(),
            next_incarnation: 1,
            starts: 0,
            users: Arc::default(),
            parameters: Parameters::new(),
            nodes: BTreeMap::new(),
            proposals: BTreeMap::new(),
            rules: DeclareRules::default(),
            #[cfg(any(test, debug_assertions))]
            mutation: None,
        };
        catalog.add_vhost_with_exchanges(&DEFAULT_VHOST.into());
        catalog
    }
}

impl Catalog {
    /// Returns the number of changes that this copy has applied so far. All shards of a node count the same. A restart counts anew, because
    /// a base has fewer changes than were made. So no change has a version, and nobody compares versions of two nodes. A route that was
    /// cached for another version is stale.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn has_vhost(&self, vhost: &str) -> bool {
        self.vhosts.get(vhost).is_some_and(|vhost| !vhost.settings.deleting)
    }

    /// Returns the settings of a virtual host, also while it is being deleted.
    pub fn vhost_settings(&self, vhost: &str) -> Option<&Arc<VhostSettings>> {
        self.vhosts.get(vhost).map(|vhost| &vhost.settings)
    }

    /// Returns all virtual hosts with their settings.
    pub fn vhosts_with_settings(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<VhostSettings>)> {
        self.vhosts.iter().map(|(name, vhost)| (name, &vhost.settings))
    }

    /// Returns all parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the queues of a virtual host.
    pub fn queues_in(&self, vhost: &str) -> impl Iterator<Item = QueueId> {
        self.vhosts.get(vhost).into_iter().flat_map(|vhost| vhost.queues.values().copied())
    }

    pub fn vhosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.vhosts.keys()
    }

    /// Returns the users. The `Arc` may be kept.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Returns true if the exchange exists and is of type topic.
    pub fn is_topic(&self, vhost: &str, exchange: &str) -> bool {
        let table = self.vhosts.get(vhost).and_then(|vhost| vhost.exchanges.get(exchange));
        table.is_some_and(|table| table.exchange.kind == ExchangeKind::Topic)
    }

    // ---- queues and exchanges, up to date -----------------------------------------------------------------

    /// Returns the version of the policies: the number of policy changes that were applied.
    pub fn policies_version(&self) -> u64 {
        self.policies
    }

    /// Returns a queue to somebody who reads it, consumes from it, or changes it or its bindings. Exclusive queues of others are refused.
    ///
    /// # Errors
    /// There is no such queue, or it is exclusive to another connection.
    pub fn usable_queue(
        &self,
        vhost: &str,
        name: &str,
        caller: Caller,
    ) -> Result<Arc<QueueRecord>, CatalogError> {
        let queue = self.listed_queue(vhost, name).ok_or_else(|| CatalogError::no_queue(vhost, name))?;
        queue.check_caller(caller).map(|()| queue)
    }

    /// Returns a queue to somebody who lists it, shows its figures, or publishes to it. Everybody may do so with exclusive
    /// queues of others, too. Whoever wants more calls [`Self::usable_queue`].
    pub fn listed_queue(&self, vhost: &str, name: &str) -> Option<Arc<QueueRecord>> {
        let id = *self.vhosts.get(vhost)?.queues.get(name)?;
        self.queue_by_id(id)
    }

    pub fn queue_by_id(&self, id: QueueId) -> Option<Arc<QueueRecord>> {
        self.queues.get(id).map(|row| self.current(row))
    }

    pub fn queues(&self) -> impl Iterator<Item = Arc<QueueRecord>> {
        self.queues_from(0).map(|(_, queue)| queue)
    }

    /// Returns the number of queues.
    pub fn queue_count(&self) -> usize {
        self.queues.count()
    }

    /// Returns the number of places for queues. A queue's place is the slot of its id.
    pub fn queue_places(&self) -> usize {
        self.queues.len()
    }

    /// Returns the id of the queue at a place.
    pub fn queue_id_at(&self, place: usize) -> Option<QueueId> {
        self.queues.at(place).map(|row| row.record.id)
    }

    /// Returns the queue at a place, with the current policies.
    pub fn queue_at(&self, place: usize) -> Option<Arc<QueueRecord>> {
        self.queues.at(place).map(|row| self.current(row))
    }

    /// Returns the queues from a place on, each with its place. Places are numbers from 0 on and do not follow the
    /// order of names.
    pub fn queues_from(&self, place: usize) -> impl Iterator<Item = (usize, Arc<QueueRecord>)> {
        self.queues.from(place).map(|(place, row)| (place, self.current(row)))
    }

    /// Returns whether a queue is a stream, or `None` if there is no such queue. This is cheaper than reading the
    /// record, because no policy changes the type.
    #[inline]
    pub fn is_stream(&self, id: QueueId) -> Option<bool> {
        self.queues.get(id).map(|row| row.record.is_stream())
    }

    /// Returns the virtual host and the name of a queue, for the log. A queue that is gone has its id for a name.
    pub fn names_of(&self, id: QueueId) -> (Arc<str>, Arc<str>) {
        match self.queues.get(id) {
            Some(row) => (row.record.vhost.clone(), row.record.name.clone()),
            None => (Arc::default(), format!("{:016x}", id.0).into()),
        }
    }

    /// Returns the record of a queue with the current policies.
    fn current(&self, row: &QueueRow) -> Arc<QueueRecord> {
        let mut record = row.record.clone();
        if row.policies != self.policies
            && let Some(vhost) = self.vhosts.get(&record.vhost)
        {
            record.refresh(&vhost.policies);
        }
        record
    }

    /// Stores the record at this place with the current policies, and returns it.
    pub fn refresh_queue_at(&mut self, place: usize) -> Option<Arc<QueueRecord>> {
        let record = self.queue_at(place)?;
        self.queues.insert(QueueRow { record: record.clone(), policies: self.policies });
        Some(record)
    }

    /// Stores all records with the current policies. For a catalog that has just been restored.
    pub fn refresh_all(&mut self) {
        for place in 0..self.queue_places() {
            self.refresh_queue_at(place);
        }
        (0..self.exchange_places()).for_each(|place| self.refresh_exchange_at(place));
    }

    /// Returns all policies or all operator policies, sorted by name within each virtual host.
    pub fn policies(&self, operator: bool) -> impl Iterator<Item = &Arc<Policy>> {
        self.vhosts.values().flat_map(move |v| v.policies.of(operator).values())
    }

    pub fn policy(&self, vhost: &str, name: &str, operator: bool) -> Option<&Arc<Policy>> {
        self.vhosts.get(vhost)?.policies.of(operator).get(name)
    }

    /// Applies the next change. Everybody applies the same changes in the order in which their commands were committed ([`Pending`]). The
    /// result depends on nothing else: on no setting, no clock, and no number of this copy (docs/decisions/0053).
    pub fn apply(&mut self, change: &Change) {
        self.version += 1;
        match change {
            Change::QueueDeclared(record) => {
                self.next_incarnation = self.next_incarnation.max(record.id.incarnation() + 1);
                if let Some(vhost) = self.vhosts.get_mut(&record.vhost) {
                    vhost.queues.insert(record.name.clone(), record.id);
                }
                let mut record = record.clone();
                if let Some(vhost) = self.vhosts.get(&record.vhost) {
                    record.refresh(&vhost.policies);
                }
                self.queues.insert(QueueRow { record, policies: self.policies });
            }
            Change::QueueForgotten { queue } => {
                let Some(QueueRow { record, .. }) = self.queues.remove(*queue) else { return };
                if let Some(vhost) = self.vhosts.get_mut(&record.vhost) {
                    vhost.queues.remove(&record.name);
                }
            }
            Change::ExchangeDeclared(exchange) => self.add_exchange(exchange.clone()),
            Change::ExchangeDeleted { vhost, name } => {
                if let Some(vhost) = self.vhosts.get_mut(vhost)
                    && let Some(gone) = vhost.exchanges.remove(name)
                {
                    self.free_places(std::iter::once(gone.id));
                }
            }
            Change::VhostAdded { name } => {
                // One that is being deleted is not added once more.
                if !self.vhosts.contains_key(name) {
                    self.add_vhost_with_exchanges(name);
                    if self.has(Mutation::ApplyReadsSetting) {
                        self.begin_exchanges();
                    }
                }
            }
            Change::VhostDeleted { name } => {
                let gone = self.vhosts.remove(name).unwrap_or_default();
                self.parameters.retain(|key, _| key.vhost.as_ref() != Some(name));
                self.free_places(gone.exchanges.values().map(|table| table.id));
            }
            Change::UserSet { name, hash, tags } => {
                Arc::make_mut(&mut self.users).set(name, hash.clone(), tags)
            }
            Change::ParameterSet { key, value } => {
                self.parameters.insert(key.clone(), value.clone());
            }
            Change::ParameterCleared { key } => _ = self.parameters.remove(key),
            Change::VhostSet { name, settings } => {
                if let Some(vhost) = self.vhosts.get_mut(name) {
                    vhost.settings = settings.clone();
                }
            }
            Change::UserLimitsSet { user, limits } => {
                Arc::make_mut(&mut self.users).set_limits(user, *limits);
            }
            Change::UserDeleted { name } => Arc::make_mut(&mut self.users).delete(name),
            Change::PermissionsSet { user, vhost, permissions } => {
                Arc::make_mut(&mut self.users).set_permissions(user, vhost, Some(permissions.clone()));
            }
            Change::PermissionsCleared { user, vhost } => {
                Arc::make_mut(&mut self.users).set_permissions(user, vhost, None);
            }
            Change::TopicPermissionsSet { user, vhost, exchange, permissions } => {
                let users = Arc::make_mut(&mut self.users);
                users.set_topics(user, vhost, exchange, permissions.clone());
            }
            Change::TopicPermissionsCleared { user, vhost, exchange } => {
                Arc::make_mut(&mut self.users).clear_topics(user, vhost, exchange.as_deref());
            }
            Change::UsersBegun => Arc::make_mut(&mut self.users).begin(),
            Change::NodeStarted { node, origin } => {
                self.start_node(*node);
                self.forget_earlier_proposals(*origin);
            }
            Change::NodeJoined { node, known } => self.apply_joined(*node, known),
            Change::Asked { origin, low, numbers } => self.apply_asked(*origin, *low, numbers),
            Change::Incarnations { next } => self.next_incarnation = self.next_incarnation.max(*next),
            Change::Bound(binding) => {
                if let Some(table) = self.table_mut(binding) {
                    table.bind(binding.clone());
                }
            }
            Change::Unbound(binding) => {
                if let Some(table) = self.table_mut(binding) {
                    table.unbind(binding);
                }
            }
            Change::PolicySet(policy) => {
                if let Some(vhost) = self.vhosts.get_mut(&policy.vhost) {
                    vhost.policies.insert(policy.clone());
                    self.policies += 1;
                }
            }
            Change::PolicyCleared { vhost, name, operator } => {
                if let Some(vhost) = self.vhosts.get_mut(vhost) {
                    vhost.policies.remove(*operator, name);
                    self.policies += 1;
                }
            }
        }
    }

    /// The incarnations of all queues, of those that were deleted too, are below this number.
    pub fn next_incarnation(&self) -> u64 {
        self.next_incarnation
    }

    /// Returns the ids that no queue has or has had.
    pub fn queue_ids(&self) -> QueueIds {
        QueueIds::new(&self.queues, self.next_incarnation)
    }

    /// Returns true if this replica has not applied the declaration of the queue yet. Entries declare queues in the order of their
    /// incarnations, because ids are taken in the order of the entries.
    pub fn is_to_come(&self, id: QueueId) -> bool {
        id.incarnation() >= self.next_incarnation
    }
}
