//! The address of a peer and the login: `amqp://user:password@host:port/vhost`, `amqps://` with TLS, or
//! `amqp+unix://user:password@%2Frun%2Fbroker.sock/vhost`.

use std::fmt;
use std::path::PathBuf;
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
    pub address: Address,
    pub credentials: Option<Credentials>,
    /// The virtual host. `None` means the default of the peer.
    pub virtual_host: Option<String>,
}

/// Where the peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Port {
        /// A name or an address. An IPv6 address has no brackets here.
        host: String,
        port: u16,
        /// True for `amqps://`: the connection is encrypted.
        tls: bool,
    },
    /// The path of a Unix domain socket.
    Socket(PathBuf),
}

impl Address {
    /// Returns true if the connection is encrypted.
    pub fn has_tls(&self) -> bool {
        matches!(self, Self::Port { tls: true, .. })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Port { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
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
    /// The URL does not start with `amqp://`, `amqps://` or `amqp+unix://`.
    Scheme,
    /// The path of a socket is not absolute.
    Socket,
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
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        if rest.contains(['?', '#']) {
            return Err(UrlError::Path);
        }
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
        let (login, address) = authority.rsplit_once('@').map_or((None, authority), |(l, a)| (Some(l), a));
        let address = match scheme {
            "amqp" => parse_port(address, DEFAULT_PORT, false)?,
            "amqps" => parse_port(address, DEFAULT_TLS_PORT, true)?,
            "amqp+unix" => {
                let path = PathBuf::from(decode(address)?);
                Address::Socket(Some(path).filter(|path| path.is_absolute()).ok_or(UrlError::Socket)?)
            }
            _ => return Err(UrlError::Scheme),
        };
        if path.is_some_and(|p| p.contains('/')) {
            return Err(UrlError::Path);
        }
        Ok(Self {
            address,
            credentials: login.filter(|l| !l.is_empty()).map(parse_login).transpose()?,
            virtual_host: path.filter(|p| !p.is_empty()).map(decode).transpose()?,
        })
    }
}

fn parse_port(address: &str, default: u16, tls: bool) -> Result<Address, UrlError> {
    let (host, port) = split_address(address)?;
    let port = match port {
        Some(digits) => digits.parse().ok().filter(|p| *p != 0).ok_or(UrlError::Port)?,
        None => default,
    };
    Ok(Address::Port { host: host.to_owned(), port, tls })
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
            Self::Scheme => "the URL must start with amqp://, amqps:// or amqp+unix://",
            Self::Socket => {
                "the path of the socket must be absolute, such as amqp+unix://%2Frun%2Fbroker.sock"
            }
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
        assert_eq!(full.address.to_string(), "broker.example:5673");
        assert!(!full.address.has_tls() && url("amqps://h").unwrap().address.has_tls());
        assert_eq!(full.virtual_host.as_deref(), Some("my/host"));
        let credentials = full.credentials.unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.expose()), ("al@ice", &b"p:w"[..]));
        let short = url("amqp://[::1]/").unwrap();
        assert_eq!(short.address.to_string(), "[::1]:5672");
        assert_eq!((short.credentials, short.virtual_host), (None, None));
        let socket = url("amqp+unix://u:p@%2Frun%2Fa%20b.sock/v").unwrap();
        assert_eq!(socket.address, Address::Socket("/run/a b.sock".into()));
        assert_eq!(
            (socket.address.to_string().as_str(), socket.address.has_tls()),
            ("unix:/run/a b.sock", false)
        );
        assert_eq!(
            (socket.credentials.unwrap().user.as_str(), socket.virtual_host.as_deref()),
            ("u", Some("v"))
        );
    }

    #[test]
    fn bad_urls_say_why() {
        for (text, why) in [
            ("http://h", UrlError::Scheme),
            ("h:5672", UrlError::Scheme),
            ("amqps", UrlError::Scheme),
            ("amqp+tls://h", UrlError::Scheme),
            ("amqp+unix://", UrlError::Socket),
            ("amqp+unix://run.sock", UrlError::Socket),
            // The slashes of the path must be encoded, because what is behind one is the virtual host.
            ("amqp+unix:///run/a.sock", UrlError::Socket),
            ("amqp+unix://%2Frun%ff", UrlError::Encoding),
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
