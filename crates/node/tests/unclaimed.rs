//! A start deletes no data of a queue that the catalog does not know, unless it is certain that the queue was deleted. The tests run
//! one shard on the real log, on simulated disks. Between two starts, the declaration of a queue is taken from the log or given back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use amqp10::Value;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
use catalog::access::Access;
use catalog::ids::{Origin, QueueId};
use catalog::{
    Answer, Arguments, Asker, Change, Command, DeclareQueue, QueueRecord, encode_change, encode_entry,
};
use message::{Message, Parts, Route};
use node::facts::{Restored, Unclaimed, push_local_fact};
use node::recovery::{Disks, Mutation, Purpose, RecoverError, Recovered, recover};
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{
    Ages, ConsumerId, Effect, LocalFact, Publish, PublisherId, Refusal, Request, Seqs, Stored, Ticket,
};
use replica::Payload;
use wal::{Handover, Log, Options, PackOptions, Packs, Record, Records, Run};
use wal_testing::{Crash, Op, Random, SimDisk, forget};

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use crate::recovered::SimDisks;

/// The bytes of garbage that the log may hold. There are so few that the log deletes its files.
const GARBAGE: u64 = 4 * 1024;

/// The messages that the queue has when its declaration is lost.
const MESSAGES: u64 = 40;

/// The error of a full disk.
const ENOSPC: i32 = 28;

/// The error of a broken disk.
const EIO: i32 = 5;

/// The messages of the queue that is damaged.
const HURT: [&[u8]; 3] = [b"the first to be hurt", b"the second to be hurt", b"the third to be hurt"];

/// One process on the disks.
struct Life {
    log: Log<SimDisk>,
    shard: Shard,
    now_ms: u64,
    unclaimed: Vec<(QueueId, u64)>,
    forgotten: Option<u64>,
    /// True if there was no room for a copy.
    keeps_log: bool,
}

impl Life {
    fn start(disks: &SimDisks, now_ms: u64, mutation: Option<Mutation>) -> Option<Self> {
        Self::start_with(disks, now_ms, mutation, false)
    }

    fn start_with(disks: &SimDisks, now_ms: u64, mutation: Option<Mutation>, accept: bool) -> Option<Self> {
        let options = Options { file_bytes: 2048, seed: Some(now_ms), ..Options::default() };
        let recovered = disks.start(options, &Access::default(), accept, None, mutation).ok()?;
        let Recovered { restored, log, .. } = recovered;
        let unclaimed = restored.unclaimed.iter().map(|(id, Unclaimed { records, .. })| (*id, *records));
        let unclaimed = unclaimed.collect();
        let keeps_log = restored.keeps_log;
        let limits = StorageLimits { garbage_allowed: GARBAGE, ..StorageLimits::default() };
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let size = log.size();
        let mut shard = make_shards(restored, 1, &settings, &access, limits, now_ms).remove(0);
        shard.note_log_size(size);
        Some(Self { log, shard, now_ms, unclaimed, forgotten: None, keeps_log })
    }

    fn settle(&mut self) {
        let mut idle = 0;
        while idle < 3 {
            self.now_ms += 50;
            self.shard.set_now(self.now_ms);
            self.shard.handle_timeout();
            while self.shard.turn() {}
            self.shard.take_replies();
            let Some(handover) = self.shard.poll_handover() else {
                idle += 1;
                continue;
            };
            idle = 0;
            let mut done = Vec::new();
            self.log.append(&mut vec![handover], &mut done);
            self.log.sync(&mut done);
            done.into_iter().for_each(|completion| self.shard.handle_logged(completion));
            while self.shard.turn() {}
            self.shard.take_replies();
            if let Some(file) = self.shard.poll_forget() {
                self.forgotten = Some(file);
                self.log.forget(file);
            }
        }
    }

    fn declare(&mut self, name: &str, arguments: Arguments) -> QueueId {
        let declare = DeclareQueue::new("/", name, arguments);
        self.shard.propose(Command::DeclareQueue(declare), Box::new(|answer| drop(answer.unwrap())));
        self.settle();
        let queue = self.queue(name).unwrap();
        self.ask(queue, |ticket| Request::Report { ticket });
        queue
    }

