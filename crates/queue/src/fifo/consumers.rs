//! The consumers of a queue, and the order in which they are served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use message::DeliveryMax;

use super::entry::{Entry, Reference};
use super::timeout::Timeout;
use super::unsettled::Unsettled;
use crate::grant::Grant;
use crate::{Attach, ConsumerId};

/// The index of a consumer in [`Consumers`]. Valid until the consumer is removed.
pub(super) type Slot = u32;

const NONE: Slot = Slot::MAX;

/// What a consumer may do.
///
/// ```text
///   Attach ──► Serving ◄──► Yielding ──► Waiting ──► Serving            (single active consumer)
///                 │            │            │
///                 └──────────Cancel─────────┤
///                                           ▼
///   Fetch ──────────────────────────────► Holding ──Detach──► (forgotten)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Is sent messages while it has credit.
    Serving,
    /// Is the single active one, but gets no more messages. When it has settled those that it holds, a better consumer
    /// becomes the active one. Only in quorum queues.
    Yielding,
    /// Waits, because another consumer is the single active one.
    Waiting,
    /// Was cancelled, or only fetches. It may settle its messages, but is sent no more.
    Holding,
}

pub(super) struct Consumer {
    pub id: ConsumerId,
    pub standing: Standing,
    pub settled: bool,
    /// See [`Attach::message_bytes_max`].
    pub message_bytes_max: Option<DeliveryMax>,
    /// True if it is removed once it holds no messages. False for a holder that fetches, because its numbering
    /// continues.
    pub cancelled: bool,
    pub grant: Grant,
    pub unsettled: Unsettled,
    /// Boxed because only consumers of quorum queues have one.
    pub timeout: Option<Box<Timeout>>,
    priority: i32,
    exclusive: bool,
    /// The order of attachment.
    age: u64,
    in_ring: bool,
    before: Slot,
    after: Slot,
}

impl Consumer {
    /// Returns true if the consumer gets nothing until it has settled deliveries that were taken back from it.
    fn is_paused(&self) -> bool {
        self.timeout.as_ref().is_some_and(|timeout| timeout.paused)
    }

    fn rank(&self, slot: Slot) -> Rank {
        Rank { paused: self.is_paused(), priority: Reverse(self.priority), age: self.age, slot }
    }
}

/// The place of a consumer among those that may become the active one. The smallest is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    paused: bool,
    priority: Reverse<i32>,
    age: u64,
    slot: Slot,
}

/// The consumers of one priority that can be served, the next one first. Neighbours refer to each other by slot, so
/// entering, rotating and leaving take constant time.
struct Ring {
    priority: i32,
    first: Slot,
    last: Slot,
}

/// The error of an attach that was refused because of other consumers.
pub(super) struct NotAlone;

#[derive(Default)]
pub(super) struct Consumers {
    slots: Vec<Option<Consumer>>,
    free: Vec<Slot>,
    by_id: BTreeMap<ConsumerId, Slot>,
    /// All consumers except holders, in the order in which they become the active one.
    ranked: BTreeSet<Rank>,
    /// Sorted by priority, ascending, so the next consumer to serve is in the last ring. No ring is empty.
    rings: Vec<Ring>,
    next_age: u64,
    exclusive: bool,
    single_active: bool,
    /// True if the active consumer gives way to a better one. Otherwise it stays the active one until it leaves.
    yields: bool,
    active: Option<Slot>,
}

impl Consumers {
    pub(super) fn new(single_active: bool, yields: bool) -> Self {
        Self { single_active, yields, ..Self::default() }
    }

    /// Returns the number of consumers, not counting holders.
    pub(super) fn count(&self) -> usize {
        self.ranked.len()
    }

