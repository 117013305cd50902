//! Permissions: the names that a user may configure, write and read.

use super::{Permission, Resource};
use crate::pattern::Pattern;

/// The permissions of a user in one virtual host: the names of the resources that each covers (docs/operations/users.md, Permissions).
#[derive(Clone, Debug, PartialEq)]
pub struct Permissions {
    pub configure: Pattern,
    pub write: Pattern,
    pub read: Pattern,
}

impl Permissions {
    pub const ALL: Self =
        Self { configure: Pattern::Everything, write: Pattern::Everything, read: Pattern::Everything };

    pub const NONE: Self =
        Self { configure: Pattern::Nothing, write: Pattern::Nothing, read: Pattern::Nothing };

    /// Compiles configure, write and read.
    ///
    /// # Errors
    /// One of them is not a possible pattern; the error names it.
    pub fn new([configure, write, read]: [&str; 3]) -> Result<Self, String> {
        let compile = |permission: Permission, text| {
            Pattern::of_permission(text).map_err(|why| format!("{}: {why}", permission.as_str()))
        };
        Ok(Self {
            configure: compile(Permission::Configure, configure)?,
            write: compile(Permission::Write, write)?,
            read: compile(Permission::Read, read)?,
        })
    }

    /// Checks that a match of each pattern is cheap enough, for permissions that somebody sets.
    ///
    /// # Errors
    /// One of them is too costly; the error names it.
    pub fn check(&self) -> Result<(), String> {
        Permission::ALL.into_iter().try_for_each(|permission| {
            let checked = self.of(permission).check_permission();
            checked.map_err(|why| format!("{}: {why}", permission.as_str()))
        })
    }

    /// Returns the texts of configure, write and read.
    pub fn patterns(&self) -> [&str; 3] {
        Permission::ALL.map(|permission| self.of(permission).as_str())
    }

    pub(super) fn of(&self, permission: Permission) -> &Pattern {
        match permission {
            Permission::Configure => &self.configure,
            Permission::Write => &self.write,
            Permission::Read => &self.read,
        }
    }

    pub(super) fn grants(&self, permission: Permission, resource: Resource<'_>) -> bool {
        self.of(permission).is_match(resource.name())
    }
}
