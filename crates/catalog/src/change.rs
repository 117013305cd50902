//! The changes of the catalog.

use std::sync::Arc;

use super::{Binding, Exchange, KnownNode, ParameterKey, Policy, QueueRecord, VhostSettings};
use crate::access::{PasswordHash, Permissions, TopicPermissions, UserLimits};
use crate::ids::{NodeNumber, Origin, QueueId};

/// One change of the catalog, decided once and applied on every shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    QueueDeclared(Arc<QueueRecord>),
    QueueForgotten {
        queue: QueueId,
    },
    ExchangeDeclared(Arc<Exchange>),
    ExchangeDeleted {
        vhost: Arc<str>,
        name: Arc<str>,
    },
    Bound(Arc<Binding>),
    Unbound(Arc<Binding>),
    PolicySet(Arc<Policy>),
    PolicyCleared {
        vhost: Arc<str>,
        name: Arc<str>,
        operator: bool,
    },
    /// All incarnations below this one have been used, also by queues that are no longer stored.
    Incarnations {
        next: u64,
    },
    VhostAdded {
        name: Arc<str>,
    },
    /// The virtual host was deleted, with everything in it.
    VhostDeleted {
        name: Arc<str>,
    },
    UserSet {
        name: Arc<str>,
        hash: PasswordHash,
        tags: Arc<[String]>,
    },
    ParameterSet {
        key: ParameterKey,
        /// In JSON.
        value: Arc<str>,
    },
    ParameterCleared {
        key: ParameterKey,
    },
    VhostSet {
        name: Arc<str>,
        settings: Arc<VhostSettings>,
    },
    UserLimitsSet {
        user: Arc<str>,
        limits: UserLimits,
    },
    UserDeleted {
        name: Arc<str>,
    },
    PermissionsSet {
        user: Arc<str>,
        vhost: Arc<str>,
        permissions: Permissions,
    },
    PermissionsCleared {
        user: Arc<str>,
        vhost: Arc<str>,
    },
    TopicPermissionsSet {
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Arc<str>,
        permissions: TopicPermissions,
    },
    /// Those for one exchange were removed, or those for all exchanges of the virtual host.
    TopicPermissionsCleared {
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Option<Arc<str>>,
    },
    /// The node has had a user. This stays true even if there is none now.
    UsersBegun,
    /// The node has started, or this start of it was lost. What is not durable and belonged to it before is gone, with its bindings.
    NodeStarted {
        node: NodeNumber,
        origin: Origin,
    },
    /// The node has joined the cluster, and has this number for ever.
    NodeJoined {
        node: NodeNumber,
        known: KnownNode,
    },
    /// Entries have these proposals of this start of a node, and all below `low`. Only definitions have it: an entry has its own proposal.
    Asked {
        origin: Origin,
        low: u64,
        numbers: Box<[u64]>,
    },
}

impl Change {
    /// Returns true if the change concerns users or what they may use.
    pub fn is_of_users(&self) -> bool {
        matches!(
            self,
            Self::VhostDeleted { .. }
                | Self::VhostSet { .. }
                | Self::UserLimitsSet { .. }
                | Self::UserSet { .. }
                | Self::UserDeleted { .. }
                | Self::PermissionsSet { .. }
                | Self::PermissionsCleared { .. }
                | Self::TopicPermissionsSet { .. }
                | Self::TopicPermissionsCleared { .. }
                | Self::UsersBegun
        )
    }
}
