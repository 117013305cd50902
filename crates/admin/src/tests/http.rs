//! A server on a free port, and a minimal client.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::test_node::TestNode;
use crate::{Ports, management_router, metrics_router, serve};

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A management server and a metrics server that share an admin API.
pub(super) struct Server {
    pub api: TestNode,
    pub management: SocketAddr,
    pub metrics: SocketAddr,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::start_with(Ports::default()).await
    }

    pub(super) async fn start_with(ports: Ports) -> Self {
        Self::start_on(TestNode::new(), ports).await
    }

    pub(super) async fn start_on(api: TestNode, ports: Ports) -> Self {
        let ports = ports.naming_node("n@h");
        let mut addresses = Vec::new();
        for router in [management_router(api.api(), ports.clone()), metrics_router(api.api(), ports.clone())]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap());
            tokio::spawn(serve(listener, None, router, ports.clone(), std::future::pending()));
        }
        Self { api, management: addresses[0], metrics: addresses[1] }
    }

    /// Sends a request to the management server, as this user; the password equals the name.
    pub(super) async fn ask(&self, user: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
        let authorization = user.map_or(String::new(), |u| {
            format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{u}:{u}")))
        });
        request(self.management, method, path, &authorization, body).await
    }

    /// Runs a transcript: lines of `METHOD path [body] -> status [body]`. Each request sees the state that
    /// the previous ones left. A body that ends in `..` gives only the start of the response.
    pub(super) async fn check(&self, user: &str, transcript: &str) {
        for line in transcript.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (request, expected) = line.split_once(" -> ").unwrap();
            let mut words = request.splitn(3, ' ');
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let answer = self.ask(Some(user), method, path, words.next().unwrap_or("")).await;
            let got = format!("{} {}", answer.status, answer.body);
            match expected.strip_suffix("..") {
                Some(beginning) => assert!(got.starts_with(beginning), "{request}\n got {got}"),
                None => assert_eq!(got.trim_end(), expected, "{request}"),
            }
        }
    }
}

/// Sends one request on a new connection.
pub(super) async fn request(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    raw(to, &text).await
}

/// Sends raw text on a new connection. The server must close it.
pub(super) async fn raw(to: SocketAddr, text: &str) -> Answer {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // The server may answer and close before it has read a body that it refuses.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut octets = Vec::new();
    let _ = stream.read_to_end(&mut octets).await;
    let text = String::from_utf8(octets).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let (first, headers) = head.split_once("\r\n").unwrap();
    let headers = headers.lines().filter_map(|l| l.split_once(": "));
    let headers: Vec<_> = headers.map(|(n, v)| (n.to_lowercase(), v.to_owned())).collect();
    let is_chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked");
    let body = if is_chunked { unchunk(body) } else { body.to_owned() };
    Answer { status: first.split(' ').nth(1).unwrap().parse().unwrap(), headers, body }
}

/// Decodes a chunked body, which must be complete.
fn unchunk(mut chunks: &str) -> String {
    let mut body = String::new();
    loop {
        let (len, rest) = chunks.split_once("\r\n").expect("the body is incomplete");
        let len = usize::from_str_radix(len, 16).unwrap();
        if len == 0 {
            return body;
        }
        body.push_str(&rest[..len]);
        chunks = rest[len..].strip_prefix("\r\n").unwrap();
    }
}
