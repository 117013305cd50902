//! The driver of a replicated queue. What a turn decides becomes part of an entry of the queue's Raft group. Receipts and
//! answers are sent when the group has committed the entry.
//!
//! ```text
//!   lead ──> admit ──> close ──> Turn, waiting ──proposed──> in an entry ──committed──> handle_committed: answered
//!                                    │                         │
//!                                  depose                    depose
//!                                    ▼                         ▼
//!                                 refused                   in doubt ──> handle_decided: answered, or refused
//! ```
//!
//! Raft cannot withdraw an entry. When this member leads no longer, the next leader may still commit what this one has
//! proposed. So nobody who waits for an entry is answered before it is known which entry the group has committed there.
//!
//! That the queue ends is a decision of a turn, too ([`crate::Fact::Ended`]). From this turn on requests wait. When the entry is committed,
//! the queue ends, and everybody who waits is told so. After a rollback the queue goes on as before.
//!
//! The group itself belongs to the owner of the queue: this module has no messages and no log.

use std::collections::VecDeque;

use super::mutation::Mutation;
use super::time::Time;
use super::{Admission, Awaits, Drive, Health, Mark, ends};
use crate::fifo::{Fifo, Output};
use crate::{
    Deliver, Effect, FactPolicy, Receipt, Receipts, Refusal, RejectReason, Request, Requester, Verdict,
};

/// How long requests wait for a leader, in milliseconds. An election takes tenths of a second, so a group that has none for
/// this long has lost too many of its members. Then new requests are refused. Clients may go elsewhere meanwhile, and the
/// memory for the requests that wait is bounded.
pub const NO_LEADER_MS: u64 = 5000;

/// Who leads the group, as this member knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Nobody yet: it is the only voter, and leads as soon as its disk lets it. Requests wait for this as long as it takes: nobody else
    /// could serve them, and a disk that refuses is a matter of [`Health`].
    #[default]
    Alone,
    /// This member leads, and has committed the first entry of its term.
    Leads,
    /// The member on the node with this number leads.
    Follows { leader: u32 },
    /// No member, since this time in milliseconds since the epoch. This member may be a candidate.
    Leaderless { since_ms: u64 },
}

/// The driver of a replicated queue. It decides only while this member leads the group.
#[derive(Debug, Default)]
pub struct Replica {
    leadership: Leadership,
    /// True if there is no leader for [`NO_LEADER_MS`].
    has_given_up: bool,
    /// The newest committed turn.
    committed: u64,
    /// Turns that are not committed, oldest first.
    turns: VecDeque<Turn>,
    /// What waits for entries of earlier terms, oldest first.
    doubts: VecDeque<Doubt>,
    end: End,
    time: Time,
    #[cfg(test)]
    pub(super) mutation: Option<Mutation>,
}

/// Whether the queue ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// It goes on.
    #[default]
    None,
    /// It has decided to, and that is not committed. Requests wait.
    Decided,
    /// It has ended. It answers everybody that there is no such queue, whoever leads.
    Committed,
}

impl End {
    fn of(fifo: &Fifo) -> Self {
        match fifo.ended() {
            Some(_) => Self::Committed,
            None if fifo.is_ending() => Self::Decided,
            None => Self::None,
        }
    }
}

/// The place of an entry in the log of its group. There is only one entry with a given term and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryAt {
    /// The term of the leader that proposed it.
    pub term: u64,
    pub index: u64,
}

/// A closed turn that is not committed, and what waits for its commit.
#[derive(Debug)]
struct Turn {
    number: u64,
    /// Its entry, or `None` before it is proposed.
    entry: Option<EntryAt>,
    receipts: Receipts,
    effects: Vec<Effect>,
}

/// What waits for an entry whose turns were rolled back.
#[derive(Debug)]
struct Doubt {
    at: EntryAt,
    receipts: Receipts,
    /// [`Effect::Settled`] and [`Effect::Done`].
    effects: Vec<Effect>,
}

impl Replica {
    /// Called when the member leads and the first entry of its term is committed. From now on it decides, and admits the
    /// requests that were held.
    pub fn lead(&mut self) {
        self.handle_leadership(Leadership::Leads);
    }

