//! The rules for virtual hosts, users, and the permissions of users.

use std::sync::Arc;

use super::{Answer, CatalogError, Decision, check_name, check_text};
use crate::access::{
    Maximum, PasswordHash, Permissions, TOPICS_MAX, TopicPermissions, UserLimits, UserRecord,
};
use crate::{Catalog, Change, VhostPatch, VhostSettings};

/// The most tags of a user or a virtual host. Every shard keeps them, and of a user's five have a meaning.
const TAGS_MAX: usize = 32;

/// A change of users, their permissions, or virtual hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum AccountChange {
    /// Adds a virtual host, or changes the settings of an existing one. The creator of a new one gets all permissions in it.
    SetVhost {
        name: Arc<str>,
        patch: VhostPatch,
        /// Without effect if there is no such user.
        creator: Option<Arc<str>>,
    },
    /// Changes settings of a virtual host, which must exist.
    PatchVhost {
        name: Arc<str>,
        patch: VhostPatch,
    },
    /// Begins to delete a virtual host: nobody can use it any more.
    CloseVhost {
        name: Arc<str>,
    },
    /// Deletes a virtual host without queues, and everything else in it.
    DeleteVhost {
        name: Arc<str>,
    },
    /// Creates a user, or replaces the password and the tags of an existing one. Permissions stay.
    SetUser {
        name: Arc<str>,
        hash: PasswordHash,
        tags: Arc<[String]>,
    },
    /// Creates a user. Refused if there is one with this name.
    AddUser {
        name: Arc<str>,
        hash: PasswordHash,
        tags: Arc<[String]>,
    },
    /// Changes the password or the tags of a user, who must exist. `None` leaves one as it is, so that nobody needs to read it before.
    PatchUser {
        name: Arc<str>,
        hash: Option<PasswordHash>,
        tags: Option<Arc<[String]>>,
    },
    /// Replaces the hash of a password by another of the same password. Has no effect if the password was changed meanwhile, or
    /// the user deleted.
    RenewHash {
        user: Arc<str>,
        outdated: PasswordHash,
        hash: PasswordHash,
    },
    /// Changes limits of a user. `None` leaves one as it is.
    SetUserLimits {
        user: Arc<str>,
        max_connections: Option<Maximum>,
        max_channels: Option<Maximum>,
    },
    /// Deletes a user and the permissions of the user.
    DeleteUser {
        name: Arc<str>,
    },
    /// Replaces the permissions of a user in a virtual host.
    SetPermissions {
        user: Arc<str>,
        vhost: Arc<str>,
        permissions: Permissions,
    },
    ClearPermissions {
        user: Arc<str>,
        vhost: Arc<str>,
    },
    /// Replaces the topic permissions of a user for an exchange, which need not exist.
    SetTopicPermissions {
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Arc<str>,
        permissions: TopicPermissions,
    },
    /// Removes those for one exchange, or those for all exchanges of the virtual host.
    ClearTopicPermissions {
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Option<Arc<str>>,
    },
}

impl AccountChange {
    /// Adds a virtual host with default settings.
    pub fn add_vhost(name: impl Into<Arc<str>>) -> Self {
        Self::SetVhost { name: name.into(), patch: VhostPatch::default(), creator: None }
    }
}

impl Catalog {
    pub(super) fn change_account(&self, change: AccountChange) -> Result<Decision, CatalogError> {
        match change {
            AccountChange::SetVhost { name, patch, creator } => self.set_vhost(name, patch, creator),
            AccountChange::PatchVhost { name, patch } => {
                self.check_vhost(&name)?;
                self.set_vhost(name, patch, None)
            }
            AccountChange::CloseVhost { name } => self.close_vhost(name),
            AccountChange::SetUserLimits { user, max_connections, max_channels } => {
                self.set_user_limits(user, max_connections, max_channels)
            }
            AccountChange::DeleteVhost { name } => self.delete_vhost(name),
            AccountChange::SetUser { name, hash, tags } => self.set_user(name, hash, tags),
            AccountChange::AddUser { name, .. } if self.users().get(&name).is_some() => {
                Err(CatalogError::PreconditionFailed { reason: format!("user '{name}' exists already") })
            }
            AccountChange::AddUser { name, hash, tags } => self.set_user(name, hash, tags),
            AccountChange::PatchUser { name, hash, tags } => self.patch_user(name, hash, tags),
            AccountChange::RenewHash { user, outdated, hash } => Ok(self.renew_hash(&user, &outdated, hash)),
            AccountChange::DeleteUser { name } => Ok(self.delete_user(name)),
            AccountChange::SetPermissions { user, vhost, permissions } => {
                self.set_permissions(user, vhost, permissions)
            }
            AccountChange::ClearPermissions { user, vhost } => Ok(self.clear_permissions(user, vhost)),
            AccountChange::SetTopicPermissions { user, vhost, exchange, permissions } => {
                self.set_topic_permissions(user, vhost, exchange, permissions)
            }
            AccountChange::ClearTopicPermissions { user, vhost, exchange } => {
                Ok(self.clear_topic_permissions(user, vhost, exchange))
            }
        }
    }

