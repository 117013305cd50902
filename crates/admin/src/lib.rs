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
mod budget;
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
mod pages;
mod places;
mod policies;
mod ports;
mod process;
mod query;
mod queues;
mod reply;
mod routes;
mod shape;
mod shown;

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::get;
use broker::desk::Desk;
use tokio::net::TcpListener;

use self::listen::Bounds;
pub use ports::{Counts, Ports};
pub use routes::{Action, Method, ROUTES, Route, To, Whose};
pub use shown::{body as message_body, object as message_to_json};

/// A head is one packet, sent at once. A client that needs longer holds a place that others could use.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Long enough for who asks once a minute to keep the connection.
const IDLE_TIME_MAX: Duration = Duration::from_secs(75);

/// A client that takes nothing for so long does not want the rest of its answer.
const STALL_TIME_MAX: Duration = Duration::from_secs(10);

/// Then nobody waits for requests under way any more.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// Everything under `/api`, and a plain page at `/`. Needs the peer's address as axum's `ConnectInfo`, as
/// [`serve`] gives it.
pub fn management_router<D: Desk>(desk: D, ports: Ports) -> Router {
    Router::new()
        .fallback(call::handle::<D>)
        .layer(from_fn(host::require))
        .with_state(call::Source { desk, ports })
}

/// `/metrics` and `/metrics/per-object`, for anybody who reaches the port.
pub fn metrics_router<D: Desk>(desk: D, ports: Ports) -> Router {
    Router::new()
        .route("/metrics", get(metrics::aggregated::<D>))
        .route("/metrics/per-object", get(metrics::per_object::<D>))
        .layer(from_fn(host::require))
        .with_state(call::Source { desk, ports })
}

/// Serves a router until `shutdown` completes, then waits for the requests under way, two seconds at most.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    ports: Ports,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let bounds = Bounds {
        places: ports.connections_max(),
        head: HEAD_TIME_MAX,
        idle: IDLE_TIME_MAX,
        stall: STALL_TIME_MAX,
        finish: FINISH_TIME_MAX,
    };
    listen::run(listener, router, bounds, &ports, shutdown).await
}

#[cfg(test)]
mod tests;
