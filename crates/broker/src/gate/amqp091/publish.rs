//! Publishing: `basic.publish` and `basic.return`. [`crate::intake`] does what every publisher needs, in every protocol.

use std::sync::Arc;

use amqp091::frame::CONTENT_HEADER_SIZE;
use amqp091::{BasicPublish, BasicReturn, Content, Method, ReplyCode};
use bytes::Bytes;
use catalog::CatalogError;
use catalog::access::{Identity, Protocol};
use message::{Basic, Route};

use super::channel::{Channel, Publisher};
use super::confirms::Published;
use super::held::{Arriving, Deferred, HeldMessage};
use super::replies::{REPLY_TO, Replies};
use super::{Gate, PUBLISHER, Refused, channel_in, refusal};
use crate::cx::Cx;
use crate::follow::home_of_route;
use crate::intake::{self, Arrived, Intake, Publication as _, Target};
use crate::mail::GateAddress;
use crate::settings::Settings;

impl Gate {
    /// Handles a method with content. The only one that a client sends is `basic.publish`.
    pub(super) fn handle_content(&mut self, channel: u16, content: &Content<'_>, cx: &mut Cx<'_>) {
        let Some(arriving) = Arriving::new(content) else {
            let refused = refusal::unimplemented_method();
            return self.refuse_method(channel, (BasicPublish::CLASS_ID, 0), refused, cx);
        };
        if self.is_committing(channel) {
            return self.hold_behind_commit(channel, Deferred::Publish(HeldMessage::new(channel, &arriving)));
        }
        self.publish_or_hold(channel, &arriving, cx);
    }

    /// Handles a message, unless it is held. Every message passes here, also one that was held.
    #[inline]
    pub(super) fn publish_or_hold(&mut self, channel: u16, arriving: &Arriving<'_>, cx: &mut Cx<'_>) {
        if self.publishes_freely || !self.is_held(channel, arriving, cx) {
            self.handle_publish(channel, arriving, cx);
        }
    }

    /// Holds a message while an alarm stops publishing, or if the connection is to move to another shard first. Returns false
    /// if the message may be handled now.
    #[inline(never)]
    fn is_held(&mut self, channel: u16, arriving: &Arriving<'_>, cx: &mut Cx<'_>) -> bool {
        if self.blocked {
            self.stop(Deferred::Publish(HeldMessage::new(channel, arriving)));
            return true;
        }
        if self.follow.is_undecided() {
            let BasicPublish { exchange, routing_key, .. } = arriving.publish;
            if !self.is_unknown() {
                self.follow.stay();
            } else if let Some(home) =
                home_of_route(cx.catalog, cx.placements, &self.peer.vhost, exchange, routing_key)
            {
                let held = Deferred::Publish(HeldMessage::new(channel, arriving));
                if self.follow.decide(held, home, cx.shard).is_none() {
                    return true;
                }
            }
        }
        self.publishes_freely = !self.follow.is_undecided();
        false
    }

    fn handle_publish(&mut self, channel: u16, arriving: &Arriving<'_>, cx: &mut Cx<'_>) {
        let published = match self.channel(channel) {
            Some(Channel { tx: Some(_), .. }) => return self.publish_in_tx(channel, arriving, cx),
            Some(Channel { confirms: Some(confirms), .. }) => Published::Confirmed(confirms.publish()),
            _ => Published::Unconfirmed,
        };
        self.publish(channel, arriving, published, cx);
    }

    /// Publishes a message that is not part of a transaction. It is answered as `published` says.
    fn publish(&mut self, channel: u16, arriving: &Arriving<'_>, published: Published, cx: &mut Cx<'_>) {
        let failed = (BasicPublish::CLASS_ID, BasicPublish::METHOD_ID);
        match self.try_publish(channel, arriving, published, cx) {
            Ok(_) => {}
            Err(Refused::Awaits(awaited)) => {
                // It gets its number when it is handled again.
                if let Published::Confirmed(_) = published
                    && let Some(confirms) =
                        self.channel(channel).and_then(|channel| channel.confirms.as_mut())
                {
                    confirms.take_back();
                }
                self.hold(Deferred::Publish(HeldMessage::new(channel, arriving)), awaited, cx);
            }
            Err(refused) => self.refuse_method(channel, failed, refused, cx),
        }
    }

