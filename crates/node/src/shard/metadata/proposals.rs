//! The proposals of this node for which no answer has come. On the node shard of a node in a cluster.
//!
//! ```text
//!   propose ──> open ──> the member here leads: decided here ──────────────┬──> the entry is applied here ──> answered
//!                 │  └─> another node leads: sent, and sent again to each  ┤
//!                 │      later leader, under the same number ──────────────┴──> refused, or nothing to change ──> answered
//!                 └────> no leader for 5 s: unavailable, or the outcome is unknown if it was sent
//! ```
//!
//! What follows from something that has happened, for example that a queue has ended, is never given up: it is proposed until it is applied.

use std::collections::{BTreeMap, HashSet};

use broker::mail::Proposal;
use catalog::ids::{NodeNumber, QueueId};
use catalog::{Answer, Asker, CatalogError, Command};
use queue::Ticket;
use replica::Role;

use crate::peer::{Answered, PeerMessage, Propose};
use crate::shard::peers::{RETRY_MS, lanes};
use crate::shard::{Mutation, Shard};

/// After this time without an answer the asker is told that there is none, in milliseconds. Clients wait longer for theirs.
const PATIENCE_MS: u64 = 5000;

/// The most open proposals of a node. The catalog remembers as many numbers for each node.
const OPEN_MAX: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Proposals {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// The queues whose end is open.
    ends: HashSet<QueueId>,
    /// The number of the start of this node, until it is decided. Nothing else is proposed before: the start would end what this node has declared.
    starting: Option<u64>,
    /// How many open proposals have a result that waits for an entry.
    results: usize,
}

impl Default for Proposals {
    fn default() -> Self {
        // 0 is no number.
        Self { next: 1, open: BTreeMap::new(), ends: HashSet::new(), starting: None, results: 0 }
    }
}

#[derive(Debug)]
struct Open {
    command: Command,
    asker: Asker,
    since_ms: u64,
    /// True if a node that decides changes may have it.
    is_sent: bool,
    /// The answer, which waits until this node has applied the entries up to an index.
    result: Option<(u64, Result<Answer, CatalogError>)>,
}

/// Returns true if the command follows from something that has happened.
fn is_consequence(command: &Command) -> bool {
    matches!(command, Command::ForgetQueue { .. } | Command::StartNode { .. })
}

impl Proposals {
    /// Called when the answer to this number is known. Returns the ticket of the asker, if it has not been told already that there is no
    /// answer.
    pub(super) fn close(&mut self, number: u64) -> Option<Option<Ticket>> {
        let open = self.open.remove(&number)?;
        self.note_closed(number, &open);
        Some(open.asker.ticket)
    }

    fn note_closed(&mut self, number: u64, open: &Open) {
        if let Command::ForgetQueue { queue } = open.command {
            self.ends.remove(&queue);
        }
        self.starting.take_if(|starting| *starting == number);
        self.results -= usize::from(open.result.is_some());
    }

    /// Closes the proposals for which `is_over` returns true.
    fn close_if(&mut self, mut is_over: impl FnMut(u64, &mut Open) -> bool) -> Vec<Open> {
        let closed: Vec<_> = self.open.extract_if(.., |number, open| is_over(*number, open)).collect();
        closed.iter().for_each(|(number, open)| self.note_closed(*number, open));
        closed.into_iter().map(|(_, open)| open).collect()
    }

    /// Returns true if somebody waits for an answer.
    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }
}

impl Shard {
    /// Returns true if the node is in a cluster: others may decide what is proposed here.
    pub(super) fn is_in_cluster(&self) -> bool {
        let joins = self.metadata.decider.as_ref().is_some_and(|decider| decider.hosted.is_none());
        joins || !self.metadata.catalog.nodes().is_empty()
    }

    /// Called once, on the deciding shard of a node that is in a cluster with others, or about to join one: its start is decided by all.
    pub(crate) fn begin_in_cluster(&mut self) {
        let (node, origin) = (self.here.number, self.here.origin);
        let command = Command::StartNode { node, origin };
        self.open_proposal(Proposal { ticket: None, by: None, from: self.here.id, command });
        self.tend_catalog_soon();
    }

