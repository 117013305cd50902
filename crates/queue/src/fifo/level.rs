//! The ready messages of one priority level, in memory and on the disk.
//!
//! ```text
//!   returned   requeued messages with higher numbers than the head
//!   head       the oldest, in memory               ──► pop
//!   rest       run on the disk │ references │ in memory │ run │ in memory ◄── push
//! ```
//!
//! A message that was taken out has a lower sequence number than all of `head` and `rest`. The exception are messages
//! that were put back before it.

use std::collections::{BTreeMap, VecDeque};

use super::chunks::Chunks;
use super::entry::{Entry, Lone, Reference, Spot};
use crate::{Load, Loaded};

#[derive(Default)]
pub(super) struct Level {
    /// Ascending by sequence number. Empty only if `rest` is empty or begins with messages that are not in memory.
    head: Chunks<Entry>,
    rest: VecDeque<Part>,
    /// By sequence number. The next message is the first of this map or of `head`, whichever has the lower number.
    returned: BTreeMap<u64, Lone>,
    /// The sequence numbers that are being written: the first that is still here, and the last.
    paging: Option<(u64, u64)>,
}

/// No part is empty.
enum Part {
    /// Messages with their bodies.
    InMemory(Chunks<Entry>),
    /// Messages that were read, and whose bodies were freed again.
    References(Chunks<Reference>),
    Unread(Rest),
}

/// The messages of a run that have not been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub load: Load,
    /// The position in the run of the block's first message.
    pub index: u32,
    /// A lower bound of their sequence numbers.
    pub seq: u64,
    /// The number of live messages, at least one, and their bytes.
    pub messages: u64,
    pub bytes: u64,
}

/// What comes next in a level.
pub(super) enum Head<'a> {
    Entry(&'a Entry),
    Reference(Reference),
    Rest(&'a Rest),
}

impl Head<'_> {
    /// Returns the sequence number of the message, or a lower bound if it has not been read.
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Entry(entry) => entry.seq,
            Self::Reference(reference) => reference.seq,
            Self::Rest(rest) => rest.seq,
        }
    }

    /// Returns the block that must be read, if the message is not in memory.
    pub(super) fn load(&self) -> Option<Load> {
        match self {
            Self::Entry(_) => None,
            Self::Reference(reference) => Some(reference.spot.load()),
            Self::Rest(rest) => Some(rest.load),
        }
    }
}

/// A message that may be the newest of a level: itself, or the run that it is in.
pub(super) enum Tail<'a> {
    Entry(&'a Entry),
    Run(u32),
}

impl<'a> From<&'a Lone> for Head<'a> {
    fn from(lone: &'a Lone) -> Self {
        match lone {
            Lone::Full(entry) => Self::Entry(entry),
            Lone::Compact(reference) => Self::Reference(*reference),
        }
    }
}

impl Part {
    /// Returns the sequence number of the first message, or a lower bound.
    fn first(&self) -> u64 {
        match self {
            Self::InMemory(part) => part.front().map_or(0, |entry| entry.seq),
            Self::References(part) => part.front().map_or(0, |reference| reference.seq),
            Self::Unread(rest) => rest.seq,
        }
    }

    /// As [`Part::heads`], without messages up to a sequence number. A part that was not read is included all the same.
    fn heads_after(&self, seq: u64) -> Box<dyn Iterator<Item = Head<'_>> + '_> {
        match self {
            Self::InMemory(part) => Box::new(part.iter_from(move |entry| entry.seq <= seq).map(Head::Entry)),
            Self::References(part) => {
                Box::new(part.iter_from(move |reference| reference.seq <= seq).copied().map(Head::Reference))
            }
            Self::Unread(rest) => Box::new(std::iter::once(Head::Rest(rest))),
        }
    }

