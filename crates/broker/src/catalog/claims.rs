//! What a command looks at, and what it changes: two commands that claim nothing in common may be decided in any order.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Binding, Catalog, Change, Command, Destination};

/// Something that a command speaks of. Virtual host and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Thing {
    /// That it exists, its policies and who has permissions in it.
    Vhost(Arc<str>),
    /// Its exchanges and bindings.
    Topology(Arc<str>),
    /// The queue, and that bindings lead to it.
    Queue(Arc<str>, Arc<str>),
    /// The exchange, and the bindings from and to it.
    Exchange(Arc<str>, Arc<str>),
    /// Source, destination and key.
    Binding(Arc<str>, Arc<str>, Destination, Arc<str>),
    User(Arc<str>),
}

/// The claim of a command on one thing.
#[derive(Clone, Debug)]
struct Claim {
    thing: Thing,
    /// Nobody else may claim it. Otherwise others may share it.
    alone: bool,
}

/// What one command claims.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Vec<Claim>);

impl Claims {
    fn share(&mut self, thing: Thing) {
        self.0.push(Claim { thing, alone: false });
    }

    fn alone(&mut self, thing: Thing) {
        self.0.push(Claim { thing, alone: true });
    }

    fn add(&mut self, thing: Thing, alone: bool) {
        self.0.push(Claim { thing, alone });
    }

    /// What a command claims by what it names. More may come of it: see [`Self::add_changes`].
    pub fn of(command: &Command, catalog: &Catalog) -> Self {
        let mut claims = Self::default();
        match command {
            Command::DeclareQueue(declare) => {
                let is_new = catalog.queue(&declare.vhost, &declare.name).is_none();
                claims.share(Thing::Vhost(declare.vhost.clone()));
                claims.add(Thing::Queue(declare.vhost.clone(), declare.name.clone()), is_new);
            }
            Command::ForgetQueue { queue } => {
                if let Some(record) = catalog.queue_by_id(*queue) {
                    claims.share_topology(&record.vhost);
                    claims.alone(Thing::Queue(record.vhost.clone(), record.name.clone()));
                }
            }
            Command::DeclareExchange(declare) => {
                let is_new = catalog.exchange(&declare.vhost, &declare.name).is_none();
                claims.share_topology(&declare.vhost);
                claims.add(Thing::Exchange(declare.vhost.clone(), declare.name.clone()), is_new);
            }
            Command::DeleteExchange { vhost, name, .. } => {
                claims.share_topology(vhost);
                claims.alone(Thing::Exchange(vhost.clone(), name.clone()));
            }
            Command::Bind(binding) | Command::Unbind(binding) => {
                claims.share_topology(&binding.vhost);
                claims.add_binding(binding, false);
            }
            Command::SetPolicy(set) => claims.alone(Thing::Vhost(set.vhost.clone())),
            Command::ClearPolicy { vhost, .. } => claims.alone(Thing::Vhost(vhost.clone())),
            Command::AddVhost { name } | Command::DeleteVhost { name } => {
                claims.alone(Thing::Vhost(name.clone()));
            }
            Command::SetUser { name, .. } | Command::DeleteUser { name } => {
                claims.alone(Thing::User(name.clone()));
            }
            Command::SetPermissions { user, vhost, .. } | Command::ClearPermissions { user, vhost } => {
                claims.share(Thing::Vhost(vhost.clone()));
                claims.alone(Thing::User(user.clone()));
            }
        }
        claims
    }

