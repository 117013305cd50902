//! Receipts on their way from queues to publishers.

use broker::ids::shard_of;
use broker::mail::{Mail, PublisherAddress, SeatMail};
use broker::moving::name_of;
use catalog::ids::QueueId;
use queue::{Arrival, PublisherId, Request, Verdict};
use ranges::{Range, Ranges};

use super::Shard;

/// The verdict of one queue on the messages `first..=last` of one publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    pub queue: QueueId,
    pub publisher: PublisherId,
    pub first: u64,
    pub last: u64,
    pub verdict: Verdict,
}

impl Receipt {
    /// Converts a receipt of a queue.
    pub(super) fn of(queue: QueueId, receipt: queue::Receipt) -> Self {
        let queue::Receipt { publisher, first, last, verdict, .. } = receipt;
        Self { queue, publisher, first, last, verdict }
    }

    pub(super) fn messages(&self) -> u64 {
        self.last - self.first + 1
    }
}

impl Range for Receipt {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        let Self { queue, publisher, last, verdict, .. } = *self;
        (queue, publisher, last + 1, verdict) == (next.queue, next.publisher, next.first, next.verdict)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

/// Receipts in their order. Consecutive receipts are joined.
#[derive(Debug, Default)]
pub(super) struct Receipts(Vec<Receipt>);

impl Receipts {
    /// Adds a receipt, joined to the last one if it continues it.
    pub(super) fn push(&mut self, receipt: Receipt) {
        self.0.push_joined(receipt);
    }

    /// Moves all receipts of `newer` to the end of these.
    pub(super) fn append(&mut self, newer: &mut Self) {
        self.0.append(&mut newer.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of messages that these receipts cover.
    pub(super) fn messages(&self) -> u64 {
        self.0.iter().map(Receipt::messages).sum()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Receipt> {
        self.0.drain(..)
    }
}

impl Shard {
    /// Sends the receipts of this round.
    pub(super) fn send_receipts(&mut self) {
        let waiting = self.storage.waiting_for_memory();
        if !waiting.is_empty() {
            waiting.append(&mut self.mail.receipts);
            std::mem::swap(waiting, &mut self.mail.receipts);
        }
        if self.storage.holds_memory() {
            std::mem::swap(self.storage.waiting_for_memory(), &mut self.mail.receipts);
            return;
        }
        let mut receipts = std::mem::take(&mut self.mail.receipts);
        for receipt in receipts.drain() {
            let to = shard_of(receipt.publisher.0);
            if to == self.here.id {
                self.handle_receipt(receipt);
            } else {
                let Receipt { queue, publisher, first, last, verdict } = receipt;
                self.mail.send(to, Mail::Receipts { queue, publisher, first, last, verdict });
            }
        }
        if self.mail.receipts.is_empty() {
            self.mail.receipts = receipts;
        }
    }

    /// Returns true if receipts have waited for memory that is free now. Then another turn sends them. Ask after
    /// [`Shard::poll_pack_job`], which ends the waiting if there is nothing to page out.
    pub fn has_receipts_to_send(&mut self) -> bool {
        !self.storage.holds_memory() && !self.storage.waiting_for_memory().is_empty()
    }

    pub(super) fn handle_receipt(&mut self, receipt: Receipt) {
        let Receipt { queue, publisher, first, last, verdict } = receipt;
        match self.connections.publisher(publisher) {
            Some(&mut PublisherAddress::Gate(to)) => {
                self.gates().with(to.connection, |gate, cx| {
                    gate.handle_receipts(to, queue, (first, last), verdict, cx);
                });
            }
            Some(&mut PublisherAddress::Seat(seat)) => {
                let mail = SeatMail::Receipts { queue, publisher, first, last, verdict };
                self.connections.pass_to_seat(seat, mail);
            }
            Some(PublisherAddress::DeadLetter(wait)) => {
                wait.handle_receipt(queue, verdict);
                if wait.left > 0 {
                    return;
                }
                let (of, token, arrival) = (wait.queue, wait.token, wait.arrival());
                let taken_by = wait.taken_by.take().unwrap_or_default();
                self.connections.remove_publisher(publisher);
                if arrival == Arrival::Taken && !taken_by.is_empty() {
                    self.counters.dead_letters_confirmed += 1;
                }
                self.mail.post.request(of, Request::DeadLettered { token, arrival, taken_by });
            }
            Some(PublisherAddress::Moves(wait)) => {
                let name = name_of(self.metadata.catalog(), queue);
                wait.handle_receipt((first, last), verdict, &name);
                self.finish_moves(publisher);
            }
            Some(PublisherAddress::Notices) => self.mail.post.notices.handle_receipts(first, last),
            None => {}
        }
    }
}
