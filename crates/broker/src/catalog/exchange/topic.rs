//! `topic`: words separated by dots, `*` is one word, `#` is none or more (behaviour D.3).

use hashbrown::{HashMap, HashSet};

use super::super::{Binding, CatalogError, Destination};
use super::fanout::Destinations;

/// Binding keys by word. Each node is one word deeper; a destination sits where its key ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    root: Node,
}

#[derive(Clone, Debug, Default)]
struct Node {
    words: HashMap<Box<str>, Node>,
    destinations: Destinations,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.destinations.is_empty()
    }
}

/// The words of a key; the empty key has none.
fn words(key: &str) -> impl Iterator<Item = &str> {
    let mut words = key.split('.');
    if key.is_empty() {
        words.next();
    }
    words
}

impl Trie {
    pub fn insert(&mut self, key: &str, destination: Destination) {
        let mut node = &mut self.root;
        for word in words(key) {
            node = node.words.entry(word.into()).or_default();
        }
        node.destinations.insert(destination);
    }

    /// The last binding of this key and destination goes.
    pub fn remove(&mut self, key: &str, destination: &Destination) {
        fn prune(node: &mut Node, key: &[&str], destination: &Destination) {
            let Some((word, rest)) = key.split_first() else {
                node.destinations.remove(destination);
                return;
            };
            if let Some(child) = node.words.get_mut(*word) {
                prune(child, rest, destination);
                if child.is_empty() {
                    node.words.remove(*word);
                }
            }
        }
        let words: Vec<&str> = words(key).collect();
        prune(&mut self.root, &words, destination);
    }

    /// Calls `found` for every destination whose key matches; the same destination may come more than once.
    pub fn matches<'a>(&'a self, key: &str, found: &mut dyn FnMut(&'a Destination)) {
        let words: smallvec::SmallVec<[&str; 16]> = words(key).collect();
        walk(&self.root, &words, None, found);
    }
}

/// The `#` behind another one that a walk has come to.
type Hashes = HashSet<*const Node>;

/// `behind`: below a `#`. From there on words are skipped in their order, so that the walk first comes to another `#` with
/// the most of the key left; what it would find with less of it, it has found by then. So a key costs its length, however
/// many `#` are in its way.
fn walk<'a>(
    node: &'a Node,
    key: &[&str],
    mut behind: Option<&mut Hashes>,
    found: &mut dyn FnMut(&'a Destination),
) {
    match key.split_first() {
        None => node.destinations.iter().for_each(&mut *found),
        Some((word, rest)) => {
            if let Some(child) = node.words.get(*word) {
                walk(child, rest, behind.as_deref_mut(), found);
            }
            if let Some(child) = node.words.get("*") {
                walk(child, rest, behind.as_deref_mut(), found);
            }
        }
    }
    if let Some(child) = node.words.get("#") {
        let mut first = Hashes::new();
        let hashes = match behind {
            None => &mut first,
            Some(hashes) => {
                if !hashes.insert(child) {
                    return;
                }
                hashes
            }
        };
        for skipped in 0..=key.len() {
            walk(child, &key[skipped..], Some(hashes), found);
        }
    }
}

/// A binding key may hold this many `#`, as in the reference.
const HASHES_MAX: usize = 2;

/// # Errors
/// The key has more than [`HASHES_MAX`] `#`.
pub(super) fn check_binding(binding: &Binding) -> Result<(), CatalogError> {
    let key = &binding.key;
    if words(key).filter(|w| *w == "#").count() <= HASHES_MAX {
        return Ok(());
    }
    Err(CatalogError::Invalid {
        reason: format!("binding key '{key}' has more than {HASHES_MAX} '#' wildcards"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(bindings: &[&str], key: &str) -> Vec<String> {
        let mut trie = Trie::default();
        for binding in bindings {
            trie.insert(binding, Destination::Queue((*binding).into()));
        }
        let mut seen = std::collections::BTreeSet::new();
        trie.matches(key, &mut |d| {
            let Destination::Queue(name) = d else { return };
            seen.insert(name.to_string());
        });
        seen.into_iter().collect()
    }

    #[test]
    fn words_stars_and_hashes() {
        let all = ["a.b.c", "a.*.c", "a.#", "#", "*", "#.c", "", "a.#.c", "*.*", "a"];
        assert_eq!(matching(&all, "a.b.c"), ["#", "#.c", "a.#", "a.#.c", "a.*.c", "a.b.c"]);
        assert_eq!(matching(&all, "a"), ["#", "*", "a", "a.#"]);
        assert_eq!(matching(&all, "a.c"), ["#", "#.c", "*.*", "a.#", "a.#.c"]);
        assert_eq!(matching(&all, ""), ["", "#"], "the empty key has no word");
        assert_eq!(matching(&all, "x.y"), ["#", "*.*"]);
    }

    #[test]
    fn removing_leaves_nothing_behind() {
        let mut trie = Trie::default();
        let d = Destination::Queue("q".into());
        for key in ["a.b.c", "a.b", "#", ""] {
            trie.insert(key, d.clone());
        }
        for key in ["a.b.c", "a.b", "#", "", "never.there"] {
            trie.remove(key, &d);
        }
        assert!(trie.root.is_empty());
    }

    /// Keys may be as long as a frame: with two `#` a walk that took every way would find this one as often as it has words.
    #[test]
    fn a_long_key_is_walked_once() {
        let mut trie = Trie::default();
        for binding in ["#.a.#", "#.*.a.#", "#.a.#.b", "#.#"] {
            trie.insert(binding, Destination::Queue(binding.into()));
        }
        let mut seen = Vec::new();
        trie.matches(&vec!["a"; 5000].join("."), &mut |d| seen.push(d.clone()));
        seen.sort();
        assert_eq!(seen, ["#.#", "#.*.a.#", "#.a.#"].map(|binding| Destination::Queue(binding.into())));
    }

    #[test]
    fn matching_agrees_with_the_definition() {
        fn naive(pattern: &[&str], key: &[&str]) -> bool {
            match pattern.split_first() {
                None => key.is_empty(),
                Some((&"#", rest)) => (0..=key.len()).any(|i| naive(rest, &key[i..])),
                Some((word, rest)) => key
                    .split_first()
                    .is_some_and(|(k, more)| (*word == "*" || word == k) && naive(rest, more)),
            }
        }
        use proptest::prelude::*;
        let word = prop::sample::select(vec!["a", "b", "*", "#"]);
        let patterns = prop::collection::vec(prop::collection::vec(word, 1..5), 1..6);
        let key = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..7);
        proptest!(|(patterns in patterns, key in key)| {
            let joined: Vec<String> = patterns.iter().map(|pattern| pattern.join(".")).collect();
            let all: Vec<&str> = joined.iter().map(String::as_str).collect();
            let expected: std::collections::BTreeSet<_> =
                patterns.iter().zip(&joined).filter(|(p, _)| naive(p, &key)).map(|(_, j)| j.clone()).collect();
            prop_assert_eq!(matching(&all, &key.join(".")), Vec::from_iter(expected));
        });
    }
}
