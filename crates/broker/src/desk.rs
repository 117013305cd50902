//! The desk, which is the front end for management in every protocol: the trait [`Desk`] and its rows.
//!
//! `node` implements it with mail to the shards. Requests are bounded in rows and time. `admin` serves it over HTTP.

pub mod amqp091_rows;
pub mod amqp10_rows;
mod quorum;
mod redrive;

use std::collections::HashSet;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use amqp10::Map;
use amqp10::sasl::Secret;
use bytes::Bytes;
pub use message::DeathReason;
pub use queue::Start;

use self::amqp10_rows::Amqp10Row;
use self::amqp091_rows::Amqp091Row;
pub use self::quorum::{GroupRow, MemberChange, PeekedRow, Reclaimed, ShownMessage};
pub use self::redrive::{Redrive, RedriveEnd, RedriveRefusal, RedriveTo, Redriven};
use crate::access::{Identity, PasswordHash, Users};
use crate::catalog::{
    AccountChange, Arguments, Binding, CatalogError, Command, Exchange, ParameterKey, Parameters, Policy,
    QueueRecord, SetPolicy, VhostSettings,
};
use crate::counters::{AuthAttempts, Counters, Deprecated, Protocol};
use crate::explain::{Explanation, Subject};
use crate::ids::QueueId;
use crate::secured::Secured;
use crate::traces::{TraceChange, Traces};

/// Why the desk refuses or fails a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskError {
    /// The login is refused: unknown user, wrong password, or an address that the user may not log in from.
    /// The reason is logged and not sent to the caller.
    LoginRefused(String),
    /// The user does not have the permission.
    AccessRefused(String),
    Catalog(CatalogError),
    /// The queue refuses: it is in use, not empty, or locked.
    Refused(String),
    /// The node can never do this, for example because there is no other node.
    Impossible(String),
    /// There was no answer within a second. Old data is not returned instead.
    TimedOut,
}

impl DeskError {
    /// Returns the refusal to browse a queue that is not a stream.
    pub fn no_stream(queue: &QueueRecord) -> Self {
        let (name, vhost, kind) = (&queue.name, &queue.vhost, queue.kind());
        Self::Refused(format!(
            "queue '{name}' in vhost '{vhost}' is a {kind} queue: only the messages of a stream can be browsed"
        ))
    }

    /// Returns the answer to a request for a node that does not exist.
    pub fn no_node(node: &str) -> Self {
        Self::Catalog(CatalogError::NotFound { reason: format!("no node '{node}'") })
    }

    /// Returns the refusal to treat a queue as a quorum queue. `name` is that of a queue in `vhost`, whose type is `kind`.
    pub fn no_group(vhost: &str, name: &str, kind: &str) -> Self {
        Self::Refused(format!(
            "queue '{name}' in vhost '{vhost}' is a {kind} queue: only quorum queues have a Raft group"
        ))
    }

    /// Returns the answer to a peek at a position where the queue has no message.
    pub fn no_message(vhost: &str, name: &str, position: u64) -> Self {
        let reason = format!("queue '{name}' in vhost '{vhost}' has no ready message at position {position}");
        Self::Catalog(CatalogError::NotFound { reason })
    }
}

/// The statistics of a queue.
#[derive(Clone, Debug, Default)]
pub struct QueueNumbers {
    pub report: queue::Report,
    /// The state of its Raft group. `None` unless it is a quorum queue whose group runs.
    pub group: Option<GroupRow>,
}

/// A queue and its statistics.
#[derive(Clone, Debug)]
pub struct QueueRow {
    /// A queue that is declared again has another id.
    pub id: QueueId,
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub durable: bool,
    pub exclusive: bool,
    pub auto_delete: bool,
    pub arguments: Arguments,
    /// The name of the policy that applies to the queue. The name of the operator policy is in the next
    /// field.
    pub policy: Option<Arc<str>>,
    pub operator_policy: Option<Arc<str>>,
    /// The merged definition of the policy and the operator policy.
    pub effective_policy: Arguments,
    /// The type of the queue: `classic`, `quorum` or `stream`.
    pub kind: &'static str,
    pub report: queue::Report,
    /// See [`QueueNumbers::group`].
    pub group: Option<GroupRow>,
    /// The node that the queue is on.
    pub node: Arc<str>,
}

