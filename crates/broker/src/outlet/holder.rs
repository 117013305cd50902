//! Messages that are fetched on request, without a consumer.

use catalog::QueueRecord;
use catalog::access::Protocol;
use catalog::ids::QueueId;
use queue::{ConsumerId, DeliveryRef, Outcome, QueueType, Request, SettleAnswer, Ticket};

use crate::ages::Ages;
use crate::cx::Cx;
use crate::mail::{ConsumerAddress, GateAddress};

/// Holds messages that were fetched from one queue until they are settled. Call [`Holder::close`] when the holder
/// ends.
#[derive(Debug)]
pub struct Holder {
    id: ConsumerId,
    queue: QueueId,
    queue_type: QueueType,
    protocol: Protocol,
    /// When unsettled messages were sent.
    ages: Ages,
}

impl Holder {
    /// Registers a holder. Returns `None` if the shard cannot register any more.
    pub fn open(at: GateAddress, protocol: Protocol, record: &QueueRecord, cx: &mut Cx<'_>) -> Option<Self> {
        let (queue, queue_type) = (record.id, record.config.queue_type());
        let id = ConsumerId(cx.consumers.insert(ConsumerAddress::Gate(at))?);
        let ages = Ages::default();
        Some(Self { id, queue, queue_type, protocol, ages })
    }

    /// Asks for up to `n` messages. They arrive as [`queue::Effect::Fetched`] with this ticket.
    pub fn fetch(&self, n: u32, settled: bool, ticket: Ticket, cx: &mut Cx<'_>) {
        cx.post.request(self.queue, Request::Fetch { ticket, holder: self.id, n, settled });
    }

    /// Returns true if the messages come from a quorum queue.
    pub fn reads_quorum(&self) -> bool {
        self.queue_type == QueueType::Quorum
    }

    /// Called when a message was sent to the client. `oldest` returns the number of the oldest message that is unsettled, if there
    /// is one.
    pub fn note_sent(
        &mut self,
        lent: &DeliveryRef<'_>,
        settled: bool,
        cx: &mut Cx<'_>,
        oldest: impl FnOnce() -> Option<u64>,
    ) {
        let counts = cx.counters.over_mut(self.protocol).deliveries_from(self.queue_type);
        counts.count_fetched(lent.redelivered(), settled);
        if !settled {
            self.ages.note(lent.number, cx.now_ms, oldest);
        }
    }

    /// Returns the age of the oldest unsettled message in milliseconds. `oldest` is its number.
    pub fn age_ms(&self, oldest: Option<u64>, now_ms: u64) -> Option<u64> {
        oldest.map(|oldest| self.ages.age_ms(oldest, now_ms))
    }

    /// Called when the queue was found to be empty.
    pub fn note_empty(&self, cx: &mut Cx<'_>) {
        cx.counters.over_mut(self.protocol).get_empty += 1;
    }

    /// Returns the message with this number to the queue. It was not sent, because the peer cannot take it.
    pub fn give_back(&self, number: u64, cx: &mut Cx<'_>) {
        self.request_settle((number, number), Outcome::Unsent, SettleAnswer::Never, cx);
    }

    /// Settles a message that counts as settled when it is sent, and that the queue has lent unsettled.
    pub fn accept(&self, number: u64, cx: &mut Cx<'_>) {
        self.request_settle((number, number), Outcome::Accepted, SettleAnswer::Never, cx);
    }

    /// Settles the deliveries `first..=last` with the peer's outcome. `answer` says when [`queue::Effect::Settled`]
    /// follows.
    pub fn settle(&self, (first, last): (u64, u64), outcome: Outcome, answer: SettleAnswer, cx: &mut Cx<'_>) {
        if outcome == Outcome::Accepted {
            cx.counters.over_mut(self.protocol).deliveries_from(self.queue_type).acknowledged +=
                last - first + 1;
        }
        self.request_settle((first, last), outcome, answer, cx);
    }

    fn request_settle(
        &self,
        (first, last): (u64, u64),
        outcome: Outcome,
        answer: SettleAnswer,
        cx: &mut Cx<'_>,
    ) {
        let settle = Request::Settle { consumer: self.id, first, last, outcome, answer };
        cx.post.request(self.queue, settle);
    }

    /// Ends the holder. Unsettled messages return to the queue. `failed` raises their delivery count.
    pub fn close(self, failed: bool, cx: &mut Cx<'_>) {
        cx.consumers.remove(self.id.0);
        cx.post.request(self.queue, Request::Detach { consumer: self.id, failed });
    }
}