    fn queue(&self, name: &str) -> Option<QueueId> {
        self.shard.catalog().listed_queue("/", name).map(|record| record.id)
    }

    fn ask(&mut self, queue: QueueId, request: impl FnOnce(Ticket) -> Request) -> Effect {
        let answer = Arc::new(Mutex::new(None));
        let seen = answer.clone();
        self.shard.ask(queue, request, Box::new(move |effect| *seen.lock().unwrap() = Some(effect)));
        self.settle();
        let answer = answer.lock().unwrap().take();
        answer.expect("every request is answered")
    }

    fn publish(&mut self, queue: QueueId, seq: u64, body: &[u8]) {
        let parts = Parts { wire: Bytes::copy_from_slice(body), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("h", "k")));
        let publish = Publish { publisher: PublisherId(0), seq, message, pipelines: false };
        self.shard.handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
        self.settle();
    }

    /// Takes up to `n` messages of a queue. Returns what they are, or why there are none.
    fn take(&mut self, queue: QueueId, n: u32) -> Result<Vec<Bytes>, Refusal> {
        let holder = ConsumerId(u64::MAX);
        match self.ask(queue, |ticket| Request::Fetch { ticket, holder, n, settled: true }) {
            Effect::Fetched { deliveries, .. } => {
                Ok(deliveries.iter().map(|delivery| delivery.message.bare()).collect())
            }
            Effect::Refused { why, .. } => Err(why),
            other => panic!("{other:?}"),
        }
    }

    /// Publishes and consumes as much as makes a log delete files.
    fn fill(&mut self, queue: QueueId) {
        self.ask(queue, |ticket| Request::Report { ticket });
        for seq in 0..100 {
            self.publish(queue, seq, &[b'x'; 200]);
            drop(self.take(queue, 1));
        }
    }

    /// Publishes and consumes until the log has deleted every file that it has now.
    fn evacuate(&mut self, queue: QueueId) {
        // Now it has a home.
        self.ask(queue, |ticket| Request::Report { ticket });
        let newest = self.log.spans().keys().next_back().copied().unwrap_or(0);
        for seq in 0..1000 {
            self.publish(queue, seq, &[b'x'; 200]);
            drop(self.take(queue, 1));
            if let Some(file) = self.forgotten.filter(|file| *file >= newest) {
                assert!(forget(&mut self.log, file), "the files are deleted");
                return;
            }
        }
        panic!("the log keeps its files");
    }
}

fn options() -> Options {
    Options { file_bytes: 2048, seed: Some(1), ..Options::default() }
}

fn append(disk: &SimDisk, records: Records) {
    let (mut log, _) = Log::open(disk.clone(), options(), &mut |_| {}).unwrap();
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }], &mut done);
    log.sync(&mut done);
}

/// A broker with the queues `other` and `q`, whose log has lost the declaration of `q`.
struct Scene {
    disks: SimDisks,
    declared: Arc<QueueRecord>,
    /// The messages that are in `q`.
    bodies: Vec<Bytes>,
}

