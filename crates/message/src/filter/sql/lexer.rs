//! Converts text to tokens. At each position the longest possible token is used.
//!
//! Signs, strings and white space are the same in both dialects. The words of selectors are in `selector.rs`,
//! the words of filter expressions are here. What both use is in `token.rs`.
//!
//! ```text
//!  sign        = <> != < <= > >= + - * / % ( ) ,                      != is <>
//!  keyword     AND OR NOT LIKE IN IS NULL ESCAPE TRUE FALSE UTC       upper case
//!  integer     digit+
//!  float       digit+ "." digit+ [ "E" [ "+" | "-" ] digit+ ]
//!  string      ' any text ' or " any text "                           a doubled quote is one quote of the text
//!  binary      "0x" (hex hex)+                                        A to F upper case
//!  identifier  word | section "." word | "[" any text "]"             a doubled bracket is one bracket of the text
//!  word        letter (letter | digit | "_")*                         not reserved
//!  between     space, tab, form feed, line feed, carriage return
//! ```

use std::fmt;

use super::ast::{Comparison, Identifier, Literal};
use super::error::{SqlError, SqlProblem};
use super::token::{Kind, Token, digits, exponent_len, field, float, integer, string};
use super::{Dialect, SQL_CHARS_MAX, SQL_TOKENS_MAX, selector};

/// Words that are not identifiers, in any case: keywords, and functions of other dialects.
const RESERVED: [&str; 20] = [
    "and",
    "date",
    "escape",
    "exists",
    "false",
    "in",
    "inf",
    "is",
    "left",
    "like",
    "lower",
    "nan",
    "not",
    "null",
    "or",
    "right",
    "substring",
    "true",
    "upper",
    "utc",
];

/// Splits a text into tokens.
pub(super) fn tokens(text: &str, dialect: Dialect) -> Result<Vec<Token>, SqlError> {
    if let Some((position, _)) = text.char_indices().nth(SQL_CHARS_MAX) {
        return Err(SqlError { position, what: SqlProblem::TooLong });
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\x0c', '\n', '\r']);
        let at = text.len() - rest.len();
        if rest.is_empty() {
            return Ok(tokens);
        }
        if tokens.len() == SQL_TOKENS_MAX {
            return Err(SqlError { position: at, what: SqlProblem::TooManyTokens });
        }
        let (kind, len) = token(rest, dialect).map_err(|what| SqlError { position: at, what })?;
        tokens.push(Token { at, kind });
        rest = &rest[len..];
    }
}

/// Writes an identifier in the syntax of filter expressions.
pub(super) fn put_identifier(f: &mut fmt::Formatter<'_>, identifier: &Identifier) -> fmt::Result {
    match identifier {
        // Filter expressions know no other value outside the sections.
        Identifier::Envelope(_) => f.write_str("h.priority"),
        Identifier::Property(property) => write!(f, "p.{}", property.identifier()),
        Identifier::Application(name) if is_plain_identifier(name) => f.write_str(name),
        Identifier::Application(name) => write!(f, "[{}]", name.replace('[', "[[").replace(']', "]]")),
    }
}

/// Returns true if a name needs no brackets.
fn is_plain_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() == word_len(name) && !is_reserved(name)
}

/// Returns the first token and its length in bytes.
fn token(rest: &str, dialect: Dialect) -> Result<(Kind, usize), SqlProblem> {
    let found = sign(rest, dialect).map(Ok).or_else(|| match dialect {
        Dialect::Filter => filter_token(rest),
        Dialect::Selector => selector::token(rest),
    });
    found.unwrap_or_else(|| Err(SqlProblem::Character(rest.chars().next().unwrap_or_default())))
}

