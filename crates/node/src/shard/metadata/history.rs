//! The messages that exchanges of type `x-recent-history` remember. They are on the deciding shard, so that a
//! new binding finds all of them.

use std::sync::Arc;

use broker::catalog::{Binding, Change, Destination, Exchange, Letter, RouteTarget, RouteTargets};
use message::Message;
use queue::{Publish, PublisherId};

use crate::shard::Shard;

impl Shard {
    pub(in crate::shard) fn handle_remember(&mut self, exchange: &Arc<Exchange>, messages: &[Message]) {
        // The exchange may have been deleted in the meantime.
        let known = self.metadata.catalog.exchange(&exchange.vhost, &exchange.name);
        if known.is_some_and(|e| e.kind == exchange.kind) {
            messages.iter().for_each(|message| self.metadata.histories.remember(exchange, message));
        }
    }

    /// Called on the deciding shard only, after it has applied a change.
    pub(in crate::shard) fn follow_history(&mut self, change: &Change) {
        match change {
            Change::Bound(binding) => self.replay(binding),
            Change::ExchangeDeleted { vhost, name } => self.metadata.histories.forget(vhost, name),
            _ => {}
        }
    }

    /// Publishes the remembered messages of its exchange to a new binding.
    fn replay(&mut self, binding: &Binding) {
        let messages: Vec<Message> =
            self.metadata.histories.of(&binding.vhost, &binding.source).cloned().collect();
        // No registry assigns this id, so the receipts are ignored.
        let publisher = PublisherId(u64::from(self.here.id) << 56);
        for (seq, message) in (0..).zip(messages) {
            let random = self.connections.draw(self.here.id);
            let targets: RouteTargets = match &binding.destination {
                Destination::Queue(name) => {
                    let queue = self.metadata.catalog.listed_queue(&binding.vhost, name);
                    queue.map(|q| RouteTarget::Queue(q.id)).into_iter().collect()
                }
                Destination::Exchange(name) => {
                    let letter = Letter::of_message(&message, random);
                    let routed =
                        self.metadata.catalog.route(&binding.vhost, name, &letter).unwrap_or_default();
                    self.counters.routing_steps += routed.steps;
                    routed.targets
                }
            };
            for target in targets {
                let publish = Publish { publisher, seq, message: message.clone(), pipelines: false };
                self.mail.post.publish(&binding.vhost, target, publish);
            }
        }
    }
}
