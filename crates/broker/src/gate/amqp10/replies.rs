//! Direct reply-to: links that act as their own queue (docs/compatibility.md, Dynamic nodes). Each requester gets
//! an address of its own. A reply to it is delivered if the link has credit; otherwise it is dropped and counted.
//! Nothing waits and nothing is stored.

use amqp10::{
    Attach, Outgoing, Part, Role, SenderSettleMode, Source, Tag, TerminusDurability, TerminusExpiryPolicy,
    condition,
};
use catalog::access::{Protocol, Resource, Verb};
use catalog::reply_to::ReplyTo;
use message::Message;
use queue::{ConsumerId, Effect, Verdict};

use super::outbound::Modes;
use super::refusal::{Refused, not_implemented, on_link};
use super::{Cx, Gate, LinkRole, Waiting, error, parts, queue_address};
use crate::intake::Target;
use crate::mail::ConsumerAddress;

/// The capability by which a client asks for a link that takes replies.
const VOLATILE_QUEUE: &str = "rabbitmq:volatile-queue";

/// A link that takes replies.
#[derive(Debug)]
pub(super) struct Replies {
    pub to: ReplyTo,
    /// The number of replies sent on the link. The tags of deliveries are made from it.
    pub sent: u64,
    /// The largest delivery that the client accepts, in bytes. 0 means any size.
    max_message_size: u64,
}

pub(super) fn wants_replies(source: &Source) -> bool {
    source.capabilities.iter().any(|c| c.as_str() == VOLATILE_QUEUE)
}

impl Gate {
    pub(super) fn attach_replies(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        source: &Source,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        if source.address.is_some() {
            return Err(on_link(condition::INVALID_FIELD, "a dynamic terminus must have no address", attach));
        }
        let fits = source.durable == TerminusDurability::None
            && source.expiry_policy == TerminusExpiryPolicy::LinkDetach
            && source.timeout == 0
            && attach.snd_settle_mode == SenderSettleMode::Settled;
        if !fits {
            return Err(not_implemented(
                "rabbitmq:volatile-queue needs durable none, expiry-policy link-detach, timeout 0 and \
                 snd-settle-mode settled",
                attach,
            ));
        }
        let key = cx.names.key()?;
        let address = ConsumerAddress::Gate(self.address(session, link));
        let outlet = cx.consumers.insert(address).ok_or_else(|| {
            Refused::Link(error(condition::RESOURCE_LIMIT_EXCEEDED, "too many consumers on this shard"))
        })?;
        let to = ReplyTo { origin: cx.names.origin, outlet: ConsumerId(outlet), key };
        let name = to.name();
        if let Err(refused) = self.permit(Verb::Consume, &[Resource::Queue(&name)], cx) {
            cx.consumers.remove(outlet);
            return Err(refused);
        }
        cx.counters.over_mut(Protocol::Amqp10).consumers += 1;
        let replies = Replies { to, sent: 0, max_message_size: attach.max_message_size.unwrap_or(0) };
        self.set_role(session, link, LinkRole::Replies(Box::new(replies)));
        self.accept_consumer(
            session,
            link,
            attach,
            &queue_address(&name),
            Modes { settled: true, ..Modes::default() },
            cx,
        );
        Ok(())
    }

    /// Attaches a link to the address of another link's replies. The shard of that link is asked first whether it
    /// exists.
    pub(super) fn probe_replies(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        to: ReplyTo,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let waiting = Waiting::Replies { session, link, attach: Box::new(attach.clone()), to };
        let ticket = self.ticket(waiting, cx).ok_or_else(|| {
            Refused::Link(error(
                condition::RESOURCE_LIMIT_EXCEEDED,
                "too many requests in flight on this shard",
            ))
        })?;
        cx.post.probe(&self.peer.vhost, to, ticket);
        Ok(())
    }

    /// Called when the shard of the other link has answered whether that link exists.
    pub(super) fn finish_probe(
        &mut self,
        (session, link): (u16, u32),
        attach: &Attach,
        to: ReplyTo,
        effect: &Effect,
        cx: &mut Cx<'_>,
    ) {
        if !self.awaits_reply(session, link, attach) {
            return;
        }
        let (name, vhost) = (to.name(), &self.peer.vhost);
        let result = match (effect, attach.role) {
            (Effect::Report { .. }, Role::Sender) => self.attach_responder(session, link, attach, &name, cx),
            (Effect::Report { .. }, Role::Receiver) => {
                let reason = format!("only its own link may consume from queue '{name}' in vhost '{vhost}'");
                Err(error(condition::PRECONDITION_FAILED, reason).into())
            }
            _ => {
                let reason = format!("no queue '{name}' in vhost '{vhost}'");
                Err(error(condition::NOT_FOUND, reason).into())
            }
        };
        if let Err(refused) = result {
            self.refuse(session, link, attach, refused, cx);
        }
    }

    fn attach_responder(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        name: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let Some(amqp10::TargetArchetype::Target(target)) = attach.target.clone() else { return Ok(()) };
        // The permission may have been taken away in the meantime.
        self.permit_role(Role::Sender, name, cx)?;
        let intake = self.new_intake(session, link, Target::to_queue(name), cx)?;
        self.accept_publisher(session, link, attach, target, intake, cx);
        Ok(())
    }

    /// Returns true if the link at this place takes the replies to this name.
    pub fn takes_replies(&self, at: u64, vhost: &str, to: ReplyTo) -> bool {
        *self.peer.vhost == *vhost && matches!(self.role_at(at), Some(LinkRole::Replies(r)) if r.to == to)
    }

    /// Delivers a reply now or drops it. The publisher receives an accepting receipt in both cases.
    pub fn handle_reply(&mut self, at: u64, message: &Message, cx: &mut Cx<'_>) -> Verdict {
        let (session, link) = parts(at);
        let credit = self.conn.session(session).filter(|s| {
            // If the client does not read, as many replies may wait as a queue would send ahead.
            s.pending_len() < cx.settings.max_queue_credit.max(1) as usize
        });
        let credit = credit.and_then(|s| s.link(link)).map_or(0, |l| l.sender_credit().credit());
        let Some(LinkRole::Replies(replies)) = self.role(session, link) else { return Verdict::Accepted };
        if credit == 0 {
            cx.counters.replies_dropped += 1;
            return Verdict::Accepted;
        }
        let max = replies.max_message_size;
        let message = &*message.in_amqp10();
        let head = cx.heads.head(message, 0, false, None);
        let (of, from) = message.bare_in();
        let bare = Part { of, from };
        if max > 0 && (head.len() + bare.len()) as u64 > max {
            cx.counters.replies_dropped += 1;
            cx.counters.deliveries_too_large += 1;
            let reason = format!("a reply is larger than the link's max-message-size of {max} bytes");
            self.detach(session, link, error(condition::MESSAGE_SIZE_EXCEEDED, reason), cx);
            return Verdict::Accepted;
        }
        replies.sent += 1;
        let tag = Tag::from_number(replies.sent);
        let outgoing = Outgoing {
            tag,
            settled: true,
            irrevocable: true,
            message_format: 0,
            head,
            bare,
            cookie: replies.sent,
        };
        if self.conn.send(session, link, &outgoing) {
            cx.counters.over_mut(Protocol::Amqp10).from_volatile.auto_ack += 1;
        } else {
            cx.counters.replies_dropped += 1;
        }
        Verdict::Accepted
    }
}
