//! The account of one publisher: publishes without a receipt, merged receipts, and credit (docs/compatibility.md,
//! Publishing and Credit).

use std::collections::VecDeque;

use catalog::QueueRecord;
use queue::Verdict;
use ranges::{Range, replace_joined};

use super::adaptive::{Adaptive, CREDIT_MAX, PACED_CREDIT_MAX};
use crate::ages::Ages;
use crate::credit_budget::CreditBudget;
use crate::settings::{LinkCredit, Settings};

/// No credit is granted while this many bytes of a publisher's messages wait for receipts.
const UNCONFIRMED_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// No credit is granted while this many messages have arrived since the oldest one without a receipt. A failing log
/// withholds that receipt and rejects the messages after it, so only this bound stops the publisher.
const PENDING_MAX: usize = 65_536;

/// The memory that a message takes in addition to its own bytes, about.
const MESSAGE_BYTES: u64 = 128;

/// A publisher with more than one eighth of its credit unconfirmed, and with more than [`PIPELINE_MIN`] messages, is
/// assumed to pipeline (docs/decisions/0022). A publisher that waits for each receipt, or for a few, never has as many.
const PIPELINE_PART: u32 = 8;
const PIPELINE_MIN: u32 = 8;

/// The time for which a publisher is assumed to pipeline after it was found to, in milliseconds. Receipts
/// arrive in bursts, and after a burst few are missing.
const PIPELINE_MS: u64 = 1000;

/// What a gate stores for a publish until its receipt.
pub trait Publication: Copy {
    /// Returns true if the publisher wants to know the outcome.
    fn wants_receipt(&self) -> bool;

    /// Returns true if the protocol can report the outcome of both publishes at once. `next` directly adapts this one.
    fn is_followed_by(&self, next: &Self) -> bool;
}

/// A number that the publisher increments, for protocols in which every publish is answered.
impl Publication for u64 {
    fn wants_receipt(&self) -> bool {
        true
    }

    fn is_followed_by(&self, next: &Self) -> bool {
        *self + 1 == *next
    }
}

/// Consecutive publishes with the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<P> {
    pub first: P,
    pub last: P,
    pub verdict: Verdict,
}

impl<P: Publication> Range for Run<P> {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        self.verdict == next.verdict && self.last.is_followed_by(&next.first)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

/// The publishes of one publisher that have no receipt, and how its credit is set.
#[derive(Debug)]
pub(super) struct Account<P> {
    next_seq: u64,
    /// The messages that wait for receipts. The message `seq` has the index `seq - (next_seq - len)`.
    /// Answered messages at the front are removed.
    pending: VecDeque<Pending<P>>,
    unconfirmed: u32,
    unconfirmed_bytes: u64,
    /// When the messages were sent that wait for receipts.
    ages: Ages,
    /// The time at which the publisher was last found to pipeline.
    pipelined_ms: Option<u64>,
    /// The regulator of adaptive credit. `None` if the credit is fixed.
    adaptive: Option<Box<Adaptive>>,
    /// True if adaptive credit applies to durable messages only. Receipts of other messages wait for no
    /// consumer, so a publisher that gets ahead of the consumers would build up a backlog.
    durable_only: bool,
    /// True if adaptive credit applies to the newest message.
    adapts: bool,
}

/// A message that waits for its receipts.
#[derive(Debug)]
struct Pending<P> {
    publication: P,
    bytes: u32,
    answers: Answers,
}

/// The combined answers of a message's queues. A rejection wins at once. Otherwise the message is accepted if any queue
/// accepts it, else released.
///
/// This is one number, because a publisher may have many of these. It is twice the number of queues that have not
/// answered, plus 1 if a queue has accepted. If no queues are left, the verdict is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answers(u32);

impl<P> Account<P> {
    pub(super) fn new(settings: &Settings) -> Self {
        let base = settings.max_link_credit;
        let adaptive = match settings.link_credit {
            LinkCredit::Fixed => None,
            LinkCredit::Auto => Some(Box::new(Adaptive::new(base, PACED_CREDIT_MAX))),
            LinkCredit::Adaptive => Some(Box::new(Adaptive::new(base, CREDIT_MAX))),
        };
        Self {
            next_seq: 0,
            pending: VecDeque::new(),
            unconfirmed: 0,
            unconfirmed_bytes: 0,
            ages: Ages::default(),
            pipelined_ms: None,
            adaptive,
            durable_only: settings.link_credit == LinkCredit::Auto,
            adapts: false,
        }
    }

