//! Effects of queues.

use bytes::{BufMut, Bytes};
use message::LastRoute;
use queue::{ConsumerId, CreditState, Delivery, Effect, GoneReason, Refusal, Requester, Span, Ticket};

use super::parts::{
    get_count, get_flags, get_message, get_number, get_optional_u32, get_span, get_u8, get_u32, get_u64,
    put_flags, put_message, put_optional_u32, put_span,
};
use super::report::{get_report, put_report};

const ATTACHED: u8 = 2;
const REFUSED: u8 = 3;
const GONE: u8 = 4;
const ACTIVE: u8 = 5;
const DELIVERY: u8 = 6;
const CREDIT: u8 = 7;
const FETCHED: u8 = 8;
const SETTLED: u8 = 9;
const REVOKED: u8 = 10;
const DONE: u8 = 11;
const REPORT: u8 = 12;

/// The number of bytes of a span.
const SPAN_BYTES: usize = 16;

/// The number of bytes of a delivery without those of its message.
const DELIVERY_MIN: usize = 3 * 8 + 2 * 4 + 4;

/// See [`put_answer`](super::put_answer).
pub(super) fn put(effect: &Effect, out: &mut Vec<u8>) -> bool {
    match effect {
        Effect::Attached { consumer } => {
            out.put_u8(ATTACHED);
            out.put_u64_le(consumer.0);
        }
        Effect::Refused { requester, why } => {
            out.put_u8(REFUSED);
            match requester {
                Requester::Consumer(consumer) => {
                    out.put_u8(0);
                    out.put_u64_le(consumer.0);
                }
                Requester::Ticket(ticket) => {
                    out.put_u8(1);
                    out.put_u64_le(ticket.0);
                }
            }
            put_refusal(why, out);
        }
        Effect::Gone { consumer, reason } => {
            out.put_u8(GONE);
            out.put_u64_le(consumer.0);
            put_gone_reason(reason, out);
        }
        Effect::Active { consumer, active, available } => {
            out.put_u8(ACTIVE);
            out.put_u64_le(consumer.0);
            put_flags([*active], out);
            out.put_u32_le(*available);
        }
        Effect::Delivery(delivery) => {
            out.put_u8(DELIVERY);
            put_delivery(delivery, out);
        }
        Effect::CreditState { consumer, state } => {
            let CreditState { delivery_count, credit, available, drained } = state;
            out.put_u8(CREDIT);
            out.put_u64_le(consumer.0);
            out.put_u32_le(*delivery_count);
            out.put_u32_le(*credit);
            out.put_u32_le(*available);
            put_flags([*drained], out);
        }
        Effect::Fetched { ticket, deliveries, ready } => {
            out.put_u8(FETCHED);
            out.put_u64_le(ticket.0);
            out.put_u64_le(*ready);
            out.put_u32_le(deliveries.len() as u32);
            deliveries.iter().for_each(|delivery| put_delivery(delivery, out));
        }
        Effect::Settled { consumer, first, last, journaled } => {
            out.put_u8(SETTLED);
            out.put_u64_le(consumer.0);
            put_span(*first, *last, out);
            put_flags([*journaled], out);
        }
        Effect::Revoked { consumer, numbers } => {
            out.put_u8(REVOKED);
            out.put_u64_le(consumer.0);
            out.put_u32_le(numbers.len() as u32);
            numbers.iter().for_each(|Span { first, last }| put_span(*first, *last, out));
        }
        Effect::Done { ticket, messages, journaled } => {
            out.put_u8(DONE);
            out.put_u64_le(ticket.0);
            out.put_u64_le(*messages);
            put_flags([*journaled], out);
        }
        Effect::Report { ticket, report } => {
            out.put_u8(REPORT);
            out.put_u64_le(ticket.0);
            put_report(report, out);
        }
        Effect::StreamUpdate { .. } | Effect::DeadLetter { .. } | Effect::Deleted { .. } => return false,
    }
    true
}

