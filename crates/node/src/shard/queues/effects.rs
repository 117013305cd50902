//! Sends the effects of queues and streams to their recipients.

use std::vec;

use broker::catalog::{Command, RouteTarget};
use broker::dead_letter;
use broker::ids::{QueueId, shard_of};
use broker::mail::{DeadLetterWait, Mail, PublisherAddress, Recipient, TicketOwner, recipient};
use queue::{Arrival, ConsumerId, Effect, GoneReason, Publish, Request};

use super::Forgetting;
use crate::questions::Reply;
use crate::shard::Shard;

impl Shard {
    /// Called when the queue has decided to end. Whoever asked for its deletion, has cancelled its last consumer, or waits for a
    /// settlement, is answered only after the catalog has forgotten the queue.
    pub(in crate::shard) fn delete(&mut self, queue: QueueId, effects: &mut Vec<Effect>) {
        let mut answers = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                Effect::Deleted { .. } => {}
                effect @ (Effect::Done { .. }
                | Effect::Settled { .. }
                | Effect::Gone { reason: GoneReason::Cancelled, .. }) => {
                    answers.push(Mail::Effect { queue, effect })
                }
                effect => self.carry_out(queue, effect),
            }
        }
        let slot = self.queues.get_mut(queue);
        let extents = slot.map(|slot| std::mem::take(&mut slot.extents)).unwrap_or_default();
        let extents = extents.into_values().map(|run| run.extent).collect();
        if let Some(ticket) = self.connections.ticket(TicketOwner::Shard) {
            self.queues.forgetting.insert(ticket.0, Forgetting { answers, extents });
            self.mail.post.propose(Some(ticket), Command::ForgetQueue { queue });
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
        let Some(to) = self.connections.consumer(consumer) else {
            // The consumer's Detach is in flight and requeues the delivery.
            tracing::trace!(?consumer, "late mail");
            return;
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
                Some(TicketOwner::Connection(key)) => {
                    self.pass_answer(key, ticket, |gate, cx| gate.handle_ticket(ticket, effect, cx));
                }
                Some(TicketOwner::Desk) => self.desk_answer(ticket, Reply::Effect(Box::new(effect))),
                Some(TicketOwner::Shard) => self.connections.remove_ticket(ticket),
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
        match self.queues.dead_letters.get_mut(&queue) {
            Some(waiting) => waiting.push_back(effect),
            None => {
                if let Err(effect) = self.try_dead_letter(queue, effect) {
                    self.queues.dead_letters.insert(queue, [effect].into());
                }
            }
        }
    }

    /// Publishes the dead letters of a queue that have waited for the route of the first one.
    pub(in crate::shard) fn continue_dead_letters(&mut self, queue: QueueId) {
        let mut waiting = self.queues.dead_letters.remove(&queue).unwrap_or_default();
        while let Some(effect) = waiting.pop_front() {
            if let Err(effect) = self.try_dead_letter(queue, effect) {
                waiting.push_front(effect);
                self.queues.dead_letters.insert(queue, waiting);
                return;
            }
        }
    }

    /// Publishes a dead letter to the queues of its route that have not taken it yet. Returns it if the search for its route has
    /// begun.
    fn try_dead_letter(&mut self, queue: QueueId, effect: Effect) -> Result<(), Effect> {
        let Effect::DeadLetter { token, message, exchange, key, reason, taken_by, again, .. } = &effect
        else {
            return Ok(());
        };
        let (token, again) = (*token, *again);
        let Some(record) = self.metadata.catalog().queue_by_id(queue) else { return Ok(()) };
        let keeps = record.config.dead_letter.as_ref().is_some_and(|to| to.at_least_once);
        let vhost = &record.vhost;
        let random = self.connections.draw(self.here.id);
        let (searches, catalog) = (self.connections.searches(), self.metadata.catalog());
        let to = dead_letter::To { from: queue, vhost, exchange, key: key.as_ref() };
        let (message, routed) = match dead_letter::route(searches, catalog, message.clone(), to, random) {
            Ok(routed) => routed,
            Err(too_long) => {
                self.counters.routing_steps += too_long.steps;
                return Err(effect);
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
            return Ok(());
        };
        for target in targets {
            let publish = Publish { publisher, seq: 0, message: message.clone(), pipelines: false };
            self.mail.post.publish(vhost, target, publish);
        }
        Ok(())
    }
}
