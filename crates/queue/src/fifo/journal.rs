//! Facts on their way out, and the way back from facts to a machine.

use std::collections::BTreeMap;

use super::entry::Entry;
use super::runs::{Life, Runs};
use super::{Fifo, Output};
use crate::{Config, Fact, Stored};

/// Ranges beyond this give their memory back after the call.
const KEPT_RANGES: usize = 1024;

/// Messages that went during one call, merged into ranges.
#[derive(Default)]
pub(super) struct Journal {
    gone: Vec<(u64, u64)>,
    /// Bytes of the messages that were put and have neither gone nor been stored in a run.
    pub live_bytes: u64,
    pub runs: Runs,
}

impl Journal {
    /// The journal has it now.
    pub fn put(&mut self, entry: &Entry) {
        self.live_bytes += entry.stored_bytes();
    }

    /// The journal need not restore this one any more.
    pub fn gone(&mut self, entry: &Entry) {
        if entry.spot.is_some() {
            return self.runs.take(entry);
        }
        if !entry.journaled {
            return;
        }
        self.live_bytes -= entry.stored_bytes();
        match self.gone.last_mut() {
            Some((_, last)) if *last + 1 == entry.seq => *last = entry.seq,
            _ => self.gone.push((entry.seq, entry.seq)),
        }
    }

    /// Ends the call: what went follows everything else that was said in it.
    pub fn flush(&mut self, out: &mut Output) {
        self.runs.flush(&mut out.facts, &mut out.released);
        if self.gone.is_empty() {
            return;
        }
        let facts = &mut out.facts;
        if !self.gone.is_sorted() {
            self.gone.sort_unstable();
        }
        let mut ranges = self.gone.drain(..);
        let mut merged = ranges.next();
        for (first, last) in ranges {
            match &mut merged {
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => facts
                    .extend(merged.replace((first, last)).map(|(first, last)| Fact::Gone { first, last })),
            }
        }
        facts.extend(merged.map(|(first, last)| Fact::Gone { first, last }));
        if self.gone.capacity() > KEPT_RANGES {
            self.gone.shrink_to(KEPT_RANGES);
        }
    }
}

/// What facts have told so far.
#[derive(Default)]
struct Restored {
    entries: BTreeMap<u64, Entry>,
    runs: BTreeMap<u32, (Stored, Life)>,
    next_seq: u64,
}

impl Restored {
    fn handle(&mut self, fact: Fact) {
        match fact {
            Fact::Put { seq, message, at_ms } => {
                self.used(seq);
                let entry = Entry { journaled: true, ..Entry::new(message, seq, at_ms) };
                self.entries.insert(seq, entry);
            }
            Fact::Gone { first, last } => {
                self.used(last);
                while let Some((&seq, _)) = self.entries.range(first..=last).next() {
                    self.entries.remove(&seq);
                }
            }
            Fact::Returned { seq, delivery_count, redelivered } => {
                if let Some(entry) = self.entries.get_mut(&seq) {
                    (entry.delivery_count, entry.redelivered) = (delivery_count, redelivered);
                    return;
                }
                // Levels overlap: a mark that no message of a run claims is forgotten with the run.
                let holds = |stored: &Stored| (stored.first..=stored.last).contains(&seq);
                for (_, life) in self.runs.values_mut().filter(|(stored, _)| holds(stored)) {
                    life.marks.insert(seq, (delivery_count, redelivered));
                }
            }
            Fact::Stored(stored) => {
                self.used(stored.last);
                let (lowest, highest) = stored.priorities;
                let covered: Vec<u64> = self
                    .entries
                    .range(stored.first..=stored.last)
                    .filter(|(_, entry)| (lowest..=highest).contains(&entry.priority().unwrap_or(0)))
                    .map(|(seq, _)| *seq)
                    .collect();
                covered.iter().for_each(|seq| drop(self.entries.remove(seq)));
                self.runs.insert(stored.run, (stored, Life::default()));
            }
            Fact::Taken { run, first, last, durable, bytes } => {
                let Some((stored, life)) = self.runs.get_mut(&run) else { return };
                stored.durable = stored.durable.saturating_sub(durable);
                stored.bytes = stored.bytes.saturating_sub(bytes);
                life.take(first, last);
            }
        }
    }

    fn used(&mut self, seq: u64) {
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
    }
}

/// What the facts leave: everything that was put and has not gone is ready again, in its place.
pub(super) fn restore(config: Config, facts: impl IntoIterator<Item = Fact>, now_ms: u64) -> Fifo {
    let mut restored = Restored { next_seq: 1, ..Restored::default() };
    facts.into_iter().for_each(|fact| restored.handle(fact));
    let mut fifo = Fifo::new(config);
    fifo.next_seq = restored.next_seq;
    fifo.used_ms = Some(now_ms);
    // Runs and messages of a level lie one behind the other.
    let mut runs: Vec<(Stored, Life)> = restored.runs.into_values().collect();
    runs.sort_unstable_by_key(|(stored, _)| stored.first);
    let mut runs = runs.into_iter().peekable();
    for entry in restored.entries.into_values() {
        while let Some((stored, life)) = runs.next_if(|(stored, _)| stored.first < entry.seq) {
            fifo.restore_run(&stored, life);
        }
        fifo.ages |= entry.ttl_ms().is_some();
        fifo.journal.put(&entry);
        fifo.ready.push(entry);
    }
    runs.for_each(|(stored, life)| fifo.restore_run(&stored, life));
    fifo
}

impl Fifo {
    /// A run of which nothing durable is alive is left out: it can be released.
    fn restore_run(&mut self, stored: &Stored, life: Life) {
        if stored.durable == 0 {
            return;
        }
        let level = self.ready.level_of(Some(stored.priorities.0));
        self.ages |= stored.ages.first_end_ms.is_some();
        self.ready.push_run(stored, level);
        self.journal.runs.restore(stored, level, life);
    }

    /// About how many bytes the facts of the living messages take that are in no run.
    pub fn live_bytes(&self) -> u64 {
        self.journal.live_bytes
    }

    /// The facts of what is alive between `first` and `last` and in no run, said again: enough to restore it
    /// without the facts that were said before. The order is that of nothing in particular.
    pub fn live_facts(&self, first: u64, last: u64, mut each: impl FnMut(Fact)) {
        let mut say = |entry: &Entry| {
            if !entry.journaled || entry.spot.is_some() || entry.seq < first || entry.seq > last {
                return;
            }
            let Some(message) = entry.message().cloned() else { return };
            let Entry { seq, at_ms, delivery_count, redelivered, .. } = *entry;
            each(Fact::Put { seq, message, at_ms });
            if redelivered || delivery_count > 0 {
                each(Fact::Returned { seq, delivery_count, redelivered });
            }
        };
        self.ready.range(first, last).for_each(&mut say);
        self.consumers.held().for_each(&mut say);
        self.leaving.iter().for_each(&mut say);
    }
}
