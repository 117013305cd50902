//! Receiving links.

use std::sync::Arc;
use std::task::{Context, Poll};

use amqp10::{AmqpError, Attach, DeliveryState, Flow, Modified, Tag};
use bytes::Bytes;

use crate::checksum::Checksum;
use crate::error::Error;
use crate::link::LinkHandle;
use crate::options::Credit;
use crate::state::{LinkState, Received, State};

/// Receives messages; it detaches when it and all its deliveries are dropped. At most as many messages wait in memory
/// as credit was granted.
pub struct Receiver {
    link: Arc<LinkHandle>,
    credit: Credit,
}

/// A message that has arrived. Settle it with one of the four outcomes; dropped, it stays unsettled and goes back to
/// its queue when the link ends.
pub struct Delivery {
    /// The encoded message; [`crate::Message::decode`] reads it. It shares the memory it was read into: copy what is to
    /// be kept for long.
    pub message: Bytes,
    /// Number of the delivery in the session.
    pub id: u32,
    /// The sender's name for the delivery.
    pub tag: Tag,
    /// 0 for messages of the standard's format.
    pub message_format: u32,
    /// The sender has settled it: an outcome changes nothing.
    pub settled: bool,
    link: Arc<LinkHandle>,
}

/// What a drain has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Credit that the peer had no message for and handed back.
    pub unused: u32,
    /// Messages that wait to be read by [`Receiver::recv`].
    pub waiting: usize,
}

impl Receiver {
    pub(crate) fn new(link: Arc<LinkHandle>, credit: Credit) -> Self {
        let receiver = Self { link, credit };
        if let Credit::Auto(n) = credit {
            receiver.flow(n.max(1), false, false);
        }
        receiver
    }

    /// The next message, in the order of arrival. With automatic credit, more is granted as messages are read.
    ///
    /// # Errors
    /// Why the link is over, once everything that arrived before has been read.
    pub async fn recv(&self) -> Result<Delivery, Error> {
        let received = self.link.shared().wait(|state, cx| self.poll_take(state, Some(cx))).await?;
        Ok(self.delivery(received))
    }

    /// The next message if one has arrived.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub fn try_recv(&self) -> Result<Option<Delivery>, Error> {
        match self.poll_take(&mut self.link.shared().lock(), None) {
            Poll::Ready(received) => received.map(|r| Some(self.delivery(r))),
            Poll::Pending => Ok(None),
        }
    }

    /// Sets (does not add to) the credit: so many more messages may come. `drain`: credit that the peer has no message
    /// for is handed back at once. `echo`: the peer is to answer with a FLOW.
    pub fn flow(&self, credit: u32, drain: bool, echo: bool) {
        grant(&mut self.link.shared().lock(), self.link.key, credit, drain, echo);
    }

    /// Has the peer send what it has for the current credit and hand back the rest, and waits until it has. Automatic
    /// credit starts again with the next [`Receiver::recv`].
    ///
    /// # Errors
    /// Why the link is over.
    pub async fn drain(&self) -> Result<Drained, Error> {
        // Under one lock: a message that arrived in between would be granted again.
        let (credit, before) = {
            let mut state = self.link.shared().lock();
            let credit = credit(&state, self.link.key);
            grant(&mut state, self.link.key, credit, true, false);
            (credit, self.link_received(&state))
        };
        let shared = self.link.shared();
        shared
            .wait(|state, cx| {
                // The first frame of a large message uses up its credit: the message itself arrives later.
                let is_over = self::credit(state, self.link.key) == 0 && !is_receiving(state, self.link.key);
                let Some(link) = state.links.get_mut(self.link.key) else {
                    return Poll::Ready(Err(Error::Closed));
                };
                if let Some(error) = &link.closed {
                    return Poll::Ready(Err(error.clone()));
                }
                if !is_over {
                    link.wakers.register(cx);
                    return Poll::Pending;
                }
                link.draining = false;
                let came = u32::try_from(link.received - before).unwrap_or(u32::MAX);
                Poll::Ready(Ok(Drained { unused: credit.saturating_sub(came), waiting: link.inbox.len() }))
            })
            .await
    }

    /// Credit granted and not yet used.
    pub fn credit(&self) -> u32 {
        credit(&self.link.shared().lock(), self.link.key)
    }

    /// Messages that have arrived and wait to be read.
    pub fn waiting(&self) -> usize {
        self.link.look(|link| link.inbox.len())
    }

    /// The peer's last FLOW on this link: `available`, and properties such as `rabbitmq:active`.
    pub fn last_flow(&self) -> Option<Flow> {
        self.link.look(|link| link.flow.clone())
    }

    /// The peer's ATTACH: the address of a dynamic node, the filter in place, capabilities.
    pub fn remote_attach(&self) -> &Attach {
        &self.link.remote
    }

    /// Detaches and waits for the peer's DETACH. Unsettled deliveries go back to their queue.
    ///
    /// # Errors
    /// Why the link was over already, unless it was detached without a reason.
    pub async fn detach(self) -> Result<(), Error> {
        self.link.detach(None).await
    }

    /// As [`Receiver::detach`], with a reason for the peer.
    pub async fn detach_with(self, error: AmqpError) -> Result<(), Error> {
        self.link.detach(Some(error)).await
    }

    /// Waits until the link is over and says why.
    pub async fn closed(&self) -> Error {
        self.link.closed().await
    }

    fn link_received(&self, state: &State) -> u64 {
        state.links.get(self.link.key).map_or(0, |l| l.received)
    }

    fn delivery(&self, received: Received) -> Delivery {
        Delivery {
            message: received.message,
            id: received.id,
            tag: received.tag,
            message_format: received.message_format,
            settled: received.settled,
            link: Arc::clone(&self.link),
        }
    }

    fn poll_take(&self, state: &mut State, cx: Option<&Context<'_>>) -> Poll<Result<Received, Error>> {
        let key = self.link.key;
        let Some(link) = state.links.get_mut(key) else { return Poll::Ready(Err(Error::Closed)) };
        let received = link.inbox.pop_front();
        let outcome = match (received, &link.closed) {
            (Some(received), _) => Poll::Ready(Ok(received)),
            (None, Some(error)) => Poll::Ready(Err(error.clone())),
            (None, None) => {
                if let Some(cx) = cx {
                    link.wakers.register(cx);
                }
                Poll::Pending
            }
        };
        if let Credit::Auto(n) = self.credit {
            top_up(state, key, n.max(1));
        }
        outcome
    }
}

