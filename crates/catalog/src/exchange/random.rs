//! `x-random`: a random binding. `x-local-random`: a random queue of this node. A message costs one random
//! number.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::{Binding, CatalogError, Destination, QueueRecord};
use super::headers::address;
use super::routable::Facts;

/// Bindings in any order. A destination that is bound twice is twice as likely.
#[derive(Clone, Debug, Default)]
pub(super) struct Random {
    bindings: Vec<Arc<Binding>>,
    /// The place of each binding, by the address of its record, which `bindings` keeps alive.
    places: HashMap<usize, usize>,
}

impl Random {
    pub(super) fn bind(&mut self, binding: Arc<Binding>) {
        self.places.insert(address(&binding), self.bindings.len());
        self.bindings.push(binding);
    }

    /// Removes a binding, which must be the one that was bound. The last one takes its place.
    pub(super) fn unbind(&mut self, binding: &Arc<Binding>) {
        let Some(place) = self.places.remove(&address(binding)) else { return };
        self.bindings.swap_remove(place);
        if let Some(moved) = self.bindings.get(place) {
            self.places.insert(address(moved), place);
        }
    }

    pub(super) fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        if let Some(binding) = self.bindings.get(facts.draw(self.bindings.len())) {
            found(&binding.destination);
        }
    }
}

/// Checks a queue for `x-local-random`. Quorum queues and streams are reached from any node, so none of them is local.
///
/// # Errors
/// The queue is not a classic queue.
pub(super) fn check_local_queue(queue: &QueueRecord) -> Result<(), CatalogError> {
    let kind = match (queue.is_stream(), queue.is_quorum()) {
        (false, false) => return Ok(()),
        (true, _) => "stream",
        (_, true) => "quorum queue",
    };
    let (name, vhost) = (&queue.name, &queue.vhost);
    Err(CatalogError::Invalid {
        reason: format!(
            "x-local-random routes to classic queues only: queue '{name}' in vhost '{vhost}' is a {kind}"
        ),
    })
}

/// Checks a binding for `x-local-random`. Only queues are local to a node, and there is no key to match.
///
/// # Errors
/// The destination is an exchange, or the binding has a key.
pub(super) fn check_local_binding(binding: &Binding) -> Result<(), CatalogError> {
    if !binding.key.is_empty() {
        return Err(CatalogError::Invalid {
            reason: format!(
                "binding key '{}' is not permitted: x-local-random takes the empty key",
                binding.key
            ),
        });
    }
    match binding.destination {
        Destination::Queue(_) => Ok(()),
        Destination::Exchange(_) => Err(CatalogError::Invalid {
            reason: "x-local-random routes to classic queues only, not to exchanges".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::super::Arguments;
    use super::*;

    #[test]
    fn each_binding_is_found_at_its_place() {
        let binding = |n: usize| {
            Arc::new(Binding {
                vhost: "/".into(),
                source: "x".into(),
                destination: Destination::Queue(format!("q{n}").into()),
                key: "".into(),
                arguments: Arguments::new(),
            })
        };
        let (mut random, mut left) = (Random::default(), BTreeSet::new());
        let all: Vec<_> = (0..100).map(binding).collect();
        let mut check = |random: &mut Random, binding: &Arc<Binding>, is_added: bool| {
            if is_added {
                random.bind(binding.clone());
                left.insert(binding.destination.clone());
            } else {
                random.unbind(binding);
                left.remove(&binding.destination);
            }
            let found: BTreeSet<_> =
                random.bindings.iter().map(|binding| binding.destination.clone()).collect();
            assert_eq!((found, random.bindings.len()), (left.clone(), left.len()));
            let is_known = |(place, binding)| random.places.get(&address(binding)) == Some(&place);
            assert!(random.places.len() == left.len() && random.bindings.iter().enumerate().all(is_known));
        };
        all.iter().for_each(|binding| check(&mut random, binding, true));
        // First some in the middle, then the rest from the end.
        all.iter().step_by(3).for_each(|binding| check(&mut random, binding, false));
        all.iter().rev().for_each(|binding| check(&mut random, binding, false));
        assert!(random.bindings.is_empty() && random.places.is_empty());
    }
}
