//! Compares the table of docs/routes.md with the routes of the management API, and runs each command in it against a server that
//! records the requests.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use admin::{ROUTES, Route};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sluice");

/// The exit code of a program that has panicked.
const PANICKED: i32 = 101;

/// What commands read from standard input: a password, or definitions.
const INPUT: &[u8] = b"{}\n";

#[test]
fn each_route_has_a_command_or_a_reason() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/routes.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<(&str, &str)> = page.lines().filter_map(row).collect();
    let documented: Vec<&str> = rows.iter().map(|(route, _)| *route).collect();
    let routes: Vec<String> = ROUTES.iter().map(name).collect();
    assert_eq!(documented, routes, "the rows are in the order of crates/admin/src/routes.rs");

    let (url, requests) = record();
    for (route, cell) in rows {
        let Some(words) = command(cell) else {
            assert!(!cell.trim().is_empty(), "{route}");
            continue;
        };
        let code = run(&words, &url);
        let sent: Vec<String> = requests.try_iter().collect();
        assert_ne!(code, Some(2), "{words:?} is wrong usage");
        assert!(code.is_some_and(|code| code != PANICKED), "{words:?} has panicked");
        assert!(
            sent.iter().any(|request| is_for(request, route)),
            "{words:?} has sent {sent:?}, not {route}"
        );
    }
}

/// Whoever reads a user and then writes it loses what another has changed between the two.
#[test]
fn a_user_is_changed_by_one_request() {
    let (url, requests) = record();
    for (words, request) in [
        (&["set", "tags", "anna", "management"][..], "POST /api/users/anna"),
        (&["set", "password", "anna"], "POST /api/users/anna"),
        (&["clear", "password", "anna"], "POST /api/users/anna"),
        (&["add", "user", "anna"], "PUT /api/users/anna"),
    ] {
        assert_eq!(run(words, &url), Some(0), "{words:?}");
        assert_eq!(requests.try_iter().collect::<Vec<_>>(), [request], "{words:?}");
    }
}

/// Splits a row of the table, whose first cell is a method and a path.
fn row(line: &str) -> Option<(&str, &str)> {
    let (route, cell) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
    ["GET ", "PUT ", "POST ", "DELETE "]
        .iter()
        .any(|method| route.starts_with(method))
        .then_some((route, cell))
}

/// Returns the words of a command, if the cell is only that.
fn command(cell: &str) -> Option<Vec<&str>> {
    let code = cell.strip_prefix("`sluice ")?.strip_suffix('`')?;
    (!code.contains('`')).then(|| code.split(' ').collect())
}

fn name(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

/// Returns true if the broker would use this route for the request.
fn is_for(request: &str, route: &str) -> bool {
    route_of(request).is_some_and(|found| found == route)
}

/// Returns the route that the broker would use for a request, which is a method and a path without its query.
pub(crate) fn route_of(request: &str) -> Option<String> {
    ROUTES.iter().map(name).find(|route| matches(route, request))
}

fn matches(route: &str, request: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (route.split('/').collect(), request.split('/').collect());
    let same = |(part, segment): (&&str, &&str)| part.starts_with('{') || part == segment;
    pattern.len() == path.len() && pattern.iter().zip(&path).all(same)
}

/// Runs a command, and returns its exit code; `None` if a signal has ended it.
fn run(words: &[&str], url: &str) -> Option<i32> {
    let mut command = Command::new(PROGRAM);
    command.args(words).env("SLUICE_HTTP_URL", url);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A command that does not read its input may have exited already.
    drop(child.stdin.take().unwrap().write_all(INPUT));
    child.wait().unwrap().code()
}

/// Starts a server. Returns its URL, and the requests that it gets: `GET /api/queues`.
fn record() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let request = read(&mut socket.as_ref().unwrap());
            let body = answer(&request);
            let length = body.len();
            // The requests of a command are known before the command gets the answer.
            let Ok(()) = sender.send(request) else { return };
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            socket.unwrap().write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    (url, requests)
}

/// Reads one request. Returns its method and path, without the query.
fn read(socket: &mut &TcpStream) -> String {
    let mut octets = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&octets);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or_default() {
                let words: Vec<&str> = head.split([' ', '?']).take(2).collect();
                return words.join(" ");
            }
        }
        let count = socket.read(&mut part).unwrap();
        assert!(count > 0, "the request is incomplete: {text}");
        octets.extend_from_slice(&part[..count]);
    }
}

/// Returns an answer with which a command goes on to its next request.
fn answer(request: &str) -> &'static str {
    match request {
        "GET /api/overview" => r#"{"node": "sluice@host"}"#,
        _ if request.starts_with("GET /api/bindings/") => {
            r#"[{"routing_key": "new", "arguments": {}, "properties_key": "new"}]"#
        }
        // A command must not rely on the form of an answer, so that of a redrive is wrong.
        _ if request.starts_with("GET ") || request.ends_with("/get") || request.ends_with("/redrive") => {
            "[]"
        }
        _ => "{}",
    }
}
