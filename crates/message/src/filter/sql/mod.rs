//! SQL filter expressions (AMQP filter expressions, section 6) and JMS selectors.
//!
//! They are two dialects of one language. They differ in their words, which the lexer handles, and in the
//! meaning of `<>` for values of different kinds.
//!
//! ```text
//!  text ── lexer ──► tokens ── parser ──► Expr, with slot numbers instead of identifiers
//!                                           │
//!  message ── slots: one pass per section ──► values ── eval ──► true / false / unknown: only true matches
//! ```
//!
//! Everything is bounded when an expression is parsed. Limits on characters, tokens and depth bound the work
//! for each message. Evaluation never fails: what cannot be computed is unknown.

mod ast;
mod error;
mod eval;
mod lexer;
mod like;
mod parser;
mod scope;
mod selector;
mod slots;
mod text;
mod token;

use std::fmt;

use amqp10::DecodeError;

pub use error::{SqlError, SqlProblem};
pub use scope::{Scope, ScopeValues};

use super::plain::Plain;
use super::{Position, allocated};
use crate::Message;
use ast::{Expr, Identifier};
use slots::Sources;
use text::Shown;

/// The most characters of an expression. A longer one is refused, as in RabbitMQ.
pub const SQL_CHARS_MAX: usize = 4096;

/// The most tokens of an expression. One with more is refused, as in RabbitMQ.
pub const SQL_TOKENS_MAX: usize = 200;

/// The deepest nesting of parentheses and NOTs. A deeper expression is refused, which keeps the stack of
/// parser and evaluation small. Parentheses alone cannot reach this depth within [`SQL_TOKENS_MAX`].
const DEPTH_MAX: u32 = 100;

/// The number of values stored on the stack during an evaluation. An expression with more identifiers
/// allocates once for each message.
const INLINE_SLOTS: usize = 8;

/// The syntax of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQL filter expressions: keywords are upper case, and any name can be written as `[any name]`.
    Filter,
    /// JMS selectors (JMS 3.1, 3.8.1): keywords are in any case, any name can be written as `"any name"`, and
    /// there is BETWEEN.
    Selector,
}

/// An expression that can be evaluated for messages.
///
/// Its [`Display`](fmt::Display) form parses to an equal expression, unless it is longer than
/// [`SQL_CHARS_MAX`]. Two expressions are equal if they differ only in how they are written.
#[derive(Clone, Debug)]
pub struct SqlFilter {
    dialect: Dialect,
    /// The text that was parsed. Another node parses it again.
    text: Box<str>,
    root: Expr,
    /// The identifier of each slot.
    identifiers: Vec<Identifier>,
    sources: Sources,
}

impl SqlFilter {
    /// Parses an expression.
    ///
    /// # Errors
    /// The problem and its position; see [`SqlProblem`].
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError> {
        let (root, identifiers) = parser::parse(text, dialect)?;
        Ok(Self { dialect, text: text.into(), root, sources: Sources::new(&identifiers), identifiers })
    }

    /// Returns the text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the dialect of the text.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns true if the expression is true for this message. A message whose sections cannot be read does
    /// not match.
    ///
    /// `now_ms` is the value of `UTC()`, in milliseconds since the Unix epoch.
    pub fn matches(&self, message: &Message, position: Position, now_ms: u64) -> bool {
        matches!(self.truth(message, position, now_ms), Ok(Some(true)))
    }

    /// Returns how often each byte of a message may be compared: by each part of the expression, and by each character of its
    /// patterns.
    pub fn parts(&self) -> usize {
        self.root.parts()
    }

    /// Returns the bytes of memory that the filter takes besides itself.
    pub fn heap_bytes(&self) -> usize {
        let names: usize = self.identifiers.iter().map(Identifier::heap_bytes).sum();
        let identifiers = allocated(self.identifiers.capacity() * size_of::<Identifier>()) + names;
        allocated(self.text.len()) + self.root.heap_bytes() + identifiers + self.sources.heap_bytes()
    }

    /// Evaluates the expression to true, false or unknown.
    fn truth(&self, message: &Message, position: Position, now_ms: u64) -> Result<Option<bool>, DecodeError> {
        let (mut few, mut many);
        let slots = if self.identifiers.len() <= INLINE_SLOTS {
            few = [Plain::Null; INLINE_SLOTS];
            &mut few[..]
        } else {
            many = vec![Plain::Null; self.identifiers.len()];
            &mut many[..]
        };
        self.sources.fill(message, position, slots)?;
        Ok(eval::truth(&self.root, slots, now_ms))
    }
}

impl PartialEq for SqlFilter {
    fn eq(&self, other: &Self) -> bool {
        let Self { dialect, text: _, root, identifiers, sources } = self;
        (dialect, root, identifiers, sources)
            == (&other.dialect, &other.root, &other.identifiers, &other.sources)
    }
}

impl fmt::Display for SqlFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown { expr: &self.root, identifiers: &self.identifiers, dialect: self.dialect }.fmt(f)
    }
}

#[cfg(test)]
mod tests;
