//! The hosts that requests may name, and the logins that depend on them. See `origin.rs` for the reasons.

use std::net::{Ipv4Addr, Ipv6Addr};

use amqp10::sasl::Secret;
use catalog::names::cut;

use crate::reply::Failure;

/// The hosts of a node, and the logins that depend on them.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The hosts that browsers and proxies may name (`management.allowed_hosts.N`): `mq.example.com`, or `mq.example.com:8443`.
    pub allowed: Vec<String>,
    /// The names of this machine.
    pub own: Vec<String>,
    /// The users who may log in from this machine only (`loopback_users`).
    pub local_users: Vec<String>,
    /// Users with a password that everybody knows.
    pub known_logins: Vec<(String, Secret)>,
}

impl HostOptions {
    /// Returns true if a value of `management.allowed_hosts.N` is a host with or without a port.
    pub fn is_host(text: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
        text.chars().all(is_part) && place_of(text).is_some()
    }

    /// Checks that a user may log in with a request that names this host.
    ///
    /// # Errors
    /// 401 without a challenge: other credentials may help, but a browser must not ask for them on a page of another site.
    pub fn permit(&self, user: &str, password: &Secret, host: Option<&str>) -> Result<(), Failure> {
        let is_known = self.known_logins.iter().any(|(name, known)| name == user && known == password);
        let is_concerned = is_known || self.local_users.iter().any(|name| name == user);
        let host = host.unwrap_or_default();
        if !is_concerned || self.is_safe(host) {
            return Ok(());
        }
        Err(Failure::not_authorised(format!(
            "user '{}' cannot log in with the host name '{}': use an IP address or localhost, or list the name in \
             management.allowed_hosts",
            cut(user),
            cut(host)
        )))
    }

    /// Returns true if no other site can have this value of `Host`.
    fn is_safe(&self, host: &str) -> bool {
        let Some((name, _)) = place_of(host) else { return false };
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<Ipv4Addr>().is_ok(),
        };
        let allowed = self.allowed.iter().filter_map(|allowed| place_of(allowed)).map(|(name, _)| name);
        let mut names = allowed.chain(self.own.iter().map(String::as_str)).chain(["localhost"]);
        is_address || names.any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Splits `host:port` or `host`. An IPv6 address is in brackets.
pub(crate) fn place_of(text: &str) -> Option<(&str, Option<u16>)> {
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let port = match rest {
        "" => None,
        _ => {
            let digits =
                rest.strip_prefix(':').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
            Some(digits.parse().ok()?)
        }
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_host_has_no_scheme_and_no_path() {
        for good in ["mq", "mq.example.com", "mq:8443", "10.0.0.1", "[::1]:80", "a_b-c"] {
            assert!(HostOptions::is_host(good), "{good}");
        }
        for bad in
            ["", "*", "http://mq", "mq/", "mq:", "mq:x", "mq:70000", "u@mq", "a b", "::1", "*.mq", "[::1"]
        {
            assert!(!HostOptions::is_host(bad), "{bad}");
        }
    }

    #[test]
    fn only_names_that_no_other_site_can_have_are_safe() {
        let options = HostOptions {
            allowed: vec!["mq.example:8443".into()],
            own: vec!["node7".into()],
            ..HostOptions::default()
        };
        for safe in [
            "127.0.0.1",
            "127.0.0.1:15672",
            "10.1.2.3:1",
            "[::1]",
            "[fe80::1]:15672",
            "localhost",
            "LOCALHOST:15672",
            "node7:15672",
            "mq.example",
            "MQ.example:15672",
        ] {
            assert!(options.is_safe(safe), "{safe}");
        }
        for unsafe_host in [
            "",
            "evil.example",
            "evil.example:15672",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.1",
            "0x7f000001",
            "[evil]",
            "u@localhost",
            "node7.evil.example",
            "localhost:x",
        ] {
            assert!(!options.is_safe(unsafe_host), "{unsafe_host}");
        }
    }
}
