//! What a queue knows of its runs on the disk.

use std::collections::BTreeMap;

use ranges::Ranges;

use super::entry::{Entry, Leave, Spot};
use crate::{Ages, GoneFromRun, LocalFact, Marks, Moved, Seqs, Span, Stored, share};

/// Marks by sequence number.
pub(super) type AllMarks = BTreeMap<u64, Marks>;

/// A run.
///
/// ```text
///   page_out ──► writing ──handle_stored──► stored ──its last message leaves──► released
///                   │                                                             ▲
///                   └── failed, or none of its messages is left ──────────────────┘
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
    /// See [`Stored::seqs`].
    pub seqs: Seqs,
    /// Positions of messages that were removed before they were read. They were removed before a restart, or while the
    /// run was being written, or by a fact that another member has decided.
    taken: Positions,
    /// The marks of messages that have not been read back.
    marks: AllMarks,
    /// [`Entry::came_back`] of messages that have not been read back. It is in no fact: a restart begins to count again.
    came_back: BTreeMap<u64, Leave>,
    /// True for a run from before a restart. Its messages that are not durable are gone.
    restored: bool,
    /// True if a part of the run has not been read.
    unread: bool,
}

impl Run {
    /// Returns false if the message at this position was removed before it was read.
    pub(super) fn is_alive(&self, index: u32) -> bool {
        !self.taken.contains(index)
    }

    /// Returns the position of a message, if it was not removed before it was read.
    fn alive(&self, seq: u64) -> Option<u32> {
        if self.seqs.is_empty() || !(self.first..=self.last).contains(&seq) {
            return None;
        }
        self.seqs.position(seq).filter(|index| self.is_alive(*index))
    }
}

/// Positions in a run. The ranges ascend and do not touch.
#[derive(Clone, Default)]
pub(super) struct Positions(Vec<(u32, u32)>);

impl Positions {
    pub(super) fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Adds a range. It may touch or overlap others. Returns the number of positions that are new.
    pub(super) fn add(&mut self, first: u32, last: u32) -> u32 {
        let before = self.count_from(first.min(last));
        let from = self.0.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = self.0.partition_point(|(start, _)| *start <= last.saturating_add(1));
        let joined = self.0.drain(from..to).fold((first, last), |(a, b), (c, d)| (a.min(c), b.max(d)));
        self.0.insert(from, joined);
        self.count_from(first.min(last)) - before
    }

    /// Returns the number of positions from this one on.
    pub(super) fn count_from(&self, index: u32) -> u32 {
        self.0.iter().map(|&(first, last)| (last + 1).saturating_sub(first.max(index))).sum()
    }
}

/// The facts about a run besides [`Stored`].
#[derive(Default)]
pub(super) struct Life {
    /// Positions of removed messages.
    pub taken: Positions,
    pub marks: AllMarks,
}

#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<u32, Run>,
    last: u32,
    /// Removed messages, to be reported at the end of the call.
    taken: Vec<GoneFromRun>,
    /// Runs that lost their last live message during this call.
    released: Vec<u32>,
}

impl Runs {
    pub(super) fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Returns true if there are no runs on the disk.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn get(&self, run: u32) -> Option<&Run> {
        self.runs.get(&run)
    }

    /// Iterates over the runs that were read to their end.
    pub(super) fn read(&self) -> impl Iterator<Item = (u32, &Run)> {
        self.runs.iter().filter(|(_, run)| !run.unread).map(|(number, run)| (*number, run))
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.runs.keys().copied()
    }

