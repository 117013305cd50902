//! The management API of a node.
//!
//! `admin` is generic over its [desk](broker::desk::Desk), and compiling it for that of a node takes a minute. This library has it
//! compiled once, for the program, its unit tests and `tests/doors/mod.rs`.
#![forbid(unsafe_code)]

use admin::{Ports, Router};
use node::NodeDesk;

/// Returns the routes of the management port: the API, the metrics and the web page.
pub fn router(desk: NodeDesk, ports: Ports) -> Router {
    admin::management_router(desk, ports)
}

/// Returns the routes of the metrics port.
pub fn metrics_router(desk: NodeDesk, ports: Ports) -> Router {
    admin::metrics_router(desk, ports)
}

/// Takes the samples behind rates. See [`admin::sample`].
pub async fn sample(desk: NodeDesk, ports: Ports, interval: std::time::Duration) {
    admin::sample(desk, ports, interval).await;
}
