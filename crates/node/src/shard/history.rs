//! What exchanges of the kind `x-recent-history` keep: on the shard that decides, so that a binding finds all of it.

use std::sync::Arc;

use broker::catalog::{Binding, Change, Destination, Exchange, Letter, RouteTarget, RouteTargets};
use message::Message;
use queue::{Publish, PublisherId};

use super::Shard;

impl Shard {
    /// A number for an exchange that leaves something to chance.
    pub(super) fn draw(&mut self) -> u64 {
        self.unique += 1;
        u64::from(self.id) << 56 | self.unique
    }

    pub(super) fn handle_remember(&mut self, exchange: &Arc<Exchange>, messages: &[Message]) {
        // It may have been deleted since.
        let known = self.catalog.exchange(&exchange.vhost, &exchange.name);
        if known.is_some_and(|e| e.kind == exchange.kind) {
            messages.iter().for_each(|message| self.histories.remember(exchange, message));
        }
    }

    /// To be called when a change has been applied on the shard that decides, and nowhere else.
    pub(super) fn follow_history(&mut self, change: &Change) {
        match change {
            Change::Bound(binding) => self.replay(binding),
            Change::ExchangeDeleted { vhost, name } => self.histories.forget(vhost, name),
            _ => {}
        }
    }

    /// Gives a new binding what its exchange has kept.
    fn replay(&mut self, binding: &Binding) {
        let messages: Vec<Message> = self.histories.of(&binding.vhost, &binding.source).cloned().collect();
        // Nobody waits for these receipts: no registry gives out this id.
        let publisher = PublisherId(u64::from(self.id) << 56);
        for (seq, message) in (0..).zip(messages) {
            let random = self.draw();
            let targets: RouteTargets = match &binding.destination {
                Destination::Queue(name) => {
                    let queue = self.catalog.queue(&binding.vhost, name);
                    queue.map(|q| RouteTarget::Queue(q.id)).into_iter().collect()
                }
                Destination::Exchange(name) => {
                    let letter = Letter::of_message(&message, random);
                    self.catalog.route(&binding.vhost, name, &letter).unwrap_or_default().targets
                }
            };
            for target in targets {
                let publish = Publish { publisher, seq, message: message.clone(), patient: false };
                self.post.publish(&binding.vhost, target, publish);
            }
        }
    }
}