/// Takes what follows the kind.
pub(super) fn get(kind: u8, bytes: &mut Bytes, routes: &mut LastRoute) -> Option<Effect> {
    Some(match kind {
        ATTACHED => Effect::Attached { consumer: get_consumer(bytes)? },
        REFUSED => {
            let requester = match get_u8(bytes)? {
                0 => Requester::Consumer(get_consumer(bytes)?),
                1 => Requester::Ticket(get_ticket(bytes)?),
                _ => return None,
            };
            Effect::Refused { requester, why: get_refusal(bytes)? }
        }
        GONE => Effect::Gone { consumer: get_consumer(bytes)?, reason: get_gone_reason(bytes)? },
        ACTIVE => {
            let consumer = get_consumer(bytes)?;
            let [active] = get_flags(bytes)?;
            Effect::Active { consumer, active, available: get_u32(bytes)? }
        }
        DELIVERY => Effect::Delivery(get_delivery(bytes, routes)?),
        CREDIT => {
            let consumer = get_consumer(bytes)?;
            let (delivery_count, credit, available) = (get_u32(bytes)?, get_u32(bytes)?, get_u32(bytes)?);
            let [drained] = get_flags(bytes)?;
            Effect::CreditState {
                consumer,
                state: CreditState { delivery_count, credit, available, drained },
            }
        }
        FETCHED => {
            let (ticket, ready) = (get_ticket(bytes)?, get_u64(bytes)?);
            let deliveries = (0..get_count(bytes, DELIVERY_MIN)?)
                .map(|_| get_delivery(bytes, routes))
                .collect::<Option<_>>()?;
            Effect::Fetched { ticket, deliveries, ready }
        }
        SETTLED => {
            let (consumer, (first, last)) = (get_consumer(bytes)?, get_span(bytes)?);
            let [journaled] = get_flags(bytes)?;
            Effect::Settled { consumer, first, last, journaled }
        }
        REVOKED => {
            let consumer = get_consumer(bytes)?;
            let count = get_count(bytes, SPAN_BYTES)?;
            let span = |_| get_span(bytes).map(|(first, last)| Span { first, last });
            Effect::Revoked { consumer, numbers: (0..count).map(span).collect::<Option<_>>()? }
        }
        DONE => {
            let (ticket, messages) = (get_ticket(bytes)?, get_u64(bytes)?);
            let [journaled] = get_flags(bytes)?;
            Effect::Done { ticket, messages, journaled }
        }
        REPORT => Effect::Report { ticket: get_ticket(bytes)?, report: Box::new(get_report(bytes)?) },
        _ => return None,
    })
}

fn put_delivery(delivery: &Delivery, out: &mut Vec<u8>) {
    let Delivery { consumer, number, seq, message, delivery_count, acquired_count } = delivery;
    out.put_u64_le(consumer.0);
    out.put_u64_le(*number);
    out.put_u64_le(*seq);
    out.put_u32_le(*delivery_count);
    out.put_u32_le(*acquired_count);
    put_message(message, out);
}

fn get_delivery(bytes: &mut Bytes, routes: &mut LastRoute) -> Option<Delivery> {
    Some(Delivery {
        consumer: get_consumer(bytes)?,
        number: get_number(bytes)?,
        seq: get_number(bytes)?,
        delivery_count: get_u32(bytes)?,
        acquired_count: get_u32(bytes)?,
        message: get_message(bytes, routes)?,
    })
}

fn put_refusal(why: &Refusal, out: &mut Vec<u8>) {
    out.put_u8(match why {
        Refusal::NotFound => 0,
        Refusal::ExclusiveConsumer => 1,
        Refusal::InUse => 2,
        Refusal::NotEmpty => 3,
        Refusal::NotSupported => 4,
        Refusal::Unavailable => 5,
        Refusal::OutOfReach { node } => {
            out.put_u8(6);
            return put_optional_u32(*node, out);
        }
        Refusal::NoLeader => 7,
        Refusal::Damaged => 8,
        Refusal::TooManyBrowsers => 9,
        Refusal::OutcomeUnknown { node } => {
            out.put_u8(10);
            return put_optional_u32(*node, out);
        }
    });
}

fn get_refusal(bytes: &mut Bytes) -> Option<Refusal> {
    Some(match get_u8(bytes)? {
        0 => Refusal::NotFound,
        1 => Refusal::ExclusiveConsumer,
        2 => Refusal::InUse,
        3 => Refusal::NotEmpty,
        4 => Refusal::NotSupported,
        5 => Refusal::Unavailable,
        6 => Refusal::OutOfReach { node: get_optional_u32(bytes)? },
        7 => Refusal::NoLeader,
        8 => Refusal::Damaged,
        9 => Refusal::TooManyBrowsers,
        10 => Refusal::OutcomeUnknown { node: get_optional_u32(bytes)? },
        _ => return None,
    })
}

fn put_gone_reason(reason: &GoneReason, out: &mut Vec<u8>) {
    out.put_u8(match reason {
        GoneReason::Cancelled => 0,
        GoneReason::Detached => 1,
        GoneReason::QueueDeleted => 2,
        GoneReason::Damaged => 3,
        GoneReason::OutOfReach { node } => {
            out.put_u8(4);
            return put_optional_u32(*node, out);
        }
    });
}

fn get_gone_reason(bytes: &mut Bytes) -> Option<GoneReason> {
    Some(match get_u8(bytes)? {
        0 => GoneReason::Cancelled,
        1 => GoneReason::Detached,
        2 => GoneReason::QueueDeleted,
        3 => GoneReason::Damaged,
        4 => GoneReason::OutOfReach { node: get_optional_u32(bytes)? },
        _ => return None,
    })
}

fn get_consumer(bytes: &mut Bytes) -> Option<ConsumerId> {
    get_u64(bytes).map(ConsumerId)
}

fn get_ticket(bytes: &mut Bytes) -> Option<Ticket> {
    get_u64(bytes).map(Ticket)
}
