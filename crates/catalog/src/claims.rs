//! What a command reads and what it changes. Two commands without conflicting claims may be decided in any order.

use std::sync::Arc;

use hashbrown::HashMap;

use super::exchange::topic::word_count;
use super::{AccountChange, Binding, Catalog, Change, Command, Destination};

/// Something that a command can claim. The first field is the virtual host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Thing {
    /// The existence of the virtual host, its policies, and the permissions in it.
    Vhost(Arc<str>),
    /// The exchanges and bindings of a virtual host.
    Topology(Arc<str>),
    /// A queue, and the bindings to it.
    Queue(Arc<str>, Arc<str>),
    /// An exchange, and the bindings from and to it.
    Exchange(Arc<str>, Arc<str>),
    /// A binding: virtual host, source, destination and key.
    Binding(Arc<str>, Arc<str>, Destination, Arc<str>),
    User(Arc<str>),
    /// The number of queues of a virtual host, if there is a limit.
    QueueCount(Arc<str>),
    /// The number of queues, exchanges or virtual hosts of the node, if there is a limit.
    Count(&'static str),
}

/// A claim of a command on one thing.
#[derive(Clone, Debug)]
struct Claim {
    thing: Thing,
    /// True if nobody else may claim the thing. False if others may share it.
    exclusive: bool,
}

/// A claim on a part of the room that an exchange has for binding keys. Commands share the room while it is enough for all of
/// them together.
#[derive(Clone, Debug)]
struct RoomClaim {
    /// The virtual host and the name of the exchange.
    exchange: (Arc<str>, Arc<str>),
    words: usize,
    /// The room that the committed bindings leave.
    room: usize,
}

/// The claims of one command.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    things: Vec<Claim>,
    /// At most one for each exchange.
    rooms: Vec<RoomClaim>,
}

impl Claims {
    fn add_shared(&mut self, thing: Thing) {
        self.add(thing, false);
    }

    fn add_exclusive(&mut self, thing: Thing) {
        self.add(thing, true);
    }

    fn add(&mut self, thing: Thing, exclusive: bool) {
        self.things.push(Claim { thing, exclusive });
    }

    /// Returns the claims on what the command names. Its decision may reach further: see [`Self::add_changes`].
    pub(super) fn of(command: &Command, catalog: &Catalog) -> Self {
        let mut claims = Self::default();
        claims.add_command(command, catalog);
        claims
    }

    fn add_command(&mut self, command: &Command, catalog: &Catalog) {
        let claims = self;
        match command {
            Command::Batch(commands) => {
                commands.iter().for_each(|command| claims.add_command(command, catalog));
            }
            Command::AdmitNode(_) => claims.add_exclusive(Thing::Count("nodes")),
            // They end things in every virtual host, and are noted if there are nodes.
            Command::StartNode { .. } | Command::LoseNode { .. } => {
                claims.add_shared(Thing::Count("nodes"));
                catalog.vhosts().for_each(|vhost| claims.add_exclusive(Thing::Vhost(vhost.clone())));
                claims.count("queues", catalog.rules.queues_max.is_some());
                claims.count("exchanges", catalog.rules.exchanges_max.is_some());
            }
            Command::SetParameter { key, .. } | Command::ClearParameter { key } => {
                key.vhost.iter().for_each(|vhost| claims.add_shared(Thing::Vhost(vhost.clone())));
                claims.add_exclusive(Thing::Count("parameters"));
            }
            Command::DeclareQueue(declare) => {
                let is_new = catalog.listed_queue(&declare.vhost, &declare.name).is_none();
                claims.add_shared(Thing::Vhost(declare.vhost.clone()));
                claims.add(Thing::Queue(declare.vhost.clone(), declare.name.clone()), is_new);
                if is_new {
                    claims.count_queues(&declare.vhost, catalog);
                }
            }
            Command::ForgetQueue { queue } => {
                if let Some(record) = catalog.queue_by_id(*queue) {
                    claims.share_topology(&record.vhost);
                    claims.add_exclusive(Thing::Queue(record.vhost.clone(), record.name.clone()));
                    claims.count_queues(&record.vhost, catalog);
                }
            }
            Command::DeclareExchange(declare) => {
                if !declare.durable {
                    // It notes the nodes that there are.
                    claims.add_shared(Thing::Count("nodes"));
                }
                let is_new = catalog.exchange(&declare.vhost, &declare.name).is_none();
                claims.share_topology(&declare.vhost);
                claims.add(Thing::Exchange(declare.vhost.clone(), declare.name.clone()), is_new);
                claims.count("exchanges", is_new && catalog.rules.exchanges_max.is_some());
            }
            Command::DeleteExchange { vhost, name, .. } => {
                claims.share_topology(vhost);
                claims.add_exclusive(Thing::Exchange(vhost.clone(), name.clone()));
                claims.count("exchanges", catalog.rules.exchanges_max.is_some());
            }
            Command::Bind(binding, _) => {
                claims.share_topology(&binding.vhost);
                claims.add_binding(binding, false);
                claims.add_room(binding, catalog);
            }
            Command::Unbind(binding, _) => {
                claims.share_topology(&binding.vhost);
                claims.add_binding(binding, false);
            }
            Command::SetPolicy(set) => claims.add_exclusive(Thing::Vhost(set.vhost.clone())),
            Command::ClearPolicy { vhost, .. } => claims.add_exclusive(Thing::Vhost(vhost.clone())),
            Command::Account(AccountChange::SetVhost { name, creator, .. }) => {
                claims.add_vhost(name, catalog);
                if catalog.vhost_settings(name).is_none() {
                    // The creator and the users of the configuration get permissions.
                    let of_configuration = catalog.rules.vhost_defaults.users(name).map(|user| &user.name);
                    for user in creator.iter().chain(of_configuration) {
                        claims.add_exclusive(Thing::User(user.clone()));
                    }
                }
            }
            Command::Account(
                AccountChange::PatchVhost { name, .. }
                | AccountChange::CloseVhost { name }
                | AccountChange::DeleteVhost { name },
            ) => {
                claims.add_vhost(name, catalog);
            }
            Command::Account(
                AccountChange::SetUser { name, .. }
                | AccountChange::AddUser { name, .. }
                | AccountChange::PatchUser { name, .. }
                | AccountChange::DeleteUser { name }
                | AccountChange::RenewHash { user: name, .. }
                | AccountChange::SetUserLimits { user: name, .. },
            ) => {
                claims.add_exclusive(Thing::User(name.clone()));
            }
            Command::Account(
                AccountChange::SetPermissions { user, vhost, .. }
                | AccountChange::ClearPermissions { user, vhost }
                | AccountChange::SetTopicPermissions { user, vhost, .. }
                | AccountChange::ClearTopicPermissions { user, vhost, .. },
            ) => {
                claims.add_shared(Thing::Vhost(vhost.clone()));
                claims.add_exclusive(Thing::User(user.clone()));
            }
        }
    }

