//! Runs the verbs of the built program.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Broker, PROGRAM};

/// The result of a verb.
#[derive(Debug)]
pub(crate) struct Did {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Did {
    /// Requires success. Returns the output without its last line break.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert!(self.code == 0 && self.err.is_empty(), "{self:?}");
        self.out.trim_end_matches('\n').to_owned()
    }

    /// Requires this exit code and one line of error that contains all parts.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("sluice: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part} is not in {self:?}");
        }
    }
}

/// Runs the command with this standard input.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Did {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A verb that does not read its input may have exited already.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    // On a machine with other work, a verb may take so long that it says what it waits for.
    let is_said = |line: &&str| !line.starts_with("sluice: waiting for ");
    let err = text(output.stderr).split_inclusive('\n').filter(is_said).collect();
    Did { code: output.status.code().unwrap(), out: text(output.stdout), err }
}

impl Broker {
    /// Runs a verb against this broker.
    pub(crate) fn verb(&self, words: &[&str]) -> Did {
        self.verb_with_input(words, b"")
    }

    /// Runs a verb with this standard input against this broker.
    pub(crate) fn verb_with_input(&self, words: &[&str], input: &[u8]) -> Did {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("SLUICE_URL", self.amqp_url()).env("SLUICE_HTTP_URL", self.http_url());
        finish(&mut command, input)
    }

    /// Sends a GET to the management API. Returns the status and the JSON body.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "")
    }

    /// Sends one request to the management API. Returns the status and the JSON body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let to = (self.host.as_str(), self.http_port);
        let (status, answer) = ask_at(to, &basic("guest", "guest"), &[], method, path, body);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Runs `sluice list WHAT --json`.
    pub(crate) fn list(&self, what: &str) -> Value {
        serde_json::from_str(&self.verb(&["list", what, "--json"]).done()).unwrap()
    }
}

/// Runs a verb that needs no broker.
pub(crate) fn sluice(words: &[&str]) -> Did {
    let mut command = Command::new(PROGRAM);
    finish(command.args(words).env_remove("SLUICE_URL").env_remove("SLUICE_HTTP_URL"), b"")
}

/// Returns the `Authorization` header of a user.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Sends one request to a port. Returns the status, and the whole answer.
pub(crate) fn ask_as(port: u16, authorization: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    ask_with(port, authorization, &[], method, path, body)
}

/// Sends one request with further headers, each `name: value`.
pub(crate) fn ask_with(
    port: u16,
    authorization: &str,
    headers: &[&str],
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    ask_at(("127.0.0.1", port), authorization, headers, method, path, body)
}

fn ask_at(
    to: (&str, u16),
    authorization: &str,
    headers: &[&str],
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let mut socket = TcpStream::connect(to).unwrap();
    let length = body.len();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {authorization}\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}
