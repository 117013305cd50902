//! What a certificate says.

use std::fmt;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The parts of a certificate that people and logins use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The distinguished name of the subject, in the form of RFC 4514: the most special part first, as RabbitMQ writes it.
    pub subject: String,
    pub issuer: String,
    /// The first common name of the subject.
    pub common_name: Option<String>,
    pub alternative_names: Vec<Name>,
    /// From when to when the certificate is valid, in seconds since the epoch.
    pub not_before: i64,
    pub not_after: i64,
}

/// One of the alternative names of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    Dns(String),
    Ip(IpAddr),
    Email(String),
    Uri(String),
}

/// The kind of an alternative name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameKind {
    #[default]
    Dns,
    Ip,
    Email,
    Uri,
}

/// The name in a certificate that is the name of the user (`ssl_cert_login_from`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginFrom {
    #[default]
    DistinguishedName,
    CommonName,
    /// The alternative name of this kind at this place, counted from 0 among those of the kind.
    AlternativeName(NameKind, usize),
}

impl Name {
    fn kind(&self) -> NameKind {
        match self {
            Self::Dns(_) => NameKind::Dns,
            Self::Ip(_) => NameKind::Ip,
            Self::Email(_) => NameKind::Email,
            Self::Uri(_) => NameKind::Uri,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) | Self::Email(name) | Self::Uri(name) => f.write_str(name),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

impl Certificate {
    /// Returns the name of the user. `None` if the certificate has no such name, or an empty one.
    pub fn user(&self, from: LoginFrom) -> Option<String> {
        let user = match from {
            LoginFrom::DistinguishedName => self.subject.clone(),
            LoginFrom::CommonName => self.common_name.clone()?,
            LoginFrom::AlternativeName(kind, place) => {
                self.alternative_names.iter().filter(|name| name.kind() == kind).nth(place)?.to_string()
            }
        };
        (!user.is_empty()).then_some(user)
    }

    /// Parses a certificate in DER. Returns `None` if it is none, or if a name in it cannot be written: a part's type is no
    /// object identifier.
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let names = certificate.subject_alternative_name().ok().flatten();
        Some(Self {
            subject: distinguished_name(certificate.subject())?,
            issuer: distinguished_name(certificate.issuer())?,
            common_name: certificate.subject().iter_common_name().next().and_then(text),
            alternative_names: names
                .map(|names| names.value.general_names.iter().filter_map(name).collect())
                .unwrap_or_default(),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }
}

fn name(name: &GeneralName<'_>) -> Option<Name> {
    Some(match name {
        GeneralName::DNSName(name) => Name::Dns((*name).to_owned()),
        GeneralName::RFC822Name(name) => Name::Email((*name).to_owned()),
        GeneralName::URI(name) => Name::Uri((*name).to_owned()),
        GeneralName::IPAddress(octets) => Name::Ip(match octets.len() {
            4 => Ipv4Addr::from(<[u8; 4]>::try_from(*octets).ok()?).into(),
            _ => Ipv6Addr::from(<[u8; 16]>::try_from(*octets).ok()?).into(),
        }),
        _ => return None,
    })
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().map(str::to_owned)
}

fn distinguished_name(name: &X509Name<'_>) -> Option<String> {
    let parts: Vec<_> = name.iter().collect();
    let mut shown = String::new();
    for part in parts.into_iter().rev() {
        if !shown.is_empty() {
            shown.push(',');
        }
        for (at, attribute) in part.iter().enumerate() {
            if at > 0 {
                shown.push('+');
            }
            let oid = attribute.attr_type();
            match oid2abbrev(oid, oid_registry()) {
                Ok(abbreviation) if !abbreviation.is_empty() => shown.push_str(abbreviation),
                // Some types are known without a short name.
                _ => {
                    let mut numbers = oid.iter()?;
                    // Writing to a string cannot fail.
                    let _ = write!(shown, "{}", numbers.next()?);
                    numbers.for_each(|number| _ = write!(shown, ".{number}"));
                }
            }
            shown.push('=');
            match attribute.as_str() {
                Ok(value) => escape(value, &mut shown),
                // Values that are not text are written in hexadecimal, as the standard asks for.
                Err(_) => {
                    shown.push('#');
                    for byte in attribute.as_slice() {
                        let _ = write!(shown, "{byte:02x}");
                    }
                }
            }
        }
    }
    Some(shown)
}

/// Appends a value with the escapes of RFC 4514, 2.4.
fn escape(value: &str, to: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => to.extend(['\\', c]),
            ' ' if at == 0 || at == last => to.push_str("\\ "),
            '#' if at == 0 => to.push_str("\\#"),
            '\0' => to.push_str("\\00"),
            c => to.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn the_names_of_a_certificate_are_read() {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Ours, Inc. ");
        params.distinguished_name.push(DnType::CommonName, "#client");
        params.subject_alt_names.push(SanType::IpAddress("10.0.0.1".parse().unwrap()));
        params.subject_alt_names.push(SanType::Rfc822Name("a@b".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("spiffe://x/y".try_into().unwrap()));
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = Certificate::parse(made.der()).unwrap();
        assert_eq!(read.subject, "CN=\\#client,O=Ours\\, Inc.\\ ");
        assert_eq!(read.issuer, read.subject);
        assert_eq!(read.common_name.as_deref(), Some("#client"));
        let names = [
            Name::Dns("a.example".into()),
            Name::Ip("10.0.0.1".parse().unwrap()),
            Name::Email("a@b".into()),
            Name::Uri("spiffe://x/y".into()),
        ];
        assert_eq!(read.alternative_names, names);
        assert!(read.not_before < read.not_after);
        let user = |kind, place| read.user(LoginFrom::AlternativeName(kind, place));
        assert_eq!(user(NameKind::Dns, 0).as_deref(), Some("a.example"));
        assert_eq!(user(NameKind::Ip, 0).as_deref(), Some("10.0.0.1"));
        assert_eq!(user(NameKind::Email, 0).as_deref(), Some("a@b"));
        assert_eq!((user(NameKind::Uri, 1), user(NameKind::Dns, 1)), (None, None));
        assert_eq!(read.user(LoginFrom::CommonName).as_deref(), Some("#client"));
        assert_eq!(read.user(LoginFrom::DistinguishedName), Some(read.subject.clone()));
        assert_eq!(Certificate::parse(b"nonsense"), None);
    }
}
