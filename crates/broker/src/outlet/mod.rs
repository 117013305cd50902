//! Outlet: what every consumer needs, whatever its protocol.
//!
//! ```text
//!   gate: credit      ──> Outlet::poll_grant ── at most one batch, one in flight ── Grant ──> queue
//!   gate: delivery    <── Outlet::handle_delivery <── Delivery, lent or as an effect <── queue
//!   gate: settlement  ──> Outlet::settle ── with `answer` if the peer waits for us ── Settle ──> queue
//!   gate: its peer    <── Outlet::handle_effect <── Attached, CreditState, Settled, Gone ... <── queue
//! ```
//!
//! A gate sends deliveries in its protocol's frames and says what its peer has settled. It translates each [`Word`] for its
//! peer. It says with an `A` what it needs to answer a settlement for which its peer waits.

mod bridge;
mod holder;

use std::collections::VecDeque;
use std::sync::Arc;

use queue::{Attach, ConsumerId, Effect, GoneReason, Mode, Outcome, Refusal, Request};

pub use self::bridge::CreditReport;
use self::bridge::{Batch, Bridge};
pub use self::holder::Holder;
use crate::catalog::QueueRecord;
use crate::counters::{Counters, Deliveries};
use crate::cx::Cx;
use crate::explain;
use crate::ids::QueueId;
use crate::mail::GateAddress;

/// Messages that one request gives annotations, at most: a frame may name thousands, and all theirs together are more than one
/// turn of a shard should write.
const ANNOTATED_MAX: u64 = 64;

/// What a consumer asks for when it attaches.
#[derive(Debug)]
pub struct Wanted {
    pub mode: Mode,
    /// Higher is served first. 0 is usual.
    pub priority: i32,
    /// Refuse when there is another consumer, and refuse every later one.
    pub exclusive: bool,
    /// Deliveries are settled as they are sent.
    pub settled: bool,
    /// Bytes of the largest delivery that the peer takes; `None` is any.
    pub message_bytes_max: Option<u64>,
    /// The filters that are not in place, for `sluice explain`.
    pub left_out: Option<Arc<[String]>>,
}

/// One consumer. Call [`Outlet::close`] when it goes.
#[derive(Debug)]
pub struct Outlet<A> {
    pub consumer: ConsumerId,
    pub queue: QueueId,
    pub queue_name: Arc<str>,
    /// Deliveries are settled as they are sent.
    pub settled: bool,
    /// It reads a stream: what it is sent stays there.
    pub stream: bool,
    /// The queue that goes with the consumer.
    pub owned: Option<QueueId>,
    /// Bytes of the largest delivery that the peer takes.
    pub message_bytes_max: Option<u64>,
    standing: Standing,
    /// It reads a stream, and the reader waits until there is room for its deliveries.
    waits_for_room: bool,
    bridge: Bridge,
    unsettled: u32,
    unsettled_max: u32,
    /// Settlements that the queue has not answered, oldest first. Bounded by the deliveries in them.
    asked: VecDeque<Asked<A>>,
    left_out: Option<Arc<[String]>>,
}

/// How the queue knows the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The queue has not answered the Attach.
    Asking,
    Attached,
    /// It gets nothing any more, and may still settle.
    Cancelled,
    /// The queue does not know it any more.
    Gone,
}

/// A settlement for whose answer the peer waits.
#[derive(Debug)]
struct Asked<A> {
    first: u64,
    last: u64,
    answer: A,
}

/// What an effect means for the peer of a consumer.
#[derive(Debug)]
pub enum Word<A> {
    /// The queue has taken the consumer.
    Attached,
    /// The queue has refused the consumer.
    Refused(Refusal),
    /// The queue has ended the consumer.
    Gone(GoneReason),
    /// The answer to a drain or an echo.
    Credit(CreditReport),
    /// Whether this is the active consumer, and the messages that wait for it.
    Active { active: bool, available: u32 },
    /// The settlement that the peer waits for has been made.
    Settled(A),
    /// The deliveries with these numbers were taken back.
    Revoked { first: u64, last: u64 },
}

