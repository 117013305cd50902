//! Parses any text as a filter expression and as a selector, and matches it against any bytes as a message.
//! Shared by the fuzz target and the test that replays the corpus.

use std::sync::Arc;

use bytes::Bytes;
use message::{Dialect, Message, Position, Route, SQL_CHARS_MAX, SqlFilter};

/// The octets before the first zero are an expression, and the octets after it a message. A parsed expression
/// must parse again in its printed form. No message may match both an expression and its negation.
pub fn check(data: &[u8]) {
    let mut parts = data.splitn(2, |octet| *octet == 0);
    let (text, bytes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    check_as(Dialect::Filter, text, bytes);
    check_as(Dialect::Selector, text, bytes);
}

fn check_as(dialect: Dialect, text: &str, bytes: &[u8]) {
    let filter = match SqlFilter::parse(text, dialect) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(text.is_char_boundary(error.position));
            // The reason must be printable, whatever the text is.
            assert!(error.to_string().chars().all(|c| !c.is_control()));
            return;
        }
    };
    let written = filter.to_string();
    if written.chars().count() <= SQL_CHARS_MAX {
        assert_eq!(SqlFilter::parse(&written, dialect).as_ref(), Ok(&filter));
    }
    let negated = SqlFilter::parse(&format!("NOT ({written})"), dialect);
    let Ok(found) = amqp10::sections::scan(bytes) else { return };
    let trimmed = message::trim(&found, true);
    let wire = Bytes::copy_from_slice(&bytes[trimmed.range.clone()]);
    let message = Message::new(trimmed.into_parts(wire), Arc::new(Route::simple("", "stream")));
    let matches = |filter: &SqlFilter| filter.matches(&message, Position::default(), 0);
    assert!(!matches(&filter) || !negated.is_ok_and(|negated| matches(&negated)));
}
