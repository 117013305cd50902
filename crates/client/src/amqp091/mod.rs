//! A small client of AMQP 0.9.1.
//!
//! It has no task of its own: the owner of a [`Connection`] drives it with [`Connection::exchange`], which reads and writes
//! in batches. Methods and messages are put in the output and are written by the next exchange. So many messages, or an
//! acknowledgement for many of them, cost one system call.
//!
//! Absent: what no caller needs. That is the recovery of lost connections, allocating channel numbers, and answers for
//! two requests at the same time.

mod confirms;
mod login;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::amqp091::{BasicPublish, Config, Connection as Endpoint, Event, Method, State};
use bytes::{Buf as _, Bytes, BytesMut};
use tls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, Sleep};

use self::login::Login;
use crate::dial::{Socket, dial};
use crate::error::Error;
use crate::url::{Credentials, Url};

pub use self::confirms::{Confirms, UnknownTag};

/// The capacity reserved for one read, in bytes.
const READ_SIZE: usize = 64 * 1024;

/// The most slices in one vectored write.
const SLICES: usize = 64;

/// The largest frame that we accept, in bytes. It is RabbitMQ's own limit, so brokers seldom ask for less.
const FRAME_MAX: u32 = 128 * 1024;

/// The largest message that we accept, in bytes. It is the largest limit that RabbitMQ allows.
const MESSAGE_MAX: u64 = 512 * 1024 * 1024;

/// The options of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the program, for the broker's list of connections.
    pub product: String,
    /// The virtual host. With `None` it is that of the URL, or `/` if the URL has none.
    pub virtual_host: Option<String>,
    /// The connection is closed when nothing is received for this long, to the second. The heartbeat interval is half of
    /// it. Zero means never.
    pub idle_time_out: Duration,
    /// Which servers are trusted, and the certificate of the client. It is needed for a URL with `amqps://`.
    pub tls: Option<Arc<ClientConfig>>,
    /// The time limit for connecting and login together, and also for closing.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            product: "sluice-client".to_owned(),
            virtual_host: None,
            idle_time_out: Duration::from_secs(60),
            tls: None,
            handshake_timeout: Duration::from_secs(20),
        }
    }
}

/// A connection. Dropping it closes the socket without a farewell; see [`Connection::close`].
pub struct Connection {
    endpoint: Endpoint,
    socket: Box<dyn Socket>,
    /// Input that is not handled yet.
    input: BytesMut,
    login: Login,
    start: Instant,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, in milliseconds since `start`.
    deadline_ms: Option<u64>,
    handshake_timeout: Duration,
}

impl Connection {
    /// Connects and logs in: as PLAIN with a user in the URL; otherwise as EXTERNAL if the broker offers it, else as
    /// ANONYMOUS.
    ///
    /// # Errors
    /// `Io` if the TCP connection or the TLS handshake fails, `Refused` if the broker refuses the login or the virtual
    /// host, `Mechanism`, `Version`, or `Timeout` after [`Options::handshake_timeout`].
    pub async fn open(url: &Url, options: Options) -> Result<Self, Error> {
        let start = Instant::now();
        let socket = dial(url, options.tls.clone(), options.handshake_timeout).await?;
        let virtual_host = options.virtual_host.clone().or_else(|| url.virtual_host.clone());
        Self::begin(socket, url.credentials.clone(), virtual_host, options, start).await
    }

