//! Links on which the client publishes nothing more, although outcomes of its messages are not known yet
//! (docs/compatibility.md, Publishing).
//!
//! A publisher that detaches still wants these outcomes: without them, it sends the messages again. So they are sent on the
//! session after the link has ended. The broker's own DETACH, END or CLOSE waits for them, because many clients stop
//! listening then.
//!
//! ```text
//!   DETACH, END, CLOSE ──> no queue to delete any more ──> all outcomes sent ──> the answer
//!                          (crate::own_queues)             (this module)
//!                          └──── or the deadline of both ([`ANSWER_WAIT_MS`]) ────┘
//! ```

use std::collections::BTreeMap;

use catalog::ids::QueueId;
use queue::Verdict;

use super::ends::HeldAnswer;
use super::intake::{Published, note_run};
use super::{Gate, Session};
use crate::cx::Cx;
use crate::intake::{Intake, Parted};
use crate::mail::GateAddress;

/// The most ended links of a connection whose outcomes are still sent. If there are more, nobody learns those of the oldest. Each
/// takes some 200 bytes, and 16 for each of its messages.
const PARTED_MAX: usize = 1024;

/// The bit that tells the places of ended links from those of links (see [`super::place`]), and from those of
/// [`crate::intake::Unanswered`].
const PARTED: u64 = 1 << 62;

/// The ended links of one connection whose outcomes are not known, and the answers that wait for them.
#[derive(Debug, Default)]
pub(super) struct PartedLinks {
    /// By a number that counts up.
    links: BTreeMap<u64, PartedLink>,
    last_number: u64,
    /// The answers that wait, in their order.
    answers: Vec<HeldAnswer>,
}

#[derive(Debug)]
struct PartedLink {
    session: u16,
    /// The link whose DETACH is not answered. `None` when it is: another link may have its number.
    link: Option<u32>,
    publisher: Parted<Published>,
}

impl PartedLinks {
    /// Returns true if outcomes are missing that have to come before this answer.
    fn awaits(&self, answer: HeldAnswer) -> bool {
        let concerns = |parted: &PartedLink| match answer {
            HeldAnswer::Detach { session, link } => (parted.session, parted.link) == (session, Some(link)),
            HeldAnswer::End { session } => parted.session == session,
            HeldAnswer::Close => true,
        };
        self.links.values().any(concerns)
    }

    fn forget_answers(&mut self, is_forgotten: impl Fn(HeldAnswer) -> bool) {
        self.answers.retain(|answer| !is_forgotten(*answer));
    }
}

impl Gate {
    /// Ends the publisher of a link. Its outcomes are still sent on the session.
    pub(super) fn part(&mut self, session: u16, link: u32, intake: Intake<Published>, cx: &mut Cx<'_>) {
        let parted = self.parted.get_or_insert_default();
        parted.last_number += 1;
        let number = parted.last_number;
        let at = GateAddress { connection: self.peer.key, place: PARTED | number };
        let (publisher, owned) = intake.part(at, cx);
        parted.links.insert(number, PartedLink { session, link: Some(link), publisher });
        if parted.links.len() > PARTED_MAX
            && let Some((_, oldest)) = parted.links.pop_first()
        {
            oldest.publisher.close(&mut self.unanswered, self.peer.key, cx);
        }
        owned.into_iter().for_each(|queue| self.own.delete(queue, self.peer.key, cx));
    }

    /// Sends an answer, unless it has to wait for outcomes. Even after the deadline it leaves at the end of the turn, behind the
    /// outcomes that this turn brings.
    pub(super) fn answer_after_outcomes(&mut self, answer: HeldAnswer, cx: &mut Cx<'_>) {
        match &mut self.parted {
            Some(parted) if parted.awaits(answer) => {
                self.own.start_deadline(cx.now_ms);
                parted.answers.push(answer);
            }
            _ => self.send_answer(answer, cx),
        }
    }

    /// Sends the answers that need not wait any more.
    pub(super) fn send_held_answers(&mut self, cx: &mut Cx<'_>) {
        let is_over = self.own.is_late(cx.now_ms);
        if is_over && self.own.holds_answers() {
            self.deletion_done(cx);
        }
        let Some(parted) = self.parted.as_deref_mut().filter(|parted| !parted.answers.is_empty()) else {
            return;
        };
        let (ready, held): (Vec<_>, Vec<_>) = std::mem::take(&mut parted.answers)
            .into_iter()
            .partition(|answer| is_over || !parted.awaits(*answer));
        parted.answers = held;
        for answer in ready {
            self.send_answer(answer, cx);
        }
        self.forget_parted();
    }

    /// Returns when answers are sent without deletions and further outcomes.
    pub(super) fn answers_deadline(&self) -> Option<u64> {
        let waits = self.parted.as_ref().is_some_and(|parted| !parted.answers.is_empty());
        self.own.deadline_ms().filter(|_| waits || self.own.holds_answers())
    }

    /// Reports receipts to the publisher of an ended link. Returns false if this is no place of one.
    pub(super) fn handle_parted_receipts(
        &mut self,
        at: u64,
        queue: QueueId,
        range: (u64, u64),
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) -> bool {
        if at & PARTED == 0 {
            return false;
        }
        let number = at & !PARTED;
        let Gate { parted: Some(parted), sessions, peer, unanswered, .. } = self else { return true };
        let Some(PartedLink { session, publisher, .. }) = parted.links.get_mut(&number) else { return true };
        let session = *session;
        let Some(Some(s)) = sessions.get_mut(usize::from(session)) else { return true };
        let Session { dispositions, past, has_ended, .. } = &mut **s;
        let (catalog, placements) = (cx.catalog, cx.placements);
        let tell = |run| note_run(dispositions, &run, queue, (catalog, placements));
        let confirmed = publisher.handle_receipts(range, verdict, unanswered, cx, tell);
        match has_ended {
            false => past.confirmed += confirmed,
            // What passed over the session is counted already.
            true => peer.past.iter_mut().for_each(|past| past.confirmed += confirmed),
        }
        if publisher.is_done()
            && let Some(done) = parted.links.remove(&number)
        {
            done.publisher.close(unanswered, peer.key, cx);
        }
        self.touch_dispositions(session);
        self.forget_parted();
        true
    }

    /// Called when the DETACH of a link was sent, or when another link has its number.
    pub(super) fn release_parted(&mut self, session: u16, link: u32) {
        let Some(parted) = &mut self.parted else { return };
        for of in parted.links.values_mut().filter(|of| (of.session, of.link) == (session, Some(link))) {
            of.link = None;
        }
        parted.forget_answers(|answer| answer == HeldAnswer::Detach { session, link });
    }

    /// Called when nothing more can be sent on a session.
    pub(super) fn drop_parted(&mut self, session: u16, cx: &mut Cx<'_>) {
        let Self { parted: Some(parted), unanswered, peer, .. } = self else { return };
        for (_, of) in parted.links.extract_if(.., |_, of| of.session == session) {
            of.publisher.close(unanswered, peer.key, cx);
        }
        parted.forget_answers(|answer| answer.is_on(session));
        self.forget_parted();
    }

    /// Called when a link, an answer or a deletion was removed. If no ended link waits for outcomes, ends the deadline, and frees the
    /// memory if no answer waits.
    pub(super) fn forget_parted(&mut self) {
        let Some(parted) = &mut self.parted else { return self.own.end_deadline() };
        if parted.links.is_empty() {
            self.own.end_deadline();
            if parted.answers.is_empty() {
                self.parted = None;
            }
        }
    }
}
