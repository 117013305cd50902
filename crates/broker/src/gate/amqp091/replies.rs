//! Direct reply-to: a consumer of the name [`REPLY_TO`] receives the replies to the messages of its channel, without a
//! queue (docs/from-rabbitmq.md, AMQP 0.9.1). Nothing waits and nothing is stored.

use std::sync::Arc;

use amqp091::{BasicConsume, BasicConsumeOk, BasicDeliver, Method};
use catalog::access::Protocol;
use catalog::reply_to::ReplyTo;
use message::{Additions, Message};
use queue::{ConsumerId, Verdict};

use super::long_headers::shorten;
use super::{Gate, OUTPUT_HIGH_WATER, REPLIES, Refused, channel_in, parts, refusal};
use crate::cx::Cx;
use crate::kept::Kept;
use crate::mail::ConsumerAddress;

/// The name that clients consume from, and that they put into the property `reply-to`.
pub(super) const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// The consumer of direct replies of a channel.
#[derive(Debug)]
pub(super) struct Replies {
    pub to: ReplyTo,
    tag: Arc<str>,
    /// The bytes of the tag.
    _kept: Kept,
}

impl Replies {
    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    pub(super) fn close(self, cx: &mut Cx<'_>) {
        cx.consumers.remove(self.to.outlet.0);
        cx.counters.over_mut(Protocol::Amqp091).consumers -= 1;
    }
}

impl Gate {
    pub(super) fn consume_replies(
        &mut self,
        channel: u16,
        consume: &BasicConsume<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let unique = self.peer.id.number;
        let at = self.address(channel, REPLIES);
        let Some(state) = self.channel(channel) else { return Ok(()) };
        if !consume.no_ack {
            return Err(refusal::precondition_failed("reply consumer cannot acknowledge"));
        }
        if state.replies.is_some() {
            return Err(refusal::precondition_failed("reply consumer already set"));
        }
        let tag = match consume.consumer_tag {
            "" => state.new_tag(unique, channel),
            tag if state.tags.contains_key(tag) => {
                let text = format!("attempt to reuse consumer tag '{}'", tag.escape_default());
                return Err(Refused::new(amqp091::ReplyCode::NotAllowed, text));
            }
            tag => tag.into(),
        };
        let kept = self.keep(tag.len())?;
        let key = cx.names.key()?;
        let outlet = cx.consumers.insert(ConsumerAddress::Gate(at)).ok_or_else(refusal::busy)?;
        cx.counters.over_mut(Protocol::Amqp091).consumers += 1;
        let to = ReplyTo { origin: cx.names.origin, outlet: ConsumerId(outlet), key };
        let Some(state) = channel_in(&mut self.channels, channel) else { return Ok(()) };
        state.tags.insert(tag.clone(), REPLIES);
        if !consume.nowait {
            self.conn.send(channel, &Method::BasicConsumeOk(BasicConsumeOk { consumer_tag: &tag }));
        }
        state.replies = Some(Box::new(Replies { to, tag, _kept: kept }));
        Ok(())
    }

    /// Returns true if the consumer at this place takes the replies to this name.
    pub fn takes_replies(&self, at: u64, vhost: &str, to: ReplyTo) -> bool {
        let (channel, place) = parts(at);
        let channel = self.channels.get(usize::from(channel)).and_then(Option::as_ref);
        let replies = channel.and_then(|channel| channel.replies.as_ref());
        place == REPLIES && *self.peer.vhost == *vhost && replies.is_some_and(|replies| replies.to == to)
    }

    /// Delivers a reply now or drops it. The publisher receives an accepting receipt in both cases.
    pub fn handle_reply(&mut self, at: u64, message: &Message, cx: &mut Cx<'_>) -> Verdict {
        let (channel, _) = parts(at);
        let header_max = self.header_max();
        let Self { channels, conn, properties, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return Verdict::Accepted };
        let Some(replies) = &state.replies else { return Verdict::Accepted };
        if conn.output_len() >= OUTPUT_HIGH_WATER {
            cx.counters.replies_dropped += 1;
            return Verdict::Accepted;
        }
        properties.clear();
        let additions = Additions::default();
        message.put_amqp091_properties(&additions, properties);
        if let Some(max) = header_max
            && !shorten(message, &additions, max, properties)
        {
            cx.counters.replies_dropped += 1;
            cx.counters.deliveries_too_large += 1;
            self.refuse_method(channel, (0, 0), self.long_header("a reply"), cx);
            return Verdict::Accepted;
        }
        state.last_tag += 1;
        state.counts.deliveries.auto_ack += 1;
        let deliver = BasicDeliver {
            consumer_tag: &replies.tag,
            delivery_tag: state.last_tag,
            redelivered: false,
            exchange: message.route().exchange(),
            routing_key: message.route().key(),
        };
        let (payload, from) = message.amqp091_payload();
        conn.send_deliver(channel, &deliver, properties, &payload, from);
        cx.counters.over_mut(Protocol::Amqp091).from_volatile.auto_ack += 1;
        Verdict::Accepted
    }
}
