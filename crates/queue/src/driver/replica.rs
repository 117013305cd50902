//! The driver of a replicated queue. What a turn decides becomes part of an entry of the queue's Raft group. Receipts and
//! answers are sent when the group has committed the entry.
//!
//! ```text
//!   lead ──> admit ──> close ──> Turn, waiting ──proposed(index)──> in an entry ──committed(index)──> handle_committed
//!                                                                        └──depose───────────────> handle_rolled_back
//! ```
//!
//! The group itself belongs to the owner of the queue: this module has no terms, messages or log.

use std::collections::VecDeque;

use super::{Admission, Awaits, Drive, Health, Mark, ends};
use crate::fifo::{Fifo, Output};
use crate::{
    Deliver, Effect, FactPolicy, Receipt, Receipts, Refusal, RejectReason, Request, Requester, Verdict,
};

/// The driver of a replicated queue. It decides only while this member leads the group.
#[derive(Debug, Default)]
pub struct Replica {
    leads: bool,
    /// The newest committed turn.
    committed: u64,
    /// Turns that are not committed, oldest first.
    turns: VecDeque<Turn>,
}

/// A closed turn that is not committed, and what waits for its commit.
#[derive(Debug)]
struct Turn {
    number: u64,
    /// The index of its entry, or `None` before it is proposed.
    entry: Option<u64>,
    receipts: Receipts,
    effects: Vec<Effect>,
}

impl Replica {
    /// Called when the member leads and the first entry of its term is committed. From now on it decides, and admits the
    /// requests that were held.
    pub fn lead(&mut self) {
        self.leads = true;
    }

    /// Called when the member no longer leads. The caller then rolls back the turns that are not committed
    /// ([`Drive::handle_rolled_back`]).
    pub fn depose(&mut self) {
        self.leads = false;
    }

    /// Frees memory that is not in use.
    pub(super) fn shrink(&mut self) {
        self.turns.shrink_to_fit();
    }

    /// Returns whether requests are admitted.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Returns whether receipts or effects wait for the commit of a turn that is in no entry yet.
    pub fn is_waited_for(&self) -> bool {
        let waits = |turn: &Turn| !turn.receipts.is_empty() || !turn.effects.is_empty();
        self.turns.iter().rev().take_while(|turn| turn.entry.is_none()).any(waits)
    }

    /// Returns whether turns are in no entry yet.
    pub fn has_unproposed(&self) -> bool {
        self.turns.back().is_some_and(|turn| turn.entry.is_none())
    }

    /// Called when all closed turns that had no entry were proposed. `index` is the index of their entry.
    pub fn handle_proposed(&mut self, index: u64) {
        let unproposed = self.turns.iter_mut().rev().take_while(|turn| turn.entry.is_none());
        unproposed.for_each(|turn| turn.entry = Some(index));
    }

    /// Returns the mark of the newest turn in the entries up to `index`. These entries must be committed.
    pub fn mark_of(&self, index: u64) -> Mark {
        let known = self.turns.partition_point(|turn| turn.entry.is_some_and(|entry| entry <= index));
        let turn = known.checked_sub(1).map_or(self.committed, |last| self.turns[last].number);
        Mark { turn }
    }

    /// Returns the mark of the newest committed turn.
    pub fn committed(&self) -> Mark {
        Mark { turn: self.committed }
    }

    /// Moves the receipts and effects that must wait for the commit of this turn out of `output`.
    fn wait(&mut self, number: u64, output: &mut Output) {
        let mut waiting = std::mem::take(&mut output.receipts);
        if waiting.iter().any(|receipt| !receipt.journaled) {
            for receipt in std::mem::take(&mut waiting).drain() {
                let to = if receipt.journaled { &mut waiting } else { &mut output.receipts };
                to.push_all(receipt);
            }
        }
        let mut effects = Vec::new();
        if output.effects.iter().any(Effect::is_journaled) {
            effects.extend(output.effects.extract_if(.., |effect| effect.is_journaled()));
        }
        if number > self.committed && self.turns.back().is_none_or(|last| last.number < number) {
            self.turns.push_back(Turn { number, entry: None, receipts: waiting, effects });
        } else if let Some(last) = self.turns.back_mut() {
            // The turn has changed nothing, so its receipts and effects depend on the turns before it.
            waiting.drain().for_each(|receipt| last.receipts.push_all(receipt));
            last.effects.extend(effects);
        } else {
            send(waiting, effects, output);
        }
    }

    /// Called when the queue has ended, so that no commit will follow.
    fn release(&mut self, output: &mut Output) {
        let mut waiting = Vec::new();
        for Turn { mut receipts, effects, .. } in std::mem::take(&mut self.turns) {
            for receipt in receipts.drain() {
                // These messages are in no committed turn, so no consumer has received them.
                output.receipts.push_all(Receipt { verdict: Verdict::Released, journaled: false, ..receipt });
            }
            waiting.extend(effects.into_iter().map(without_facts));
        }
        output.effects.splice(..0, waiting);
        output.receipts.leave_at_once();
    }
}

impl Drive for Replica {
    fn policy(&self) -> FactPolicy {
        FactPolicy::Always
    }

    fn admit(&self, request: &Request, health: Health) -> Admission {
        let Health { log_refuses, memory_is_stuck } = health;
        match request {
            Request::Publish(_) if log_refuses || memory_is_stuck => {
                Admission::Refuse(RejectReason::Unavailable)
            }
            _ if !self.leads => Admission::Hold,
            _ => Admission::Now,
        }
    }

    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Awaits {
        let turn = fifo.close_turn();
        if ends(&output.effects) {
            self.release(output);
        } else {
            self.wait(turn, output);
        }
        Awaits::Commit(Mark { turn })
    }

    fn handle_committed(
        &mut self,
        mark: Mark,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        self.committed = self.committed.max(mark.turn);
        while let Some(turn) = self.turns.pop_front_if(|turn| turn.number <= mark.turn) {
            send(turn.receipts, turn.effects, output);
        }
        fifo.commit_turns(mark.turn, now_ms, output, deliver);
    }

    fn handle_rolled_back(
        &mut self,
        mark: Mark,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        while let Some(Turn { mut receipts, effects, .. }) =
            self.turns.pop_back_if(|turn| turn.number > mark.turn)
        {
            for receipt in receipts.drain() {
                let verdict = Verdict::Rejected(RejectReason::Unavailable);
                output.receipts.push_all(Receipt { verdict, journaled: false, ..receipt });
            }
            for effect in effects {
                if let Effect::Done { ticket, .. } = effect {
                    let requester = Requester::Ticket(ticket);
                    output.effects.push(Effect::Refused { requester, why: Refusal::Unavailable });
                }
            }
        }
        fifo.roll_back_turns(mark.turn, now_ms, output, deliver);
    }
}

/// Puts receipts and effects whose turn is committed into `output`.
fn send(mut receipts: Receipts, effects: Vec<Effect>, output: &mut Output) {
    receipts.drain().for_each(|receipt| output.receipts.push_all(Receipt { journaled: false, ..receipt }));
    output.effects.extend(effects.into_iter().map(without_facts));
}

/// Returns the effect as one that waits for no facts, because its facts are committed.
fn without_facts(mut effect: Effect) -> Effect {
    if let Effect::Settled { journaled, .. }
    | Effect::Done { journaled, .. }
    | Effect::DeadLetter { journaled, .. } = &mut effect
    {
        *journaled = false;
    }
    effect
}
