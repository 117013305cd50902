//! A quorum queue as the owner of its Raft group.
//!
//! ```text
//!   closed turns ──> OpenEntry ──propose_of_queue──> groups ──> storage ──synced──> groups
//!                                                                                     │ handle_committed
//!   gates <── deliveries, receipts, answers <── driver, fifo <── commit_turns, learn <┘
//! ```
//!
//! [`Shard::propose_of_queue`] is called at the end of a turn for each queue with facts that are in no entry. A group
//! campaigns when the first request arrives.

use broker::counters::RaftSums;
use bytes::Bytes;
use catalog::categories::RA;
use catalog::ids::QueueId;
use message::LastRoute;
use queue::{EntryAt, Fact, Leadership};
use replica::{Entry, Payload, Progress, Role, Standing};

use crate::entries;
use crate::facts::{RestoredGroup, SeqsInFile, push_group};
use crate::shard::groups::{self, GroupId, Hosted, Owner, Proposed};
use crate::shard::{Mutation, Shard};

/// A quorum queue that lives on this shard.
struct QueueOwner<'a> {
    shard: &'a mut Shard,
    queue: QueueId,
}

impl Owner for QueueOwner<'_> {
    fn id(&self) -> GroupId {
        GroupId::Queue(self.queue)
    }

    fn shard(&mut self) -> &mut Shard {
        self.shard
    }

    fn hosted(&mut self) -> Option<&mut Hosted> {
        self.shard.queues.get_mut(self.queue)?.group.as_deref_mut()
    }

    /// Rolls back the turns after the last committed entry if the member led before, and says who leads now.
    fn handle_standing(&mut self, _standing: Standing) {
        let Self { shard, queue } = self;
        if shard.queues.get(*queue).is_some_and(|slot| slot.driver.decides()) {
            shard.roll_back(*queue);
        }
        shard.note_leadership(*queue);
    }

    fn handle_committed(&mut self, entry: Entry, is_mine: bool) {
        let Self { shard, queue } = self;
        let at = EntryAt { term: entry.at.term, index: entry.at.index };
        match entry.payload {
            Payload::Empty if is_mine => {
                shard.decide(*queue, at);
                shard.begin_to_lead(*queue);
            }
            Payload::Empty | Payload::Change(_) => shard.decide(*queue, at),
            Payload::Facts(_) if is_mine => shard.commit_turns(*queue, at.index),
            Payload::Facts(facts) => {
                shard.learn(*queue, at.index, facts);
                shard.decide(*queue, at);
            }
        }
    }

    fn base(&mut self) -> Bytes {
        let slot = self.shard.queues.get(self.queue);
        slot.map(|slot| entries::content_of(slot.fifo.next_seq(), slot.fifo.ended())).unwrap_or_default()
    }

    /// Ends the queue if the content says so. Otherwise closes it: the content of a base does not name the queue's messages, and no node
    /// can ask another one for them yet.
    fn install(&mut self, content: Bytes) {
        if let Some(reason) = entries::decode_content(content).and_then(|content| content.ended) {
            return self.shard.learn_facts(self.queue, vec![Fact::Ended { reason }], 0);
        }
        let (vhost, name) = self.shard.metadata.catalog().names_of(self.queue);
        tracing::error!(target: RA, queue = %name, %vhost, "the quorum queue has been sent a base without its messages");
        self.shard.close_damaged(self.queue);
    }
}

