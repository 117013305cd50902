//! A connection follows the queue of its first link to the shard where that queue lives: what stays on one shard needs no
//! mail between two (docs/decisions/0017).
//!
//! ```text
//!                 a link to a queue that lives elsewhere
//!   Undecided ────────────────────────────────────────────▶ Held ── released there, or not ──▶ Decided
//!       └────────────── a link to one that lives here, or while others know the connection ──────▲
//! ```
//!
//! What asks for the link is held, and the gate looks at nothing behind it. So whoever has both shards can take the connection
//! over while nobody else knows of it. A connection is held once in its life.

use std::sync::Arc;

use crate::catalog::{Catalog, Letter, RouteTarget};
use crate::ids::ShardId;
use crate::placements::Placements;

/// Whether a connection is where it belongs. `H` asks for a link.
#[derive(Debug, Default)]
pub enum Follow<H> {
    /// It has no link to a queue.
    #[default]
    Undecided,
    Held(Box<Held<H>>),
    Decided,
}

/// A link that waits for its connection to be in its place.
#[derive(Debug)]
pub struct Held<H> {
    asked: H,
    to: ShardId,
}

impl<H> Follow<H> {
    /// Whether the next link to a queue decides.
    pub fn is_undecided(&self) -> bool {
        matches!(self, Self::Undecided)
    }

    /// The connection stays where it is.
    pub fn stay(&mut self) {
        *self = Self::Decided;
    }

    /// A link to a queue that lives on the shard `home` decides. Returns what asks for it if it need not be held.
    pub fn decide(&mut self, asked: H, home: ShardId, here: ShardId) -> Option<H> {
        if home == here {
            self.stay();
            return Some(asked);
        }
        *self = Self::Held(Box::new(Held { asked, to: home }));
        None
    }

    /// The shard to which the connection is to be taken. Until it goes on, there or here, it takes no input.
    pub fn wants_to(&self) -> Option<ShardId> {
        match self {
            Self::Held(held) => Some(held.to),
            Self::Undecided | Self::Decided => None,
        }
    }

    /// Returns what was held: the connection is in its place now.
    pub fn go_on(&mut self) -> Option<H> {
        match std::mem::replace(self, Self::Decided) {
            Self::Held(held) => Some(held.asked),
            Self::Undecided | Self::Decided => None,
        }
    }
}

/// The shard on which a queue lives, if there is such a queue and it has a home.
pub fn home_of_queue(catalog: &Catalog, placements: &Placements, vhost: &str, name: &str) -> Option<ShardId> {
    placements.home(catalog.queue(vhost, name)?.id)
}

/// The shard on which the queue lives that every message with this key reaches, if there is only one.
pub fn home_of_route(
    catalog: &Catalog,
    placements: &Placements,
    vhost: &str,
    exchange: &str,
    key: &str,
) -> Option<ShardId> {
    let keys: [Arc<str>; 1] = [key.into()];
    let routed = catalog.route(vhost, exchange, &Letter { keys: &keys, ..Letter::default() })?;
    match routed.targets[..] {
        [RouteTarget::Queue(queue)] if routed.by_key_alone => placements.home(queue),
        _ => None,
    }
}
