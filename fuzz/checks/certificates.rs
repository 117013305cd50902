//! Reads any bytes as a certificate. Shared by the fuzz target and the test that replays the corpus.

use tls::{Certificate, LoginFrom, NameKind};

/// Whatever a certificate holds, nobody gets an empty name, and each part of a distinguished name has a type: a value
/// cannot pass for a part of its own.
pub fn check(data: &[u8]) {
    let Some(certificate) = Certificate::parse(data) else { return };
    for name in [&certificate.subject, &certificate.issuer] {
        let parts = parts(name);
        assert!(
            parts.iter().all(|part| part.split_once('=').is_some_and(|(kind, _)| is_type(kind))),
            "{name:?}"
        );
    }
    let kinds = [NameKind::Dns, NameKind::Ip, NameKind::Email, NameKind::Uri];
    let places = 0..=certificate.alternative_names.len();
    let of_kinds = kinds.map(|kind| places.clone().map(move |place| LoginFrom::AlternativeName(kind, place)));
    let users = of_kinds.into_iter().flatten().filter_map(|from| certificate.user(from));
    // An empty name counts for no user, and is at a place nevertheless.
    assert!(users.inspect(|user| assert!(!user.is_empty())).count() <= certificate.alternative_names.len());
    assert_eq!(certificate.user(LoginFrom::DistinguishedName).unwrap_or_default(), certificate.subject);
    assert_eq!(
        certificate.user(LoginFrom::CommonName),
        certificate.common_name.filter(|name| !name.is_empty())
    );
}

/// Splits a distinguished name where RFC 4514 does: at each `,` and `+` that no backslash precedes.
fn parts(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        if parts.is_empty() || matches!(c, ',' | '+') {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            match c {
                ',' | '+' => {}
                '\\' => part.extend(chars.next()),
                c => part.push(c),
            }
        }
    }
    parts
}

/// A type is a short name or numbers with points between them.
fn is_type(kind: &str) -> bool {
    !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}
