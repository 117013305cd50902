//! Restores a machine from its facts.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::acquired::Acquired;
use super::annotated::Annotated;
use super::entry::Entry;
use super::runs::Life;
use super::{End, Fifo};
use crate::{Config, DeletedReason, Fact, GoneFromRun, LocalFact, Logged, Marks, Span, Stored};

/// The state of one queue, collected from its facts in their order.
#[derive(Default)]
pub struct Restoring {
    entries: BTreeMap<u64, Entry>,
    annotated: Annotated,
    acquired: Acquired,
    /// The times until which messages are delayed, by sequence number.
    due_ms: BTreeMap<u64, u64>,
    runs: BTreeMap<u32, (Stored, Life)>,
    /// The highest sequence number in any run with [`Stored::seqs`]. Most messages are beyond it.
    last_in_runs: u64,
    /// The run that had the last message that was looked for.
    found_in: u32,
    /// The highest sequence number used so far.
    last_seq: u64,
    /// The latest arrival time of a message, in milliseconds since the epoch.
    latest_ms: u64,
    damaged: bool,
    ended: Option<DeletedReason>,
}

impl Restoring {
    /// Takes the next fact. The facts of both kinds are in the order of the log.
    pub fn handle(&mut self, fact: Fact) {
        if self.ended.is_some() {
            return;
        }
        match fact {
            Fact::Put { seq, message, at_ms } => {
                self.used(seq);
                self.latest_ms = self.latest_ms.max(at_ms);
                // The message is in a run already: its entry was known to be committed only after the run was stored.
                if self.run_of(seq).is_some() {
                    return;
                }
                let entry = Entry { journaled: true, ..Entry::new(message, seq, at_ms) };
                self.entries.insert(seq, entry);
                self.annotated.forget(seq);
                self.acquired.forget(seq);
                self.due_ms.remove(&seq);
            }
            Fact::Gone(Span { first, last }) => {
                self.used(last);
                while let Some((&seq, _)) = self.entries.range(first..=last).next() {
                    self.entries.remove(&seq);
                    self.annotated.forget(seq);
                    self.acquired.forget(seq);
                    self.due_ms.remove(&seq);
                }
                self.take_from_runs(Span { first, last });
            }
            Fact::Returned { seq, marks } => self.mark(seq, marks),
            Fact::Ended { reason } => {
                let Self { last_seq, latest_ms, damaged, .. } = *self;
                *self = Self { last_seq, latest_ms, damaged, ended: Some(reason), ..Self::default() };
            }
        }
    }

    /// [`Self::handle`] for a fact about the disk of this member.
    pub fn handle_local(&mut self, fact: LocalFact) {
        if self.ended.is_some() {
            return;
        }
        match fact {
            LocalFact::Marked { seq, marks } => self.mark(seq, marks),
            LocalFact::Stored(stored) => {
                self.used(stored.last);
                self.latest_ms = self.latest_ms.max(stored.ages.last_arrival_ms);
                let (lowest, highest) = stored.priorities;
                let covers = |seq: u64, entry: &Entry| match stored.seqs.is_empty() {
                    true => (lowest..=highest).contains(&entry.priority().unwrap_or(0)),
                    false => stored.seqs.position(seq).is_some(),
                };
                let here = self.entries.range(stored.first..=stored.last);
                let covered: Vec<u64> =
                    here.filter(|(seq, entry)| covers(**seq, entry)).map(|(seq, _)| *seq).collect();
                let mut life = Life::default();
                for entry in covered.iter().filter_map(|seq| self.entries.remove(seq)) {
                    if !entry.is_fresh() {
                        let annotations = self.annotated.take(entry.seq);
                        let acquired_count =
                            if stored.seqs.is_empty() { 0 } else { self.acquired.count(&entry) };
                        let due_ms = self.due_ms.remove(&entry.seq);
                        self.acquired.forget(entry.seq);
                        let marks = Marks { annotations, acquired_count, due_ms, ..entry.marks() };
                        life.marks.insert(entry.seq, marks);
                    }
                }
                if !stored.seqs.is_empty() {
                    self.last_in_runs = self.last_in_runs.max(stored.last);
                    self.found_in = stored.run;
                }
                self.runs.insert(stored.run, (stored, life));
            }
            LocalFact::GoneFromRun(GoneFromRun { run, first, last, durable, bytes }) => {
                let Some((stored, life)) = self.runs.get_mut(&run) else { return };
                stored.durable = stored.durable.saturating_sub(durable);
                stored.bytes = stored.bytes.saturating_sub(bytes);
                life.taken.add(first, last);
                if !stored.seqs.is_empty() && life.taken.count_from(0) == stored.messages {
                    self.runs.remove(&run);
                }
            }
            LocalFact::Damaged => self.damaged = true,
        }
    }

    /// Sets the marks of a message. They replace earlier marks.
    fn mark(&mut self, seq: u64, marks: Marks) {
        if let Some(entry) = self.entries.get_mut(&seq) {
            (entry.delivery_count, entry.redelivered) = (marks.delivery_count, marks.redelivered);
            self.acquired.restore(seq, marks.acquired_count);
            self.due_ms.remove(&seq);
            self.due_ms.extend(marks.due_ms.map(|due_ms| (seq, due_ms)));
            self.annotated.forget(seq);
            marks.annotations.into_iter().for_each(|set| self.annotated.restore(seq, set));
            return;
        }
        if let Some(run) = self.run_of(seq) {
            self.runs
                .get_mut(&run)
                .into_iter()
                .for_each(|(_, life)| _ = life.marks.insert(seq, marks.clone()));
            return;
        }
        // The sequence ranges of levels overlap, so several runs may get these marks. Unused ones are
        // dropped with the run.
        let holds = |stored: &Stored| stored.seqs.is_empty() && (stored.first..=stored.last).contains(&seq);
        for (_, life) in self.runs.values_mut().filter(|(stored, _)| holds(stored)) {
            life.marks.insert(seq, marks.clone());
        }
    }

