//! Bounds the number of rows that a turn walks. A row is a queue, a stream, or a connection that is visited
//! because it is in a list, and not because something arrived for it.
//!
//! ```text
//!   a second has passed ─────> Walks::chores, tails ──┐
//!   a policy has changed ────> policies, exchanges ───┤
//!   users have changed ──────> Walks::rights ─────────┤
//!   alarm, stop ─────────────> Walks::blocked, ending ┤   Shard::walk,
//!   the log is mostly dead ──> an evacuation ─────────┼─> at the end of each turn ──> left? another turn
//!   a pack is mostly dead ───> Walks::sparse ─────────┤
//!   a large admin question ────────────────────────────┘
//! ```
//!
//! An evacuation copies live records out of an old log file. A walk stores the place of its next row. Rows
//! that are added after that place need no visit, because they already have what the walk brings.

use std::ops::Range;

use super::Shard;
use crate::shard::questions::PLACES_PER_PART;

/// The most rows that one turn walks, so that sockets and queues do not wait for a walk. Longer walks
/// continue in the next turn. A question of the admin API may use at most half of them, so that walks progress.
pub(super) const ROWS_PER_TURN: usize = 2 * PLACES_PER_PART;

/// Matching a name against this many policies takes about as long as a row of another walk.
const POLICIES_PER_ROW: usize = 16;

/// This many steps of patterns ([`catalog::pattern::Pattern::steps`]) take at most about 10 times as long as a row of another walk, and
/// usually less than that row: a pattern seldom takes all of its steps.
const POLICY_STEPS_PER_ROW: u64 = 1024;

/// A walk over rows in the order of their places.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The place of the next row; `None` while no walk is in progress.
    next: Option<usize>,
    /// True if another round follows this one.
    again: bool,
}

impl Walk {
    /// Begins at the first row. A walk in progress first runs to its end and then starts again. So
    /// callers that begin repeatedly cannot keep it from the last rows.
    pub(super) fn begin(&mut self) {
        self.again = self.next.is_some_and(|place| place > 0);
        self.next.get_or_insert(0);
    }

    /// Begins, unless a walk is in progress.
    pub(super) fn begin_if_idle(&mut self) {
        self.next.get_or_insert(0);
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the next place to visit in a table of `len` places. Returns `None` at the end of the table, or
    /// if this turn has no rows left.
    pub(super) fn next(&mut self, len: usize, rows: &mut Rows) -> Option<usize> {
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

    /// Makes the walk visit its last place once more, because more work is left there than one turn may do.
    pub(super) fn stay(&mut self) {
        self.next = self.next.map(|place| place.saturating_sub(1));
    }

    /// Returns the places to visit in this turn, of a table of `len` places.
    pub(super) fn part(&mut self, len: usize, rows: &mut Rows) -> Range<usize> {
        self.part_of_large(len, 1, rows)
    }

    /// Returns the places to visit like [`Walk::part`], for a table with large rows. Each counts as `each`
    /// rows, because a visit takes that much longer. Visits at least one if the turn has any row left, however large it is.
    pub(super) fn part_of_large(&mut self, len: usize, each: usize, rows: &mut Rows) -> Range<usize> {
        let Some(from) = self.next else { return 0..0 };
        let left = rows.left();
        let visits = (left / each).max(usize::from(left > 0));
        let to = len.min(from.saturating_add(visits));
        rows.count((to.saturating_sub(from) * each).min(left));
        self.next = if to < len { Some(to) } else { std::mem::take(&mut self.again).then_some(0) };
        from..to
    }
}

/// The walks of a shard.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// The walk over queues that begins each second. It frees loaded messages that nobody needs, and looks
    /// for runs that pin too much.
    pub chores: Walk,
    /// The walk over queues that looks for runs in a pack that is mostly dead.
    pub sparse: Walk,
    /// The walk over the catalog's queues that shrinks what streams retain in memory for readers here.
    pub tails: Walk,
    /// The walk over the catalog's queues that refreshes their records, and the settings of those that live
    /// here.
    pub policies: Walk,
    /// The walk over the catalog's exchanges that refreshes their records.
    pub exchanges: Walk,
    /// The walk over connections that notifies them that publishing is stopped or may continue.
    pub blocked: Walk,
    /// The walk over connections that notifies them that the node stops.
    pub ending: Walk,
    /// The walk over connections that ends those whose users may no longer use what they use.
    pub rights: Walk,
}

impl Walks {
    fn is_under_way(&self) -> bool {
        // Asked several times a turn: an iterator over them takes ten times as many instructions.
        let Self { chores, sparse, tails, policies, exchanges, blocked, ending, rights } = self;
        chores.is_under_way()
            || sparse.is_under_way()
            || tails.is_under_way()
            || policies.is_under_way()
            || exchanges.is_under_way()
            || blocked.is_under_way()
            || ending.is_under_way()
            || rights.is_under_way()
    }
}

impl Shard {
    /// Continues the walks in progress, as far as this turn may.
    pub(super) fn walk(&mut self) {
        if !self.is_walking() {
            return;
        }
        // Walks that somebody waits for come first.
        self.walk_connections();
        self.walk_policies();
        self.walk_evacuation();
        self.walk_tails();
        self.walk_sparse();
        self.walk_chores();
    }

    /// Returns true if a walk is in progress and another turn is needed.
    pub fn is_walking(&self) -> bool {
        self.walks.is_under_way() || self.storage.is_evacuating() || self.admin_api.has_unanswered()
    }

    /// Returns true if some connections have not been told yet that publishing is stopped, or that the node
    /// stops.
    pub fn is_notifying(&self) -> bool {
        self.walks.blocked.is_under_way() || self.walks.ending.is_under_way()
    }

    fn walk_policies(&mut self) {
        let catalog = self.metadata.catalog();
        let (queues, exchanges) = (catalog.queue_places(), catalog.exchange_places());
        let steps = catalog.most_policy_steps() / POLICY_STEPS_PER_ROW;
        let each = 1
            + (catalog.most_policies() / POLICIES_PER_ROW)
                .max(usize::try_from(steps).unwrap_or(ROWS_PER_TURN));
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
                if slot.group.as_mut().is_some_and(|group| group.engine.rest_if_quiet()) {
                    slot.shrink();
                }
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

/// The rows that this turn has walked.
#[derive(Debug)]
pub(super) struct Rows {
    /// The most rows that a turn may walk.
    max: usize,
    walked: usize,
    /// The most rows that one turn has walked so far.
    most: usize,
}

impl Default for Rows {
    fn default() -> Self {
        Self { max: ROWS_PER_TURN, walked: 0, most: 0 }
    }
}

impl Rows {
    /// Returns the number of rows that this turn may still walk.
    pub(super) fn left(&self) -> usize {
        self.max.saturating_sub(self.walked)
    }

    /// Returns the number of due rows that this turn may visit. It is half of what is left, so that walks
    /// progress however many rows are due.
    pub(super) fn left_for_due(&self) -> usize {
        self.left() / 2
    }

    /// Returns true if a question that visits this many rows may be answered in this turn. The first one
    /// always may.
    pub(super) fn have_room(&self, rows: usize) -> bool {
        self.walked == 0 || rows <= self.left_for_due()
    }

    /// Counts rows that were walked. They count even if nothing bounds their number.
    pub(super) fn count(&mut self, rows: usize) {
        self.walked += rows;
        self.most = self.most.max(self.walked);
    }

    /// Sets the most rows that a turn walks.
    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Called at the end of a turn.
    pub(super) fn end_turn(&mut self) {
        self.walked = 0;
    }

    /// Returns the most rows that one turn has walked so far.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}
