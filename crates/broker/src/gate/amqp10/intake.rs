//! The account of a publishing link: what waits for receipts, what its publisher is told, and its credit (behaviour B.4,
//! house.md section 4, "The intake regulator").

use std::collections::VecDeque;

use amqp10::{AmqpError, Delivery, DeliveryState, Map, ReceiverSettleMode, Symbol, Value, condition};
use queue::{PublisherId, RejectReason, Verdict};

use super::address::encode_segment;
use super::flush::Told;
use super::inbound::Target;
use super::{Cx, Gate, LinkRole, Session};
use crate::catalog::{Catalog, QueueRecord};
use crate::explain;
use crate::ids::QueueId;
use crate::intake::adaptive::{Adaptive, Budget, CREDIT_MAX, PACED_CREDIT_MAX};
use crate::settings::{LinkCredit, Settings};

/// No credit is granted to a link while this many bytes of its messages wait for a receipt.
const UNCONFIRMED_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Nor while this many messages have come since the first that has no receipt: a log that fails withholds one, and refuses those
/// behind it.
const PENDING_MAX: usize = 65_536;

/// A publisher with more than this part of its credit unconfirmed, and more than so many messages, goes on without the receipts
/// that it has coming. One that waits for each, or for a few, never has as many.
const PATIENT_PART: u32 = 8;
const PATIENT_MIN: u32 = 8;

/// How long it is taken to go on so: receipts come in swarms, and behind one it has few coming.
const PATIENT_MS: u64 = 1000;

/// A publishing link.
#[derive(Debug)]
pub(super) struct Intake {
    pub publisher: PublisherId,
    pub target: Target,
    /// The queue whose end is the end of the link.
    pub watched: Option<QueueId>,
    /// The dynamic queue that dies with the link.
    pub dynamic: Option<QueueId>,
    pub account: Account,
}

/// What of a publishing link waits for receipts, and what that leaves of its credit.
#[derive(Debug)]
pub(super) struct Account {
    next_seq: u64,
    /// Messages that wait for receipts, by `seq - (next_seq - len)`; answered ones in front are gone.
    pending: VecDeque<Pending>,
    unconfirmed: u32,
    unconfirmed_bytes: u64,
    /// When it last was patient.
    patient_ms: Option<u64>,
    /// None if its credit is fixed.
    pub adaptive: Option<Box<Adaptive>>,
    /// Credit follows what it brings for durable messages alone: receipts of others wait for no consumer, and who gets ahead of
    /// the consumers leaves a backlog.
    durable_alone: bool,
    /// It does for what came last.
    follows: bool,
}

/// A message that waits for its receipts.
#[derive(Debug)]
struct Pending {
    delivery_id: u32,
    bytes: u32,
    /// Queues that have not answered.
    left: u32,
    answer: Answer,
    merged: Merged,
}

/// What a publisher is told of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing: it has settled it.
    Nothing,
    /// The outcome, which settles it.
    Settled,
    /// The outcome alone: it settles first [2.7.5]. When it has, nothing is left to be done here, because links are
    /// not recovered and so nobody asks for what is unsettled.
    Unsettled,
}

impl Answer {
    fn to(delivery: &Delivery<'_>) -> Self {
        match (delivery.settled, delivery.rcv_settle_mode) {
            (true, _) => Self::Nothing,
            (false, ReceiverSettleMode::First) => Self::Settled,
            (false, ReceiverSettleMode::Second) => Self::Unsettled,
        }
    }
}

/// Receipts of several queues as one: a rejection wins at once, else accepted if any accepted, else released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    Nothing,
    Released,
    Accepted,
    Answered,
}

impl Intake {
    pub fn new(publisher: PublisherId, target: Target, settings: &Settings) -> Self {
        Self {
            publisher,
            target,
            watched: None,
            dynamic: None,
            account: Account {
                next_seq: 0,
                pending: VecDeque::new(),
                unconfirmed: 0,
                unconfirmed_bytes: 0,
                patient_ms: None,
                adaptive: match settings.link_credit {
                    LinkCredit::Fixed => None,
                    LinkCredit::Auto => {
                        Some(Box::new(Adaptive::new(settings.max_link_credit, PACED_CREDIT_MAX)))
                    }
                    LinkCredit::Adaptive => {
                        Some(Box::new(Adaptive::new(settings.max_link_credit, CREDIT_MAX)))
                    }
                },
                durable_alone: settings.link_credit == LinkCredit::Auto,
                follows: false,
            },
        }
    }

    /// Everything on the link goes to this queue.
    pub fn watch(&mut self, queue: &QueueRecord, settings: &Settings) {
        self.watched = Some(queue.id);
        if settings.link_credit == LinkCredit::Auto && (queue.is_stream() || queue.fsync) {
            self.account.adaptive = Some(Box::new(Adaptive::new(settings.max_link_credit, CREDIT_MAX)));
            self.account.durable_alone = false;
        }
    }

