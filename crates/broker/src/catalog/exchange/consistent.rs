//! `x-consistent-hash`: each destination has as many buckets as its binding key says. A hash of the message decides
//! the bucket. A new destination takes its share from the others, and no message moves between the others.
//!
//! ```text
//!   bindings in their order    a "2"      b "1"   c "3"
//!   buckets                  | 0 | 1 |   | 2 |  | 3 | 4 | 5 |     jump(hash, 6) = 4: c
//! ```
//!
//! A message costs one hash, `ln(buckets)` steps and a binary search. Memory is used per binding, whatever the
//! weights are.

use std::sync::Arc;

use super::super::{Arguments, Binding, CatalogError, Destination};
use super::hash::{Fnv, jump};
use super::letter::{CORRELATION_ID, CREATION_TIME, Facts, MESSAGE_ID};

pub(super) const HASH_HEADER: &str = "hash-header";
pub(super) const HASH_PROPERTY: &str = "hash-property";

/// Properties that may be hashed, and their index in the section [3.2.4].
const PROPERTIES: &[(&str, u32)] =
    &[("message_id", MESSAGE_ID), ("correlation_id", CORRELATION_ID), ("timestamp", CREATION_TIME)];

/// The maximum weight of one binding: the total number of buckets must stay small enough for the hash to spread
/// evenly.
const WEIGHT_MAX: u64 = 1_000_000;

/// The part of a message that is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HashOn {
    Key,
    Header(Arc<str>),
    Property(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Ring {
    on: HashOn,
    /// Destinations in the order of their first bindings, each with the number of the bucket after its last one.
    ends: Vec<(Destination, u64)>,
}

impl Ring {
    pub fn new(arguments: &Arguments) -> Self {
        Self { on: hash_on(arguments).unwrap_or(HashOn::Key), ends: Vec::new() }
    }

    /// Returns true if only the routing key is hashed.
    pub fn by_key_alone(&self) -> bool {
        self.on == HashOn::Key
    }

    /// Adds a binding whose destination must be new.
    pub fn bind(&mut self, binding: &Binding) {
        let Some(weight) = weight(&binding.key) else { return };
        self.ends.push((binding.destination.clone(), self.buckets() + weight));
    }

    /// Rebuilds the buckets. `rest` are the remaining bindings, in their order. Buckets after removed ones move up.
    pub fn rebuild(&mut self, rest: &[&Arc<Binding>]) {
        self.ends.clear();
        let mut seen = hashbrown::HashSet::new();
        for binding in rest {
            if let Some(weight) = weight(&binding.key)
                && seen.insert(&binding.destination)
            {
                self.ends.push((binding.destination.clone(), self.buckets() + weight));
            }
        }
    }

    fn buckets(&self) -> u64 {
        self.ends.last().map_or(0, |(_, end)| *end)
    }

    pub fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        let mut hash = Fnv::new();
        match &self.on {
            HashOn::Key => hash.write(facts.letter.keys.first().map_or(&[][..], |k| k.as_bytes())),
            HashOn::Header(name) => facts.header(name).into_iter().for_each(|v| v.hash(&mut hash)),
            HashOn::Property(index) => facts.property(*index).into_iter().for_each(|v| v.hash(&mut hash)),
        }
        let bucket = jump(hash.finish(), self.buckets());
        if let Some((destination, _)) = self.ends.get(self.ends.partition_point(|(_, end)| *end <= bucket)) {
            found(destination);
        }
    }
}

fn weight(key: &str) -> Option<u64> {
    key.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight))
}

fn hash_on(arguments: &Arguments) -> Result<HashOn, String> {
    let text = |name: &str| {
        let value =
            arguments.get(name).map(|v| v.as_str().ok_or_else(|| format!("'{name}' must be a string")));
        value.transpose()
    };
    match (text(HASH_HEADER)?, text(HASH_PROPERTY)?) {
        (Some(_), Some(_)) => Err(format!("'{HASH_HEADER}' and '{HASH_PROPERTY}' are mutually exclusive")),
        (Some(header), None) => Ok(HashOn::Header(header.into())),
        (None, Some(property)) => {
            let known = PROPERTIES.iter().find(|(name, _)| *name == property);
            known.map(|(_, index)| HashOn::Property(*index)).ok_or_else(|| {
                format!("unsupported '{HASH_PROPERTY}': message_id, correlation_id or timestamp is needed")
            })
        }
        (None, None) => Ok(HashOn::Key),
    }
}

/// Checks the arguments of a declaration.
///
/// # Errors
/// The arguments do not say what to hash, or name both a header and a property.
pub(super) fn check_arguments(name: &str, arguments: &Arguments) -> Result<(), CatalogError> {
    hash_on(arguments).map(drop).map_err(|why| CatalogError::PreconditionFailed {
        reason: format!("invalid arguments for exchange '{name}': {why}"),
    })
}

/// Checks a binding.
///
/// # Errors
/// The binding key is not a weight.
pub(super) fn check_binding(binding: &Binding) -> Result<(), CatalogError> {
    weight(&binding.key).map(drop).ok_or_else(|| CatalogError::Invalid {
        reason: format!(
            "binding key '{}' of a consistent hash exchange must be a weight: a whole number from 1 to {WEIGHT_MAX}",
            binding.key
        ),
    })
}
