//! The ready messages of a queue, in order.

use super::entry::{Entry, Reference, Spot};
use super::level::{Head, Level, Rest, Tail};
use crate::{Load, Loaded, Stored};

/// If fewer messages than this are in memory, the next block is read. A consumer asks for as many with one
/// grant.
const READ_AHEAD: usize = if cfg!(test) { 2 } else { 256 };

/// Ready messages: the highest priority level first, and by sequence number within a level.
pub(super) struct Ready {
    /// The levels up to the highest that has had a message since [`Self::shrink`]. `None` for one without a message since.
    levels: Box<[Option<Box<Level>>]>,
    max_priority: u8,
    default_priority: u8,
    /// Bit n is set if level n is not empty.
    occupied: [u64; 4],
    len: u64,
    bytes: u64,
    /// The approximate memory of messages that could be paged out, in bytes.
    pageable_bytes: u64,
    /// The approximate memory of bodies that can be read again, in bytes.
    loaded_bytes: u64,
}

impl Ready {
    /// `default_priority` is that of a message without one.
    pub(super) fn new(max_priority: u8, default_priority: u8) -> Self {
        Self {
            levels: Box::default(),
            max_priority,
            default_priority,
            occupied: [0; 4],
            len: 0,
            bytes: 0,
            pageable_bytes: 0,
            loaded_bytes: 0,
        }
    }

