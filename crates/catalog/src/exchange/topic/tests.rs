//! Compares the trie with the definition of topic keys, and counts its steps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn queue(name: &str) -> Destination {
    Destination::Queue(name.into())
}

/// Matches the whole key. Returns the number of steps.
fn matches<'a>(trie: &'a Trie, key: &str, found: &mut dyn FnMut(&'a Destination)) -> u64 {
    let mut steps = Steps::new(u64::MAX);
    trie.matches(key, &mut steps, found);
    assert!(!steps.is_cut);
    steps.taken
}

fn matched(trie: &Trie, key: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    matches(trie, key, &mut |destination| {
        let Destination::Queue(name) = destination else { return };
        seen.insert(name.to_string());
    });
    seen
}

fn matching(bindings: &[&str], key: &str) -> Vec<String> {
    let mut trie = Trie::default();
    bindings.iter().for_each(|binding| trie.insert(binding, queue(binding)));
    matched(&trie, key).into_iter().collect()
}

/// Returns true if a key matches, by the definition: `able[n]` is true if the words of the pattern so far match the
/// first `n` words of the key.
fn naive(pattern: &str, key: &str) -> bool {
    let key = words(key);
    let mut able = vec![false; key.len() + 1];
    able[0] = true;
    for word in words(pattern) {
        let mut next = vec![false; key.len() + 1];
        for n in 0..=key.len() {
            next[n] = match word {
                "#" => able[..=n].contains(&true),
                word => n > 0 && able[n - 1] && (word == "*" || word == key[n - 1]),
            };
        }
        able = next;
    }
    able[key.len()]
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
fn words_may_be_empty_and_may_look_like_wildcards() {
    let all = [".", "..", "#..#", "#.#", "*.", ".#", "#."];
    assert_eq!(matching(&all, "."), ["#.", "#.#", "#..#", "*.", ".", ".#"]);
    assert_eq!(matching(&all, "a."), ["#.", "#.#", "#..#", "*."]);
    assert_eq!(matching(&all, "a"), ["#.#"]);
    assert_eq!(matching(&["*", "#", "a"], "*"), ["#", "*"], "in a message's key it is a word like others");
    assert_eq!(matching(&["*.b", "#.b", "a.b"], "#.b"), ["#.b", "*.b"]);
}

#[test]
fn keys_that_mean_the_same_are_removed_one_by_one() {
    let mut trie = Trie::default();
    let all = ["#", "#.#", "a.#.b.#", "a.#.b.#.#"];
    all.iter().for_each(|key| trie.insert(key, queue("q")));
    for (n, key) in all.iter().enumerate() {
        assert_eq!(matched(&trie, "a.b").len(), 1, "{n} are removed");
        trie.remove(key, &queue("q"));
    }
    assert_eq!((matched(&trie, "a.b").len(), trie.nodes, trie.heads.is_vacant()), (0, 0, true));
}

#[test]
fn removing_all_keys_empties_the_trie() {
    let mut trie = Trie::default();
    for key in ["a.b.c", "a.b", "#", "", "a.#.b", "a.#.*.b.#.c", "a.*.b"] {
        trie.insert(key, queue("q"));
    }
    assert_eq!(trie.nodes, 13, "a b c; #; # b; # * b # c; * b");
    for key in ["a.b.c", "a.b", "#", "", "a.#.b", "a.#.*.b.#.c", "a.*.b", "never.there", "a.#.c", "b.#"] {
        trie.remove(key, &queue("q"));
    }
    assert_eq!((trie.nodes, trie.heads.is_vacant()), (0, true));
}

#[test]
fn keys_that_were_removed_cost_nothing() {
    let mut trie = Trie::default();
    let key = |n: usize| format!("#.a.{n}.*.b.#");
    (0..1_000).for_each(|n| trie.insert(&key(n), queue("q")));
    assert_eq!(matches(&trie, "x", &mut |_| {}), 1 + 4_000_u64.div_ceil(64));
    (10..1_000).for_each(|n| trie.remove(&key(n), &queue("q")));
    assert!(
        matches(&trie, "x", &mut |_| {}) <= 1 + 2,
        "there are at most as many removed positions as others"
    );
    assert_eq!(matched(&trie, "a.7.x.b").len(), 1);
}

/// Checks that a long key with two `#` is matched quickly. Keys may be as long as a frame, and a walk of
/// every path would find this binding once for each word.
#[test]
fn a_long_key_is_matched_in_linear_time() {
    let mut trie = Trie::default();
    for binding in ["#.a.#", "#.*.a.#", "#.a.#.b", "#.#"] {
        trie.insert(binding, queue(binding));
    }
    let mut seen = Vec::new();
    let steps = matches(&trie, &vec!["a"; WORDS_MAX].join("."), &mut |d| seen.push(d.clone()));
    seen.sort();
    assert_eq!(seen, ["#.#", "#.*.a.#", "#.a.#"].map(queue));
    assert!(steps < WORDS_MAX as u64 + 20, "{steps}");
}

#[test]
fn a_key_of_too_many_words_reaches_only_those_who_want_every_key() {
    let mut trie = Trie::default();
    for binding in ["#", "#.#", "#.a.#", "#.a", "a.#", "", "*.#"] {
        trie.insert(binding, queue(binding));
    }
    let key = |words: usize| vec!["a"; words].join(".");
    assert_eq!(matched(&trie, &key(WORDS_MAX)).len(), 6);
    assert_eq!(matched(&trie, &key(WORDS_MAX + 1)), ["#".to_owned(), "#.#".to_owned()].into());
}

/// A key that is cut off takes about as many steps as it may. With enough steps, it is not cut off.
#[test]
fn matching_ends_when_no_steps_are_left() {
    let mut trie = Trie::default();
    for n in 0..500 {
        trie.insert(&format!("#.a.{n}.#.b"), queue(&n.to_string()));
        trie.insert(&format!("*.{n}.#"), queue(&n.to_string()));
    }
    let key = vec!["a"; 100].join(".");
    let all = matches(&trie, &key, &mut |_| {});
    for max in (0..all + 2).step_by(7).chain([all - 1, all, all + 1]) {
        let mut steps = Steps::new(max);
        trie.matches(&key, &mut steps, &mut |_| {});
        assert_eq!(steps.is_cut, steps.taken < all, "{max} of {all}");
        // The path and the word that were begun.
        assert!(steps.taken <= max + 101 + 1_000 / 64 + 1, "{max}: {}", steps.taken);
    }
}

/// Returns the most steps that a key of this many words may cost: see the module.
fn steps_max(trie: &Trie, words: usize, between: usize) -> u64 {
    (words.max(1) * (1 + trie.nodes + between.div_ceil(64))) as u64
}

/// Checks the bound for the keys with which one user once stopped an event loop for minutes.
#[test]
fn the_steps_of_a_key_are_bounded() {
    let mut trie = Trie::default();
    let half = |n: usize| {
        let word = |at: usize| if n >> (at % 11) & 1 == 0 { "a" } else { "*" };
        (0..40).map(word).collect::<Vec<_>>().join(".")
    };
    for n in 48..2_048 {
        trie.insert(&format!("#.{0}.#.{0}", half(n)), queue(&n.to_string()));
    }
    let positions = 2_000 * 40;
    assert_eq!(trie.nodes, 2_000 * (1 + 40 + 1 + 40));
    for words in [127, WORDS_MAX] {
        let mut found = 0;
        let steps = matches(&trie, &vec!["a"; words].join("."), &mut |_| found += 1);
        assert_eq!(found, 2_000);
        // Each cell is moved once for each word, and each node of the tails is visited once.
        let exact = words * positions / 64 + 2_000 * 41 + 1;
        assert_eq!(steps, exact as u64);
        let mut found = 0;
        let steps = matches(&trie, &vec!["b"; words].join("."), &mut |_| found += 1);
        assert_eq!(found, 1, "only the key without an a");
        assert_eq!(steps, (words * positions / 64 + 41 + 1) as u64);
    }
}

#[test]
fn an_exchange_has_a_limited_number_of_nodes() {
    let mut trie = Trie::default();
    let binding = |key: &str| Binding {
        vhost: "/".into(),
        source: "x".into(),
        destination: queue("q"),
        key: key.into(),
        arguments: Default::default(),
    };
    trie.nodes = NODES_MAX - 3;
    trie.check_room(&binding("a.#.b")).unwrap();
    let refused = trie.check_room(&binding("a.#.b.c")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "binding key 'a.#.b.c' is refused: the binding keys of topic exchange 'x' in vhost '/' would have more than \
         1000000 words"
    );
    trie.nodes = NODES_MAX;
    trie.check_room(&binding("")).unwrap();
}

fn pattern() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "a", "b", "", "*", "*", "#", "#"]);
    // Long ones have positions in several cells.
    prop_oneof![
        4 => prop::collection::vec(word.clone(), 0..7),
        1 => prop::collection::vec(word, 60..200)
    ]
    .prop_map(|words| words.join("."))
}