    /// Checks everything that can be checked without a queue.
    pub(super) fn check_publish(
        &mut self,
        channel: u16,
        arriving: &Arriving<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let publish = arriving.publish;
        if publish.immediate {
            return Err(refusal::not_implemented("immediate=true"));
        }
        let address = self.address(channel, PUBLISHER);
        let Self { channels, peer, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return Ok(()) };
        if state.publisher.is_none() {
            state.publisher = Some(Publisher::open(address, &publish, cx)?);
        }
        let Channel { publisher: Some(publisher), replies, .. } = state else { return Ok(()) };
        let basic = read(arriving, replies.as_deref(), peer.identity.as_ref(), cx.settings)?;
        let route = publisher.route_of(&publish, &basic);
        let checked = publisher.intake.check(peer.sender(channel), Arrived::Amqp091(&basic), &route, cx);
        checked.map_err(|refused| refusal_of(refused, &peer.vhost))
    }

    /// Returns false if the message reaches no queue. Then it has its answer already, unless it is part of a transaction.
    #[inline(always)]
    pub(super) fn try_publish(
        &mut self,
        channel: u16,
        arriving: &Arriving<'_>,
        published: Published,
        cx: &mut Cx<'_>,
    ) -> Result<bool, Refused> {
        let Arriving { publish, properties, payload, .. } = *arriving;
        if publish.immediate {
            return Err(refusal::not_implemented("immediate=true"));
        }
        let address = self.address(channel, PUBLISHER);
        let Self { channels, peer, conn, has_debt, touched, .. } = self;
        let Some(state) = channel_in(channels, channel) else { return Ok(true) };
        if state.publisher.is_none() {
            state.publisher = Some(Publisher::open(address, &publish, cx)?);
        }
        let Channel { publisher, confirms, replies, counts, .. } = state;
        let Some(publisher) = publisher else { return Ok(true) };
        counts.received += 1;
        let wants_receipt = published.wants_receipt();
        publisher.intake.note_received(payload.len(), wants_receipt, cx);
        let basic = read(arriving, replies.as_deref(), peer.identity.as_ref(), cx.settings)?;
        let route = publisher.route_of(&publish, &basic);
        let result = publisher.intake.publish(
            peer.sender(channel),
            Arrived::Amqp091(&basic),
            Some(route),
            published,
            cx,
        );
        if let Err(refused) = &result
            && refused.is_wait()
        {
            counts.received -= 1;
            publisher.intake.take_back_received(payload.len(), wants_receipt, cx);
        } else {
            publisher.credit = publisher.credit.saturating_sub(1);
            *has_debt |= publisher.credit == 0;
            if touched.last() != Some(&(channel, PUBLISHER)) {
                touched.push((channel, PUBLISHER));
            }
        }
        let Err(refused) = result else { return Ok(true) };
        match refused {
            intake::Refused::Unroutable => {
                publisher.intake.note_unroutable(publish.mandatory, cx);
                *if publish.mandatory { &mut counts.returned } else { &mut counts.dropped } += 1;
                if publish.mandatory {
                    let returned = BasicReturn {
                        reply_code: ReplyCode::NoRoute.number(),
                        reply_text: ReplyCode::NoRoute.name(),
                        exchange: publish.exchange,
                        routing_key: publish.routing_key,
                    };
                    let payload = Bytes::copy_from_slice(payload);
                    conn.send_content(channel, &Method::BasicReturn(returned), properties, &payload, 0);
                }
                if let (Published::Confirmed(number), Some(confirms)) = (published, confirms) {
                    confirms.note_ack(number);
                    cx.counters.over_mut(Protocol::Amqp091).confirmed += 1;
                }
                Ok(false)
            }
            refused => Err(refusal_of(refused, &peer.vhost)),
        }
    }
}

impl Publisher {
    /// Registers the publisher of a channel, with its first message.
    fn open(at: GateAddress, publish: &BasicPublish<'_>, cx: &mut Cx<'_>) -> Result<Box<Self>, Refused> {
        let intake = Intake::open(at, Protocol::Amqp091, Target::Named { cached: None }, cx)
            .ok_or_else(refusal::busy)?;
        let route = Arc::new(Route::simple(publish.exchange, publish.routing_key));
        Ok(Box::new(Self { intake, credit: cx.settings.max_link_credit, route }))
    }

