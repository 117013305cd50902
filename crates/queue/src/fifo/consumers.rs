//! Who reads, in which order they are served, and who must wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::entry::{Entry, Reference};
use super::unsettled::Unsettled;
use crate::grant::Grant;
use crate::{Attach, ConsumerId};

/// Place of a consumer in [`Consumers`], valid until it is removed.
pub(super) type Slot = u32;

const NONE: Slot = Slot::MAX;

/// What a consumer may do.
///
/// ```text
///   Attach ──► Serving ◄──► Waiting            (single active consumer)
///                 │            │
///                 └───Cancel───┤
///                              ▼
///   Fetch ─────────────────► Holding ──Detach──► (forgotten)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Is sent messages while it has credit.
    Serving,
    /// Another one is the single active consumer.
    Waiting,
    /// Not a consumer any more, or never one: may only settle what it has.
    Holding,
}

pub(super) struct Consumer {
    pub id: ConsumerId,
    pub standing: Standing,
    pub settled: bool,
    /// See [`Attach::message_bytes_max`].
    pub message_bytes_max: Option<u64>,
    /// Forgotten once it holds nothing. One that fetches is not: its numbers go on.
    pub cancelled: bool,
    pub grant: Grant,
    pub unsettled: Unsettled,
    priority: i32,
    exclusive: bool,
    /// Order of attachment.
    age: u64,
    in_ring: bool,
    before: Slot,
    after: Slot,
}

/// Consumers of one priority that can be served, the next one first. Neighbours know each other by slot, so
/// that entering, turning and leaving cost the same for any number of consumers.
struct Ring {
    priority: i32,
    first: Slot,
    last: Slot,
}

/// A consumer that was refused because of others.
pub(super) struct NotAlone;

#[derive(Default)]
pub(super) struct Consumers {
    slots: Vec<Option<Consumer>>,
    free: Vec<Slot>,
    by_id: BTreeMap<ConsumerId, Slot>,
    /// All but the holding ones, in the order in which they become the active one.
    ranked: BTreeSet<(Reverse<i32>, u64, Slot)>,
    /// None is empty; ascending by priority, so that the next one to serve is in the last.
    rings: Vec<Ring>,
    next_age: u64,
    exclusive: bool,
    single_active: bool,
    active: Option<Slot>,
}

impl Consumers {
    pub fn new(single_active: bool) -> Self {
        Self { single_active, ..Self::default() }
    }

    /// Consumers, without those that only hold.
    pub fn count(&self) -> usize {
        self.ranked.len()
    }

