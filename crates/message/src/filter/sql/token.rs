//! Tokens, and the parts of their text that both dialects have in common.

use super::ast::{Comparison, Envelope, Identifier, Literal};
use super::error::SqlProblem;
use crate::filter::property::Property;

/// A token and where it starts, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub at: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    And,
    Or,
    Not,
    /// BETWEEN, a keyword in selectors only.
    Between,
    Like,
    In,
    Is,
    Null,
    Escape,
    Utc,
    Compare(Comparison),
    Plus,
    Minus,
    Times,
    Slash,
    Percent,
    Open,
    Close,
    Comma,
    Literal(Literal),
    Identifier(Identifier),
}

pub(super) fn string(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    let (text, len) = quoted(rest).ok_or(SqlProblem::UnclosedString)?;
    Ok((Kind::Literal(Literal::String(text.into())), len))
}

/// Returns the quoted text at the start of `rest`, and its length with the quotes. `None` if it is not
/// closed.
pub(super) fn quoted(rest: &str) -> Option<(String, usize)> {
    let (quote, inner) = rest.split_at(1);
    let mut text = String::new();
    let mut left = inner;
    loop {
        let (before, after) = left.split_once(quote)?;
        text.push_str(before);
        let Some(doubled) = after.strip_prefix(quote) else {
            return Some((text, rest.len() - after.len()));
        };
        text.push_str(quote);
        left = doubled;
    }
}

/// Returns the length of the exponent at the start with its letter. Returns 0 if it has no digit.
pub(super) fn exponent_len(text: &str) -> usize {
    let sign = usize::from(text[1..].starts_with(['+', '-']));
    match digits(&text[1 + sign..]) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// Parses decimal digits. Integers of more than 128 bits become floats, as results of arithmetic do.
pub(super) fn integer(text: &str) -> Result<Literal, SqlProblem> {
    text.parse().map(Literal::Integer).or_else(|_| float(text))
}

pub(super) fn float(text: &str) -> Result<Literal, SqlProblem> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() => Ok(Literal::Float(v)),
        _ => Err(SqlProblem::NumberTooLarge),
    }
}

/// Returns the identifier of a field. Returns `None` if the section is not allowed in expressions or has no
/// such field.
pub(super) fn field(section: &str, name: &str) -> Option<Identifier> {
    match section {
        "header" | "h" => (name == "priority").then_some(Identifier::Envelope(Envelope::Priority)),
        "properties" | "p" => Property::from_identifier(name).map(Identifier::Property),
        "application_properties" | "a" => Some(Identifier::Application(name.into())),
        _ => None,
    }
}

/// Returns the number of digits at the start.
pub(super) fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}
