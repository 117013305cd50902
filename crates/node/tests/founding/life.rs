//! A process with shards of quorum queues, on simulated disks. A test moves each of its parts.

use std::sync::{Arc, Mutex};

use broker::mail::Mail;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::access::Access;
use catalog::ids::QueueId;
use catalog::{Arguments, Command, DeclareQueue};
use message::{Message, Parts, Route};
use node::recovery::{Mutation, RecoverError, Recovered};
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{ConsumerId, Effect, Publish, PublisherId, Refusal, Request, Requester, Ticket};
use wal::{Completion, Handover, Log, Options, Records};
use wal_testing::SimDisk;

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use crate::recovered::SimDisks;

/// How a process starts.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub shards: u8,
    /// The size of the log's files.
    pub file_bytes: u64,
    /// The bytes of deleted records above which the broker evacuates and deletes files of the log.
    pub garbage_allowed: u64,
    /// True to start although definitions may be lost.
    pub accepts_loss: bool,
    pub mutation: Option<Mutation>,
}

impl Default for How {
    fn default() -> Self {
        let garbage_allowed = StorageLimits::default().garbage_allowed;
        Self { shards: 1, file_bytes: 1 << 20, garbage_allowed, accepts_loss: false, mutation: None }
    }
}

impl How {
    pub(super) fn options(&self) -> Options {
        Options { file_bytes: self.file_bytes, seed: Some(7), ..Options::default() }
    }

    /// Recovers as a start does.
    pub(super) fn recover(&self, disks: &SimDisks) -> Result<Recovered<SimDisk>, RecoverError> {
        disks.start(self.options(), &Access::default(), self.accepts_loss, None, self.mutation)
    }
}

/// One process on the disks.
pub(super) struct Life {
    pub log: Log<SimDisk>,
    pub shards: Vec<Shard>,
    pub now_ms: u64,
    /// The files of the log that it has deleted.
    pub forgotten: u64,
}

impl Life {
    /// Starts a process with one shard.
    pub(super) fn start(disks: &SimDisks, mutation: Option<Mutation>) -> Self {
        Self::start_as(disks, &How { mutation, ..How::default() })
    }

    pub(super) fn start_as(disks: &SimDisks, how: &How) -> Self {
        let Recovered { restored, log, .. } = how.recover(disks).expect("it starts");
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let limits = StorageLimits { garbage_allowed: how.garbage_allowed, ..StorageLimits::default() };
        let mut shards = make_shards(restored, how.shards, &settings, &access, limits, 1000);
        shards[0].note_log_size(log.size());
        Self { log, shards, now_ms: 1000, forgotten: 0 }
    }

    /// Lets a shard do all that it can do alone.
    pub(super) fn turn(&mut self, shard: usize) {
        let shard = &mut self.shards[shard];
        shard.set_now(self.now_ms);
        shard.handle_timeout();
        while shard.turn() {}
        shard.take_replies();
    }

    /// Brings the mail of a shard to the others. Returns true if there was any.
    pub(super) fn exchange_mail(&mut self, from: usize) -> bool {
        let mut any = false;
        for to in (0..self.shards.len()).filter(|to| *to != from) {
            let mail = self.shards[from].poll_mail(to as u8);
            any |= !mail.is_empty();
            self.shards[to].handle_mail(mail);
        }
        any
    }

    /// Writes the handover of a shard, without a sync. Returns true if there was one.
    pub(super) fn write(&mut self, shard: usize) -> bool {
        let Some(handover) = self.shards[shard].poll_handover() else { return false };
        let mut done = Vec::new();
        self.log.append(&mut vec![handover], &mut done);
        self.deliver(done);
        true
    }

    pub(super) fn sync(&mut self) {
        let mut done = Vec::new();
        self.log.sync(&mut done);
        self.deliver(done);
    }

    fn deliver(&mut self, done: Vec<Completion>) {
        for completion in done {
            let shard = completion.shard as usize;
            self.shards[shard].handle_logged(completion);
        }
    }

    /// Deletes the file of the log that nobody needs any more, if there is one.
    pub(super) fn forget(&mut self) {
        if let Some(file) = self.shards[0].poll_forget() {
            self.log.forget(file);
            self.forgotten += 1;
        }
    }

