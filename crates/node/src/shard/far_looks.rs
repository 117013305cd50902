//! Looks at other nodes: what the admin API of this node asks of the shards of another one, and what other nodes ask of the shards here.
//!
//! ```text
//!   this node                                            the other node
//!   admin API ── Act::LookAt ──> FarLooks ── look ────>  node shard ── mail ──> each shard
//!   admin API <── AnswerTo ───── FarLooks <── looked ────────────────────────── each shard
//! ```
//!
//! The other node keeps nothing: each of its shards answers in parts, and the asker collects them. An answer that is lost is not asked for again:
//! the numbers would be old. The node then counts as silent for a short time, so that a long list does not wait for it with each of its parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::admin_api::{ConnectionRow, NodeTotals, ProtocolRow, QueueNumbers};
use broker::mail::Mail;
use bytes::Bytes;
use catalog::categories::PEER;
use catalog::ids::{NodeId, NodeNumber, QueueId, ShardId};

use super::Shard;
use super::peers::lanes;
use crate::peer::{
    FarAsk, FarLook, FarLooked, FarRow, FarRows, FarSeen, LOOK_ROWS_MAX, PeerMessage, put_connection,
    put_row, put_vhost,
};
use crate::shard::looks::{Connections, Totals};
use crate::shard::questions::{AnswerTo, AnyLook, Look, PLACES_PER_PART, Part, Question};

/// How long a look waits for the answers of another node, in milliseconds: as long as one waits for a shard of this node.
pub const LOOK_MS: u64 = 1000;

/// How long a node is not asked again that did not answer, in milliseconds. A list of many parts waits once in this time. A node that has stopped
/// is out of sight a few seconds later, and is not asked at all then.
pub const SILENT_MS: u64 = 5000;

/// The most looks at one node that are not answered. So a node that is slow gets no more work than this. Further looks wait here.
const OPEN_MAX: usize = 8;

/// A part of an answer ends with the row that makes it as long as this, in bytes. So answers to others get their turn.
const PART_BYTES: usize = 64 * 1024;

/// A connection whose row is longer than this, in bytes, is listed without its channels, its sessions and its properties. So one client with thousands
/// of consumers does not hold back the answers of its node. A channel with one consumer takes about 300 bytes.
const ROW_BYTES_MAX: usize = 1024 * 1024;

/// A part of a list is one look.
const _: () = assert!(PLACES_PER_PART <= LOOK_ROWS_MAX);

/// Where the answer to a look goes: `None` if the other node is out of reach, or does not answer in time.
type To = AnswerTo<Option<FarSeen>>;

/// A look at another node.
#[derive(Debug)]
struct Open {
    node: NodeId,
    number: NodeNumber,
    due_ms: u64,
    /// What it asks for, while it waits for its turn.
    unsent: Option<FarAsk>,
    seen: FarSeen,
    /// The shards whose last part is here.
    answered: BTreeSet<ShardId>,
    to: To,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FarLooks {
    /// The number of the last look.
    number: u64,
    /// By number. All wait equally long, so the first one is due first.
    open: BTreeMap<u64, Open>,
    /// The nodes that did not answer, and until when they are not asked, in milliseconds since the epoch.
    silent: BTreeMap<NodeId, u64>,
}

impl FarLooks {
    /// Returns when [`Shard::far_look_timeouts`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.open.first_key_value().map(|(_, open)| open.due_ms)
    }

    /// Ends the looks at a node that is out of reach.
    fn end(&mut self, node: NodeNumber) {
        for (_, open) in self.open.extract_if(.., |_, open| open.number == node) {
            open.to.send(None);
        }
    }

    /// Takes in a part of an answer.
    fn handle_part(&mut self, from: NodeNumber, looked: FarLooked) {
        let FarLooked { number, shard, shards, is_last, rows, .. } = looked;
        let Some(open) = self.open.get_mut(&number).filter(|open| open.number == from) else { return };
        if !open.seen.take_in(rows, shards) {
            return;
        }
        if is_last {
            open.answered.insert(shard);
        }
        if open.answered.len() == usize::from(shards)
            && let Some(Open { node, seen, to, .. }) = self.open.remove(&number)
        {
            self.silent.remove(&node);
            to.send(Some(seen));
        }
    }
}

/// A look of another node at this shard, until the shard has time for it.
#[derive(Debug)]
struct LookOf {
    from: NodeNumber,
    look: FarLook,
    /// Nobody waits for the answer later.
    due_ms: u64,
}

