//! The memory of buffers with bytes of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// A memory budget for buffers. A buffer counts from its reservation until its last slice is dropped. So
/// bytes that were read count until they are sent, wherever they wait.
#[derive(Debug)]
pub struct BufferBudget {
    bytes: AtomicU64,
    limit: u64,
    /// The bytes that every part of the budget may hold in any case; see [`BufferBudget::new`].
    floor: u64,
    /// The larger budget of which this one is a part.
    of: Option<Arc<BufferBudget>>,
}

impl BufferBudget {
    /// Creates a budget of `limit` bytes. With `of` it is a part of that budget, and its bytes count there as
    /// well.
    ///
    /// Two rules let every reader make progress, even when the budget is used up:
    ///
    /// * A part that holds less than `floor` bytes has room for `floor` bytes more.
    /// * If the whole budget also holds less than `floor` bytes, it has room for a buffer of any size.
    pub fn new(limit: u64, floor: u64, of: Option<Arc<Self>>) -> Self {
        Self { bytes: AtomicU64::new(0), limit, floor, of }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns true if there is room for a buffer of `more` bytes, `reserved` of which are reserved already.
    pub fn has_room(&self, more: u64, reserved: u64) -> bool {
        let is_low = |held: &Self| held.bytes() < held.floor + reserved;
        let missing = more.saturating_sub(reserved);
        match &self.of {
            Some(of) if is_low(self) => more <= self.floor || is_low(of) || of.fits(missing),
            None if is_low(self) => true,
            _ => self.fits(missing),
        }
    }

    fn fits(&self, more: u64) -> bool {
        self.bytes() + more <= self.limit && self.of.as_ref().is_none_or(|of| of.fits(more))
    }

    /// Counts this many bytes until the returned value is dropped.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Reserved {
        self.add(bytes);
        Reserved { held: Arc::clone(self), bytes }
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.of.iter().for_each(|of| of.add(bytes));
    }

    fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.of.iter().for_each(|of| of.subtract(bytes));
    }
}

/// A number of bytes that count in a budget until this value is dropped.
#[derive(Debug)]
pub struct Reserved {
    held: Arc<BufferBudget>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.held.subtract(self.bytes);
    }
}

/// The budget whose memory a job takes.
#[derive(Clone, Debug)]
pub struct Claim {
    pub held: Arc<BufferBudget>,
    /// The bytes reserved for the job. A larger chunk is read only if there is room for it.
    pub reserved: u64,
}

/// A buffer that counts in a budget.
struct Counted {
    buffer: Vec<u8>,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// Returns the buffer as slices that count in the budget, if there is one, until the last one is dropped.
pub(super) fn counted(buffer: Vec<u8>, held: Option<&Arc<BufferBudget>>) -> Bytes {
    match held {
        Some(held) => {
            let reserved = held.reserve(buffer.capacity() as u64);
            Bytes::from_owner(Counted { buffer, _reserved: reserved })
        }
        None => buffer.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_counts_until_its_last_slice_is_dropped() {
        let node = Arc::new(BufferBudget::new(100, 10, None));
        let one = Arc::new(BufferBudget::new(60, 10, Some(node.clone())));
        let buffer = counted(vec![7; 40], Some(&one));
        let slice = buffer.slice(3..4);
        drop(buffer);
        assert_eq!((one.bytes(), node.bytes()), (40, 40));
        assert!(one.has_room(20, 0) && !one.has_room(21, 0) && one.has_room(50, 30));
        let other = Arc::new(BufferBudget::new(60, 10, Some(node.clone())));
        let reserved = other.reserve(60);
        assert!(!one.has_room(1, 0), "the whole budget has no room");
        assert_eq!(node.bytes(), 100);
        drop(slice);
        let rest = other.reserve(40);
        assert!(one.has_room(10, 0) && !one.has_room(11, 0), "an empty part has room for a little");
        drop((reserved, rest));
        assert!(one.has_room(1000, 0), "and for anything if it is the only one");
        assert_eq!((one.bytes(), other.bytes(), node.bytes()), (0, 0, 0));
    }
}
