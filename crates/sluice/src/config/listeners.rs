//! The keys of the listeners for AMQP clients: `listeners.tcp.NAME` and `listeners.ssl.NAME`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::key::{Key, key, starred};
use super::values::{listener, or_none, pair_name};
use super::wrong::Wrong;

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    key(
        "listeners.tcp.default",
        "127.0.0.1:5672",
        "The address for AMQP clients: ip:port, a port of the loopback address, or none.",
        |c, _, v| c.tcp.set("default", v),
    ),
    starred(
        "internal",
        key(
            "listeners.tcp.*",
            "",
            "A further address for AMQP clients, by any name. If there is one, the default address counts only if it is set, too.",
            |c, name, v| c.tcp.set(name, v),
        ),
    ),
    key(
        "listeners.tcp",
        "",
        "none: no address for AMQP clients without TLS, whatever the other keys say.",
        |c, _, v| c.tcp.set_off(v, "listeners.tcp.default"),
    ),
    key(
        "listeners.ssl.default",
        "none",
        "The address for AMQP clients with TLS: ip:port, a port of the loopback address, or none. The usual port is 5671.",
        |c, _, v| c.ssl.set("default", v),
    ),
    starred(
        "internal",
        key(
            "listeners.ssl.*",
            "",
            "A further address for AMQP clients with TLS, by any name.",
            |c, name, v| c.ssl.set(name, v),
        ),
    ),
    key(
        "listeners.ssl",
        "",
        "none: no address for AMQP clients with TLS, whatever the other keys say.",
        |c, _, v| c.ssl.set_off(v, "listeners.ssl.default"),
    ),
];

/// The addresses of one kind of listeners.
#[derive(Clone, Debug, Default)]
pub(super) struct ListenerKeys {
    /// By their names. `None` for `none`.
    named: BTreeMap<String, Option<SocketAddr>>,
    is_off: bool,
}

impl ListenerKeys {
    /// Sets an address. An empty value takes it away.
    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let name = pair_name(name)?;
        match value {
            "" => self.named.remove(&name),
            _ => self.named.insert(name, or_none(value, listener)?),
        };
        Ok(())
    }

    /// Sets the key without a name. `instead` is the key that has an address.
    fn set_off(&mut self, value: &str, instead: &str) -> Result<(), Wrong> {
        if !matches!(value, "" | "none") {
            return Err(Wrong::Value(format!("none is needed; {instead} has the address")));
        }
        self.is_off = value == "none";
        Ok(())
    }

    /// Returns the addresses in the order of their names. `default` is used if none has a name.
    pub(super) fn addresses(self, default: Option<SocketAddr>) -> Vec<SocketAddr> {
        match (self.is_off, self.named.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => default.into_iter().collect(),
            (false, false) => self.named.into_values().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "f", &[]).map_err(|error| error.to_string())
    }

    fn addresses(text: &str) -> Vec<String> {
        let shown = |addresses: Vec<SocketAddr>| addresses.iter().map(ToString::to_string).collect();
        shown(parse(text).unwrap().amqp_listeners)
    }

    #[test]
    fn listeners_have_names_and_replace_the_default() {
        assert_eq!(addresses(""), ["127.0.0.1:5672"]);
        assert_eq!(addresses("listeners.tcp.1 = 5673"), ["127.0.0.1:5673"]);
        assert_eq!(
            addresses(
                "listeners.tcp.2 = 192.0.2.1:5672\nlisteners.tcp.1 = [::1]:5672\nlisteners.tcp.default = 1"
            ),
            ["[::1]:5672", "192.0.2.1:5672", "127.0.0.1:1"]
        );
        assert_eq!(
            addresses("listeners.tcp.local = 127.0.0.1:5673\nlisteners.tcp.local =\n"),
            ["127.0.0.1:5672"]
        );
        let tls =
            parse("listeners.ssl.1 = 0.0.0.0:5671\nlisteners.ssl.2 = [::]:5671\n").unwrap().tls_listeners;
        assert_eq!(tls, ["0.0.0.0:5671", "[::]:5671"].map(|address| address.parse::<SocketAddr>().unwrap()));
    }

    #[test]
    fn none_is_no_listener_at_all() {
        assert_eq!(addresses("listeners.tcp = none"), [""; 0]);
        assert_eq!(addresses("listeners.tcp = none\nlisteners.tcp.1 = 5673\n"), [""; 0], "as in RabbitMQ");
        assert_eq!(addresses("listeners.tcp = none\nlisteners.tcp =\n"), ["127.0.0.1:5672"]);
        assert!(parse("listeners.ssl = none\nlisteners.ssl.1 = 5671").unwrap().tls_listeners.is_empty());
        let refused = parse("listeners.tcp = 5672").unwrap_err();
        assert!(refused.contains("none is needed; listeners.tcp.default has the address"), "{refused}");
    }

    #[test]
    fn a_refused_listener_says_what_to_write() {
        for (value, why) in [
            ("localhost:5672", "a port from 0 to 65535 or ip:port is needed, not the name of a host"),
            ("local:/run/amqp.sock:0", "listeners.unix.default has the path of a Unix domain socket"),
            ("::1:5672", "[::1]:5672"),
            ("65536", "a port from 0 to 65535"),
        ] {
            let refused = parse(&format!("listeners.tcp.1 = {value}")).unwrap_err();
            assert!(refused.contains(why), "{value}: {refused}");
        }
    }
}
