//! Dead lettering: a dead letter is routed like any publish to the exchange of its queue's settings, but
//! never in a cycle (docs/compatibility.md, Dead lettering).

use std::sync::Arc;

use message::{Message, Route};

use crate::catalog::{Catalog, Letter, RouteTarget, Routed};
use crate::categories::{PEER, QUEUE};

/// Returns a dead letter with its new route, and the queues of that route. There are none if the exchange
/// does not exist, if no queue matches, or if the message would go in a cycle. `random` differs from message
/// to message.
pub fn route(
    catalog: &Catalog,
    vhost: &str,
    message: Message,
    exchange: &Arc<str>,
    key: Option<&Arc<str>>,
    random: u64,
) -> (Message, Routed) {
    let keys = match key {
        Some(key) => vec![key.clone()],
        None => message.route().keys().to_vec(),
    };
    let message = message.rerouted(Arc::new(Route::new(exchange.clone(), keys)));
    let letter = Letter::of_message(&message, random);
    let mut routed = catalog.route(vhost, exchange, &letter).unwrap_or_default();
    if let Some(deaths) = message.deaths() {
        routed.targets.retain(|target| {
            // A reply link stores nothing, so no message can come back from it in a cycle.
            let RouteTarget::Queue(queue) = target else { return true };
            let queue = catalog.queue_by_id(*queue);
            let name = queue.as_ref().map(|q| &q.name);
            let cycle = name.is_some_and(|name| deaths.is_cycle(name));
            if cycle {
                tracing::warn!(name: PEER, target: QUEUE, queue = name.map_or("", |n| n), vhost, "message dropped: dead-letter cycle");
            }
            !cycle
        });
    }
    (message, routed)
}
