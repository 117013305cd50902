//! Connections and sessions.

use std::sync::Arc;
use std::task::Poll;

use amqp10::connection::Config;
use amqp10::session::SessionConfig;
use amqp10::{AmqpError, Attach, Connection as Endpoint, Open};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::dial::dial;
use crate::driver;
use crate::error::Error;
use crate::link::LinkHandle;
use crate::options::{Credit, Options, ReceiverOptions, SenderOptions};
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::state::Shared;
use crate::url::{Credentials, Url};

/// An open connection. All clones are the same connection. It is closed with CLOSE when the last clone is
/// dropped and no session or link uses it any more.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<ConnectionHandle>,
}

/// A session of a connection. All clones are the same session. It ends when the last clone is dropped and no
/// link uses it any more.
#[derive(Clone)]
pub struct Session {
    handle: Arc<SessionHandle>,
}

pub(crate) struct ConnectionHandle {
    pub(crate) shared: Arc<Shared>,
    remote: Box<Open>,
}

pub(crate) struct SessionHandle {
    pub(crate) connection: Arc<ConnectionHandle>,
    pub(crate) key: usize,
}

impl Connection {
    /// Connects, logs in and opens the connection. Starts the task that drives it (`tokio::spawn`).
    ///
    /// # Errors
    /// `Io` if the TCP connection or the TLS handshake fails, `Login` or `Mechanism` if the login fails, `Remote` if the peer
    /// answers with CLOSE, `Timeout` after [`Options::handshake_timeout`].
    pub async fn open(url: &Url, options: Options) -> Result<Self, Error> {
        let started = Instant::now();
        let mut options = options;
        let stream = dial(url, options.tls.clone(), options.handshake_timeout).await?;
        options.handshake_timeout = options.handshake_timeout.saturating_sub(started.elapsed());
        if options.hostname.is_none() {
            options.hostname = url.virtual_host.as_ref().map(|name| format!("vhost:{name}"));
        }
        Self::over(stream, url.credentials.clone(), options).await
    }

    /// Opens a connection like [`Connection::open`], but over an existing stream. Without credentials the
    /// login is EXTERNAL or ANONYMOUS.
    pub async fn over<S>(stream: S, credentials: Option<Credentials>, options: Options) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let config = Config {
            max_frame_size: options.max_frame_size.max(amqp10::frame::MIN_MAX_FRAME_SIZE),
            channel_max: options.channel_max,
            idle_time_out_ms: u32::try_from(options.idle_time_out.as_millis()).unwrap_or(u32::MAX),
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            incomplete_bytes_max: usize::MAX,
            session: SessionConfig {
                incoming_window: options.incoming_window.max(1),
                handle_max: options.handle_max,
            },
        };
        let open = Open {
            hostname: options.hostname,
            properties: options.properties,
            ..Open::new(options.container_id)
        };
        let shared = Arc::new(Shared::new(Endpoint::client(config, 0), credentials, open));
        let driver = driver::run(stream, Arc::clone(&shared), Instant::now(), options.handshake_timeout);
        let driver = tokio::spawn(driver);
        let opened = shared.wait(|state, cx| {
            // A peer that sends CLOSE directly after OPEN has refused the connection.
            if let Some(error) = &state.closed {
                return Poll::Ready(Err(error.clone()));
            }
            if let Some(open) = &state.remote_open {
                return Poll::Ready(Ok(open.clone()));
            }
            state.wakers.register(cx);
            Poll::Pending
        });
        match tokio::time::timeout(options.handshake_timeout, opened).await {
            Ok(Ok(remote)) => Ok(Self { handle: Arc::new(ConnectionHandle { shared, remote }) }),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                driver.abort();
                Err(Error::Timeout)
            }
        }
    }

    /// The peer's OPEN: its name, limits, capabilities and properties.
    pub fn remote_open(&self) -> &Open {
        &self.handle.remote
    }

    /// Begins a session.
    ///
    /// # Errors
    /// `Exhausted` if all channels are in use. If the connection is closed, returns the reason.
    pub async fn session(&self) -> Result<Session, Error> {
        let key = self.handle.shared.lock().begin()?;
        let handle = Arc::new(SessionHandle { connection: Arc::clone(&self.handle), key });
        self.handle
            .shared
            .wait(|state, cx| {
                let Some(session) = state.sessions.get_mut(key) else {
                    return Poll::Ready(Err(Error::Closed));
                };
                if let Some(error) = &session.closed {
                    return Poll::Ready(Err(error.clone()));
                }
                if session.begun {
                    return Poll::Ready(Ok(()));
                }
                session.wakers.register(cx);
                Poll::Pending
            })
            .await?;
        Ok(Session { handle })
    }

    /// Closes the connection. Sends pending output first. Waits until the peer has answered and the socket is
    /// released.
    ///
    /// # Errors
    /// Returns the reason if the connection was closed before. A CLOSE without a reason is not an error.
    pub async fn close(self) -> Result<(), Error> {
        self.close_with(None).await
    }

    /// Like [`Connection::close`], with an error for the peer.
    pub async fn close_with(self, error: Option<AmqpError>) -> Result<(), Error> {
        let shared = &self.handle.shared;
        {
            let mut state = shared.lock();
            if state.closed.is_none() {
                state.flush_dispositions();
                state.endpoint.close(error, false);
                state.wake_driver();
            }
        }
        self.closed().await
    }

    /// Waits until the connection is closed.
    ///
    /// # Errors
    /// Returns the reason, unless the connection was closed without one.
    pub async fn closed(&self) -> Result<(), Error> {
        let ended = self.handle.shared.wait(|state, cx| match &state.closed {
            Some(error) if state.done => Poll::Ready(error.clone()),
            _ => {
                state.wakers.register(cx);
                Poll::Pending
            }
        });
        match ended.await {
            Error::Closed => Ok(()),
            error => Err(error),
        }
    }

    /// Returns the reason if the connection is closed, else `None`.
    pub fn error(&self) -> Option<Error> {
        self.handle.shared.lock().closed.clone()
    }
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
