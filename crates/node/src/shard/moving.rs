//! Publishes messages that are moved, for the admin API.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::admin_api::MoveRefusal;
use broker::mail::PublisherAddress;
use broker::moving::{MoveWait, Moving, NotMoved, route};
use broker::searches::Own;
use queue::{Publish, PublisherId};

use super::Shard;

/// A batch of messages that are moved.
#[derive(Debug)]
pub(super) struct Moves {
    /// The number of the question that asks for it.
    question: u64,
    vhost: Arc<str>,
    /// Those that are not published yet.
    left: VecDeque<Moving>,
}

impl Shard {
    /// Publishes these messages. The question of this number is answered when all targets have answered.
    pub(super) fn publish_moved(&mut self, question: u64, vhost: Arc<str>, messages: Vec<Moving>) {
        let wait = PublisherAddress::Moves(Box::new(MoveWait::new(question)));
        let Some(publisher) = self.connections.add_publisher(wait) else {
            let outcomes = messages.iter().map(|_| Err(MoveRefusal::NoPublisher)).collect();
            return self.answer_move(question, outcomes);
        };
        self.moves.insert(publisher, Moves { question, vhost, left: messages.into() });
        self.continue_moves(publisher);
    }

    /// Publishes the messages of a batch that are left, up to the first one whose route takes more than this turn.
    pub(super) fn continue_moves(&mut self, publisher: PublisherId) {
        let Some(Moves { question, vhost, mut left }) = self.moves.remove(&publisher) else { return };
        let now_ms = self.here.now_ms;
        while let Some(moving) = left.pop_front() {
            let random = self.connections.draw(self.here.id);
            let (searches, catalog) = (self.connections.searches(), self.metadata.catalog());
            let routed = match route(searches, catalog, (publisher, &vhost), &moving, random) {
                Ok(routed) => Ok(routed),
                Err(NotMoved::Refused(refused)) => Err(refused),
                Err(NotMoved::TooLong(too_long)) => {
                    self.counters.routing_steps += too_long.steps;
                    left.push_front(moving);
                    self.moves.insert(publisher, Moves { question, vhost, left });
                    return;
                }
            };
            let Some(PublisherAddress::Moves(wait)) = self.connections.publisher(publisher) else { return };
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
                self.mail.post.publish(&vhost, target, publish);
            }
        }
        self.finish_moves(publisher);
    }

    /// Publishes no more of a batch for which nobody waits. Those that are left return to their queue.
    pub(super) fn give_up_moves(&mut self, question: u64) {
        let of = |moves: &Moves| moves.question == question;
        let Some(publisher) = self.moves.iter().find(|(_, moves)| of(moves)).map(|(of, _)| *of) else {
            return;
        };
        self.moves.remove(&publisher);
        self.connections.searches().forget(Own::Moves(publisher));
        self.finish_moves(publisher);
    }

    /// Answers the question of a batch if no message is left and no verdict is missing.
    pub(super) fn finish_moves(&mut self, publisher: PublisherId) {
        if self.moves.contains_key(&publisher) {
            return;
        }
        let Some(PublisherAddress::Moves(wait)) = self.connections.publisher(publisher) else { return };
        if wait.is_done() {
            let wait = wait.clone();
            self.connections.remove_publisher(publisher);
            self.answer_move(wait.question, wait.into_outcomes());
        }
    }
}
