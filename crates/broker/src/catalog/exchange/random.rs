//! `x-random`: a random binding. `x-local-random`: a random queue of this node. A message costs one random
//! number.

use std::sync::Arc;

use super::super::{Binding, CatalogError, Destination, QueueRecord};
use super::letter::Facts;

/// Bindings in the order in which they were made. A destination that is bound twice is twice as likely.
#[derive(Clone, Debug, Default)]
pub(super) struct Random(Vec<Arc<Binding>>);

impl Random {
    pub fn bind(&mut self, binding: Arc<Binding>) {
        self.0.push(binding);
    }

    /// Removes a binding, which must be the one that was bound.
    pub fn unbind(&mut self, binding: &Arc<Binding>) {
        self.0.retain(|known| !Arc::ptr_eq(known, binding));
    }

    pub fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        if let Some(binding) = self.0.get(facts.draw(self.0.len())) {
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
