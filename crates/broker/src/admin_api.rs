//! What the admin API answers: its rows, its errors, and what it takes. The admin API itself is `node::AdminApi`.

pub mod amqp091_rows;
pub mod amqp10_rows;
mod moving;
mod passed_counts;
mod quorum;
mod totals;

use std::sync::Arc;

use amqp10::Map;
use bytes::Bytes;
use catalog::ExchangeId;
use catalog::access::{AuthAttempts, Authority, Protocol, UserRef};
use catalog::ids::{QueueId, ShardId};
use catalog::{Arguments, Binding, CatalogError, Exchange, Policy, QueueRecord, VhostSettings};
pub use message::DeathReason;
pub use queue::{Depth, Peek, Start};

use self::amqp10_rows::Amqp10Row;
use self::amqp091_rows::Amqp091Row;
pub use self::moving::{Move, MoveEnd, MoveRefusal, MoveTo, Moved, Redrive, RedriveTo, Which};
pub use self::passed_counts::{PassedCounts, VhostNumbers};
pub use self::quorum::{GroupRow, MemberChange, PeekedPart, PeekedRow, Reclaimed, ShownMessage};
pub use self::totals::{Churn, NodeTotals, OfOthers, VhostSums};
use crate::counters::{Counters, Deprecated};
use crate::exchange_counts::ExchangeCounts;
use crate::load::BusyTime;
use crate::secured::Secured;

/// Why the admin API refuses or fails a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminError {
    /// The login is refused: unknown user, wrong password, or an address that the user may not log in from.
    /// The reason is logged and not sent to the caller.
    LoginRefused(String),
    /// The login is refused, and many logins of its address have failed. The caller logs it at once, and is told after `ms`
    /// milliseconds.
    LoginWaits {
        why: String,
        ms: u64,
    },
    /// The login is refused, and too many failures of its address wait for their answers already. The socket is closed.
    LoginClosed(String),
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

impl AdminError {
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueNumbers {
    pub report: queue::Report,
    /// The state of its Raft group. `None` unless it is a quorum queue whose group runs.
    pub group: Option<GroupRow>,
}

/// From where the statistics of a queue are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The queue is on this node, or on none.
    Here,
    /// The queue is on another node, which has said them.
    Elsewhere,
    /// The queue is on another node that was not asked, is out of reach, or did not answer in time. There are no statistics.
    Unknown,
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
    /// What is configured of a quorum queue; `None` for other types.
    pub quorum: Option<queue::QuorumConfig>,
    /// True if the queue is set to refuse messages at its length limit, instead of removing the oldest ones.
    pub is_rejecting: bool,
    pub report: queue::Report,
    /// See [`QueueNumbers::group`].
    pub group: Option<GroupRow>,
    /// The node that the queue is on.
    pub node: Arc<str>,
    pub seen: Seen,
}

impl QueueRow {
    /// Creates a row from the record in the catalog and the statistics.
    pub fn new(record: &QueueRecord, numbers: QueueNumbers, (node, seen): (Arc<str>, Seen)) -> Self {
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
            quorum: record.config.quorum,
            is_rejecting: record.config.overflow != queue::Overflow::DropHead,
            report,
            group,
            node,
            seen,
        }
    }

    /// Returns true if there are no statistics. See [`Seen::Unknown`].
    pub fn is_unknown(&self) -> bool {
        self.seen == Seen::Unknown
    }

    /// Returns true if the queue is a quorum queue.
    pub fn is_quorum(&self) -> bool {
        self.kind == queue::QueueType::Quorum.name()
    }

    pub fn is_stream(&self) -> bool {
        self.kind == queue::QueueType::Stream.name()
    }

    /// Returns true if the queue has a leader and members, as quorum queues and streams do.
    pub fn has_members(&self) -> bool {
        self.is_quorum() || self.is_stream()
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

/// An exchange and its statistics.
#[derive(Clone, Debug)]
pub struct ExchangeRow {
    /// An exchange that is declared again has another id.
    pub id: ExchangeId,
    pub exchange: Arc<Exchange>,
    /// The number of bindings that begin at the exchange. 0 for the default exchange.
    pub bindings: usize,
    /// The sums over all shards.
    pub counts: ExchangeCounts,
}

/// A connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionRow {
    /// The name that people see: `peer:port -> host:port`.
    pub name: Arc<str>,
    pub user: Arc<str>,
    /// The backend that says what the user may do.
    pub authority: Authority,
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

impl ConnectionRow {
    /// Returns whose connection it is.
    pub fn owner(&self) -> UserRef<'_> {
        UserRef { authority: self.authority, name: &self.user }
    }
}

