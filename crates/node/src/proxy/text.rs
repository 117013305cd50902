//! Version 1: one line of text.
//!
//! ```text
//! PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672\r\n
//! PROXY UNKNOWN\r\n
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Header, HeaderError};

/// The start of a line.
pub(super) const START: &[u8] = b"PROXY ";

/// The longest line, with its end, in bytes. The specification says so.
pub(super) const LINE_BYTES_MAX: usize = 107;

/// Reads a line whose start agrees with [`START`].
pub(super) fn parse(input: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let Some(end) = input.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if input.len() < LINE_BYTES_MAX { Ok(None) } else { Err(HeaderError::LongLine) };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(HeaderError::Line("it does not end with CR and LF"))?;
    let rest = line.strip_prefix(START).ok_or(HeaderError::Line("it is too short"))?;
    let header = if rest == b"UNKNOWN" || rest.starts_with(b"UNKNOWN ") {
        Header::Own
    } else {
        let rest = std::str::from_utf8(rest).map_err(|_| HeaderError::Line("it is not ASCII"))?;
        addresses(rest).map_err(HeaderError::Line)?
    };
    Ok(Some((header, end + 1)))
}

fn addresses(text: &str) -> Result<Header, &'static str> {
    let words: Vec<&str> = text.split(' ').collect();
    let &[family, peer, local, peer_port, local_port] = &words[..] else {
        return Err("a family, two addresses and two ports are needed, with one space between them");
    };
    let address: fn(&str) -> Option<IpAddr> = match family {
        "TCP4" => |text| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => |text| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => return Err("the family is not TCP4, TCP6 or UNKNOWN"),
    };
    let end = |ip: &str, port_text: &str| {
        let ip = address(ip).ok_or("an address is not of its family")?;
        let port = port(port_text).ok_or("a port is not a number from 0 to 65535")?;
        Ok::<_, &'static str>(SocketAddr::new(ip, port))
    };
    Ok(Header::Proxied { peer: end(peer, peer_port)?, local: end(local, local_port)? })
}

/// Parses a port as the specification writes it: digits without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}
