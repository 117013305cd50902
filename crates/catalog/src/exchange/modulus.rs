//! `x-modulus-hash`: a hash of the routing keys chooses one of the bindings. The binding keys do not matter. A
//! message costs one hash. Adding or removing a binding moves nearly every key.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::super::{Binding, Destination};
use super::hash::Fnv;
use super::routable::Facts;

/// The destinations, with the number of their bindings.
#[derive(Clone, Debug, Default)]
pub(super) struct Modulus {
    counts: BTreeMap<Destination, usize>,
    /// The destinations, with one entry per binding. They are sorted, so that the order of declarations does not
    /// matter. Removing a binding drops them. The next message makes them again, however many bindings were removed before.
    sorted: OnceLock<Vec<Destination>>,
}

impl Modulus {
    pub(super) fn bind(&mut self, binding: &Binding) {
        *self.counts.entry(binding.destination.clone()).or_default() += 1;
        if let Some(sorted) = self.sorted.get_mut() {
            let at = sorted.partition_point(|d| *d < binding.destination);
            sorted.insert(at, binding.destination.clone());
        }
    }

    pub(super) fn unbind(&mut self, binding: &Binding) {
        let Some(count) = self.counts.get_mut(&binding.destination) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&binding.destination);
        }
        self.sorted.take();
    }

    fn sorted(&self) -> &[Destination] {
        self.sorted.get_or_init(|| {
            let each = |(destination, count): (&Destination, &usize)| {
                std::iter::repeat_n(destination.clone(), *count)
            };
            self.counts.iter().flat_map(each).collect()
        })
    }

    pub(super) fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        let mut hash = Fnv::new();
        for key in facts.routable.keys {
            hash.write(key.as_bytes());
            hash.write(&[0]);
        }
        let sorted = self.sorted();
        if let Some(at) = hash.finish().checked_rem(sorted.len() as u64) {
            found(&sorted[at as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Arguments;
    use super::*;

    /// Bindings come and go at random. The entries are those of a sorted list, and are made for a message and not for a removal.
    #[test]
    fn removing_a_binding_does_not_move_the_others() {
        let mut seed = 5_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let (mut modulus, mut naive) = (Modulus::default(), Vec::new());
        for round in 0..2_000 {
            let binding = Binding {
                vhost: "/".into(),
                source: "x".into(),
                destination: Destination::Queue(format!("q{}", random(20)).into()),
                key: "".into(),
                arguments: Arguments::new(),
            };
            if random(2) == 0 {
                modulus.bind(&binding);
                naive.push(binding.destination.clone());
                naive.sort();
            } else if let Ok(at) = naive.binary_search(&binding.destination) {
                naive.remove(at);
                modulus.unbind(&binding);
                assert!(modulus.sorted.get().is_none(), "{round}");
            }
            if random(3) == 0 {
                assert_eq!(modulus.sorted(), naive, "{round}");
            }
        }
    }
}
