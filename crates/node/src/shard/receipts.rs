//! Receipts on their way from queues to publishers.

use broker::ids::{QueueId, shard_of};
use broker::mail::{Mail, PublisherAddress};
use queue::{Arrival, PublisherId, RejectReason, Request, Verdict};

use super::{Cx, Shard, with_gate};

/// What became of `first..=last` of one publisher at one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    pub queue: QueueId,
    pub publisher: PublisherId,
    pub first: u64,
    pub last: u64,
    pub verdict: Verdict,
}

impl Receipt {
    pub fn messages(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Adds a receipt, joined to the last one if it continues it.
pub(super) fn push_receipt(receipts: &mut Vec<Receipt>, receipt: Receipt) {
    if let Some(last) = receipts.last_mut()
        && last.publisher == receipt.publisher
        && last.queue == receipt.queue
        && last.verdict == receipt.verdict
        && last.last + 1 == receipt.first
    {
        last.last = receipt.last;
        return;
    }
    receipts.push(receipt);
}

impl Shard {
    /// Sends the receipts of this round.
    pub(super) fn send_receipts(&mut self) {
        if self.pages.is_full() {
            self.pages.receipts.append(&mut self.receipts);
            return;
        }
        if !self.pages.receipts.is_empty() {
            let newer = std::mem::replace(&mut self.receipts, std::mem::take(&mut self.pages.receipts));
            self.receipts.extend(newer);
        }
        let mut receipts = std::mem::take(&mut self.receipts);
        for receipt in receipts.drain(..) {
            let to = shard_of(receipt.publisher.0);
            if to == self.id {
                self.handle_receipt(receipt);
            } else {
                let Receipt { queue, publisher, first, last, verdict } = receipt;
                self.send(to, Mail::Receipts { queue, publisher, first, last, verdict });
            }
        }
        if self.receipts.is_empty() {
            self.receipts = receipts;
        }
    }

    pub(super) fn handle_receipt(&mut self, receipt: Receipt) {
        let Receipt { queue, publisher, first, last, verdict } = receipt;
        match self.publishers.get(publisher.0).copied() {
            Some(PublisherAddress::Link(to)) => {
                with_gate!(self, to.connection, |gate, cx| gate
                    .handle_receipts(to, queue, first, last, verdict, cx));
            }
            Some(PublisherAddress::DeadLetter(mut wait)) => {
                wait.left = wait.left.saturating_sub(1);
                wait.accepted |= verdict == Verdict::Accepted;
                wait.unavailable |= verdict == Verdict::Rejected(RejectReason::Unavailable);
                if wait.left > 0 {
                    if let Some(known) = self.publishers.get_mut(publisher.0) {
                        *known = PublisherAddress::DeadLetter(wait);
                    }
                    return;
                }
                self.publishers.remove(publisher.0);
                let arrival = match (wait.accepted, wait.unavailable) {
                    (true, _) => Arrival::Taken,
                    (false, true) => Arrival::Unavailable,
                    (false, false) => Arrival::Refused,
                };
                self.post.request(wait.queue, Request::DeadLettered { token: wait.token, arrival });
            }
            None => {}
        }
    }
}
