//! Remembers which definitions were carried out last, so that a start can skip those that have not changed
//! (`definitions.skip_if_unchanged`).
//!
//! Their hash is a global parameter, as in RabbitMQ. It is in the same batch as the definitions, so it never names definitions
//! that were not carried out. An import over HTTP removes it: after that, the definitions of the start are no longer the last ones.

use std::fmt::Write as _;
use std::sync::Arc;

use catalog::{Command, ParameterKey};
use sha2::{Digest as _, Sha256};

/// RabbitMQ's name of the parameter.
const NAME: &str = "imported_definition_hash_value";

/// Returns the key of the parameter.
pub(super) fn key() -> ParameterKey {
    ParameterKey { vhost: None, component: "".into(), name: NAME.into() }
}

/// Returns true if this global parameter is the hash. It says nothing about another broker, so it is neither exported nor imported.
pub(super) fn is_hash(name: &str) -> bool {
    name == NAME
}

/// Returns the command that stores the hash, or removes the one that is stored.
pub(super) fn command(hash: Option<Arc<str>>) -> Command {
    match hash {
        Some(value) => Command::SetParameter { key: key(), value },
        None => Command::ClearParameter { key: key() },
    }
}

/// The hash of the texts that were added, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Hasher(Sha256);

impl Hasher {
    pub(super) fn add(&mut self, text: &str) {
        // The length says where each text ends.
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    /// Returns the hash as the JSON value of a parameter.
    pub(super) fn value(&self) -> Arc<str> {
        let mut value = String::from("\"");
        for byte in self.0.clone().finalize() {
            let _ = write!(value, "{byte:02x}");
        }
        value.push('"');
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_the_texts_and_their_borders() {
        let of = |texts: &[&str]| {
            let mut hasher = Hasher::default();
            texts.iter().for_each(|text| hasher.add(text));
            hasher.value()
        };
        assert_eq!(of(&["{}", "[]"]), of(&["{}", "[]"]));
        let others = [of(&["{}", "[]"]), of(&["[]", "{}"]), of(&["{}[]"]), of(&["{}"]), of(&[])];
        for (at, one) in others.iter().enumerate() {
            assert!(!others[..at].contains(one) && one.len() == 66, "{one}");
        }
    }
}