    pub fn facts(&self) -> explain::Role {
        let queue = match &self.target {
            Target::Exchange { exchange, route, .. } if exchange.is_empty() => Some(route.key().into()),
            _ => None,
        };
        explain::Role::Publishing { queue, unconfirmed: self.unconfirmed() }
    }

    pub fn unconfirmed(&self) -> u32 {
        self.account.unconfirmed
    }

    /// The address the client attached to; none for the anonymous terminus.
    pub fn address(&self) -> Option<String> {
        let Target::Exchange { exchange, route, .. } = &self.target else { return None };
        if exchange.is_empty() {
            return Some(super::queue_address(route.key()));
        }
        Some(format!("/exchanges/{}/{}", encode_segment(exchange), encode_segment(route.key())))
    }
}

impl Account {
    /// The credit to grant now, if it is time: it has fallen to half, and receipts are not behind
    /// (behaviour S26, S103).
    fn grant(&mut self, credit: u32, fixed: u32, budget: &mut Budget) -> Option<u32> {
        let adaptive = self.adaptive.as_deref_mut().filter(|_| self.follows);
        let max = adaptive.as_ref().map_or(fixed, |adaptive| adaptive.credit());
        let due =
            credit <= max / 2 && self.unconfirmed < max && self.unconfirmed_bytes < UNCONFIRMED_BYTES_MAX;
        let due = due && self.pending.len() < PENDING_MAX;
        due.then(|| match adaptive {
            Some(adaptive) => adaptive.poll_grant(credit, budget),
            None => fixed,
        })
    }

    /// Whether the publisher has, or had lately, so many receipts coming that it does not wait for any one of them.
    pub fn is_patient(&mut self, max_link_credit: u32, now_ms: u64) -> bool {
        if self.unconfirmed > PATIENT_MIN.max(max_link_credit / PATIENT_PART) {
            self.patient_ms = Some(now_ms);
        }
        self.patient_ms.is_some_and(|since| now_ms < since + PATIENT_MS)
    }

    pub fn push(
        &mut self,
        delivery: &Delivery<'_>,
        bytes: u32,
        left: u32,
        durable: bool,
        now_ms: u64,
    ) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.unconfirmed += 1;
        self.unconfirmed_bytes += u64::from(bytes);
        self.follows = durable || !self.durable_alone;
        if let Some(adaptive) = self.adaptive.as_mut().filter(|_| self.follows) {
            adaptive.handle_sent(seq, bytes, now_ms);
        }
        let (delivery_id, answer) = (delivery.id, Answer::to(delivery));
        self.pending.push_back(Pending { delivery_id, bytes, left, answer, merged: Merged::Nothing });
        seq
    }

    /// One queue's word on the messages `first..=last`. `complete` is given those that it completes and whose publisher is
    /// to be told, in runs; returns how many they are.
    fn handle_receipts(
        &mut self,
        (first, last): (u64, u64),
        verdict: Verdict,
        now_ms: u64,
        budget: &mut Budget,
        mut complete: impl FnMut(Completed),
    ) -> u64 {
        let oldest = self.next_seq - self.pending.len() as u64;
        let (first, end) = (first.max(oldest), (last + 1).min(self.next_seq));
        let mut run: Option<Completed> = None;
        let mut completed = 0;
        for seq in first..end {
            // What is there is counted by the length of a deque.
            let Some(pending) = self.pending.get_mut((seq - oldest) as usize) else { break };
            let Some(outcome) = pending.merge(verdict) else { continue };
            self.unconfirmed -= 1;
            self.unconfirmed_bytes -= u64::from(pending.bytes);
            if let Some(adaptive) = self.adaptive.as_mut().filter(|_| self.follows) {
                adaptive.handle_receipt(seq, now_ms, budget);
            }
            if pending.answer == Answer::Nothing {
                continue;
            }
            completed += 1;
            let id = pending.delivery_id;
            let next = Completed { first: id, last: id, answer: pending.answer, outcome };
            match &mut run {
                Some(run) if run.joins(&next) => run.last = id,
                run => run.replace(next).into_iter().for_each(&mut complete),
            }
        }
        run.into_iter().for_each(complete);
        while self.pending.front().is_some_and(|p| p.merged == Merged::Answered) {
            self.pending.pop_front();
        }
        completed
    }
}

