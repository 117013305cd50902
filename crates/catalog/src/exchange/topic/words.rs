//! A trie of words. `*` stands for any one word.

use hashbrown::HashMap;

use super::Steps;

/// A value that may hold nothing.
pub(super) trait Vacant: Default {
    fn is_vacant(&self) -> bool;
}

/// A node of the trie: the value of the words that lead to it, and the nodes that follow by their words.
#[derive(Clone, Debug, Default)]
pub(super) struct Words<T> {
    value: T,
    star: Option<Box<Words<T>>>,
    /// One of the nodes that follow. Most nodes of long keys have no other, and comparing one word is faster than finding one of
    /// several.
    first: Option<Box<(Box<str>, Words<T>)>>,
    others: HashMap<Box<str>, Words<T>>,
}

impl<T: Vacant> Words<T> {
    pub(super) fn is_vacant(&self) -> bool {
        let Self { value, star, first, others } = self;
        value.is_vacant() && star.is_none() && first.is_none() && others.is_empty()
    }

    #[inline]
    fn next(&self, word: &str) -> Option<&Self> {
        match &self.first {
            Some(first) if *first.0 == *word => Some(&first.1),
            _ => self.others.get(word),
        }
    }

    /// Returns the value of these words. Adds the number of new nodes to `nodes`.
    pub(super) fn entry<'k>(&mut self, words: impl Iterator<Item = &'k str>, nodes: &mut usize) -> &mut T {
        let mut node = self;
        for word in words {
            let mut new = || {
                *nodes += 1;
                Self::default()
            };
            node = if word == "*" {
                node.star.get_or_insert_with(|| Box::new(new()))
            } else if node.others.contains_key(word)
                || node.first.as_ref().is_some_and(|first| *first.0 != *word)
            {
                node.others.entry(word.into()).or_insert_with(new)
            } else {
                &mut node.first.get_or_insert_with(|| Box::new((word.into(), new()))).1
            };
        }
        &mut node.value
    }

    /// Changes the value of these words, if they are in the trie, and removes the nodes that hold nothing any more.
    /// Subtracts their number from `nodes`.
    pub(super) fn change<'k>(
        &mut self,
        mut words: impl Iterator<Item = &'k str>,
        nodes: &mut usize,
        change: impl FnOnce(&mut T, &mut usize),
    ) {
        let Some(word) = words.next() else { return change(&mut self.value, nodes) };
        let is_first = self.first.as_ref().is_some_and(|first| *first.0 == *word);
        let child = match &mut self.first {
            _ if word == "*" => self.star.as_deref_mut(),
            Some(first) if is_first => Some(&mut first.1),
            _ => self.others.get_mut(word),
        };
        let Some(child) = child else { return };
        child.change(words, nodes, change);
        if child.is_vacant() {
            *nodes -= 1;
            match word {
                "*" => self.star = None,
                _ if is_first => self.first = None,
                word => _ = self.others.remove(word),
            }
        }
    }

    /// Calls `found` for every value that the start of `key` leads to, with the rest of the key. Takes a step for each node
    /// that is visited, each of them once. If no steps are left, it follows no further branch.
    pub(super) fn walk<'a, 'k, K>(
        &'a self,
        mut key: K,
        steps: &mut Steps,
        found: &mut impl FnMut(&'a T, K, &mut Steps),
    ) where
        K: Iterator<Item = &'k &'k str> + Clone,
    {
        if !steps.take(0) {
            return;
        }
        let mut node = self;
        let mut visited = 0;
        loop {
            visited += 1;
            if !node.value.is_vacant() {
                found(&node.value, key.clone(), steps);
            }
            let Some(word) = key.next() else { break };
            node = match (node.next(word), node.star.as_deref()) {
                (Some(next), Some(star)) => {
                    steps.taken += std::mem::take(&mut visited);
                    star.walk(key.clone(), steps, found);
                    next
                }
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => break,
            };
        }
        steps.taken += visited;
    }
}
