//! A small buffer of fixed size, for encoding a few bytes quickly.

use bytes::BytesMut;

/// At most `N` bytes. The caller has counted them; one byte more is a bug and panics.
///
/// A growable buffer checks its capacity for every byte. Here the compiler knows the capacity.
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
    /// Appends the bytes that `gather` writes. They are written directly to their final place, because
    /// copying bytes that were just written one by one would stall the processor.
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

    /// Adds one byte: a format code, or a value of one byte.
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

    /// Adds bytes whose length is known only at run time.
    #[inline]
    pub fn slice(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds a boolean in one byte.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.byte(if value { 0x41 } else { 0x42 });
    }

    /// Adds a uint in one, two or five bytes, as [`put_u32`](super::put_u32) writes it.
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

    /// Overwrites bytes at `at`, such as a size that is known only afterwards.
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
