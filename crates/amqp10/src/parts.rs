//! A message that comes in several transfers.

use bytes::{Bytes, BytesMut};

/// What has come is copied while it is shorter than this, to make room for more. Beyond it a new part is begun: to copy
/// 8 MiB holds a shard for milliseconds, and many links can ask for that at once.
const PART_BYTES: usize = if cfg!(test) { 1024 } else { 1024 * 1024 };

/// What has come of a message. Nobody says in advance how long it will be.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    full: Vec<BytesMut>,
    /// Bytes of the full ones.
    full_bytes: usize,
    last: BytesMut,
}

impl Parts {
    pub fn len(&self) -> usize {
        self.full_bytes + self.last.len()
    }

    pub fn push(&mut self, payload: &[u8]) {
        let has_room = self.last.capacity() - self.last.len() >= payload.len();
        if !has_room && self.last.len() + payload.len() > PART_BYTES && !self.last.is_empty() {
            let next = BytesMut::with_capacity(PART_BYTES.max(payload.len()));
            self.full_bytes += self.last.len();
            self.full.push(std::mem::replace(&mut self.last, next));
        }
        self.last.extend_from_slice(payload);
    }

    /// The whole message, in one piece.
    pub fn join(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.freeze();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        // Each part goes as soon as it is copied.
        for part in self.full.into_iter().chain([self.last]) {
            whole.extend_from_slice(&part);
        }
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_what_came_whatever_the_parts() {
        for sizes in [vec![], vec![1], vec![700, 700], vec![5000, 1, 0, 1023, 1024, 1025], vec![90; 200]] {
            let mut parts = Parts::default();
            let mut whole = Vec::new();
            for (number, size) in sizes.into_iter().enumerate() {
                let payload = vec![number as u8; size];
                parts.push(&payload);
                whole.extend(payload);
                assert_eq!(parts.len(), whole.len());
            }
            assert_eq!(parts.join(), whole);
        }
    }

    #[test]
    fn what_has_come_is_copied_only_while_it_is_short() {
        let mut parts = Parts::default();
        (0..1000).for_each(|_| parts.push(&[7; 90]));
        let capacities = parts.full.iter().chain([&parts.last]).map(BytesMut::capacity);
        assert!(capacities.clone().all(|capacity| capacity <= 2 * PART_BYTES));
        assert!(capacities.sum::<usize>() <= parts.len() + parts.len() / 8 + 2 * PART_BYTES);
    }
}
