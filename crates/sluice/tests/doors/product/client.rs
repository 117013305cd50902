//! A client of HTTP that keeps its connection, and can stop in the middle of a request.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::in_time;

pub(super) struct Http {
    to: SocketAddr,
    socket: Option<TcpStream>,
}

#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: String,
}

impl Http {
    pub(super) fn new(to: SocketAddr) -> Self {
        Self { to, socket: None }
    }

    /// Sends a part of a request.
    pub(super) async fn send(&mut self, part: &str) {
        if self.socket.is_none() {
            let socket = TcpStream::connect(self.to).await.unwrap();
            socket.set_nodelay(true).unwrap();
            self.socket = Some(socket);
        }
        // A broker that has refused the request already may not read the rest.
        drop(self.socket.as_mut().unwrap().write_all(part.as_bytes()).await);
    }

    /// Reads the answer.
    pub(super) async fn receive(&mut self, what: &str) -> Answered {
        let mut socket = self.socket.take().unwrap();
        let answered = in_time(what, read(&mut socket)).await;
        let answered = answered.unwrap_or_else(|| panic!("{what}: the connection has ended"));
        // The broker closes the connection if it has refused a request without reading its body.
        if answered.status < 400 {
            self.socket = Some(socket);
        }
        answered
    }
}

/// Returns `None` if the connection ends first.
async fn read(socket: &mut TcpStream) -> Option<Answered> {
    let mut bytes = Vec::new();
    loop {
        let (end, is_whole) = match whole(&bytes) {
            Some((head, body)) => (head, body),
            None => (0, None),
        };
        if let Some(body) = is_whole {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let status = head.split(' ').nth(1)?.parse().ok()?;
            return Some(Answered { status, head, body });
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the length of the head if it has arrived, and the body if it is whole.
fn whole(bytes: &[u8]) -> Option<(usize, Option<String>)> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let rest = &bytes[end + 4..];
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let body = match length {
        Some(length) => {
            let length = length.parse().expect("a length is a number");
            (rest.len() >= length).then(|| text(&rest[..length]))
        }
        None if head.contains("\r\ntransfer-encoding: chunked") => unchunked(rest).map(|body| text(&body)),
        None => Some(String::new()),
    };
    Some((end, body))
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        let chunk = rest.get(line + 2..line + 2 + length)?;
        rest = rest.get(line + 2 + length + 2..)?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunk);
    }
}
