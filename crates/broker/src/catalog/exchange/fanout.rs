//! `fanout`: everything to everybody. `x-recent-history` routes like it.

use std::sync::Arc;

use super::super::{Binding, Destination};

/// Destinations, each once, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Destinations(Vec<Destination>);

impl Destinations {
    pub fn insert(&mut self, destination: &Destination) {
        if !self.0.contains(destination) {
            self.0.push(destination.clone());
        }
    }

    pub fn remove(&mut self, destination: &Destination) {
        self.0.retain(|d| d != destination);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Destination> {
        self.0.iter()
    }

    /// Takes a destination away unless one of the bindings that stay still leads there.
    pub fn unbind(&mut self, binding: &Binding, rest: &[Arc<Binding>]) {
        if !rest.iter().any(|b| b.destination == binding.destination) {
            self.remove(&binding.destination);
        }
    }
}