/// Grants again when at most half of what may be under way or waiting is.
fn top_up(state: &mut State, key: usize, n: u32) {
    let Some(LinkState { number: Some((channel, number)), draining: false, inbox, .. }) =
        state.links.get(key)
    else {
        return;
    };
    let (channel, number) = (*channel, *number);
    let waiting = u32::try_from(inbox.len()).unwrap_or(u32::MAX);
    if credit(state, key).saturating_add(waiting) <= n / 2 {
        state.endpoint.grant(channel, number, n.saturating_sub(waiting), false, false);
        state.kick();
    }
}

fn grant(state: &mut State, key: usize, credit: u32, drain: bool, echo: bool) {
    let Some(link) = state.links.get_mut(key) else { return };
    link.draining |= drain;
    if let Some((channel, number)) = link.number {
        state.endpoint.grant(channel, number, credit, drain, echo);
        state.kick();
    }
}

fn credit(state: &State, key: usize) -> u32 {
    endpoint_link(state, key).map_or(0, |link| link.receiver_credit().credit())
}

fn is_receiving(state: &State, key: usize) -> bool {
    endpoint_link(state, key).is_some_and(amqp10::Link::is_receiving)
}

fn endpoint_link(state: &State, key: usize) -> Option<&amqp10::Link> {
    let (channel, number) = state.links.get(key)?.number?;
    state.endpoint.session(channel)?.link(number)
}

impl Delivery {
    /// Computes the checksums that its sender put into the footer. See [`Checksum::verify`].
    ///
    /// # Errors
    /// One is wrong, or the message is malformed.
    pub fn verify(&self) -> Result<Vec<Checksum>, Error> {
        Checksum::verify(&self.message)
    }

    /// Done with: the queue forgets it.
    ///
    /// # Errors
    /// This and the other outcomes: why the link is over; then the outcome does not count.
    pub fn accept(self) -> Result<(), Error> {
        self.settle(DeliveryState::Accepted)
    }

    /// Not to be had: dead-lettered or dropped.
    pub fn reject(self, error: Option<AmqpError>) -> Result<(), Error> {
        self.settle(DeliveryState::Rejected(error))
    }

    /// Back to the queue, as if it had never been delivered.
    pub fn release(self) -> Result<(), Error> {
        self.settle(DeliveryState::Released)
    }

    /// Back to the queue, changed.
    pub fn modify(self, modified: Modified) -> Result<(), Error> {
        self.settle(DeliveryState::Modified(modified))
    }

    /// Settles with any state. Neighbouring deliveries that are settled alike before the connection's next turn share
    /// one frame.
    pub fn settle(self, outcome: DeliveryState) -> Result<(), Error> {
        let mut state = self.link.shared().lock();
        let Some(link) = state.links.get(self.link.key) else { return Err(Error::Closed) };
        if let Some(error) = &link.closed {
            return Err(error.clone());
        }
        let session = link.session;
        if !self.settled {
            state.settle(session, self.id, outcome);
        }
        Ok(())
    }
}
