//! The management HTTP API and the Prometheus text, over [`broker::desk::Desk`].
//!
//! ```text
//! request -> routes (404, 405) -> auth (401) -> body (400) -> one handler per route -> shape (page, sort, columns)
//! ```
//!
//! Every route goes through the one function `auth::authenticate` before its handler runs; the page at `/` and the metrics
//! are the exceptions, as in the reference. No body is read before its sender is known.
#![forbid(unsafe_code)]

mod auth;
mod bindings;
mod browse;
mod call;
mod connections;
mod exchanges;
mod explain;
mod exposition;
mod health;
mod host;
mod json;
mod listen;
mod metrics;
mod overview;
mod policies;
mod process;
mod query;
mod queues;
mod reply;
mod routes;
mod shape;
mod shown;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::get;
use axum::serve::ListenerExt;
use broker::desk::Desk;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::listen::Bounded;
pub use shown::{body as message_body, object as message_to_json};

/// Connections of one server; further ones wait until one ends.
const CONNECTIONS_MAX: usize = 1_024;

/// How long a connection may neither read nor write; then it is closed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long requests in flight may take once the server is to stop; then nobody waits for them any more.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// Everything under `/api`, and a plain page at `/`. Needs the peer's address as axum's `ConnectInfo`, as
/// [`serve`] gives it.
pub fn management_router<D: Desk>(desk: D) -> Router {
    Router::new().fallback(call::handle::<D>).layer(from_fn(host::require)).with_state(desk)
}

/// `/metrics` and `/metrics/per-object`, for anybody who reaches the port.
pub fn metrics_router<D: Desk>(desk: D) -> Router {
    Router::new()
        .route("/metrics", get(metrics::aggregated::<D>))
        .route("/metrics/per-object", get(metrics::per_object::<D>))
        .layer(from_fn(host::require))
        .with_state(desk)
}

/// Serves a router until `shutdown` completes, then waits for the requests in flight, two seconds at most.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stopping, stopped) = oneshot::channel();
    let shutdown = async move {
        shutdown.await;
        // Nobody listens any more if the server has already failed.
        let _ = stopping.send(());
    };
    let listener = Bounded::new(listener, CONNECTIONS_MAX, SILENCE_MAX).tap_io(|io| {
        // It would only be slower without.
        let _ = io.set_nodelay();
    });
    let server = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(shutdown);
    let deadline = async move {
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(FINISH_TIME_MAX).await;
    };
    tokio::select! {
        result = server => result,
        () = deadline => Ok(()),
    }
}

#[cfg(test)]
mod tests;
