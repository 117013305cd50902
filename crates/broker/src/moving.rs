//! Messages that are moved or redriven, on their way: their routes, and the verdicts on them.

use std::sync::Arc;

use catalog::ids::QueueId;
use catalog::{Catalog, RouteTarget, Routed};
use message::Message;
use queue::{PublisherId, RejectReason, Verdict};

use crate::admin_api::MoveRefusal;
use crate::searches::{Asker, Own, Searches, TooLong};

/// A message to publish again, with the exchange and the routing keys that its receivers see.
#[derive(Clone, Debug)]
pub struct Moving {
    pub message: Message,
    /// The queue that gets it. `None` if its exchange decides.
    pub queue: Option<Arc<str>>,
}

/// Why a message is not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMoved {
    Refused(MoveRefusal),
    /// The search for its route has begun.
    TooLong(TooLong),
}

impl From<MoveRefusal> for NotMoved {
    fn from(refused: MoveRefusal) -> Self {
        Self::Refused(refused)
    }
}

/// Returns the targets of a message of this publisher. `random` differs from message to message.
///
/// # Errors
/// What the message names is gone, internal, or leads to no queue; or the route takes too many steps.
pub fn route(
    searches: &mut Searches,
    catalog: &Catalog,
    (publisher, vhost): (PublisherId, &Arc<str>),
    moving: &Moving,
    random: u64,
) -> Result<Routed, NotMoved> {
    // Nothing else must get what was found for the message that is handled again.
    let own = Own::Moves(publisher);
    let found = searches.take_found(Asker::Own(own));
    if let Some(name) = &moving.queue {
        let queue = catalog.listed_queue(vhost, name).ok_or_else(|| MoveRefusal::NoQueue(name.clone()))?;
        let targets = std::iter::once(RouteTarget::Queue(queue.id)).collect();
        return Ok(Routed { targets, ..Routed::default() });
    }
    let route = moving.message.route();
    let exchange = route.exchange();
    if catalog.exchange(vhost, exchange).is_some_and(|exchange| exchange.internal) {
        return Err(MoveRefusal::InternalExchange(exchange.clone()).into());
    }
    let routed = searches.route_stored(own, found, catalog, (vhost, exchange), &moving.message, random);
    let routed =
        routed.map_err(NotMoved::TooLong)?.ok_or_else(|| MoveRefusal::NoExchange(exchange.clone()))?;
    if routed.targets.is_empty() {
        return Err(MoveRefusal::Unroutable { exchange: exchange.clone(), key: route.key().into() }.into());
    }
    Ok(routed)
}

/// A batch of messages that wait for the verdicts of their targets. A message has its place in the batch as number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveWait {
    /// The number of the question to answer.
    pub question: u64,
    waits: Vec<Wait>,
    /// The number of verdicts that are missing.
    left: usize,
}

/// One message of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wait {
    left: u32,
    accepted: bool,
    refused: Option<MoveRefusal>,
}

impl MoveWait {
    pub fn new(question: u64) -> Self {
        Self { question, waits: Vec::new(), left: 0 }
    }

    /// Adds the next message: the number of its targets, or why it has none. Returns its number.
    pub fn add(&mut self, targets: Result<usize, MoveRefusal>) -> u64 {
        let number = self.waits.len() as u64;
        self.waits.push(match targets {
            Ok(targets) => {
                self.left += targets;
                Wait { left: targets as u32, ..Wait::default() }
            }
            Err(refused) => Wait { refused: Some(refused), ..Wait::default() },
        });
        number
    }

    /// Handles the verdict of one queue on the messages `first..=last`. `name` is the name of the queue.
    pub fn handle_receipt(&mut self, (first, last): (u64, u64), verdict: Verdict, name: &Arc<str>) {
        for number in first..=last {
            let Some(wait) = self.waits.get_mut(number as usize).filter(|wait| wait.left > 0) else { return };
            wait.left -= 1;
            self.left -= 1;
            let refused = match verdict {
                Verdict::Accepted => {
                    wait.accepted = true;
                    continue;
                }
                // Counts only if no other queue accepts: the queue is gone, so nobody misses the message there.
                Verdict::Released => {
                    wait.refused.get_or_insert_with(|| MoveRefusal::NoQueue(name.clone()));
                    continue;
                }
                Verdict::Rejected(RejectReason::MaxLength) => MoveRefusal::Full(name.clone()),
                // It stays where it was. If nobody knows the outcome, it may be in both queues.
                Verdict::Rejected(
                    RejectReason::Unavailable | RejectReason::NoLeader | RejectReason::OutOfReach,
                )
                | Verdict::Unknown => MoveRefusal::Unavailable(name.clone()),
                Verdict::Rejected(RejectReason::Damaged) => MoveRefusal::Damaged(name.clone()),
            };
            wait.refused = Some(refused);
        }
    }

    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Returns what has become of each message, in their order. As for any publisher, a rejection by one queue decides.
    pub fn into_outcomes(self) -> Vec<Result<(), MoveRefusal>> {
        self.waits.into_iter().map(Wait::outcome).collect()
    }
}

impl Wait {
    fn outcome(self) -> Result<(), MoveRefusal> {
        match self.refused {
            Some(MoveRefusal::NoQueue(_)) if self.accepted => Ok(()),
            Some(refused) => Err(refused),
            None => Ok(()),
        }
    }
}

/// Returns the name of a queue for people. A queue that is gone has a number only.
pub fn name_of(catalog: &Catalog, queue: QueueId) -> Arc<str> {
    match catalog.queue_by_id(queue) {
        Some(record) => record.name.clone(),
        None => format!("number {}", queue.0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_several_queues_are_merged() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut wait = MoveWait::new(1);
        for targets in [1, 2, 2, 2] {
            wait.add(Ok(targets));
        }
        assert_eq!(wait.add(Err(MoveRefusal::NoExchange(a.clone()))), 4);
        wait.handle_receipt((0, 1), Verdict::Accepted, &a);
        wait.handle_receipt((1, 1), Verdict::Rejected(RejectReason::MaxLength), &b);
        wait.handle_receipt((2, 3), Verdict::Released, &b);
        wait.handle_receipt((2, 2), Verdict::Accepted, &a);
        assert!(!wait.is_done());
        wait.handle_receipt((3, 9), Verdict::Released, &a);
        wait.handle_receipt((0, 0), Verdict::Released, &a);
        assert!(wait.is_done());
        let gone = Err(MoveRefusal::NoQueue(b.clone()));
        let none = Err(MoveRefusal::NoExchange(a));
        assert_eq!(wait.into_outcomes(), [Ok(()), Err(MoveRefusal::Full(b)), Ok(()), gone, none]);
    }
}