    pub(super) fn slot(&self, id: ConsumerId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn get(&mut self, slot: Slot) -> &mut Consumer {
        self.slots[slot as usize].as_mut().expect("a slot in use")
    }

    /// Returns the single active consumer, if the queue has one.
    pub(super) fn active(&self) -> Option<ConsumerId> {
        let slot = self.active?;
        self.slots[slot as usize].as_ref().map(|consumer| consumer.id)
    }

    /// Returns the consumer that is served next.
    pub(super) fn next(&self) -> Option<Slot> {
        self.rings.last().map(|ring| ring.first)
    }

    /// Returns the consumer that is served with the next message. This is `first`, or the next consumer that accepts a
    /// message of this size. `fits` returns whether a consumer with this limit accepts it.
    #[inline(always)]
    pub(super) fn next_for(&self, first: Slot, fits: impl Fn(DeliveryMax) -> bool) -> Option<Slot> {
        match self.slots.get(first as usize)?.as_ref()?.message_bytes_max {
            None => Some(first),
            Some(_) => self.pass_over(fits),
        }
    }

    /// Finds the first consumer that accepts the message, in the order in which they are served.
    fn pass_over(&self, fits: impl Fn(DeliveryMax) -> bool) -> Option<Slot> {
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

    pub(super) fn attach(&mut self, attach: &Attach) -> Result<Slot, NotAlone> {
        let alone = self.ranked.is_empty() && !self.single_active;
        if self.exclusive || (attach.exclusive && !alone) {
            return Err(NotAlone);
        }
        self.exclusive = attach.exclusive;
        let slot = self.insert(attach.consumer, Grant::new(attach.delivery_count));
        self.next_age += 1;
        let (priority, age) = (attach.priority, self.next_age);
        let waits = self.single_active && self.active.is_some();
        if self.single_active && !waits {
            self.active = Some(slot);
        }
        let consumer = self.get(slot);
        consumer.standing = if waits { Standing::Waiting } else { Standing::Serving };
        (consumer.priority, consumer.age) = (priority, age);
        (consumer.settled, consumer.exclusive) = (attach.settled, attach.exclusive);
        consumer.message_bytes_max = attach.message_bytes_max;
        let rank = consumer.rank(slot);
        self.ranked.insert(rank);
        Ok(slot)
    }

    /// Returns the slot under which fetched messages are held until they are settled.
    pub(super) fn hold(&mut self, id: ConsumerId) -> Slot {
        self.slot(id).unwrap_or_else(|| self.insert(id, Grant::new(0)))
    }

    /// Turns a consumer into a holder. Returns the consumer that became active instead, if any.
    pub(super) fn retire(&mut self, slot: Slot) -> Option<Slot> {
        self.leave_ring(slot);
        let consumer = self.get(slot);
        if consumer.standing == Standing::Holding {
            return None;
        }
        consumer.standing = Standing::Holding;
        consumer.grant.credit = 0;
        let (rank, exclusive) = (consumer.rank(slot), consumer.exclusive);
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

    /// Removes a holder.
    pub(super) fn remove(&mut self, slot: Slot) -> Consumer {
        let consumer = self.slots[slot as usize].take().expect("a slot in use");
        debug_assert!(consumer.standing == Standing::Holding && !consumer.in_ring);
        self.by_id.remove(&consumer.id);
        self.free.push(slot);
        consumer
    }

    /// Turns the single active consumer on or off. Returns the consumers that must be notified: all of them when it is
    /// turned on, and those that were waiting when it is turned off.
    pub(super) fn set_single_active(&mut self, single_active: bool) -> Vec<Slot> {
        if self.single_active == single_active {
            return Vec::new();
        }
        self.single_active = single_active;
        self.active = None;
        let slots: Vec<Slot> = self.ranked.iter().map(|rank| rank.slot).collect();
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

    /// Called when a consumer's credit or standing has changed. Adds the consumer to its ring or removes it.
    pub(super) fn regrant(&mut self, slot: Slot) {
        let consumer = self.get(slot);
        if consumer.standing == Standing::Serving && consumer.grant.credit > 0 && !consumer.is_paused() {
            self.enter_ring(slot);
        } else {
            self.leave_ring(slot);
        }
    }

    /// Called after a consumer was sent a message. Moves it behind the other consumers of its priority.
    pub(super) fn turn(&mut self, slot: Slot) {
        let consumer = self.get(slot);
        let has_credit = consumer.grant.credit > 0;
        if has_credit && consumer.after == NONE {
            return; // it is already the last of its ring
        }
        self.leave_ring(slot);
        if has_credit {
            self.enter_ring(slot);
        }
    }

    /// Removes everything. Returns all ids, including those of holders, in ascending order.
    pub(super) fn clear(&mut self) -> Vec<ConsumerId> {
        let ids = self.by_id.keys().copied().collect();
        *self = Self::new(self.single_active, self.yields);
        ids
    }

    /// Frees the memory, if nobody uses it. Maps that are empty still have some.
    pub(super) fn shrink(&mut self) {
        if self.by_id.is_empty() {
            (self.slots, self.free, self.rings) = (Vec::new(), Vec::new(), Vec::new());
            (self.by_id, self.ranked) = (BTreeMap::new(), BTreeSet::new());
        }
    }

    /// Removes and returns the unsettled messages of all consumers.
    pub(super) fn take_held(&mut self) -> Vec<Entry> {
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
            timeout: None,
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

    /// Sends the consumer nothing more until [`Self::unpause`]. Returns its id.
    pub(super) fn pause(&mut self, slot: Slot) -> ConsumerId {
        self.set_paused(slot, true);
        self.get(slot).id
    }

    pub(super) fn unpause(&mut self, slot: Slot) {
        self.set_paused(slot, false);
    }

    fn set_paused(&mut self, slot: Slot, paused: bool) {
        let before = self.get(slot).rank(slot);
        self.get(slot).timeout.iter_mut().for_each(|timeout| timeout.paused = paused);
        let after = self.get(slot).rank(slot);
        // Holders have no rank.
        if self.ranked.remove(&before) {
            self.ranked.insert(after);
        }
        self.regrant(slot);
    }

    /// Returns true if the active consumer has to give way.
    pub(super) fn is_yielding(&self) -> bool {
        let active = self.active.and_then(|slot| self.slots[slot as usize].as_ref());
        active.is_some_and(|consumer| consumer.standing == Standing::Yielding)
    }

    /// Lets the best consumer become the active one, if the active one has to give way: its priority is lower, or it is
    /// paused and the other one is not. It first settles what it holds, as `holds_none` says. Returns the earlier and the
    /// new active consumer if they have changed places.
    pub(super) fn reelect(&mut self, holds_none: impl FnOnce(&Consumer) -> bool) -> Option<(Slot, Slot)> {
        let active = self.active.filter(|_| self.yields)?;
        let best = *self.ranked.first()?;
        let consumer = self.get(active);
        let own = consumer.rank(active);
        let gives_way = (best.paused, best.priority) < (own.paused, own.priority);
        let is_done = gives_way && holds_none(consumer);
        consumer.standing = match (gives_way, is_done) {
            (false, _) => Standing::Serving,
            (true, false) => Standing::Yielding,
            (true, true) => Standing::Waiting,
        };
        self.regrant(active);
        if !gives_way || !is_done {
            return None;
        }
        self.promote().map(|new| (active, new))
    }

    fn promote(&mut self) -> Option<Slot> {
        let slot = self.ranked.first()?.slot;
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
            return; // the ends of the ring stay the same
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

    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = (Slot, &mut Consumer)> {
        (0..).zip(&mut self.slots).filter_map(|(slot, consumer)| Some((slot, consumer.as_mut()?)))
    }

    /// Iterates over unsettled messages whose complete entries are in memory.
    pub(super) fn held(&self) -> impl Iterator<Item = &Entry> {
        self.unsettled().flat_map(Unsettled::entries)
    }

    /// Iterates over unsettled messages that are in runs.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        self.unsettled().flat_map(Unsettled::references)
    }

    /// Returns the unsettled messages of the consumer in this slot: `Some(None)` for a free slot, `None` after the
    /// last slot.
    pub(super) fn unsettled_at(&self, slot: usize) -> Option<Option<&Unsettled>> {
        Some(self.slots.get(slot)?.as_ref().map(|consumer| &consumer.unsettled))
    }

    pub(super) fn unsettled(&self) -> impl Iterator<Item = &Unsettled> {
        self.slots.iter().flatten().map(|consumer| &consumer.unsettled)
    }

    pub(super) fn unsettled_mut(&mut self) -> impl Iterator<Item = &mut Unsettled> {
        self.slots.iter_mut().flatten().map(|consumer| &mut consumer.unsettled)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.slots.iter().flatten()
    }
}
