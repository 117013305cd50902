//! The keys `auth_mechanisms.N`: how clients may log in.

use std::collections::BTreeMap;

use super::key::{Key, key};
use super::values::pair_name;
use super::wrong::Wrong;

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[key(
    "auth_mechanisms.*",
    "",
    "A SASL mechanism that clients may use: PLAIN, AMQPLAIN, ANONYMOUS or EXTERNAL. Without any: all. If some are named and ANONYMOUS is not, nobody is anonymous. PLAIN must be one of them, and EXTERNAL if clients are asked for certificates.",
    |c, name, v| c.mechanisms.set(name, v),
)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Plain,
    AmqPlain,
    Anonymous,
    External,
}

/// The mechanisms by the names at the ends of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct MechanismKeys(BTreeMap<String, Mechanism>);

impl MechanismKeys {
    /// Sets a mechanism. An empty value takes it away.
    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let name = pair_name(name)?;
        let mechanism = match value {
            "PLAIN" => Mechanism::Plain,
            "AMQPLAIN" => Mechanism::AmqPlain,
            "ANONYMOUS" => Mechanism::Anonymous,
            "EXTERNAL" => Mechanism::External,
            "" => {
                self.0.remove(&name);
                return Ok(());
            }
            _ => return Err(Wrong::Value("PLAIN, AMQPLAIN, ANONYMOUS or EXTERNAL is needed".into())),
        };
        self.0.insert(name, mechanism);
        Ok(())
    }

    /// Returns true if clients may log in without credentials.
    pub(super) fn allow_anonymous(&self) -> bool {
        self.allow(Mechanism::Anonymous)
    }

    /// Returns what the list leaves out although clients can use it. `asks` is true if clients are asked for certificates.
    pub(super) fn problem(&self, asks: bool) -> Option<&'static str> {
        if !self.allow(Mechanism::Plain) {
            return Some(
                "PLAIN is always offered: add it to the list. ssl_options.fail_if_no_peer_cert = true demands certificates",
            );
        }
        (asks && !self.allow(Mechanism::External)).then_some(
            "EXTERNAL is offered to each client with a certificate: add it to the list, or set ssl_options.verify = verify_none",
        )
    }

    fn allow(&self, mechanism: Mechanism) -> bool {
        self.0.is_empty() || self.0.values().any(|listed| *listed == mechanism)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "f", &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn without_anonymous_no_client_is_anonymous() {
        let user = |text: &str| parse(text).unwrap().settings.anonymous_login_user;
        assert_eq!(user("auth_mechanisms.1 = PLAIN"), None);
        assert_eq!(
            user("auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = AMQPLAIN\nanonymous_login_user = a"),
            None
        );
        assert_eq!(
            user("auth_mechanisms.1 = PLAIN\nauth_mechanisms.b = ANONYMOUS").as_deref(),
            Some("guest")
        );
        assert_eq!(user("auth_mechanisms.1 = PLAIN\nauth_mechanisms.1 =\n").as_deref(), Some("guest"));
    }

    #[test]
    fn what_cannot_be_switched_off_is_refused() {
        let tls = "ssl_options.verify = verify_peer\n";
        for (text, why) in [
            ("auth_mechanisms.1 = EXTERNAL".to_owned(), "f:1: auth_mechanisms: PLAIN is always offered"),
            (
                format!("{tls}auth_mechanisms.1 = PLAIN"),
                "f:2: auth_mechanisms: EXTERNAL is offered to each client",
            ),
            (
                "auth_mechanisms.1 = RABBIT-CR-DEMO".to_owned(),
                "PLAIN, AMQPLAIN, ANONYMOUS or EXTERNAL is needed",
            ),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(parse(&format!("{tls}auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL")).is_ok());
    }
}
