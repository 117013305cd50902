//! Consumers: `basic.consume`, `basic.deliver`, `basic.cancel` and `basic.qos`. [`crate::outlet`] does what every consumer
//! needs, in every protocol.

use amqp091::{
    BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicDeliver, BasicQos, BasicQosOk, Method,
    ReplyCode,
};
use catalog::access::{Protocol, Resource, Verb};
use catalog::categories::{CHANNEL, PEER};
use catalog::ids::QueueId;
use message::Additions;
use queue::{ConsumerId, DeliveryRef, Effect, GoneReason, Mode, Refusal};

use super::arguments::ConsumerArguments;
use super::channel::{Cancelled, Consumer, Role};
use super::held::Deferred;
use super::long_headers::shorten;
use super::replies::REPLY_TO;
use super::{Gate, REPLIES, Refused, channel_in, refusal};
use crate::counters::Deprecated;
use crate::cx::Cx;
use crate::follow::home_of_queue;
use crate::kept::Kept;
use crate::outlet::{Outlet, PeerEvent, Wanted};
use crate::settings::STATE_MAX;

/// The class and the number of `basic.consume`.
const CONSUME: (u16, u16) = (BasicConsume::CLASS_ID, BasicConsume::METHOD_ID);

impl Gate {
    /// Handles `basic.consume`, or holds it if the connection is to move to another shard first.
    pub(super) fn consume_or_follow(&mut self, channel: u16, consume: &BasicConsume<'_>, cx: &mut Cx<'_>) {
        if self.follow.is_undecided() {
            if !self.is_unknown() {
                self.follow.stay();
            } else if let Some(home) =
                home_of_queue(cx.catalog, cx.placements, &self.peer.vhost, consume.queue)
            {
                let held = Deferred::method(channel, &Method::BasicConsume(*consume));
                if let Some(held) = self.follow.decide(held, home, cx.shard) {
                    self.handle_held(held, cx);
                }
                return;
            }
        }
        self.settle_now(channel, cx);
        if let Err(refused) = self.consume(channel, consume, cx) {
            self.refuse(channel, &Method::BasicConsume(*consume), refused, cx);
        }
    }

    fn consume(&mut self, channel: u16, consume: &BasicConsume<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if consume.queue == REPLY_TO {
            return self.consume_replies(channel, consume, cx);
        }
        let name = self.queue_name(channel, consume.queue)?;
        self.permit(Verb::Consume, &[Resource::Queue(&name)], cx)?;
        let unique = self.peer.id.number;
        let max = cx.settings.consumer_max_per_channel.map_or(usize::MAX, |max| max as usize);
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let tag = match consume.consumer_tag {
            "" => state.new_tag(unique, channel),
            tag if state.tags.contains_key(tag) => {
                let text = format!("attempt to reuse consumer tag '{}'", tag.escape_default());
                return Err(Refused::new(ReplyCode::NotAllowed, text));
            }
            tag => tag.into(),
        };
        if state.tags.len() >= max {
            let text = format!("reached maximum ({max}) of consumers per channel");
            return Err(Refused::new(ReplyCode::NotAllowed, text));
        }
        let record = self.queue_of(&name, cx)?;
        let vhost = &self.peer.vhost;
        let arguments = ConsumerArguments::read(consume.arguments, cx.now_ms)?;
        let message_bytes_max = self.header_max();
        let Some(state) = channel_in(&mut self.channels, channel) else { return Ok(()) };
        let mode = match record.is_stream() {
            true if consume.no_ack => {
                let text = format!(
                    "automatic acknowledgement not supported by stream queue '{name}' in vhost '{vhost}'"
                );
                return Err(refusal::not_implemented(&text));
            }
            true if state.prefetch == 0 && state.shared_prefetch == 0 => {
                let text = format!(
                    "consumer prefetch count is not set for stream queue '{name}' in vhost '{vhost}'"
                );
                return Err(refusal::precondition_failed(text));
            }
            true => Mode::Replay(Box::new(arguments.replay)),
            false => Mode::Take,
        };
        let wanted = Wanted {
            mode,
            priority: arguments.priority,
            exclusive: consume.exclusive,
            settled: consume.no_ack,
            message_bytes_max,
            timeout_ms: arguments.timeout_ms,
            left_out: None,
        };
        let place = state.roles.vacant_key() as u32;
        let prefetch = state.prefetch;
        let filter_bytes = match &wanted.mode {
            Mode::Replay(replay) => replay.filter_bytes(),
            _ => 0,
        };
        let kept = self.keep(tag.len() + consume.arguments.as_bytes().len() + filter_bytes)?;
        let at = self.address(channel, place);
        let outlet = Outlet::open(at, Protocol::Amqp091, &record, wanted, cx).ok_or_else(refusal::busy)?;
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let wants_answer = !consume.nowait;
        state.tags.insert(tag.clone(), place);
        let arguments: Box<[u8]> = consume.arguments.as_bytes().into();
        let (unsettled, cancelled) = (0, Cancelled::No);
        let consumer =
            Consumer { outlet, tag, arguments, _kept: kept, prefetch, unsettled, wants_answer, cancelled };
        state.roles.insert(Role::Consumer(Box::new(consumer)));
        self.touch(channel, place);
        Ok(())
    }

