//! TLS for all listeners: certificates from files ([`Tls`]), and the session of one connection without I/O ([`Session`]).
//! The protocol is rustls's; decision 34 says why.
#![forbid(unsafe_code)]

mod certificates;
mod client;
mod files;
mod session;
#[cfg(test)]
mod testing;

pub use certificates::{Certificate, LoginFrom, Name, NameKind};
pub use client::ClientOptions;
pub use files::{Options, Tls, TlsError, Verify};
pub use rustls::{ClientConfig, Error, ServerConfig};
pub use session::{Received, Session};
