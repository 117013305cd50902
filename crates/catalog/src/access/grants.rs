//! What the token of a client grants: the scopes of OAuth 2, in RabbitMQ's form.
//!
//! ```text
//!   write:orders/invoices.*/eu.*
//!     |     |       |         `-- routing key, only for topic exchanges; without it, all
//!     |     |       `------------ name of the queue or exchange; without it, all
//!     |     `-------------------- virtual host
//!     `-------------------------- configure, write or read
//! ```
//!
//! In the last three, `*` stands for any characters, and other characters may be percent-encoded. `{vhost}` is the virtual
//! host that is used; the caller replaces other variables.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{Permission, Resource};

/// The variable that stands for the virtual host.
const VHOST: &str = "{vhost}";

/// What stands for it in a pattern that was read. No name has this character, so no text that was decoded is taken for the variable.
const VHOST_READ: &str = "\0";

/// Returns true if `*` in the pattern can stand for characters so that it is the name.
pub fn matches_wildcard(pattern: &str, name: &str) -> bool {
    Wildcard::parse(pattern).is_some_and(|pattern| pattern.is_match(name, ""))
}

/// All that a token grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    grants: Vec<Grant>,
    /// When the token expires, in milliseconds since the epoch. A backend says it by the clock of the system, and the node
    /// passes it on by that of the broker.
    pub expires_ms: u64,
}

impl Grants {
    /// Takes the scopes that are permissions. Others have no meaning here.
    pub fn new<'a>(scopes: impl IntoIterator<Item = &'a str>, expires_ms: u64) -> Self {
        Self { grants: scopes.into_iter().filter_map(Grant::parse).collect(), expires_ms }
    }

    /// Returns the same, with another time at which it expires.
    #[must_use]
    pub fn expiring_at(self, expires_ms: u64) -> Self {
        Self { expires_ms, ..self }
    }

    /// Returns how much memory this takes, in bytes. A scope of many stars takes 16 times its length.
    pub(super) fn bytes(&self) -> usize {
        let of_text = |text: &str| size_of::<Box<str>>() + text.len();
        let of_wildcard =
            |wildcard: &Wildcard| wildcard.texts.iter().map(|text| of_text(text)).sum::<usize>();
        let of_grant =
            |grant: &Grant| [&grant.vhost, &grant.name, &grant.key].map(of_wildcard).iter().sum::<usize>();
        self.grants.iter().map(|grant| size_of::<Grant>() + of_grant(grant)).sum()
    }

    /// Returns true if the token grants something in this virtual host.
    pub(super) fn opens(&self, vhost: &str) -> bool {
        self.grants.iter().any(|grant| grant.vhost.is_match(vhost, vhost))
    }

    pub(super) fn permits(&self, permission: Permission, vhost: &str, resource: Resource<'_>) -> bool {
        self.of(vhost, resource.name()).any(|grant| grant.permission == permission)
    }

    /// Returns true if a key may be used with a topic exchange.
    pub(super) fn permits_key(&self, permission: Permission, vhost: &str, exchange: &str, key: &str) -> bool {
        self.of(vhost, exchange).any(|grant| grant.permission == permission && grant.key.is_match(key, vhost))
    }

    /// Returns true if not all keys of this exchange may be used.
    pub(super) fn limits_keys(&self, vhost: &str, exchange: &str) -> bool {
        self.of(vhost, exchange).any(|grant| !grant.key.is_everything())
    }

    /// Returns the grants for a name in a virtual host.
    fn of<'a>(&'a self, vhost: &'a str, name: &'a str) -> impl Iterator<Item = &'a Grant> {
        self.grants
            .iter()
            .filter(move |grant| grant.vhost.is_match(vhost, vhost) && grant.name.is_match(name, vhost))
    }
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    permission: Permission,
    vhost: Wildcard,
    name: Wildcard,
    key: Wildcard,
}

impl Grant {
    fn parse(scope: &str) -> Option<Self> {
        let (permission, rest) = scope.split_once(':')?;
        let permission = Permission::ALL.into_iter().find(|known| known.as_str() == permission)?;
        let mut parts = rest.splitn(3, '/').map(Wildcard::parse);
        let vhost = parts.next()??;
        let mut part = || parts.next().unwrap_or_else(|| Some(Wildcard::everything()));
        Some(Self { permission, vhost, name: part()?, key: part()? })
    }
}

/// A pattern in which `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wildcard {
    /// The texts before, between and behind the stars.
    texts: Vec<Box<str>>,
}

impl Wildcard {
    fn everything() -> Self {
        Self { texts: vec!["".into(), "".into()] }
    }

    /// Returns `None` if the text has invalid percent escapes, or a control character, which no name has.
    fn parse(text: &str) -> Option<Self> {
        let decode = |text: &str| {
            let parts: Option<Vec<Cow<'_, str>>> =
                text.split(VHOST).map(|part| percent_decode_str(part).decode_utf8().ok()).collect();
            let parts = parts.filter(|parts| !parts.iter().any(|part| part.contains(char::is_control)))?;
            Some(parts.join(VHOST_READ).into())
        };
        let texts: Option<Vec<Box<str>>> = text.split('*').map(decode).collect();
        Some(Self { texts: texts? })
    }