fn sign(rest: &str, dialect: Dialect) -> Option<(Kind, usize)> {
    let compare = |how, len| (Kind::Compare(how), len);
    Some(match *rest.as_bytes() {
        [b'<', b'>', ..] | [b'!', b'=', ..] => match dialect {
            Dialect::Filter => compare(Comparison::NotEqual, 2),
            Dialect::Selector => compare(Comparison::Differ, 2),
        },
        [b'<', b'=', ..] => compare(Comparison::LessOrEqual, 2),
        [b'>', b'=', ..] => compare(Comparison::GreaterOrEqual, 2),
        [b'<', ..] => compare(Comparison::Less, 1),
        [b'>', ..] => compare(Comparison::Greater, 1),
        [b'=', ..] => compare(Comparison::Equal, 1),
        [b'+', ..] => (Kind::Plus, 1),
        [b'-', ..] => (Kind::Minus, 1),
        [b'*', ..] => (Kind::Times, 1),
        [b'/', ..] => (Kind::Slash, 1),
        [b'%', ..] => (Kind::Percent, 1),
        [b'(', ..] => (Kind::Open, 1),
        [b')', ..] => (Kind::Close, 1),
        [b',', ..] => (Kind::Comma, 1),
        _ => return None,
    })
}

/// Returns the first token of a filter expression if it is not a sign. Returns `None` if no token starts like
/// this.
fn filter_token(rest: &str) -> Option<Result<(Kind, usize), SqlProblem>> {
    Some(match rest.as_bytes().first()? {
        b'\'' | b'"' => string(rest),
        b'[' => delimited(rest),
        b'0'..=b'9' => number(rest),
        b'a'..=b'z' | b'A'..=b'Z' => word(rest),
        _ => return None,
    })
}

fn delimited(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    let mut name = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let doubled = chars.peek().is_some_and(|(_, next)| *next == c);
        match c {
            '[' | ']' if doubled => {
                chars.next();
            }
            ']' => return Ok((Kind::Identifier(Identifier::Application(name.into())), at + 1)),
            '[' => break,
            c if c.is_ascii_control() => return Err(SqlProblem::ControlCharacter),
            _ => {}
        }
        name.push(c);
    }
    Err(SqlProblem::UnclosedIdentifier)
}

fn number(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    if let Some(octets) = rest.strip_prefix("0x").map(hex_pairs).filter(|octets| !octets.is_empty()) {
        let len = 2 + 2 * octets.len();
        return Ok((Kind::Literal(Literal::Binary(octets.into())), len));
    }
    let whole = digits(rest);
    let fraction = rest[whole..].strip_prefix('.').map_or(0, digits);
    if fraction == 0 {
        return Ok((Kind::Literal(integer(&rest[..whole])?), whole));
    }
    let mut len = whole + 1 + fraction;
    if rest[len..].starts_with('E') {
        len += exponent_len(&rest[len..]);
    }
    Ok((Kind::Literal(float(&rest[..len])?), len))
}

fn word(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    let section =
        rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '-').len();
    if let Some(name) = rest[section..].strip_prefix('.')
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        let end = section + 1 + word_len(name);
        let identifier = field(&rest[..section], &rest[section + 1..end])
            .ok_or_else(|| SqlProblem::UnknownField(rest[..end].into()))?;
        return Ok((Kind::Identifier(identifier), end));
    }
    let len = word_len(rest);
    let word = &rest[..len];
    let kind = match word {
        "AND" => Kind::And,
        "OR" => Kind::Or,
        "NOT" => Kind::Not,
        "LIKE" => Kind::Like,
        "IN" => Kind::In,
        "IS" => Kind::Is,
        "NULL" => Kind::Null,
        "ESCAPE" => Kind::Escape,
        "UTC" => Kind::Utc,
        "TRUE" => Kind::Literal(Literal::Boolean(true)),
        "FALSE" => Kind::Literal(Literal::Boolean(false)),
        word if is_reserved(word) => return Err(SqlProblem::Reserved(word.into())),
        name => Kind::Identifier(Identifier::Application(name.into())),
    };
    Ok((kind, len))
}

fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// Returns the length of the letters, digits and underscores at the start.
fn word_len(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

/// Returns the octets of the hex pairs at the start.
fn hex_pairs(text: &str) -> Vec<u8> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    };
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    pairs.iter().map_while(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
