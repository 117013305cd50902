//! The header of the PROXY protocol in front of a connection.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::tcp::OwnedReadHalf;

use super::address::canonical;
use crate::proxy::{HEADER_BYTES_MAX, Header, HeaderError, parse};

/// Why there is no header.
#[derive(Debug)]
pub(super) enum Missing {
    /// What was sent is no header.
    Malformed(HeaderError),
    /// The connection ended after this many bytes of a header.
    Ended(usize),
    Io(io::Error),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "{error}"),
            Self::Ended(bytes) => write!(f, "the connection ended after {bytes} bytes of it"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

/// Reads the header, and nothing behind it: the bytes behind it are read as those of any other connection, and they may be
/// encrypted. For this, they are looked at before they are taken from the socket.
///
/// # Errors
/// There is no header.
pub(super) async fn read_header(read: &mut OwnedReadHalf) -> Result<Header, Missing> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        // The parser needs no more than this, so there is always room.
        bytes.resize(HEADER_BYTES_MAX, 0);
        let seen = read.peek(&mut bytes[before..]).await.map_err(Missing::Io)?;
        bytes.truncate(before + seen);
        if seen == 0 {
            return Err(Missing::Ended(before));
        }
        let parsed = parse(&bytes).map_err(Missing::Malformed)?;
        let len = parsed.map_or(bytes.len(), |(_, len)| len);
        take(read, &mut bytes[before..len]).map_err(Missing::Io)?;
        if let Some((header, _)) = parsed {
            return Ok(header);
        }
    }
}

/// Takes bytes from the socket that are known to be there.
fn take(read: &OwnedReadHalf, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match read.try_read(into)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => into = &mut into[n..],
        }
    }
    Ok(())
}

/// Returns the address of a proxy's client. A loopback address is one of the proxy's machine, and so is the address from
/// which the proxy has connected. That address says whether it is this machine. An address of IPv4 is returned as such.
pub(super) fn client(named: SocketAddr, proxy: IpAddr) -> SocketAddr {
    let named = canonical(named);
    if named.ip().is_loopback() { SocketAddr::new(proxy, named.port()) } else { named }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const LINE: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672\r\n";

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        proxy.set_nodelay(true).unwrap();
        (proxy, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn nothing_behind_the_header_is_taken() {
        for piece in [1, 7, LINE.len() + 4] {
            let (mut proxy, here) = pair().await;
            let (mut read, _write) = here.into_split();
            let send = async {
                for piece in [LINE, b"AMQP"].concat().chunks(piece) {
                    proxy.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let (header, ()) = tokio::join!(read_header(&mut read), send);
            let expected = Header::Proxied {
                peer: "192.0.2.1:56324".parse().unwrap(),
                local: "198.51.100.1:5672".parse().unwrap(),
            };
            assert_eq!(header.unwrap(), expected);
            let mut behind = [0; 4];
            read.read_exact(&mut behind).await.unwrap();
            assert_eq!(&behind, b"AMQP");
        }
    }

    #[tokio::test]
    async fn a_header_that_does_not_come_is_explained() {
        for (sent, expected) in [
            (&b""[..], "the connection ended after 0 bytes of it"),
            (&LINE[..9], "the connection ended after 9 bytes of it"),
            (b"AMQP", "the connection starts with 'AMQP'"),
        ] {
            let (mut proxy, here) = pair().await;
            let (mut read, _write) = here.into_split();
            proxy.write_all(sent).await.unwrap();
            drop(proxy);
            assert_eq!(read_header(&mut read).await.unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_loopback_address_is_one_of_the_proxys_machine() {
        let client =
            |named: &str, proxy: &str| client(named.parse().unwrap(), proxy.parse().unwrap()).to_string();
        assert_eq!(client("192.0.2.1:5", "10.0.0.1"), "192.0.2.1:5");
        assert_eq!(client("[::ffff:192.0.2.1]:5", "10.0.0.1"), "192.0.2.1:5");
        assert_eq!(client("127.0.0.1:5", "10.0.0.1"), "10.0.0.1:5");
        assert_eq!(client("[::ffff:127.0.0.1]:5", "10.0.0.1"), "10.0.0.1:5");
        assert_eq!(client("[::1]:5", "127.0.0.1"), "127.0.0.1:5", "the proxy is on this machine");
    }
}