    /// Adds claims on what a decision changes beyond the names in the command: the removed bindings, the auto-delete
    /// exchanges that are deleted as a result, and the users who have permissions in a deleted virtual host.
    pub(super) fn add_changes(&mut self, changes: &[Change], catalog: &Catalog) {
        for change in changes {
            match change {
                Change::Unbound(binding) => {
                    // Whether an auto-delete exchange loses its last binding depends on all of its bindings.
                    let source = catalog.exchange(&binding.vhost, &binding.source);
                    self.add_binding(binding, source.is_some_and(|exchange| exchange.auto_delete));
                    // Commands that need the freed room are decided after this one.
                    self.add_room(binding, catalog);
                }
                Change::ExchangeDeleted { vhost, name } => {
                    self.add_exclusive(Thing::Exchange(vhost.clone(), name.clone()));
                    self.count("exchanges", catalog.rules.exchanges_max.is_some());
                }
                Change::PermissionsCleared { user, .. } | Change::TopicPermissionsCleared { user, .. } => {
                    self.add_exclusive(Thing::User(user.clone()))
                }
                // The claims on these changes were added before, because the command names them.
                Change::QueueDeclared(_)
                | Change::QueueForgotten { .. }
                | Change::ExchangeDeclared(_)
                | Change::Bound(_)
                | Change::PolicySet(_)
                | Change::PolicyCleared { .. }
                | Change::VhostAdded { .. }
                | Change::VhostDeleted { .. }
                | Change::VhostSet { .. }
                | Change::ParameterSet { .. }
                | Change::ParameterCleared { .. }
                | Change::UserLimitsSet { .. }
                | Change::UserSet { .. }
                | Change::UserDeleted { .. }
                | Change::PermissionsSet { .. }
                | Change::TopicPermissionsSet { .. } => {}
                // No command makes these changes, so there is nothing to claim.
                Change::Incarnations { .. } | Change::UsersBegun | Change::Asked { .. } => {}
                Change::NodeStarted { .. } | Change::NodeJoined { .. } => {}
            }
        }
    }

    /// Adds the claims of a command that has to wait. Some commands delete exchanges and bindings that they do not
    /// name. Which ones is unknown until the decision, so they claim the whole topology of the virtual host.
    pub(super) fn add_waiting(&mut self, command: &Command, catalog: &Catalog) {
        let vhost = match command {
            Command::ForgetQueue { queue } => catalog.queue_by_id(*queue).map(|record| record.vhost.clone()),
            Command::DeleteExchange { vhost, .. } => Some(vhost.clone()),
            Command::Unbind(binding, _) => Some(binding.vhost.clone()),
            Command::DeclareQueue(_)
            | Command::DeclareExchange(_)
            | Command::Bind(..)
            | Command::SetPolicy(_)
            | Command::ClearPolicy { .. }
            | Command::Account(_)
            | Command::AdmitNode(_)
            | Command::StartNode { .. }
            | Command::LoseNode { .. }
            | Command::SetParameter { .. }
            | Command::ClearParameter { .. } => None,
            Command::Batch(commands) => {
                return commands.iter().for_each(|command| self.add_waiting(command, catalog));
            }
        };
        if let Some(vhost) = vhost {
            self.add_exclusive(Thing::Topology(vhost));
        }
    }

