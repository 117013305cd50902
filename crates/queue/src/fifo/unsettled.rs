//! The unsettled deliveries of one consumer, by its own numbers.
//!
//! ```text
//!   stragglers      chunk │ chunk │ ... │ chunk ◄── push
//! ```
//!
//! A chunk is found by division, so settling a range takes time proportional to its length, without a search. If all
//! bodies of a chunk are only on the disk, the chunk holds references.

use std::collections::{BTreeMap, VecDeque};

use super::entry::{Entry, Lone, Reference, Spot};

/// The number of deliveries in a chunk.
const CHUNK: usize = if cfg!(test) { 4 } else { 128 };

/// The number of chunks that may be mostly empty. A consumer that settles in order leaves holes only in the first and
/// the last chunk, so it never creates stragglers.
const HOLLOW_CHUNKS: usize = 2;

pub(super) struct Unsettled {
    /// The delivery number of the first slot of the first chunk.
    base: u64,
    /// The number of the next delivery.
    next: u64,
    chunks: VecDeque<Chunk>,
    /// The number of occupied slots in `chunks`.
    filled: usize,
    /// Deliveries from chunks that were mostly empty. If a consumer never settles one delivery, the slots after it must
    /// not stay in memory.
    stragglers: BTreeMap<u64, Lone>,
    /// The memory of an emptied chunk, for reuse.
    spare: Vec<Option<Entry>>,
}

struct Chunk {
    filled: usize,
    slots: Slots,
}

/// Slots after the end of the vector are empty.
enum Slots {
    Wide(Vec<Option<Entry>>),
    Narrow(Vec<Option<Reference>>),
}

impl Unsettled {
    pub(super) fn new() -> Self {
        Self {
            base: 1,
            next: 1,
            chunks: VecDeque::new(),
            filled: 0,
            stragglers: BTreeMap::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0 && self.stragglers.is_empty()
    }

    /// Returns the number of the next delivery.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Adds an entry under the next number.
    pub(super) fn push(&mut self, entry: Entry) {
        let at = (self.next - self.base) as usize;
        while self.chunks.len() <= at / CHUNK {
            let chunk = Chunk::new(std::mem::take(&mut self.spare), !self.chunks.is_empty());
            self.chunks.push_back(chunk);
        }
        self.chunks[at / CHUNK].push(at % CHUNK, entry);
        self.next += 1;
        self.filled += 1;
    }

    /// Skips a number, because the delivery is settled as it is sent.
    pub(super) fn skip(&mut self) {
        self.next += 1;
        if self.filled == 0 {
            self.restart();
        }
    }

    /// Removes `first..=last` in ascending order. Skips numbers that are not held. `each` gets the number, too.
    pub(super) fn take(&mut self, first: u64, last: u64, mut each: impl FnMut(u64, Entry)) {
        if first > last {
            return;
        }
        if !self.stragglers.is_empty() {
            while let Some((&number, _)) = self.stragglers.range(first..=last).next() {
                self.stragglers.remove(&number).into_iter().for_each(|lone| each(number, lone.into()));
            }
        }
        let (mut number, end) = (first.max(self.base), last.saturating_add(1).min(self.next));
        while number < end {
            let at = (number - self.base) as usize;
            let Some(chunk) = self.chunks.get_mut(at / CHUNK) else { break };
            let left = (end - number) as usize;
            let to = CHUNK.min(at % CHUNK + left);
            self.filled -= chunk.take(at % CHUNK, to, number, &mut each);
            number += (to - at % CHUNK) as u64;
        }
        self.trim();
    }

    /// Returns the numbers in `first..=last` that are held, ascending.
    pub(super) fn numbers(&self, first: u64, last: u64) -> Vec<u64> {
        if first > last {
            return Vec::new();
        }
        let stragglers = self.stragglers.range(first..=last).map(|(number, _)| *number);
        let (from, end) = (first.max(self.base), last.saturating_add(1).min(self.next));
        let is_held = |number: &u64| {
            let at = (number - self.base) as usize;
            self.chunks.get(at / CHUNK).is_some_and(|chunk| chunk.is_filled(at % CHUNK))
        };
        stragglers.chain((from..end).filter(is_held)).collect()
    }

    /// Adds an entry again under its earlier number.
    pub(super) fn put_back(&mut self, number: u64, entry: Entry) {
        let at = number.checked_sub(self.base).map(|at| at as usize);
        let chunk = at.and_then(|at| Some((self.chunks.get_mut(at / CHUNK)?, at % CHUNK)));
        match chunk {
            Some((chunk, at)) => {
                chunk.put_back(at, entry);
                self.filled += 1;
            }
            None => {
                self.stragglers.insert(number, entry.into());
            }
        }
    }

    /// Removes and returns the messages with sequence numbers in `first..=last`, by their own numbers.
    pub(super) fn take_seqs(&mut self, first: u64, last: u64) -> Vec<Entry> {
        self.widen();
        let wanted = self.entries_from(0).filter(|(_, entry)| (first..=last).contains(&entry.seq));
        let numbers: Vec<u64> = wanted.map(|(number, _)| number).collect();
        let mut taken = Vec::with_capacity(numbers.len());
        for number in numbers {
            self.take(number, number, |_, entry| taken.push(entry));
        }
        self.narrow();
        taken
    }

    /// Removes everything, in ascending order.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        let chunks = self.chunks.into_iter().flat_map(Chunk::into_entries);
        self.stragglers.into_values().map(Entry::from).chain(chunks)
    }

