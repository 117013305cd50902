//! What the configuration says about the catalog: rules for what is declared, and what a node and its virtual hosts begin with.

use std::sync::Arc;

use super::{
    Arguments, Catalog, Change, DefaultUser, Destination, Exchange, ExchangeKind, Vhost, VhostDefaults,
    VhostSettings,
};
use crate::access::{Access, Maximum};
use crate::{EVENT_EXCHANGE, LOG_EXCHANGE};

/// The operator's rules for what is declared. They are settings, not changes, so they are never stored.
#[derive(Clone, Debug)]
pub struct DeclareRules {
    /// What a new virtual host gets.
    pub vhost_defaults: Arc<VhostDefaults>,
    /// The virtual host of the exchange that gets events (`event_exchange.vhost`). `None` if events are off: then there is no
    /// such exchange.
    pub event_vhost: Option<Arc<str>>,
    /// The virtual host of the exchange that gets the lines of the log. `None` if there is none (`log.exchange`).
    pub log_vhost: Option<Arc<str>>,
    /// The type of a new queue whose declaration names none (`default_queue_type`). Queues that are exclusive, deleted
    /// automatically or not durable are classic in any case, because no other type can be.
    pub default_type: queue::QueueType,
    /// True if a declaration of a quorum queue that exists may differ in properties that only classic queues have
    /// (`quorum_queue.property_equivalence.relaxed_checks_on_redeclaration`). So clients that were written for a classic queue
    /// need no change.
    pub relaxed_redeclaration: bool,
    /// True if queues may be neither durable nor exclusive (`deprecated_features.permit.transient_nonexcl_queues`).
    pub permit_transient: bool,
    /// The most queues (`cluster_queue_limit`), exchanges (`cluster_exchange_limit`) and virtual hosts
    /// (`vhost_max`) of the node.
    pub queues_max: Maximum,
    pub exchanges_max: Maximum,
    pub vhosts_max: Maximum,
}

impl Default for DeclareRules {
    fn default() -> Self {
        Self {
            vhost_defaults: Arc::default(),
            event_vhost: None,
            log_vhost: None,
            default_type: queue::QueueType::Classic,
            relaxed_redeclaration: false,
            permit_transient: true,
            queues_max: None,
            exchanges_max: None,
            vhosts_max: None,
        }
    }
}

impl DeclareRules {
    /// Returns the virtual host and the name of each exchange that a setting asks for.
    fn own_exchanges(&self) -> impl Iterator<Item = (Arc<str>, &'static str)> + use<> {
        let exchanges = [(self.event_vhost.clone(), EVENT_EXCHANGE), (self.log_vhost.clone(), LOG_EXCHANGE)];
        exchanges.into_iter().filter_map(|(vhost, name)| Some((vhost?, name)))
    }

    /// Returns true for an exchange that a setting may have asked for, and that none asks for any more. Clients may delete it although its
    /// name is reserved.
    pub fn is_left_over(&self, vhost: &str, exchange: &str) -> bool {
        is_of_settings(exchange) && !self.own_exchanges().any(|(of, name)| *of == *vhost && name == exchange)
    }
}

/// The exchanges that settings can ask for.
const OWN_EXCHANGES: [&str; 2] = [EVENT_EXCHANGE, LOG_EXCHANGE];

/// Returns true for the name of an exchange that a setting can ask for.
fn is_of_settings(exchange: &str) -> bool {
    OWN_EXCHANGES.contains(&exchange)
}

/// Returns the change that declares an exchange of the broker itself.
fn own_exchange(vhost: Arc<str>, name: &str) -> Change {
    let exchange = Exchange::new(vhost, name.into(), ExchangeKind::Topic, Arguments::default());
    Change::ExchangeDeclared(Arc::new(Exchange { internal: true, ..exchange }))
}

impl Catalog {
    /// Sets the rules for declarations from now on. They decide which commands are refused and what a new virtual host gets. No
    /// change is applied differently because of them.
    pub fn set_rules(&mut self, rules: DeclareRules) {
        self.rules = rules;
    }

    /// Returns the changes that declare the exchanges which settings ask for in a new virtual host.
    pub(super) fn own_exchanges_of(&self, vhost: &str) -> impl Iterator<Item = Change> {
        self.rules
            .own_exchanges()
            .filter(move |(of, _)| **of == *vhost)
            .map(|(of, name)| own_exchange(of, name))
    }

    /// Declares the exchanges that settings ask for and that are absent. Returns the changes that were applied. None is ever removed
    /// because a setting does not ask for it any more.
    pub fn begin_exchanges(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (vhost, name) in self.rules.own_exchanges() {
            if self.vhosts.contains_key(&vhost) && self.exchange(&vhost, name).is_none() {
                changes.push(own_exchange(vhost, name));
            }
        }
        changes.iter().for_each(|change| self.apply(change));
        changes
    }

