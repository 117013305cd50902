//! What operators see and do at the Raft group of a quorum queue.

use std::cell::RefCell;
use std::rc::Rc;

use amqp10::Value;
use broker::admin_api::{GroupRow, Reclaimed};
use broker::counters::RaftSums;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::ids::QueueId;
use node::StorageLimits;
use node::shard::questions::{Act, AnswerTo, Question};
use queue::{Peek, PeekEnd, Peeked, Refusal};
use wal::{BlockRead, Extent, Flaw, Packed, ReadError, ReadJob};

use super::house::House;
use crate::asks::keep;

struct Group {
    house: House,
    queue: QueueId,
    publisher: usize,
    out: u32,
}

impl Group {
    fn new() -> Self {
        let mut house = House::with(1, Settings::default(), StorageLimits::default());
        let quorum = [("x-queue-type".to_owned(), Value::from("quorum"))].into();
        let queue = house.declare("q", quorum);
        let publisher = house.connect(0);
        let out = house.sender(publisher, "/queues/q");
        Self { house, queue, publisher, out }
    }

    fn send(&mut self, body: &[u8]) {
        self.house.send(self.publisher, self.out, body);
    }

    fn row(&self) -> Option<GroupRow> {
        self.house.shards[0].group_row(self.queue)
    }

    fn act<T: 'static>(&mut self, act: impl FnOnce(AnswerTo<T>) -> Act) -> T {
        let answer = Rc::new(RefCell::new(None));
        let into = answer.clone();
        let to = keep(move |reply| _ = into.borrow_mut().replace(reply));
        self.house.shards[0].handle_question(Question::Act(act(to)));
        self.house.settle();
        answer.borrow_mut().take().expect("it is answered")
    }

    fn checkpoint(&mut self) -> Result<u64, Refusal> {
        let queue = self.queue;
        self.act(|to| Act::Checkpoint { queue, to })
    }

    fn reclaim(&mut self) -> Result<Reclaimed, Refusal> {
        let queue = self.queue;
        self.act(|to| Act::Reclaim { queue, to })
    }

    /// Returns the body, the delivery count and the acquired count of the message at a position.
    fn peek(&mut self, position: u64) -> Option<(Bytes, u32, u32)> {
        let (queue, peek) = (self.queue, Peek { position, count: 1, hint: None });
        let Peeked { messages, .. } = self.act(|to| Act::Peek { queue, peek, to }).unwrap();
        messages.first().map(|peeked| (peeked.message.bare(), peeked.delivery_count, peeked.acquired_count))
    }
}

#[test]
fn a_group_shows_how_far_its_log_has_come() {
    let mut group = Group::new();
    let row = group.row().expect("it is founded with the declaration");
    assert_eq!((row.leads, row.rests, row.last_index, row.base_index), (false, true, 1, 1));
    group.house.log_stopped = true;
    group.send(b"1");
    let row = group.row().expect("the group runs");
    assert_eq!((row.leads, row.commit_index, row.applied_index, row.base_index), (false, 1, 1, 1));
    group.house.log_stopped = false;
    group.house.settle();
    // The first entry of the leader, and the message.
    let row = group.row().unwrap();
    assert_eq!((row.leads, row.last_index, row.written_index, row.applied_index), (true, 3, 3, 3));
    assert_eq!((row.commit_index, row.log_entries()), (3, 2));
    let before = row.log_bytes;
    assert!(before > 0);
    group.house.log_stopped = true;
    group.send(b"2");
    group.house.now_ms += 30;
    let row = group.row().unwrap();
    assert_eq!((row.last_index, row.written_index, row.commit_index, row.log_bytes), (4, 3, 3, 2 * before));
    assert_eq!(row.commit_latency_ms, 0);
    group.house.log_stopped = false;
    group.house.settle();
    let row = group.row().unwrap();
    assert_eq!((row.written_index, row.commit_index, row.commit_latency_ms), (4, 4, 30));
    let totals = group.house.shards[0].totals();
    assert_eq!((totals.counters.raft_entries, totals.counters.raft_bytes), (3, 2 * before));
    assert_eq!(totals.commit_latency_ms, 30);
    group.house.now_ms += 5000;
    group.house.settle();
    group.house.now_ms += 5000;
    group.house.settle();
    assert_eq!(group.house.shards[0].totals().commit_latency_ms, 0, "it was long ago");
}

#[test]
fn a_checkpoint_moves_the_base_and_needs_the_log() {
    let mut group = Group::new();
    assert_eq!(group.checkpoint(), Ok(1));
    group.send(b"1");
    group.send(b"2");
    assert_eq!(group.checkpoint(), Ok(4));
    let row = group.row().unwrap();
    assert_eq!((row.base_index, row.log_entries(), row.log_bytes), (4, 0, 0));
    group.house.log_stopped = true;
    group.send(b"3");
    assert_eq!(group.checkpoint(), Ok(4));
    let row = group.row().unwrap();
    assert_eq!((row.base_index, row.log_entries()), (4, 1), "the entry that is not committed stays");
    assert!(row.log_bytes > 0);
    group.house.log_stopped = false;
    group.house.settle();
    assert_eq!(group.house.shards[0].queue_report(group.queue).unwrap().ready, 3);
    let classic = group.house.declare("classic", Default::default());
    let out = group.house.sender(group.publisher, "/queues/classic");
    group.house.send(group.publisher, out, b"1");
    group.queue = classic;
    assert_eq!(group.checkpoint(), Err(Refusal::NotSupported));
}