    /// Proposes a command of this node to whoever decides.
    pub(super) fn open_proposal(&mut self, proposal: Proposal) {
        let Proposal { ticket, by, from, command } = proposal;
        let reuses = self.has(Mutation::ReuseNumbers);
        let proposals = &mut self.metadata.proposals;
        if let Command::ForgetQueue { queue } = command
            && !proposals.ends.insert(queue)
        {
            return;
        }
        if proposals.open.len() >= OPEN_MAX && !is_consequence(&command) {
            let reason = format!("too many changes wait for the cluster: the limit is {OPEN_MAX}");
            return self.take_answer(0, ticket, Err(CatalogError::Busy { reason }), false);
        }
        if reuses && proposals.open.is_empty() {
            proposals.next = proposals.next.saturating_sub(1).max(1);
        }
        let number = proposals.next;
        proposals.next += 1;
        if matches!(command, Command::StartNode { .. }) {
            proposals.starting = Some(number);
        }
        let asker = Asker { origin: self.here.origin, shard: from, number, low: 0, ticket, by };
        let open = Open { command, asker, since_ms: self.here.now_ms, is_sent: false, result: None };
        proposals.open.insert(number, open);
        self.send_proposal(number);
        self.peers.retry_at(self.here.now_ms + RETRY_MS);
    }

    /// Gives a proposal to whoever decides, if somebody does.
    fn send_proposal(&mut self, number: u64) {
        let (leader, term, may_decide) =
            (self.leader_of_catalog(), self.term_of_catalog(), self.may_decide());
        let proposals = &mut self.metadata.proposals;
        let Some((low, _)) = proposals.open.first_key_value() else { return };
        let (low, starting) = (*low, proposals.starting);
        let Some(open) = proposals.open.get_mut(&number) else { return };
        if open.result.is_some() || starting.is_some_and(|starting| starting != number) {
            return;
        }
        let is_here = leader == Some(self.here.number);
        let can_be_sent =
            if is_here { may_decide } else { leader.is_some_and(|node| self.peers.has_link(node)) };
        let Some(leader) = leader.filter(|_| can_be_sent) else { return };
        (open.asker.low, open.is_sent) = (low, true);
        let (command, asker) = (open.command.clone(), open.asker.clone());
        if is_here {
            return self.offer(command, asker);
        }
        let Asker { origin, shard, by, .. } = asker;
        let propose = Propose { term, boot: origin.boot, number, low, shard, by, command };
        self.peers.send(leader, lanes::CATALOG, &PeerMessage::Propose(propose));
    }

    /// Returns the term of the catalog's group, as far as this node knows.
    fn term_of_catalog(&self) -> u64 {
        let hosted = self.metadata.decider.as_ref().and_then(|decider| decider.hosted.as_ref());
        hosted.map_or(0, |hosted| hosted.standing().term)
    }