    fn heads(&self) -> Box<dyn Iterator<Item = Head<'_>> + '_> {
        match self {
            Self::InMemory(part) => Box::new(part.iter().map(Head::Entry)),
            Self::References(part) => Box::new(part.iter().copied().map(Head::Reference)),
            Self::Unread(rest) => Box::new(std::iter::once(Head::Rest(rest))),
        }
    }
}

impl Level {
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.returned.is_empty() && self.rest.is_empty()
    }

    fn returned_is_next(&self) -> bool {
        if self.returned.is_empty() {
            return false;
        }
        match (self.returned.first_key_value(), self.lowest()) {
            (Some((seq, _)), Some(lowest)) => *seq < lowest,
            (returned, _) => returned.is_some(),
        }
    }

    /// Returns the lowest sequence number of `head` and `rest`.
    fn lowest(&self) -> Option<u64> {
        if let Some(front) = self.head.front() {
            return Some(front.seq);
        }
        match self.rest.front()? {
            Part::InMemory(part) => part.front().map(|entry| entry.seq),
            Part::References(part) => part.front().map(|reference| reference.seq),
            Part::Unread(rest) => Some(rest.seq),
        }
    }

    pub(super) fn head(&self) -> Option<Head<'_>> {
        if self.returned_is_next() {
            return self.returned.first_key_value().map(|(_, lone)| lone.into());
        }
        if let Some(front) = self.head.front() {
            return Some(Head::Entry(front));
        }
        match self.rest.front()? {
            Part::InMemory(part) => part.front().map(Head::Entry),
            Part::References(part) => part.front().copied().map(Head::Reference),
            Part::Unread(rest) => Some(Head::Rest(rest)),
        }
    }

    /// Returns the last message of the line and the last one that was put back. One of them is the newest.
    pub(super) fn tails(&self) -> impl Iterator<Item = Tail<'_>> {
        let line = match self.rest.back() {
            None => self.head.back().map(Tail::Entry),
            Some(Part::InMemory(part)) => part.back().map(Tail::Entry),
            Some(Part::References(part)) => part.back().map(|reference| Tail::Run(reference.spot.run)),
            Some(Part::Unread(rest)) => Some(Tail::Run(rest.load.run)),
        };
        let returned = self.returned.last_key_value().map(|(_, lone)| match lone {
            Lone::Full(entry) => Tail::Entry(entry),
            Lone::Compact(reference) => Tail::Run(reference.spot.run),
        });
        line.into_iter().chain(returned)
    }

    /// Iterates over all messages in the order of their delivery. The unread messages of a run are one item.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Head<'_>> {
        let mut line =
            self.head.iter().map(Head::Entry).chain(self.rest.iter().flat_map(Part::heads)).peekable();
        let mut returned = self.returned.values().map(Head::from).peekable();
        std::iter::from_fn(move || match (returned.peek(), line.peek()) {
            (Some(back), Some(next)) if back.seq() > next.seq() => line.next(),
            (Some(_), _) => returned.next(),
            (None, _) => line.next(),
        })
    }

    /// Iterates over `head` and `rest` after a sequence number. An unread part that may have such messages is one item.
    pub(super) fn line_after(&self, seq: u64) -> impl Iterator<Item = Head<'_>> {
        let head = self.head.iter_from(move |entry| entry.seq <= seq).map(Head::Entry);
        let from = self.rest.partition_point(|part| part.first() <= seq).saturating_sub(1);
        head.chain(self.rest.range(from..).flat_map(move |part| part.heads_after(seq)))
    }

    /// Returns the first message of `returned` after a sequence number.
    pub(super) fn returned_after(&self, seq: u64) -> Option<Head<'_>> {
        self.returned.range(seq.saturating_add(1)..).next().map(|(_, lone)| lone.into())
    }

    pub(super) fn push(&mut self, entry: Entry) {
        match self.rest.back_mut() {
            None => self.head.push_back(entry),
            Some(Part::InMemory(last)) => last.push_back(entry),
            Some(_) => self.rest.push_back(Part::InMemory(Chunks::from_iter([entry]))),
        }
    }

    /// Appends the messages of a run that are not in memory.
    pub(super) fn push_rest(&mut self, rest: Rest) {
        self.rest.push_back(Part::Unread(rest));
    }

    /// Removes and returns the next message, unless it has not been read. Its body may have been freed.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        if self.returned_is_next() {
            return self.returned.pop_first().map(|(_, lone)| lone.into());
        }
        let entry = self.head.pop_front();
        match &entry {
            None => return self.pop_reference(),
            Some(entry) => {
                if let Some((from, _)) = &mut self.paging
                    && entry.seq >= *from
                {
                    *from = entry.seq + 1;
                }
            }
        }
        if self.head.is_empty() {
            self.advance();
        }
        entry
    }

    /// Removes and returns the message with this sequence number, if it is in memory or has been read. No run of the
    /// level may be in the process of being written.
    pub(super) fn take(&mut self, seq: u64) -> Option<Entry> {
        if let Some(lone) = self.returned.remove(&seq) {
            return Some(lone.into());
        }
        let (before, is) = (|entry: &Entry| entry.seq < seq, |entry: &Entry| entry.seq == seq);
        if let Some(entry) = self.head.remove(before, is) {
            self.advance();
            return Some(entry);
        }
        let before_reference = |reference: &Reference| reference.seq < seq;
        let is_reference = |reference: &Reference| reference.seq == seq;
        let at = self.rest.iter().position(|part| match part {
            Part::InMemory(part) => part.iter_from(before).next().is_some_and(is),
            Part::References(part) => part.iter_from(before_reference).next().is_some_and(is_reference),
            Part::Unread(_) => false,
        })?;
        let (entry, is_empty) = match self.rest.get_mut(at)? {
            Part::InMemory(part) => (part.remove(before, is), part.is_empty()),
            Part::References(part) => {
                let reference = part.remove(before_reference, is_reference);
                (reference.map(Entry::from), part.is_empty())
            }
            Part::Unread(_) => return None,
        };
        if is_empty {
            self.rest.remove(at);
            self.advance();
        }
        entry
    }

    fn pop_reference(&mut self) -> Option<Entry> {
        let Some(Part::References(part)) = self.rest.front_mut() else { return None };
        let reference = part.pop_front()?;
        if part.is_empty() {
            self.rest.pop_front();
            self.advance();
        }
        Some(reference.into())
    }

    fn advance(&mut self) {
        if self.head.is_empty()
            && let Some(Part::InMemory(_)) = self.rest.front()
            && let Some(Part::InMemory(next)) = self.rest.pop_front()
        {
            self.head = next;
        }
    }

    /// Removes the unread messages of the run that comes next.
    pub(super) fn pop_rest(&mut self) -> Option<Rest> {
        if !self.head.is_empty() || !matches!(self.rest.front(), Some(Part::Unread(_))) {
            return None;
        }
        let Some(Part::Unread(rest)) = self.rest.pop_front() else { return None };
        self.advance();
        Some(rest)
    }

    /// Inserts a message by its sequence number. Inserting at the front is cheap, so put a whole range back in
    /// descending order.
    pub(super) fn put_back(&mut self, entry: Entry) {
        if self.lowest().is_some_and(|lowest| entry.seq > lowest) {
            self.returned.insert(entry.seq, entry.into());
            return;
        }
        let Some(reference) = entry.reference().filter(|_| !entry.is_in_memory()) else {
            return self.head.push_front(entry);
        };
        if !self.head.is_empty() {
            self.rest.push_front(Part::InMemory(std::mem::take(&mut self.head)));
        }
        match self.rest.front_mut() {
            Some(Part::References(part)) => part.push_front(reference),
            _ => self.rest.push_front(Part::References(Chunks::from_iter([reference]))),
        }
    }

    /// Inserts an unread part that was removed, at its place.
    pub(super) fn put_back_rest(&mut self, rest: Rest) {
        if !self.head.is_empty() {
            self.rest.push_front(Part::InMemory(std::mem::take(&mut self.head)));
        }
        let ends_before = |part: &Part| match part {
            Part::InMemory(part) => part.back().is_some_and(|last| last.seq < rest.seq),
            Part::References(part) => part.back().is_some_and(|last| last.seq < rest.seq),
            Part::Unread(other) => other.seq < rest.seq,
        };
        let mut at = self.rest.iter().position(|part| !ends_before(part)).unwrap_or(self.rest.len());
        let behind = match self.rest.get_mut(at) {
            Some(Part::InMemory(part)) if part.front().is_some_and(|first| first.seq < rest.seq) => {
                Some(Part::InMemory(part.split_off(|entry| entry.seq < rest.seq)))
            }
            Some(Part::References(part)) if part.front().is_some_and(|first| first.seq < rest.seq) => {
                Some(Part::References(part.split_off(|reference| reference.seq < rest.seq)))
            }
            _ => None,
        };
        if let Some(behind) = behind {
            at += 1;
            self.rest.insert(at, behind);
        }
        self.rest.insert(at, Part::Unread(rest));
        self.advance();
    }

    /// Called when messages of an unread part are gone.
    pub(super) fn shrink_rest(&mut self, run: u32, messages: u64, bytes: u64) {
        let is_it = |part: &Part| matches!(part, Part::Unread(rest) if rest.load.run == run);
        let Some(at) = self.rest.iter().position(is_it) else { return };
        let Some(Part::Unread(rest)) = self.rest.get_mut(at) else { return };
        rest.messages -= messages;
        rest.bytes -= bytes;
        if rest.messages == 0 {
            self.rest.remove(at);
            self.advance();
        }
    }

    /// Iterates over the sequence numbers between `first` and `last` of messages that are in memory or have been read.
    pub(super) fn seqs(&self, first: u64, last: u64) -> impl Iterator<Item = u64> {
        let references = self.rest.iter().filter_map(move |part| match part {
            Part::References(part) => Some(part.iter_from(move |reference| reference.seq < first)),
            Part::InMemory(_) | Part::Unread(_) => None,
        });
        let references = references.flatten().map(|reference| reference.seq).filter(move |seq| *seq <= last);
        let compact = self.returned.range(first..=last.max(first));
        let compact = compact.filter(|(_, lone)| lone.entry().is_none()).map(|(seq, _)| *seq);
        self.range(first, last).map(|entry| entry.seq).chain(references).chain(compact)
    }

    /// Returns the block to be read next, if fewer than `short` messages are in the head.
    pub(super) fn read_ahead(&self, short: usize) -> Option<Load> {
        if self.head.len() >= short {
            return None;
        }
        match self.rest.front()? {
            Part::InMemory(_) => None,
            Part::References(part) => part.front().map(|reference| reference.spot.load()),
            Part::Unread(rest) => Some(rest.load),
        }
    }

    /// Returns the unread messages of a run, if they come directly after the head.
    pub(super) fn next_rest(&self) -> Option<&Rest> {
        match self.rest.front() {
            Some(Part::Unread(rest)) => Some(rest),
            _ => None,
        }
    }

    /// Appends the messages that were read to the head. `left` is the unread part that remains, if any.
    pub(super) fn loaded(&mut self, entries: Vec<Entry>, left: Option<Rest>) {
        self.head.extend(entries);
        match left {
            Some(left) => {
                if let Some(Part::Unread(rest)) = self.rest.front_mut() {
                    *rest = left;
                }
            }
            None => {
                self.rest.pop_front();
                if self.head.is_empty() {
                    self.advance();
                }
            }
        }
    }

    /// Restores the bodies of a block's messages that are at the front of the rest or were requeued. Returns the memory
    /// that they take.
    pub(super) fn fill(&mut self, load: Load, block: Vec<Loaded>) -> u64 {
        let is_in_block = |reference: &Reference| reference.spot.load() == load;
        let mut bytes = 0;
        for loaded in block {
            let Loaded { seq, message, at_ms } = loaded;
            if let Some(lone) = self.returned.get_mut(&seq) {
                if let Lone::Compact(reference) = *lone
                    && is_in_block(&reference)
                {
                    let entry = reference.filled(message, at_ms);
                    bytes += entry.memory_bytes();
                    *lone = entry.into();
                }
            } else if let Some(Part::References(part)) = self.rest.front_mut()
                && part.front().is_some_and(|front| front.seq == seq && is_in_block(front))
                && let Some(reference) = part.pop_front()
            {
                let entry = reference.filled(message, at_ms);
                bytes += entry.memory_bytes();
                self.head.push_back(entry);
                if part.is_empty() {
                    self.rest.pop_front();
                }
            }
        }
        bytes
    }

    /// Frees the bodies that can be read again. With `keeps_head`, keeps that of the next message, because its age is
    /// checked. Returns the freed memory.
    pub(super) fn forget_loaded(&mut self, keeps_head: bool) -> u64 {
        let next = match self.head() {
            Some(Head::Entry(head)) if keeps_head => head.seq,
            _ => 0,
        };
        let mut bytes = 0;
        for entry in self.entries_mut().filter(|entry| entry.spot.is_some() && entry.seq != next) {
            bytes += entry.memory_bytes();
            entry.free_body();
        }
        if bytes > 0 {
            self.narrow();
        }
        bytes
    }

    /// Converts entries whose bodies were freed to references.
    pub(super) fn narrow(&mut self) {
        self.returned.values_mut().for_each(Lone::narrow);
        let head = Part::InMemory(std::mem::take(&mut self.head));
        for part in std::iter::once(head).chain(std::mem::take(&mut self.rest)) {
            match part {
                Part::InMemory(part) if part.is_empty() => {}
                Part::InMemory(part) if part.iter().any(|entry| !entry.is_in_memory()) => {
                    part.into_iter().for_each(|entry| self.append(entry));
                }
                part => self.rest.push_back(part),
            }
        }
        self.advance();
    }

    fn append(&mut self, entry: Entry) {
        let away = entry.reference().filter(|_| !entry.is_in_memory());
        match (self.rest.back_mut(), away) {
            (Some(Part::References(part)), Some(reference)) => part.push_back(reference),
            (_, Some(reference)) => self.rest.push_back(Part::References(Chunks::from_iter([reference]))),
            (Some(Part::InMemory(part)), None) => part.push_back(entry),
            (_, None) => self.rest.push_back(Part::InMemory(Chunks::from_iter([entry]))),
        }
    }

    /// Removes and returns everything.
    pub(super) fn drain(&mut self) -> (Vec<Entry>, Vec<Rest>) {
        let mut entries: Vec<Entry> =
            std::mem::take(&mut self.returned).into_values().map(Entry::from).collect();
        entries.extend(std::mem::take(&mut self.head));
        let mut rests = Vec::new();
        for part in std::mem::take(&mut self.rest) {
            match part {
                Part::InMemory(part) => entries.extend(part),
                Part::References(part) => entries.extend(part.into_iter().map(Entry::from)),
                Part::Unread(rest) => rests.push(rest),
            }
        }
        (entries, rests)
    }

    /// Iterates over the messages in memory.
    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts().flat_map(Chunks::iter).chain(self.returned.values().filter_map(Lone::entry))
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let rest = self
            .rest
            .iter_mut()
            .filter_map(|part| if let Part::InMemory(part) = part { Some(part) } else { None });
        let parts = std::iter::once(&mut self.head).chain(rest).flat_map(Chunks::iter_mut);
        parts.chain(self.returned.values_mut().filter_map(Lone::entry_mut))
    }

    /// Iterates over the messages in memory between `first` and `last`. The cost depends on the number of results and
    /// of parts.
    pub(super) fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        let parts = self.parts().flat_map(move |part| {
            part.iter_from(move |entry| entry.seq < first).take_while(move |entry| entry.seq <= last)
        });
        let returned = self.returned.range(first..=last.max(first));
        parts.chain(returned.filter_map(|(_, lone)| lone.entry()))
    }

    /// Returns the sequence number of the `rows`-th message in memory from `first` on, or `last` if there are fewer up
    /// to `last`.
    pub(super) fn reach(&self, first: u64, last: u64, rows: usize) -> u64 {
        let parts = self.parts().flat_map(|part| part.iter_from(move |entry| entry.seq < first));
        let parts = parts.map(|entry| entry.seq).take_while(|seq| *seq <= last).take(rows);
        let returned = self.returned.range(first..=last.max(first)).map(|(seq, _)| *seq).take(rows);
        let mut seqs: Vec<u64> = parts.chain(returned).collect();
        seqs.sort_unstable();
        seqs.get(rows.saturating_sub(1)).copied().unwrap_or(last)
    }

    /// Iterates over the messages that are in no run and come before the first message that was never taken out of the
    /// level. A sequence number between two of them belongs to a message that is not in the level now, or is in a run.
    pub(super) fn taken_before(&self) -> impl Iterator<Item = &Entry> {
        let fresh = self.parts().flat_map(Chunks::iter).find(|entry| entry.is_fresh());
        let end = fresh.map_or(u64::MAX, |entry| entry.seq);
        self.range(0, end.saturating_sub(1)).filter(|entry| entry.spot.is_none())
    }

    /// Iterates over the messages that are in a run and have been read.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        let parts = self.rest.iter().filter_map(|part| match part {
            Part::References(part) => Some(part.iter().copied()),
            _ => None,
        });
        let returned = self.returned.values().filter_map(Lone::reference);
        let here = self.parts().flat_map(Chunks::iter).filter_map(Entry::reference);
        here.chain(parts.flatten()).chain(returned)
    }

    pub(super) fn spots_mut(&mut self) -> impl Iterator<Item = &mut Spot> {
        let (mut here, mut away) = (vec![&mut self.head], Vec::new());
        for part in &mut self.rest {
            match part {
                Part::InMemory(part) => here.push(part),
                Part::References(part) => away.push(part),
                Part::Unread(_) => {}
            }
        }
        let here = here.into_iter().flat_map(Chunks::iter_mut).filter_map(|entry| entry.spot.as_mut());
        let away = away.into_iter().flat_map(Chunks::iter_mut).map(|reference| &mut reference.spot);
        here.chain(away).chain(self.returned.values_mut().filter_map(Lone::spot_mut))
    }

    /// Returns the unread part of this run.
    pub(super) fn rest_of(&mut self, run: u32) -> Option<&mut Rest> {
        self.rest.iter_mut().find_map(|part| match part {
            Part::Unread(rest) if rest.load.run == run => Some(rest),
            _ => None,
        })
    }

    /// Iterates over the unread parts of runs.
    pub(super) fn rests(&self) -> impl Iterator<Item = &Rest> {
        self.rest.iter().filter_map(|part| if let Part::Unread(rest) = part { Some(rest) } else { None })
    }

    fn parts(&self) -> impl DoubleEndedIterator<Item = &Chunks<Entry>> {
        let rest = self
            .rest
            .iter()
            .filter_map(|part| if let Part::InMemory(part) = part { Some(part) } else { None });
        std::iter::once(&self.head).chain(rest)
    }

    /// Starts to page out entries that are in no run. Chooses the last part worth paging; keeps the first `keep` bytes
    /// of the head. Passes entries to `each` until it returns false, or until another message's number could lie in
    /// between: an entry that was taken out before must be followed directly by the next number. A stretch that takes
    /// less than `least` bytes of memory is passed over, unless it is the last. With `fresh`, only messages that were
    /// never taken out are chosen.
    pub(super) fn page_out(
        &mut self,
        least: u64,
        keep: u64,
        fresh: bool,
        mut each: impl FnMut(&Entry) -> bool,
    ) {
        if self.paging.is_some() {
            return;
        }
        let keeps = |part| if std::ptr::eq(part, &self.head) { keep } else { 0 };
        let found =
            self.parts().rev().find_map(|part| Some((part, worth_writing(part, least, keeps(part), fresh)?)));
        let Some((part, first)) = found else { return };
        let mut last: Option<&Entry> = None;
        for entry in part.iter_from(|entry| entry.seq < first) {
            if !continues(last, entry) || fresh && !entry.is_fresh() {
                break;
            }
            last = Some(entry);
            if !each(entry) {
                break;
            }
        }
        self.paging = last.map(|last| (first, last.seq));
    }

    /// Called when the run could not be written.
    pub(super) fn page_out_failed(&mut self) {
        self.paging = None;
    }

    /// Called when the run was written. The run replaces the written messages that are still in the level. These messages
    /// are passed to `each`.
    pub(super) fn paged_out(&mut self, load: Load, mut each: impl FnMut(&Entry)) {
        let Some((from, last)) = self.paging.take() else { return };
        let holds = |part: &Chunks<Entry>| {
            part.front().is_some_and(|e| e.seq <= last) && part.back().is_some_and(|e| e.seq >= from)
        };
        let at = self
            .rest
            .iter()
            .rposition(|part| if let Part::InMemory(part) = part { holds(part) } else { false });
        let part = match at.and_then(|at| self.rest.get_mut(at)) {
            Some(Part::InMemory(part)) => part,
            _ => &mut self.head,
        };
        let behind = part.split_off(|entry| entry.seq <= last);
        let written = part.split_off(|entry| entry.seq < from);
        if written.is_empty() {
            part.extend(behind);
            return;
        }
        let (mut messages, mut bytes) = (0, 0);
        for entry in written {
            messages += 1;
            bytes += entry.len();
            each(&entry);
        }
        let rest = Rest { load, index: 0, seq: from, messages, bytes };
        let emptied = part.is_empty();
        // The position of the parts that replace it.
        let to = match at {
            None => 0,
            Some(at) if emptied => {
                self.rest.remove(at);
                at
            }
            Some(at) => at + 1,
        };
        if !behind.is_empty() {
            self.rest.insert(to, Part::InMemory(behind));
        }
        self.rest.insert(to, Part::Unread(rest));
    }
}

/// Returns the first sequence number of the stretch to page out.
fn worth_writing(part: &Chunks<Entry>, least: u64, keep: u64, fresh: bool) -> Option<u64> {
    let mut passed = 0;
    let mut found: Option<(u64, u64, &Entry)> = None;
    for entry in part.iter() {
        passed += entry.memory_bytes();
        if passed <= keep {
            continue;
        }
        found = match found {
            Some((first, bytes, last)) if continues(Some(last), entry) && (!fresh || entry.is_fresh()) => {
                Some((first, bytes + entry.memory_bytes(), entry))
            }
            _ => (entry.spot.is_none() && (!fresh || entry.is_fresh()))
                .then(|| (entry.seq, entry.memory_bytes(), entry)),
        };
        if found.is_some_and(|(_, bytes, _)| bytes >= least) {
            break;
        }
    }
    found.map(|(first, ..)| first)
}

/// Returns whether an entry may follow `last` in a run.
fn continues(last: Option<&Entry>, entry: &Entry) -> bool {
    entry.spot.is_none() && last.is_none_or(|last| last.is_fresh() || last.seq + 1 == entry.seq)
}
