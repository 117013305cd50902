//! The query part of a URL.

use percent_encoding::percent_decode;

use crate::reply::Failure;

/// Decoded names and values. The first value of a name counts.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses any text. Invalid UTF-8 is replaced.
    pub fn parse(raw: &str) -> Self {
        let decode = |s: &str| {
            let spaced: Vec<u8> = s.bytes().map(|b| if b == b'+' { b' ' } else { b }).collect();
            percent_decode(&spaced).decode_utf8_lossy().into_owned()
        };
        let pairs = raw.split('&').filter(|p| !p.is_empty());
        Self(
            pairs
                .map(|p| p.split_once('=').unwrap_or((p, "")))
                .map(|(k, v)| (decode(k), decode(v)))
                .collect(),
        )
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Returns all values of a name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Returns true only for `name=true`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Returns a number.
    ///
    /// # Errors
    /// 400 if it is not a whole number.
    pub fn number(&self, name: &str) -> Result<Option<usize>, Failure> {
        let bad = |_| Failure::bad_request(format!("'{name}' is not a whole number"));
        self.get(name).map(|v| v.parse().map_err(bad)).transpose()
    }
}
