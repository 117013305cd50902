//! The sequence numbers of the messages of a run, in a few bytes.

use ranges::Span;

/// Ascending sequence numbers. The position of a number is the count of the numbers before it.
///
/// Stored as the gap to each stretch of consecutive numbers, followed by the length of the stretch. Both are LEB128
/// numbers. So a run without gaps takes a few bytes, and a run of alternating priorities takes two bytes per message.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Seqs(Box<[u8]>);

impl Seqs {
    /// Returns whether there are no numbers. Only runs of quorum queues have some.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes [`Seqs::as_bytes`]. Returns `None` unless the bytes are `messages` ascending numbers that messages can
    /// have.
    pub fn decode(bytes: &[u8], messages: u32) -> Option<Self> {
        let (mut rest, mut next, mut count) = (bytes, 0u64, 0u64);
        while !rest.is_empty() {
            let (gap, length) = (take_number(&mut rest)?, take_number(&mut rest)?);
            let first = next.checked_add(gap).filter(|_| gap > 0)?;
            next = first.checked_add(length).filter(|_| length > 0)?;
            count = count.checked_add(length)?;
        }
        (count == u64::from(messages)).then(|| Self(bytes.into()))
    }

    /// Iterates over the stretches, each with the position of its first number.
    pub fn stretches(&self) -> impl Iterator<Item = (u32, Span)> {
        let (mut rest, mut next, mut position) = (&*self.0, 0, 0);
        std::iter::from_fn(move || {
            let (gap, length) = (take_number(&mut rest)?, take_number(&mut rest)?);
            let (at, first) = (position, next + gap);
            next = first + length;
            position += length as u32;
            Some((at, Span { first, last: next - 1 }))
        })
    }

    /// Returns the position of a number.
    pub fn position(&self, seq: u64) -> Option<u32> {
        self.positions(Span { first: seq, last: seq }).next().map(|(first, _)| first)
    }

    /// Iterates over the positions of the numbers in `span`, as inclusive ranges.
    pub fn positions(&self, span: Span) -> impl Iterator<Item = (u32, u32)> {
        let stretches = self.stretches().skip_while(move |(_, here)| here.last < span.first);
        stretches.take_while(move |(_, here)| here.first <= span.last).map(move |(at, here)| {
            let (first, last) = (here.first.max(span.first), here.last.min(span.last));
            (at + (first - here.first) as u32, at + (last - here.first) as u32)
        })
    }

    /// Iterates over the numbers from this position on, with their positions.
    pub fn from_position(&self, position: u32) -> impl Iterator<Item = (u32, u64)> {
        let numbers = self.stretches().flat_map(|(at, here)| (at..).zip(here.first..=here.last));
        numbers.skip_while(move |(at, _)| *at < position)
    }
}

impl FromIterator<u64> for Seqs {
    /// The numbers must ascend.
    fn from_iter<I: IntoIterator<Item = u64>>(seqs: I) -> Self {
        let mut bytes = Vec::new();
        let (mut next, mut open): (u64, Option<Span>) = (0, None);
        let mut close = |here: Span| {
            put_number(&mut bytes, here.first - next);
            put_number(&mut bytes, here.last - here.first + 1);
            next = here.last + 1;
        };
        for seq in seqs {
            match &mut open {
                Some(here) if here.last + 1 == seq => here.last = seq,
                _ => open.replace(Span { first: seq, last: seq }).into_iter().for_each(&mut close),
            }
        }
        open.into_iter().for_each(&mut close);
        Self(bytes.into())
    }
}

impl std::fmt::Debug for Seqs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.stretches().map(|(_, here)| here)).finish()
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_have_their_positions(numbers in prop::collection::btree_set(1..200u64, 0..60), span in (0..210u64, 0..40u64)) {
            let numbers: Vec<u64> = numbers.into_iter().map(|n| if n > 150 { n << 40 } else { n }).collect();
            let seqs: Seqs = numbers.iter().copied().collect();
            for seq in 0..210 {
                let position = numbers.binary_search(&seq).ok().map(|at| at as u32);
                prop_assert_eq!(seqs.position(seq), position);
            }
            let (first, last) = (span.0, span.0 + span.1);
            let inside = (0u32..).zip(&numbers).filter(|(_, n)| (first..=last).contains(*n)).map(|(at, _)| at);
            let positions = seqs.positions(Span { first, last }).flat_map(|(first, last)| first..=last);
            prop_assert!(positions.eq(inside));
            let from: Vec<u64> = seqs.from_position(3).map(|(_, seq)| seq).collect();
            prop_assert_eq!(&from[..], numbers.get(3..).unwrap_or_default());
            let decoded = Seqs::decode(seqs.as_bytes(), numbers.len() as u32);
            prop_assert_eq!(decoded, Some(seqs.clone()));
            prop_assert_eq!(Seqs::decode(seqs.as_bytes(), numbers.len() as u32 + 1), None);
        }

        #[test]
        fn any_bytes_are_refused_or_ascend(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            for messages in 0..300 {
                let Some(seqs) = Seqs::decode(&bytes, messages) else { continue };
                let numbers: Vec<u64> = seqs.from_position(0).map(|(_, seq)| seq).collect();
                prop_assert_eq!(numbers.len(), messages as usize);
                prop_assert!(numbers.is_sorted() && numbers.first() != Some(&0));
            }
        }
    }
}
