//! The desk, which is the front end for management in every protocol: the trait [`Desk`] and its rows.
//!
//! `node` implements it with mail to the shards. Requests are bounded in rows and time. `admin` serves it over HTTP.

pub mod amqp10_rows;

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use amqp10::sasl::Secret;
use bytes::Bytes;
pub use queue::Start;

use self::amqp10_rows::Amqp10Row;
use crate::access::Identity;
use crate::catalog::{Arguments, Binding, CatalogError, Exchange, Policy, QueueRecord, SetPolicy};
use crate::explain::{Explanation, Subject};
use crate::ids::QueueId;

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
}

/// A queue and its statistics.
#[derive(Clone, Debug)]
pub struct QueueRow {
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
    /// The node that the queue is on.
    pub node: Arc<str>,
}

impl QueueRow {
    /// Creates a row from the record in the catalog and the statistics.
    pub fn new(record: &QueueRecord, report: queue::Report, node: Arc<str>) -> Self {
        let name = |policy: &Option<Arc<Policy>>| policy.as_ref().map(|p| p.name.clone());
        Self {
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
            node,
        }
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

/// A connection.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// The name that people see: `peer:port -> host:port`.
    pub name: Arc<str>,
    pub user: Arc<str>,
    /// The SASL mechanism of the login.
    pub auth_mechanism: &'static str,
    pub vhost: Arc<str>,
    pub connected_at_ms: u64,
    pub recv_bytes: u64,
    pub send_bytes: u64,
    pub node: Arc<str>,
    pub protocol: ProtocolRow,
}

/// Fields that only connections of one protocol have.
#[derive(Clone, Debug)]
pub enum ProtocolRow {
    Amqp10(Amqp10Row),
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

/// An overview of the node.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub product: String,
    pub product_version: String,
    pub sluice_version: String,
    pub cluster_name: String,
    pub node: String,
    pub connections: u64,
    pub sessions: u64,
    pub queues: u64,
    pub exchanges: u64,
    pub consumers: u64,
    pub messages_ready: u64,
    pub messages_unacknowledged: u64,
    /// The listeners: protocol, IP address and port.
    pub listeners: Vec<(String, String, u16)>,
    pub counters: crate::counters::Counters,
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

    /// Returns the active alarms of all nodes.
    ///
    /// # Errors
    /// The user may not read them.
    fn alarms(&self, who: &Identity) -> Result<Alarms, DeskError>;
}
