//! Topic permissions: the routing keys that a user may use with a topic exchange (docs/operations/users.md, Topic permissions).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Permission;
use crate::pattern::Pattern;

/// The most exchanges for which a user can have topic permissions in one virtual host. Every shard keeps them.
pub(crate) const TOPICS_MAX: usize = 1000;

/// The topic permissions of a user in one virtual host, by exchange. Without an entry, all keys of the exchange are allowed.
pub type Topics = BTreeMap<Arc<str>, TopicPermissions>;

/// The keys that a user may publish with and bind with.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicPermissions {
    write: Keys,
    read: Keys,
}

/// A pattern for keys, with its text.
#[derive(Clone, Debug, PartialEq)]
struct Keys {
    text: Arc<str>,
    pattern: Pattern,
}

impl TopicPermissions {
    /// Compiles write and read. In both, `{username}` and `{vhost}` stand for these names, whatever characters they have.
    ///
    /// # Errors
    /// One of them is not a possible pattern; the error names it.
    pub fn new([write, read]: [&str; 2], user: &str, vhost: &str) -> Result<Self, String> {
        let compile = |permission: Permission, text: &str| {
            // No protocol so far has a client-id.
            let values = [("{username}", user), ("{vhost}", vhost), ("{client_id}", "{client_id}")];
            let expand = |text: String, (name, value): (&str, &str)| match text.contains(name) {
                true => text.replace(name, &regex_lite::escape(value)),
                false => text,
            };
            let expanded = values.into_iter().fold(text.to_owned(), expand);
            let pattern = Pattern::of_permission(&expanded);
            let pattern = pattern.map_err(|why| format!("{}: {why}", permission.as_str()))?;
            Ok::<_, String>(Keys { text: text.into(), pattern })
        };
        Ok(Self { write: compile(Permission::Write, write)?, read: compile(Permission::Read, read)? })
    }

    /// Checks that a match of each pattern is cheap enough, for permissions that somebody sets.
    ///
    /// # Errors
    /// One of them is too costly; the error names it.
    pub fn check(&self) -> Result<(), String> {
        [(Permission::Write, &self.write), (Permission::Read, &self.read)].into_iter().try_for_each(
            |(permission, keys)| {
                let checked = keys.pattern.check_permission();
                checked.map_err(|why| format!("{}: {why}", permission.as_str()))
            },
        )
    }

    /// Returns the texts of write and read.
    pub fn patterns(&self) -> [&str; 2] {
        [&self.write.text, &self.read.text]
    }

    pub(super) fn grants(&self, permission: Permission, key: &str) -> bool {
        match permission {
            Permission::Configure => true,
            Permission::Write => self.write.pattern.is_match(key),
            Permission::Read => self.read.pattern.is_match(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_their_values_alone() {
        let may = |text: &str, user: &str, key: &str| {
            let topics = TopicPermissions::new([text, ""], user, "v").unwrap();
            assert_eq!(topics.patterns(), [text, ""]);
            topics.grants(Permission::Write, key)
        };
        assert!(may("^{username}\\.{vhost}\\.", "ann", "ann.v.x") && !may("^{username}\\.", "ann", "bob.x"));
        assert!(!may("^{username}\\.", ".*", "bob.x"), "the characters of a name have no meaning");
        assert!(may("^{username}$", "a{vhost}b", "a{vhost}b") && !may("^{username}$", "a{vhost}b", "avb"));
        assert!(may("^{client_id}$", "ann", "{client_id}"));
        assert!(!may("", "ann", "a"), "an empty one allows nothing");
        let wrong = TopicPermissions::new(["a", "("], "ann", "v").unwrap_err();
        assert!(wrong.starts_with("read: the pattern is not a regular expression"), "{wrong}");
    }
}
