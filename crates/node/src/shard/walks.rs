//! How many rows a turn walks. A row is a queue, a stream, or a connection that is looked at because it is in a list, and
//! not because something has come for it.

/// Rows that one turn walks, at most. A row takes some 100 ns to 2 us, so a turn is held up for 2 ms. Whoever has more rows
/// to walk goes on in the next turn.
pub(super) const ROWS_PER_TURN: usize = 1000;

/// The rows of this turn.
#[derive(Debug, Default)]
pub(super) struct Rows {
    walked: usize,
    /// The most that one turn has walked.
    most: usize,
}

impl Rows {
    /// How many more rows this turn may walk.
    pub fn left(&self) -> usize {
        ROWS_PER_TURN.saturating_sub(self.walked)
    }

    /// How many rows that are due this turn may look at: something is left for others, however many are due.
    pub fn left_for_due(&self) -> usize {
        self.left() / 2
    }

    /// Counts rows that are walked, also those that nothing bounds.
    pub fn count(&mut self, rows: usize) {
        self.walked += rows;
        self.most = self.most.max(self.walked);
    }

    /// The turn is over.
    pub fn end_turn(&mut self) {
        self.walked = 0;
    }

    /// The most rows that one turn has walked so far.
    pub fn most(&self) -> usize {
        self.most
    }
}