impl QueueRow {
    /// Creates a row from the record in the catalog and the statistics.
    pub fn new(record: &QueueRecord, numbers: QueueNumbers, node: Arc<str>) -> Self {
        let QueueNumbers { report, group } = numbers;
        let name = |policy: &Option<Arc<Policy>>| policy.as_ref().map(|p| p.name.clone());
        Self {
            id: record.id,
            vhost: record.vhost.clone(),
            name: record.name.clone(),
            durable: record.durable,
            exclusive: record.exclusive.is_some(),
            auto_delete: record.auto_delete,
            arguments: record.arguments.clone(),
            policy: name(&record.policy),
            operator_policy: name(&record.operator_policy),
            effective_policy: record.effective_policy(),
            kind: record.kind(),
            report,
            group,
            node,
        }
    }

    /// Returns true if the queue is a quorum queue.
    pub fn is_quorum(&self) -> bool {
        self.kind == queue::QueueType::Quorum.name()
    }

    /// Returns true if the queue has a leader and members, as quorum queues and streams do.
    pub fn has_members(&self) -> bool {
        self.is_quorum() || self.kind == queue::QueueType::Stream.name()
    }
}

/// A message of a stream.
#[derive(Clone, Debug)]
pub struct BrowsedRow {
    pub offset: u64,
    /// The exchange to which the message was published.
    pub exchange: Arc<str>,
    pub routing_key: Arc<str>,
    /// The whole message, encoded as it is for a consumer of the stream.
    pub message: Bytes,
}

/// A virtual host: its name and its settings.
pub type NamedVhost = (Arc<str>, Arc<VhostSettings>);

/// What is in virtual hosts, in the order of names.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    pub policies: Vec<Arc<Policy>>,
    pub operator_policies: Vec<Arc<Policy>>,
    pub queues: Vec<Arc<QueueRecord>>,
    pub exchanges: Vec<Arc<Exchange>>,
    pub bindings: Vec<Arc<Binding>>,
}

impl Contents {
    /// Keeps only what is in this virtual host, if one is given.
    pub fn keep(&mut self, vhost: Option<&str>) {
        let Some(vhost) = vhost else { return };
        self.policies.retain(|policy| *policy.vhost == *vhost);
        self.operator_policies.retain(|policy| *policy.vhost == *vhost);
        self.queues.retain(|queue| *queue.vhost == *vhost);
        self.exchanges.retain(|exchange| *exchange.vhost == *vhost);
        self.bindings.retain(|binding| *binding.vhost == *vhost);
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// The name that people see: `peer:port -> host:port`.
    pub name: Arc<str>,
    pub user: Arc<str>,
    /// The SASL mechanism of the login.
    pub auth_mechanism: &'static str,
    /// What TLS says about the connection; `None` if it does not speak TLS.
    pub secured: Option<Arc<Secured>>,
    pub vhost: Arc<str>,
    pub connected_at_ms: u64,
    pub recv_bytes: u64,
    pub send_bytes: u64,
    pub node: Arc<str>,
    pub protocol: ProtocolRow,
}

/// A consumer of a queue.
#[derive(Clone, Debug)]
pub struct ConsumerRow {
    /// Its name in its protocol: the consumer tag, or the name of the link.
    pub tag: Arc<str>,
    pub queue: Arc<str>,
    /// True if deliveries are settled when they are sent.
    pub settled: bool,
    /// True if the queue accepts no other consumer.
    pub exclusive: bool,
    pub priority: i32,
    /// Whether this is the queue's single active consumer. `None` unless the queue has one.
    pub active: Option<bool>,
    /// The number of unsettled deliveries that it may have. 0 means any number.
    pub prefetch: u32,
    pub unsettled: u32,
    /// The time for which it may hold a delivery of a quorum queue, in milliseconds, as it was when the consumer attached.
    pub timeout_ms: u64,
    /// The arguments that the client has given, in a protocol that has them.
    pub arguments: Map,
}

/// Fields that only connections of one protocol have.
#[derive(Clone, Debug)]
pub enum ProtocolRow {
    Amqp10(Amqp10Row),
    Amqp091(Amqp091Row),
}

/// One kind of memory that clients can make the node use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    pub name: &'static str,
    /// The bytes in use now.
    pub used: u64,
    /// The approximate limit in bytes. `docs/operations.md` says what happens at the limit.
    pub limit: u64,
}

