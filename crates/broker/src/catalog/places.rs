//! The table of queues, and the ids that are still free.

use std::sync::Arc;

use super::QueueRecord;
use crate::ids::QueueId;

/// The queues of a catalog by the slots of their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Vec<Place>);

#[derive(Clone, Debug, Default)]
struct Place {
    /// Of the queue that is here, or was here last. 0: there has been none.
    incarnation: u32,
    queue: Option<Arc<QueueRecord>>,
}

impl Places {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn at(&self, place: usize) -> Option<&Arc<QueueRecord>> {
        self.0.get(place)?.queue.as_ref()
    }

    pub fn get(&self, id: QueueId) -> Option<&Arc<QueueRecord>> {
        self.at(id.slot()).filter(|queue| queue.id == id)
    }

    pub fn get_mut(&mut self, id: QueueId) -> Option<&mut Arc<QueueRecord>> {
        self.0.get_mut(id.slot())?.queue.as_mut().filter(|queue| queue.id == id)
    }

    /// The queues from a place on, each with its place.
    pub fn from(&self, place: usize) -> impl Iterator<Item = (usize, &Arc<QueueRecord>)> {
        let places = self.0.iter().enumerate().skip(place);
        places.filter_map(|(place, at)| Some((place, at.queue.as_ref()?)))
    }

    pub fn insert(&mut self, record: Arc<QueueRecord>) {
        let (slot, incarnation) = (record.id.slot(), record.id.incarnation());
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, Place::default);
        }
        self.0[slot] = Place { incarnation, queue: Some(record) };
    }

    pub fn remove(&mut self, id: QueueId) -> Option<Arc<QueueRecord>> {
        self.0.get_mut(id.slot())?.queue.take_if(|queue| queue.id == id)
    }

    /// Whether the declaration of this queue has not come to this replica. Ids are given in an order of their own, but
    /// those of one slot one after the other.
    pub fn is_to_come(&self, id: QueueId) -> bool {
        self.0.get(id.slot()).is_none_or(|place| place.incarnation < id.incarnation())
    }
}

/// The ids that queues get next. Only whoever decides needs them. An id that was taken is not given again, also while the
/// queue that has it is not in the catalog yet.
#[derive(Debug)]
pub struct QueueIds {
    /// Slots that no queue has, below `places`.
    free: Vec<u32>,
    places: u32,
    next_incarnation: u32,
}

impl QueueIds {
    pub(super) fn new(places: &Places, next_incarnation: u32) -> Self {
        let free = (0..places.len()).filter(|place| places.at(*place).is_none()).map(|place| place as u32);
        Self { free: free.collect(), places: places.len() as u32, next_incarnation }
    }

    pub(super) fn take(&mut self) -> QueueId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        self.next_incarnation = self.next_incarnation.wrapping_add(1);
        QueueId::new(self.next_incarnation.wrapping_sub(1), slot)
    }

    /// The catalog has forgotten this queue.
    pub(super) fn give_back(&mut self, id: QueueId) {
        self.free.push(id.slot() as u32);
    }
}
