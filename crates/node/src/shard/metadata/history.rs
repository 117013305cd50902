//! The messages that exchanges of type `x-recent-history` remember. They are on the node shard, so that a
//! new binding finds all of them.

use std::sync::Arc;

use broker::searches::{Asker, Own};
use catalog::categories::PEER;
use catalog::{Binding, Change, Destination, Exchange, RouteTarget, RouteTargets};
use message::Message;
use queue::{Publish, PublisherId};

use crate::shard::Shard;

/// The most remembered messages that wait for their routes. New bindings get none beyond that.
const REPLAYS_MAX: usize = 20_000;

/// The maximum size of these messages together, in bytes: twice what one exchange remembers.
const REPLAY_BYTES_MAX: u64 = 64 << 20;

/// A remembered message on its way to an exchange that was bound.
#[derive(Debug)]
pub(super) struct Replay {
    vhost: Arc<str>,
    exchange: Arc<str>,
    message: Message,
}

impl Shard {
    pub(in crate::shard) fn handle_remember(&mut self, exchange: &Arc<Exchange>, messages: &[Message]) {
        // The exchange may have been deleted in the meantime.
        let known = self.metadata.catalog.exchange(&exchange.vhost, &exchange.name);
        if known.is_some_and(|e| e.kind == exchange.kind) {
            messages.iter().for_each(|message| self.metadata.histories.remember(exchange, message));
        }
    }

    /// Called on the node shard only, after it has applied a change.
    pub(in crate::shard) fn follow_history(&mut self, change: &Change) {
        match change {
            Change::Bound(binding) => self.replay(binding),
            Change::ExchangeDeleted { vhost, name } => self.metadata.histories.forget(vhost, name),
            _ => {}
        }
    }

    /// Publishes the remembered messages of its exchange to a new binding.
    fn replay(&mut self, binding: &Binding) {
        let vhost = &binding.vhost;
        let messages = self.metadata.histories.of(vhost, &binding.source).cloned();
        let messages: Vec<Message> = messages.collect();
        if messages.is_empty() {
            return;
        }
        match &binding.destination {
            Destination::Queue(name) => {
                let queue = self.metadata.catalog.listed_queue(vhost, name).map(|q| RouteTarget::Queue(q.id));
                let targets: RouteTargets = queue.into_iter().collect();
                messages.into_iter().for_each(|message| self.publish_replayed(vhost, message, &targets));
            }
            Destination::Exchange(exchange) => {
                let waiting = self.metadata.replays.iter().map(|replay| &replay.message);
                let bytes: u64 = waiting.chain(&messages).map(Message::bytes_in_memory).sum();
                if self.metadata.replays.len() + messages.len() > REPLAYS_MAX || bytes > REPLAY_BYTES_MAX {
                    tracing::warn!(
                        name: PEER, exchange = &**exchange, vhost = &**vhost,
                        "a new binding gets no recent history: those before it are still on their way"
                    );
                    return;
                }
                let is_first = self.metadata.replays.is_empty();
                let replay = |message| Replay { vhost: vhost.clone(), exchange: exchange.clone(), message };
                self.metadata.replays.extend(messages.into_iter().map(replay));
                if is_first {
                    self.continue_replays();
                }
            }
        }
    }

    /// Publishes the remembered messages that are left, up to the first one whose route takes more than this turn.
    pub(in crate::shard) fn continue_replays(&mut self) {
        while let Some(Replay { vhost, exchange, message }) = self.metadata.replays.pop_front() {
            let random = self.connections.draw(self.here.id);
            let (searches, catalog) = (self.connections.searches(), &self.metadata.catalog);
            let found = searches.take_found(Asker::Own(Own::Histories));
            match searches.route_stored(Own::Histories, found, catalog, (&vhost, &exchange), &message, random)
            {
                Ok(routed) => {
                    let routed = routed.unwrap_or_default();
                    self.counters.routing_steps += routed.steps;
                    self.publish_replayed(&vhost, message, &routed.targets);
                }
                Err(too_long) => {
                    self.counters.routing_steps += too_long.steps;
                    self.metadata.replays.push_front(Replay { vhost, exchange, message });
                    return;
                }
            }
        }
    }

    fn publish_replayed(&mut self, vhost: &Arc<str>, message: Message, targets: &[RouteTarget]) {
        // No registry assigns this id, so the receipts are ignored.
        let publisher = PublisherId(u64::from(self.here.id) << 56);
        self.metadata.replayed += 1;
        let seq = self.metadata.replayed;
        for target in targets {
            let publish = Publish { publisher, seq, message: message.clone(), pipelines: false };
            self.mail.post.publish(vhost, *target, publish);
        }
    }
}
