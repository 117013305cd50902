//! Protects the API from pages of other web sites. A browser adds the login that it remembers to every request, also to one that a
//! page of another site sends.
//!
//! A request that may change something is refused if a page of another origin sends it, or if its body is what a form of any page
//! can send. DNS rebinding turns the origin of another site into that of the broker: its name then has the address of the broker.
//! So the logins that everybody can guess, or that every page of this machine could use, succeed only if `Host` is a name that no
//! other site can have.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Uri;
use axum::http::{HeaderMap, HeaderName, Method, Response, header};
use axum::middleware::Next;
use catalog::categories::{CONNECTION, PEER};
use catalog::names::cut;

use crate::host_options::place_of;
use crate::ports::Ports;
use crate::reply::{Failure, respond};

/// The header that says how the page that sends a request is related to the broker. Only browsers can set it, and they send it to
/// the addresses that they trust: over TLS, and on the same machine.
pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The start of the names of all headers like it.
const SEC_FETCH: &str = "sec-fetch-";

/// The types of bodies that forms of any page can send. The third type is [`FORM`].
const NEVER_JSON: [&str; 2] = ["text/plain", "multipart/form-data"];

/// The type of forms, which `curl -d` sends as well.
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns the host that a request names, with its port if it has one.
pub(crate) fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    // RFC 9112, section 3.2.2: a host in the first line replaces that of the header.
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST)?.to_str().ok(),
    }
}

/// Refuses requests of pages of other origins before their bodies are read, and bodies that forms can send.
pub(crate) async fn check(State(ports): State<Ports>, request: Request, next: Next) -> Response<Body> {
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if is_safe {
        return next.run(request).await;
    }
    let (origins, hosts) = (&ports.headers().origins, &ports.hosts().allowed);
    let host = host_of(request.uri(), request.headers());
    let checked = origin(request.headers(), host, origins, hosts).and_then(|()| body_type(request.headers()));
    match checked {
        Ok(()) => next.run(request).await,
        Err(failure) => {
            let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.to_string());
            let peer = peer.unwrap_or_default();
            tracing::warn!(name: PEER, target: CONNECTION, peer, "refused an HTTP request: {}", failure.reason);
            respond(Err(failure))
        }
    }
}

/// Checks that no page of another origin sends a request. `host` is the host that it names, `allowed` are
/// `management.allowed_hosts`, and `origins` are `management.cors.allow_origins`.
fn origin(
    headers: &HeaderMap,
    host: Option<&str>,
    origins: &[String],
    allowed: &[String],
) -> Result<(), Failure> {
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    if origins.iter().any(|listed| listed == "*") {
        return Ok(());
    }
    if let Some(origin) = origin
        && origin != "null"
        && origins.iter().any(|listed| listed == origin)
    {
        return Ok(());
    }
    let passes = match (headers.get(&SEC_FETCH_SITE), origin) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => {
            let mut places = host.into_iter().chain(allowed.iter().map(String::as_str));
            places.any(|place| names(origin, place))
        }
        // Not a browser.
        (None, None) => true,
    };
    if passes {
        return Ok(());
    }
    let shown = cut(origin.unwrap_or("null"));
    Err(Failure::forbidden(format!(
        "a page of another origin ('{shown}') sent the request: list the origin in management.cors.allow_origins if its pages may \
         use the API, or its host in management.allowed_hosts if it is the address of a proxy"
    )))
}

/// Checks that a body is none that a form of any page can send.
fn body_type(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    // Browsers also take a type with characters that no type has, if they are among the parameters.
    let essence = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
    let is_of_browser = || {
        let names = [header::ORIGIN, header::REFERER];
        names.iter().any(|name| headers.contains_key(name))
            || headers.keys().any(|name| name.as_str().starts_with(SEC_FETCH))
    };
    if NEVER_JSON.into_iter().any(is) || is(FORM) && is_of_browser() {
        let shown = String::from_utf8_lossy(essence);
        return Err(Failure::unsupported_media_type(format!(
            "the header Content-Type is '{}', which forms of any web page can send: application/json is needed",
            cut(&shown)
        )));
    }
    Ok(())
}

/// Returns true if an origin is that of a place: `https://mq:8443` of `mq:8443`. A place without a port has the port of the
/// origin's scheme, because a proxy may use another scheme than its clients.
fn names(origin: &str, place: &str) -> bool {
    let (of_origin, implied) = match origin.split_once("://") {
        Some(("http", rest)) => (rest, 80),
        Some(("https", rest)) => (rest, 443),
        _ => return false,
    };
    let (Some((host, port)), Some((other, other_port))) = (place_of(of_origin), place_of(place)) else {
        return false;
    };
    host.eq_ignore_ascii_case(other) && port.unwrap_or(implied) == other_port.unwrap_or(implied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_a_host_with_its_port() {
        for (origin, place, same) in [
            ("http://mq", "mq", true),
            ("http://mq:80", "mq", true),
            ("http://mq", "mq:80", true),
            ("https://mq", "mq", true),
            ("https://mq", "mq:443", true),
            ("https://MQ.example", "mq.Example", true),
            ("http://mq:15672", "mq:15672", true),
            ("http://[::1]:15672", "[::1]:15672", true),
            ("http://[::1]", "[::1]", true),
            // Another port is another origin.
            ("http://mq:15672", "mq", false),
            ("http://mq", "mq:15672", false),
            ("https://mq", "mq:80", false),
            ("http://mq", "mq:443", false),
            ("http://mq.evil", "mq", false),
            ("http://evil", "mq", false),
            ("http://mq:99999", "mq", false),
            ("http://mq:+80", "mq", false),
            ("http://mq:", "mq", false),
            ("http://user@mq", "mq", false),
            ("http://mq/", "mq", false),
            ("ftp://mq", "mq", false),
            ("mq", "mq", false),
            ("null", "null", false),
            ("http://", "", false),
            ("", "", false),
            ("http://[::1", "[::1", false),
        ] {
            assert_eq!(names(origin, place), same, "{origin} {place}");
        }
    }
}