/// Dashboards show rates and differences of the sums. A sum that falls when a queue is deleted would look like a restart.
#[test]
fn sums_over_groups_follow_them_and_keep_deleted_queues() {
    let mut group = Group::new();
    let founded = RaftSums { term: 1, written_index: 1, commit_index: 1, applied_index: 1, base_index: 1 };
    assert_eq!(group.house.shards[0].totals().counters.raft, founded, "nobody has used the queue");
    let quorum = [("x-queue-type".to_owned(), Value::from("quorum"))].into();
    let other = group.house.declare("other", quorum);
    let out = group.house.sender(group.publisher, "/queues/other");
    let check = |group: &mut Group, when: &str| {
        let rows =
            [group.queue, other].map(|queue| group.house.shards[0].group_row(queue).unwrap_or_default());
        let sum = |of: fn(&GroupRow) -> u64| rows.iter().map(of).sum::<u64>();
        let expected = RaftSums {
            term: sum(|row| row.term),
            written_index: sum(|row| row.written_index),
            commit_index: sum(|row| row.commit_index),
            applied_index: sum(|row| row.applied_index),
            base_index: sum(|row| row.base_index),
        };
        let sums = group.house.shards[0].totals().counters.raft;
        assert_eq!(sums, expected, "{when}");
        sums
    };
    group.send(b"1");
    group.house.send(group.publisher, out, b"1");
    let sums = check(&mut group, "both have a message");
    // A new group is in term 1, and in term 2 when its member leads.
    assert_eq!((sums.term, sums.written_index, sums.applied_index, sums.base_index), (4, 6, 6, 2));
    group.house.log_stopped = true;
    group.send(b"2");
    let sums = check(&mut group, "the log is slow");
    assert_eq!(sums.written_index, 6);
    group.house.log_stopped = false;
    group.house.settle();
    assert_eq!(check(&mut group, "the log has written").commit_index, 7);
    assert_eq!(group.checkpoint(), Ok(4));
    let before = check(&mut group, "a new base");
    assert_eq!(before.base_index, 5);
    group.house.delete("other");
    let after = group.house.shards[0].totals().counters.raft;
    // The last entry of the deleted queue says that it has ended.
    let ended = RaftSums {
        written_index: before.written_index + 1,
        commit_index: before.commit_index + 1,
        applied_index: before.applied_index + 1,
        base_index: before.base_index + 3,
        ..before
    };
    assert_eq!(after, ended);
    group.send(b"3");
    assert_eq!(group.house.shards[0].totals().counters.raft.commit_index, ended.commit_index + 1);
}

#[test]
fn a_peek_leaves_the_message_in_the_queue() {
    let mut group = Group::new();
    let first = Peek { position: 1, count: 1, hint: None };
    let queue = group.queue;
    assert!(
        group.act(|to| Act::Peek { queue, peek: first, to }).is_ok_and(|peeked| peeked.messages.is_empty())
    );
    group.send(b"1");
    group.send(b"2");
    let (first, second) = (group.peek(1).unwrap(), group.peek(2).unwrap());
    assert_ne!(first.0, second.0);
    assert_eq!((first.1, first.2, group.peek(3)), (0, 0, None));
    let consumer = group.house.connect(0);
    let link = group.house.receiver(consumer, "/queues/q");
    group.house.grant(consumer, link, 1);
    assert_eq!(group.peek(1), Some(second));
    group.house.fail(consumer, 0);
    assert_eq!(group.peek(1), Some((first.0, 1, 1)));
    assert_eq!(group.house.shards[0].queue_report(group.queue).unwrap().ready, 2);
}

#[test]
fn reclaiming_memory_pages_out_what_is_ready() {
    let mut group = Group::new();
    group.send(b"1");
    assert_eq!(group.reclaim(), Ok(Reclaimed::default()), "too little for a run");
    assert!(group.house.shards[0].poll_pack_job().is_none());
    (0..40).for_each(|_| group.send(&[0; 1000]));
    assert!(group.house.shards[0].poll_pack_job().is_none(), "memory is not short");
    let reclaimed = group.reclaim().unwrap();
    assert!(reclaimed.freed_bytes == 0 && reclaimed.paging_bytes > 40_000, "{reclaimed:?}");
    let job = group.house.shards[0].poll_pack_job().expect("the messages are paged out");
    let extent = Extent { pack: 1, offset: 0, bytes: 50_000 };
    let result = Ok(vec![extent; job.runs.len()]);
    group.house.shards[0].handle_packed(Packed { shard: 0, ticket: job.ticket, result });
    group.house.settle();
    let first = Peek { position: 1, count: 1, hint: None };
    let peeked = group.house.shards[0].peek(group.queue, &first, None).unwrap();
    assert!(peeked.messages.is_empty() && matches!(peeked.end, PeekEnd::Disk(_)), "{peeked:?}");
    // A peek needs the block. If it is damaged, the peek says so, and the queue goes on until it needs the block itself.
    group.house.reads_stopped = true;
    let answer = Rc::new(RefCell::new(None));
    let into = answer.clone();
    let to = keep(move |peeked| _ = into.borrow_mut().replace(peeked));
    let peek = Act::Peek { queue: group.queue, peek: first, to };
    group.house.shards[0].handle_question(Question::Act(peek));
    let ReadJob { shard, ticket, at, .. } =
        group.house.shards[0].poll_reads().next().expect("a block to be read");
    assert!(at == 0 && answer.borrow().is_none());
    let result = Err(ReadError::Damaged { pack: 1, offset: 0, what: Flaw::Payload });
    group.house.shards[0].handle_block(BlockRead { shard, ticket, result });
    group.house.settle();
    assert!(matches!(answer.borrow_mut().take(), Some(Err(Refusal::Damaged))));
    let report = group.house.shards[0].queue_report(group.queue).unwrap();
    assert_eq!((report.ready, report.damaged), (41, false));
    assert!(group.house.shards[0].poll_pack_job().is_none(), "that was all");
    assert_eq!(group.reclaim(), Ok(Reclaimed::default()));
}
