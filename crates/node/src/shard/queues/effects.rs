//! Sends the effects of queues and streams to their recipients.

use std::vec;

use broker::dead_letter;
use broker::ids::{shard_of, unassigned};
use broker::mail::{
    ConsumerAddress, DeadLetterWait, Mail, PublisherAddress, Recipient, SeatMail, TicketOwner, recipient,
};
use catalog::categories::{PEER, QUEUE, RA};
use catalog::ids::QueueId;
use catalog::{Answer, CatalogError, Command, QueueRecord, RouteTarget};
use queue::{
    Arrival, ConsumerId, Effect, Fifo, GoneReason, LEAVING_MAX, Publish, Refusal, Request, Requester, Ticket,
};

use super::WaitingLetters;
use super::ended::Forgetting;
use crate::shard::slot::QueueSlot;
use crate::shard::{Mutation, Shard};

/// The most queues that have ended while their dead letters wait for routes. Each has 8 MiB at most.
const GONE_QUEUES_MAX: usize = 8;

impl Shard {
    /// Called when a queue has ended: a quorum queue when that is committed in its group, others when they decide so. Whoever asked for
    /// its deletion, has cancelled its last consumer, or waits for a settlement, is answered only after the catalog has forgotten the
    /// queue. `effects` are empty if it had ended before a restart.
    pub(in crate::shard) fn delete(&mut self, queue: QueueId, effects: &mut Vec<Effect>) {
        let (mut answers, mut cancelled) = (Vec::new(), None);
        let ends_now = !effects.is_empty();
        for effect in effects.drain(..) {
            match effect {
                Effect::Deleted { .. } => {}
                // A cancelled consumer with unsettled deliveries has two such effects.
                effect @ Effect::Gone { consumer, reason: GoneReason::QueueDeleted }
                    if cancelled == Some(consumer) =>
                {
                    answers.push(Mail::Effect { queue, effect })
                }
                effect @ (Effect::Done { .. }
                | Effect::Settled { .. }
                | Effect::Gone { reason: GoneReason::Cancelled, .. }) => {
                    if let Effect::Gone { consumer, .. } = effect {
                        cancelled = Some(consumer);
                    }
                    answers.push(Mail::Effect { queue, effect })
                }
                effect => self.carry_out(queue, effect),
            }
        }
        self.bound_dead_letters_of_gone(queue);
        let slot = self.queues.get_mut(queue);
        let is_closed = ends_now && slot.as_ref().is_some_and(|slot| slot.group.is_none());
        if is_closed && self.metadata.catalog().queue_by_id(queue).is_some_and(|record| record.is_quorum()) {
            let (vhost, name) = self.metadata.catalog().names_of(queue);
            tracing::warn!(
                target: RA, queue = %name, %vhost,
                "the quorum queue was closed as damaged, and is deleted now without its Raft group: messages that were confirmed go with it"
            );
        }
        let slot = self.queues.get_mut(queue);
        let extents = slot.map(|slot| std::mem::take(&mut slot.extents)).unwrap_or_default();
        let extents = extents.into_values().map(|run| run.extent).collect();
        let ticket = self.connections.ticket(TicketOwner::Ended(queue));
        self.queues.ended.add(
            queue,
            ticket,
            Forgetting { answers, extents, is_elsewhere: false },
            self.here.now_ms,
        );
        self.tell_of_end(queue);
    }

    /// Called before the catalog forgets a queue. If its machine has not ended, the start of this node was lost, and the queue with it. Its
    /// consumers are told, as when somebody deletes it.
    pub(in crate::shard) fn end_forgotten(&mut self, queue: QueueId) {
        let is_alive = |slot: &QueueSlot| slot.group.is_none() && slot.fifo.ended().is_none();
        if self.queues.get(queue).is_some_and(is_alive) {
            let ticket = Ticket(unassigned(self.here.id));
            self.apply_one(queue, Request::Delete { ticket, if_unused: false, if_empty: false });
        }
    }

    /// Called when a quorum queue was placed. If it had ended before the restart, and the catalog has not forgotten it, the catalog is
    /// told again.
    pub(super) fn end_again(&mut self, queue: QueueId) {
        let has_ended = self.queues.get(queue).is_some_and(|slot| slot.fifo.ended().is_some());
        if has_ended && !self.queues.ended.contains(queue) {
            self.delete(queue, &mut Vec::new());
        }
    }

