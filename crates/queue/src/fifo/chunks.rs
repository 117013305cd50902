//! A deque made of chunks.

use std::collections::VecDeque;

/// The number of elements in a chunk.
const CHUNK: usize = if cfg!(test) { 4 } else { 256 };

/// A deque that grows without copying its elements and frees its memory chunk by chunk.
pub(super) struct Chunks<T> {
    /// No chunk is empty.
    chunks: VecDeque<VecDeque<T>>,
    /// The memory of an emptied chunk, for reuse. A queue whose length is stable does not allocate.
    spare: VecDeque<T>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), spare: VecDeque::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.chunks.front()?.front()
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.chunks.back()?.back()
    }

    pub(super) fn push_back(&mut self, element: T) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push_back(element),
            _ => {
                let mut chunk = self.fresh();
                chunk.push_back(element);
                self.chunks.push_back(chunk);
            }
        }
    }

    pub(super) fn push_front(&mut self, element: T) {
        self.len += 1;
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push_front(element),
            _ => {
                let mut chunk = self.fresh();
                chunk.push_front(element);
                self.chunks.push_front(chunk);
            }
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let chunk = self.chunks.front_mut()?;
        let element = chunk.pop_front();
        self.len -= 1;
        if chunk.is_empty()
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.spare = chunk;
        }
        element
    }

    /// Removes the first element for which `before` is false, if `is` is true for it.
    pub(super) fn remove(&mut self, before: impl Fn(&T) -> bool, is: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.chunk_of(&before);
        let chunk = self.chunks.get_mut(at)?;
        let place = chunk.partition_point(&before);
        let element = chunk.get(place).is_some_and(is).then(|| chunk.remove(place))??;
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        Some(element)
    }

    /// Splits off all elements from the first one for which `before` is false.
    pub(super) fn split_off(&mut self, before: impl Fn(&T) -> bool) -> Self {
        let at = self.chunk_of(&before);
        let mut behind = Self { chunks: self.chunks.split_off(at), ..Self::default() };
        if let Some(chunk) = behind.chunks.front_mut() {
            let from = chunk.partition_point(&before);
            let rest = chunk.split_off(from);
            let kept = std::mem::replace(chunk, rest);
            if !kept.is_empty() {
                self.chunks.push_back(kept);
            }
        }
        behind.len = behind.chunks.iter().map(VecDeque::len).sum();
        self.len -= behind.len;
        behind
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }

    /// Iterates from the first element for which `before` is false. Finds it by binary search.
    pub(super) fn iter_from(&self, before: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let at = self.chunk_of(&before);
        let from = self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(&before));
        self.chunks.range(at..).flatten().skip(from)
    }

    /// Returns the first chunk that has an element for which `before` is false.
    fn chunk_of(&self, before: impl Fn(&T) -> bool) -> usize {
        self.chunks.partition_point(|chunk| chunk.back().is_some_and(&before))
    }

    /// Returns an empty chunk. The first chunk grows with the queue, because most queues are short. Later
    /// ones have full capacity.
    fn fresh(&mut self) -> VecDeque<T> {
        let chunk = std::mem::take(&mut self.spare);
        match chunk.capacity() == 0 && !self.chunks.is_empty() {
            true => VecDeque::with_capacity(CHUNK),
            false => chunk,
        }
    }
}

impl<T> IntoIterator for Chunks<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<VecDeque<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.into_iter().flatten()
    }
}

impl<T> Extend<T> for Chunks<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push_back(element));
    }
}

impl<T> FromIterator<T> for Chunks<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut chunks = Self::default();
        chunks.extend(elements);
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &Chunks<u32>, expected: impl IntoIterator<Item = u32>) {
        let expected: Vec<u32> = expected.into_iter().collect();
        assert_eq!(chunks.iter().copied().collect::<Vec<_>>(), expected);
        assert_eq!((chunks.len(), chunks.is_empty()), (expected.len(), expected.is_empty()));
        assert_eq!((chunks.front(), chunks.back()), (expected.first(), expected.last()));
        assert!(chunks.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
    }

    #[test]
    fn elements_stay_in_order_at_both_ends() {
        let mut chunks: Chunks<u32> = (10..20).collect();
        (0..10).rev().for_each(|n| chunks.push_front(n));
        check(&chunks, 0..20);
        for n in 0..20 {
            assert_eq!(chunks.pop_front(), Some(n));
            check(&chunks, n + 1..20);
        }
        assert_eq!(chunks.pop_front(), None);
        chunks.push_back(7);
        check(&chunks, [7]);
    }

    #[test]
    fn it_splits_and_searches_at_any_position() {
        for cut in 0..=11 {
            let mut chunks: Chunks<u32> = (0..11).collect();
            assert!(chunks.iter_from(|n| *n < cut).copied().eq(cut..11));
            let behind = chunks.split_off(|n| *n < cut);
            check(&chunks, 0..cut);
            check(&behind, cut..11);
            let removed = chunks.remove(|n| *n < cut / 2, |n| *n == cut / 2);
            assert_eq!(removed, (cut > 0).then_some(cut / 2));
            check(&chunks, (0..cut).filter(|n| *n != cut / 2));
            assert_eq!(chunks.remove(|n| *n < cut / 2, |n| *n == cut / 2), None);
            assert!(behind.into_iter().eq(cut..11));
        }
    }

    #[test]
    fn an_emptied_chunk_is_reused() {
        let mut chunks: Chunks<u32> = (0..4).collect();
        for n in 4..100 {
            chunks.push_back(n);
            chunks.pop_front();
            assert!(chunks.chunks.len() <= 2);
            assert!(
                chunks.spare.capacity() + chunks.chunks.iter().map(VecDeque::capacity).sum::<usize>() <= 12
            );
        }
    }
}
