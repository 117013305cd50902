//! The turn: handles mail, applies requests and carries out effects until nothing is left to move.

use std::sync::Arc;

use broker::ids::NODE_SHARD;
use broker::mail::{Mail, Proposal, TicketOwner};
use catalog::ids::ShardId;
use queue::Ticket;

use super::Shard;
use super::receipts::Receipt;

/// The most rounds of one turn. Work that is left waits for the next turn, so that sockets get their share of
/// the time.
const ROUNDS_MAX: usize = 64;

impl Shard {
    /// Takes in mail from another shard.
    pub fn handle_mail(&mut self, mail: Vec<Mail>) {
        self.mail.receive(mail);
    }

    /// Returns the mail for another shard.
    pub fn poll_mail(&mut self, to: ShardId) -> Vec<Mail> {
        self.mail.poll(to)
    }

    /// Moves everything that can be moved. Returns true if work is left for another turn.
    pub fn turn(&mut self) -> bool {
        let is_left = self.move_all();
        self.rows.end_turn();
        is_left
    }

    /// Called at the end of a turn of the shard. Turns of a quorum queue that made no facts need no entry: they are committed with the last
    /// one.
    pub fn close_records(&mut self) {
        self.propose_entries();
        self.add_kept_facts();
    }

    fn move_all(&mut self) -> bool {
        self.search();
        self.connections.look_at_unread();
        self.apply_left();
        self.answer_waiting();
        self.resume_reading();
        // Sends receipts that waited for memory.
        self.send_receipts();
        for _ in 0..ROUNDS_MAX {
            if self.mail.is_empty() {
                self.walk();
                self.flush_gates();
                if self.mail.is_empty() {
                    return self.has_work_left();
                }
            }
            let mut inbox = self.mail.take_inbox();
            for mail in inbox.drain(..) {
                self.handle_one(mail);
            }
            self.mail.give_inbox(inbox);
            self.dispatch_post();
            self.tell_all();
            self.send_receipts();
        }
        // The list of dirty connections is taken after this turn. So the last round's output must be flushed
        // now.
        self.flush_gates();
        !self.mail.is_empty() || self.has_work_left()
    }

    /// Returns true if this turn has left work to the next.
    fn has_work_left(&self) -> bool {
        self.can_apply_left()
            || self.streams.has_unfinished()
            || self.is_walking()
            || self.connections.is_searching()
    }

    /// Flushes each dirty gate. That may mark further gates as dirty.
    fn flush_gates(&mut self) {
        if !self.is_dirty() {
            return;
        }
        let mut gates = self.gates();
        let mut at = 0;
        while let Some(key) = gates.dirty(at) {
            gates.with(key, |gate, cx| gate.flush(cx));
            at += 1;
        }
    }

    /// Handles what gates and machines have posted for this shard, and sends the rest to other shards. What
    /// is posted meanwhile waits for the next round.
    fn dispatch_post(&mut self) {
        let post = &mut self.mail.post;
        let (direct, proposals) = (std::mem::take(&mut post.direct), std::mem::take(&mut post.proposals));
        let (remembered, unsure) = (std::mem::take(&mut post.remembered), std::mem::take(&mut post.unsure));
        self.dispatch_requests();
        for (to, vhost, request) in direct {
            self.dispatch_direct(to, vhost, request);
        }
        for (ticket, by, command) in proposals {
            let from = self.here.id;
            let by = by.or_else(|| self.asker(ticket));
            self.propose_change(Proposal { ticket, by, from, command });
        }
        for (ticket, login) in unsure {
            self.begin_catching_up(ticket, login);
        }
        for (exchange, messages) in remembered {
            self.do_or_send(NODE_SHARD, Mail::Remember { exchange, messages });
        }
        if !self.mail.post.notices.is_idle() {
            self.publish_notices();
        }
    }

    /// Returns the user of the connection that gets the answer to a ticket, if events are on: they name the user.
    fn asker(&self, ticket: Option<Ticket>) -> Option<Arc<str>> {
        self.metadata.settings().event_vhost()?;
        match self.connections.ticket_owner(ticket?)? {
            TicketOwner::Gate(key) => {
                let who = self.connections.get(key)?.gate.peer().identity.as_ref()?;
                Some(who.user.clone())
            }
            TicketOwner::Seat(_) | TicketOwner::AdminApi | TicketOwner::Ended(_) => None,
        }
    }

    /// Handles mail for this shard at once. Sends other mail.
    pub(super) fn do_or_send(&mut self, to: ShardId, mail: Mail) {
        match to == self.here.id {
            true => self.handle_one(mail),
            false => self.mail.send(to, mail),
        }
    }

    fn handle_one(&mut self, mail: Mail) {
        match mail {
            Mail::Requests(mut requests) => {
                let mut rest = requests.drain(..);
                while let Some(&(queue, _)) = rest.as_slice().first() {
                    self.apply_or_leave(queue, &mut rest);
                }
            }
            Mail::Direct { to, vhost, request } => self.handle_direct(to, &vhost, request),
            Mail::Effect { queue, effect } => self.handle_effect(queue, effect),
            Mail::Receipts { queue, publisher, first, last, verdict } => {
                self.handle_receipt(Receipt { queue, publisher, first, last, verdict });
            }
            Mail::Propose(proposal) => self.propose_change(proposal),
            Mail::Entry(entry) => {
                self.handle_entry(&entry);
                self.send_answers();
            }
            Mail::Installed { catalog, index } => self.handle_installed(&catalog, index),
            Mail::Place { queue, home } => self.place(queue, home),
            Mail::Placed { version, queue, home } => self.handle_placed(version, queue, home),
            Mail::Applied { index, by } => self.handle_applied(index, by),
            Mail::Founded { queues } => self.handle_founded(&queues),
            Mail::Remember { exchange, messages } => self.handle_remember(&exchange, &messages),
            Mail::Shed(budget) => _ = self.shed(budget),
            Mail::Miss(ticket) => self.handle_miss(ticket),
            Mail::CaughtUp(ticket) => self.handle_caught_up(ticket),
            Mail::LookOf { node, look } => self.handle_look_of(node, look),
            Mail::Answer { ticket, result } => self.handle_answer(ticket, result),
            Mail::LogFull { bytes, oldest, newest, on_reserve } => {
                self.handle_log_full(bytes, oldest, newest, on_reserve);
            }
            Mail::Evacuate { file } => self.handle_evacuate(file),
            Mail::Evacuated { file, bytes } => self.handle_evacuated(file, bytes),
        }
    }
}