    /// Iterates over the entries that are stored in full, not as references.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let chunks = self.chunks.iter().flat_map(|chunk| chunk.wide().iter().flatten());
        self.stragglers.values().filter_map(Lone::entry).chain(chunks)
    }

    /// Iterates over [`Self::entries`] from this number on, ascending, with the numbers.
    pub(super) fn entries_from(&self, number: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let stragglers = self.stragglers.range(number..).filter_map(|(at, lone)| Some((*at, lone.entry()?)));
        let first = (number.saturating_sub(self.base) / CHUNK as u64) as usize;
        let chunks = self.chunks.iter().enumerate().skip(first).flat_map(|(at, chunk)| {
            let base = self.base + (at * CHUNK) as u64;
            let slots = (base..).zip(chunk.wide());
            slots.filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
        });
        stragglers.chain(chunks.filter(move |(at, _)| *at >= number))
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let chunks = self.chunks.iter_mut().flat_map(|chunk| chunk.wide_mut().iter_mut().flatten());
        self.stragglers.values_mut().filter_map(Lone::entry_mut).chain(chunks)
    }

    /// Iterates over the entries that are in a run.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        let chunks = self.chunks.iter().flat_map(Chunk::references);
        self.stragglers.values().filter_map(Lone::reference).chain(chunks)
    }

    pub(super) fn spots_mut(&mut self) -> impl Iterator<Item = &mut Spot> {
        let chunks = self.chunks.iter_mut().flat_map(Chunk::spots_mut);
        self.stragglers.values_mut().filter_map(Lone::spot_mut).chain(chunks)
    }

    /// Converts entries whose bodies were freed to references, chunk by chunk.
    pub(super) fn narrow(&mut self) {
        self.stragglers.values_mut().for_each(Lone::narrow);
        self.chunks.iter_mut().for_each(Chunk::narrow);
    }

    /// Converts references to entries. [`Unsettled::narrow`] does the opposite.
    pub(super) fn widen(&mut self) {
        self.stragglers.values_mut().for_each(Lone::widen);
        self.chunks.iter_mut().for_each(Chunk::widen);
    }

    fn trim(&mut self) {
        if self.filled == 0 {
            return self.restart();
        }
        while self.chunks.len() > 1
            && let Some(empty) = self.chunks.pop_front_if(|chunk| chunk.filled == 0)
        {
            self.base += CHUNK as u64;
            self.keep(empty);
        }
        while self.chunks.len() > HOLLOW_CHUNKS && self.filled < self.chunks.len() * CHUNK / 4 {
            for chunk in self.chunks.drain(..self.chunks.len() / 2) {
                self.filled -= chunk.filled;
                for (at, entry) in chunk.into_numbered() {
                    self.stragglers.insert(self.base + at, entry.into());
                }
                self.base += CHUNK as u64;
            }
        }
    }

    /// Called when no chunk holds anything. The next number gets the first slot of a chunk.
    fn restart(&mut self) {
        self.base = self.next;
        while self.chunks.len() > 1
            && let Some(chunk) = self.chunks.pop_back()
        {
            self.keep(chunk);
        }
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.clear();
        }
    }

    fn keep(&mut self, chunk: Chunk) {
        if let Slots::Wide(mut slots) = chunk.slots
            && slots.capacity() > self.spare.capacity()
        {
            slots.clear();
            self.spare = slots;
        }
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.chunks.len() * CHUNK + self.stragglers.len()
    }

    /// Copies of all entries.
    #[cfg(test)]
    pub(super) fn copies(&self) -> Vec<Entry> {
        let here = self.entries().cloned();
        here.chain(self.references().map(Entry::from).filter(|e| !self.entries().any(|h| h.seq == e.seq)))
            .collect()
    }
}

