//! Sessions.

use std::sync::Arc;
use std::task::Poll;

use amqp10::Attach;

use crate::error::Error;
use crate::handles::SessionHandle;
use crate::link::LinkHandle;
use crate::options::{Credit, ReceiverOptions, SenderOptions};
use crate::receiver::Receiver;
use crate::sender::Sender;

/// A session of a connection. All clones are the same session. It ends when the last clone is dropped and no
/// link uses it any more.
#[derive(Clone)]
pub struct Session {
    pub(crate) handle: Arc<SessionHandle>,
}

impl Session {
    /// Attaches a sender. Without an address each message contains its own address (the anonymous terminus).
    ///
    /// # Errors
    /// `Remote` with scope `Link` if the peer refuses the link, or with scope `Session` if it ends the
    /// session.
    pub async fn sender(&self, address: Option<&str>, options: SenderOptions) -> Result<Sender, Error> {
        let name = options.name.clone().unwrap_or_else(|| self.link_name());
        let checksum = options.checksum;
        let sender = self.sender_with(options.attach(address, name)).await?;
        Ok(sender.with_checksum(checksum))
    }

    /// Attaches a sender with a custom ATTACH. Its handle is filled in; its role must be sender.
    pub async fn sender_with(&self, mut attach: Attach) -> Result<Sender, Error> {
        attach.initial_delivery_count.get_or_insert(0);
        let mode = attach.snd_settle_mode;
        let link = LinkHandle::attach(&self.handle, attach).await?;
        Ok(Sender::new(link, mode))
    }

    /// Attaches a receiver.
    ///
    /// # Errors
    /// Like [`Session::sender`].
    pub async fn receiver(&self, address: Option<&str>, options: ReceiverOptions) -> Result<Receiver, Error> {
        let name = options.name.clone().unwrap_or_else(|| self.link_name());
        let credit = options.credit;
        self.receiver_with(options.attach(address, name), credit).await
    }

    /// Attaches a receiver with a custom ATTACH. Its handle is filled in; its role must be receiver.
    pub async fn receiver_with(&self, attach: Attach, credit: Credit) -> Result<Receiver, Error> {
        let link = LinkHandle::attach(&self.handle, attach).await?;
        Ok(Receiver::new(link, credit))
    }

    /// Ends the session and waits for the peer's END.
    ///
    /// # Errors
    /// Returns the reason if the session was closed before. Being ended without a reason is not an error.
    pub async fn end(self) -> Result<(), Error> {
        let shared = &self.handle.connection.shared;
        {
            let mut state = shared.lock();
            state.flush_dispositions();
            if let Some(channel) = state.sessions.get(self.handle.key).and_then(|s| s.channel) {
                state.endpoint.end(channel, None);
                state.wake_driver();
            }
        }
        match self.closed().await {
            Error::Closed => Ok(()),
            error => Err(error),
        }
    }

    /// Waits until the session is closed and returns the reason.
    pub async fn closed(&self) -> Error {
        let key = self.handle.key;
        self.handle
            .connection
            .shared
            .wait(|state, cx| {
                let Some(session) = state.sessions.get_mut(key) else { return Poll::Ready(Error::Closed) };
                match &session.closed {
                    Some(error) => Poll::Ready(error.clone()),
                    None => {
                        session.wakers.register(cx);
                        Poll::Pending
                    }
                }
            })
            .await
    }

    fn link_name(&self) -> String {
        let mut state = self.handle.connection.shared.lock();
        let number = state.sessions.get_mut(self.handle.key).map_or(0, |session| {
            session.next_name += 1;
            session.next_name
        });
        format!("link-{number}")
    }
}
