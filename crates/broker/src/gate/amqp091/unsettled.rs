//! The deliveries of a channel that the client has not settled. Tags grow, and clients settle mostly in their order.

use std::collections::{HashMap, VecDeque};

use queue::Outcome;
use ranges::{Range, Span};

/// Beyond this capacity, the memory of a channel without unsettled deliveries is freed.
const KEPT_CAPACITY: usize = 256;

/// A delivery that is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub tag: u64,
    /// The number of the delivery, as its queue counts the deliveries of the role.
    pub number: u64,
    /// The role to which it belongs.
    pub place: u32,
    state: State,
}

/// How far the settlement of a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsettled,
    /// The client has settled it in a transaction that is not committed.
    Uncommitted(Settlement),
    Settled,
}

/// What a client may say about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settlement {
    Ack,
    /// `basic.nack` with requeue. In a quorum queue, a returned message has not failed.
    Return,
    /// `basic.reject` with requeue. In a quorum queue, a rejected message has failed.
    Fail,
    /// `basic.nack` or `basic.reject` without requeue.
    Reject,
}

impl Settlement {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Ack => Outcome::Accepted,
            Self::Return => Outcome::Released,
            Self::Fail => Outcome::Modified { failed: true, undeliverable_here: false, annotations: None },
            Self::Reject => Outcome::Rejected,
        }
    }
}

/// Deliveries of a commit that are settled together: their numbers are consecutive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub place: u32,
    pub first: u64,
    pub last: u64,
    pub settlement: Settlement,
}

impl Run {
    pub(super) fn new(delivered: &Delivered, settlement: Settlement) -> Self {
        let Delivered { place, number, .. } = *delivered;
        Self { place, first: number, last: number, settlement }
    }
}

impl Range for Run {
    fn joins(&self, next: &Self) -> bool {
        (self.place, self.last + 1, self.settlement) == (next.place, next.first, next.settlement)
    }

    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

/// The unsettled deliveries, in the order of their tags. Those that are settled in a transaction belong to them until its
/// commit.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// The first one is not settled. Those between may be.
    deliveries: VecDeque<Delivered>,
    /// The number of those that are not settled.
    open: u32,
    /// The number of those that are settled in a transaction.
    uncommitted: u32,
    /// All deliveries with smaller tags are settled, in a transaction or for good.
    unsettled_from: u64,
}

impl Unsettled {
    /// Adds a delivery. Its tag is larger than all before.
    pub(super) fn push(&mut self, tag: u64, place: u32, number: u64) {
        self.open += 1;
        self.deliveries.push_back(Delivered { tag, number, place, state: State::Unsettled });
    }

    /// Returns the number of unsettled deliveries.
    pub(super) fn len(&self) -> u32 {
        self.open
    }

    /// Returns the number of those that are settled in a transaction.
    pub(super) fn uncommitted(&self) -> u32 {
        self.uncommitted
    }

    /// Returns the oldest delivery.
    pub(super) fn oldest(&self) -> Option<&Delivered> {
        self.deliveries.front()
    }

    /// Returns the number of the oldest delivery of a role. The cost grows with the deliveries of other roles before it.
    pub(super) fn oldest_of(&self, place: u32) -> Option<u64> {
        let mut open = self.deliveries.iter().filter(|delivered| delivered.state != State::Settled);
        open.find(|delivered| delivered.place == place).map(|delivered| delivered.number)
    }

    /// Returns the number of the oldest delivery of each role.
    pub(super) fn oldest_of_each(&self) -> HashMap<u32, u64> {
        let mut oldest = HashMap::new();
        for delivered in self.deliveries.iter().filter(|delivered| delivered.state != State::Settled) {
            oldest.entry(delivered.place).or_insert(delivered.number);
        }
        oldest
    }

    /// Removes the delivery with this tag. Returns `None` if there is none that is unsettled.
    #[inline]
    pub(super) fn take(&mut self, tag: u64) -> Option<Delivered> {
        let delivered = self.find(tag)?;
        delivered.state = State::Settled;
        let delivered = *delivered;
        self.open -= 1;
        self.trim();
        Some(delivered)
    }

