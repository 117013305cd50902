//! The management HTTP API and the Prometheus metrics. Both use [`broker::admin_api::AdminApi`]: what
//! management asks of the node.
//!
//! ```text
//! request -> host (400) -> origin (403, 415) -> routes (404, 405) -> auth (401) -> body (400) -> one handler per route -> shape (page, sort, columns)
//! ```
//!
//! Every route goes through `auth::authenticate` before its handler runs. The exceptions are the files of the web
//! page, and what is on the port of the metrics, as in RabbitMQ. No body is read before its sender is authenticated.
#![forbid(unsafe_code)]

mod account_changes;
mod accounts;
mod aside;
mod attempts;
mod audit;
mod auth;
mod bindings;
mod bodies;
mod browse;
mod budget;
mod call;
mod channels;
mod clock;
mod common_fields;
mod components;
mod connections;
mod definitions;
mod described;
mod dispatch;
mod etag;
mod exchanges;
mod explain;
mod exposition;
mod header_options;
mod headers;
mod health;
mod host;
mod host_options;
mod json;
mod limits;
mod listen;
mod memory;
mod messages;
mod metrics;
mod moving;
mod nodes;
mod openapi;
mod origin;
mod overview;
mod page;
mod page_file;
mod page_login;
mod pages;
mod parameters;
mod parts;
mod pauses;
mod places;
mod plugins;
mod policies;
mod ports;
mod process;
mod queries;
mod query;
mod queues;
mod quorum;
mod receive;
mod reply;
mod routed_components;
mod routes;
mod samples;
mod sampling;
mod search;
mod settings;
mod settings_in_force;
mod shape;
mod shown;
mod tags;
mod topics;
mod traces;
mod troubles;
mod vhosts;
mod view;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use node::AdminApi;
use tls::Tls;
use tokio::net::TcpListener;

use self::listen::Bounds;
pub use clock::utc;
pub use definitions::{Definitions, Problem, Problems, Reading};
pub use header_options::{HeaderOptions, MAX_AGE_S_DEFAULT, POLICY_DEFAULT};
pub use host_options::HostOptions;
pub use page_login::PageLogin;
pub use plugins::{Here, Plugin};
pub use ports::{Counts, Ports};
pub use routes::{Action, Method, ROUTES, Route, To, Whose};
pub use sampling::run as sample;
pub use settings_in_force::{Setting, SettingChange, SettingRefusal, SettingsInForce};
pub use shown::{body as message_body, object as message_to_json};

/// The time that a client has to send the head of a request. The head usually is one packet, sent at once. A
/// slower client keeps a place that others need.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// The time that a connection may be idle between two requests. A client that sends a request each minute can
/// keep its connection.
const IDLE_TIME_MAX: Duration = Duration::from_secs(75);

/// The time after which a connection is closed whose client reads nothing of its response.
const STALL_TIME_MAX: Duration = Duration::from_secs(10);

/// The time that requests in flight may take after the server is asked to stop.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// The delay after a failure to accept, for example if no file descriptor is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves everything under `/api`, and the web page at `/`. The router needs the peer's address as axum's
/// `ConnectInfo`, which [`serve`] provides.
pub fn management_router(api: AdminApi, ports: Ports) -> Router {
    Router::new()
        .fallback(dispatch::handle)
        .layer(from_fn_with_state(ports.clone(), origin::check))
        .layer(from_fn(host::require))
        .layer(from_fn_with_state(ports.clone(), headers::add))
        .with_state(call::Source { api, ports })
}

/// Serves `/metrics`, the paths below it, and two health checks, without authentication.
pub fn metrics_router(api: AdminApi, ports: Ports) -> Router {
    Router::new()
        .route("/metrics", get(metrics::aggregated))
        .route("/metrics/per-object", get(metrics::per_object))
        .route("/metrics/detailed", get(metrics::detailed))
        .route("/metrics/memory-breakdown", get(metrics::memory_breakdown))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready_without_login))
        .layer(from_fn(host::require))
        .with_state(call::Source { api, ports })
}

/// Serves a router until `shutdown` completes, over TLS if there are certificates for it. Then waits up to two seconds for the requests in flight.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
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
        retry: ACCEPT_RETRY,
    };
    listen::run(listener, tls, router, bounds, &ports, shutdown).await
}

#[cfg(test)]
mod tests;