    /// Returns the route of a message. Most messages take that of the message before, which is shared. A message with keys
    /// that receivers do not see has a route of its own, without them (see [`Intake::publish`]).
    fn route_of(&mut self, publish: &BasicPublish<'_>, basic: &Basic<'_>) -> Arc<Route> {
        let is_same = |route: &Route| {
            **route.exchange() == *publish.exchange
                && route.key() == publish.routing_key
                && route.keys().len() == 1
        };
        let has_more = !basic.cc().is_empty() || !basic.bcc().is_empty();
        match (has_more, is_same(&self.route)) {
            (false, true) => {}
            (false, false) => self.route = Arc::new(Route::simple(publish.exchange, publish.routing_key)),
            (true, _) => {
                let mut keys = vec![Arc::from(publish.routing_key)];
                keys.extend(basic.cc().iter().cloned());
                return Arc::new(Route::new(publish.exchange, keys));
            }
        }
        self.route.clone()
    }
}

/// Reads the properties of a message, and checks them.
#[inline(always)]
fn read<'a>(
    arriving: &'a Arriving<'_>,
    replies: Option<&Replies>,
    identity: Option<&Identity>,
    settings: &Settings,
) -> Result<Basic<'a>, Refused> {
    let Arriving { properties, payload, assembled, .. } = arriving;
    check_header_size(properties.len(), settings)?;
    let basic = match assembled {
        Some(whole) => Basic::owned(whole, properties.len()),
        None => Basic::borrowed(properties, payload),
    };
    let mut basic = basic.map_err(|bad| refusal::of_message(&bad))?;
    check_user_id(basic.user_id(), identity)?;
    if basic.reply_to() == Some(REPLY_TO.as_bytes()) {
        let Some(replies) = replies else {
            return Err(refusal::precondition_failed("fast reply consumer does not exist"));
        };
        basic.set_reply_to(&replies.to.name()).map_err(|bad| refusal::of_message(&bad.into()))?;
    }
    Ok(basic)
}

/// Maps the refusal of a message.
fn refusal_of(refused: intake::Refused, vhost: &str) -> Refused {
    let refused = match refused.awaited() {
        Ok(awaited) => return Refused::Awaits(awaited),
        Err(refused) => refused,
    };
    match refused {
        intake::Refused::NoExchange(exchange) => CatalogError::no_exchange(vhost, &exchange).into(),
        intake::Refused::Internal(exchange) => Refused::new(
            ReplyCode::AccessRefused,
            format!("cannot publish to internal exchange '{exchange}' in vhost '{vhost}'"),
        ),
        intake::Refused::AccessRefused(refused) | intake::Refused::AccessLost(refused) => refused.into(),
        // Only a message that is routed can have no route. It is returned or dropped.
        intake::Refused::Unroutable | intake::Refused::TooLong(_) | intake::Refused::Unsure => {
            Refused::new(ReplyCode::NoRoute, "no queue takes the message")
        }
    }
}

/// Checks that there is room in a frame for the headers that the broker adds when it delivers the message.
fn check_header_size(properties_len: usize, settings: &Settings) -> Result<(), Refused> {
    let (size, max) = (CONTENT_HEADER_SIZE + properties_len, settings.content_header_max());
    if size <= max as usize {
        return Ok(());
    }
    Err(refusal::precondition_failed(format!(
        "content header size {size} is larger than the maximum {max} (frame_max less room for headers that the broker adds)"
    )))
}

/// Checks that the property `user-id` is absent or names the user.
fn check_user_id(claimed: Option<&[u8]>, identity: Option<&Identity>) -> Result<(), Refused> {
    let (Some(claimed), Some(identity)) = (claimed, identity) else { return Ok(()) };
    if claimed == identity.user.as_bytes() || identity.has_tag("impersonator") {
        return Ok(());
    }
    Err(refusal::precondition_failed(format!(
        "user_id property set to '{}' but authenticated user was '{}'",
        String::from_utf8_lossy(claimed).escape_default(),
        identity.user
    )))
}
