//! `x-random`: one binding by chance; `x-local-random`: one queue of this node by chance. One draw per message.

use std::sync::Arc;

use super::super::{Binding, CatalogError, Destination, QueueRecord};
use super::letter::Facts;

/// Bindings in the order in which they came; a destination bound twice has two chances.
#[derive(Clone, Debug, Default)]
pub(super) struct Random(Vec<Arc<Binding>>);

impl Random {
    pub fn bind(&mut self, binding: Arc<Binding>) {
        self.0.push(binding);
    }

    pub fn unbind(&mut self, binding: &Binding) {
        self.0.retain(|b| **b != *binding);
    }

    pub fn route<'a>(&'a self, facts: &Facts<'_>, found: &mut dyn FnMut(&'a Destination)) {
        if let Some(binding) = self.0.get(facts.draw(self.0.len())) {
            found(&binding.destination);
        }
    }
}

/// Streams are read on any node: none is local.
///
/// # Errors
/// The queue is no classic one.
pub(super) fn check_local_queue(queue: &QueueRecord) -> Result<(), CatalogError> {
    if !queue.is_stream() {
        return Ok(());
    }
    let (name, vhost, kind) = (&queue.name, &queue.vhost, queue.kind());
    Err(CatalogError::Invalid {
        reason: format!(
            "x-local-random leads to classic queues only: queue '{name}' in vhost '{vhost}' is a {kind}"
        ),
    })
}

/// Only queues have a node that they are local to, and there is nothing to match.
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
            reason: "x-local-random leads to classic queues only, not to exchanges".into(),
        }),
    }
}