    /// Counts what is kept of a consumer.
    ///
    /// # Errors
    /// The connection keeps too much.
    pub(super) fn keep(&self, bytes: usize) -> Result<Kept, Refused> {
        if self.kept_bytes() + bytes > STATE_MAX {
            let text = format!(
                "tags and arguments of a connection's consumers, and its properties, have at most {STATE_MAX} bytes together"
            );
            return Err(Refused::new(ReplyCode::ResourceError, text));
        }
        Ok(self.kept.keep(bytes))
    }

    pub(super) fn cancel(
        &mut self,
        channel: u16,
        cancel: &BasicCancel<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let place = state.tags.get(cancel.consumer_tag).copied();
        if place == Some(REPLIES) {
            state.tags.remove(cancel.consumer_tag);
            state.replies.take().into_iter().for_each(|replies| replies.close(cx));
        } else if let Some(place) = place
            && let Some(Role::Consumer(consumer)) = state.roles.get_mut(place as usize)
        {
            state.tags.remove(&consumer.tag);
            // The answer follows those to `basic.consume` and to Cancel. Then no delivery arrives any more, and an auto-delete
            // queue is deleted.
            consumer.cancelled = Cancelled::Asked { wants_answer: !cancel.nowait };
            consumer.outlet.cancel(cx);
            return Ok(());
        }
        if !cancel.nowait {
            let consumer_tag = cancel.consumer_tag;
            self.conn.send(channel, &Method::BasicCancelOk(BasicCancelOk { consumer_tag }));
        }
        Ok(())
    }

    /// Cancels a consumer from the broker's side, and tells the client if it understands this. Its unsettled deliveries
    /// can still be settled.
    pub(super) fn cancel_by_broker(&mut self, channel: u16, place: u32, cx: &mut Cx<'_>) {
        let Self { channels, conn, client, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return };
        let Some(Role::Consumer(consumer)) = state.roles.get_mut(place as usize) else { return };
        if consumer.cancelled != Cancelled::No {
            return;
        }
        consumer.cancelled = Cancelled::Asked { wants_answer: false };
        state.tags.remove(&consumer.tag);
        if client.is_told_of_cancel {
            let consumer_tag = &consumer.tag;
            conn.send(channel, &Method::BasicCancel(BasicCancel { consumer_tag, nowait: true }));
        }
        consumer.outlet.cancel(cx);
        if consumer.outlet.is_gone() {
            self.finish_cancel(channel, place, cx);
        }
    }

    /// Called when the queue sends nothing more to a cancelled consumer.
    fn finish_cancel(&mut self, channel: u16, place: u32, cx: &mut Cx<'_>) {
        let Self { channels, conn, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return };
        let Some(Role::Consumer(consumer)) = state.roles.get_mut(place as usize) else { return };
        let before = std::mem::replace(&mut consumer.cancelled, Cancelled::Done);
        if before == (Cancelled::Asked { wants_answer: true }) {
            let consumer_tag = &consumer.tag;
            conn.send(channel, &Method::BasicCancelOk(BasicCancelOk { consumer_tag }));
        }
        if consumer.is_over() {
            self.drop_settled(channel, place, cx);
        }
    }

    /// Releases a consumer that has no unsettled deliveries.
    pub(super) fn drop_settled(&mut self, channel: u16, place: u32, cx: &mut Cx<'_>) {
        if let Some(Role::Consumer(consumer)) = self.channel(channel).and_then(|state| state.remove(place)) {
            consumer.outlet.close(false, cx);
        }
    }

