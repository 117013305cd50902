//! What a connection has sent and what has no receipt yet, over all its publishers, also those that have ended. So a client
//! that opens and closes many publishers does not get more memory than one that does not.

use queue::{PublisherId, Verdict};
use slab::Slab;

use super::Intake;
use super::account::{Account, Publication};
use crate::cx::Cx;
use crate::mail::{GateAddress, PublisherAddress};

/// A connection with more bytes than this is ahead of its queues: its gate takes no more messages until half of them are
/// answered. A publisher with fixed credit gets as far only with messages of 190 kB and more.
const BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Marks the places of publishers that have ended. The places that gates choose never have this bit.
const LEFT: u64 = 1 << 63;

/// The messages of a connection that have no receipt.
#[derive(Debug)]
pub struct Unanswered<P> {
    bytes: u64,
    is_over: bool,
    left: Slab<Left<P>>,
}

/// A publisher that has ended before all its messages had their receipts.
#[derive(Debug)]
pub(super) struct Left<P> {
    pub publisher: PublisherId,
    pub account: Account<P>,
    /// The bytes of its messages without a receipt, as [`Unanswered`] counts them.
    pub noted_bytes: u64,
}

impl<P> Default for Unanswered<P> {
    fn default() -> Self {
        Self { bytes: 0, is_over: false, left: Slab::new() }
    }
}

impl<P> Unanswered<P> {
    /// Returns true if the connection has sent so much that it must wait.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn change(&mut self, noted: &mut u64, bytes: u64) {
        self.bytes = self.bytes - std::mem::replace(noted, bytes) + bytes;
        self.is_over = self.bytes > if self.is_over { BYTES_MAX / 2 } else { BYTES_MAX };
    }

    /// Forgets the publishers that have ended. Called when the connection is closed.
    pub fn clear(&mut self, cx: &mut Cx<'_>) {
        for left in self.left.drain() {
            cx.publishers.remove(left.publisher.0);
        }
    }
}

impl<P: Publication> Unanswered<P> {
    /// Counts what a publisher has sent since the last call, and what was answered. Called at the end of each turn in which a
    /// message or a receipt has arrived.
    #[inline]
    pub fn note(&mut self, intake: &mut Intake<P>) {
        self.change(&mut intake.noted_bytes, intake.account.unanswered_bytes());
    }

    /// Counts what was answered of a publisher that sends nothing more. `noted_bytes` are what was counted before.
    pub(super) fn note_account(&mut self, account: &Account<P>, noted_bytes: &mut u64) {
        self.change(noted_bytes, account.unanswered_bytes());
    }

    /// Keeps a publisher that has ended, if it has messages without a receipt.
    pub(super) fn keep(&mut self, mut left: Left<P>, connection: usize, cx: &mut Cx<'_>) {
        let publisher = left.publisher;
        let bytes = left.account.unanswered_bytes();
        self.change(&mut left.noted_bytes, bytes);
        if left.account.unconfirmed() == 0 {
            cx.publishers.remove(publisher.0);
        } else if let Some(address) = cx.publishers.get_mut(publisher.0) {
            let place = LEFT | self.left.insert(left) as u64;
            *address = PublisherAddress::Gate(GateAddress { connection, place });
        }
    }

    /// Handles receipts for the place `at`. Returns false if it is not the place of a publisher that has ended.
    #[inline]
    pub fn handle_receipts(&mut self, at: u64, range: (u64, u64), verdict: Verdict, cx: &mut Cx<'_>) -> bool {
        let is_left = at & LEFT != 0;
        if is_left {
            self.handle_late_receipts((at & !LEFT) as usize, range, verdict, cx);
        }
        is_left
    }

    #[cold]
    fn handle_late_receipts(&mut self, key: usize, range: (u64, u64), verdict: Verdict, cx: &mut Cx<'_>) {
        let Some(left) = self.left.get_mut(key) else { return };
        left.account.handle_receipts(range, verdict, cx.now_ms, cx.budget, |_| ());
        let (mut noted, bytes) = (left.noted_bytes, left.account.unanswered_bytes());
        left.noted_bytes = bytes;
        let (publisher, is_answered) = (left.publisher, left.account.unconfirmed() == 0);
        self.change(&mut noted, bytes);
        if is_answered {
            self.left.remove(key);
            cx.publishers.remove(publisher.0);
        }
    }
}
