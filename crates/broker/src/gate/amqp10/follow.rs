//! The ATTACH that decides on which shard a connection stays. See [`crate::follow`].

use amqp10::{Attach, Role, TargetArchetype};
use catalog::ids::ShardId;

use super::node_address::{self, Node};
use super::{Gate, LinkRole};
use crate::cx::Cx;
use crate::follow::{home_of_queue, home_of_route};

/// An ATTACH that waits until its connection is on its final shard.
#[derive(Debug)]
pub(super) struct HeldAttach {
    session: u16,
    link: u32,
    attach: Box<Attach>,
}

impl Gate {
    /// Handles an ATTACH, or holds it if the connection is to move to another shard.
    pub(super) fn attach_or_follow(&mut self, session: u16, link: u32, attach: Box<Attach>, cx: &mut Cx<'_>) {
        let mut held = HeldAttach { session, link, attach };
        if self.follow.is_undecided() {
            if !self.is_unknown() {
                self.follow.stay();
            } else if let Some(home) = self.home_of(&held.attach, cx) {
                match self.follow.decide(held, home, cx.shard) {
                    Some(here) => held = here,
                    None => return,
                }
            }
        }
        self.handle_attach(held.session, held.link, held.attach, cx);
    }

    /// Returns the shard to which the connection is to move. Until [`Gate::continue_held`] is called, here or there, it takes
    /// no frames.
    pub fn moves_to(&self) -> Option<ShardId> {
        self.follow.moves_to()
    }

    /// Continues with the ATTACH that was held.
    pub fn continue_held(&mut self, cx: &mut Cx<'_>) {
        if let Some(held) = self.follow.take_held()
            && self.phase.is_open()
        {
            self.handle_attach(held.session, held.link, held.attach, cx);
        }
    }

    /// Returns true if no other component of this shard knows the connection: it waits for no answer, and all its links
    /// are for management.
    fn is_unknown(&self) -> bool {
        let mut roles = self.sessions.iter().flatten().flat_map(|session| session.links.iter().flatten());
        self.waiting.is_empty()
            && self.own.is_idle()
            && self.parted.is_none()
            && roles.all(|role| matches!(role, LinkRole::Requests { .. } | LinkRole::Responses { .. }))
    }

    /// Returns the home of the one queue that the link will use, if the address tells it.
    fn home_of(&self, attach: &Attach, cx: &Cx<'_>) -> Option<ShardId> {
        let address = match (attach.role, &attach.target, &attach.source) {
            (Role::Sender, Some(TargetArchetype::Target(target)), _) => target.address.as_deref(),
            (Role::Receiver, _, Some(source)) => source.address.as_deref(),
            _ => None,
        };
        let (node, _) = node_address::of_target(address?, cx.settings.permit_address_v1).ok()?;
        match node {
            Node::Queue { name, .. } => home_of_queue(cx.catalog, cx.placements, &self.peer.vhost, &name),
            Node::Exchange { exchange, key } => {
                home_of_route(cx.catalog, cx.placements, &self.peer.vhost, &exchange, &key?)
            }
        }
    }
}
