//! Messages that are fetched on request, without a consumer.

use queue::{ConsumerId, Outcome, Request, Ticket};

use crate::cx::Cx;
use crate::ids::QueueId;
use crate::mail::GateAddress;

/// Holds messages that were fetched from one queue until they are settled. Call [`Holder::close`] when the holder
/// ends.
#[derive(Debug)]
pub struct Holder {
    id: ConsumerId,
    queue: QueueId,
}

impl Holder {
    /// Registers a holder. Returns `None` if the shard cannot register any more.
    pub fn open(at: GateAddress, queue: QueueId, cx: &mut Cx<'_>) -> Option<Self> {
        Some(Self { id: ConsumerId(cx.consumers.insert(at)?), queue })
    }

    /// Asks for up to `n` messages. They arrive as [`queue::Effect::Fetched`] with this ticket.
    pub fn fetch(&self, n: u32, settled: bool, ticket: Ticket, cx: &mut Cx<'_>) {
        cx.post.request(self.queue, Request::Fetch { ticket, holder: self.id, n, settled });
    }

    /// Settles the deliveries `first..=last` with the peer's outcome. With `answer`, [`queue::Effect::Settled`]
    /// follows.
    pub fn settle(&self, (first, last): (u64, u64), outcome: Outcome, answer: bool, cx: &mut Cx<'_>) {
        let settle = Request::Settle { consumer: self.id, first, last, outcome, answer };
        cx.post.request(self.queue, settle);
    }

    /// Ends the holder. Unsettled messages return to the queue. `failed` raises their delivery count.
    pub fn close(self, failed: bool, cx: &mut Cx<'_>) {
        cx.consumers.remove(self.id.0);
        cx.post.request(self.queue, Request::Detach { consumer: self.id, failed });
    }
}
