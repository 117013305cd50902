//! Outlet: what every consumer needs, in every protocol. It turns the peer's credit into grants, bounds unsettled
//! deliveries and sends settlements.
//!
//! ```text
//!   gate: credit      ──> Outlet::poll_grant ── at most one batch, one in flight ── Grant ──> queue
//!   gate: delivery    <── Outlet::handle_delivery <── Delivery, lent or as an effect <── queue
//!   gate: settlement  ──> Outlet::settle ── with `answer` if the peer waits for us ── Settle ──> queue
//!   gate: its peer    <── Outlet::handle_effect <── Attached, CreditState, Settled, Gone ... <── queue
//! ```
//!
//! A gate sends deliveries in the frames of its protocol and passes on what its peer settles. It translates each
//! [`PeerEvent`] for its peer. `A` is what the gate needs to answer a settlement for which the peer waits.

mod bridge;
mod holder;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use catalog::QueueRecord;
use catalog::access::Protocol;
use catalog::ids::QueueId;
use message::{DeliveryMax, Message};
use queue::{
    Attach, ConsumerId, ConsumerTimeout, DeliveryRef, Effect, GoneReason, Lately, Mode, Outcome, QueueType,
    Refusal, Request, SettleAnswer, Span,
};

pub use self::bridge::CreditReport;
use self::bridge::{Batch, Bridge};
pub use self::holder::Holder;

use crate::admin_api::ConsumerRow;
use crate::ages::Ages;
use crate::announced::Announced;
use crate::counters::{Counters, Deliveries};
use crate::cx::Cx;
use crate::explain;
use crate::mail::{ConsumerAddress, GateAddress};

/// The maximum number of messages that one request annotates. A frame may name thousands, and the annotations of all of
/// them are more than a shard should write in one turn (iteration of its event loop).
const ANNOTATED_MAX: u64 = 64;

/// The properties of a consumer that attaches.
#[derive(Debug)]
pub struct Wanted {
    pub mode: Mode,
    /// The priority. Consumers with a higher priority are served first. 0 is usual.
    pub priority: i32,
    /// True if the consumer must be the only one. It is refused if there is another one, and every later one
    /// is refused.
    pub exclusive: bool,
    /// True if deliveries are settled as they are sent.
    pub settled: bool,
    /// The largest delivery that the peer accepts. `None` means any size.
    pub message_bytes_max: Option<DeliveryMax>,
    /// The time for which the peer wants to be allowed to hold a delivery, in milliseconds. Only quorum queues use it.
    pub timeout_ms: Option<u64>,
    /// The filters that are not in effect, for `sluice explain`.
    pub left_out: Option<Arc<[String]>>,
}

/// One consumer. Call [`Outlet::close`] when the consumer ends.
#[derive(Debug)]
pub struct Outlet<A> {
    pub consumer: ConsumerId,
    pub queue: QueueId,
    pub queue_name: Arc<str>,
    /// True if deliveries are settled as they are sent.
    pub settled: bool,
    /// True if the peer only looks at the messages of a queue. Then it is no consumer for anything that counts them.
    pub browses: bool,
    priority: i32,
    /// The time for which the consumer may hold a delivery, in milliseconds, as it was at the Attach.
    timeout_ms: u64,
    pub(crate) exclusive: bool,
    /// Whether this is the single active consumer. `None` unless the queue has one.
    active: Option<bool>,
    queue_type: QueueType,
    protocol: Protocol,
    /// The queue that is deleted with the consumer.
    pub owned: Option<QueueId>,
    /// The largest delivery that the peer accepts.
    pub message_bytes_max: Option<DeliveryMax>,
    attach_state: AttachState,
    /// True if the reader of the stream waits until there is room for its deliveries.
    waits_for_room: bool,
    bridge: Bridge,
    /// The number of deliveries that were sent, of those that had been delivered before, and of those that the peer has
    /// settled as accepted.
    sent: u64,
    redelivered: u64,
    acknowledged: u64,
    /// The deliveries that the peer has given back to the queue. Boxed because few consumers do.
    returned: Option<Box<Lately>>,
    unsettled: u32,
    /// When unsettled deliveries were sent.
    ages: Ages,
    unsettled_max: u32,
    /// The settlements that the queue has not answered yet, oldest first. Bounded by their deliveries.
    open_settlements: VecDeque<OpenSettlement<A>>,
    /// Boxed because few consumers hold deliveries for too long.
    revoked: Option<Box<Revoked>>,
    left_out: Option<Arc<[String]>>,
    /// What an event has said about the consumer. Boxed because events are off on most nodes.
    pub(crate) announced: Option<Box<Announced>>,
}

