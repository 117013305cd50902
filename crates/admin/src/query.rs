//! The query part of a URL.

use percent_encoding::percent_decode;

use crate::reply::Failure;

/// The most columns that a request names. Each field of each row is compared with all of them. No row has as many fields.
const COLUMNS_MAX: usize = 256;

/// Decoded names and values. The first value of a name counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses any text. Invalid UTF-8 is replaced.
    pub(crate) fn parse(raw: &str) -> Self {
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

    /// Checks what would cost too much, whatever the request asks for.
    ///
    /// # Errors
    /// 400 if it names more columns than a row has.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let columns = self.0.iter().filter(|(name, _)| name == "columns");
        match columns.map(|(_, wanted)| wanted.split(',').count()).max() {
            Some(count) if count > COLUMNS_MAX => Err(Failure::bad_request(format!(
                "the request names {count} columns: at most {COLUMNS_MAX} are possible"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        #[cfg(test)]
        reads::note(self, name);
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Returns all values of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Returns true only for `name=true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Returns a number.
    ///
    /// # Errors
    /// 400 if it is not a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, Failure> {
        let bad = |_| Failure::bad_request(format!("'{name}' is not a whole number"));
        self.get(name).map(|v| v.parse().map_err(bad)).transpose()
    }
}

/// What handlers have read, for the test of the OpenAPI document.
#[cfg(test)]
pub(crate) mod reads {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Mutex, PoisonError};

    use super::Query;

    /// The parameter with which a test marks its requests. No handler reads it.
    pub(crate) const MARK: &str = "mark";

    static READS: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

    /// Notes that a parameter was read, if the request is marked.
    pub(crate) fn note(query: &Query, name: &str) {
        if let Some((_, mark)) = query.0.iter().find(|(name, _)| name == MARK) {
            let mut reads = READS.lock().unwrap_or_else(PoisonError::into_inner);
            reads.entry(mark.clone()).or_default().insert(name.to_owned());
        }
    }

    /// Returns the names of the parameters that were read from requests with this mark.
    pub(crate) fn of(mark: &str) -> BTreeSet<String> {
        let reads = READS.lock().unwrap_or_else(PoisonError::into_inner);
        reads.get(mark).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_few_columns() {
        let check =
            |count: usize| Query::parse(&format!("a=1&columns={}", vec!["name"; count].join(","))).check();
        assert!(check(1).is_ok() && check(COLUMNS_MAX).is_ok());
        assert_eq!(
            check(COLUMNS_MAX + 1).unwrap_err().text(),
            "the request names 257 columns: at most 256 are possible"
        );
    }
}
