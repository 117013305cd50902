//! The storage of runs in tests, with blocks of three messages.

use std::collections::BTreeMap;

use message::Message;

use super::model::{Notes, notes};
use crate::fifo::Fifo;
use crate::fifo::entry::{Entry, Spot};
use crate::*;

/// The number of messages in a block.
const BLOCK: usize = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    runs: BTreeMap<u32, Vec<Loaded>>,
}

impl Shelf {
    pub(super) fn page_out(&mut self, fifo: &mut Fifo, messages: u64) -> Option<PageOut> {
        let mut run = vec![];
        let out = fifo.page_out(messages * 81, 500, |fact| {
            let Fact::Put { seq, ref message, at_ms } = *fact else { panic!("{fact:?}") };
            run.push(Loaded { seq, at_ms, message: message.clone() });
            ((run.len() - 1) / BLOCK * BLOCK) as u32
        })?;
        assert_eq!(run.len(), out.messages as usize);
        assert!(self.runs.insert(out.run, run).is_none());
        Some(out)
    }

    pub(super) fn block(&self, load: Load) -> Block {
        let run = &self.runs[&load.run];
        let from = load.block as usize;
        let to = run.len().min(from + BLOCK);
        Block { messages: run[from..to].to_vec(), next: (to < run.len()).then_some(to as u32) }
    }

    /// Copies the live messages of a run. A block begins at the first message that has not been read.
    pub(super) fn copy(&self, run: u32, living: &Living) -> (Vec<Loaded>, Vec<Moved>) {
        let boundary = living.positions.partition_point(|at| *at < living.unread);
        let block = |i: usize| {
            let from = if i < boundary { 0 } else { boundary };
            from + (i - from) / BLOCK * BLOCK
        };
        let moved = living.positions.iter().enumerate();
        let moved = moved.map(|(i, from)| Moved { from: *from, block: block(i) as u32 }).collect();
        let run = &self.runs[&run];
        (living.positions.iter().map(|at| run[*at as usize].clone()).collect(), moved)
    }

    /// Adds a copy under its number.
    pub(super) fn add(&mut self, run: u32, messages: Vec<Loaded>) {
        assert!(self.runs.insert(run, messages).is_none());
    }

    pub(super) fn release(&mut self, runs: Vec<u32>) {
        for run in runs {
            assert!(self.runs.remove(&run).is_some(), "run {run} is released twice");
        }
    }

    /// Removes the runs that the machine does not know, as happens at a start.
    pub(super) fn retain(&mut self, fifo: &Fifo) {
        let known: Vec<u32> = fifo.runs().collect();
        self.runs.retain(|run, _| known.contains(run));
    }

    pub(super) fn runs(&self) -> Vec<u32> {
        self.runs.keys().copied().collect()
    }

    /// Returns the message of an entry, in memory or on the disk.
    pub(super) fn message<'a>(&'a self, entry: &'a Entry) -> &'a Message {
        let on_disk = entry.spot.map(|spot| &self.runs[&spot.run][spot.index as usize].message);
        entry.message().or(on_disk).expect("the message is in memory or on the disk")
    }

    /// Returns the marks of a message that has not been read back.
    pub(super) fn unread_marks<'a>(&self, fifo: &'a Fifo, entry: &Entry) -> Option<&'a Marks> {
        fifo.journal.runs.marks(entry.spot?.run, entry.seq)
    }

    /// Returns the annotations with which a message would be delivered.
    pub(super) fn notes(&self, fifo: &Fifo, entry: &Entry) -> Notes {
        let message = self.message(entry);
        let unread = self.unread_marks(fifo, entry).and_then(|marks| marks.annotations.as_ref());
        let set = fifo.journal.annotated.get(entry.seq).or(unread);
        notes(set.map_or_else(|| message.clone(), |set| message.annotated(set)).annotations())
    }

    /// Returns the messages that the machine would find if it read on.
    pub(super) fn unread(&self, fifo: &Fifo) -> Vec<Entry> {
        let mut found = vec![];
        for rest in fifo.ready.rests() {
            let run = &self.runs[&rest.load.run];
            let messages = (rest.index..).zip(&run[rest.load.block as usize..]);
            found.extend(messages.filter_map(|(index, loaded)| {
                let entry = Entry::new(loaded.message.clone(), loaded.seq, loaded.at_ms);
                let journaled = fifo.journal.policy.needs_fact(&loaded.message);
                let entry = Entry { journaled, ..entry };
                let spot = Spot { run: rest.load.run, block: 0, index };
                Some(fifo.journal.runs.would_take_in(spot, entry)?.0)
            }));
        }
        found
    }
}
