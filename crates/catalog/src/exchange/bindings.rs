//! The bindings of one exchange. Finding one takes a few comparisons, also among a million of them. The same is true
//! for finding the bindings of one destination, and the bindings from a certain age on.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::super::{Arguments, Binding, Destination};

/// The destination, the key, the hash of the arguments, and the age of a binding.
type BindingKey = (Destination, Arc<str>, u64, u64);

/// The bindings of one exchange in two orders; see the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Bindings {
    all: BTreeMap<BindingKey, Arc<Binding>>,
    ages: BTreeMap<u64, Arc<Binding>>,
    next_age: u64,
}

impl Bindings {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns all bindings, ordered by destination and key. The order of those that differ only in their arguments is arbitrary, but
    /// always the same.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Binding>> {
        self.all.values()
    }

    /// Returns all bindings in the order in which they were made.
    pub(crate) fn by_age(&self) -> Vec<&Arc<Binding>> {
        self.ages.values().collect()
    }

    /// Returns the bindings from this age on in the order in which they were made, each with its age.
    pub(crate) fn since_age(&self, age: u64) -> impl Iterator<Item = (u64, &Arc<Binding>)> {
        self.ages.range(age..).map(|(age, binding)| (*age, binding))
    }

    pub(crate) fn has(&self, binding: &Binding) -> bool {
        self.place(binding).is_some()
    }

    /// Adds a binding, which must be new. Returns its age.
    pub(crate) fn insert(&mut self, binding: Arc<Binding>) -> u64 {
        let age = self.next_age;
        self.next_age += 1;
        self.ages.insert(age, binding.clone());
        let hash = hash(&binding.arguments);
        self.all.insert((binding.destination.clone(), binding.key.clone(), hash, age), binding);
        age
    }

    /// Removes a binding. Returns its age and the one that was inserted. `None` if there was none.
    pub(crate) fn remove(&mut self, binding: &Binding) -> Option<(u64, Arc<Binding>)> {
        let place = self.place(binding)?;
        self.ages.remove(&place.3);
        Some((place.3, self.all.remove(&place)?))
    }

    /// Returns the bindings to this destination.
    pub(crate) fn to(&self, destination: &Destination) -> impl Iterator<Item = &Arc<Binding>> {
        // The search starts at the empty key, because it is the first in the order.
        let first = (destination.clone(), Arc::from(""), 0, 0);
        let all = self.all.range(first..).map(|(_, binding)| binding);
        let destination = destination.clone();
        all.take_while(move |binding| binding.destination == destination)
    }

    /// Returns the exchanges that are destinations, once for each binding.
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &Arc<str>> {
        // In the order of places, exchanges come after all queues.
        let first = (Destination::Exchange(Arc::from("")), Arc::from(""), 0, 0);
        self.all.range(first..).filter_map(|(place, _)| match &place.0 {
            Destination::Exchange(name) => Some(name),
            Destination::Queue(_) => None,
        })
    }

    /// Returns the bindings with the same destination and the same key.
    pub(crate) fn beside(&self, binding: &Binding) -> impl Iterator<Item = &Arc<Binding>> {
        self.range(binding, 0..=u64::MAX).map(|(_, binding)| binding)
    }

    fn place(&self, binding: &Binding) -> Option<BindingKey> {
        let known = self.candidates(binding).find(|(_, known)| known.arguments == binding.arguments);
        known.map(|(place, _)| place.clone())
    }

    /// Returns the bindings whose arguments must be compared to find this one.
    fn candidates(&self, binding: &Binding) -> impl Iterator<Item = (&BindingKey, &Arc<Binding>)> {
        let hash = hash(&binding.arguments);
        self.range(binding, hash..=hash)
    }

    fn range(
        &self,
        binding: &Binding,
        hashes: RangeInclusive<u64>,
    ) -> impl Iterator<Item = (&BindingKey, &Arc<Binding>)> {
        let place = |hash, age| (binding.destination.clone(), binding.key.clone(), hash, age);
        self.all.range(place(*hashes.start(), 0)..=place(*hashes.end(), u64::MAX))
    }
}

