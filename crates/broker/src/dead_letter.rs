//! Dead lettering: a dead letter is routed like any publish to the exchange of its queue's settings, but
//! never in a cycle (docs/compatibility.md, Dead lettering).

use std::sync::Arc;

use catalog::categories::{PEER, QUEUE};
use catalog::ids::QueueId;
use catalog::{Catalog, RouteTarget, Routed};
use message::{Message, Route};

use crate::searches::{Asker, Own, Searches, TooLong};

/// Where a dead letter goes.
#[derive(Clone, Copy, Debug)]
pub struct To<'a> {
    /// The queue where it died.
    pub from: QueueId,
    /// Its number among the dead letters of this queue.
    pub token: u64,
    pub vhost: &'a Arc<str>,
    pub exchange: &'a Arc<str>,
    /// `None`: its keys stay.
    pub key: Option<&'a Arc<str>>,
}

/// Returns a dead letter with its new route, and the queues of that route. There are none if the exchange
/// does not exist, if no queue matches, or if the message would go in a cycle. `random` differs from message
/// to message.
///
/// # Errors
/// The route takes too many steps. The search for it has begun.
pub fn route(
    searches: &mut Searches,
    catalog: &Catalog,
    message: Message,
    to: To<'_>,
    random: u64,
) -> Result<(Message, Routed), TooLong> {
    let To { from, token, vhost, exchange, key } = to;
    let keys = match key {
        Some(key) => vec![key.clone()],
        None => message.route().keys().to_vec(),
    };
    let message = message.rerouted(Arc::new(Route::new(exchange.clone(), keys)));
    let own = Own::DeadLetter(from, token);
    let found = searches.take_found(Asker::Own(own));
    let mut routed =
        searches.route_stored(own, found, catalog, (vhost, exchange), &message, random)?.unwrap_or_default();
    if let Some(deaths) = message.deaths() {
        routed.targets.retain(|target| {
            // A reply link stores nothing, so no message can come back from it in a cycle.
            let RouteTarget::Queue(queue) = target else { return true };
            let queue = catalog.queue_by_id(*queue);
            let name = queue.as_ref().map(|q| &q.name);
            let cycle = name.is_some_and(|name| deaths.is_cycle(name));
            if cycle {
                tracing::warn!(name: PEER, target: QUEUE, queue = name.map_or("", |n| n), vhost = &**vhost, "message dropped: dead-letter cycle");
            }
            !cycle
        });
    }
    Ok((message, routed))
}