    /// Removes all unsettled deliveries up to this tag, in their order.
    pub(super) fn take_to(&mut self, tag: u64) -> Vec<Delivered> {
        let behind = self.deliveries.partition_point(|delivered| delivered.tag <= tag);
        let taken: Vec<_> = match self.uncommitted {
            0 => {
                let drained = self.deliveries.drain(..behind);
                drained.filter(|delivered| delivered.state == State::Unsettled).collect()
            }
            _ => {
                let mut taken = Vec::new();
                for delivered in self.deliveries.range_mut(..behind) {
                    if delivered.state == State::Unsettled {
                        taken.push(*delivered);
                        delivered.state = State::Settled;
                    }
                }
                taken
            }
        };
        self.open -= taken.len() as u32;
        self.trim();
        taken
    }

    /// Returns true if a delivery with this tag, or with a smaller one, is unsettled.
    pub(super) fn has_to(&self, tag: u64) -> bool {
        match self.uncommitted {
            0 => self.deliveries.front().is_some_and(|first| first.tag <= tag),
            _ => self.unsettled_to(tag).next().is_some(),
        }
    }

    /// Settles the delivery with this tag in a transaction. Returns false if there is none that is unsettled.
    pub(super) fn settle(&mut self, tag: u64, settlement: Settlement) -> bool {
        let Some(delivered) = self.find(tag) else { return false };
        delivered.state = State::Uncommitted(settlement);
        self.uncommitted += 1;
        true
    }

    /// Settles all unsettled deliveries up to this tag in a transaction. Returns the tags of the first and the last one, or
    /// `None` if there is none.
    pub(super) fn settle_to(&mut self, tag: u64, settlement: Settlement) -> Option<Span> {
        let (start, behind) = self.indexes(self.unsettled_from, tag);
        let mut span: Option<Span> = None;
        for delivered in self.deliveries.range_mut(start..behind) {
            if delivered.state == State::Unsettled {
                delivered.state = State::Uncommitted(settlement);
                self.uncommitted += 1;
                span =
                    Some(Span { first: span.map_or(delivered.tag, |span| span.first), last: delivered.tag });
            }
        }
        self.unsettled_from = span.map_or(self.unsettled_from, |span| span.last + 1);
        span
    }

    /// Makes the settlements of a transaction undone: those of the deliveries with these tags.
    pub(super) fn roll_back(&mut self, tags: Span) {
        let (start, behind) = self.indexes(tags.first, tags.last);
        for delivered in self.deliveries.range_mut(start..behind) {
            if let State::Uncommitted(_) = delivered.state {
                delivered.state = State::Unsettled;
                self.uncommitted -= 1;
            }
        }
        self.unsettled_from = self.unsettled_from.min(tags.first);
    }

    /// Removes the deliveries with these tags that are settled in a transaction, in their order.
    pub(super) fn commit(&mut self, tags: Span) -> Vec<(Delivered, Settlement)> {
        let (start, behind) = self.indexes(tags.first, tags.last);
        let mut taken = Vec::new();
        for delivered in self.deliveries.range_mut(start..behind) {
            if let State::Uncommitted(settlement) = delivered.state {
                delivered.state = State::Settled;
                taken.push((*delivered, settlement));
            }
        }
        self.open -= taken.len() as u32;
        self.uncommitted -= taken.len() as u32;
        self.trim();
        taken
    }

    /// Returns the unsettled delivery with this tag.
    #[inline]
    fn find(&mut self, tag: u64) -> Option<&mut Delivered> {
        let at = match self.deliveries.front()?.tag {
            first if first == tag => 0,
            _ => self.deliveries.binary_search_by_key(&tag, |delivered| delivered.tag).ok()?,
        };
        self.deliveries.get_mut(at).filter(|delivered| delivered.state == State::Unsettled)
    }

    fn unsettled_to(&self, tag: u64) -> impl Iterator<Item = &Delivered> {
        let (start, behind) = self.indexes(self.unsettled_from, tag);
        self.deliveries.range(start..behind).filter(|delivered| delivered.state == State::Unsettled)
    }

    /// Returns the index of the first delivery with one of these tags, and that behind the last one.
    fn indexes(&self, first: u64, last: u64) -> (usize, usize) {
        let start = self.deliveries.partition_point(|delivered| delivered.tag < first);
        (start, self.deliveries.partition_point(|delivered| delivered.tag <= last).max(start))
    }

