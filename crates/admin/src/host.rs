//! Every request must name its host exactly once (RFC 9112, section 3.2), and have the other headers that decide about it at most once.
//! Proxies and the broker could interpret any other request differently.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, Response, Version, header};
use axum::middleware::Next;

use crate::origin::SEC_FETCH_SITE;
use crate::reply::{Failure, respond};

/// The headers that decide who sends a request, and whether it is carried out.
const ONCE: [HeaderName; 5] =
    [header::HOST, header::AUTHORIZATION, header::ORIGIN, SEC_FETCH_SITE, header::CONTENT_TYPE];

/// Refuses a request with several of one of these headers, and one without a host if its HTTP version requires it.
pub(crate) async fn require(request: Request, next: Next) -> Response<Body> {
    let headers = request.headers();
    let twice = ONCE.into_iter().find(|name| headers.get_all(name).iter().nth(1).is_some());
    let reason = match twice {
        Some(name) => Some(format!("the request has more than one header '{name}'")),
        None if !headers.contains_key(header::HOST) && request.version() >= Version::HTTP_11 => {
            Some("the request has no header 'host'".to_owned())
        }
        None => None,
    };
    match reason {
        None => next.run(request).await,
        Some(reason) => respond(Err(Failure::bad_request(reason))),
    }
}
