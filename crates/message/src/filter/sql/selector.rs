//! The words of selectors (JMS 3.1, 3.8.1), and the meaning of their names.
//!
//! ```text
//!  keyword     AND OR NOT BETWEEN LIKE IN IS NULL ESCAPE TRUE FALSE   in any case
//!  integer     ("0" | nonzero digit* | "0" octal+ | "0x" hex+) [ "L" ]
//!  float       digit+ "." digit* [ exponent ] [ "F" | "D" ]           also without digits before the point
//!            | digit+ exponent [ "F" | "D" ] | digit+ ( "F" | "D" )
//!  exponent    "E" [ "+" | "-" ] digit+                               letters of numbers in any case
//!  string      ' any text '                                           a doubled quote is one quote of the text
//!  identifier  word | " any text "                                    a doubled quote is one quote of the text
//!  word        letter (letter | digit)*                               of any script, and "_" and "$"
//! ```
//!
//! | name | meaning |
//! |---|---|
//! | `JMSMessageID`, `JMSCorrelationID` | message-id and correlation-id as they were sent; ids from JMS producers include `ID:` |
//! | `JMSTimestamp`, `JMSType` | creation-time in milliseconds; subject |
//! | `JMSXUserID`, `JMSXGroupID`, `JMSXGroupSeq` | user-id, group-id, group-sequence |
//! | `JMSPriority` | the priority in the header, 4 if it is absent |
//! | `JMSDeliveryMode` | `'PERSISTENT'` if the header is durable, else `'NON_PERSISTENT'` |
//! | `"x-stream-offset"` | the offset of the message |
//! | `"x-stream-timestamp"` | when the message's chunk was written, in milliseconds since the Unix epoch |
//! | `"x-stream-filter-value"` | the annotation of this name, if it is a string |
//! | `"header.priority"`, `"properties.f"` | a field, with its name in filter expressions |
//! | `"application_properties.x"` | the application-property `x`, which may be any name |
//! | any other name that starts with `JMS` or `x-stream-` | refused |
//! | any other name | the application-property of this name, including its points |
//!
//! Ids are compared as they are on the wire. The AMQP mapping of JMS is different: it shows a string that
//! does not start with `ID:` as `ID:AMQP_NO_PREFIX:...`, and an id that is not a string as `ID:AMQP_UUID:...`
//! or similar. JMS producers send such ids only if they are configured to.

use std::fmt;

use super::ast::{Envelope, Identifier, Literal};
use super::error::SqlProblem;
use super::token::{Kind, digits, exponent_len, field, float, integer, quoted, string};
use crate::FILTER_VALUE;

/// Headers of JMS that are fields of the properties, and their names in filter expressions.
const PROPERTIES: [(&str, &str); 7] = [
    ("JMSCorrelationID", "correlation_id"),
    ("JMSMessageID", "message_id"),
    ("JMSTimestamp", "creation_time"),
    ("JMSType", "subject"),
    ("JMSXGroupID", "group_id"),
    ("JMSXGroupSeq", "group_sequence"),
    ("JMSXUserID", "user_id"),
];

/// Names that do not need a section of the message.
const ENVELOPE: [(&str, Envelope); 5] = [
    ("JMSPriority", Envelope::Priority),
    ("JMSDeliveryMode", Envelope::DeliveryMode),
    ("x-stream-offset", Envelope::Offset),
    ("x-stream-timestamp", Envelope::Timestamp),
    (FILTER_VALUE, Envelope::FilterValue),
];

/// Sections whose fields can be named. Short forms are not allowed: `"a.b"` is the application-property of
/// that name.
const SECTIONS: [&str; 3] = ["header", "properties", "application_properties"];

/// Returns the first token if it is not a sign. Returns `None` if no token starts like this.
pub(super) fn token(rest: &str) -> Option<Result<(Kind, usize), SqlProblem>> {
    let mut chars = rest.chars();
    Some(match chars.next()? {
        '\'' => string(rest),
        '"' => delimited(rest),
        '0'..='9' => number(rest),
        '.' if chars.next().is_some_and(|c| c.is_ascii_digit()) => number(rest),
        c if is_letter(c) => word(rest),
        _ => return None,
    })
}

