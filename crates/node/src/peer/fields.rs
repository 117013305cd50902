//! Flags, counts, texts and lists: what several messages are made of. See [`super`] for the encoding.

use bytes::{Buf, BufMut, Bytes};

/// No count, index or size is larger than this, as in reports. So sums over many queues do not overflow.
const COUNT_MAX: u64 = 1 << 56;

pub(super) fn get_flag(bytes: &mut Bytes) -> Option<bool> {
    match bytes.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

pub(super) fn get_count(bytes: &mut Bytes) -> Option<u64> {
    bytes.try_get_u64_le().ok().filter(|count| *count <= COUNT_MAX)
}

pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    out.put_u32_le(text.len() as u32);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn get_text(bytes: &mut Bytes) -> Option<String> {
    String::from_utf8(get_bytes(bytes)?.into()).ok()
}

pub(super) fn get_bytes(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

pub(super) fn put_list<T>(items: &[T], out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    out.put_u32_le(items.len() as u32);
    items.iter().for_each(|item| put(item, out));
}

/// Reads a list. Each item takes at least one byte.
pub(super) fn get_list<T>(bytes: &mut Bytes, get: fn(&mut Bytes) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
    (count <= bytes.len()).then_some(())?;
    (0..count).map(|_| get(bytes)).collect()
}

pub(super) fn put_optional<T: ?Sized>(
    value: Option<&T>,
    out: &mut Vec<u8>,
    put: impl FnOnce(&T, &mut Vec<u8>),
) {
    out.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        put(value, out);
    }
}

pub(super) fn get_optional<T>(
    bytes: &mut Bytes,
    get: impl FnOnce(&mut Bytes) -> Option<T>,
) -> Option<Option<T>> {
    if get_flag(bytes)? { get(bytes).map(Some) } else { Some(None) }
}
