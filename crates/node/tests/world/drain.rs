//! The ends of the world: what is left is received, and must be what was confirmed.

use std::collections::BTreeMap;

use wal::Log;

use super::client::Client;
use super::{ADDRESS, DEAD_ADDRESS, DRAIN_STEPS_MAX, IDLE_STEPS_MAX, Of, World};

impl World {
    /// Disconnects all clients, and runs the broker until their messages are requeued.
    pub(crate) fn leave(&mut self) {
        std::mem::take(&mut self.clients).into_iter().for_each(|gone| self.disconnect(gone));
        (0..5000).for_each(|_| self.step_broker());
    }

    /// Connects a publisher and waits until one of its messages is confirmed. It is the only client: messages
    /// left by others would fill the disk, with nobody to settle them.
    pub(crate) fn publish_again(&mut self) {
        let confirmed = self.story.confirmed.len();
        // Some messages are rejected before the shards know that there is space.
        self.story.left = u64::MAX;
        self.leave();
        self.story.publishers += 1;
        let mut client = Client::publisher(self.story.publishers, ADDRESS, self.now_ms);
        client.fickle = false;
        self.place_on(0, client, Of::Queue);
        for _ in 0..50_000 {
            self.step_client();
            self.step_broker();
            if self.story.confirmed.len() > confirmed {
                return;
            }
        }
        panic!("no message is accepted any more: {:?}", self.log.as_ref().map(Log::size));
    }

    /// Fills the disk of the packs. A publisher without a consumer is rejected in the end, and no message
    /// stays unanswered for long.
    pub(crate) fn fill_packs(&mut self) {
        self.packs_disk.limit(0);
        self.leave();
        self.story.publishers += 1;
        let mut client = Client::publisher(self.story.publishers, ADDRESS, self.now_ms);
        client.fickle = false;
        self.place_on(0, client, Of::Queue);
        let rejected = self.story.rejected.len();
        for _ in 0..50_000 {
            self.step_client();
            self.step_broker();
            if self.story.rejected.len() > rejected {
                return;
            }
        }
        panic!("nothing is refused, and {} bytes are under way", self.clients[0].client.in_flight_bytes());
    }

    /// Ends all trouble. One consumer of each queue takes what is left, and the story must be consistent.
    pub(crate) fn drain_and_check(&mut self) {
        self.disk.heal();
        self.packs_disk.heal();
        self.leave();
        let client = Client::consumer(100, ADDRESS, self.now_ms);
        let mut client = client.in_any_protocol(&mut self.random, self.now_ms);
        client.fickle = false;
        self.place_on(0, client, Of::Queue);
        if self.story.has_dead_letters {
            let mut client = Client::consumer(100, DEAD_ADDRESS, self.now_ms);
            client.fickle = false;
            self.place_on(0, client, Of::Queue);
        }
        let mut quiet = 0;
        let mut seen = 0;
        for _ in 0..DRAIN_STEPS_MAX {
            self.step_broker();
            for placed in &mut self.clients {
                placed.client.act(&mut self.story, &mut self.random);
            }
            self.exchange_bytes();
            let now = self.clients.iter().map(|placed| placed.client.got.len()).sum();
            // Mail is delivered more slowly here than turns send it. So the world is not quiet while much
            // mail is in flight.
            let is_late = self.mail.values().any(|batches| batches.len() > 1);
            quiet = if now == seen { quiet + u32::from(!is_late) } else { 0 };
            seen = now;
            if quiet == 3000 {
                break;
            }
        }
        self.check_totals();
        self.check_log_shrinks();
        let story = &self.story;
        let lost: Vec<_> = story.confirmed.difference(&story.received).collect();
        assert!(
            lost.is_empty(),
            "{} confirmed but never received: {:?}",
            lost.len(),
            &lost[..lost.len().min(20)]
        );
        let invented: Vec<_> = story.received.iter().filter(|id| !story.sent.contains_key(id)).collect();
        assert!(invented.is_empty(), "received but never sent: {invented:?}");
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for id in &self.clients[0].client.got {
            let publisher = story.sent[id];
            let before = last.insert(publisher, *id);
            assert!(before.is_none_or(|b| b < *id), "publisher {publisher}: {id} after {before:?}");
        }
    }

    /// Checks that the log gives its garbage back if nobody does anything any more. Not with streams, which the passing time may
    /// shorten.
    fn check_log_shrinks(&mut self) {
        if self.streams.is_some() {
            return;
        }
        for _ in 0..IDLE_STEPS_MAX {
            let Some(log) = &self.log else { return };
            let bytes = log.size().oldest.map_or(0, |_| log.size().bytes);
            if self.shards.iter().all(|shard| shard.excess(bytes) == 0) {
                return;
            }
            self.step_broker();
            self.exchange_bytes();
        }
        panic!("the log of an idle broker does not shrink: {:?}", self.log.as_ref().map(Log::size));
    }
}
