use bytes::BytesMut;

/// Appends numbers and bytes to a buffer, as [`bytes::BufMut`] does, but inline.
///
/// Each method of `BufMut` for [`BytesMut`] calls a function of the crate `bytes` that is not marked for inlining. Then a number of a byte
/// costs a call and a copy of unknown length, unless an optimisation over all crates happens to inline it.
pub trait Put {
    /// Appends bytes.
    fn put_slice(&mut self, bytes: &[u8]);

    /// Appends a byte.
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put_slice(&[value]);
    }

    /// Appends a number of two bytes in network order.
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put_slice(&value.to_be_bytes());
    }

    /// Appends a number of four bytes in network order.
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put_slice(&value.to_be_bytes());
    }

    /// Appends a number of eight bytes in network order.
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.put_slice(&value.to_be_bytes());
    }
}

impl Put for BytesMut {
    #[inline]
    fn put_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
