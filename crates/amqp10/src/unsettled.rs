//! Deliveries that we sent and the receiver has not settled, by delivery-id [2.6.12].

use std::collections::BTreeMap;

use ranges::{Range, Ranges};

use crate::serial;

/// Consecutive deliveries of one link with consecutive cookies. A DISPOSITION range resolves to runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub link: u32,
    /// The first delivery-id, a serial number.
    pub first_id: u32,
    pub last_id: u32,
    /// The sender's numbers for these deliveries, consecutive like the ids.
    pub first_cookie: u64,
    pub last_cookie: u64,
}

impl Range for Run {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        (self.link, self.last_id.wrapping_add(1), self.last_cookie + 1)
            == (next.link, next.first_id, next.first_cookie)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        (self.last_id, self.last_cookie) = (next.last_id, next.last_cookie);
    }
}

/// The unsettled deliveries, stored as runs, because they are sent and mostly settled in runs. Memory grows
/// with the number of gaps between the runs, not with the number of deliveries.
///
/// Inside, an id is converted to a place, which never wraps. Ids in use span less than 2^32 [2.8.10].
#[derive(Debug)]
pub struct Unsettled {
    /// The place of the next delivery that will be sent.
    end: u64,
    /// The run that the next delivery may lengthen. Empty if it was settled.
    newest: Span,
    /// The runs before `newest`, by their first place.
    older: BTreeMap<u64, Span>,
    len: usize,
}

/// A run of deliveries at the places `first..end`.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: u64,
    end: u64,
    link: u32,
    first_cookie: u64,
}

impl Span {
    fn len(&self) -> u64 {
        self.end - self.first
    }

    /// Returns the part of this run that lies within the places `first..end`.
    fn within(&self, first: u64, end: u64) -> Self {
        let first = first.clamp(self.first, self.end);
        let first_cookie = self.first_cookie + (first - self.first);
        Self { first, end: end.clamp(first, self.end), link: self.link, first_cookie }
    }
}

impl Range for Span {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        self.end == next.first
            && self.link == next.link
            && self.first_cookie + self.len() == next.first_cookie
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.end = next.end;
    }
}

impl Default for Unsettled {
    fn default() -> Self {
        // An id that the peer invents is up to 2^32 before the first one, so places start that high.
        Self { end: TURN, newest: Span::default(), older: BTreeMap::new(), len: 0 }
    }
}

/// Ids are places modulo this number.
const TURN: u64 = 1 << 32;

impl Unsettled {
    /// The number of unsettled deliveries.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the delivery with the next id. `entry` is `None` if it is sent settled.
    pub fn push(&mut self, id: u32, entry: Option<(u32, u64)>) {
        if self.is_empty() {
            self.end = TURN + u64::from(id);
        }
        debug_assert_eq!(id, self.end as u32);
        let place = self.end;
        self.end += 1;
        let Some((link, cookie)) = entry else { return };
        self.len += 1;
        let next = Span { first: place, end: place + 1, link, first_cookie: cookie };
        if !self.newest.join(&next) {
            let before = std::mem::replace(&mut self.newest, next);
            self.keep(before);
        }
    }

    /// Appends the known deliveries of `first..=last` to `runs`, and removes them if `settle`. Unknown ids
    /// are skipped. The cost depends on the number of known runs only.
    pub fn resolve(&mut self, first: u32, last: u32, settle: bool, runs: &mut Vec<Run>) {
        let Ok(more) = u64::try_from(serial::distance(last, first)) else { return };
        // The peer can only mean ids that were sent already, so the first id is in the past. The end of the
        // range may lie beyond the newest id.
        let newest = self.end - 1;
        let first = newest - u64::from((newest as u32).wrapping_sub(first));
        let end = first + more + 1;
        if !self.older.is_empty() {
            let before = self.older.range(..first).next_back().map(|(at, _)| *at);
            let hits: Vec<u64> =
                before.into_iter().chain(self.older.range(first..end).map(|(at, _)| *at)).collect();
            for at in hits {
                let Some(span) = self.older.get(&at).copied() else { continue };
                let hit = span.within(first, end);
                append(runs, hit);
                if settle && hit.len() > 0 {
                    self.older.remove(&at);
                    self.len -= hit.len() as usize;
                    self.keep(span.within(0, hit.first));
                    self.keep(span.within(hit.end, u64::MAX));
                }
            }
        }
        let hit = self.newest.within(first, end);
        append(runs, hit);
        if settle && hit.len() > 0 {
            self.len -= hit.len() as usize;
            self.keep(self.newest.within(0, hit.first));
            self.newest = self.newest.within(hit.end, u64::MAX);
        }
    }

    /// Appends to `runs` the deliveries of a link whose cookies are in `first..=last`. The cost depends on the number of
    /// known runs.
    pub fn find(&self, link: u32, first: u64, last: u64, runs: &mut Vec<Run>) {
        for span in self.older.values().chain([&self.newest]).filter(|span| span.link == link) {
            // A place within the run is as far from the first place as its cookie is from the first cookie.
            let place = |cookie: u64| span.first + cookie.saturating_sub(span.first_cookie);
            if last >= span.first_cookie {
                append(runs, span.within(place(first), place(last) + 1));
            }
        }
    }

    /// Returns the cookie of the oldest delivery of a link. The cost depends on the number of known runs.
    pub fn oldest(&self, link: u32) -> Option<u64> {
        let mut spans = self.older.values().chain([&self.newest]);
        spans.find(|span| span.link == link && span.len() > 0).map(|span| span.first_cookie)
    }

