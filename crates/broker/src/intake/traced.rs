//! Copies of published messages for traces.

use std::sync::Arc;

use catalog::RouteTarget;
use message::Route;

use super::{Arrived, Sender};
use crate::cx::Cx;
use crate::traces::{Passing, Traces, traced_copy};

/// Copies a message that a client has published, if it is traced. `targets` is where it goes.
#[cold]
pub(super) fn trace_published(
    traces: &Traces,
    sender: Sender<'_>,
    (arrived, route): (Arrived<'_>, &Arc<Route>),
    targets: &[RouteTarget],
    cx: &mut Cx<'_>,
) {
    let user = sender.identity.map_or("", |who| &who.user);
    let Sender { vhost, connection, part, .. } = sender;
    let passing = Passing { vhost, connection, part, user };
    let names: Vec<Arc<str>> = targets
        .iter()
        .filter_map(|target| match target {
            RouteTarget::Queue(queue) => cx.catalog.queue_by_id(*queue).map(|queue| queue.name.clone()),
            RouteTarget::Direct(_) => None,
        })
        .collect();
    let Some(claimed) = traces.claim(&passing, cx.now_ms, |queue| names.iter().any(|name| **name == *queue))
    else {
        return;
    };
    let message = arrived.to_message(route, cx.settings.durable_by_default);
    let key = format!("publish.{}", route.exchange());
    let notice = traced_copy(&message, &key, &passing, &claimed, &cx.settings.node_name, |headers| {
        headers.texts("routed_queues", names.iter().map(|name| &**name));
    });
    cx.post.notices.push(notice);
}
