//! Warns of the first user, `guest` with the password `guest`: everybody knows it, or it is the only one and cannot connect from
//! elsewhere. Also warns if there is no user at all.

use std::net::SocketAddr;
use std::path::Path;

use amqp10::sasl::Secret;
use broker::access::{Identity, MAKE_A_USER, Users};
use broker::desk::Desk as _;
use node::Node;

/// The name and the password that a broker starts with, unless it is configured otherwise.
const GUEST: &str = "guest";

/// Returns the logins that everybody knows: the first user, if its password was never changed. `default_user` is its name.
pub fn known_logins(default_user: &str) -> Vec<(String, Secret)> {
    [default_user, GUEST].into_iter().map(|user| (user.to_owned(), Secret::new(GUEST))).collect()
}

/// Returns a warning if there is no user. Otherwise returns one if other machines can reach the broker, and either can log in as
/// `guest` with the password that everybody knows, or cannot log in as anybody.
pub fn warning(
    listeners: &[SocketAddr],
    loopback_users: &[String],
    has_other_backends: bool,
    node: &Node,
    data_dir: &Path,
) -> Option<String> {
    // The operator who reads the log may see all users.
    let who = Identity::internal("serve", "administrator");
    let users = &*node.desk().users(&who).ok()?;
    if let Some(nobody) = no_user(has_other_backends, users, data_dir) {
        return Some(nobody);
    }
    let reachable = *listeners.iter().find(|address| !address.ip().to_canonical().is_loopback())?;
    let of_guest = known_password(reachable, loopback_users, users);
    of_guest.or_else(|| nobody(reachable, loopback_users, has_other_backends, users))
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

fn known_password(reachable: SocketAddr, loopback_users: &[String], users: &Users) -> Option<String> {
    if loopback_users.iter().any(|user| user == GUEST) {
        return None;
    }
    // Checked last, because a check takes time and memory.
    users.get(GUEST).filter(|guest| guest.hash.is_of(&Secret::new(GUEST)))?;
    Some(format!(
        "other machines can log in as user '{GUEST}' with the password '{GUEST}', at {reachable} for example: change the password \
         (sluice set password {GUEST}), delete the user, or set loopback_users.{GUEST} = true"
    ))
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
    use broker::access::Hashing;

    use super::*;

    fn users(name: &str, password: &'static str) -> Users {
        let mut users = Users::default();
        users.set(&name.into(), Hashing::Sha256.hash([1; 16], &Secret::new(password)), &[].into());
        users
    }

    #[test]
    fn only_a_known_password_that_others_can_use_is_warned_of() {
        let known = users("guest", "guest");
        let reachable = "0.0.0.0:15672".parse().unwrap();
        let warning = known_password(reachable, &[], &known).unwrap();
        assert!(warning.contains("at 0.0.0.0:15672") && warning.contains("set password guest"), "{warning}");
        assert_eq!(known_password(reachable, &["guest".to_owned()], &known), None);
        assert_eq!(known_password(reachable, &[], &users("guest", "another")), None);
        assert_eq!(known_password(reachable, &[], &users("ops", "guest")), None);
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
