//! How connections and channels end: by the client, by the broker, or because the socket is closed. Their resources are
//! released in one place. The answer to the client's close waits until the exclusive queues are deleted, or for a
//! second.

use amqp091::{Fault, Method, ReplyCode, State};
use catalog::categories::{CHANNEL, CONNECTION, PEER};
use catalog::names::cut;

use super::channel::Role;
use super::held::Deferred;
use super::refusal::{self, Refused};
use super::report::counts_of;
use super::{Gate, Phase};
use crate::cx::Cx;
use crate::gate::Ending;
use crate::intake::Awaited;

/// The time that a client has for its answer to `connection.close`, in milliseconds. Then its socket is closed without it.
const CLOSE_OK_MAX_MS: u64 = 3000;

/// The answer that leaves when the exclusive queues are deleted, or after the deadline: that to `connection.close`. See
/// [`crate::own_queues`].
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldAnswer;

impl Gate {
    // ---- connections --------------------------------------------------------------------------------------

    /// Ends a channel, or the connection, with an error.
    pub(super) fn fail(&mut self, fault: Fault, cx: &mut Cx<'_>) {
        if matches!(self.phase, Phase::Closing | Phase::Done) {
            return;
        }
        let (code, name) = (fault.code.number(), fault.code.name());
        if fault.code == ReplyCode::AccessRefused {
            let (what, place) = match fault.channel {
                Some(channel) => ("channel", format!(" channel={channel}")),
                None => ("connection", String::new()),
            };
            self.peer.refused(what, &place, &fault.text);
        } else if let Some(channel) = fault.channel {
            tracing::warn!(
                name: PEER, target: CHANNEL, connection = %self.peer.name, channel, code,
                "closing the channel: {name} - {}", fault.text
            );
        } else {
            tracing::warn!(
                name: PEER, target: CONNECTION, connection = %self.peer.name, code,
                "closing: {name} - {}", fault.text
            );
        }
        match fault.channel {
            Some(channel) => {
                // The confirms that are known already are sent first.
                self.flush_confirms(channel);
                self.drop_channel(channel, cx);
                self.conn.fail(&fault);
            }
            None => {
                self.drop_all_channels(cx);
                self.conn.fail(&fault);
                self.own.delete_all(self.peer.key, cx);
                self.await_close_ok(cx);
            }
        }
    }

    /// Called when the output has an error for the client, unless the state of the connection does not allow one. Waits for
    /// the client's answer: if the socket were closed before it, some clients would report a broken socket instead of the error.
    pub(super) fn await_close_ok(&mut self, cx: &Cx<'_>) {
        if self.conn.state() == State::Closing {
            self.phase = Phase::Closing;
            self.close_deadline_ms = cx.now_ms + CLOSE_OK_MAX_MS;
        } else {
            self.phase = Phase::Done;
        }
    }

    /// Ends the channel or the connection because a method is refused. If that is not known yet, the method is held.
    pub(super) fn refuse(&mut self, channel: u16, method: &Method<'_>, refused: Refused, cx: &mut Cx<'_>) {
        match refused {
            Refused::Fault { code: ReplyCode::NotFound | ReplyCode::AccessRefused, .. }
                if cx.may_lag && !self.peer.is_remote() =>
            {
                self.hold(Deferred::method(channel, method), Awaited::Catalog, cx);
            }
            Refused::Awaits(awaited) => self.hold(Deferred::method(channel, method), awaited, cx),
            refused => self.refuse_method(channel, (method.class_id(), method.method_id()), refused, cx),
        }
    }

    /// Does the same for a method that cannot be held. `failed` is its class and its number.
    pub(super) fn refuse_method(
        &mut self,
        channel: u16,
        failed: (u16, u16),
        refused: Refused,
        cx: &mut Cx<'_>,
    ) {
        let (code, text) = match refused {
            Refused::Fault { code, text } => (code, text),
            // Everything that may be unknown is asked for before the first answer of a queue or of the catalog.
            Refused::Awaits(_) => {
                (ReplyCode::AccessRefused, "the permission has changed meanwhile".to_owned())
            }
        };
        let channel = (!code.ends_connection()).then_some(channel);
        self.fail(Fault { channel, code, text: text.into(), class_id: failed.0, method_id: failed.1 }, cx);
    }

