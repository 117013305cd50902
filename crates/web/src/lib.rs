//! One HTTP request to another server, with or without TLS. Each request has a connection of its own.
#![forbid(unsafe_code)]

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// The server that a request goes to.
#[derive(Clone, Debug)]
pub struct Server {
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// What is trusted; `None` means without TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

/// What a request may cost.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The time to connect.
    pub connect: Duration,
    /// The time of each further step: the TLS handshake, and the response.
    pub patience: Duration,
    /// The largest body of a response, in bytes.
    pub body_bytes_max: usize,
}

/// Why there is no response.
#[derive(Debug)]
pub enum WebError {
    /// Nobody listens there, or the name is unknown.
    Unreachable(io::Error),
    /// The TLS handshake failed, or the host cannot be the name of a certificate.
    Tls(io::Error),
    /// The server closed the connection during the TLS handshake.
    TlsBroken(io::Error),
    /// The server answered something that is not HTTP, or more than the bounds allow.
    Http(Box<dyn std::error::Error + Send + Sync>),
    /// The server did not answer in time.
    TimedOut,
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "{error}"),
            Self::Tls(error) | Self::TlsBroken(error) => write!(f, "TLS: {error}"),
            Self::Http(error) => write!(f, "{error}"),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}

impl std::error::Error for WebError {}

/// A socket, with or without TLS.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

type Stream = Box<dyn Socket>;

impl Server {
    /// Sends a request, and returns the status and the body of the response.
    ///
    /// # Errors
    /// See [`WebError`]. Any status is a response.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        bounds: Bounds,
    ) -> Result<(StatusCode, Bytes), WebError> {
        let connecting = TcpStream::connect((self.host.as_str(), self.port));
        let connected = tokio::time::timeout(bounds.connect, connecting).await;
        let stream = connected.map_err(|_| WebError::TimedOut)?.map_err(WebError::Unreachable)?;
        let stream: Stream = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::try_from(self.host.clone());
                let name = name.map_err(|error| WebError::Tls(io::Error::other(error)))?;
                let secured = TlsConnector::from(config.clone()).connect(name, stream);
                let secured = tokio::time::timeout(bounds.patience, secured).await;
                let secured = secured.map_err(|_| WebError::TimedOut)?;
                Box::new(secured.map_err(|error| match error.kind() {
                    // Everything that is wrong with certificates or with the protocol.
                    io::ErrorKind::InvalidData => WebError::Tls(error),
                    _ => WebError::TlsBroken(error),
                })?)
            }
        };
        let response = tokio::time::timeout(bounds.patience, exchange(stream, request, bounds)).await;
        response.map_err(|_| WebError::TimedOut)?.map_err(WebError::Http)
    }
}

type Problem = Box<dyn std::error::Error + Send + Sync>;

async fn exchange(
    stream: Stream,
    request: Request<Full<Bytes>>,
    bounds: Bounds,
) -> Result<(StatusCode, Bytes), Problem> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let response = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), bounds.body_bytes_max).collect().await?.to_bytes();
        Ok::<_, Problem>((status, body))
    };
    tokio::pin!(response, connection);
    tokio::select! {
        response = &mut response => response,
        // The connection ends first if the server closes it. What it has sent can still be read.
        ended = &mut connection => {
            ended?;
            response.await
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { connect: Duration::from_secs(20), patience: Duration::from_secs(20), body_bytes_max: 8 };

    /// Returns what a client gets from a server that answers every request with these bytes.
    async fn answer(bytes: &'static str) -> Result<(StatusCode, Bytes), WebError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(bytes.as_bytes()).await.unwrap();
        });
        let server = Server { host: "127.0.0.1".into(), port, tls: None };
        server.send(Request::get("/").body(Full::default()).unwrap(), BOUNDS).await
    }

    #[tokio::test]
    async fn any_response_within_the_bounds_is_returned() {
        let (status, body) = answer("HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nabc").await.unwrap();
        assert_eq!((status, &*body), (StatusCode::NOT_FOUND, &b"abc"[..]));
        let (status, body) = answer("HTTP/1.1 200 OK\r\n\r\nto t").await.unwrap();
        assert_eq!((status, &*body), (StatusCode::OK, &b"to t"[..]), "a body that ends with the connection");
        for broken in ["", "no HTTP", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789"] {
            assert!(matches!(answer(broken).await, Err(WebError::Http(_))), "{broken}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let server = Server { host: "127.0.0.1".into(), port, tls: None };
        let sent = server.send(Request::get("/").body(Full::default()).unwrap(), BOUNDS).await;
        assert!(matches!(sent, Err(WebError::Unreachable(_))));
    }
}
