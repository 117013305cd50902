//! Receiving links.

use std::sync::Arc;
use std::task::{Context, Poll};

use amqp10::{AmqpError, Attach, DeliveryState, Modified, Tag};
use bytes::Bytes;

use crate::checksum::Checksum;
use crate::error::Error;
use crate::link::LinkHandle;
use crate::options::Credit;
use crate::state::{LinkState, Received, State};

/// Receives messages. It is detached when it and all its deliveries are dropped. At most as many messages
/// wait in memory as credit was granted.
pub struct Receiver {
    link: Arc<LinkHandle>,
    credit: Credit,
}

/// A received message. Settle it with one of the four outcomes. If it is dropped, it stays unsettled, and the
/// peer requeues it when the link is detached.
pub struct Delivery {
    /// The encoded message. [`crate::Message::decode`] decodes it. It shares the memory of the read buffer,
    /// so copy parts that you retain for long.
    pub message: Bytes,
    /// The delivery-id.
    pub id: u32,
    /// The sender's name for the delivery.
    pub tag: Tag,
    /// The message format. It is 0 for messages of the standard's format.
    pub message_format: u32,
    /// True if the sender has settled the delivery, so that an outcome has no effect.
    pub settled: bool,
    link: Arc<LinkHandle>,
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// The credit that the peer returned because it had no messages for it.
    pub unused: u32,
    /// The number of messages that wait to be read with [`Receiver::recv`].
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

    /// Returns the next message, in the order of arrival. Automatic credit is granted again as messages are
    /// read.
    ///
    /// # Errors
    /// Returns the reason if the link is closed, after all messages that arrived before.
    pub async fn recv(&self) -> Result<Delivery, Error> {
        let received = self.link.shared().wait(|state, cx| self.poll_take(state, Some(cx))).await?;
        Ok(self.delivery(received))
    }

    /// Returns the next message if one has arrived.
    ///
    /// # Errors
    /// Like [`Receiver::recv`].
    pub fn try_recv(&self) -> Result<Option<Delivery>, Error> {
        match self.poll_take(&mut self.link.shared().lock(), None) {
            Poll::Ready(received) => received.map(|r| Some(self.delivery(r))),
            Poll::Pending => Ok(None),
        }
    }

    /// Sets (does not add to) the credit, the number of further messages that may arrive. With `drain` the
    /// peer returns unused credit at once. With `echo` the peer answers with a FLOW.
    pub fn flow(&self, credit: u32, drain: bool, echo: bool) {
        grant(&mut self.link.shared().lock(), self.link.key, credit, drain, echo);
    }

    /// Makes the peer use the current credit for the messages that it has and return the rest, and waits for
    /// that. Automatic credit starts again with the next [`Receiver::recv`].
    ///
    /// # Errors
    /// Returns the reason if the link is closed.
    pub async fn drain(&self) -> Result<Drained, Error> {
        // Both are read under one lock. Otherwise a message that arrives in between would be granted again.
        let (credit, before) = {
            let mut state = self.link.shared().lock();
            let credit = credit(&state, self.link.key);
            grant(&mut state, self.link.key, credit, true, false);
            (credit, self.link_received(&state))
        };
        let shared = self.link.shared();
        shared
            .wait(|state, cx| {
                // A large message uses up its credit with its first frame, although the message itself
                // arrives later.
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
                let arrived = u32::try_from(link.received - before).unwrap_or(u32::MAX);
                Poll::Ready(Ok(Drained { unused: credit.saturating_sub(arrived), waiting: link.inbox.len() }))
            })
            .await
    }

    /// The credit granted and not yet used.
    pub fn credit(&self) -> u32 {
        credit(&self.link.shared().lock(), self.link.key)
    }

    /// The number of messages that have arrived and wait to be read.
    pub fn waiting(&self) -> usize {
        self.link.read(|link| link.inbox.len())
    }

    /// The peer's ATTACH: the address of a dynamic node, the accepted filters, capabilities.
    pub fn remote_attach(&self) -> &Attach {
        &self.link.remote
    }

    /// Detaches the link and waits for the peer's DETACH. The peer requeues unsettled deliveries.
    ///
    /// # Errors
    /// Returns the reason if the link was closed before. Being detached without a reason is not an error.
    pub async fn detach(self) -> Result<(), Error> {
        self.link.detach(None).await
    }

    /// Like [`Receiver::detach`], with an error for the peer.
    pub async fn detach_with(self, error: AmqpError) -> Result<(), Error> {
        self.link.detach(Some(error)).await
    }

    /// Waits until the link is closed and returns the reason.
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

/// Grants credit again when credit and waiting messages together are at most half of `n`.
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
        state.wake_driver();
    }
}

fn grant(state: &mut State, key: usize, credit: u32, drain: bool, echo: bool) {
    let Some(link) = state.links.get_mut(key) else { return };
    link.draining |= drain;
    if let Some((channel, number)) = link.number {
        state.endpoint.grant(channel, number, credit, drain, echo);
        state.wake_driver();
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
    /// Verifies the checksums in the footer. See [`Checksum::verify`].
    ///
    /// # Errors
    /// A checksum is wrong, or the message is malformed.
    pub fn verify(&self) -> Result<Vec<Checksum>, Error> {
        Checksum::verify(&self.message)
    }

    /// Accepts the message. The queue removes it.
    ///
    /// # Errors
    /// For this and the other outcomes: if the link is closed, returns the reason, and the outcome has no
    /// effect.
    pub fn accept(self) -> Result<(), Error> {
        self.settle(DeliveryState::Accepted)
    }

    /// Rejects the message. The queue dead-letters or drops it.
    pub fn reject(self, error: Option<AmqpError>) -> Result<(), Error> {
        self.settle(DeliveryState::Rejected(error))
    }

    /// Releases the message. The queue requeues it as if it had never been delivered.
    pub fn release(self) -> Result<(), Error> {
        self.settle(DeliveryState::Released)
    }

    /// Returns the message to the queue with these modifications.
    pub fn modify(self, modified: Modified) -> Result<(), Error> {
        self.settle(DeliveryState::Modified(modified))
    }

    /// Settles with any state. Consecutive deliveries that are settled alike before the connection's next
    /// write share one frame.
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
