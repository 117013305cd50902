//! The keys of what a new virtual host gets: `default_limits.vhosts.ID.*`, `default_users.NAME.*` and
//! `default_policies.operator.NAME.*`.

use std::collections::BTreeMap;

use amqp10::Value;
use amqp10::sasl::Secret;
use catalog::access::{Maximum, PasswordHash, Permissions};
use catalog::pattern::Pattern;
use catalog::{Arguments, CatalogError, DefaultLimits, DefaultPolicy, DefaultUser, SetPolicy, VhostDefaults};

use super::values::{binary_bytes, free_name, maximum, text};
use super::wrong::Wrong;

/// What was set for new virtual hosts. Its `Debug` output shows no password.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    /// By id, whose order says which limits count if several match. It is RabbitMQ's: `10` is before `2`.
    limits: BTreeMap<String, DefaultLimits>,
    users: BTreeMap<String, UserKeys>,
    operator_policies: BTreeMap<String, PolicyKeys>,
}

#[derive(Clone, Debug)]
struct PolicyKeys {
    vhosts: Pattern,
    names: String,
    apply_to: String,
    definition: Arguments,
}

impl Default for PolicyKeys {
    fn default() -> Self {
        let (names, apply_to) = (".*".into(), "all".into());
        Self { vhosts: Pattern::Everything, names, apply_to, definition: Arguments::new() }
    }
}

impl PolicyKeys {
    fn policy(&self, name: &str) -> Result<DefaultPolicy, CatalogError> {
        let Self { vhosts, names, apply_to, definition } = self.clone();
        let policy = SetPolicy {
            vhost: "".into(),
            name: name.into(),
            operator: true,
            pattern: names,
            priority: 0,
            apply_to,
            definition,
        };
        DefaultPolicy::new(vhosts, policy)
    }
}

#[derive(Clone, Debug)]
struct UserKeys {
    vhosts: Pattern,
    /// A user without a password cannot log in with one.
    password: Option<Secret>,
    tags: Vec<String>,
    permissions: Permissions,
}

impl Default for UserKeys {
    fn default() -> Self {
        Self { vhosts: Pattern::Everything, password: None, tags: Vec::new(), permissions: Permissions::ALL }
    }
}

impl Defaults {
    /// Sets a key of `default_limits.vhosts`. `part` is what follows.
    ///
    /// # Errors
    /// Whether the end of the key or the value is wrong.
    pub(crate) fn set_limit(&mut self, part: &str, value: &str) -> Result<(), Wrong> {
        let (id, key) = named(part)?;
        let none = || DefaultLimits { vhosts: Pattern::Everything, max_connections: None, max_queues: None };
        let limits = self.limits.entry(id.to_owned()).or_insert_with(none);
        match key {
            "pattern" => limits.vhosts = Pattern::new(value)?,
            "max_connections" => limits.max_connections = limit(value)?,
            "max_queues" => limits.max_queues = limit(value)?,
            _ => return Err(Wrong::name("the key must end with pattern, max_connections or max_queues")),
        }
        Ok(())
    }

    /// Sets a key of `default_users`. `part` is what follows.
    ///
    /// # Errors
    /// Whether the end of the key or the value is wrong.
    pub(crate) fn set_user(&mut self, part: &str, value: &str) -> Result<(), Wrong> {
        let (name, key) = named(part)?;
        let user = self.users.entry(name.to_owned()).or_default();
        match key {
            "vhost_pattern" => user.vhosts = Pattern::new(value)?,
            "password" => user.password = Some(Secret::new(text(value)?)),
            "tags" => user.tags = value.split(',').map(|tag| text(tag.trim())).collect::<Result<_, _>>()?,
            "configure" => user.permissions.configure = Pattern::of_permission(value)?,
            "write" => user.permissions.write = Pattern::of_permission(value)?,
            "read" => user.permissions.read = Pattern::of_permission(value)?,
            _ => {
                return Err(Wrong::name(
                    "the key must end with vhost_pattern, password, tags, configure, write or read",
                ));
            }
        }
        Ok(())
    }

    /// Sets a key of `default_policies.operator`. `part` is what follows.
    ///
    /// # Errors
    /// Whether the end of the key or the value is wrong.
    pub(crate) fn set_operator_policy(&mut self, part: &str, value: &str) -> Result<(), Wrong> {
        let (name, key) = named(part)?;
        let policy = self.operator_policies.entry(name.to_owned()).or_default();
        match key {
            "vhost_pattern" => policy.vhosts = Pattern::new(value)?,
            "queue_pattern" => policy.names = text(value)?,
            "apply_to" => policy.apply_to = text(value)?,
            key => {
                let number = match key {
                    "expires" | "message_ttl" => milliseconds(value),
                    key if key.ends_with("_bytes") => {
                        binary_bytes(value).ok().and_then(|n| i64::try_from(n).ok())
                    }
                    _ => value.parse().ok(),
                };
                let value = number.map_or_else(|| value.into(), Value::Long);
                policy.definition.insert(key.replace('_', "-"), value);
            }
        }
        Ok(())
    }