/// The deliveries that the queue has taken back because the peer held them for too long.
#[derive(Debug, Default)]
struct Revoked {
    /// Those that the peer has not settled yet. The queue sends nothing more until it has settled them.
    unsettled: BTreeSet<u64>,
    /// The number of all of them so far.
    total: u64,
}

/// The state of the consumer at the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttachState {
    /// The queue has not answered the Attach.
    Asking,
    Attached,
    /// The consumer gets no more deliveries, but it may still settle.
    Cancelled,
    /// The queue does not know the consumer any more.
    Gone,
    /// The queue is on no node in reach, so the consumer has ended. Its deliveries return to the queue.
    OutOfReach {
        node: Option<u32>,
    },
}

/// A settlement for whose answer the peer waits.
#[derive(Debug)]
struct OpenSettlement<A> {
    first: u64,
    last: u64,
    answer: A,
}

/// The meaning of an effect for the peer of a consumer.
#[derive(Debug)]
pub enum PeerEvent<A> {
    /// The queue has accepted the consumer.
    Attached,
    /// The queue has refused the consumer.
    Refused(Refusal),
    /// The queue has ended the consumer.
    Gone(GoneReason),
    /// The answer to a drain or an echo.
    Credit(CreditReport),
    /// `active` says whether this is the single active consumer. `available` is the number of messages that
    /// are available to it.
    Active { active: bool, available: u32 },
    /// A settlement for which the peer waits has been made.
    Settled(A),
    /// The queue has taken the deliveries with these numbers back. The gate tells its peer, and calls
    /// [`Outlet::await_revoked`].
    Revoked {
        numbers: Vec<Span>,
        /// True if it is the first time.
        first: bool,
    },
}

impl<A> Outlet<A> {
    /// Registers a consumer and asks the queue to accept it. Returns `None` if the shard cannot register any more.
    pub fn open(
        at: GateAddress,
        protocol: Protocol,
        record: &QueueRecord,
        wanted: Wanted,
        cx: &mut Cx<'_>,
    ) -> Option<Self> {
        let consumer = ConsumerId(cx.consumers.insert(ConsumerAddress::Gate(at))?);
        let browses = matches!(wanted.mode, Mode::Browse);
        cx.counters.over_mut(protocol).consumers += u64::from(!browses);
        let Wanted { mode, priority, exclusive, settled, message_bytes_max, timeout_ms, left_out } = wanted;
        let delivery_count = 0;
        let timeout =
            ConsumerTimeout { own_ms: timeout_ms, default_ms: Some(cx.settings.consumer_timeout_ms) };
        let attach = Attach {
            consumer,
            mode,
            priority,
            exclusive,
            settled,
            delivery_count,
            message_bytes_max,
            timeout,
        };
        cx.post.request(record.id, Request::Attach(attach));
        // The same order as in the queue, which alone takes deliveries back.
        let of_queue = record.config.quorum.and_then(|quorum| quorum.consumer_timeout_ms);
        Some(Self {
            consumer,
            timeout_ms: timeout_ms.or(of_queue).unwrap_or(cx.settings.consumer_timeout_ms),
            queue: record.id,
            queue_name: record.name.clone(),
            settled,
            browses,
            priority,
            exclusive,
            active: None,
            queue_type: record.config.queue_type(),
            protocol,
            owned: None,
            message_bytes_max,
            attach_state: AttachState::Asking,
            waits_for_room: false,
            bridge: match browses || record.is_stream() {
                true => Bridge::to_stopping(cx.settings.max_queue_credit),
                false => Bridge::new(cx.settings.max_queue_credit),
            },
            sent: 0,
            redelivered: 0,
            acknowledged: 0,
            returned: None,
            unsettled: 0,
            ages: Ages::default(),
            unsettled_max: match cx.settings.max_unsettled_per_consumer {
                0 => u32::MAX,
                max => max,
            },
            open_settlements: VecDeque::new(),
            revoked: None,
            left_out,
            announced: None,
        })
    }