    /// Adds a run that was stored. Its first `passed` messages have left meanwhile.
    pub(super) fn add(&mut self, stored: &Stored, level: usize, passed: u32, living: u32, marks: AllMarks) {
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
            seqs: stored.seqs.clone(),
            taken: Positions(passed.checked_sub(1).map(|last| (0, last)).into_iter().collect()),
            marks,
            came_back: BTreeMap::new(),
            restored: false,
            unread: true,
        };
        self.runs.insert(stored.run, run);
    }

    /// Sets [`Entry::came_back`] of a message that left memory with its run.
    pub(super) fn set_came_back(&mut self, run: u32, seq: u64, leave: Leave) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.came_back.insert(seq, leave);
        }
    }

    /// Adds a run whose messages keep their own places, so that all of it counts as read.
    pub(super) fn add_held(&mut self, stored: &Stored, level: usize, living: u32) {
        self.add(stored, level, 0, living, AllMarks::new());
        if let Some(run) = self.runs.get_mut(&stored.run) {
            run.unread = false;
        }
    }

    /// Returns the level and the first sequence number of each run, sorted.
    pub(super) fn first_seqs(&self) -> Vec<(usize, u64)> {
        let mut first_seqs: Vec<(usize, u64)> =
            self.runs.values().map(|run| (run.level, run.first)).collect();
        first_seqs.sort_unstable();
        first_seqs
    }

    /// Adds a run from before a restart.
    pub(super) fn restore(&mut self, stored: &Stored, level: usize, life: Life) {
        let living = stored.messages.saturating_sub(life.taken.count_from(0));
        self.add(stored, level, 0, living, life.marks);
        self.last = self.last.max(stored.run);
        if let Some(run) = self.runs.get_mut(&stored.run) {
            (run.taken, run.restored) = (life.taken, true);
        }
    }

    /// Called when the message at `spot` was read for the first time. Returns it and its earlier marks, or `None` if it is
    /// not alive.
    pub(super) fn take_in(&mut self, spot: Spot, mut entry: Entry) -> Option<(Entry, Option<Marks>)> {
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
        let marks = run.marks.remove(&entry.seq);
        entry.came_back = run.came_back.remove(&entry.seq);
        Some((entry, marks))
    }

    /// Returns what [`Runs::take_in`] would return, with the marks of the message.
    pub(super) fn would_take_in(&self, spot: Spot, entry: Entry) -> Option<(Entry, Marks)> {
        let run = self.runs.get(&spot.run)?;
        if !run.is_alive(spot.index) || (!entry.journaled && run.restored) {
            return None;
        }
        let marks = run.marks.get(&entry.seq).cloned().unwrap_or(entry.marks());
        let Marks { delivery_count, redelivered, .. } = marks;
        Some((Entry { delivery_count, redelivered, spot: Some(spot), ..entry }, marks))
    }

    /// Returns the marks of a message that has not been read back.
    #[cfg(test)]
    pub(super) fn marks(&self, run: u32, seq: u64) -> Option<&Marks> {
        self.runs.get(&run)?.marks.get(&seq)
    }

    /// Called when a message of a run was removed.
    pub(super) fn take(&mut self, entry: &Entry) {
        let Some(Spot { run, index, .. }) = entry.spot else { return };
        let durable = u32::from(entry.journaled);
        let bytes = if entry.journaled { entry.len() } else { 0 };
        self.take_range(GoneFromRun { run, first: index, last: index, durable, bytes }, 1);
    }

    /// Removes all live messages from this position on. None of them has been read.
    pub(super) fn take_rest(&mut self, run: u32, index: u32) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        let taken = known.taken.count_from(index);
        let living = known.messages.saturating_sub(index).saturating_sub(taken);
        let (last, durable, bytes) = (known.messages - 1, known.unread_durable, known.unread_bytes);
        (known.taken, known.marks, known.unread) = (Positions::default(), BTreeMap::new(), false);
        known.came_back = BTreeMap::new();
        if living > 0 {
            self.take_range(GoneFromRun { run, first: index, last, durable, bytes }, living);
        }
    }

    /// Replaces a run by a copy of the messages that were alive, of which `living` still are. It takes over what is known
    /// of the old run. Returns the old run.
    pub(super) fn replace(&mut self, old: u32, new: u32, moved: &[Moved], living: u32) -> Option<Run> {
        let run = self.runs.remove(&old)?;
        let is_moved = |at: u32| moved.binary_search_by_key(&at, |moved| moved.from).is_ok();
        let seqs = run.seqs.from_position(0).filter(|(at, _)| is_moved(*at)).map(|(_, seq)| seq).collect();
        let before = Run {
            seqs: Seqs::default(),
            taken: Positions::default(),
            marks: BTreeMap::new(),
            came_back: BTreeMap::new(),
            ..run
        };
        let messages = moved.len() as u32;
        self.runs.insert(new, Run { messages, living, seqs, taken: Positions::default(), ..run });
        self.released.push(old);
        Some(before)
    }

    /// Returns whether a run has this message, and the message was not removed before it was read.
    pub(super) fn holds(&self, seq: u64) -> bool {
        self.runs.values().any(|run| run.alive(seq).is_some())
    }

    /// Sets the marks of a message that has not been read.
    pub(super) fn mark(&mut self, seq: u64, marks: Marks) {
        if let Some(run) = self.runs.values_mut().find(|run| run.unread && run.alive(seq).is_some()) {
            run.marks.insert(seq, marks);
        }
    }

    /// Returns the numbers and the levels of the unread runs that may have messages in `span`.
    pub(super) fn unread_in(&self, span: Span) -> Vec<(u32, usize)> {
        let may = |run: &Run| run.unread && run.first <= span.last && span.first <= run.last;
        self.runs.iter().filter(|(_, run)| may(run)).map(|(number, run)| (*number, run.level)).collect()
    }

    /// Removes the messages in `span` whose position is at least `unread`: none of them has been read. Returns their
    /// number, and their estimated size in bytes.
    pub(super) fn take_unread(&mut self, number: u32, unread: u32, span: Span) -> (u32, u64) {
        let Some(run) = self.runs.get_mut(&number) else { return (0, 0) };
        let positions = run.seqs.positions(span).filter(|(_, last)| *last >= unread);
        let count = positions.map(|(first, last)| run.taken.add(first.max(unread), last)).sum();
        let bytes = share(run.unread_bytes, count, run.unread_durable);
        run.unread_durable = run.unread_durable.saturating_sub(count);
        run.unread_bytes -= bytes;
        // The positions are noted already.
        self.take_range(GoneFromRun { run: number, first: 0, last: 0, durable: count, bytes }, count);
        (count, bytes)
    }

    /// Returns whether [`Runs::flush`] has anything to report.
    pub(super) fn has_output(&self) -> bool {
        !self.taken.is_empty() || !self.released.is_empty()
    }

    /// Moves out the facts about removed messages, and the runs without live messages.
    pub(super) fn flush(&mut self, facts: &mut Vec<LocalFact>, released: &mut Vec<u32>) {
        facts.extend(self.taken.drain(..).map(LocalFact::GoneFromRun));
        released.append(&mut self.released);
    }

    /// Repeats the facts of a run. `read` are the positions of its live messages that have been read, ascending.
    /// Nothing from position `unread` on has been read.
    pub(super) fn repeat(
        &self,
        number: u32,
        priorities: (u8, u8),
        read: &[u32],
        unread: u32,
        mut each: impl FnMut(LocalFact),
    ) {
        let Some(run) = self.runs.get(&number).filter(|run| run.journaled) else { return };
        each(LocalFact::Stored(Stored {
            run: number,
            first: run.first,
            last: run.last,
            priorities,
            messages: run.messages,
            durable: run.durable,
            bytes: run.bytes,
            ages: run.ages,
            seqs: run.seqs.clone(),
        }));
        let mut taken = |first: u32, end: u32| {
            if first < end {
                each(LocalFact::GoneFromRun(GoneFromRun {
                    run: number,
                    first,
                    last: end - 1,
                    durable: 0,
                    bytes: 0,
                }));
            }
        };
        let mut next = 0;
        for &index in read {
            taken(next, index);
            next = index + 1;
        }
        taken(next, unread);
        for &(first, last) in &run.taken.0 {
            taken(first.max(unread), last + 1);
        }
        for (&seq, marks) in &run.marks {
            each(LocalFact::Marked { seq, marks: marks.clone() });
        }
    }

    fn take_range(&mut self, taken: GoneFromRun, living: u32) {
        let Some(run) = self.runs.get_mut(&taken.run) else { return };
        run.living = run.living.saturating_sub(living);
        run.durable = run.durable.saturating_sub(taken.durable);
        run.bytes = run.bytes.saturating_sub(taken.bytes);
        // In a run with sequence numbers, a fact `Gone` already says which message was removed. Such a run has a fact
        // `GoneFromRun` only at its end, for all of its messages.
        if run.journaled && run.seqs.is_empty() {
            self.taken.push_joined(taken);
        }
        if run.living == 0 {
            if !run.seqs.is_empty() {
                self.taken.push(GoneFromRun {
                    first: 0,
                    last: run.messages - 1,
                    durable: 0,
                    bytes: 0,
                    ..taken
                });
            }
            self.runs.remove(&taken.run);
            self.released.push(taken.run);
        }
    }
}
