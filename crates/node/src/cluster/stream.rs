//! A connection to another node, encrypted or not.

use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use tls::NodeSession;
use tokio::net::TcpStream;

use crate::tls_steps::TlsSteps;

/// The encrypted bytes that are read at once: about as many as a record of TLS has.
const ENCRYPTED: usize = 16 * 1024;

/// The reads of a full buffer that follow each other before others have their turn. Together they are as much as is read without TLS.
const READS_MAX: usize = 4;

/// An open connection.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    /// `None`: what is sent can be read by others.
    session: Option<Box<NodeSession>>,
}

/// An open connection that belongs to the event loop of no thread.
#[derive(Debug)]
pub(super) struct Detached {
    socket: std::net::TcpStream,
    session: Option<Box<NodeSession>>,
}

/// Lets a session write to a socket of the event loop.
struct Writing<'a>(&'a TcpStream);

impl io::Write for Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// Returns a connection that is not encrypted.
    pub(super) fn plain(socket: TcpStream) -> Self {
        Self { socket, session: None }
    }

    /// Makes the handshake of TLS. Appends what the peer has sent behind it to `rest`.
    ///
    /// # Errors
    /// The socket fails, or the peer is refused: then the error has a [`tls::NodeTlsError`], and the peer has been told, if it reads.
    pub(super) async fn encrypted(
        socket: TcpStream,
        session: NodeSession,
        steps: &TlsSteps,
        rest: &mut BytesMut,
    ) -> io::Result<Self> {
        let mut session = Box::new(session);
        loop {
            while session.wants_write() {
                socket.writable().await?;
                none_if_blocked(session.write_to(&mut Writing(&socket)))?;
            }
            if session.is_established() {
                return Ok(Self { socket, session: Some(session) });
            }
            let mut input = vec![0; ENCRYPTED];
            let read = loop {
                socket.readable().await?;
                if let Some(read) = none_if_blocked(socket.try_read(&mut input))? {
                    break read;
                }
            };
            if read == 0 {
                return Err(closed());
            }
            let step = move || {
                let mut plain = Vec::new();
                let result = session.receive(&input[..read], |piece| plain.extend_from_slice(piece));
                (session, plain, result)
            };
            let (stepped, plain, result) = steps.run(step).await?;
            session = stepped;
            rest.extend_from_slice(&plain);
            if let Err(error) = result {
                // The alert is short. Who does not read it learns from the end of the connection that it is refused.
                drop(session.write_to(&mut Writing(&socket)));
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    /// Returns true if TLS was spoken, and the certificate of the peer is valid for this host.
    pub(super) fn is_certified_for(&self, host: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_valid_for(host))
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Reads what has arrived. Call it when the stream is readable. Returns false at the end of the stream. Without TLS, it reads as much as `input`
    /// has room for.
    pub(super) fn try_read(&mut self, input: &mut BytesMut) -> io::Result<bool> {
        let Some(session) = &mut self.session else {
            return Ok(none_if_blocked(self.socket.try_read_buf(input))?.is_none_or(|read| read > 0));
        };
        let mut encrypted = [0; ENCRYPTED];
        for _ in 0..READS_MAX {
            let Some(read) = none_if_blocked(self.socket.try_read(&mut encrypted))? else { break };
            if read == 0 {
                return Ok(false);
            }
            let received = session.receive(&encrypted[..read], |piece| input.extend_from_slice(piece));
            if let Err(error) = received {
                drop(session.write_to(&mut Writing(&self.socket)));
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if read < ENCRYPTED {
                break;
            }
        }
        Ok(true)
    }

    /// Writes as much as fits. Call it when the stream is writable. Returns how many bytes were taken. Some of them may wait still: see
    /// [`Stream::is_behind`].
    pub(super) fn try_write(&mut self, output: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else {
            return Ok(none_if_blocked(self.socket.try_write(output))?.unwrap_or(0));
        };
        let mut taken = 0;
        loop {
            while session.wants_write() {
                if none_if_blocked(session.write_to(&mut Writing(&self.socket)))?.is_none() {
                    return Ok(taken);
                }
            }
            if taken == output.len() {
                return Ok(taken);
            }
            taken += session.encrypt(&output[taken..])?;
        }
    }

    /// Returns true if bytes that were taken wait to be written. [`Stream::try_write`] writes them, also without further bytes.
    pub(super) fn is_behind(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Waits for bytes, and reads them. Returns false at the end of the stream. Nothing is lost if the caller stops waiting.
    pub(super) async fn read(&mut self, input: &mut BytesMut) -> io::Result<bool> {
        let before = input.len();
        loop {
            self.socket.readable().await?;
            if !self.try_read(input)? {
                return Ok(false);
            }
            if input.len() > before {
                return Ok(true);
            }
        }
    }

    /// Writes all bytes.
    pub(super) async fn write_all(&mut self, output: &[u8]) -> io::Result<()> {
        let mut taken = 0;
        while taken < output.len() || self.is_behind() {
            self.socket.writable().await?;
            taken += self.try_write(&output[taken..])?;
        }
        Ok(())
    }

    /// Takes the connection out of the event loop of this thread.
    pub(super) fn detach(self) -> io::Result<Detached> {
        Ok(Detached { socket: self.socket.into_std()?, session: self.session })
    }
}

impl Detached {
    /// Gives the connection to the event loop of this thread.
    pub(super) fn attach(self) -> io::Result<Stream> {
        Ok(Stream { socket: TcpStream::from_std(self.socket)?, session: self.session })
    }
}

/// Returns the error of a peer that has ended the connection too early.
pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection during the handshake")
}

/// Returns `None` if a socket had nothing, or had no room.
fn none_if_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}
