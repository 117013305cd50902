//! Queues of this shard that have ended, until the catalog has forgotten them.
//!
//! ```text
//!   a queue ends ──> proposed ──answered──> forgotten: who waits is answered
//!                      ▲  │ refused, or no answer
//!                      └──┘ again, after a wait
//! ```
//!
//! A quorum queue ends when its group has committed that it does, other queues when they decide so.
//!
//! A queue ends because something has happened: its connection has closed, its last consumer has gone, nobody has used it, or
//! somebody has deleted it. So the command that removes it from the catalog is kept and proposed until it is applied. If an
//! earlier proposal is decided already, or waits to be decided, the repetition is dropped ([`catalog::Pending`]). If the queue is
//! forgotten already, the repetition is answered, and changes nothing: the id of the queue names its incarnation.
//!
//! Nothing of this is written here. The group of a quorum queue says that it has ended, so after a restart the catalog is told again
//! (`Shard::end_again`). An exclusive queue is gone, and an unused queue expires again. But a durable
//! auto-delete queue exists again if its end was not synced, and then it lives until its next last consumer leaves.

use std::collections::VecDeque;

use broker::mail::Mail;
use broker::own_queues::ANSWER_WAIT_MS;
use catalog::ids::QueueId;
use hashbrown::HashMap;
use queue::{Effect, GoneReason, Refusal, Request, Requester, Ticket};
use wal::Extent;

/// The time after which a command without an answer is proposed again, in milliseconds. On a healthy node the answer takes the
/// time of a sync. While the disk stands still, repetitions are dropped where they arrive.
const AGAIN_MS: u64 = 5000;

/// The most commands that are proposed again at once, oldest first. Whoever decides them may be slow, and each takes memory
/// on its way there. The others follow when one of these is answered, or after a pause.
const AGAIN_MAX: usize = 100;

/// The longest pause, in milliseconds. Each pause without any answer is twice as long as the one before.
const PAUSE_MS_MAX: u64 = 60_000;

/// The most answers that wait for one queue. Clients that delete an ended queue come and go while the log stands still. Those
/// beyond the limit are answered at once.
const ANSWERS_MAX: usize = 1024;

/// What remains to do when the catalog has forgotten a queue.
#[derive(Debug, Default)]
pub(in crate::shard) struct Forgetting {
    /// The answers to whoever waits for the end of the queue.
    pub answers: Vec<Mail>,
    pub extents: Vec<Extent>,
    /// The queue is on another node, which is away, and somebody wants it deleted. If the catalog refuses, the asker is told.
    pub is_elsewhere: bool,
}

/// The queues that have ended; see the module. They are bounded by the queues that live on the shard.
#[derive(Debug, Default)]
pub(super) struct Ended {
    queues: HashMap<QueueId, EndedQueue>,
    /// The proposals, oldest first, each with its time. Some may be out of date.
    proposed: VecDeque<(u64, QueueId)>,
    /// The queues whose consumers wait for the answer to Cancel, each with the time at which it is sent in any case.
    cancels: VecDeque<(u64, QueueId)>,
    /// Nothing is proposed again before this time, unless an answer arrives.
    pause_until_ms: u64,
    /// The number of pauses since the last answer.
    pauses: u32,
}

#[derive(Debug)]
struct EndedQueue {
    /// The ticket of the proposal. `None` if the shard had no number left.
    ticket: Option<Ticket>,
    proposed_ms: u64,
    forgetting: Forgetting,
}

impl Ended {
    /// Adds a queue whose end is proposed now.
    pub(super) fn add(
        &mut self,
        queue: QueueId,
        ticket: Option<Ticket>,
        forgetting: Forgetting,
        now_ms: u64,
    ) {
        if forgetting.answers.iter().any(is_of_cancel) {
            self.cancels.push_back((now_ms + ANSWER_WAIT_MS, queue));
        }
        self.proposed.push_back((now_ms, queue));
        self.queues.insert(queue, EndedQueue { ticket, proposed_ms: now_ms, forgetting });
    }

    /// Returns true if the queue is on another node.
    pub(super) fn is_elsewhere(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_some_and(|ended| ended.forgetting.is_elsewhere)
    }

    /// Called for a request to delete a queue. Returns true if the queue has ended. Then the request is answered when the catalog
    /// has forgotten the queue.
    pub(super) fn answer_later(&mut self, queue: QueueId, request: &Request) -> bool {
        let Request::Delete { ticket, .. } = *request else { return false };
        let Some(ended) = self.queues.get_mut(&queue) else { return false };
        let answers = &mut ended.forgetting.answers;
        if answers.len() >= ANSWERS_MAX {
            return false;
        }
        let effect = Effect::Refused { requester: Requester::Ticket(ticket), why: Refusal::NotFound };
        answers.push(Mail::Effect { queue, effect });
        true
    }

    /// Called when the catalog has forgotten a queue. Returns what remains to do.
    pub(super) fn handle_forgotten(&mut self, queue: QueueId) -> Forgetting {
        (self.pauses, self.pause_until_ms) = (0, 0);
        let ended = self.queues.remove(&queue);
        if self.queues.is_empty() {
            (self.proposed, self.cancels) = Default::default();
        }
        ended.map(|ended| ended.forgetting).unwrap_or_default()
    }

    /// Returns when [`Self::poll_again`] or [`Self::poll_cancels`] has something to do.
    pub(super) fn next_due(&self) -> Option<u64> {
        let again = self.proposed.front().map(|(at, _)| (at + AGAIN_MS).max(self.pause_until_ms));
        again.into_iter().chain(self.cancels.front().map(|(due, _)| *due)).min()
    }

