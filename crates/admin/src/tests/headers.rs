//! The headers of responses: those that protect browsers, CORS, and tags.

use axum::http::HeaderValue;

use super::http::{Answer, Server, request};
use crate::{HeaderOptions, POLICY_DEFAULT, Ports};

const GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

const ORIGIN: &str = "https://tools.example";

/// The headers of CORS that an answer has.
fn cors(answer: &Answer) -> Vec<&str> {
    let of_cors = answer.headers.iter().filter(|(name, _)| name.starts_with("access-control-"));
    of_cors.map(|(name, _)| name.trim_start_matches("access-control-")).collect()
}

#[tokio::test]
async fn every_response_protects_browsers() {
    let server = Server::start().await;
    for (method, path, authorization, status) in [
        ("GET", "/", "", 200),
        ("GET", "/api/overview", "", 401),
        ("GET", "/api/overview", GUEST, 200),
        ("GET", "/api/queues", GUEST, 200),
        ("GET", "/api/nope", GUEST, 404),
        ("PUT", "/api/queues/%2F/q", GUEST, 201),
        ("DELETE", "/api/queues/%2F/q", GUEST, 204),
        ("OPTIONS", "/api/queues/%2F/q", "", 200),
    ] {
        let answer = request(server.management, method, path, authorization, "").await;
        assert_eq!(answer.status, status, "{method} {path}");
        for (name, value) in [
            ("content-security-policy", POLICY_DEFAULT),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{method} {path}: {name}");
        }
        assert_eq!(answer.header("strict-transport-security"), None, "{path}");
        // Only the files of the page have several forms.
        let vary = (path == "/").then_some("accept-encoding");
        assert_eq!((answer.header("vary"), cors(&answer)), (vary, Vec::new()), "{path}");
    }
}

