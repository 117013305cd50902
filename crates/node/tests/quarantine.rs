//! Damage in the log closes the queues that it may concern, permanently, and nothing else. The tests run one
//! shard on the real log, on a simulated disk whose bytes are changed between two starts.

use std::sync::{Arc, Mutex};

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use crate::recovered;
use amqp10::Value;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::access::Access;
use catalog::ids::QueueId;
use catalog::{Arguments, Command, DeclareQueue};
use message::{Message, Parts, Route};
use node::quarantine::DefinitionsLost;
use node::recovery::{RecoverError, Recovered};
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{ConsumerId, Effect, Publish, PublisherId, Refusal, Request, Ticket};
use wal::{Log, Options};
use wal_testing::SimDisk;

/// The bytes of garbage that the log may hold. There are so few that the log deletes its files.
const GARBAGE: u64 = 4 * 1024;

/// The records of a start that makes nothing: the vote of the catalog's member, the first entry of its term, and what the start ends.
const STARTED: u64 = 3;

/// One process on the disk.
struct Life {
    log: Log<SimDisk>,
    shard: Shard,
    now_ms: u64,
    /// The number of records that the start had to write to the log.
    written: u64,
}

impl Life {
    fn start(disk: &SimDisk, now_ms: u64) -> Result<Self, DefinitionsLost> {
        Self::start_with(disk, now_ms, false)
    }

    fn start_with(disk: &SimDisk, now_ms: u64, accept: bool) -> Result<Self, DefinitionsLost> {
        // The seed makes the same bytes in every run, because tests search for some of them.
        let options = Options { file_bytes: 2048, seed: Some(now_ms), ..Options::default() };
        let recovered = match recovered::start(disk, options, &Access::default(), accept, None) {
            Err(RecoverError::Definitions(lost)) => return Err(lost),
            recovered => recovered.unwrap(),
        };
        let Recovered { restored, log, recovery, .. } = recovered;
        let written = log.spans().values().map(|span| span.records).sum::<u64>() - recovery.records;
        let limits = StorageLimits { garbage_allowed: GARBAGE, ..StorageLimits::default() };
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let mut shards = make_shards(restored, 1, &settings, &access, limits, now_ms);
        Ok(Self { log, shard: shards.remove(0), now_ms, written })
    }

    fn settle(&mut self) {
        loop {
            self.now_ms += 50;
            self.shard.set_now(self.now_ms);
            self.shard.handle_timeout();
            while self.shard.turn() {}
            self.shard.take_replies();
            let Some(handover) = self.shard.poll_handover() else { break };
            let mut done = Vec::new();
            self.log.append(&mut vec![handover], &mut done);
            self.log.sync(&mut done);
            done.into_iter().for_each(|completion| self.shard.handle_logged(completion));
            while self.shard.turn() {}
            self.shard.take_replies();
            if let Some(file) = self.shard.poll_forget() {
                self.log.forget(file);
            }
        }
    }

