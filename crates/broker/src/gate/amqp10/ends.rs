//! How connections, sessions and links end: by the client, by the broker, or because the socket is closed. Their
//! resources are released in one place. The answer to the client waits until their queues are deleted, or for a second.

use amqp10::{AmqpError, Attach, Role, condition};
use catalog::access::Protocol;
use catalog::categories::{CHANNEL, CONNECTION, PEER};

use super::{Ending, Gate, LinkRole, Phase, error, shown_error};
use crate::admin_api::PassedCounts;
use crate::cx::Cx;

/// An answer that leaves when the queues of the ended object are deleted ([`crate::own_queues`]), and when the client knows the
/// outcomes of its messages ([`super::parted`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldAnswer {
    Detach { session: u16, link: u32 },
    End { session: u16 },
    Close,
}

impl HeldAnswer {
    fn is_detach_on(self, session: u16) -> bool {
        matches!(self, Self::Detach { session: on, .. } if on == session)
    }

    /// Returns true if it is the answer to DETACH or END on this session.
    pub(super) fn is_on(self, session: u16) -> bool {
        self.is_detach_on(session) || self == Self::End { session }
    }
}

impl Gate {
    // ---- connections --------------------------------------------------------------------------------------

    /// Closes the connection with an error.
    pub fn fail(&mut self, error: AmqpError, cx: &mut Cx<'_>) {
        if self.phase == Phase::Done {
            return;
        }
        if error.condition == condition::UNAUTHORIZED_ACCESS {
            self.peer.refused("connection", "", error.description.as_deref().unwrap_or_default());
        } else {
            tracing::warn!(
                name: PEER,
                target: CONNECTION,
                connection = %self.peer.name,
                condition = error.condition.as_str(),
                "closing: {}",
                error.description.as_deref().unwrap_or("no reason given")
            );
        }
        self.send_open_if_needed(cx);
        self.drop_all_sessions(true, cx);
        self.conn.close(Some(error), false);
        self.own.delete_all(self.peer.key, cx);
        self.phase = Phase::Done;
    }

    /// Called when the socket is closed, or when the connection must end without an error for the client.
    pub fn handle_disconnect(&mut self, cx: &mut Cx<'_>) {
        self.drop_all_sessions(true, cx);
        self.own.delete_all(self.peer.key, cx);
        self.unanswered.clear(cx);
        self.waiting.clear();
        self.own.give_up();
        self.phase = Phase::Done;
    }

    /// Ends the connection from the broker's side. The standard has a condition for a node that stops [2.8.16]. An
    /// operator closes with RabbitMQ's condition (docs/compatibility.md, Error conditions).
    pub fn end_connection(&mut self, ending: Ending, why: &str, cx: &mut Cx<'_>) {
        let condition = match ending {
            Ending::TooMuchMemory => {
                return self.fail(error(condition::RESOURCE_LIMIT_EXCEEDED, why), cx);
            }
            Ending::NodeStops => condition::CONNECTION_FORCED,
            Ending::Operator => condition::INTERNAL_ERROR,
        };
        if self.can_send_error() {
            self.fail(error(condition, format!("Connection forced: {why}")), cx);
        } else {
            self.handle_disconnect(cx);
        }
    }

    // ---- sessions -----------------------------------------------------------------------------------------

    pub(super) fn handle_end(
        &mut self,
        session: u16,
        error: Option<&AmqpError>,
        answered: bool,
        cx: &mut Cx<'_>,
    ) {
        if let Some(error) = error {
            tracing::info!(name: PEER, target: CHANNEL, connection = %self.peer.name, session, "client ended the session: {}", shown_error(error));
        }
        if answered {
            return;
        }
        let before = self.own.deletions();
        self.leave_session(session, cx);
        self.answer_after_deletions(HeldAnswer::End { session }, before, cx);
    }

    /// Answers the end of an object as soon as at most `before` deletions are in flight. The answer to END
    /// also waits for the answers to DETACH, because the session's number may soon belong to another session.
    pub(super) fn answer_after_deletions(&mut self, answer: HeldAnswer, before: usize, cx: &mut Cx<'_>) {
        let first = |other: &HeldAnswer| match answer {
            HeldAnswer::End { session } => other.is_detach_on(session),
            HeldAnswer::Detach { .. } | HeldAnswer::Close => false,
        };
        if let Some(answer) = self.own.hold(answer, before, first, cx.now_ms) {
            self.answer_after_outcomes(answer, cx);
        }
    }

    /// Sends an answer, behind the outcomes that are known.
    pub(super) fn send_answer(&mut self, answer: HeldAnswer, cx: &mut Cx<'_>) {
        match answer {
            HeldAnswer::Detach { session, link } => {
                self.flush_session(session);
                self.put_detach(session, link, None, cx);
            }
            HeldAnswer::End { session } => {
                self.flush_session(session);
                self.drop_session(session, true, cx);
                self.conn.end(session, None);
            }
            HeldAnswer::Close => {
                (0..self.sessions.len()).for_each(|session| self.flush_session(session as u16));
                self.drop_all_sessions(true, cx);
                self.answer_close(cx);
            }
        }
    }

