//! The response of AMQPLAIN, the SASL mechanism of AMQP 0.8 that clients still offer.

use std::fmt;

use crate::secret::Secret;
use crate::syntax::SyntaxError;
use crate::table::{Table, Value};

/// The name of the mechanism.
pub const AMQPLAIN: &str = "AMQPLAIN";

/// The content of a response. Both are borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainCredentials<'a> {
    /// The name of the user. May be empty.
    pub user: &'a str,
    /// The password, or a token in its place.
    pub password: Secret<'a>,
}

/// A response that is not a table with the long strings `LOGIN` and `PASSWORD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmqplainError {
    /// The response is not a table.
    Syntax(SyntaxError),
    /// An entry is missing, or has another type.
    Missing,
    /// The name of the user is not UTF-8.
    NotUtf8,
}

impl fmt::Display for AmqplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "malformed AMQPLAIN response: {error}"),
            Self::Missing => f.write_str("an AMQPLAIN response needs the strings LOGIN and PASSWORD"),
            Self::NotUtf8 => f.write_str("AMQPLAIN user name is not UTF-8"),
        }
    }
}

impl std::error::Error for AmqplainError {}

/// Parses a response: the entries of a table, without its length. Other entries are ignored.
///
/// # Errors
/// See [`AmqplainError`].
pub fn parse_amqplain(response: &[u8]) -> Result<PlainCredentials<'_>, AmqplainError> {
    let table = Table::parse(response).map_err(AmqplainError::Syntax)?;
    let (Some(Value::LongString(user)), Some(Value::LongString(password))) =
        (table.get("LOGIN"), table.get("PASSWORD"))
    else {
        return Err(AmqplainError::Missing);
    };
    let user = std::str::from_utf8(user).map_err(|_| AmqplainError::NotUtf8)?;
    Ok(PlainCredentials { user, password: Secret::new(password) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_a_table_with_two_strings() {
        let both = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x06s3cret";
        let credentials = PlainCredentials { user: "guest", password: Secret::new(b"s3cret") };
        assert_eq!(parse_amqplain(both), Ok(credentials));
        assert!(!format!("{credentials:?}").contains("115"), "secrets are not printed");
        let more = [b"\x01xV\x08PASSWORDS\x00\x00\x00\x00", &both[..16]].concat();
        assert_eq!(parse_amqplain(&more), Ok(PlainCredentials { user: "guest", password: Secret::new(b"") }));
        for (response, error) in [
            (&both[..16], AmqplainError::Missing),
            (b"\x05LOGINI\x00\x00\x00\x05\x08PASSWORDS\x00\x00\x00\x00", AmqplainError::Missing),
            (b"\x05LOGINS\x00\x00\x00\x01\xff\x08PASSWORDS\x00\x00\x00\x00", AmqplainError::NotUtf8),
            (b"\0guest\0guest", AmqplainError::Syntax(SyntaxError::FieldType(b'g'))),
        ] {
            assert_eq!(parse_amqplain(response), Err(error), "{}", response.escape_ascii());
        }
    }
}
