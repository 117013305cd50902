//! AMQP 0.9.1 for both roles: methods, field tables, message properties, frames and the sans-IO connection with its
//! channels.
//!
//! Everything here is pure: bytes go in, values come out, and the reverse. The crate has no sockets, clocks, tasks or
//! random numbers, and knows nothing about brokers and queues. The methods are generated from the specification that
//! RabbitMQ publishes, with its extensions (`spec/`). Numbers such as 4.2.5.5 are sections of the AMQP 0.9.1 specification.
//!
//! Absent: the meaning of methods other than those of the classes connection and channel, TLS, and every SASL mechanism
//! except the encoding of AMQPLAIN.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod connection;
pub mod constants;
pub mod frame;
pub mod generated;
mod properties;
pub mod sasl;
mod secret;
mod syntax;
pub mod table;
pub mod violation;

// They are part of this interface.
pub use buffers::{Chunk, Output};
pub use connection::{Config, Connection, Content, Event, Fault, State, Tuned};
pub use constants::*;
pub use generated::*;
pub use properties::{Properties, Terms};
pub use secret::Secret;
pub use syntax::SyntaxError;
pub use table::{Array, ArrayWriter, Entries, Items, KEY_BYTES_MAX, MAX_NESTING, Table, TableWriter, Value};
pub use violation::Violation;
