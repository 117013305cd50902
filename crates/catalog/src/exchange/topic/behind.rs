//! The binding keys of one head: from their first `#` on.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use slab::Slab;

use super::super::super::Destination;
use super::super::fanout::Destinations;
use super::Steps;
use super::bits::Bits;
use super::words::{Vacant, Words};

/// Rests of binding keys that begin with `#`, by the words between their first and their last `#`.
#[derive(Clone, Debug, Default)]
pub(super) struct Behind {
    /// The places of the parts, by their name: the words from the first `#` to the last one.
    names: BTreeMap<Box<str>, usize>,
    parts: Slab<Part>,
    /// The parts without words: they begin with their last `#`, or nothing stands between their `#`.
    wordless: Vec<usize>,
    /// The parts with words, by their last position in `bits`.
    ends: HashMap<usize, usize>,
    /// Contains every part with words. Parts that were removed are in it, too, until there are more of them than others.
    bits: Bits,
    /// The number of positions of the parts that were removed.
    removed: usize,
}

/// The keys that have the same words between their first and their last `#`.
#[derive(Clone, Debug, Default)]
struct Part {
    /// The last position in the bits. `None` if the part has no words.
    end: Option<usize>,
    /// The number of positions in the bits.
    positions: usize,
    /// The destinations by what stands behind the last `#`, the last word first.
    tails: Words<Destinations>,
}

impl Vacant for Destinations {
    fn is_vacant(&self) -> bool {
        self.is_empty()
    }
}

impl Behind {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a destination. `between` begins with the first `#` and ends with the last one; `tail` follows it. Adds the
    /// number of new nodes to `nodes`.
    pub(super) fn insert(
        &mut self,
        between: &[&str],
        tail: &[&str],
        destination: Destination,
        nodes: &mut usize,
    ) {
        let name = between.join(".");
        let at = match self.names.get(name.as_str()) {
            Some(at) => *at,
            None => {
                *nodes += between.len();
                let at = self.parts.insert(Part::default());
                self.names.insert(name.into(), at);
                self.place(at, between);
                at
            }
        };
        self.parts[at].tails.entry(tail.iter().rev().copied(), nodes).insert(destination);
    }

    /// Gives a part its positions.
    fn place(&mut self, at: usize, between: &[&str]) {
        let before = self.bits.len();
        let end = self.bits.push(between);
        let part = &mut self.parts[at];
        (part.end, part.positions) = (end, self.bits.len() - before);
        match end {
            Some(end) => _ = self.ends.insert(end, at),
            None => self.wordless.push(at),
        }
    }

    /// Removes a destination. Subtracts the number of nodes that are removed from `nodes`.
    pub(super) fn remove(
        &mut self,
        between: &[&str],
        tail: &[&str],
        destination: &Destination,
        nodes: &mut usize,
    ) {
        let name = between.join(".");
        let Some(at) = self.names.get(name.as_str()).copied() else { return };
        let tails = &mut self.parts[at].tails;
        tails.change(tail.iter().rev().copied(), nodes, |destinations, _| destinations.remove(destination));
        if !tails.is_vacant() {
            return;
        }
        *nodes -= between.len();
        self.names.remove(name.as_str());
        let part = self.parts.remove(at);
        match part.end {
            Some(end) => _ = self.ends.remove(&end),
            None => self.wordless.retain(|wordless| *wordless != at),
        }
        self.removed += part.positions;
        if self.removed > self.bits.len() / 2 {
            self.rebuild();
        }
    }

    /// Frees the positions of removed parts. As many parts were removed before as remain, so this costs each of them a
    /// constant time.
    fn rebuild(&mut self) {
        self.bits = Bits::default();
        self.removed = 0;
        self.ends.clear();
        self.wordless.clear();
        for (name, at) in std::mem::take(&mut self.names) {
            let between: Vec<&str> = name.split('.').collect();
            self.place(at, &between);
            self.names.insert(name, at);
        }
    }

    /// Calls `found` for every destination whose key matches, where `key` is what the head has left of the key. Ends early if no
    /// steps are left.
    pub(super) fn matches<'a>(
        &'a self,
        key: &[&str],
        steps: &mut Steps,
        found: &mut dyn FnMut(&'a Destination),
    ) {
        let mut end = |part: &'a Part, rest: &[&str], steps: &mut Steps| {
            let mut matched =
                |destinations: &'a Destinations, _, _: &mut Steps| destinations.iter().for_each(&mut *found);
            part.tails.walk(rest.iter().rev(), steps, &mut matched);
        };
        for part in &self.wordless {
            end(&self.parts[*part], key, steps);
        }
        self.bits.find(key, steps, |position, rest, steps| {
            if let Some(part) = self.ends.get(&position) {
                end(&self.parts[*part], rest, steps);
            }
        });
    }
}
