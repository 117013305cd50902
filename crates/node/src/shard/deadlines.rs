//! Deadlines of many rows, in the order in which they are due.
//!
//! Each row has at most one entry and stores the time of that entry itself. If a deadline moves to a later
//! time, the entry stays where it is. The row is then visited too early and its entry is made again. So
//! normal traffic changes nothing here, and the number of entries is bounded by the number of rows.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

/// Deadlines, see the module. `K` identifies a row.
#[derive(Debug)]
pub(super) struct Deadlines<K>(BTreeSet<(u64, K)>);

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Copy + Ord> Deadlines<K> {
    /// Returns the time of the first entry, in milliseconds.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first().map(|(at_ms, _)| *at_ms)
    }

    /// Ensures that the row is visited no later than at `due_ms`. `noted_ms` is where the row stores the time
    /// of its entry.
    #[inline]
    pub(super) fn note(&mut self, row: K, noted_ms: &mut Option<NonZeroU64>, due_ms: Option<u64>) {
        if let Some(due_ms) = due_ms
            && noted_ms.is_none_or(|at_ms| due_ms < at_ms.get())
        {
            self.forget(row, noted_ms);
            // What is due at the time 0 is as due at 1.
            let due_ms = NonZeroU64::new(due_ms).unwrap_or(NonZeroU64::MIN);
            self.0.insert((due_ms.get(), row));
            *noted_ms = Some(due_ms);
        }
    }

    /// Removes the entry of a row.
    pub(super) fn forget(&mut self, row: K, noted_ms: &mut Option<NonZeroU64>) {
        if let Some(at_ms) = noted_ms.take() {
            self.0.remove(&(at_ms.get(), row));
        }
    }

    /// Takes at most `rows_max` entries that are due. The caller must clear the time stored in each of these
    /// rows.
    pub(super) fn take_due(&mut self, now_ms: u64, rows_max: usize) -> Vec<K> {
        let mut due = Vec::new();
        while due.len() < rows_max
            && let Some((at_ms, row)) = self.0.pop_first()
        {
            if at_ms > now_ms {
                self.0.insert((at_ms, row));
                break;
            }
            due.push(row);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_entry_and_is_never_visited_too_late() {
        let (mut deadlines, mut noted) = (Deadlines::default(), [None; 3]);
        for due_ms in [50, 70, 40, 60] {
            deadlines.note(0, &mut noted[0], Some(due_ms));
        }
        deadlines.note(1, &mut noted[1], Some(45));
        deadlines.note(2, &mut noted[2], None);
        assert_eq!((deadlines.first(), deadlines.0.len()), (Some(40), 2));
        assert_eq!(deadlines.take_due(39, 10), []);
        assert_eq!(deadlines.take_due(45, 1), [0], "no more than wanted");
        noted[0] = None;
        deadlines.note(0, &mut noted[0], Some(60));
        deadlines.forget(1, &mut noted[1]);
        assert_eq!(deadlines.take_due(100, 10), [0]);
        assert_eq!(deadlines.first(), None);
    }
}
