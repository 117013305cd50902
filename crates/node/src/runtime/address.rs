//! Addresses of clients.

use std::net::SocketAddr;

/// Returns an address of IPv4 as such. A listener on `[::]` has it as an address of IPv6.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