    /// Called when the socket is closed, or when the connection must end without an error for the client.
    pub fn handle_disconnect(&mut self, cx: &mut Cx<'_>) {
        self.drop_all_channels(cx);
        self.own.delete_all(self.peer.key, cx);
        self.unanswered.clear(cx);
        self.waiting.clear();
        self.own.give_up();
        self.phase = Phase::Done;
    }

    /// Ends the connection from the broker's side.
    pub fn end_connection(&mut self, ending: Ending, why: &str, cx: &mut Cx<'_>) {
        if !self.phase.is_open() {
            return self.handle_disconnect(cx);
        }
        let fault = match ending {
            Ending::TooMuchMemory => refusal::connection(ReplyCode::ResourceError, why),
            Ending::NodeStops | Ending::Operator => refusal::connection(ReplyCode::ConnectionForced, why),
        };
        self.fail(fault, cx);
    }

    pub(super) fn handle_close(&mut self, code: u16, text: &str, cx: &mut Cx<'_>) {
        if code != ReplyCode::ReplySuccess.number() {
            let text = cut(text).escape_default();
            tracing::info!(name: PEER, target: CONNECTION, connection = %self.peer.name, code, "client closed the connection: {text}");
        }
        if self.phase == Phase::Done {
            return;
        }
        self.drop_all_channels(cx);
        self.own.delete_all(self.peer.key, cx);
        // A client that hears that its connection has ended may declare a queue of the same name at once.
        if let Some(HeldAnswer) = self.own.hold(HeldAnswer, 0, |_| false, cx.now_ms) {
            self.answer_close();
        }
    }

    fn answer_close(&mut self) {
        self.conn.close_ok();
        self.phase = Phase::Done;
    }

    /// Called when a deletion is done, and when the answer waits no longer for deletions.
    pub(super) fn deletion_done(&mut self, cx: &Cx<'_>) {
        if !self.own.poll_answers(cx.now_ms).is_empty() {
            self.answer_close();
        }
    }

    // ---- channels -----------------------------------------------------------------------------------------

    pub(super) fn handle_channel_close(&mut self, channel: u16, code: u16, text: &str, cx: &mut Cx<'_>) {
        if code != ReplyCode::ReplySuccess.number() {
            let text = cut(text).escape_default();
            tracing::info!(
                name: PEER, target: CHANNEL, connection = %self.peer.name, channel, code,
                "client closed the channel: {text}"
            );
        }
        self.drop_channel(channel, cx);
        self.conn.channel_close_ok(channel);
    }

    /// Releases what a channel has. Its unsettled deliveries return to their queues.
    fn drop_channel(&mut self, channel: u16, cx: &mut Cx<'_>) {
        self.settle_now(channel, cx);
        let Some(gone) = self.channels.get_mut(usize::from(channel)).and_then(Option::take) else { return };
        self.open_channels -= 1;
        self.held.retain(|held| *held != channel);
        cx.counters.channels_closed += 1;
        self.peer.emit_channel_closed(channel, cx);
        self.peer.end_session(counts_of(&gone));
        for (_, role) in gone.roles {
            drop_role(role, cx);
        }
        if let Some(publisher) = gone.publisher {
            publisher.intake.leave(&mut self.unanswered, self.peer.key, cx);
            self.look_for_debt();
        }
        if let Some(replies) = gone.replies {
            replies.close(cx);
        }
    }

    fn drop_all_channels(&mut self, cx: &mut Cx<'_>) {
        self.stopped = None;
        for channel in 0..self.channels.len() {
            self.drop_channel(channel as u16, cx);
        }
        self.peer.leave();
    }

    /// Releases a role. Its unsettled deliveries return to its queue.
    pub(super) fn drop_place(&mut self, channel: u16, place: u32, cx: &mut Cx<'_>) {
        if let Some(role) = self.channel(channel).and_then(|channel| channel.remove(place)) {
            drop_role(role, cx);
        }
    }
}

fn drop_role(role: Role, cx: &mut Cx<'_>) {
    // RabbitMQ counts a delivery as failed if its channel ends before it is settled.
    match role {
        Role::Consumer(consumer) => _ = consumer.outlet.close(true, cx),
        Role::Holder { holder, .. } => holder.close(true, cx),
    }
}
