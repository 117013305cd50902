//! What one consumer has been sent and has not settled, by its own numbers.

use std::collections::{BTreeMap, VecDeque};

use super::entry::Entry;

/// Up to this length a ring with holes is left alone. Tests have short lives.
const SPARSE_LEN: usize = if cfg!(test) { 4 } else { 64 };

/// A ring indexed by number, so that a settled range costs its length and no search.
pub(super) struct Unsettled {
    /// The number of the first slot of `ring`.
    base: u64,
    ring: VecDeque<Option<Entry>>,
    /// Slots of `ring` that are filled.
    filled: usize,
    /// Left behind by a ring that was mostly holes: a consumer that never settles one delivery must not pin
    /// a slot for each one after it.
    stragglers: BTreeMap<u64, Entry>,
}

impl Unsettled {
    pub fn new() -> Self {
        Self { base: 1, ring: VecDeque::new(), filled: 0, stragglers: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.filled == 0 && self.stragglers.is_empty()
    }

    /// Holds the entry; returns its number.
    pub fn push(&mut self, entry: Entry) -> u64 {
        let number = self.base + self.ring.len() as u64;
        self.ring.push_back(Some(entry));
        self.filled += 1;
        number
    }

    /// Uses a number without holding anything: the delivery is settled as it is sent.
    pub fn skip(&mut self) -> u64 {
        let number = self.base + self.ring.len() as u64;
        if self.ring.is_empty() {
            self.base += 1;
        } else {
            self.ring.push_back(None);
        }
        number
    }

    /// Takes `first..=last` out, in ascending order; what is not there is passed over.
    pub fn take(&mut self, first: u64, last: u64, mut each: impl FnMut(Entry)) {
        if first > last {
            return;
        }
        if !self.stragglers.is_empty() {
            while let Some((&number, _)) = self.stragglers.range(first..=last).next() {
                self.stragglers.remove(&number).into_iter().for_each(&mut each);
            }
        }
        let end = self.base + self.ring.len() as u64;
        let range = first.max(self.base)..last.saturating_add(1).min(end);
        for number in range {
            if let Some(entry) = self.ring[(number - self.base) as usize].take() {
                self.filled -= 1;
                each(entry);
            }
        }
        self.trim();
    }

    /// Takes everything out, in ascending order.
    pub fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.stragglers.into_values().chain(self.ring.into_iter().flatten())
    }

    fn trim(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base += 1;
        }
        while self.ring.len() > SPARSE_LEN && self.filled < self.ring.len() / 4 {
            for entry in self.ring.drain(..self.ring.len() / 2) {
                if let Some(entry) = entry {
                    self.stragglers.insert(self.base, entry);
                    self.filled -= 1;
                }
                self.base += 1;
            }
        }
    }

    /// Everything, in ascending order of its numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.stragglers.values().chain(self.ring.iter().flatten())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.stragglers.values_mut().chain(self.ring.iter_mut().flatten())
    }

    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.ring.len() + self.stragglers.len()
    }
}