    /// Ends the consumer. Its unsettled deliveries return to the queue. `failed` raises their delivery count. Returns
    /// the queue that is to be deleted with the consumer.
    pub fn close(mut self, failed: bool, cx: &mut Cx<'_>) -> Option<QueueId> {
        self.emit_end(cx);
        cx.consumers.remove(self.consumer.0);
        if !self.is_gone() {
            cx.post.request(self.queue, Request::Detach { consumer: self.consumer, failed });
        }
        cx.counters.over_mut(self.protocol).consumers -= u64::from(!self.browses);
        self.owned
    }

    /// Ends deliveries. Earlier deliveries may still be settled. Close the outlet when nothing is left unsettled.
    pub fn cancel(&mut self, cx: &mut Cx<'_>) {
        self.emit_end(cx);
        if self.attach_state == AttachState::Attached {
            self.attach_state = AttachState::Cancelled;
            cx.post.request(self.queue, Request::Cancel { consumer: self.consumer });
        }
    }

    /// Tells that the consumer has ended, if an event has told that it is there.
    fn emit_end(&mut self, cx: &mut Cx<'_>) {
        if let Some(announced) = self.announced.take() {
            announced.emit_end(&self.queue_name, cx);
        }
    }

    /// Returns the number of deliveries that are unsettled, or whose settlement the queue has not answered.
    pub fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Returns true if the queue has answered the Attach.
    pub fn is_answered(&self) -> bool {
        self.attach_state != AttachState::Asking
    }

    /// Returns true if the queue does not know the consumer any more, or is out of reach.
    pub fn is_gone(&self) -> bool {
        matches!(self.attach_state, AttachState::Gone | AttachState::OutOfReach { .. })
    }

    /// Returns why the deliveries of the consumer cannot be settled any more and return to the queue, if that is so.
    pub fn out_of_reach(&self) -> Option<Refusal> {
        match self.attach_state {
            AttachState::OutOfReach { node } => Some(Refusal::OutOfReach { node }),
            _ => None,
        }
    }

    /// Returns the number of deliveries that have arrived from the queue. It wraps around.
    pub fn delivery_count(&self) -> u32 {
        self.bridge.delivery_count()
    }

    /// Returns what has passed over the consumer.
    pub fn deliveries(&self) -> Deliveries {
        let Self { sent, redelivered, acknowledged, .. } = *self;
        let (manual_ack, auto_ack) = if self.settled { (0, sent) } else { (sent, 0) };
        Deliveries { manual_ack, auto_ack, redelivered, acknowledged, ..Deliveries::default() }
    }

    /// Returns what listings show of the consumer. `tag` is its name in its protocol, `prefetch` the number of
    /// unsettled deliveries that it may have, and `age_ms` is [`Outlet::age_ms`].
    pub fn row(&self, tag: &str, prefetch: u32, age_ms: Option<u64>) -> ConsumerRow {
        ConsumerRow {
            tag: tag.into(),
            queue: self.queue_name.clone(),
            settled: self.settled,
            exclusive: self.exclusive,
            priority: self.priority,
            active: self.active,
            browses: self.browses,
            prefetch,
            unsettled: self.unsettled,
            unsettled_age_ms: age_ms,
            timeout_ms: self.timeout_ms,
            arguments: Default::default(),
        }
    }

    /// Returns the number of filters that the peer asked for, and that are not in effect.
    pub fn filters_left_out(&self) -> u64 {
        self.left_out.as_ref().map_or(0, |filters| filters.len() as u64)
    }