    pub(super) fn qos(&mut self, channel: u16, qos: &BasicQos, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if qos.prefetch_size != 0 {
            return Err(refusal::not_implemented(&format!("prefetch_size!=0 ({})", qos.prefetch_size)));
        }
        let Some(state) = self.channel(channel) else { return Ok(()) };
        if qos.global {
            cx.counters.deprecated.count(Deprecated::GlobalQos);
            state.shared_prefetch = qos.prefetch_count;
            // A client may send this often in a turn, with many consumers: they are visited once, at its end.
            state.shared_prefetch_changed = true;
            self.note_shared_room(channel);
        } else {
            state.prefetch = qos.prefetch_count;
        }
        self.conn.send(channel, &Method::BasicQosOk(BasicQosOk));
        Ok(())
    }

    // ---- from queues ----------------------------------------------------------------------------------------

    pub(super) fn handle_consumer_effect(
        &mut self,
        channel: u16,
        place: u32,
        effect: &Effect,
        cx: &mut Cx<'_>,
    ) {
        let Self { channels, conn, peer, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return };
        let Some(Role::Consumer(consumer)) = state.roles.get(place as usize) else {
            return self.handle_holder_effect(channel, place, effect, cx);
        };
        let room = state.room(consumer);
        let Some(Role::Consumer(consumer)) = state.roles.get_mut(place as usize) else { return };
        match consumer.outlet.handle_effect(effect, || room) {
            Some(PeerEvent::Attached) => {
                let Consumer { outlet, tag, prefetch, arguments, .. } = &mut **consumer;
                peer.emit_consumer(outlet, (tag, channel), (*prefetch).into(), arguments, cx);
                if consumer.wants_answer {
                    let consumer_tag = &consumer.tag;
                    conn.send(channel, &Method::BasicConsumeOk(BasicConsumeOk { consumer_tag }));
                }
                // It was cancelled before the queue knew it.
                if consumer.cancelled != Cancelled::No {
                    consumer.outlet.cancel(cx);
                }
            }
            Some(PeerEvent::Refused(why)) => {
                let refused =
                    refusal::by_queue(why, &consumer.outlet.queue_name, &self.peer.vhost, cx.catalog);
                self.drop_place(channel, place, cx);
                return self.refuse_method(channel, CONSUME, refused, cx);
            }
            Some(PeerEvent::Gone(reason)) => {
                // A damaged queue gives its messages to nobody, and its answers may never come.
                let unanswered = match reason {
                    GoneReason::Damaged => consumer.outlet.take_unanswered().count(),
                    GoneReason::OutOfReach { node } if consumer.outlet.awaits_answers() => {
                        let queue = consumer.outlet.queue_name.clone();
                        return self.fail_commit(channel, &queue, Refusal::OutOfReach { node }, cx);
                    }
                    GoneReason::QueueDeleted
                    | GoneReason::Cancelled
                    | GoneReason::Detached
                    | GoneReason::OutOfReach { .. } => 0,
                };
                match (reason, consumer.cancelled) {
                    (
                        GoneReason::QueueDeleted | GoneReason::Damaged | GoneReason::OutOfReach { .. },
                        Cancelled::No,
                    ) => {
                        self.cancel_by_broker(channel, place, cx);
                    }
                    (GoneReason::Cancelled | GoneReason::Detached, Cancelled::No)
                    | (GoneReason::Detached, _) => {}
                    _ => self.finish_cancel(channel, place, cx),
                }
                self.stored(channel, unanswered);
                return;
            }
            Some(PeerEvent::Settled(())) => {
                if consumer.is_over() {
                    self.drop_settled(channel, place, cx);
                }
                self.stored(channel, 1);
            }
            Some(PeerEvent::Revoked { numbers, .. }) => {
                let deliveries: u64 = numbers.iter().map(|span| span.last - span.first + 1).sum();
                tracing::warn!(
                    name: PEER, target: CHANNEL, connection = %self.peer.name, queue = %consumer.outlet.queue_name, vhost = %self.peer.vhost,
                    deliveries,
                    "a consumer holds deliveries for longer than its consumer timeout: they have returned to the queue, \
                     and the consumer is cancelled"
                );
                if self.client.is_told_of_cancel {
                    return self.cancel_by_broker(channel, place, cx);
                }
                // A client that does not understand `basic.cancel` would wait for ever.
                let text = format!("delivery acknowledgement on channel {channel} timed out");
                return self.refuse_method(channel, (0, 0), refusal::precondition_failed(text), cx);
            }
            // The client is told nothing in these cases.
            Some(PeerEvent::Active { .. } | PeerEvent::Credit(_)) | None => {}
        }
        self.touch(channel, place);
    }

