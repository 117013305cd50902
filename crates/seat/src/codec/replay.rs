//! What a consumer of a stream requests.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use message::Filter;
use queue::{BloomFilter, FILTER_VALUES_MAX, Replay, Start};

use super::parts::{get_bytes, get_count, get_flags, get_u8, get_u64, put_bytes, put_flags};

pub(super) fn put(replay: &Replay, out: &mut Vec<u8>) {
    let Replay { start, bloom, matching } = replay;
    match start {
        Start::First => out.put_u8(0),
        Start::Last => out.put_u8(1),
        Start::Next => out.put_u8(2),
        Start::Offset(offset) => {
            out.put_u8(3);
            out.put_u64_le(*offset);
        }
        Start::Time(at_ms) => {
            out.put_u8(4);
            out.put_u64_le(*at_ms);
        }
    }
    match bloom.as_deref() {
        None => out.put_u8(0),
        Some(BloomFilter { values, unfiltered }) => {
            out.put_u8(1 + u8::from(*unfiltered));
            out.put_u32_le(values.len() as u32);
            values.iter().for_each(|value| put_bytes(value, out));
        }
    }
    put_flags([matching.is_some()], out);
    if let Some(filter) = matching {
        filter.encode(out);
    }
}

pub(super) fn get(bytes: &mut Bytes) -> Option<Replay> {
    let start = match get_u8(bytes)? {
        0 => Start::First,
        1 => Start::Last,
        2 => Start::Next,
        3 => Start::Offset(get_u64(bytes)?),
        4 => Start::Time(get_u64(bytes)?),
        _ => return None,
    };
    let bloom = match get_u8(bytes)? {
        0 => None,
        1 => Some(get_bloom(bytes, false)?),
        2 => Some(get_bloom(bytes, true)?),
        _ => return None,
    };
    let [has_filter] = get_flags(bytes)?;
    let matching = if has_filter { Some(Arc::new(Filter::decode(bytes)?)) } else { None };
    Some(Replay { start, bloom, matching })
}

fn get_bloom(bytes: &mut Bytes, unfiltered: bool) -> Option<Arc<BloomFilter>> {
    /// The length of a value.
    const LENGTH_MIN: usize = 4;
    let count = get_count(bytes, LENGTH_MIN).filter(|count| *count <= FILTER_VALUES_MAX)?;
    let value = |_| get_bytes(bytes).map(|value| Box::<[u8]>::from(&*value));
    let values = (0..count).map(value).collect::<Option<Vec<_>>>()?;
    BloomFilter::new(values, unfiltered).map(Arc::new)
}