    /// Called when all messages go to this queue. If its receipts wait for the disk, automatic credit becomes adaptive
    /// for all messages.
    pub(super) fn note_queue(&mut self, queue: &QueueRecord, settings: &Settings) {
        if settings.link_credit == LinkCredit::Auto && (queue.is_stream() || queue.is_quorum() || queue.fsync)
        {
            self.adaptive = Some(Box::new(Adaptive::new(settings.max_link_credit, CREDIT_MAX)));
            self.durable_only = false;
        }
    }

    /// Returns the memory that the messages without a receipt take, in bytes.
    pub(super) fn unanswered_bytes(&self) -> u64 {
        self.unconfirmed_bytes + u64::from(self.unconfirmed) * MESSAGE_BYTES
    }

    /// Returns to the shard's budget what adaptive credit has taken from it.
    pub(super) fn release(&mut self, budget: &mut CreditBudget) {
        self.adaptive.take().into_iter().for_each(|mut adaptive| adaptive.release(budget));
    }

    /// Ends adaptive credit, because the publisher gets no more. Returns to the shard's budget what it has taken.
    pub(super) fn end_credit(&mut self, budget: &mut CreditBudget) {
        self.release(budget);
        self.adaptive = None;
    }

    /// Returns the number of messages so far.
    pub(super) fn published(&self) -> u64 {
        self.next_seq
    }

    /// Returns the number of messages without a receipt.
    pub(super) fn unconfirmed(&self) -> u32 {
        self.unconfirmed
    }

    /// Returns the age of the oldest message without a receipt, in milliseconds.
    pub(super) fn age_ms(&self, now_ms: u64) -> Option<u64> {
        self.oldest().map(|oldest| self.ages.age_ms(oldest, now_ms))
    }

    /// Returns the oldest message without a receipt.
    fn oldest(&self) -> Option<u64> {
        (!self.pending.is_empty()).then(|| self.next_seq - self.pending.len() as u64)
    }
}

impl<P: Publication> Account<P> {
    /// Returns the number of messages without an outcome whose publisher wants to know it. The cost depends on the number of
    /// messages without a receipt.
    pub(super) fn awaited(&self) -> u64 {
        let waits = |p: &&Pending<P>| !p.answers.are_merged() && p.publication.wants_receipt();
        self.pending.iter().filter(waits).count() as u64
    }

    /// Returns the credit to grant now, if it is time: half of the credit is used, and receipts are not behind.
    pub(super) fn grant(&mut self, credit: u32, fixed: u32, budget: &mut CreditBudget) -> Option<u32> {
        let adaptive = self.adaptive.as_deref_mut().filter(|_| self.adapts);
        let max = adaptive.as_ref().map_or(fixed, |adaptive| adaptive.credit());
        let due =
            credit <= max / 2 && self.unconfirmed < max && self.unconfirmed_bytes < UNCONFIRMED_BYTES_MAX;
        let due = due && self.pending.len() < PENDING_MAX;
        due.then(|| match adaptive {
            Some(adaptive) => adaptive.poll_grant(credit, budget),
            None => fixed,
        })
    }

    /// Returns true if the publisher pipelines: it has, or recently had, so many unconfirmed publishes that it does not
    /// wait for each receipt.
    pub(super) fn pipelines(&mut self, max_link_credit: u32, now_ms: u64) -> bool {
        if self.unconfirmed > PIPELINE_MIN.max(max_link_credit / PIPELINE_PART) {
            self.pipelined_ms = Some(now_ms);
        }
        self.pipelined_ms.is_some_and(|since| now_ms < since + PIPELINE_MS)
    }

    /// Adds a message that `left` queues will answer. Returns its sequence number.
    #[inline(always)]
    pub(super) fn push(&mut self, publication: P, bytes: u32, left: u32, durable: bool, now_ms: u64) -> u64 {
        let (seq, waiting) = (self.next_seq, self.pending.len() as u64);
        self.ages.note(seq, now_ms, || (waiting > 0).then(|| seq - waiting));
        self.next_seq += 1;
        self.unconfirmed += 1;
        self.unconfirmed_bytes += u64::from(bytes);
        self.adapts = durable || !self.durable_only;
        if let Some(adaptive) = self.adaptive.as_mut().filter(|_| self.adapts) {
            adaptive.handle_sent(seq, bytes, now_ms);
        }
        self.pending.push_back(Pending { publication, bytes, answers: Answers(left << 1) });
        seq
    }

