//! Who a client is, by others than the users of the catalog.
//!
//! Each backend is a [`catalog::access::ExternalBackend`] of the chain that `auth_backends` sets. A backend that asks a server
//! over the network never delays anybody but the client that logs in.
#![forbid(unsafe_code)]

pub mod cache;
pub mod http;
pub mod oauth2;
mod setting;
pub mod url;

pub use setting::SettingError;
