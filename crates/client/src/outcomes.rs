//! The outcomes of the messages of one sending link, by the number of each message.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use amqp10::DeliveryState;

/// The most messages from the oldest one without an outcome to the newest one. At this limit sending waits.
pub(crate) const OUTSTANDING_MAX: usize = 65_536;

/// The outcomes in a ring of small slots, so that sending a message allocates nothing here.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// The number of the message in `slots[0]`.
    base: u64,
    slots: VecDeque<Slot>,
}

#[derive(Debug)]
enum Slot {
    /// The outcome has not arrived, and no caller waits for it yet.
    Open,
    Awaited(Waker),
    /// The outcome will never be requested, because the caller has dropped it.
    Abandoned,
    Accepted,
    Other(Box<DeliveryState>),
    Taken,
}

impl Outcomes {
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= OUTSTANDING_MAX
    }

    /// Returns the number of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Called when the next message was sent. A settled message needs no outcome.
    pub(crate) fn push(&mut self, settled: bool) {
        if settled && self.slots.is_empty() {
            self.base += 1;
            return;
        }
        self.slots.push_back(if settled { Slot::Taken } else { Slot::Open });
    }

    /// Sets the outcome of the messages `first..=last`.
    pub(crate) fn resolve(&mut self, first: u64, last: u64, state: &DeliveryState) {
        for number in first.max(self.base)..=last {
            let Some(slot) = self.slots.get_mut((number - self.base) as usize) else { break };
            let new = match state {
                _ if matches!(slot, Slot::Abandoned | Slot::Taken) => Slot::Taken,
                DeliveryState::Accepted => Slot::Accepted,
                other => Slot::Other(Box::new(other.clone())),
            };
            if let Slot::Awaited(waker) = std::mem::replace(slot, new) {
                waker.wake();
            }
        }
        self.trim();
    }

    /// Returns the outcome of a message and removes it, or registers the waiter.
    pub(crate) fn take(&mut self, number: u64, cx: &Context<'_>) -> Option<DeliveryState> {
        let slot = self.slots.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)?;
        match std::mem::replace(slot, Slot::Taken) {
            Slot::Accepted => {
                self.trim();
                Some(DeliveryState::Accepted)
            }
            Slot::Other(state) => {
                self.trim();
                Some(*state)
            }
            Slot::Awaited(waker) if waker.will_wake(cx.waker()) => {
                *slot = Slot::Awaited(waker);
                None
            }
            _ => {
                *slot = Slot::Awaited(cx.waker().clone());
                None
            }
        }
    }

    /// Called when the outcome will never be requested.
    pub(crate) fn abandon(&mut self, number: u64) {
        let index = number.checked_sub(self.base).and_then(|i| usize::try_from(i).ok());
        if let Some(slot) = index.and_then(|i| self.slots.get_mut(i)) {
            let pending = matches!(slot, Slot::Open | Slot::Awaited(_));
            *slot = if pending { Slot::Abandoned } else { Slot::Taken };
            self.trim();
        }
    }

    /// Wakes all waiters, because the link is closed. Outcomes that have arrived can still be taken.
    pub(crate) fn wake_all(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Awaited(waker) = slot {
                waker.wake_by_ref();
            }
        }
    }

    fn trim(&mut self) {
        while let Some(Slot::Taken) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_arrive_in_any_order_and_are_removed() {
        let mut outcomes = Outcomes::default();
        outcomes.push(true);
        for _ in 0..4 {
            outcomes.push(false);
        }
        outcomes.push(true);
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(outcomes.take(1, &cx), None);
        outcomes.resolve(2, 3, &DeliveryState::Released);
        outcomes.abandon(4);
        assert_eq!(outcomes.take(2, &cx), Some(DeliveryState::Released));
        outcomes.abandon(3);
        outcomes.resolve(4, 900, &DeliveryState::Accepted);
        assert_eq!(outcomes.slots.len(), 5, "the first is still out");
        outcomes.resolve(0, 1, &DeliveryState::Accepted);
        assert_eq!(outcomes.take(1, &cx), Some(DeliveryState::Accepted));
        assert!(outcomes.slots.is_empty());
        assert_eq!(outcomes.next(), 6);
    }
}
