//! Pages out messages that have left their level: unsettled, requeued after other messages, or dead-lettered.
//!
//! A run of ready messages replaces them in the level. Here, every message keeps its own place as a reference of a few
//! bytes, and only its body is freed.

use super::entry::{Entry, Spot};
use super::paging::{BlockPlaces, RUN_BYTES_MIN, Writing};
use super::{Fifo, Output};
use crate::{Ages, Fact, Seqs, Stored};

/// Totals of the unsettled messages of all consumers.
#[derive(Default)]
pub(super) struct UnsettledTotals {
    messages: u64,
    bytes: u64,
    /// The approximate memory of those that are in no run.
    pageable_bytes: u64,
}

impl UnsettledTotals {
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn add(&mut self, entry: &Entry) {
        self.messages += 1;
        self.bytes += entry.len();
        if entry.spot.is_none() {
            self.pageable_bytes += entry.memory_bytes();
        }
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.messages -= 1;
        self.bytes -= entry.len();
        if entry.spot.is_none() {
            self.pageable_bytes -= entry.memory_bytes();
        }
    }

    /// Returns the approximate memory that paging them out would free, in bytes.
    pub(super) fn pageable_bytes(&self) -> u64 {
        self.pageable_bytes
    }
}

impl Fifo {
    /// Starts to write a run of messages that have left one level. Prefers the newest: a consumer that settles in
    /// order will soon settle the oldest. The run contains every such message between its first and its last.
    pub(super) fn page_out_held(
        &mut self,
        bytes_max: u64,
        each: &mut dyn FnMut(&Fact) -> u32,
    ) -> Option<(Writing, u32)> {
        let Self { ready, consumers, leaving, journal, .. } = self;
        let others =
            consumers.held().chain(leaving.iter()).filter(|entry| entry.spot.is_none() && entry.seq > 0);
        let others = others.map(|entry| (ready.level_of_entry(entry), entry));
        let mut taken: Vec<(usize, &Entry)> = ready.taken_before().chain(others).collect();
        taken.sort_unstable_by_key(|(level, entry)| (*level, entry.seq));
        let first_seqs = journal.runs.first_seqs();
        // Returns whether a run of the same level, or the end of the level, lies between a message and the next one.
        let apart = |(level, entry): (usize, &Entry), (next_level, next): (usize, &Entry)| {
            let run = first_seqs.get(first_seqs.partition_point(|first| *first < (level, entry.seq)));
            level != next_level || run.is_some_and(|first| *first < (level, next.seq))
        };
        let mut end = taken.len();
        let stretch = loop {
            let (mut start, mut bytes) = (end, 0);
            while bytes < bytes_max
                && let Some(before) = start.checked_sub(1)
                && (start == end || !apart(taken[before], taken[start]))
            {
                start = before;
                bytes += taken[start].1.stored_bytes();
            }
            if start == end {
                return None;
            }
            if bytes >= RUN_BYTES_MIN {
                break &taken[start..end];
            }
            end = start;
        };
        let level = stretch.first()?.0;
        let mut places = BlockPlaces::with_capacity(stretch.len());
        let mut ages = None;
        for (_, entry) in stretch {
            let Some(put) = journal.put_of(entry) else { continue };
            if let Fact::Put { at_ms, .. } = put {
                ages = Some(Ages::add(ages, at_ms, entry.ttl_ms()));
            }
            places.push((entry.seq, each(&put)));
        }
        let (ages, messages) = (ages?, places.len() as u32);
        let last = places.last()?.0;
        let run = journal.runs.next_number();
        Some((Writing { run, level, last, messages, ages, places, seqs: Seqs::default() }, messages))
    }

    /// Called when the run is stored safely. Its messages that are still in the queue become references.
    pub(super) fn stored_held(&mut self, writing: Writing, out: &mut Output) {
        let Writing { run, level, messages, ages, places, seqs, .. } = writing;
        let (mut positions, mut marks) = (Vec::new(), Vec::new());
        let (mut durable, mut bytes, mut live_bytes) = (0, 0, 0);
        let mut set_spot = |entry: &mut Entry| {
            let Ok(index) = places.binary_search_by_key(&entry.seq, |(seq, _)| *seq) else { return };
            let (index, block) = (index as u32, places[index].1);
            positions.push(index);
            if entry.journaled {
                durable += 1;
                bytes += entry.len();
                live_bytes += entry.stored_bytes();
                if !entry.is_fresh() {
                    marks.push(self.journal.marked(entry.seq, entry.marks()));
                }
            }
            entry.spot = Some(Spot { run, block, index });
        };
        let unplaced = |entry: &&mut Entry| entry.spot.is_none();
        self.ready.stored(level, &mut set_spot);
        for unsettled in self.consumers.unsettled_mut() {
            let mut any = false;
            for entry in unsettled.entries_mut().filter(unplaced) {
                set_spot(entry);
                if entry.spot.is_some() {
                    self.held.pageable_bytes -= entry.memory_bytes();
                    entry.free_body();
                    any = true;
                }
            }
            if any {
                unsettled.narrow();
            }
        }
        if let Some(leaving) = self.leaving.made() {
            leaving.iter_mut().filter(unplaced).for_each(set_spot);
            leaving.free_bodies();
        }
        positions.sort_unstable();
        let Some(((first, _), (last, _))) = places.first().zip(places.last()) else { return };
        if positions.is_empty() {
            out.released.push(run);
            return;
        }
        self.journal.live_bytes -= live_bytes;
        let priorities = self.ready.priorities_of(level);
        let (first, last) = (*first, *last);
        let stored = Stored { run, first, last, priorities, messages, durable, bytes, ages, seqs };
        self.journal.runs.add_held(&stored, level, positions.len() as u32);
        self.journal.runs.repeat(run, priorities, &positions, messages, |fact| out.local.push(fact));
        out.local.append(&mut marks);
    }
}