/// A consumer of a queue.
#[derive(Clone, Debug, PartialEq)]
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
    /// True if it only looks at the messages of its queue.
    pub browses: bool,
    /// The number of unsettled deliveries that it may have. 0 means any number.
    pub prefetch: u32,
    pub unsettled: u32,
    /// The age of the oldest unsettled delivery, in milliseconds. `None` if there is none.
    pub unsettled_age_ms: Option<u64>,
    /// The time for which it may hold a delivery of a quorum queue, in milliseconds, as it was when the consumer attached.
    pub timeout_ms: u64,
    /// The arguments that the client has given, in a protocol that has them.
    pub arguments: Map,
}

/// Fields that only connections of one protocol have.
#[derive(Clone, Debug, PartialEq)]
pub enum ProtocolRow {
    Amqp10(Amqp10Row),
    Amqp091(Amqp091Row),
}

/// A shard of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardRow {
    pub number: ShardId,
    pub busy: BusyTime,
    /// True if it has no time left for more work: see [`crate::load::Load::is_at_limit`].
    pub is_at_limit: bool,
    pub connections: u64,
    /// The number of queues and streams whose home it is.
    pub queues: u64,
}

/// One kind of memory that clients can make the node use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    pub name: &'static str,
    /// The bytes in use now.
    pub used: u64,
    /// The approximate limit in bytes. `docs/operations/size.md` says what happens at the limit.
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

/// How much data of unknown queues a start has found and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnclaimedSums {
    /// The number of unknown queues.
    pub owners: u64,
    pub bytes: u64,
}

/// An overview of the node.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub product: String,
    pub product_version: String,
    pub sluice_version: String,
    pub cluster_name: String,
    /// The tags of the cluster, in JSON. `None` if nobody has set them.
    pub cluster_tags: Option<Arc<str>>,
    pub node: String,
    /// The random identifier of the data directory, as 32 hexadecimal digits.
    pub node_id: String,
    /// The identifier of the cluster, as 32 hexadecimal digits. Of a node that is alone, that of its data directory.
    pub cluster_id: String,
    /// The number of starts on the data directory, including this one.
    pub boots: u64,
    /// What this start has found of queues that nobody knows, although nothing says that they were deleted.
    pub unclaimed: UnclaimedSums,
    pub connections: u64,
    /// The most connections that the node accepts (`max_connections`). `None` means any number.
    pub connections_max: Option<u64>,
    /// The open sessions of AMQP 1.0, and the open channels of AMQP 0.9.1.
    pub sessions: u64,
    pub channels: u64,
    pub queues: u64,
    pub exchanges: u64,
    pub consumers: u64,
    /// The sum over all queues and streams.
    pub depth: Depth,
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
    /// All shards, in the order of their numbers.
    pub shards: Vec<ShardRow>,
    /// The number of AMQP connections that were closed before login, to make place for others. The listeners
    /// count them, not the shards.
    pub handshakes_evicted: u64,
    /// True while AMQP connections are not accepted, because the remaining file descriptors are reserved for
    /// storage and operators.
    pub accepting_paused: bool,
    pub uptime_ms: u64,
    /// True if the user may not read the statistics of all virtual hosts. Then the numbers here are not for their eyes.
    pub limited: bool,
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