impl Chunk {
    /// Returns an empty chunk. With `whole`, reserves memory for all of its slots.
    fn new(mut slots: Vec<Option<Entry>>, whole: bool) -> Self {
        if whole {
            slots.reserve_exact(CHUNK);
        }
        Self { filled: 0, slots: Slots::Wide(slots) }
    }

    fn is_filled(&self, at: usize) -> bool {
        match &self.slots {
            Slots::Wide(slots) => slots.get(at).is_some_and(Option::is_some),
            Slots::Narrow(slots) => slots.get(at).is_some_and(Option::is_some),
        }
    }

    /// Fills an empty slot.
    fn put_back(&mut self, at: usize, entry: Entry) {
        let slots = match &self.slots {
            Slots::Wide(slots) => slots.len(),
            Slots::Narrow(slots) => slots.len(),
        };
        if slots <= at {
            return self.push(at, entry);
        }
        self.widen();
        if let Some(slot) = self.wide_mut().get_mut(at) {
            self.filled += usize::from(slot.replace(entry).is_none());
        }
    }

    /// Fills a slot after all others.
    fn push(&mut self, at: usize, entry: Entry) {
        if !entry.is_in_memory()
            && let Some(reference) = entry.reference()
        {
            if self.filled == 0 {
                self.slots = Slots::Narrow(Vec::new());
            }
            if let Slots::Narrow(slots) = &mut self.slots {
                slots.resize(at, None);
                slots.push(Some(reference));
                self.filled += 1;
                return;
            }
        }
        if matches!(self.slots, Slots::Narrow(_)) {
            self.widen();
        }
        if let Slots::Wide(slots) = &mut self.slots {
            if slots.len() < at {
                slots.resize_with(at, || None);
            }
            slots.push(Some(entry));
            self.filled += 1;
        }
    }

    /// Converts references to entries.
    #[cold]
    fn widen(&mut self) {
        if let Slots::Narrow(slots) = &mut self.slots {
            let slots = std::mem::take(slots);
            self.slots = Slots::Wide(slots.into_iter().map(|slot| slot.map(Entry::from)).collect());
        }
    }

