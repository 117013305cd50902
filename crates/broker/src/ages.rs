//! How long the oldest of numbered messages waits, without a time for each of them (docs/decisions/0031 has the same idea).
//!
//! Once per second a mark notes how far the numbers have come. The age of a message is that of the last mark before it. So the
//! age is never too small. It is too large by a second at most, or by a part of itself after marks were dropped.

use std::collections::VecDeque;

/// The shortest time between two marks, in milliseconds. Within it, a message costs one comparison.
const STEP_MS: u64 = 1000;

/// The most marks. When there are more, the one that matters least is dropped: its age differs least from that of the mark before
/// it, in proportion. With 32 marks in a day, two neighbours differ by less than half.
const MARKS_MAX: usize = 32;

/// Marks of the numbers of messages that wait. The numbers grow.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    marks: VecDeque<Mark>,
    /// When the next mark is due.
    next_ms: u64,
}

/// The message `first` is the first one from `at_ms` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    first: u64,
    at_ms: u64,
}

impl Ages {
    /// Called when the message `number` begins to wait. `oldest` returns the oldest message that waited before, if one did. It is
    /// called at most once per second.
    #[inline]
    pub(crate) fn note(&mut self, number: u64, now_ms: u64, oldest: impl FnOnce() -> Option<u64>) {
        if self.next_ms <= now_ms {
            self.mark(number, now_ms, oldest());
        }
    }

    #[cold]
    fn mark(&mut self, number: u64, now_ms: u64, oldest: Option<u64>) {
        match oldest {
            Some(oldest) => drop(self.marks.drain(..self.position(oldest))),
            None => self.marks.clear(),
        }
        if self.marks.len() == MARKS_MAX {
            self.drop_one(now_ms);
        }
        self.marks.push_back(Mark { first: number, at_ms: now_ms });
        self.next_ms = now_ms.saturating_add(STEP_MS);
    }

    /// Drops the mark that matters least, but not the first one.
    fn drop_one(&mut self, now_ms: u64) {
        let age = |at: usize| self.marks.get(at).map_or(0, |mark| now_ms.saturating_sub(mark.at_ms)) as f64;
        let growth = |at: &usize| age(at - 1) / age(*at).max(1.0);
        let least = (1..self.marks.len()).min_by(|a, b| growth(a).total_cmp(&growth(b)));
        least.map(|at| self.marks.remove(at));
    }

    /// Returns the age of the message `oldest`, in milliseconds.
    pub(crate) fn age_ms(&self, oldest: u64, now_ms: u64) -> u64 {
        self.marks.get(self.position(oldest)).map_or(0, |mark| now_ms.saturating_sub(mark.at_ms))
    }

    /// Returns the position of the last mark that is not behind a message.
    fn position(&self, number: u64) -> usize {
        self.marks.partition_point(|mark| mark.first <= number).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_idle_publisher_has_no_old_marks() {
        let mut ages = Ages::default();
        ages.note(1, 0, || None);
        ages.note(2, 100, || panic!("asked twice in a second"));
        assert_eq!((ages.age_ms(1, 300), ages.age_ms(2, 300)), (300, 300));
        // Both were confirmed, and the next message comes later.
        ages.note(3, 90_000, || None);
        assert_eq!((ages.age_ms(3, 90_500), ages.marks.len()), (500, 1));
        assert_eq!(Ages::default().age_ms(7, 9), 0);
    }

    proptest! {
        /// Messages begin to wait at any time, and stop waiting in any order. An age is never too small, and too large by
        /// seconds or by a part of itself only.
        #[test]
        fn ages_are_about_right(steps in prop::collection::vec((0u64..5_000, any::<prop::sample::Index>(), 0usize..3), 1..400)) {
            let (mut ages, mut waiting, mut now_ms) = (Ages::default(), Vec::<(u64, u64)>::new(), 0);
            for (number, (pause_ms, at, gone)) in steps.into_iter().enumerate() {
                now_ms += pause_ms;
                let number = number as u64;
                let oldest = waiting.first().map(|(first, _)| *first);
                ages.note(number, now_ms, || oldest);
                waiting.push((number, now_ms));
                // The oldest one stays for a while.
                for _ in 0..gone.min(waiting.len() - 1) {
                    let at = 1 + at.index(waiting.len() - 1).min(waiting.len() - 2);
                    waiting.remove(at);
                    if waiting.len() < 2 { break }
                }
                if number % 97 == 96 { waiting.clear() }
                let Some(&(oldest, since_ms)) = waiting.first() else { continue };
                let (age_ms, real_ms) = (ages.age_ms(oldest, now_ms), now_ms - since_ms);
                prop_assert!(age_ms >= real_ms, "{age_ms} ms instead of {real_ms}");
                prop_assert!(age_ms <= 2 * (real_ms + STEP_MS), "{age_ms} ms instead of {real_ms}");
                prop_assert!(ages.marks.len() <= MARKS_MAX);
            }
        }
    }
}
