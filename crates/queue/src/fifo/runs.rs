//! What a queue knows of its runs on the disk.

use std::collections::BTreeMap;

use ranges::Ranges;

use super::annotated::Annotated;
use super::entry::{Entry, Spot};
use crate::{Ages, Fact, Marks, Stored, Taken};

/// Marks by sequence number.
pub(super) type AllMarks = BTreeMap<u64, Marks>;

/// A run.
///
/// ```text
///   page_out ──► writing ──handle_stored──► stored ──the last one is taken──► released
///                   │                                                           ▲
///                   └── failed, or none of its messages is left ────────────────┘
/// ```
pub(super) struct Run {
    pub level: usize,
    pub first: u64,
    pub last: u64,
    pub messages: u32,
    /// The number of live messages: unread, ready, unsettled or dead-lettered.
    pub living: u32,
    /// The live durable messages, and their size in bytes.
    pub durable: u32,
    pub bytes: u64,
    /// The part of the durable ones that has not been read.
    unread_durable: u32,
    unread_bytes: u64,
    /// True if facts are written about the run: some of its messages were durable.
    pub journaled: bool,
    pub ages: Ages,
    /// Positions of messages that were removed before they were read, ascending. They were removed before a restart,
    /// or while the run was being written.
    taken: Vec<(u32, u32)>,
    /// The marks of messages that have not been read back.
    marks: AllMarks,
    /// True for a run from before a restart. Its messages that are not durable are gone.
    restored: bool,
    /// True if a part of the run has not been read.
    unread: bool,
}

impl Run {
    /// Returns false if the message at this position was removed before it was read.
    pub fn is_alive(&self, index: u32) -> bool {
        let at = self.taken.partition_point(|(_, last)| *last < index);
        self.taken.get(at).is_none_or(|(first, _)| index < *first)
    }
}

/// The facts about a run besides [`Stored`].
#[derive(Default)]
pub(super) struct Life {
    /// Positions of removed messages. The ranges ascend and do not overlap.
    pub taken: Vec<(u32, u32)>,
    pub marks: AllMarks,
}

impl Life {
    /// Adds a range. It may touch or overlap others.
    pub fn take(&mut self, first: u32, last: u32) {
        let from = self.taken.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = self.taken.partition_point(|(start, _)| *start <= last.saturating_add(1));
        let joined = self.taken.drain(from..to).fold((first, last), |(a, b), (c, d)| (a.min(c), b.max(d)));
        self.taken.insert(from, joined);
    }
}

#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<u32, Run>,
    last: u32,
    /// Removed messages, to be reported at the end of the call.
    taken: Vec<Taken>,
    /// Runs that lost their last live message during this call.
    released: Vec<u32>,
}

impl Runs {
    pub fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Returns true if there are no runs on the disk.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn get(&self, run: u32) -> Option<&Run> {
        self.runs.get(&run)
    }

