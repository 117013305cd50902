//! The driver of a replicated queue, without replicas: the test chooses which turns are committed and when, and which are rolled
//! back.

use std::collections::VecDeque;

use super::lending;
use crate::fifo::{Fifo, Output};
use crate::*;

/// [`Replica`] with entries that are numbered as its turns are.
pub(super) struct Late {
    replica: Replica,
    /// The newest committed turn.
    committed: u64,
    /// The turns that are not committed, with their facts, oldest first.
    waiting: VecDeque<(u64, Vec<Fact>)>,
    /// The facts of all committed turns, and those about the disk.
    pub facts: Vec<Logged>,
}

impl Late {
    pub(super) fn new() -> Self {
        let mut replica = Replica::default();
        replica.lead();
        Self { replica, committed: 0, waiting: VecDeque::new(), facts: Vec::new() }
    }

    /// Decides nothing, or decides again.
    pub(super) fn set_paused(&mut self, paused: bool) {
        if paused { self.replica.depose() } else { self.replica.lead() }
    }

    pub(super) fn is_paused(&self) -> bool {
        !self.replica.leads()
    }

    /// Returns the newest committed turn, and all turns that may be rolled back.
    pub(super) fn turns(&self) -> Vec<u64> {
        std::iter::once(self.committed).chain(self.waiting.iter().map(|(turn, _)| *turn)).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn policy(&self) -> FactPolicy {
        self.replica.policy()
    }

    pub(super) fn admit(&self, request: &Request, health: Health) -> Admission {
        self.replica.admit(request, health)
    }

    pub(super) fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Mark {
        let Awaits::Commit(mark) = self.replica.close(fifo, output) else { panic!("it is replicated") };
        self.note_local(output);
        let facts = std::mem::take(&mut output.facts);
        if self.turns().last().is_some_and(|last| *last < mark.turn) {
            self.waiting.push_back((mark.turn, facts));
        } else {
            assert!(facts.is_empty(), "a turn that changes nothing has no facts");
        }
        self.replica.handle_proposed(mark.turn);
        mark
    }

    /// Moves the facts about the disk to the log, where they wait for no commit.
    pub(super) fn note_local(&mut self, output: &mut Output) {
        self.facts.extend(output.local.drain(..).map(Logged::Local));
    }

    pub(super) fn commit(&mut self, turn: u64, fifo: &mut Fifo, now_ms: u64, out: &mut Output) {
        self.committed = self.committed.max(turn);
        while let Some((_, facts)) = self.waiting.pop_front_if(|(waiting, _)| *waiting <= turn) {
            self.facts.extend(facts.into_iter().map(Logged::Shared));
        }
        let mark = self.replica.mark_of(turn);
        lending(out, |out, deliver| self.replica.handle_committed(mark, fifo, now_ms, out, deliver));
    }

    pub(super) fn roll_back(&mut self, turn: u64, fifo: &mut Fifo, now_ms: u64, out: &mut Output) {
        while self.waiting.pop_back_if(|(waiting, _)| *waiting > turn).is_some() {}
        let mark = Mark { turn };
        lending(out, |out, deliver| self.replica.handle_rolled_back(mark, fifo, now_ms, out, deliver));
    }
}
