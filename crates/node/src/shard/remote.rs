//! Queues of other nodes, as the clients of this shard use them; and the clients of other nodes, as they use the queues of this one.
//!
//! ```text
//!   this node                                              the other node
//!   gates ──> dispatch_requests ──> Near ──> PeerMail ──>  handle_peer_message ──> Far ──> seat ──> queues
//!   gates <── mail <─────────────── Near <── PeerMail <──  poll_peer_mail <─────── Far <── seat <── queues
//! ```
//!
//! Each shard has a session with each other node whose queues its clients use ([`seat::Near`]), and a seat for each shard of another node that uses
//! queues of this one ([`seat::Far`]). So a link that is lost for a short time is noticed by nobody, and nothing is stored twice. A node alone has
//! neither.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use broker::ids::Where;
use broker::mail::{Direct, Recipient, SeatKey, SeatMail, recipient};
use bytes::Bytes;
use catalog::categories::PEER;
use catalog::ids::{NodeId, NodeNumber, Origin, QueueId, ShardId};
use catalog::reply_to::ReplyTo;
use hashbrown::HashMap;
use queue::{ConsumerId, Deliver, Effect, Publish, Refusal, Request, Requester, Ticket};
use seat::{Far, Frame, Host, Kept, LOST_MS, Meeting, Near, Said, SessionId, To, Told, meet};

use super::Shard;
use super::peers::lanes;
use super::receipts::Receipt;
use super::requests::Requests;
use crate::peer::PeerMessage;

/// A batch waits for this time at most until this shard has applied what its asker has, in milliseconds. The shard may be cut off from the node that
/// decides about definitions, and not from the asker.
const EARLY_MS: u64 = 1000;

/// The most batches that wait in this way. The window of a session holds fewer, so this matters only for a node that does not keep to its window.
const EARLY_MAX: usize = 1 << 16;

/// A session with a node whose queues are used here.
#[derive(Debug)]
struct NearSeat {
    node: NodeNumber,
    near: Near,
}

/// A shard of another node that uses queues of this one.
#[derive(Debug)]
struct FarSeat {
    far: Far,
    key: SeatKey,
    /// Since when nothing can be sent to it, in milliseconds since the epoch.
    away_since: Option<u64>,
    /// Batches that may ask for what this shard does not know yet. The window of the session bounds them.
    early: VecDeque<(u64, Frame)>,
    /// Until when they wait, in milliseconds since the epoch.
    early_until: Option<u64>,
    /// Batches have waited for the whole time. No other waits until this shard has applied what their asker had.
    is_behind: bool,
}

impl FarSeat {
    /// Returns when the seat ends, unless the other node is heard before.
    fn lost_at(&self) -> Option<u64> {
        self.away_since.map(|since| since + LOST_MS)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Remote {
    nears: BTreeMap<NodeId, NearSeat>,
    /// By the other node and its shard.
    fars: BTreeMap<(NodeNumber, ShardId), FarSeat>,
    by_key: BTreeMap<SeatKey, (NodeNumber, ShardId)>,
    /// Seats that have ended while nothing could be sent to their nodes, which must be told.
    ended: BTreeMap<(NodeNumber, ShardId), SessionId>,
    /// The seats that this start of the node has had.
    seats: u32,
    /// Sessions that may have told something since their clients were told last.
    told: BTreeSet<NodeId>,
    /// What consumers of streams are told when they have room for it again. Bounded by their grants.
    held: HashMap<ConsumerId, VecDeque<Effect>>,
    /// Those that may have something to send.
    near_output: BTreeSet<NodeId>,
    far_output: BTreeSet<(NodeNumber, ShardId)>,
    due_ms: Option<u64>,
}

impl Remote {
    /// Returns when [`Shard::remote_timeouts`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.due_ms
    }

    fn note_due(&mut self) {
        let nears = self.nears.values().filter_map(|of| of.near.next_timeout());
        let fars =
            self.fars.values().flat_map(|of| [of.far.next_timeout(), of.lost_at(), of.early_until]).flatten();
        self.due_ms = nears.chain(fars).min();
    }

    /// Called when the catalog has forgotten queues.
    pub(super) fn forget_queues(&mut self, exists: impl Fn(QueueId) -> bool) {
        self.nears.values_mut().for_each(|of| of.near.forget_queues(&exists));
    }
}

/// What a session of another node does here.
struct Here<'a> {
    shard: &'a mut Shard,
    key: SeatKey,
    /// This shard has not applied all that the other node has.
    is_behind: bool,
}

