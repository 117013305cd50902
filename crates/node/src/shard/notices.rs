//! Publishes the notices of this shard: the messages of the broker itself (docs/decisions/0042).

use broker::catalog_events::events_of;
use broker::mail::PublisherAddress;
use broker::notices::{NOTICES, Notice};
use broker::searches::{Asker, Own};
use catalog::categories::{PEER, QUEUE};
use catalog::{Change, argument_warnings};
use queue::{Publish, PublisherId};

use super::Shard;

impl Shard {
    /// Takes in a notice of another thread. It is published in the next turn.
    pub fn handle_notice(&mut self, notice: Notice) {
        self.mail.post.notices.push(notice);
    }

    /// Called on the deciding shard before it applies a change that `by` has asked for.
    pub(super) fn emit_change(&mut self, change: &Change, by: Option<&str>) {
        for warning in argument_warnings(change) {
            tracing::warn!(name: PEER, target: QUEUE, "{warning}");
        }
        if let Some(vhost) = self.metadata.settings().event_vhost() {
            let (catalog, outbox) = (self.metadata.catalog(), &mut self.mail.post.notices);
            events_of(catalog, change, by, vhost, self.here.now_ms, |event| outbox.push(event));
        }
    }

    /// Publishes the notices that wait, up to the first one whose route takes more than this turn. Their receipts make room for
    /// others.
    pub(super) fn publish_notices(&mut self) {
        while let Some(notice) = self.mail.post.notices.take() {
            self.publish_notice(notice);
        }
        let dropped = self.mail.post.notices.take_dropped();
        if dropped > 0 {
            self.counters.notices_dropped += dropped;
            tracing::warn!(
                name: PEER, target: NOTICES, dropped,
                "messages about the broker were dropped: their queues are too slow, or an alarm stops publishers"
            );
        }
    }

    /// Goes on when the route of the first notice is found.
    pub(super) fn continue_notices(&mut self) {
        self.mail.post.notices.handle_route();
        self.publish_notices();
    }

    fn publish_notice(&mut self, notice: Notice) {
        let Some(message) = notice.to_message() else { return self.mail.post.notices.note_dropped(&notice) };
        let random = self.connections.draw(self.here.id);
        let (searches, catalog) = (self.connections.searches(), self.metadata.catalog());
        let found = searches.take_found(Asker::Own(Own::Notices));
        let to = (&notice.vhost, message.route().exchange());
        let routed = match searches.route_stored(Own::Notices, found, catalog, to, &message, random) {
            Ok(routed) => routed.unwrap_or_default(),
            Err(too_long) => {
                self.counters.routing_steps += too_long.steps;
                return self.mail.post.notices.put_back(notice);
            }
        };
        self.counters.routing_steps += routed.steps;
        if routed.targets.is_empty() && routed.histories.is_empty() {
            return self.mail.post.notices.note_unroutable(&notice);
        }
        let publisher = self.notice_publisher();
        let is_stopped = self.connections.is_blocked() && !notice.passes_alarms;
        let Some(publisher) = publisher.filter(|_| !is_stopped) else {
            return self.mail.post.notices.note_dropped(&notice);
        };
        self.counters.notices_published += 1;
        routed.histories.iter().for_each(|exchange| self.mail.post.remember(exchange, message.clone()));
        if routed.targets.is_empty() {
            return self.mail.post.notices.note_unroutable(&notice);
        }
        let seq = self.mail.post.notices.note_published(&notice, routed.targets.len() as u32);
        for target in routed.targets {
            let publish = Publish { publisher, seq, message: message.clone(), pipelines: false };
            self.mail.post.publish(&notice.vhost, target, publish);
        }
    }

    /// Returns the publisher of notices. It is registered with the first notice that a queue gets.
    fn notice_publisher(&mut self) -> Option<PublisherId> {
        if self.notice_publisher.is_none() {
            self.notice_publisher = self.connections.add_publisher(PublisherAddress::Notices);
        }
        self.notice_publisher
    }
}
