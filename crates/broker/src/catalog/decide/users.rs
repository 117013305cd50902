//! The rules for virtual hosts, users, and the permissions of users.

use std::sync::Arc;

use super::{Answer, CatalogError, Decision, check_name};
use crate::access::{PasswordHash, Permissions};
use crate::catalog::{Catalog, Change};

impl Catalog {
    pub(super) fn add_vhost(&self, name: Arc<str>) -> Result<Decision, CatalogError> {
        check_name("vhost", &name)?;
        Ok(if self.has_vhost(&name) { unchanged() } else { changed(vec![Change::VhostAdded { name }]) })
    }

    pub(super) fn delete_vhost(&self, name: Arc<str>) -> Result<Decision, CatalogError> {
        let Some(vhost) = self.vhosts.get(&name) else { return Ok(unchanged()) };
        if !vhost.queues.is_empty() {
            let reason = format!("vhost '{name}' has {} queues: delete them first", vhost.queues.len());
            return Err(CatalogError::PreconditionFailed { reason });
        }
        let mut users: Vec<_> = self.users().iter().filter(|u| u.permissions.contains_key(&name)).collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        let cleared =
            users.iter().map(|u| Change::PermissionsCleared { user: u.name.clone(), vhost: name.clone() });
        let mut changes: Vec<_> = cleared.collect();
        changes.push(Change::VhostDeleted { name });
        Ok(changed(changes))
    }

    pub(super) fn set_user(
        &self,
        name: Arc<str>,
        hash: PasswordHash,
        tags: Arc<[String]>,
    ) -> Result<Decision, CatalogError> {
        check_name("user", &name)?;
        Ok(changed(vec![Change::UserSet { name, hash, tags }]))
    }

    pub(super) fn delete_user(&self, name: Arc<str>) -> Decision {
        if self.users().get(&name).is_some() {
            changed(vec![Change::UserDeleted { name }])
        } else {
            unchanged()
        }
    }

    pub(super) fn set_permissions(
        &self,
        user: Arc<str>,
        vhost: Arc<str>,
        permissions: Permissions,
    ) -> Result<Decision, CatalogError> {
        self.check_vhost(&vhost)?;
        if self.users().get(&user).is_none() {
            return Err(CatalogError::NotFound { reason: format!("no user '{user}'") });
        }
        Ok(changed(vec![Change::PermissionsSet { user, vhost, permissions }]))
    }

    pub(super) fn clear_permissions(&self, user: Arc<str>, vhost: Arc<str>) -> Decision {
        let has_any = self.users().get(&user).is_some_and(|u| u.permissions.contains_key(&vhost));
        if has_any { changed(vec![Change::PermissionsCleared { user, vhost }]) } else { unchanged() }
    }
}

fn unchanged() -> Decision {
    Decision { changes: Vec::new(), answer: Answer::Done { changed: false } }
}

fn changed(changes: Vec<Change>) -> Decision {
    Decision { changes, answer: Answer::Done { changed: true } }
}
