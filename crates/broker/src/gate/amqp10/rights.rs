//! What the user of a connection may do, now and after the rights have changed.

use amqp10::Role;
use catalog::access::{AccessRefused, Resource, Verb};

use super::outbound::Consuming;
use super::refusal::Refused;
use super::{Ending, Gate, LinkRole};
use crate::cx::Cx;

impl Gate {
    /// Checks by the table of verbs that the client may do this.
    pub(super) fn permit(&self, verb: Verb, on: &[Resource<'_>], cx: &Cx<'_>) -> Result<(), Refused> {
        Ok(self.peer.permit(verb, on, cx)?)
    }

    /// Checks that the client may send to a queue, or receive from it.
    pub(super) fn permit_role(&self, role: Role, queue: &str, cx: &Cx<'_>) -> Result<(), Refused> {
        match role {
            Role::Receiver => self.permit(Verb::Consume, &[Resource::Queue(queue)], cx),
            Role::Sender => self.permit(Verb::Publish, &[Resource::Exchange("")], cx),
        }
    }

    /// Checks that the client may make a binding, or remove it, which `verb` says.
    pub(super) fn permit_binding(
        &self,
        verb: Verb,
        destination: Resource<'_>,
        source: &str,
        key: &str,
        cx: &Cx<'_>,
    ) -> Result<(), Refused> {
        Ok(self.peer.permit_binding(verb, destination, source, key, cx)?)
    }

    /// Called when the rights of users have changed. Ends the links for which the user has lost the permission, or the
    /// connection if the user may no longer use the virtual host. RabbitMQ keeps such links (docs/compatibility.md, Security).
    pub fn recheck_rights(&mut self, cx: &mut Cx<'_>) {
        if !self.phase.is_open() {
            return;
        }
        if let Err(why) = self.peer.recheck(cx) {
            return self.end_connection(Ending::Operator, &why, cx);
        }
        for (session, link, refused) in self.lost_links(cx) {
            self.detach(session, link, super::unauthorized(refused), cx);
        }
    }

    /// Called when the client has the rights of a new token. Ends the links that have lost theirs.
    pub(super) fn handle_renewal(&mut self, cx: &mut Cx<'_>) {
        for role in self.sessions.iter_mut().flatten().flat_map(|session| &mut session.links) {
            if let Some(LinkRole::Intake(intake)) = role {
                intake.forget_permissions();
            }
        }
        self.recheck_rights(cx);
    }

    fn may_receive(&self, link: &Consuming, cx: &Cx<'_>) -> Result<(), AccessRefused> {
        let queue = Resource::Queue(&link.outlet.queue_name);
        self.peer.permit(Verb::Consume, &[queue], cx)?;
        let Some(bound) = &link.bound else { return Ok(()) };
        self.peer.permit_binding(Verb::Bind, queue, &bound.exchange, &bound.key, cx)
    }

    fn lost_links(&self, cx: &Cx<'_>) -> Vec<(u16, u32, AccessRefused)> {
        let sender = self.peer.sender(0);
        let consume = |queue: &str| self.peer.permit(Verb::Consume, &[Resource::Queue(queue)], cx);
        let mut lost = Vec::new();
        for (session, links) in self.sessions.iter().enumerate() {
            for (link, role) in links.iter().flat_map(|session| session.links.iter().enumerate()) {
                let allowed = match role {
                    Some(LinkRole::Intake(intake)) => intake.target().recheck(sender, cx),
                    Some(LinkRole::Outlet(link)) => self.may_receive(link, cx),
                    Some(LinkRole::Replies(replies)) => consume(&replies.to.name()),
                    // Each request is checked.
                    Some(LinkRole::Requests { .. } | LinkRole::Responses { .. }) | None => Ok(()),
                };
                // What somebody else decides does not change with the catalog.
                if let Err(refused) = allowed
                    && refused.question.is_none()
                {
                    lost.push((session as u16, link as u32, refused));
                }
            }
        }
        lost
    }
}
