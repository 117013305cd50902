//! Commands that are decided and not committed, and those that wait for them.
//!
//! ```text
//!   offer ──> decided on what is committed ──┬─ nothing durable ──────────────────────> committed
//!               ▲     │                      └─ durable ──> the log ──> handle_synced ──> committed
//!               │     └─ claims what another claims ──> the line ─┐
//!               └───────────────────── take_line ─────────────────┘
//! ```
//!
//! A command is decided as if all commands before it had been carried out: it waits if it claims something that one of them
//! claims. So commands that have nothing in common share a sync. A command that changes nothing durable waits for no sync.

use std::collections::VecDeque;
use std::sync::Arc;

use super::claims::{Claimed, Claims};
use super::{Answer, Catalog, CatalogError, Change, Command, QueueIds};

/// Commands that wait for others. One takes some 500 bytes; this is more than a node with 100,000 connections has in the time of
/// a sync. Whoever comes then is refused.
const WAITING_MAX: usize = 100_000;

/// See the module. `W` is what the owner keeps with each command.
#[derive(Debug)]
pub struct Pending<W> {
    /// What `decided` and `waiting` claim.
    claimed: Claimed,
    /// By number.
    decided: VecDeque<Decided<W>>,
    waiting: VecDeque<Waiting<W>>,
    ids: QueueIds,
    /// Of the last decision that the log must have.
    number: u64,
}

#[derive(Debug)]
struct Decided<W> {
    number: u64,
    claims: Claims,
    who: W,
    changes: Arc<[Change]>,
    answer: Answer,
}

#[derive(Debug)]
struct Waiting<W> {
    command: Command,
    claims: Claims,
    who: W,
}

/// What comes of a command that was offered.
#[derive(Debug, PartialEq)]
pub enum Offered<W> {
    /// It waits for others. [`Pending::take_line`] brings it again.
    Waits,
    /// Those of the changes that are durable must be synced. Then [`Pending::handle_synced`] is to be called with the number.
    Decided {
        number: u64,
        changes: Arc<[Change]>,
    },
    Committed(Committed<W>),
}

/// A command that has come to its end. Its changes are to be applied before anything else is offered.
#[derive(Debug, PartialEq)]
pub struct Committed<W> {
    pub who: W,
    pub changes: Arc<[Change]>,
    pub result: Result<Answer, CatalogError>,
}

impl<W> Pending<W> {
    /// Nothing is pending on top of this catalog.
    pub fn new(catalog: &Catalog) -> Self {
        Self {
            claimed: Claimed::default(),
            decided: VecDeque::new(),
            waiting: VecDeque::new(),
            ids: catalog.queue_ids(),
            number: 0,
        }
    }

    /// Decides a command, unless it must wait. `catalog` is what is committed.
    pub fn offer(&mut self, catalog: &Catalog, command: Command, who: W) -> Offered<W> {
        let mut claims = Claims::of(&command, catalog);
        if self.claimed.blocks(&claims) {
            return self.wait(catalog, command, claims, who);
        }
        // Only commands that make nothing reach beyond what they name: none that has to wait here has taken an id.
        let decision = match catalog.decide(command.clone(), &mut self.ids) {
            Ok(decision) => decision,
            Err(error) => {
                return Offered::Committed(Committed { who, changes: [].into(), result: Err(error) });
            }
        };
        let changes: Arc<[Change]> = decision.changes.into();
        claims.add_changes(&changes, catalog);
        if self.claimed.blocks(&claims) {
            return self.wait(catalog, command, claims, who);
        }
        if !changes.iter().any(|change| catalog.is_durable(change)) {
            return Offered::Committed(self.commit(who, changes, decision.answer));
        }
        self.number += 1;
        self.claimed.hold(&claims);
        let (number, answer) = (self.number, decision.answer);
        self.decided.push_back(Decided { number, claims, who, changes: changes.clone(), answer });
        Offered::Decided { number, changes }
    }

    fn wait(&mut self, catalog: &Catalog, command: Command, mut claims: Claims, who: W) -> Offered<W> {
        // Each queue comes to its end once, and nobody would ask again.
        if self.waiting.len() >= WAITING_MAX && !matches!(command, Command::ForgetQueue { .. }) {
            let reason = format!("{WAITING_MAX} changes wait for the log");
            let result = Err(CatalogError::Busy { reason });
            return Offered::Committed(Committed { who, changes: [].into(), result });
        }
        claims.add_waiting(&command, catalog);
        self.claimed.hold(&claims);
        self.waiting.push_back(Waiting { command, claims, who });
        Offered::Waits
    }

    fn commit(&mut self, who: W, changes: Arc<[Change]>, answer: Answer) -> Committed<W> {
        for change in changes.iter() {
            if let Change::QueueForgotten { queue } = change {
                self.ids.give_back(*queue);
            }
        }
        Committed { who, changes, result: Ok(answer) }
    }

    /// The log has synced the decisions up to this number. Returns the next of them; to be called until there is none. Then
    /// what [`Self::take_line`] returns is to be offered again.
    pub fn handle_synced(&mut self, number: u64) -> Option<Committed<W>> {
        let Decided { claims, who, changes, answer, .. } =
            self.decided.pop_front_if(|decided| decided.number <= number)?;
        self.claimed.release(&claims);
        Some(self.commit(who, changes, answer))
    }

    /// Takes the commands that wait, in their order.
    pub fn take_line(&mut self) -> Vec<(Command, W)> {
        let line = std::mem::take(&mut self.waiting).into_iter();
        line.map(|Waiting { command, claims, who }| {
            self.claimed.release(&claims);
            (command, who)
        })
        .collect()
    }

    /// The changes that are decided and not committed, in their order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.decided.iter().flat_map(|decided| decided.changes.iter())
    }
}

#[cfg(test)]
mod tests;
