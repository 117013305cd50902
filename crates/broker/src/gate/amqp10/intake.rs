//! The account of a publishing link: what waits for receipts, what its publisher is told, and its credit (behaviour B.4,
//! house.md section 4, "The intake regulator").

use std::collections::VecDeque;

use amqp10::{AmqpError, Delivery, DeliveryState, Map, ReceiverSettleMode, Symbol, Value, condition};
use queue::{PublisherId, RejectReason, Verdict};

use super::adaptive::{Adaptive, Budget};
use super::address::encode_segment;
use super::flush::Told;
use super::inbound::Target;
use super::{Cx, Gate, LinkRole, Session};
use crate::catalog::QueueRecord;
use crate::explain;
use crate::ids::QueueId;
use crate::settings::{LinkCredit, Settings};

/// No credit is granted to a link while this many bytes of its messages wait for a receipt.
const UNCONFIRMED_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A publishing link.
#[derive(Debug)]
pub(super) struct Intake {
    pub publisher: PublisherId,
    pub target: Target,
    /// The queue whose end is the end of the link.
    pub watched: Option<QueueId>,
    /// The dynamic queue that dies with the link.
    pub dynamic: Option<QueueId>,
    next_seq: u64,
    /// Messages that wait for receipts, by `seq - (next_seq - len)`; answered ones in front are gone.
    pending: VecDeque<Pending>,
    unconfirmed: u32,
    unconfirmed_bytes: u64,
    /// None if its credit is fixed.
    pub adaptive: Option<Box<Adaptive>>,
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
            next_seq: 0,
            pending: VecDeque::new(),
            unconfirmed: 0,
            unconfirmed_bytes: 0,
            adaptive: (settings.link_credit == LinkCredit::Adaptive)
                .then(|| Box::new(Adaptive::new(settings.max_link_credit))),
        }
    }

    /// Everything on the link goes to this queue.
    pub fn watch(&mut self, queue: &QueueRecord, settings: &Settings) {
        self.watched = Some(queue.id);
        if settings.link_credit == LinkCredit::Auto && (queue.is_stream() || queue.fsync) {
            self.adaptive = Some(Box::new(Adaptive::new(settings.max_link_credit)));
        }
    }

    pub fn facts(&self) -> explain::Role {
        let queue = match &self.target {
            Target::Exchange { exchange, route, .. } if exchange.is_empty() => Some(route.key().into()),
            _ => None,
        };
        explain::Role::Publishing { queue, unconfirmed: self.unconfirmed }
    }

    pub fn unconfirmed(&self) -> u32 {
        self.unconfirmed
    }

    /// The address the client attached to; none for the anonymous terminus.
    pub fn address(&self) -> Option<String> {
        let Target::Exchange { exchange, route, .. } = &self.target else { return None };
        if exchange.is_empty() {
            return Some(super::queue_address(route.key()));
        }
        Some(format!("/exchanges/{}/{}", encode_segment(exchange), encode_segment(route.key())))
    }

    /// The credit to grant now, if it is time: it has fallen to half, and receipts are not behind
    /// (behaviour S26, S103).
    fn grant(&mut self, credit: u32, fixed: u32, budget: &mut Budget) -> Option<u32> {
        let max = self.adaptive.as_ref().map_or(fixed, |adaptive| adaptive.credit());
        let due =
            credit <= max / 2 && self.unconfirmed < max && self.unconfirmed_bytes < UNCONFIRMED_BYTES_MAX;
        due.then(|| match &mut self.adaptive {
            Some(adaptive) => adaptive.poll_grant(credit, budget),
            None => fixed,
        })
    }

    pub fn push(&mut self, delivery: &Delivery<'_>, bytes: u32, left: u32, now_ms: u64) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.unconfirmed += 1;
        self.unconfirmed_bytes += u64::from(bytes);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.handle_sent(seq, bytes, now_ms);
        }
        let (delivery_id, answer) = (delivery.id, Answer::to(delivery));
        self.pending.push_back(Pending { delivery_id, bytes, left, answer, merged: Merged::Nothing });
        seq
    }

    /// One queue's word on one message. Returns the delivery-id and outcome when that completes a message whose
    /// publisher is to be told.
    fn handle_receipt(
        &mut self,
        seq: u64,
        verdict: Verdict,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Option<(u32, Answer, Verdict)> {
        let first = self.next_seq - self.pending.len() as u64;
        let pending = self.pending.get_mut(usize::try_from(seq.checked_sub(first)?).ok()?)?;
        if pending.merged == Merged::Answered {
            return None;
        }
        pending.left = pending.left.saturating_sub(1);
        let outcome = match verdict {
            Verdict::Rejected(_) => Some(verdict),
            Verdict::Accepted => {
                pending.merged = Merged::Accepted;
                (pending.left == 0).then_some(Verdict::Accepted)
            }
            Verdict::Released => {
                if pending.merged == Merged::Nothing {
                    pending.merged = Merged::Released;
                }
                let any_accepted = pending.merged == Merged::Accepted;
                (pending.left == 0).then_some(if any_accepted {
                    Verdict::Accepted
                } else {
                    Verdict::Released
                })
            }
        }?;
        pending.merged = Merged::Answered;
        self.unconfirmed -= 1;
        self.unconfirmed_bytes -= u64::from(pending.bytes);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.handle_receipt(seq, now_ms, budget);
        }
        let answer =
            (pending.answer != Answer::Nothing).then_some((pending.delivery_id, pending.answer, outcome));
        while self.pending.front().is_some_and(|p| p.merged == Merged::Answered) {
            self.pending.pop_front();
        }
        answer
    }
}

