//! What an operator says about a virtual host: who it is for, and what it may have.

use std::sync::Arc;

use queue::QueueType;

use super::{CatalogError, Policy, SetPolicy};
use crate::access::{Maximum, PasswordHash, Permissions};
use crate::pattern::Pattern;

/// The settings of a virtual host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VhostSettings {
    pub description: Arc<str>,
    pub tags: Arc<[String]>,
    /// The type of a new queue whose declaration names none. `None`: the node's (`default_queue_type`).
    pub default_queue_type: Option<QueueType>,
    /// True if the virtual host may not be deleted.
    pub protected: bool,
    /// The most open connections to the virtual host (`max-connections`).
    pub max_connections: Maximum,
    /// The most queues in the virtual host (`max-queues`).
    pub max_queues: Maximum,
    /// True while the virtual host is being deleted. Nobody can use it any more, and its queues are deleted one after the
    /// other. If the node stops meanwhile, the deletion can be asked for again.
    pub deleting: bool,
}

/// A change of some of the settings. `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VhostPatch {
    pub description: Option<Arc<str>>,
    pub tags: Option<Arc<[String]>>,
    pub default_queue_type: Option<Option<QueueType>>,
    pub protected: Option<bool>,
    pub max_connections: Option<Maximum>,
    pub max_queues: Option<Maximum>,
}

impl VhostPatch {
    /// Returns the settings with this change.
    pub(crate) fn applied_to(self, settings: &VhostSettings) -> VhostSettings {
        VhostSettings {
            description: self.description.unwrap_or_else(|| settings.description.clone()),
            tags: self.tags.unwrap_or_else(|| settings.tags.clone()),
            default_queue_type: self.default_queue_type.unwrap_or(settings.default_queue_type),
            protected: self.protected.unwrap_or(settings.protected),
            max_connections: self.max_connections.unwrap_or(settings.max_connections),
            max_queues: self.max_queues.unwrap_or(settings.max_queues),
            deleting: settings.deleting,
        }
    }
}

/// What a new virtual host gets from the configuration. It is not stored as such: a virtual host keeps what it got.
#[derive(Clone, Debug, Default)]
pub struct VhostDefaults {
    /// The limits (`default_limits.vhosts.*`). The first that match the name of the virtual host count.
    pub limits: Vec<DefaultLimits>,
    /// The users who get permissions (`default_users.*`).
    pub users: Vec<DefaultUser>,
    /// The operator policies (`default_policies.operator.*`).
    pub operator_policies: Vec<DefaultPolicy>,
}

/// The limits of virtual hosts with certain names.
#[derive(Clone, Debug)]
pub struct DefaultLimits {
    pub vhosts: Pattern,
    pub max_connections: Maximum,
    pub max_queues: Maximum,
}

/// A user who gets permissions in new virtual hosts with certain names. The user is created if there is none.
#[derive(Clone, Debug)]
pub struct DefaultUser {
    pub name: Arc<str>,
    pub vhosts: Pattern,
    pub hash: PasswordHash,
    pub tags: Arc<[String]>,
    pub permissions: Permissions,
}

/// An operator policy that new virtual hosts with certain names get.
#[derive(Clone, Debug)]
pub struct DefaultPolicy {
    vhosts: Pattern,
    /// Its virtual host is a placeholder.
    policy: Policy,
}

impl DefaultPolicy {
    /// Checks a policy for the virtual hosts that `vhosts` matches. Its own `vhost` does not matter.
    ///
    /// # Errors
    /// What is wrong with the policy.
    pub fn new(vhosts: Pattern, policy: SetPolicy) -> Result<Self, CatalogError> {
        Ok(Self { vhosts, policy: SetPolicy { operator: true, ..policy }.check()? })
    }
}

impl VhostDefaults {
    /// Returns the settings that a new virtual host of this name begins with.
    pub(super) fn settings(&self, vhost: &str) -> VhostSettings {
        let limits = self.limits.iter().find(|limits| limits.vhosts.is_match(vhost));
        VhostSettings {
            max_connections: limits.and_then(|limits| limits.max_connections),
            max_queues: limits.and_then(|limits| limits.max_queues),
            ..VhostSettings::default()
        }
    }

    /// Returns the operator policies that a new virtual host of this name gets.
    pub(super) fn operator_policies(&self, vhost: &Arc<str>) -> impl Iterator<Item = Policy> {
        let matching = self.operator_policies.iter().filter(|of| of.vhosts.is_match(vhost));
        matching.map(|of| Policy { vhost: vhost.clone(), ..of.policy.clone() })
    }

    /// Returns the users who get permissions in a new virtual host of this name.
    pub(super) fn users(&self, vhost: &str) -> impl Iterator<Item = &DefaultUser> {
        self.users.iter().filter(move |user| user.vhosts.is_match(vhost))
    }
}
