//! Deliveries that we sent and the receiver has not settled, by delivery-id [2.6.12].

use std::collections::{BTreeMap, VecDeque};

use crate::serial;

/// What the sender keeps of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    link: u32,
    cookie: u64,
}

/// Consecutive deliveries of one link with consecutive cookies: what a DISPOSITION range falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub link: u32,
    /// The delivery-ids, serial.
    pub first_id: u32,
    pub last_id: u32,
    /// The numbers that the sender gave them; one number in the order of the ids for each.
    pub first_cookie: u64,
    pub last_cookie: u64,
}

/// Ring of the recent delivery-ids; the few old ones that are never settled move to a map, so that one
/// forgotten delivery does not keep the ring growing.
#[derive(Debug, Default)]
pub struct Unsettled {
    /// Id of `ring[0]`.
    base: u32,
    ring: VecDeque<Option<Entry>>,
    live_in_ring: usize,
    old: BTreeMap<u32, Entry>,
}

/// The ring is thinned out when it is longer than this and at most a quarter of it is in use.
const RING_KEEP: usize = 1024;

impl Unsettled {
    /// Number of unsettled deliveries.
    pub fn len(&self) -> usize {
        self.live_in_ring + self.old.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The delivery with the next id; `None` for one that is sent settled.
    pub fn push(&mut self, id: u32, entry: Option<(u32, u64)>) {
        if self.ring.is_empty() {
            self.base = id;
            if entry.is_none() {
                return;
            }
        }
        debug_assert_eq!(id, self.base.wrapping_add(self.ring.len() as u32));
        self.live_in_ring += usize::from(entry.is_some());
        self.ring.push_back(entry.map(|(link, cookie)| Entry { link, cookie }));
        if self.ring.len() > RING_KEEP && self.live_in_ring < self.ring.len() / 4 {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let half = self.ring.len() / 2;
        for (i, entry) in self.ring.drain(..half).enumerate() {
            if let Some(entry) = entry {
                self.old.insert(self.base.wrapping_add(i as u32), entry);
                self.live_in_ring -= 1;
            }
        }
        self.base = self.base.wrapping_add(half as u32);
        self.trim();
    }

    /// Takes `first..=last` out (or only looks, if not `settle`) and appends what was there to `runs`.
    /// Unknown ids are skipped; the cost is that of the known ones.
    pub fn resolve(&mut self, first: u32, last: u32, settle: bool, runs: &mut Vec<Run>) {
        if serial::distance(last, first) < 0 {
            return;
        }
        if !self.old.is_empty() {
            let hits: Vec<u32> =
                self.old.keys().copied().filter(|id| serial::in_range(*id, first, last)).collect();
            for id in hits {
                let entry = if settle { self.old.remove(&id) } else { self.old.get(&id).copied() };
                entry.into_iter().for_each(|entry| append(runs, id, entry));
            }
        }
        let from = serial::distance(first, self.base).max(0) as usize;
        let to = serial::distance(last, self.base);
        if to < 0 || from >= self.ring.len() {
            return;
        }
        let to = (to as usize).min(self.ring.len() - 1);
        for i in from..=to {
            let slot = &mut self.ring[i];
            let entry = if settle { slot.take() } else { *slot };
            if let Some(entry) = entry {
                self.live_in_ring -= usize::from(settle);
                append(runs, self.base.wrapping_add(i as u32), entry);
            }
        }
        if settle {
            self.trim();
        }
    }

    /// Forgets the deliveries of a link that is gone.
    pub fn forget_link(&mut self, link: u32) {
        self.old.retain(|_, entry| entry.link != link);
        for slot in &mut self.ring {
            if slot.is_some_and(|entry| entry.link == link) {
                *slot = None;
                self.live_in_ring -= 1;
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }
}

fn append(runs: &mut Vec<Run>, id: u32, entry: Entry) {
    if let Some(run) = runs.last_mut()
        && run.link == entry.link
        && run.last_id.wrapping_add(1) == id
        && run.last_cookie.wrapping_add(1) == entry.cookie
    {
        run.last_id = id;
        run.last_cookie = entry.cookie;
        return;
    }
    runs.push(Run {
        link: entry.link,
        first_id: id,
        last_id: id,
        first_cookie: entry.cookie,
        last_cookie: entry.cookie,
    });
}

#[cfg(test)]
mod tests {
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
    fn one_forgotten_delivery_keeps_nothing_else() {
        let mut unsettled = Unsettled::default();
        for id in 0..1_000_000u32 {
            unsettled.push(id, Some((1, u64::from(id))));
            if id > 0 {
                assert_eq!(runs(&mut unsettled, id, id).len(), 1);
            }
            assert!(unsettled.ring.len() <= RING_KEEP + 1);
        }
        assert_eq!(runs(&mut unsettled, 0, 10), [(1, 0, 0)]);
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
        assert!(unsettled.ring.is_empty());
    }
}
