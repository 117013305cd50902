//! Facts on their way out, and the way back from facts to a machine.

use std::collections::BTreeMap;

use super::Fifo;
use super::ready::Entry;
use crate::{Config, Fact};

/// Ranges beyond this give their memory back after the call.
const KEPT_RANGES: usize = 1024;

/// Messages that went during one call, merged into ranges.
#[derive(Default)]
pub(super) struct Journal {
    gone: Vec<(u64, u64)>,
    /// Bytes of the messages that were put and have not gone.
    live_bytes: u64,
}

impl Journal {
    /// The journal has it now.
    pub fn put(&mut self, entry: &Entry) {
        self.live_bytes += entry.stored_bytes();
    }

    /// The journal need not restore this one any more.
    pub fn gone(&mut self, entry: &Entry) {
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
    pub fn flush(&mut self, facts: &mut Vec<Fact>) {
        if self.gone.is_empty() {
            return;
        }
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

/// What the facts leave: everything that was put and has not gone is ready again, in its place.
pub(super) fn restore(config: Config, facts: impl IntoIterator<Item = Fact>, now_ms: u64) -> Fifo {
    let mut entries: BTreeMap<u64, Entry> = BTreeMap::new();
    let mut next_seq = 1;
    for fact in facts {
        match fact {
            Fact::Put { seq, message, at_ms } => {
                next_seq = next_seq.max(seq + 1);
                let delivery_count = message.delivery_count();
                let entry =
                    Entry { message, seq, at_ms, delivery_count, redelivered: false, journaled: true };
                entries.insert(seq, entry);
            }
            Fact::Gone { first, last } => {
                next_seq = next_seq.max(last.saturating_add(1));
                while let Some((&seq, _)) = entries.range(first..=last).next() {
                    entries.remove(&seq);
                }
            }
            Fact::Returned { seq, delivery_count, redelivered } => {
                if let Some(entry) = entries.get_mut(&seq) {
                    (entry.delivery_count, entry.redelivered) = (delivery_count, redelivered);
                }
            }
        }
    }
    let mut fifo = Fifo::new(config);
    fifo.next_seq = next_seq;
    fifo.used_ms = Some(now_ms);
    for entry in entries.into_values() {
        fifo.ages |= entry.message.ttl_ms().is_some();
        fifo.journal.put(&entry);
        fifo.ready.push(entry);
    }
    fifo
}

impl Fifo {
    /// About how many bytes the facts of the living messages take.
    pub fn live_bytes(&self) -> u64 {
        self.journal.live_bytes
    }

    /// The facts of what is alive between `first` and `last`, said again: enough to restore it without the
    /// facts that were said before. The order is that of nothing in particular.
    pub fn live_facts(&self, first: u64, last: u64, mut each: impl FnMut(Fact)) {
        let mut say = |entry: &Entry| {
            if !entry.journaled || entry.seq < first || entry.seq > last {
                return;
            }
            let Entry { seq, at_ms, delivery_count, redelivered, .. } = *entry;
            each(Fact::Put { seq, message: entry.message.clone(), at_ms });
            if redelivered || delivery_count > 0 {
                each(Fact::Returned { seq, delivery_count, redelivered });
            }
        };
        self.ready.range(first, last).for_each(&mut say);
        self.consumers.held().for_each(&mut say);
        self.leaving.iter().for_each(&mut say);
    }
}
