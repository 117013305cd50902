//! The address of a peer and the login: `amqp://user:password@host:port/vhost`, or `amqps://` with TLS.

use std::fmt;
use std::str::FromStr;

use amqp10::sasl::Secret;
use percent_encoding::percent_decode_str;

/// The port if the URL has none, without and with TLS.
pub const DEFAULT_PORT: u16 = 5672;
pub const DEFAULT_TLS_PORT: u16 = 5671;

/// A parsed URL. Without a user the login is EXTERNAL if the peer offers it, because it knows our certificate, and otherwise
/// ANONYMOUS. User, password and virtual host are percent-decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or an address. An IPv6 address has no brackets here.
    pub host: String,
    pub port: u16,
    /// True for `amqps://`: the connection is encrypted.
    pub tls: bool,
    pub credentials: Option<Credentials>,
    /// The virtual host. `None` means the default of the peer.
    pub virtual_host: Option<String>,
}

/// The user name and password for PLAIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: Secret,
}

/// Why a text is not a valid URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// The URL does not start with `amqp://` or `amqps://`.
    Scheme,
    /// The host is missing, or a bracket is not closed.
    Host,
    /// The port is not a number from 1 to 65535.
    Port,
    /// A percent escape that is not UTF-8, or a NUL in the user or password.
    Encoding,
    /// A query or fragment, or more than one path segment.
    Path,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (rest, tls) = match text.strip_prefix("amqps://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("amqp://").ok_or(UrlError::Scheme)?, false),
        };
        if rest.contains(['?', '#']) {
            return Err(UrlError::Path);
        }
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
        let (login, address) = authority.rsplit_once('@').map_or((None, authority), |(l, a)| (Some(l), a));
        let (host, port) = split_address(address)?;
        let port = match port {
            Some(digits) => digits.parse().ok().filter(|p| *p != 0).ok_or(UrlError::Port)?,
            None if tls => DEFAULT_TLS_PORT,
            None => DEFAULT_PORT,
        };
        if path.is_some_and(|p| p.contains('/')) {
            return Err(UrlError::Path);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            tls,
            credentials: login.filter(|l| !l.is_empty()).map(parse_login).transpose()?,
            virtual_host: path.filter(|p| !p.is_empty()).map(decode).transpose()?,
        })
    }
}

fn split_address(address: &str) -> Result<(&str, Option<&str>), UrlError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(UrlError::Host),
            }
        }
        None => address.rsplit_once(':').map_or((address, None), |(h, p)| (h, Some(p))),
    };
    if host.is_empty() || (!address.starts_with('[') && host.contains([':', ']'])) {
        return Err(UrlError::Host);
    }
    Ok((host, port))
}

fn parse_login(login: &str) -> Result<Credentials, UrlError> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (user, password) = (decode(user)?, decode(password)?);
    if user.contains('\0') || password.contains('\0') {
        return Err(UrlError::Encoding);
    }
    Ok(Credentials { user, password: Secret::new(password.into_bytes()) })
}

fn decode(text: &str) -> Result<String, UrlError> {
    Ok(percent_decode_str(text).decode_utf8().map_err(|_| UrlError::Encoding)?.into_owned())
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "the URL must start with amqp:// or amqps://",
            Self::Host => "the URL has no valid host",
            Self::Port => "the port must be a number from 1 to 65535",
            Self::Encoding => "the URL has an invalid percent escape",
            Self::Path => "the path of the URL must be one virtual host, percent-encoded, and nothing else",
        })
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<Url, UrlError> {
        text.parse()
    }

    #[test]
    fn urls_have_parts() {
        let full = url("amqp://al%40ice:p%3aw@broker.example:5673/my%2fhost").unwrap();
        assert_eq!((full.host.as_str(), full.port), ("broker.example", 5673));
        assert_eq!(full.virtual_host.as_deref(), Some("my/host"));
        let credentials = full.credentials.unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.expose()), ("al@ice", &b"p:w"[..]));
        let short = url("amqp://[::1]/").unwrap();
        assert_eq!((short.host.as_str(), short.port), ("::1", DEFAULT_PORT));
        assert_eq!((short.credentials, short.virtual_host), (None, None));
    }

    #[test]
    fn bad_urls_say_why() {
        for (text, why) in [
            ("http://h", UrlError::Scheme),
            ("h:5672", UrlError::Scheme),
            ("amqp://", UrlError::Host),
            ("amqp://[::1", UrlError::Host),
            ("amqp://::1", UrlError::Host),
            ("amqp://[::1]5672", UrlError::Host),
            ("amqp://h:0", UrlError::Port),
            ("amqp://h:65536", UrlError::Port),
            ("amqp://h:", UrlError::Port),
            ("amqp://u%ff@h", UrlError::Encoding),
            ("amqp://u%00@h", UrlError::Encoding),
            ("amqp://h/a/b", UrlError::Path),
            ("amqp://h/?x=1", UrlError::Path),
        ] {
            assert_eq!(url(text), Err(why), "{text}");
        }
    }

    #[test]
    fn passwords_are_not_printed() {
        assert!(!format!("{:?}", url("amqp://guest:s3cret@h")).contains("s3cret"));
    }
}