    /// Returns what `sluice explain` shows of the consumer.
    pub fn facts(&self) -> explain::Role {
        let Self { queue, consumer, unsettled, unsettled_max, sent, acknowledged, message_bytes_max, .. } =
            *self;
        explain::Role::Consuming {
            queue,
            consumer: consumer.0,
            unsettled,
            unsettled_max,
            sent,
            acknowledged,
            returned: self.returned.as_deref().copied().unwrap_or_default(),
            message_bytes_max,
            revoked: self.revoked.as_ref().map_or(0, |revoked| revoked.unsettled.len() as u64),
            // The progress of a reader is not known here. The reader adds it.
            standing: None,
            left_out: self.left_out.clone(),
        }
    }

    // ---- credit -------------------------------------------------------------------------------------------

    /// Called when the peer has granted credit or asked for a report.
    pub fn handle_flow(&mut self, drain: bool, echo: bool) {
        self.bridge.handle_flow(drain, echo);
    }

    /// Requests as many messages from the queue as the peer and the settings allow. `left` is the credit that
    /// the peer has left. `blocked` says that deliveries wait for the peer's window or socket, so that no
    /// more are fetched.
    pub fn poll_grant(&mut self, left: u32, blocked: bool, cx: &mut Cx<'_>) {
        if self.attach_state != AttachState::Attached {
            return;
        }
        let room = self.room();
        if let Some(grant) = self.bridge.poll_grant(left, room, blocked, cx.output_room) {
            self.grant(grant, cx);
        }
    }

    fn grant(&self, batch: Batch, cx: &mut Cx<'_>) {
        let Batch { delivery_count, credit, drain } = batch;
        let request = Request::Grant { consumer: self.consumer, delivery_count, credit, drain, echo: true };
        cx.post.request(self.queue, request);
    }

    /// Returns true if the peer has as many unsettled deliveries as it may.
    pub fn is_at_limit(&self) -> bool {
        self.room() == 0
    }

    fn room(&self) -> u32 {
        self.unsettled_max.saturating_sub(self.unsettled)
    }

    // ---- deliveries ---------------------------------------------------------------------------------------

    /// Notes that a delivery of a stream was not taken, because there is no room for it. Returns false if that was
    /// known.
    pub fn wait_for_room(&mut self) -> bool {
        !std::mem::replace(&mut self.waits_for_room, true)
    }

    /// Returns true if the consumer reads a stream: its deliveries stay in the stream.
    #[inline]
    pub fn reads_stream(&self) -> bool {
        self.queue_type == QueueType::Stream
    }

    /// Returns true if the consumer's queue is a quorum queue.
    #[inline]
    pub fn is_quorum(&self) -> bool {
        self.queue_type == QueueType::Quorum
    }

    /// Returns true if deliveries stay where they are: the peer reads a stream or browses a queue.
    #[inline]
    pub fn copies(&self) -> bool {
        self.browses || self.reads_stream()
    }

    /// Returns true if the consumer takes from a quorum queue.
    pub fn reads_quorum(&self) -> bool {
        self.queue_type == QueueType::Quorum
    }

    /// Returns true if the reader of the stream waits for room.
    pub fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    /// Asks a stream to continue, because there is room again. Returns false if there is nothing to ask for.
    pub fn resume(&mut self, cx: &mut Cx<'_>) -> bool {
        if std::mem::take(&mut self.waits_for_room)
            // The credit of a queue is used up, and [`Outlet::poll_grant`] asks for more.
            && self.reads_stream()
            && !self.is_gone()
            && let Some(grant) = self.bridge.resume()
        {
            self.grant(grant, cx);
            return true;
        }
        false
    }

    /// Called when a delivery of this message has arrived from the queue. The gate sends it and calls [`Outlet::note_sent`], or calls
    /// [`Outlet::give_back`].
    #[inline]
    pub fn handle_delivery(&mut self, message: &Message) {
        self.bridge.handle_delivery(message.bytes_in_memory());
    }