impl AnyLook for LookOf {
    fn rows(&self, shard: &Shard) -> usize {
        match &self.look.ask {
            FarAsk::Reports(queues) => queues.len(),
            FarAsk::Connections { from, .. } => {
                Part::<()>::len_of(*from as usize, shard.connections.places())
            }
            FarAsk::Close { .. } => 1,
            FarAsk::Totals => 0,
            FarAsk::Vhosts { from } => Part::<()>::len_of(*from as usize, shard.vhost_places()),
        }
    }

    fn answer(self: Box<Self>, shard: &mut Shard) {
        let Self { from, look, due_ms } = *self;
        if shard.here.now_ms < due_ms {
            shard.answer_look(from, look);
        }
    }

    fn is_awaited(&self) -> bool {
        true
    }
}

impl Shard {
    /// Looks at another node, for the admin API.
    pub(super) fn look_at(&mut self, node: NodeId, ask: FarAsk, to: To) {
        let now_ms = self.here.now_ms;
        self.far_looks.silent.retain(|_, until_ms| *until_ms > now_ms);
        let number = self.metadata.catalog().number_of(node);
        let number =
            number.filter(|number| self.peers.has_link(*number) && self.peers.support().has(*number));
        let Some(number) = number.filter(|_| !self.far_looks.silent.contains_key(&node)) else {
            return to.send(None);
        };
        let looks = &mut self.far_looks;
        looks.number += 1;
        let (seen, answered) = (FarSeen::nothing_of(&ask), BTreeSet::new());
        let open = Open { node, number, due_ms: now_ms + LOOK_MS, unsent: Some(ask), seen, answered, to };
        looks.open.insert(looks.number, open);
        self.send_looks(number);
    }

    /// Sends the looks at a node that may be sent now.
    fn send_looks(&mut self, to: NodeNumber) {
        let of_node = || self.far_looks.open.values().filter(|open| open.number == to);
        let sent = of_node().filter(|open| open.unsent.is_none()).count();
        let boot = self.here.origin.boot;
        let of_node = self.far_looks.open.iter_mut().filter(|(_, open)| open.number == to);
        let unsent = of_node.filter_map(|(number, open)| Some((*number, open.unsent.take()?)));
        for (number, ask) in unsent.take(OPEN_MAX.saturating_sub(sent)) {
            self.peers.send(to, lanes::LOOKS, &PeerMessage::Look(FarLook { boot, number, ask }));
        }
    }

    /// Gives up the looks whose answers nobody waits for. Others get their places.
    pub(super) fn give_up_far_looks(&mut self) {
        self.far_looks.open.retain(|_, open| open.to.is_awaited());
        self.send_waiting_looks();
    }

    fn send_waiting_looks(&mut self) {
        let waiting = self.far_looks.open.values().filter(|open| open.unsent.is_some());
        let nodes: BTreeSet<NodeNumber> = waiting.map(|open| open.number).collect();
        nodes.into_iter().for_each(|node| self.send_looks(node));
    }

    /// Called when nothing can be sent to a node any more, or it does not count as alive.
    pub(super) fn end_looks_at(&mut self, node: NodeNumber) {
        self.far_looks.end(node);
    }

    /// Handles a part of an answer to a look of this node.
    pub(super) fn handle_looked(&mut self, from: NodeNumber, looked: FarLooked) {
        if looked.boot == self.here.origin.boot {
            self.far_looks.handle_part(from, looked);
            self.send_looks(from);
        }
    }

    /// Ends the looks that were not answered in time.
    pub(super) fn far_look_timeouts(&mut self) {
        let (now_ms, mut is_over) = (self.here.now_ms, false);
        while let Some(first) = self.far_looks.open.first_entry()
            && first.get().due_ms <= now_ms
        {
            let Open { node, number, to, .. } = first.remove();
            if self.far_looks.silent.insert(node, now_ms + SILENT_MS).is_none() {
                tracing::info!(name: PEER, node = number, "a node did not answer in time: its queues are shown without numbers, its connections are not shown, and totals are without it");
            }
            to.send(None);
            is_over = true;
        }
        if is_over {
            self.send_waiting_looks();
        }
    }

    /// Handles a look of another node at all shards of this one. Only the node shard gets it.
    pub(super) fn handle_far_look(&mut self, from: NodeNumber, look: &Bytes) {
        for shard in self.mail.shards() {
            self.do_or_send(shard, Mail::LookOf { node: from, look: look.clone() });
        }
    }