impl Pending {
    /// One queue's word on it. Returns what all have said, when the last one has or it does not matter.
    #[inline]
    fn merge(&mut self, verdict: Verdict) -> Option<Verdict> {
        if self.merged == Merged::Answered {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        self.merged = match (verdict, self.merged) {
            (Verdict::Accepted, _) | (_, Merged::Accepted) => Merged::Accepted,
            _ => Merged::Released,
        };
        let outcome = match (verdict, self.merged) {
            (Verdict::Rejected(_), _) => verdict,
            _ if self.left > 0 => return None,
            (_, Merged::Accepted) => Verdict::Accepted,
            _ => Verdict::Released,
        };
        self.merged = Merged::Answered;
        Some(outcome)
    }
}

/// Deliveries with consecutive ids that have the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Completed {
    /// Delivery-ids, serial.
    first: u32,
    last: u32,
    answer: Answer,
    outcome: Verdict,
}

impl Completed {
    fn joins(&self, next: &Self) -> bool {
        self.last.wrapping_add(1) == next.first && self.answer == next.answer && self.outcome == next.outcome
    }
}

impl Gate {
    /// Remembers an outcome for the end of the turn, joined to the one before if it continues it.
    pub(super) fn note_disposition(&mut self, session: u16, delivery: &Delivery<'_>, state: DeliveryState) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        note(&mut s.dispositions, (delivery.id, delivery.id), Answer::to(delivery), state);
    }

    #[expect(clippy::too_many_arguments, reason = "a receipt has that many parts, and they are used at once")]
    pub(super) fn handle_intake_receipts(
        &mut self,
        session: u16,
        link: u32,
        queue: QueueId,
        first: u64,
        last: u64,
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        let Session { links, dispositions } = &mut **s;
        let Some(Some(LinkRole::Intake(intake))) = links.get_mut(link as usize) else { return };
        let (now_ms, catalog) = (cx.now_ms, cx.catalog);
        let tell = |run: Completed| {
            let state = match run.outcome {
                Verdict::Accepted => DeliveryState::Accepted,
                Verdict::Released => DeliveryState::Released,
                Verdict::Rejected(reason) => rejected(reason, queue, catalog),
            };
            note(dispositions, (run.first, run.last), run.answer, state);
        };
        let told = intake.account.handle_receipts((first, last), verdict, now_ms, cx.budget, tell);
        cx.counters.confirmed += told;
        self.touch(session, link);
    }

    /// Grants credit if it is time.
    pub(super) fn regulate(&mut self, session: u16, link: u32, cx: &mut Cx<'_>) {
        let Some(l) = self.conn.session(session).and_then(|s| s.link(link)) else { return };
        let credit = l.receiver_credit().credit();
        let Some(LinkRole::Intake(intake)) = self.role(session, link) else { return };
        let fixed = cx.settings.max_link_credit;
        if let Some(grant) = intake.account.grant(credit, fixed, cx.budget) {
            if grant > fixed {
                self.conn.widen_window(session, grant);
            }
            self.conn.grant(session, link, grant, false, false);
        }
    }
}

fn note(dispositions: &mut Vec<Told>, (first, last): (u32, u32), answer: Answer, state: DeliveryState) {
    if answer == Answer::Nothing {
        return;
    }
    let told = Told { first, last, settled: answer == Answer::Settled, state };
    match dispositions.last_mut() {
        Some(before) if before.joins(&told) => before.last = last,
        _ => dispositions.push(told),
    }
}

fn rejected(reason: RejectReason, queue: QueueId, catalog: &Catalog) -> DeliveryState {
    let name = catalog.queue_by_id(queue).map_or_else(String::new, |q| q.name.to_string());
    let (condition, reason, description) = match reason {
        RejectReason::MaxLength => {
            // Clients look for these words.
            (condition::RESOURCE_LIMIT_EXCEEDED, "maxlen", format!("queue '{name}' exceeded maximum length"))
        }
        RejectReason::Unavailable => (
            condition::PRECONDITION_FAILED,
            "unavailable",
            format!("queue '{name}' cannot store messages now"),
        ),
        RejectReason::Damaged => {
            (condition::INTERNAL_ERROR, "damaged", format!("queue '{name}' is damaged on the disk"))
        }
    };
    let mut info = Map::new();
    info.insert(Symbol::from_static("queue"), Value::String(name));
    info.insert(Symbol::from_static("reason"), Value::Symbol(Symbol::from_static(reason)));
    let error = AmqpError { condition, description: Some(description), info: Some(info) };
    DeliveryState::Rejected(Some(error))
}

#[cfg(test)]
mod tests {
    use amqp10::Chunk;

    use super::*;