/// Returns a hash of the arguments, which is 0 if there are none. Equal arguments have the same hash. Clients choose the arguments, so
/// the hash must be one for which nobody can find many arguments with the same hash.
fn hash(arguments: &Arguments) -> u64 {
    if arguments.is_empty() {
        return 0;
    }
    let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = Sha256::digest(arguments.encoded()).into();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use amqp10::Value;

    use super::*;

    fn binding(queue: &str, key: &str, argument: Option<u32>) -> Arc<Binding> {
        Arc::new(Binding {
            vhost: "/".into(),
            source: "x".into(),
            destination: Destination::Queue(queue.into()),
            key: key.into(),
            arguments: argument.map(|n| ("n".to_owned(), Value::Uint(n))).into_iter().collect::<Arguments>(),
        })
    }

    #[test]
    fn a_binding_is_identified_by_destination_key_and_arguments() {
        let mut bindings = Bindings::default();
        let made =
            [("b", "k", None), ("a", "k", Some(1)), ("a", "k", Some(2)), ("a", "", None), ("a", "l", None)];
        let made: Vec<_> = made.into_iter().map(|(queue, key, n)| binding(queue, key, n)).collect();
        made.iter().for_each(|binding| _ = bindings.insert(binding.clone()));
        assert_eq!(bindings.by_age(), made.iter().collect::<Vec<_>>());
        let to = |queue: &str| Destination::Queue(queue.into());
        let beside = |bindings: &Bindings, at: usize| bindings.beside(&made[at]).count();
        assert_eq!([bindings.to(&to("a")).count(), bindings.to(&to("b")).count()], [4, 1]);
        assert_eq!([bindings.to(&to("")).count(), bindings.to(&to("c")).count()], [0, 0]);
        assert!(bindings.to(&Destination::Exchange("a".into())).next().is_none());
        assert!(
            !bindings.has(&binding("a", "k", None)) && bindings.remove(&binding("a", "k", Some(3))).is_none()
        );
        assert_eq!(
            (beside(&bindings, 1), bindings.remove(&made[1]), beside(&bindings, 1)),
            (2, Some((1, made[1].clone())), 1)
        );
        assert!(!bindings.has(&made[1]) && bindings.has(&made[2]));
        assert_eq!(bindings.len(), 4);
    }

    /// Bindings of headers exchanges usually have the same key, and differ only in their arguments.
    #[test]
    fn a_binding_is_compared_with_few_others() {
        let mut bindings = Bindings::default();
        let made: Vec<_> = (0..1_000).map(|n| binding("q", "", Some(n))).collect();
        made.iter().for_each(|binding| _ = bindings.insert(binding.clone()));
        assert_eq!(bindings.candidates(&binding("q", "", None)).count(), 0);
        for binding in &made {
            assert_eq!(bindings.candidates(binding).count(), 1);
            assert_eq!(bindings.beside(binding).count(), 1_000);
        }
        for (removed, binding) in made.iter().enumerate() {
            assert_eq!(bindings.len(), made.len() - removed);
            assert!(bindings.remove(binding).is_some_and(|(_, removed)| Arc::ptr_eq(&removed, binding)));
            assert!(!bindings.has(binding));
        }
    }

    #[test]
    fn equal_arguments_have_one_hash() {
        let value = |at: usize| match at {
            0 => Value::Int(1),
            1 => Value::Long(1),
            2 => Value::Double(0.0),
            3 => Value::Double(-0.0),
            4 => Value::Double(f64::NAN),
            5 => Value::from("1"),
            6 => Value::List(vec![Value::from("1")]),
            _ => Value::Null,
        };
        let arguments = |pairs: &[(&str, usize)]| -> Arguments {
            pairs.iter().map(|(name, at)| ((*name).to_owned(), value(*at))).collect()
        };
        let mut all: Vec<_> = (0..8).map(|at| arguments(&[("a", at)])).collect();
        all.extend([arguments(&[]), arguments(&[("b", 0)]), arguments(&[("a", 0), ("b", 0)])]);
        for a in &all {
            for b in &all {
                assert_eq!(hash(a) == hash(&b.clone()), a == b, "{a:?} {b:?}");
            }
        }
        assert_eq!(hash(&arguments(&[("a", 0), ("b", 1)])), hash(&arguments(&[("b", 1), ("a", 0)])));
    }
}
