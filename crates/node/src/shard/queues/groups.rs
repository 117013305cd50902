//! The Raft groups of the quorum queues of this shard.
//!
//! ```text
//!   closed turns ──> GroupSlot::open ──propose──> Group ──records──> journal ──synced──> Group
//!                                                                                          │ committed
//!   gates <── deliveries, receipts, answers <── driver, fifo <─────────────────────────────┘
//! ```
//!
//! [`Shard::propose`] is called at the end of each turn, [`Shard::pump_group`] after each call of a group, and
//! [`Shard::group_synced`] when the log has synced the records of a round. A group campaigns when the first request
//! arrives.

use broker::counters::RaftSums;
use bytes::Bytes;
use catalog::categories::RA;
use catalog::ids::QueueId;
use message::LastRoute;
use queue::{Drive, Driver, EntryAt, Fact};
use replica::{Entry, Payload, Progress, Record};

use crate::entries;
use crate::facts::{RestoredGroup, SeqsInFile};
use crate::shard::Shard;
use crate::shard::storage::{GroupRound, GroupSlot, NODE, QueueSlot};

impl Shard {
    /// Gives a quorum queue its group. A queue without a restored group gets a new one, whose only member is on this node.
    pub(super) fn place_group(&mut self, queue: QueueId, restored: Option<Box<RestoredGroup>>) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        if slot.fifo.is_damaged() {
            return self.close_damaged(queue);
        }
        let (group, base) = match restored {
            None => {
                let (group, base) = GroupSlot::founding();
                (group, Some(base))
            }
            Some(restored) => match restored.finish(NODE) {
                Ok(finished) => (GroupSlot::new(finished), None),
                Err(damaged) => {
                    let (vhost, name) = self.metadata.catalog().names_of(queue);
                    tracing::error!(target: RA, queue = %name, %vhost, "the Raft group of the quorum queue is damaged: {damaged}");
                    return self.close_damaged(queue);
                }
            },
        };
        let me = group.engine.me();
        self.counters.raft.advance(&RaftSums::default(), &group.reached());
        slot.group = Some(Box::new(group));
        if let Some(base) = base {
            self.storage.push_group(queue, me, &base);
        }
        self.pump_group(queue);
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let Some(group) = &mut slot.group else { return };
        let Progress { last, applied, .. } = group.engine.progress();
        if applied < last {
            // The member learns whether its last entries are committed when it leads.
            self.campaign(queue);
        } else if group.engine.rest() {
            // After a restart, few of many queues are used at once.
            slot.shrink();
        }
    }

    /// Proposes the facts of closed turns as entries, one entry per queue. Facts that nobody waits for are proposed
    /// [`GroupSlot::due_ms`] later, together with others.
    pub(in crate::shard) fn propose(&mut self) {
        for queue in self.storage.take_groups() {
            let Some(slot) = self.queues.get_mut(queue) else { continue };
            let (Some(group), Driver::Replica(driver)) = (&mut slot.group, &mut slot.driver) else {
                continue;
            };
            group.is_listed = false;
            let is_due = self.stopping || group.due_ms().is_some_and(|due| due <= self.here.now_ms);
            if !group.has_open() {
                // The turns have no facts, so they need no entry. They count as committed with the last entry.
                let Progress { last, applied, .. } = group.engine.progress();
                // The last entry of a leader is one of its term.
                driver.handle_proposed(EntryAt { term: group.engine.standing().term, index: last });
                if applied >= last {
                    self.commit_turns(queue, last);
                    self.storage.has_moved = true;
                }
                continue;
            }
            let Some(term) = group.leads_in().filter(|_| is_due || driver.is_waited_for()) else {
                self.storage.list_group(queue, group);
                continue;
            };
            let (facts, puts) = group.take_open();
            match group.engine.wake().propose(term, facts) {
                Ok(index) => {
                    driver.handle_proposed(EntryAt { term, index });
                    group.note_proposed(index, self.here.now_ms);
                }
                Err(refused) => {
                    // The member refuses only if it no longer leads in this term.
                    tracing::debug!(target: RA, ?queue, "a quorum queue makes no entry: {refused}");
                    self.roll_back(queue);
                    self.storage.has_moved = true;
                    continue;
                }
            }
            if let Some((first, last)) = puts {
                self.storage.note_puts(queue, first, last);
            }
            self.pump_group(queue);
        }
    }

    /// Takes the rounds of a queue's group: writes their records and applies their committed entries.
    pub(in crate::shard) fn pump_group(&mut self, queue: QueueId) {
        loop {
            let Some(slot) = self.queues.get_mut(queue) else { return };
            let Some(group) = &mut slot.group else { return };
            let polled = group.drive(&mut self.counters.raft, |group| group.engine.poll_round());
            let Some(round) = polled else { return };
            let me = group.engine.me();
            for record in &round.records {
                if let Record::Entry { entry, .. } = record {
                    let bytes = entry.payload.bytes();
                    group.log_bytes += bytes;
                    self.counters.raft_entries += 1;
                    self.counters.raft_bytes += bytes;
                }
            }
            if !round.records.is_empty() {
                self.storage.push_round(GroupRound { queue, number: round.number }, me, &round.records);
            }
            // There is one member, so there is nobody to send a message to.
            for entry in round.committed {
                self.apply_entry(queue, entry);
            }
        }
    }

    /// Called when the member no longer leads. Rolls back the turns after its last committed entry.
    fn roll_back(&mut self, queue: QueueId) {
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, gates| {
            let Driver::Replica(driver) = &mut slot.driver else { return };
            driver.depose();
            let mark = driver.committed();
            slot.driver.handle_rolled_back(mark, &mut slot.fifo, now_ms, output, gates);
        });
    }

    /// Called when the log has synced the records of a round.
    pub(in crate::shard) fn group_synced(&mut self, round: GroupRound) {
        let Some(slot) = self.queues.get_mut(round.queue) else { return };
        if let Some(group) = &mut slot.group {
            group.drive(&mut self.counters.raft, |group| group.engine.wake().on_synced(round.number));
            self.pump_group(round.queue);
        }
    }

    /// Makes the member of a queue campaign, unless it leads or campaigns already. Called when somebody waits for the queue.
    pub(in crate::shard) fn campaign(&mut self, queue: QueueId) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let Some(group) = slot.group.as_mut().filter(|group| group.may_campaign()) else { return };
        let campaign = |group: &mut GroupSlot| group.engine.wake().campaign();
        if let Err(refused) = group.drive(&mut self.counters.raft, campaign) {
            tracing::debug!(target: RA, ?queue, "a quorum queue does not campaign: {refused}");
        }
        self.pump_group(queue);
    }

    /// Applies a committed entry.
    fn apply_entry(&mut self, queue: QueueId, entry: Entry) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let (Some(group), Driver::Replica(driver)) = (&mut slot.group, &mut slot.driver) else { return };
        let took_ms = group.note_committed(entry.at.index, self.here.now_ms);
        let at = EntryAt { term: entry.at.term, index: entry.at.index };
        match entry.payload {
            Payload::Empty if group.leads_in() == Some(at.term) => {
                self.decide(queue, at);
                self.begin_to_lead(queue);
            }
            Payload::Empty | Payload::Change(_) => self.decide(queue, at),
            Payload::Facts(_) if driver.leads() => self.commit_turns(queue, at.index),
            Payload::Facts(facts) => {
                self.learn(queue, at.index, facts);
                self.decide(queue, at);
            }
        }
        took_ms.into_iter().for_each(|ms| self.queues.commits.note(ms));
    }

    /// Called for each entry that is committed while this member does not lead. Answers those who wait for an entry of an
    /// earlier term whose fate is known now.
    fn decide(&mut self, queue: QueueId, at: EntryAt) {
        let is_waited_for = |slot: &mut QueueSlot| {
            let Driver::Replica(driver) = &slot.driver else { return false };
            driver.has_doubts()
        };
        if !self.queues.get_mut(queue).is_some_and(is_waited_for) {
            return;
        }
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, gates| {
            let Driver::Replica(driver) = &mut slot.driver else { return };
            driver.handle_decided(at, &mut slot.fifo, now_ms, output, gates);
        });
    }

    /// Called when the entries up to `index` are committed. Sends the receipts and effects that waited for them.
    fn commit_turns(&mut self, queue: QueueId, index: u64) {
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, gates| {
            let Driver::Replica(driver) = &slot.driver else { return };
            let mark = driver.mark_of(index);
            slot.driver.handle_committed(mark, &mut slot.fifo, now_ms, output, gates);
        });
    }

    /// Applies the facts of a committed entry that was decided before a restart.
    fn learn(&mut self, queue: QueueId, index: u64, facts: Bytes) {
        let Some(facts) = entries::decode(facts, &mut LastRoute::default()) else {
            let (vhost, name) = self.metadata.catalog().names_of(queue);
            tracing::error!(target: RA, queue = %name, %vhost, "an entry of the quorum queue is damaged");
            return self.close_damaged(queue);
        };
        self.with_queue(queue, |slot, output, _| {
            let Some(group) = &mut slot.group else { return };
            let mut file = 0;
            while let Some((_, known)) = group.files.pop_front_if(|(known, _)| *known <= index) {
                file = known;
            }
            for fact in facts {
                if let Fact::Put { seq, .. } = fact {
                    slot.note_place(SeqsInFile { file, first: seq, last: seq });
                }
                slot.fifo.learn(fact, output);
            }
        });
    }

    /// Called when messages of the queue are lost. The queue only refuses requests from now on, so it needs no group.
    fn close_damaged(&mut self, queue: QueueId) {
        self.roll_back(queue);
        if let Some(group) = self.queues.get_mut(queue).and_then(|slot| slot.group.take()) {
            group.leave(&mut self.counters.raft);
        }
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, gates| {
            slot.fifo.quarantine(output);
            if let Driver::Replica(driver) = &mut slot.driver {
                // The consumers have been told that the queue is damaged.
                driver.handle_closed(&mut slot.fifo, now_ms, output, gates);
            }
        });
        self.begin_to_lead(queue);
    }

    /// Called when the member leads, or when there is no group any more. Applies the requests that have waited for this.
    fn begin_to_lead(&mut self, queue: QueueId) {
        if let Some(slot) = self.queues.get_mut(queue)
            && let Driver::Replica(driver) = &mut slot.driver
        {
            driver.lead();
        }
        for request in self.queues.waiting.remove(&queue).into_iter().flatten() {
            self.apply_one(queue, request);
        }
        // Timers that were due meanwhile were not handled. This call notes the queue's deadline again.
        self.with_queue(queue, |_, _, _| {});
    }
}
