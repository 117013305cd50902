//! Messages of one priority that wait for a consumer, in memory and on the disk.
//!
//! ```text
//!   returned   what came back and lies behind the head
//!   head       the oldest, in memory               ──► pop
//!   rest       run on the disk │ run │ in memory │ run │ in memory ◄── push
//! ```
//!
//! Whatever was taken out of a level has a lower seq than all of its head and rest.

use std::collections::{BTreeMap, VecDeque};

use super::entry::Entry;
use crate::Load;

/// A backlog this small keeps its memory.
const KEPT_CAPACITY: usize = 1024;

#[derive(Default)]
pub(super) struct Level {
    /// Ascending by seq. Empty only if `rest` is, or begins with what is away.
    head: VecDeque<Entry>,
    rest: VecDeque<Part>,
    /// By seq. The head of the level is the lower of the first of these and that of `head`.
    returned: BTreeMap<u64, Entry>,
    /// Seqs that are being written: the first of those still here, and the last.
    paging: Option<(u64, u64)>,
}

enum Part {
    Here(VecDeque<Entry>),
    Away(Rest),
}

/// What has not been read of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub load: Load,
    /// The position in the run of the first message of that block.
    pub index: u32,
    /// No seq in it is lower.
    pub seq: u64,
    /// Messages that are alive, at least one, and their bytes.
    pub messages: u64,
    pub bytes: u64,
}

