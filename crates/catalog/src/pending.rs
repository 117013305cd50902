//! Commands that are decided but not committed, and commands that wait for them.
//!
//! ```text
//!   offer ──> decided on the committed state ──> an entry ──> handle_committed ──> committed
//!               ▲     │                └─ refused, or changes nothing ──────────────^
//!               │     └─ a claim conflicts ──> waiting list ─┐
//!               └───────────────── take_line ────────────────┘
//! ```
//!
//! A command is decided as if all commands before it had been carried out. It waits if one of its claims conflicts with
//! a claim of one of them. So commands that do not conflict share a sync. A command that changes nothing waits for none.
//!
//! There is one order of changes: that of the entries in which they are decided, whether they are durable or not (docs/decisions/0053).

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use super::claims::{Claimed, Claims};
use super::{Answer, Catalog, CatalogError, Change, Command, Mutation, QueueIds};
use crate::ids::{NodeNumber, QueueId};

/// The maximum number of waiting commands. One takes some 500 bytes. A node with 100,000 connections does not send as
/// many in the time of a sync. At the bound, new commands are refused.
const WAITING_MAX: usize = 100_000;

/// The commands that are pending; see the module. `W` is what the caller keeps with each command.
#[derive(Debug)]
pub struct Pending<W> {
    /// The claims of `decided` and `waiting`.
    claimed: Claimed,
    /// The decisions that are not committed, in the order of their entries.
    decided: VecDeque<Decided<W>>,
    waiting: VecDeque<Waiting<W>>,
    /// The queues whose end ([`Command::ForgetQueue`]) is among `decided` or `waiting`.
    ends: HashSet<QueueId>,
    ids: QueueIds,
    /// The version of a catalog that has applied everything that was committed, and nothing else.
    version: u64,
}

#[derive(Debug)]
struct Decided<W> {
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

/// What the declaration of a queue notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The index of the next entry.
    pub index: u64,
    /// The node that has asked: it has what it declares.
    pub node: NodeNumber,
}

/// The result of offering a command.
#[derive(Debug, PartialEq)]
pub enum Offered<W> {
    /// The command waits for others. [`Pending::take_line`] returns it again.
    Waits,
    /// The end of the queue is already decided, or waits. The command is dropped, and nobody answers it. Whoever has proposed it
    /// hears of the first proposal, or proposes it again later.
    Repeated,
    /// The caller makes the entry. When it is committed, the caller calls [`Pending::handle_committed`].
    Decided { changes: Arc<[Change]>, answer: Answer },
    /// The command was refused, or changes nothing. It needs no entry.
    Ended { who: W, result: Result<Answer, CatalogError> },
}

/// A command whose entry is committed. Every shard applies the changes in the order of the entries, and the caller applies them before it
/// offers another command.
#[derive(Debug, PartialEq)]
pub struct Committed<W> {
    pub who: W,
    pub changes: Arc<[Change]>,
    pub answer: Answer,
}

impl<W> Pending<W> {
    /// Creates the state for this catalog, with nothing pending.
    pub fn new(catalog: &Catalog) -> Self {
        Self {
            claimed: Claimed::default(),
            decided: VecDeque::new(),
            waiting: VecDeque::new(),
            ends: HashSet::new(),
            ids: catalog.queue_ids(),
            version: catalog.version(),
        }
    }

    /// Decides a command, unless it must wait. `catalog` is the committed state.
    pub fn offer(&mut self, catalog: &Catalog, command: Command, who: W, at: At) -> Offered<W> {
        debug_assert_eq!(catalog.version(), self.version, "all that was committed is applied, in its order");
        let ends = match command {
            Command::ForgetQueue { queue } => Some(queue),
            _ => None,
        };
        // A repetition conflicts with the first proposal. If it waited, it would claim the topology of the virtual host.
        if ends.is_some_and(|queue| self.ends.contains(&queue)) {
            return Offered::Repeated;
        }
        let mut claims = Claims::of(&command, catalog);
        if self.blocks(catalog, &claims) {
            return self.wait(catalog, command, claims, who);
        }
        // Only commands that create nothing have claims beyond what they name. So a command that has to wait
        // here has taken no queue id.
        let mut decision = match catalog.decide(command.clone(), &mut self.ids) {
            Ok(decision) => decision,
            Err(error) => return Offered::Ended { who, result: Err(error) },
        };
        decision.declare_at(at, catalog);
        let changes: Arc<[Change]> = decision.changes.into();
        claims.add_changes(&changes, catalog);
        if self.blocks(catalog, &claims) {
            return self.wait(catalog, command, claims, who);
        }
        let answer = decision.answer;
        if changes.is_empty() {
            return Offered::Ended { who, result: Ok(answer) };
        }
        self.claimed.hold(&claims);
        self.ends.extend(ends);
        self.decided.push_back(Decided { claims, who, changes: changes.clone(), answer: answer.clone() });
        Offered::Decided { changes, answer }
    }

    /// Returns true if a command with these claims must wait.
    fn blocks(&self, catalog: &Catalog, claims: &Claims) -> bool {
        self.claimed.blocks(claims) && !catalog.has(Mutation::IgnoreClaims)
    }

    fn wait(&mut self, catalog: &Catalog, command: Command, mut claims: Claims, who: W) -> Offered<W> {
        // The command that forgets a queue is accepted even then: the queue has ended, and its memory is free only afterwards.
        // There is at most one such command for each queue.
        if let Command::ForgetQueue { queue } = command {
            self.ends.insert(queue);
        } else if self.waiting.len() >= WAITING_MAX {
            let reason = format!("too many changes wait for the log: the limit is {WAITING_MAX}");
            return Offered::Ended { who, result: Err(CatalogError::Busy { reason }) };
        }
        claims.add_waiting(&command, catalog);
        if catalog.has(Mutation::OvertakeWaiting) {
            claims = Claims::default();
        }
        self.claimed.hold(&claims);
        self.waiting.push_back(Waiting { command, claims, who });
        Offered::Waits
    }

    /// Called once for each decision whose entry is committed, in their order. Returns the decision. After the last one, the
    /// caller offers the commands of [`Self::take_line`] again.
    pub fn handle_committed(&mut self) -> Option<Committed<W>> {
        let Decided { claims, who, changes, answer } = self.decided.pop_front()?;
        self.claimed.release(&claims);
        self.version += changes.len() as u64;
        for change in changes.iter() {
            if let Change::QueueForgotten { queue } = change {
                self.ids.give_back(*queue);
                self.ends.remove(queue);
            }
        }
        Some(Committed { who, changes, answer })
    }

    /// Takes the waiting commands, in their order.
    pub fn take_line(&mut self) -> Vec<(Command, W)> {
        let line = std::mem::take(&mut self.waiting).into_iter();
        line.map(|Waiting { command, claims, who }| {
            self.claimed.release(&claims);
            if let Command::ForgetQueue { queue } = &command {
                self.ends.remove(queue);
            }
            (command, who)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