impl Scene {
    fn new(seed: u64, arguments: Arguments) -> Self {
        let disks = SimDisks::new(seed);
        let mut life = Life::start(&disks, 1_000, None).unwrap();
        life.declare("other", Arguments::new());
        let hurt = life.declare("hurt", Arguments::new());
        for (seq, body) in (1..).zip(HURT) {
            life.publish(hurt, seq, body);
        }
        let queue = life.declare("q", arguments);
        let mut bodies: Vec<Bytes> = (0..MESSAGES).map(|n| format!("message {n} of q").into()).collect();
        for (seq, body) in (1..).zip(&bodies) {
            life.publish(queue, seq, body);
        }
        // Some are gone before.
        let gone = life.take(queue, 7).unwrap();
        assert_eq!(gone, bodies[..7]);
        bodies.drain(..7);
        let declared = life.shard.catalog().queue_by_id(queue).unwrap().clone();
        drop(life);
        let disks = disks.crash(Crash::Process);
        let declaration = declaration(&declared);
        let mut all = Records::new();
        let log = SimDisk::new(!seed);
        let (_, recovery) = Log::open(disks.log.clone(), options(), &mut |record| {
            // Damage of them concerns nothing else.
            let is_hurt = HURT.iter().any(|body| record.body.ends_with(body));
            if is_hurt {
                append(&log, std::mem::take(&mut all));
            }
            let body = without(&record, &declaration).unwrap_or(record.body);
            all.push(record.owner, record.seq, record.kind, &[&body]);
            if all.bytes() > 1500 || is_hurt {
                append(&log, std::mem::take(&mut all));
            }
        })
        .unwrap();
        assert!(recovery.damage.is_empty());
        append(&log, all);
        Self { disks: SimDisks { log, ..disks }, declared, bodies }
    }

    fn id(&self) -> QueueId {
        self.declared.id
    }

    /// Gives the declaration back.
    fn claim(&self) {
        declare_again(&self.disks.log, &self.declared);
    }

    /// Damages a message of the queue `hurt`, if the log still has one.
    fn damage_other(&self) -> bool {
        HURT.iter().any(|body| spoil(&self.disks.log, body))
    }

    /// Returns true if the log has a message of the queue.
    fn is_in_log(&self) -> bool {
        let has = |bytes: &[u8]| bytes.windows(5).any(|at| at == b" of q");
        self.disks.log.files().iter().any(|(name, bytes)| name.ends_with(".log") && has(bytes))
    }
}

/// Returns the body of the record that declares a queue.
fn declaration(declared: &Arc<QueueRecord>) -> Bytes {
    let mut body = BytesMut::new();
    encode_change(&Change::QueueDeclared(declared.clone()), &mut body);
    body.freeze()
}

/// Returns the body of the record with an entry in place of the declaration that changes nothing, if it has the declaration.
fn without(record: &Record, declaration: &Bytes) -> Option<Bytes> {
    // The owner of definitions is 0.
    let has = record.owner == 0 && record.body.windows(declaration.len()).any(|at| at == declaration);
    if !has {
        return None;
    }
    let of_group = replica::Record::decode(record.body.slice(4..)).unwrap();
    let replica::Record::Entry { mut entry, committed } = of_group else {
        panic!("the declaration is an entry");
    };
    let mut empty = BytesMut::new();
    encode_entry(&Asker::default(), &[], &Answer::Done { changed: true }, &mut empty);
    entry.payload = Payload::Facts(empty.freeze());
    let mut changed = record.body[..4].to_vec();
    let tail = replica::Record::Entry { entry, committed }.encode_head(&mut changed);
    changed.extend_from_slice(&tail);
    Some(changed.into())
}

/// Writes the declaration of a queue to the log of a broker that does not run.
fn declare_again(disk: &SimDisk, declared: &Arc<QueueRecord>) {
    let mut restored = Restored::default();
    drop(Log::open(disk.clone(), options(), &mut |record| restored.handle_record(record)).unwrap());
    restored.change(Change::QueueDeclared(declared.clone()));
    append(disk, restored.write_changes().unwrap());
}

fn quorum() -> Arguments {
    [("x-queue-type".to_owned(), Value::from("quorum"))].into_iter().collect()
}