    /// Proposes that the catalog forgets a queue, if the queue has ended. While another member of its group leads, that one does so.
    pub(super) fn tell_of_end(&mut self, queue: QueueId) {
        let Some(ticket) = self.queues.ended.ticket(queue) else { return };
        if !self.queues.get(queue).is_some_and(|slot| slot.driver.follows()) {
            self.mail.post.propose(ticket, Command::ForgetQueue { queue });
        }
    }

    /// Called with the answer to the proposal that the catalog forgets a queue. If it was refused, it is made again later.
    pub(in crate::shard) fn handle_forgotten(
        &mut self,
        queue: QueueId,
        ticket: Ticket,
        result: &Result<Answer, CatalogError>,
    ) {
        if result.is_err() {
            if self.queues.ended.is_elsewhere(queue) {
                self.refuse_elsewhere(queue, ticket);
            }
            return;
        }
        self.connections.remove_ticket(ticket);
        let Forgetting { answers, extents, .. } = self.queues.ended.handle_forgotten(queue);
        extents.into_iter().for_each(|extent| self.storage.release(extent));
        self.send_all(answers);
    }

    /// Deletes a queue of another node, which is away. `asker` gets the answer.
    pub(in crate::shard) fn forget_elsewhere(&mut self, queue: QueueId, asker: Ticket) {
        let delete = Request::Delete { ticket: asker, if_unused: false, if_empty: false };
        if self.queues.ended.answer_later(queue, &delete) {
            return;
        }
        if self.queues.ended.contains(queue) {
            // Too many wait for its end already.
            let (requester, why) = (Requester::Ticket(asker), Refusal::OutcomeUnknown { node: None });
            return self.carry_out(queue, Effect::Refused { requester, why });
        }
        let effect = Effect::Done { ticket: asker, messages: 0, journaled: false };
        let answers = vec![Mail::Effect { queue, effect }];
        let ticket = self.connections.ticket(TicketOwner::Ended(queue));
        let forgetting = Forgetting { answers, is_elsewhere: true, ..Forgetting::default() };
        self.queues.ended.add(queue, ticket, forgetting, self.here.now_ms);
        self.tell_of_end(queue);
    }

    /// Called when the catalog cannot forget a queue of another node. Its asker is told.
    fn refuse_elsewhere(&mut self, queue: QueueId, ticket: Ticket) {
        self.connections.remove_ticket(ticket);
        // Its node may have deleted it before it was lost.
        let why = Refusal::OutcomeUnknown { node: None };
        let Forgetting { answers, .. } = self.queues.ended.handle_forgotten(queue);
        for answer in answers {
            let Mail::Effect { effect, .. } = answer else { continue };
            if let Effect::Done { ticket, .. }
            | Effect::Refused { requester: Requester::Ticket(ticket), .. } = effect
            {
                self.carry_out(queue, Effect::Refused { requester: Requester::Ticket(ticket), why });
            }
        }
    }

    /// Proposes again what was not answered, and sends the answers that have waited for it long enough.
    pub(super) fn ended_timeouts(&mut self) {
        let late = self.queues.ended.poll_cancels(self.here.now_ms);
        self.send_all(late);
        for (queue, mut ticket) in self.queues.ended.poll_again(self.here.now_ms) {
            if self.has(Mutation::ProposeOnce) {
                continue;
            }
            if ticket.is_none() {
                ticket = self.connections.ticket(TicketOwner::Ended(queue));
                self.queues.ended.set_ticket(queue, ticket);
            }
            self.tell_of_end(queue);
        }
    }

    /// Sends the answers of a queue that has ended.
    fn send_all(&mut self, answers: Vec<Mail>) {
        for answer in answers {
            if let Mail::Effect { queue, effect } = answer {
                self.carry_out(queue, effect);
            }
        }
    }

