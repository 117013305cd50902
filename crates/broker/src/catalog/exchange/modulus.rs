//! `x-modulus-hash`: a hash of the routing keys chooses one of the bindings. The binding keys do not matter. A
//! message costs one hash. Adding or removing a binding moves nearly every key.

use super::super::{Binding, Destination};
use super::hash::Fnv;
use super::letter::Facts;

/// The destinations, with one entry per binding. They are sorted, so that the order of declarations does not
/// matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Modulus(Vec<Destination>);

impl Modulus {
    pub fn bind(&mut self, binding: &Binding) {
        let at = self.0.partition_point(|d| *d < binding.destination);
        self.0.insert(at, binding.destination.clone());
    }

    pub fn unbind(&mut self, binding: &Binding) {
        if let Ok(at) = self.0.binary_search(&binding.destination) {
            self.0.remove(at);
        }
    }

    pub fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        let mut hash = Fnv::new();
        for key in facts.letter.keys {
            hash.write(key.as_bytes());
            hash.write(&[0]);
        }
        if let Some(at) = hash.finish().checked_rem(self.0.len() as u64) {
            found(&self.0[at as usize]);
        }
    }
}
