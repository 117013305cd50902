//! Merges consecutive numbers into ranges.
//!
//! Receipts, settlements and facts often carry the same value for many consecutive numbers. They arrive mostly in
//! order, so the newest range is extended if the next one continues it:
//!
//! ```text
//!   [1..=3 accepted] [4..=4 released]  +  [5..=5 released]  ->  [1..=3 accepted] [4..=5 released]
//! ```
//!
//! A type that implements [`Range`] decides what a range holds besides its numbers, and when two ranges may be joined.
//!
//! This crate does not handle overlapping ranges or ranges with gaps, and it does not search or split ranges.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// A range of consecutive numbers that share one value, for example a verdict or an outcome.
pub trait Range {
    /// Returns true if `next` starts immediately after this range and holds the same value.
    fn joins(&self, next: &Self) -> bool;

    /// Extends this range by `next`. The caller has checked that the two ranges join.
    fn lengthen(&mut self, next: &Self);

    /// Extends this range by `next` if the two ranges join. Returns true if they do.
    #[inline]
    fn join(&mut self, next: &Self) -> bool {
        let joins = self.joins(next);
        if joins {
            self.lengthen(next);
        }
        joins
    }
}

/// A list of ranges. The newest is the last.
pub trait Ranges<R> {
    /// Extends the last range by `next` if they join. Appends `next` otherwise.
    fn push_joined(&mut self, next: R);
}

impl<R: Range> Ranges<R> for Vec<R> {
    #[inline]
    fn push_joined(&mut self, next: R) {
        if !self.last_mut().is_some_and(|last| last.join(&next)) {
            self.push(next);
        }
    }
}

impl<R: Range> Ranges<R> for VecDeque<R> {
    #[inline]
    fn push_joined(&mut self, next: R) {
        if !self.back_mut().is_some_and(|last| last.join(&next)) {
            self.push_back(next);
        }
    }
}

/// Keeps only the newest range: extends it by `next` if they join, and replaces it otherwise. Returns the replaced
/// range, which is then complete.
#[inline]
pub fn replace_joined<R: Range>(newest: &mut Option<R>, next: R) -> Option<R> {
    if newest.as_mut().is_some_and(|newest| newest.join(&next)) { None } else { newest.replace(next) }
}

/// A range `first..=last` without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub first: u64,
    pub last: u64,
}

impl Range for Span {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        self.last + 1 == next.first
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A range of numbers with one colour.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Painted {
        span: Span,
        colour: u8,
    }

    impl Range for Painted {
        fn joins(&self, next: &Self) -> bool {
            self.span.joins(&next.span) && self.colour == next.colour
        }

        fn lengthen(&mut self, next: &Self) {
            self.span.lengthen(&next.span);
        }
    }

    /// Computes the expected ranges, number by number.
    fn ranges_of(model: &BTreeMap<u64, u8>) -> Vec<Painted> {
        let mut ranges: Vec<Painted> = Vec::new();
        for (&number, &colour) in model {
            match ranges.iter_mut().find(|range| range.span.last + 1 == number && range.colour == colour) {
                Some(range) => range.span.last = number,
                None => ranges.push(Painted { span: Span { first: number, last: number }, colour }),
            }
        }
        ranges
    }

    proptest! {
        /// Pushes ranges of any length in order, with and without gaps. The result has the fewest possible ranges.
        #[test]
        fn joined_ranges_cover_the_same_numbers_and_values(
            steps in vec((0u64..3, 1u64..5, 0u8..2), 0..100),
        ) {
            let (mut list, mut queue, mut newest) = (Vec::new(), VecDeque::new(), None);
            let (mut ended, mut model, mut number) = (Vec::new(), BTreeMap::new(), 0);
            for (gap, count, colour) in steps {
                let first = number + gap;
                number = first + count;
                model.extend((first..number).map(|number| (number, colour)));
                let next = Painted { span: Span { first, last: number - 1 }, colour };
                list.push_joined(next);
                queue.push_joined(next);
                ended.extend(replace_joined(&mut newest, next));
                let so_far: Vec<Painted> = ended.iter().copied().chain(newest).collect();
                let expected = ranges_of(&model);
                prop_assert_eq!(&list, &expected);
                prop_assert_eq!(Vec::from(queue.clone()), expected.clone());
                prop_assert_eq!(so_far, expected);
            }
        }

        /// Spans that are pushed out of order keep their order and cover the same numbers.
        #[test]
        fn spans_out_of_order_cover_the_same_numbers(numbers in vec(0u64..20, 0..40)) {
            let mut spans: Vec<Span> = Vec::new();
            for &number in &numbers {
                spans.push_joined(Span { first: number, last: number });
            }
            let covered: Vec<u64> = spans.iter().flat_map(|span| span.first..=span.last).collect();
            prop_assert_eq!(covered, numbers);
            prop_assert!(!spans.windows(2).any(|pair| pair[0].joins(&pair[1])));
        }
    }
}
