//! The accept loop of an HTTP port, and the bounds of what strangers can hold there: so many connections
//! ([`super::places`]), and a time for everything that they owe.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::Response;
use broker::PEER;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use crate::budget::Held;
use crate::places::{Place, Places, Taken};
use crate::ports::Ports;
use crate::reply::respond;

/// Bytes of a request's head; a larger one is refused. Of the answer as many wait for the socket, behind the piece that
/// is being made.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// Bytes that the kernel keeps of an answer for its client; it doubles them. The kernel's own choice is up to 4 MiB. It
/// asks for more when a third is free, so that a client makes progress if it reads some 4 KiB a second.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// After a failure to accept, such as having no file descriptor left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The bounds of one port.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once.
    pub places: usize,
    /// For the head of a request, from its first byte on; of the first one, from the connection on.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// For a client that takes nothing of its answer.
    pub stall: Duration,
    /// For the requests under way when the server is to stop.
    pub finish: Duration,
}

/// See [`crate::serve`].
pub async fn run(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    ports: &Ports,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    // What is accepted has it from the listener. Without, a client that reads nothing costs more memory of the kernel.
    let _ = socket2::SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER_BYTES);
    let places = Places::new(bounds.places);
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = match places.take(peer.ip(), Instant::now()) {
                    Taken::Free(place) => place,
                    Taken::Instead(place) => {
                        ports.note_evicted(peer);
                        place
                    }
                    Taken::Refused => {
                        ports.note_refused(peer);
                        continue;
                    }
                };
                let service = (router.clone(), ports.clone());
                connections.spawn(serve(stream, peer, service, place, bounds, stopping.clone()));
            }
            // Of one connection that has gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::error!(target: PEER, "cannot accept HTTP connections: {error}");
                tokio::select! {
                    () = sleep(ACCEPT_RETRY) => {}
                    () = &mut shutdown => break,
                }
            }
        }
    }
    drop(listener);
    // Without connections nobody listens to it.
    let _ = stop.send(true);
    let finish = async { while connections.join_next().await.is_some() {} };
    // Those that are not done by then are closed.
    let _ = tokio::time::timeout(bounds.finish, finish).await;
    Ok(())
}

/// Serves one connection until it ends, loses its place, or the server stops.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    (router, ports): (Router, Ports),
    place: Place,
    bounds: Bounds,
    mut stopping: watch::Receiver<bool>,
) {
    // It would only be slower without.
    let _ = stream.set_nodelay(true);
    let exchange = Arc::new(Exchange {
        place,
        working: AtomicBool::new(false),
        answered: AtomicBool::new(false),
        held: Mutex::default(),
    });
    let io = TokioIo::new(Watched::new(stream, exchange.clone(), bounds));
    let router = TowerToHyperService::new(router);
    let of_requests = exchange.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (router, ports, exchange) = (router.clone(), ports.clone(), of_requests.clone());
        async move {
            if !exchange.begin() {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
            }
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            let response = router.call(request).await.unwrap_or_else(|error: Infallible| match error {});
            let response = hold(response, &ports, &exchange);
            Ok(response.map(|body| Answer { body, exchange }))
        }
    });
    let mut http = http1::Builder::new();
    // The time for the head is in `Watched`, which tells it from the time between two requests.
    http.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(BUFFER_BYTES_MAX);
    let mut connection = pin!(http.serve_connection(io, service));
    let mut stops = pin!(stopping.wait_for(|stop| *stop));
    let mut stopped = false;
    loop {
        tokio::select! {
            // Whatever has failed is the client's affair.
            _ = &mut connection => return,
            () = exchange.place.lost() => return,
            _ = &mut stops, if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Counts the memory of an answer that was made at once, until it has left; refuses it if there is too much of that.
fn hold(response: Response<Body>, ports: &Ports, exchange: &Exchange) -> Response<Body> {
    let bytes = response.body().size_hint().exact().unwrap_or(0) as usize;
    if bytes <= SEND_BUFFER_BYTES {
        return response;
    }
    match ports.hold_answer(bytes) {
        Ok(held) => {
            *exchange.held() = Some(held);
            response
        }
        Err(failure) => respond(Err(failure)),
    }
}

/// What a connection's socket and its requests know of each other.
#[derive(Debug)]
struct Exchange {
    place: Place,
    /// From the whole head of a request on until its answer has left.
    working: AtomicBool,
    /// All of the answer has been made; a part of it may still wait for the socket.
    answered: AtomicBool,
    /// What the answer takes, if it was made at once.
    held: Mutex<Option<Held>>,
}

impl Exchange {
    /// See [`Place::begin`].
    fn begin(&self) -> bool {
        self.answered.store(false, Ordering::Relaxed);
        self.working.store(true, Ordering::Relaxed);
        self.place.begin()
    }

    fn is_working(&self) -> bool {
        self.working.load(Ordering::Relaxed)
    }

    /// Everything that was made has been written. Returns true if that was the end of an answer.
    fn handle_flushed(&self) -> bool {
        if !self.answered.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.working.store(false, Ordering::Relaxed);
        *self.held() = None;
        self.place.wait();
        true
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an answer. Dropping it tells that all of it has been made.
struct Answer {
    body: Body,
    exchange: Arc<Exchange>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.exchange.answered.store(true, Ordering::Relaxed);
    }
}

/// A socket whose client is given up when it does not send or take what is due.
struct Watched {
    stream: TcpStream,
    exchange: Arc<Exchange>,
    bounds: Bounds,
    /// Ends the connection while no request is under way.
    patience: Pin<Box<Sleep>>,
    /// Something of a head has come, or is due.
    in_head: bool,
    /// Ends the connection while the socket takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    fn new(stream: TcpStream, exchange: Arc<Exchange>, bounds: Bounds) -> Self {
        let patience = Box::pin(sleep(bounds.head));
        Self { stream, exchange, bounds, patience, in_head: true, stall: None }
    }

    fn wait_for(&mut self, time: Duration) {
        self.patience.as_mut().reset(tokio::time::Instant::now() + time);
    }

    /// Ends the connection with an error when the socket has taken nothing for too long.
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stall.take().is_some() {
                self.exchange.place.go_on();
            }
            return written;
        }
        let Self { stall, exchange, bounds, .. } = self;
        let stall = stall.get_or_insert_with(|| {
            exchange.place.stall(Instant::now());
            Box::pin(sleep(bounds.stall))
        });
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.exchange.is_working() {
            return read;
        }
        if read.is_ready() {
            if !self.in_head {
                self.in_head = true;
                let head = self.bounds.head;
                self.wait_for(head);
            }
            return read;
        }
        ready!(self.patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when hyper has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.exchange.handle_flushed() {
            self.in_head = false;
            let idle = self.bounds.idle;
            self.wait_for(idle);
            // The socket may have been asked for a request before: whoever reads next has to be woken.
            let _ = self.patience.as_mut().poll(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
