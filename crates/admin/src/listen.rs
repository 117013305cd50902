//! The accept loop of an HTTP port. It bounds what clients can hold: the number of connections
//! ([`super::places`]), and the time for each step of a request.

use std::borrow::Cow;
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
use catalog::categories::{CONNECTION, PEER};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tls::{ServerConfig, Tls};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;

use crate::budget::Reservation;
use crate::places::{Place, Places, Taken};
use crate::ports::Ports;
use crate::reply::respond;

/// The largest head of a request, in bytes. A larger head is refused. The same number of response bytes may
/// wait for the socket, in addition to the piece that is being generated.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// The size of the kernel's send buffer for a connection, in bytes. (The kernel doubles this number.) By
/// default the buffer would grow to 4 MiB. The kernel asks for more data when a third of the buffer is free.
/// So a client makes progress if it reads about 4 KiB per second.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The limits of one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most connections at once.
    pub places: usize,
    /// The time for the head of a request, from its first byte. For the first request it starts with the
    /// connection.
    pub head: Duration,
    /// The time between two requests.
    pub idle: Duration,
    /// The time for which a client may read nothing of its response.
    pub stall: Duration,
    /// The time for requests in flight after the server is asked to stop.
    pub finish: Duration,
    /// The delay after a failure to accept, for example if no file descriptor is left.
    pub retry: Duration,
}

/// Serves one HTTP port; see [`crate::serve`].
pub(crate) async fn run(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    bounds: Bounds,
    ports: &Ports,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    // Accepted sockets inherit this size from the listener. If setting it fails, a client that reads nothing
    // only costs more kernel memory.
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
                // A listener on `[::]` has an address of IPv4 as one of IPv6.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
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
                let tls = tls.as_ref().map(|tls| tls.config());
                let stopping = stopping.clone();
                connections.spawn(async move {
                    let mut stops = stopping.clone();
                    let secured = tokio::select! {
                        secured = secure(stream, tls, bounds.head, peer) => secured,
                        () = place.lost() => return,
                        _ = stops.wait_for(|stop| *stop) => return,
                    };
                    if let Some(stream) = secured {
                        serve(stream, peer, service, place, bounds, stopping).await;
                    }
                });
            }
            // The client has already closed this connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::error!(name: PEER, target: CONNECTION, "cannot accept HTTP connections: {error}");
                tokio::select! {
                    () = sleep(bounds.retry) => {}
                    () = &mut shutdown => break,
                }
            }
        }
    }
    drop(listener);
    // Sending fails if there are no connections, because then nobody receives. That is harmless.
    let _ = stop.send(true);
    let finish = async { while connections.join_next().await.is_some() {} };
    // Connections that are not done by then are closed.
    let _ = tokio::time::timeout(bounds.finish, finish).await;
    Ok(())
}

/// The socket of a connection, with or without TLS.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

type Stream = Box<dyn Socket>;

/// Makes the TLS handshake, if there is one to make. Returns `None` if it fails or takes too long.
async fn secure(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    time: Duration,
    peer: SocketAddr,
) -> Option<Stream> {
    // Without this option the connection works, too, but more slowly.
    let _ = stream.set_nodelay(true);
    let Some(config) = tls else { return Some(Box::new(stream)) };
    match tokio::time::timeout(time, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            tracing::warn!(name: PEER, target: CONNECTION, %peer, "TLS: {}", described(&error));
            None
        }
        Err(_) => {
            tracing::warn!(name: PEER, target: CONNECTION, %peer, "TLS: no handshake in time");
            None
        }
    }
}

/// Describes why a handshake has failed.
fn described(error: &io::Error) -> Cow<'_, str> {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref());
    of_tls.map_or_else(|| error.to_string().into(), tls::of_client)
}

/// Returns what a client speaks whose first bytes are those of another protocol than HTTP.
fn other_protocol(first: &[u8]) -> Option<&'static str> {
    match first {
        // The type of a record, and the major version (RFC 8446, 5.1).
        [22, 3, ..] => Some("TLS, and this port does not use it"),
        [b'A', b'M', b'Q', b'P', ..] => Some("AMQP, and this is a port of HTTP"),
        _ => None,
    }
}

