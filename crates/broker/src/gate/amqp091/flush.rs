//! The end of a turn (iteration of the shard's event loop). The gate sends confirms in as few methods as their numbers
//! allow, passes settlements to queues, and asks queues for more deliveries.

use super::channel::Role;
use super::held::Deferred;
use super::{Cx, Gate, PUBLISHER, Phase, channel_in};

/// The reason that a client gets when publishing is stopped.
const LOW: &str = "low on memory or disk";

impl Gate {
    /// Stops or resumes publishing. Everything else continues until the client's next message ([`Gate::stop`]).
    pub fn set_blocked(&mut self, blocked: bool, cx: &mut Cx<'_>) {
        self.blocked = blocked;
        self.publishes_freely = false;
        if blocked {
            return;
        }
        if std::mem::take(&mut self.knows_blocked) {
            self.conn.unblocked();
        }
        if self.phase == Phase::Stopped {
            self.phase = Phase::Open;
            // What the client has sent meanwhile was not read.
            self.conn.forgive_silence(cx.now_ms);
            self.stopped.take().into_iter().for_each(|held| self.handle_held(*held, cx));
        }
    }

    /// Holds what would publish messages until the alarm ends, and keeps all input behind it. The client is told so, if it
    /// understands that.
    pub(super) fn stop(&mut self, held: Deferred) {
        self.stopped = Some(Box::new(held));
        self.phase = Phase::Stopped;
        if self.client.is_told_of_blocking && !self.knows_blocked {
            self.knows_blocked = true;
            self.conn.blocked(LOW);
        }
    }

    /// Returns true if an alarm stops this client, because it has published.
    pub(super) fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    /// Returns the channel whose message or commit an alarm has stopped.
    pub(super) fn stopped_channel(&self) -> Option<u16> {
        match self.stopped.as_deref()? {
            Deferred::Publish(message) => Some(message.channel),
            Deferred::Commit(channel) | Deferred::Method { channel, .. } => Some(*channel),
            Deferred::Open(_) => None,
        }
    }

    /// Writes what results from the turn: confirms, then grants.
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        if !self.without_room.is_empty() {
            self.resume_reading(cx);
        }
        if !self.held.is_empty() {
            self.continue_channels(cx);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for (channel, _) in &touched {
            self.flush_confirms(*channel);
            self.settle_now(*channel, cx);
        }
        for (channel, place) in &touched {
            match *place {
                PUBLISHER => self.grant_publisher(*channel, cx),
                place if matches!(self.role(*channel, place), Some(Role::Consumer(_))) => {
                    self.grant_queue_credit(*channel, place, cx);
                }
                _ => {}
            }
        }
        if !self.shared_room_grew.is_empty() {
            self.grant_sharing(cx);
        }
        touched.clear();
        if self.touched.is_empty() {
            self.touched = touched;
        }
    }

    /// Returns true if consumers wait until the client has read what it was sent.
    pub fn has_pending(&self) -> bool {
        !self.without_room.is_empty()
    }

    /// Sends the confirms of a channel that are known.
    pub(super) fn flush_confirms(&mut self, channel: u16) {
        let Self { channels, conn, .. } = self;
        if let Some(state) = super::channel_in(channels, channel)
            && let Some(confirms) = state.confirms.as_mut().filter(|confirms| confirms.has_due())
        {
            confirms.flush(channel, conn);
        }
    }

    /// Gives a publisher new credit if it is time. The client does not know of it: without credit, its socket is not read.
    fn grant_publisher(&mut self, channel: u16, cx: &mut Cx<'_>) {
        let Self { channels, unanswered, .. } = self;
        let Some(publisher) = channel_in(channels, channel).and_then(|channel| channel.publisher.as_mut())
        else {
            return;
        };
        unanswered.note(&mut publisher.intake);
        if let Some(grant) = publisher.intake.poll_grant(publisher.credit, cx) {
            publisher.credit = grant;
            self.look_for_debt();
        }
    }

    /// Returns true if the client is ahead of its queues: on one channel, or in bytes on all channels together.
    pub(super) fn is_ahead(&self) -> bool {
        self.has_debt || self.unanswered.is_over()
    }

    /// Called when a channel may have been the last one without credit.
    pub(super) fn look_for_debt(&mut self) {
        if self.has_debt {
            let mut publishers =
                self.channels.iter().flatten().filter_map(|channel| channel.publisher.as_ref());
            self.has_debt = publishers.any(|publisher| publisher.credit == 0);
        }
    }
}
