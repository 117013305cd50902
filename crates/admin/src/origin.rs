//! Protects the API from pages of other web sites. A browser adds the login that it remembers to every request, also to one that a
//! page of another site sends.
//!
//! A request that may change something is refused if a page of another origin sends it, or if its body is what a form of any page
//! can send. DNS rebinding turns the origin of another site into that of the broker: its name then has the address of the broker.
//! So the logins that everybody can guess, or that every page of this machine could use, succeed only if `Host` is a name that no
//! other site can have.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use amqp10::sasl::Secret;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Uri;
use axum::http::{HeaderMap, HeaderName, Method, Response, header};
use axum::middleware::Next;
use broker::categories::{CONNECTION, PEER};
use broker::names::cut;

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

/// The hosts of a node, and the logins that depend on them.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The hosts that browsers and proxies may name (`management.allowed_hosts.N`): `mq.example.com`, or `mq.example.com:8443`.
    pub allowed: Vec<String>,
    /// The names of this machine.
    pub own: Vec<String>,
    /// The users who may log in from this machine only (`loopback_users`).
    pub local_users: Vec<String>,
    /// Users with a password that everybody knows.
    pub known_logins: Vec<(String, Secret)>,
}

impl HostOptions {
    /// Returns true if a value of `management.allowed_hosts.N` is a host with or without a port.
    pub fn is_host(text: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
        text.chars().all(is_part) && place_of(text).is_some()
    }

    /// Checks that a user may log in with a request that names this host.
    ///
    /// # Errors
    /// 401 without a challenge: other credentials may help, but a browser must not ask for them on a page of another site.
    pub fn permit(&self, user: &str, password: &Secret, host: Option<&str>) -> Result<(), Failure> {
        let is_known = self.known_logins.iter().any(|(name, known)| name == user && known == password);
        let is_concerned = is_known || self.local_users.iter().any(|name| name == user);
        let host = host.unwrap_or_default();
        if !is_concerned || self.is_safe(host) {
            return Ok(());
        }
        Err(Failure::not_authorised(format!(
            "user '{}' cannot log in with the host name '{}': use an IP address or localhost, or list the name in \
             management.allowed_hosts",
            cut(user),
            cut(host)
        )))
    }

    /// Returns true if no other site can have this value of `Host`.
    fn is_safe(&self, host: &str) -> bool {
        let Some((name, _)) = place_of(host) else { return false };
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<Ipv4Addr>().is_ok(),
        };
        let allowed = self.allowed.iter().filter_map(|allowed| place_of(allowed)).map(|(name, _)| name);
        let mut names = allowed.chain(self.own.iter().map(String::as_str)).chain(["localhost"]);
        is_address || names.any(|own| own.eq_ignore_ascii_case(name))
    }
}

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

/// Splits `host:port` or `host`. An IPv6 address is in brackets.
fn place_of(text: &str) -> Option<(&str, Option<u16>)> {
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let port = match rest {
        "" => None,
        _ => {
            let digits =
                rest.strip_prefix(':').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
            Some(digits.parse().ok()?)
        }
    };
    (!host.is_empty()).then_some((host, port))
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

    #[test]
    fn an_allowed_host_has_no_scheme_and_no_path() {
        for good in ["mq", "mq.example.com", "mq:8443", "10.0.0.1", "[::1]:80", "a_b-c"] {
            assert!(HostOptions::is_host(good), "{good}");
        }
        for bad in
            ["", "*", "http://mq", "mq/", "mq:", "mq:x", "mq:70000", "u@mq", "a b", "::1", "*.mq", "[::1"]
        {
            assert!(!HostOptions::is_host(bad), "{bad}");
        }
    }

    #[test]
    fn only_names_that_no_other_site_can_have_are_safe() {
        let options = HostOptions {
            allowed: vec!["mq.example:8443".into()],
            own: vec!["node7".into()],
            ..HostOptions::default()
        };
        for safe in [
            "127.0.0.1",
            "127.0.0.1:15672",
            "10.1.2.3:1",
            "[::1]",
            "[fe80::1]:15672",
            "localhost",
            "LOCALHOST:15672",
            "node7:15672",
            "mq.example",
            "MQ.example:15672",
        ] {
            assert!(options.is_safe(safe), "{safe}");
        }
        for unsafe_host in [
            "",
            "evil.example",
            "evil.example:15672",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.1",
            "0x7f000001",
            "[evil]",
            "u@localhost",
            "node7.evil.example",
            "localhost:x",
        ] {
            assert!(!options.is_safe(unsafe_host), "{unsafe_host}");
        }
    }
}
