//! Publishes messages that are moved, for the desk (the management front end).

use std::sync::Arc;

use broker::desk::MoveRefusal;
use broker::mail::PublisherAddress;
use broker::moving::{MoveWait, Moving, route};
use queue::{Publish, PublisherId};

use super::Shard;
use crate::questions::Reply;

impl Shard {
    /// Publishes these messages. Returns what has become of them if this is known at once. Otherwise the question of this
    /// number is answered when all targets have answered.
    pub(super) fn publish_moved(
        &mut self,
        question: u64,
        vhost: &Arc<str>,
        messages: Vec<Moving>,
    ) -> Option<Vec<Result<(), MoveRefusal>>> {
        let wait = PublisherAddress::Moves(Box::new(MoveWait::new(question)));
        let Some(publisher) = self.connections.add_publisher(wait) else {
            return Some(messages.iter().map(|_| Err(MoveRefusal::NoPublisher)).collect());
        };
        let now_ms = self.here.now_ms;
        for moving in messages {
            let random = self.connections.draw(self.here.id);
            let routed = route(self.metadata.catalog(), vhost, &moving, random);
            let Some(PublisherAddress::Moves(wait)) = self.connections.publisher(publisher) else {
                return None;
            };
            let routed = match routed {
                Ok(routed) => routed,
                Err(refused) => {
                    wait.add(Err(refused));
                    continue;
                }
            };
            self.counters.routing_steps += routed.steps;
            let seq = wait.add(Ok(routed.targets.len()));
            // Deaths before a redrive or a move make no cycle. A message that has not died stays as it is.
            let message = match moving.message.deaths() {
                Some(_) => moving.message.redriven(now_ms),
                None => moving.message,
            };
            routed.histories.iter().for_each(|x| self.mail.post.remember(x, message.clone()));
            for target in routed.targets {
                let publish = Publish { publisher, seq, message: message.clone(), pipelines: false };
                self.mail.post.publish(vhost, target, publish);
            }
        }
        self.finish_moves(publisher);
        None
    }

    /// Answers the question of a batch if no verdict is missing.
    pub(super) fn finish_moves(&mut self, publisher: PublisherId) {
        let Some(PublisherAddress::Moves(wait)) = self.connections.publisher(publisher) else { return };
        if wait.is_done() {
            let wait = wait.clone();
            self.connections.remove_publisher(publisher);
            self.desk_reply(wait.question, Reply::Moved(wait.into_outcomes()));
        }
    }
}
