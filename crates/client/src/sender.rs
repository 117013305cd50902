//! Sending links.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use amqp10::{AmqpError, Attach, DeliveryState, Outgoing, SenderSettleMode, Tag};
use bytes::Bytes;

use crate::checksum::Checksum;
use crate::error::Error;
use crate::link::LinkHandle;
use crate::state::State;

/// Sends messages. All clones are the same link. It is detached when the last clone and the last [`Outcome`]
/// are dropped.
#[derive(Clone)]
pub struct Sender {
    link: Arc<LinkHandle>,
    mode: SenderSettleMode,
    checksum: Option<Checksum>,
}

/// What a sender waits for, as far as the peer has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The peer has closed the window of the session. Sluice and RabbitMQ do this while an alarm stops publishers.
    Window,
    /// The peer has given no credit to the link.
    Credit,
    /// The socket takes no more bytes.
    Socket,
    /// The peer may send the outcomes of messages.
    Outcomes,
}

/// The future outcome of a message. If it is dropped, the message is still sent, but its outcome is ignored.
#[must_use = "await it to learn what became of the message"]
pub struct Outcome {
    link: Arc<LinkHandle>,
    /// The number of the message. `None` if its outcome is known already or was returned.
    number: Option<u64>,
}

impl Sender {
    pub(crate) fn new(link: Arc<LinkHandle>, requested: SenderSettleMode) -> Self {
        // The receiver decides the mode, but only if we requested `mixed`.
        let mode = match requested {
            SenderSettleMode::Mixed => link.remote.snd_settle_mode,
            other => other,
        };
        Self { link, mode, checksum: None }
    }

    pub(crate) fn with_checksum(self, checksum: Option<Checksum>) -> Self {
        Self { checksum, ..self }
    }

    /// Sends an encoded message and waits for its outcome. [`crate::Message::encode`] creates such a message.
    /// On a settled link the outcome is `Accepted` as soon as the message is queued for sending.
    ///
    /// # Errors
    /// If the link is closed, returns the reason; it is then unknown whether the message was received.
    /// `TooLarge` if the message is too large, and `Message` if it is malformed and cannot get its checksum.
    /// Nothing was sent in these two cases.
    pub async fn send(&self, message: Bytes) -> Result<DeliveryState, Error> {
        self.send_pipelined(message).await?.await
    }

    /// Sends a message as soon as credit and capacity allow, and returns its outcome to await later. Messages
    /// of one task are sent in the order of its calls.
    ///
    /// # Errors
    /// Like [`Sender::send`].
    pub async fn send_pipelined(&self, message: Bytes) -> Result<Outcome, Error> {
        self.put(message, self.mode == SenderSettleMode::Settled).await
    }

    /// Sends a message settled, so it has no outcome. For links with the mode settled or mixed.
    ///
    /// # Errors
    /// Like [`Sender::send`].
    pub async fn send_settled(&self, message: Bytes) -> Result<(), Error> {
        self.put(message, true).await.map(drop)
    }

    /// Waits until a message could be sent at once. Another task that sends on this link may use the credit
    /// first.
    ///
    /// # Errors
    /// Returns the reason if the link is closed.
    pub async fn ready(&self) -> Result<(), Error> {
        let ready = self.link.shared().wait(|state, cx| self.poll_room(state, cx).map_ok(drop));
        ready.await
    }

    /// The number of messages that may be sent, according to the peer's credit.
    pub fn credit(&self) -> u32 {
        let state = self.link.shared().lock();
        credit(&state, self.link.key).map_or(0, |(credit, _)| credit)
    }

    /// Returns what keeps the link from sending or from learning the outcomes of messages. `None` if the link is closed.
    pub fn waits_for(&self) -> Option<Waiting> {
        let state = self.link.shared().lock();
        let (channel, _) = state.links.get(self.link.key)?.number?;
        let session = state.endpoint.session(channel)?;
        let (credit, starved) = credit(&state, self.link.key)?;
        Some(match session.remote_incoming_window() {
            0 => Waiting::Window,
            _ if starved => Waiting::Socket,
            _ if credit == 0 => Waiting::Credit,
            _ => Waiting::Outcomes,
        })
    }

    /// The peer's ATTACH: the address of a dynamic node, properties, limits.
    pub fn remote_attach(&self) -> &Attach {
        &self.link.remote
    }

