//! What the admin API of one node asks of the shards of another one, and what each of them answers: see [`super`] for the encoding.

use std::sync::Arc;

use broker::admin_api::{ConnectionRow, GroupRow, NodeTotals, QueueNumbers, VhostNumbers};
use bytes::{Buf, BufMut, Bytes};
use catalog::ids::{QueueId, ShardId};
use hashbrown::HashMap;

use super::fields::{get_count, get_flag, get_list, get_text, put_list, put_text};
use super::rows::{get_connection, put_connection};
use super::totals::{FarVhost, get_totals, get_vhost, put_totals, put_vhost};

/// The most queues or names of a look, and the most rows of a part of its answer: as many as the admin API asks a shard of its own node for at
/// once.
pub(crate) const LOOK_ROWS_MAX: usize = 500;

/// The most virtual hosts of which the sums of another node are taken in. A node has far fewer. Without the bound, a node could make another one take
/// any memory. The sums of further ones are left out.
const VHOSTS_MAX: usize = 100_000;

/// What another node says about queues. Queues that do not live there are missing.
pub type FarNumbers = HashMap<QueueId, FarRow>;

/// What is asked for. Another kind of look gets another number.
const REPORTS: u8 = 1;
const CONNECTIONS: u8 = 2;
const CLOSE: u8 = 3;
const TOTALS: u8 = 4;
const VHOSTS: u8 = 5;

/// The length of an id, and of the shortest row.
const ID_BYTES: usize = 8;

/// A question to all shards of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarLook {
    /// The start of the asker.
    pub boot: u32,
    /// The number of the look among those of this start.
    pub number: u64,
    pub ask: FarAsk,
}

/// What a node asks of all shards of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarAsk {
    /// The reports of these queues, at most `LOOK_ROWS_MAX`.
    Reports(Vec<QueueId>),
    /// The connections from place `from` on, in as many places of each shard as a part of a list covers. If there are names, at most
    /// `LOOK_ROWS_MAX`, only the connections with these names.
    Connections { names: Vec<Arc<str>>, from: u32 },
    /// To close the connection that has this name and began at this time. The asker has checked the permission.
    Close { name: Arc<str>, connected_at_ms: u64, reason: Arc<str> },
    /// The sums over the whole node.
    Totals,
    /// The sums by virtual host over the queues and connections from place `from` on, as [`Self::Connections`].
    Vhosts { from: u32 },
}

/// A part of the answer of one shard to a look.
#[derive(Clone, Debug, PartialEq)]
pub struct FarLooked {
    /// Those of the look.
    pub boot: u32,
    pub number: u64,
    /// The shard that answers, and the number of shards of its node. Each of them answers.
    pub shard: ShardId,
    pub shards: ShardId,
    /// The shard has no further part.
    pub is_last: bool,
    pub rows: FarRows,
}

/// What a shard says in a part of its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum FarRows {
    Reports(Vec<FarRow>),
    /// `has_more` if the shard has places after those that were asked for. The rows do not name the node.
    Connections {
        rows: Vec<ConnectionRow>,
        has_more: bool,
    },
    /// Whether the shard had the connection, and closes it.
    Closed(bool),
    Totals(Box<NodeTotals>),
    /// `has_more` as for connections.
    Vhosts {
        rows: Vec<FarVhost>,
        has_more: bool,
    },
}

/// What all shards of another node have said.
#[derive(Clone, Debug, PartialEq)]
pub enum FarSeen {
    Reports(FarNumbers),
    /// See [`FarRows::Connections`].
    Connections {
        rows: Vec<ConnectionRow>,
        has_more: bool,
    },
    /// Whether a shard had the connection.
    Closed(bool),
    Totals(Box<NodeTotals>),
    /// See [`FarRows::Vhosts`].
    Vhosts {
        sums: HashMap<Arc<str>, VhostNumbers>,
        has_more: bool,
    },
}

impl FarSeen {
    /// Returns what is known before any shard has answered.
    pub(crate) fn nothing_of(ask: &FarAsk) -> Self {
        match ask {
            FarAsk::Reports(_) => Self::Reports(FarNumbers::new()),
            FarAsk::Connections { .. } => Self::Connections { rows: Vec::new(), has_more: false },
            FarAsk::Close { .. } => Self::Closed(false),
            FarAsk::Totals => Self::Totals(Box::default()),
            FarAsk::Vhosts { .. } => Self::Vhosts { sums: HashMap::new(), has_more: false },
        }
    }

