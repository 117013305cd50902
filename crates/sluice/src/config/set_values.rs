//! The values that somebody has set, and where.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use identity::url::hide;

use super::key::Key;
use super::keys;

/// The place of a value that nobody has set.
pub(crate) const DEFAULT: &str = "default";

/// The value of a secret, when it is shown.
const HIDDEN: &str = "***";

/// The values that somebody has set, by their keys.
#[derive(Clone, Default)]
pub(crate) struct SetValues(BTreeMap<String, SetValue>);

/// It has no `Debug` output, because the value can be a secret.
#[derive(Clone)]
struct SetValue {
    value: String,
    /// `FILE:LINE`, a variable of the environment, or `--set`.
    place: String,
}

/// A key whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub key: String,
    /// True if a running broker takes the new value.
    pub reloads: bool,
}

/// A key with its value, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown<'a> {
    pub key: String,
    /// `***` for a secret that is set. Of a URL, user, password, query and fragment are hidden.
    pub value: Cow<'a, str>,
    /// `FILE:LINE`, a variable of the environment, `--set`, or `default`.
    pub place: &'a str,
    /// True if somebody has set it.
    pub is_set: bool,
}

impl SetValues {
    pub(super) fn insert(&mut self, key: &str, value: &str, place: &str) {
        self.0.insert(key.to_owned(), SetValue { value: value.to_owned(), place: place.to_owned() });
    }

    /// Removes the value of a key. Returns false if nobody has set it.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// Returns where the key was set, or the first one that begins with it.
    pub(crate) fn place(&self, key: &str) -> Option<&str> {
        let (found, value) = self.0.range(key.to_owned()..).next()?;
        found.starts_with(key).then_some(&*value.place)
    }

    /// Returns a problem with its key behind the place where somebody has set the key. If nobody has, the place is that of the key
    /// `instead`, which has made the other one necessary.
    pub(crate) fn placed(&self, key: &str, problem: &str, instead: Option<&str>) -> String {
        match std::iter::once(key).chain(instead).find_map(|key| self.place(key)) {
            Some(place) => format!("{place}: {key}: {problem}"),
            None => format!("{key}: {problem}"),
        }
    }

    /// Returns the first key with one of these beginnings whose value has this word in it.
    pub(crate) fn key_with(&self, beginnings: &[&str], word: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(_, set)| set.value.contains(word));
        let found = found.find(|(key, _)| beginnings.iter().any(|beginning| key.starts_with(beginning)));
        found.map(|(key, _)| key.as_str())
    }

    /// Returns the first key behind this prefix that names the file. `None` if there is none.
    pub(crate) fn key_of_file(&self, prefix: &str, file: &Path) -> Option<&str> {
        let below = |key: &str| key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
        let mut found = self.0.iter().filter(|(key, set)| below(key) && Path::new(&set.value) == file);
        found.next().map(|(key, _)| key.as_str())
    }

    /// Returns the value of a key, or its default.
    fn value<'a>(&'a self, name: &str, key: &'a Key) -> &'a str {
        match self.0.get(name) {
            Some(set) => &set.value,
            None if key.name == name || key.name.replace('*', key.star) == name => key.default,
            None => "",
        }
    }

    /// Returns all keys with their values, in the order of the example file. A key whose name has a free part is there once for
    /// each name that is set.
    pub(crate) fn all(&self) -> impl Iterator<Item = Shown<'_>> {
        keys::all().flat_map(|key| {
            let mut names: Vec<String> = match key.name.strip_suffix('*') {
                None => vec![key.name.to_owned()],
                Some(_) => self.0.keys().filter(|name| is_of(name, key)).cloned().collect(),
            };
            if names.is_empty() && !key.default.is_empty() {
                names.push(key.name.replace('*', key.star));
            }
            names.into_iter().map(|name| {
                let value = self.value(&name, key);
                let (is_set, place) = match self.0.get(&name) {
                    Some(set) => (true, &*set.place),
                    None => (false, DEFAULT),
                };
                let value = shown_value(key, value);
                Shown { key: name, value, place, is_set }
            })
        })
    }

    /// Returns the values that a running broker uses that has read `after`: only some keys change without a restart.
    pub(crate) fn reloaded(&self, after: &Self) -> Self {
        let reloads = |name: &String| keys::find(name).is_some_and(|(key, _)| key.reloads);
        let kept = self.0.iter().filter(|(name, _)| !reloads(name));
        let changed = after.0.iter().filter(|(name, _)| reloads(name));
        Self(kept.chain(changed).map(|(name, set)| (name.clone(), set.clone())).collect())
    }

    /// Returns these values, replaced by those that are set in `above`, too.
    pub(crate) fn overlaid(&self, above: &Self) -> Self {
        Self(self.0.iter().chain(&above.0).map(|(name, set)| (name.clone(), set.clone())).collect())
    }

    /// Returns the keys that a running broker takes, with their values.
    pub(super) fn reloadable(&self) -> impl Iterator<Item = (&str, &str)> {
        let reloads = |name: &str| keys::find(name).is_some_and(|(key, _)| key.reloads);
        self.0.iter().map(|(name, set)| (&**name, &*set.value)).filter(move |(name, _)| reloads(name))
    }

    /// Returns the keys that somebody has set.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the keys whose value differs in `after`.
    pub(crate) fn changes(&self, after: &Self) -> Vec<Change> {
        let names: BTreeSet<&String> = self.0.keys().chain(after.0.keys()).collect();
        let changed = names.into_iter().filter_map(|name| {
            let (key, _) = keys::find(name)?;
            let is_changed = self.value(name, key) != after.value(name, key);
            is_changed.then(|| Change { key: name.clone(), reloads: key.reloads })
        });
        changed.collect()
    }
}

