//! What the admin API of one node asks of the shards of another one, and what each of them answers: see [`super`] for the encoding.

use broker::admin_api::{GroupRow, QueueNumbers};
use bytes::{Buf, BufMut, Bytes};
use catalog::ids::{QueueId, ShardId};
use hashbrown::HashMap;

use super::get_flag;

/// The most queues of a look, and the most rows of a part of its answer: as many as the admin API asks a shard of its own node for at once.
pub(crate) const LOOK_QUEUES_MAX: usize = 500;

/// What another node says about queues. Queues that do not live there are missing.
pub type FarNumbers = HashMap<QueueId, FarRow>;

/// What is asked for. Another kind of look gets another number.
const REPORTS: u8 = 1;

/// The length of an id, and of the shortest row.
const ID_BYTES: usize = 8;

/// No count, index or size is larger than this, as in reports. So sums over many queues do not overflow.
const COUNT_MAX: u64 = 1 << 56;

/// A question to all shards of another node for the reports of these queues, at most `LOOK_QUEUES_MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarLook {
    /// The start of the asker.
    pub boot: u32,
    /// The number of the look among those of this start.
    pub number: u64,
    pub queues: Vec<QueueId>,
}

/// A part of the answer of one shard to a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarLooked {
    /// Those of the look.
    pub boot: u32,
    pub number: u64,
    /// The shard that answers, and the number of shards of its node. Each of them answers.
    pub shard: ShardId,
    pub shards: ShardId,
    /// The shard has no further part.
    pub is_last: bool,
    pub rows: Vec<FarRow>,
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
    out.put_u8(REPORTS);
    out.put_u16_le(look.queues.len() as u16);
    look.queues.iter().for_each(|queue| out.put_u64_le(queue.0));
}

pub(super) fn get_look(mut bytes: Bytes) -> Option<FarLook> {
    let (boot, number) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u64_le().ok()?);
    (bytes.try_get_u8().ok()? == REPORTS).then_some(())?;
    let count = usize::from(bytes.try_get_u16_le().ok()?);
    (count <= LOOK_QUEUES_MAX && bytes.len() == count * ID_BYTES).then_some(())?;
    let queues = (0..count).map(|_| bytes.try_get_u64_le().ok().map(QueueId)).collect::<Option<_>>()?;
    Some(FarLook { boot, number, queues })
}

pub(super) fn put_looked(looked: &FarLooked, out: &mut Vec<u8>) {
    let FarLooked { boot, number, shard, shards, is_last, rows } = looked;
    out.put_u32_le(*boot);
    out.put_u64_le(*number);
    out.extend([*shard, *shards, u8::from(*is_last), REPORTS]);
    out.put_u16_le(rows.len() as u16);
    rows.iter().for_each(|row| put_row(row, out));
}

pub(super) fn get_looked(mut bytes: Bytes) -> Option<FarLooked> {
    let (boot, number) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u64_le().ok()?);
    let (shard, shards) = (bytes.try_get_u8().ok()?, bytes.try_get_u8().ok()?);
    let is_last = get_flag(&mut bytes)?;
    (shard < shards && bytes.try_get_u8().ok()? == REPORTS).then_some(())?;
    let count = usize::from(bytes.try_get_u16_le().ok()?);
    (count <= LOOK_QUEUES_MAX && bytes.len() >= count * ID_BYTES).then_some(())?;
    let rows = (0..count).map(|_| get_row(&mut bytes)).collect::<Option<_>>()?;
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
    let delivered = bytes.try_get_u64_le().ok().filter(|delivered| *delivered <= COUNT_MAX)?;
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
    let mut number = || bytes.try_get_u64_le().ok().filter(|number| *number <= COUNT_MAX);
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
