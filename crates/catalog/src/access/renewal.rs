//! Outdated password hashes, which are replaced when their users log in: only then is the password known.

use std::sync::Arc;

use amqp10::sasl::Secret;

use super::{Access, Credentials, Login, PasswordHash};

/// An outdated hash, and the password that it belongs to.
#[derive(Debug)]
pub struct Renewal<'a> {
    pub user: Arc<str>,
    pub outdated: PasswordHash,
    pub password: &'a Secret,
}

impl Access {
    /// Called after a login was right. Returns the hash of the user if it is outdated. The password is compared once more: it may
    /// have been changed since, or the login was right for another reason.
    pub fn renewal<'a>(&self, login: &'a Login) -> Option<Renewal<'a>> {
        let Credentials::Plain { user, password } = &login.credentials else { return None };
        let users = self.users();
        let known = users.get(user)?;
        let is_outdated = known.hash.hashing().is_outdated() && known.hash.is_of(password);
        is_outdated.then(|| Renewal { user: known.name.clone(), outdated: known.hash.clone(), password })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hashing, User};
    use super::*;

    #[test]
    fn only_an_outdated_hash_of_the_right_password_is_renewed() {
        let user = |name: &str, hashing: Hashing| User {
            name: name.into(),
            hash: hashing.hash([1; 16], &Secret::new("p")),
            tags: Vec::new(),
            loopback_only: false,
            permissions: Default::default(),
        };
        let access = Access::new([user("old", Hashing::Md5), user("new", Hashing::Sha256)]);
        let renewed = |user: &str, password: &str| {
            let credentials =
                Credentials::Plain { user: user.to_owned(), password: Secret::new(password.to_owned()) };
            let from = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
            let login = Login { credentials, from, at_ms: 0 };
            access.renewal(&login).map(|renewal| renewal.user.to_string())
        };
        assert_eq!(renewed("old", "p").as_deref(), Some("old"));
        assert_eq!(renewed("old", "q"), None);
        assert_eq!((renewed("new", "p"), renewed("absent", "p")), (None, None));
    }
}
