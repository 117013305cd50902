//! What a queue reports about itself.

use bytes::{BufMut, Bytes};
use queue::{Lately, Report, Retained};

use super::parts::{
    get_count, get_flags, get_optional_u64, get_u32, get_u64, put_flags, put_optional_u64, take,
};

/// The number of bytes of a segment's offset.
const SEGMENT_BYTES: usize = 8;

/// No count of a report is larger than this. So sums over many queues do not overflow. No queue gets there: with a million
/// messages in a second it would take 2000 years.
const COUNT_MAX: u64 = 1 << 56;

/// Appends a report.
pub fn put_report(report: &Report, out: &mut Vec<u8>) {
    let Report {
        ready,
        unsettled,
        leaving,
        staged,
        delayed,
        ready_bytes,
        unsettled_bytes,
        leaving_bytes,
        delayed_bytes,
        full,
        next_seq,
        consumers,
        damaged,
        reading,
        next_bytes,
        next_head_bytes,
        head_at_ms,
        active_consumer,
        yielding,
        published,
        delivered,
        delivered_settled,
        fetched,
        fetched_settled,
        redelivered,
        acknowledged,
        expired,
        dropped,
        dead_lettered,
        over_limit,
        last_was_over_limit,
        returned_again,
        annotations_refused,
        rejected,
        over_length,
        tail_at_ms,
        stream,
    } = report;
    let counts = [
        ready,
        unsettled,
        leaving,
        staged,
        delayed,
        ready_bytes,
        unsettled_bytes,
        leaving_bytes,
        delayed_bytes,
        published,
        delivered,
        delivered_settled,
        fetched,
        fetched_settled,
        redelivered,
        acknowledged,
        expired,
        dropped,
        dead_lettered,
        over_limit,
        annotations_refused,
        over_length,
    ];
    counts.into_iter().for_each(|count| out.put_u64_le(*count));
    out.put_u64_le(*next_seq);
    out.put_u32_le(*consumers);
    put_flags([*full, *damaged, *reading, *yielding, *last_was_over_limit], out);
    for optional in [next_bytes, next_head_bytes, head_at_ms, tail_at_ms, active_consumer] {
        put_optional_u64(*optional, out);
    }
    out.extend_from_slice(&returned_again.to_bytes());
    out.extend_from_slice(&rejected.to_bytes());
    put_flags([stream.is_some()], out);
    if let Some(stream) = stream {
        put_retained(stream, out);
    }
}

/// Takes the next report from `bytes`. Returns `None` if they are not one. The sums over many reports do not overflow.
pub fn get_report(bytes: &mut Bytes) -> Option<Report> {
    let mut count = || get_u64(bytes).filter(|count| *count <= COUNT_MAX);
    let mut report = Report {
        ready: count()?,
        unsettled: count()?,
        leaving: count()?,
        staged: count()?,
        delayed: count()?,
        ready_bytes: count()?,
        unsettled_bytes: count()?,
        leaving_bytes: count()?,
        delayed_bytes: count()?,
        published: count()?,
        delivered: count()?,
        delivered_settled: count()?,
        fetched: count()?,
        fetched_settled: count()?,
        redelivered: count()?,
        acknowledged: count()?,
        expired: count()?,
        dropped: count()?,
        dead_lettered: count()?,
        over_limit: count()?,
        annotations_refused: count()?,
        over_length: count()?,
        ..Report::default()
    };
    report.next_seq = get_u64(bytes)?;
    report.consumers = get_u32(bytes)?;
    [report.full, report.damaged, report.reading, report.yielding, report.last_was_over_limit] =
        get_flags(bytes)?;
    report.next_bytes = get_optional_u64(bytes)?;
    report.next_head_bytes = get_optional_u64(bytes)?;
    report.head_at_ms = get_optional_u64(bytes)?;
    report.tail_at_ms = get_optional_u64(bytes)?;
    report.active_consumer = get_optional_u64(bytes)?;
    report.returned_again = get_lately(bytes)?;
    report.rejected = get_lately(bytes)?;
    let [is_stream] = get_flags(bytes)?;
    report.stream = if is_stream { Some(get_retained(bytes)?) } else { None };
    deliveries_add_up(&report).then_some(report)
}

/// Returns false if some kinds of deliveries are more than all of them. Their differences are shown.
fn deliveries_add_up(report: &Report) -> bool {
    let unsettled = report.delivered.checked_sub(report.delivered_settled);
    let fetched_unsettled = report.fetched.checked_sub(report.fetched_settled);
    let some_fetched = unsettled.zip(fetched_unsettled).is_some_and(|(all, fetched)| fetched <= all);
    some_fetched && report.fetched_settled <= report.delivered_settled
}

fn get_lately(bytes: &mut Bytes) -> Option<Lately> {
    let encoded = take(bytes, Lately::BYTES)?;
    Lately::from_bytes((&*encoded).try_into().ok()?).filter(|lately| lately.total() <= COUNT_MAX)
}

fn put_retained(retained: &Retained, out: &mut Vec<u8>) {
    let Retained { first, next, bytes, times_ms, segments, closed_from } = retained;
    out.put_u64_le(*first);
    out.put_u64_le(*next);
    out.put_u64_le(*bytes);
    put_optional_u64(times_ms.map(|(first_ms, _)| first_ms), out);
    put_optional_u64(times_ms.map(|(_, last_ms)| last_ms), out);
    put_optional_u64(*closed_from, out);
    out.put_u32_le(segments.len() as u32);
    segments.iter().for_each(|segment| out.put_u64_le(*segment));
}

fn get_retained(bytes: &mut Bytes) -> Option<Retained> {
    let count = |bytes: &mut Bytes| get_u64(bytes).filter(|count| *count <= COUNT_MAX);
    let (first, next, size) = (count(bytes)?, count(bytes)?, count(bytes)?);
    let times_ms = match (get_optional_u64(bytes)?, get_optional_u64(bytes)?) {
        (Some(first_ms), Some(last_ms)) => Some((first_ms, last_ms)),
        (None, None) => None,
        _ => return None,
    };
    let closed_from = get_optional_u64(bytes)?;
    let count = get_count(bytes, SEGMENT_BYTES)?;
    let segments = (0..count).map(|_| get_u64(bytes)).collect::<Option<Vec<_>>>()?;
    Some(Retained { first, next, bytes: size, times_ms, segments: segments.into(), closed_from })
}
