//! Bounds of what strangers can hold: so many connections, and none that says nothing for long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// A listener with a bound on open connections (further ones wait to be accepted) and on their silence (then
/// they are closed).
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    silence_max: Duration,
}

impl Bounded {
    pub fn new(listener: TcpListener, connections_max: usize, silence_max: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections_max)), silence_max }
    }
}

impl Listener for Bounded {
    type Io = Guarded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        // Nobody closes the semaphore; without a place there would only be no bound.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let silence = Box::pin(sleep(self.silence_max));
        (Guarded { stream, silence, silence_max: self.silence_max, _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that gives its place back when it ends.
#[derive(Debug)]
pub struct Guarded {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    silence_max: Duration,
    _place: Option<OwnedSemaphorePermit>,
}

impl Guarded {
    pub fn set_nodelay(&self) -> io::Result<()> {
        self.stream.set_nodelay(true)
    }

    /// Starts the silence anew after progress, and ends it with an error when it has lasted too long.
    fn watch<T>(&mut self, progress: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            let until = Instant::now() + self.silence_max;
            self.silence.as_mut().reset(until);
            return progress;
        }
        ready!(self.silence.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.watch(progress, cx)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(progress, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(progress, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_silent_connection_loses_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut bounded = Bounded::new(listener, 1, Duration::from_millis(20));
        let (mut silent, mut waiting) =
            (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let (mut first, _) = bounded.accept().await;
        assert_eq!(bounded.places.available_permits(), 0);
        let error = first.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(first);
        assert!(silent.read_u8().await.is_err());
        waiting.write_all(b"x").await.unwrap();
        let (mut second, _) = bounded.accept().await;
        assert_eq!(second.read_u8().await.unwrap(), b'x');
    }
}