impl fmt::Debug for SetValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().filter(|shown| shown.is_set)).finish()
    }
}

/// Returns the value of a key for people.
pub(super) fn shown_value<'a>(key: &Key, value: &'a str) -> Cow<'a, str> {
    if key.secret && !value.is_empty() { Cow::Borrowed(HIDDEN) } else { hide(value) }
}

/// Returns true if this key has this name, and none of the keys before it has.
fn is_of(name: &str, key: &Key) -> bool {
    keys::find(name).is_some_and(|(found, _)| found.name == key.name)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::layers::{Layers, Sources};
    use super::*;

    fn values(text: &str) -> SetValues {
        let layers = Layers { files: vec![("f".into(), text.into())], ..Layers::default() };
        Config::of_layers(&layers).unwrap().values
    }

    #[test]
    fn each_key_is_shown_with_its_place_and_no_secret() {
        let values = values(
            "default_pass = hunter2\nauth_http.user_path = http://h/x?token=hunter2\nshards = 3\nproxy_protocol = true\nproxy_protocol.trusted.a = ::1\n",
        );
        let shown = |key: &str| values.all().find(|shown| shown.key == key).unwrap();
        let row = |key: &str, value: &'static str, place| Shown {
            key: key.to_owned(),
            value: value.into(),
            place,
            is_set: place != DEFAULT,
        };
        assert_eq!(shown("default_pass"), row("default_pass", "***", "f:1"));
        assert_eq!(shown("shards"), row("shards", "3", "f:3"));
        assert_eq!(shown("auth_http.user_path"), row("auth_http.user_path", "http://h/x?***", "f:2"));
        assert_eq!(shown("proxy_protocol.trusted.a"), row("proxy_protocol.trusted.a", "::1", "f:5"));
        assert_eq!(shown("heartbeat"), row("heartbeat", "60", "default"));
        assert_eq!(shown("default_user"), row("default_user", "guest", "default"));
        assert!(!format!("{values:?}").contains("hunter2"));
    }

    #[test]
    fn changes_are_compared_with_the_defaults() {
        let before = values("shards = 2\nlog.level = debug\ndefault_pass = a\nheartbeat = 60\n");
        let after = values("shards = 2\ndefault_pass = b\nvm_memory_high_watermark.relative = 0.5\n");
        let changed =
            [("default_pass", false), ("log.level", true), ("vm_memory_high_watermark.relative", true)];
        let changed = changed.map(|(key, reloads)| Change { key: key.to_owned(), reloads });
        assert_eq!(before.changes(&after), changed);
        assert_eq!(before.changes(&before), []);
    }

    #[test]
    fn nothing_is_set_by_default() {
        assert!(Config::load(&Sources::default()).is_ok());
        assert!(SetValues::default().all().all(|shown| !shown.is_set));
    }
}