impl Host for Here<'_> {
    fn add_consumer(&mut self, queue: QueueId) -> Option<ConsumerId> {
        self.shard.add_seat_consumer(self.key, queue)
    }

    fn add_ticket(&mut self) -> Option<Ticket> {
        self.shard.add_seat_ticket(self.key)
    }

    fn remove_consumer(&mut self, consumer: ConsumerId) {
        self.shard.forget_seat_consumer(self.key, consumer);
    }

    fn remove_ticket(&mut self, ticket: Ticket) {
        self.shard.forget_seat_ticket(self.key, ticket);
    }

    fn request(&mut self, queue: QueueId, request: Request) {
        if self.is_behind && self.shard.metadata.catalog().queue_by_id(queue).is_none() {
            // It is not deleted: its declaration has not come yet.
            return self.shard.refuse_request(queue, request, Refusal::OutOfReach { node: None });
        }
        self.shard.handle_seat_requests([(queue, request)]);
    }

    fn reply(&mut self, to: ReplyTo, vhost: Arc<str>, publish: Publish) {
        self.shard.mail.post.direct.push((to, vhost, Direct::Publish(publish)));
    }

    fn probe(&mut self, to: ReplyTo, vhost: Arc<str>, ticket: Ticket) {
        self.shard.mail.post.probe(&vhost, to, ticket);
    }
}

impl Shard {
    /// Sends a request to the node that has the queue, and the following ones of `rest` for queues of the same node.
    pub(super) fn ask_node(
        &mut self,
        node: NodeId,
        (queue, request): (QueueId, Request),
        rest: &mut Requests<'_>,
    ) {
        if self.near(node).is_none() {
            // The catalog knows the node of each queue.
            return self.refuse_request(queue, request, Refusal::OutOfReach { node: Some(node.0) });
        }
        self.ask_one(node, queue, request);
        while let Some((queue, _)) = rest.as_slice().first()
            && self.metadata.placements().home(*queue) == Where::On(node)
            && let Some((queue, request)) = rest.next()
        {
            self.ask_one(node, queue, request);
        }
        self.remote.told.insert(node);
    }

    fn ask_one(&mut self, node: NodeId, queue: QueueId, request: Request) {
        if !self.remote.held.is_empty() {
            match &request {
                Request::Grant { consumer, .. } => self.tell_held(*consumer),
                Request::Detach { consumer, .. } => _ = self.remote.held.remove(consumer),
                _ => {}
            }
        }
        if let Some(of) = self.remote.nears.get_mut(&node) {
            of.near.handle_request(queue, request);
        }
    }

    /// Sends a request to a link that takes replies, if it is on another node that is known. Otherwise gives it back.
    pub(super) fn reply_to_node(
        &mut self,
        to: ReplyTo,
        vhost: Arc<str>,
        request: Direct,
    ) -> Option<(Arc<str>, Direct)> {
        let node = to.origin.node;
        if node == self.here.origin.node {
            return Some((vhost, request));
        }
        let Some(near) = self.near(node) else { return Some((vhost, request)) };
        match request {
            Direct::Publish(publish) => near.publish(Kept { to: To::Reply(to, vhost), publish }),
            Direct::Probe(ticket) => near.probe(to, vhost, ticket),
        }
        self.remote.told.insert(node);
        None
    }