    /// Returns the number of messages, on the disk and in memory.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn pageable_bytes(&self) -> u64 {
        self.pageable_bytes
    }

    pub(super) fn loaded_bytes(&self) -> u64 {
        self.loaded_bytes
    }

    /// Returns the highest level that is not empty.
    pub(super) fn top(&self) -> Option<usize> {
        (0..4).rev().find_map(|word| {
            let bits = self.occupied[word];
            (bits != 0).then(|| word * 64 + 63 - bits.leading_zeros() as usize)
        })
    }

    /// Iterates over the levels that are not empty, from the highest.
    pub(super) fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
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

    pub(super) fn head(&self, level: usize) -> Option<Head<'_>> {
        self.at(level)?.head()
    }

    /// Returns the next message, if it is in memory.
    pub(super) fn next(&self) -> Option<&Entry> {
        match self.head(self.top()?)? {
            Head::Entry(entry) => Some(entry),
            Head::Reference(_) | Head::Rest(_) => None,
        }
    }

    /// Iterates over all messages in the order of their delivery. The unread messages of a run are one item.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Head<'_>> {
        self.occupied().filter_map(|level| self.at(level)).flat_map(|level| level.in_order())
    }

    /// Returns the block that must be read before the next message can be taken.
    pub(super) fn missing(&self) -> Option<Load> {
        self.head(self.top()?)?.load()
    }

    /// Returns the block that should be read ahead.
    pub(super) fn read_ahead(&self) -> Option<Load> {
        self.at(self.top()?)?.read_ahead(READ_AHEAD)
    }

    /// Appends a message to its level. Its sequence number must be the highest so far.
    pub(super) fn push(&mut self, entry: Entry) {
        let level = self.enter(&entry);
        self.make(level).push(entry);
    }

    /// Inserts a message by its sequence number.
    pub(super) fn put_back(&mut self, entry: Entry) {
        let level = self.enter(&entry);
        self.make(level).put_back(entry);
    }

    /// Removes and returns the next message of the level, unless it must be read first.
    pub(super) fn pop(&mut self, level: usize) -> Option<Entry> {
        let entry = self.at_mut(level)?.pop();
        if let Some(entry) = &entry {
            self.left(level);
            self.len -= 1;
            self.bytes -= entry.len();
            *self.account(entry) -= entry.memory_bytes();
        }
        entry
    }

    /// Removes and returns the message with this sequence number. See [`Level::take`].
    pub(super) fn take(&mut self, seq: u64) -> Option<Entry> {
        let mut levels = self.levels.iter_mut().enumerate();
        let (level, entry) = levels.find_map(|(at, level)| Some((at, level.as_mut()?.take(seq)?)))?;
        self.left(level);
        self.len -= 1;
        self.bytes -= entry.len();
        *self.account(&entry) -= entry.memory_bytes();
        Some(entry)
    }

    /// Removes the unread messages of the run that comes next in the level.
    pub(super) fn pop_rest(&mut self, level: usize) -> Option<Rest> {
        let rest = self.at_mut(level)?.pop_rest()?;
        self.left(level);
        self.len -= rest.messages;
        self.bytes -= rest.bytes;
        Some(rest)
    }

    /// Inserts an unread part of a run that was removed, at its place.
    pub(super) fn put_back_rest(&mut self, level: usize, rest: Rest) {
        self.len += rest.messages;
        self.bytes += rest.bytes;
        self.make(level).put_back_rest(rest);
        self.occupied[level / 64] |= 1 << (level % 64);
    }

    /// Called when messages of an unread part of a run are gone.
    pub(super) fn shrink_rest(&mut self, level: usize, run: u32, messages: u64, bytes: u64) {
        self.len -= messages;
        self.bytes -= bytes;
        self.make(level).shrink_rest(run, messages, bytes);
        self.left(level);
    }

    /// Returns the sequence numbers between `first` and `last` of messages that are in memory or have been read.
    pub(super) fn seqs(&self, first: u64, last: u64) -> Vec<u64> {
        self.made().flat_map(|level| level.seqs(first, last)).collect()
    }

    /// Removes and returns everything.
    pub(super) fn drain(&mut self) -> (Vec<Entry>, Vec<Rest>) {
        (self.occupied, self.len, self.bytes) = ([0; 4], 0, 0);
        (self.pageable_bytes, self.loaded_bytes) = (0, 0);
        let (mut entries, mut rests) = (Vec::new(), Vec::new());
        for level in self.levels.iter_mut().flatten().rev() {
            let (more, more_rests) = level.drain();
            entries.extend(more);
            rests.extend(more_rests);
        }
        (entries, rests)
    }

    /// Starts to page out messages of one level. Passes them to `each` until it returns false. Returns the
    /// level. For `fresh` see [`Level::page_out`].
    pub(super) fn page_out(
        &mut self,
        least: u64,
        keep: u64,
        fresh: bool,
        mut each: impl FnMut(&Entry) -> bool,
    ) -> Option<usize> {
        if self.pageable_bytes < least {
            return None;
        }
        (0..self.levels.len()).find(|&level| {
            let mut any = false;
            if let Some(level) = self.at_mut(level) {
                level.page_out(least, keep, fresh, |entry| {
                    any = true;
                    each(entry)
                });
            }
            any
        })
    }

    pub(super) fn page_out_failed(&mut self, level: usize) {
        self.make(level).page_out_failed();
    }

    /// Called when messages were written. Removes them from memory and passes them to `each`.
    pub(super) fn paged_out(&mut self, level: usize, load: Load, mut each: impl FnMut(&Entry)) {
        let mut freed = 0;
        self.make(level).paged_out(load, |entry| {
            freed += entry.memory_bytes();
            each(entry);
        });
        self.pageable_bytes -= freed;
    }

    /// Appends a restored run to its level.
    pub(super) fn push_run(&mut self, stored: &Stored, level: usize) {
        let rest = Rest {
            load: Load { run: stored.run, block: 0 },
            index: 0,
            seq: stored.first,
            messages: u64::from(stored.durable),
            bytes: stored.bytes,
        };
        self.len += rest.messages;
        self.bytes += rest.bytes;
        self.make(level).push_rest(rest);
        self.occupied[level / 64] |= 1 << (level % 64);
    }

    /// Returns the unread part that begins with this block, if it comes directly after the level's messages in
    /// memory.
    pub(super) fn reading(&self, level: usize, load: Load) -> Option<Rest> {
        self.at(level)?.next_rest().filter(|rest| rest.load == load).copied()
    }

    /// Appends the messages that were read to the level. `next` is the next block, and the position in the run
    /// at which it begins. Returns whether unread messages of the run are left.
    pub(super) fn loaded(&mut self, level: usize, entries: Vec<Entry>, next: Option<(Load, u32)>) -> bool {
        let Some(rest) = self.make(level).next_rest().copied() else { return false };
        let (messages, bytes) = (entries.len() as u64, entries.iter().map(Entry::len).sum::<u64>());
        let left = next.filter(|_| rest.messages > messages).map(|(load, index)| Rest {
            load,
            index,
            seq: entries.last().map_or(rest.seq, |entry| entry.seq + 1),
            messages: rest.messages - messages,
            bytes: rest.bytes.saturating_sub(bytes),
        });
        // The actual messages count, not the expected ones.
        self.len = self.len - rest.messages + messages + left.map_or(0, |left| left.messages);
        self.bytes = self.bytes - rest.bytes + bytes + left.map_or(0, |left| left.bytes);
        self.loaded_bytes += entries.iter().map(Entry::memory_bytes).sum::<u64>();
        self.make(level).loaded(entries, left);
        self.left(level);
        left.is_some()
    }

    /// Restores the bodies of a block's messages that will be needed soon.
    pub(super) fn fill(&mut self, level: usize, load: Load, block: Vec<Loaded>) {
        self.loaded_bytes += self.make(level).fill(load, block);
    }

    /// Frees what can be read again. See [`Level::forget_loaded`].
    pub(super) fn forget_loaded(&mut self, keeps_heads: bool) {
        for level in self.levels.iter_mut().flatten() {
            self.loaded_bytes -= level.forget_loaded(keeps_heads);
        }
    }

    /// Calls `set_spot` for the level's messages in no run. It sets the positions of those that are in one now.
    /// Their bodies are freed.
    pub(super) fn stored(&mut self, level: usize, mut set_spot: impl FnMut(&mut Entry)) {
        let mut freed = 0;
        for entry in self.make(level).entries_mut().filter(|entry| entry.spot.is_none()) {
            set_spot(entry);
            if entry.spot.is_some() {
                freed += entry.memory_bytes();
                entry.free_body();
            }
        }
        if freed > 0 {
            self.make(level).narrow();
        }
        self.pageable_bytes -= freed;
    }

    /// Iterates over [`Level::taken_before`] of all levels.
    pub(super) fn taken_before(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let levels = self.levels.iter().enumerate().filter_map(|(at, level)| Some((at, level.as_ref()?)));
        levels.flat_map(|(at, level)| level.taken_before().map(move |entry| (at, entry)))
    }

    /// Iterates over the messages that are in a run and have been read.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        self.made().flat_map(Level::references)
    }

    pub(super) fn spots_mut(&mut self) -> impl Iterator<Item = &mut Spot> {
        self.levels.iter_mut().flatten().flat_map(|level| level.spots_mut())
    }

    /// Returns the unread part of this run.
    pub(super) fn rest_of(&mut self, level: usize, run: u32) -> Option<&mut Rest> {
        self.at_mut(level)?.rest_of(run)
    }

    pub(super) fn level_of(&self, priority: u8) -> usize {
        usize::from(priority.min(self.max_priority))
    }

    /// Returns the lowest and the highest priority of the level.
    pub(super) fn priorities_of(&self, level: usize) -> (u8, u8) {
        let last = level == usize::from(self.max_priority);
        (level as u8, if last { u8::MAX } else { level as u8 })
    }

    fn enter(&mut self, entry: &Entry) -> usize {
        self.len += 1;
        self.bytes += entry.len();
        *self.account(entry) += entry.memory_bytes();
        let level = self.level_of_entry(entry);
        self.occupied[level / 64] |= 1 << (level % 64);
        level
    }

    /// Returns the level of a message.
    #[inline(always)]
    pub(super) fn level_of_entry(&self, entry: &Entry) -> usize {
        // Most queues have one level. Then the priority need not be read from the message.
        match self.max_priority {
            0 => 0,
            _ => self.level_of(entry.priority().unwrap_or(self.default_priority)),
        }
    }

    /// Called when a message has left the level.
    fn left(&mut self, level: usize) {
        if self.at(level).is_none_or(Level::is_empty) {
            self.occupied[level / 64] &= !(1 << (level % 64));
        }
    }

    fn account(&mut self, entry: &Entry) -> &mut u64 {
        if entry.spot.is_some() { &mut self.loaded_bytes } else { &mut self.pageable_bytes }
    }

    /// Returns this level: `None` after the last one, and `Some(None)` for one that was never needed.
    pub(super) fn level(&self, level: usize) -> Option<Option<&Level>> {
        (level <= usize::from(self.max_priority)).then(|| self.at(level))
    }

    /// Frees the memory of empty levels. No message may be on its way to the disk or back.
    pub(super) fn shrink(&mut self) {
        for level in &mut self.levels {
            level.take_if(|level| level.is_empty());
        }
        if self.levels.iter().all(Option::is_none) {
            self.levels = Box::default();
        }
    }

    fn made(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().filter_map(Option::as_deref)
    }

    #[inline(always)]
    fn at(&self, level: usize) -> Option<&Level> {
        self.levels.get(level)?.as_deref()
    }

    #[inline(always)]
    fn at_mut(&mut self, level: usize) -> Option<&mut Level> {
        self.levels.get_mut(level)?.as_deref_mut()
    }

    #[inline(always)]
    fn make(&mut self, level: usize) -> &mut Level {
        if self.levels.len() <= level {
            self.add_levels(level);
        }
        self.levels[level].get_or_insert_default()
    }

    #[cold]
    fn add_levels(&mut self, up_to: usize) {
        let mut levels = std::mem::take(&mut self.levels).into_vec();
        levels.resize_with(up_to + 1, || None);
        self.levels = levels.into_boxed_slice();
    }

    /// Iterates over the messages between `first` and `last`, level by level. The cost depends on the number of
    /// results.
    pub(super) fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        self.made().flat_map(move |level| level.range(first, last))
    }

    /// Copies of the messages in memory, and of those that were read and can be read again.
    #[cfg(test)]
    pub(super) fn copies(&self) -> Vec<Entry> {
        let here: Vec<Entry> = self.made().flat_map(Level::entries).cloned().collect();
        let away =
            self.references().map(Entry::from).filter(|entry| !here.iter().any(|h| h.seq == entry.seq));
        here.iter().cloned().chain(away).collect()
    }

    /// Returns the newest messages of each level. The newest of all is one of them.
    pub(super) fn tails(&self) -> impl Iterator<Item = Tail<'_>> {
        self.made().flat_map(Level::tails)
    }

    /// Iterates over the unread parts of runs.
    pub(super) fn rests(&self) -> impl Iterator<Item = &Rest> {
        self.made().flat_map(Level::rests)
    }
}