    /// Logs in over a socket that is connected already: as EXTERNAL if the broker offers it, else as ANONYMOUS.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn over(
        socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        options: Options,
    ) -> Result<Self, Error> {
        let virtual_host = options.virtual_host.clone();
        Self::begin(Box::new(socket), None, virtual_host, options, Instant::now()).await
    }

    async fn begin(
        socket: Box<dyn Socket>,
        credentials: Option<Credentials>,
        virtual_host: Option<String>,
        options: Options,
        start: Instant,
    ) -> Result<Self, Error> {
        let heartbeat_s = match options.idle_time_out.as_secs() {
            0 => 0,
            seconds => u16::try_from(seconds / 2).unwrap_or(u16::MAX).max(1),
        };
        let config = Config {
            channel_max: 0,
            frame_max: FRAME_MAX,
            initial_frame_max: FRAME_MAX,
            heartbeat_s,
            max_message_size: MESSAGE_MAX,
            incomplete_bytes_max: usize::MAX,
        };
        let login = Login {
            credentials,
            virtual_host: virtual_host.unwrap_or_else(|| "/".to_owned()),
            product: options.product,
        };
        let mut connection = Self {
            endpoint: Endpoint::client(config, 0),
            socket,
            input: BytesMut::new(),
            login,
            start,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            deadline_ms: None,
            handshake_timeout: options.handshake_timeout,
        };
        let left = options.handshake_timeout.saturating_sub(start.elapsed());
        let opened = tokio::time::timeout(left, connection.wait_until_open()).await;
        opened.map_err(|_| Error::Timeout)??;
        Ok(connection)
    }

    async fn wait_until_open(&mut self) -> Result<(), Error> {
        while self.endpoint.state() != State::Opened {
            self.exchange(|_| ()).await?;
        }
        Ok(())
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// `Exhausted` if the number is in use or above the broker's limit; otherwise those of [`Connection::exchange`].
    pub async fn open_channel(&mut self, channel: u16) -> Result<(), Error> {
        if !self.endpoint.open_channel(channel) {
            return Err(Error::Exhausted(crate::Scope::Session));
        }
        let mut opened = false;
        while !opened {
            self.exchange(|event| opened |= matches!(event, Event::ChannelOpened(n) if n == channel)).await?;
        }
        Ok(())
    }

    /// Closes a channel, if it is open. The broker has then handled what was sent on it before. What it has refused at the same
    /// time is not reported: ask for something first, if that matters.
    ///
    /// # Errors
    /// Those of [`Connection::exchange`].
    pub async fn close_channel(&mut self, channel: u16) -> Result<(), Error> {
        if !self.endpoint.channel_is_open(channel) {
            return Ok(());
        }
        self.endpoint.close_channel(channel, "done");
        let mut closed = false;
        while !closed {
            self.exchange(|event| closed |= matches!(event, Event::ChannelClosed(n) if n == channel)).await?;
        }
        Ok(())
    }

    /// Puts a method in the output. Does nothing if the channel is not open.
    pub fn send(&mut self, channel: u16, method: &Method<'_>) {
        self.endpoint.send(channel, method);
    }

    /// Puts a message in the output. `properties` is the encoded property list. Does nothing if the channel is not open.
    #[inline]
    pub fn publish(&mut self, channel: u16, publish: &BasicPublish<'_>, properties: &[u8], body: &Bytes) {
        self.endpoint.send_content(channel, &Method::BasicPublish(*publish), properties, body, 0);
    }

    /// Returns the number of bytes that are not written yet.
    #[inline]
    pub fn output_len(&self) -> usize {
        self.endpoint.output_len()
    }

    /// Sends a method and waits for its answer. `answer` returns `Some` for the method that is the answer; `other` gets the
    /// events that arrive before it.
    ///
    /// # Errors
    /// Those of [`Connection::exchange`].
    pub async fn ask<T>(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        answer: impl Fn(&Method<'_>) -> Option<T>,
        mut other: impl FnMut(Event<'_>),
    ) -> Result<T, Error> {
        self.send(channel, method);
        let mut answered = None;
        loop {
            self.exchange(|event| {
                if let Event::Method { channel: of, method } = &event
                    && *of == channel
                    && answered.is_none()
                {
                    answered = answer(method);
                    if answered.is_some() {
                        return;
                    }
                }
                other(event);
            })
            .await?;
            if let Some(answer) = answered {
                return Ok(answer);
            }
        }
    }

    /// Writes the output and reads. Passes each event that has arrived to `handle`. Returns when there were events, or when
    /// all output that waited is written. It may be cancelled: the next call continues.
    ///
    /// Events of the handshake, of heartbeats and of closing are handled here.
    ///
    /// # Errors
    /// - `Refused` if the broker has closed the connection or a channel. After a channel was closed, the others and its
    ///   number can be used.
    /// - `Closed` if the broker has cancelled a consumer.
    /// - `Io` if the socket failed, `Timeout` if the broker is silent for too long, `Fault` if it broke a rule.
    pub async fn exchange(&mut self, mut handle: impl FnMut(Event<'_>)) -> Result<(), Error> {
        poll_fn(|cx| self.poll_exchange(cx, &mut handle)).await
    }

    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        handle: &mut impl FnMut(Event<'_>),
    ) -> Poll<Result<(), Error>> {
        // An error may have left events that had arrived.
        let left = !self.input.is_empty() && self.handle_input(handle)?;
        let has_output = self.output_len() > 0;
        let written = self.poll_write(cx)?.is_ready() && has_output;
        let read = self.poll_read(cx, handle)?;
        if left || written || read {
            return Poll::Ready(Ok(()));
        }
        self.poll_time(cx)
    }

    /// Writes the output. Ready when all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut any = false;
        loop {
            let now_ms = self.now_ms();
            let output = self.endpoint.output();
            if output.is_empty() {
                break;
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let n = output.slices(&mut slices);
            let written = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, &slices[..n]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            output.advance(written);
            self.endpoint.handle_written(now_ms);
            any = true;
        }
        // A TCP socket has nothing to flush. TLS may hold records back.
        if any { Pin::new(&mut self.socket).poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Reads until there was an event, and returns true then. Returns false if nothing more has arrived.
    fn poll_read(&mut self, cx: &mut Context<'_>, handle: &mut impl FnMut(Event<'_>)) -> Result<bool, Error> {
        loop {
            self.input.reserve(READ_SIZE);
            match pin!(self.socket.read_buf(&mut self.input)).poll(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) => {
                    let eof = io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the socket");
                    return Err(eof.into());
                }
                // A part of a frame or a message is no event yet.
                Poll::Ready(Ok(_)) if !self.handle_input(handle)? => {}
                Poll::Ready(Ok(_)) => return Ok(true),
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Handles the whole frames in the input. Returns true if there was an event.
    fn handle_input(&mut self, handle: &mut impl FnMut(Event<'_>)) -> Result<bool, Error> {
        let now_ms = self.now_ms();
        let (mut at, mut any, mut result) = (0, false, Ok(()));
        while result.is_ok() {
            let (used, event) = self.endpoint.handle_input(&self.input[at..], usize::MAX, now_ms);
            at += used;
            match event {
                Ok(Some(event)) => {
                    any = true;
                    result = self.login.handle(&mut self.endpoint, event, handle);
                }
                Ok(None) if used == 0 => break,
                Ok(None) => {}
                Err(fault) => {
                    self.endpoint.fail(&fault);
                    result = Err(Error::Fault(fault));
                }
            }
        }
        self.input.advance(at);
        result.map(|()| any)
    }

    /// Waits for the next time at which a heartbeat is due, or the broker is silent for too long.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            let Some(deadline_ms) = self.endpoint.next_deadline() else { return Poll::Pending };
            // The timer is reset only if it must end earlier, because traffic moves the deadline all the time.
            if self.deadline_ms.is_none_or(|set| deadline_ms < set) {
                self.deadline_ms = Some(deadline_ms);
                self.sleep.as_mut().reset(self.start + Duration::from_millis(deadline_ms));
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.deadline_ms = None;
            if self.endpoint.handle_timeout(self.now_ms()).is_err() {
                return Poll::Ready(Err(Error::Timeout));
            }
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(Err(error.into()));
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Serves the connection until it ends, and returns why. What arrives is ignored.
    pub async fn closed(&mut self) -> Error {
        loop {
            if let Err(error) = self.exchange(|_| ()).await {
                return error;
            }
        }
    }

    /// Closes the connection. The output is written first. Waits until the broker has answered.
    ///
    /// # Errors
    /// `Timeout` after [`Options::handshake_timeout`]; otherwise those of [`Connection::exchange`].
    pub async fn close(mut self) -> Result<(), Error> {
        self.endpoint.close("done");
        let timeout = self.handshake_timeout;
        let answered = async {
            while self.endpoint.state() != State::Closed {
                self.exchange(|_| ()).await?;
            }
            Ok(self.socket.shutdown().await?)
        };
        tokio::time::timeout(timeout, answered).await.map_err(|_| Error::Timeout)?
    }
}