    /// Iterates over the runs that were read to their end.
    pub fn read(&self) -> impl Iterator<Item = (u32, &Run)> {
        self.runs.iter().filter(|(_, run)| !run.unread).map(|(number, run)| (*number, run))
    }

    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.runs.keys().copied()
    }

    /// Adds a run that was stored. Its first `passed` messages have left meanwhile.
    pub fn add(&mut self, stored: &Stored, level: usize, passed: u32, living: u32, marks: AllMarks) {
        let run = Run {
            level,
            first: stored.first,
            last: stored.last,
            messages: stored.messages,
            living,
            durable: stored.durable,
            bytes: stored.bytes,
            unread_durable: stored.durable,
            unread_bytes: stored.bytes,
            journaled: stored.durable > 0,
            ages: stored.ages,
            taken: passed.checked_sub(1).map(|last| (0, last)).into_iter().collect(),
            marks,
            restored: false,
            unread: true,
        };
        self.runs.insert(stored.run, run);
    }

    /// Adds a run whose messages keep their own places, so that all of it counts as read.
    pub fn add_held(&mut self, stored: &Stored, level: usize, living: u32) {
        self.add(stored, level, 0, living, AllMarks::new());
        if let Some(run) = self.runs.get_mut(&stored.run) {
            run.unread = false;
        }
    }

    /// Returns the level and the first sequence number of each run, sorted.
    pub fn first_seqs(&self) -> Vec<(usize, u64)> {
        let mut first_seqs: Vec<(usize, u64)> =
            self.runs.values().map(|run| (run.level, run.first)).collect();
        first_seqs.sort_unstable();
        first_seqs
    }

    /// Adds a run from before a restart.
    pub fn restore(&mut self, stored: &Stored, level: usize, life: Life) {
        let taken_messages: u32 = life.taken.iter().map(|(first, last)| last - first + 1).sum();
        let living = stored.messages.saturating_sub(taken_messages);
        self.add(stored, level, 0, living, life.marks);
        self.last = self.last.max(stored.run);
        if let Some(run) = self.runs.get_mut(&stored.run) {
            (run.taken, run.restored) = (life.taken, true);
        }
    }

    /// Called when the message at `spot` was read for the first time. Returns it with its earlier marks, or `None`
    /// if it is not alive. Its annotations go to `annotated`.
    pub fn take_in(&mut self, spot: Spot, mut entry: Entry, annotated: &mut Annotated) -> Option<Entry> {
        let run = self.runs.get_mut(&spot.run)?;
        if !run.is_alive(spot.index) {
            return None;
        }
        entry.spot = Some(spot);
        if entry.journaled {
            run.unread_durable = run.unread_durable.saturating_sub(1);
            run.unread_bytes = run.unread_bytes.saturating_sub(entry.len());
        } else if run.restored {
            self.take(&entry);
            return None;
        }
        if let Some(marks) = run.marks.remove(&entry.seq) {
            (entry.delivery_count, entry.redelivered) = (marks.delivery_count, marks.redelivered);
            marks.annotations.into_iter().for_each(|set| annotated.restore(entry.seq, set));
        }
        Some(entry)
    }

    /// Returns what [`Runs::take_in`] would return.
    #[cfg(test)]
    pub fn would_take_in(&self, spot: Spot, entry: Entry) -> Option<Entry> {
        let run = self.runs.get(&spot.run)?;
        let alive = run.is_alive(spot.index) && (entry.journaled || !run.restored);
        let marks = run.marks.get(&entry.seq).cloned().unwrap_or(entry.marks());
        let Marks { delivery_count, redelivered, .. } = marks;
        alive.then_some(Entry { delivery_count, redelivered, spot: Some(spot), ..entry })
    }

    /// Returns the annotations of a message that has not been read back.
    #[cfg(test)]
    pub fn annotations(&self, run: u32, seq: u64) -> Option<&message::Annotations> {
        self.runs.get(&run)?.marks.get(&seq)?.annotations.as_ref()
    }

    /// Called when a message of a run was removed.
    pub fn take(&mut self, entry: &Entry) {
        let Some(Spot { run, index, .. }) = entry.spot else { return };
        let durable = u32::from(entry.journaled);
        let bytes = if entry.journaled { entry.len() } else { 0 };
        self.take_range(Taken { run, first: index, last: index, durable, bytes }, 1);
    }

    /// Removes all live messages from this position on. None of them has been read.
    pub fn take_rest(&mut self, run: u32, index: u32) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        let overlap = |&(from, to): &(u32, u32)| (to + 1).saturating_sub(from.max(index));
        let taken = known.taken.iter().map(overlap).sum();
        let living = known.messages.saturating_sub(index).saturating_sub(taken);
        let (last, durable, bytes) = (known.messages - 1, known.unread_durable, known.unread_bytes);
        (known.taken, known.marks, known.unread) = (Vec::new(), BTreeMap::new(), false);
        if living > 0 {
            self.take_range(Taken { run, first: index, last, durable, bytes }, living);
        }
    }

    /// Replaces a run by a copy of its live messages. The copy has `messages` messages, of which `living` are still
    /// alive. It takes over what is known of the old run. Returns the old run.
    pub fn replace(&mut self, old: u32, new: u32, messages: u32, living: u32) -> Option<Run> {
        let mut run = self.runs.remove(&old)?;
        let before = Run { taken: Vec::new(), marks: BTreeMap::new(), ..run };
        (run.messages, run.living, run.taken) = (messages, living, Vec::new());
        let marks = std::mem::take(&mut run.marks);
        self.runs.insert(new, Run { marks, ..run });
        self.released.push(old);
        Some(before)
    }

    /// Returns whether [`Runs::flush`] has anything to report.
    pub fn has_output(&self) -> bool {
        !self.taken.is_empty() || !self.released.is_empty()
    }

    /// Moves out the facts about removed messages, and the runs without live messages.
    pub fn flush(&mut self, facts: &mut Vec<Fact>, released: &mut Vec<u32>) {
        facts.extend(self.taken.drain(..).map(Fact::Taken));
        released.append(&mut self.released);
    }

    /// Repeats the facts of a run. `read` are the positions of its live messages that have been read, ascending.
    /// Nothing from position `unread` on has been read.
    pub fn repeat(
        &self,
        number: u32,
        priorities: (u8, u8),
        read: &[u32],
        unread: u32,
        mut each: impl FnMut(Fact),
    ) {
        let Some(run) = self.runs.get(&number).filter(|run| run.journaled) else { return };
        each(Fact::Stored(Stored {
            run: number,
            first: run.first,
            last: run.last,
            priorities,
            messages: run.messages,
            durable: run.durable,
            bytes: run.bytes,
            ages: run.ages,
        }));
        let mut taken = |first: u32, end: u32| {
            if first < end {
                each(Fact::Taken(Taken { run: number, first, last: end - 1, durable: 0, bytes: 0 }));
            }
        };
        let mut next = 0;
        for &index in read {
            taken(next, index);
            next = index + 1;
        }
        taken(next, unread);
        for &(first, last) in &run.taken {
            taken(first.max(unread), last + 1);
        }
        for (&seq, marks) in &run.marks {
            each(Fact::Returned { seq, marks: marks.clone() });
        }
    }

    fn take_range(&mut self, taken: Taken, living: u32) {
        let Some(run) = self.runs.get_mut(&taken.run) else { return };
        run.living = run.living.saturating_sub(living);
        run.durable = run.durable.saturating_sub(taken.durable);
        run.bytes = run.bytes.saturating_sub(taken.bytes);
        if run.journaled {
            self.taken.push_joined(taken);
        }
        if run.living == 0 {
            self.runs.remove(&taken.run);
            self.released.push(taken.run);
        }
    }
}