#[tokio::test]
async fn an_operator_sets_the_policies() {
    let options = HeaderOptions {
        policy: HeaderValue::from_static("default-src 'self'"),
        hsts: Some(HeaderValue::from_static("max-age=1")),
        ..HeaderOptions::default()
    };
    for (is_tls, hsts) in [(false, None), (true, Some("max-age=1"))] {
        // The header depends on what the port is for, so the test needs no TLS.
        let ports = Ports::default().with_headers(options.clone()).over_tls(is_tls);
        let server = Server::start_with(ports).await;
        let answer = request(server.management, "GET", "/", "", "").await;
        assert_eq!(answer.header("content-security-policy"), Some("default-src 'self'"));
        assert_eq!(answer.header("strict-transport-security"), hsts);
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_may_use_the_api() {
    let options = |origins: &[&str]| HeaderOptions {
        origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
        max_age_s: 60,
        ..HeaderOptions::default()
    };
    for (origins, origin, is_allowed) in [
        (&[][..], ORIGIN, false),
        (&[ORIGIN], ORIGIN, true),
        (&[ORIGIN], "https://tools.example.evil", false),
        (&[ORIGIN], "http://tools.example", false),
        (&["https://other", ORIGIN], ORIGIN, true),
        (&["*"], ORIGIN, true),
        (&["*"], "null", false),
    ] {
        let server = Server::start_with(Ports::default().with_headers(options(origins))).await;
        let of_page = format!("Origin: {origin}\r\n");
        let answer = request(server.management, "GET", "/api/whoami", &format!("{GUEST}{of_page}"), "").await;
        assert_eq!(answer.status, 200);
        let expected = if is_allowed { vec!["allow-origin", "allow-credentials"] } else { Vec::new() };
        assert_eq!(cors(&answer), expected, "{origins:?} {origin}");
        assert_eq!(answer.header("access-control-allow-origin"), is_allowed.then_some(origin));
        assert_eq!(answer.header("vary").is_some(), !origins.is_empty(), "{origins:?}");
        let asked = format!("{of_page}Access-Control-Request-Headers: authorization\r\n");
        let answer = request(server.management, "OPTIONS", "/api/queues/%2F/q", &asked, "").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
        let methods = "HEAD, GET, PUT, DELETE, OPTIONS";
        assert_eq!(answer.header("allow"), Some(methods));
        for (name, value) in [
            ("access-control-allow-methods", methods),
            ("access-control-allow-headers", "authorization"),
            ("access-control-max-age", "60"),
            ("access-control-allow-origin", origin),
            ("access-control-allow-credentials", "true"),
        ] {
            assert_eq!(answer.header(name), is_allowed.then_some(value), "{origins:?} {origin}: {name}");
        }
    }
    let server = Server::start().await;
    let unknown = request(server.management, "OPTIONS", "/api/nope", "", "").await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_client_is_told_that_it_has_the_answer() {
    let server = Server::start().await;
    for path in ["/api/bindings", "/api/exchanges", "/api/whoami"] {
        let ask = async |known: &str| {
            let known = if known.is_empty() { String::new() } else { format!("If-None-Match: {known}\r\n") };
            request(server.management, "GET", path, &format!("{GUEST}{known}"), "").await
        };
        let first = ask("").await;
        let tag = first.header("etag").unwrap().to_owned();
        assert_eq!((first.status, tag.len()), (200, 24), "{path}");
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let again = ask(&known).await;
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path} {known}");
            assert_eq!(again.header("etag"), Some(&*tag));
        }
        let other = ask("\"other\"").await;
        assert_eq!((other.status, other.body), (200, first.body), "{path}");
    }
    let tag = async || {
        let answer = request(server.management, "GET", "/api/bindings", GUEST, "").await;
        answer.header("etag").unwrap().to_owned()
    };
    let before = tag().await;
    request(server.management, "PUT", "/api/queues/%2F/q", GUEST, "").await;
    assert_ne!(tag().await, before, "the bindings have changed");
    // Answers that are made page by page have no tag, and other methods have none.
    for (method, path) in [
        ("GET", "/api/queues"),
        ("GET", "/api/definitions"),
        ("PUT", "/api/queues/%2F/q"),
        ("GET", "/api/queues/%2F/none"),
    ] {
        assert_eq!(request(server.management, method, path, GUEST, "").await.header("etag"), None, "{path}");
    }
}

#[tokio::test]
async fn what_is_missing_is_an_empty_list_or_501() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            GET /api/shovels -> 200 []
            GET /api/shovels/%2F -> 200 []
            GET /api/federation-links -> 200 []
            GET /api/federation-links/%2F/state/down -> 200 []
            GET /api/stream/consumers -> 200 []
            GET /api/traces/%2F -> 200 []
            GET /api/trace-files -> 200 []
            GET /api/stream/publishers?page=1 -> 200 {"filtered_count":0,"item_count":0,"items":[],..
            GET /api/shovels/vhost/%2F/s -> 501 {"error":"not_implemented","reason":"there are no shovels: sluice move moves the messages of a queue"}
            POST /api/queues/%2F/q/actions {"action":"sync"} -> 501 {"error":"not_implemented","reason":"there are no mirrors to synchronise: there is one node"}
            GET /api/users/guest/queues -> 501 {"error":"not_implemented","reason":"nothing records who declared a queue: GET /api/queues lists all queues"}
            GET /api/top/n@h -> 501 {"error":"not_implemented",..
            DELETE /api/reset -> 501 {"error":"not_implemented",..
            GET /api/aliveness-test/%2F -> 200 {"status":"ok"}
            GET /api/aliveness-test/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/healthchecks/node -> 200 {"status":"ok"}
            # There is no broker behind the api of this test.
            POST /api/exchanges/%2F/x/publish {"routing_key":"","properties":{},"payload":"","payload_encoding":"string"} -> 503 {"error":"service_unavailable","reason":"the connection to the broker has failed: ..
            POST /api/queues/%2F/q/get {"count":1,"ackmode":"ack_requeue_true","encoding":"auto"} -> 503 {"error":"service_unavailable","reason":"the connection to the broker has failed: ..
            GET /api/openapi.json -> 200 {"openapi":"3.1.0",..
            "#,
        )
        .await;
    server.check("own", "GET /api/config/effective -> 401 {\"error\":\"not_authorised\",..").await;
    server.check("own", "DELETE /api/reset -> 401 {\"error\":\"not_authorised\",..").await;
}
