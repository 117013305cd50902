//! The end of a turn (iteration of the shard's event loop). The gate sends confirms in as few methods as their numbers
//! allow, passes settlements to queues, and asks queues for more deliveries.

use super::channel::Role;
use super::{Cx, Gate, PUBLISHER};

/// The reason that a client gets when publishing is stopped.
const LOW: &str = "low on memory or disk";

impl Gate {
    /// Stops or resumes publishing. Consuming continues, as long as the client does not publish (docs/from-rabbitmq.md, AMQP
    /// 0.9.1).
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        self.tell_blocked();
    }

    /// Returns true if an alarm stops this client, because it publishes.
    pub(super) fn is_stopped(&self) -> bool {
        self.blocked && self.publishes()
    }

    fn publishes(&self) -> bool {
        self.channels.iter().flatten().any(|channel| channel.publisher.is_some())
    }

    /// Tells a client that publishes, and that understands it, whether it is stopped.
    pub(super) fn tell_blocked(&mut self) {
        let is_stopped = self.is_stopped();
        if is_stopped == self.knows_blocked || !self.client.is_told_of_blocking || !self.phase.is_open() {
            return;
        }
        self.knows_blocked = is_stopped;
        match is_stopped {
            true => self.conn.blocked(LOW),
            false => self.conn.unblocked(),
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
        if self.blocked {
            self.tell_blocked();
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
        let Some(publisher) = self.channel(channel).and_then(|channel| channel.publisher.as_mut()) else {
            return;
        };
        if let Some(grant) = publisher.intake.poll_grant(publisher.credit, cx) {
            publisher.credit = grant;
            self.look_for_debt();
        }
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
