//! What the user of a connection may do, now and after the rights have changed.

use amqp10::{AmqpError, Role, condition};

use super::outbound::Consuming;
use super::refusal::Refused;
use super::{Ending, Gate, LinkRole, error};
use crate::access::{AccessRefused, Identity, Resource, Verb, permit_binding};
use crate::audit::{Actor, Rate};
use crate::counters::Protocol;
use crate::cx::Cx;
use crate::intake::Sender;
use crate::names::cut;

impl Gate {
    /// Checks by the table of verbs that the client may do this.
    pub(super) fn permit(&self, verb: Verb, on: &[Resource<'_>], cx: &Cx<'_>) -> Result<(), Refused> {
        if self.identity.is_none() {
            return Err(Refused::Session(error(condition::UNAUTHORIZED_ACCESS, "login required")));
        }
        self.may(verb, on, cx).map_err(|refused| match refused.question {
            Some(question) => Refused::Unknown(question),
            None => Refused::Session(refused.into()),
        })
    }

    /// Returns the client for audit lines.
    pub(super) fn actor(&self) -> Actor<'_> {
        Actor {
            user: self.identity.as_ref().map_or("", |who| &who.user),
            // The name of a connection is the address of the client, and that of the listener.
            peer: self.name.split_once(" -> ").map_or(&*self.name, |(peer, _)| peer),
            protocol: Protocol::Amqp10,
            mechanism: self.mechanism,
        }
    }

    /// Writes that the client has done what it may not do, and that therefore the connection, a session or a link ends.
    pub(super) fn refused(&self, ended: &str, place: &str, why: &AmqpError) {
        let on = format!("vhost={}{place}", cut(&self.vhost));
        self.actor().refused(ended, &on, why.description.as_deref().unwrap_or_default());
    }

    /// Writes that a request to management has deleted something or the messages in it.
    pub(super) fn deleted(&self, what: &str, name: &str) {
        let rate = self.identity.as_ref().map_or(Rate::Limited, Rate::of);
        self.actor().changed(what, &format!("vhost={} name={}", cut(&self.vhost), cut(name)), rate);
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
        let topic = cx.catalog.is_topic(&self.vhost, source).then_some(key);
        permit_binding(verb, destination, source, topic, |verb, on| self.permit(verb, on, cx))
    }

    fn may(&self, verb: Verb, on: &[Resource<'_>], cx: &Cx<'_>) -> Result<(), AccessRefused> {
        let Some(identity) = &self.identity else { return Ok(()) };
        cx.catalog.users().permit(identity, &self.vhost, verb, on)
    }

    /// Called when the rights of users have changed. Ends the links for which the user has lost the permission, or the
    /// connection if the user may no longer use the virtual host. RabbitMQ keeps such links (docs/compatibility.md, Security).
    pub fn recheck_rights(&mut self, cx: &mut Cx<'_>) {
        if !self.phase.is_open() {
            return;
        }
        if let Err(why) = self.recheck_connection(cx) {
            return self.end_connection(Ending::Operator, &why, cx);
        }
        for (session, link, refused) in self.lost_links(cx) {
            self.detach(session, link, refused.into(), cx);
        }
    }

    fn recheck_connection(&self, cx: &Cx<'_>) -> Result<(), String> {
        if !cx.catalog.has_vhost(&self.vhost) {
            return Err(format!("vhost '{}' is deleted", self.vhost));
        }
        if let Some(who) = &self.identity
            && who.is_of_catalog()
            && cx.catalog.users().get(&who.user).is_none()
        {
            return Err(format!("user '{}' is deleted", who.user));
        }
        match self.may(Verb::OpenVhost, &[], cx) {
            Err(AccessRefused { question: None, reason }) => Err(reason),
            _ => Ok(()),
        }
    }

    /// Returns when the token of the client expires, in milliseconds since the epoch.
    pub(super) fn expires_ms(&self) -> Option<u64> {
        self.identity.as_ref()?.token.as_ref().map(|token| token.expires_ms)
    }

    /// Takes the rights of a new token. Ends the links that have lost theirs.
    ///
    /// # Errors
    /// The token is of another user.
    pub(super) fn renew(&mut self, identity: Identity, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(before) = &self.identity
            && before.user != identity.user
        {
            return Err(format!("the new credentials are not those of user '{}'", before.user));
        }
        // Every link would have to be asked for again before it may go on.
        if identity.remote.is_some() {
            return Err("a login that an HTTP server has checked cannot be renewed".to_owned());
        }
        self.identity = Some(identity);
        for role in self.sessions.iter_mut().flatten().flat_map(|session| &mut session.links) {
            if let Some(LinkRole::Intake(intake)) = role {
                intake.forget_permissions();
            }
        }
        self.recheck_rights(cx);
        Ok(())
    }

    fn may_receive(&self, link: &Consuming, cx: &Cx<'_>) -> Result<(), AccessRefused> {
        let queue = Resource::Queue(&link.outlet.queue_name);
        self.may(Verb::Consume, &[queue], cx)?;
        let Some(bound) = &link.bound else { return Ok(()) };
        let topic = cx.catalog.is_topic(&self.vhost, &bound.exchange).then_some(&*bound.key);
        permit_binding(Verb::Bind, queue, &bound.exchange, topic, |verb, on| self.may(verb, on, cx))
    }

    fn lost_links(&self, cx: &Cx<'_>) -> Vec<(u16, u32, AccessRefused)> {
        let sender = Sender { vhost: &self.vhost, identity: self.identity.as_ref() };
        let consume = |queue: &str| self.may(Verb::Consume, &[Resource::Queue(queue)], cx);
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
