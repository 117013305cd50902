//! `topic`: keys are words separated by dots. `*` matches one word, `#` any number of words (docs/compatibility.md,
//! Exchanges).

use hashbrown::{HashMap, HashSet};

use super::super::{Binding, CatalogError, Destination};
use super::fanout::Destinations;

/// Binding keys by word. Each level of nodes is one word. A destination is stored at the node where its key ends.
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

/// Returns the words of a key. The empty key has none.
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

    /// Removes a destination. Called for the last binding with this key and destination.
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

    /// Calls `found` for every destination whose key matches, possibly more than once for the same one.
    pub fn matches<'a>(&'a self, key: &str, found: &mut dyn FnMut(&'a Destination)) {
        let words: smallvec::SmallVec<[&str; 16]> = words(key).collect();
        walk(&self.root, &words, None, found);
    }
}

/// The `#` nodes below another `#` that a walk has visited.
type Hashes = HashSet<*const Node>;

/// Visits the nodes that match the words. `visited` is set below a `#`. There, words are skipped in their
/// order. So the first visit to a further `#` node has the longest rest of the key, and a later visit would
/// find nothing new and ends at once. This makes the cost proportional to the length of the key, however many
/// `#` are on the path.
fn walk<'a>(
    node: &'a Node,
    key: &[&str],
    mut visited: Option<&mut Hashes>,
    found: &mut dyn FnMut(&'a Destination),
) {
    match key.split_first() {
        None => node.destinations.iter().for_each(&mut *found),
        Some((word, rest)) => {
            if let Some(child) = node.words.get(*word) {
                walk(child, rest, visited.as_deref_mut(), found);
            }
            if let Some(child) = node.words.get("*") {
                walk(child, rest, visited.as_deref_mut(), found);
            }
        }
    }
    if let Some(child) = node.words.get("#") {
        let mut first = Hashes::new();
        let hashes = match visited {
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

/// The maximum number of `#` in a binding key, as in RabbitMQ.
const HASHES_MAX: usize = 2;

/// Checks a binding.
///
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
    fn stars_match_one_word_and_hashes_any_number() {
        let all = ["a.b.c", "a.*.c", "a.#", "#", "*", "#.c", "", "a.#.c", "*.*", "a"];
        assert_eq!(matching(&all, "a.b.c"), ["#", "#.c", "a.#", "a.#.c", "a.*.c", "a.b.c"]);
        assert_eq!(matching(&all, "a"), ["#", "*", "a", "a.#"]);
        assert_eq!(matching(&all, "a.c"), ["#", "#.c", "*.*", "a.#", "a.#.c"]);
        assert_eq!(matching(&all, ""), ["", "#"], "the empty key has no word");
        assert_eq!(matching(&all, "x.y"), ["#", "*.*"]);
    }

    #[test]
    fn removing_all_keys_empties_the_trie() {
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

    /// Checks that a long key with two `#` is matched quickly. Keys may be as long as a frame, and a walk of
    /// every path would find this binding once for each word.
    #[test]
    fn a_long_key_is_matched_in_linear_time() {
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
