//! A publisher that sends nothing more, and whose last messages have no outcome yet.

use catalog::access::Protocol;
use catalog::ids::QueueId;
use queue::{PublisherId, Verdict};

use super::account::Account;
use super::unanswered::Left;
use super::{Intake, Publication, Run, Unanswered};
use crate::cx::Cx;
use crate::mail::{GateAddress, PublisherAddress};

/// What is left of an [`Intake`] until the outcomes of its messages are known. Call [`Parted::close`] when they are, or when
/// nobody wants to know them any more.
#[derive(Debug)]
pub struct Parted<P> {
    publisher: PublisherId,
    protocol: Protocol,
    pub(super) account: Account<P>,
    /// The bytes of its messages without a receipt, as [`Unanswered`] counts them.
    pub(super) noted_bytes: u64,
    /// The number of messages whose outcome the publisher still waits for.
    awaited: u64,
}

impl<P: Publication> Intake<P> {
    /// Returns true if the publisher waits for outcomes.
    pub fn awaits_outcomes(&self) -> bool {
        self.account.awaited() > 0
    }

    /// Ends the publisher as [`Intake::close`] does, but its receipts still arrive: at `at`. Returns also the queue that is
    /// to be deleted with it.
    pub fn part(mut self, at: GateAddress, cx: &mut Cx<'_>) -> (Parted<P>, Option<QueueId>) {
        self.stop(cx);
        let Self { publisher, protocol, mut account, noted_bytes, owned, .. } = self;
        account.end_credit(cx.budget);
        if let Some(address) = cx.publishers.get_mut(publisher.0) {
            *address = PublisherAddress::Gate(at);
        }
        let awaited = account.awaited();
        (Parted { publisher, protocol, account, noted_bytes, awaited }, owned)
    }
}

impl<P: Publication> Parted<P> {
    /// Handles one queue's receipt, as [`Intake::handle_receipts`] does. Returns the number of outcomes that are known now.
    pub fn handle_receipts(
        &mut self,
        range: (u64, u64),
        verdict: Verdict,
        unanswered: &mut Unanswered<P>,
        cx: &mut Cx<'_>,
        tell: impl FnMut(Run<P>),
    ) -> u64 {
        let confirmed = self.account.handle_receipts(range, verdict, cx.now_ms, cx.budget, tell);
        cx.counters.over_mut(self.protocol).confirmed += confirmed;
        self.awaited -= confirmed;
        unanswered.note_account(&self.account, &mut self.noted_bytes);
        confirmed
    }

    /// Returns true if all outcomes are known.
    pub fn is_done(&self) -> bool {
        self.awaited == 0
    }

    /// Ends it. Later outcomes are told to nobody. Its messages without a receipt still count for its connection.
    pub fn close(self, unanswered: &mut Unanswered<P>, connection: usize, cx: &mut Cx<'_>) {
        let Self { publisher, account, noted_bytes, .. } = self;
        unanswered.keep(Left { publisher, account, noted_bytes }, connection, cx);
    }
}