    /// Takes in a part of an answer of a node with so many shards. Returns false if it answers another question.
    pub(crate) fn take_in(&mut self, part: FarRows, shards: ShardId) -> bool {
        match (self, part) {
            (Self::Reports(seen), FarRows::Reports(rows)) => rows.into_iter().for_each(|row| {
                // No more than what was asked for.
                if seen.len() >= LOOK_ROWS_MAX && !seen.contains_key(&row.queue) {
                    return;
                }
                let known = seen.entry(row.queue).or_insert(FarRow { delivered: 0, numbers: None, ..row });
                known.delivered = known.delivered.saturating_add(row.delivered);
                known.numbers = row.numbers.or(known.numbers.take());
            }),
            (Self::Connections { rows: seen, has_more }, FarRows::Connections { rows, has_more: more }) => {
                let room = (usize::from(shards) * LOOK_ROWS_MAX).saturating_sub(seen.len());
                seen.extend(rows.into_iter().take(room));
                *has_more |= more;
            }
            (Self::Closed(seen), FarRows::Closed(closed)) => *seen |= closed,
            (Self::Totals(seen), FarRows::Totals(totals)) => **seen += *totals,
            (Self::Vhosts { sums, has_more }, FarRows::Vhosts { rows, has_more: more }) => {
                for (vhost, numbers) in rows {
                    if sums.len() < VHOSTS_MAX || sums.contains_key(&vhost) {
                        *sums.entry(vhost).or_default() += numbers;
                    }
                }
                *has_more |= more;
            }
            _ => return false,
        }
        true
    }
}

/// What a shard knows about a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarRow {
    pub queue: QueueId,
    /// The messages of a stream that were delivered on the shard. Its report does not have them.
    pub delivered: u64,
    /// `None` if the queue does not live on the shard.
    pub numbers: Option<QueueNumbers>,
}

pub(super) fn put_look(look: &FarLook, out: &mut Vec<u8>) {
    out.put_u32_le(look.boot);
    out.put_u64_le(look.number);
    match &look.ask {
        FarAsk::Reports(queues) => {
            out.put_u8(REPORTS);
            out.put_u16_le(queues.len() as u16);
            queues.iter().for_each(|queue| out.put_u64_le(queue.0));
        }
        FarAsk::Connections { names, from } => {
            out.put_u8(CONNECTIONS);
            out.put_u32_le(*from);
            put_list(names, out, |name, out| put_text(name, out));
        }
        FarAsk::Close { name, connected_at_ms, reason } => {
            out.put_u8(CLOSE);
            put_text(name, out);
            out.put_u64_le(*connected_at_ms);
            put_text(reason, out);
        }
        FarAsk::Totals => out.put_u8(TOTALS),
        FarAsk::Vhosts { from } => {
            out.put_u8(VHOSTS);
            out.put_u32_le(*from);
        }
    }
}

pub(super) fn get_look(mut bytes: Bytes) -> Option<FarLook> {
    let (boot, number) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u64_le().ok()?);
    let ask = match bytes.try_get_u8().ok()? {
        REPORTS => {
            let count = usize::from(bytes.try_get_u16_le().ok()?);
            (count <= LOOK_ROWS_MAX && bytes.len() == count * ID_BYTES).then_some(())?;
            let id = |_| bytes.try_get_u64_le().ok().map(QueueId);
            FarAsk::Reports((0..count).map(id).collect::<Option<_>>()?)
        }
        CONNECTIONS => {
            let from = bytes.try_get_u32_le().ok()?;
            let names = get_list(&mut bytes, |bytes| get_text(bytes).map(Arc::from))?;
            (names.len() <= LOOK_ROWS_MAX).then_some(FarAsk::Connections { names, from })?
        }
        CLOSE => FarAsk::Close {
            name: get_text(&mut bytes)?.into(),
            connected_at_ms: bytes.try_get_u64_le().ok()?,
            reason: get_text(&mut bytes)?.into(),
        },
        TOTALS => FarAsk::Totals,
        VHOSTS => FarAsk::Vhosts { from: bytes.try_get_u32_le().ok()? },
        _ => return None,
    };
    bytes.is_empty().then_some(FarLook { boot, number, ask })
}