    /// Returns the run with [`Stored::seqs`] that has this message, unless the message was removed.
    fn run_of(&mut self, seq: u64) -> Option<u32> {
        if seq > self.last_in_runs {
            return None;
        }
        let has = |(stored, life): &&(Stored, Life)| {
            let may = (stored.first..=stored.last).contains(&seq);
            let index = may.then(|| stored.seqs.position(seq)).flatten();
            index.is_some_and(|index| !life.taken.contains(index))
        };
        if self.runs.get(&self.found_in).filter(has).is_none() {
            // A copy of a run has a higher number.
            self.found_in = self.runs.values().rev().find(has)?.0.run;
        }
        Some(self.found_in)
    }

    /// Removes messages from runs with [`Stored::seqs`].
    fn take_from_runs(&mut self, span: Span) {
        if span.first > self.last_in_runs {
            return;
        }
        self.runs.retain(|_, (stored, life)| {
            if stored.seqs.is_empty() || stored.last < span.first {
                return true;
            }
            // Messages before `stored.first` had left the run before it was stored.
            let span = Span { first: span.first.max(stored.first), ..span };
            let lost = stored.seqs.positions(span).map(|(first, last)| life.taken.add(first, last)).sum();
            stored.lose(lost);
            stored.durable > 0
        });
    }

    /// Returns true if the queue has never had a fact.
    pub fn is_unused(&self) -> bool {
        self.last_seq == 0 && !self.damaged && self.ended.is_none()
    }

    /// Returns why the queue has ended. `None` if it has not.
    pub fn ended(&self) -> Option<DeletedReason> {
        self.ended
    }

    /// See [`LocalFact::Damaged`].
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Returns the number of live messages.
    pub fn len(&self) -> u64 {
        let in_runs: u64 = self.runs.values().map(|(stored, _)| u64::from(stored.durable)).sum();
        self.entries.len() as u64 + in_runs
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of the runs that have live messages.
    pub fn live_runs(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().filter(|(_, (stored, _))| stored.durable > 0).map(|(run, _)| *run)
    }

    /// Returns the latest arrival time in any fact, in milliseconds since the epoch, and 0 if there is none.
    pub(crate) fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    /// Messages from here on get this seq or a later one.
    pub fn note_next_seq(&mut self, next: u64) {
        self.used(next.saturating_sub(1));
    }

    fn used(&mut self, seq: u64) {
        self.last_seq = self.last_seq.max(seq);
    }
}

impl Fifo {
    /// Restores a machine from its facts, without consumers. Unsettled messages and dead letters are ready again.
    /// A run without live durable messages is left out.
    pub fn restore(config: impl Into<Arc<Config>>, restoring: Restoring, now_ms: u64) -> Self {
        let mut fifo = Self::new(config);
        fifo.next_seq = restoring.last_seq.saturating_add(1);
        fifo.used_ms = NonZeroU64::new(now_ms);
        fifo.journal.annotated = restoring.annotated;
        fifo.journal.acquired = restoring.acquired;
        // What was lost does not matter any more if the queue has ended.
        let ended = restoring.ended.map(End::Deleted);
        fifo.end = ended.or(restoring.damaged.then_some(End::Damaged));
        // Within a level, runs and single messages do not overlap.
        let mut runs: Vec<(Stored, Life)> = restoring.runs.into_values().collect();
        runs.sort_unstable_by_key(|(stored, _)| stored.first);
        let mut runs = runs.into_iter().peekable();
        // The last number in any run of each level.
        let mut lasts = vec![0; usize::from(u8::MAX) + 1];
        for entry in restoring.entries.into_values() {
            while let Some((stored, life)) = runs.next_if(|(stored, _)| stored.first < entry.seq) {
                let last = &mut lasts[fifo.ready.level_of(stored.priorities.0)];
                *last = stored.last.max(*last);
                fifo.restore_run(&stored, life);
            }
            fifo.ages |= entry.ttl_ms().is_some();
            fifo.journal.put(&entry);
            if let Some(due_ms) = restoring.due_ms.get(&entry.seq) {
                fifo.delayed.add(entry, *due_ms);
                continue;
            }
            // A run with sequence numbers may lack a message in the middle, which a rollback has restored.
            match entry.seq < lasts[fifo.ready.level_of_entry(&entry)] {
                true => fifo.ready.put_back(entry),
                false => fifo.ready.push(entry),
            }
        }
        runs.for_each(|(stored, life)| fifo.restore_run(&stored, life));
        fifo
    }

    fn restore_run(&mut self, stored: &Stored, life: Life) {
        if stored.durable == 0 {
            return;
        }
        let level = self.ready.level_of(stored.priorities.0);
        self.ages |= stored.ages.first_end_ms.is_some();
        self.ready.push_run(stored, level);
        self.journal.runs.restore(stored, level, life);
    }
}

impl<F: Into<Logged>> FromIterator<F> for Restoring {
    fn from_iter<I: IntoIterator<Item = F>>(facts: I) -> Self {
        let mut restoring = Self::default();
        restoring.extend(facts);
        restoring
    }
}

impl<F: Into<Logged>> Extend<F> for Restoring {
    fn extend<I: IntoIterator<Item = F>>(&mut self, facts: I) {
        for fact in facts {
            match fact.into() {
                Logged::Shared(fact) => self.handle(fact),
                Logged::Local(fact) => self.handle_local(fact),
            }
        }
    }
}
