//! The steps of a message through a quorum queue whose group leads. The group has one voter. Each step is a part of an operation
//! ([`counted`]); the rest of the operation is not counted.
//!
//! ```text
//!   publish   requests ──> turn ──> facts in the open entry
//!   propose   open entry ──> group ──> its round ──> records in a handover to the log
//!   commit    records are synced ──> turn ──> receipts and deliveries
//!   settle    settlements ──> turn ──> entry ──> records, synced ──> turn ──> answers
//! ```
//!
//! Requests come from a seat, and what the queue sends goes there. So no gate and no protocol is counted. [`round`] is the part of
//! the group without a shard.

use std::hint::black_box;
use std::sync::Arc;

use broker::mail::{SeatKey, SeatMail};
use broker::settings::Settings;
use bytes::Bytes;
use catalog::ids::QueueId;
use catalog::{Arguments, DEFAULT_VHOST, DeclareQueue};
use message::Message;
use node::facts::Restored;
use node::shard::Shard;
use node::{StorageLimits, entries, facts, make_shards};
use queue::{Effect, Mode, Outcome, Publish, PublisherId, Put, Request, SettleAnswer, Verdict};
use replica::{Base, Group, Options, Record, Restoring};
use wal::{Completion, Handover, Records, Size, Step};

use crate::cases::{TURN, attach, durable_message};
use crate::counting::counted;
use crate::walk::{access, declare_queue, per_message};

const QUEUE: &str = "q";

const NOW_MS: u64 = 1000;

/// The step that a case counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Publish,
    Propose,
    Commit,
    Settle,
}

pub(crate) fn publish() -> Box<dyn FnMut() -> u64> {
    step(Part::Publish, TURN)
}

pub(crate) fn publish_one() -> Box<dyn FnMut() -> u64> {
    step(Part::Publish, 1)
}

pub(crate) fn propose() -> Box<dyn FnMut() -> u64> {
    step(Part::Propose, TURN)
}

pub(crate) fn propose_one() -> Box<dyn FnMut() -> u64> {
    step(Part::Propose, 1)
}

pub(crate) fn round() -> Box<dyn FnMut() -> u64> {
    group_alone(TURN)
}

pub(crate) fn round_one() -> Box<dyn FnMut() -> u64> {
    group_alone(1)
}

pub(crate) fn commit() -> Box<dyn FnMut() -> u64> {
    step(Part::Commit, TURN)
}

pub(crate) fn commit_one() -> Box<dyn FnMut() -> u64> {
    step(Part::Commit, 1)
}

pub(crate) fn settle() -> Box<dyn FnMut() -> u64> {
    step(Part::Settle, TURN)
}

pub(crate) fn settle_one() -> Box<dyn FnMut() -> u64> {
    step(Part::Settle, 1)
}

fn step(part: Part, in_entry: u64) -> Box<dyn FnMut() -> u64> {
    let mut world = World::new(part, in_entry);
    per_message(in_entry, move || world.move_an_entry())
}

/// A shard with a quorum queue, and a seat with a publisher and a consumer.
struct World {
    shard: Shard,
    seat: SeatKey,
    queue: QueueId,
    publisher: PublisherId,
    consumer: queue::ConsumerId,
    message: Message,
    part: Part,
    in_entry: u64,
    /// The number of messages so far. All of them were settled.
    moved: u64,
}

impl World {
    fn new(part: Part, in_entry: u64) -> Self {
        let (settings, access) = (Arc::new(Settings::default()), access());
        let shards =
            make_shards(Restored::default(), 1, &settings, &access, StorageLimits::default(), NOW_MS);
        let mut shard = shards.into_iter().next().expect("one shard was requested");
        let arguments: Arguments = [("x-queue-type".into(), "quorum".into())].into();
        declare_queue(&mut shard, DeclareQueue::new(DEFAULT_VHOST, QUEUE, arguments));
        run(&mut shard);
        let queue = shard.catalog().queues_in(DEFAULT_VHOST).next().expect("it was declared");
        let seat = SeatKey { origin: Default::default(), link: 1 };
        shard.open_seat(seat);
        let publisher = shard.add_seat_publisher(seat).expect("there is room");
        let consumer = shard.add_seat_consumer(seat, queue).expect("there is room");
        shard.handle_seat_requests([(queue, attach(consumer, Mode::Take))]);
        run(&mut shard);
        let is_attached = |mail: &SeatMail| matches!(mail, SeatMail::Effect(Effect::Attached { .. }));
        assert!(shard.poll_seat(seat).iter().any(is_attached), "the group leads");
        let message = durable_message();
        Self { shard, seat, queue, publisher, consumer, message, part, in_entry, moved: 0 }
    }

