//! Settlements of the client: ack, nack, reject and recover.

use amqp091::{BasicAck, BasicNack, BasicRecoverOk, BasicReject, Method};
use queue::{Outcome, SettleAnswer};
use ranges::Span;

use super::channel::{Channel, Role, Settling};
use super::unsettled::{Delivered, Run, Settlement};
use super::{Gate, Refused, refusal};
use crate::cx::Cx;

impl Gate {
    pub(super) fn ack(&mut self, channel: u16, ack: BasicAck, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.settle_or_note(channel, (ack.delivery_tag, ack.multiple), Settlement::Ack, cx)
    }

    pub(super) fn nack(&mut self, channel: u16, nack: BasicNack, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let settlement = if nack.requeue { Settlement::Return } else { Settlement::Reject };
        self.settle_or_note(channel, (nack.delivery_tag, nack.multiple), settlement, cx)
    }

    pub(super) fn reject(
        &mut self,
        channel: u16,
        reject: BasicReject,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let settlement = if reject.requeue { Settlement::Fail } else { Settlement::Reject };
        self.settle_or_note(channel, (reject.delivery_tag, false), settlement, cx)
    }

    /// Settles now, or notes the settlement for the commit of the transaction.
    #[inline]
    fn settle_or_note(
        &mut self,
        channel: u16,
        (tag, multiple): (u64, bool),
        settlement: Settlement,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        if state.tx.is_none() {
            return self.settle(channel, tag, multiple, &settlement.outcome(), cx);
        }
        let Channel { tx, unsettled, last_tag, .. } = state;
        let tags = match (multiple, tag) {
            (false, tag) => unsettled.settle(tag, settlement).then_some(Span { first: tag, last: tag }),
            (true, 0) => unsettled.settle_to(*last_tag, settlement),
            (true, tag) if tag > *last_tag => None,
            (true, tag) => unsettled.settle_to(tag, settlement),
        };
        match tags {
            None if (multiple, tag) != (true, 0) => return Err(unknown(tag)),
            tags => tags.into_iter().for_each(|tags| tx.iter_mut().for_each(|tx| tx.note_settled(tags))),
        }
        Ok(())
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
        match (multiple, tag) {
            (false, _) => {
                let delivered = state.unsettled.take(tag).ok_or_else(|| unknown(tag))?;
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
                    return Err(unknown(tag));
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

    /// Settles deliveries of a commit. Returns true if the queue will answer when the settlement is stored.
    pub(super) fn settle_run(&mut self, channel: u16, run: &Run, cx: &mut Cx<'_>) -> bool {
        let Run { place, first, last, settlement } = *run;
        let Some(state) = self.channel(channel) else { return false };
        let shares = state.shared_prefetch > 0;
        let Channel { roles, counts, .. } = state;
        let (range, outcome, settled) = ((first, last), settlement.outcome(), (last - first + 1) as u32);
        let is_answered = match roles.get_mut(place as usize) {
            Some(Role::Consumer(consumer)) => {
                consumer.unsettled = consumer.unsettled.saturating_sub(settled);
                // A queue that is gone has taken its messages with it, and one out of reach will deliver them again.
                let is_known = !consumer.outlet.is_gone();
                if is_known {
                    consumer.outlet.settle_stored(range, outcome, (), cx);
                } else if consumer.is_over() {
                    self.drop_settled(channel, place, cx);
                }
                is_known
            }
            Some(Role::Holder { holder, unsettled, unanswered, .. }) => {
                *unsettled = unsettled.saturating_sub(settled);
                *unanswered += 1;
                if outcome == Outcome::Accepted {
                    counts.deliveries.acknowledged += u64::from(settled);
                }
                holder.settle(range, outcome, SettleAnswer::Stored, cx);
                true
            }
            None => false,
        };
        if shares {
            self.note_shared_room(channel);
        }
        self.touch(channel, place);
        is_answered
    }

    /// Returns all unsettled deliveries to their queues. Those that are settled in a transaction stay.
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

/// The refusal of a tag whose delivery is settled, or that never was one.
fn unknown(tag: u64) -> Refused {
    refusal::precondition_failed(format!("unknown delivery tag {tag}"))
}

/// Settles deliveries of a role. If they were the last ones of a role that gets no more, the role ends.
fn send(channel: &mut Channel, place: u32, range: (u64, u64), outcome: Outcome, cx: &mut Cx<'_>) {
    let Channel { roles, counts, .. } = channel;
    let is_over = match roles.get_mut(place as usize) {
        Some(Role::Consumer(consumer)) => {
            if !consumer.outlet.is_gone() {
                consumer.outlet.settle(range, outcome, None, cx);
            }
            consumer.is_over()
        }
        Some(Role::Holder { holder, .. }) => {
            if outcome == Outcome::Accepted {
                counts.deliveries.acknowledged += range.1 - range.0 + 1;
            }
            holder.settle(range, outcome, SettleAnswer::Never, cx);
            // It serves the next `basic.get` of its queue.
            false
        }
        None => return,
    };
    if is_over && let Some(Role::Consumer(consumer)) = channel.remove(place) {
        consumer.outlet.close(false, cx);
    }
}