    /// Runs until nothing is left, and writes so many handovers at most.
    pub(super) fn settle_to(&mut self, handovers: usize) {
        let (mut idle, mut written) = (0, 0);
        while idle < 4 {
            self.now_ms += 50;
            let mut any = false;
            for shard in 0..self.shards.len() {
                self.turn(shard);
                any |= self.exchange_mail(shard);
                if written == handovers {
                    return;
                }
                if self.write(shard) {
                    self.sync();
                    (any, written) = (true, written + 1);
                }
            }
            self.forget();
            idle = if any { 0 } else { idle + 1 };
        }
    }

    pub(super) fn settle(&mut self) {
        self.settle_to(usize::MAX);
    }

    /// Declares a quorum queue. It is not declared yet.
    pub(super) fn propose(&mut self, name: &str) {
        self.shards[0].propose(declare(name), Box::new(|answer| drop(answer.unwrap())));
    }

    pub(super) fn queue(&self, name: &str) -> Option<QueueId> {
        self.shards[0].catalog().listed_queue("/", name).map(|record| record.id)
    }

    /// Sends a message to a queue, if its shard has heard of the queue.
    pub(super) fn send(&mut self, queue: QueueId, seq: u64) {
        let shard = self.shards.iter_mut().find(|shard| shard.queue_report(queue).is_some());
        let Some(shard) = shard else { return };
        let parts =
            Parts { wire: Bytes::from_static(b"\x00\x53\x75\xa0\x01m"), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("", "q")));
        let publish = Publish { publisher: PublisherId(0), seq, message, pipelines: false };
        shard.handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
    }

    /// Sends a message to a queue, and waits until it is there.
    pub(super) fn publish(&mut self, queue: QueueId, seq: u64) {
        self.send(queue, seq);
        self.settle();
    }

    /// Takes all messages of a queue. Returns their number, or why there are none.
    pub(super) fn take(&mut self, name: &str) -> Result<usize, Refusal> {
        let Some(queue) = self.queue(name) else { return Err(Refusal::NotFound) };
        let answer = Arc::new(Mutex::new(None));
        let seen = answer.clone();
        let holder = ConsumerId(u64::MAX);
        let request = |ticket: Ticket| Request::Fetch { ticket, holder, n: 1000, settled: true };
        self.shards[0].ask(queue, request, Box::new(move |effect| *seen.lock().unwrap() = Some(effect)));
        self.settle();
        match answer.lock().unwrap().take().expect("every request is answered") {
            Effect::Fetched { deliveries, .. } => Ok(deliveries.len()),
            Effect::Refused { requester: Requester::Ticket(_), why } => Err(why),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the declaration of a quorum queue.
pub(super) fn declare(name: &str) -> Command {
    let quorum = ("x-queue-type".to_owned(), amqp10::Value::from("quorum"));
    Command::DeclareQueue(DeclareQueue::new("/", name, Arguments::from([quorum])))
}

/// Returns the log without the records of these owners.
pub(super) fn without(disks: &SimDisks, owners: &[QueueId]) -> SimDisks {
    let (log, mut kept) = (SimDisk::new(99), Records::new());
    let each = &mut |record: wal::Record| {
        if !owners.contains(&QueueId(record.owner)) {
            kept.push(record.owner, record.seq, record.kind, &[&record.body]);
        }
    };
    drop(Log::open(disks.log.clone(), How::default().options(), each).unwrap());
    append(&log, kept);
    SimDisks { log, ..SimDisks::new(5) }
}

/// Writes these records to a log, and syncs them.
pub(super) fn append(disk: &SimDisk, records: Records) {
    let (mut log, _) = Log::open(disk.clone(), How::default().options(), &mut |_| {}).unwrap();
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }], &mut done);
    log.sync(&mut done);
}

/// Returns the records of an older program, which has declared these quorum queues and founded no group.
pub(super) fn older_records(names: &[String]) -> Records {
    let (mut catalog, mut records) = (catalog::Catalog::default(), Records::new());
    for name in names {
        for change in catalog.decide(declare(name), &mut catalog.queue_ids()).unwrap().changes {
            catalog.apply(&change);
            node::facts::push_change(&mut records, catalog.version(), &change);
        }
    }
    records
}
