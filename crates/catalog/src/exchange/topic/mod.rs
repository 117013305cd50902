//! `topic`: keys are words separated by dots. `*` matches one word, `#` any number of words (docs/compatibility.md,
//! Exchanges).
//!
//! A binding key has up to three parts, for example `a.*.#.b.c.#.d`:
//!
//! | part | of the example | how it is matched |
//! |---|---|---|
//! | head: what stands before the first `#` | `a.*` | a trie, from the start of the message's key |
//! | the words between two `#` | `b.c` | all that follow one head together, as bits of machine words ([`bits`]) |
//! | tail: what stands behind the last `#` | `d` | a trie, from the end of the message's key |
//!
//! A message's key visits each node of a trie at most once. The first occurrence of the words between two `#` is the best
//! one, because it leaves the most words for the tail. So the cost of a key is at most its words, times the nodes that it
//! visits and the positions between two `#` divided by 64. No key costs more because there are several ways to match it.

mod behind;
mod bits;
#[cfg(test)]
mod tests;
mod words;

use smallvec::SmallVec;

use self::behind::Behind;
use self::words::{Vacant, Words};
use super::super::{Binding, CatalogError, Destination};
use super::fanout::Destinations;

/// The maximum number of nodes of one exchange. A binding takes at most one for each word of its key, and none that
/// another binding has already. A message's key may visit all of them, so this bounds its cost: see the module. A million
/// nodes take several hundred megabytes.
pub(in super::super) const NODES_MAX: usize = 1_000_000;

/// The most words of a message's key that are compared with binding keys. A routing key of AMQP 0.9.1 has at most 128. Others may
/// have 65,535 bytes, and each word costs as many steps as an exchange has positions between two `#`, divided by 64.
const WORDS_MAX: usize = 256;

/// The maximum number of `#` in a binding key, as in RabbitMQ.
const HASHES_MAX: usize = 2;

/// Counts the steps of matching a key.
#[derive(Debug)]
pub(super) struct Steps {
    pub taken: u64,
    max: u64,
    /// True if there were not enough, so the key was not matched to its end.
    pub is_cut: bool,
}

impl Steps {
    pub(super) fn new(max: u64) -> Self {
        Self { taken: 0, max, is_cut: false }
    }

    /// Takes some steps if any are left, perhaps more than that. Returns false if none are.
    #[inline]
    pub(super) fn take(&mut self, steps: u64) -> bool {
        if self.taken >= self.max {
            self.is_cut = true;
            return false;
        }
        self.taken += steps;
        true
    }
}

/// Destinations by binding key.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    heads: Words<Head>,
    nodes: usize,
}

/// The binding keys that begin with the words that lead here.
#[derive(Clone, Debug, Default)]
struct Head {
    /// The destinations of the key that ends here.
    destinations: Destinations,
    /// The keys that go on with a `#`.
    behind: Option<Box<Behind>>,
}

impl Vacant for Head {
    fn is_vacant(&self) -> bool {
        self.destinations.is_empty() && self.behind.is_none()
    }
}

/// The words of a key. Most keys have few.
type KeyWords<'a> = SmallVec<[&'a str; 16]>;

/// Returns the words of a key. The empty key has none.
fn words(key: &str) -> KeyWords<'_> {
    if key.is_empty() { KeyWords::new() } else { key.split('.').collect() }
}

/// Returns the number of words of a key.
pub(in super::super) fn word_count(key: &str) -> usize {
    if key.is_empty() { 0 } else { key.split('.').count() }
}

/// Words of a key that follow each other.
type Part<'k> = &'k [&'k str];

/// Cuts a binding key into its head, the words from its first `#` to its last one, and its tail.
fn cut<'k>(key: Part<'k>) -> (Part<'k>, Option<(Part<'k>, Part<'k>)>) {
    let is_hash = |word: &&str| *word == "#";
    match (key.iter().position(is_hash), key.iter().rposition(is_hash)) {
        (Some(first), Some(last)) => (&key[..first], Some((&key[first..=last], &key[last + 1..]))),
        _ => (key, None),
    }
}

impl Trie {
    /// Returns the number of further nodes that are allowed.
    pub(super) fn room(&self) -> usize {
        NODES_MAX.saturating_sub(self.nodes)
    }

    pub(super) fn insert(&mut self, key: &str, destination: Destination) {
        let words = words(key);
        let (head, behind) = cut(&words);
        let head = self.heads.entry(head.iter().copied(), &mut self.nodes);
        match behind {
            None => head.destinations.insert(destination),
            Some((between, tail)) => {
                let behind = head.behind.get_or_insert_default();
                behind.insert(between, tail, destination, &mut self.nodes);
            }
        }
    }

    /// Removes a destination. Called for the last binding with this key and destination.
    pub(super) fn remove(&mut self, key: &str, destination: &Destination) {
        let words = words(key);
        let (head, behind) = cut(&words);
        self.heads.change(head.iter().copied(), &mut self.nodes, |head, nodes| match behind {
            None => head.destinations.remove(destination),
            Some((between, tail)) => {
                let Some(behind) = &mut head.behind else { return };
                behind.remove(between, tail, destination, nodes);
                if behind.is_empty() {
                    head.behind = None;
                }
            }
        });
    }

    /// Calls `found` for every destination whose key matches, possibly more than once for the same one. A step visits a node or
    /// moves a cell of [`bits`]. Ends early if no steps are left.
    ///
    /// A key of more than [`WORDS_MAX`] words matches only keys that match any key: `#`.
    pub(super) fn matches<'a>(
        &'a self,
        key: &str,
        steps: &mut Steps,
        found: &mut dyn FnMut(&'a Destination),
    ) {
        // A word and its dot have a byte at least.
        if key.len() >= WORDS_MAX && word_count(key) > WORDS_MAX {
            return self.heads.walk([].iter(), steps, &mut |head, _, steps| {
                head.behind.iter().for_each(|behind| behind.matches(&[], steps, found));
            });
        }
        let words = words(key);
        let mut end = |head: &'a Head, rest: std::slice::Iter<'_, &str>, steps: &mut Steps| {
            if let Some(behind) = &head.behind {
                behind.matches(rest.as_slice(), steps, found);
            }
            if rest.as_slice().is_empty() {
                head.destinations.iter().for_each(&mut *found);
            }
        };
        self.heads.walk(words.iter(), steps, &mut end);
    }

    /// Checks that there is room for a new binding.
    ///
    /// # Errors
    /// The exchange would have more than [`NODES_MAX`] nodes.
    pub(super) fn check_room(&self, binding: &Binding) -> Result<(), CatalogError> {
        if word_count(&binding.key) <= self.room() {
            return Ok(());
        }
        let Binding { vhost, source, key, .. } = binding;
        Err(CatalogError::LimitReached {
            reason: format!(
                "binding key '{key}' is refused: the binding keys of topic exchange '{source}' in vhost '{vhost}' would have \
                 more than {NODES_MAX} words"
            ),
        })
    }
}

/// Checks a binding.
///
/// # Errors
/// The key has more than [`HASHES_MAX`] `#`.
pub(super) fn check_binding(binding: &Binding) -> Result<(), CatalogError> {
    let key = &binding.key;
    if words(key).iter().filter(|w| **w == "#").count() <= HASHES_MAX {
        return Ok(());
    }
    Err(CatalogError::Invalid {
        reason: format!("binding key '{key}' has more than {HASHES_MAX} '#' wildcards"),
    })
}