    /// Drops the dead letters of a queue that ends if those of too many ended queues wait for their routes already.
    fn bound_dead_letters_of_gone(&mut self, queue: QueueId) {
        let waiting = &self.queues.dead_letters;
        if !waiting.contains_key(&queue) {
            return;
        }
        let is_gone = |queue: &&QueueId| self.metadata.catalog().queue_by_id(**queue).is_none();
        if waiting.keys().filter(is_gone).count() >= GONE_QUEUES_MAX
            && let Some(WaitingLetters { record, letters }) = self.queues.dead_letters.remove(&queue)
        {
            let (queue, vhost, dropped) = (&*record.name, &*record.vhost, letters.len());
            tracing::warn!(
                name: PEER, target: QUEUE, queue, vhost, dropped,
                "dead letters of a queue that has ended were dropped: those of others before it wait for their routes"
            );
        }
    }

    /// Sends effects to their recipients. Consecutive effects for one consumer of this shard are handled
    /// together.
    pub(in crate::shard) fn carry_out_all(&mut self, queue: QueueId, effects: &mut Vec<Effect>) {
        let mut rest = effects.drain(..);
        while let Some(effect) = rest.next() {
            match recipient(&effect) {
                Recipient::Consumer(consumer) if shard_of(consumer.0) == self.here.id => {
                    self.pass_to_consumer(consumer, effect, &mut rest);
                }
                _ => self.carry_out(queue, effect),
            }
        }
    }

    /// Passes an effect to a consumer of this shard, and the following ones of `rest` that are for it.
    fn pass_to_consumer(&mut self, consumer: ConsumerId, effect: Effect, rest: &mut vec::Drain<'_, Effect>) {
        let to = match self.connections.consumer(consumer) {
            Some(ConsumerAddress::Gate(to)) => to,
            Some(ConsumerAddress::Seat(seat)) => {
                return self.connections.pass_to_seat(seat, SeatMail::Effect(effect));
            }
            None => {
                // The consumer's Detach is in flight and requeues the delivery.
                tracing::trace!(?consumer, "late mail");
                return;
            }
        };
        self.gates().with(to.connection, |gate, cx| {
            gate.handle_effect(to, effect, cx);
            // An effect may end the consumer.
            while cx.consumers.get(consumer.0).is_some()
                && rest
                    .as_slice()
                    .first()
                    .is_some_and(|next| recipient(next) == Recipient::Consumer(consumer))
                && let Some(effect) = rest.next()
            {
                gate.handle_effect(to, effect, cx);
            }
        });
    }

    /// Sends an effect to its recipient.
    pub(in crate::shard) fn carry_out(&mut self, queue: QueueId, effect: Effect) {
        let to = match recipient(&effect) {
            Recipient::Consumer(consumer) => shard_of(consumer.0),
            Recipient::Ticket(ticket) => shard_of(ticket.0),
            Recipient::Readers(shard) => shard,
            Recipient::Home => self.here.id,
        };
        if to == self.here.id {
            self.handle_effect(queue, effect);
        } else {
            self.mail.send(to, Mail::Effect { queue, effect });
        }
    }

    pub(in crate::shard) fn handle_effect(&mut self, queue: QueueId, effect: Effect) {
        match recipient(&effect) {
            Recipient::Consumer(consumer) => {
                self.pass_to_consumer(consumer, effect, &mut Vec::new().drain(..));
            }
            Recipient::Ticket(ticket) => match self.connections.ticket_owner(ticket) {
                Some(TicketOwner::Gate(key)) => {
                    self.pass_answer(key, ticket, |gate, cx| gate.handle_ticket(ticket, effect, cx));
                }
                Some(TicketOwner::Seat(seat)) => {
                    self.connections.answer_seat(seat, ticket, SeatMail::Effect(effect));
                }
                Some(TicketOwner::AdminApi) => self.answer_request(ticket, effect),
                // A queue has no answer to what the catalog was asked.
                Some(TicketOwner::Ended(_)) => {}
                None => {}
            },
            Recipient::Readers(_) => {
                if let Effect::StreamUpdate { update, .. } = effect {
                    self.handle_update(queue, *update);
                }
            }
            Recipient::Home => {
                if let Effect::DeadLetter { .. } = effect {
                    self.send_dead_letter(queue, effect);
                }
            }
        }
    }

