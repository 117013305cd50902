//! The end of a turn (iteration of the shard's event loop). The gate sends outcomes in as few frames as the ids allow,
//! asks queues for more deliveries, and grants more credit.

use amqp10::{DeliveryState, Role};
use ranges::Range;

use super::{Cx, Gate, LinkRole};

impl Gate {
    /// Stops or resumes publishing on every session. Everything else continues (docs/compatibility.md, Definitions and
    /// alarms).
    pub fn set_blocked(&mut self, blocked: bool, cx: &mut Cx<'_>) {
        if self.blocked == blocked {
            return;
        }
        self.blocked = blocked;
        self.conn.limit_margin(self.margin.bytes_max());
        for session in 0..self.sessions.len() {
            self.conn.set_window_open(session as u16, !blocked);
        }
        self.publish_margin(cx);
    }

    /// Returns true if publishing is stopped.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns true if [`Gate::flush`] has something to do.
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Writes the frames that result from the turn: dispositions and the answers that waited for them, then grants.
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        self.send_held_answers(cx);
        self.pump();
        if !self.without_room.is_empty() {
            self.resume_reading(cx);
        }
        if !self.crowded.is_empty() {
            self.resume_crowded(cx);
        }
        let touched = std::mem::take(&mut self.touched);
        for (session, _) in &touched {
            self.flush_session(*session);
        }
        for (session, link) in &touched {
            match self.role(*session, *link) {
                Some(LinkRole::Intake(_)) => self.grant_link_credit(*session, *link, cx),
                Some(LinkRole::Outlet(_)) => self.grant_queue_credit(*session, *link, cx),
                Some(LinkRole::Requests { pair } | LinkRole::Responses { pair }) => {
                    let pair = *pair;
                    self.regulate_management(*session, pair, cx);
                }
                // Replies never wait in a queue, so there is nothing to request.
                Some(LinkRole::Replies(_)) | None => {}
            }
        }
        self.conn.hold_windows(self.unanswered.is_over());
        let mut touched = touched;
        touched.clear();
        if self.touched.is_empty() {
            self.touched = touched;
        }
    }

    /// Sends deliveries that waited for room. If nothing waits in a session any more, its links may fetch again.
    fn pump(&mut self) {
        let waiting: Vec<u16> =
            self.conn.sessions().filter(|(_, s)| s.pending_len() > 0).map(|(n, _)| n).collect();
        if waiting.is_empty() {
            return;
        }
        self.conn.pump();
        for session in waiting {
            if self.conn.session(session).is_some_and(|s| s.pending_len() == 0) {
                self.touch_session(session);
            }
        }
    }

    /// Returns true if deliveries, or readers of streams, wait for the client's window or socket.
    pub fn has_pending(&self) -> bool {
        !self.without_room.is_empty()
            || !self.crowded.is_empty()
            || self.conn.sessions().any(|(_, s)| s.pending_len() > 0)
    }

    /// Writes the dispositions of one session: rejected, released, accepted, each in as few ranges as the ids allow
    /// (docs/compatibility.md, Publishing).
    pub(super) fn flush_session(&mut self, session: u16) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        if s.dispositions.is_empty() {
            return;
        }
        let mut ranges = std::mem::take(&mut s.dispositions);
        if ranges.len() > 1 {
            let base = ranges[0].first;
            ranges.sort_by_key(|d| (rank(&d.state), amqp10::serial::distance(d.first, base)));
            ranges.dedup_by(|next, last| last.join(next));
        }
        for d in &ranges {
            self.conn.disposition(session, Role::Receiver, (d.first, d.last), d.settled, &d.state);
        }
        ranges.clear();
        if let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) {
            s.dispositions = ranges;
        }
    }
}

fn rank(state: &DeliveryState) -> u8 {
    match state {
        DeliveryState::Rejected(_) => 0,
        DeliveryState::Released => 1,
        _ => 2,
    }
}
