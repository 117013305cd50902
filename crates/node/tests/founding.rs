//! A group is founded once: at the declaration of its queue. Without its records the queue is closed.

use std::sync::{Arc, Mutex};

use amqp10::sasl::Secret;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::ids::QueueId;
use catalog::{Arguments, Command, DeclareQueue};
use message::{Message, Parts, Route};
use node::facts::push_change;
use node::recovery::{Mutation, RecoverError, Recovered};
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{ConsumerId, Effect, Publish, PublisherId, Refusal, Request, Requester, Ticket};
use wal::{Handover, Log, Options, Records};
use wal_testing::{Crash, Op, SimDisk};

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use crate::recovered::SimDisks;

/// The disk is full.
const ENOSPC: i32 = 28;

fn quorum() -> Arguments {
    [("x-queue-type".to_owned(), amqp10::Value::from("quorum"))].into_iter().collect()
}

fn options() -> Options {
    Options { file_bytes: 1 << 20, seed: Some(7), ..Options::default() }
}

/// One process on the disks.
struct Life {
    log: Log<SimDisk>,
    shard: Shard,
    now_ms: u64,
}

impl Life {
    fn start(disks: &SimDisks, mutation: Option<Mutation>) -> Self {
        let recovered = disks.start(options(), &Access::default(), false, None, mutation).unwrap();
        let Recovered { restored, log, .. } = recovered;
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let mut shards = make_shards(restored, 1, &settings, &access, StorageLimits::default(), 1000);
        Self { log, shard: shards.remove(0), now_ms: 1000 }
    }

    /// Runs until nothing is left, and writes so many handovers at most.
    fn settle_to(&mut self, handovers: usize) {
        let (mut idle, mut written) = (0, 0);
        while idle < 3 {
            self.now_ms += 50;
            self.shard.set_now(self.now_ms);
            self.shard.handle_timeout();
            while self.shard.turn() {}
            self.shard.take_replies();
            if written == handovers {
                return;
            }
            let Some(handover) = self.shard.poll_handover() else {
                idle += 1;
                continue;
            };
            (idle, written) = (0, written + 1);
            let mut done = Vec::new();
            self.log.append(&mut vec![handover], &mut done);
            self.log.sync(&mut done);
            done.into_iter().for_each(|completion| self.shard.handle_logged(completion));
        }
    }

    fn settle(&mut self) {
        self.settle_to(usize::MAX);
    }

    fn propose(&mut self, name: &str) {
        let declare = Command::DeclareQueue(DeclareQueue::new("/", name, quorum()));
        self.shard.propose(declare, Box::new(|answer| drop(answer.unwrap())));
    }

    fn queue(&self, name: &str) -> Option<QueueId> {
        self.shard.catalog().listed_queue("/", name).map(|record| record.id)
    }

    fn publish(&mut self, queue: QueueId, seq: u64) {
        let parts =
            Parts { wire: Bytes::from_static(b"\x00\x53\x75\xa0\x01m"), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("", "q")));
        let publish = Publish { publisher: PublisherId(0), seq, message, pipelines: false };
        self.shard.handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
        self.settle();
    }

    /// Takes all messages of a queue. Returns their number, or why there are none.
    fn take(&mut self, name: &str) -> Result<usize, Refusal> {
        let queue = self.queue(name).expect("it is declared");
        let answer = Arc::new(Mutex::new(None));
        let seen = answer.clone();
        let holder = ConsumerId(u64::MAX);
        let request = |ticket: Ticket| Request::Fetch { ticket, holder, n: 1000, settled: true };
        self.shard.ask(queue, request, Box::new(move |effect| *seen.lock().unwrap() = Some(effect)));
        self.settle();
        match answer.lock().unwrap().take().expect("every request is answered") {
            Effect::Fetched { deliveries, .. } => Ok(deliveries.len()),
            Effect::Refused { requester: Requester::Ticket(_), why } => Err(why),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the log without the records of these owners.
fn without(disks: &SimDisks, owners: &[QueueId]) -> SimDisks {
    let (log, mut kept) = (SimDisk::new(99), Records::new());
    let each = &mut |record: wal::Record| {
        if !owners.contains(&QueueId(record.owner)) {
            kept.push(record.owner, record.seq, record.kind, &[&record.body]);
        }
    };
    drop(Log::open(disks.log.clone(), options(), each).unwrap());
    append(&log, kept);
    SimDisks { log, ..SimDisks::new(5) }
}

fn append(disk: &SimDisk, records: Records) {
    let (mut log, _) = Log::open(disk.clone(), options(), &mut |_| {}).unwrap();
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync: true }], &mut done);
    log.sync(&mut done);
}