    /// Detaches the link and waits for the peer's DETACH. Outcomes that have not arrived by then are lost.
    ///
    /// # Errors
    /// Returns the reason if the link was closed before. Being detached without a reason is not an error.
    pub async fn detach(self) -> Result<(), Error> {
        self.link.detach(None).await
    }

    /// Like [`Sender::detach`], with an error for the peer.
    pub async fn detach_with(self, error: AmqpError) -> Result<(), Error> {
        self.link.detach(Some(error)).await
    }

    /// Waits until the link is closed and returns the reason.
    pub async fn closed(&self) -> Error {
        self.link.closed().await
    }

    async fn put(&self, message: Bytes, settled: bool) -> Result<Outcome, Error> {
        let message = match self.checksum {
            Some(checksum) => checksum.seal(&message)?,
            None => message,
        };
        let max = self.link.remote.max_message_size.unwrap_or(0);
        if max > 0 && message.len() as u64 > max {
            return Err(Error::TooLarge { max });
        }
        let number = self.link.shared().wait(|state, cx| self.poll_put(state, cx, &message, settled)).await?;
        Ok(Outcome { link: Arc::clone(&self.link), number })
    }

    /// Returns the channel and the number of the link, once there is credit and capacity for a message.
    fn poll_room(&self, state: &mut State, cx: &Context<'_>) -> Poll<Result<(u16, u32), Error>> {
        let key = self.link.key;
        let room = credit(state, key);
        let Some(link) = state.links.get_mut(key) else { return Poll::Ready(Err(Error::Closed)) };
        if let Some(error) = &link.closed {
            return Poll::Ready(Err(error.clone()));
        }
        let (Some((channel, number)), Some((credit, starved))) = (link.number, room) else {
            return Poll::Ready(Err(Error::Closed));
        };
        if starved && let Some(session) = state.sessions.get_mut(link.session) {
            session.starved = true;
        }
        if starved || credit == 0 || link.outcomes.is_full() {
            link.wakers.register(cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok((channel, number)))
    }

    fn poll_put(
        &self,
        state: &mut State,
        cx: &Context<'_>,
        message: &Bytes,
        settled: bool,
    ) -> Poll<Result<Option<u64>, Error>> {
        let (channel, number) = match self.poll_room(state, cx) {
            Poll::Ready(Ok(place)) => place,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        let Some(link) = state.links.get_mut(self.link.key) else { return Poll::Ready(Err(Error::Closed)) };
        let cookie = link.outcomes.next();
        let delivery = Outgoing::whole(Tag::from_number(cookie), settled, message, cookie);
        if !state.endpoint.send(channel, number, &delivery) {
            // The link was detached, by the peer or by us. The waiter will be notified when it is closed.
            link.wakers.register(cx);
            return Poll::Pending;
        }
        link.outcomes.push(settled);
        state.wake_driver();
        Poll::Ready(Ok((!settled).then_some(cookie)))
    }
}

/// Returns the credit of a sending link, and whether deliveries of its session wait for the window or the
/// socket.
fn credit(state: &State, key: usize) -> Option<(u32, bool)> {
    let (channel, number) = state.links.get(key)?.number?;
    let session = state.endpoint.session(channel)?;
    Some((session.link(number)?.sender_credit().credit(), session.pending_len() > 0))
}

impl Outcome {
    /// Returns the outcome if it has arrived.
    pub fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<DeliveryState, Error>> {
        let Some(number) = self.number else { return Poll::Ready(Ok(DeliveryState::Accepted)) };
        let mut state = self.link.shared().lock();
        let Some(link) = state.links.get_mut(self.link.key) else { return Poll::Ready(Err(Error::Closed)) };
        let was_full = link.outcomes.is_full();
        let result = match link.outcomes.take(number, cx) {
            Some(outcome) => Ok(outcome),
            None => match &link.closed {
                Some(error) => Err(error.clone()),
                None => return Poll::Pending,
            },
        };
        if was_full {
            link.wakers.wake();
        }
        drop(state);
        self.number = None;
        Poll::Ready(result)
    }
}

impl Future for Outcome {
    type Output = Result<DeliveryState, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(cx)
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && let Some(link) = self.link.shared().lock().links.get_mut(self.link.key)
        {
            link.outcomes.abandon(number);
        }
    }
}