pub(super) fn put_looked(looked: &FarLooked, out: &mut Vec<u8>) {
    let FarLooked { boot, number, shard, shards, is_last, rows } = looked;
    out.put_u32_le(*boot);
    out.put_u64_le(*number);
    out.extend([*shard, *shards, u8::from(*is_last)]);
    match rows {
        FarRows::Reports(rows) => {
            out.put_u8(REPORTS);
            out.put_u16_le(rows.len() as u16);
            rows.iter().for_each(|row| put_row(row, out));
        }
        FarRows::Connections { rows, has_more } => {
            out.extend([CONNECTIONS, u8::from(*has_more)]);
            put_list(rows, out, put_connection);
        }
        FarRows::Closed(closed) => out.extend([CLOSE, u8::from(*closed)]),
        FarRows::Totals(totals) => {
            out.put_u8(TOTALS);
            put_totals(totals, out);
        }
        FarRows::Vhosts { rows, has_more } => {
            out.extend([VHOSTS, u8::from(*has_more)]);
            put_list(rows, out, put_vhost);
        }
    }
}

pub(super) fn get_looked(mut bytes: Bytes) -> Option<FarLooked> {
    let (boot, number) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u64_le().ok()?);
    let (shard, shards) = (bytes.try_get_u8().ok()?, bytes.try_get_u8().ok()?);
    let is_last = get_flag(&mut bytes)?;
    (shard < shards).then_some(())?;
    let rows = match bytes.try_get_u8().ok()? {
        REPORTS => {
            let count = usize::from(bytes.try_get_u16_le().ok()?);
            (count <= LOOK_ROWS_MAX && bytes.len() >= count * ID_BYTES).then_some(())?;
            FarRows::Reports((0..count).map(|_| get_row(&mut bytes)).collect::<Option<_>>()?)
        }
        CONNECTIONS => {
            let has_more = get_flag(&mut bytes)?;
            let rows = get_list(&mut bytes, get_connection)?;
            (rows.len() <= LOOK_ROWS_MAX).then_some(FarRows::Connections { rows, has_more })?
        }
        CLOSE => FarRows::Closed(get_flag(&mut bytes)?),
        TOTALS => FarRows::Totals(Box::new(get_totals(&mut bytes)?)),
        VHOSTS => {
            let has_more = get_flag(&mut bytes)?;
            FarRows::Vhosts { rows: get_list(&mut bytes, get_vhost)?, has_more }
        }
        _ => return None,
    };
    bytes.is_empty().then_some(FarLooked { boot, number, shard, shards, is_last, rows })
}

/// Appends a row. Its length says when a part of an answer is long enough.
pub(crate) fn put_row(row: &FarRow, out: &mut Vec<u8>) {
    out.put_u64_le(row.queue.0);
    out.put_u64_le(row.delivered);
    out.put_u8(u8::from(row.numbers.is_some()));
    if let Some(QueueNumbers { report, group }) = &row.numbers {
        seat::put_report(report, out);
        out.put_u8(u8::from(group.is_some()));
        if let Some(group) = group {
            put_group(group, out);
        }
    }
}

fn get_row(bytes: &mut Bytes) -> Option<FarRow> {
    let queue = QueueId(bytes.try_get_u64_le().ok()?);
    let delivered = get_count(bytes)?;
    let numbers = match get_flag(bytes)? {
        false => None,
        true => {
            let report = seat::get_report(bytes)?;
            let group = if get_flag(bytes)? { Some(get_group(bytes)?) } else { None };
            Some(QueueNumbers { report, group })
        }
    };
    Some(FarRow { queue, delivered, numbers })
}

fn put_group(group: &GroupRow, out: &mut Vec<u8>) {
    let GroupRow {
        leads,
        rests,
        term,
        last_index,
        written_index,
        commit_index,
        applied_index,
        base_index,
        log_bytes,
        commit_latency_ms,
    } = *group;
    out.extend([u8::from(leads), u8::from(rests)]);
    out.put_u64_le(term);
    for number in
        [last_index, written_index, commit_index, applied_index, base_index, log_bytes, commit_latency_ms]
    {
        out.put_u64_le(number);
    }
}

fn get_group(bytes: &mut Bytes) -> Option<GroupRow> {
    let (leads, rests) = (get_flag(bytes)?, get_flag(bytes)?);
    let term = bytes.try_get_u64_le().ok()?;
    let mut number = || get_count(bytes);
    Some(GroupRow {
        leads,
        rests,
        term,
        last_index: number()?,
        written_index: number()?,
        commit_index: number()?,
        applied_index: number()?,
        base_index: number()?,
        log_bytes: number()?,
        commit_latency_ms: number()?,
    })
}