/// What comes next.
pub(super) enum Head<'a> {
    Entry(&'a Entry),
    Rest(&'a Rest),
}

impl Level {
    pub fn is_empty(&self) -> bool {
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

    /// The lowest seq of head and rest.
    fn lowest(&self) -> Option<u64> {
        match (self.head.front(), self.rest.front()) {
            (Some(front), _) => Some(front.seq),
            (None, Some(Part::Away(rest))) => Some(rest.seq),
            _ => None,
        }
    }

    pub fn head(&self) -> Option<Head<'_>> {
        if self.returned_is_next() {
            return self.returned.first_key_value().map(|(_, entry)| Head::Entry(entry));
        }
        match (self.head.front(), self.rest.front()) {
            (Some(front), _) => Some(Head::Entry(front)),
            (None, Some(Part::Away(rest))) => Some(Head::Rest(rest)),
            _ => None,
        }
    }

    pub fn push(&mut self, entry: Entry) {
        match self.rest.back_mut() {
            None => self.head.push_back(entry),
            Some(Part::Here(last)) => last.push_back(entry),
            Some(Part::Away(_)) => self.rest.push_back(Part::Here(VecDeque::from([entry]))),
        }
    }

    /// Behind everything else; its messages are not in memory.
    pub fn push_rest(&mut self, rest: Rest) {
        self.rest.push_back(Part::Away(rest));
    }

    /// The next one, unless that has not been read.
    pub fn pop(&mut self) -> Option<Entry> {
        if self.returned_is_next() {
            return self.returned.pop_first().map(|(_, entry)| entry);
        }
        let entry = self.head.pop_front()?;
        if let Some((from, _)) = &mut self.paging
            && entry.seq >= *from
        {
            *from = entry.seq + 1;
        }
        if self.head.is_empty() {
            self.advance();
        } else if self.head.capacity() > KEPT_CAPACITY && self.head.len() < self.head.capacity() / 8 {
            // A long backlog that has drained gives its memory back; the factor keeps the copying rare.
            self.head.shrink_to(self.head.capacity() / 4);
        }
        Some(entry)
    }

    fn advance(&mut self) {
        if let Some(Part::Here(_)) = self.rest.front()
            && let Some(Part::Here(next)) = self.rest.pop_front()
        {
            self.head = next;
        }
    }

    /// Forgets what has not been read of the run that comes next.
    pub fn pop_rest(&mut self) -> Option<Rest> {
        if !self.head.is_empty() || !matches!(self.rest.front(), Some(Part::Away(_))) {
            return None;
        }
        let Some(Part::Away(rest)) = self.rest.pop_front() else { return None };
        self.advance();
        Some(rest)
    }

    /// Back to its place by seq. The front costs nothing, so a whole range should come back last first.
    pub fn put_back(&mut self, entry: Entry) {
        if self.lowest().is_none_or(|lowest| entry.seq < lowest) {
            self.head.push_front(entry);
        } else {
            self.returned.insert(entry.seq, entry);
        }
    }

    /// What has not been read of a run and comes right behind the head, if that gets short.
    pub fn read_ahead(&self, short: usize) -> Option<Load> {
        self.next_rest().filter(|_| self.head.len() < short).map(|rest| rest.load)
    }

    /// What has not been read of a run and comes right behind the head.
    pub fn next_rest(&self) -> Option<&Rest> {
        match self.rest.front() {
            Some(Part::Away(rest)) => Some(rest),
            _ => None,
        }
    }

    /// Puts what was read of the rest behind the head. `Some(rest)` is what is left of it.
    pub fn loaded(&mut self, entries: Vec<Entry>, left: Option<Rest>) {
        self.head.extend(entries);
        match left {
            Some(left) => {
                if let Some(Part::Away(rest)) = self.rest.front_mut() {
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

    /// Takes everything out.
    pub fn drain(&mut self) -> (Vec<Entry>, Vec<Rest>) {
        let mut entries: Vec<Entry> = std::mem::take(&mut self.returned).into_values().collect();
        entries.extend(std::mem::take(&mut self.head));
        let mut rests = Vec::new();
        for part in std::mem::take(&mut self.rest) {
            match part {
                Part::Here(part) => entries.extend(part),
                Part::Away(rest) => rests.push(rest),
            }
        }
        (entries, rests)
    }

    /// What is in memory, or was and can be read again.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts().flatten().chain(self.returned.values())
    }

    /// Those between `first` and `last`; the cost is that of what is found and of the parts.
    pub fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        let parts = self.parts().flat_map(move |part| {
            let from = part.partition_point(|entry| entry.seq < first);
            part.range(from..).take_while(move |entry| entry.seq <= last)
        });
        parts.chain(self.returned.range(first..=last.max(first)).map(|(_, entry)| entry))
    }

    /// Those whose bodies can be read again, in memory or not.
    pub fn spotted(&mut self) -> impl Iterator<Item = &mut Entry> {
        let rest = self.rest.iter_mut().filter_map(|part| match part {
            Part::Here(part) => Some(part),
            Part::Away(_) => None,
        });
        let parts = std::iter::once(&mut self.head).chain(rest).flatten();
        parts.chain(self.returned.values_mut()).filter(|entry| entry.spot.is_some())
    }

    /// What has not been read of this run.
    pub fn rest_of(&mut self, run: u32) -> Option<&mut Rest> {
        self.rest.iter_mut().find_map(|part| match part {
            Part::Away(rest) if rest.load.run == run => Some(rest),
            _ => None,
        })
    }

    /// What has not been read.
    pub fn rests(&self) -> impl Iterator<Item = &Rest> {
        self.rest.iter().filter_map(|part| match part {
            Part::Here(_) => None,
            Part::Away(rest) => Some(rest),
        })
    }

    fn parts(&self) -> impl Iterator<Item = &VecDeque<Entry>> {
        let rest = self.rest.iter().filter_map(|part| match part {
            Part::Here(part) => Some(part),
            Part::Away(_) => None,
        });
        std::iter::once(&self.head).chain(rest)
    }

    /// One that is ready, by its seq; those in `rest` have never been away.
    pub fn find(&mut self, seq: u64) -> Option<&mut Entry> {
        match self.head.binary_search_by_key(&seq, |entry| entry.seq) {
            Ok(at) => self.head.get_mut(at),
            Err(_) => self.returned.get_mut(&seq),
        }
    }

    /// Begins to write entries that stand in no run: the next ones of the last part, or of the head behind its first
    /// `keep` bytes of memory. Shows them as long as `each` wants more, and as long as nobody else's seq can lie
    /// between them: behind one that was taken out before, only its neighbour.
    pub fn page_out(&mut self, keep: u64, mut each: impl FnMut(&Entry) -> bool) {
        if self.paging.is_some() {
            return;
        }
        let last = match self.rest.back() {
            Some(Part::Here(last)) => Some((last, 0)),
            _ => None,
        };
        for (part, keep) in last.into_iter().chain([(&self.head, keep)]) {
            let mut passed = 0;
            let entries = part.iter().skip_while(|entry| {
                passed += entry.memory_bytes();
                passed <= keep || entry.spot.is_some()
            });
            let mut run: Option<(u64, &Entry)> = None;
            for entry in entries {
                let continues = run.is_none_or(|(_, last)| last.is_fresh() || last.seq + 1 == entry.seq);
                if entry.spot.is_some() || !continues {
                    break;
                }
                run = Some((run.map_or(entry.seq, |(first, _)| first), entry));
                if !each(entry) {
                    break;
                }
            }
            if let Some((first, last)) = run {
                self.paging = Some((first, last.seq));
                return;
            }
        }
    }

    /// The writing has failed.
    pub fn page_out_failed(&mut self) {
        self.paging = None;
    }

    /// The writing has succeeded: the run takes the place of what was written and is still here, which `each` is
    /// shown.
    pub fn paged_out(&mut self, load: Load, mut each: impl FnMut(&Entry)) {
        let Some((from, last)) = self.paging.take() else { return };
        let holds = |part: &VecDeque<Entry>| part.back().is_some_and(|e| e.seq >= from);
        let at = self.rest.iter().rposition(|part| match part {
            Part::Here(part) => part.front().is_some_and(|e| e.seq <= last) && holds(part),
            Part::Away(_) => false,
        });
        let part = match at.and_then(|at| self.rest.get_mut(at)) {
            Some(Part::Here(part)) => part,
            _ => &mut self.head,
        };
        let start = part.partition_point(|entry| entry.seq < from);
        let end = part.partition_point(|entry| entry.seq <= last);
        if start >= end {
            return;
        }
        let behind = part.split_off(end);
        let (mut messages, mut bytes) = (0, 0);
        for entry in part.drain(start..) {
            messages += 1;
            bytes += entry.len();
            each(&entry);
        }
        part.shrink_to(part.len());
        let rest = Rest { load, index: 0, seq: from, messages, bytes };
        let emptied = part.is_empty();
        // Where the parts go that replace it.
        let to = match at {
            None => 0,
            Some(at) if emptied => {
                self.rest.remove(at);
                at
            }
            Some(at) => at + 1,
        };
        if !behind.is_empty() {
            self.rest.insert(to, Part::Here(behind));
        }
        self.rest.insert(to, Part::Away(rest));
    }
}