    /// Handles one queue's receipt for the messages `first..=last`. Calls `complete` for each run of messages that the
    /// receipt completes and whose publisher wants a receipt. Returns the number of these messages.
    pub(super) fn handle_receipts(
        &mut self,
        (first, last): (u64, u64),
        verdict: Verdict,
        now_ms: u64,
        budget: &mut CreditBudget,
        mut complete: impl FnMut(Run<P>),
    ) -> u64 {
        let oldest = self.next_seq - self.pending.len() as u64;
        let (first, end) = (first.max(oldest), (last + 1).min(self.next_seq));
        let mut run: Option<Run<P>> = None;
        let mut completed = 0;
        for seq in first..end {
            // The index is below the length of the deque.
            let Some(pending) = self.pending.get_mut((seq - oldest) as usize) else { break };
            let Some(verdict) = pending.answers.merge(verdict) else { continue };
            self.unconfirmed -= 1;
            self.unconfirmed_bytes -= u64::from(pending.bytes);
            if let Some(adaptive) = self.adaptive.as_mut().filter(|_| self.adapts) {
                adaptive.handle_receipt(seq, now_ms, budget);
            }
            let publication = pending.publication;
            if !publication.wants_receipt() {
                continue;
            }
            completed += 1;
            let next = Run { first: publication, last: publication, verdict };
            replace_joined(&mut run, next).into_iter().for_each(&mut complete);
        }
        run.into_iter().for_each(complete);
        while self.pending.front().is_some_and(|p| p.answers.are_merged()) {
            self.pending.pop_front();
        }
        completed
    }
}

impl Answers {
    fn are_merged(self) -> bool {
        self.0 >> 1 == 0
    }