/// Serves one connection until it ends, loses its place, or the server stops.
async fn serve(
    stream: Stream,
    peer: SocketAddr,
    (router, ports): (Router, Ports),
    place: Place,
    bounds: Bounds,
    mut stopping: watch::Receiver<bool>,
) {
    let exchange = Arc::new(Exchange {
        place,
        working: AtomicBool::new(false),
        answered: AtomicBool::new(false),
        held: Mutex::default(),
    });
    let io = TokioIo::new(Watched::new(stream, peer, exchange.clone(), bounds));
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
    // hyper's timeout for the head is off, because it also counts between two requests. `Watched`
    // distinguishes the two.
    http.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(BUFFER_BYTES_MAX);
    // Without this bound, a head that is larger than the buffer passes if it arrives at once.
    http.max_header_size(BUFFER_BYTES_MAX);
    let mut connection = pin!(http.serve_connection(io, service));
    let mut stops = pin!(stopping.wait_for(|stop| *stop));
    let mut stopped = false;
    loop {
        tokio::select! {
            // Errors of a connection concern only its client.
            _ = &mut connection => return,
            () = exchange.place.lost() => return,
            _ = &mut stops, if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Counts the memory of a response that was generated as a whole, until it has been sent. Refuses the
/// response if the budget is used up, unless it is counted already ([`Reply::Counted`](crate::reply::Reply::Counted)).
fn hold(mut response: Response<Body>, ports: &Ports, exchange: &Exchange) -> Response<Body> {
    if let Some(held) = response.extensions_mut().remove::<Arc<Reservation>>() {
        *exchange.held() = Some(held);
        return response;
    }
    let bytes = response.body().size_hint().exact().unwrap_or(0) as usize;
    if bytes <= SEND_BUFFER_BYTES {
        return response;
    }
    match ports.hold_answer(bytes) {
        Ok(held) => {
            *exchange.held() = Some(Arc::new(held));
            response
        }
        Err(failure) => respond(Err(failure)),
    }
}

/// The state that a connection's socket and its requests share.
#[derive(Debug)]
struct Exchange {
    place: Place,
    /// True from the time that the head of a request is complete until the response has been sent.
    working: AtomicBool,
    /// True if the whole response has been generated. A part of it may still wait for the socket.
    answered: AtomicBool,
    /// The memory of the response, if it was generated as a whole.
    held: Mutex<Option<Arc<Reservation>>>,
}

impl Exchange {
    /// Called when a request has arrived; see [`Place::begin`].
    fn begin(&self) -> bool {
        self.answered.store(false, Ordering::Relaxed);
        self.working.store(true, Ordering::Relaxed);
        self.place.begin()
    }

    fn is_working(&self) -> bool {
        self.working.load(Ordering::Relaxed)
    }

    /// Called when everything generated has been written. Returns true if that was the end of a response.
    fn handle_flushed(&self) -> bool {
        if !self.answered.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.working.store(false, Ordering::Relaxed);
        *self.held() = None;
        self.place.wait();
        true
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Reservation>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a response. Dropping it marks the response as generated.
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

/// A socket that is closed if its client does not send or read in time.
struct Watched {
    stream: Stream,
    /// The client, until its first bytes have arrived.
    new_peer: Option<SocketAddr>,
    exchange: Arc<Exchange>,
    bounds: Bounds,
    /// The timer for the head of a request and for the time between two requests. The connection is closed if
    /// it expires while no request is in flight.
    patience: Pin<Box<Sleep>>,
    /// True if a part of a head has arrived, or if the first head is due.
    in_head: bool,
    /// The timer for a response. The connection is closed if it expires while the socket accepts no bytes.
    stall: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    fn new(stream: Stream, peer: SocketAddr, exchange: Arc<Exchange>, bounds: Bounds) -> Self {
        let patience = Box::pin(sleep(bounds.head));
        Self { stream, new_peer: Some(peer), exchange, bounds, patience, in_head: true, stall: None }
    }

    fn wait_for(&mut self, time: Duration) {
        self.patience.as_mut().reset(tokio::time::Instant::now() + time);
    }

    /// Returns an error when the socket has accepted nothing for too long.
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stall.take().is_some() {
                self.exchange.place.resume();
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
            if let Some(peer) = self.new_peer.take()
                && let Some(what) = other_protocol(buf.filled())
            {
                tracing::warn!(name: PEER, target: CONNECTION, %peer, "the client speaks {what}");
            }
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
        // With TLS, what was written waits for the socket here.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.watch(flushed, cx))?;
        if self.exchange.handle_flushed() {
            self.in_head = false;
            let idle = self.bounds.idle;
            self.wait_for(idle);
            // A read may be pending already. So the timer is polled here, to register the waker of that read
            // for the new deadline.
            let _ = self.patience.as_mut().poll(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(closed, cx)
    }
}

#[cfg(test)]
mod tests;