impl Shard {
    fn owner(&mut self, queue: QueueId) -> QueueOwner<'_> {
        QueueOwner { shard: self, queue }
    }

    /// Gives a quorum queue its group. A queue without a restored group gets a new one: it was never founded, as the declaration says
    /// ([`crate::facts::Restored::founded`]).
    pub(super) fn place_group(&mut self, queue: QueueId, restored: Option<Box<RestoredGroup>>) {
        let node = self.here.number;
        let Some(slot) = self.queues.get_mut(queue) else { return };
        if slot.fifo.is_damaged() {
            return self.close_damaged(queue);
        }
        let (group, base) = match restored {
            None => {
                let members = self.metadata.catalog().queue_by_id(queue).map(|record| record.members.clone());
                let (group, base) =
                    Hosted::founding(node, members.unwrap_or_default().nodes(), entries::content(1));
                (group, Some(base))
            }
            Some(restored) => match restored.finish(node) {
                Ok(finished) => (Hosted::new(finished), None),
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
            self.storage.push_records(|into| push_group(into, queue, me, &base));
            self.storage.note_founded(queue);
        }
        self.note_leadership(queue);
        groups::pump(&mut self.owner(queue));
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let Some(group) = &mut slot.group else { return };
        let Progress { last, applied, .. } = group.engine.progress();
        if applied < last {
            // Only with other voters: the member learns whether its last entries are committed when it leads.
            self.campaign(queue);
        } else if group.engine.rest() {
            // After a restart, few of many queues are used at once.
            slot.shrink();
        }
    }

    /// Proposes the facts of a queue's closed turns as an entry. Facts that nobody waits for are proposed later, together with others:
    /// see [`groups::Groups::next_deadline`].
    pub(in crate::shard) fn propose_of_queue(&mut self, queue: QueueId) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let (Some(group), driver) = (&mut slot.group, &mut slot.driver) else { return };
        group.is_listed = false;
        if group.open.is_empty() {
            // The turns have no facts, so they need no entry. They count as committed with the last entry.
            let Progress { last, applied, .. } = group.engine.progress();
            // The last entry of a leader is one of its term.
            driver.handle_proposed(EntryAt { term: group.standing().term, index: last });
            if applied >= last {
                self.commit_turns(queue, last);
                self.groups.note_moved();
            }
            return;
        }
        let is_due = self.stopping || group.open.due_ms().is_some_and(|due| due <= self.here.now_ms);
        let Some(term) = group.leads_in().filter(|_| is_due || driver.is_waited_for()) else {
            return self.groups.list(GroupId::Queue(queue), group);
        };
        let proposed = groups::propose(&mut self.owner(queue));
        let Some(slot) = self.queues.get_mut(queue) else { return };
        match proposed {
            Some(Proposed { index, puts }) => {
                slot.driver.handle_proposed(EntryAt { term, index });
                if let Some((first, last)) = puts {
                    self.storage.note_puts(queue, first, last);
                }
                groups::pump(&mut self.owner(queue));
            }
            None => {
                // A queue that still decides was not rolled back: its facts wait, and nothing has moved.
                let waits = slot.driver.decides() && slot.group.is_some();
                if let Some(group) = slot.group.as_mut().filter(|group| !group.open.is_empty()) {
                    self.groups.list(GroupId::Queue(queue), group);
                }
                if !waits {
                    self.groups.note_moved();
                }
            }
        }
    }

    /// Called when the records of a round of the queue's group are synced.
    pub(in crate::shard) fn round_of_queue_synced(&mut self, queue: QueueId, number: u64) {
        groups::handle_synced(&mut self.owner(queue), number);
        if self.has(Mutation::CommitWhenSynced)
            && let Some(hosted) = self.owner(queue).hosted()
        {
            let written = hosted.engine.progress().written;
            self.commit_turns(queue, written);
        }
    }

    /// Makes the member of a queue campaign, unless it leads or campaigns already. Called when somebody waits for the queue.
    pub(super) fn campaign(&mut self, queue: QueueId) {
        groups::campaign(&mut self.owner(queue));
    }

    /// Called when the live records of the queue in the log files up to `file` have been written again. The base of its group is,
    /// too, with the entries after it.
    pub(in crate::shard) fn queue_evacuated(&mut self, queue: QueueId, file: u64) {
        let group = self.queues.get(queue).and_then(|slot| slot.group.as_ref());
        if group.is_some_and(|group| group.base_file <= file) {
            self.write_base(queue);
        }
    }

    /// Writes a new base of the queue's group, and the entries after it. Returns the index of the base, or `None` if the queue has no
    /// group.
    pub(super) fn write_base(&mut self, queue: QueueId) -> Option<u64> {
        for entry in groups::write_base(&mut self.owner(queue)).unwrap_or_default() {
            // The messages of an entry that is not committed are repeated with it only. So their new place is noted here.
            if let Payload::Facts(facts) = entry.payload {
                for fact in entries::decode(facts, &mut LastRoute::default()).unwrap_or_default() {
                    if let Fact::Put { seq, .. } = fact {
                        self.storage.note_puts(queue, seq, seq);
                    }
                }
            }
        }
        self.owner(queue).hosted().map(|hosted| hosted.base_index)
    }

    /// Rolls back the turns after the last committed entry.
    fn roll_back(&mut self, queue: QueueId) {
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, _| slot.driver.depose(&mut slot.fifo, now_ms, output));
    }

    /// Called when the entries up to `index` are committed. Sends the receipts and effects that waited for them.
    fn commit_turns(&mut self, queue: QueueId, index: u64) {
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, gates| {
            slot.driver.handle_entries_committed(index, &mut slot.fifo, now_ms, output, gates);
        });
        self.ask_again_if_ended(queue);
    }

    /// Answers the requests that have waited for the end of a queue, if its entry is committed.
    fn ask_again_if_ended(&mut self, queue: QueueId) {
        if self.queues.get(queue).is_some_and(|slot| slot.fifo.ended().is_some()) {
            self.ask_again(queue);
        }
    }

    /// Called for each entry that is committed and that this member has not proposed in its term. Answers those who wait for an
    /// entry of an earlier term whose fate is known now.
    fn decide(&mut self, queue: QueueId, at: EntryAt) {
        if self.queues.get(queue).is_some_and(|slot| slot.driver.has_doubts()) {
            let now_ms = self.here.now_ms;
            self.with_queue(queue, |slot, output, _| {
                slot.driver.handle_decided(at, &mut slot.fifo, now_ms, output);
            });
        }
    }

    /// Applies the facts of a committed entry that somebody else has decided, or this member before a restart.
    fn learn(&mut self, queue: QueueId, index: u64, facts: Bytes) {
        let Some(facts) = entries::decode(facts, &mut LastRoute::default()) else {
            let (vhost, name) = self.metadata.catalog().names_of(queue);
            tracing::error!(target: RA, queue = %name, %vhost, "an entry of the quorum queue is damaged");
            return self.close_damaged(queue);
        };
        self.learn_facts(queue, facts, index);
    }

    /// Applies committed facts of the entries up to `index`.
    fn learn_facts(&mut self, queue: QueueId, facts: Vec<Fact>, index: u64) {
        let now_ms = self.here.now_ms;
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
                slot.driver.learn(fact, now_ms, &mut slot.fifo, output);
            }
        });
        self.ask_again_if_ended(queue);
    }

    /// Called when messages of the queue are lost. The queue only refuses requests from now on, so it needs no group.
    fn close_damaged(&mut self, queue: QueueId) {
        self.roll_back(queue);
        if let Some(group) = self.queues.get_mut(queue).and_then(|slot| slot.group.take()) {
            group.leave(&mut self.counters.raft);
        }
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, _| {
            slot.fifo.quarantine(output);
            // The consumers have been told that the queue is damaged.
            slot.driver.handle_closed(&mut slot.fifo, now_ms, output);
        });
        self.begin_to_lead(queue);
    }

    /// Called when the queue may decide from now on. Applies the requests that have waited for this.
    fn begin_to_lead(&mut self, queue: QueueId) {
        let now_ms = self.here.now_ms;
        self.with_queue(queue, |slot, output, gates| {
            slot.driver.lead(&mut slot.fifo, now_ms, output, gates);
        });
        self.ask_again(queue);
    }

    /// Tells the driver of a queue whose member does not lead yet who does, and asks again for the requests that wait.
    fn note_leadership(&mut self, queue: QueueId) {
        let since_ms = self.here.now_ms;
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let Some(hosted) = slot.group.as_mut() else { return };
        let leadership = match hosted.standing().role {
            Role::Follower { leader: Some(leader) } => Leadership::Follows { leader: leader.node },
            _ if hosted.is_only_voter() => Leadership::Alone,
            // A leader decides when a majority has the first entry of its term. Until then nobody does.
            Role::Follower { leader: None } | Role::Candidate | Role::Leader => {
                Leadership::Leaderless { since_ms }
            }
        };
        let followed = slot.driver.follows();
        slot.driver.handle_leadership(leadership);
        if followed && !slot.driver.follows() {
            self.tell_of_end(queue);
        }
        if leadership != Leadership::Alone {
            self.ask_again(queue);
        }
    }

    /// Applies the requests that wait for a leader, as far as they need not wait any more.
    pub(super) fn ask_again(&mut self, queue: QueueId) {
        for request in self.queues.waiting.remove(&queue).into_iter().flatten() {
            self.apply_one(queue, request);
        }
        // Timers that were due meanwhile were not handled. This call notes the queue's deadline again.
        self.with_queue(queue, |_, _, _| {});
    }
}

