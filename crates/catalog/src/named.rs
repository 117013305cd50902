//! Values by name, in little memory.

use amqp10::{Value, encode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::BytesMut;

/// Arguments of a queue, an exchange or a binding, or the definition of a policy. Sorted by name.
///
/// The catalog keeps them for every queue, and most queues have one or two, so they are a slice without spare room: a
/// `BTreeMap` takes 900 bytes for the first. An insertion copies the slice; whoever has many collects them at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments(Box<[(String, Value)]>);

impl Arguments {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.find(name).ok().map(|place| &self.0[place].1)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// Sets a value. Returns the one that it replaces.
    pub fn insert(&mut self, name: String, value: Value) -> Option<Value> {
        match self.find(&name) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.edit(|pairs| pairs.insert(place, (name, value)));
                None
            }
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let place = self.find(name).ok()?;
        Some(self.edit(|pairs| pairs.remove(place)).1)
    }

    /// Returns the arguments in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&String, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Returns the names in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &String> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Returns the name of these arguments in the address of a binding: empty without arguments, else 32 bits of a hash in base64
    /// for URLs. Different arguments can have the same name. It is opaque to clients, which take it from a list of bindings.
    pub fn hash_name(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        // The hash is FNV-1a. It must stay the same across versions, because clients keep it.
        let hash = self
            .encoded()
            .iter()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        URL_SAFE_NO_PAD.encode(hash.to_be_bytes())
    }

    /// Returns the names and the values as AMQP 1.0 encodes them. Equal arguments have the same encoding, and different ones another.
    pub fn encoded(&self) -> BytesMut {
        let mut encoded = BytesMut::new();
        for (name, value) in self.iter() {
            encode::put_str(&mut encoded, name);
            encode::put_value(&mut encoded, value);
        }
        encoded
    }

    /// Returns the bytes of memory that the names and values take.
    pub fn heap_bytes(&self) -> usize {
        let of_pair =
            |(name, value): (&String, &Value)| size_of::<(String, Value)>() + name.len() + value.heap_bytes();
        self.iter().map(of_pair).sum()
    }

    /// Returns the place of an argument, or the place where it would be.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    fn edit<T>(&mut self, change: impl FnOnce(&mut Vec<(String, Value)>) -> T) -> T {
        let mut pairs = std::mem::take(&mut self.0).into_vec();
        let result = change(&mut pairs);
        self.0 = pairs.into_boxed_slice();
        result
    }
}

/// Of several values of one name, the last one stays.
impl FromIterator<(String, Value)> for Arguments {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self(pairs.into_boxed_slice())
    }
}

impl<const N: usize> From<[(String, Value); N]> for Arguments {
    fn from(pairs: [(String, Value); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl IntoIterator for Arguments {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arguments_are_a_sorted_map(
            first in prop::collection::vec((0_u8..12, 0_i32..9), 0..12),
            edits in prop::collection::vec((0_u8..12, prop::option::of(0_i32..9)), 0..24),
        ) {
            let pair = |(name, value): (u8, i32)| (format!("x-{name}"), Value::Int(value));
            let mut model: BTreeMap<_, _> = first.iter().copied().map(pair).collect();
            let mut real: Arguments = first.into_iter().map(pair).collect();
            for (name, value) in edits {
                let name = format!("x-{name}");
                prop_assert_eq!(real.get(&name), model.get(&name));
                prop_assert_eq!(real.contains_key(&name), model.contains_key(&name));
                match value {
                    Some(value) => {
                        let value = Value::Int(value);
                        prop_assert_eq!(real.insert(name.clone(), value.clone()), model.insert(name, value));
                    }
                    None => prop_assert_eq!(real.remove(&name), model.remove(&name)),
                }
                prop_assert_eq!((real.len(), real.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(real.iter().eq(model.iter()) && real.keys().eq(model.keys()));
            }
            prop_assert_eq!(real.into_iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