    fn declare(&mut self, name: &str) -> QueueId {
        let declare = DeclareQueue::new("/", name, Arguments::new());
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

    /// Takes all messages of a queue. Returns their number, or why there are none.
    fn take(&mut self, queue: QueueId) -> Result<usize, Refusal> {
        let holder = ConsumerId(u64::MAX);
        match self.ask(queue, |ticket| Request::Fetch { ticket, holder, n: 1000, settled: true }) {
            Effect::Fetched { deliveries, .. } => Ok(deliveries.len()),
            Effect::Refused { why, .. } => Err(why),
            other => panic!("{other:?}"),
        }
    }

    /// Fills files with messages that are published and consumed.
    fn churn(&mut self, queue: QueueId) {
        for seq in 0..100 {
            self.publish(queue, seq, &[b'x'; 200]);
            self.take(queue).unwrap();
        }
    }

    fn ready(&mut self, queue: QueueId) -> u64 {
        match self.ask(queue, |ticket| Request::Report { ticket }) {
            Effect::Report { report, .. } => report.ready,
            other => panic!("{other:?}"),
        }
    }

    fn stop(self) {
        self.log.close().unwrap();
    }
}

/// Returns a disk with queue `a`, messages "one" and "two", and queue `b`, messages "three" and "four".
fn filled() -> SimDisk {
    let disk = SimDisk::new(1);
    let mut life = Life::start(&disk, 1_000).unwrap();
    let (a, b) = (life.declare("queue of a"), life.declare("queue of b"));
    life.publish(a, 1, b"one");
    life.publish(a, 2, b"two");
    life.publish(b, 1, b"three");
    life.publish(b, 2, b"four");
    life.stop();
    disk
}

/// Returns the same files with changed octets, from the first `from` to the first `to`.
fn spoilt(disk: &SimDisk, from: &[u8], to: &[u8]) -> SimDisk {
    let spoilt = SimDisk::new(2);
    let mut hits = 0;
    for (name, mut bytes) in disk.files() {
        let find = |what: &[u8]| bytes.windows(what.len()).position(|window| window == what);
        if let (Some(first), Some(last)) = (find(from), find(to)) {
            bytes[first..last + to.len()].iter_mut().for_each(|octet| *octet ^= 0x55);
            hits += 1;
        }
        spoilt.put(&name, &bytes);
    }
    assert_eq!(hits, 1, "the bytes occur in one file only");
    spoilt
}

#[test]
fn a_queue_that_lost_a_record_is_closed_until_it_is_deleted() {
    let disk = spoilt(&filled(), b"one", b"one");
    for told_again in [false, true] {
        let mut life = Life::start(&disk, 100_000).unwrap();
        assert_eq!(life.written == STARTED, told_again, "it is written to the log once");
        let (a, b) = (life.queue("queue of a").unwrap(), life.queue("queue of b").unwrap());
        assert_eq!(life.take(a), Err(Refusal::Damaged));
        assert_eq!(life.ready(a), 1, "its remaining messages are kept");
        assert_eq!(life.ready(b), 2);
        life.stop();
    }
    let mut life = Life::start(&disk, 200_000).unwrap();
    let (a, b) = (life.queue("queue of a").unwrap(), life.queue("queue of b").unwrap());
    assert_eq!(life.take(b), Ok(2));
    let delete = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
    assert!(matches!(life.ask(a, delete), Effect::Done { .. }));
    let anew = life.declare("queue of a");
    assert_ne!(anew, a);
    life.publish(anew, 1, b"five");
    life.stop();
    let mut life = Life::start(&disk, 300_000).unwrap();
    assert_eq!(life.queue("queue of a"), Some(anew));
    assert_eq!(life.take(anew), Ok(1));
}

#[test]
fn a_damaged_queue_stays_closed_after_its_file_is_deleted() {
    let disk = spoilt(&filled(), b"one", b"one");
    let damaged = disk.files().into_keys().next().unwrap();
    let mut life = Life::start(&disk, 100_000).unwrap();
    let b = life.queue("queue of b").unwrap();
    life.churn(b);
    assert!(!disk.files().contains_key(&damaged), "its file is deleted");
    drop(life);
    let mut life = Life::start(&disk, 200_000).unwrap();
    let a = life.queue("queue of a").unwrap();
    assert_eq!((life.written, life.take(a), life.ready(a)), (STARTED, Err(Refusal::Damaged), 1));
}

/// Changes the octets of `what` on the disk itself, as damage does between two starts within one boot of the
/// machine.
fn spoil(disk: &SimDisk, what: &[u8]) {
    let (name, mut bytes) = disk.files().pop_last().unwrap();
    let at = bytes.windows(what.len()).position(|window| window == what).unwrap();
    bytes[at..at + what.len()].iter_mut().for_each(|octet| *octet ^= 0x55);
    disk.put(&name, &bytes);
}

#[test]
fn damage_to_the_last_message_before_a_kill_is_noticed() {
    let disk = SimDisk::new(1);
    let mut life = Life::start(&disk, 1_000).unwrap();
    let (a, b) = (life.declare("queue of a"), life.declare("queue of b"));
    life.publish(b, 1, b"one");
    life.publish(a, 1, b"two");
    // The log becomes idle, and then the process is killed.
    life.log.note();
    drop(life);
    spoil(&disk, b"two");
    for now_ms in [100_000, 200_000] {
        let mut life = Life::start(&disk, now_ms).unwrap();
        assert_eq!((life.take(a), life.ready(b)), (Err(Refusal::Damaged), 1));
    }
}

#[test]
fn damage_to_the_last_definition_before_a_kill_is_noticed() {
    let disk = SimDisk::new(1);
    let mut life = Life::start(&disk, 1_000).unwrap();
    life.declare("first");
    life.declare("second");
    drop(life);
    spoil(&disk, b"second");
    let files = disk.files();
    for _ in 0..2 {
        let Err(DefinitionsLost::Damage(damage)) = Life::start(&disk, 100_000) else { panic!("it starts") };
        assert_eq!(Some(&damage.file), files.keys().last());
        assert_eq!(disk.files(), files, "nothing was touched");
    }
    let life = Life::start_with(&disk, 200_000, true).unwrap();
    assert!(life.queue("first").is_some() && life.queue("second").is_none());
    drop(life);
    assert!(Life::start(&disk, 300_000).is_ok(), "the damage is noted now");
}

#[test]
fn damage_without_a_known_owner_closes_every_durable_queue_of_its_time() {
    let disk = spoilt(&filled(), b"one", b"three");
    let mut life = Life::start(&disk, 100_000).unwrap();
    let (a, b) = (life.queue("queue of a").unwrap(), life.queue("queue of b").unwrap());
    assert_eq!((life.take(a), life.take(b)), (Err(Refusal::Damaged), Err(Refusal::Damaged)));
    let c = life.declare("c");
    life.publish(c, 1, b"five");
    life.stop();
    let mut life = Life::start(&disk, 200_000).unwrap();
    assert_eq!((life.take(a), life.take(b)), (Err(Refusal::Damaged), Err(Refusal::Damaged)));
    assert_eq!(life.take(c), Ok(1), "a queue declared later has lost nothing");
}

/// The log has no messages of streams. Their segments are checked by themselves.
#[test]
fn damage_in_the_log_closes_no_stream() {
    let disk = filled();
    let mut life = Life::start(&disk, 50_000).unwrap();
    let kind = ("x-queue-type".to_owned(), Value::from("stream"));
    let declare = DeclareQueue::new("/", "s", [kind].into_iter().collect());
    life.shard.propose(Command::DeclareQueue(declare), Box::new(|answer| drop(answer.unwrap())));
    life.settle();
    let stream = life.queue("s").unwrap();
    drop(life);
    let disk = spoilt(&disk, b"one", b"three");
    let options = Options { file_bytes: 2048, seed: Some(1), ..Options::default() };
    for _ in 0..2 {
        let recovered = recovered::start(&disk, options.clone(), &Access::default(), false, None).unwrap();
        let mut closed: Vec<_> = recovered.restored.queues.into_iter().collect();
        closed.retain(|(_, queue)| queue.is_damaged());
        assert_eq!((closed.len(), closed.iter().any(|(id, _)| *id == stream)), (2, false));
    }
}

#[test]
fn a_node_does_not_start_without_its_definitions() {
    let disk = filled();
    // In the first case the damage names its owners. In the second it is only known that something synced was
    // lost.
    for (from, to) in [(&b"queue of a"[..], &b"queue of a"[..]), (b"queue of a", b"one")] {
        let has = |bytes: &[u8]| bytes.windows(from.len()).position(|w| w == from);
        let (name, bytes) = disk.files().into_iter().find(|(_, bytes)| has(bytes).is_some()).unwrap();
        let declared = has(&bytes).unwrap();
        let last = bytes.windows(to.len()).position(|w| w == to).unwrap();
        let mut changed = bytes.clone();
        changed[declared..last + to.len()].iter_mut().for_each(|octet| *octet ^= 0x55);
        let spoilt = SimDisk::new(3);
        disk.files().iter().for_each(|(name, bytes)| spoilt.put(name, bytes));
        spoilt.put(&name, &changed);
        let refused = Life::start(&spoilt, 100_000).err().unwrap();
        let DefinitionsLost::Damage(damage) = &refused else { panic!("{refused:?}") };
        assert_eq!(damage.file, name);
        assert!(refused.to_string().contains(&format!("{name} is damaged at offset {}", damage.offset)));
        assert_eq!(spoilt.files()[&name], changed, "nothing was touched");

        // If the loss is accepted, the remaining queues are closed, and the next start knows that.
        for (accept, now_ms) in [(true, 200_000), (false, 300_000)] {
            let mut life = Life::start_with(&spoilt, now_ms, accept).unwrap();
            assert_eq!(life.written == STARTED, !accept, "it is written to the log once");
            assert_eq!(life.queue("queue of a"), None, "its definition is lost");
            let b = life.queue("queue of b");
            assert_eq!(b.is_some(), to == b"queue of a", "its definition is lost as well, or not");
            if let Some(b) = b {
                assert_eq!((life.take(b), life.ready(b)), (Err(Refusal::Damaged), 2));
            }
            life.stop();
        }
        let mut life = Life::start(&spoilt, 400_000).unwrap();
        let anew = life.declare("queue of a");
        life.publish(anew, 1, b"five");
        assert_eq!(life.take(anew), Ok(1));
    }
}