    /// Called when the member no longer leads. The caller then rolls back the turns that are not committed
    /// ([`Self::handle_rolled_back`]), and says who leads now ([`Self::handle_leadership`]).
    pub fn depose(&mut self) {
        self.handle_leadership(Leadership::Alone);
    }

    /// Called when this member learns who leads, or that nobody does. Afterwards, the caller asks again for the requests that it holds.
    pub fn handle_leadership(&mut self, leadership: Leadership) {
        self.leadership = match (self.leadership, leadership) {
            // Another election does not give the requests more time.
            (Leadership::Leaderless { since_ms: before }, Leadership::Leaderless { since_ms }) => {
                Leadership::Leaderless { since_ms: since_ms.min(before) }
            }
            (_, leadership) => leadership,
        };
        self.has_given_up &= matches!(leadership, Leadership::Leaderless { .. });
    }

    /// Returns when [`Self::handle_timeout`] has something to do, in milliseconds since the epoch.
    pub fn next_deadline(&self) -> Option<u64> {
        match self.leadership {
            Leadership::Leaderless { since_ms } if !self.has_given_up => {
                Some(since_ms.saturating_add(NO_LEADER_MS))
            }
            _ => None,
        }
    }

    /// Returns true if requests are refused from now on, because there is no leader for too long. Then the caller asks
    /// again for those that it holds.
    pub fn handle_timeout(&mut self, now_ms: u64) -> bool {
        let is_due = self.next_deadline().is_some_and(|due| due <= now_ms);
        self.has_given_up |= is_due;
        is_due
    }

    /// Called with the restored machine of the queue, which may have ended.
    pub(super) fn handle_restored(&mut self, fifo: &Fifo) {
        self.end = End::of(fifo);
    }

    /// Frees memory that is not in use.
    pub(super) fn shrink(&mut self) {
        self.turns.shrink_to_fit();
        self.doubts.shrink_to_fit();
    }

    /// Moves the time of the queue to at least `at_ms`, which is the arrival time of a message. `now_ms` is the clock of the shard.
    pub(super) fn advance_time(&mut self, at_ms: u64, now_ms: u64, fifo: &mut Fifo) {
        if self.time.advance(at_ms, now_ms) {
            let queue_ms = self.time.of_queue(now_ms);
            fifo.handle_time_moved(queue_ms, queue_ms - now_ms);
        }
    }

    /// See [`super::Driver::queue_ms`].
    pub(super) fn queue_ms(&self, shard_ms: u64) -> u64 {
        self.time.of_queue(shard_ms)
    }

    /// Returns what the shard's clock shows at this time of the queue.
    pub(super) fn shard_ms(&self, queue_ms: u64) -> u64 {
        self.time.of_shard(queue_ms)
    }

    /// Returns whether requests are admitted.
    pub fn leads(&self) -> bool {
        self.leadership == Leadership::Leads
    }

    /// Returns whether anybody waits for the commit of a turn that is in no entry yet. If the queue ends, all requests do.
    pub fn is_waited_for(&self) -> bool {
        let waits = |turn: &Turn| !turn.receipts.is_empty() || !turn.effects.is_empty();
        self.end == End::Decided || self.turns.iter().rev().take_while(|turn| turn.entry.is_none()).any(waits)
    }

    /// Returns whether turns are in no entry yet.
    pub fn has_unproposed(&self) -> bool {
        self.turns.back().is_some_and(|turn| turn.entry.is_none())
    }

    /// Called when all closed turns that had no entry were proposed, as this entry.
    pub fn handle_proposed(&mut self, at: EntryAt) {
        let unproposed = self.turns.iter_mut().rev().take_while(|turn| turn.entry.is_none());
        unproposed.for_each(|turn| turn.entry = Some(at));
    }

