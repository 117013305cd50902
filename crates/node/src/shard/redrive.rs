//! Publishes dead letters again for the desk (the management front end).

use std::sync::Arc;

use broker::desk::RedriveRefusal;
use broker::mail::PublisherAddress;
use broker::redrive::{RedriveWait, Redriving, route};
use queue::{Publish, PublisherId};

use super::Shard;
use crate::questions::Reply;

impl Shard {
    /// Publishes these messages. Returns what has become of them if this is known at once. Otherwise the question of this
    /// number is answered when all targets have answered.
    pub(super) fn redrive(
        &mut self,
        question: u64,
        vhost: &Arc<str>,
        letters: Vec<Redriving>,
    ) -> Option<Vec<Result<(), RedriveRefusal>>> {
        let wait = PublisherAddress::Redrive(Box::new(RedriveWait::new(question)));
        let Some(publisher) = self.connections.add_publisher(wait) else {
            return Some(letters.iter().map(|_| Err(RedriveRefusal::NoPublisher)).collect());
        };
        let now_ms = self.here.now_ms;
        for letter in letters {
            let random = self.connections.draw(self.here.id);
            let routed = route(self.metadata.catalog(), vhost, &letter, random);
            let Some(PublisherAddress::Redrive(wait)) = self.connections.publisher(publisher) else {
                return None;
            };
            let routed = match routed {
                Ok(routed) => routed,
                Err(refused) => {
                    wait.add(Err(refused));
                    continue;
                }
            };
            let seq = wait.add(Ok(routed.targets.len()));
            let message = letter.message.redriven(now_ms);
            routed.histories.iter().for_each(|x| self.mail.post.remember(x, message.clone()));
            for target in routed.targets {
                let publish = Publish { publisher, seq, message: message.clone(), pipelines: false };
                self.mail.post.publish(vhost, target, publish);
            }
        }
        self.finish_redrive(publisher);
        None
    }

    /// Answers the question of a batch if no verdict is missing.
    pub(super) fn finish_redrive(&mut self, publisher: PublisherId) {
        let Some(PublisherAddress::Redrive(wait)) = self.connections.publisher(publisher) else { return };
        if wait.is_done() {
            let wait = wait.clone();
            self.connections.remove_publisher(publisher);
            self.desk_reply(wait.question, Reply::Redriven(wait.into_outcomes()));
        }
    }
}
