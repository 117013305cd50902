//! What was not found here, although another node may have it. On the node shard.
//!
//! ```text
//!   a gate does not find a queue ──Miss──> asks the leader how far it has come ──> applies that ──CaughtUp──> the gate looks again
//! ```
//!
//! Answers wait for the nodes in sight only, and not for ever ([`super::sight`]). So this node may lack what a client was told on another
//! node. Before it says that something does not exist, it asks the leader of the catalog's group how far it has come, and applies that. One
//! question is in flight at a time. What is missed meanwhile shares the next one, because the answer to an earlier question may be too old
//! for it.

use broker::ids::shard_of;
use broker::mail::Mail;
use catalog::ids::NodeNumber;
use queue::Ticket;

use crate::peer::PeerMessage;
use crate::shard::peers::lanes;
use crate::shard::{Mutation, Shard};

/// A miss waits for the leader for this time at most, in milliseconds. Then the node goes on with what it has.
const LEADER_MS: u64 = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Misses {
    /// The number of the last question.
    asked: u64,
    /// The question in flight, with what shares it.
    question: Option<Question>,
    /// What is missed and shares the next question, oldest first.
    waiting: Vec<Miss>,
    /// What waits until the entries up to an index are applied here.
    applying: Vec<(u64, Vec<Miss>)>,
}

#[derive(Debug)]
struct Question {
    number: u64,
    leader: NodeNumber,
    misses: Vec<Miss>,
}

#[derive(Clone, Copy, Debug)]
struct Miss {
    ticket: Ticket,
    since_ms: u64,
}

impl Misses {
    fn all(&mut self) -> impl Iterator<Item = &mut Vec<Miss>> {
        let of_question = self.question.iter_mut().map(|question| &mut question.misses);
        let applying = self.applying.iter_mut().map(|(_, misses)| misses);
        of_question.chain([&mut self.waiting]).chain(applying)
    }

    /// Returns when [`Shard::miss_timeouts`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let of_question = self.question.iter().flat_map(|question| &question.misses);
        let applying = self.applying.iter().flat_map(|(_, misses)| misses);
        let all = of_question.chain(&self.waiting).chain(applying);
        all.map(|miss| miss.since_ms + LEADER_MS).min()
    }
}

impl Shard {
    /// Called on the node shard when something was not found.
    pub(in crate::shard) fn handle_miss(&mut self, ticket: Ticket) {
        self.metadata.misses.waiting.push(Miss { ticket, since_ms: self.here.now_ms });
        self.ask_leader();
    }

    /// Asks the leader how far it has come, if something is missed and no question is in flight.
    fn ask_leader(&mut self) {
        let misses = &self.metadata.misses;
        if misses.question.is_some() || misses.waiting.is_empty() {
            return;
        }
        let leader = self.leader_of_catalog();
        if self.has(Mutation::MissAtOnce) {
            return self.reach(0);
        }
        match leader {
            Some(leader) if leader == self.here.number => match self.committed_as_leader() {
                Some(index) => self.reach(index),
                // It has lost the others.
                None => self.reach(0),
            },
            Some(leader) if self.peers.has_link(leader) => {
                let misses = &mut self.metadata.misses;
                misses.asked += 1;
                let number = misses.asked;
                let shared = std::mem::take(&mut misses.waiting);
                misses.question = Some(Question { number, leader, misses: shared });
                let boot = self.here.origin.boot;
                self.peers.send(leader, lanes::CATALOG, &PeerMessage::HowFar { boot, number });
            }
            _ if self.sees_majority() => {}
            _ => self.reach(0),
        }
    }

    /// Called when another node may lead now, or can be reached again.
    pub(super) fn ask_leader_again(&mut self) {
        let leader = self.leader_of_catalog();
        let misses = &mut self.metadata.misses;
        if let Some(mut question) = misses.question.take_if(|question| Some(question.leader) != leader) {
            question.misses.append(&mut misses.waiting);
            misses.waiting = question.misses;
        }
        self.ask_leader();
    }

    /// Lets what is missed wait for the entries up to `index`.
    fn reach(&mut self, index: u64) {
        let shared = std::mem::take(&mut self.metadata.misses.waiting);
        self.metadata.misses.applying.push((index, shared));
        self.end_misses();
    }

    /// Answers another node that wants to know how far this one has come. Only who may decide knows all that was ever committed.
    pub(in crate::shard) fn handle_how_far(&mut self, from: NodeNumber, boot: u32, number: u64) {
        if let Some(index) = self.committed_as_leader() {
            self.peers.send(from, lanes::CATALOG, &PeerMessage::ThisFar { boot, number, index });
        }
    }

    /// Handles the answer of the leader.
    pub(in crate::shard) fn handle_this_far(&mut self, boot: u32, number: u64, index: u64) {
        let misses = &mut self.metadata.misses;
        let is_mine = boot == self.here.origin.boot;
        if let Some(question) = misses.question.take_if(|question| is_mine && question.number == number) {
            misses.applying.push((index, question.misses));
            self.end_misses();
            self.ask_leader();
        }
    }

    /// Looks again for what was missed, if this node has the entries up to the index of the leader.
    pub(super) fn end_misses(&mut self) {
        if self.metadata.misses.applying.is_empty() {
            return;
        }
        let here = self.applied_here();
        let reached: Vec<Miss> = self
            .metadata
            .misses
            .applying
            .extract_if(.., |(index, _)| *index <= here)
            .flat_map(|(_, m)| m)
            .collect();
        self.tell_caught_up(reached);
    }

    fn tell_caught_up(&mut self, misses: Vec<Miss>) {
        for Miss { ticket, .. } in misses {
            self.mail.send(shard_of(ticket.0), Mail::CaughtUp(ticket));
        }
    }

    /// Goes on without the leader, if that has taken too long.
    pub(in crate::shard) fn miss_timeouts(&mut self) {
        let now_ms = self.here.now_ms;
        if self.metadata.misses.next_deadline().is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        let is_late = |miss: &mut Miss| miss.since_ms + LEADER_MS <= now_ms;
        let misses = &mut self.metadata.misses;
        let late: Vec<Miss> =
            misses.all().flat_map(|some| some.extract_if(.., is_late).collect::<Vec<_>>()).collect();
        misses.question.take_if(|question| question.misses.is_empty());
        misses.applying.retain(|(_, misses)| !misses.is_empty());
        self.tell_caught_up(late);
        self.ask_leader();
    }
}