    pub fn slot(&self, id: ConsumerId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub fn get(&mut self, slot: Slot) -> &mut Consumer {
        self.slots[slot as usize].as_mut().expect("a slot in use")
    }

    /// The single active consumer, if the queue has one.
    pub fn active(&self) -> Option<ConsumerId> {
        let slot = self.active?;
        self.slots[slot as usize].as_ref().map(|consumer| consumer.id)
    }

    /// Who is served next.
    pub fn next(&self) -> Option<Slot> {
        self.rings.last().map(|ring| ring.first)
    }

    /// Who is served with the next message: `first`, whose turn it is, or the next one for whom the message is not too
    /// large. `fits` says whether it takes so many bytes at most.
    #[inline(always)]
    pub fn next_for(&self, first: Slot, fits: impl Fn(u64) -> bool) -> Option<Slot> {
        match self.slots.get(first as usize)?.as_ref()?.message_bytes_max {
            None => Some(first),
            Some(_) => self.pass_over(fits),
        }
    }

    /// Looks at each that has credit, in the order in which they are served.
    fn pass_over(&self, fits: impl Fn(u64) -> bool) -> Option<Slot> {
        self.rings.iter().rev().find_map(|ring| {
            let mut slot = ring.first;
            loop {
                let consumer = self.slots.get(slot as usize)?.as_ref()?;
                if consumer.message_bytes_max.is_none_or(&fits) {
                    return Some(slot);
                }
                slot = consumer.after;
            }
        })
    }

    pub fn attach(&mut self, attach: &Attach) -> Result<Slot, NotAlone> {
        let alone = self.ranked.is_empty() && !self.single_active;
        if self.exclusive || (attach.exclusive && !alone) {
            return Err(NotAlone);
        }
        self.exclusive = attach.exclusive;
        let slot = self.insert(attach.consumer, Grant::new(attach.delivery_count));
        self.next_age += 1;
        let (priority, age) = (attach.priority, self.next_age);
        self.ranked.insert((Reverse(priority), age, slot));
        let waits = self.single_active && self.active.is_some();
        if self.single_active && !waits {
            self.active = Some(slot);
        }
        let consumer = self.get(slot);
        consumer.standing = if waits { Standing::Waiting } else { Standing::Serving };
        (consumer.priority, consumer.age) = (priority, age);
        (consumer.settled, consumer.exclusive) = (attach.settled, attach.exclusive);
        consumer.message_bytes_max = attach.message_bytes_max;
        Ok(slot)
    }

    /// Where fetched messages are held until settled.
    pub fn hold(&mut self, id: ConsumerId) -> Slot {
        self.slot(id).unwrap_or_else(|| self.insert(id, Grant::new(0)))
    }

    /// Makes it a mere holder. Returns the one that became active in its place.
    pub fn retire(&mut self, slot: Slot) -> Option<Slot> {
        self.leave_ring(slot);
        let consumer = self.get(slot);
        if consumer.standing == Standing::Holding {
            return None;
        }
        consumer.standing = Standing::Holding;
        consumer.grant.credit = 0;
        let (rank, exclusive) = ((Reverse(consumer.priority), consumer.age, slot), consumer.exclusive);
        self.ranked.remove(&rank);
        if exclusive {
            self.exclusive = false;
        }
        if self.active != Some(slot) {
            return None;
        }
        self.active = None;
        self.promote()
    }

    /// Forgets a holder.
    pub fn remove(&mut self, slot: Slot) -> Consumer {
        let consumer = self.slots[slot as usize].take().expect("a slot in use");
        debug_assert!(consumer.standing == Standing::Holding && !consumer.in_ring);
        self.by_id.remove(&consumer.id);
        self.free.push(slot);
        consumer
    }

    /// Turns the single active consumer on or off. Returns those for whom that is news: all when there is one from now
    /// on, and those that need not wait any more when there is none.
    pub fn set_single_active(&mut self, single_active: bool) -> Vec<Slot> {
        if self.single_active == single_active {
            return Vec::new();
        }
        self.single_active = single_active;
        self.active = None;
        let slots: Vec<Slot> = self.ranked.iter().map(|&(_, _, slot)| slot).collect();
        let mut news = Vec::new();
        for slot in slots {
            let serves = !single_active || self.active.is_none();
            if single_active && serves {
                self.active = Some(slot);
            }
            let standing = if serves { Standing::Serving } else { Standing::Waiting };
            let before = std::mem::replace(&mut self.get(slot).standing, standing);
            if single_active || before != standing {
                news.push(slot);
            }
            self.regrant(slot);
        }
        news
    }

    /// Its credit or standing changed: into the ring or out of it.
    pub fn regrant(&mut self, slot: Slot) {
        let consumer = self.get(slot);
        if consumer.standing == Standing::Serving && consumer.grant.credit > 0 {
            self.enter_ring(slot);
        } else {
            self.leave_ring(slot);
        }
    }

    /// It was sent a message: others of its priority come first now.
    pub fn turn(&mut self, slot: Slot) {
        let consumer = self.get(slot);
        let has_credit = consumer.grant.credit > 0;
        if has_credit && consumer.after == NONE {
            return; // already the last of its ring
        }
        self.leave_ring(slot);
        if has_credit {
            self.enter_ring(slot);
        }
    }

    /// Everyone's id, holders included, in the order of ids; forgets them all.
    pub fn clear(&mut self) -> Vec<ConsumerId> {
        let ids = self.by_id.keys().copied().collect();
        *self = Self::new(self.single_active);
        ids
    }

    /// Takes from everyone what it holds.
    pub fn take_held(&mut self) -> Vec<Entry> {
        let consumers = self.slots.iter_mut().flatten();
        let held = consumers.map(|consumer| std::mem::replace(&mut consumer.unsettled, Unsettled::new()));
        held.flat_map(Unsettled::into_entries).collect()
    }

    fn insert(&mut self, id: ConsumerId, grant: Grant) -> Slot {
        let consumer = Consumer {
            id,
            standing: Standing::Holding,
            settled: false,
            message_bytes_max: None,
            cancelled: false,
            grant,
            unsettled: Unsettled::new(),
            priority: 0,
            exclusive: false,
            age: 0,
            in_ring: false,
            before: NONE,
            after: NONE,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        self.slots[slot as usize] = Some(consumer);
        self.by_id.insert(id, slot);
        slot
    }

    fn promote(&mut self) -> Option<Slot> {
        let &(_, _, slot) = self.ranked.first()?;
        self.active = Some(slot);
        self.get(slot).standing = Standing::Serving;
        self.regrant(slot);
        Some(slot)
    }

    fn enter_ring(&mut self, slot: Slot) {
        if self.get(slot).in_ring {
            return;
        }
        let priority = self.get(slot).priority;
        let before = match self.rings.binary_search_by_key(&priority, |ring| ring.priority) {
            Ok(at) => std::mem::replace(&mut self.rings[at].last, slot),
            Err(at) => {
                self.rings.insert(at, Ring { priority, first: slot, last: slot });
                NONE
            }
        };
        if before != NONE {
            self.get(before).after = slot;
        }
        let consumer = self.get(slot);
        (consumer.in_ring, consumer.before, consumer.after) = (true, before, NONE);
    }

    fn leave_ring(&mut self, slot: Slot) {
        let consumer = self.get(slot);
        if !consumer.in_ring {
            return;
        }
        let (priority, before, after) = (consumer.priority, consumer.before, consumer.after);
        (consumer.in_ring, consumer.before, consumer.after) = (false, NONE, NONE);
        if before != NONE {
            self.get(before).after = after;
        }
        if after != NONE {
            self.get(after).before = before;
        }
        if before != NONE && after != NONE {
            return; // no end of the ring has moved
        }
        let at = self.rings.binary_search_by_key(&priority, |ring| ring.priority).expect("its ring");
        if before == NONE && after == NONE {
            self.rings.remove(at);
        } else if before == NONE {
            self.rings[at].first = after;
        } else {
            self.rings[at].last = before;
        }
    }

    /// What all of them hold, as far as all is known of it.
    pub fn held(&self) -> impl Iterator<Item = &Entry> {
        self.unsettled().flat_map(Unsettled::here)
    }

    /// What all of them hold that stands in a run.
    pub fn references(&self) -> impl Iterator<Item = Reference> {
        self.unsettled().flat_map(Unsettled::references)
    }

    /// What the consumer in this slot holds, if one is there; `None` behind the last slot.
    pub fn unsettled_at(&self, slot: usize) -> Option<Option<&Unsettled>> {
        Some(self.slots.get(slot)?.as_ref().map(|consumer| &consumer.unsettled))
    }

    pub fn unsettled(&self) -> impl Iterator<Item = &Unsettled> {
        self.slots.iter().flatten().map(|consumer| &consumer.unsettled)
    }

    pub fn unsettled_mut(&mut self) -> impl Iterator<Item = &mut Unsettled> {
        self.slots.iter_mut().flatten().map(|consumer| &mut consumer.unsettled)
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.slots.iter().flatten()
    }
}
