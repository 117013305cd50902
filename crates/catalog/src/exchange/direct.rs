//! `direct`: the routing key must equal the binding key. A message costs one look-up per key.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::{Binding, Destination};
use super::fanout::Destinations;

#[derive(Clone, Debug, Default)]
pub(super) struct Direct(HashMap<Arc<str>, Destinations>);

impl Direct {
    pub(super) fn bind(&mut self, binding: &Binding) {
        self.0.entry(binding.key.clone()).or_default().insert(binding.destination.clone());
    }

    /// Removes a destination. Called for the last binding with this key and destination.
    pub(super) fn unbind(&mut self, binding: &Binding) {
        if let Some(destinations) = self.0.get_mut(&binding.key) {
            destinations.remove(&binding.destination);
            if destinations.is_empty() {
                self.0.remove(&binding.key);
            }
        }
    }

    pub(super) fn route<'a>(&'a self, key: &str, found: &mut dyn FnMut(&'a Destination)) {
        self.0.get(key).into_iter().flat_map(Destinations::iter).for_each(found);
    }
}
