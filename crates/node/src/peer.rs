//! The messages of shards to shards of other nodes, and their encoding. Numbers are little-endian.
//!
//! ```text
//!  kind u8 | ...
//!    1 raft       group u64 | message            see [`replica::Message`]; the group is that of this owner, 0 is the catalog
//!    2 propose    term u64 | boot u32 | number u64 | low u64 | shard u8 | user | command
//!    3 answer     term u64 | boot u32 | number u64 | index u64 | result u8 | ...
//!                   result 0 done       changed u8
//!                          1 set        created u8
//!                          2 queue      created u8 | change: its declaration
//!                          3 to 13      the reason of an error, which is the rest of the message
//!                         15            place u64 | the result of that command of the batch
//!    5 applied    index u64 | asks u8   1 if the sender wants to know the same of the receiver, else 0
//!    6 how far    boot u32 | number u64
//!    7 this far   boot u32 | number u64 | index u64
//!    8 look       boot u32 | number u64 | what u8 | ...
//!                   what 1 reports      count u16 | queue u64 ...
//!                        2 connections  from u32 | names: list of text, see [`rows`]
//!                        3 close        name text | connected at u64 | reason text
//!                        4 totals
//!                        5 vhosts       from u32
//!    9 looked     boot u32 | number u64 | shard u8 | shards u8 | is last u8 | what u8 | ...
//!                   what 1 reports      count u16 | row ...
//!                        2 connections  has more u8 | list of connections, see [`rows`]
//!                        3 close        closed u8
//!                        4 totals       see [`totals`]
//!                        5 vhosts       has more u8 | list of virtual hosts, see [`totals`]
//!   10 clients    see [`limited`]
//!   64 to 70      a frame of a session about queues: see [`seat::Frame`]
//!  row            queue u64 | delivered u64 | lives here u8 | if it does: report, see [`seat::put_report`] | has group u8
//!                   | if it has: leads u8 | rests u8 | term u64 | indexes: last, written, commit, applied, base u64
//!                     | log bytes u64 | commit latency u64
//!  user           length u8 | bytes; the length is 255 if nobody knows the user
//! ```
//!
//! A decoder accepts what the encoder writes. It never panics, and allocates no more than the length of the input.

mod fields;
mod limited;
mod looks;
mod rows;
mod totals;

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use catalog::access::LimitedCounts;
use catalog::ids::ShardId;
use catalog::{
    Answer, CatalogError, Change, Command, decode_change, decode_command, encode_change, encode_command,
};
use replica::Message;

use self::fields::get_flag;
pub(crate) use self::limited::LIMITED_MAX;
pub use self::looks::{FarAsk, FarLook, FarLooked, FarNumbers, FarRow, FarRows, FarSeen};
pub(crate) use self::looks::{LOOK_ROWS_MAX, put_row};
pub(crate) use self::rows::put_connection;
pub use self::totals::FarVhost;
pub(crate) use self::totals::put_vhost;

const RAFT: u8 = 1;
const PROPOSE: u8 = 2;
const ANSWER: u8 = 3;
const APPLIED: u8 = 5;
const HOW_FAR: u8 = 6;
const THIS_FAR: u8 = 7;
const LOOK: u8 = 8;
const LOOKED: u8 = 9;
const CLIENTS: u8 = 10;

/// The most errors in each other. A batch has no batches in it.
const NESTED_MAX: u32 = 1;

/// What one node sends to another.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// From one member of a group to another. `owner` is the owner of the group's records.
    Raft { owner: u64, message: Message },
    /// A proposal of the sender, to the node that decides.
    Propose(Propose),
    /// The answer to a proposal that makes no entry. Whoever has proposed an entry learns the answer when it applies the entry.
    Answered(Answered),
    /// About queues: a frame of a session ([`seat::Frame`]). It is decoded where it is handled.
    Seat(Bytes),
    /// All shards of the sender have applied the entries of the catalog up to `index`. If it `asks`, it wants to know the same of the
    /// receiver.
    Applied { index: u64, asks: bool },
    /// A question to the leader of the catalog's group: up to which index are entries committed? `boot` is the start of the sender, and
    /// `number` counts its questions.
    HowFar { boot: u32, number: u64 },
    /// The answer to the question of this start and number.
    ThisFar { boot: u32, number: u64, index: u64 },
    /// What the admin API of the sender asks of all shards of the receiver.
    Look(FarLook),
    /// A part of the answer of one of these shards.
    Looked(FarLooked),
    /// How many connections and sessions of limited virtual hosts and users the sender has.
    Clients(LimitedCounts),
}