fn key() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "a", "a", "b", "", "c", "*", "#"]);
    prop_oneof![
        4 => prop::collection::vec(word.clone(), 0..9),
        1 => prop::collection::vec(word, 60..=WORDS_MAX)
    ]
    .prop_map(|words| words.join("."))
}

proptest! {
    /// Bindings are made and removed in any order, several with the same key, and each key finds exactly those that
    /// match by the definition.
    #[test]
    fn matching_agrees_with_the_definition(
        patterns in prop::collection::vec(pattern(), 1..12),
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0..3u8), 1..60),
        keys in prop::collection::vec(key(), 1..6),
    ) {
        let mut trie = Trie::default();
        let mut known: BTreeMap<(usize, u8), String> = BTreeMap::new();
        for (adds, pattern, to) in steps {
            let at = pattern.index(patterns.len());
            let name = format!("{at} {to}");
            // The same key may be in the list twice. Its bindings have destinations of their own.
            match adds {
                true => {
                    trie.insert(&patterns[at], queue(&name));
                    known.insert((at, to), name);
                }
                false if known.remove(&(at, to)).is_some() => trie.remove(&patterns[at], &queue(&name)),
                false => {}
            }
            let words: usize = known.keys().map(|(at, _)| word_count(&patterns[*at])).sum();
            prop_assert!(trie.nodes <= words);
        }
        for key in &keys {
            let expected: BTreeSet<String> =
                known.iter().filter(|((at, _), _)| naive(&patterns[*at], key)).map(|(_, name)| name.clone()).collect();
            prop_assert_eq!(matched(&trie, key), expected, "{}", key);
            let between: usize = known.keys().map(|(at, _)| 2 * word_count(&patterns[*at])).sum();
            let steps = matches(&trie, key, &mut |_| {});
            prop_assert!(steps <= steps_max(&trie, word_count(key), between));
        }
        for ((at, _), name) in known {
            trie.remove(&patterns[at], &queue(&name));
        }
        prop_assert_eq!((trie.nodes, trie.heads.is_vacant()), (0, true));
    }

    /// A pattern of pieces of the key in their order, with a `#` for what is between them: it matches unless a word is changed.
    #[test]
    fn patterns_cut_out_of_the_key_match(
        key in prop::collection::vec(prop::sample::select(vec!["a", "b", ""]), 2..=WORDS_MAX),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..8),
        change in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(vec!["*", "a", "c"]))),
    ) {
        let mut cuts: Vec<(usize, bool)> = cuts.iter().map(|(at, skips)| (at.index(key.len()), *skips)).collect();
        cuts.sort_unstable();
        let (mut pattern, mut from) = (Vec::new(), 0);
        for (at, skips) in cuts {
            if !skips {
                pattern.extend(&key[from..at]);
            }
            pattern.push("#");
            from = at;
        }
        pattern.extend(&key[from..]);
        if let Some((at, word)) = change {
            let at = at.index(pattern.len());
            pattern[at] = word;
        }
        let (pattern, key) = (pattern.join("."), key.join("."));
        let mut trie = Trie::default();
        // Others before it move its positions.
        trie.insert("#.a.*.b.#.a.#", queue("other"));
        trie.insert(&pattern, queue("q"));
        prop_assert_eq!(matched(&trie, &key).contains("q"), naive(&pattern, &key), "{}", pattern);
        prop_assert!(change.is_some() || naive(&pattern, &key));
    }
}
