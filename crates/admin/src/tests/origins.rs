//! Requests that pages of other web sites send: through a browser of their user, with the login that it remembers.

use amqp10::sasl::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::http::{Answer, Server, raw, request};
use crate::routes::{Method, ROUTES, Route};
use crate::{HeaderOptions, HostOptions, Ports};

const GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// The name under which browsers know the broker.
const PUBLIC: &str = "mq.example";

/// What a proxy without `proxy_set_header Host` sends.
const UPSTREAM: &str = "127.0.0.1:15672";

fn ports(origins: &[&str], allowed: &[&str]) -> Ports {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let headers = HeaderOptions { origins: owned(origins), ..HeaderOptions::default() };
    let hosts = HostOptions { allowed: owned(allowed), ..HostOptions::default() };
    Ports::default().with_headers(headers).with_hosts(hosts)
}

/// Sends a request with these headers, among them `Host`.
async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    raw(server.management, &text).await
}

fn writing() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().filter(|route| route.method != Method::Get)
}

/// The attack: a form of any page, whose only field has a name that begins the JSON and a value that ends it.
#[tokio::test]
async fn a_form_of_another_page_does_not_import_definitions() {
    let server = Server::start().await;
    let body = r#"{"users":[{"name":"evil","password":"evil","tags":"administrator","note":"="}]}"#;
    let form = |more: &str| format!("Host: {UPSTREAM}\r\n{GUEST}Content-Type: text/plain\r\n{more}");
    for origin in [
        "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        let answer = send(&server, "POST", "/api/definitions", &form(origin), body).await;
        assert_eq!(answer.status, 403, "{origin}");
        for setting in ["management.cors.allow_origins", "management.allowed_hosts"] {
            assert!(answer.body.contains(setting), "{}", answer.body);
        }
    }
    assert_eq!(send(&server, "POST", "/api/definitions", &form(""), body).await.status, 415);
    assert_eq!(server.ask(Some("guest"), "GET", "/api/users/evil", "").await.status, 404);
}

/// Every route that is not a GET refuses a page of another origin, before the login and before the body.
#[tokio::test]
async fn every_writing_route_refuses_pages_of_other_origins() {
    let server = Server::start().await;
    let foreign = "Host: h\r\nOrigin: https://evil.example\r\n";
    let unread = format!("{foreign}Connection: close\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n");
    for Route { method, path: pattern, .. } in writing() {
        let (verb, path) = (method.to_string(), pattern.replace(['{', '}'], ""));
        for login in ["", GUEST] {
            let answer = send(&server, &verb, &path, &format!("{foreign}{login}"), "{}").await;
            assert_eq!(answer.status, 403, "{verb} {pattern}");
        }
        // The answer comes although the body never does, and nobody is asked for it.
        let answer = raw(server.management, &format!("{verb} {path} HTTP/1.1\r\n{unread}{GUEST}\r\n")).await;
        assert_eq!(answer.status, 403, "{verb} {pattern}");
        // A page of the broker's own and a program are not refused. Nobody is logged in, so nothing happens.
        for own in ["Origin: http://h\r\n", "Origin: https://h\r\n", "Sec-Fetch-Site: same-origin\r\n", ""] {
            let answer = send(&server, &verb, &path, &format!("Host: h\r\n{own}"), "").await;
            assert_eq!(answer.status, 401, "{verb} {pattern} {own}");
        }
    }
    // Unknown methods and paths are no way around.
    for (method, path) in [("PATCH", "/api/queues/%2F/q"), ("TRACE", "/"), ("FOO", "/nope"), ("POST", "/")] {
        assert_eq!(send(&server, method, path, foreign, "").await.status, 403, "{method} {path}");
    }
    for method in ["GET", "HEAD", "OPTIONS"] {
        assert_eq!(send(&server, method, "/", foreign, "").await.status, 200, "{method}");
    }
}

