//! Messages of one priority that wait for a consumer, in memory and on the disk.
//!
//! ```text
//!   returned   what came back and lies behind the head
//!   head       the oldest, in memory               ──► pop
//!   rest       run on the disk │ references │ in memory │ run │ in memory ◄── push
//! ```
//!
//! What was taken out of a level had a lower seq than all of its head and rest, but for what had come back before.

use std::collections::{BTreeMap, VecDeque};

use super::chunks::Chunks;
use super::entry::{Entry, Lone, Reference, Spot};
use crate::{Load, Loaded};

#[derive(Default)]
pub(super) struct Level {
    /// Ascending by seq. Empty only if `rest` is, or begins with what is not in memory.
    head: Chunks<Entry>,
    rest: VecDeque<Part>,
    /// By seq. The head of the level is the lower of the first of these and that of `head`.
    returned: BTreeMap<u64, Lone>,
    /// Seqs that are being written: the first of those still here, and the last.
    paging: Option<(u64, u64)>,
}

/// None is empty.
enum Part {
    /// With their bodies.
    Here(Chunks<Entry>),
    /// Without: they have been read, and let go.
    References(Chunks<Reference>),
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
    Reference(Reference),
    Rest(&'a Rest),
}

impl Head<'_> {
    /// What must be read, if it is not in memory.
    pub fn load(&self) -> Option<Load> {
        match self {
            Self::Entry(_) => None,
            Self::Reference(reference) => Some(reference.spot.load()),
            Self::Rest(rest) => Some(rest.load),
        }
    }
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
        if let Some(front) = self.head.front() {
            return Some(front.seq);
        }
        match self.rest.front()? {
            Part::Here(part) => part.front().map(|entry| entry.seq),
            Part::References(part) => part.front().map(|reference| reference.seq),
            Part::Away(rest) => Some(rest.seq),
        }
    }

    pub fn head(&self) -> Option<Head<'_>> {
        if self.returned_is_next() {
            return self.returned.first_key_value().map(|(_, lone)| match lone {
                Lone::Here(entry) => Head::Entry(entry),
                Lone::Away(reference) => Head::Reference(*reference),
            });
        }
        if let Some(front) = self.head.front() {
            return Some(Head::Entry(front));
        }
        match self.rest.front()? {
            Part::Here(part) => part.front().map(Head::Entry),
            Part::References(part) => part.front().copied().map(Head::Reference),
            Part::Away(rest) => Some(Head::Rest(rest)),
        }
    }

    pub fn push(&mut self, entry: Entry) {
        match self.rest.back_mut() {
            None => self.head.push_back(entry),
            Some(Part::Here(last)) => last.push_back(entry),
            Some(_) => self.rest.push_back(Part::Here(Chunks::from_iter([entry]))),
        }
    }

    /// Behind everything else; its messages are not in memory.
    pub fn push_rest(&mut self, rest: Rest) {
        self.rest.push_back(Part::Away(rest));
    }

    /// The next one, unless that has not been read; its body may have been let go.
    pub fn pop(&mut self) -> Option<Entry> {
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

    /// Takes out the message of this seq, if it is in memory. Nothing of the level may be on its way to the disk.
    pub fn take(&mut self, seq: u64) -> Option<Entry> {
        if let Some(lone) = self.returned.remove(&seq) {
            return Some(lone.into());
        }
        let (before, is) = (|entry: &Entry| entry.seq < seq, |entry: &Entry| entry.seq == seq);
        if let Some(entry) = self.head.remove(before, is) {
            self.advance();
            return Some(entry);
        }
        let at = self.rest.iter().position(|part| match part {
            Part::Here(part) => part.iter_from(before).next().is_some_and(is),
            Part::References(_) | Part::Away(_) => false,
        })?;
        let Some(Part::Here(part)) = self.rest.get_mut(at) else { return None };
        let entry = part.remove(before, is);
        if part.is_empty() {
            self.rest.remove(at);
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
            && let Some(Part::Here(_)) = self.rest.front()
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
        if self.lowest().is_some_and(|lowest| entry.seq > lowest) {
            self.returned.insert(entry.seq, entry.into());
            return;
        }
        let Some(reference) = entry.reference().filter(|_| !entry.is_here()) else {
            return self.head.push_front(entry);
        };
        if !self.head.is_empty() {
            self.rest.push_front(Part::Here(std::mem::take(&mut self.head)));
        }
        match self.rest.front_mut() {
            Some(Part::References(part)) => part.push_front(reference),
            _ => self.rest.push_front(Part::References(Chunks::from_iter([reference]))),
        }
    }

    /// What is to be read next, if the head gets short.
    pub fn read_ahead(&self, short: usize) -> Option<Load> {
        if self.head.len() >= short {
            return None;
        }
        match self.rest.front()? {
            Part::Here(_) => None,
            Part::References(part) => part.front().map(|reference| reference.spot.load()),
            Part::Away(rest) => Some(rest.load),
        }
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

    /// Gives those of a block their bodies again that lie in front, or have come back. Returns what that takes in memory.
    pub fn fill(&mut self, load: Load, block: Vec<Loaded>) -> u64 {
        let stands = |reference: &Reference| reference.spot.load() == load;
        let mut bytes = 0;
        for loaded in block {
            let Loaded { seq, message, at_ms } = loaded;
            if let Some(lone) = self.returned.get_mut(&seq) {
                if let Lone::Away(reference) = *lone
                    && stands(&reference)
                {
                    let entry = reference.filled(message, at_ms);
                    bytes += entry.memory_bytes();
                    *lone = entry.into();
                }
            } else if let Some(Part::References(part)) = self.rest.front_mut()
                && part.front().is_some_and(|front| front.seq == seq && stands(front))
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

    /// Lets go of the bodies that can be read again, but for that of the very next message if `keeps_head`, for its age
    /// is looked at. Returns what that spares.
    pub fn forget_loaded(&mut self, keeps_head: bool) -> u64 {
        let next = match self.head() {
            Some(Head::Entry(head)) if keeps_head => head.seq,
            _ => 0,
        };
        let mut bytes = 0;
        for entry in self.here_mut().filter(|entry| entry.spot.is_some() && entry.seq != next) {
            bytes += entry.memory_bytes();
            entry.forget_body();
        }
        if bytes > 0 {
            self.narrow();
        }
        bytes
    }

    /// Bodies have been let go: what is kept of their entries becomes references.
    pub fn narrow(&mut self) {
        self.returned.values_mut().for_each(Lone::narrow);
        let head = Part::Here(std::mem::take(&mut self.head));
        for part in std::iter::once(head).chain(std::mem::take(&mut self.rest)) {
            match part {
                Part::Here(part) if part.is_empty() => {}
                Part::Here(part) if part.iter().any(|entry| !entry.is_here()) => {
                    part.into_iter().for_each(|entry| self.append(entry));
                }
                part => self.rest.push_back(part),
            }
        }
        self.advance();
    }

    fn append(&mut self, entry: Entry) {
        let away = entry.reference().filter(|_| !entry.is_here());
        match (self.rest.back_mut(), away) {
            (Some(Part::References(part)), Some(reference)) => part.push_back(reference),
            (_, Some(reference)) => self.rest.push_back(Part::References(Chunks::from_iter([reference]))),
            (Some(Part::Here(part)), None) => part.push_back(entry),
            (_, None) => self.rest.push_back(Part::Here(Chunks::from_iter([entry]))),
        }
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> (Vec<Entry>, Vec<Rest>) {
        let mut entries: Vec<Entry> =
            std::mem::take(&mut self.returned).into_values().map(Entry::from).collect();
        entries.extend(std::mem::take(&mut self.head));
        let mut rests = Vec::new();
        for part in std::mem::take(&mut self.rest) {
            match part {
                Part::Here(part) => entries.extend(part),
                Part::References(part) => entries.extend(part.into_iter().map(Entry::from)),
                Part::Away(rest) => rests.push(rest),
            }
        }
        (entries, rests)
    }

    /// Those in memory.
    #[cfg(test)]
    pub fn here(&self) -> impl Iterator<Item = &Entry> {
        self.parts().flat_map(Chunks::iter).chain(self.returned.values().filter_map(Lone::here))
    }

    pub fn here_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let rest = self
            .rest
            .iter_mut()
            .filter_map(|part| if let Part::Here(part) = part { Some(part) } else { None });
        let parts = std::iter::once(&mut self.head).chain(rest).flat_map(Chunks::iter_mut);
        parts.chain(self.returned.values_mut().filter_map(Lone::here_mut))
    }

    /// Those in memory between `first` and `last`; the cost is that of what is found and of the parts.
    pub fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        let parts = self.parts().flat_map(move |part| {
            part.iter_from(move |entry| entry.seq < first).take_while(move |entry| entry.seq <= last)
        });
        let returned = self.returned.range(first..=last.max(first));
        parts.chain(returned.filter_map(|(_, lone)| lone.here()))
    }

    /// The seq up to which at most `rows` lie in memory from `first` on, which is `last` if there are not so many.
    pub fn reach(&self, first: u64, last: u64, rows: usize) -> u64 {
        let parts = self.parts().flat_map(|part| part.iter_from(move |entry| entry.seq < first));
        let parts = parts.map(|entry| entry.seq).take_while(|seq| *seq <= last).take(rows);
        let returned = self.returned.range(first..=last.max(first)).map(|(seq, _)| *seq).take(rows);
        let mut seqs: Vec<u64> = parts.chain(returned).collect();
        seqs.sort_unstable();
        seqs.get(rows.saturating_sub(1)).copied().unwrap_or(last)
    }

    /// Those that stand in no run and lie before the first that has never been taken out: nobody else's seq lies
    /// between them but of what is taken out now, or in runs.
    pub fn taken_before(&self) -> impl Iterator<Item = &Entry> {
        let fresh = self.parts().flat_map(Chunks::iter).find(|entry| entry.is_fresh());
        let end = fresh.map_or(u64::MAX, |entry| entry.seq);
        self.range(0, end.saturating_sub(1)).filter(|entry| entry.spot.is_none())
    }

    /// Those that stand in a run and have been read.
    pub fn references(&self) -> impl Iterator<Item = Reference> {
        let parts = self.rest.iter().filter_map(|part| match part {
            Part::References(part) => Some(part.iter().copied()),
            _ => None,
        });
        let returned = self.returned.values().filter_map(Lone::reference);
        let here = self.parts().flat_map(Chunks::iter).filter_map(Entry::reference);
        here.chain(parts.flatten()).chain(returned)
    }

    pub fn spots_mut(&mut self) -> impl Iterator<Item = &mut Spot> {
        let (mut here, mut away) = (vec![&mut self.head], Vec::new());
        for part in &mut self.rest {
            match part {
                Part::Here(part) => here.push(part),
                Part::References(part) => away.push(part),
                Part::Away(_) => {}
            }
        }
        let here = here.into_iter().flat_map(Chunks::iter_mut).filter_map(|entry| entry.spot.as_mut());
        let away = away.into_iter().flat_map(Chunks::iter_mut).map(|reference| &mut reference.spot);
        here.chain(away).chain(self.returned.values_mut().filter_map(Lone::spot_mut))
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
        self.rest.iter().filter_map(|part| if let Part::Away(rest) = part { Some(rest) } else { None })
    }

    fn parts(&self) -> impl DoubleEndedIterator<Item = &Chunks<Entry>> {
        let rest =
            self.rest.iter().filter_map(|part| if let Part::Here(part) = part { Some(part) } else { None });
        std::iter::once(&self.head).chain(rest)
    }

    /// Begins to write entries that stand in no run: the next ones of the last part that has any worth it, of the head
    /// behind its first `keep` bytes of memory. Shows them as long as `each` wants more, and as long as nobody else's
    /// seq can lie between them: behind one that was taken out before, only its neighbour. What breaks off so before it
    /// takes `least` bytes of memory is not worth it.
    pub fn page_out(&mut self, least: u64, keep: u64, mut each: impl FnMut(&Entry) -> bool) {
        if self.paging.is_some() {
            return;
        }
        let keeps = |part| if std::ptr::eq(part, &self.head) { keep } else { 0 };
        let found =
            self.parts().rev().find_map(|part| Some((part, worth_writing(part, least, keeps(part))?)));
        let Some((part, first)) = found else { return };
        let mut last: Option<&Entry> = None;
        for entry in part.iter_from(|entry| entry.seq < first) {
            if !continues(last, entry) {
                break;
            }
            last = Some(entry);
            if !each(entry) {
                break;
            }
        }
        self.paging = last.map(|last| (first, last.seq));
    }

    /// The writing has failed.
    pub fn page_out_failed(&mut self) {
        self.paging = None;
    }

    /// The writing has succeeded: the run takes the place of what was written and is still here, which `each` is
    /// shown.
    pub fn paged_out(&mut self, load: Load, mut each: impl FnMut(&Entry)) {
        let Some((from, last)) = self.paging.take() else { return };
        let holds = |part: &Chunks<Entry>| {
            part.front().is_some_and(|e| e.seq <= last) && part.back().is_some_and(|e| e.seq >= from)
        };
        let at =
            self.rest.iter().rposition(|part| if let Part::Here(part) = part { holds(part) } else { false });
        let part = match at.and_then(|at| self.rest.get_mut(at)) {
            Some(Part::Here(part)) => part,
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

/// The seq from which on a part is worth writing.
fn worth_writing(part: &Chunks<Entry>, least: u64, keep: u64) -> Option<u64> {
    let mut passed = 0;
    let mut found: Option<(u64, u64, &Entry)> = None;
    for entry in part.iter() {
        passed += entry.memory_bytes();
        if passed <= keep {
            continue;
        }
        found = match found {
            Some((first, bytes, last)) if continues(Some(last), entry) => {
                Some((first, bytes + entry.memory_bytes(), entry))
            }
            _ => entry.spot.is_none().then(|| (entry.seq, entry.memory_bytes(), entry)),
        };
        if found.is_some_and(|(_, bytes, _)| bytes >= least) {
            break;
        }
    }
    found.map(|(first, ..)| first)
}

/// Whether an entry can stand in a run behind another one.
fn continues(last: Option<&Entry>, entry: &Entry) -> bool {
    entry.spot.is_none() && last.is_none_or(|last| last.is_fresh() || last.seq + 1 == entry.seq)
}
