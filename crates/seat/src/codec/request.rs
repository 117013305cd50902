//! Requests to queues.

use bytes::{Buf, BufMut, Bytes};
use catalog::ids::QueueId;
use message::{Annotations, DeliveryMax};
use queue::{Attach, ConsumerId, ConsumerTimeout, Mode, Outcome, Request, SettleAnswer, Ticket};

use super::parts::{
    get_bytes, get_flags, get_optional_u64, get_span, get_u8, get_u32, get_u64, put_bytes, put_flags,
    put_optional_u64, put_span,
};
use super::replay;

const ATTACH: u8 = 4;
const CANCEL: u8 = 5;
const DETACH: u8 = 6;
const GRANT: u8 = 7;
const RESUME: u8 = 8;
const FETCH: u8 = 9;
const BROWSE: u8 = 10;
const CANCEL_BROWSE: u8 = 11;
const SETTLE: u8 = 12;
const USE: u8 = 13;
const PURGE: u8 = 14;
const DELETE: u8 = 15;
const REPORT: u8 = 16;

/// See [`put_ask`](super::put_ask).
pub(super) fn put(queue: QueueId, request: &Request, out: &mut Vec<u8>) -> bool {
    let start = |kind: u8, out: &mut Vec<u8>| {
        out.put_u8(kind);
        out.put_u64_le(queue.0);
    };
    match request {
        Request::Attach(attach) => {
            start(ATTACH, out);
            put_attach(attach, out);
        }
        Request::Cancel { consumer } => {
            start(CANCEL, out);
            out.put_u64_le(consumer.0);
        }
        Request::Detach { consumer, failed } => {
            start(DETACH, out);
            out.put_u64_le(consumer.0);
            put_flags([*failed], out);
        }
        Request::Grant { consumer, delivery_count, credit, drain, echo } => {
            start(GRANT, out);
            out.put_u64_le(consumer.0);
            out.put_u32_le(*delivery_count);
            out.put_u32_le(*credit);
            put_flags([*drain, *echo], out);
        }
        Request::Resume { consumer, taken_back } => {
            start(RESUME, out);
            out.put_u64_le(consumer.0);
            out.put_u64_le(*taken_back);
        }
        Request::Fetch { ticket, holder, n, settled } => {
            start(FETCH, out);
            out.put_u64_le(ticket.0);
            out.put_u64_le(holder.0);
            out.put_u32_le(*n);
            put_flags([*settled], out);
        }
        Request::Browse { ticket, replay, n } => {
            start(BROWSE, out);
            out.put_u64_le(ticket.0);
            out.put_u32_le(*n);
            replay::put(replay, out);
        }
        Request::CancelBrowse { ticket } => {
            start(CANCEL_BROWSE, out);
            out.put_u64_le(ticket.0);
        }
        Request::Settle { consumer, first, last, outcome, answer } => {
            start(SETTLE, out);
            out.put_u64_le(consumer.0);
            put_span(*first, *last, out);
            out.put_u8(match answer {
                SettleAnswer::Never => 0,
                SettleAnswer::Made => 1,
                SettleAnswer::Stored => 2,
            });
            put_outcome(outcome, out);
        }
        Request::Use => start(USE, out),
        Request::Purge { ticket } => {
            start(PURGE, out);
            out.put_u64_le(ticket.0);
        }
        Request::Delete { ticket, if_unused, if_empty } => {
            start(DELETE, out);
            out.put_u64_le(ticket.0);
            put_flags([*if_unused, *if_empty], out);
        }
        Request::Report { ticket } => {
            start(REPORT, out);
            out.put_u64_le(ticket.0);
        }
        Request::Publish(_)
        | Request::Follow { .. }
        | Request::Close { .. }
        | Request::DeadLettered { .. }
        | Request::Configure(_) => return false,
    }
    true
}