    /// Publishes the messages of an entry, delivers and settles them. Returns the bytes that the counted step put into records.
    fn move_an_entry(&mut self) -> u64 {
        let (first, last) = (self.moved + 1, self.moved + self.in_entry);
        let grant = Request::Grant {
            consumer: self.consumer,
            delivery_count: self.moved as u32,
            credit: self.in_entry as u32,
            drain: false,
            echo: false,
        };
        self.shard.handle_seat_requests([(self.queue, grant)]);
        self.shard.turn();
        let publish =
            |seq| Publish { publisher: self.publisher, seq, message: self.message.clone(), pipelines: false };
        let requests: Vec<_> =
            (first..=last).map(|seq| (self.queue, Request::Publish(publish(seq)))).collect();
        self.count(Part::Publish, |shard| {
            shard.handle_seat_requests(requests);
            shard.turn();
        });
        let handover = self.count(Part::Propose, Shard::poll_handover).expect("the entry has a record");
        let proposed = handover.records.bytes() as u64;
        self.count(Part::Commit, |shard| {
            complete(shard, handover);
            shard.turn();
        });
        let (mut accepted, mut delivered) = (0, 0);
        for mail in self.shard.poll_seat(self.seat) {
            match mail {
                SeatMail::Receipts { first, last, verdict: Verdict::Accepted, .. } => {
                    accepted += last - first + 1;
                }
                SeatMail::Effect(Effect::Delivery(_)) => delivered += 1,
                other => panic!("nobody has asked for this: {other:?}"),
            }
        }
        assert_eq!((accepted, delivered), (self.in_entry, self.in_entry));
        let (consumer, outcome, answer) = (self.consumer, Outcome::Accepted, SettleAnswer::Made);
        let settle = [(self.queue, Request::Settle { consumer, first, last, outcome, answer })];
        let settled = self.count(Part::Settle, |shard| {
            shard.handle_seat_requests(settle);
            shard.turn();
            let handover = shard.poll_handover().expect("the entry has a record");
            let bytes = handover.records.bytes() as u64;
            complete(shard, handover);
            shard.turn();
            bytes
        });
        let answers = self.shard.poll_seat(self.seat);
        let [SeatMail::Effect(Effect::Settled { first: from, last: to, .. })] = answers[..] else {
            panic!("one answer: {answers:?}");
        };
        assert_eq!((from, to), (first, last));
        self.moved = last;
        match self.part {
            Part::Publish | Part::Commit => 0,
            Part::Propose => proposed,
            Part::Settle => settled,
        }
    }

    fn count<R>(&mut self, part: Part, run: impl FnOnce(&mut Shard) -> R) -> R {
        let shard = &mut self.shard;
        if part == self.part { counted(|| run(shard)) } else { run(shard) }
    }
}

/// Answers a handover as the log does when it has written and synced it.
fn complete(shard: &mut Shard, handover: Handover) {
    let Handover { shard: of, ticket, sync, .. } = handover;
    assert!(sync, "a group waits for it");
    for step in [Step::Written, Step::Synced] {
        let (result, file, size) = (Ok(()), 0, Size::default());
        shard.handle_logged(Completion { shard: of, ticket, step, result, file, size });
    }
}

/// Runs turns until nothing moves any more.
fn run(shard: &mut Shard) {
    while shard.turn() || shard.poll_handover().map(|handover| complete(shard, handover)).is_some() {}
}

/// Returns the part of the group: an entry is proposed, its records are made and synced, and it is committed.
fn group_alone(in_entry: u64) -> Box<dyn FnMut() -> u64> {
    let base = Base::founding(&[1], Bytes::new());
    let me = base.members.voters()[0];
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(base)).expect("it is the first");
    let mut group = restoring.finish(me, Options::default()).expect("nothing is missing");
    group.campaign().expect("it is the only voter");
    let (queue, mut bytes) = (QueueId::new(1, 0), 0);
    let mut rounds = move |group: &mut Group| {
        // As the journal, which expects as many bytes as before.
        let mut records = Records::with_capacity(bytes);
        let mut committed = 0;
        while let Some(round) = group.poll_round() {
            round.records.iter().for_each(|record| facts::push_group(&mut records, queue, me, record));
            group.on_synced(round.number);
            committed += black_box(round.committed).len();
        }
        assert_eq!(committed, 1);
        bytes = records.bytes();
        bytes as u64
    };
    rounds(&mut group);
    let term = group.standing().term;
    let mut entry = Vec::new();
    let message = durable_message();
    for seq in 1..=in_entry {
        entries::push_put(&mut entry, Put { seq, message: &message, at_ms: NOW_MS, deferrable: None });
    }
    let entry = Bytes::from(entry);
    per_message(in_entry, move || {
        let facts = entry.clone();
        counted(|| {
            group.propose(term, facts).expect("it leads");
            rounds(&mut group)
        })
    })
}
