//! The further routing keys of a message: `CC` and `BCC` of AMQP 0.9.1, `x-cc` of AMQP 1.0.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Collects the further routing keys of one message, each once.
#[derive(Debug, Default)]
pub struct FurtherKeys<'a>(BTreeSet<&'a str>);

impl<'a> FurtherKeys<'a> {
    /// The most further routing keys of one message. Each of them is compared with the bindings of an exchange.
    pub const MAX: usize = 256;

    /// Returns the key if it is new.
    ///
    /// # Errors
    /// There are more than [`Self::MAX`] keys.
    pub fn add(&mut self, key: &'a str) -> Result<Option<Arc<str>>, TooManyKeys> {
        if !self.0.insert(key) {
            return Ok(None);
        }
        if self.0.len() > Self::MAX {
            return Err(TooManyKeys);
        }
        Ok(Some(key.into()))
    }
}

/// A message has more than [`FurtherKeys::MAX`] further routing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyKeys;

impl fmt::Display for TooManyKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} different routing keys", FurtherKeys::MAX)
    }
}

impl std::error::Error for TooManyKeys {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_once() {
        let texts: Vec<String> = (0..=FurtherKeys::MAX).map(|n| n.to_string()).collect();
        let mut keys = FurtherKeys::default();
        for text in &texts[..FurtherKeys::MAX] {
            assert_eq!(keys.add(text), Ok(Some(text.as_str().into())));
            assert_eq!(keys.add(text), Ok(None));
        }
        assert_eq!(keys.add(&texts[FurtherKeys::MAX]), Err(TooManyKeys));
    }
}