#[cfg(test)]
mod ends;
#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use broker::settings::Settings;
    use catalog::access::Access;
    use catalog::{Arguments, Command, DeclareQueue};
    use message::{Message, Parts, Route};
    use queue::{NO_LEADER_MS, Publish, PublisherId, RejectReason, Request, Verdict};
    use replica::{
        Base, Body, Group, Member, Message as Sent, Options, Position, Record, Restoring, Support,
    };
    use wal::{Completion, Size, Step};

    use super::*;
    use crate::facts::{FinishedGroup, Restored, RestoredQueue};
    use crate::{StorageLimits, make_shards};

    pub(super) fn message() -> Message {
        let parts = Parts { wire: vec![0, 0x53, 0x75, 0xa0, 1, 7].into(), durable: true, ..Parts::default() };
        Message::new(parts, Arc::new(Route::simple("", "q")))
    }

    pub(super) fn publish(shard: &mut Shard, queue: QueueId, seq: u64) {
        let publish = Publish { publisher: PublisherId(1), seq, message: message(), pipelines: false };
        shard.apply_one(queue, Request::Publish(publish));
    }

    pub(super) fn write_all(shard: &mut Shard) {
        while let Some(handover) = shard.poll_handover() {
            for step in [Step::Written, Step::Synced] {
                let (ticket, size) = (handover.ticket, Size::default());
                shard.handle_logged(Completion { shard: 0, ticket, step, file: 1, size, result: Ok(()) });
            }
        }
    }

    /// Returns a shard with a quorum queue that has one message, and whose member leads.
    pub(super) fn leading() -> (Shard, QueueId) {
        let mut restored = Restored::default();
        let quorum: Arguments = [("x-queue-type".to_owned(), amqp10::Value::from("quorum"))].into();
        let declare = Command::DeclareQueue(DeclareQueue::new("/", "q", quorum));
        let catalog = &mut restored.catalog;
        for change in catalog.decide(declare, &mut catalog.queue_ids()).unwrap().changes {
            catalog.apply(&change);
        }
        let queue = catalog.listed_queue("/", "q").unwrap().id;
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let mut shard = make_shards(restored, 1, &settings, &access, StorageLimits::default(), 0).remove(0);
        shard.place_queue(queue, RestoredQueue::default());
        publish(&mut shard, queue, 1);
        write_all(&mut shard);
        assert_eq!(ready(&shard, queue), 1);
        shard.mail.receipts.drain().for_each(drop);
        (shard, queue)
    }

    /// Publishes a message, and proposes the entry with it. Returns where the entry is.
    fn propose(shard: &mut Shard, queue: QueueId, seq: u64) -> Position {
        publish(shard, queue, seq);
        shard.propose_entries();
        let group = shard.queues.get(queue).unwrap().group.as_ref().unwrap();
        Position { term: group.leads_in().unwrap(), index: group.engine.progress().last }
    }

    /// Returns the publishes that are answered now.
    pub(super) fn answers(shard: &mut Shard) -> Vec<(u64, Verdict)> {
        let receipts: Vec<_> = shard.mail.receipts.drain().collect();
        receipts.iter().flat_map(|of| (of.first..=of.last).map(|seq| (seq, of.verdict))).collect()
    }

    pub(super) fn ready(shard: &Shard, queue: QueueId) -> u64 {
        shard.queue_report(queue).unwrap().ready
    }

    pub(super) fn decides(shard: &Shard, queue: QueueId) -> bool {
        shard.queues.get(queue).unwrap().driver.decides()
    }

    const FOLLOWS: Standing = Standing { term: 9, role: Role::Follower { leader: None } };

    #[test]
    fn a_deposed_queue_rolls_back_and_learns_what_became_of_its_entries() {
        let (mut shard, queue) = leading();
        let at = propose(&mut shard, queue, 2);
        publish(&mut shard, queue, 3);
        assert!(shard.mail.receipts.is_empty(), "nothing is synced");
        shard.owner(queue).handle_standing(FOLLOWS);
        assert_eq!((ready(&shard, queue), decides(&shard, queue)), (1, false));
        // The next leader may have the entry with the second message. The third one is in no entry.
        assert_eq!(answers(&mut shard), [(3, Verdict::Rejected(RejectReason::Unavailable))]);
        publish(&mut shard, queue, 4);
        assert_eq!(answers(&mut shard), [], "it is held");

        // The next leader has the entry.
        let mut facts = Vec::new();
        entries::push_fact(&mut facts, &Fact::Put { seq: 2, message: message(), at_ms: 1 });
        let entry = Entry { at, payload: Payload::Facts(facts.into()) };
        shard.owner(queue).handle_committed(entry, false);
        assert_eq!((ready(&shard, queue), decides(&shard, queue)), (2, false));
        assert_eq!(answers(&mut shard), [(2, Verdict::Accepted)]);
        let first = Entry { at: Position { term: 10, index: 5 }, payload: Payload::Empty };
        shard.owner(queue).handle_committed(first.clone(), false);
        assert!(!decides(&shard, queue), "another member leads");
        shard.owner(queue).handle_committed(first, true);
        assert!(decides(&shard, queue));
    }

    #[test]
    fn a_publish_whose_entry_is_lost_is_rejected_when_that_is_known() {
        for is_closed in [false, true] {
            let (mut shard, queue) = leading();
            let at = propose(&mut shard, queue, 2);
            shard.owner(queue).handle_standing(FOLLOWS);
            assert_eq!(answers(&mut shard), []);
            match is_closed {
                true => shard.close_damaged(queue),
                false => {
                    let at = Position { term: at.term + 1, ..at };
                    shard.owner(queue).handle_committed(Entry { at, payload: Payload::Empty }, false);
                    assert!(!decides(&shard, queue));
                }
            }
            assert_eq!(answers(&mut shard), [(2, Verdict::Rejected(RejectReason::Unavailable))]);
        }
    }

    #[test]
    fn the_publishes_that_are_in_no_entry_are_rejected() {
        let (mut shard, queue) = leading();
        publish(&mut shard, queue, 2);
        shard.owner(queue).handle_standing(FOLLOWS);
        assert_eq!(answers(&mut shard), [(2, Verdict::Rejected(RejectReason::Unavailable))]);
        // A member that did not lead has nothing to roll back.
        shard.owner(queue).handle_standing(Standing { term: 10, ..FOLLOWS });
        assert!(shard.mail.receipts.is_empty() && ready(&shard, queue) == 1);
    }

    /// Returns a member that leads a group of three in term 2. The second member has all of its entries, and the third one says nothing.
    pub(super) fn leader_of_three() -> Group {
        let [me, other] = [1, 2].map(|node| Member { node, number: node });
        let mut restoring = Restoring::default();
        restoring.on_record(Record::Base(Base::founding(&[1, 2, 3], entries::content(2)))).unwrap();
        let mut group = restoring.finish(me, Options::default()).unwrap();
        sync(&mut group);
        group.campaign().unwrap();
        let commit = Position { term: 1, index: 1 };
        for body in [
            Body::VoteResponse { pre: true, granted: true, commit },
            Body::VoteResponse { pre: false, granted: true, commit },
            Body::Appended { index: 2, commit: 1 },
        ] {
            sync(&mut group);
            group.step(Sent { from: other, to: me, term: 2, body }, &Support::default()).unwrap();
        }
        sync(&mut group);
        group
    }

    fn sync(group: &mut Group) {
        while let Some(round) = group.poll_round() {
            group.on_synced(round.number);
        }
    }

    /// Returns such a member that transfers the leadership to the second one.
    fn transferring() -> Group {
        let mut group = leader_of_three();
        group.transfer(2, Member { node: 2, number: 2 }).unwrap();
        sync(&mut group);
        group
    }

    /// Replaces the group by one of three members, whose other two say nothing.
    fn join_three(shard: &mut Shard, queue: QueueId) {
        let mut restoring = Restoring::default();
        restoring.on_record(Record::Base(Base::founding(&[1, 2, 3], entries::content(2)))).unwrap();
        let group = restoring.finish(Member { node: 1, number: 1 }, Options::default()).unwrap();
        let finished =
            FinishedGroup { group, base_file: 0, base_index: 1, log_bytes: 0, files: VecDeque::new() };
        shard.queues.get_mut(queue).unwrap().group = Some(Box::new(Hosted::new(finished)));
        shard.roll_back(queue);
        shard.note_leadership(queue);
    }

    fn pass(shard: &mut Shard, ms: u64) {
        shard.set_now(shard.now_ms() + ms);
        shard.queue_timeouts();
    }

    /// Returns the number of requests that wait for a leader. A member that does not lead applies none, so those that do not wait are
    /// refused.
    fn waiting(shard: &Shard, queue: QueueId) -> usize {
        assert!(!decides(shard, queue));
        shard.queues.waiting.get(&queue).map_or(0, Vec::len)
    }

    #[test]
    fn without_a_leader_publishes_wait_for_5_s_and_are_refused_then() {
        let (mut shard, queue) = leading();
        join_three(&mut shard, queue);
        publish(&mut shard, queue, 2);
        pass(&mut shard, NO_LEADER_MS - 1);
        assert_eq!(waiting(&shard, queue), 1);
        // Another election gives them no more time.
        groups::campaign(&mut shard.owner(queue));
        assert_eq!(waiting(&shard, queue), 1);
        pass(&mut shard, 1);
        assert_eq!(waiting(&shard, queue), 0);
        publish(&mut shard, queue, 3);
        assert_eq!(waiting(&shard, queue), 0);
    }

    #[test]
    fn what_waits_for_a_leader_is_refused_when_another_node_has_it() {
        let (mut shard, queue) = leading();
        join_three(&mut shard, queue);
        publish(&mut shard, queue, 2);
        assert_eq!(waiting(&shard, queue), 1);
        let [me, other] = [1, 2].map(|node| Member { node, number: node });
        let ping = Sent { from: other, to: me, term: 5, body: Body::Ping { commit: 1 } };
        let mut owner = shard.owner(queue);
        owner.hosted().unwrap().engine.wake().step(ping, &Support::default()).unwrap();
        groups::pump(&mut owner);
        assert_eq!(waiting(&shard, queue), 0);
        publish(&mut shard, queue, 3);
        assert_eq!(waiting(&shard, queue), 0);
    }

    #[test]
    fn facts_that_wait_for_a_transfer_ask_for_no_other_turn() {
        let (mut shard, queue) = leading();
        let group = transferring();
        assert_eq!(group.standing(), Standing { term: 2, role: Role::Leader });
        let finished =
            FinishedGroup { group, base_file: 0, base_index: 1, log_bytes: 0, files: VecDeque::new() };
        shard.queues.get_mut(queue).unwrap().group = Some(Box::new(Hosted::new(finished)));
        shard.groups.take_moved();
        publish(&mut shard, queue, 2);
        shard.propose_entries();
        assert!(shard.groups.has_unproposed() && decides(&shard, queue));
        assert!(!shard.groups.take_moved(), "turns would follow each other until the transfer ends");
    }

    #[test]
    fn a_queue_whose_messages_are_in_no_base_is_closed() {
        let (mut shard, queue) = leading();
        let content = shard.owner(queue).base();
        assert_eq!(entries::decode_content(content.clone()).map(|content| content.next_seq), Some(2));
        shard.owner(queue).install(content);
        let slot = shard.queues.get(queue).unwrap();
        assert!(slot.fifo.is_damaged() && slot.group.is_none());
        // What is still on its way to the disk concerns no group any more.
        write_all(&mut shard);
    }
}