    /// Drops the deliveries of a detached link.
    pub fn forget_link(&mut self, link: u32) {
        self.older.retain(|_, span| span.link != link);
        if self.newest.link == link {
            self.newest = Span::default();
        }
        self.len = self.older.values().chain([&self.newest]).map(|span| span.len() as usize).sum();
    }

    fn keep(&mut self, span: Span) {
        if span.len() > 0 {
            self.older.insert(span.first, span);
        }
    }
}

fn append(runs: &mut Vec<Run>, span: Span) {
    let Span { first, end, link, first_cookie } = span;
    if first == end {
        return;
    }
    let last_cookie = first_cookie + (end - first - 1);
    let (first_id, last_id) = (first as u32, (end - 1) as u32);
    runs.push_joined(Run { link, first_id, last_id, first_cookie, last_cookie });
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn runs(unsettled: &mut Unsettled, first: u32, last: u32) -> Vec<(u32, u64, u64)> {
        let mut runs = Vec::new();
        unsettled.resolve(first, last, true, &mut runs);
        runs.iter().map(|r| (r.link, r.first_cookie, r.last_cookie)).collect()
    }

    #[test]
    fn ranges_split_by_link_and_wrap() {
        let mut unsettled = Unsettled::default();
        let start = u32::MAX - 2;
        for i in 0..6u32 {
            let link = if i == 3 { 9 } else { 1 };
            unsettled.push(start.wrapping_add(i), Some((link, 100 + u64::from(i))));
        }
        assert_eq!(
            runs(&mut unsettled, start, start.wrapping_add(4)),
            [(1, 100, 102), (9, 103, 103), (1, 104, 104)]
        );
        assert_eq!(unsettled.len(), 1);
        assert_eq!(runs(&mut unsettled, 0, u32::MAX), []);
        assert_eq!(runs(&mut unsettled, 2, 2), [(1, 105, 105)]);
        assert!(unsettled.is_empty());
    }

    #[test]
    fn one_unsettled_delivery_retains_nothing_else() {
        let mut unsettled = Unsettled::default();
        for id in 0..1_000_000u32 {
            unsettled.push(id, Some((1, u64::from(id))));
            if id > 0 {
                assert_eq!(runs(&mut unsettled, id, id).len(), 1);
            }
            assert!(unsettled.older.len() <= 1);
        }
        assert_eq!(runs(&mut unsettled, 0, 10), [(1, 0, 0)]);
    }

    proptest! {
        /// Compares the runs with a list of all deliveries, whose ids never wrap. The runs must contain the
        /// same deliveries, in the order of the ids, and no two runs could be joined.
        #[test]
        fn runs_equal_a_list_of_deliveries(
            start in prop_oneof![Just(0u32), u32::MAX - 100..u32::MAX, any::<u32>()],
            steps in vec((0u32..8, 0u32..40, 0u32..12), 1..200),
        ) {
            let (mut unsettled, mut list, mut id) = (Unsettled::default(), Vec::new(), TURN + u64::from(start));
            for (step, at, more) in steps {
                match step {
                    0..=4 => {
                        let (link, settled) = (u32::from(at > 35), step == 4);
                        let cookie = id + u64::from(at == 0);
                        unsettled.push(id as u32, (!settled).then_some((link, cookie)));
                        if !settled {
                            list.push((link, id, cookie));
                        }
                        id += 1;
                    }
                    5 if at == 0 => {
                        unsettled.forget_link(1);
                        list.retain(|(link, ..)| *link != 1);
                    }
                    _ => {
                        let (first, settle) = (id - u64::from(at), step != 5);
                        let last = first + u64::from(more);
                        let mut found = Vec::new();
                        unsettled.resolve(first as u32, last as u32, settle, &mut found);
                        let mut each = Vec::new();
                        for run in &found {
                            let more = run.last_cookie - run.first_cookie;
                            prop_assert_eq!(run.last_id, run.first_id.wrapping_add(more as u32));
                            each.extend((0..=more).map(|i| {
                                (run.link, run.first_id.wrapping_add(i as u32), run.first_cookie + i)
                            }));
                        }
                        let hit = |(_, id, _): &(u32, u64, u64)| (first..=last).contains(id);
                        let expected: Vec<_> = list.iter().filter(|sent| hit(sent)).collect();
                        let expected: Vec<_> = expected.iter().map(|(l, id, c)| (*l, *id as u32, *c)).collect();
                        prop_assert_eq!(each, expected);
                        let split = found.windows(2).any(|w| w[0].joins(&w[1]));
                        prop_assert!(!split, "{:?}", found);
                        if settle {
                            list.retain(|sent| !hit(sent));
                        }
                    }
                }
                prop_assert_eq!(unsettled.len(), list.len());
            }
        }
    }

    #[test]
    fn settled_deliveries_leave_no_trace() {
        let mut unsettled = Unsettled::default();
        unsettled.push(0, None);
        unsettled.push(1, Some((1, 7)));
        unsettled.push(2, None);
        unsettled.push(3, Some((2, 8)));
        unsettled.forget_link(2);
        assert_eq!(runs(&mut unsettled, 0, 3), [(1, 7, 7)]);
        assert!(unsettled.is_empty() && unsettled.older.is_empty());
    }
}
