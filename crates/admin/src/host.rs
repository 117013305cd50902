//! Every request must name its host exactly once (RFC 9112, section 3.2). Proxies and the broker could
//! interpret any other request differently.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, Version, header};
use axum::middleware::Next;

use crate::reply::{Failure, respond};

/// Refuses a request with several `Host` headers, and one without a header if its HTTP version requires it.
pub async fn require(request: Request, next: Next) -> Response<Body> {
    let reason = match request.headers().get_all(header::HOST).iter().count() {
        1 => None,
        0 if request.version() < Version::HTTP_11 => None,
        0 => Some("the request has no header 'Host'"),
        _ => Some("the request has more than one header 'Host'"),
    };
    match reason {
        None => next.run(request).await,
        Some(reason) => respond(Err(Failure::bad_request(reason))),
    }
}
