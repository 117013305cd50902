//! Connections.

use std::sync::Arc;
use std::task::Poll;

use amqp10::connection::Config;
use amqp10::session::SessionConfig;
use amqp10::{AmqpError, Connection as Endpoint, Open};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::dial::dial;
use crate::driver;
use crate::error::Error;
use crate::handles::{ConnectionHandle, SessionHandle};
use crate::options::Options;
use crate::session::Session;
use crate::state::Shared;
use crate::url::{Credentials, Url};

/// An open connection. All clones are the same connection. It is closed with CLOSE when the last clone is
/// dropped and no session or link uses it any more.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<ConnectionHandle>,
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
