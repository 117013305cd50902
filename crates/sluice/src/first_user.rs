//! Warns of the first user that everybody knows: `guest` with the password `guest`.

use std::net::SocketAddr;

use amqp10::sasl::Secret;
use broker::access::{Identity, Users};
use broker::desk::Desk as _;
use node::Node;

/// The name and the password that a broker starts with, unless it is configured otherwise.
const GUEST: &str = "guest";

/// Returns a warning if other machines can log in as `guest` with the password that everybody knows.
pub fn warning(listeners: &[SocketAddr], loopback_users: &[String], node: &Node) -> Option<String> {
    // The operator who reads the log may see all users.
    let who = Identity::internal("serve", "administrator");
    warning_of(listeners, loopback_users, &*node.desk().users(&who).ok()?)
}

fn warning_of(listeners: &[SocketAddr], loopback_users: &[String], users: &Users) -> Option<String> {
    let reachable = listeners.iter().find(|address| !address.ip().to_canonical().is_loopback())?;
    if loopback_users.iter().any(|user| user == GUEST) {
        return None;
    }
    // Checked last, because a check takes time and memory.
    users.get(GUEST).filter(|guest| guest.hash.is_of(&Secret::new(GUEST)))?;
    Some(format!(
        "other machines can log in as user '{GUEST}' with the password '{GUEST}', at {reachable} for example: change the password \
         (sluice user change-password {GUEST}), delete the user, or set loopback_users.{GUEST} = true"
    ))
}

#[cfg(test)]
mod tests {
    use broker::access::Hashing;

    use super::*;

    #[test]
    fn only_a_known_password_that_others_can_use_is_warned_of() {
        let users = |name: &str, password: &'static str| {
            let mut users = Users::default();
            users.set(&name.into(), Hashing::Sha256.hash([1; 16], &Secret::new(password)), &[].into());
            users
        };
        let known = users("guest", "guest");
        let addresses =
            |texts: &[&str]| -> Vec<SocketAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        let open = addresses(&["127.0.0.1:5672", "0.0.0.0:15672"]);
        let warning = warning_of(&open, &[], &known).unwrap();
        assert!(
            warning.contains("at 0.0.0.0:15672") && warning.contains("change-password guest"),
            "{warning}"
        );
        assert_eq!(warning_of(&open, &["guest".to_owned()], &known), None);
        assert_eq!(warning_of(&open, &[], &users("guest", "another")), None);
        assert_eq!(warning_of(&open, &[], &users("ops", "guest")), None);
        let closed = addresses(&["127.0.0.2:5672", "[::1]:5672", "[::ffff:127.0.0.1]:15672"]);
        assert_eq!(warning_of(&closed, &[], &known), None);
    }
}
