//! Says whether the first user, `guest` with the password `guest`, can log in, and from where: everybody knows it. Warns if others
//! can use it, if it is the only one and cannot connect from elsewhere, and if there is no user at all.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use amqp10::sasl::Secret;
use catalog::access::{Identity, MAKE_A_USER, Users};
use node::Node;

use crate::config::{BackendName, Config};

/// The name and the password that a broker starts with, unless it is configured otherwise.
pub(crate) const GUEST: &str = "guest";

/// Returns the logins that everybody knows: the first user, if its password was never changed. `default_user` is its name.
pub(crate) fn known_logins(default_user: &str) -> Vec<(String, Secret)> {
    [default_user, GUEST].into_iter().map(|user| (user.to_owned(), Secret::new(GUEST))).collect()
}

/// What the log says about the first user, right after the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Says whether the first user can log in with the password that everybody knows, and from where.
    pub line: String,
    /// Set if there is no user, or if other machines can reach the broker and either can log in with that password, or cannot log
    /// in as anybody.
    pub warning: Option<String>,
}

/// Looks at the users of a node. Returns `None` if they cannot be read.
pub(crate) fn report(
    config: &Config,
    listeners: &[SocketAddr],
    has_other_backends: bool,
    node: &Node,
    data_dir: &Path,
) -> Option<Report> {
    // The operator who reads the log may see all users.
    let who = Identity::internal("serve", "administrator");
    let users = &*node.api().users(&who).ok()?;
    let reachable = listeners.iter().find(|address| !address.ip().to_canonical().is_loopback()).copied();
    let loopback_users = &config.loopback_users;
    let known = match asks_catalog(config) {
        true => known_login(&config.default_user, reachable, loopback_users, users),
        false => Known::Refused(format!("user '{}'", config.default_user), "auth_backends asks others"),
    };
    let of_others = || nobody(reachable?, loopback_users, has_other_backends, users);
    let warning = no_user(has_other_backends, users, data_dir).or_else(|| known.warning()).or_else(of_others);
    Some(Report { line: known.to_string(), warning })
}

/// Returns true if the users of the broker itself may log in, over any protocol.
fn asks_catalog(config: &Config) -> bool {
    let mut all = config.backends.iter().chain(config.http_backends.iter().flatten());
    all.any(|entry| entry.authn == BackendName::Internal)
}

/// Whether the first user can log in with the password that everybody knows.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    /// It cannot: who, and why.
    Refused(String, &'static str),
    /// From this machine only.
    Here(String),
    /// From wherever this address can be reached.
    There(String, SocketAddr),
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(who, why) => {
                write!(f, "{who} cannot log in with the default password '{GUEST}': {why}")
            }
            Self::Here(user) => write!(
                f,
                "user '{user}' can log in with the default password '{GUEST}', from this machine only"
            ),
            Self::There(user, at) => write!(
                f,
                "user '{user}' can log in with the default password '{GUEST}', from every machine that reaches {at}"
            ),
        }
    }
}

impl Known {
    fn warning(&self) -> Option<String> {
        let Self::There(user, reachable) = self else { return None };
        Some(format!(
            "other machines can log in as user '{user}' with the password '{GUEST}', at {reachable} for example: change the \
             password (sluice set password {user}), delete the user, or set loopback_users.{user} = true"
        ))
    }
}

fn known_login(
    default_user: &str,
    reachable: Option<SocketAddr>,
    loopback_users: &[String],
    users: &Users,
) -> Known {
    let has_known_password =
        |name: &&str| users.get(name).is_some_and(|user| user.hash.is_of(&Secret::new(GUEST)));
    let names = [default_user, GUEST];
    let names = if default_user == GUEST { &names[..1] } else { &names[..] };
    let mut found = names.iter().copied().filter(has_known_password).peekable();
    let Some(first) = found.peek().map(|name| (*name).to_owned()) else {
        let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let why = match names.iter().any(|name| users.get(name).is_some()) {
            true => "the password is another one",
            false => "there is no such user",
        };
        return Known::Refused(format!("user {}", quoted.join(" or ")), why);
    };
    let is_let_in = |name: &&str| !loopback_users.iter().any(|only| only == name);
    match (reachable, found.find(is_let_in)) {
        (Some(at), Some(user)) => Known::There(user.to_owned(), at),
        _ => Known::Here(first),
    }
}

fn no_user(has_other_backends: bool, users: &Users, data_dir: &Path) -> Option<String> {
    (!has_other_backends && users.iter().next().is_none()).then(|| {
        format!(
            "there is no user, so nobody can log in: stop the broker, and add one: sluice add user NAME --tags administrator \
             --data-dir {}",
            data_dir.display()
        )
    })
}

