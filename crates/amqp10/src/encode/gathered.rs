//! A few bytes put together on the stack and appended in one piece.

use bytes::BytesMut;

/// At most `N` bytes, which whoever gathers them has counted: one more is a bug of ours, and panics.
///
/// A buffer that grows asks at every byte whether there is room. Here the compiler knows.
///
/// ```
/// let mut head = amqp10::encode::Gathered::<8>::new();
/// head.bytes(&[0x00, 0x53, 0x24]);
/// head.byte(0x45);
/// assert_eq!(head.as_slice(), [0x00, 0x53, 0x24, 0x45]);
/// ```
#[derive(Debug)]
pub struct Gathered<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Gathered<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Gathered<N> {
    #[inline]
    pub fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
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

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends what has been gathered.
    #[inline]
    pub fn put_into(&self, out: &mut BytesMut) {
        out.extend_from_slice(self.as_slice());
    }
}
