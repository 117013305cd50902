//! The common part of senders and receivers.

use std::sync::Arc;
use std::task::Poll;

use amqp10::{AmqpError, Attach, Role};

use crate::error::Error;
use crate::handles::SessionHandle;
use crate::state::{LinkState, Shared};

/// A link. It is detached when the last handle is dropped.
pub(crate) struct LinkHandle {
    pub(crate) session: Arc<SessionHandle>,
    pub(crate) key: usize,
    /// The peer's ATTACH.
    pub(crate) remote: Box<Attach>,
}

impl LinkHandle {
    /// Proposes a link and waits for the answer. If the peer refuses, returns the error of the DETACH that
    /// follows its ATTACH.
    pub(crate) async fn attach(session: &Arc<SessionHandle>, attach: Attach) -> Result<Arc<Self>, Error> {
        let sending = attach.role == Role::Sender;
        let shared = &session.connection.shared;
        let key = shared.lock().attach(session.key, attach)?;
        let remote = Box::new(Attach::new(String::new(), 0, Role::Receiver));
        let mut handle = Self { session: Arc::clone(session), key, remote };
        let remote = shared.wait(|state, cx| {
            let Some(link) = state.links.get_mut(key) else { return Poll::Ready(Err(Error::Closed)) };
            if let Some(error) = &link.closed {
                return Poll::Ready(Err(error.clone()));
            }
            let refused = |a: &Attach| if sending { a.target.is_none() } else { a.source.is_none() };
            match &link.attached {
                Some(attach) if !refused(attach) => Poll::Ready(Ok(attach.clone())),
                _ => {
                    link.wakers.register(cx);
                    Poll::Pending
                }
            }
        });
        handle.remote = remote.await?;
        Ok(Arc::new(handle))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.session.connection.shared
    }

    /// Sends DETACH and waits for the peer's DETACH.
    pub(crate) async fn detach(&self, error: Option<AmqpError>) -> Result<(), Error> {
        self.shared().lock().detach(self.key, error);
        match self.closed().await {
            Error::Closed => Ok(()),
            error => Err(error),
        }
    }

    /// Waits until the link is closed and returns the reason.
    pub(crate) async fn closed(&self) -> Error {
        self.shared()
            .wait(|state, cx| {
                let Some(link) = state.links.get_mut(self.key) else { return Poll::Ready(Error::Closed) };
                match &link.closed {
                    Some(error) => Poll::Ready(error.clone()),
                    None => {
                        link.wakers.register(cx);
                        Poll::Pending
                    }
                }
            })
            .await
    }

    /// Reads a value from the link's state. Returns the default if the link does not exist any more.
    pub(crate) fn read<T: Default>(&self, read: impl FnOnce(&LinkState) -> T) -> T {
        self.shared().lock().links.get(self.key).map(read).unwrap_or_default()
    }
}

impl Drop for LinkHandle {
    fn drop(&mut self) {
        let mut state = self.shared().lock();
        state.detach(self.key, None);
        state.close_link(self.key, &Error::Closed);
        state.links.try_remove(self.key);
    }
}