    /// Applies a change of the log. Before version 8 of the log, the exchanges of settings were not stored, but their bindings were. While
    /// such an exchange was absent, its bindings did not end with their destinations.
    pub fn restore(&mut self, change: &Change) {
        match change {
            Change::Bound(binding)
                if is_of_settings(&binding.source)
                    && self.exchange(&binding.vhost, &binding.source).is_none() =>
            {
                self.apply(&own_exchange(binding.vhost.clone(), &binding.source));
            }
            Change::QueueForgotten { queue } => {
                if let Some(record) = self.queue_by_id(*queue) {
                    self.unbind_from_own(&record.vhost, &Destination::Queue(record.name.clone()));
                }
            }
            Change::ExchangeDeleted { vhost, name } => {
                self.unbind_from_own(vhost, &Destination::Exchange(name.clone()));
            }
            _ => {}
        }
        self.apply(change);
    }

    /// Removes the bindings from exchanges of settings to this destination.
    fn unbind_from_own(&mut self, vhost: &str, to: &Destination) {
        for source in OWN_EXCHANGES {
            for binding in self.bindings_between(vhost, source, to) {
                self.apply(&Change::Unbound(binding));
            }
        }
    }

    /// Adds the first users of a node, and what its first virtual hosts get from the configuration, if there has never been a user.
    /// Returns the changes that were applied.
    pub fn begin_users(&mut self, access: &Access) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.users.have_begun() {
            return changes;
        }
        let first = access.users();
        let mut first: Vec<_> = first.iter().collect();
        first.sort_by(|a, b| a.name.cmp(&b.name));
        for user in first {
            let (name, tags) = (user.name.clone(), user.tags.clone());
            changes.push(Change::UserSet { name: name.clone(), hash: user.hash.clone(), tags });
            let mut permissions: Vec<_> = user.permissions.iter().collect();
            permissions.sort_by_key(|(vhost, _)| *vhost);
            for (vhost, permissions) in permissions {
                let added = Change::VhostAdded { name: vhost.clone() };
                if !self.vhosts.contains_key(vhost) && !changes.contains(&added) {
                    changes.push(added);
                }
                let (user, vhost, permissions) = (name.clone(), vhost.clone(), permissions.clone());
                changes.push(Change::PermissionsSet { user, vhost, permissions });
            }
        }
        changes.iter().for_each(|change| self.apply(change));
        let mut vhosts: Vec<_> = self.vhosts.keys().cloned().collect();
        vhosts.sort();
        for vhost in vhosts {
            let of_vhost = self.vhost_defaults(&vhost);
            of_vhost.iter().for_each(|change| self.apply(change));
            changes.extend(of_vhost);
        }
        changes
    }

    /// Returns the changes that give a virtual host without settings what a new one gets from the configuration.
    pub(super) fn vhost_defaults(&self, vhost: &Arc<str>) -> Vec<Change> {
        let is_unset = |vhost: &Vhost| *vhost.settings == VhostSettings::default();
        let settings = self.rules.vhost_defaults.settings(vhost);
        let mut changes = Vec::new();
        if settings != VhostSettings::default() && self.vhosts.get(vhost).is_some_and(is_unset) {
            changes.push(Change::VhostSet { name: vhost.clone(), settings: Arc::new(settings) });
        }
        changes.extend(self.default_users(vhost));
        changes.extend(self.default_policies(vhost));
        changes
    }

    /// Returns the changes that give a new virtual host the operator policies of the configuration.
    pub(super) fn default_policies(&self, vhost: &Arc<str>) -> impl Iterator<Item = Change> {
        self.rules.vhost_defaults.operator_policies(vhost).map(|policy| Change::PolicySet(Arc::new(policy)))
    }

    /// Returns the changes that give the users of the configuration their permissions in a new virtual host, and create those who
    /// do not exist.
    pub(super) fn default_users(&self, vhost: &Arc<str>) -> Vec<Change> {
        let mut changes = Vec::new();
        for DefaultUser { name, hash, tags, permissions, .. } in self.rules.vhost_defaults.users(vhost) {
            if self.users.get(name).is_none() {
                let (name, hash, tags) = (name.clone(), hash.clone(), tags.clone());
                changes.push(Change::UserSet { name, hash, tags });
            }
            let (user, vhost, permissions) = (name.clone(), vhost.clone(), permissions.clone());
            changes.push(Change::PermissionsSet { user, vhost, permissions });
        }
        changes
    }
}
