//! Why a handshake has failed, in words.

use std::borrow::Cow;
use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why a client does not connect to a server over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server has answered, but not with TLS.
    NoTls,
    /// The certificate of the server is that of an authority. A server needs one that an authority has signed.
    ItsOwnAuthority,
    /// No trusted authority has signed the certificate of the server.
    UnknownAuthority,
    /// The certificate is for these names and addresses, and not for the host of the URL.
    OtherNames(Vec<String>),
    /// The certificate has expired at this time, in seconds since the epoch.
    Expired(Option<u64>),
    /// The certificate is not valid before this time, in seconds since the epoch.
    NotYetValid(Option<u64>),
    /// The server requires a certificate of the client.
    ClientHasNone,
    /// The server does not accept the certificate of the client.
    ClientRefused,
}

impl Refusal {
    /// Returns the reason in an error of a socket. `None` if it is another one than these.
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.get_ref()?.downcast_ref()? {
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Some(Self::NoTls),
            Error::InvalidCertificate(why) => Self::of_certificate(why),
            Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateRequired => Some(Self::ClientHasNone),
                AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::UnsupportedCertificate => Some(Self::ClientRefused),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn of_certificate(why: &CertificateError) -> Option<Self> {
        let seconds = |time: &UnixTime| Some(time.as_secs());
        match why {
            CertificateError::UnknownIssuer => Some(Self::UnknownAuthority),
            CertificateError::Expired => Some(Self::Expired(None)),
            CertificateError::ExpiredContext { not_after, .. } => Some(Self::Expired(seconds(not_after))),
            CertificateError::NotValidYet => Some(Self::NotYetValid(None)),
            CertificateError::NotValidYetContext { not_before, .. } => {
                Some(Self::NotYetValid(seconds(not_before)))
            }
            CertificateError::NotValidForName => Some(Self::OtherNames(Vec::new())),
            CertificateError::NotValidForNameContext { presented, .. } => {
                Some(Self::OtherNames(presented.iter().map(|name| plain(name).to_owned()).collect()))
            }
            CertificateError::Other(other) => match other.0.downcast_ref() {
                Some(webpki::Error::CaUsedAsEndEntity) => Some(Self::ItsOwnAuthority),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns the name in the words of rustls for one, such as `DnsName("localhost")`.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// Describes why the handshake of a client has failed, for the log of the server.
pub fn of_client(error: &Error) -> Cow<'static, str> {
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the client does not use TLS, and this port expects it".into()
        }
        Error::AlertReceived(alert) => {
            let why = match alert {
                AlertDescription::UnknownCA => "does not trust the authority of the certificate",
                AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                    "does not accept the certificate"
                }
                AlertDescription::CertificateExpired => "says that the certificate has expired",
                _ => return error.to_string().into(),
            };
            format!("the client {why} ({error})").into()
        }
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_their_kinds() {
        assert_eq!(plain("DnsName(\"localhost\")"), "localhost");
        assert_eq!(plain("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain("*.example"), "*.example");
    }

    #[test]
    fn other_errors_have_no_words_of_ours() {
        assert_eq!(Refusal::of(&io::Error::other("full")), None);
        let error = || Error::DecryptError;
        assert_eq!(Refusal::of(&io::Error::other(error())), None);
        assert_eq!(of_client(&error()), error().to_string());
    }
}