    /// Removes settled deliveries from the front.
    fn trim(&mut self) {
        while self.deliveries.front().is_some_and(|first| first.state == State::Settled) {
            self.deliveries.pop_front();
        }
        if self.deliveries.is_empty() && self.deliveries.capacity() > KEPT_CAPACITY {
            self.deliveries = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A delivery of the model: its role, its number, and its settlement in the transaction.
    type Modelled = (u32, u64, Option<Settlement>);

    const SETTLEMENTS: [Settlement; 4] =
        [Settlement::Ack, Settlement::Return, Settlement::Fail, Settlement::Reject];

    proptest! {
        /// The deliveries behave as a sorted map of tags.
        #[test]
        fn it_is_a_map_of_tags(steps in proptest::collection::vec((0..10u8, 1..40u64), 1..200)) {
            let (mut unsettled, mut last) = (Unsettled::default(), 0);
            let (mut model, mut spans) = (BTreeMap::<u64, Modelled>::new(), Vec::new());
            for (step, n) in steps {
                let settlement = SETTLEMENTS[n as usize % 4];
                let open = |model: &BTreeMap<u64, Modelled>, to: u64| -> Vec<u64> {
                    model.range(..=to).filter(|(_, d)| d.2.is_none()).map(|(tag, _)| *tag).collect()
                };
                match step {
                    // Tags of deliveries that are settled at once are left out.
                    0..4 => {
                        last += 1 + n % 2;
                        unsettled.push(last, n as u32 % 3, n);
                        model.insert(last, (n as u32 % 3, n, None));
                    }
                    4 => {
                        let taken = unsettled.take(n).map(|d| (d.place, d.number, None));
                        let is_open = model.get(&n).is_some_and(|d| d.2.is_none());
                        prop_assert_eq!(taken, is_open.then(|| model.remove(&n)).flatten());
                    }
                    5 => {
                        let expected = open(&model, n);
                        prop_assert_eq!(unsettled.has_to(n), !expected.is_empty());
                        let taken: Vec<_> = unsettled.take_to(n).into_iter().map(|d| d.tag).collect();
                        taken.iter().for_each(|tag| _ = model.remove(tag));
                        prop_assert_eq!(taken, expected);
                    }
                    6 => {
                        let known = model.get_mut(&n).filter(|d| d.2.is_none());
                        prop_assert_eq!(unsettled.settle(n, settlement), known.is_some());
                        if let Some(known) = known {
                            known.2 = Some(settlement);
                            spans.push(Span { first: n, last: n });
                        }
                    }
                    7 => {
                        let expected = open(&model, n);
                        prop_assert_eq!(unsettled.has_to(n), !expected.is_empty());
                        let span = unsettled.settle_to(n, settlement);
                        let ends = expected.first().zip(expected.last());
                        prop_assert_eq!(span, ends.map(|(first, last)| Span { first: *first, last: *last }));
                        spans.extend(span);
                        for tag in expected {
                            model.get_mut(&tag).unwrap().2 = Some(settlement);
                        }
                    }
                    8 => {
                        spans.drain(..).for_each(|span| unsettled.roll_back(span));
                        model.values_mut().for_each(|d| d.2 = None);
                    }
                    _ => {
                        let mut taken = Vec::new();
                        spans.drain(..).for_each(|span| taken.extend(unsettled.commit(span)));
                        taken.sort_by_key(|(delivered, _)| delivered.tag);
                        let taken: Vec<_> = taken.into_iter().map(|(d, s)| (d.tag, (d.place, d.number, Some(s)))).collect();
                        let expected: Vec<_> = model.extract_if(.., |_, d| d.2.is_some()).collect();
                        prop_assert_eq!(taken, expected);
                    }
                }
                prop_assert_eq!(unsettled.len() as usize, model.len());
                let uncommitted = model.values().filter(|d| d.2.is_some()).count();
                prop_assert_eq!(unsettled.uncommitted() as usize, uncommitted);
                for place in 0..3 {
                    let oldest = model.values().find(|d| d.0 == place).map(|d| d.1);
                    prop_assert_eq!(unsettled.oldest_of(place), oldest);
                }
            }
        }
    }
}