    /// Returns the session with a node of the cluster.
    fn near(&mut self, node: NodeId) -> Option<&mut Near> {
        if !self.remote.nears.contains_key(&node) {
            let number = self.metadata.catalog().number_of(node)?;
            let mut near = Near::new(node.0, self.here.origin.boot, self.here.id);
            near.set_now(self.here.now_ms);
            near.handle_alive(self.peers.support().has(number));
            if self.peers.has_link(number) {
                near.handle_link(true);
            }
            self.remote.nears.insert(node, NearSeat { node: number, near });
        }
        self.remote.near_output.insert(node);
        let near = &mut self.remote.nears.get_mut(&node)?.near;
        near.set_now(self.here.now_ms);
        Some(near)
    }

    /// Tells the clients of this shard what the sessions have told since the last call. No gate is at work.
    pub(super) fn tell_all(&mut self) {
        while let Some(node) = self.remote.told.pop_first() {
            self.tell(node);
        }
    }

    fn tell(&mut self, node: NodeId) {
        let Some(mut of) = self.remote.nears.remove(&node) else { return };
        while let Some(told) = of.near.poll_told() {
            match told {
                Told::Effect { queue, effect } => self.tell_effect(queue, effect),
                Told::Receipt { queue, publisher, first, last, verdict } => {
                    self.handle_receipt(Receipt { queue, publisher, first, last, verdict });
                }
                Told::Away { queue, ticket, is_sent } => {
                    self.delete_elsewhere(node, (queue, ticket), is_sent)
                }
            }
        }
        self.remote.nears.insert(node, of);
    }

    fn tell_effect(&mut self, queue: QueueId, effect: Effect) {
        if !self.remote.held.is_empty()
            && let Recipient::Consumer(consumer) = recipient(&effect)
        {
            if let Effect::Gone { .. } = effect {
                self.remote.held.remove(&consumer);
            } else if let Some(held) = self.remote.held.get_mut(&consumer) {
                return held.push_back(effect);
            }
        }
        match effect {
            Effect::Delivery(delivery) => {
                let is_here = self.connections.consumer(delivery.consumer).is_some();
                if is_here && !self.gates().deliver(delivery.lend()) {
                    // A consumer of a stream takes no more now. A reader on this shard would offer it again with the next grant.
                    let consumer = delivery.consumer;
                    self.remote.held.entry(consumer).or_default().push_back(Effect::Delivery(delivery));
                }
            }
            effect => self.handle_effect(queue, effect),
        }
    }

    /// Tells a consumer of a stream what it had no room for.
    fn tell_held(&mut self, consumer: ConsumerId) {
        let Some(mut held) = self.remote.held.remove(&consumer) else { return };
        if self.connections.consumer(consumer).is_none() {
            return;
        }
        while let Some(effect) = held.pop_front() {
            match effect {
                Effect::Delivery(delivery) => {
                    if !self.gates().deliver(delivery.lend()) {
                        held.push_front(Effect::Delivery(delivery));
                        self.remote.held.insert(consumer, held);
                        return;
                    }
                }
                effect => self.handle_effect(QueueId::NONE, effect),
            }
        }
    }

    /// Deletes a queue whose node is away: its node deletes the messages when it is back. The end of a quorum queue is decided by its group; `is_sent`
    /// says that the group may have decided it.
    fn delete_elsewhere(&mut self, node: NodeId, (queue, ticket): (QueueId, Ticket), is_sent: bool) {
        let record = self.metadata.catalog().queue_by_id(queue);
        if record.is_none_or(|record| record.is_quorum()) {
            let why = match is_sent {
                true => Refusal::OutcomeUnknown { node: Some(node.0) },
                false => Refusal::OutOfReach { node: Some(node.0) },
            };
            return self.carry_out(queue, Effect::Refused { requester: Requester::Ticket(ticket), why });
        }
        self.forget_elsewhere(queue, ticket);
    }

