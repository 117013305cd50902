//! `fanout`: every message goes to every destination. `x-recent-history` routes in the same way.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::super::Destination;

/// The largest number of destinations in a list. Searching a longer list would be slow.
const FEW_MAX: usize = 16;

/// A set of destinations. Most keys lead to one destination, which needs no allocation. Above [`FEW_MAX`], a tree
/// finds one of a hundred thousand about as fast as a list finds one of a few.
#[derive(Clone, Debug)]
pub(super) enum Destinations {
    Few(SmallVec<[Destination; 1]>),
    Many(BTreeSet<Destination>),
}

impl Default for Destinations {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Destinations {
    pub(super) fn insert(&mut self, destination: Destination) {
        match self {
            Self::Few(list) if list.contains(&destination) => {}
            Self::Few(list) if list.len() < FEW_MAX => list.push(destination),
            Self::Few(list) => *self = Self::Many(list.drain(..).chain([destination]).collect()),
            Self::Many(set) => _ = set.insert(destination),
        }
    }

    pub(super) fn remove(&mut self, destination: &Destination) {
        match self {
            Self::Few(list) => list.retain(|d| d != destination),
            Self::Many(set) => _ = set.remove(destination),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(set) => set.is_empty(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Destination> {
        let (few, many) = match self {
            Self::Few(list) => (list.as_slice(), None),
            Self::Many(set) => (&[][..], Some(set)),
        };
        few.iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_set_of_destinations_behave_alike() {
        let queue = |i: usize| Destination::Queue(format!("{i:02}").into());
        let mut all = Destinations::default();
        for i in (0..2 * FEW_MAX).chain(0..2 * FEW_MAX) {
            all.insert(queue(i));
            all.insert(queue(i));
        }
        assert!(all.iter().cloned().eq((0..2 * FEW_MAX).map(queue)), "each once");
        (0..2 * FEW_MAX).for_each(|i| all.remove(&queue(i)));
        assert!(all.is_empty());
    }
}
