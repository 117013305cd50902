//! Which parameters of queries the handlers read: those that the OpenAPI document describes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::channels::{NAME, connection_of_091};
use super::http::Server;
use crate::queries;
use crate::query::reads;
use crate::routes::{Method, ROUTES, Route};

/// Some parameters of a GET are read only together with others.
const QUERIES: [&str; 3] = ["", "page=1&name=a", "disable_stats=true"];

/// Returns a path in which everything exists.
fn path(route: &Route) -> String {
    let encoded = NAME.replace(' ', "%20").replace('>', "%3E");
    let name = match route.path {
        path if path.contains("connections/") => encoded.as_str(),
        path if path.contains("queues/") => "q",
        path if path.contains("parameters/") => "p",
        path if path.contains("policies/") => "p",
        path if path.contains("traces/") => "t",
        _ if route.method == Method::Delete => "x",
        _ => "amq.topic",
    };
    let destination = if route.path.contains("e/{destination}") { "x" } else { "q" };
    let channel = format!("{encoded}%20(1)");
    let filled = [
        ("{vhost}", "%2F"),
        ("{user}", "guest"),
        ("{node}", "n@h"),
        ("{component}", "ours"),
        ("{source}", "amq.topic"),
        ("{destination}", destination),
        ("{props}", "k"),
        ("{channel}", &channel),
        ("{exchange}", "amq.topic"),
        ("{position}", "1"),
        ("{name}", name),
    ];
    filled
        .iter()
        .fold(route.path.to_owned(), |path, (part, with)| path.replace(part, with))
        .replace(['{', '}'], "")
}

/// Makes what the paths name.
async fn make(server: &Server) {
    server.api.state().connections = vec![connection_of_091("guest", false)];
    for (method, path, body) in [
        ("PUT", "/api/queues/%2F/q", "{}"),
        ("PUT", "/api/exchanges/%2F/x", r#"{"type": "topic"}"#),
        ("POST", "/api/bindings/%2F/e/amq.topic/q/q", r#"{"routing_key": "k"}"#),
        ("POST", "/api/bindings/%2F/e/amq.topic/e/x", r#"{"routing_key": "k"}"#),
        ("PUT", "/api/parameters/ours/%2F/p", r#"{"value": 1}"#),
        ("PUT", "/api/global-parameters/p", r#"{"value": 1}"#),
        ("PUT", "/api/policies/%2F/p", r#"{"pattern": "^z", "definition": {"max-length": 1}}"#),
        ("PUT", "/api/operator-policies/%2F/p", r#"{"pattern": "^z", "definition": {"max-length": 1}}"#),
        ("PUT", "/api/topic-permissions/%2F/guest", r#"{"exchange": "amq.topic", "write": "", "read": ""}"#),
        ("PUT", "/api/traces/%2F/t", r#"{"queue": "q"}"#),
    ] {
        let answer = server.ask(Some("guest"), method, path, body).await;
        assert!([201, 204].contains(&answer.status), "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn the_parameters_that_handlers_read_are_described() {
    let mut wrong = Vec::new();
    let of_api = ROUTES.iter().filter(|route| route.path.starts_with("/api/"));
    for (i, route) in of_api.enumerate() {
        let mark = format!("route-{i}");
        let server = Server::start().await;
        make(&server).await;
        for query in if route.method == Method::Get { &QUERIES[..] } else { &QUERIES[..1] } {
            let path = format!("{}?{}={mark}&{query}", path(route), reads::MARK);
            server.ask(Some("guest"), &route.method.to_string(), &path, "{}").await;
        }
        let described: BTreeSet<String> = queries::of(route.action).map(|p| p.name.to_owned()).collect();
        let read = reads::of(&mark);
        if read != described {
            wrong.push(format!("{} {}: reads {read:?}", route.method, route.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_page_may_have_only_rows_of_a_type_a_policy_or_with_a_problem() {
    let server = Server::start().await;
    for (name, kind) in [("a", "classic"), ("b", "classic"), ("c", "quorum"), ("s", "stream")] {
        let body = format!(r#"{{"arguments": {{"x-queue-type": "{kind}"}}}}"#);
        server.ask(Some("guest"), "PUT", &format!("/api/queues/%2F/{name}"), &body).await;
    }
    let policy = r#"{"pattern": "^a", "definition": {"max-length": 9}, "apply-to": "queues"}"#;
    server.ask(Some("guest"), "PUT", "/api/policies/%2F/short", policy).await;
    ["b", "s"].into_iter().for_each(|name| _ = server.api.state().ready.insert(name.into(), 3));
    for (query, found) in [
        ("", vec!["a", "b", "c", "s"]),
        ("&type=classic", vec!["a", "b"]),
        ("&type=classic&name=b", vec!["b"]),
        ("&policy=short", vec!["a"]),
        ("&state=running&type=stream", vec!["s"]),
        ("&state=damaged", vec![]),
        ("&problem=true", vec!["b"]),
        ("&problem=false&type=quorum", vec!["c"]),
    ] {
        let path = format!("/api/queues?page=1&columns=name{query}");
        let answer = server.ask(Some("guest"), "GET", &path, "").await;
        let page: Value = serde_json::from_str(&answer.body).unwrap();
        let names: Vec<&str> =
            page["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!((&names, &page["filtered_count"]), (&found, &found.len().into()), "{query}");
    }
}

#[tokio::test]
async fn everybody_knows_their_own_permissions() {
    let server = Server::start().await;
    let user = r#"{"password": "ann", "tags": "management"}"#;
    server.ask(Some("guest"), "PUT", "/api/users/ann", user).await;
    let permissions = r#"{"configure": "", "write": "^a", "read": ".*"}"#;
    server.ask(Some("guest"), "PUT", "/api/permissions/%2F/ann", permissions).await;
    let answer = server.ask(Some("ann"), "GET", "/api/whoami", "").await;
    let who: Value = serde_json::from_str(&answer.body).unwrap();
    let own =
        serde_json::json!([{ "user": "ann", "vhost": "/", "configure": "", "write": "^a", "read": ".*" }]);
    assert_eq!(who["permissions"], own);
}