    fn is_everything(&self) -> bool {
        self.texts.len() > 1 && self.texts.iter().all(|text| text.is_empty())
    }

    /// Takes time in proportion to the product of both lengths at most, and to their sum for usual patterns.
    fn is_match(&self, name: &str, vhost: &str) -> bool {
        fn text<'a>(text: &'a str, vhost: &str) -> Cow<'a, str> {
            if text.contains(VHOST_READ) { text.replace(VHOST_READ, vhost).into() } else { text.into() }
        }
        let text = |part| text(part, vhost);
        let Some((first, others)) = self.texts.split_first() else { return false };
        let Some((last, middle)) = others.split_last() else { return *name == *text(first) };
        let Some(rest) = name.strip_prefix(&*text(first)) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*text(last)) else { return false };
        // The first place that fits leaves the most for the texts behind it.
        middle.iter().all(|part| {
            let part = text(part);
            rest.split_once(&*part).map(|(_, behind)| rest = behind).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Wildcard::parse(pattern).unwrap().is_match(name, "v")
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "anything/at all", true),
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a", "A", false),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("aa*aa", "aaa", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("*ab*ab*", "abxab", true),
            ("*ab*ab*", "abxb", false),
            ("a.c", "abc", false),
            ("%2F", "/", true),
            ("%2a", "*", true),
            ("%2a", "x", false),
            ("x-{vhost}-*", "x-v-1", true),
            ("x-{vhost}-*", "x-w-1", false),
            ("x-%7Bvhost%7D", "x-{vhost}", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert_eq!(Wildcard::parse("%ff"), None);
        for placeholder in ["\0", "%00", "x%00", "%00*", "a%0ab"] {
            assert_eq!(Wildcard::parse(placeholder), None, "it must not stand for the virtual host");
        }
    }

    #[test]
    fn the_memory_of_grants_is_counted() {
        let bytes = |scope: &str| Grants::new([scope], 0).bytes();
        assert_eq!(bytes("no-permission"), 0);
        assert_eq!(bytes("read:v/q") + 5, bytes("read:v/quorum"));
        assert_eq!(bytes("read:v/q") + 3 * size_of::<Box<str>>(), bytes("read:v/q***"));
    }

    #[test]
    fn a_match_is_that_of_a_naive_one() {
        fn naive(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern.split_first(), name.split_first()) {
                (None, _) => name.is_empty(),
                (Some((b'*', rest)), None) => naive(rest, name),
                (Some((b'*', rest)), Some((_, behind))) => naive(rest, name) || naive(pattern, behind),
                (Some((c, rest)), Some((d, behind))) => c == d && naive(rest, behind),
                (Some(_), None) => false,
            }
        }
        let words = |letters: &[u8], len: u32| -> Vec<String> {
            let count = letters.len();
            let word = |mut n: usize| {
                let mut next = || (letters[n % count] as char, n /= count).0;
                (0..len).map(|_| next()).collect()
            };
            (0..count.pow(len)).map(word).collect()
        };
        let patterns: Vec<String> = (0..=4).flat_map(|len| words(b"ab*", len)).collect();
        let names: Vec<String> = (0..=5).flat_map(|len| words(b"ab", len)).collect();
        for pattern in &patterns {
            for name in &names {
                let expected = naive(pattern.as_bytes(), name.as_bytes());
                assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
            }
        }
    }

    #[test]
    fn scopes_are_permissions_on_names() {
        let scopes =
            ["read:orders", "write:o*/in.*/eu.#", "configure:%2F/q", "tag:administrator", "x", "read:%ff"];
        let grants = Grants::new(scopes, 0);
        assert_eq!(grants.grants.len(), 3);
        let may = |permission, vhost, name| grants.permits(permission, vhost, Resource::Queue(name));
        assert!(
            grants.opens("orders") && grants.opens("/") && grants.opens("other") && !grants.opens("bills")
        );
        assert!(may(Permission::Read, "orders", "anything") && !may(Permission::Read, "other", "anything"));
        assert!(may(Permission::Write, "orders", "in.1") && !may(Permission::Write, "orders", "out.1"));
        assert!(may(Permission::Configure, "/", "q") && !may(Permission::Configure, "/", "r"));
    }

    #[test]
    fn keys_are_limited_by_the_third_part() {
        let grants = Grants::new(["write:v/x/eu.*", "read:v/x", "write:v/y"], 0);
        let may = |permission, exchange, key| grants.permits_key(permission, "v", exchange, key);
        assert!(may(Permission::Write, "x", "eu.1") && !may(Permission::Write, "x", "us.1"));
        assert!(may(Permission::Read, "x", "us.1") && may(Permission::Write, "y", "us.1"));
        assert!(!may(Permission::Read, "y", "us.1") && !may(Permission::Write, "z", "eu.1"));
        assert!(grants.limits_keys("v", "x") && !grants.limits_keys("v", "y"));
    }
}
