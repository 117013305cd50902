//! What a client wants and somebody else must allow, and messages whose routes take more than a turn. It is held until the answer
//! or the route is there, and then handled again: by then the gate knows it ([`catalog::access::Remote`], [`crate::searches`]).

use amqp10::{Attach, Chunk, Delivery, Open, condition};
use bytes::Bytes;
use catalog::access::Question;
use queue::Ticket;

use super::refusal::Refused;
use super::{Cx, Gate, Phase, Waiting, error, take};
use crate::intake::Awaited;
use crate::searches::{HeldParts, Waiter};

/// What waits for an answer or a route.
#[derive(Debug)]
pub(super) enum Deferred {
    Open(Box<Open>),
    Attach { session: u16, link: u32, attach: Box<Attach> },
    Transfer { session: u16, link: u32, delivery: Box<Delivery<'static>>, key_bytes: usize },
}

impl Deferred {
    /// Returns true if it is the ATTACH of this link.
    pub(super) fn is_of_link(&self, session: u16, link: u32) -> bool {
        matches!(self, Self::Attach { session: s, link: l, .. } if (*s, *l) == (session, link))
    }

    /// Returns the bytes that it keeps in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Transfer { delivery, key_bytes, .. } => delivery.message.len() + key_bytes,
            // They are at most one frame each.
            Self::Open(_) | Self::Attach { .. } => 0,
        }
    }
}

