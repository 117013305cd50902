//! The management API of a node.
//!
//! `admin` is generic over its [admin API](broker::admin_api::AdminApi), and compiling it for that of a node takes a minute. This library has it
//! compiled once, for the program, its unit tests and `tests/doors/mod.rs`.
#![forbid(unsafe_code)]

use admin::{Ports, Router};
use node::NodeAdminApi;

/// Returns the routes of the management port: the API, the metrics and the web page.
pub fn router(api: NodeAdminApi, ports: Ports) -> Router {
    admin::management_router(api, ports)
}

/// Returns the routes of the metrics port.
pub fn metrics_router(api: NodeAdminApi, ports: Ports) -> Router {
    admin::metrics_router(api, ports)
}

/// Takes the samples behind rates. See [`admin::sample`].
pub async fn sample(api: NodeAdminApi, ports: Ports, interval: std::time::Duration) {
    admin::sample(api, ports, interval).await;
}