    /// Returns what is wrong with the policies as a whole, each with the key of its name.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (String, String)> {
        self.operator_policies.iter().filter_map(|(name, keys)| {
            let problem = keys.policy(name).err()?.to_string();
            Some((format!("default_policies.operator.{name}"), problem))
        })
    }

    /// Returns what new virtual hosts get. `hash` makes the hash of a password.
    ///
    /// # Errors
    /// The errors of `hash`.
    pub(crate) fn of_vhosts<E>(
        &self,
        hash: impl Fn(Option<&Secret>) -> Result<PasswordHash, E>,
    ) -> Result<VhostDefaults, E> {
        let user = |(name, keys): (&String, &UserKeys)| {
            Ok(DefaultUser {
                name: name.as_str().into(),
                vhosts: keys.vhosts.clone(),
                hash: hash(keys.password.as_ref())?,
                tags: keys.tags.as_slice().into(),
                permissions: keys.permissions.clone(),
            })
        };
        let users: Result<Vec<_>, E> = self.users.iter().map(user).collect();
        // A policy with a problem was refused before.
        let policies = self.operator_policies.iter().filter_map(|(name, keys)| keys.policy(name).ok());
        Ok(VhostDefaults {
            limits: self.limits.values().cloned().collect(),
            users: users?,
            operator_policies: policies.collect(),
        })
    }
}

/// Splits the part of a key into the name that the operator has chosen, which may have dots, and the last word.
fn named(part: &str) -> Result<(&str, &str), Wrong> {
    let need = || Wrong::name("the key needs a name and what is set, with a dot between");
    let (name, key) = part.rsplit_once('.').ok_or_else(need)?;
    free_name(name)?;
    Ok((name, key))
}

/// Parses a time: a number of milliseconds, or one with a unit, as in `30m`.
fn milliseconds(value: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 6] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];
    let of_unit = |(unit, ms): &(&str, i64)| value.strip_suffix(unit)?.parse::<i64>().ok()?.checked_mul(*ms);
    value.parse().ok().or_else(|| UNITS.iter().find_map(of_unit))
}

/// Parses a limit. RabbitMQ writes -1 for none.
fn limit(value: &str) -> Result<Maximum, String> {
    if value == "-1" { Ok(None) } else { maximum(value) }
}

#[cfg(test)]
mod tests {
    use catalog::access::Hashing;

    use super::*;

    #[test]
    fn limits_and_users_are_set_key_by_key() {
        let mut defaults = Defaults::default();
        for (key, value) in [
            ("2.max_queues", "20"),
            ("10.pattern", "^team"),
            ("10.max_queues", "10"),
            ("10.max_connections", "-1"),
        ] {
            defaults.set_limit(key, value).unwrap();
        }
        for (key, value) in [
            ("a.b.vhost_pattern", "^team"),
            ("a.b.tags", "management, policymaker"),
            ("a.b.password", "secret"),
            ("a.b.configure", ""),
            ("probe.read", "^q"),
        ] {
            defaults.set_user(key, value).unwrap();
        }
        assert!(!format!("{defaults:?}").contains("secret"));
        let hashed = |password: Option<&Secret>| match password {
            Some(password) => Ok::<_, ()>(Hashing::Sha256.hash([1; 16], password)),
            None => Ok(Hashing::Sha256.of_nobody()),
        };
        let VhostDefaults { limits, users, .. } = defaults.of_vhosts(hashed).unwrap();
        let limits: Vec<_> =
            limits.iter().map(|l| (l.vhosts.as_str(), l.max_queues, l.max_connections)).collect();
        assert_eq!(limits, [("^team", Some(10), None), (".*", Some(20), None)]);
        assert_eq!((&*users[0].name, users[0].permissions.patterns()), ("a.b", ["", ".*", ".*"]));
        assert_eq!(*users[0].tags, ["management", "policymaker"]);
        assert!(users[0].hash.is_of(&Secret::new("secret")));
        assert!(users[1].hash.is_of_nobody());
        assert_eq!((users[1].vhosts.as_str(), users[1].permissions.patterns()), (".*", [".*", ".*", "^q"]));
    }

    #[test]
    fn operator_policies_are_set_key_by_key_and_checked_as_a_whole() {
        let mut defaults = Defaults::default();
        for (key, value) in [
            ("short.vhost_pattern", "^team"),
            ("short.queue_pattern", "^amq"),
            ("short.expires", "30m"),
            ("short.max_length_bytes", "1MiB"),
            ("short.overflow", "reject-publish"),
            ("bad.max_cats", "1"),
            ("worse.apply_to", "cats"),
            ("worse.message_ttl", "1"),
        ] {
            defaults.set_operator_policy(key, value).unwrap();
        }
        let problems: Vec<_> = defaults.problems().collect();
        let place = "default_policies.operator.";
        assert_eq!((problems.len(), &*problems[0].0), (2, &*format!("{place}bad")));
        assert!(problems[0].1.contains("'max-cats'") && problems[1].1.contains("cats"), "{problems:?}");
        assert_eq!(
            defaults.operator_policies["short"].definition.get("expires"),
            Some(&Value::Long(1_800_000))
        );
        let short = &defaults.operator_policies["short"].definition;
        assert_eq!(short.get("max-length-bytes"), Some(&Value::Long(1 << 20)));
        assert!(defaults.set_operator_policy("x.vhost_pattern", "(").is_err());
        assert_eq!(
            [milliseconds("5"), milliseconds("2h"), milliseconds("h")],
            [Some(5), Some(7_200_000), None]
        );
    }

    #[test]
    fn what_is_no_limit_and_no_user_is_refused() {
        let mut defaults = Defaults::default();
        for (key, value) in [
            ("max_queues", "1"),
            (".max_queues", "1"),
            ("1.max_cats", "1"),
            ("1.pattern", "("),
            ("1.max_queues", "-2"),
        ] {
            assert!(defaults.set_limit(key, value).is_err(), "{key} {value}");
        }
        for (key, value) in
            [("u", "1"), ("u.name", "1"), ("u.password", ""), ("u.tags", "a,,b"), ("u.read", "(")]
        {
            assert!(defaults.set_user(key, value).is_err(), "{key} {value}");
        }
    }
}
