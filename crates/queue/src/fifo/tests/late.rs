//! A driver that commits late and may roll back. It acts as the driver of a replicated queue will, but
//! without replicas.

use std::collections::VecDeque;

use super::lending;
use crate::fifo::{Fifo, Output};
use crate::*;

/// Every accepted message has a fact. What depends on facts waits here until its turn is committed.
#[derive(Default)]
pub struct Late {
    /// The newest committed turn.
    committed: u64,
    waiting: VecDeque<Waiting>,
    /// True while nothing is decided.
    pub pauses: bool,
    /// The facts of all committed turns.
    pub facts: Vec<Fact>,
}

/// The output of a turn that waits for its commit.
struct Waiting {
    turn: u64,
    receipts: Vec<Receipt>,
    effects: Vec<Effect>,
    facts: Vec<Fact>,
}

impl Late {
    /// Returns the newest committed turn, and all turns that may be rolled back.
    pub fn turns(&self) -> Vec<u64> {
        std::iter::once(self.committed).chain(self.waiting.iter().map(|waiting| waiting.turn)).collect()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn mark(turn: u64) -> Mark {
        Mark { turn, level: Level::Committed }
    }

    pub fn commit(&mut self, turn: u64, fifo: &mut Fifo, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.handle_reached(Self::mark(turn), fifo, now_ms, out, deliver));
    }

    pub fn roll_back(&mut self, turn: u64, fifo: &mut Fifo, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.handle_rolled_back(Self::mark(turn), fifo, now_ms, out, deliver));
    }
}

impl Drive for Late {
    fn policy(&self) -> FactPolicy {
        FactPolicy::Always
    }

    fn admit(&self, request: &Request, health: Health) -> Admission {
        match request {
            _ if self.pauses => Admission::Hold,
            Request::Publish(_) if health.log_refuses => Admission::Refuse(RejectReason::Unavailable),
            _ => Admission::Now,
        }
    }

    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Mark {
        let turn = fifo.close_turn();
        let facts = std::mem::take(&mut output.facts);
        let (waits, leaves): (Vec<_>, Vec<_>) = output.receipts.drain().partition(|r| r.journaled);
        leaves.into_iter().for_each(|receipt| output.receipts.push_all(receipt));
        let effects = std::mem::take(&mut output.effects);
        let (effects, leaves) = effects.into_iter().partition(Effect::is_journaled);
        output.effects = leaves;
        if turn > self.committed && self.waiting.back().is_none_or(|last| last.turn < turn) {
            self.waiting.push_back(Waiting { turn, receipts: waits, effects, facts });
        } else if let Some(last) = self.waiting.back_mut() {
            // These effects depend only on facts of earlier turns.
            assert!(waits.is_empty() && facts.is_empty());
            last.effects.extend(effects);
        } else {
            assert!(waits.is_empty() && facts.is_empty());
            output.effects.extend(effects);
        }
        Self::mark(turn)
    }

    fn handle_reached(
        &mut self,
        mark: Mark,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        self.committed = self.committed.max(mark.turn);
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.turn <= mark.turn) {
            self.facts.extend(waiting.facts);
            let leaving = waiting.receipts.into_iter();
            leaving.for_each(|receipt| output.receipts.push_all(Receipt { journaled: false, ..receipt }));
            output.effects.extend(waiting.effects.into_iter().map(at_once));
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
        while let Some(waiting) = self.waiting.pop_back_if(|waiting| waiting.turn > mark.turn) {
            for Receipt { publisher, first, last, .. } in waiting.receipts {
                (first..=last)
                    .for_each(|seq| output.receipts.reject(publisher, seq, RejectReason::Unavailable));
            }
            for effect in waiting.effects {
                if let Effect::Done { ticket, .. } = effect {
                    let asked = Asked::Ticket(ticket);
                    output.effects.push(Effect::Refused { asked, why: Refusal::Unavailable });
                }
            }
        }
        fifo.roll_back_turns(mark.turn, now_ms, output, deliver);
    }
}

/// Marks an effect whose facts are committed.
fn at_once(mut effect: Effect) -> Effect {
    if let Effect::Settled { journaled, .. }
    | Effect::Done { journaled, .. }
    | Effect::DeadLetter { journaled, .. } = &mut effect
    {
        *journaled = false;
    }
    effect
}