/// Returns what is wrong with a start on a log that lacks the records of a group.
fn records_are_lost(mutation: Option<Mutation>) -> Result<(), &'static str> {
    for used in [false, true] {
        let disks = SimDisks::new(1);
        let mut life = Life::start(&disks, None);
        life.propose("lost");
        life.propose("kept");
        life.settle();
        let lost = life.queue("lost").unwrap();
        if used {
            life.publish(lost, 1);
        }
        drop(life);
        let mut disks = without(&disks.crash(Crash::Process), &[lost]);
        // It stays closed.
        for _ in 0..2 {
            let mut life = Life::start(&disks, mutation);
            assert_eq!(life.take("kept"), Ok(0));
            if life.take("lost") != Err(Refusal::Damaged) {
                return Err("a group that has lost its records is founded again");
            }
            drop(life);
            disks = disks.crash(Crash::Power);
        }
    }
    Ok(())
}

#[test]
fn a_group_without_its_records_is_never_founded_again() {
    assert_eq!(records_are_lost(None), Ok(()));
    assert!(records_are_lost(Some(Mutation::FoundAgain)).is_err(), "the mistake is found");
}

/// The broker is killed after each handover between the declaration and the note that the group is founded.
#[test]
fn a_group_whose_founding_was_interrupted_is_founded() {
    for handovers in 0..8 {
        let disks = SimDisks::new(2);
        let mut life = Life::start(&disks, None);
        life.propose("q");
        life.settle_to(handovers);
        drop(life);
        let disks = disks.crash(Crash::Process);
        let mut life = Life::start(&disks, None);
        if life.queue("q").is_none() {
            assert!(handovers < 2, "the declaration is in the first or second handover");
            continue;
        }
        assert_eq!(life.take("q"), Ok(0), "after {handovers} handovers");
        let queue = life.queue("q").unwrap();
        life.publish(queue, 1);
        drop(life);
        let mut life = Life::start(&disks.crash(Crash::Power), None);
        assert_eq!(life.take("q"), Ok(1), "after {handovers} handovers");
    }
}

/// An older program founded a group with the first use of its queue. Such queues are founded when a directory is taken over, and never
/// again.
#[test]
fn the_queues_of_an_older_directory_are_founded_once() {
    let mut catalog = catalog::Catalog::default();
    let mut records = Records::new();
    for name in ["a", "b"] {
        let declare = Command::DeclareQueue(DeclareQueue::new("/", name, quorum()));
        for change in catalog.decide(declare, &mut catalog.queue_ids()).unwrap().changes {
            catalog.apply(&change);
            push_change(&mut records, catalog.version(), &change);
        }
    }
    let disks = SimDisks::new(3);
    append(&disks.log, records);
    let mut life = Life::start(&disks, None);
    assert_eq!((life.take("a"), life.take("b")), (Ok(0), Ok(0)));
    let b = life.queue("b").unwrap();
    life.publish(b, 1);
    drop(life);
    let mut life = Life::start(&without(&disks.crash(Crash::Process), &[b]), None);
    assert_eq!((life.take("a"), life.take("b")), (Ok(0), Err(Refusal::Damaged)));
}

/// A broker that was killed on a full disk starts, so that its queues can be emptied. What its start has changed is written when there is
/// space, before anything else.
#[test]
fn a_start_on_a_full_disk_goes_on() {
    let mut disks = SimDisks::new(4);
    disks.log.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
    let guest = User {
        name: "guest".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("guest".to_owned())),
        tags: Vec::new(),
        loopback_only: true,
        permissions: [("/".into(), Permissions::ALL)].into(),
    };
    let fresh = disks.start(options(), &Access::new([guest]), false, None, None);
    assert!(matches!(fresh, Err(RecoverError::Write(_))), "the first users must be synced");
    disks.log.heal();
    let mut life = Life::start(&disks, None);
    life.propose("q");
    life.settle();
    let queue = life.queue("q").unwrap();
    life.publish(queue, 1);
    for round in 0..3 {
        drop(life);
        disks = disks.crash(Crash::Power);
        disks.log.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
        life = Life::start(&disks, None);
        disks.log.heal();
        if round > 0 {
            life.propose("another");
            life.settle();
        }
    }
    assert_eq!(life.take("q"), Ok(1));
    drop(life);
    let mut life = Life::start(&disks.crash(Crash::Power), None);
    assert_eq!((life.take("q"), life.take("another")), (Ok(0), Ok(0)));
}
