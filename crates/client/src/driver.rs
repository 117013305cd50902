//! The task of a connection: it reads the input, handles it, and writes all output at once.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp10::{Chunk, ConnectionState};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep};

use crate::error::Error;
use crate::state::{Shared, State};

/// The capacity reserved for one read, in bytes.
const READ_SIZE: usize = 64 * 1024;
/// After this many bytes the task stops reading, so that other tasks are scheduled.
const READ_BUDGET: usize = 256 * 1024;
/// Reading stops while more bytes of output than this are unwritten. This limits memory if the peer does not
/// read.
const OUTPUT_MAX: usize = 4 * 1024 * 1024;
/// The most slices in one vectored write.
const SLICES: usize = 64;

pub(crate) struct Driver<S> {
    stream: S,
    shared: Arc<Shared>,
    buffer: BytesMut,
    start: Instant,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, in milliseconds since `start`.
    deadline_ms: Option<u64>,
    close_timeout: Duration,
    /// When we stop waiting for the peer's CLOSE, in milliseconds since `start`.
    close_by_ms: Option<u64>,
    unflushed: bool,
}

/// Drives the connection until it is closed. Then every waiter is notified.
pub(crate) async fn run<S>(stream: S, shared: Arc<Shared>, start: Instant, close_timeout: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut driver = Driver {
        stream,
        shared,
        buffer: BytesMut::new(),
        start,
        sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
        deadline_ms: None,
        close_timeout,
        close_by_ms: None,
        unflushed: false,
    };
    let ended = poll_fn(|cx| driver.poll(cx)).await;
    let error = ended.err().unwrap_or(Error::Closed);
    tracing::debug!(%error, "connection closed");
    let shutdown = tokio::time::timeout(Duration::from_secs(1), driver.stream.shutdown());
    driver.shared.lock().close_all(&error);
    let _ = shutdown.await;
    let mut state = driver.shared.lock();
    state.done = true;
    state.wakers.wake();
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let shared = Arc::clone(&self.shared);
        shared.lock().set_driver(cx);
        let read = self.poll_read(&shared, cx);
        let mut state = shared.lock();
        state.flush_dispositions();
        state.flush_reports();
        let written = self.poll_write(&mut state, cx);
        if let Err(error) = read {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(Err(error)) = written {
            return Poll::Ready(Err(error.into()));
        }
        match state.endpoint.state() {
            ConnectionState::Closed if written.is_ready() => return Poll::Ready(Ok(())),
            ConnectionState::Closing | ConnectionState::Closed if self.close_by_ms.is_none() => {
                self.close_by_ms = Some(self.now_ms() + self.close_timeout.as_millis() as u64);
            }
            _ => {}
        }
        // The connection is closed without CLOSE, because none can be sent before OPEN.
        if state.closed.is_some() && state.open.is_some() && written.is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.poll_time(&mut state, cx)
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn poll_read(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Result<(), Error> {
        let mut budget = READ_BUDGET;
        loop {
            if shared.lock().endpoint.output_len() > OUTPUT_MAX {
                return Ok(());
            }
            self.buffer.reserve(READ_SIZE);
            let read = pin!(self.stream.read_buf(&mut self.buffer)).poll(cx);
            let n = match read {
                Poll::Pending => return Ok(()),
                Poll::Ready(read) => read?,
            };
            if n == 0 {
                let eof = io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the socket");
                return Err(eof.into());
            }
            self.handle_input(&mut shared.lock())?;
            budget = budget.saturating_sub(n);
            if budget == 0 {
                cx.waker().wake_by_ref();
                return Ok(());
            }
        }
    }

    fn handle_input(&mut self, state: &mut State) -> Result<(), Error> {
        let now_ms = self.now_ms();
        loop {
            let len = match state.endpoint.frame_len(&self.buffer) {
                Ok(Some(len)) => len,
                Ok(None) => return Ok(()),
                Err(fault) => {
                    state.fault(fault);
                    self.buffer.clear();
                    return Ok(());
                }
            };
            if self.buffer.len() < len {
                self.buffer.reserve(len - self.buffer.len());
                return Ok(());
            }
            let frame = Chunk::Owned(self.buffer.split_to(len).freeze());
            match state.endpoint.handle_frame(frame, now_ms) {
                Ok(Some(event)) => state.handle_event(event)?,
                Ok(None) => {}
                Err(fault) => state.fault(fault),
            }
        }
    }

    /// Writes the output. Ready when everything is written and flushed.
    fn poll_write(&mut self, state: &mut State, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            state.endpoint.pump();
            wake_starved(state);
            let output = state.endpoint.output();
            if output.is_empty() {
                break;
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let n = output.slices(&mut slices);
            let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..n]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            output.advance(written);
            let now_ms = self.now_ms();
            state.endpoint.handle_written(now_ms);
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_time(&mut self, state: &mut State, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            let deadline = state.endpoint.next_deadline().into_iter().chain(self.close_by_ms).min();
            let Some(deadline_ms) = deadline else { return Poll::Pending };
            // The timer is reset only if it must end earlier, because traffic moves the deadline all the
            // time.
            if self.deadline_ms.is_none_or(|set| deadline_ms < set) {
                self.deadline_ms = Some(deadline_ms);
                self.sleep.as_mut().reset(self.start + Duration::from_millis(deadline_ms));
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.deadline_ms = None;
            let now_ms = self.now_ms();
            if self.close_by_ms.is_some_and(|by| now_ms >= by) {
                return Poll::Ready(Err(Error::Timeout));
            }
            if let Err(fault) = state.endpoint.handle_timeout(now_ms) {
                state.fault(fault);
            }
            if let Poll::Ready(Err(error)) = self.poll_write(state, cx) {
                return Poll::Ready(Err(error.into()));
            }
            if state.endpoint.state() == ConnectionState::Closed {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Wakes senders that waited until their session had nothing pending.
fn wake_starved(state: &mut State) {
    for (_, session) in &mut state.sessions {
        if !session.starved {
            continue;
        }
        let pending = session.channel.and_then(|c| state.endpoint.session(c)).map_or(0, |s| s.pending_len());
        if pending == 0 {
            session.starved = false;
            for key in session.by_number.iter().flatten() {
                if let Some(link) = state.links.get_mut(*key) {
                    link.wakers.wake();
                }
            }
        }
    }
}
