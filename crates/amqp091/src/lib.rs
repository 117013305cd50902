//! AMQP 0.9.1: field tables and the properties of messages.
//!
//! Everything here is pure: bytes go in, values come out, and the reverse. Numbers such as 4.2.5.5 are sections of the
//! AMQP 0.9.1 specification.
#![forbid(unsafe_code)]

mod properties;
mod syntax;
mod table;

pub use properties::{Properties, Terms};
pub use syntax::SyntaxError;
pub use table::{Array, ArrayWriter, Entries, Items, KEY_BYTES_MAX, MAX_NESTING, Table, TableWriter, Value};
