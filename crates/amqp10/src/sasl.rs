//! The responses of SASL mechanisms, inside the SASL frames [5.3]. The frames are in [`crate::performative`].

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::decode::{DecodeError, Field, Reader};
use crate::encode::{Encode, put_binary};

/// User name and password in one message (RFC 4616).
pub const PLAIN: &str = "PLAIN";
/// No identity. Logs in as a configured user (RFC 4505).
pub const ANONYMOUS: &str = "ANONYMOUS";
/// An identity that the transport has verified, such as a client certificate (RFC 4422 appendix A).
pub const EXTERNAL: &str = "EXTERNAL";

/// Octets that must not be printed. `Debug` shows `***`, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Bytes);

impl Secret {
    /// Wraps a secret.
    pub fn new(octets: impl Into<Bytes>) -> Self {
        Self(octets.into())
    }

    /// Returns the secret, for checking or sending it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Field for Secret {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(Bytes::read(reader)?.map(Self))
    }
}

impl Encode for Secret {
    fn encode(&self, out: &mut BytesMut) {
        put_binary(out, self.expose());
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The content of a PLAIN response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainCredentials {
    /// The authentication identity. May be empty.
    pub user: String,
    /// The password, or a token in its place.
    pub password: Secret,
}

/// A PLAIN response that is not `NUL user NUL password`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainError {
    /// An authorization identity before the first NUL. Acting for other users is not supported.
    AuthorizationIdentity,
    /// Fewer than two NULs.
    MissingSeparator,
    /// A third NUL, with or without bytes after it.
    TrailingBytes,
    /// A user name that is not UTF-8.
    InvalidUtf8,
}

impl fmt::Display for PlainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AuthorizationIdentity => "PLAIN response has an authorization identity",
            Self::MissingSeparator => "PLAIN response lacks a separator",
            Self::TrailingBytes => "PLAIN response has trailing bytes",
            Self::InvalidUtf8 => "PLAIN user name is not UTF-8",
        })
    }
}

impl std::error::Error for PlainError {}

/// Parses a PLAIN response: `NUL user NUL password` and nothing else.
pub fn parse_plain(response: &[u8]) -> Result<PlainCredentials, PlainError> {
    let mut parts = response.split(|octet| *octet == 0);
    let authzid = parts.next().unwrap_or_default();
    let user = parts.next().ok_or(PlainError::MissingSeparator)?;
    let password = parts.next().ok_or(PlainError::MissingSeparator)?;
    if !authzid.is_empty() {
        return Err(PlainError::AuthorizationIdentity);
    }
    if parts.next().is_some() {
        return Err(PlainError::TrailingBytes);
    }
    let user = std::str::from_utf8(user).map_err(|_| PlainError::InvalidUtf8)?;
    Ok(PlainCredentials { user: user.to_owned(), password: Secret::new(Bytes::copy_from_slice(password)) })
}

/// Creates a PLAIN response. Neither part may contain NUL.
pub fn encode_plain(user: &str, password: &Secret) -> Bytes {
    let mut out = BytesMut::with_capacity(user.len() + password.expose().len() + 2);
    out.put_u8(0);
    out.put_slice(user.as_bytes());
    out.put_u8(0);
    out.put_slice(password.expose());
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composites::SaslInit;
    use crate::types::Symbol;

    #[test]
    fn plain_is_user_and_password() {
        let parsed = parse_plain(b"\0guest\0s3cret").unwrap();
        assert_eq!(parsed.user, "guest");
        assert_eq!(parsed.password.expose(), b"s3cret");
        assert_eq!(encode_plain(&parsed.user, &parsed.password), &b"\0guest\0s3cret"[..]);
        assert_eq!(parse_plain(b"\0\0").unwrap().user, "");
    }

    #[test]
    fn plain_refuses_everything_else() {
        assert_eq!(parse_plain(b""), Err(PlainError::MissingSeparator));
        assert_eq!(parse_plain(b"\0guest"), Err(PlainError::MissingSeparator));
        assert_eq!(parse_plain(b"other\0guest\0x"), Err(PlainError::AuthorizationIdentity));
        assert_eq!(parse_plain(b"\0guest\0x\0"), Err(PlainError::TrailingBytes));
        assert_eq!(parse_plain(b"\0guest\0x\0y"), Err(PlainError::TrailingBytes));
        assert_eq!(parse_plain(b"\0\xff\0x"), Err(PlainError::InvalidUtf8));
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = parse_plain(b"\0guest\0s3cret").unwrap();
        let printed = format!("{credentials:?}");
        assert!(printed.contains("***") && !printed.contains("s3cret"), "{printed}");

        let mut init = SaslInit::new(Symbol::from_static(PLAIN));
        init.initial_response = Some(Secret::new(encode_plain("guest", &credentials.password)));
        let printed = format!("{init:?}");
        assert!(printed.contains("***") && !printed.contains("115"), "{printed}");
    }
}