/// Takes what follows the kind.
pub(super) fn get(kind: u8, bytes: &mut Bytes) -> Option<(QueueId, Request)> {
    let queue = QueueId(get_u64(bytes)?);
    let request = match kind {
        ATTACH => Request::Attach(get_attach(bytes)?),
        CANCEL => Request::Cancel { consumer: get_consumer(bytes)? },
        DETACH => {
            let consumer = get_consumer(bytes)?;
            let [failed] = get_flags(bytes)?;
            Request::Detach { consumer, failed }
        }
        GRANT => {
            let (consumer, delivery_count, credit) = (get_consumer(bytes)?, get_u32(bytes)?, get_u32(bytes)?);
            let [drain, echo] = get_flags(bytes)?;
            Request::Grant { consumer, delivery_count, credit, drain, echo }
        }
        RESUME => Request::Resume { consumer: get_consumer(bytes)?, taken_back: get_u64(bytes)? },
        FETCH => {
            let (ticket, holder, n) = (get_ticket(bytes)?, get_consumer(bytes)?, get_u32(bytes)?);
            let [settled] = get_flags(bytes)?;
            Request::Fetch { ticket, holder, n, settled }
        }
        BROWSE => {
            let (ticket, n) = (get_ticket(bytes)?, get_u32(bytes)?);
            Request::Browse { ticket, n, replay: Box::new(replay::get(bytes)?) }
        }
        CANCEL_BROWSE => Request::CancelBrowse { ticket: get_ticket(bytes)? },
        SETTLE => {
            let (consumer, (first, last)) = (get_consumer(bytes)?, get_span(bytes)?);
            let answer = match get_u8(bytes)? {
                0 => SettleAnswer::Never,
                1 => SettleAnswer::Made,
                2 => SettleAnswer::Stored,
                _ => return None,
            };
            Request::Settle { consumer, first, last, outcome: get_outcome(bytes)?, answer }
        }
        USE => Request::Use,
        PURGE => Request::Purge { ticket: get_ticket(bytes)? },
        DELETE => {
            let ticket = get_ticket(bytes)?;
            let [if_unused, if_empty] = get_flags(bytes)?;
            Request::Delete { ticket, if_unused, if_empty }
        }
        REPORT => Request::Report { ticket: get_ticket(bytes)? },
        _ => return None,
    };
    Some((queue, request))
}

fn put_attach(attach: &Attach, out: &mut Vec<u8>) {
    let Attach { consumer, mode, priority, exclusive, settled, delivery_count, message_bytes_max, timeout } =
        attach;
    out.put_u64_le(consumer.0);
    out.put_i32_le(*priority);
    put_flags([*exclusive, *settled], out);
    out.put_u32_le(*delivery_count);
    match message_bytes_max {
        None => out.put_u8(0),
        Some(DeliveryMax::Whole(max)) => {
            out.put_u8(1);
            out.put_u64_le(*max);
        }
        Some(DeliveryMax::Head(max)) => {
            out.put_u8(2);
            out.put_u64_le(*max);
        }
    }
    let ConsumerTimeout { own_ms, default_ms } = timeout;
    put_optional_u64(*own_ms, out);
    put_optional_u64(*default_ms, out);
    match mode {
        Mode::Take => out.put_u8(0),
        Mode::Browse => out.put_u8(1),
        Mode::Replay(replay) => {
            out.put_u8(2);
            replay::put(replay, out);
        }
    }
}

fn get_attach(bytes: &mut Bytes) -> Option<Attach> {
    let consumer = get_consumer(bytes)?;
    let priority = bytes.try_get_i32_le().ok()?;
    let [exclusive, settled] = get_flags(bytes)?;
    let delivery_count = get_u32(bytes)?;
    let message_bytes_max = match get_u8(bytes)? {
        0 => None,
        1 => Some(DeliveryMax::Whole(get_u64(bytes)?)),
        2 => Some(DeliveryMax::Head(get_u64(bytes)?)),
        _ => return None,
    };
    let timeout = ConsumerTimeout { own_ms: get_optional_u64(bytes)?, default_ms: get_optional_u64(bytes)? };
    let mode = match get_u8(bytes)? {
        0 => Mode::Take,
        1 => Mode::Browse,
        2 => Mode::Replay(Box::new(replay::get(bytes)?)),
        _ => return None,
    };
    Some(Attach { consumer, mode, priority, exclusive, settled, delivery_count, message_bytes_max, timeout })
}

fn put_outcome(outcome: &Outcome, out: &mut Vec<u8>) {
    match outcome {
        Outcome::Accepted => out.put_u8(0),
        Outcome::Rejected => out.put_u8(1),
        Outcome::Released => out.put_u8(2),
        Outcome::Unsent => out.put_u8(3),
        Outcome::Modified { failed, undeliverable_here, annotations } => {
            out.put_u8(4);
            put_flags([*failed, *undeliverable_here, annotations.is_some()], out);
            if let Some(annotations) = annotations {
                put_bytes(annotations.as_section(), out);
            }
        }
    }
}

fn get_outcome(bytes: &mut Bytes) -> Option<Outcome> {
    Some(match get_u8(bytes)? {
        0 => Outcome::Accepted,
        1 => Outcome::Rejected,
        2 => Outcome::Released,
        3 => Outcome::Unsent,
        4 => {
            let [failed, undeliverable_here, annotated] = get_flags(bytes)?;
            let annotations = if annotated { Some(Box::new(get_annotations(bytes)?)) } else { None };
            Outcome::Modified { failed, undeliverable_here, annotations }
        }
        _ => return None,
    })
}

fn get_annotations(bytes: &mut Bytes) -> Option<Annotations> {
    let section = get_bytes(bytes)?;
    if section.len() > Annotations::BYTES_MAX { None } else { Annotations::from_section(section) }
}

fn get_consumer(bytes: &mut Bytes) -> Option<ConsumerId> {
    get_u64(bytes).map(ConsumerId)
}

fn get_ticket(bytes: &mut Bytes) -> Option<Ticket> {
    get_u64(bytes).map(Ticket)
}
