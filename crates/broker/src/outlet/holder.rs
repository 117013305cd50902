//! Deliveries that are fetched one by one, without a consumer.

use queue::{ConsumerId, Outcome, Request, Ticket};

use crate::cx::Cx;
use crate::ids::QueueId;
use crate::mail::GateAddress;

/// Holds what was fetched from one queue until it is settled. Call [`Holder::close`] when it goes.
#[derive(Debug)]
pub struct Holder {
    id: ConsumerId,
    queue: QueueId,
}

impl Holder {
    /// Registers a holder. Returns `None` if the shard has no place for one more.
    pub fn open(at: GateAddress, queue: QueueId, cx: &mut Cx<'_>) -> Option<Self> {
        Some(Self { id: ConsumerId(cx.consumers.insert(at)?), queue })
    }

    /// Asks for up to `n` messages. They come as [`queue::Effect::Fetched`] with this ticket.
    pub fn fetch(&self, n: u32, settled: bool, ticket: Ticket, cx: &mut Cx<'_>) {
        cx.post.request(self.queue, Request::Fetch { ticket, holder: self.id, n, settled });
    }

    /// The peer says what became of the deliveries `first..=last`. With `answer`, [`queue::Effect::Settled`] follows.
    pub fn settle(&self, (first, last): (u64, u64), outcome: Outcome, answer: bool, cx: &mut Cx<'_>) {
        let settle = Request::Settle { consumer: self.id, first, last, outcome, answer };
        cx.post.request(self.queue, settle);
    }

    /// Ends the holder: what is not settled goes back to the queue. `failed` raises the delivery count.
    pub fn close(self, failed: bool, cx: &mut Cx<'_>) {
        cx.consumers.remove(self.id.0);
        cx.post.request(self.queue, Request::Detach { consumer: self.id, failed });
    }
}
