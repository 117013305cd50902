//! What two nodes of a cluster say to each other over one connection, without sockets, clock or randomness.

#![forbid(unsafe_code)]

mod hello;

pub use hello::{ClusterId, Hello, NodeIdentity, Role};
