//! The users of the catalog and their permissions.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    AccessRefused, Authority, Identity, PasswordHash, Permissions, Resource, Rights, TopicPermissions,
    Topics, UserLimits, Verb, permit,
};

/// A user and the permissions of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserRecord {
    pub name: Arc<str>,
    pub hash: PasswordHash,
    pub tags: Arc<[String]>,
    /// The permissions of the user, by virtual host.
    pub permissions: HashMap<Arc<str>, Permissions>,
    /// The topic permissions of the user, by virtual host.
    pub topics: HashMap<Arc<str>, Topics>,
    pub limits: UserLimits,
}

/// All users of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Users {
    by_name: HashMap<Arc<str>, UserRecord>,
    begun: bool,
}

impl Users {
    pub fn get(&self, name: &str) -> Option<&UserRecord> {
        self.by_name.get(name)
    }

    /// Returns the limits of a user. Only users of the catalog have some, whoever says what they may do.
    pub fn limits_of(&self, who: &Identity) -> UserLimits {
        let user = if who.is_of_catalog { self.get(&who.user) } else { None };
        user.map(|user| user.limits).unwrap_or_default()
    }

    /// Returns the permissions of a user, in the order of the virtual hosts. Returns `None` if a token or another server decides them.
    pub fn permissions_of(&self, who: &Identity) -> Option<Vec<(Arc<str>, Permissions)>> {
        if who.authority() != Authority::Internal {
            return None;
        }
        let own = self.get(&who.user).map(|user| &user.permissions);
        let own = own.into_iter().flatten().map(|(vhost, permissions)| (vhost.clone(), permissions.clone()));
        let mut own: Vec<_> = own.collect();
        own.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Some(own)
    }

    pub fn iter(&self) -> impl Iterator<Item = &UserRecord> {
        self.by_name.values()
    }

    /// Returns true if there has ever been a user. Then no user is made at a start, so that a deleted user
    /// stays deleted.
    pub fn have_begun(&self) -> bool {
        self.begun
    }

    /// Returns what a user may do in a virtual host.
    pub fn rights<'a>(&'a self, who: &'a Identity, vhost: &'a str) -> Rights<'a> {
        if let Some(grants) = &who.token {
            return Rights::Token { grants, vhost };
        }
        if let Some(remote) = &who.remote {
            return Rights::Remote { remote, vhost };
        }
        let Some(user) = self.by_name.get(&who.user) else { return Rights::NONE };
        Rights::User { permissions: user.permissions.get(vhost), topics: user.topics.get(vhost) }
    }

    /// Decides by the table of verbs whether the user may do this.
    ///
    /// # Errors
    /// A condition of the verb is not met.
    pub fn permit(
        &self,
        identity: &Identity,
        vhost: &str,
        verb: Verb,
        on: &[Resource<'_>],
    ) -> Result<(), AccessRefused> {
        permit(identity, self.rights(identity, vhost), vhost, verb, on)
    }

    /// Records that there has been a user.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// Creates a user, or changes the password and the tags of an existing one.
    pub fn set(&mut self, name: &Arc<str>, hash: PasswordHash, tags: &Arc<[String]>) {
        self.begun = true;
        let known = self.by_name.remove(name);
        let (permissions, topics, limits) =
            known.map(|known| (known.permissions, known.topics, known.limits)).unwrap_or_default();
        let user = UserRecord { name: name.clone(), hash, tags: tags.clone(), permissions, topics, limits };
        self.by_name.insert(name.clone(), user);
    }

    pub fn delete(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Replaces the permissions of a user in a virtual host. `None` removes them.
    pub fn set_permissions(&mut self, user: &str, vhost: &Arc<str>, permissions: Option<Permissions>) {
        let Some(user) = self.by_name.get_mut(user) else { return };
        match permissions {
            Some(permissions) => _ = user.permissions.insert(vhost.clone(), permissions),
            None => _ = user.permissions.remove(vhost),
        }
    }

    pub fn set_limits(&mut self, user: &str, limits: UserLimits) {
        if let Some(user) = self.by_name.get_mut(user) {
            user.limits = limits;
        }
    }

    /// Replaces the topic permissions of a user for an exchange.
    pub(crate) fn set_topics(
        &mut self,
        user: &str,
        vhost: &Arc<str>,
        exchange: &Arc<str>,
        permissions: TopicPermissions,
    ) {
        let Some(user) = self.by_name.get_mut(user) else { return };
        user.topics.entry(vhost.clone()).or_default().insert(exchange.clone(), permissions);
    }

    /// Removes the topic permissions of a user for an exchange, or for all exchanges of the virtual host.
    pub(crate) fn clear_topics(&mut self, user: &str, vhost: &str, exchange: Option<&str>) {
        let Some(user) = self.by_name.get_mut(user) else { return };
        let Some(topics) = user.topics.get_mut(vhost) else { return };
        match exchange {
            Some(exchange) => _ = topics.remove(exchange),
            None => topics.clear(),
        }
        if topics.is_empty() {
            user.topics.remove(vhost);
        }
    }
}