impl Gate {
    /// Remembers an outcome for the end of the turn, joined to the one before if it continues it.
    pub(super) fn note_disposition(&mut self, session: u16, delivery: &Delivery<'_>, state: DeliveryState) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        note(s, delivery.id, Answer::to(delivery), state);
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
        let Some(Some(LinkRole::Intake(intake))) = s.links.get_mut(link as usize) else { return };
        let mut done = Vec::new();
        for seq in first..=last {
            if let Some(completed) = intake.handle_receipt(seq, verdict, cx.now_ms, cx.budget) {
                cx.counters.confirmed += 1;
                done.push(completed);
            }
        }
        for (id, answer, outcome) in done {
            let state = match outcome {
                Verdict::Accepted => DeliveryState::Accepted,
                Verdict::Released => DeliveryState::Released,
                Verdict::Rejected(reason) => rejected(reason, queue, cx),
            };
            note(s, id, answer, state);
        }
        self.touch(session, link);
    }

    /// Grants credit if it is time.
    pub(super) fn regulate(&mut self, session: u16, link: u32, cx: &mut Cx<'_>) {
        let Some(l) = self.conn.session(session).and_then(|s| s.link(link)) else { return };
        let credit = l.receiver_credit().credit();
        let Some(LinkRole::Intake(intake)) = self.role(session, link) else { return };
        if let Some(grant) = intake.grant(credit, cx.settings.max_link_credit, cx.budget) {
            self.conn.grant(session, link, grant, false, false);
        }
    }
}

fn note(session: &mut Session, id: u32, answer: Answer, state: DeliveryState) {
    if answer == Answer::Nothing {
        return;
    }
    let told = Told { first: id, last: id, settled: answer == Answer::Settled, state };
    match session.dispositions.last_mut() {
        Some(last) if last.joins(&told) => last.last = id,
        _ => session.dispositions.push(told),
    }
}

fn rejected(reason: RejectReason, queue: QueueId, cx: &Cx<'_>) -> DeliveryState {
    let name = cx.catalog.queue_by_id(queue).map_or_else(String::new, |q| q.name.to_string());
    let (condition, reason, description) = match reason {
        RejectReason::MaxLength => {
            (condition::RESOURCE_LIMIT_EXCEEDED, "maxlen", format!("queue '{name}' is at its maximum length"))
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
        let mut intake = Intake::new(PublisherId(1), Target::Anonymous, &settings);
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
            intake.push(&delivery, BYTES, 1, 0);
            assert_eq!(intake.grant(0, fixed, &mut budget), Some(fixed));
        }
        intake.push(&delivery, BYTES, 1, 0);
        assert_eq!(
            intake.grant(0, fixed, &mut budget),
            None,
            "the bytes are at their bound, the messages are not"
        );
        // The outcome of a settled message is nobody's to hear, but its receipt counts.
        assert_eq!(intake.handle_receipt(0, Verdict::Accepted, 0, &mut budget), None);
        assert_eq!(intake.grant(0, fixed, &mut budget), Some(fixed));
    }
}
