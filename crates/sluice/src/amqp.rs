//! What `send` and `recv` share: where the broker is, and what an address means.

use std::io;

use amqp10::Violation;
use clap::Args;
use client::{Connection, Error, Options, Url};
use message::SqlError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::failure::Failure;

/// What needs no encoding in a segment of an address (RFC 3986 unreserved).
pub const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The broker that is talked to over AMQP.
#[derive(Args, Debug)]
pub struct Broker {
    /// Where the broker is and who asks; without a user the login is anonymous
    #[arg(long, env = "SLUICE_URL", hide_env_values = true, value_name = "URL")]
    #[arg(default_value = "amqp://guest:guest@127.0.0.1:5672")]
    url: String,
    /// The virtual host; without it, that of the URL, or /
    #[arg(long, short = 'p', value_name = "NAME")]
    vhost: Option<String>,
}

impl Broker {
    /// Opens a connection.
    ///
    /// # Errors
    /// Usage if the URL is none; nobody if nobody listens; else what the broker says.
    pub async fn connect(&self) -> Result<(Connection, Place), Failure> {
        self.connect_with(Options::default()).await
    }

    /// As [`Broker::connect`], with options of one's own.
    pub async fn connect_with(&self, options: Options) -> Result<(Connection, Place), Failure> {
        // The URL may hold a password, so that it is not shown.
        let url: Url = self.url.parse().map_err(|error| Failure::usage(format!("--url: {error}")))?;
        let place = Place::of(&url);
        let hostname = self.vhost.as_ref().map(|vhost| format!("vhost:{vhost}")).or(options.hostname);
        let options = Options { container_id: "sluice".to_owned(), hostname, ..options };
        match Connection::open(&url, options).await {
            Ok(connection) => Ok((connection, place)),
            Err(Error::Timeout) => Err(Failure::nobody(&place.0, "no answer in time")),
            Err(Error::Io(error)) if !was_answered(&error) => Err(Failure::nobody(&place.0, error)),
            Err(Error::Protocol(Violation::ProtocolHeader(first))) if first.starts_with(b"HTTP") => {
                Err(Failure::failed(format!(
                    "cannot connect to {}: HTTP is spoken there; AMQP has the port of listeners.tcp.default, 5672 by \
                     default",
                    place.0
                )))
            }
            Err(Error::Login(_)) => {
                let user = url.credentials.map_or("anonymous".to_owned(), |c| format!("'{}'", c.user));
                Err(Failure::failed(format!("{} refuses the login of user {user}", place.0)))
            }
            Err(error) => Err(Failure::failed(format!("cannot connect to {}: {error}", place.0))),
        }
    }
}

/// The broker's host and port, for people.
#[derive(Clone, Debug)]
pub struct Place(String);

impl Place {
    fn of(url: &Url) -> Self {
        Self(if url.host.contains(':') {
            format!("[{}]:{}", url.host, url.port)
        } else {
            format!("{}:{}", url.host, url.port)
        })
    }

    /// What went wrong with an address here.
    pub fn failed(&self, what: &str, address: &str, error: &Error) -> Failure {
        Failure::failed(format!("cannot {what} {address} at {}: {error}", self.0))
    }

    /// What was asked for by these options is not in place; `fault` is what is wrong with the expression.
    pub fn not_filtered(&self, address: &str, options: &[&str], fault: Option<&SqlError>) -> Failure {
        let why = match fault {
            Some(fault) => format!("the expression is wrong {fault}"),
            None => "only streams have filters".to_owned(),
        };
        let options = options.join(", ");
        Failure::failed(format!("cannot receive from {address} at {}: {options} not accepted: {why}", self.0))
    }
}

/// An address as it stands, or that of the queue with this name.
pub fn address(text: &str) -> String {
    if text.starts_with('/') {
        return text.to_owned();
    }
    format!("/queues/{}", utf8_percent_encode(text, SEGMENT))
}

/// Whether there was a peer, who then hung up.
fn was_answered(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Runs a verb that talks to a broker.
///
/// # Errors
/// The verb's, or that there is no runtime.
pub fn block_on(verb: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(verb);
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_a_queue() {
        for (text, expected) in [
            ("orders", "/queues/orders"),
            ("a b/ä%", "/queues/a%20b%2F%C3%A4%25"),
            ("/queues/a%20b", "/queues/a%20b"),
            ("/exchanges/x/k", "/exchanges/x/k"),
        ] {
            assert_eq!(address(text), expected);
        }
    }

    #[test]
    fn a_place_shows_no_password() {
        let place = |url: &str| Place::of(&url.parse().unwrap()).0;
        assert_eq!(place("amqp://u:s3cret@h:1"), "h:1");
        assert_eq!(place("amqp://u:s3cret@[::1]"), "[::1]:5672");
    }
}
