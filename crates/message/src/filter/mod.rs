//! Filters of a stream's consumer, applied to each message (docs/compatibility.md, Stream filters).
//!
//! ```text
//!   Filter ── Fields   some fields have these values: AMQP filter expressions, section 4
//!          └─ Sql      an expression over fields is true: AMQP filter expressions, section 6, or a JMS selector
//! ```
//!
//! A filter is created once, when a consumer attaches, and then applied to every message. It reads the
//! encoded sections in place, each at most once and only as far as necessary. Filters of usual size allocate
//! nothing. Absent here: how a consumer requests a filter, and the Bloom filters of chunks.

mod fields;
mod plain;
mod property;
#[cfg(test)]
mod scene;
mod sql;
mod wire;

pub use fields::{FIELDS_MAX, FieldError, FieldFilter};
pub use sql::{Dialect, SQL_CHARS_MAX, SQL_TOKENS_MAX, Scope, ScopeValues, SqlError, SqlFilter, SqlProblem};

use crate::Message;

/// The least bytes of memory that an allocation takes.
const ALLOCATION_MIN: usize = 8;

/// Comparing this many bytes takes about as long as reading a message.
const COMPARISONS_OF_READING: u64 = 4096;

/// Returns the bytes of memory that an allocation takes. One of nothing takes none.
fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.max(ALLOCATION_MIN) }
}

/// The messages of a stream that a consumer wants. A filter has one of the two kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Fields of the properties, the application-properties, or both must have certain values.
    Fields(FieldFilter),
    /// An expression must be true.
    Sql(SqlFilter),
}

/// The position of a message in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub offset: u64,
    /// When the message's chunk was written, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl Filter {
    /// Returns true if the message matches. A message whose sections cannot be read does not match.
    ///
    /// `now_ms`: milliseconds since the Unix epoch.
    pub fn matches(&self, message: &Message, position: Position, now_ms: u64) -> bool {
        let message = &*message.in_amqp10();
        match self {
            Self::Fields(filter) => filter.matches(message),
            Self::Sql(filter) => filter.matches(message, position, now_ms),
        }
    }

    /// Returns about how many times this takes, at most, what it takes to read a message of usual size. A message with large
    /// sections costs more, once for each part of the filter.
    pub fn cost(&self, message: &Message) -> u64 {
        let parts = match self {
            Self::Fields(filter) => filter.field_count(),
            Self::Sql(filter) => filter.parts(),
        };
        let sections = message.len() - message.body().len() as u64;
        1 + sections * parts as u64 / COMPARISONS_OF_READING
    }

    /// Returns the bytes of memory that the filter takes besides itself. They may be many times those of its text: a pattern
    /// is kept in pieces.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Fields(filter) => filter.heap_bytes(),
            Self::Sql(filter) => filter.heap_bytes(),
        }
    }

    /// Returns the part of a stream in which the filter can match, as far as this is known.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Fields(_) => Scope::default(),
            Self::Sql(filter) => filter.scope(),
        }
    }
}
