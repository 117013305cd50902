//! Settlements of the client: ack, nack, reject and recover.

use amqp091::{BasicAck, BasicNack, BasicRecoverOk, BasicReject, Method};
use queue::Outcome;

use super::channel::{Cancelled, Channel, Role, Settling};
use super::unsettled::Delivered;
use super::{Gate, Refused, refusal};
use crate::cx::Cx;

impl Gate {
    pub(super) fn ack(&mut self, channel: u16, ack: BasicAck, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if let Some(tx) = self.channel(channel).and_then(|channel| channel.tx.as_mut()) {
            tx.settle(ack.delivery_tag, ack.multiple, Outcome::Accepted);
            return Ok(());
        }
        self.settle(channel, ack.delivery_tag, ack.multiple, &Outcome::Accepted, cx)
    }

    pub(super) fn nack(&mut self, channel: u16, nack: BasicNack, cx: &mut Cx<'_>) -> Result<(), Refused> {
        // In a quorum queue, a returned message has not failed. A rejected one has.
        let outcome = if nack.requeue { Outcome::Released } else { Outcome::Rejected };
        self.settle_or_buffer(channel, nack.delivery_tag, nack.multiple, outcome, cx)
    }

    pub(super) fn reject(
        &mut self,
        channel: u16,
        reject: BasicReject,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let outcome = match reject.requeue {
            true => Outcome::Modified { failed: true, undeliverable_here: false, annotations: None },
            false => Outcome::Rejected,
        };
        self.settle_or_buffer(channel, reject.delivery_tag, false, outcome, cx)
    }

    fn settle_or_buffer(
        &mut self,
        channel: u16,
        tag: u64,
        multiple: bool,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        match self.channel(channel).and_then(|channel| channel.tx.as_mut()) {
            Some(tx) => {
                tx.settle(tag, multiple, outcome);
                Ok(())
            }
            None => self.settle(channel, tag, multiple, &outcome, cx),
        }
    }

    /// Settles the delivery with this tag, or all up to it. 0 stands for all deliveries of the channel.
    pub(super) fn settle(
        &mut self,
        channel: u16,
        tag: u64,
        multiple: bool,
        outcome: &Outcome,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let shares = state.shared_prefetch > 0;
        let unknown = || refusal::precondition_failed(format!("unknown delivery tag {tag}"));
        match (multiple, tag) {
            (false, _) => {
                let delivered = state.unsettled.take(tag).ok_or_else(unknown)?;
                self.settle_one(channel, delivered, outcome, cx);
            }
            (true, 0) => {
                let last = state.last_tag;
                for delivered in state.unsettled.take_to(last) {
                    self.settle_one(channel, delivered, outcome, cx);
                }
            }
            (true, tag) => {
                if tag > state.last_tag || !state.unsettled.has_to(tag) {
                    return Err(unknown());
                }
                for delivered in state.unsettled.take_to(tag) {
                    self.settle_one(channel, delivered, outcome, cx);
                }
            }
        }
        if shares {
            self.note_shared_room(channel);
        }
        Ok(())
    }

    /// Passes a settlement to the queue. Accepted deliveries wait for others that they can be joined with.
    #[inline]
    fn settle_one(&mut self, channel: u16, delivered: Delivered, outcome: &Outcome, cx: &mut Cx<'_>) {
        let Some(state) = self.channel(channel) else { return };
        let Delivered { place, number, .. } = delivered;
        match state.roles.get_mut(place as usize) {
            Some(Role::Consumer(consumer)) => consumer.unsettled = consumer.unsettled.saturating_sub(1),
            Some(Role::Holder { unsettled, .. }) => *unsettled = unsettled.saturating_sub(1),
            None => return,
        }
        if *outcome == Outcome::Accepted {
            match &mut state.settling {
                Some(settling) if settling.place == place && settling.last + 1 == number => {
                    settling.last = number
                }
                _ => {
                    self.settle_now(channel, cx);
                    if let Some(state) = self.channel(channel) {
                        state.settling = Some(Settling { place, first: number, last: number });
                    }
                }
            }
        } else {
            self.settle_now(channel, cx);
            if let Some(state) = self.channel(channel) {
                send(state, place, (number, number), outcome.clone(), cx);
            }
        }
        self.touch(channel, place);
    }

    /// Sends the settlements that wait for others.
    #[inline]
    pub(super) fn settle_now(&mut self, channel: u16, cx: &mut Cx<'_>) {
        let Some(state) = self.channel(channel) else { return };
        if let Some(Settling { place, first, last }) = state.settling.take() {
            send(state, place, (first, last), Outcome::Accepted, cx);
        }
    }

    /// Returns all unsettled deliveries to their queues.
    pub(super) fn recover(
        &mut self,
        channel: u16,
        requeue: bool,
        wants_answer: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        if !requeue {
            return Err(refusal::not_implemented("requeue=false"));
        }
        self.settle(channel, 0, true, &Outcome::Released, cx)?;
        if wants_answer {
            self.conn.send(channel, &Method::BasicRecoverOk(BasicRecoverOk));
        }
        Ok(())
    }
}

/// Settles deliveries of a role. If they were the last ones of a role that gets no more, the role ends.
fn send(channel: &mut Channel, place: u32, range: (u64, u64), outcome: Outcome, cx: &mut Cx<'_>) {
    let Channel { roles, counts, .. } = channel;
    let (is_last, has_left) = match roles.get_mut(place as usize) {
        Some(Role::Consumer(consumer)) => {
            if !consumer.outlet.is_gone() {
                consumer.outlet.settle(range, outcome, None, cx);
            }
            (consumer.cancelled == Cancelled::Done, consumer.unsettled > 0)
        }
        Some(Role::Holder { holder, unsettled, .. }) => {
            if outcome == Outcome::Accepted {
                counts.deliveries.acknowledged += range.1 - range.0 + 1;
            }
            holder.settle(range, outcome, false, cx);
            // It serves the next `basic.get` of its queue.
            (false, *unsettled > 0)
        }
        None => return,
    };
    if is_last
        && !has_left
        && let Some(Role::Consumer(consumer)) = channel.remove(place)
    {
        consumer.outlet.close(false, cx);
    }
}
