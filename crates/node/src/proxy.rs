//! The PROXY protocol, versions 1 and 2. A proxy sends one header before everything else, and the header names the proxy's
//! client. The specification is `doc/proxy-protocol.txt` of HAProxy.
//!
//! [`parse`] reads a header without I/O. [`Proxies`] says which sources may send one.

mod binary;
mod network;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;
use std::net::SocketAddr;

pub use self::network::{Network, NetworkError, Proxies};

/// The longest header, in bytes. Version 1 allows 107 bytes. A header of version 2 has at most 232 bytes of addresses, and
/// then fields for which proxies need less than a kilobyte, unless they send whole certificates. A longer header is refused.
pub const HEADER_BYTES_MAX: usize = 4096;

/// The number of bytes that an error shows of something that is no header.
const SHOWN_BYTES: usize = 8;

/// What a header says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The addresses of the socket itself count. The proxy connects for a health check, for example, or its client has no
    /// address of IP.
    Own,
    /// The address of the proxy's client, and the address at which the proxy was reached.
    Proxied { peer: SocketAddr, local: SocketAddr },
}

/// Why a connection does not start with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The first bytes, which start no header.
    Absent(Vec<u8>),
    /// The line of version 1 is too long.
    LongLine,
    /// What is wrong with the line of version 1.
    Line(&'static str),
    /// The byte of version 2 with an unknown version or command.
    Command(u8),
    /// The byte of version 2 with an unknown family or protocol.
    Family(u8),
    /// The length of a header of version 2.
    TooLong(usize),
    /// The length of version 2 does not include the addresses.
    ShortAddresses,
    /// The fields behind the addresses do not end where the header ends.
    Fields,
    /// The checksum does not match.
    Checksum,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(first) => write!(f, "the connection starts with '{}'", first.escape_ascii()),
            Self::LongLine => {
                write!(f, "the line of version 1 has no end within {} bytes", text::LINE_BYTES_MAX)
            }
            Self::Line(what) => write!(f, "the line of version 1 is malformed: {what}"),
            Self::Command(byte) => {
                write!(f, "version and command are 0x{byte:02x}; 0x20 (LOCAL) or 0x21 (PROXY) is needed")
            }
            Self::Family(byte) => write!(
                f,
                "family and protocol are 0x{byte:02x}; 0x11 (TCP over IPv4), 0x21 (TCP over IPv6), \
                 0x31 (Unix socket) or 0x00 (unknown) is needed"
            ),
            Self::TooLong(bytes) => {
                write!(f, "it has {bytes} bytes; at most {HEADER_BYTES_MAX} are accepted")
            }
            Self::ShortAddresses => write!(f, "its length does not include its addresses"),
            Self::Fields => write!(f, "the fields behind the addresses do not end where the header ends"),
            Self::Checksum => write!(f, "its checksum (CRC32C) does not match"),
        }
    }
}

impl std::error::Error for HeaderError {}

/// Reads the header at the start of `input`. Returns the header and its length in bytes, or `None` if more input is needed.
/// [`HEADER_BYTES_MAX`] bytes are always enough.
///
/// # Errors
/// No header starts like this.
pub fn parse(input: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    if agrees(input, text::START) {
        text::parse(input)
    } else if agrees(input, binary::SIGNATURE) {
        binary::parse(input)
    } else {
        Err(HeaderError::Absent(input[..input.len().min(SHOWN_BYTES)].to_vec()))
    }
}

/// Returns true if the bytes that both have are equal.
fn agrees(input: &[u8], start: &[u8]) -> bool {
    input.iter().zip(start).all(|(a, b)| a == b)
}
