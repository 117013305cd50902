//! The encoding of what two nodes say about queues. Numbers are little-endian.
//!
//! ```text
//!  ask            kind u8 | ...
//!     1 publish        queue u64 | number u64 | flags: pipelines | message
//!     2 reply          link | number u64 | message
//!     3 probe          link | ticket u64
//!     4 attach         queue u64 | consumer u64 | priority i32 | flags: exclusive, settled | delivery count u32
//!                        | largest delivery | own timeout: optional u64 | default timeout: optional u64 | mode
//!     5 cancel         queue u64 | consumer u64
//!     6 detach         queue u64 | consumer u64 | flags: failed
//!     7 grant          queue u64 | consumer u64 | delivery count u32 | credit u32 | flags: drain, echo
//!     8 resume         queue u64 | consumer u64 | taken back u64
//!     9 fetch          queue u64 | ticket u64 | holder u64 | n u32 | flags: settled
//!    10 browse         queue u64 | ticket u64 | n u32 | replay
//!    11 cancel browse  queue u64 | ticket u64
//!    12 settle         queue u64 | consumer u64 | span | answer u8: 0 never, 1 made, 2 stored | outcome
//!    13 use            queue u64
//!    14 purge          queue u64 | ticket u64
//!    15 delete         queue u64 | ticket u64 | flags: if unused, if empty
//!    16 report         queue u64 | ticket u64
//!
//!  answer         kind u8 | ...
//!     1 receipt        span | verdict u8: 0 accepted, 1 released; rejected: 2 too long, 3 unavailable, 4 no leader, 5 damaged; 6 unknown
//!     2 attached       consumer u64
//!     3 refused        requester u8: 0 consumer, 1 ticket | its id u64 | refusal
//!     4 gone           consumer u64 | reason
//!     5 active         consumer u64 | flags: active | available u32
//!     6 delivery       delivery
//!     7 credit         consumer u64 | delivery count u32 | credit u32 | available u32 | flags: drained
//!     8 fetched        ticket u64 | ready u64 | count u32 | delivery ...
//!     9 settled        consumer u64 | span | flags: journaled
//!    10 revoked        consumer u64 | count u32 | span ...
//!    11 done           ticket u64 | messages u64 | flags: journaled
//!    12 report         ticket u64 | report
//!
//!  span           first u64 | last u64
//!  link           node u32 | boot u32 | outlet u64 | key, 12 bytes | virtual host: text
//!  message        length u32 | its stored form
//!  delivery       consumer u64 | number u64 | seq u64 | delivery count u32 | acquired count u32 | message
//!  largest        kind u8: 0 no limit; 1 whole: u64; 2 head: u64
//!  mode           kind u8: 0 take, 1 browse; 2 replay: replay
//!  replay         start u8: 0 first, 1 last, 2 next; 3 offset: u64; 4 time: u64
//!                   | chunks u8: 0 all; 1 with a value, 2 also without any: count u32 | value: length u32, bytes | ...
//!                   | messages u8: 0 all; 1 matching: see [`message::Filter::encode`]
//!  outcome        kind u8: 0 accepted, 1 rejected, 2 released, 3 unsent
//!                   4 modified: flags: failed, undeliverable here, annotated | length u32, annotations
//!  refusal        kind u8: 0 not found, 1 exclusive consumer, 2 in use, 3 not empty, 4 not supported, 5 unavailable,
//!                   6 out of reach: optional u32; 7 no leader, 8 damaged, 9 too many browsers; 10 outcome unknown: optional u32
//!  reason         kind u8: 0 cancelled, 1 detached, 2 queue deleted, 3 damaged; 4 out of reach: optional u32
//!  report         22 counts u64, see codec/report.rs | next seq u64 | consumers u32
//!                   | flags: full, damaged, reading, yielding, last was over limit
//!                   | optional u64 each: bytes and head bytes of the next message, times of head and tail, active consumer
//!                   | returned again, rejected: see [`queue::Lately::to_bytes`] | optional: stream
//!  stream         first u64 | next u64 | bytes u64 | first time, last time, closed from: optional u64 each | count u32
//!                   | segment u64 | ...
//!  text           length u32 | bytes
//!  flags          one byte; the first flag is the lowest bit
//!  optional       flags: is there | the value, if it is there
//! ```
//!
//! A decoder accepts what the encoder writes. It never panics, and what it allocates is proportional to the length of the input. It
//! refuses numbers with which the usual sums and differences would overflow.

mod effect;
mod parts;
mod replay;
mod report;
mod request;

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use catalog::ids::{NodeId, Origin, QueueId};
use catalog::reply_to::ReplyTo;
use catalog::unguessable::{KEY_BYTES, Key};
use message::{LastRoute, Message};
use queue::{ConsumerId, RejectReason, Ticket, Verdict};

pub use self::report::{get_report, put_report};
use crate::item::{Answer, Ask};
use parts::{
    get_flags, get_message, get_number, get_span, get_text, get_u8, get_u32, get_u64, put_flags, put_message,
    put_span, put_text, take,
};

const PUBLISH: u8 = 1;
const REPLY: u8 = 2;
const PROBE: u8 = 3;

const RECEIPT: u8 = 1;

