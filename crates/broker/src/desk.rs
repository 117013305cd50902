//! What management asks of the broker, whatever protocol it asks by: the trait [`Desk`] and its rows.
//!
//! `node` implements it with mail to the shards, bounded in rows and time; `admin` serves it over HTTP.

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

/// Why the desk did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskError {
    /// Wrong user or password, or not from there. The reason goes to the log, not to who asks.
    LoginRefused(String),
    /// He may not.
    AccessRefused(String),
    Catalog(CatalogError),
    /// The queue said no: in use, not empty, locked.
    Refused(String),
    /// No answer within a second: stale data is not given out as fresh.
    TimedOut,
}

impl DeskError {
    /// Only the messages of a stream can be looked at where they are.
    pub fn no_stream(queue: &QueueRecord) -> Self {
        let (name, vhost, kind) = (&queue.name, &queue.vhost, queue.kind());
        Self::Refused(format!(
            "queue '{name}' in vhost '{vhost}' is a {kind} queue: only the messages of a stream can be browsed"
        ))
    }
}

/// A queue and its numbers.
#[derive(Clone, Debug)]
pub struct QueueRow {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub durable: bool,
    pub exclusive: bool,
    pub auto_delete: bool,
    pub arguments: Arguments,
    /// Names of the policies that count for it.
    pub policy: Option<Arc<str>>,
    pub operator_policy: Option<Arc<str>>,
    /// What the two come to together.
    pub effective_policy: Arguments,
    /// `classic` or `stream`.
    pub kind: &'static str,
    pub report: queue::Report,
    /// The node it lives on.
    pub node: Arc<str>,
}

impl QueueRow {
    /// What the catalog says of a queue, with its numbers.
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
    /// Where it was published to.
    pub exchange: Arc<str>,
    pub routing_key: Arc<str>,
    /// All of it, encoded, as a consumer of the stream gets it.
    pub message: Bytes,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// `peer:port -> host:port`.
    pub name: Arc<str>,
    pub user: Arc<str>,
    /// The SASL mechanism that the user has logged in by.
    pub auth_mechanism: &'static str,
    pub vhost: Arc<str>,
    pub connected_at_ms: u64,
    pub recv_bytes: u64,
    pub send_bytes: u64,
    pub node: Arc<str>,
    pub protocol: ProtocolRow,
}

/// What only connections of one protocol have.
#[derive(Clone, Debug)]
pub enum ProtocolRow {
    Amqp10(Amqp10Row),
}

/// Memory that clients can make the node take, of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    pub name: &'static str,
    /// Bytes that are taken now.
    pub used: u64,
    /// Bytes that may be taken, about; `docs/operations.md` says what happens there.
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

/// The node at a glance.
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
    /// `(protocol, ip, port)`.
    pub listeners: Vec<(String, String, u16)>,
    pub counters: crate::counters::Counters,
    /// Every budget of memory.
    pub budgets: Vec<BudgetRow>,
    /// AMQP connections closed before they logged in, to make room for others. No shard counts them: the listeners do.
    pub handshakes_evicted: u64,
    /// No AMQP connection is accepted: the file descriptors that are left are for storage and operators.
    pub accepting_paused: bool,
    pub uptime_ms: u64,
}

/// Alarms in force: (`memory` or `disk`, node).
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

/// The desk. Every call asks the one table ([`crate::access::Verb`]) for the identity given.
pub trait Desk: Clone + Send + Sync + 'static {
    fn login(
        &self,
        user: &str,
        password: &Secret,
        peer: IpAddr,
    ) -> impl Future<Output = Result<Identity, DeskError>> + Send;

    fn overview(&self, who: &Identity) -> impl Future<Output = Result<Overview, DeskError>> + Send;

    /// Queues of one virtual host or of all, in the order of their names; at most `limit` from `offset` on,
    /// and how many there are.
    fn queues(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        offset: usize,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<QueueRow>, usize), DeskError>> + Send;

    /// The queues of one virtual host or of all, in the order of their names, without their numbers: for
    /// [`Desk::numbered`].
    fn queue_records(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Arc<QueueRecord>>, DeskError>> + Send;

    /// The queues with these ids, in this order, for [`Desk::numbered`]. Those that were deleted, and those that the user does
    /// not see, are left out.
    fn queues_by_id(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> impl Future<Output = Result<Vec<Arc<QueueRecord>>, DeskError>> + Send;

    /// These queues with their numbers. One that has been deleted meanwhile has none.
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

    /// True when it was created, false when it was there and the same.
    fn declare_queue(
        &self,
        who: &Identity,
        spec: QueueSpec,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Returns how many ready messages went with it.
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

    /// Up to `count` messages of a stream from a place on, and fewer if they are large. Nobody consumes them.
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

    /// Policies, or operator policies, of one virtual host or of all.
    fn policies(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        operator: bool,
    ) -> impl Future<Output = Result<Vec<Arc<Policy>>, DeskError>> + Send;

    /// True when it was created, false when there was one of its name.
    fn set_policy(
        &self,
        who: &Identity,
        policy: SetPolicy,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// False when there was none.
    fn clear_policy(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        operator: bool,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// The connections that the user may see, in the order of their names.
    fn connections(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<Vec<ConnectionRow>, DeskError>> + Send;

    /// A connection by name; `None` if the user sees none of this name.
    fn connection(
        &self,
        who: &Identity,
        name: &str,
    ) -> impl Future<Output = Result<Option<ConnectionRow>, DeskError>> + Send;

    /// Closes a connection by name; false if there is none.
    fn close_connection(
        &self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> impl Future<Output = Result<bool, DeskError>> + Send;

    /// Why nothing moves there: one cause, and the numbers behind it. Takes as long as two looks.
    fn explain(
        &self,
        who: &Identity,
        subject: Subject,
    ) -> impl Future<Output = Result<Explanation, DeskError>> + Send;

    /// Returns up to `limit` queues of all virtual hosts, from place `from` on, each with its place. Fewer than `limit` rows
    /// are the last ones. The next call begins at the place of the last row plus one; queues may come and go in between.
    /// The metrics use this call: their readers do not log in, and the operator decides who reaches the port. A desk
    /// without such rows refuses it.
    fn queue_rows(
        &self,
        who: &Identity,
        from: usize,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(usize, QueueRow)>, DeskError>> + Send {
        let _ = (who, from, limit);
        async { Err(DeskError::Refused("figures per queue are not available".into())) }
    }

    /// Alarms in force anywhere.
    ///
    /// # Errors
    /// The user may not read them.
    fn alarms(&self, who: &Identity) -> Result<Alarms, DeskError>;
}