/// The data outlives evacuations and crashes, and comes back with the declaration. Returns what is wrong.
fn over_three_evacuations(arguments: Arguments, mutation: Option<Mutation>) -> Result<(), &'static str> {
    let mut scene = Scene::new(7, arguments);
    assert!(scene.is_in_log());
    let mut ids = BTreeSet::from([scene.id()]);
    for round in 0..3_u64 {
        let how = if round == 1 { Crash::Power } else { Crash::Process };
        let mut life = Life::start(&scene.disks, 100_000 * (round + 1), mutation).unwrap();
        let told = life.unclaimed.clone();
        let other = life.queue("other").unwrap();
        if !ids.insert(life.declare(&format!("new{round}"), Arguments::new())) {
            return Err("a new queue has its id");
        }
        life.evacuate(other);
        drop(life);
        scene.disks = scene.disks.crash(how);
        if told.iter().map(|(id, _)| *id).ne([scene.id()]) || told[0].1 < MESSAGES {
            return Err("it is not shown");
        }
        assert!(!scene.is_in_log(), "the log has deleted its files");
    }
    scene.claim();
    // What is done to the queue counts, whether or not the log has evacuated anything since.
    for round in 0..4_u64 {
        let mut life = Life::start(&scene.disks, 1_000_000 * (round + 1), mutation).unwrap();
        assert_eq!(life.unclaimed, []);
        let queue = life.queue("q").unwrap();
        let taken = life.take(queue, 5).unwrap();
        if taken != scene.bodies[..5] {
            return Err("messages are missing, or have come back");
        }
        scene.bodies.drain(..5);
        let new = Bytes::from(format!("new message {round} of q"));
        life.publish(queue, 1000 + round, &new);
        scene.bodies.push(new);
        // An evacuation syncs what was done.
        if round % 2 == 1 {
            let other = life.queue("other").unwrap();
            life.evacuate(other);
        }
        drop(life);
        scene.disks = scene.disks.crash(if round % 2 == 1 { Crash::Power } else { Crash::Process });
    }
    let mut life = Life::start(&scene.disks, 9_000_000, mutation).unwrap();
    let queue = life.queue("q").unwrap();
    assert_eq!(life.take(queue, 1000).unwrap(), scene.bodies);
    assert!(scene.disks.unclaimed.files().is_empty(), "the copy is void and removed");
    Ok(())
}

#[test]
fn unclaimed_data_outlives_three_evacuations_and_is_claimed() {
    assert_eq!(over_three_evacuations(Arguments::new(), None), Ok(()));
    assert_eq!(over_three_evacuations(quorum(), None), Ok(()));
}

#[test]
fn a_recovery_that_deletes_unclaimed_data_is_found() {
    let mistake = Some(Mutation::DeleteUnclaimed);
    assert!(over_three_evacuations(Arguments::new(), mistake).is_err());
    assert!(over_three_evacuations(quorum(), mistake).is_err());
}

/// Returns the seeds of a random test: `count` of them, or the one that SLUICE_SEED names.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    match number("SLUICE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("SLUICE_SOAK").unwrap_or(1),
    }
}

#[test]
fn nothing_unclaimed_is_lost_at_random() {
    let (mut died, mut full, mut damaged, mut evacuated) = (0, 0, 0, 0);
    for seed in seeds(200) {
        let mut random = Random(seed);
        let mut scene = Scene::new(seed, if seed % 2 == 0 { Arguments::new() } else { quorum() });
        let mut now_ms = 100_000;
        // Later its records are in one batch with those of others.
        if random.one_in(2) {
            damaged += u32::from(scene.damage_other());
        }
        let claim_at = 1 + random.below(5);
        let mut round = 0;
        for tries in 0.. {
            assert!(tries < 200, "seed {seed}: it does not start");
            if round == claim_at + 3 {
                break;
            }
            now_ms += 100_000;
            let disks = &scene.disks;
            let is_claimed = round >= claim_at;
            let dies = random.one_in(3);
            let has_room = !random.one_in(3);
            if dies {
                let disk = if random.one_in(2) { &disks.log } else { &disks.unclaimed };
                disk.die_at(random.below(12));
            } else if !has_room {
                disks.unclaimed.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
            }
            let started = Life::start(disks, now_ms, None);
            let how = if random.one_in(2) { Crash::Power } else { Crash::Process };
            // A disk that has not died yet would die later.
            if let Some(mut life) = started.filter(|_| !dies) {
                let expected: &[QueueId] = if is_claimed { &[] } else { &[scene.declared.id] };
                assert!(
                    life.unclaimed.iter().map(|(id, _)| id).eq(expected),
                    "seed {seed}: {:?}",
                    life.unclaimed
                );
                let other = life.queue("other").unwrap();
                if is_claimed {
                    let queue = life.queue("q").unwrap();
                    let taken = life.take(queue, 3).unwrap();
                    assert_eq!(taken, scene.bodies[..3], "seed {seed}, round {round}");
                    scene.bodies.drain(..3);
                }
                match life.keeps_log {
                    true => {
                        full += 1;
                        life.fill(other);
                        assert_eq!(life.forgotten, None, "seed {seed}: there is no copy");
                    }
                    false => {
                        evacuated += 1;
                        life.evacuate(other);
                    }
                }
                round += 1;
            } else {
                died += u32::from(disks.log.is_dead() || disks.unclaimed.is_dead());
            }
            scene.disks = scene.disks.crash(how);
            if round == claim_at && !is_claimed {
                scene.claim();
            }
        }
        let mut life = Life::start(&scene.disks, now_ms + 100_000, None).unwrap();
        let queue = life.queue("q").unwrap();
        assert_eq!(life.take(queue, 1000).unwrap(), scene.bodies, "seed {seed}");
    }
    if std::env::var("SLUICE_SEED").is_err() {
        let counts = [died, full, damaged, evacuated];
        assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    }
}

