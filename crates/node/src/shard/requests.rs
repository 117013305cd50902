//! Requests on their way to the machines of queues and streams, in runs.
//!
//! A turn applies all requests until they have made too many bytes of records. Then each queue gets one more
//! run, and the rest of its requests wait here until the log has accepted the records. So one frame that
//! settles thousands of messages with annotations does not block the clients of other queues.

use std::collections::VecDeque;
use std::vec;

use catalog::ids::QueueId;
use hashbrown::{HashMap, HashSet};
use queue::Request;

use super::Shard;

/// The most requests of one queue that are applied in a row. A bounded run keeps the effects that it makes in
/// the nearest caches.
pub(super) const RUN_MAX: usize = 64;

/// Requests that were sent together. Each is taken out only where it is used, because it is large.
pub(super) type Requests<'a> = vec::Drain<'a, (QueueId, Request)>;

/// If a turn has made this many bytes of records, or if this many are not written yet, further requests wait.
/// A turn reads half as much from sockets.
const RECORDS_MAX: u64 = 2 << 20;

/// Requests that wait for another turn, and later requests for the same queues.
#[derive(Debug, Default)]
pub(super) struct Left {
    by_queue: HashMap<QueueId, Vec<(QueueId, Request)>>,
    /// The queues in `by_queue`. The one that has waited longest is first.
    order: VecDeque<QueueId>,
    /// Queues that have had their run after this turn made too many records.
    served: HashSet<QueueId>,
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds requests of a queue after those that wait already.
    fn push(&mut self, queue: QueueId, requests: impl IntoIterator<Item = (QueueId, Request)>) {
        let order = &mut self.order;
        let entry = self.by_queue.entry(queue).or_insert_with(|| {
            order.push_back(queue);
            Vec::new()
        });
        entry.extend(requests);
    }

    /// Takes the requests of the queue that has waited longest.
    fn pop(&mut self) -> Option<(QueueId, Vec<(QueueId, Request)>)> {
        let queue = self.order.pop_front()?;
        self.by_queue.remove(&queue).map(|requests| (queue, requests))
    }

    /// Returns true if a queue's requests have to wait.
    fn must_wait(&mut self, queue: QueueId, has_made_enough: bool) -> bool {
        self.by_queue.contains_key(&queue) || has_made_enough && !self.served.insert(queue)
    }
}

impl Shard {
    /// Begins a turn with the requests that an earlier turn left.
    pub(super) fn apply_left(&mut self) {
        self.storage.begin_turn();
        self.mail.left.served.clear();
        while self.can_apply_left()
            && let Some((queue, mut requests)) = self.mail.left.pop()
        {
            let mut rest = requests.drain(..);
            while !rest.as_slice().is_empty() && !self.has_made_enough() {
                self.apply(queue, &mut rest);
            }
            if !rest.as_slice().is_empty() {
                self.mail.left.push(queue, rest);
            }
        }
    }

    /// Returns true if waiting requests can be applied in another turn. Otherwise they wait for the log, or
    /// there are none.
    pub(super) fn can_apply_left(&self) -> bool {
        !self.mail.left.is_empty() && !self.has_made_enough() && self.storage.bytes_to_write() <= RECORDS_MAX
    }

    /// Applies the first of these requests, which are for a queue of this shard, or makes them wait.
    pub(super) fn apply_or_leave(&mut self, queue: QueueId, requests: &mut Requests<'_>) {
        let has_made_enough = self.has_made_enough();
        let left = &mut self.mail.left;
        // The cheap conditions are checked first, because requests hardly ever wait.
        if (has_made_enough || !left.is_empty()) && left.must_wait(queue, has_made_enough) {
            left.push(queue, requests.next());
        } else {
            self.apply(queue, requests);
        }
    }

    fn has_made_enough(&self) -> bool {
        self.storage.bytes_made() > RECORDS_MAX
    }
}

/// Returns true if a request concerns consumers and is handled on the consumers' shard.
pub(super) fn is_for_readers(request: &Request) -> bool {
    matches!(
        request,
        Request::Attach(_)
            | Request::Cancel { .. }
            | Request::Detach { .. }
            | Request::Grant { .. }
            | Request::Settle { .. }
            | Request::Browse { .. }
            | Request::CancelBrowse { .. }
    )
}