    /// Claims a virtual host, and the numbers that change with it.
    fn add_vhost(&mut self, name: &Arc<str>, catalog: &Catalog) {
        self.add_exclusive(Thing::Vhost(name.clone()));
        self.count("vhosts", catalog.rules.vhosts_max.is_some());
        self.count("exchanges", catalog.rules.exchanges_max.is_some());
    }

    /// Claims the numbers of queues that are limited.
    fn count_queues(&mut self, vhost: &Arc<str>, catalog: &Catalog) {
        if catalog.vhost_settings(vhost).is_some_and(|settings| settings.max_queues.is_some()) {
            self.add_exclusive(Thing::QueueCount(vhost.clone()));
        }
        self.count("queues", catalog.rules.queues_max.is_some());
    }

    /// Claims a number of the node, so that two commands cannot both take the last place.
    fn count(&mut self, what: &'static str, is_limited: bool) {
        if is_limited {
            self.add_exclusive(Thing::Count(what));
        }
    }

    fn share_topology(&mut self, vhost: &Arc<str>) {
        self.add_shared(Thing::Vhost(vhost.clone()));
        self.add_shared(Thing::Topology(vhost.clone()));
    }

    fn add_binding(&mut self, binding: &Binding, source_exclusive: bool) {
        let Binding { vhost, source, destination, key, .. } = binding;
        self.add(Thing::Exchange(vhost.clone(), source.clone()), source_exclusive);
        self.add_shared(match destination {
            Destination::Queue(name) => Thing::Queue(vhost.clone(), name.clone()),
            Destination::Exchange(name) => Thing::Exchange(vhost.clone(), name.clone()),
        });
        self.add_exclusive(Thing::Binding(vhost.clone(), source.clone(), destination.clone(), key.clone()));
    }

    /// Claims the room that a binding takes or frees, if the exchange limits it.
    fn add_room(&mut self, binding: &Binding, catalog: &Catalog) {
        let Some(room) = catalog.binding_room(&binding.vhost, &binding.source) else { return };
        let words = word_count(&binding.key);
        let exchange = (binding.vhost.clone(), binding.source.clone());
        match self.rooms.iter_mut().find(|claim| claim.exchange == exchange) {
            Some(claim) => claim.words += words,
            None => self.rooms.push(RoomClaim { exchange, words, room }),
        }
    }
}

/// The claims of several commands together, counted for each thing.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    things: HashMap<Thing, ClaimCounts>,
    /// The claimed words of each exchange with limited room.
    rooms: HashMap<(Arc<str>, Arc<str>), usize>,
}

/// The number of shared and exclusive claims on one thing.
#[derive(Clone, Copy, Debug, Default)]
struct ClaimCounts {
    shared: u32,
    exclusive: u32,
}

impl Claimed {
    pub(super) fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Returns true if one of these claims conflicts with a claim that is held.
    pub(super) fn blocks(&self, claims: &Claims) -> bool {
        !self.is_empty()
            && (claims.things.iter().any(|claim| self.conflicts(claim))
                || claims.rooms.iter().any(|claim| self.crowds(claim)))
    }

    fn conflicts(&self, Claim { thing, exclusive }: &Claim) -> bool {
        let held = self.things.get(thing);
        held.is_some_and(|held| held.exclusive > 0 || *exclusive && held.shared > 0)
    }

    /// Returns true if there may be too little room for the claim and for those that are held.
    fn crowds(&self, RoomClaim { exchange, words, room }: &RoomClaim) -> bool {
        self.rooms.get(exchange).is_some_and(|held| held + words > *room)
    }

    pub(super) fn hold(&mut self, claims: &Claims) {
        for Claim { thing, exclusive } in &claims.things {
            let held = self.things.entry_ref(thing).or_default();
            *(if *exclusive { &mut held.exclusive } else { &mut held.shared }) += 1;
        }
        for RoomClaim { exchange, words, .. } in &claims.rooms {
            *self.rooms.entry(exchange.clone()).or_default() += words;
        }
    }

    pub(super) fn release(&mut self, claims: &Claims) {
        for Claim { thing, exclusive } in &claims.things {
            let Some(held) = self.things.get_mut(thing) else { continue };
            *(if *exclusive { &mut held.exclusive } else { &mut held.shared }) -= 1;
            if held.exclusive == 0 && held.shared == 0 {
                self.things.remove(thing);
            }
        }
        for RoomClaim { exchange, words, .. } in &claims.rooms {
            let Some(held) = self.rooms.get_mut(exchange) else { continue };
            *held -= words;
            if *held == 0 {
                self.rooms.remove(exchange);
            }
        }
    }
}

impl From<&Thing> for Thing {
    fn from(thing: &Thing) -> Self {
        thing.clone()
    }
}
