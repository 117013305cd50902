//! Errors in expressions.

use std::fmt;

use super::{DEPTH_MAX, SQL_CHARS_MAX, SQL_TOKENS_MAX};

/// Why a text is not a valid expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The position of the problem, in bytes from the start of the text.
    pub position: usize,
    pub what: SqlProblem,
}

/// The problem at that position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlProblem {
    /// More than [`SQL_CHARS_MAX`] characters.
    TooLong,
    /// More than [`SQL_TOKENS_MAX`] tokens.
    TooManyTokens,
    /// More than 100 nested parentheses and NOTs.
    TooDeep,
    /// No token starts with this character.
    Character(char),
    /// A string without its closing quote.
    UnclosedString,
    /// An identifier in brackets or quotes without the closing one.
    UnclosedIdentifier,
    /// Control characters are not allowed here.
    ControlCharacter,
    /// A reserved word, or a keyword that is not upper case.
    Reserved(Box<str>),
    /// An unknown section, or an unknown field of a section.
    UnknownField(Box<str>),
    /// A number beyond the range of a double, or an octal or hexadecimal number of more than 128 bits.
    NumberTooLarge,
    /// The number of a selector starts with 0, so it is octal, but it has a digit that is not.
    NotOctal,
    /// Something else is required at this position; the text names it.
    Expected(&'static str),
    /// The escape of LIKE must be one character.
    Escape,
    /// The pattern of LIKE ends with its escape.
    EscapeAtEnd,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.what)
    }
}

impl fmt::Display for SqlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the expression has more than {SQL_CHARS_MAX} characters"),
            Self::TooManyTokens => write!(f, "the expression has more than {SQL_TOKENS_MAX} tokens"),
            Self::TooDeep => write!(f, "more than {DEPTH_MAX} nested parentheses and NOTs"),
            Self::Character(c) => write!(f, "unexpected character '{}'", c.escape_debug()),
            Self::UnclosedString => f.write_str("the string is not closed"),
            Self::UnclosedIdentifier => f.write_str("the identifier is not closed"),
            Self::ControlCharacter => f.write_str("control characters are not allowed here"),
            Self::Reserved(word) => {
                write!(
                    f,
                    "'{word}' is a reserved word: keywords are upper case, identifiers can be written as [{word}]"
                )
            }
            Self::UnknownField(name) => write!(f, "there is no field '{}'", Short(name)),
            Self::NumberTooLarge => f.write_str("the number is too large"),
            Self::NotOctal => {
                f.write_str("a number that starts with 0 is octal and cannot have the digits 8 and 9")
            }
            Self::Expected(what) => write!(f, "{what} is needed"),
            Self::Escape => f.write_str("the escape must be one character"),
            Self::EscapeAtEnd => f.write_str("the pattern ends with its escape"),
        }
    }
}

impl std::error::Error for SqlError {}

/// The start of a name that a peer chose. It has no control characters.
struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS_MAX: usize = 64;
        match self.0.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => write!(f, "{}...", &self.0[..end]),
            None => f.write_str(self.0),
        }
    }
}