    /// Called when a delivery was sent. `oldest` returns the number of the oldest delivery that is unsettled, if there is one.
    pub fn note_sent(
        &mut self,
        lent: &DeliveryRef<'_>,
        cx: &mut Cx<'_>,
        oldest: impl FnOnce() -> Option<u64>,
    ) {
        self.counts(cx.counters).count_sent(lent.redelivered(), self.settled);
        self.sent += 1;
        self.redelivered += u64::from(lent.redelivered());
        if !self.settled {
            self.unsettled += 1;
            self.ages.note(lent.number, cx.now_ms, oldest);
        }
    }

    /// Returns the age of the oldest unsettled delivery in milliseconds. `oldest` is its number.
    pub fn age_ms(&self, oldest: Option<u64>, now_ms: u64) -> Option<u64> {
        oldest.map(|oldest| self.ages.age_ms(oldest, now_ms))
    }

    /// Returns the delivery with this number to the queue. It was not sent, because the peer has no room for it any more.
    pub fn give_back(&self, number: u64, cx: &mut Cx<'_>) {
        self.request_settle((number, number), Outcome::Unsent, SettleAnswer::Never, cx);
    }

    /// Settles the deliveries `first..=last` with the peer's outcome. `asked` is set if the peer waits for an answer:
    /// the gate gets it back with [`PeerEvent::Settled`].
    pub fn settle(&mut self, (first, last): (u64, u64), outcome: Outcome, asked: Option<A>, cx: &mut Cx<'_>) {
        let mut first = first;
        if matches!(outcome, Outcome::Modified { annotations: Some(_), .. }) {
            while last - first >= ANNOTATED_MAX {
                self.settle_part((first, first + ANNOTATED_MAX - 1), outcome.clone(), None, cx);
                first += ANNOTATED_MAX;
            }
        }
        // Only the last part is answered. When it is, the queue has handled the other parts, too.
        let asked = asked.map(|asked| (asked, SettleAnswer::Made));
        self.settle_part((first, last), outcome, asked, cx);
    }

    /// Settles the deliveries `first..=last`. The gate gets `asked` back with [`PeerEvent::Settled`] when the settlement
    /// survives what a confirm of the queue survives.
    pub fn settle_stored(&mut self, range: (u64, u64), outcome: Outcome, asked: A, cx: &mut Cx<'_>) {
        self.settle_part(range, outcome, Some((asked, SettleAnswer::Stored)), cx);
    }

    fn settle_part(
        &mut self,
        (first, last): (u64, u64),
        outcome: Outcome,
        asked: Option<(A, SettleAnswer)>,
        cx: &mut Cx<'_>,
    ) {
        let n = last - first + 1;
        if outcome == Outcome::Accepted {
            self.counts(cx.counters).acknowledged += n;
            self.acknowledged += n;
        }
        if matches!(outcome, Outcome::Released | Outcome::Modified { undeliverable_here: false, .. }) {
            self.returned.get_or_insert_default().count_all(n, cx.now_ms);
        }
        let wanted = asked.as_ref().map_or(SettleAnswer::Never, |(_, wanted)| *wanted);
        self.request_settle((first, last), outcome, wanted, cx);
        match asked {
            Some((answer, _)) => self.open_settlements.push_back(OpenSettlement { first, last, answer }),
            None => self.unsettled = self.unsettled.saturating_sub(n as u32),
        }
        if self.revoked.is_some() {
            self.settle_revoked((first, last), cx);
        }
    }

    /// Called when the queue has taken deliveries back: `numbers` are those of them that the peer has not settled. When it
    /// has settled all of them, the queue is asked for more messages.
    pub fn await_revoked(&mut self, numbers: impl Iterator<Item = u64>, cx: &mut Cx<'_>) {
        if let Some(revoked) = &mut self.revoked {
            revoked.unsettled.extend(numbers);
        }
        self.resume_revoked(cx);
    }

    /// Returns true if the peer has to settle deliveries that the queue has taken back.
    pub fn is_timed_out(&self) -> bool {
        self.revoked.as_ref().is_some_and(|revoked| !revoked.unsettled.is_empty())
    }

