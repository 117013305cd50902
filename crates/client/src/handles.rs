//! The shared ends of connections and sessions. Links keep their session open, and sessions their connection.

use std::sync::Arc;

use amqp10::Open;

use crate::error::Error;
use crate::state::Shared;

/// A connection. It is closed when the last handle is dropped.
pub(crate) struct ConnectionHandle {
    pub(crate) shared: Arc<Shared>,
    /// The peer's OPEN.
    pub(crate) remote: Box<Open>,
}

/// A session. It ends when the last handle is dropped.
pub(crate) struct SessionHandle {
    pub(crate) connection: Arc<ConnectionHandle>,
    pub(crate) key: usize,
}

impl Drop for ConnectionHandle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.closed.is_none() {
            state.endpoint.close(None, false);
            state.wake_driver();
        }
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        let mut state = self.connection.shared.lock();
        state.flush_dispositions();
        if let Some(channel) = state.sessions.get(self.key).and_then(|s| s.channel) {
            state.endpoint.end(channel, None);
            state.wake_driver();
        }
        state.close_session(self.key, &Error::Closed);
        state.sessions.try_remove(self.key);
    }
}