    /// Publishes a dead letter. It waits if an earlier one of its queue waits for its route, so that they keep their order.
    fn send_dead_letter(&mut self, queue: QueueId, effect: Effect) {
        if let Some(waiting) = self.queues.dead_letters.get_mut(&queue) {
            if waiting.letters.len() >= LEAVING_MAX {
                // The queue has no more than that on their way. The others were purged, and nobody waits for them.
                let slot = self.queues.slots.get(queue.slot()).and_then(Option::as_deref);
                let fifo = slot.filter(|slot| slot.id == queue).map(|slot| &slot.fifo);
                waiting.letters.retain(|letter| is_on_its_way(letter, fifo));
            }
            waiting.letters.push_back(effect);
            return;
        }
        let Some(record) = self.metadata.catalog().queue_by_id(queue) else { return };
        if let Some(effect) = self.try_dead_letter(&record, effect) {
            self.queues.dead_letters.insert(queue, WaitingLetters { record, letters: [effect].into() });
        }
    }

    /// Publishes the dead letters of a queue that have waited for the route of the first one, also if the queue has ended since.
    pub(in crate::shard) fn continue_dead_letters(&mut self, queue: QueueId) {
        let Some(WaitingLetters { record, mut letters }) = self.queues.dead_letters.remove(&queue) else {
            return;
        };
        while let Some(effect) = letters.pop_front() {
            if !is_on_its_way(&effect, self.queues.get(queue).map(|slot| &slot.fifo)) {
                continue;
            }
            if let Some(effect) = self.try_dead_letter(&record, effect) {
                letters.push_front(effect);
                self.queues.dead_letters.insert(queue, WaitingLetters { record, letters });
                return;
            }
        }
    }

    /// Publishes a dead letter to the queues of its route that have not taken it yet. Returns it if the search for its route has
    /// begun.
    fn try_dead_letter(&mut self, record: &QueueRecord, effect: Effect) -> Option<Effect> {
        let Effect::DeadLetter { token, message, exchange, key, reason, taken_by, again, .. } = &effect
        else {
            return None;
        };
        let (token, again, queue) = (*token, *again, record.id);
        let keeps = record.config.dead_letter.as_ref().is_some_and(|to| to.at_least_once);
        let vhost = &record.vhost;
        let random = self.connections.draw(self.here.id);
        let (searches, catalog) = (self.connections.searches(), self.metadata.catalog());
        let to = dead_letter::To { from: queue, token, vhost, exchange, key: key.as_ref() };
        let (message, routed) = match dead_letter::route(searches, catalog, message.clone(), to, random) {
            Ok(routed) => routed,
            Err(too_long) => {
                self.counters.routing_steps += too_long.steps;
                return Some(effect);
            }
        };
        self.counters.routing_steps += routed.steps;
        if !again {
            self.counters.dead_letters_of(record.config.queue_type(), keeps).count(*reason);
            routed.histories.iter().for_each(|x| self.mail.post.remember(x, message.clone()));
        }
        let mut targets = routed.targets;
        targets.retain(|target| !matches!(target, RouteTarget::Queue(id) if taken_by.contains(&id.0)));
        let left = targets.len() as u32;
        let publisher = match left {
            0 => None,
            _ => {
                let wait = Box::new(DeadLetterWait::new(queue, token, left, keeps));
                self.connections.add_publisher(PublisherAddress::DeadLetter(wait))
            }
        };
        let Some(publisher) = publisher else {
            // The targets that have not taken it may have been deleted since.
            let is_done = left == 0 && !taken_by.is_empty();
            let arrival = if is_done { Arrival::Taken } else { Arrival::Refused };
            self.mail.post.request(queue, Request::DeadLettered { token, arrival, taken_by: Vec::new() });
            return None;
        };
        for target in targets {
            let publish = Publish { publisher, seq: 0, message: message.clone(), pipelines: false };
            self.mail.post.publish(vhost, target, publish);
        }
        None
    }
}

/// Returns false if a dead letter was purged meanwhile. If its queue has ended, it is still on its way.
fn is_on_its_way(letter: &Effect, fifo: Option<&Fifo>) -> bool {
    let Effect::DeadLetter { token, .. } = letter else { return false };
    fifo.is_none_or(|fifo| fifo.is_on_its_way(*token))
}