/// Writes an identifier in the syntax of selectors.
pub(super) fn put_identifier(f: &mut fmt::Formatter<'_>, identifier: &Identifier) -> fmt::Result {
    match identifier {
        Identifier::Envelope(envelope) => {
            let name = ENVELOPE.iter().find(|(_, named)| named == envelope).map_or("", |(name, _)| name);
            write!(f, "\"{name}\"")
        }
        Identifier::Property(property) => write!(f, "\"properties.{}\"", property.identifier()),
        Identifier::Application(name) if is_plain_identifier(name) => f.write_str(name),
        Identifier::Application(name) => {
            write!(f, "\"application_properties.{}\"", name.replace('"', "\"\""))
        }
    }
}

/// Returns true if a name needs no quotes and means the application-property of that name.
fn is_plain_identifier(name: &str) -> bool {
    name.starts_with(is_letter)
        && name.len() == word_len(name)
        && keyword(name).is_none()
        && identifier(name).is_ok_and(|found| matches!(found, Identifier::Application(_)))
}

fn word(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    let len = word_len(rest);
    let word = &rest[..len];
    let kind = keyword(word).map_or_else(|| identifier(word).map(Kind::Identifier), Ok)?;
    Ok((kind, len))
}

fn keyword(word: &str) -> Option<Kind> {
    Some(match &*word.to_ascii_uppercase() {
        "AND" => Kind::And,
        "OR" => Kind::Or,
        "NOT" => Kind::Not,
        "BETWEEN" => Kind::Between,
        "LIKE" => Kind::Like,
        "IN" => Kind::In,
        "IS" => Kind::Is,
        "NULL" => Kind::Null,
        "ESCAPE" => Kind::Escape,
        "TRUE" => Kind::Literal(Literal::Boolean(true)),
        "FALSE" => Kind::Literal(Literal::Boolean(false)),
        _ => return None,
    })
}

fn delimited(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    let (name, len) = quoted(rest).ok_or(SqlProblem::UnclosedIdentifier)?;
    if name.chars().any(char::is_control) {
        return Err(SqlProblem::ControlCharacter);
    }
    Ok((Kind::Identifier(identifier(&name)?), len))
}

fn identifier(name: &str) -> Result<Identifier, SqlProblem> {
    let of_envelope = || ENVELOPE.iter().find(|(known, _)| *known == name);
    let of_properties = || PROPERTIES.iter().find(|(known, _)| *known == name);
    let found = match name.split_once('.') {
        Some((section, name)) if SECTIONS.contains(&section) => field(section, name),
        _ if name.starts_with("JMS") || name.starts_with("x-stream-") => of_envelope()
            .map(|(_, envelope)| Identifier::Envelope(*envelope))
            .or_else(|| field("properties", of_properties()?.1)),
        _ => Some(Identifier::Application(name.into())),
    };
    found.ok_or_else(|| SqlProblem::UnknownField(name.into()))
}

fn number(rest: &str) -> Result<(Kind, usize), SqlProblem> {
    let with_suffix = |literal, len: usize, suffixes: &[char]| {
        Ok((Kind::Literal(literal), len + usize::from(rest[len..].starts_with(suffixes))))
    };
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")).unwrap_or_default();
    let hex_digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
    if hex_digits > 0 {
        return with_suffix(radix(&hex[..hex_digits], 16)?, 2 + hex_digits, &['L', 'l']);
    }
    let whole = digits(rest);
    let mut len = whole;
    if rest[len..].starts_with('.') {
        len += 1 + digits(&rest[len + 1..]);
    }
    if rest[len..].starts_with(['E', 'e']) {
        len += exponent_len(&rest[len..]);
    }
    if len > whole || rest[len..].starts_with(['F', 'f', 'D', 'd']) {
        return with_suffix(float(&rest[..len])?, len, &['F', 'f', 'D', 'd']);
    }
    let literal = match rest[..len].strip_prefix('0') {
        None | Some("") => integer(&rest[..len])?,
        Some(octal) if octal.contains(['8', '9']) => return Err(SqlProblem::NotOctal),
        Some(octal) => radix(octal, 8)?,
    };
    with_suffix(literal, len, &['L', 'l'])
}

fn radix(digits: &str, radix: u32) -> Result<Literal, SqlProblem> {
    i128::from_str_radix(digits, radix).map(Literal::Integer).map_err(|_| SqlProblem::NumberTooLarge)
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '$')
}

/// Returns the length of the letters and digits at the start, in bytes.
fn word_len(text: &str) -> usize {
    text.find(|c| !is_letter(c) && !char::is_numeric(c)).unwrap_or(text.len())
}
