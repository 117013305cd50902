//! A connection follows the queue of its first link to the shard where that queue lives: what stays on one shard needs no
//! mail between two (docs/decisions/0017).
//!
//! ```text
//!                 ATTACH to a queue that lives elsewhere
//!   Undecided ─────────────────────────────────────────────▶ Held ── released there, or not ──▶ Decided
//!       └────────────── ATTACH to one that lives here, or while others know the connection ───────▲
//! ```
//!
//! The ATTACH is held and nothing behind it is looked at, so that whoever has both shards can take the connection over
//! while nothing that anybody else knows of hangs on it. A connection is held once in its life.

use std::sync::Arc;

use amqp10::{Attach, Role, TargetArchetype};

use super::node_address::{self, Node};
use super::{Cx, Gate, LinkRole, Phase};
use crate::catalog::{Letter, RouteTarget};
use crate::ids::{QueueId, ShardId};

/// Whether a connection is where it belongs.
#[derive(Debug, Default)]
pub(super) enum Follow {
    /// It has no link to a queue.
    #[default]
    Undecided,
    Held(Box<Held>),
    Decided,
}

/// An ATTACH that waits for its connection to be in its place.
#[derive(Debug)]
pub(super) struct Held {
    session: u16,
    link: u32,
    attach: Box<Attach>,
    to: ShardId,
}

impl Gate {
    /// Handles an ATTACH, or holds it if the connection had better be elsewhere.
    pub(super) fn attach_or_follow(&mut self, session: u16, link: u32, attach: Box<Attach>, cx: &mut Cx<'_>) {
        if matches!(self.follow, Follow::Undecided) {
            if !self.is_unknown() {
                self.follow = Follow::Decided;
            } else if let Some(home) = self.home_of(&attach, cx) {
                if home != cx.shard {
                    self.follow = Follow::Held(Box::new(Held { session, link, attach, to: home }));
                    return;
                }
                self.follow = Follow::Decided;
            }
        }
        self.handle_attach(session, link, attach, cx);
    }

    /// The shard to which the connection wants to be taken. Until [`Gate::go_on`] is called, here or there, it takes no
    /// frames.
    pub fn wants_to(&self) -> Option<ShardId> {
        match &self.follow {
            Follow::Held(held) => Some(held.to),
            Follow::Undecided | Follow::Decided => None,
        }
    }

    /// The connection has been taken to another shard, where this is its key.
    pub fn take_place(&mut self, key: usize) {
        self.key = key;
    }

    /// Goes on with the ATTACH that was held.
    pub fn go_on(&mut self, cx: &mut Cx<'_>) {
        if let Follow::Held(held) = std::mem::replace(&mut self.follow, Follow::Decided)
            && self.phase == Phase::Open
        {
            self.handle_attach(held.session, held.link, held.attach, cx);
        }
    }

    /// Nobody on this shard knows of the connection: it waits for no answer, and no link of it but those of management
    /// is there.
    fn is_unknown(&self) -> bool {
        let mut roles = self.sessions.iter().flatten().flat_map(|session| session.links.iter().flatten());
        self.waiting.is_empty()
            && self.farewells.is_empty()
            && roles.all(|role| matches!(role, LinkRole::Requests { .. } | LinkRole::Responses { .. }))
    }

    /// Where the one queue lives that the link will speak with, as far as the address says.
    fn home_of(&self, attach: &Attach, cx: &Cx<'_>) -> Option<ShardId> {
        let address = match (attach.role, &attach.target, &attach.source) {
            (Role::Sender, Some(TargetArchetype::Target(target)), _) => target.address.as_deref(),
            (Role::Receiver, _, Some(source)) => source.address.as_deref(),
            _ => None,
        };
        let (node, _) = node_address::of_target(address?, cx.settings.permit_address_v1).ok()?;
        let queue = match node {
            Node::Queue { name, .. } => cx.catalog.queue(&self.vhost, &name)?.id,
            Node::Exchange { exchange, key } => self.only_queue(&exchange, &key?, cx)?,
        };
        cx.catalog.queue_by_id(queue)?.home
    }

    /// The queue that every message with this key reaches, and it alone.
    fn only_queue(&self, exchange: &str, key: &str, cx: &Cx<'_>) -> Option<QueueId> {
        let keys: [Arc<str>; 1] = [key.into()];
        let routed = cx.catalog.route(&self.vhost, exchange, &Letter { keys: &keys, ..Letter::default() })?;
        match routed.targets[..] {
            [RouteTarget::Queue(queue)] if routed.by_key_alone => Some(queue),
            _ => None,
        }
    }
}