impl<A> Outlet<A> {
    /// Registers a consumer and asks the queue to take it. Returns `None` if the shard has no place for one more.
    pub fn open(at: GateAddress, record: &QueueRecord, wanted: Wanted, cx: &mut Cx<'_>) -> Option<Self> {
        let consumer = ConsumerId(cx.consumers.insert(at)?);
        cx.counters.consumers += 1;
        let Wanted { mode, priority, exclusive, settled, message_bytes_max, left_out } = wanted;
        let delivery_count = 0;
        let attach =
            Attach { consumer, mode, priority, exclusive, settled, delivery_count, message_bytes_max };
        cx.post.request(record.id, Request::Attach(attach));
        Some(Self {
            consumer,
            queue: record.id,
            queue_name: record.name.clone(),
            settled,
            stream: record.is_stream(),
            owned: None,
            message_bytes_max,
            standing: Standing::Asking,
            waits_for_room: false,
            bridge: Bridge::new(cx.settings.max_queue_credit),
            unsettled: 0,
            unsettled_max: match cx.settings.max_unsettled_per_link {
                0 => u32::MAX,
                max => max,
            },
            asked: VecDeque::new(),
            left_out,
        })
    }

    /// Ends the consumer: what it has not settled goes back to the queue. `failed` raises the delivery count. Returns the
    /// queue that goes with it.
    pub fn close(self, failed: bool, cx: &mut Cx<'_>) -> Option<QueueId> {
        cx.consumers.remove(self.consumer.0);
        if !self.is_gone() {
            cx.post.request(self.queue, Request::Detach { consumer: self.consumer, failed });
        }
        cx.counters.consumers -= 1;
        self.owned
    }

    /// Ends deliveries. What the peer has got may still be settled. Close it when nothing is left unsettled.
    pub fn cancel(&mut self, cx: &mut Cx<'_>) {
        if self.standing == Standing::Attached {
            self.standing = Standing::Cancelled;
            cx.post.request(self.queue, Request::Cancel { consumer: self.consumer });
        }
    }

    /// Deliveries that the peer has not settled, and those whose settlement the queue has not answered.
    pub fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Whether the queue has answered the Attach.
    pub fn is_answered(&self) -> bool {
        self.standing != Standing::Asking
    }

    /// Whether the queue does not know the consumer any more.
    pub fn is_gone(&self) -> bool {
        self.standing == Standing::Gone
    }

    /// What `sluice explain` shows of it.
    pub fn facts(&self) -> explain::Role {
        let Self { queue, consumer, unsettled, unsettled_max, message_bytes_max, .. } = *self;
        explain::Role::Consuming {
            queue,
            consumer: consumer.0,
            unsettled,
            unsettled_max,
            message_bytes_max,
            // How far it has come in a stream is known where it is read.
            standing: None,
            left_out: self.left_out.clone(),
        }
    }

    // ---- credit -------------------------------------------------------------------------------------------

    /// The peer has granted credit, or asks for a word about it.
    pub fn handle_flow(&mut self, drain: bool, echo: bool) {
        self.bridge.handle_flow(drain, echo);
    }

    /// Asks the queue for what peer and settings allow. `left`: what the peer has left of its credit. `blocked`: deliveries
    /// wait for the peer's window or its socket, so that no more are fetched.
    pub fn poll_grant(&mut self, left: u32, blocked: bool, cx: &mut Cx<'_>) {
        if self.standing != Standing::Attached {
            return;
        }
        let room = self.room();
        if let Some(grant) = self.bridge.poll_grant(left, room, blocked) {
            self.grant(grant, cx);
        }
    }

    fn grant(&self, batch: Batch, cx: &mut Cx<'_>) {
        let Batch { delivery_count, credit, drain } = batch;
        let request = Request::Grant { consumer: self.consumer, delivery_count, credit, drain, echo: true };
        cx.post.request(self.queue, request);
    }

    fn room(&self) -> u32 {
        self.unsettled_max.saturating_sub(self.unsettled)
    }

    // ---- deliveries ---------------------------------------------------------------------------------------

    /// Notes that a stream's delivery was not taken because there is no room for it. Returns false if that was known.
    pub fn wait_for_room(&mut self) -> bool {
        !std::mem::replace(&mut self.waits_for_room, true)
    }

