//! Messages that wait for a consumer, in order.

use super::entry::{Entry, Reference, Spot};
use super::level::{Head, Level, Rest};
use crate::{Load, Loaded, Stored};

/// With fewer messages than this in memory the next block is read: what one grant of a consumer asks for.
const READ_AHEAD: usize = if cfg!(test) { 2 } else { 256 };

/// Ready messages: the highest level first, by seq within a level.
pub(super) struct Ready {
    levels: Vec<Level>,
    /// Bit n: level n is not empty.
    occupied: [u64; 4],
    len: u64,
    bytes: u64,
    /// What could be paged out takes in memory, about.
    pageable_bytes: u64,
    /// Bodies that can be read again take in memory, about.
    loaded_bytes: u64,
}

impl Ready {
    pub fn new(max_priority: Option<u8>) -> Self {
        let levels = usize::from(max_priority.unwrap_or(0)) + 1;
        Self {
            levels: std::iter::repeat_with(Level::default).take(levels).collect(),
            occupied: [0; 4],
            len: 0,
            bytes: 0,
            pageable_bytes: 0,
            loaded_bytes: 0,
        }
    }

    /// Messages, on the disk or in memory.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn pageable_bytes(&self) -> u64 {
        self.pageable_bytes
    }

    pub fn loaded_bytes(&self) -> u64 {
        self.loaded_bytes
    }

    /// The highest level that is not empty.
    pub fn top(&self) -> Option<usize> {
        (0..4).rev().find_map(|word| {
            let bits = self.occupied[word];
            (bits != 0).then(|| word * 64 + 63 - bits.leading_zeros() as usize)
        })
    }

    /// Levels that are not empty, the highest first.
    pub fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        let occupied = self.occupied;
        (0..4usize).rev().flat_map(move |word| {
            let mut bits = occupied[word];
            std::iter::from_fn(move || {
                let bit = 63u32.checked_sub(bits.leading_zeros())?;
                bits &= !(1 << bit);
                Some(word * 64 + bit as usize)
            })
        })
    }

    pub fn head(&self, level: usize) -> Option<Head<'_>> {
        self.levels[level].head()
    }

    /// The next message, if it is in memory.
    pub fn next(&self) -> Option<&Entry> {
        match self.head(self.top()?)? {
            Head::Entry(entry) => Some(entry),
            Head::Reference(_) | Head::Rest(_) => None,
        }
    }

    /// What must be read before the next message can be taken.
    pub fn missing(&self) -> Option<Load> {
        self.head(self.top()?)?.load()
    }

    /// What should be read before it is missing.
    pub fn read_ahead(&self) -> Option<Load> {
        self.levels[self.top()?].read_ahead(READ_AHEAD)
    }

    /// Behind everything of its level; its seq is the highest so far.
    pub fn push(&mut self, entry: Entry) {
        let level = self.enter(&entry);
        self.levels[level].push(entry);
    }

    /// Back to where it was.
    pub fn put_back(&mut self, entry: Entry) {
        let level = self.enter(&entry);
        self.levels[level].put_back(entry);
    }

    /// The next one of the level, unless that must be read first.
    pub fn pop(&mut self, level: usize) -> Option<Entry> {
        let entry = self.levels[level].pop();
        if let Some(entry) = &entry {
            self.left(level);
            self.len -= 1;
            self.bytes -= entry.len();
            *self.account(entry) -= entry.memory_bytes();
        }
        entry
    }

    /// Takes out the message of this seq; see [`Level::take`].
    pub fn take(&mut self, seq: u64) -> Option<Entry> {
        let (level, entry) =
            self.levels.iter_mut().enumerate().find_map(|(at, level)| Some((at, level.take(seq)?)))?;
        self.left(level);
        self.len -= 1;
        self.bytes -= entry.len();
        *self.account(&entry) -= entry.memory_bytes();
        Some(entry)
    }

    /// What has not been read of the run that comes next in the level, forgotten.
    pub fn pop_rest(&mut self, level: usize) -> Option<Rest> {
        let rest = self.levels[level].pop_rest()?;
        self.left(level);
        self.len -= rest.messages;
        self.bytes -= rest.bytes;
        Some(rest)
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> (Vec<Entry>, Vec<Rest>) {
        (self.occupied, self.len, self.bytes) = ([0; 4], 0, 0);
        (self.pageable_bytes, self.loaded_bytes) = (0, 0);
        let (mut entries, mut rests) = (Vec::new(), Vec::new());
        for level in self.levels.iter_mut().rev() {
            let (more, more_rests) = level.drain();
            entries.extend(more);
            rests.extend(more_rests);
        }
        (entries, rests)
    }

    /// Begins to write messages of one level; `each` is shown them as long as it wants more. Returns the level.
    pub fn page_out(&mut self, least: u64, keep: u64, mut each: impl FnMut(&Entry) -> bool) -> Option<usize> {
        if self.pageable_bytes < least {
            return None;
        }
        (0..self.levels.len()).find(|&level| {
            let mut any = false;
            self.levels[level].page_out(least, keep, |entry| {
                any = true;
                each(entry)
            });
            any
        })
    }

    pub fn page_out_failed(&mut self, level: usize) {
        self.levels[level].page_out_failed();
    }

    /// What was written has left memory; `each` is shown it.
    pub fn paged_out(&mut self, level: usize, load: Load, mut each: impl FnMut(&Entry)) {
        let mut freed = 0;
        self.levels[level].paged_out(load, |entry| {
            freed += entry.memory_bytes();
            each(entry);
        });
        self.pageable_bytes -= freed;
    }

    /// A run as it was found, behind everything of its level.
    pub fn push_run(&mut self, stored: &Stored, level: usize) {
        let rest = Rest {
            load: Load { run: stored.run, block: 0 },
            index: 0,
            seq: stored.first,
            messages: u64::from(stored.durable),
            bytes: stored.bytes,
        };
        self.len += rest.messages;
        self.bytes += rest.bytes;
        self.levels[level].push_rest(rest);
        self.occupied[level / 64] |= 1 << (level % 64);
    }

    /// If that block comes right behind what is in memory of its level.
    pub fn reading(&self, level: usize, load: Load) -> Option<Rest> {
        self.levels[level].next_rest().filter(|rest| rest.load == load).copied()
    }

    /// Takes in what was read behind what is in memory of the level; `next` is the block to go on with and the
    /// position in the run at which it begins. Returns whether anything of the run is left to be read.
    pub fn loaded(&mut self, level: usize, entries: Vec<Entry>, next: Option<(Load, u32)>) -> bool {
        let Some(rest) = self.levels[level].next_rest().copied() else { return false };
        let (messages, bytes) = (entries.len() as u64, entries.iter().map(Entry::len).sum::<u64>());
        let left = next.filter(|_| rest.messages > messages).map(|(load, index)| Rest {
            load,
            index,
            seq: entries.last().map_or(rest.seq, |entry| entry.seq + 1),
            messages: rest.messages - messages,
            bytes: rest.bytes.saturating_sub(bytes),
        });
        // What is found counts, whatever was expected.
        self.len = self.len - rest.messages + messages + left.map_or(0, |left| left.messages);
        self.bytes = self.bytes - rest.bytes + bytes + left.map_or(0, |left| left.bytes);
        self.loaded_bytes += entries.iter().map(Entry::memory_bytes).sum::<u64>();
        self.levels[level].loaded(entries, left);
        self.left(level);
        left.is_some()
    }

    /// Gives those of a block their bodies again that will be needed soon.
    pub fn fill(&mut self, level: usize, load: Load, block: Vec<Loaded>) {
        self.loaded_bytes += self.levels[level].fill(load, block);
    }

    /// Lets go of what can be read again; see [`Level::forget_loaded`].
    pub fn forget_loaded(&mut self, keeps_heads: bool) {
        for level in &mut self.levels {
            self.loaded_bytes -= level.forget_loaded(keeps_heads);
        }
    }

    /// Those of a level that stand in no run now may stand in one: `stands` says where. Their bodies are let go.
    pub fn stored(&mut self, level: usize, mut stands: impl FnMut(&mut Entry)) {
        let mut freed = 0;
        for entry in self.levels[level].here_mut().filter(|entry| entry.spot.is_none()) {
            stands(entry);
            if entry.spot.is_some() {
                freed += entry.memory_bytes();
                entry.forget_body();
            }
        }
        if freed > 0 {
            self.levels[level].narrow();
        }
        self.pageable_bytes -= freed;
    }

    /// By level, those of [`Level::taken_before`].
    pub fn taken_before(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(at, level)| level.taken_before().map(move |entry| (at, entry)))
    }

    /// Those that stand in a run and have been read.
    pub fn references(&self) -> impl Iterator<Item = Reference> {
        self.levels.iter().flat_map(Level::references)
    }

    pub fn spots_mut(&mut self) -> impl Iterator<Item = &mut Spot> {
        self.levels.iter_mut().flat_map(Level::spots_mut)
    }

    /// What has not been read of this run.
    pub fn rest_of(&mut self, level: usize, run: u32) -> Option<&mut Rest> {
        self.levels[level].rest_of(run)
    }

    pub fn level_of(&self, priority: u8) -> usize {
        usize::from(priority).min(self.levels.len() - 1)
    }

    /// The priorities that share the level.
    pub fn priorities_of(&self, level: usize) -> (u8, u8) {
        let last = level + 1 == self.levels.len();
        (level as u8, if last { u8::MAX } else { level as u8 })
    }

    fn enter(&mut self, entry: &Entry) -> usize {
        self.len += 1;
        self.bytes += entry.len();
        *self.account(entry) += entry.memory_bytes();
        // Most queues have one level: there the message need not be looked into.
        let level = if self.levels.len() == 1 { 0 } else { self.level_of(entry.priority()) };
        self.occupied[level / 64] |= 1 << (level % 64);
        level
    }

    /// Something has left the level.
    fn left(&mut self, level: usize) {
        if self.levels[level].is_empty() {
            self.occupied[level / 64] &= !(1 << (level % 64));
        }
    }

    fn account(&mut self, entry: &Entry) -> &mut u64 {
        if entry.spot.is_some() { &mut self.loaded_bytes } else { &mut self.pageable_bytes }
    }

    pub fn level(&self, level: usize) -> Option<&Level> {
        self.levels.get(level)
    }

    /// Those between `first` and `last`, by level; the cost is that of what is found.
    pub fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        self.levels.iter().flat_map(move |level| level.range(first, last))
    }

    /// Copies of what is in memory, or was and can be read again.
    #[cfg(test)]
    pub fn copies(&self) -> Vec<Entry> {
        let here: Vec<Entry> = self.levels.iter().flat_map(Level::here).cloned().collect();
        let away =
            self.references().map(Entry::from).filter(|entry| !here.iter().any(|h| h.seq == entry.seq));
        here.iter().cloned().chain(away).collect()
    }

    /// What has not been read.
    pub fn rests(&self) -> impl Iterator<Item = &Rest> {
        self.levels.iter().flat_map(Level::rests)
    }
}