    /// Adds what the changes of a decision reach beyond what the command names: what is unbound, the exchanges that delete
    /// themselves then, and the users of a virtual host that goes.
    pub fn add_changes(&mut self, changes: &[Change], catalog: &Catalog) {
        for change in changes {
            match change {
                Change::Unbound(binding) => {
                    // Whether this was the last of an exchange that deletes itself depends on all of its bindings.
                    let source = catalog.exchange(&binding.vhost, &binding.source);
                    self.add_binding(binding, source.is_some_and(|exchange| exchange.auto_delete));
                }
                Change::ExchangeDeleted { vhost, name } => {
                    self.alone(Thing::Exchange(vhost.clone(), name.clone()));
                }
                Change::PermissionsCleared { user, .. } => self.alone(Thing::User(user.clone())),
                // The command has named it.
                Change::QueueDeclared(_)
                | Change::QueueForgotten { .. }
                | Change::ExchangeDeclared(_)
                | Change::Bound(_)
                | Change::PolicySet(_)
                | Change::PolicyCleared { .. }
                | Change::VhostAdded { .. }
                | Change::VhostDeleted { .. }
                | Change::UserSet { .. }
                | Change::UserDeleted { .. }
                | Change::PermissionsSet { .. } => {}
                // No command makes these.
                Change::Incarnations { .. } | Change::UsersBegun => {}
            }
        }
    }

    /// Adds what a command claims while it waits: of one that may delete exchanges and bindings that it does not name,
    /// nobody knows which it will find when its turn comes.
    pub fn add_waiting(&mut self, command: &Command, catalog: &Catalog) {
        let vhost = match command {
            Command::ForgetQueue { queue } => catalog.queue_by_id(*queue).map(|record| record.vhost.clone()),
            Command::DeleteExchange { vhost, .. } => Some(vhost.clone()),
            Command::Unbind(binding) => Some(binding.vhost.clone()),
            Command::DeclareQueue(_)
            | Command::DeclareExchange(_)
            | Command::Bind(_)
            | Command::SetPolicy(_)
            | Command::ClearPolicy { .. }
            | Command::AddVhost { .. }
            | Command::DeleteVhost { .. }
            | Command::SetUser { .. }
            | Command::DeleteUser { .. }
            | Command::SetPermissions { .. }
            | Command::ClearPermissions { .. } => None,
        };
        if let Some(vhost) = vhost {
            self.alone(Thing::Topology(vhost));
        }
    }

    fn share_topology(&mut self, vhost: &Arc<str>) {
        self.share(Thing::Vhost(vhost.clone()));
        self.share(Thing::Topology(vhost.clone()));
    }

    fn add_binding(&mut self, binding: &Binding, source_alone: bool) {
        let Binding { vhost, source, destination, key, .. } = binding;
        self.add(Thing::Exchange(vhost.clone(), source.clone()), source_alone);
        self.share(match destination {
            Destination::Queue(name) => Thing::Queue(vhost.clone(), name.clone()),
            Destination::Exchange(name) => Thing::Exchange(vhost.clone(), name.clone()),
        });
        self.alone(Thing::Binding(vhost.clone(), source.clone(), destination.clone(), key.clone()));
    }
}

/// What several commands claim together.
#[derive(Debug, Default)]
pub(super) struct Claimed(HashMap<Thing, Holders>);

/// The number of claims on one thing.
#[derive(Clone, Copy, Debug, Default)]
struct Holders {
    shared: u32,
    alone: u32,
}

impl Claimed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of these claims must wait for those that are held.
    pub fn blocks(&self, claims: &Claims) -> bool {
        !self.is_empty()
            && claims.0.iter().any(|Claim { thing, alone }| {
                let held = self.0.get(thing);
                held.is_some_and(|held| held.alone > 0 || *alone && held.shared > 0)
            })
    }

    pub fn hold(&mut self, claims: &Claims) {
        for Claim { thing, alone } in &claims.0 {
            let held = self.0.entry_ref(thing).or_default();
            *(if *alone { &mut held.alone } else { &mut held.shared }) += 1;
        }
    }

    pub fn release(&mut self, claims: &Claims) {
        for Claim { thing, alone } in &claims.0 {
            let Some(held) = self.0.get_mut(thing) else { continue };
            *(if *alone { &mut held.alone } else { &mut held.shared }) -= 1;
            if held.alone == 0 && held.shared == 0 {
                self.0.remove(thing);
            }
        }
    }
}

impl From<&Thing> for Thing {
    fn from(thing: &Thing) -> Self {
        thing.clone()
    }
}
