//! Shared by `send`, `recv` and `bench`: where the broker is, and how an address is written.

use std::io;
use std::sync::Arc;

use ::amqp091::ReplyCode;
use amqp10::Violation;
use clap::Args;
use client::{Address, Connection, Error, Options, Url, amqp091};
use message::SqlError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tls::ClientConfig;

use crate::failure::Failure;
use crate::speaks::{self, Speaks};
use crate::trust::Trust;

/// Everything that must be percent-encoded in a segment of an address: all but the unreserved characters (RFC
/// 3986).
pub(crate) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The broker to connect to over AMQP.
#[derive(Args, Debug)]
pub(crate) struct Broker {
    /// The broker's URL, with user and password; without a user the login is EXTERNAL with --cert, and anonymous otherwise. A Unix domain socket is the host of a
    /// URL such as amqp+unix://guest:guest@%2Frun%2Fsluice%2Famqp.sock
    #[arg(long, env = "SLUICE_URL", hide_env_values = true, value_name = "URL")]
    #[arg(default_value = "amqp://guest:guest@127.0.0.1:5672")]
    url: String,
    /// The virtual host (default: the one in the URL, or /)
    #[arg(long, short = 'p', value_name = "NAME")]
    vhost: Option<String>,
    #[command(flatten)]
    trust: Trust,
}

impl Broker {
    /// Opens a connection.
    ///
    /// A usage failure if the URL is invalid; [`Failure::nobody`] if nobody answers; otherwise the broker's
    /// error.
    pub(crate) async fn connect(&self) -> Result<(Connection, BrokerAddress), Failure> {
        self.connect_with(Options::default()).await
    }

    /// Like [`Broker::connect`], with the caller's options.
    pub(crate) async fn connect_with(
        &self,
        options: Options,
    ) -> Result<(Connection, BrokerAddress), Failure> {
        let (url, tls) = self.target()?;
        let hostname = self.vhost.as_ref().map(|vhost| format!("vhost:{vhost}")).or(options.hostname);
        let options = Options { container_id: "sluice".to_owned(), hostname, tls, ..options };
        match Connection::open(&url, options).await {
            Ok(connection) => Ok((connection, BrokerAddress::of(&url))),
            Err(error) => Err(not_connected(&url, error).await),
        }
    }

    /// Opens a connection of AMQP 0.9.1. Fails like [`Broker::connect`].
    pub(crate) async fn connect_091(
        &self,
        options: amqp091::Options,
    ) -> Result<(amqp091::Connection, BrokerAddress), Failure> {
        let (url, tls) = self.target()?;
        let virtual_host = self.vhost.clone().or(options.virtual_host);
        let options = amqp091::Options { product: "sluice".to_owned(), virtual_host, tls, ..options };
        match amqp091::Connection::open(&url, options).await {
            Ok(connection) => Ok((connection, BrokerAddress::of(&url))),
            Err(error) => Err(not_connected(&url, error).await),
        }
    }

    /// Returns the parsed URL, and whom to trust if it is one with TLS.
    fn target(&self) -> Result<(Url, Option<Arc<ClientConfig>>), Failure> {
        // Do not show the URL: it may contain a password.
        let url: Url = self.url.parse().map_err(|error| Failure::usage(format!("--url: {error}")))?;
        let tls = if url.address.has_tls() { Some(self.trust.load()?) } else { None };
        Ok((url, tls))
    }
}

/// Says how to log in as another user.
const HOW_TO_LOG_IN: &str =
    "; user and password are in --url amqp://USER:PASSWORD@HOST:PORT, or in SLUICE_URL";

fn is_refused_login(error: &Error) -> bool {
    match error {
        Error::Login(_) => true,
        Error::Refused { code, .. } => *code == ReplyCode::AccessRefused.number(),
        _ => false,
    }
}