    #[test]
    fn no_credit_while_too_many_bytes_wait() {
        const BYTES: u32 = 1 << 20;
        let settings = Settings::default();
        let mut budget = Budget::share(1);
        let mut account = Intake::new(PublisherId(1), Target::Anonymous, &settings).account;
        let delivery = Delivery {
            id: 0,
            tag: Chunk::Borrowed(&[]),
            message_format: 0,
            settled: true,
            rcv_settle_mode: ReceiverSettleMode::First,
            message: Chunk::Borrowed(&[]),
        };
        let fixed = settings.max_link_credit;
        for _ in 1..UNCONFIRMED_BYTES_MAX / u64::from(BYTES) {
            account.push(&delivery, BYTES, 1, true, 0);
            assert_eq!(account.grant(0, fixed, &mut budget), Some(fixed));
        }
        account.push(&delivery, BYTES, 1, true, 0);
        assert_eq!(
            account.grant(0, fixed, &mut budget),
            None,
            "the bytes are at their bound, the messages are not"
        );
        // The outcome of a settled message is nobody's to hear, but its receipt counts.
        let told =
            account.handle_receipts((0, 0), Verdict::Accepted, 0, &mut budget, |_| panic!("nobody asked"));
        assert_eq!(told, 0);
        assert_eq!(account.grant(0, fixed, &mut budget), Some(fixed));
    }

    #[test]
    fn who_is_refused_behind_a_receipt_that_is_withheld_stops_some_time() {
        let settings = Settings::default();
        let mut budget = Budget::share(1);
        let mut account = Intake::new(PublisherId(1), Target::Anonymous, &settings).account;
        let (tag, message) = (Chunk::Borrowed(&[]), Chunk::Borrowed(&[]));
        let rcv_settle_mode = ReceiverSettleMode::First;
        let delivery = Delivery { id: 1, tag, message_format: 0, settled: false, rcv_settle_mode, message };
        account.push(&delivery, 1, 1, true, 0);
        for seq in 1..PENDING_MAX as u64 {
            assert!(account.grant(0, settings.max_link_credit, &mut budget).is_some(), "{seq}");
            account.push(&delivery, 1, 1, true, 0);
            account.handle_receipts((seq, seq), Verdict::Released, 0, &mut budget, |_| ());
        }
        assert_eq!(account.grant(0, settings.max_link_credit, &mut budget), None);
        account.handle_receipts((0, 0), Verdict::Accepted, 0, &mut budget, |_| ());
        assert!(account.pending.is_empty());
        assert!(account.grant(0, settings.max_link_credit, &mut budget).is_some());
    }

    #[test]
    fn who_waits_for_a_few_is_not_patient() {
        for (max, few) in [(1, 8), (8, 8), (10, 8), (170, 21)] {
            let settings = Settings { max_link_credit: max, ..Settings::default() };
            let mut account = Intake::new(PublisherId(1), Target::Anonymous, &settings).account;
            account.unconfirmed = few;
            assert!(!account.is_patient(max, 1000));
            account.unconfirmed = few + 1;
            assert!(account.is_patient(max, 1000));
            account.unconfirmed = 0;
            assert!(account.is_patient(max, 1000 + PATIENT_MS - 1), "receipts come in swarms");
            assert!(!account.is_patient(max, 1000 + PATIENT_MS));
        }
    }

    /// Deliveries 10, 11, ... to two queues each, and what the publisher is told when they have answered.
    fn told(words: &[(u64, u64, Verdict)]) -> Vec<(u32, u32, Verdict)> {
        let settings = Settings::default();
        let mut budget = Budget::share(1);
        let mut account = Intake::new(PublisherId(1), Target::Anonymous, &settings).account;
        for id in 10..16 {
            let (tag, message) = (Chunk::Borrowed(&[]), Chunk::Borrowed(&[]));
            let rcv_settle_mode = ReceiverSettleMode::First;
            let delivery = Delivery { id, tag, message_format: 0, settled: false, rcv_settle_mode, message };
            account.push(&delivery, 1, 2, true, 0);
        }
        let mut told = Vec::new();
        for (first, last, verdict) in words {
            let before = told.len();
            let tell = |run: Completed| told.push((run.first, run.last, run.outcome));
            let n = account.handle_receipts((*first, *last), *verdict, 0, &mut budget, tell);
            assert_eq!(n, told[before..].iter().map(|(first, last, _)| u64::from(last - first + 1)).sum());
        }
        let answered: u64 = told.iter().map(|(first, last, _)| u64::from(last - first + 1)).sum();
        assert_eq!(u64::from(account.unconfirmed), 6 - answered);
        assert_eq!(account.unconfirmed_bytes, 6 - answered);
        told
    }

    #[test]
    fn receipts_of_several_queues_are_one() {
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
        // A rejection wins at once, and what comes later is late.
        assert_eq!(
            told(&[(2, 3, full), (0, 5, Accepted), (0, 5, Accepted)]),
            [(12, 13, full), (10, 11, Accepted), (14, 15, Accepted)]
        );
        // What was answered long ago, and what never was sent.
        assert_eq!(told(&[(0, 2, full), (0, 9, Accepted), (7, 9, Accepted)]), [(10, 12, full)]);
    }
}
