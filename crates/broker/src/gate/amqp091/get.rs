//! `basic.get`: one message without a consumer.

use std::sync::Arc;

use amqp091::{BasicGet, BasicGetEmpty, BasicGetOk, Method, ReplyCode};
use catalog::access::{Protocol, Resource, Verb};
use queue::Effect;

use super::channel::Role;
use super::consume::{additions, is_redelivered};
use super::long_headers::shorten;
use super::{Gate, Refused, Waiting, channel_in, refusal};
use crate::cx::Cx;
use crate::outlet::Holder;

impl Gate {
    pub(super) fn get(&mut self, channel: u16, get: &BasicGet<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let name = self.queue_name(channel, get.queue)?;
        self.permit(Verb::Consume, &[Resource::Queue(&name)], cx)?;
        let record = self.queue_of(&name, cx)?;
        let vhost = &self.peer.vhost;
        if record.is_stream() {
            return Err(refusal::not_implemented(&format!(
                "basic.get not supported by stream queues queue '{name}' in vhost '{vhost}'"
            )));
        }
        if record.is_quorum() && record.config.single_active_consumer {
            let text = format!(
                "cannot obtain access to locked queue '{name}' in vhost '{vhost}'. basic.get operations are not supported by quorum queues with single active consumer"
            );
            return Err(Refused::new(ReplyCode::ResourceLocked, text));
        }
        let known = self.channel(channel).and_then(|state| state.holders.get(&record.id).copied());
        let place = match known {
            Some(place) => place,
            None => {
                let Some(state) = channel_in(&mut self.channels, channel) else { return Ok(()) };
                let place = state.roles.vacant_key() as u32;
                let at = self.address(channel, place);
                let holder = Holder::open(at, Protocol::Amqp091, &record, cx).ok_or_else(refusal::busy)?;
                let Some(state) = self.channel(channel) else { return Ok(()) };
                state.holders.insert(record.id, place);
                let (queue, unsettled, unanswered) = (record.id, 0, 0);
                state.roles.insert(Role::Holder { queue, holder, unsettled, unanswered }) as u32
            }
        };
        let ticket =
            self.wait(Waiting::Fetch { channel, holder: place, queue: name, settled: get.no_ack }, cx)?;
        // A message may have to go back if it does not fit into a frame of the client. So it must not have left the queue.
        let settled = get.no_ack && self.header_max().is_none();
        if let Some(Role::Holder { holder, .. }) = self.role(channel, place) {
            holder.fetch(1, settled, ticket, cx);
        }
        Ok(())
    }

    /// Called when the queue has answered.
    pub(super) fn finish_get(
        &mut self,
        channel: u16,
        (place, queue, settled): (u32, &Arc<str>, bool),
        effect: &Effect,
        cx: &mut Cx<'_>,
    ) {
        let failed = (BasicGet::CLASS_ID, BasicGet::METHOD_ID);
        let (deliveries, ready) = match effect {
            Effect::Fetched { deliveries, ready, .. } => (deliveries, *ready),
            Effect::Refused { why, .. } => {
                self.drop_place(channel, place, cx);
                let refused = refusal::by_queue(*why, queue, &self.peer.vhost, cx.catalog);
                return self.refuse_method(channel, failed, refused, cx);
            }
            _ => {
                self.drop_place(channel, place, cx);
                let refused = refusal::not_found("queue", queue, &self.peer.vhost);
                return self.refuse_method(channel, failed, refused, cx);
            }
        };
        let header_max = self.header_max();
        let Self { channels, conn, properties, peer, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return };
        let Some(Role::Holder { unsettled, holder, .. }) = state.roles.get_mut(place as usize) else {
            return;
        };
        let Some(delivery) = deliveries.first() else {
            holder.note_empty(cx);
            state.counts.get_empty += 1;
            return conn.send(channel, &Method::BasicGetEmpty(BasicGetEmpty));
        };
        let (lent, message) = (delivery.lend(), &delivery.message);
        properties.clear();
        let additions = additions(&lent, holder.reads_quorum(), false);
        message.put_amqp091_properties(&additions, properties);
        if let Some(max) = header_max {
            if !shorten(message, &additions, max, properties) {
                cx.counters.deliveries_too_large += 1;
                holder.give_back(delivery.number, cx);
                let what = format!("the next message of queue '{queue}' in vhost '{}'", self.peer.vhost);
                return self.refuse_method(channel, failed, self.long_header(&what), cx);
            }
            if settled {
                holder.accept(delivery.number, cx);
            }
        }
        state.last_tag += 1;
        if !settled {
            *unsettled += 1;
        }
        holder.note_sent(&lent, settled, cx, || state.unsettled.oldest_of(place));
        if !settled {
            state.unsettled.push(state.last_tag, place, delivery.number);
        }
        state.counts.deliveries.count_fetched(lent.redelivered(), settled);
        let get_ok = BasicGetOk {
            delivery_tag: state.last_tag,
            redelivered: is_redelivered(&lent),
            exchange: message.route().exchange(),
            routing_key: message.route().key(),
            message_count: u32::try_from(ready).unwrap_or(u32::MAX),
        };
        let (payload, from) = message.amqp091_payload();
        conn.send_content(channel, &Method::BasicGetOk(get_ok), properties, &payload, from);
        if let Some(traces) = cx.traces {
            peer.trace_delivered(traces, channel, queue, message, is_redelivered(&lent), cx);
        }
    }
}