impl BudgetRow {
    /// Adds the rows of another shard to `sums`.
    pub fn add_all(sums: &mut Vec<Self>, more: Vec<Self>) {
        for row in more {
            match sums.iter_mut().find(|sum| sum.name == row.name) {
                Some(sum) => {
                    sum.used += row.used;
                    sum.limit += row.limit;
                }
                None => sums.push(row),
            }
        }
    }
}

/// The limits at which publishers are stopped, and what is free. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    pub memory_limit: u64,
    /// The free space in the file system of the data directory.
    pub disk_free: u64,
    pub disk_free_limit: u64,
}

/// A place in the list of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCursor {
    pub shard: usize,
    pub place: usize,
}

/// An overview of the node.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub product: String,
    pub product_version: String,
    pub sluice_version: String,
    pub cluster_name: String,
    pub node: String,
    /// The random identifier of the data directory, as 32 hexadecimal digits.
    pub node_id: String,
    /// The number of starts on the data directory, including this one.
    pub boots: u64,
    pub connections: u64,
    /// The most connections that the node accepts (`max_connections`). `None` means any number.
    pub connections_max: Option<u64>,
    pub sessions: u64,
    pub queues: u64,
    pub exchanges: u64,
    pub consumers: u64,
    pub messages_ready: u64,
    pub messages_unacknowledged: u64,
    /// The listeners: protocol, IP address and port. A Unix domain socket has `unix:` and its path, and port 0.
    pub listeners: Vec<(String, String, u16)>,
    /// The sum over the shards, with the logins over HTTP, which no shard sees.
    pub counters: Counters,
    /// The deprecated features that the settings deny (`deprecated_features.permit.NAME`).
    pub denied: Vec<Deprecated>,
    /// The longest time from the proposal of an entry of a Raft group to its commit, in milliseconds, during the last
    /// seconds.
    pub commit_latency_ms: u64,
    pub limits: ResourceLimits,
    /// All memory budgets.
    pub budgets: Vec<BudgetRow>,
    /// The number of AMQP connections that were closed before login, to make place for others. The listeners
    /// count them, not the shards.
    pub handshakes_evicted: u64,
    /// True while AMQP connections are not accepted, because the remaining file descriptors are reserved for
    /// storage and operators.
    pub accepting_paused: bool,
    pub uptime_ms: u64,
}

/// The number of logins over one protocol, or from one source, since it was last reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptsRow {
    pub protocol: Protocol,
    /// The address and the user, if the row is for one source. Both are empty in the row for all sources above the maximum.
    pub source: Option<(String, Arc<str>)>,
    pub attempts: AuthAttempts,
}

/// The active alarms: (`memory` or `disk`, node).
pub type Alarms = Vec<(&'static str, String)>;

/// A queue to declare.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub durable: bool,
    pub auto_delete: bool,
    pub arguments: Arguments,
}

/// An exchange to declare.
#[derive(Clone, Debug)]
pub struct ExchangeSpec {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Arguments,
}

