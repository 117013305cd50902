//! Opens the socket of a connection, with TLS if the URL wants it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::error::Error;
use crate::url::{Address, Url};

/// A socket to a broker, with or without TLS.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Connects to the host, or the socket, of the URL. `tls` is needed for `amqps://`.
///
/// # Errors
/// `Io` if the connection or the TLS handshake fails, `Timeout` if both together take longer than `timeout`.
pub(crate) async fn dial(
    url: &Url,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
) -> Result<Box<dyn Socket>, Error> {
    let dialled = tokio::time::timeout(timeout, connect(url, tls)).await;
    dialled.map_err(|_| Error::Timeout)?
}

async fn connect(url: &Url, tls: Option<Arc<ClientConfig>>) -> Result<Box<dyn Socket>, Error> {
    let (host, port) = match &url.address {
        Address::Port { host, port, .. } => (host, *port),
        Address::Socket(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
    };
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    if !url.address.has_tls() {
        return Ok(Box::new(stream));
    }
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "Options::tls is needed for amqps://");
    let config = tls.ok_or_else(missing)?;
    let name = ServerName::try_from(host.clone())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}