    /// Handles an effect for a role that is no consumer: a queue has answered a settlement of a commit.
    fn handle_holder_effect(&mut self, channel: u16, place: u32, effect: &Effect, cx: &mut Cx<'_>) {
        let Some(Role::Holder { unanswered, queue, .. }) = self.role(channel, place) else { return };
        let answered = match effect {
            Effect::Settled { .. } => (*unanswered).min(1),
            // As for a consumer of a damaged queue.
            Effect::Gone { reason: GoneReason::Damaged, .. } => *unanswered,
            Effect::Gone { reason: GoneReason::OutOfReach { node }, .. } if *unanswered > 0 => {
                let (_, queue) = cx.catalog.names_of(*queue);
                return self.fail_commit(channel, &queue, Refusal::OutOfReach { node: *node }, cx);
            }
            _ => 0,
        };
        *unanswered -= answered;
        if answered > 0 {
            self.stored(channel, answered as usize);
        }
    }

    /// Sends a delivery. Returns false if it comes from a stream and there is no room for it. It must then be offered
    /// again.
    pub(super) fn deliver(
        &mut self,
        channel: u16,
        place: u32,
        lent: DeliveryRef<'_>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let Self { channels, conn, without_room, properties, peer, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return true };
        let has_room = state.shared_room() > 0;
        let Some(Role::Consumer(consumer)) = state.roles.get_mut(place as usize) else { return true };
        let outlet = &mut consumer.outlet;
        if outlet.reads_stream() && conn.output_len() >= cx.output_room {
            if outlet.wait_for_room() {
                without_room.push_back((channel, place));
            }
            return false;
        }
        // The broker has cancelled it. It must not get what comes after a message that it did not get.
        if outlet.reads_stream() && outlet.message_bytes_max.is_some() && consumer.cancelled != Cancelled::No
        {
            return true;
        }
        // Another consumer has used the room that the channel's consumers share. A stream never goes back, so its reader
        // waits for `grant_sharing`.
        if outlet.reads_stream() && !has_room {
            outlet.wait_for_room();
            return false;
        }
        outlet.handle_delivery(lent.message);
        if !outlet.settled && !has_room {
            outlet.give_back(lent.number, cx);
            return true;
        }
        let message = lent.message;
        properties.clear();
        let additions = additions(&lent, outlet.reads_quorum(), outlet.reads_stream());
        message.put_amqp091_properties(&additions, properties);
        if let Some(max) = outlet.message_bytes_max
            && !shorten(message, &additions, max, properties)
        {
            self.refuse_long_header(channel, place, cx);
            return true;
        }
        state.last_tag += 1;
        let deliver = BasicDeliver {
            consumer_tag: &consumer.tag,
            delivery_tag: state.last_tag,
            redelivered: is_redelivered(&lent),
            exchange: message.route().exchange(),
            routing_key: message.route().key(),
        };
        let (payload, from) = message.amqp091_payload();
        conn.send_deliver(channel, &deliver, properties, &payload, from);
        outlet.note_sent(&lent, cx, || state.unsettled.oldest_of(place));
        if let Some(traces) = cx.traces {
            peer.trace_delivered(traces, channel, &outlet.queue_name, message, is_redelivered(&lent), cx);
        }
        if !outlet.settled {
            consumer.unsettled += 1;
            state.unsettled.push(state.last_tag, place, lent.number);
        }
        self.touch(channel, place);
        true
    }

    /// Ends the consumer of a stream at a message whose content header is in the buffer and too long for the client.
    #[cold]
    fn refuse_long_header(&mut self, channel: u16, place: u32, cx: &mut Cx<'_>) {
        cx.counters.deliveries_too_large += 1;
        let Some(Role::Consumer(consumer)) = self.role(channel, place) else { return };
        let queue = consumer.outlet.queue_name.clone();
        let (needed, frame_max) = (self.header_needs(), self.conn.tuned().frame_max);
        tracing::warn!(
            name: PEER, target: CHANNEL, connection = %self.peer.name, queue = %queue, vhost = %self.peer.vhost, frame_max, needed,
            "a consumer is cancelled: the headers of the next message do not fit into a frame of the client"
        );
        if self.client.is_told_of_cancel {
            return self.cancel_by_broker(channel, place, cx);
        }
        // A client that does not understand `basic.cancel` would wait for ever.
        let refused =
            self.long_header(&format!("the next message of queue '{queue}' in vhost '{}'", self.peer.vhost));
        self.refuse_method(channel, (0, 0), refused, cx);
    }

