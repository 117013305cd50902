//! The trait of the admin API.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use amqp10::sasl::Secret;
use catalog::ExchangeId;
use catalog::access::{Identity, PasswordHash, Permissions, Users};
use catalog::ids::QueueId;
use catalog::{AccountChange, Binding, Command, ParameterKey, Parameters, Policy, QueueRecord, SetPolicy};
use queue::{Peek, Start};

use super::{
    AdminError, Alarms, AttemptsRow, BrowsedRow, ConnectionCursor, ConnectionRow, Contents, ExchangeRow,
    ExchangeSpec, MemberChange, Move, Moved, NamedVhost, Overview, PeekedPart, QueueRow, QueueSpec,
    Reclaimed, VhostNumbers,
};
use crate::exchange_counts::ExchangeCounts;
use crate::explain::{AddressFacts, Explanation, Subject, Troubles};
use crate::traces::{TraceChange, Traces};

/// The admin API. Every call checks the permissions of the given identity by the table of verbs ([`catalog::access::Verb`]).
pub trait AdminApi: Clone + Send + Sync + 'static {
    fn login(
        &self,
        user: &str,
        password: &Secret,
        peer: IpAddr,
    ) -> impl Future<Output = Result<Identity, AdminError>> + Send;

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
    ) -> impl Future<Output = Result<OwnedFd, AdminError>> + Send;

    /// Returns the type of a new queue whose declaration names none.
    fn default_queue_type(&self) -> queue::QueueType;

    /// See [`DeclareRules::is_left_over`](catalog::DeclareRules::is_left_over).
    fn is_left_over_exchange(&self, vhost: &str, name: &str) -> bool;

    fn overview(&self, who: &Identity) -> impl Future<Output = Result<Overview, AdminError>> + Send;

    /// Returns the queues of one virtual host or of all, ordered by name: at most `limit` from `offset` on, and the
    /// total number.
    fn queues(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        offset: usize,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<QueueRow>, usize), AdminError>> + Send;

    /// Returns the queues of one virtual host or of all, ordered by name, without statistics. See [`AdminApi::numbered`].
    fn queue_records(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Arc<QueueRecord>>, AdminError>> + Send;

    /// Returns the queues with these ids, in this order, for [`AdminApi::numbered`]. Queues that were deleted, and queues
    /// that the user may not see, are left out.
    fn queues_by_id(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> impl Future<Output = Result<Vec<Arc<QueueRecord>>, AdminError>> + Send;

    /// Returns these queues with their statistics. A queue that was deleted meanwhile has none.
    fn numbered(
        &self,
        who: &Identity,
        records: &[Arc<QueueRecord>],
    ) -> impl Future<Output = Result<Vec<QueueRow>, AdminError>> + Send;

    fn queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<QueueRow, AdminError>> + Send;

    /// Declares a queue. Returns true if it was created, false if it existed with the same properties.
    fn declare_queue(
        &self,
        who: &Identity,
        spec: QueueSpec,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Deletes a queue. Returns the number of ready messages that were deleted with it.
    fn delete_queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> impl Future<Output = Result<u64, AdminError>> + Send;

    fn purge_queue(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<u64, AdminError>> + Send;

    /// Returns up to `count` messages of a stream from a place on, fewer if they are large. Nothing is consumed.
    fn browse(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        start: Start,
        count: u32,
    ) -> impl Future<Output = Result<Vec<BrowsedRow>, AdminError>> + Send;

    /// Returns ready messages of a queue from a position on, fewer than wanted if they are large or on the disk. Nothing is
    /// consumed.
    fn peek(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        peek: Peek,
    ) -> impl Future<Output = Result<PeekedPart, AdminError>> + Send;

    /// Moves messages of a queue to a queue or an exchange, or sends dead letters back to where they died. A message leaves the
    /// queue only after its target has taken it. The messages that do not match stay in their places; they count as
    /// delivered before, but not as failed. One call is bounded in time and in the messages that it skips, and ends early if a
    /// target refuses a message: see [`MoveEnd`]. It is carried out even if the future is dropped.
    ///
    /// # Errors
    /// The queue does not exist or is a stream, the user may not get its messages or publish to the first target, or
    /// no ready message with [`Move::seq`] matches.
    fn move_messages(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        wanted: &Move,
    ) -> impl Future<Output = Result<Moved, AdminError>> + Send;

    /// Writes a new base of a quorum queue's group, which replaces all entries up to it. Returns its index.
    fn checkpoint(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<u64, AdminError>> + Send;

    /// Frees memory of a quorum queue, and begins to page out its ready messages.
    fn reclaim_memory(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> impl Future<Output = Result<Reclaimed, AdminError>> + Send;

    /// Changes the group of one quorum queue. Succeeds if nothing has to be done.
    fn change_member(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        node: &str,
        change: MemberChange,
    ) -> impl Future<Output = Result<(), AdminError>> + Send;

    /// Adds a member on this node to every quorum queue that has none there.
    ///
    /// # Errors
    /// The user may not do this, or there is no such node.
    fn grow(&self, who: &Identity, node: &str) -> Result<(), AdminError>;

    /// Removes the members of all quorum queues on this node. Succeeds if there are none.
    fn shrink(&self, who: &Identity, node: &str) -> impl Future<Output = Result<(), AdminError>> + Send;

    /// Distributes the leaders of all quorum queues evenly over the nodes.
    ///
    /// # Errors
    /// The user may not do this.
    fn rebalance(&self, who: &Identity) -> Result<(), AdminError>;

    /// Returns the virtual hosts that the user may see, in the order of their names.
    fn vhosts(&self, who: &Identity) -> impl Future<Output = Result<Vec<NamedVhost>, AdminError>> + Send;

    /// Returns the statistics of the virtual hosts that the user may see, in any order. They are the sums over all queues and
    /// connections, which are visited for it.
    fn vhost_numbers(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<HashMap<Arc<str>, VhostNumbers>, AdminError>> + Send;

    /// Returns all parameters of components that this broker does not have.
    ///
    /// # Errors
    /// The user may not see them.
    fn parameters(&self, who: &Identity) -> impl Future<Output = Result<Parameters, AdminError>> + Send;

    /// Returns what is in one virtual host or in all, for definitions. Other than the lists, it needs no permissions there.
    ///
    /// # Errors
    /// The user may not see everything.
    fn contents(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Contents, AdminError>> + Send;

    /// Carries out commands that definitions consist of: all of them, or none.
    ///
    /// # Errors
    /// The user may not do this, or a command is refused ([`CatalogError::InBatch`]).
    fn import(
        &self,
        who: &Identity,
        commands: Vec<Command>,
    ) -> impl Future<Output = Result<(), AdminError>> + Send;

    /// Sets a parameter to a value in JSON, or removes it. Returns true if it was created or removed.
    fn change_parameter(
        &self,
        who: &Identity,
        key: ParameterKey,
        value: Option<Arc<str>>,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Deletes a virtual host with everything in it, and closes its connections. Returns false if there is none of this name.
    ///
    /// # Errors
    /// It is protected, the user may not do this, or a queue could not be deleted in time. Then nobody can use the virtual
    /// host any more, and the deletion can be asked for again.
    fn delete_vhost(
        &self,
        who: &Identity,
        name: &str,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Returns the exchanges of one virtual host or of all, in the order of their names.
    fn exchanges(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<ExchangeRow>, AdminError>> + Send;

    fn declare_exchange(
        &self,
        who: &Identity,
        spec: ExchangeSpec,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    fn delete_exchange(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        if_unused: bool,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    fn bindings(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Arc<Binding>>, AdminError>> + Send;

    fn bind(&self, who: &Identity, binding: Binding)
    -> impl Future<Output = Result<bool, AdminError>> + Send;

    fn unbind(
        &self,
        who: &Identity,
        binding: Binding,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Returns the policies, or the operator policies, of one virtual host or of all.
    fn policies(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        operator: bool,
    ) -> impl Future<Output = Result<Vec<Arc<Policy>>, AdminError>> + Send;

    /// Sets a policy. Returns true if it was created, false if one of this name existed.
    fn set_policy(
        &self,
        who: &Identity,
        policy: SetPolicy,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Clears a policy. Returns false if there was none.
    fn clear_policy(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        operator: bool,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Returns all users and their permissions.
    ///
    /// # Errors
    /// The user may not see them.
    fn users(&self, who: &Identity) -> Result<Arc<Users>, AdminError>;

    /// Returns the permissions of the caller, by virtual host. Returns `None` if the catalog does not decide them.
    fn own_permissions(&self, who: &Identity) -> Option<Vec<(Arc<str>, Permissions)>>;

    /// Hashes a new password with the node's algorithm (`password_hashing`). Without one, nobody can log in with the hash.
    fn hash_password(
        &self,
        who: &Identity,
        password: Option<Secret>,
    ) -> impl Future<Output = Result<PasswordHash, AdminError>> + Send;

    /// Returns the number of logins over each protocol, or from each source.
    ///
    /// # Errors
    /// There is no node of this name, or the user may not see them.
    fn auth_attempts(
        &self,
        who: &Identity,
        node: &str,
        by_source: bool,
    ) -> impl Future<Output = Result<Vec<AttemptsRow>, AdminError>> + Send;

    /// Lets [`AdminApi::auth_attempts`] begin with 0 again, and forgets all sources.
    ///
    /// # Errors
    /// There is no node of this name, or the user may not do this.
    fn reset_auth_attempts(
        &self,
        who: &Identity,
        node: &str,
    ) -> impl Future<Output = Result<(), AdminError>> + Send;

    /// Changes a user, permissions or a virtual host. Returns true if something was created or deleted, false if it existed
    /// before or there was nothing to delete.
    fn change_account(
        &self,
        who: &Identity,
        change: AccountChange,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Returns the connections that the user may see, ordered by name.
    fn connections(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<Vec<ConnectionRow>, AdminError>> + Send;

    /// Returns a connection by name, or `None` if the user may not see one of this name.
    fn connection(
        &self,
        who: &Identity,
        name: &str,
    ) -> impl Future<Output = Result<Option<ConnectionRow>, AdminError>> + Send;

    /// Closes a connection by name. Returns false if there is none.
    fn close_connection(
        &self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;

    /// Explains why nothing moves: one cause, and the numbers that support it. The admin API inspects the subject
    /// twice, with a pause between.
    fn explain(
        &self,
        who: &Identity,
        subject: Subject,
    ) -> impl Future<Output = Result<Explanation, AdminError>> + Send;

    /// Returns everything that is not well, as far as the user may see it. Certificates are not known here.
    fn troubles(&self, who: &Identity) -> impl Future<Output = Result<Troubles, AdminError>> + Send;

    /// Returns what is known about the logins of an address.
    fn explain_address(
        &self,
        who: &Identity,
        address: IpAddr,
    ) -> impl Future<Output = Result<AddressFacts, AdminError>> + Send;

    /// Returns up to `limit` queues of all virtual hosts, from place `from` on, each with its place. If there are fewer
    /// than `limit` rows, they are the last ones. The next call starts at the place of the last row plus one. Queues
    /// may be created and deleted between the calls. The metrics use this call: their readers do not log in, and the
    /// operator decides who reaches the port. An admin API without such rows refuses the call.
    fn queue_rows(
        &self,
        who: &Identity,
        from: usize,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(usize, QueueRow)>, AdminError>> + Send {
        let _ = (who, from, limit);
        async { Err(AdminError::Refused("statistics per queue are not available".into())) }
    }

    /// Returns the statistics of the queues with these ids, in any order. Queues that were deleted are left out. Like
    /// [`AdminApi::queue_rows`], this is for readers who see everything.
    fn sampled_queues(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> impl Future<Output = Result<Vec<QueueRow>, AdminError>> + Send;

    /// Returns the queues that have had messages since the start, with how many were published to each and delivered from it
    /// together. See [`AdminApi::sampled_queues`].
    fn used_queues(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<Vec<(QueueId, u64)>, AdminError>> + Send;

    /// Returns those of the connections with these names that are open, in any order. See [`AdminApi::sampled_queues`].
    fn sampled_connections(
        &self,
        who: &Identity,
        names: Arc<HashSet<Arc<str>>>,
    ) -> impl Future<Output = Result<Vec<ConnectionRow>, AdminError>> + Send;

    /// Returns a part of all connections, and the place after it: `None` after the last part. A part may be empty.
    /// Connections may come and go between the calls. See [`AdminApi::sampled_queues`].
    fn connection_rows(
        &self,
        who: &Identity,
        from: ConnectionCursor,
    ) -> impl Future<Output = Result<(Vec<ConnectionRow>, Option<ConnectionCursor>), AdminError>> + Send;

    /// Returns all exchanges. See [`AdminApi::sampled_queues`].
    fn exchange_rows(
        &self,
        who: &Identity,
    ) -> impl Future<Output = Result<Vec<ExchangeRow>, AdminError>> + Send;

    /// Returns the counts of these exchanges, in this order. Those of an exchange that was deleted are 0. See
    /// [`AdminApi::sampled_queues`].
    fn sampled_exchanges(
        &self,
        who: &Identity,
        ids: &[ExchangeId],
    ) -> impl Future<Output = Result<Vec<ExchangeCounts>, AdminError>> + Send;

    /// Returns the active alarms of all nodes.
    ///
    /// # Errors
    /// The user may not read them.
    fn alarms(&self, who: &Identity) -> Result<Alarms, AdminError>;

    /// Returns what is traced.
    ///
    /// # Errors
    /// The user may not read it.
    fn traces(&self, who: &Identity) -> Result<Traces, AdminError>;

    /// Returns true if all messages of the virtual host are traced. Whoever sees the virtual host may know that.
    fn is_traced(&self, vhost: &str) -> bool;

    /// Changes what is traced. When this returns, all shards do so. Returns false if there was no trace to end.
    fn change_traces(
        &self,
        who: &Identity,
        change: TraceChange,
    ) -> impl Future<Output = Result<bool, AdminError>> + Send;
}
