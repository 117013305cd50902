//! Changes of users, their permissions, and virtual hosts.

use std::sync::Arc;

use amqp10::sasl::Secret;

use crate::access::{PasswordHash, Permissions};

/// The new password of a user.
#[derive(Clone, Debug)]
pub enum NewPassword {
    /// It is hashed with the node's algorithm (`password_hashing`).
    Plain(Secret),
    /// Its hash, made elsewhere.
    Hash(PasswordHash),
    /// The user cannot log in with a password.
    Without,
}

/// A change for [`super::Desk::change_account`].
#[derive(Clone, Debug)]
pub enum AccountChange {
    /// Creates a user, or replaces the password and the tags of one. Permissions stay.
    SetUser {
        name: Arc<str>,
        password: NewPassword,
        tags: Arc<[String]>,
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
    AddVhost {
        name: Arc<str>,
    },
    /// Deletes a virtual host without queues, and everything else in it.
    DeleteVhost {
        name: Arc<str>,
    },
}
