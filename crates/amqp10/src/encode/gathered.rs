//! A few bytes put together in one place.

use bytes::BytesMut;

/// At most `N` bytes, which whoever gathers them has counted: one more is a bug of ours, and panics.
///
/// A buffer that grows asks at every byte whether there is room. Here the compiler knows.
///
/// ```
/// let mut out = bytes::BytesMut::new();
/// amqp10::encode::Gathered::<8>::append(&mut out, |head| {
///     head.bytes(&[0x00, 0x53, 0x24]);
///     head.byte(0x45);
/// });
/// assert_eq!(out[..], [0x00, 0x53, 0x24, 0x45]);
/// ```
#[derive(Debug)]
pub struct Gathered<'a, const N: usize> {
    bytes: &'a mut [u8; N],
    len: usize,
}

impl<const N: usize> Gathered<'_, N> {
    /// Appends what `gather` gathers, put together where it stays: to copy bytes that were written one by one just now has
    /// the processor wait for them.
    #[inline]
    pub fn append(out: &mut BytesMut, gather: impl FnOnce(&mut Gathered<'_, N>)) {
        let at = out.len();
        out.resize(at + N, 0);
        if let Some(bytes) = out[at..].first_chunk_mut() {
            let mut gathered = Gathered { bytes, len: 0 };
            gather(&mut gathered);
            let len = gathered.len;
            out.truncate(at + len);
        }
    }

    /// One byte: a format code, or a value that is one.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    pub fn bytes<const M: usize>(&mut self, bytes: &[u8; M]) {
        self.bytes[self.len..self.len + M].copy_from_slice(bytes);
        self.len += M;
    }

    /// Bytes of a length that only shows when it runs.
    #[inline]
    pub fn slice(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// A boolean in one byte.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.byte(if value { 0x41 } else { 0x42 });
    }

    /// A uint in one, two or five bytes, as [`put_u32`](super::put_u32) writes it.
    #[inline]
    pub fn uint(&mut self, value: u32) {
        match value {
            0 => self.byte(0x43),
            1..=0xff => self.bytes(&[0x52, value as u8]),
            _ => {
                self.byte(0x70);
                self.bytes(&value.to_be_bytes());
            }
        }
    }

    /// Overwrites what was gathered at `at`, such as a size that is known only now.
    #[inline]
    pub fn overwrite<const M: usize>(&mut self, at: usize, bytes: &[u8; M]) {
        self.bytes[at..at + M].copy_from_slice(bytes);
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