    #[cold]
    fn settle_revoked(&mut self, (first, last): (u64, u64), cx: &mut Cx<'_>) {
        let Some(revoked) = &mut self.revoked else { return };
        let before = revoked.unsettled.len();
        let mut inside = revoked.unsettled.split_off(&first);
        let mut after = inside.split_off(&last.saturating_add(1));
        revoked.unsettled.append(&mut after);
        if before > 0 {
            self.resume_revoked(cx);
        }
    }

    fn resume_revoked(&self, cx: &mut Cx<'_>) {
        if let Some(revoked) = self.revoked.as_ref().filter(|revoked| revoked.unsettled.is_empty()) {
            let resume = Request::Resume { consumer: self.consumer, taken_back: revoked.total };
            cx.post.request(self.queue, resume);
        }
    }

    /// Returns true if the queue has to answer settlements.
    pub fn awaits_answers(&self) -> bool {
        !self.open_settlements.is_empty()
    }

    /// Takes the settlements that the queue has not answered yet. Called for a consumer that ends before the
    /// answers can arrive. The settlements may be answered now, because the queue handles them before it ends
    /// the consumer.
    pub fn take_unanswered(&mut self) -> impl Iterator<Item = A> + use<A> {
        std::mem::take(&mut self.open_settlements).into_iter().map(|open| open.answer)
    }

    fn request_settle(
        &self,
        (first, last): (u64, u64),
        outcome: Outcome,
        answer: SettleAnswer,
        cx: &mut Cx<'_>,
    ) {
        cx.post
            .request(self.queue, Request::Settle { consumer: self.consumer, first, last, outcome, answer });
    }

    /// Returns the counters for the deliveries of this consumer.
    fn counts<'a>(&self, counters: &'a mut Counters) -> &'a mut Deliveries {
        counters.over_mut(self.protocol).deliveries_from(self.queue_type)
    }

    // ---- effects ------------------------------------------------------------------------------------------

    /// Handles an effect of the queue, except a delivery. `left` returns the credit that the peer has left.
    /// Returns the message for the peer, if there is one.
    pub fn handle_effect(&mut self, effect: &Effect, left: impl FnOnce() -> u32) -> Option<PeerEvent<A>> {
        match *effect {
            Effect::CreditState { state, .. } => {
                let room = self.room();
                self.bridge.handle_credit_state(state, left(), room).map(PeerEvent::Credit)
            }
            Effect::Attached { .. } if self.attach_state == AttachState::Asking => {
                self.attach_state = AttachState::Attached;
                Some(PeerEvent::Attached)
            }
            Effect::Refused { why, .. } => {
                self.attach_state = AttachState::Gone;
                Some(PeerEvent::Refused(why))
            }
            Effect::Gone { reason, .. } => {
                match reason {
                    GoneReason::QueueDeleted => {
                        self.attach_state = AttachState::Gone;
                        self.owned = None;
                    }
                    GoneReason::Damaged => self.attach_state = AttachState::Gone,
                    GoneReason::OutOfReach { node } => self.attach_state = AttachState::OutOfReach { node },
                    GoneReason::Cancelled | GoneReason::Detached => {}
                }
                Some(PeerEvent::Gone(reason))
            }
            Effect::Active { active, available, .. } => {
                self.active = Some(active);
                Some(PeerEvent::Active { active, available })
            }
            Effect::Settled { first, last, .. } => {
                self.unsettled = self.unsettled.saturating_sub((last - first + 1) as u32);
                let at =
                    self.open_settlements.iter().position(|open| (open.first, open.last) == (first, last))?;
                self.open_settlements.remove(at).map(|open| PeerEvent::Settled(open.answer))
            }
            Effect::Revoked { ref numbers, .. } => {
                let first = self.revoked.is_none();
                let revoked = self.revoked.get_or_insert_default();
                revoked.total += numbers.iter().map(|span| span.last - span.first + 1).sum::<u64>();
                Some(PeerEvent::Revoked { numbers: numbers.clone(), first })
            }
            _ => None,
        }
    }
}
