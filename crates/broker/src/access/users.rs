//! The users of the catalog and their permissions.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{AccessRefused, Identity, PasswordHash, Permissions, Resource, Verb, permit};

/// A user and the permissions of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserRecord {
    pub name: Arc<str>,
    pub hash: PasswordHash,
    pub tags: Arc<[String]>,
    /// The permissions of the user, by virtual host.
    pub permissions: HashMap<Arc<str>, Permissions>,
}

impl UserRecord {
    pub(super) fn identity(&self) -> Identity {
        Identity { user: self.name.clone(), tags: self.tags.clone() }
    }
}

/// All users of the node.
#[derive(Clone, Debug, Default)]
pub struct Users {
    by_name: HashMap<Arc<str>, UserRecord>,
    begun: bool,
}

impl Users {
    pub fn get(&self, name: &str) -> Option<&UserRecord> {
        self.by_name.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &UserRecord> {
        self.by_name.values()
    }

    /// Returns true if there has ever been a user. Then no user is made at a start, so that a deleted user
    /// stays deleted.
    pub fn have_begun(&self) -> bool {
        self.begun
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
        let rights = self.by_name.get(&identity.user).and_then(|user| user.permissions.get(vhost));
        permit(identity, rights.copied(), vhost, verb, on)
    }

    /// Records that there has been a user.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// Creates a user, or changes the password and the tags of an existing one.
    pub fn set(&mut self, name: &Arc<str>, hash: PasswordHash, tags: &Arc<[String]>) {
        self.begun = true;
        let permissions = self.by_name.remove(name).map(|known| known.permissions).unwrap_or_default();
        let user = UserRecord { name: name.clone(), hash, tags: tags.clone(), permissions };
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
}