/// Appends an item. Returns false, and appends nothing, for a request that never leaves its node.
pub fn put_ask(ask: &Ask, out: &mut Vec<u8>) -> bool {
    match ask {
        Ask::Request { queue, request } => return request::put(*queue, request, out),
        Ask::Publish { queue, number, pipelines, message } => {
            put_publish(*queue, *number, *pipelines, message, out);
        }
        Ask::Reply { to, vhost, number, message } => put_reply((*to, vhost), *number, message, out),
        Ask::Probe { to, vhost, ticket } => {
            out.put_u8(PROBE);
            put_link(*to, vhost, out);
            out.put_u64_le(ticket.0);
        }
    }
    true
}

/// Appends an [`Ask::Publish`].
pub(crate) fn put_publish(
    queue: QueueId,
    number: u64,
    pipelines: bool,
    message: &Message,
    out: &mut Vec<u8>,
) {
    out.put_u8(PUBLISH);
    out.put_u64_le(queue.0);
    out.put_u64_le(number);
    put_flags([pipelines], out);
    put_message(message, out);
}

/// Appends an [`Ask::Reply`].
pub(crate) fn put_reply((to, vhost): (ReplyTo, &str), number: u64, message: &Message, out: &mut Vec<u8>) {
    out.put_u8(REPLY);
    put_link(to, vhost, out);
    out.put_u64_le(number);
    put_message(message, out);
}

/// Takes the next item from `bytes`. Returns `None` if they are not one. Messages share the bytes.
pub fn get_ask(bytes: &mut Bytes, routes: &mut LastRoute) -> Option<Ask> {
    Some(match get_u8(bytes)? {
        PUBLISH => {
            let queue = QueueId(get_u64(bytes)?);
            let number = get_number(bytes)?;
            let [pipelines] = get_flags(bytes)?;
            Ask::Publish { queue, number, pipelines, message: get_message(bytes, routes)? }
        }
        REPLY => {
            let (to, vhost) = get_link(bytes)?;
            Ask::Reply { to, vhost, number: get_number(bytes)?, message: get_message(bytes, routes)? }
        }
        PROBE => {
            let (to, vhost) = get_link(bytes)?;
            Ask::Probe { to, vhost, ticket: Ticket(get_u64(bytes)?) }
        }
        kind => {
            let (queue, request) = request::get(kind, bytes)?;
            Ask::Request { queue, request }
        }
    })
}

/// Appends an item. Returns false, and appends nothing, for an effect that never leaves its node.
pub fn put_answer(answer: &Answer, out: &mut Vec<u8>) -> bool {
    match answer {
        Answer::Effect(effect) => return effect::put(effect, out),
        Answer::Receipt { first, last, verdict } => {
            out.put_u8(RECEIPT);
            put_span(*first, *last, out);
            out.put_u8(match verdict {
                Verdict::Accepted => 0,
                Verdict::Released => 1,
                Verdict::Rejected(RejectReason::MaxLength) => 2,
                Verdict::Rejected(RejectReason::Unavailable) => 3,
                Verdict::Rejected(RejectReason::NoLeader) => 4,
                Verdict::Rejected(RejectReason::Damaged) => 5,
                Verdict::Unknown => 6,
                Verdict::Rejected(RejectReason::OutOfReach) => 7,
            });
        }
    }
    true
}

/// Takes the next item from `bytes`. Returns `None` if they are not one. Messages share the bytes.
pub fn get_answer(bytes: &mut Bytes, routes: &mut LastRoute) -> Option<Answer> {
    let kind = get_u8(bytes)?;
    if kind != RECEIPT {
        return effect::get(kind, bytes, routes).map(Answer::Effect);
    }
    let (first, last) = get_span(bytes)?;
    let verdict = match get_u8(bytes)? {
        0 => Verdict::Accepted,
        1 => Verdict::Released,
        2 => Verdict::Rejected(RejectReason::MaxLength),
        3 => Verdict::Rejected(RejectReason::Unavailable),
        4 => Verdict::Rejected(RejectReason::NoLeader),
        5 => Verdict::Rejected(RejectReason::Damaged),
        6 => Verdict::Unknown,
        7 => Verdict::Rejected(RejectReason::OutOfReach),
        _ => return None,
    };
    Some(Answer::Receipt { first, last, verdict })
}

fn put_link(to: ReplyTo, vhost: &str, out: &mut Vec<u8>) {
    let ReplyTo { origin: Origin { node, boot }, outlet, key } = to;
    out.put_u32_le(node.0);
    out.put_u32_le(boot);
    out.put_u64_le(outlet.0);
    out.extend_from_slice(&key.bytes());
    put_text(vhost, out);
}

fn get_link(bytes: &mut Bytes) -> Option<(ReplyTo, Arc<str>)> {
    let origin = Origin { node: NodeId(get_u32(bytes)?), boot: get_u32(bytes)? };
    let outlet = ConsumerId(get_u64(bytes)?);
    let key = take(bytes, KEY_BYTES)?;
    let key = Key::new((*key).try_into().ok()?);
    Some((ReplyTo { origin, outlet, key }, get_text(bytes)?))
}

#[cfg(test)]
mod tests;
