//! Moves a connection to the shard that owns the queue of its first link (the queue's home). Then the two exchange no
//! mail between shards (docs/decisions/0017).
//!
//! ```text
//!                 a link to a queue with another home
//!   Undecided ──────────────────────────────────────────▶ Held ── released there, or here ──▶ Decided
//!       └──── a link to a queue whose home is here, or the connection is known to others ────────▲
//! ```
//!
//! The request for the link is held, and the gate reads nothing after it. So the connection can move to the other shard
//! while no other component knows it. A connection is held once in its life.

use std::sync::Arc;

use catalog::ids::ShardId;
use catalog::{Catalog, Routable, RouteTarget};

use crate::placements::Placements;

/// Says whether a connection is on its final shard. `H` is the request for a link, which may be held.
#[derive(Debug, Default)]
pub enum Follow<H> {
    /// The connection has no link to a queue yet.
    #[default]
    Undecided,
    Held(Box<WaitingLink<H>>),
    Decided,
}

/// A link that waits until its connection is on its final shard.
#[derive(Debug)]
pub struct WaitingLink<H> {
    request: H,
    to: ShardId,
}

impl<H> Follow<H> {
    /// Returns true if the next link to a queue decides.
    pub fn is_undecided(&self) -> bool {
        matches!(self, Self::Undecided)
    }

    /// Decides that the connection stays on its shard.
    pub fn stay(&mut self) {
        *self = Self::Decided;
    }

    /// Decides by a link to a queue whose home is `home`. Returns the request if it need not be held.
    pub fn decide(&mut self, request: H, home: ShardId, here: ShardId) -> Option<H> {
        if home == here {
            self.stay();
            return Some(request);
        }
        *self = Self::Held(Box::new(WaitingLink { request, to: home }));
        None
    }

    /// Returns the shard to which the connection is to move. Until [`Follow::take_held`] is called, there or here, it takes
    /// no input.
    pub fn moves_to(&self) -> Option<ShardId> {
        match self {
            Self::Held(held) => Some(held.to),
            Self::Undecided | Self::Decided => None,
        }
    }

    /// Returns the request that was held. The connection is on its final shard now.
    pub fn take_held(&mut self) -> Option<H> {
        match std::mem::replace(self, Self::Decided) {
            Self::Held(held) => Some(held.request),
            Self::Undecided | Self::Decided => None,
        }
    }
}

/// Returns the home of a queue, if the queue exists and has a home.
pub fn home_of_queue(catalog: &Catalog, placements: &Placements, vhost: &str, name: &str) -> Option<ShardId> {
    placements.home(catalog.listed_queue(vhost, name)?.id).here()
}

/// The most steps to find the route of the first message of a connection before it is published. Routes that take more reach many
/// queues, as a rule.
const FOLLOW_STEPS_MAX: u64 = 1000;

/// Returns the home of the queue that every message with this key reaches, if there is exactly one such queue.
pub fn home_of_route(
    catalog: &Catalog,
    placements: &Placements,
    vhost: &str,
    exchange: &str,
    key: &str,
) -> Option<ShardId> {
    let keys: [Arc<str>; 1] = [key.into()];
    let routed = catalog
        .route_within(vhost, exchange, &Routable { keys: &keys, ..Routable::default() }, FOLLOW_STEPS_MAX)
        .ok()?;
    match routed.targets[..] {
        [RouteTarget::Queue(queue)] if routed.by_key_alone => placements.home(queue).here(),
        _ => None,
    }
}