    /// Adds one queue's verdict. Returns the merged verdict when it becomes known, and `None` after that.
    #[inline]
    fn merge(&mut self, verdict: Verdict) -> Option<Verdict> {
        if self.are_merged() {
            return None;
        }
        self.0 = (self.0 - 2) | u32::from(verdict == Verdict::Accepted);
        let merged = match verdict {
            Verdict::Rejected(_) | Verdict::Unknown => verdict,
            _ if !self.are_merged() => return None,
            _ if self.0 == 1 => Verdict::Accepted,
            _ => Verdict::Released,
        };
        self.0 = 0;
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use queue::RejectReason;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Numbered {
        number: u32,
        settled: bool,
    }

    impl Publication for Numbered {
        fn wants_receipt(&self) -> bool {
            !self.settled
        }

        fn is_followed_by(&self, next: &Self) -> bool {
            self.number + 1 == next.number
        }
    }

    #[test]
    fn no_credit_while_too_many_bytes_wait() {
        const BYTES: u32 = 1 << 20;
        let settings = Settings::default();
        let mut budget = CreditBudget::share(1);
        let mut account = Account::new(&settings);
        let settled = Numbered { number: 0, settled: true };
        let fixed = settings.max_link_credit;
        for _ in 1..UNCONFIRMED_BYTES_MAX / u64::from(BYTES) {
            account.push(settled, BYTES, 1, true, 0);
            assert_eq!(account.grant(0, fixed, &mut budget), Some(fixed));
        }
        account.push(settled, BYTES, 1, true, 0);
        assert_eq!(
            account.grant(0, fixed, &mut budget),
            None,
            "the bytes are at their bound, the messages are not"
        );
        // The publisher of a settled message is not told its outcome, but its receipt is counted.
        let told =
            account.handle_receipts((0, 0), Verdict::Accepted, 0, &mut budget, |_| panic!("nobody asked"));
        assert_eq!(told, 0);
        assert_eq!(account.grant(0, fixed, &mut budget), Some(fixed));
    }

    #[test]
    fn a_withheld_receipt_stops_the_credit_in_the_end() {
        let settings = Settings::default();
        let mut budget = CreditBudget::share(1);
        let mut account = Account::new(&settings);
        let publish = Numbered { number: 1, settled: false };
        account.push(publish, 1, 1, true, 0);
        for seq in 1..PENDING_MAX as u64 {
            assert!(account.grant(0, settings.max_link_credit, &mut budget).is_some(), "{seq}");
            account.push(publish, 1, 1, true, 0);
            account.handle_receipts((seq, seq), Verdict::Released, 0, &mut budget, |_| ());
        }
        assert_eq!(account.grant(0, settings.max_link_credit, &mut budget), None);
        account.handle_receipts((0, 0), Verdict::Accepted, 0, &mut budget, |_| ());
        assert!(account.pending.is_empty());
        assert!(account.grant(0, settings.max_link_credit, &mut budget).is_some());
    }

    #[test]
    fn a_publisher_that_waits_for_a_few_receipts_does_not_pipeline() {
        for (max, few) in [(1, 8), (8, 8), (10, 8), (170, 21)] {
            let settings = Settings { max_link_credit: max, ..Settings::default() };
            let mut account = Account::<Numbered>::new(&settings);
            account.unconfirmed = few;
            assert!(!account.pipelines(max, 1000));
            account.unconfirmed = few + 1;
            assert!(account.pipelines(max, 1000));
            account.unconfirmed = 0;
            assert!(account.pipelines(max, 1000 + PIPELINE_MS - 1), "receipts arrive in bursts");
            assert!(!account.pipelines(max, 1000 + PIPELINE_MS));
        }
    }

    /// Publishes 10, 11, ... to two queues each. Returns the outcomes that the publisher gets after these
    /// receipts.
    fn told(words: &[(u64, u64, Verdict)]) -> Vec<(u32, u32, Verdict)> {
        let settings = Settings::default();
        let mut budget = CreditBudget::share(1);
        let mut account = Account::new(&settings);
        for id in 10..16 {
            account.push(Numbered { number: id, settled: false }, 1, 2, true, 0);
        }
        let mut told = Vec::new();
        for (first, last, verdict) in words {
            let before = told.len();
            let tell = |run: Run<Numbered>| told.push((run.first.number, run.last.number, run.verdict));
            let n = account.handle_receipts((*first, *last), *verdict, 0, &mut budget, tell);
            assert_eq!(n, told[before..].iter().map(|(first, last, _)| u64::from(last - first + 1)).sum());
        }
        let answered: u64 = told.iter().map(|(first, last, _)| u64::from(last - first + 1)).sum();
        assert_eq!(u64::from(account.unconfirmed), 6 - answered);
        assert_eq!(account.unconfirmed_bytes, 6 - answered);
        told
    }

    #[test]
    fn the_oldest_message_without_a_receipt_has_an_age() {
        let (settings, mut budget) = (Settings::default(), CreditBudget::share(1));
        let mut account = Account::<u64>::new(&settings);
        assert_eq!(account.age_ms(0), None);
        for (publish, now_ms) in [(0, 1000), (1, 2500), (2, 9000)] {
            account.push(publish, 1, 1, true, now_ms);
        }
        assert_eq!(account.age_ms(10_000), Some(9000));
        for (first, last, age_ms) in [(1, 1, Some(9000)), (0, 0, Some(1000)), (2, 2, None)] {
            account.handle_receipts((first, last), Verdict::Accepted, 10_000, &mut budget, |_| {});
            assert_eq!(account.age_ms(10_000), age_ms, "after {first}");
        }
    }

    #[test]
    fn receipts_of_several_queues_are_merged() {
        use Verdict::{Accepted, Released};
        let full = Verdict::Rejected(RejectReason::MaxLength);
        assert_eq!(told(&[(0, 5, Accepted)]), []);
        assert_eq!(told(&[(0, 5, Accepted), (0, 5, Accepted)]), [(10, 15, Accepted)]);
        assert_eq!(told(&[(0, 5, Released), (0, 5, Released)]), [(10, 15, Released)]);
        assert_eq!(
            told(&[(0, 1, Accepted), (2, 5, Released), (0, 5, Released)]),
            [(10, 11, Accepted), (12, 15, Released)]
        );
        assert_eq!(told(&[(0, 5, Released), (0, 5, Accepted)]), [(10, 15, Accepted)]);
        // A rejection wins at once. Later receipts have no effect.
        assert_eq!(
            told(&[(2, 3, full), (0, 5, Accepted), (0, 5, Accepted)]),
            [(12, 13, full), (10, 11, Accepted), (14, 15, Accepted)]
        );
        // These receipts are for messages that were answered before, or that were never sent. They have no
        // effect.
        assert_eq!(told(&[(0, 2, full), (0, 9, Accepted), (7, 9, Accepted)]), [(10, 12, full)]);
    }
}