/// See [`PeerMessage::Propose`].
#[derive(Clone, Debug, PartialEq)]
pub struct Propose {
    /// The term of the leader that it is for, as the sender knows it. The leader of another term drops it.
    pub term: u64,
    /// The start of the sender.
    pub boot: u32,
    /// See [`catalog::Asker::number`].
    pub number: u64,
    /// See [`catalog::Asker::low`].
    pub low: u64,
    /// The shard of the sender on which it was proposed.
    pub shard: ShardId,
    /// The user who asks for it, if that is known.
    pub by: Option<Arc<str>>,
    pub command: Command,
}

/// See [`PeerMessage::Answered`].
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The term of the leader that answers.
    pub term: u64,
    /// The start of the node that has proposed it.
    pub boot: u32,
    /// The number of the proposal.
    pub number: u64,
    /// The asker learns the result when it has applied the entries up to this one.
    pub index: u64,
    pub result: Result<Answer, CatalogError>,
}

impl PeerMessage {
    /// Encodes the message. A user whose name is too long for the encoding is left out.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::Raft { owner, message } => {
                out.put_u8(RAFT);
                out.put_u64_le(*owner);
                message.encode(&mut out);
            }
            Self::Propose(Propose { term, boot, number, low, shard, by, command }) => {
                out.put_u8(PROPOSE);
                out.put_u64_le(*term);
                out.put_u32_le(*boot);
                out.put_u64_le(*number);
                out.put_u64_le(*low);
                out.put_u8(*shard);
                put_user(&mut out, by.as_deref());
                let mut encoded = BytesMut::new();
                encode_command(command, &mut encoded);
                out.extend_from_slice(&encoded);
            }
            Self::Answered(Answered { term, boot, number, index, result }) => {
                out.put_u8(ANSWER);
                out.put_u64_le(*term);
                out.put_u32_le(*boot);
                out.put_u64_le(*number);
                out.put_u64_le(*index);
                match result {
                    Ok(answer) => put_answer(&mut out, answer),
                    Err(error) => put_error(&mut out, error),
                }
            }
            Self::Seat(frame) => return frame.clone(),
            Self::Applied { index, asks } => {
                out.put_u8(APPLIED);
                out.put_u64_le(*index);
                out.put_u8(u8::from(*asks));
            }
            Self::HowFar { boot, number } => {
                out.put_u8(HOW_FAR);
                out.put_u32_le(*boot);
                out.put_u64_le(*number);
            }
            Self::ThisFar { boot, number, index } => {
                out.put_u8(THIS_FAR);
                out.put_u32_le(*boot);
                out.put_u64_le(*number);
                out.put_u64_le(*index);
            }
            Self::Look(look) => {
                out.put_u8(LOOK);
                looks::put_look(look, &mut out);
            }
            Self::Looked(looked) => {
                out.put_u8(LOOKED);
                looks::put_looked(looked, &mut out);
            }
            Self::Clients(counts) => {
                out.put_u8(CLIENTS);
                limited::put_limited(counts, &mut out);
            }
        }
        out.into()
    }

    /// Returns `None` if the bytes are not a message.
    pub fn decode(mut bytes: Bytes) -> Option<Self> {
        if seat::is_frame(&bytes) {
            return Some(Self::Seat(bytes));
        }
        Some(match bytes.try_get_u8().ok()? {
            RAFT => {
                let owner = bytes.try_get_u64_le().ok()?;
                Self::Raft { owner, message: Message::decode(bytes).ok()? }
            }
            PROPOSE => Self::Propose(Propose {
                term: bytes.try_get_u64_le().ok()?,
                boot: bytes.try_get_u32_le().ok()?,
                number: bytes.try_get_u64_le().ok()?,
                low: bytes.try_get_u64_le().ok()?,
                shard: bytes.try_get_u8().ok()?,
                by: get_user(&mut bytes)?,
                command: decode_command(&bytes)?,
            }),
            ANSWER => Self::Answered(Answered {
                term: bytes.try_get_u64_le().ok()?,
                boot: bytes.try_get_u32_le().ok()?,
                number: bytes.try_get_u64_le().ok()?,
                index: bytes.try_get_u64_le().ok()?,
                result: get_result(bytes, NESTED_MAX)?,
            }),
            APPLIED => {
                let index = bytes.try_get_u64_le().ok()?;
                let asks = get_flag(&mut bytes)?;
                bytes.is_empty().then_some(Self::Applied { index, asks })?
            }
            HOW_FAR => {
                let (boot, number) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u64_le().ok()?);
                bytes.is_empty().then_some(Self::HowFar { boot, number })?
            }
            THIS_FAR => {
                let (boot, number) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u64_le().ok()?);
                let index = bytes.try_get_u64_le().ok()?;
                bytes.is_empty().then_some(Self::ThisFar { boot, number, index })?
            }
            LOOK => Self::Look(looks::get_look(bytes)?),
            LOOKED => Self::Looked(looks::get_looked(bytes)?),
            CLIENTS => Self::Clients(limited::get_limited(bytes)?),
            _ => return None,
        })
    }
}

