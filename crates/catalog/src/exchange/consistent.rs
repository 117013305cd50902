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

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::super::{Arguments, Binding, CatalogError, Destination};
use super::hash::{Fnv, jump};
use super::routable::{CORRELATION_ID, CREATION_TIME, Facts, MESSAGE_ID};

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
    /// The bindings by their age, with their weights.
    bindings: BTreeMap<u64, (Destination, u64)>,
    /// Destinations in the order of their first bindings, each with the number of the bucket after its last one. Removing a
    /// binding drops them. The next message makes them again, however many bindings were removed before.
    ends: OnceLock<Vec<(Destination, u64)>>,
}

impl Ring {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let on = hash_on(arguments).unwrap_or(HashOn::Key);
        Self { on, bindings: BTreeMap::new(), ends: OnceLock::new() }
    }

    /// Returns true if only the routing key is hashed.
    pub(super) fn by_key_alone(&self) -> bool {
        self.on == HashOn::Key
    }

    /// Adds a binding, which is younger than all others. The first binding of a destination sets its weight. Further ones have no
    /// effect before it is removed.
    pub(super) fn bind(&mut self, age: u64, binding: &Binding, is_first: bool) {
        let Some(weight) = weight(&binding.key) else { return };
        let destination = &binding.destination;
        self.bindings.insert(age, (destination.clone(), weight));
        if let Some(ends) = self.ends.get_mut().filter(|_| is_first) {
            ends.push((destination.clone(), buckets(ends) + weight));
        }
    }

    /// Removes the binding of this age. Buckets after removed ones move up.
    pub(super) fn unbind(&mut self, age: u64) {
        if self.bindings.remove(&age).is_some() {
            self.ends.take();
        }
    }

    fn ends(&self) -> &[(Destination, u64)] {
        self.ends.get_or_init(|| {
            let (mut ends, mut seen) = (Vec::new(), hashbrown::HashSet::new());
            for (destination, weight) in self.bindings.values() {
                if seen.insert(destination) {
                    ends.push((destination.clone(), buckets(&ends) + weight));
                }
            }
            ends
        })
    }

    pub(super) fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        let mut hash = Fnv::new();
        match &self.on {
            HashOn::Key => hash.write(facts.routable.keys.first().map_or(&[][..], |k| k.as_bytes())),
            HashOn::Header(name) => facts.header(name).into_iter().for_each(|v| v.hash(&mut hash)),
            HashOn::Property(index) => facts.property(*index).into_iter().for_each(|v| v.hash(&mut hash)),
        }
        let ends = self.ends();
        let bucket = jump(hash.finish(), buckets(ends));
        if let Some((destination, _)) = ends.get(ends.partition_point(|(_, end)| *end <= bucket)) {
            found(destination);
        }
    }
}

fn buckets(ends: &[(Destination, u64)]) -> u64 {
    ends.last().map_or(0, |(_, end)| *end)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bindings come and go at random. The buckets are those that a naive walk over the bindings in their order gives, and are made for a
    /// message and not for a removal.
    #[test]
    fn removing_a_binding_does_not_rebuild_the_buckets() {
        let mut seed = 3_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let (mut ring, mut naive) = (Ring::new(&Arguments::new()), Vec::<(u64, Destination, u64)>::new());
        for age in 0..2_000 {
            if random(2) == 0 {
                let weight = 1 + random(9) as u64;
                let binding = Binding {
                    vhost: "/".into(),
                    source: "x".into(),
                    destination: Destination::Queue(format!("q{}", random(20)).into()),
                    key: weight.to_string().into(),
                    arguments: Arguments::new(),
                };
                let is_first = naive.iter().all(|(_, destination, _)| *destination != binding.destination);
                ring.bind(age, &binding, is_first);
                naive.push((age, binding.destination, weight));
            } else if !naive.is_empty() {
                let (age, ..) = naive.remove(random(naive.len()));
                ring.unbind(age);
                assert!(ring.ends.get().is_none(), "{age}");
            }
            if random(3) == 0 {
                let (mut expected, mut end) = (Vec::new(), 0);
                for (_, destination, weight) in &naive {
                    if expected.iter().all(|(known, _)| known != destination) {
                        end += weight;
                        expected.push((destination.clone(), end));
                    }
                }
                assert_eq!(ring.ends(), expected, "{age}");
            }
        }
    }
}