    /// Whether a stream's reader waits for room.
    pub fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    /// Asks a stream to go on, because there is room again.
    pub fn go_on(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.waits_for_room)
            && !self.is_gone()
            && let Some(grant) = self.bridge.go_on()
        {
            self.grant(grant, cx);
        }
    }

    /// A delivery has come from the queue. The gate sends it and calls [`Outlet::note_sent`], or gives it back.
    pub fn handle_delivery(&mut self) {
        self.bridge.handle_delivery();
    }

    /// The delivery was sent.
    pub fn note_sent(&mut self, redelivered: bool, counters: &mut Counters) {
        let counts = self.counts(counters);
        counts.redelivered += u64::from(redelivered);
        if self.settled {
            counts.auto_ack += 1;
        } else {
            counts.manual_ack += 1;
            self.unsettled += 1;
        }
    }

    /// The delivery with this number was not sent, because the peer has taken its credit back meanwhile.
    pub fn give_back(&self, number: u64, cx: &mut Cx<'_>) {
        self.request_settle((number, number), Outcome::Released, false, cx);
    }

    /// The peer says what became of the deliveries `first..=last`. `asked`: the peer waits for our answer, and this is what the
    /// gate needs for it when [`Word::Settled`] comes.
    pub fn settle(&mut self, (first, last): (u64, u64), outcome: Outcome, asked: Option<A>, cx: &mut Cx<'_>) {
        let mut first = first;
        if matches!(outcome, Outcome::Modified { annotations: Some(_), .. }) {
            while last - first >= ANNOTATED_MAX {
                self.settle_part((first, first + ANNOTATED_MAX - 1), outcome.clone(), None, cx);
                first += ANNOTATED_MAX;
            }
        }
        // The answer comes for the last part: the queue has done the others by then.
        self.settle_part((first, last), outcome, asked, cx);
    }

    fn settle_part(
        &mut self,
        (first, last): (u64, u64),
        outcome: Outcome,
        asked: Option<A>,
        cx: &mut Cx<'_>,
    ) {
        let n = last - first + 1;
        if outcome == Outcome::Accepted {
            self.counts(cx.counters).acknowledged += n;
        }
        self.request_settle((first, last), outcome, asked.is_some(), cx);
        match asked {
            Some(answer) => self.asked.push_back(Asked { first, last, answer }),
            None => self.unsettled = self.unsettled.saturating_sub(n as u32),
        }
    }

    /// Takes the settlements that the queue has been asked for and has not answered: the consumer ends before the answers can
    /// come. The queue does what it was asked first, so that they may be answered now.
    pub fn take_asked(&mut self) -> impl Iterator<Item = A> + use<A> {
        std::mem::take(&mut self.asked).into_iter().map(|asked| asked.answer)
    }

    fn request_settle(&self, (first, last): (u64, u64), outcome: Outcome, answer: bool, cx: &mut Cx<'_>) {
        cx.post
            .request(self.queue, Request::Settle { consumer: self.consumer, first, last, outcome, answer });
    }

    /// Where its deliveries are counted.
    fn counts<'a>(&self, counters: &'a mut Counters) -> &'a mut Deliveries {
        if self.stream { &mut counters.from_streams } else { &mut counters.from_classic }
    }

    // ---- effects ------------------------------------------------------------------------------------------

    /// Takes what the queue says, except deliveries. `left`: what the peer has left of its credit. Returns what the peer is to
    /// be told, if anything.
    pub fn handle_effect(&mut self, effect: &Effect, left: impl FnOnce() -> u32) -> Option<Word<A>> {
        match *effect {
            Effect::CreditState { state, .. } => {
                let room = self.room();
                self.bridge.handle_credit_state(state, left(), room).map(Word::Credit)
            }
            Effect::Attached { .. } if self.standing == Standing::Asking => {
                self.standing = Standing::Attached;
                Some(Word::Attached)
            }
            Effect::Refused { why, .. } => {
                self.standing = Standing::Gone;
                Some(Word::Refused(why))
            }
            Effect::Gone { reason, .. } => {
                match reason {
                    GoneReason::QueueDeleted => {
                        self.standing = Standing::Gone;
                        self.owned = None;
                    }
                    GoneReason::Damaged => self.standing = Standing::Gone,
                    GoneReason::Cancelled | GoneReason::Detached => {}
                }
                Some(Word::Gone(reason))
            }
            Effect::Active { active, available, .. } => Some(Word::Active { active, available }),
            Effect::Settled { first, last, .. } => {
                self.unsettled = self.unsettled.saturating_sub((last - first + 1) as u32);
                let at = self.asked.iter().position(|asked| (asked.first, asked.last) == (first, last))?;
                self.asked.remove(at).map(|asked| Word::Settled(asked.answer))
            }
            Effect::Revoked { first, last, .. } => {
                self.unsettled = self.unsettled.saturating_sub((last - first + 1) as u32);
                Some(Word::Revoked { first, last })
            }
            _ => None,
        }
    }
}
