//! The bindings of one exchange. Finding one takes a few comparisons, also among a million of them. The same is true
//! for finding the bindings of one destination, and the bindings from a certain age on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{Binding, Destination};

/// The destination, the key and the age of a binding. Bindings that differ only in their arguments are sorted by age,
/// the oldest first.
type Place = (Destination, Arc<str>, u64);

/// The bindings of one exchange in two orders; see the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Bindings {
    all: BTreeMap<Place, Arc<Binding>>,
    ages: BTreeMap<u64, Arc<Binding>>,
    next_age: u64,
}

impl Bindings {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns all bindings, ordered by destination, key and age.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Binding>> {
        self.all.values()
    }

    /// Returns all bindings in the order in which they were made.
    pub fn by_age(&self) -> Vec<&Arc<Binding>> {
        self.ages.values().collect()
    }

    /// Returns the bindings from this age on in the order in which they were made, each with its age.
    pub fn since_age(&self, age: u64) -> impl Iterator<Item = (u64, &Arc<Binding>)> {
        self.ages.range(age..).map(|(age, binding)| (*age, binding))
    }

    pub fn has(&self, binding: &Binding) -> bool {
        self.place(binding).is_some()
    }

    /// Adds a binding, which must be new.
    pub fn insert(&mut self, binding: Arc<Binding>) {
        let age = self.next_age;
        self.next_age += 1;
        self.ages.insert(age, binding.clone());
        self.all.insert((binding.destination.clone(), binding.key.clone(), age), binding);
    }

    /// Removes a binding. Returns false if there was none.
    pub fn remove(&mut self, binding: &Binding) -> bool {
        let Some(place) = self.place(binding) else { return false };
        self.ages.remove(&place.2);
        self.all.remove(&place).is_some()
    }

    /// Returns the bindings to this destination.
    pub fn to(&self, destination: &Destination) -> impl Iterator<Item = &Arc<Binding>> {
        // The search starts at the empty key, because it is the first in the order.
        let first = (destination.clone(), Arc::from(""), 0);
        let all = self.all.range(first..).map(|(_, binding)| binding);
        let destination = destination.clone();
        all.take_while(move |binding| binding.destination == destination)
    }

    /// Returns the exchanges that are destinations, once for each binding.
    pub fn exchanges(&self) -> impl Iterator<Item = &Arc<str>> {
        // In the order of places, exchanges come after all queues.
        let first = (Destination::Exchange(Arc::from("")), Arc::from(""), 0);
        self.all.range(first..).filter_map(|(place, _)| match &place.0 {
            Destination::Exchange(name) => Some(name),
            Destination::Queue(_) => None,
        })
    }

    /// Returns the bindings with the same destination and the same key.
    pub fn beside(&self, binding: &Binding) -> impl Iterator<Item = &Arc<Binding>> {
        self.range(binding).map(|(_, binding)| binding)
    }

    fn place(&self, binding: &Binding) -> Option<Place> {
        let known = self.range(binding).find(|(_, known)| known.arguments == binding.arguments);
        known.map(|(place, _)| place.clone())
    }

    fn range(&self, binding: &Binding) -> impl Iterator<Item = (&Place, &Arc<Binding>)> {
        let place = |age| (binding.destination.clone(), binding.key.clone(), age);
        self.all.range(place(0)..=place(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use amqp10::Value;

    use super::super::super::Arguments;
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
        made.iter().for_each(|binding| bindings.insert(binding.clone()));
        assert_eq!(bindings.by_age(), made.iter().collect::<Vec<_>>());
        let to = |queue: &str| Destination::Queue(queue.into());
        let beside = |bindings: &Bindings, at: usize| bindings.beside(&made[at]).count();
        assert_eq!([bindings.to(&to("a")).count(), bindings.to(&to("b")).count()], [4, 1]);
        assert_eq!([bindings.to(&to("")).count(), bindings.to(&to("c")).count()], [0, 0]);
        assert!(bindings.to(&Destination::Exchange("a".into())).next().is_none());
        assert!(!bindings.has(&binding("a", "k", None)) && !bindings.remove(&binding("a", "k", Some(3))));
        assert_eq!((beside(&bindings, 1), bindings.remove(&made[1]), beside(&bindings, 1)), (2, true, 1));
        assert!(!bindings.has(&made[1]) && bindings.has(&made[2]));
        assert_eq!(bindings.len(), 4);
    }
}
