//! The sources that may send a header.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network, such as 10.0.0.0/8, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    /// The number of bits at the start that all addresses of the network share.
    bits: u8,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkError {
    /// It is neither an address nor an address with a number of bits.
    Form,
    /// The address has bits outside the network. The value is the network.
    Outside(Network),
}

impl Network {
    /// Returns true if the address is in the network. An address of IPv4 may be written as one of IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                (first.to_bits() ^ address.to_bits()).leading_zeros() >= self.bits.into()
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                (first.to_bits() ^ address.to_bits()).leading_zeros() >= self.bits.into()
            }
            _ => false,
        }
    }

    /// Returns the network of this many bits that the address is in.
    fn of(address: IpAddr, bits: u8) -> Self {
        let first = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { first, bits }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Form)?;
        // Clients of IPv4 are compared as such, so a network that maps IPv4 into IPv6 would contain nobody.
        if address.to_canonical() != address {
            return Err(NetworkError::Form);
        }
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => {
                let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
                let bits = bits.parse().ok().filter(|bits| is_number && *bits <= bits_max);
                bits.ok_or(NetworkError::Form)?
            }
        };
        let network = Self::of(address, bits);
        if network.first == address { Ok(network) } else { Err(NetworkError::Outside(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => write!(f, "an IP address or NETWORK/BITS is needed, such as 10.0.0.0/8"),
            Self::Outside(network) => {
                write!(f, "the address has bits outside the network: {network} is needed")
            }
        }
    }
}

impl std::error::Error for NetworkError {}

/// The proxies that are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies(Vec<Network>);

impl Proxies {
    /// Returns true if a connection from this address must start with a header.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

impl FromIterator<Network> for Proxies {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        Self(networks.into_iter().collect())
    }
}