    /// Called when something can be sent to another node, or no longer.
    pub(super) fn handle_link_of_remote(&mut self, node: NodeNumber, up: bool) {
        let now_ms = self.here.now_ms;
        let nears: Vec<NodeId> =
            self.remote.nears.iter().filter(|(_, of)| of.node == node).map(|(id, _)| *id).collect();
        for id in nears {
            if let Some(of) = self.remote.nears.get_mut(&id) {
                of.near.set_now(now_ms);
                of.near.handle_link(up);
            }
            self.remote.near_output.insert(id);
            self.tell(id);
        }
        for (place, of) in self.remote.fars.range_mut((node, ShardId::MIN)..=(node, ShardId::MAX)) {
            of.far.set_now(now_ms);
            of.far.handle_link(up);
            of.away_since = (!up).then_some(now_ms);
            self.remote.far_output.insert(*place);
        }
        if up {
            let places = (node, ShardId::MIN)..=(node, ShardId::MAX);
            let ended: Vec<_> = self.remote.ended.range(places).map(|(place, id)| (*place, *id)).collect();
            for (place, id) in ended {
                self.remote.ended.remove(&place);
                self.say_ended(node, id);
            }
        }
        self.remote.note_due();
    }

    /// Called when another node counts as alive, or does not any more.
    pub(super) fn handle_support_of_remote(&mut self, node: NodeNumber, is_alive: bool) {
        let now_ms = self.here.now_ms;
        for of in self.remote.nears.values_mut().filter(|of| of.node == node) {
            of.near.set_now(now_ms);
            of.near.handle_alive(is_alive);
        }
        self.remote.note_due();
    }

