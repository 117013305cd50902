//! The session of a connection between two nodes of a cluster.

use std::fmt;
use std::io::{self, BufRead as _, Write as _};

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConnection, Connection, Error, ServerConnection};

use crate::files::Tls;
use crate::mutual::is_valid_for;
use crate::words::Refusal;

/// The most bytes of a handshake that a peer may send. It holds a chain of certificates of 32 KiB, as for clients. Somebody who has shown no
/// certificate yet cannot make a node keep more.
pub const HANDSHAKE_BYTES_MAX: usize = 40 * 1024;

/// The most encrypted bytes of a session that wait to be written. A few records; rustls itself refuses more plain bytes above it.
const UNSENT_MAX: usize = 64 * 1024;

/// One side of a connection between two nodes, without I/O.
#[derive(Debug)]
pub struct NodeSession {
    tls: Connection,
    /// The bytes that have arrived before the end of the handshake.
    of_handshake: usize,
}

impl NodeSession {
    /// Begins the side that dials a node at this host.
    ///
    /// # Errors
    /// The certificates are not those between nodes, or no certificate can be valid for the host.
    pub fn dial(tls: &Tls, host: &str) -> Result<Self, NodeTlsError> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| NodeTlsError::Host(host.to_owned()))?;
        let config =
            tls.dialing().ok_or(NodeTlsError::Other(Error::General("no certificates".to_owned())))?;
        Ok(Self::new(ClientConnection::new(config, name)?.into()))
    }

    /// Begins the side that is dialed.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn accept(tls: &Tls) -> Result<Self, NodeTlsError> {
        Ok(Self::new(ServerConnection::new(tls.config())?.into()))
    }

    fn new(mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(UNSENT_MAX));
        Self { tls, of_handshake: 0 }
    }

    /// Returns true if the handshake is complete on this side. A dialer learns later whether the peer has accepted its certificate: with the first
    /// byte that the peer sends.
    pub fn is_established(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Returns true if the certificate that the peer has shown is valid for this host.
    pub fn is_valid_for(&self, host: &str) -> bool {
        let shown = self.tls.peer_certificates().and_then(|all| all.first());
        shown.is_some_and(|der| is_valid_for(der, host))
    }

    /// Handles what has arrived, and calls `plain` with each piece of plain bytes. There may be something to write then, also after an error: the
    /// peer learns from an alert what was wrong.
    ///
    /// # Errors
    /// The peer is refused, or does not follow the protocol. The connection must end.
    pub fn receive(
        &mut self,
        mut encrypted: &[u8],
        mut plain: impl FnMut(&[u8]),
    ) -> Result<(), NodeTlsError> {
        while !encrypted.is_empty() {
            let is_handshaking = self.tls.is_handshaking();
            // It reads from memory, and what arrived before was taken out.
            let read =
                self.tls.read_tls(&mut encrypted).map_err(|error| Error::General(error.to_string()))?;
            if read == 0 {
                // The peer has said that nothing more follows.
                return Ok(());
            }
            if is_handshaking {
                self.of_handshake += read;
                if self.of_handshake > HANDSHAKE_BYTES_MAX {
                    return Err(NodeTlsError::LongHandshake);
                }
            }
            match self.tls.process_new_packets() {
                Ok(_) => {}
                Err(Error::InvalidMessage(_)) if is_handshaking && self.of_handshake == read => {
                    return Err(NodeTlsError::NoTls);
                }
                Err(error) => return Err(error.into()),
            }
            let mut reader = self.tls.reader();
            loop {
                // An error says that nothing more is there, or that the peer sends nothing more.
                let piece = reader.fill_buf().unwrap_or_default();
                if piece.is_empty() {
                    break;
                }
                let length = piece.len();
                plain(piece);
                reader.consume(length);
            }
        }
        Ok(())
    }

    /// Encrypts as much as may wait to be written. Returns the number of plain bytes.
    ///
    /// # Errors
    /// The session has failed before.
    pub fn encrypt(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.tls.writer().write(plain)
    }

    /// Returns true if encrypted bytes wait to be written.
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Writes some encrypted bytes. Returns their number.
    ///
    /// # Errors
    /// Those of `socket`.
    pub fn write_to(&mut self, socket: &mut dyn io::Write) -> io::Result<usize> {
        self.tls.write_tls(socket)
    }
}

/// Why TLS with another node has failed. The text is for the log, and is the same for each try.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeTlsError {
    /// The peer answers, but not with TLS.
    NoTls,
    /// No certificate can be valid for this host.
    Host(String),
    /// The handshake of the peer is longer than [`HANDSHAKE_BYTES_MAX`].
    LongHandshake,
    Other(Error),
}

impl From<Error> for NodeTlsError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl std::error::Error for NodeTlsError {}

impl fmt::Display for NodeTlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTls => f.write_str(
                "this node expects TLS between nodes, and the peer does not use it: set cluster.ssl_options on all nodes, or on none",
            ),
            Self::Host(host) => write!(f, "no certificate can be valid for the host {host:?}"),
            Self::LongHandshake => {
                write!(f, "the TLS handshake of the peer has more than {HANDSHAKE_BYTES_MAX} bytes")
            }
            Self::Other(Error::InvalidCertificate(why)) => of_certificate(f, why),
            Self::Other(Error::NoCertificatesPresented) => {
                f.write_str("the peer shows no certificate, and this node expects that of a node")
            }
            Self::Other(Error::AlertReceived(alert)) => of_alert(f, *alert),
            Self::Other(other) => write!(f, "TLS: {other}"),
        }
    }
}

fn of_certificate(f: &mut fmt::Formatter<'_>, why: &CertificateError) -> fmt::Result {
    let text = match Refusal::of_certificate(why) {
        Some(Refusal::UnknownAuthority) => {
            "it is signed by no authority of the file cluster.ssl_options.cacertfile".into()
        }
        // Such as those of two calls of `sluice make certificates`.
        None if *why == CertificateError::BadSignature => {
            "an authority has signed it that has the name of the one in the file cluster.ssl_options.cacertfile, but another key".into()
        }
        Some(Refusal::ItsOwnAuthority) => {
            "it is that of an authority, and a node needs one that an authority has signed".into()
        }
        Some(Refusal::OtherNames(names)) if names.is_empty() => "it is for no host".into(),
        Some(Refusal::OtherNames(names)) => format!("it is for {}, and not for the host of the node", names.join(", ")),
        Some(Refusal::Expired(_)) => "it has expired".into(),
        Some(Refusal::NotYetValid(_)) => "it is not valid yet; compare the clocks".into(),
        _ if matches!(why, CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. }) => {
            "it is not one of a server: if a certificate has an extended key usage, that must have serverAuth"
                .into()
        }
        _ => why.to_string(),
    };
    write!(f, "the certificate of the node is refused: {text}")
}

fn of_alert(f: &mut fmt::Formatter<'_>, alert: AlertDescription) -> fmt::Result {
    let text = match alert {
        AlertDescription::UnknownCA => "it does not know the authority",
        AlertDescription::DecryptError => "it knows an authority of the same name with another key",
        AlertDescription::CertificateExpired => "it says that the certificate has expired",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate => "its log says why",
        other => return write!(f, "the peer has ended TLS with the alert {other:?}; its log says why"),
    };
    write!(f, "the peer refuses the certificate of this node: {text}")
}

#[cfg(test)]
mod tests;
