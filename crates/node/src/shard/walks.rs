//! How many rows a turn walks. A row is a queue, a stream, or a connection that is looked at because it is in a list, and
//! not because something has come for it.
//!
//! ```text
//!   the second is over ──> Walks::chores, tails ──┐
//!   a policy has changed ──> policies, exchanges ─┼──> Shard::walk, at the end of each turn ──> left? another turn
//!   alarm, stop ──> Walks::blocked, ending ───────┤
//!   the log is mostly garbage ──> an evacuation ──┤
//!   a pack is mostly garbage ──> Walks::sparse ───┤
//!   the desk asks for more than a turn may ───────┘
//! ```
//!
//! A walk keeps the place of its next row. Rows that come behind that place while it is under way need no visit: they are made
//! with what the walk brings.

use std::ops::Range;

use super::Shard;
use crate::questions::PLACES_PER_PART;

/// Rows that one turn walks, at most, so that sockets and queues do not wait for a walk. Whoever has more rows to walk goes on
/// in the next turn. A question of the desk takes at most half of them, so that walks go on.
pub(super) const ROWS_PER_TURN: usize = 2 * PLACES_PER_PART;

/// To match a name against so many policies takes about as long as another walk needs for a row.
const POLICIES_PER_ROW: usize = 16;

/// A walk over rows in the order of their places.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The place of the next row. `None`: no walk is under way.
    next: Option<usize>,
    /// Another round follows.
    again: bool,
}

impl Walk {
    /// Begins at the first row. If a walk is under way, it comes to its end first, so that those who begin all the time
    /// keep no row from its turn.
    pub fn begin(&mut self) {
        self.again = self.next.is_some_and(|place| place > 0);
        self.next.get_or_insert(0);
    }

    /// Begins, unless a walk is under way.
    pub fn begin_if_idle(&mut self) {
        self.next.get_or_insert(0);
    }

    pub fn is_under_way(&self) -> bool {
        self.next.is_some()
    }

    /// The next place to visit, of a table that has `len` places; `None` if there is none, or not in this turn.
    pub fn next(&mut self, len: usize, rows: &mut Rows) -> Option<usize> {
        let place = self.next?;
        if place >= len {
            self.next = std::mem::take(&mut self.again).then_some(0);
            return None;
        }
        if rows.left() == 0 {
            return None;
        }
        rows.count(1);
        self.next = Some(place + 1);
        Some(place)
    }

    /// The place that was visited last is visited once more: there is more to do than one turn may.
    pub fn stay(&mut self) {
        self.next = self.next.map(|place| place.saturating_sub(1));
    }

    /// The places to visit in this turn, of a table that has `len` places.
    pub fn part(&mut self, len: usize, rows: &mut Rows) -> Range<usize> {
        self.part_of_large(len, 1, rows)
    }

    /// As [`Walk::part`], of a table whose rows count as many as `each` others: so long does a visit take.
    pub fn part_of_large(&mut self, len: usize, each: usize, rows: &mut Rows) -> Range<usize> {
        let Some(from) = self.next else { return 0..0 };
        let left = rows.left();
        let to = len.min(from.saturating_add(left / each));
        rows.count(to.saturating_sub(from) * each);
        self.next = if to < len { Some(to) } else { std::mem::take(&mut self.again).then_some(0) };
        from..to
    }
}

/// The walks of a shard.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// Each second over queues: lets go of what was read and is not wanted, looks for runs that hold too much.
    pub chores: Walk,
    /// Over queues: looks for the runs in a pack that holds little.
    pub sparse: Walk,
    /// Over the catalog's queues: streams that have readers here keep less for them.
    pub tails: Walk,
    /// Over the catalog's queues: keeps their records up to date, and the settings of those that live here.
    pub policies: Walk,
    /// Over the catalog's exchanges: keeps their records up to date.
    pub exchanges: Walk,
    /// Over connections: publishing is stopped, or goes on.
    pub blocked: Walk,
    /// Over connections: the node stops.
    pub ending: Walk,
}

impl Walks {
    fn is_under_way(&self) -> bool {
        let Self { chores, sparse, tails, policies, exchanges, blocked, ending } = self;
        [chores, sparse, tails, policies, exchanges, blocked, ending].into_iter().any(Walk::is_under_way)
    }
}

impl Shard {
    /// Goes on with what is under way, as far as this turn may.
    pub(super) fn walk(&mut self) {
        if !self.is_walking() {
            return;
        }
        // Those that somebody waits for come first.
        self.walk_connections();
        self.walk_policies();
        self.walk_evacuation();
        self.walk_tails();
        self.walk_sparse();
        self.walk_chores();
    }

    /// Whether a walk is under way. Then another turn must come.
    pub fn is_walking(&self) -> bool {
        self.walks.is_under_way() || self.storage.is_evacuating() || self.desk.has_unanswered()
    }

    /// Whether there are connections that have not been told that publishing is stopped, or that the node stops.
    pub fn is_telling(&self) -> bool {
        self.walks.blocked.is_under_way() || self.walks.ending.is_under_way()
    }

    fn walk_policies(&mut self) {
        let catalog = self.metadata.catalog();
        let (queues, exchanges) = (catalog.queue_places(), catalog.exchange_places());
        let each = 1 + catalog.most_policies() / POLICIES_PER_ROW;
        for place in self.walks.policies.part_of_large(queues, each, &mut self.rows) {
            self.visit_for_policies(place);
        }
        for place in self.walks.exchanges.part_of_large(exchanges, each, &mut self.rows) {
            self.metadata.refresh_exchange_at(place);
        }
    }

    fn walk_chores(&mut self) {
        if !self.walks.chores.is_under_way() {
            return;
        }
        for place in self.walks.chores.part(self.queues.places(), &mut self.rows) {
            if let Some(slot) = self.queues.at_mut(place) {
                slot.fifo.forget_loaded();
                self.storage.forget_small(slot);
                self.storage.look_for_stuck(slot);
            }
        }
        if !self.walks.chores.is_under_way() {
            self.move_stuck();
        }
    }

    fn walk_tails(&mut self) {
        let catalog = self.metadata.catalog();
        for place in self.walks.tails.part(catalog.queue_places(), &mut self.rows) {
            if let Some(record) = catalog.queue_at(place).filter(|record| record.is_stream()) {
                self.streams.shrink_tail(record.id);
            }
        }
    }
}

/// The rows of this turn.
#[derive(Debug)]
pub(super) struct Rows {
    /// How many a turn may walk.
    max: usize,
    walked: usize,
    /// The most that one turn has walked.
    most: usize,
}

impl Default for Rows {
    fn default() -> Self {
        Self { max: ROWS_PER_TURN, walked: 0, most: 0 }
    }
}

impl Rows {
    /// How many more rows this turn may walk.
    pub fn left(&self) -> usize {
        self.max.saturating_sub(self.walked)
    }

    /// How many rows that are due this turn may look at: something is left for others, however many are due.
    pub fn left_for_due(&self) -> usize {
        self.left() / 2
    }

    /// Returns true if a question that looks at so many rows may be answered in this turn. The first one always may.
    pub fn have_room(&self, rows: usize) -> bool {
        self.walked == 0 || rows <= self.left_for_due()
    }

    /// Counts rows that are walked, also those that nothing bounds.
    pub fn count(&mut self, rows: usize) {
        self.walked += rows;
        self.most = self.most.max(self.walked);
    }

    /// From now on a turn walks so many rows.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
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
