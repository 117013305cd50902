//! Another broker in the place of the world's shards, for example RabbitMQ: to check the pages themselves. Only scenes that
//! need nothing but clients of AMQP 0.9.1 can be played so. Time passes as on the clock.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use catalog::access::User;

use crate::text::Parsed;

/// How long the broker must be silent until its answers are complete.
const SILENCE: Duration = Duration::from_millis(120);

/// The management port of the broker is so far above that of AMQP, as with the scripts that start one.
const TO_MANAGEMENT: u16 = 10_000;

/// The login of the user guest, for the management API.
const GUEST: &str = "Z3Vlc3Q6Z3Vlc3Q=";

/// The sockets of the clients.
#[derive(Debug)]
pub(crate) struct Remote {
    broker: SocketAddr,
    sockets: BTreeMap<String, TcpStream>,
}

/// What a socket has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub bytes: Vec<u8>,
    pub is_closed: bool,
}

impl Remote {
    /// Empties the broker's default virtual host, and makes the users.
    ///
    /// # Errors
    /// The management API does not do it.
    pub(crate) fn new(broker: SocketAddr, users: &[User]) -> Parsed<Self> {
        let remote = Self { broker, sockets: BTreeMap::new() };
        remote.manage("DELETE", "vhosts/%2F", "")?;
        remote.manage("PUT", "vhosts/%2F", "{}")?;
        for user in users {
            let name = &user.name;
            if &**name != "guest" {
                let tags = user.tags.join(",");
                let body = format!(r#"{{"password": "{name}", "tags": "{tags}"}}"#);
                remote.manage("PUT", &format!("users/{name}"), &body)?;
            }
            let Some(granted) = user.permissions.values().next() else { continue };
            let pattern = |granted: &catalog::pattern::Pattern| match granted {
                catalog::pattern::Pattern::Everything => ".*",
                _ => "^$",
            };
            let (configure, write, read) =
                (pattern(&granted.configure), pattern(&granted.write), pattern(&granted.read));
            let body = format!(r#"{{"configure": "{configure}", "write": "{write}", "read": "{read}"}}"#);
            remote.manage("PUT", &format!("permissions/%2F/{name}"), &body)?;
        }
        Ok(remote)
    }

    /// Sends a request to the management API.
    pub(crate) fn manage(&self, method: &str, path: &str, body: &str) -> Parsed<()> {
        let at = SocketAddr::new(self.broker.ip(), self.broker.port() + TO_MANAGEMENT);
        let failed = |error: std::io::Error| format!("management at {at}: {error}");
        let mut socket = TcpStream::connect(at).map_err(failed)?;
        let len = body.len();
        let request = format!(
            "{method} /api/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {GUEST}\r\n\
             connection: close\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).map_err(failed)?;
        match answer.split(' ').nth(1) {
            Some("200" | "201" | "204") => Ok(()),
            _ => Err(format!("{method} {path}: {}", answer.lines().next().unwrap_or_default())),
        }
    }

    pub(crate) fn connect(&mut self, name: &str) {
        let socket = TcpStream::connect(self.broker).expect("the broker listens");
        socket.set_read_timeout(Some(SILENCE)).expect("a time limit");
        self.sockets.insert(name.to_owned(), socket);
    }

    pub(crate) fn drop_client(&mut self, name: &str) {
        self.sockets.remove(name);
    }

    pub(crate) fn send(&mut self, name: &str, bytes: &[u8]) {
        if let Some(socket) = self.sockets.get_mut(name) {
            // The broker may have closed it, which reading shows.
            let _ = socket.write_all(bytes);
        }
    }

    /// Reads until the broker is silent.
    pub(crate) fn receive(&mut self) -> BTreeMap<String, Received> {
        let mut all: BTreeMap<String, Received> = BTreeMap::new();
        loop {
            let mut any = false;
            for (name, socket) in &mut self.sockets {
                let received = all.entry(name.clone()).or_default();
                let mut bytes = [0; 65_536];
                match socket.read(&mut bytes) {
                    Ok(0) => received.is_closed = true,
                    Ok(n) => {
                        received.bytes.extend_from_slice(&bytes[..n]);
                        any = true;
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => received.is_closed = true,
                }
            }
            self.sockets.retain(|name, _| !all.get(name).is_some_and(|received| received.is_closed));
            if !any {
                return all;
            }
        }
    }
}