#[test]
fn without_room_for_a_copy_the_log_keeps_its_files() {
    let mut scene = Scene::new(3, Arguments::new());
    let mut ids = BTreeSet::from([scene.id()]);
    for round in 0..2_u64 {
        scene.disks.unclaimed.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
        let mut life = Life::start(&scene.disks, 100_000 * (round + 1), None).unwrap();
        assert!(life.keeps_log && life.unclaimed.len() == 1);
        // From now on its incarnation is below the next one.
        assert!(ids.insert(life.declare(&format!("new{round}"), Arguments::new())));
        let other = life.queue("other").unwrap();
        life.fill(other);
        assert_eq!(life.forgotten, None);
        drop(life);
        scene.disks = scene.disks.crash(Crash::Power);
        assert!(scene.is_in_log());
    }
    let mut life = Life::start(&scene.disks, 500_000, None).unwrap();
    assert!(!life.keeps_log && life.unclaimed.len() == 1, "now there is room");
    let other = life.queue("other").unwrap();
    life.evacuate(other);
    drop(life);
    assert!(!scene.is_in_log());
    scene.claim();
    let mut life = Life::start(&scene.disks, 600_000, None).unwrap();
    let queue = life.queue("q").unwrap();
    assert_eq!(life.take(queue, 1000).unwrap(), scene.bodies);
}

/// The catalog knows which incarnations were used, even if the newest queue is deleted and its records are evacuated.
#[test]
fn a_deleted_queue_leaves_nothing_unclaimed() {
    let disks = SimDisks::new(5);
    let mut life = Life::start(&disks, 1_000, None).unwrap();
    let other = life.declare("other", Arguments::new());
    let newest = life.declare("newest", Arguments::new());
    life.publish(newest, 1, b"one");
    let delete = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
    assert!(matches!(life.ask(newest, delete), Effect::Done { .. }));
    for evacuates in [false, true] {
        if evacuates {
            life.evacuate(other);
            life.evacuate(other);
        }
        drop(life);
        // A record that follows the deletion, as another shard may have written it.
        let mut records = Records::new();
        push_local_fact(&mut records, newest, &LocalFact::Damaged, None);
        append(&disks.log, records);
        life = Life::start(&disks, if evacuates { 900_000 } else { 300_000 }, None).unwrap();
        assert_eq!(life.unclaimed, []);
    }
}