    /// Called when a deletion is done, and when answers wait no longer for deletions.
    pub(super) fn deletion_done(&mut self, cx: &mut Cx<'_>) {
        for answer in self.own.poll_answers(cx.now_ms) {
            self.answer_after_outcomes(answer, cx);
        }
        self.forget_parted();
    }

    /// Called when a new session or link has this number: the object that had it before has ended without an answer of the
    /// gate ([`amqp10::Event`]).
    pub(super) fn forget_ended_session(&mut self, session: u16, cx: &mut Cx<'_>) {
        self.own.drop_answers(|answer| answer.is_on(session));
        self.drop_session(session, true, cx);
    }

    /// See [`Gate::forget_ended_session`].
    pub(super) fn forget_ended_link(&mut self, session: u16, link: u32) {
        self.own.drop_answers(|answer| *answer == HeldAnswer::Detach { session, link });
        self.release_parted(session, link);
    }

    /// Ends a session with an error.
    pub(super) fn end(&mut self, session: u16, error: AmqpError, cx: &mut Cx<'_>) {
        if error.condition == condition::UNAUTHORIZED_ACCESS {
            self.peer.refused(
                "session",
                &format!(" session={session}"),
                error.description.as_deref().unwrap_or_default(),
            );
        } else {
            tracing::warn!(
                name: PEER,
                target: CHANNEL,
                connection = %self.peer.name,
                session,
                condition = error.condition.as_str(),
                "ending session: {}",
                error.description.as_deref().unwrap_or("no reason given")
            );
        }
        self.flush_session(session);
        self.drop_session(session, true, cx);
        // No frame may follow the broker's END [2.5.5].
        self.own.drop_answers(|answer| answer.is_on(session));
        self.conn.end(session, Some(error));
    }