/// The desk. Every call checks the permissions of the given identity by the table of verbs ([`crate::access::Verb`]).
pub trait Desk: Clone + Send + Sync + 'static {
    fn login(
        &self,
        user: &str,
        password: &Secret,
        peer: IpAddr,
    ) -> impl Future<Output = Result<Identity, DeskError>> + Send;

    /// Opens a connection to the broker inside this process, for a user who has logged in from `peer`. The returned socket
    /// is that of its client, which speaks AMQP 0.9.1 and logs in as EXTERNAL. In all else, this is a connection like any
    /// other: it counts in limits, people see it, and every permission is checked.
    ///
    /// # Errors
    /// `Impossible` if no file descriptor is free, or if the node stops.
    fn connect(
        &self,
        who: &Identity,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<OwnedFd, DeskError>> + Send;

    /// Returns the type of a new queue whose declaration names none.
    fn default_queue_type(&self) -> queue::QueueType;

    fn overview(&self, who: &Identity) -> impl Future<Output = Result<Overview, DeskError>> + Send;

    /// Returns the queues of one virtual host or of all, ordered by name: at most `limit` from `offset` on, and the
    /// total number.
    fn queues(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        offset: usize,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<QueueRow>, usize), DeskError>> + Send;

    /// Returns the queues of one virtual host or of all, ordered by name, without statistics. See [`Desk::numbered`].
    fn queue_records(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Arc<QueueRecord>>, DeskError>> + Send;

    /// Returns the queues with these ids, in this order, for [`Desk::numbered`]. Queues that were deleted, and queues
    /// that the user may not see, are left out.
    fn queues_by_id(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> impl Future<Output = Result<Vec<Arc<QueueRecord>>, DeskError>> + Send;

    /// Returns these queues with their statistics. A queue that was deleted meanwhile has none.
    fn numbered(
        &self,
        who: &Identity,
        records: &[Arc<QueueRecord>],
    ) -> impl Future<Output = Result<Vec<QueueRow>, DeskError>> + Send;

    fn queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<QueueRow, DeskError>> + Send;

    /// Declares a queue. Returns true if it was created, false if it existed with the same properties.
    fn declare_queue(
        &self,
        who: &Identity,
        spec: QueueSpec,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Deletes a queue. Returns the number of ready messages that were deleted with it.
    fn delete_queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> impl Future<Output = Result<u64, DeskError>> + Send;

    fn purge_queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<u64, DeskError>> + Send;

    /// Returns up to `count` messages of a stream from a place on, fewer if they are large. Nothing is consumed.
    fn browse(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        start: Start,
        count: u32,
    ) -> impl Future<Output = Result<Vec<BrowsedRow>, DeskError>> + Send;

    /// Returns the ready message at a position of a queue, counted from 1 in the order of delivery. Nothing is consumed.
    fn peek(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        position: u64,
    ) -> impl Future<Output = Result<PeekedRow, DeskError>> + Send;

    /// Sends dead letters of a queue back to where they died. A message leaves the queue only after its target has taken it.
    /// The messages that do not match stay in their places; they count as delivered before, but not as failed. One call is
    /// bounded in time and in the messages that it skips, and ends early if a target refuses a message: see
    /// [`RedriveEnd`]. It is carried out even if the future is dropped.
    ///
    /// # Errors
    /// The queue does not exist or is a stream, the user may not get its messages or publish to the first target, or
    /// there is no dead letter with [`Redrive::seq`].
    fn redrive(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        wanted: &Redrive,
    ) -> impl Future<Output = Result<Redriven, DeskError>> + Send;

    /// Writes a new base of a quorum queue's group, which replaces all entries up to it. Returns its index.
    fn checkpoint(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<u64, DeskError>> + Send;

    /// Frees memory of a quorum queue, and begins to page out its ready messages.
    fn reclaim_memory(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<Reclaimed, DeskError>> + Send;

    /// Changes the group of one quorum queue. Succeeds if nothing has to be done.
    fn change_member(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        node: &str,
        change: MemberChange,
    ) -> impl Future<Output = Result<(), DeskError>> + Send;

    /// Adds a member on this node to every quorum queue that has none there.
    ///
    /// # Errors
    /// The user may not do this, or there is no such node.
    fn grow(&self, who: &Identity, node: &str) -> Result<(), DeskError>;

    /// Removes the members of all quorum queues on this node. Succeeds if there are none.
    fn shrink(&self, who: &Identity, node: &str) -> impl Future<Output = Result<(), DeskError>> + Send;

    /// Distributes the leaders of all quorum queues evenly over the nodes.
    ///
    /// # Errors
    /// The user may not do this.
    fn rebalance(&self, who: &Identity) -> Result<(), DeskError>;

    /// Returns the virtual hosts that the user may see, in the order of their names.
    fn vhosts(&self, who: &Identity) -> impl Future<Output = Result<Vec<NamedVhost>, DeskError>> + Send;

    /// Returns all parameters of components that this broker does not have.
    ///
    /// # Errors
    /// The user may not see them.
    fn parameters(&self, who: &Identity) -> impl Future<Output = Result<Parameters, DeskError>> + Send;

    /// Returns what is in one virtual host or in all, for definitions. Other than the lists, it needs no permissions there.
    ///
    /// # Errors
    /// The user may not see everything.
    fn contents(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Contents, DeskError>> + Send;

    /// Carries out commands that definitions consist of: all of them, or none.
    ///
    /// # Errors
    /// The user may not do this, or a command is refused ([`CatalogError::InBatch`]).
    fn import(
        &self,
        who: &Identity,
        commands: Vec<Command>,
    ) -> impl Future<Output = Result<(), DeskError>> + Send;

    /// Sets a parameter to a value in JSON, or removes it. Returns true if it was created or removed.
    fn change_parameter(
        &self,
        who: &Identity,
        key: ParameterKey,
        value: Option<Arc<str>>,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Deletes a virtual host with everything in it, and closes its connections. Returns false if there is none of this name.
    ///
    /// # Errors
    /// It is protected, the user may not do this, or a queue could not be deleted in time. Then nobody can use the virtual
    /// host any more, and the deletion can be asked for again.
    fn delete_vhost(
        &self,
        who: &Identity,
        name: &str,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    fn exchanges(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Arc<Exchange>>, DeskError>> + Send;

    fn declare_exchange(
        &self,
        who: &Identity,
        spec: ExchangeSpec,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    fn delete_exchange(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    fn bindings(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Arc<Binding>>, DeskError>> + Send;

    fn bind(&self, who: &Identity, binding: Binding) -> impl Future<Output = Result<bool, DeskError>> + Send;

    fn unbind(
        &self,
        who: &Identity,
        binding: Binding,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Returns the policies, or the operator policies, of one virtual host or of all.
    fn policies(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        operator: bool,
    ) -> impl Future<Output = Result<Vec<Arc<Policy>>, DeskError>> + Send;

    /// Sets a policy. Returns true if it was created, false if one of this name existed.
    fn set_policy(
        &self,
        who: &Identity,
        policy: SetPolicy,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Clears a policy. Returns false if there was none.
    fn clear_policy(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        operator: bool,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Returns all users and their permissions.
    ///
    /// # Errors
    /// The user may not see them.
    fn users(&self, who: &Identity) -> Result<Arc<Users>, DeskError>;

    /// Hashes a new password with the node's algorithm (`password_hashing`). Without one, nobody can log in with the hash.
    fn hash_password(
        &self,
        who: &Identity,
        password: Option<Secret>,
    ) -> impl Future<Output = Result<PasswordHash, DeskError>> + Send;

    /// Returns the number of logins over each protocol, or from each source.
    ///
    /// # Errors
    /// There is no node of this name, or the user may not see them.
    fn auth_attempts(
        &self,
        who: &Identity,
        node: &str,
        by_source: bool,
    ) -> impl Future<Output = Result<Vec<AttemptsRow>, DeskError>> + Send;

    /// Lets [`Desk::auth_attempts`] begin with 0 again, and forgets all sources.
    ///
    /// # Errors
    /// There is no node of this name, or the user may not do this.
    fn reset_auth_attempts(
        &self,
        who: &Identity,
        node: &str,
    ) -> impl Future<Output = Result<(), DeskError>> + Send;

    /// Changes a user, permissions or a virtual host. Returns true if something was created or deleted, false if it existed
    /// before or there was nothing to delete.
    fn change_account(
        &self,
        who: &Identity,
        change: AccountChange,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Returns the connections that the user may see, ordered by name.
    fn connections(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<Vec<ConnectionRow>, DeskError>> + Send;

    /// Returns a connection by name, or `None` if the user may not see one of this name.
    fn connection(
        &self,
        who: &Identity,
        name: &str,
    ) -> impl Future<Output = Result<Option<ConnectionRow>, DeskError>> + Send;

    /// Closes a connection by name. Returns false if there is none.
    fn close_connection(
        &self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Explains why nothing moves: one cause, and the numbers that support it. The desk inspects the subject
    /// twice, with a pause between.
    fn explain(
        &self,
        who: &Identity,
        subject: Subject,
    ) -> impl Future<Output = Result<Explanation, DeskError>> + Send;

    /// Returns up to `limit` queues of all virtual hosts, from place `from` on, each with its place. If there are fewer
    /// than `limit` rows, they are the last ones. The next call starts at the place of the last row plus one. Queues
    /// may be created and deleted between the calls. The metrics use this call: their readers do not log in, and the
    /// operator decides who reaches the port. A desk without such rows refuses the call.
    fn queue_rows(
        &self,
        who: &Identity,
        from: usize,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(usize, QueueRow)>, DeskError>> + Send {
        let _ = (who, from, limit);
        async { Err(DeskError::Refused("statistics per queue are not available".into())) }
    }

    /// Returns the statistics of the queues with these ids, in any order. Queues that were deleted are left out. Like
    /// [`Desk::queue_rows`], this is for readers who see everything.
    fn sampled_queues(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> impl Future<Output = Result<Vec<QueueRow>, DeskError>> + Send;

    /// Returns those of the connections with these names that are open, in any order. See [`Desk::sampled_queues`].
    fn sampled_connections(
        &self,
        who: &Identity,
        names: Arc<HashSet<Arc<str>>>,
    ) -> impl Future<Output = Result<Vec<ConnectionRow>, DeskError>> + Send;

    /// Returns a part of all connections, and the place after it: `None` after the last part. A part may be empty.
    /// Connections may come and go between the calls. See [`Desk::sampled_queues`].
    fn connection_rows(
        &self,
        who: &Identity,
        from: ConnectionCursor,
    ) -> impl Future<Output = Result<(Vec<ConnectionRow>, Option<ConnectionCursor>), DeskError>> + Send;

    /// Returns all exchanges, and how many bindings begin at each. No binding counts for the default exchange. See
    /// [`Desk::sampled_queues`].
    fn exchange_rows(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<Vec<(Arc<Exchange>, usize)>, DeskError>> + Send;

    /// Returns the active alarms of all nodes.
    ///
    /// # Errors
    /// The user may not read them.
    fn alarms(&self, who: &Identity) -> Result<Alarms, DeskError>;

    /// Returns what is traced.
    ///
    /// # Errors
    /// The user may not read it.
    fn traces(&self, who: &Identity) -> Result<Traces, DeskError>;

    /// Returns true if all messages of the virtual host are traced. Whoever sees the virtual host may know that.
    fn is_traced(&self, vhost: &str) -> bool;

    /// Changes what is traced. When this returns, all shards do so. Returns false if there was no trace to end.
    fn change_traces(
        &self,
        who: &Identity,
        change: TraceChange,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;
}