    fn set_vhost(
        &self,
        name: Arc<str>,
        patch: VhostPatch,
        creator: Option<Arc<str>>,
    ) -> Result<Decision, CatalogError> {
        check_name("vhost", &name)?;
        check_text("description", patch.description.as_deref().unwrap_or_default())?;
        check_tags(&format!("vhost '{name}'"), patch.tags.as_deref().unwrap_or_default())?;
        let known = self.vhost_settings(&name);
        if known.is_some_and(|known| known.deleting) {
            let reason = format!("vhost '{name}' is being deleted");
            return Err(CatalogError::PreconditionFailed { reason });
        }
        let mut changes = Vec::new();
        if known.is_none() {
            if let Some(max) = self.rules.vhosts_max.filter(|max| self.vhosts.len() >= *max as usize) {
                let reason = format!("cannot create vhost '{name}': vhost limit of {max} is reached");
                return Err(CatalogError::LimitReached { reason });
            }
            changes.push(Change::VhostAdded { name: name.clone() });
            changes.extend(self.own_exchanges_of(&name));
        }
        let created = known.is_none();
        let before = known.map_or_else(VhostSettings::default, |known| (**known).clone());
        let base = if created { self.rules.vhost_defaults.settings(&name) } else { before.clone() };
        let settings = patch.applied_to(&base);
        if settings != before {
            changes.push(Change::VhostSet { name: name.clone(), settings: Arc::new(settings) });
        }
        if created {
            changes.extend(self.default_users(&name));
            changes.extend(self.default_policies(&name));
        }
        if let Some(user) = creator.filter(|user| created && self.users().get(user).is_some()) {
            changes.push(Change::PermissionsSet { user, vhost: name, permissions: Permissions::ALL });
        }
        Ok(Decision { changes, answer: Answer::Set { created } })
    }

    fn close_vhost(&self, name: Arc<str>) -> Result<Decision, CatalogError> {
        let Some(known) = self.vhost_settings(&name) else { return Ok(unchanged()) };
        if known.protected {
            let reason = format!("vhost '{name}' is protected from deletion");
            return Err(CatalogError::PreconditionFailed { reason });
        }
        let settings = Arc::new(VhostSettings { deleting: true, ..(**known).clone() });
        Ok(changed(vec![Change::VhostSet { name, settings }]))
    }

    fn delete_vhost(&self, name: Arc<str>) -> Result<Decision, CatalogError> {
        let Some(vhost) = self.vhosts.get(&name) else { return Ok(unchanged()) };
        // Somebody else has completed the deletion, and the virtual host was made anew.
        if !vhost.settings.deleting {
            return Ok(unchanged());
        }
        if !vhost.queues.is_empty() {
            let reason = format!("vhost '{name}' still has {} queues", vhost.queues.len());
            return Err(CatalogError::PreconditionFailed { reason });
        }
        let mut users: Vec<_> = self.users().iter().collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        let mut changes = Vec::new();
        for user in users {
            let (user_name, vhost) = (user.name.clone(), name.clone());
            if user.permissions.contains_key(&name) {
                let (user, vhost) = (user_name.clone(), vhost.clone());
                changes.push(Change::PermissionsCleared { user, vhost });
            }
            if user.topics.contains_key(&name) {
                changes.push(Change::TopicPermissionsCleared { user: user_name, vhost, exchange: None });
            }
        }
        changes.push(Change::VhostDeleted { name });
        Ok(changed(changes))
    }

    fn set_user(
        &self,
        name: Arc<str>,
        hash: PasswordHash,
        tags: Arc<[String]>,
    ) -> Result<Decision, CatalogError> {
        check_name("user", &name)?;
        check_tags(&format!("user '{name}'"), &tags)?;
        let created = self.users().get(&name).is_none();
        Ok(set(created, Change::UserSet { name, hash, tags }))
    }

