//! A message that arrives in several transfers.

use bytes::Bytes;

/// A part grows while it is shorter than this number of bytes. After that a new part begins. A longer part
/// would take so long to copy each time it grows that it could block a shard, and many links can cause this
/// at once.
const PART_BYTES: usize = if cfg!(test) { 1024 } else { 64 * 1024 };

/// A part that must grow reserves this fraction of its length beyond what it needs. So a message takes little
/// more memory than it has bytes, and small transfers are copied only a few times each.
const SPARE_PART: usize = 8;

/// The received part of a message, whose total length is not known in advance.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    full: Vec<Vec<u8>>,
    /// The number of bytes in the full parts, and their capacity in bytes.
    full_bytes: usize,
    full_capacity: usize,
    last: Vec<u8>,
}

impl Parts {
    pub(crate) fn len(&self) -> usize {
        self.full_bytes + self.last.len()
    }

    /// Returns the bytes of memory that the message takes. This is at most an eighth more than the bytes
    /// received.
    pub(crate) fn capacity(&self) -> usize {
        self.full_capacity + self.last.capacity()
    }

    pub(crate) fn push(&mut self, payload: &[u8]) {
        let has_room = self.last.capacity() - self.last.len() >= payload.len();
        if !has_room && self.last.len() + payload.len() > PART_BYTES && !self.last.is_empty() {
            let full = std::mem::take(&mut self.last);
            self.full_bytes += full.len();
            self.full_capacity += full.capacity();
            self.full.push(full);
        }
        if !has_room {
            self.last.reserve_exact(payload.len() + self.last.len() / SPARE_PART);
        }
        self.last.extend_from_slice(payload);
    }

    /// Returns the complete message in one piece.
    pub(crate) fn join(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.into();
        }
        let mut whole = Vec::with_capacity(self.len());
        // Each part is freed as soon as it is copied, so that the message is not in memory twice.
        for part in self.full.into_iter().chain([self.last]) {
            whole.extend_from_slice(&part);
        }
        whole.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_equals_its_parts_and_takes_little_more_memory() {
        for sizes in [
            vec![],
            vec![1],
            vec![700, 700],
            vec![1025, 1],
            vec![1000, 1000, 1],
            vec![5000, 1, 0, 1023, 1024, 1025],
            vec![1; 3000],
            vec![90; 200],
        ] {
            let mut parts = Parts::default();
            let mut whole = Vec::new();
            for (number, size) in sizes.into_iter().enumerate() {
                let payload = vec![number as u8; size];
                parts.push(&payload);
                whole.extend(payload);
                assert_eq!(parts.len(), whole.len());
                let held = parts.full.iter().chain([&parts.last]).map(Vec::capacity).sum::<usize>();
                assert_eq!(parts.capacity(), held);
                assert!(held <= whole.len() + whole.len() / 8, "{held} for {}", whole.len());
            }
            assert_eq!(parts.join(), whole);
        }
    }

    #[test]
    fn parts_are_copied_only_while_they_are_short() {
        let mut parts = Parts::default();
        (0..1000).for_each(|_| parts.push(&[7; 90]));
        let longest = PART_BYTES + PART_BYTES / SPARE_PART;
        assert!(parts.full.iter().all(|part| part.len() > PART_BYTES - 90 && part.len() <= longest));
    }
}