    /// Removes the entries in the slots `from..to`. Returns how many there were. `number` is that of the first slot.
    fn take(&mut self, from: usize, to: usize, number: u64, mut each: impl FnMut(u64, Entry)) -> usize {
        let mut taken = 0;
        let mut take = |(number, entry)| {
            taken += 1;
            each(number, entry);
        };
        match &mut self.slots {
            Slots::Wide(slots) => {
                let to = to.min(slots.len());
                let slots = (number..).zip(slots.get_mut(from..to).unwrap_or_default());
                slots.filter_map(|(number, slot)| Some((number, slot.take()?))).for_each(&mut take);
            }
            Slots::Narrow(slots) => {
                let to = to.min(slots.len());
                let slots = (number..).zip(slots.get_mut(from..to).unwrap_or_default());
                slots.filter_map(|(number, slot)| Some((number, slot.take()?.into()))).for_each(&mut take);
            }
        }
        self.filled -= taken;
        taken
    }

    fn clear(&mut self) {
        match &mut self.slots {
            Slots::Wide(slots) => slots.clear(),
            Slots::Narrow(_) => self.slots = Slots::Wide(Vec::new()),
        }
    }

    fn narrow(&mut self) {
        let Slots::Wide(slots) = &self.slots else { return };
        if self.filled > 0 && !slots.iter().flatten().any(Entry::is_in_memory) {
            let slots = slots.iter().map(|slot| slot.as_ref().and_then(Entry::reference));
            self.slots = Slots::Narrow(slots.collect());
        }
    }

    fn wide(&self) -> &[Option<Entry>] {
        if let Slots::Wide(slots) = &self.slots { slots } else { &[] }
    }

    fn wide_mut(&mut self) -> &mut [Option<Entry>] {
        if let Slots::Wide(slots) = &mut self.slots { slots } else { &mut [] }
    }

    fn references(&self) -> impl Iterator<Item = Reference> {
        let narrow: &[Option<Reference>] = if let Slots::Narrow(slots) = &self.slots { slots } else { &[] };
        self.wide().iter().flatten().filter_map(Entry::reference).chain(narrow.iter().flatten().copied())
    }

    fn spots_mut(&mut self) -> impl Iterator<Item = &mut Spot> {
        let (wide, narrow): (&mut [_], &mut [_]) = match &mut self.slots {
            Slots::Wide(slots) => (slots, &mut []),
            Slots::Narrow(slots) => (&mut [], slots),
        };
        let wide = wide.iter_mut().flatten().filter_map(|entry: &mut Entry| entry.spot.as_mut());
        wide.chain(narrow.iter_mut().flatten().map(|reference: &mut Reference| &mut reference.spot))
    }

    /// Iterates over the entries with their slots.
    fn into_numbered(self) -> impl Iterator<Item = (u64, Entry)> {
        let (wide, narrow) = match self.slots {
            Slots::Wide(slots) => (slots, Vec::new()),
            Slots::Narrow(slots) => (Vec::new(), slots),
        };
        let narrow = narrow.into_iter().map(|slot| slot.map(Entry::from));
        (0..).zip(wide.into_iter().chain(narrow)).filter_map(|(at, slot)| Some((at, slot?)))
    }

    fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.into_numbered().map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away(seq: u64) -> Entry {
        let body =
            super::super::entry::Body::OnDisk { bytes: 1, priority: None, annotations: Default::default() };
        Entry {
            body,
            seq,
            delivery_count: 0,
            redelivered: false,
            came_back: None,
            journaled: false,
            spot: None,
        }
    }

    #[test]
    fn settling_in_order_leaves_no_stragglers() {
        for credit in 1..=4 * CHUNK as u64 {
            for step in 1..=credit {
                let mut unsettled = Unsettled::new();
                let mut settled = 0;
                for number in 1..=20 * CHUNK as u64 {
                    unsettled.push(away(number));
                    if number - settled == credit {
                        unsettled.take(settled + 1, settled + step, |number, entry| {
                            settled += 1;
                            assert_eq!((number, entry.seq), (settled, settled));
                        });
                    }
                    assert!(unsettled.stragglers.is_empty(), "credit {credit}, {step} at a time");
                }
            }
        }
    }
}
