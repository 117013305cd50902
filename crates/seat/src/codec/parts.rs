//! The parts that several kinds of items have.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use message::{LastRoute, Message};

pub(super) fn get_u8(bytes: &mut Bytes) -> Option<u8> {
    bytes.try_get_u8().ok()
}

pub(super) fn get_u32(bytes: &mut Bytes) -> Option<u32> {
    bytes.try_get_u32_le().ok()
}

pub(super) fn get_u64(bytes: &mut Bytes) -> Option<u64> {
    bytes.try_get_u64_le().ok()
}

/// Takes as many bytes. The result shares them.
pub(super) fn take(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

/// Appends flags, from the lowest bit.
pub(super) fn put_flags<const N: usize>(flags: [bool; N], out: &mut Vec<u8>) {
    const { assert!(N <= 8) };
    out.put_u8(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
}

/// Unknown flags are refused: they would change the meaning of what follows.
pub(super) fn get_flags<const N: usize>(bytes: &mut Bytes) -> Option<[bool; N]> {
    let bits = get_u8(bytes)?;
    let known = bits.checked_shr(N as u32).unwrap_or(0) == 0;
    known.then(|| std::array::from_fn(|at| bits & 1 << at != 0))
}

pub(super) fn put_optional_u64(value: Option<u64>, out: &mut Vec<u8>) {
    put_flags([value.is_some()], out);
    value.into_iter().for_each(|value| out.put_u64_le(value));
}

pub(super) fn get_optional_u64(bytes: &mut Bytes) -> Option<Option<u64>> {
    let [is_there] = get_flags(bytes)?;
    if is_there { get_u64(bytes).map(Some) } else { Some(None) }
}

pub(super) fn put_optional_u32(value: Option<u32>, out: &mut Vec<u8>) {
    put_flags([value.is_some()], out);
    value.into_iter().for_each(|value| out.put_u32_le(value));
}

pub(super) fn get_optional_u32(bytes: &mut Bytes) -> Option<Option<u32>> {
    let [is_there] = get_flags(bytes)?;
    if is_there { get_u32(bytes).map(Some) } else { Some(None) }
}

/// Reads a number that is counted up from 1. There is always a next one.
pub(super) fn get_number(bytes: &mut Bytes) -> Option<u64> {
    get_u64(bytes).filter(|number| *number < u64::MAX)
}

pub(super) fn put_span(first: u64, last: u64, out: &mut Vec<u8>) {
    out.put_u64_le(first);
    out.put_u64_le(last);
}

pub(super) fn get_span(bytes: &mut Bytes) -> Option<(u64, u64)> {
    let (first, last) = (get_u64(bytes)?, get_number(bytes)?);
    (first <= last).then_some((first, last))
}

/// Appends bytes with their length. None of them is longer than a message, whose offsets are of 32 bits.
pub(super) fn put_bytes(content: &[u8], out: &mut Vec<u8>) {
    out.put_u32_le(content.len() as u32);
    out.extend_from_slice(content);
}

pub(super) fn get_bytes(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(get_u32(bytes)?).ok()?;
    take(bytes, length)
}

pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_bytes(text.as_bytes(), out);
}

pub(super) fn get_text(bytes: &mut Bytes) -> Option<Arc<str>> {
    let text = get_bytes(bytes)?;
    std::str::from_utf8(&text).ok().map(Arc::from)
}

/// Reads the number of the items that follow. `length_min` is the least number of bytes of an item, and at least 1.
pub(super) fn get_count(bytes: &mut Bytes, length_min: usize) -> Option<usize> {
    let count = usize::try_from(get_u32(bytes)?).ok()?;
    (count <= bytes.len() / length_min).then_some(count)
}

/// Appends the stored form of a message with its length.
pub(super) fn put_message(message: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_u32_le(0);
    message.put_stored_head(out);
    out.extend_from_slice(message.stored_tail());
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

pub(super) fn get_message(bytes: &mut Bytes, routes: &mut LastRoute) -> Option<Message> {
    Message::from_stored(get_bytes(bytes)?, routes).ok()
}
