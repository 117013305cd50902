//! Outcomes and credit for the publisher of a link (docs/compatibility.md, Publishing and Credit).

use amqp10::{
    AmqpError, Delivery, DeliveryState, DispositionRange, Map, ReceiverSettleMode, Symbol, Value, condition,
};
use catalog::Catalog;
use catalog::ids::{NodeId, QueueId};
use queue::{Refusal, RejectReason, Verdict};
use ranges::Ranges;

use super::outbound::refused_by_queue;
use super::{Gate, LinkRole, Session, error, parts, role_in};
use crate::cx::Cx;
use crate::intake::{Publication, Run};
use crate::moving::name_of;
use crate::placements::{NO_LEADER, Placements, name_of_node, out_of_reach};

/// What is stored of a delivery until its receipt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// The delivery-id, a serial number.
    id: u32,
    answer: Answer,
}

/// What a publisher receives for a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The publisher receives nothing, because it has settled the delivery.
    Nothing,
    /// The publisher receives the outcome, and the broker settles with it.
    Settled,
    /// The publisher receives only the outcome, and settles first [2.7.5]. Its settlement needs no action
    /// here. Links are not recovered, so nobody asks for unsettled deliveries.
    Unsettled,
}

impl Published {
    pub(super) fn new(delivery: &Delivery<'_>) -> Self {
        Self { id: delivery.id, answer: Answer::to(delivery) }
    }
}

impl Publication for Published {
    fn wants_receipt(&self) -> bool {
        self.answer != Answer::Nothing
    }

    fn is_followed_by(&self, next: &Self) -> bool {
        self.id.wrapping_add(1) == next.id && self.answer == next.answer
    }
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

impl Gate {
    /// Stores an outcome until the end of the turn. If it continues the previous outcome, the two are joined.
    pub(super) fn note_disposition(&mut self, session: u16, delivery: &Delivery<'_>, state: DeliveryState) {
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        note(&mut s.dispositions, (delivery.id, delivery.id), Answer::to(delivery), state);
    }

    /// Reports receipts to a publisher; see [`crate::gate::Gate::handle_receipts`].
    pub fn handle_receipts(
        &mut self,
        at: u64,
        queue: QueueId,
        range: (u64, u64),
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) {
        if self.unanswered.handle_receipts(at, range, verdict, cx)
            || self.handle_parted_receipts(at, queue, range, verdict, cx)
        {
            return;
        }
        let (session, link) = parts(at);
        let Some(Some(s)) = self.sessions.get_mut(usize::from(session)) else { return };
        let Session { links, dispositions, .. } = &mut **s;
        let Some(Some(LinkRole::Intake(intake))) = links.get_mut(link as usize) else { return };
        let (catalog, placements) = (cx.catalog, cx.placements);
        let mut is_unknown = false;
        intake.handle_receipts(range, verdict, cx, |run| {
            is_unknown |= run.verdict == Verdict::Unknown;
            note_run(dispositions, &run, queue, (catalog, placements));
        });
        self.touch(session, link);
        if is_unknown {
            self.detach_in_doubt(session, link, queue, cx);
        }
    }

    /// Ends a link with a message whose outcome nobody knows: the message stays unsettled, as when a connection is lost.
    fn detach_in_doubt(&mut self, session: u16, link: u32, queue: QueueId, cx: &mut Cx<'_>) {
        let why = Refusal::OutcomeUnknown { node: cx.placements.other_node(queue) };
        let name = name_of(cx.catalog, queue);
        let (condition, text) = refused_by_queue(why, &name, &self.peer.vhost, cx.catalog);
        self.detach(session, link, error(condition, text), cx);
    }

    /// Grants credit if it is time.
    pub(super) fn grant_link_credit(&mut self, session: u16, link: u32, cx: &mut Cx<'_>) {
        let Some(l) = self.conn.session(session).and_then(|s| s.link(link)) else { return };
        let credit = l.receiver_credit().credit();
        let Self { sessions, unanswered, .. } = self;
        let Some(LinkRole::Intake(intake)) = role_in(sessions, session, link) else { return };
        unanswered.note(intake);
        if let Some(grant) = intake.poll_grant(credit, cx) {
            if grant > cx.settings.max_link_credit {
                self.conn.widen_window(session, grant);
            }
            self.conn.grant(session, link, grant, false, false);
        }
    }
}

/// Stores the outcome of consecutive publishes until the end of the turn.
pub(super) fn note_run(
    dispositions: &mut Vec<DispositionRange>,
    run: &Run<Published>,
    queue: QueueId,
    (catalog, placements): (&Catalog, &Placements),
) {
    let state = match run.verdict {
        Verdict::Accepted => DeliveryState::Accepted,
        Verdict::Released => DeliveryState::Released,
        Verdict::Rejected(reason) => rejected(reason, queue, catalog, placements),
        // No outcome is true.
        Verdict::Unknown => return,
    };
    note(dispositions, (run.first.id, run.last.id), run.first.answer, state);
}

fn note(
    dispositions: &mut Vec<DispositionRange>,
    (first, last): (u32, u32),
    answer: Answer,
    state: DeliveryState,
) {
    if answer != Answer::Nothing {
        let settled = answer == Answer::Settled;
        dispositions.push_joined(DispositionRange { first, last, settled, state });
    }
}

fn rejected(
    reason: RejectReason,
    queue: QueueId,
    catalog: &Catalog,
    placements: &Placements,
) -> DeliveryState {
    let name = catalog.queue_by_id(queue).map_or_else(String::new, |q| q.name.to_string());
    let (condition, reason, description) = match reason {
        RejectReason::MaxLength => {
            // The description contains `maxlen`, because clients check for this word.
            (condition::RESOURCE_LIMIT_EXCEEDED, "maxlen", format!("queue '{name}' exceeded maximum length"))
        }
        RejectReason::Unavailable => (
            condition::PRECONDITION_FAILED,
            "unavailable",
            format!("queue '{name}' cannot store messages now"),
        ),
        RejectReason::NoLeader => {
            (condition::PRECONDITION_FAILED, "unavailable", format!("queue '{name}' {NO_LEADER}"))
        }
        RejectReason::OutOfReach => {
            let node = placements.other_node(queue).map(|node| name_of_node(catalog, NodeId(node)));
            let why = out_of_reach(node.as_deref());
            (condition::PRECONDITION_FAILED, "unavailable", format!("queue '{name}' {why}"))
        }
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