    /// Gives all open proposals to whoever decides. Called when somebody else does, or can be reached again.
    pub(super) fn send_proposals(&mut self) {
        let numbers: Vec<u64> = self.metadata.proposals.open.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.send_proposal(number));
        self.ask_leader_again();
    }

    /// Returns the index of the last entry of the catalog that this shard has applied. For tests.
    pub fn catalog_index(&self) -> u64 {
        self.metadata.applied
    }

    /// Returns the node that decides changes of the catalog, as far as the deciding shard of this node knows. For tests.
    pub fn catalog_leader(&self) -> Option<NodeNumber> {
        self.leader_of_catalog()
    }

    /// Returns the node that decides changes, as far as this node knows. It may be this one.
    pub(super) fn leader_of_catalog(&self) -> Option<NodeNumber> {
        let decider = self.metadata.decider.as_ref()?;
        match decider.hosted.as_ref()?.standing().role {
            Role::Leader => decider.leads.then_some(self.here.number),
            Role::Follower { leader } => leader.map(|leader| leader.node),
            Role::Candidate => None,
        }
    }

    /// Handles a proposal of another node.
    pub(in crate::shard) fn handle_proposal_of(&mut self, from: NodeNumber, propose: Propose) {
        let Propose { term, boot, number, low, shard, by, command } = propose;
        // What was sent to a leader of an earlier term may have been answered then.
        if term != self.term_of_catalog() || !self.may_decide() {
            // The sender sends it again.
            return;
        }
        let Some(known) = self.metadata.catalog.nodes().get(&from) else { return };
        let origin = catalog::ids::Origin { node: known.id(), boot };
        self.offer(command, Asker { origin, shard, number, low, ticket: None, by });
        self.send_answers();
    }

    /// Tells another node the answer to a proposal that makes no entry.
    pub(super) fn answer_node(&mut self, asker: &Asker, result: Result<Answer, CatalogError>) {
        let Some(node) = self.metadata.catalog.number_of(asker.origin.node) else { return };
        let (boot, number, index) = (asker.origin.boot, asker.number, self.metadata.applied);
        let term = self.term_of_catalog();
        self.peers.send(
            node,
            lanes::CATALOG,
            &PeerMessage::Answered(Answered { term, boot, number, index, result }),
        );
    }

    /// Handles the answer to a proposal of this node that makes no entry. One of an earlier term is dropped: a later leader has the proposal by
    /// now, and may carry it out.
    pub(in crate::shard) fn handle_answered(&mut self, answered: Answered) {
        let Answered { term, boot, number, index, result } = answered;
        if boot != self.here.origin.boot || term != self.term_of_catalog() {
            return;
        }
        self.take_result(number, index, result);
        self.answer_applied();
        self.send_answers();
    }

    /// Keeps the answer to a proposal until the entries up to `index` are applied here. What follows from something that has happened is
    /// proposed until it is carried out.
    pub(super) fn take_result(&mut self, number: u64, index: u64, result: Result<Answer, CatalogError>) {
        let proposals = &mut self.metadata.proposals;
        let Some(open) = proposals.open.get_mut(&number) else { return };
        if open.result.is_none() && !(is_consequence(&open.command) && result.is_err()) {
            open.result = Some((index, result));
            proposals.results += 1;
        }
    }

    /// Gives the answers that have waited for entries which are applied now.
    pub(super) fn answer_applied(&mut self) {
        let applied = self.metadata.applied;
        if self.metadata.proposals.results == 0 {
            return;
        }
        let is_over = |_, open: &mut Open| open.result.as_ref().is_some_and(|(index, _)| *index <= applied);
        for Open { asker, result, .. } in self.metadata.proposals.close_if(is_over) {
            if let Some((index, result)) = result {
                self.take_answer(index, asker.ticket, result, false);
            }
        }
    }

    /// Called when the catalog was replaced by that of another node. Proposals that it has are answered: their entries never come.
    pub(super) fn answer_installed(&mut self, index: u64) {
        let (catalog, origin) = (&self.metadata.catalog, self.here.origin);
        let is_known = |number, _: &mut Open| catalog.has_proposal(origin, number);
        for Open { command, asker, .. } in self.metadata.proposals.close_if(is_known) {
            let answer = match command {
                Command::DeclareQueue(declare) => {
                    match self.metadata.catalog.listed_queue(&declare.vhost, &declare.name) {
                        Some(record) => Ok(Answer::Queue { record, created: true }),
                        None => Err(CatalogError::no_queue(&declare.vhost, &declare.name)),
                    }
                }
                Command::SetPolicy(_) | Command::SetParameter { .. } | Command::Account(_) => {
                    Ok(Answer::Set { created: true })
                }
                _ => Ok(Answer::Done { changed: true }),
            };
            self.take_answer(index, asker.ticket, answer, false);
        }
    }

    /// Gives up the proposals that have waited too long, and sends the others again from time to time: the answer may have been lost.
    pub(super) fn proposal_timeouts(&mut self) {
        let now_ms = self.here.now_ms;
        let is_late = |open: &Open| open.since_ms + PATIENCE_MS <= now_ms;
        let late = self.metadata.proposals.close_if(|_, open| {
            if is_late(open) && is_consequence(&open.command) {
                open.since_ms = now_ms;
                return false;
            }
            is_late(open)
        });
        for Open { asker, is_sent, result, .. } in late {
            if let Some((_, result)) = result {
                // It is certain, although this node does not know yet why.
                self.take_answer(0, asker.ticket, result, false);
                continue;
            }
            let missing = self.missing_nodes();
            let error = match is_sent && !self.has(Mutation::RefuseSent) {
                false => CatalogError::Unavailable {
                    reason: format!(
                        "no node of the cluster can decide changes now{missing}; nothing was changed"
                    ),
                },
                true => CatalogError::OutcomeUnknown {
                    reason: format!(
                        "the change was sent to the cluster, and no answer came{missing}; it may be carried out"
                    ),
                },
            };
            self.take_answer(0, asker.ticket, Err(error), false);
        }
        // A leader drops a proposal that arrives before the first entry of its term is committed, and nothing says when it is.
        self.send_proposals();
        self.send_answers();
    }

    /// Returns which nodes cannot be reached, as a part of a sentence.
    fn missing_nodes(&self) -> String {
        let nodes = self.metadata.catalog.nodes().iter();
        let missing =
            nodes.filter(|(number, _)| **number != self.here.number && !self.peers.has_link(**number));
        let missing: Vec<_> = missing.map(|(_, node)| format!("'{}'", node.name)).collect();
        match missing.is_empty() {
            true => String::new(),
            false => format!(", and this node cannot reach {}", missing.join(", ")),
        }
    }
}
