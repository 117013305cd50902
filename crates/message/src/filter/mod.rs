//! What a consumer wants to see of a stream, decided message by message (behaviour B.9).
//!
//! ```text
//!   Filter ── Fields   so many fields have these values: AMQP filter expressions, section 4
//!          └─ Sql      an expression over fields is true: AMQP filter expressions, section 6, or a selector of JMS
//! ```
//!
//! A filter is made once, when a consumer comes, and then asked for every message. It reads the encoded sections as
//! they lie in the message, each of them at most once and only as far as it must, and allocates nothing for filters of
//! a usual size. Absent here: how a filter is asked for, who asks, and the Bloom filters of chunks.

mod fields;
mod plain;
mod property;
#[cfg(test)]
mod scene;
mod sql;

pub use fields::{FIELDS_MAX, FieldError, FieldFilter};
pub use sql::{Dialect, SQL_CHARS_MAX, SQL_TOKENS_MAX, Scope, ScopeValues, SqlError, SqlFilter, SqlProblem};

use crate::Message;

/// What a consumer wants to see of a stream, message by message. The two kinds exclude each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Fields of the properties, of the application-properties, or of both must have certain values.
    Fields(FieldFilter),
    /// An expression must be true.
    Sql(SqlFilter),
}

/// Where in a stream a message stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub offset: u64,
    /// When its chunk was written, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl Filter {
    /// Whether the consumer wants this message. A message whose sections cannot be read is not wanted.
    ///
    /// `now_ms`: milliseconds since the Unix epoch.
    pub fn matches(&self, message: &Message, position: Position, now_ms: u64) -> bool {
        match self {
            Self::Fields(filter) => filter.matches(message),
            Self::Sql(filter) => filter.matches(message, position, now_ms),
        }
    }

    /// Where in a stream it can match, as far as it says so.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Fields(_) => Scope::default(),
            Self::Sql(filter) => filter.scope(),
        }
    }
}
