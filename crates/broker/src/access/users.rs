//! The users as the catalog has them.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{AccessRefused, Identity, PasswordHash, Permissions, Resource, Verb, permit};

/// A user, with what the user may do where.
#[derive(Clone, Debug, PartialEq)]
pub struct UserRecord {
    pub name: Arc<str>,
    pub hash: PasswordHash,
    pub tags: Arc<[String]>,
    /// By virtual host.
    pub permissions: HashMap<Arc<str>, Permissions>,
}

impl UserRecord {
    pub(super) fn identity(&self) -> Identity {
        Identity { user: self.name.clone(), tags: self.tags.clone() }
    }
}

/// All users. A clone is another replica.
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

    /// Whether there has ever been a user: then none is made at a start, so that a deleted one stays deleted.
    pub fn have_begun(&self) -> bool {
        self.begun
    }

    /// Decides whether the user may do this, by the one table.
    ///
    /// # Errors
    /// A condition of the verb does not hold.
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

    /// Notes that there has been a user.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// Makes a user, or changes the password and the tags of one.
    pub fn set(&mut self, name: &Arc<str>, hash: PasswordHash, tags: &Arc<[String]>) {
        self.begun = true;
        let known = self.by_name.entry(name.clone()).or_insert_with(|| UserRecord {
            name: name.clone(),
            hash,
            tags: tags.clone(),
            permissions: HashMap::new(),
        });
        (known.hash, known.tags) = (hash, tags.clone());
    }

    pub fn delete(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Gives a user permissions in a virtual host in place of those that were there; `None` takes them away.
    pub fn set_permissions(&mut self, user: &str, vhost: &Arc<str>, permissions: Option<Permissions>) {
        let Some(user) = self.by_name.get_mut(user) else { return };
        match permissions {
            Some(permissions) => _ = user.permissions.insert(vhost.clone(), permissions),
            None => _ = user.permissions.remove(vhost),
        }
    }
}