    /// Handles a look of another node at this shard. Like a question of the admin API, it waits if a turn has no rows left.
    pub(super) fn handle_look_of(&mut self, from: NodeNumber, look: Bytes) {
        if let Some(PeerMessage::Look(look)) = PeerMessage::decode(look) {
            let due_ms = self.here.now_ms + LOOK_MS;
            self.handle_question(Question::Look(Box::new(LookOf { from, look, due_ms })));
        }
    }

    fn answer_look(&mut self, from: NodeNumber, look: FarLook) {
        let FarLook { boot, number, ask } = look;
        let (shard, shards) = (self.here.id, self.mail.shards().len() as ShardId);
        let parts = match ask {
            FarAsk::Reports(queues) => {
                let rows = queues.into_iter().filter_map(|queue| self.far_row(queue)).collect();
                in_parts(rows, put_row, |rows, _| FarRows::Reports(rows))
            }
            FarAsk::Connections { names, from } => {
                let names = (!names.is_empty()).then(|| Arc::new(names.into_iter().collect()));
                let Part { rows, next } =
                    Connections { node: "".into(), names, from: from as usize }.answer(self);
                let rows = rows.into_iter().map(shortened).collect();
                let has_more = next.is_some();
                in_parts(rows, put_connection, |rows, is_last| FarRows::Connections {
                    rows,
                    has_more: is_last && has_more,
                })
            }
            FarAsk::Close { name, connected_at_ms, reason } => {
                vec![FarRows::Closed(self.close_for_another(&name, connected_at_ms, &reason))]
            }
            FarAsk::Totals => {
                let Totals { depth, sessions, channels, counters, .. } = self.totals();
                vec![FarRows::Totals(Box::new(NodeTotals::new(&counters, depth, sessions, channels)))]
            }
            FarAsk::Vhosts { from } => {
                let Part { rows, next } = self.vhost_numbers(from as usize);
                let has_more = next.is_some();
                in_parts(rows, put_vhost, |rows, is_last| FarRows::Vhosts {
                    rows,
                    has_more: is_last && has_more,
                })
            }
        };
        let last = parts.len() - 1;
        for (at, rows) in parts.into_iter().enumerate() {
            let part = FarLooked { boot, number, shard, shards, is_last: at == last, rows };
            self.peers.send(from, lanes::LOOKS, &PeerMessage::Looked(part));
        }
    }

    /// Closes a connection for another node, which has checked the permission. A later connection of the same name stays open.
    fn close_for_another(&mut self, name: &str, connected_at_ms: u64, reason: &str) -> bool {
        let key = self.connections.named(name);
        let is_meant = |key: &usize| {
            let conn = self.connections.get(*key);
            conn.is_some_and(|conn| conn.gate.peer().connected_at_ms == connected_at_ms)
        };
        let key = key.filter(is_meant);
        if let Some(key) = key {
            self.close(key, reason);
        }
        key.is_some()
    }

    fn far_row(&mut self, queue: QueueId) -> Option<FarRow> {
        self.configure(queue);
        let report = self.queue_report(queue);
        let numbers = report.map(|report| QueueNumbers { report, group: self.group_row(queue) });
        let delivered = self.stream_delivered(queue);
        (numbers.is_some() || delivered > 0).then_some(FarRow { queue, delivered, numbers })
    }
}

/// Returns the parts of an answer, at least one. `part` makes one of rows, and is told whether it is the last one.
fn in_parts<T>(
    rows: Vec<T>,
    put: impl Fn(&T, &mut Vec<u8>),
    part: impl Fn(Vec<T>, bool) -> FarRows,
) -> Vec<FarRows> {
    let (mut parts, mut now, mut encoded) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        put(&row, &mut encoded);
        now.push(row);
        if encoded.len() >= PART_BYTES {
            encoded.clear();
            parts.push(part(std::mem::take(&mut now), false));
        }
    }
    parts.push(part(now, true));
    parts
}

/// Returns the row as it is sent: see [`ROW_BYTES_MAX`].
fn shortened(mut row: ConnectionRow) -> ConnectionRow {
    let mut encoded = Vec::new();
    put_connection(&row, &mut encoded);
    if encoded.len() > ROW_BYTES_MAX {
        match &mut row.protocol {
            ProtocolRow::Amqp10(row) => {
                row.sessions.clear();
                row.client_properties = None;
            }
            ProtocolRow::Amqp091(row) => {
                row.channels.clear();
                row.client_properties = amqp10::Map::new();
            }
        }
    }
    row
}