    /// Returns whether anybody waits for an entry of an earlier term.
    pub fn has_doubts(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Called for each committed entry, in the order of the log, while [`Self::has_doubts`]. Answers those who wait for an
    /// entry that is committed now, and refuses those whose entry never will be: another entry has its place.
    pub fn handle_decided(&mut self, at: EntryAt, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
        // The terms of a log never fall, so an entry of an earlier term has no place behind this one.
        let is_decided = |doubt: &mut Doubt| {
            doubt.at.term < at.term || (doubt.at.term == at.term && doubt.at.index <= at.index)
        };
        let queue_ms = self.queue_ms(now_ms);
        while let Some(doubt) = self.doubts.pop_front_if(is_decided) {
            let Doubt { at: proposed, receipts, effects } = doubt;
            if proposed.term == at.term || self.has(Mutation::TakeAnyEntryForMine) {
                send(receipts, effects, output);
            } else {
                refuse(receipts, effects, fifo, queue_ms, output);
            }
        }
    }

    /// Called when the group has ended on this member without the queue being deleted. It will never be known what became of
    /// the entries, so everybody who waits for one is refused.
    pub fn handle_closed(&mut self, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
        let queue_ms = self.queue_ms(now_ms);
        for Doubt { receipts, effects, .. } in std::mem::take(&mut self.doubts) {
            refuse(receipts, effects, fifo, queue_ms, output);
        }
    }

    /// Returns the mark of the newest turn in the entries up to `index`. These entries must be committed.
    pub fn mark_of(&self, index: u64) -> Mark {
        let known = self.turns.partition_point(|turn| turn.entry.is_some_and(|entry| entry.index <= index));
        let turn = known.checked_sub(1).map_or(self.committed, |last| self.turns[last].number);
        Mark { turn }
    }

    /// Returns the mark of the newest committed turn.
    pub fn committed(&self) -> Mark {
        Mark { turn: self.committed }
    }

    /// Returns true if another member leads. Then it is for that member to say that the queue has ended.
    pub fn follows(&self) -> bool {
        matches!(self.leadership, Leadership::Follows { .. })
    }

    /// Called when the facts up to `mark` are committed. Afterwards, `output` holds the receipts and effects that waited
    /// for this. If the queue ends with them, the others are released at the end of this turn.
    pub fn handle_committed(
        &mut self,
        mark: Mark,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        self.committed = self.committed.max(mark.turn);
        let ends = fifo.ends_by(mark.turn);
        while !ends && let Some(turn) = self.turns.pop_front_if(|turn| turn.number <= mark.turn) {
            send(turn.receipts, turn.effects, output);
        }
        fifo.commit_turns(mark.turn, self.queue_ms(now_ms), output, deliver);
    }

    /// Called when this member leads no longer. All turns after `mark` are rolled back. Those that are in no entry can never
    /// be committed, so what waits for them is refused. The others are in doubt, because the next leader may commit their
    /// entries: what waits for them is answered later ([`Self::handle_decided`]).
    pub fn handle_rolled_back(&mut self, mark: Mark, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
        let kept = self.turns.partition_point(|turn| turn.number <= mark.turn);
        let rolled_back = self.turns.split_off(kept);
        let (mut receipts, mut effects) = (Receipts::default(), Vec::new());
        for mut turn in rolled_back {
            match turn.entry {
                Some(at) if !self.has(Mutation::RejectAtRollback) => {
                    // The dead letters are back in the queue.
                    turn.effects.retain(|effect| !matches!(effect, Effect::DeadLetter { .. }));
                    if self.has(Mutation::DropSettledAtRollback) {
                        turn.effects.retain(|effect| !matches!(effect, Effect::Settled { .. }));
                    }
                    if !turn.receipts.is_empty() || !turn.effects.is_empty() {
                        let Turn { receipts, effects, .. } = turn;
                        self.doubts.push_back(Doubt { at, receipts, effects });
                    }
                }
                _ => {
                    turn.receipts.drain().for_each(|receipt| receipts.push_all(receipt));
                    effects.append(&mut turn.effects);
                }
            }
        }
        let queue_ms = self.queue_ms(now_ms);
        fifo.roll_back_turns(mark.turn, queue_ms, output);
        self.end = End::of(fifo);
        refuse(receipts, effects, fifo, queue_ms, output);
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
        let doubts = std::mem::take(&mut self.doubts).into_iter();
        let doubts = doubts.map(|Doubt { receipts, effects, .. }| (receipts, effects));
        let turns = std::mem::take(&mut self.turns).into_iter();
        let turns = turns.map(|Turn { receipts, effects, .. }| (receipts, effects));
        for (mut receipts, effects) in doubts.chain(turns) {
            for receipt in receipts.drain() {
                // These messages are in no committed turn, so no consumer has received them.
                output.receipts.push_all(Receipt { verdict: Verdict::Released, journaled: false, ..receipt });
            }
            waiting.extend(effects.into_iter().map(without_facts));
        }
        output.effects.splice(..0, waiting);
        output.receipts.leave_at_once();
    }

    /// Returns whether a test has activated this mistake.
    fn has(&self, mutation: Mutation) -> bool {
        #[cfg(test)]
        return self.mutation == Some(mutation);
        #[cfg(not(test))]
        {
            let _ = mutation;
            false
        }
    }
}

impl Drive for Replica {
    fn policy(&self) -> FactPolicy {
        FactPolicy::Always
    }

