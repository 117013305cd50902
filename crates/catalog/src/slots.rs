//! The table of queues, and the queue ids that are free.

use std::fmt;

use super::QueueRow;
use crate::ids::{INCARNATIONS_END, QUEUES_MAX, QueueId};

/// The queues of a catalog, by the slots of their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Option<QueueRow>>,
    /// The number of slots that have a queue.
    count: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of queues.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn at(&self, place: usize) -> Option<&QueueRow> {
        self.slots.get(place)?.as_ref()
    }

    pub(super) fn get(&self, id: QueueId) -> Option<&QueueRow> {
        self.at(id.slot()).filter(|row| row.record.id == id)
    }

    /// Returns the queues from a place on, each with its place.
    pub(super) fn from(&self, place: usize) -> impl Iterator<Item = (usize, &QueueRow)> {
        let slots = self.slots.iter().enumerate().skip(place);
        slots.filter_map(|(place, at)| Some((place, at.as_ref()?)))
    }

    /// Puts a new queue in its place, or replaces the record of a queue.
    pub(super) fn insert(&mut self, row: QueueRow) {
        let slot = row.record.id.slot();
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.count += usize::from(self.slots[slot].replace(row).is_none());
    }

    pub(super) fn remove(&mut self, id: QueueId) -> Option<QueueRow> {
        let gone = self.slots.get_mut(id.slot())?.take_if(|row| row.record.id == id)?;
        self.count -= 1;
        Some(gone)
    }
}

/// Why there is no id for a new queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoQueueId {
    /// There are [`QUEUES_MAX`] queues.
    Slots,
    /// All incarnations below [`INCARNATIONS_END`] were used.
    Incarnations,
}

impl fmt::Display for NoQueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots => write!(f, "there are as many queues as there can be ({QUEUES_MAX})"),
            Self::Incarnations => {
                write!(f, "the broker has declared as many queues as it can ({INCARNATIONS_END})")
            }
        }
    }
}

/// The free ids for new queues. Only the deciding shard needs them. An id is never given twice, not even if
/// its queue is not in the catalog yet.
#[derive(Debug)]
pub struct QueueIds {
    /// The slots below `slots` that belong to no queue.
    free: Vec<u32>,
    slots: u32,
    next_incarnation: u64,
}

impl QueueIds {
    pub(super) fn new(slots: &Slots, next_incarnation: u64) -> Self {
        let free = (0..slots.len()).filter(|place| slots.at(*place).is_none()).map(|place| place as u32);
        Self { free: free.collect(), slots: slots.len() as u32, next_incarnation }
    }

    /// # Errors
    /// No id is left. Then none is taken.
    pub(super) fn take(&mut self) -> Result<QueueId, NoQueueId> {
        let incarnation = self.next_incarnation;
        if incarnation >= INCARNATIONS_END {
            return Err(NoQueueId::Incarnations);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots >= QUEUES_MAX => return Err(NoQueueId::Slots),
            None => {
                self.slots += 1;
                self.slots - 1
            }
        };
        self.next_incarnation += 1;
        Ok(QueueId::new(incarnation, slot))
    }

    /// Called when the catalog has forgotten this queue, so that its slot is free.
    pub(super) fn give_back(&mut self, id: QueueId) {
        self.free.push(id.slot() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_is_given_twice_or_beyond_the_end() {
        let mut ids =
            QueueIds { free: vec![7], slots: QUEUES_MAX - 1, next_incarnation: INCARNATIONS_END - 3 };
        let (first, second) = (ids.take().unwrap(), ids.take().unwrap());
        assert_eq!((first.slot(), first.incarnation()), (7, INCARNATIONS_END - 3));
        assert_eq!((second.slot(), second.incarnation()), (QUEUES_MAX as usize - 1, INCARNATIONS_END - 2));
        assert_eq!(ids.take(), Err(NoQueueId::Slots));
        ids.give_back(first);
        let last = ids.take().unwrap();
        assert_eq!((last.slot(), last.incarnation()), (7, INCARNATIONS_END - 1));
        assert_ne!(last.0, u64::MAX);
        ids.give_back(last);
        assert_eq!((ids.take(), ids.take()), (Err(NoQueueId::Incarnations), Err(NoQueueId::Incarnations)));
        assert_eq!(ids.free, [7], "nothing was taken");
    }
}
