//! TLS for all listeners and between nodes: certificates from files ([`Tls`]), and the session of one connection without I/O ([`Session`],
//! [`NodeSession`]).
//! The protocol is rustls's; decision 34 says why.
#![forbid(unsafe_code)]

mod certificates;
mod client;
mod depth;
mod error;
mod files;
mod keys;
mod mutual;
mod nodes;
mod pairs;
mod session;
#[cfg(test)]
mod testing;
mod words;

pub use certificates::{Certificate, LoginFrom, Name, NameKind};
pub use client::ClientOptions;
pub use depth::Depth;
pub use error::{AtFault, TlsError};
pub use files::{Options, Tls, Verify};
pub use keys::Password;
pub use nodes::{HANDSHAKE_BYTES_MAX, NodeSession, NodeTlsError};
pub use pairs::{NAMED_PAIRS_MAX, Pair};
pub use rustls::{ClientConfig, Error, ServerConfig};
pub use session::{Received, Session, UNREAD_MAX};
pub use words::{Refusal, of_client};
