//! Expiry of messages, length limits, and the expiry of an unused queue.

use std::num::NonZeroU64;

use message::DeathReason;

use super::entry::Entry;
use super::level::Head;
use super::{Fifo, Output};
use crate::{DeletedReason, Deliver, Overflow};

impl Fifo {
    /// Returns when [`Fifo::handle_timeout`] must be called next, in milliseconds since the epoch.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.end.is_some() || self.is_ending() {
            return None;
        }
        let age = self.age_deadline();
        let retry = self.leaving.next_retry_ms();
        let delayed = self.delayed.next_due_ms();
        let timeout = self.timeout_deadline();
        age.into_iter().chain(retry).chain(delayed).chain(timeout).chain(self.unused_deadline()).min()
    }

    /// Called at the deadline. Expires messages, sends dead letters again, ends delays, takes back deliveries that consumers
    /// hold for too long, and deletes the queue if it was unused for too long.
    pub fn handle_timeout(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        if self.end.is_some() || self.is_ending() {
            return;
        }
        if self.used_ms.is_none() {
            self.used_ms = NonZeroU64::new(now_ms);
        }
        if self.unused_deadline().is_some_and(|deadline| deadline <= now_ms) {
            self.delete(DeletedReason::Expired, None, out);
            return;
        }
        self.end_delays(now_ms);
        self.end_timeouts(now_ms, out, deliver);
        self.retry(now_ms, out, deliver);
        self.journal.flush(out);
    }

    /// Removes expired messages at the head of each level, as long as more dead letters may be sent.
    #[inline]
    pub(super) fn expire(&mut self, now_ms: u64, out: &mut Output) {
        if self.ages {
            self.expire_levels(now_ms, out);
        }
    }

    fn expire_levels(&mut self, now_ms: u64, out: &mut Output) {
        for level in self.ready.occupied() {
            self.expire_level(level, now_ms, out);
        }
    }

    /// Removes and returns the next message to deliver.
    pub(super) fn take_head(&mut self, now_ms: u64, out: &mut Output) -> Option<Entry> {
        let level = self.next_level(now_ms, out)?;
        self.ready.pop(level)
    }

    /// Returns the level of the next message to deliver. `None` if there is no message, or if the message must be read
    /// from the disk first. Also `None` if the next message has expired and cannot be dead-lettered yet: it must not be
    /// delivered, and no other message may overtake it.
    #[inline(always)]
    pub(super) fn next_level(&mut self, now_ms: u64, out: &mut Output) -> Option<usize> {
        if self.ages {
            let level = loop {
                let level = self.ready.top()?;
                self.expire_level(level, now_ms, out);
                if self.ready.head(level).is_some() {
                    break level;
                }
            };
            if self.head_expired(level, now_ms) {
                return None;
            }
        }
        if !self.journal.runs.is_empty()
            && let Some(load) = self.ready.missing()
        {
            self.load(load, out);
            return None;
        }
        self.ready.top()
    }

    /// Returns whether the queue would exceed a length limit with this many more messages and bytes. The messages are
    /// those that are ready, staged or delayed, and dead letters that are kept. The bytes are those of ready and staged
    /// messages only.
    #[inline]
    pub(super) fn overflows(&self, messages: u64, bytes: u64) -> bool {
        let Self { config, ready, journal, delayed, .. } = self;
        // With the other kinds of overflow, dropping or dead-lettering a message would not make room.
        let counts_dead = self.keeps_dead_letters() && config.overflow == Overflow::RejectPublish;
        let dead = || if counts_dead { self.leaving.len() as u64 } else { 0 };
        let count = || ready.len() + journal.staged().0 + delayed.len() + dead();
        config.max_length.is_some_and(|limit| count() + messages > limit)
            || config.max_length_bytes.is_some_and(|limit| ready.bytes() + journal.staged().1 + bytes > limit)
    }

    /// Drops the oldest messages until the length limits are met, as long as more dead letters may be sent.
    #[inline]
    pub(super) fn shed(&mut self, now_ms: u64, out: &mut Output) {
        if self.overflows(0, 0) && self.config.overflow == Overflow::DropHead {
            self.drop_heads(now_ms, out);
        }
    }

    fn drop_heads(&mut self, now_ms: u64, out: &mut Output) {
        while self.overflows(0, 0) && self.can_kill() {
            let Some(entry) = self.ready.top().and_then(|level| self.ready.pop(level)) else {
                self.ready.missing().into_iter().for_each(|load| self.load(load, out));
                break;
            };
            self.seldom.make().over_length += 1;
            self.kill(entry, DeathReason::MaxLength, now_ms, out);
        }
    }

    /// [`Fifo::expire`] for one level. A queue that has decided to end keeps its messages. Facts about them would come after the
    /// fact that it ends.
    fn expire_level(&mut self, level: usize, now_ms: u64, out: &mut Output) {
        if self.is_ending() {
            return;
        }
        loop {
            while self.head_expired(level, now_ms) && self.can_kill() {
                let Some(entry) = self.ready.pop(level) else { break };
                self.counts.expired += 1;
                self.kill(entry, DeathReason::Expired, now_ms, out);
            }
            if !self.expire_away(level, now_ms, out) {
                return;
            }
        }
    }

    fn head_expired(&self, level: usize, now_ms: u64) -> bool {
        let Some(Head::Entry(head)) = self.ready.head(level) else { return false };
        head.expires_ms(self.config.message_ttl_ms).is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    fn age_deadline(&self) -> Option<u64> {
        // While no more dead letters may be sent, an expired head stays, and its deadline would be due again and again.
        // So there is no deadline. When a dead letter is answered, `make_room` expires the head.
        if !self.ages || !self.can_kill() {
            return None;
        }
        let heads = self.ready.occupied().filter_map(|level| self.ready.head(level));
        let queue_ttl_ms = self.config.message_ttl_ms;
        let due = heads.filter_map(|head| match head {
            Head::Entry(head) => head.expires_ms(queue_ttl_ms),
            // `handle_loaded` checks the age of the messages that it was given.
            _ if self.reading.is_some() => None,
            away => self.journal.runs.get(away.load()?.run)?.ages.earliest_ms(queue_ttl_ms),
        });
        due.min()
    }

    fn unused_deadline(&self) -> Option<u64> {
        let expires_ms = self.config.expires_ms?;
        // A new queue does not know the time yet. A deadline of 0 asks for a call at once, and that call sets `used_ms`.
        let used = self.used_ms.map_or(0, |used_ms| used_ms.get().saturating_add(expires_ms));
        (self.consumers.count() == 0).then_some(used)
    }
}
