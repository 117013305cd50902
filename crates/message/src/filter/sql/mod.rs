//! SQL filter expressions (AMQP filter expressions, section 6; behaviour B.9), and selectors of JMS.
//!
//! Two dialects of one language: they differ in their words, which are the lexer's affair, and in what `<>` is of unlike
//! values.
//!
//! ```text
//!  text ── lexer ──► tokens ── parser ──► Expr, its identifiers replaced by numbers of slots
//!                                           │
//!  message ── slots: one pass a section ──► values ── eval ──► true / false / unknown: only true passes
//! ```
//!
//! Everything is bounded when an expression is parsed, so that evaluating it is total: characters, tokens and depth
//! bound the work per message, and what cannot be computed is unknown.

mod ast;
mod error;
mod eval;
mod lexer;
mod like;
mod parser;
mod scope;
mod selector;
mod slots;

use std::fmt;

use amqp10::DecodeError;

pub use error::{SqlError, SqlProblem};
pub use scope::{Scope, ScopeValues};

use super::Position;
use super::plain::Plain;
use crate::Message;
use ast::{Expr, Identifier, Shown};
use slots::Sources;

/// Characters of one expression; a longer one is refused, as the reference does.
pub const SQL_CHARS_MAX: usize = 4096;

/// Tokens of one expression; one of more is refused, as the reference does.
pub const SQL_TOKENS_MAX: usize = 200;

/// Parentheses and NOTs within each other. Parentheses alone cannot reach it within [`SQL_TOKENS_MAX`]; it keeps the
/// stack of parser and evaluation small whatever the tokens are. A deeper expression is refused.
const DEPTH_MAX: u32 = 100;

/// Values that are kept on the stack while an expression is evaluated; one with more identifiers allocates once per
/// message.
const INLINE_SLOTS: usize = 8;

/// How an expression is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQL filter expressions: keywords are upper case, `[any name]`.
    Filter,
    /// Selectors of JMS 3.1, 3.8.1: keywords in any case, `"any name"`, BETWEEN.
    Selector,
}

/// An expression that can be asked of messages.
///
/// Its [`Display`](fmt::Display) form parses to an equal one, unless it has become longer than [`SQL_CHARS_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub struct SqlFilter {
    dialect: Dialect,
    root: Expr,
    /// What each slot stands for.
    identifiers: Vec<Identifier>,
    sources: Sources,
}

impl SqlFilter {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong and where; see [`SqlProblem`].
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError> {
        let (root, identifiers) = parser::parse(text, dialect)?;
        Ok(Self { dialect, root, sources: Sources::new(&identifiers), identifiers })
    }

    /// Whether the expression is true of this message; a message whose sections cannot be read does not match.
    ///
    /// `now_ms`: milliseconds since the Unix epoch, the value of `UTC()`.
    pub fn matches(&self, message: &Message, position: Position, now_ms: u64) -> bool {
        matches!(self.truth(message, position, now_ms), Ok(Some(true)))
    }

    /// True, false or unknown.
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

impl fmt::Display for SqlFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown { expr: &self.root, identifiers: &self.identifiers, dialect: self.dialect }.fmt(f)
    }
}

#[cfg(test)]
mod tests;
