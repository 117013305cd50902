//! Version 2: binary.
//!
//! ```text
//! 12 bytes  the signature
//!  1 byte   the version (2) and the command
//!  1 byte   the family and the protocol
//!  2 bytes  the length of what follows
//!           both addresses and both ports; the family says how long they are
//!           fields: 1 byte for the kind, 2 for the length, then the value
//! ```

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crc_fast::CrcAlgorithm;

use super::{HEADER_BYTES_MAX, Header, HeaderError};

/// The start of a header.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The bytes in front of the addresses.
const PREFIX_BYTES: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

const UNSPECIFIED: u8 = 0x00;
const TCP_IPV4: u8 = 0x11;
const TCP_IPV6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

/// The bytes of two addresses and two ports of IPv4.
const IPV4_BYTES: usize = 12;

/// The same of IPv6.
const IPV6_BYTES: usize = 36;

/// The bytes of two paths of Unix sockets.
const UNIX_BYTES: usize = 216;

/// The kind of the field with the checksum of the header (`PP2_TYPE_CRC32C`).
const CHECKSUM: u8 = 0x03;

/// The bytes of a field in front of its value.
const FIELD_PREFIX_BYTES: usize = 3;

/// Reads a header whose start agrees with [`SIGNATURE`].
pub(super) fn parse(input: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let Some(&[command, family, high, low]) = input.get(SIGNATURE.len()..PREFIX_BYTES) else {
        return Ok(None);
    };
    if !matches!(command, LOCAL | PROXY) {
        return Err(HeaderError::Command(command));
    }
    let len = PREFIX_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if len > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong(len));
    }
    let Some(header) = input.get(..len) else { return Ok(None) };
    // The family of a LOCAL header, and all that follows, has no meaning.
    let said = if command == LOCAL { Header::Own } else { proxied(header, family)? };
    Ok(Some((said, len)))
}

fn proxied(header: &[u8], family: u8) -> Result<Header, HeaderError> {
    let behind = &header[PREFIX_BYTES..];
    let (said, addresses_len) = match family {
        UNSPECIFIED => (Header::Own, 0),
        // Such a client is on the proxy's machine, so the proxy's address is the client's address.
        UNIX_STREAM => (Header::Own, UNIX_BYTES),
        TCP_IPV4 => (ipv4(behind).ok_or(HeaderError::ShortAddresses)?, IPV4_BYTES),
        TCP_IPV6 => (ipv6(behind).ok_or(HeaderError::ShortAddresses)?, IPV6_BYTES),
        _ => return Err(HeaderError::Family(family)),
    };
    if behind.len() < addresses_len {
        return Err(HeaderError::ShortAddresses);
    }
    // Without a known family, nobody knows where addresses end and fields begin.
    if family != UNSPECIFIED {
        check_fields(header, PREFIX_BYTES + addresses_len)?;
    }
    Ok(said)
}

fn ipv4(behind: &[u8]) -> Option<Header> {
    let &[a, b, c, d, e, f, g, h, i, j, k, l] = behind.first_chunk::<IPV4_BYTES>()?;
    Some(Header::Proxied {
        peer: SocketAddr::from((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([i, j]))),
        local: SocketAddr::from((Ipv4Addr::new(e, f, g, h), u16::from_be_bytes([k, l]))),
    })
}

fn ipv6(behind: &[u8]) -> Option<Header> {
    let (peer, behind) = behind.split_first_chunk::<16>()?;
    let (local, behind) = behind.split_first_chunk::<16>()?;
    let &[a, b, c, d] = behind.first_chunk::<4>()?;
    Some(Header::Proxied {
        peer: SocketAddr::from((Ipv6Addr::from(*peer), u16::from_be_bytes([a, b]))),
        local: SocketAddr::from((Ipv6Addr::from(*local), u16::from_be_bytes([c, d]))),
    })
}

/// Checks the fields, which start at `at`. All but the checksum are ignored.
fn check_fields(header: &[u8], mut at: usize) -> Result<(), HeaderError> {
    while at < header.len() {
        let prefix = header[at..].first_chunk::<FIELD_PREFIX_BYTES>();
        let &[kind, high, low] = prefix.ok_or(HeaderError::Fields)?;
        let value_at = at + FIELD_PREFIX_BYTES;
        at = value_at + usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(value_at..at).ok_or(HeaderError::Fields)?;
        if kind == CHECKSUM {
            check_sum(header, value_at, value)?;
        }
    }
    Ok(())
}

/// Checks the checksum. It is that of the whole header with zeros in its own place.
fn check_sum(header: &[u8], value_at: usize, value: &[u8]) -> Result<(), HeaderError> {
    let claimed: [u8; 4] = value.try_into().map_err(|_| HeaderError::Fields)?;
    let mut zeroed = header.to_vec();
    zeroed[value_at..value_at + claimed.len()].fill(0);
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &zeroed) as u32;
    if sum == u32::from_be_bytes(claimed) { Ok(()) } else { Err(HeaderError::Checksum) }
}