fn nobody(
    reachable: SocketAddr,
    loopback_users: &[String],
    has_other_backends: bool,
    users: &Users,
) -> Option<String> {
    let mut all = users.iter().peekable();
    let user = all.peek()?.name.clone();
    if has_other_backends || !all.all(|user| loopback_users.iter().any(|name| **name == *user.name)) {
        return None;
    }
    Some(format!(
        "other machines can reach {reachable}, but nobody can log in from there: user '{user}' can only connect via localhost; \
         {MAKE_A_USER}"
    ))
}

#[cfg(test)]
mod tests {
    use catalog::access::Hashing;

    use super::*;

    fn users(name: &str, password: &'static str) -> Users {
        let mut users = Users::default();
        users.set(&name.into(), Hashing::Sha256.hash([1; 16], &Secret::new(password)), &[].into());
        users
    }

    #[test]
    fn the_log_says_who_can_log_in_with_the_known_password() {
        let there = Some("0.0.0.0:15672".parse().unwrap());
        let known = |user: &str, reachable, loopback: &[&str], users: &Users| {
            let loopback: Vec<String> = loopback.iter().map(|name| (*name).to_owned()).collect();
            known_login(user, reachable, &loopback, users).to_string()
        };
        let (guest, ops, none) = (users("guest", "guest"), users("ops", "guest"), Users::default());
        for (said, expected) in [
            (
                known("guest", there, &["guest"], &guest),
                "user 'guest' can log in with the default password 'guest', from this machine only",
            ),
            (
                known("guest", None, &[], &guest),
                "user 'guest' can log in with the default password 'guest', from this machine only",
            ),
            (
                known("guest", there, &[], &guest),
                "user 'guest' can log in with the default password 'guest', from every machine that reaches 0.0.0.0:15672",
            ),
            (
                known("ops", there, &["guest"], &ops),
                "user 'ops' can log in with the default password 'guest', from every machine that reaches 0.0.0.0:15672",
            ),
            (
                known("ops", there, &["guest"], &guest),
                "user 'guest' can log in with the default password 'guest', from this machine only",
            ),
            (
                known("guest", there, &[], &users("guest", "another")),
                "user 'guest' cannot log in with the default password 'guest': the password is another one",
            ),
            (
                known("ops", there, &[], &none),
                "user 'ops' or 'guest' cannot log in with the default password 'guest': there is no such user",
            ),
        ] {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn only_a_known_password_that_others_can_use_is_warned_of() {
        let known = users("guest", "guest");
        let reachable = Some("0.0.0.0:15672".parse().unwrap());
        let warning =
            |loopback: &[String], users: &Users| known_login("guest", reachable, loopback, users).warning();
        let warned = warning(&[], &known).unwrap();
        assert!(warned.contains("at 0.0.0.0:15672") && warned.contains("set password guest"), "{warned}");
        assert_eq!(warning(&["guest".to_owned()], &known), None);
        assert_eq!(warning(&[], &users("guest", "another")), None);
        assert_eq!(warning(&[], &users("ops", "guest")), None);
    }

    #[test]
    fn a_broker_without_users_is_warned_of() {
        let warning = no_user(false, &Users::default(), Path::new("/data")).unwrap();
        assert!(warning.contains("sluice add user NAME --tags administrator --data-dir /data"), "{warning}");
        assert_eq!(
            no_user(true, &Users::default(), Path::new("/data")),
            None,
            "another backend may know users"
        );
        assert_eq!(no_user(false, &users("ann", "a"), Path::new("/data")), None);
    }

    #[test]
    fn a_broker_that_nobody_can_use_from_elsewhere_is_warned_of() {
        let reachable = "0.0.0.0:5672".parse().unwrap();
        let (guest, mut both) = (["guest".to_owned()], users("guest", "guest"));
        let warning = nobody(reachable, &guest, false, &both).unwrap();
        assert!(warning.contains("0.0.0.0:5672") && warning.contains("sluice add user NAME"), "{warning}");
        assert_eq!(nobody(reachable, &[], false, &both), None);
        assert_eq!(nobody(reachable, &guest, true, &both), None, "another backend may know users");
        assert_eq!(
            nobody(reachable, &guest, false, &Users::default()),
            None,
            "there is no user who could add one"
        );
        both.set(&"ann".into(), Hashing::Sha256.hash([1; 16], &Secret::new("a")), &[].into());
        assert_eq!(nobody(reachable, &guest, false, &both), None);
    }
}