    fn patch_user(
        &self,
        name: Arc<str>,
        hash: Option<PasswordHash>,
        tags: Option<Arc<[String]>>,
    ) -> Result<Decision, CatalogError> {
        let known = self.known_user(&name)?;
        let (hash, tags) = (hash.unwrap_or(known.hash.clone()), tags.unwrap_or(known.tags.clone()));
        self.set_user(name, hash, tags)
    }

    fn renew_hash(&self, user: &str, outdated: &PasswordHash, hash: PasswordHash) -> Decision {
        match self.users().get(user).filter(|known| known.hash == *outdated) {
            Some(UserRecord { name, tags, .. }) => {
                changed(vec![Change::UserSet { name: name.clone(), hash, tags: tags.clone() }])
            }
            None => unchanged(),
        }
    }

    fn set_user_limits(
        &self,
        user: Arc<str>,
        max_connections: Option<Maximum>,
        max_channels: Option<Maximum>,
    ) -> Result<Decision, CatalogError> {
        let known = self.known_user(&user)?.limits;
        let limits = UserLimits {
            max_connections: max_connections.unwrap_or(known.max_connections),
            max_channels: max_channels.unwrap_or(known.max_channels),
        };
        Ok(if limits == known { unchanged() } else { changed(vec![Change::UserLimitsSet { user, limits }]) })
    }

    fn delete_user(&self, name: Arc<str>) -> Decision {
        if self.users().get(&name).is_some() {
            changed(vec![Change::UserDeleted { name }])
        } else {
            unchanged()
        }
    }

    fn set_permissions(
        &self,
        user: Arc<str>,
        vhost: Arc<str>,
        permissions: Permissions,
    ) -> Result<Decision, CatalogError> {
        self.check_vhost(&vhost)?;
        let known = self.known_user(&user)?;
        permissions.check().map_err(|reason| CatalogError::Invalid { reason })?;
        let created = !known.permissions.contains_key(&vhost);
        Ok(set(created, Change::PermissionsSet { user, vhost, permissions }))
    }

    fn set_topic_permissions(
        &self,
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Arc<str>,
        permissions: TopicPermissions,
    ) -> Result<Decision, CatalogError> {
        self.check_vhost(&vhost)?;
        let topics = self.known_user(&user)?.topics.get(&vhost);
        permissions.check().map_err(|reason| CatalogError::Invalid { reason })?;
        let created = topics.is_none_or(|topics| !topics.contains_key(&exchange));
        if created && topics.is_some_and(|topics| topics.len() >= TOPICS_MAX) {
            let reason = format!(
                "user '{user}' has topic permissions for {TOPICS_MAX} exchanges in vhost '{vhost}': no more are possible"
            );
            return Err(CatalogError::PreconditionFailed { reason });
        }
        Ok(set(created, Change::TopicPermissionsSet { user, vhost, exchange, permissions }))
    }

    fn clear_topic_permissions(
        &self,
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Option<Arc<str>>,
    ) -> Decision {
        let topics = self.users().get(&user).and_then(|user| user.topics.get(&vhost));
        let has_any = match (&exchange, topics) {
            (Some(exchange), Some(topics)) => topics.contains_key(exchange),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if has_any {
            changed(vec![Change::TopicPermissionsCleared { user, vhost, exchange }])
        } else {
            unchanged()
        }
    }

    fn known_user(&self, name: &str) -> Result<&UserRecord, CatalogError> {
        let unknown = || CatalogError::NotFound { reason: format!("no user '{name}'") };
        self.users().get(name).ok_or_else(unknown)
    }

    fn clear_permissions(&self, user: Arc<str>, vhost: Arc<str>) -> Decision {
        let has_any = self.users().get(&user).is_some_and(|u| u.permissions.contains_key(&vhost));
        if has_any { changed(vec![Change::PermissionsCleared { user, vhost }]) } else { unchanged() }
    }
}

fn check_tags(whose: &str, tags: &[String]) -> Result<(), CatalogError> {
    if tags.len() > TAGS_MAX {
        let reason = format!("{whose} has {} tags: at most {TAGS_MAX} are possible", tags.len());
        return Err(CatalogError::Invalid { reason });
    }
    tags.iter().try_for_each(|tag| check_name("tag", tag))
}

fn unchanged() -> Decision {
    Decision { changes: Vec::new(), answer: Answer::Done { changed: false } }
}

fn set(created: bool, change: Change) -> Decision {
    Decision { changes: vec![change], answer: Answer::Set { created } }
}

fn changed(changes: Vec<Change>) -> Decision {
    Decision { changes, answer: Answer::Done { changed: true } }
}