/// The length that stands for no user. Users have shorter names.
const NO_USER: u8 = u8::MAX;

/// A name that is too long is left out. It is only told in events.
fn put_user(out: &mut Vec<u8>, user: Option<&str>) {
    let user = user.filter(|user| user.len() < usize::from(NO_USER));
    out.put_u8(user.map_or(NO_USER, |user| user.len() as u8));
    out.extend_from_slice(user.unwrap_or_default().as_bytes());
}

fn get_user(bytes: &mut Bytes) -> Option<Option<Arc<str>>> {
    let length = bytes.try_get_u8().ok()?;
    if length == NO_USER {
        return Some(None);
    }
    (bytes.len() >= usize::from(length)).then_some(())?;
    let user = bytes.split_to(usize::from(length));
    Some(Some(std::str::from_utf8(&user).ok()?.into()))
}

fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::Done { changed } => out.extend([0, u8::from(*changed)]),
        Answer::Set { created } => out.extend([1, u8::from(*created)]),
        Answer::Queue { record, created } => {
            out.extend([2, u8::from(*created)]);
            let mut declared = BytesMut::new();
            encode_change(&Change::QueueDeclared(record.clone()), &mut declared);
            out.extend_from_slice(&declared);
        }
    }
}

fn put_error(out: &mut Vec<u8>, error: &CatalogError) {
    let (kind, reason) = match error {
        CatalogError::NotFound { reason } => (3, reason),
        CatalogError::PreconditionFailed { reason } => (4, reason),
        CatalogError::Inequivalent { reason } => (5, reason),
        CatalogError::Forbidden { reason } => (6, reason),
        CatalogError::Denied { reason } => (7, reason),
        CatalogError::Locked { reason } => (8, reason),
        CatalogError::Invalid { reason } => (9, reason),
        CatalogError::LimitReached { reason } => (10, reason),
        CatalogError::Busy { reason } => (11, reason),
        CatalogError::Unavailable { reason } => (12, reason),
        CatalogError::OutcomeUnknown { reason } => (13, reason),
        CatalogError::InBatch { at, error } => {
            out.put_u8(15);
            out.put_u64_le(*at as u64);
            return put_error(out, error);
        }
    };
    out.put_u8(kind);
    out.extend_from_slice(reason.as_bytes());
}

fn get_result(mut bytes: Bytes, nested: u32) -> Option<Result<Answer, CatalogError>> {
    let kind = bytes.try_get_u8().ok()?;
    if kind <= 2 {
        let says = get_flag(&mut bytes)?;
        let answer = match kind {
            0 if bytes.is_empty() => Answer::Done { changed: says },
            1 if bytes.is_empty() => Answer::Set { created: says },
            2 => {
                let Change::QueueDeclared(record) = decode_change(&bytes)? else { return None };
                Answer::Queue { record, created: says }
            }
            _ => return None,
        };
        return Some(Ok(answer));
    }
    if kind == 15 {
        let at = usize::try_from(bytes.try_get_u64_le().ok()?).ok()?;
        let error = get_result(bytes, nested.checked_sub(1)?)?.err()?;
        return Some(Err(CatalogError::InBatch { at, error: Box::new(error) }));
    }
    let reason = String::from_utf8(bytes.into()).ok()?;
    Some(Err(match kind {
        3 => CatalogError::NotFound { reason },
        4 => CatalogError::PreconditionFailed { reason },
        5 => CatalogError::Inequivalent { reason },
        6 => CatalogError::Forbidden { reason },
        7 => CatalogError::Denied { reason },
        8 => CatalogError::Locked { reason },
        9 => CatalogError::Invalid { reason },
        10 => CatalogError::LimitReached { reason },
        11 => CatalogError::Busy { reason },
        12 => CatalogError::Unavailable { reason },
        13 => CatalogError::OutcomeUnknown { reason },
        _ => return None,
    }))
}

#[cfg(test)]
mod tests;