#[test]
fn packs_and_segments_of_unclaimed_owners_stay() {
    // The catalog is empty: no incarnation was handed out.
    let (unclaimed, stream) = (QueueId(7 << 24 | 1), QueueId(9 << 24 | 2));
    let made = || {
        let disks = SimDisks::new(6);
        let mut packs = Packs::open(disks.packs.clone(), PackOptions::default(), [], false).unwrap();
        let mut run = Run::new(unclaimed.0);
        run.push(1, 1, b"a message", Bytes::new());
        let extent = packs.write(vec![run]).unwrap()[0];
        let ages = Ages { first_arrival_ms: 1, last_arrival_ms: 1, first_end_ms: None, last_end_ms: None };
        let seqs = Seqs::default();
        let stored = Stored {
            run: 1,
            first: 1,
            last: 1,
            priorities: (4, 4),
            messages: 1,
            durable: 1,
            bytes: 9,
            ages,
            seqs,
        };
        let mut records = Records::new();
        push_local_fact(&mut records, unclaimed, &LocalFact::Stored(stored), Some(extent));
        append(&disks.log, records);
        disks.streams.put(&format!("{:016x}-{:020}.segment", stream.0, 0), b"SLsg\x01\0\0\0");
        disks.crash(Crash::Process)
    };
    let (disks, before) = (made(), made().packs.files());
    for _ in 0..2 {
        let life = Life::start(&disks, 1_000, None).unwrap();
        assert_eq!(life.unclaimed, [(unclaimed, 1), (stream, 0)]);
        assert_eq!(disks.packs.files(), before);
        assert!(disks.streams.files().keys().any(|name| name.ends_with(".segment")));
    }
    let disks = made();
    drop(Life::start(&disks, 1_000, Some(Mutation::DeleteUnclaimed)).unwrap());
    assert!(!disks.packs.files().keys().any(|name| name.ends_with(".pack")));
    assert!(!disks.streams.files().keys().any(|name| name.ends_with(".segment")));
}

/// The definition of a queue is lost to damage, and that is accepted. Its data is kept, and closed once it is claimed, because records
/// of it may be lost, too.
#[test]
fn lost_definitions_leave_unclaimed_data() {
    let disks = SimDisks::new(8);
    let mut life = Life::start(&disks, 1_000, None).unwrap();
    let lost = life.declare("lost", Arguments::new());
    let declared = life.shard.catalog().queue_by_id(lost).unwrap().clone();
    let other = life.declare("other", Arguments::new());
    life.publish(lost, 1, b"one");
    life.publish(lost, 2, b"two");
    drop(life);
    let disks = disks.crash(Crash::Process);
    spoil(&disks.log, &declaration(&declared));
    assert!(Life::start(&disks, 100_000, None).is_none(), "it is refused");
    for round in 1..4 {
        let mut life = Life::start_with(&disks, 100_000 * round, None, round == 1).unwrap();
        assert_eq!(life.unclaimed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [lost]);
        assert_eq!(life.take(other, 1), Err(Refusal::Damaged));
        let name = format!("churn{round}");
        let churn = life.declare(&name, Arguments::new());
        life.evacuate(churn);
        drop(life);
    }
    declare_again(&disks.log, &declared);
    let mut life = Life::start(&disks, 900_000, None).unwrap();
    assert_eq!((life.unclaimed.len(), life.take(lost, 1)), (0, Err(Refusal::Damaged)));
    let report = life.ask(lost, |ticket| Request::Report { ticket });
    assert!(matches!(report, Effect::Report { report, .. } if report.ready == 2), "its messages are kept");
}

/// Returns what is wrong with a recovery from a log in which a message is damaged.
fn damage_closes(mutation: Option<Mutation>) -> Result<(), &'static str> {
    let disks = SimDisks::new(9);
    let mut life = Life::start(&disks, 1_000, None).unwrap();
    let hurt = life.declare("hurt", Arguments::new());
    life.publish(hurt, 1, b"hurt body");
    life.publish(hurt, 2, b"another body");
    drop(life);
    let disks = disks.crash(Crash::Process);
    spoil(&disks.log, b"hurt body");
    let mut life = Life::start(&disks, 100_000, mutation).unwrap();
    match life.take(hurt, 10) {
        Err(Refusal::Damaged) => Ok(()),
        _ => Err("a queue that has lost a message is open"),
    }
}