    /// Called when the client has ended a session. The outcomes of its messages may still be sent on it.
    pub(super) fn leave_session(&mut self, session: u16, cx: &mut Cx<'_>) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        if s.has_ended {
            return;
        }
        s.has_ended = true;
        let (counts, links) = (s.counts(), std::mem::take(&mut s.links));
        s.past = PassedCounts::default();
        self.count_end_of_session(counts, cx);
        self.release_margin(session, None);
        for (link, role) in (0..).zip(links) {
            role.into_iter().for_each(|role| self.leave_role(session, link, role, true, cx));
        }
    }

    /// Ends a session. Nothing more is sent on it.
    pub(super) fn drop_session(&mut self, session: u16, failed: bool, cx: &mut Cx<'_>) {
        let Some(slot) = self.sessions.get_mut(usize::from(session)) else { return };
        let Some(gone) = slot.take() else { return };
        // Nothing more can be sent on the session.
        drop(self.margin.take(session, None));
        if !gone.has_ended {
            self.count_end_of_session(gone.counts(), cx);
        }
        for role in gone.links.into_iter().flatten() {
            self.drop_role(session, role, failed, cx);
        }
        self.drop_parted(session, cx);
    }

    fn count_end_of_session(&mut self, counts: PassedCounts, cx: &mut Cx<'_>) {
        cx.counters.channels_closed += 1;
        self.peer.end_session(counts);
    }

    /// Called when the client has closed the connection.
    pub(super) fn leave_all_sessions(&mut self, cx: &mut Cx<'_>) {
        for session in 0..self.sessions.len() {
            self.leave_session(session as u16, cx);
        }
        self.peer.leave();
    }

    /// Ends all sessions, because the connection ends.
    pub(super) fn drop_all_sessions(&mut self, failed: bool, cx: &mut Cx<'_>) {
        for session in 0..self.sessions.len() {
            self.drop_session(session as u16, failed, cx);
        }
        self.peer.leave();
    }

    // ---- links --------------------------------------------------------------------------------------------

    pub(super) fn drop_link(&mut self, session: u16, link: u32, failed: bool, cx: &mut Cx<'_>) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        let Some(role) = s.links.get_mut(link as usize).and_then(Option::take) else { return };
        s.past += role.counts();
        self.release_margin(session, Some(link));
        self.leave_role(session, link, role, failed, cx);
    }

    /// Ends the purpose of a link. The outcomes of its messages are still sent.
    fn leave_role(&mut self, session: u16, link: u32, role: LinkRole, failed: bool, cx: &mut Cx<'_>) {
        match role {
            LinkRole::Intake(intake) if intake.awaits_outcomes() => self.part(session, link, *intake, cx),
            role => self.drop_role(session, role, failed, cx),
        }
    }

    fn drop_role(&mut self, session: u16, role: LinkRole, failed: bool, cx: &mut Cx<'_>) {
        match role {
            LinkRole::Intake(intake) => {
                let queue = intake.leave(&mut self.unanswered, self.peer.key, cx);
                queue.into_iter().for_each(|queue| self.own.delete(queue, self.peer.key, cx));
            }
            LinkRole::Outlet(link) => {
                let mut outlet = link.outlet;
                for asked in outlet.take_unanswered() {
                    self.put_settlement(session, &asked);
                }
                outlet
                    .close(failed, cx)
                    .into_iter()
                    .for_each(|queue| self.own.delete(queue, self.peer.key, cx));
            }
            LinkRole::Replies(replies) => {
                cx.consumers.remove(replies.to.outlet.0);
                cx.counters.over_mut(Protocol::Amqp10).consumers -= 1;
            }
            // A management pair needs both of its links. If the client uses the other link again, that link
            // fails.
            LinkRole::Requests { pair } => self.drop_pair_link(pair, Role::Sender),
            LinkRole::Responses { pair } => self.drop_pair_link(pair, Role::Receiver),
        }
    }

    /// Detaches a link with an error.
    pub(super) fn detach(&mut self, session: u16, link: u32, error: AmqpError, cx: &mut Cx<'_>) {
        if error.condition == condition::UNAUTHORIZED_ACCESS {
            self.peer.refused(
                "link",
                &format!(" session={session} link={link}"),
                error.description.as_deref().unwrap_or_default(),
            );
        } else {
            tracing::info!(
                name: PEER,
                target: CHANNEL,
                connection = %self.peer.name,
                session,
                link,
                condition = error.condition.as_str(),
                "detaching link: {}",
                error.description.as_deref().unwrap_or("no reason given")
            );
        }
        // The outcomes of the link's deliveries that are known already are sent first.
        self.flush_session(session);
        self.drop_link(session, link, true, cx);
        self.put_detach(session, link, Some(error), cx);
    }

    /// Detaches a link whose queue was deleted. If a management request of this connection deleted it, the link stays
    /// until the response has left: client libraries fail every call in flight when a link ends.
    pub(super) fn detach_from_deleted(&mut self, session: u16, link: u32, queue: &str, cx: &mut Cx<'_>) {
        if !self.waiting.values().any(|waiting| waiting.deletes(queue)) {
            let reason = format!("queue '{queue}' in vhost '{}' was deleted", self.peer.vhost);
            self.detach(session, link, error(condition::RESOURCE_DELETED, reason), cx);
        }
    }

    /// Detaches the links that [`Gate::detach_from_deleted`] has kept.
    pub(super) fn detach_all_from_deleted(&mut self, queue: &str, cx: &mut Cx<'_>) {
        let mut gone = Vec::new();
        for (session, links) in self.sessions.iter().enumerate() {
            for (link, role) in links.iter().flat_map(|session| session.links.iter().enumerate()) {
                let is_gone = match role {
                    Some(LinkRole::Outlet(link)) => {
                        link.outlet.is_gone() && *link.outlet.queue_name == *queue
                    }
                    Some(LinkRole::Intake(intake)) => {
                        intake.watched().is_some_and(|id| cx.catalog.queue_by_id(id).is_none())
                            && intake.target().queue().is_some_and(|name| **name == *queue)
                    }
                    _ => false,
                };
                if is_gone {
                    gone.push((session as u16, link as u32));
                }
            }
        }
        for (session, link) in gone {
            self.detach_from_deleted(session, link, queue, cx);
        }
    }

    fn put_detach(&mut self, session: u16, link: u32, error: Option<AmqpError>, cx: &mut Cx<'_>) {
        // [2.6.3] A DETACH must not come before the ATTACH. If the client detaches first, the answer to its
        // ATTACH has no terminus.
        if let Some(reply) = self.answer_before_detach(session, link)
            && !self.answer_attach(session, link, reply, cx)
        {
            return;
        }
        self.conn.detach(session, link, error);
        self.release_parted(session, link);
        // The waiting deliveries of the link no longer block the other links of the session.
        self.touch_session(session);
    }

    /// Returns the answer to the ATTACH of a link that ends before the ATTACH was answered.
    fn answer_before_detach(&self, session: u16, link: u32) -> Option<Attach> {
        let link = self.conn.session(session)?.link(link)?;
        if !link.awaits_answer() {
            return None;
        }
        let role = if link.is_sending() { Role::Sender } else { Role::Receiver };
        Some(Attach {
            snd_settle_mode: link.snd_settle_mode,
            rcv_settle_mode: link.rcv_settle_mode,
            initial_delivery_count: link.is_sending().then_some(0),
            ..Attach::new(link.name.clone(), 0, role)
        })
    }
}
