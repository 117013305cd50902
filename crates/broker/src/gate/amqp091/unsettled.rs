//! The deliveries of a channel that the client has not settled. Tags grow, and clients settle mostly in their order.

use std::collections::VecDeque;

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
    is_settled: bool,
}

/// The unsettled deliveries, in the order of their tags.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// The first one is not settled. Those between may be.
    deliveries: VecDeque<Delivered>,
    open: u32,
}

impl Unsettled {
    /// Adds a delivery. Its tag is larger than all before.
    pub fn push(&mut self, tag: u64, place: u32, number: u64) {
        self.open += 1;
        self.deliveries.push_back(Delivered { tag, number, place, is_settled: false });
    }

    /// Returns the number of unsettled deliveries.
    pub fn len(&self) -> u32 {
        self.open
    }

    /// Returns the oldest delivery.
    pub fn oldest(&self) -> Option<&Delivered> {
        self.deliveries.front()
    }

    /// Returns the number of the oldest delivery of a role. The cost grows with the deliveries of other roles before it.
    pub fn oldest_of(&self, place: u32) -> Option<u64> {
        let mut open = self.deliveries.iter().filter(|delivered| !delivered.is_settled);
        open.find(|delivered| delivered.place == place).map(|delivered| delivered.number)
    }

    /// Removes the delivery with this tag. Returns `None` if there is none.
    #[inline]
    pub fn take(&mut self, tag: u64) -> Option<Delivered> {
        let at = match self.deliveries.front()?.tag {
            first if first == tag => 0,
            _ => self.deliveries.binary_search_by_key(&tag, |delivered| delivered.tag).ok()?,
        };
        let delivered = self.deliveries.get_mut(at)?;
        if std::mem::replace(&mut delivered.is_settled, true) {
            return None;
        }
        let delivered = *delivered;
        self.open -= 1;
        self.trim();
        Some(delivered)
    }

    /// Removes all deliveries up to this tag, in their order.
    pub fn take_to(&mut self, tag: u64) -> Vec<Delivered> {
        let behind = self.deliveries.partition_point(|delivered| delivered.tag <= tag);
        let taken: Vec<_> =
            self.deliveries.drain(..behind).filter(|delivered| !delivered.is_settled).collect();
        self.open -= taken.len() as u32;
        self.trim();
        taken
    }

    /// Returns true if a delivery with this tag, or with a smaller one, is unsettled.
    pub fn has_to(&self, tag: u64) -> bool {
        self.deliveries.front().is_some_and(|first| first.tag <= tag)
    }

    /// Removes settled deliveries from the front.
    fn trim(&mut self) {
        while self.deliveries.front().is_some_and(|first| first.is_settled) {
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

    proptest! {
        /// The deliveries behave as a sorted map of tags.
        #[test]
        fn it_is_a_map_of_tags(steps in proptest::collection::vec((0..4u8, 1..40u64), 1..200)) {
            let (mut unsettled, mut model, mut last) = (Unsettled::default(), BTreeMap::new(), 0);
            for (step, n) in steps {
                match step {
                    // Tags of deliveries that are settled at once are left out.
                    0 | 1 => {
                        last += 1 + n % 2;
                        unsettled.push(last, n as u32 % 3, n);
                        model.insert(last, (n as u32 % 3, n));
                    }
                    2 => {
                        let taken = unsettled.take(n).map(|d| (d.place, d.number));
                        prop_assert_eq!(taken, model.remove(&n));
                    }
                    _ => {
                        prop_assert_eq!(unsettled.has_to(n), model.range(..=n).next().is_some());
                        let taken: Vec<_> = unsettled.take_to(n).into_iter().map(|d| (d.tag, (d.place, d.number))).collect();
                        let behind = model.split_off(&(n + 1));
                        prop_assert_eq!(taken, std::mem::replace(&mut model, behind).into_iter().collect::<Vec<_>>());
                    }
                }
                prop_assert_eq!(unsettled.len() as usize, model.len());
            }
        }
    }
}