#[test]
fn a_recovery_that_forgets_quarantine_is_found() {
    assert_eq!(damage_closes(None), Ok(()));
    assert!(damage_closes(Some(Mutation::ForgetQuarantine)).is_err());
}

/// Changes the octets of `what` in the log. Returns false if they are not there.
fn spoil(disk: &SimDisk, what: &[u8]) -> bool {
    let mut found = false;
    for (name, mut bytes) in disk.files() {
        let at = bytes.windows(what.len()).position(|window| window == what);
        if let Some(at) = at.filter(|_| name.ends_with(".log")) {
            bytes[at..at + what.len()].iter_mut().for_each(|octet| *octet ^= 0x55);
            disk.put(&name, &bytes);
            found = true;
        }
    }
    found
}

/// A copy is void when the log has deleted the records that were there when the queue was claimed, not when it has lost them.
#[test]
fn a_damaged_file_of_the_log_voids_no_copy() {
    let mut scene = Scene::new(10, Arguments::new());
    let mut life = Life::start(&scene.disks, 100_000, None).unwrap();
    let other = life.queue("other").unwrap();
    life.evacuate(other);
    drop(life);
    assert!(!scene.is_in_log());
    scene.claim();
    let life = Life::start(&scene.disks, 200_000, None).unwrap();
    let oldest = *life.log.spans().keys().next().unwrap();
    assert!(life.log.spans().len() > 1);
    drop(life);
    scene.disks = scene.disks.crash(Crash::Process);
    let name = scene.disks.log.files().into_keys().filter(|name| name.ends_with(".log")).min().unwrap();
    let damaged = vec![0x55; scene.disks.log.files()[&name].len()];
    scene.disks.log.put(&name, &damaged);
    let mut life = Life::start_with(&scene.disks, 300_000, None, true).unwrap();
    assert!(*life.log.spans().keys().next().unwrap() > oldest, "file {name} was not the oldest");
    let report = life.ask(scene.id(), |ticket| Request::Report { ticket });
    let ready = scene.bodies.len() as u64;
    assert!(matches!(report, Effect::Report { ref report, .. } if report.ready == ready), "{report:?}");
}

/// A disk that reads the log once, and not again, costs no record of a copy.
#[test]
fn a_log_that_cannot_be_read_again_refuses_the_start() {
    let scene = Scene::new(11, Arguments::new());
    let disks = &scene.disks;
    let of_recovery = Disks {
        log: disks.log.clone(),
        packs: &mut |_| Ok(Some(disks.packs.clone())),
        streams: &mut |_| {
            disks.log.fail(&[Op::Read], 1000, EIO);
            Ok(Some(disks.streams.clone()))
        },
        log_options: options(),
        pack_options: PackOptions::default(),
        unclaimed: &mut |_| Ok(Some(disks.unclaimed.clone())),
        keep_damaged: &mut |_, _| {
            disks.log.heal();
            Ok(())
        },
        origin: Origin::default(),
        in_cluster: None,
        mutation: None,
    };
    let recovered = recover(of_recovery, Purpose::Offline);
    disks.log.heal();
    let Err(RecoverError::Log(error)) = recovered else { panic!("a copy has fewer records than the log") };
    assert!(error.to_string().contains("again"), "{error}");
    assert!(disks.unclaimed.files().is_empty());
    assert_eq!(Life::start(disks, 100_000, None).unwrap().unclaimed.len(), 1);
}

/// Definitions and notes of the node are no data of a queue, whatever the names of files say.
#[test]
fn no_file_stands_for_the_definitions() {
    let disks = SimDisks::new(12);
    let mut life = Life::start(&disks, 1_000, None).unwrap();
    let queue = life.declare("q", Arguments::new());
    drop(life);
    for owner in [0, u64::MAX] {
        disks.unclaimed.put(&format!("{owner:016x}"), b"a file of somebody else");
    }
    for round in 1..4 {
        let life = Life::start(&disks, 100_000 * round, None).unwrap();
        assert_eq!(life.queue("q"), Some(queue), "round {round}");
    }
}