/// Returns the failure for a connection that was not opened.
async fn not_connected(url: &Url, error: Error) -> Failure {
    let place = BrokerAddress::of(url);
    match error {
        Error::Timeout => Failure::nobody(&place.0, "no answer in time"),
        Error::Io(error) if !was_answered(&error) => Failure::nobody(&place.0, error),
        error if is_refused_login(&error) => {
            let user = url.credentials.as_ref().map_or("anonymous".to_owned(), |c| format!("'{}'", c.user));
            Failure::failed(format!("{} refuses the login of user {user}{HOW_TO_LOG_IN}", place.0))
        }
        error => {
            let why = misunderstood(&url.address, &error).await.unwrap_or_else(|| error.to_string());
            Failure::failed(format!("cannot connect to {}: {why}", place.0))
        }
    }
}

/// Returns in words why there is no connection, if the port speaks another protocol or a certificate is wrong.
async fn misunderstood(address: &Address, error: &Error) -> Option<String> {
    let Address::Port { host, port, .. } = address else { return None };
    let has_tls = address.has_tls();
    let of_socket = match error {
        Error::Io(error) => Some(error),
        Error::Protocol(Violation::ProtocolHeader(_)) | Error::Version => None,
        _ => return None,
    };
    if let Some(why) = of_socket.and_then(|error| speaks::of_certificate(error, host)) {
        return Some(why);
    }
    let (setting, usual) = match has_tls {
        true => ("listeners.ssl.default", 5671),
        false => ("listeners.tcp.default", 5672),
    };
    Some(match (speaks::probe(host, *port).await, has_tls) {
        (Some(Speaks::Http), _) => {
            format!("this port speaks HTTP; the AMQP port is set by {setting}, {usual} by default")
        }
        (Some(Speaks::Amqp), true) => {
            "this port does not use TLS: the URL must begin with amqp://".to_owned()
        }
        (Some(Speaks::Tls), false) => "this port expects TLS: the URL must begin with amqps://".to_owned(),
        _ if of_socket.is_some_and(|error| speaks::is_without_tls(error)) => {
            "this port does not use TLS".to_owned()
        }
        _ => return None,
    })
}

/// Where the broker is, as shown to people.
#[derive(Clone, Debug)]
pub(crate) struct BrokerAddress(String);

impl BrokerAddress {
    fn of(url: &Url) -> Self {
        Self(url.address.to_string())
    }

    /// Returns the failure of an operation on an address of this broker.
    pub(crate) fn failed(&self, what: &str, address: &str, error: &Error) -> Failure {
        Failure::failed(format!("cannot {what} {address} at {}: {error}", self.0))
    }

    /// Returns the failure of an operation at this broker, with a reason of ours.
    pub(crate) fn failed_because(&self, what: &str, why: &str) -> Failure {
        Failure::failed(format!("cannot {what} at {}: {why}", self.0))
    }

    /// Returns the failure for filters that the broker did not put in place. `options` are their command-line
    /// options. `fault` is the error in the SQL expression, if there is one.
    pub(crate) fn not_filtered(&self, address: &str, options: &[&str], fault: Option<&SqlError>) -> Failure {
        let why = match fault {
            Some(fault) => format!("the expression is wrong {fault}"),
            None => "only streams have filters".to_owned(),
        };
        let options = options.join(", ");
        Failure::failed(format!("cannot receive from {address} at {}: {options} not accepted: {why}", self.0))
    }
}

/// Returns an address unchanged if it starts with `/`, else the address of the queue with this name.
pub(crate) fn address(text: &str) -> String {
    if text.starts_with('/') {
        return text.to_owned();
    }
    format!("/queues/{}", utf8_percent_encode(text, SEGMENT))
}

/// Returns true if a peer accepted the connection and then closed it.
fn was_answered(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, UnexpectedEof};
    // Invalid data is a TLS handshake that has failed.
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | InvalidData | UnexpectedEof)
}

/// Runs a verb that talks to a broker on a new single-threaded runtime.
///
/// # Errors
/// The verb's error, or that the runtime cannot start.
pub(crate) fn block_on(verb: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::failed(format!("cannot start the client's event loop: {error}")))?;
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
        let place = |url: &str| BrokerAddress::of(&url.parse().unwrap()).0;
        assert_eq!(place("amqp://u:s3cret@h:1"), "h:1");
        assert_eq!(place("amqp://u:s3cret@[::1]"), "[::1]:5672");
    }
}