    fn admit(&self, request: &Request, health: Health) -> Admission {
        let Health { log_refuses, memory_is_stuck } = health;
        match (self.leadership, request) {
            _ if self.end == End::Committed => Admission::Now,
            // The settings of a queue are no matter of its leader alone.
            (Leadership::Follows { .. }, Request::Configure(_)) => Admission::Hold,
            (Leadership::Follows { leader }, _) => Admission::Elsewhere(leader),
            (_, Request::Publish(_)) if log_refuses || memory_is_stuck => {
                Admission::Refuse(RejectReason::Unavailable)
            }
            (Leadership::Leads, _) if self.end == End::Decided => Admission::Hold,
            (Leadership::Leads, _) => Admission::Now,
            (Leadership::Leaderless { .. }, request) if self.has_given_up && may_be_refused(request) => {
                Admission::NoLeader
            }
            (Leadership::Alone | Leadership::Leaderless { .. }, _) => Admission::Hold,
        }
    }

    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Awaits {
        let turn = fifo.close_turn();
        self.end = End::of(fifo);
        let answers_early = self.end == End::Decided && self.has(Mutation::AnswerBeforeTheEnd);
        if ends(&output.effects) || answers_early {
            self.release(output);
            if self.end == End::Committed {
                // They would come after the fact that the queue has ended.
                output.facts.clear();
            }
        } else {
            self.wait(turn, output);
        }
        Awaits::Commit(Mark { turn })
    }
}

/// Returns whether a request is refused while there is no leader. What a consumer does with its deliveries waits for the
/// next leader instead: the deliveries are still its own.
fn may_be_refused(request: &Request) -> bool {
    match request {
        Request::Publish(_)
        | Request::Attach(_)
        | Request::Fetch { .. }
        | Request::Browse { .. }
        | Request::Purge { .. }
        | Request::Delete { .. }
        | Request::Report { .. } => true,
        Request::Cancel { .. }
        | Request::Detach { .. }
        | Request::Grant { .. }
        | Request::Resume { .. }
        | Request::Settle { .. }
        | Request::CancelBrowse { .. }
        | Request::Follow { .. }
        | Request::Close { .. }
        | Request::DeadLettered { .. }
        | Request::Use
        | Request::Configure(_) => false,
    }
}

/// Refuses those who wait for facts that will never be committed. A consumer whose settlement is lost ends, because
/// nothing else tells its peer that the deliveries are not settled: they return to the queue.
fn refuse(mut receipts: Receipts, effects: Vec<Effect>, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
    for receipt in receipts.drain() {
        let verdict = Verdict::Rejected(RejectReason::Unavailable);
        output.receipts.push_all(Receipt { verdict, journaled: false, ..receipt });
    }
    for effect in effects {
        match effect {
            Effect::Done { ticket, .. } => {
                let requester = Requester::Ticket(ticket);
                output.effects.push(Effect::Refused { requester, why: Refusal::Unavailable });
            }
            Effect::Settled { consumer, .. } => fifo.lose_consumer(consumer, now_ms, output),
            // A dead letter is back in the queue. No other effect depends on facts.
            _ => {}
        }
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