/// The headers decide in this order: a listed origin, `Sec-Fetch-Site`, `Origin`.
#[tokio::test]
async fn the_headers_of_browsers_decide_in_order() {
    let listed = "https://tools.example";
    for (origins, headers, status) in [
        (&[][..], "", 201),
        (&[], "Origin: http://h", 201),
        (&[], "Origin: https://h", 201),
        (&[], "Origin: http://h:15672", 403),
        (&[], "Origin: null", 403),
        (&[], "Origin: \u{e9}", 403),
        (&[], "Sec-Fetch-Site: same-origin", 201),
        (&[], "Sec-Fetch-Site: none", 201),
        (&[], "Sec-Fetch-Site: same-site", 403),
        (&[], "Sec-Fetch-Site: cross-site", 403),
        (&[], "Sec-Fetch-Site: ", 403),
        // `Sec-Fetch-Site` alone decides.
        (&[], "Sec-Fetch-Site: same-origin\r\nOrigin: https://other", 201),
        (&[], "Sec-Fetch-Site: cross-site\r\nOrigin: http://h", 403),
        (&[], "Sec-Fetch-Site: same-origin\r\nOrigin: null", 201),
        // A listed origin passes first.
        (&[listed], "Origin: https://tools.example\r\nSec-Fetch-Site: cross-site", 201),
        (&[listed], "Origin: https://tools.example", 201),
        (&[listed], "Origin: http://tools.example", 403),
        (&[listed], "Origin: https://tools.example.evil", 403),
        (&[listed], "Origin: https://other\r\nSec-Fetch-Site: cross-site", 403),
        (&[listed], "Origin: null\r\nSec-Fetch-Site: cross-site", 403),
        (&[listed], "Sec-Fetch-Site: cross-site", 403),
        (&[listed], "", 201),
        // The check is off.
        (&["*"], "Origin: https://other\r\nSec-Fetch-Site: cross-site", 201),
        (&["*"], "Origin: null", 201),
        (&["*"], "Sec-Fetch-Site: cross-site", 201),
    ] {
        let server = Server::start_with(ports(origins, &[])).await;
        let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
        let headers = format!("Host: h\r\n{GUEST}{headers}");
        let answer = send(&server, "PUT", "/api/queues/%2F/q", &headers, "").await;
        assert_eq!(answer.status, status, "{origins:?} {headers}: {}", answer.body);
    }
}

/// What nginx sends to the broker, with `proxy_set_header Host $http_host` and without, if the browser speaks HTTP or HTTPS with it.
#[tokio::test]
async fn a_proxy_may_replace_the_host() {
    for (secure, keeps_host, allowed, status) in [
        (false, true, &[][..], 201),
        (true, true, &[], 201),
        // Browsers send no `Sec-Fetch-Site` over HTTP.
        (false, false, &[], 403),
        (true, false, &[], 201),
        (false, false, &[PUBLIC], 201),
        (false, false, &["other.example"], 403),
        (false, false, &["mq.example:8080"], 403),
    ] {
        let server = Server::start_with(ports(&[], allowed)).await;
        let (scheme, fetch) =
            if secure { ("https", "Sec-Fetch-Site: same-origin\r\n") } else { ("http", "") };
        let host = if keeps_host { PUBLIC } else { UPSTREAM };
        let headers = format!("Host: {host}\r\nOrigin: {scheme}://{PUBLIC}\r\n{fetch}{GUEST}");
        let answer = send(&server, "PUT", "/api/queues/%2F/q", &headers, "").await;
        assert_eq!(answer.status, status, "{headers} {allowed:?}");
        // A page of another site passes in none of these cases.
        let fetch = if secure { "Sec-Fetch-Site: cross-site\r\n" } else { "" };
        let headers = format!("Host: {host}\r\nOrigin: {scheme}://evil.example\r\n{fetch}{GUEST}");
        let answer = send(&server, "PUT", "/api/queues/%2F/q", &headers, "").await;
        assert_eq!(answer.status, 403, "{headers} {allowed:?}");
    }
}

#[tokio::test]
async fn a_body_that_a_form_can_send_is_no_json() {
    let server = Server::start().await;
    let form = "application/x-www-form-urlencoded";
    for (content_type, more, status) in [
        ("application/json", "", 204),
        ("application/json; charset=utf-8", "Origin: http://h\r\n", 204),
        // `curl -T` sends no type, and `curl -d` the type of a form.
        ("", "", 204),
        ("application/octet-stream", "", 204),
        (form, "", 204),
        ("Application/X-WWW-Form-Urlencoded; a=b", "", 204),
        (form, "Origin: http://h\r\n", 415),
        (form, "Sec-Fetch-Site: same-origin\r\n", 415),
        (form, "Sec-Fetch-Mode: no-cors\r\n", 415),
        (form, "Referer: http://h/\r\n", 415),
        ("APPLICATION/X-WWW-form-urlencoded ;a", "Referer: http://h/\r\n", 415),
        ("text/plain", "", 415),
        ("Text/Plain;charset=utf-8", "", 415),
        ("text/plain ; a=\u{e9}", "", 415),
        ("multipart/form-data; boundary=x", "", 415),
    ] {
        server.ask(Some("guest"), "PUT", "/api/queues/%2F/q", "").await;
        let typed =
            if content_type.is_empty() { String::new() } else { format!("Content-Type: {content_type}\r\n") };
        let headers = format!("Host: h\r\n{GUEST}{typed}{more}");
        let answer = send(&server, "PUT", "/api/queues/%2F/q", &headers, "{}").await;
        assert_eq!(answer.status, status, "{headers}: {}", answer.body);
    }
    let answer = send(&server, "GET", "/", "Host: h\r\nContent-Type: text/plain\r\n", "").await;
    assert_eq!(answer.status, 200, "a GET has no body");
}