    /// Called when the process of another node has ended. Consumers of its queues need not wait until it is back.
    pub fn handle_gone(&mut self, node: NodeNumber) {
        let gone: Vec<NodeId> =
            self.remote.nears.iter().filter(|(_, of)| of.node == node).map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(of) = self.remote.nears.get_mut(&id) {
                of.near.set_now(self.here.now_ms);
                of.near.handle_gone();
            }
            self.tell(id);
        }
        self.remote.note_due();
    }

    /// Handles a frame of another node.
    pub(super) fn handle_frame(&mut self, from: NodeNumber, bytes: Bytes) {
        match Frame::decode(bytes) {
            Some(frame) if frame.is_for_queues() => self.handle_asks(from, frame),
            Some(frame) => self.handle_answers(from, frame),
            None => tracing::error!(name: PEER, from, "a message of another node about queues is malformed"),
        }
    }

    fn handle_answers(&mut self, from: NodeNumber, frame: Frame) {
        let now_ms = self.here.now_ms;
        let mut of_node = self.remote.nears.iter_mut().filter(|(_, of)| of.node == from);
        let Some((id, of)) = of_node.next() else { return };
        let id = *id;
        of.near.set_now(now_ms);
        if !of.near.handle_frame(frame) {
            tracing::error!(name: PEER, from, "an answer of another node about queues makes no sense; its consumers end");
        }
        self.remote.near_output.insert(id);
        self.tell(id);
        let catalog = self.metadata.catalog();
        self.remote.forget_queues(|queue| catalog.queue_by_id(queue).is_some());
        self.remote.note_due();
    }

    fn handle_asks(&mut self, from: NodeNumber, frame: Frame) {
        let place = (from, frame.id.shard);
        let known = self.remote.fars.get(&place).map(|of| of.far.id());
        match meet(known, &frame) {
            Meeting::Late => return,
            Meeting::Unknown => return self.say_ended(from, frame.id),
            Meeting::New => {
                self.end_far(place);
                if !self.begin_far(from, &frame) {
                    return;
                }
            }
            Meeting::Known => {}
        }
        self.handle_known(place, frame);
        self.remote.note_due();
    }

    /// Handles a frame of a session that is known. A batch waits if this shard has not applied what its asker has: it may be for a queue that is not
    /// declared here yet.
    fn handle_known(&mut self, place: (NodeNumber, ShardId), frame: Frame) {
        let (known, now_ms) = (self.metadata.applied(), self.here.now_ms);
        let Some(of) = self.remote.fars.get_mut(&place) else { return };
        if let Said::Asks { number, applied, .. } = frame.said {
            of.is_behind &= applied > known;
            if (applied > known && !of.is_behind) || !of.early.is_empty() {
                // One that is sent again waits already. One that comes too early is sent again.
                let is_next = of.early.back().is_none_or(|(last, _)| *last + 1 == number);
                if is_next && of.early.len() < EARLY_MAX {
                    of.early.push_back((number, frame));
                }
                of.early_until = of.early_until.or(Some(now_ms + EARLY_MS));
                return;
            }
        }
        self.do_frame(place, frame);
    }

    /// Called when this shard has applied an entry of the catalog: batches may have waited for it.
    pub(super) fn handle_early_asks(&mut self) {
        let known = self.metadata.applied();
        let places: Vec<_> =
            self.remote.fars.iter().filter(|(_, of)| !of.early.is_empty()).map(|(place, _)| *place).collect();
        for place in places {
            while let Some(of) = self.remote.fars.get_mut(&place)
                && let Some((_, Frame { said: Said::Asks { applied, .. }, .. })) = of.early.front()
                && (*applied <= known || of.is_behind)
                && let Some((_, frame)) = of.early.pop_front()
            {
                if of.early.is_empty() {
                    of.early_until = None;
                }
                self.do_frame(place, frame);
            }
        }
    }

    fn do_frame(&mut self, place: (NodeNumber, ShardId), frame: Frame) {
        let Some(mut of) = self.remote.fars.remove(&place) else { return };
        of.far.set_now(self.here.now_ms);
        let is_well =
            of.far.handle_frame(frame, &mut Here { key: of.key, is_behind: of.is_behind, shard: self });
        self.remote.fars.insert(place, of);
        self.remote.far_output.insert(place);
        if !is_well {
            tracing::error!(
                name: PEER,
                from = place.0,
                "a request of another node for queues makes no sense; its consumers end"
            );
            self.lose_far(place);
        }
    }

    /// Opens the seat for a session that another node has begun. Returns false if this node does not know the other one yet, or can register no more:
    /// then the other node asks again. Returns false, too, if the frame is late and the other node has started again: nobody would ever end the seat.
    fn begin_far(&mut self, from: NodeNumber, frame: &Frame) -> bool {
        let Some(node) = self.metadata.catalog().nodes().get(&from).map(catalog::KnownNode::id) else {
            return false;
        };
        if frame.id.boot < self.metadata.catalog().start_of(node) {
            return false;
        }
        let link = self.remote.seats + 1;
        let key = SeatKey { origin: Origin { node, boot: frame.id.boot }, link };
        self.open_seat(key);
        let Some(publisher) = self.add_seat_publisher(key) else {
            self.end_seat(key, false);
            return false;
        };
        self.remote.seats = link;
        let mut far = Far::new(frame.id, self.here.origin.boot, publisher);
        let has_link = self.peers.has_link(from);
        far.handle_link(has_link);
        let away_since = (!has_link).then_some(self.here.now_ms);
        let place = (from, frame.id.shard);
        self.remote.by_key.insert(key, place);
        self.remote.fars.insert(
            place,
            FarSeat { far, key, away_since, early: VecDeque::new(), early_until: None, is_behind: false },
        );
        true
    }

    /// Tells another node that a session has ended, now or as soon as something can be sent to it.
    fn say_ended(&mut self, node: NodeNumber, id: SessionId) {
        match self.peers.has_link(node) {
            true => {
                let unknown = Far::unknown(id, self.here.origin.boot);
                self.peers.send_to(node, id.shard, lanes::SESSIONS, &PeerMessage::Seat(unknown));
            }
            false => _ = self.remote.ended.insert((node, id.shard), id),
        }
    }

    /// Ends the seat of a shard of another node, and tells it.
    fn lose_far(&mut self, place: (NodeNumber, ShardId)) {
        if let Some(id) = self.remote.fars.get(&place).map(|of| of.far.id()) {
            self.end_far(place);
            self.say_ended(place.0, id);
        }
    }

    /// Ends the seat of a shard of another node. What it holds returns to the queues, and does not count as failed: nobody knows that it was.
    fn end_far(&mut self, place: (NodeNumber, ShardId)) {
        if let Some(FarSeat { key, .. }) = self.remote.fars.remove(&place) {
            self.remote.by_key.remove(&key);
            self.end_seat(key, false);
        }
    }

    /// Called when a start of a node is known. What its earlier starts had here has ended.
    pub(super) fn end_earlier_seats(&mut self, node: NodeNumber, boot: u32) {
        let places = self.remote.fars.range((node, ShardId::MIN)..=(node, ShardId::MAX));
        let earlier = places.filter(|(_, of)| of.key.origin.boot < boot);
        let earlier: Vec<_> = earlier.map(|(place, _)| *place).collect();
        earlier.into_iter().for_each(|place| self.end_far(place));
    }

    /// Puts what the sessions have to send into the mail for other nodes.
    pub(super) fn poll_remote(&mut self) {
        for key in self.connections.take_seats_with_mail() {
            let Some(place) = self.remote.by_key.get(&key).copied() else { continue };
            let mail = self.poll_seat(key);
            let Some(mut of) = self.remote.fars.remove(&place) else { continue };
            of.far.set_now(self.here.now_ms);
            let mut here = Here { shard: self, key, is_behind: false };
            for mail in mail {
                match mail {
                    SeatMail::Effect(effect) => of.far.handle_effect(effect, &mut here),
                    SeatMail::Receipts { first, last, verdict, .. } => {
                        of.far.handle_receipt(first, last, verdict);
                    }
                }
            }
            self.remote.fars.insert(place, of);
            self.remote.far_output.insert(place);
        }
        if self.remote.near_output.is_empty() && self.remote.far_output.is_empty() {
            return;
        }
        let (here, applied) = (self.here.id, self.metadata.applied());
        for id in std::mem::take(&mut self.remote.near_output) {
            let Some(NearSeat { node, near }) = self.remote.nears.get_mut(&id) else { continue };
            while let Some(frame) = near.poll_frame(applied) {
                self.peers.send_to(*node, here, lanes::SESSIONS, &PeerMessage::Seat(frame));
            }
        }
        for place in std::mem::take(&mut self.remote.far_output) {
            let Some(of) = self.remote.fars.get_mut(&place) else { continue };
            while let Some(frame) = of.far.poll_frame() {
                self.peers.send_to(place.0, place.1, lanes::SESSIONS, &PeerMessage::Seat(frame));
            }
        }
        self.remote.note_due();
    }

    /// Does what is due.
    pub(super) fn remote_timeouts(&mut self) {
        let now_ms = self.here.now_ms;
        if self.remote.due_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        let nears: Vec<NodeId> = self.remote.nears.keys().copied().collect();
        for id in nears {
            let Some(of) = self.remote.nears.get_mut(&id) else { continue };
            of.near.set_now(now_ms);
            if of.near.next_timeout().is_some_and(|at_ms| at_ms <= now_ms) {
                of.near.handle_timeout();
                self.remote.near_output.insert(id);
                self.tell(id);
            }
        }
        let (mut lost, mut are_behind) = (Vec::new(), false);
        for (place, of) in &mut self.remote.fars {
            if of.early_until.take_if(|at_ms| *at_ms <= now_ms).is_some() {
                of.is_behind = true;
                are_behind = true;
            }
            of.far.set_now(now_ms);
            if of.lost_at().is_some_and(|at_ms| at_ms <= now_ms) {
                lost.push(*place);
            } else if of.far.next_timeout().is_some_and(|at_ms| at_ms <= now_ms) {
                of.far.handle_timeout();
                self.remote.far_output.insert(*place);
            }
        }
        for place in lost {
            tracing::info!(name: PEER, node = place.0, shard = place.1, "a node is lost: what its clients hold returns to the queues");
            self.lose_far(place);
        }
        if are_behind {
            self.handle_early_asks();
        }
        self.remote.note_due();
    }
}