    /// Requests as many messages from the queue as the client and the settings allow.
    pub(super) fn grant_queue_credit(&mut self, channel: u16, place: u32, cx: &mut Cx<'_>) {
        let Self { channels, conn, without_room, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return };
        let Some(Role::Consumer(consumer)) = state.roles.get(place as usize) else { return };
        let room = state.room(consumer);
        let is_full = conn.output_len() >= cx.output_room;
        let Some(Role::Consumer(consumer)) = state.roles.get_mut(place as usize) else { return };
        if consumer.cancelled != Cancelled::No {
            return;
        }
        if is_full && consumer.outlet.wait_for_room() {
            without_room.push_back((channel, place));
        }
        consumer.outlet.poll_grant(room, is_full, cx);
    }

    /// Called when there may be more room for the consumers of a channel that share a limit.
    pub(super) fn note_shared_room(&mut self, channel: u16) {
        if self.shared_room_grew.last() != Some(&channel) {
            self.shared_room_grew.push(channel);
        }
    }

    /// Continues all consumers that share a limit with more room. The room is for each of them, also for those whose messages
    /// found none.
    pub(super) fn grant_sharing(&mut self, cx: &mut Cx<'_>) {
        let mut grown = std::mem::take(&mut self.shared_room_grew);
        grown.sort_unstable();
        grown.dedup();
        for channel in grown.drain(..) {
            let Some(state) = self.channel(channel) else { continue };
            let has_changed = std::mem::take(&mut state.shared_prefetch_changed);
            for place in state.places() {
                if let Some(Role::Consumer(consumer)) = self.role(channel, place) {
                    if has_changed {
                        consumer.outlet.handle_flow(false, false);
                    }
                    consumer.outlet.resume(cx);
                    self.grant_queue_credit(channel, place, cx);
                }
            }
        }
        self.shared_room_grew = grown;
    }

    /// Continues the consumers that wait until the client has read what it was sent.
    pub(super) fn resume_reading(&mut self, cx: &mut Cx<'_>) {
        if self.conn.output_len() >= cx.output_room {
            return;
        }
        for (channel, place) in std::mem::take(&mut self.without_room) {
            if let Some(Role::Consumer(consumer)) = self.role(channel, place) {
                consumer.outlet.resume(cx);
                self.touch(channel, place);
            }
        }
    }

    /// Returns the consumers of this connection that read streams.
    pub fn stream_consumers(&self) -> impl Iterator<Item = (QueueId, ConsumerId)> {
        let roles = self.channels.iter().flatten().flat_map(|channel| channel.roles.iter());
        roles.filter_map(|(_, role)| match role {
            Role::Consumer(consumer) if consumer.outlet.reads_stream() => {
                Some((consumer.outlet.queue, consumer.outlet.consumer))
            }
            Role::Consumer(_) | Role::Holder { .. } => None,
        })
    }

    /// Returns true if no other component of this shard knows the connection.
    pub(super) fn is_unknown(&self) -> bool {
        let is_unused = |channel: &super::Channel| {
            channel.publisher.is_none() && channel.roles.is_empty() && channel.replies.is_none()
        };
        self.waiting.is_empty()
            && self.own.is_idle()
            && self.channels.iter().flatten().all(|channel| is_unused(channel))
    }
}

/// Returns the value of the field `redelivered`. As in RabbitMQ, a delivery that has failed in another queue counts: the
/// message was rejected there and is a dead letter.
pub(super) fn is_redelivered(lent: &DeliveryRef<'_>) -> bool {
    lent.redelivered() || lent.delivery_count > 0
}

/// Returns what the broker adds to the properties of a delivery.
pub(super) fn additions(lent: &DeliveryRef<'_>, is_quorum: bool, is_stream: bool) -> Additions {
    Additions {
        // RabbitMQ sends no header for a count of 0.
        delivery_count: Some(lent.delivery_count).filter(|count| is_quorum && *count > 0),
        acquired_count: Some(lent.acquired_count).filter(|count| is_quorum && *count > 0),
        stream_offset: is_stream.then_some(lent.seq),
    }
}