    /// Returns the queues whose end must be proposed again, each with the ticket of the proposal.
    pub(super) fn poll_again(&mut self, now_ms: u64) -> Vec<(QueueId, Option<Ticket>)> {
        let mut again = Vec::new();
        if now_ms < self.pause_until_ms {
            return again;
        }
        while again.len() < AGAIN_MAX
            && let Some((at, queue)) = self.proposed.pop_front_if(|(at, _)| *at + AGAIN_MS <= now_ms)
        {
            if let Some(ended) = self.queues.get_mut(&queue).filter(|ended| ended.proposed_ms == at) {
                ended.proposed_ms = now_ms;
                self.proposed.push_back((now_ms, queue));
                again.push((queue, ended.ticket));
            }
        }
        if !again.is_empty() {
            self.pauses = (self.pauses + 1).min(8);
            self.pause_until_ms = now_ms + (AGAIN_MS << self.pauses).min(PAUSE_MS_MAX);
        }
        again
    }

    /// Returns true if the queue has ended, and the catalog has not forgotten it.
    pub(super) fn contains(&self, queue: QueueId) -> bool {
        self.queues.contains_key(&queue)
    }

    /// Returns the ticket of the proposal, `Some(None)` if it has none. `None` if the queue has not ended.
    pub(super) fn ticket(&self, queue: QueueId) -> Option<Option<Ticket>> {
        self.queues.get(&queue).map(|ended| ended.ticket)
    }

    /// Sets the ticket of a proposal that had none.
    pub(super) fn set_ticket(&mut self, queue: QueueId, ticket: Option<Ticket>) {
        if let Some(ended) = self.queues.get_mut(&queue) {
            ended.ticket = ticket;
        }
    }

    /// Returns the answers to Cancel that have waited for the catalog long enough.
    pub(super) fn poll_cancels(&mut self, now_ms: u64) -> Vec<Mail> {
        let mut ready = Vec::new();
        while let Some((_, queue)) = self.cancels.pop_front_if(|(due, _)| *due <= now_ms) {
            let ended = self.queues.get_mut(&queue);
            ready.extend(
                ended
                    .into_iter()
                    .flat_map(|ended| ended.forgetting.answers.extract_if(.., |answer| is_of_cancel(answer))),
            );
        }
        ready
    }
}

/// Returns true for the answer to a consumer that was cancelled.
fn is_of_cancel(answer: &Mail) -> bool {
    matches!(answer, Mail::Effect { effect: Effect::Gone { reason: GoneReason::Cancelled, .. }, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1000;

    fn queue(slot: usize) -> QueueId {
        QueueId::new(1, slot as u32)
    }

    fn ended(queues: usize) -> Ended {
        let mut ended = Ended::default();
        (0..queues).for_each(|slot| {
            ended.add(queue(slot), Some(Ticket(slot as u64)), Forgetting::default(), NOW_MS);
        });
        ended
    }

    #[test]
    fn what_is_not_answered_is_proposed_again_until_it_is() {
        let mut ended = ended(1);
        let (mut now_ms, mut waits) = (NOW_MS, Vec::new());
        for _ in 0..6 {
            let due_ms = ended.next_due().unwrap();
            assert!(ended.poll_again(due_ms - 1).is_empty());
            waits.push(due_ms - now_ms);
            now_ms = due_ms;
            assert_eq!(ended.poll_again(now_ms), [(queue(0), Some(Ticket(0)))]);
        }
        assert_eq!(waits, [5000, 10_000, 20_000, 40_000, 60_000, 60_000]);
        ended.handle_forgotten(queue(0));
        assert_eq!(ended.next_due(), None);
        assert!(ended.poll_again(u64::MAX).is_empty());
    }

    #[test]
    fn few_are_proposed_again_until_one_of_them_is_answered() {
        let mut ended = ended(250);
        let at = |ended: &mut Ended, now_ms| {
            ended.poll_again(now_ms).into_iter().map(|(queue, _)| queue.slot()).collect::<Vec<_>>()
        };
        let now_ms = NOW_MS + AGAIN_MS;
        assert_eq!(at(&mut ended, now_ms), (0..100).collect::<Vec<_>>());
        assert!(at(&mut ended, now_ms).is_empty(), "nobody answers");
        ended.handle_forgotten(queue(7));
        assert_eq!(at(&mut ended, now_ms), (100..200).collect::<Vec<_>>(), "somebody does");
        ended.handle_forgotten(queue(8));
        assert_eq!(at(&mut ended, now_ms), (200..250).collect::<Vec<_>>());
        ended.handle_forgotten(queue(9));
        assert!(at(&mut ended, now_ms).is_empty(), "each is proposed once in a while");
        assert!(!at(&mut ended, now_ms + AGAIN_MS).contains(&9), "it is forgotten");
    }

    #[test]
    fn many_that_end_and_are_forgotten_take_no_memory_for_long() {
        let mut ended = ended(1);
        for slot in 1..100_000 {
            let now_ms = NOW_MS + slot as u64;
            ended.add(queue(slot), None, Forgetting::default(), now_ms);
            ended.handle_forgotten(queue(slot));
            ended.poll_again(now_ms);
        }
        assert_eq!(ended.queues.len(), 1);
        assert!(ended.proposed.len() <= AGAIN_MS as usize + 1, "{}", ended.proposed.len());
    }
}