/// DNS rebinding: the name of another site has the address of the broker, so its page has the broker's origin.
#[tokio::test]
async fn a_name_of_another_site_does_not_log_in_users_whose_password_is_known() {
    let hosts = HostOptions {
        allowed: vec![PUBLIC.into()],
        own: vec!["node7".into()],
        local_users: vec!["own".into()],
        known_logins: vec![("guest".into(), Secret::new("guest"))],
    };
    let server = Server::start_with(Ports::default().with_hosts(hosts)).await;
    let ask = async |host: &str, user: &str, password: &str, path: &str| {
        let login = STANDARD.encode(format!("{user}:{password}"));
        let headers = format!("{host}Authorization: Basic {login}\r\n");
        send(&server, "GET", path, &headers, "").await
    };
    let is_refused = |answer: &Answer| {
        let reason = answer.body.contains("management.allowed_hosts");
        (answer.status == 401 && reason && answer.header("www-authenticate").is_none()).then_some(true)
    };
    for (host, is_safe) in [
        ("127.0.0.1:15672", true),
        ("[::1]:15672", true),
        ("localhost:15672", true),
        ("node7", true),
        (PUBLIC, true),
        ("evil.example", false),
        ("evil.example:15672", false),
        ("localhost.evil.example", false),
    ] {
        let host = format!("Host: {host}\r\n");
        for user in ["guest", "own"] {
            let answer = ask(&host, user, user, "/api/whoami").await;
            if is_safe {
                assert_eq!(answer.status, 200, "{host} {user}");
            } else {
                assert_eq!(is_refused(&answer), Some(true), "{host} {user}: {}", answer.body);
            }
        }
        // Other users, and what needs no login, are not concerned.
        assert_eq!(ask(&host, "monitor", "monitor", "/api/whoami").await.status, 200, "{host}");
        assert_eq!(send(&server, "GET", "/", &host, "").await.status, 200, "{host}");
        for path in ["/metrics", "/health/live", "/health/ready"] {
            let text = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{host}\r\n");
            assert_eq!(raw(server.metrics, &text).await.status, 200, "{host} {path}");
        }
    }
    // The password of `guest` is not the known one, so the login fails as any other.
    let answer = ask("Host: evil.example\r\n", "guest", "wrong", "/api/whoami").await;
    assert!(answer.status == 401 && answer.body.contains("Not_Authorized"), "{}", answer.body);
    // A host in the first line counts, not the header. A request without a host is not of a browser, but has no safe name.
    for text in [
        format!(
            "GET http://evil.example/api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{GUEST}\r\n"
        ),
        format!("GET /api/whoami HTTP/1.0\r\n{GUEST}\r\n"),
    ] {
        assert_eq!(is_refused(&raw(server.management, &text).await), Some(true), "{text}");
    }
}

/// Two headers could mean one thing to the broker and another to a proxy.
#[tokio::test]
async fn headers_that_decide_occur_once() {
    let server = Server::start().await;
    for twice in [
        format!("{GUEST}{GUEST}"),
        format!("{GUEST}Authorization: Bearer x\r\n"),
        format!("{GUEST}Origin: http://h\r\nOrigin: http://h\r\n"),
        format!("{GUEST}Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("{GUEST}Content-Type: application/json\r\nContent-Type: text/plain\r\n"),
    ] {
        for method in ["GET", "PUT"] {
            let answer = request(server.management, method, "/api/queues/%2F/q", &twice, "").await;
            assert_eq!(answer.status, 400, "{method} {twice}: {}", answer.body);
            assert!(answer.body.contains("more than one header"), "{}", answer.body);
        }
        let answer = request(server.metrics, "GET", "/metrics", &twice, "").await;
        assert_eq!(answer.status, 400, "{twice}");
    }
}

/// A line that begins with a space continued the header before it, once. Proxies and servers disagree about such lines.
#[tokio::test]
async fn folded_headers_are_refused() {
    let server = Server::start().await;
    for folded in [
        "X-A: a\r\n b\r\n",
        "X-A: a\r\n\tb\r\n",
        "X-A: a\r\n Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n",
        "X-A:\r\n a\r\n",
        "X-A: a\n b\r\n",
        "X-A : a\r\n",
    ] {
        for (to, path) in [(server.management, "/api/whoami"), (server.metrics, "/metrics")] {
            for text in [
                format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{GUEST}{folded}\r\n"),
                format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{folded}{GUEST}\r\n"),
                format!("GET {path} HTTP/1.1\r\n {folded}Host: h\r\nConnection: close\r\n{GUEST}\r\n"),
            ] {
                assert_eq!(raw(to, &text).await.status, 400, "{text:?}");
            }
        }
    }
}