/// Returns a delivery in buffers of its own: a small message would keep the whole buffer that it was read into.
pub(super) fn copy_of(delivery: &Delivery<'_>) -> Box<Delivery<'static>> {
    let copy = |chunk: &[u8]| Chunk::Owned(Bytes::copy_from_slice(chunk));
    Box::new(Delivery {
        id: delivery.id,
        tag: copy(&delivery.tag),
        message_format: delivery.message_format,
        settled: delivery.settled,
        rcv_settle_mode: delivery.rcv_settle_mode,
        message: copy(&delivery.message),
    })
}

impl Gate {
    /// Holds what needs the answer to a question. No input is handled before, so that the order of what the client sends is kept.
    pub(super) fn hold(&mut self, held: Deferred, question: Box<Question>, cx: &mut Cx<'_>) {
        self.stop_input(&held);
        self.ask(Waiting::Deferred(Box::new(held)), question, cx);
    }

    /// Holds what was not found, until this node has caught up with the catalog.
    pub(super) fn hold_unsure(&mut self, held: Deferred, cx: &mut Cx<'_>) {
        self.stop_input(&held);
        self.catch_up(Waiting::Deferred(Box::new(held)), cx);
    }

    fn stop_input(&mut self, held: &Deferred) {
        self.phase = match held {
            Deferred::Open(_) => Phase::Login,
            Deferred::Attach { .. } | Deferred::Transfer { .. } => Phase::Asking,
        };
    }

    /// Lets this node catch up with the catalog. What waits for it is handled again then.
    pub(super) fn catch_up(&mut self, waiting: Waiting, cx: &mut Cx<'_>) {
        match self.ticket(waiting, cx) {
            Some(ticket) => cx.post.unsure.push((ticket, None)),
            None => self.fail_busy(cx),
        }
    }

    /// Returns true if a refusal is no error yet: the catalog may lack something that it depends on.
    pub(super) fn is_unsure(&self, refused: &Refused, cx: &Cx<'_>) -> bool {
        let is_miss = match refused {
            Refused::Link(error) | Refused::Session(error) => {
                [condition::NOT_FOUND, condition::UNAUTHORIZED_ACCESS].contains(&error.condition)
            }
            Refused::Unknown(_) => false,
        };
        cx.may_lag && is_miss && !self.peer.is_remote()
    }

    /// Holds a message until it is known whether it may be published, or where it goes.
    pub(super) fn hold_transfer(
        &mut self,
        session: u16,
        link: u32,
        delivery: &Delivery<'_>,
        awaited: Awaited,
        cx: &mut Cx<'_>,
    ) {
        let delivery = copy_of(delivery);
        let message = match &delivery.message {
            Chunk::Owned(message) => message.clone(),
            Chunk::Borrowed(message) => Bytes::copy_from_slice(message),
        };
        // The search has the keys apart, and the message may consist of them.
        let key_bytes = match &awaited {
            Awaited::Route(route) => route.keys.iter().map(|key| key.len()).sum(),
            Awaited::Answer(_) | Awaited::Catalog => 0,
        };
        let held = Deferred::Transfer { session, link, delivery, key_bytes };
        match awaited {
            Awaited::Answer(question) => self.hold(held, question, cx),
            Awaited::Catalog => self.hold_unsure(held, cx),
            Awaited::Route(route) => {
                self.phase = Phase::Asking;
                match self.ticket(Waiting::Deferred(Box::new(held)), cx) {
                    Some(ticket) => {
                        cx.searches.push(Waiter::Connection(ticket), route, HeldParts::Amqp10(message))
                    }
                    None => self.fail_busy(cx),
                }
            }
        }
    }

    /// Has a question asked. What waits for it is handled again then.
    pub(super) fn ask(&mut self, waiting: Waiting, question: Box<Question>, cx: &mut Cx<'_>) {
        let remote = self.peer.identity.as_ref().and_then(|who| who.remote.clone());
        match self.ticket(waiting, cx).zip(remote) {
            Some((ticket, remote)) => cx.post.permissions.push((ticket, remote, question)),
            None => self.fail_busy(cx),
        }
    }

    fn fail_busy(&mut self, cx: &mut Cx<'_>) {
        let reason = "too many requests in flight on this shard";
        self.fail(error(condition::RESOURCE_LIMIT_EXCEEDED, reason), cx);
    }

    fn resume(&mut self, cx: &Cx<'_>) {
        self.phase = Phase::Open;
        // What the client has sent meanwhile was not read.
        self.conn.forgive_silence(cx.now_ms);
    }

    /// Returns the bytes of what is held, or waits for the end of an alarm.
    pub(super) fn held_bytes(&self) -> usize {
        if self.phase != Phase::Asking {
            return self.margin.bytes();
        }
        let waiting = self.waiting.values();
        let asking = waiting.map(|of| if let Waiting::Deferred(held) = of { held.bytes() } else { 0 });
        self.margin.bytes() + asking.sum::<usize>()
    }

    /// Called when what a ticket waits for is there. Handles again what was held.
    pub fn handle_awaited(&mut self, ticket: Ticket, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        let held = match take(&mut self.waiting, ticket) {
            Some(Waiting::Deferred(held)) => *held,
            // A request waits in its pair, which keeps the order of its requests.
            Some(Waiting::Management { pair, request }) if self.phase.is_open() => {
                self.carry_out(pair, request, cx);
                return self.next_request(pair, cx);
            }
            _ => return,
        };
        match (held, self.phase) {
            (Deferred::Open(open), Phase::Login) => {
                self.phase = Phase::Handshake;
                self.handle_open(*open, cx);
            }
            (Deferred::Attach { session, link, attach }, Phase::Asking) => {
                self.resume(cx);
                // The session may have ended meanwhile.
                if self.conn.session(session).and_then(|session| session.link(link)).is_some() {
                    self.handle_attach(session, link, attach, cx);
                }
            }
            (Deferred::Transfer { session, link, delivery, .. }, Phase::Asking) => {
                self.resume(cx);
                match self.blocked {
                    // What is in the margin arrived after it.
                    true => self.hold_before_margin(session, link, delivery),
                    false => self.handle_transfer(session, link, &delivery, cx),
                }
            }
            _ => {}
        }
        cx.searches.end_found();
        // An alarm may have ended meanwhile.
        self.publish_margin(cx);
    }
}
