//! Quorum queues are deleted at random, and the process or the power fails meanwhile. One shard runs on the real log, on simulated disks.
//! A queue is gone only if its own group has said so, and then it does not come back. Otherwise it has all of its messages.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use amqp10::Value;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::{Buf, Bytes};
use catalog::access::Access;
use catalog::ids::QueueId;
use catalog::{AccountChange, Answer, Arguments, CatalogError, Change, Command, DeclareQueue, decode_change};
use message::{LastRoute, Message, Parts, Route};
use node::entries;
use node::shard::questions::{Act, Question};
use node::shard::{Mutation, Shard};
use node::{StorageLimits, make_shards};
use queue::{ConsumerId, Effect, Fact, Publish, PublisherId, Refusal, Request, Ticket};
use replica::Payload;
use wal::{Completion, Handover, Log, Options, SyncEnd, SyncJob};
use wal_testing::{Crash, Random, SimDisk};

use crate::asks::{Asks, keep};
use crate::asks_queues::AsksQueues;
use crate::recovered::SimDisks;

/// The kinds of the broker's records that matter here: a change of the catalog, and a record of a group.
const CHANGE: u8 = 4;
const GROUP: u8 = 10;

/// What the log says about the ends of queues.
#[derive(Default)]
struct Ends {
    /// The queues whose groups say that they have ended.
    by_group: BTreeSet<u64>,
    /// The queues that the catalog has forgotten without that.
    unsaid: BTreeSet<u64>,
}

/// Reads the log of a process that was killed.
fn ends(disk: &SimDisk) -> Ends {
    let mut ends = Ends::default();
    // The disk stays as it is.
    let disk = disk.crash(Crash::Process);
    Log::open(disk, options(1), &mut |record| match record.kind {
        CHANGE if record.owner == 0 => {
            if let Some(Change::QueueForgotten { queue }) = decode_change(&record.body)
                && !ends.by_group.contains(&queue.0)
            {
                ends.unsaid.insert(queue.0);
            }
        }
        // The catalog has a group, too.
        GROUP if record.owner != 0 && group_has_ended(record.body) => _ = ends.by_group.insert(record.owner),
        _ => {}
    })
    .unwrap();
    ends
}

/// Returns true if a record of a group says that its queue has ended.
fn group_has_ended(mut body: Bytes) -> bool {
    body.advance(4);
    match replica::Record::decode(body).unwrap() {
        replica::Record::Base(base) => entries::decode_content(base.content).unwrap().ended.is_some(),
        replica::Record::Entry { entry, .. } => match entry.payload {
            Payload::Facts(facts) => {
                let facts = entries::decode(facts, &mut LastRoute::default()).unwrap();
                facts.iter().any(|fact| matches!(fact, Fact::Ended { .. }))
            }
            Payload::Empty | Payload::Change(_) => false,
        },
        replica::Record::Vote(_) => false,
    }
}

fn options(seed: u64) -> Options {
    Options { file_bytes: 2048, seed: Some(seed), ..Options::default() }
}

enum Syncing {
    Begun(SyncJob),
    Ended(SyncEnd),
}

/// What the clients know of the queue.
#[derive(Default)]
struct Known {
    id: u64,
    expires_ms: Option<u64>,
    published: u64,
    /// The most messages that were committed in this process, and those of them that were fetched.
    committed: u64,
    fetched: u64,
    /// True if a deletion was asked for, and was not refused.
    may_end: bool,
    /// True if a deletion was answered with success.
    is_deleted: bool,
}

/// An answer to a request, by its number.
type Answers = Rc<RefCell<BTreeMap<u64, (bool, Effect)>>>;

struct World {
    random: Random,
    disks: SimDisks,
    log: Option<Log<SimDisk>>,
    shard: Option<Shard>,
    to_log: Vec<Handover>,
    from_log: Vec<Completion>,
    sync: Option<Syncing>,
    now_ms: u64,
    garbage_allowed: u64,
    mutation: Option<Mutation>,
    known: Known,
    answers: Answers,
    asked: u64,
    /// True if a file of the log was deleted, so that it does not have all records any more.
    has_forgotten: bool,
    counts: Counts,
}

/// What has happened in a run.
#[derive(Default)]
struct Counts {
    deleted: u64,
    expired: u64,
    /// Starts with a queue that had ended, and that the catalog had not forgotten.
    told_again: u64,
    /// Starts with a queue whose deletion was lost.
    lived_on: u64,
    refused: u64,
    vhosts: u64,
    forgotten_files: u64,
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut world = Self {
            random: Random(seed),
            disks: SimDisks::new(seed),
            log: None,
            shard: None,
            to_log: Vec::new(),
            from_log: Vec::new(),
            sync: None,
            now_ms: 1000,
            garbage_allowed: if seed.is_multiple_of(2) { 4 * 1024 } else { u64::MAX / 4 },
            mutation,
            known: Known::default(),
            answers: Answers::default(),
            asked: 0,
            has_forgotten: false,
            counts: Counts::default(),
        };
        world.start();
        world
    }

    fn shard(&mut self) -> &mut Shard {
        self.shard.as_mut().expect("it is started")
    }

    fn start(&mut self) {
        let access = Access::default();
        let recovered = self.disks.start(options(self.now_ms), &access, false, None, None);
        let recovered = recovered.expect("disks that only crashed can be recovered");
        assert_eq!(recovered.restored.unreadable, Vec::<String>::new());
        assert!(recovered.restored.unclaimed.is_empty());
        let limits = StorageLimits { garbage_allowed: self.garbage_allowed, ..StorageLimits::default() };
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(access));
        let size = recovered.log.size();
        let mut shard = make_shards(recovered.restored, 1, &settings, &access, limits, self.now_ms).remove(0);
        shard.note_log_size(size);
        self.mutation.into_iter().for_each(|mutation| shard.mutate(mutation));
        (self.log, self.shard) = (Some(recovered.log), Some(shard));
        (self.to_log, self.from_log, self.sync) = (Vec::new(), Vec::new(), None);
    }

    fn queue(&self) -> QueueId {
        QueueId(self.known.id)
    }

    /// Returns true if the catalog knows the queue.
    fn is_known(&mut self) -> bool {
        let queue = self.queue();
        self.shard().catalog().queue_by_id(queue).is_some()
    }

    fn turn(&mut self) {
        let now_ms = self.now_ms;
        let shard = self.shard.as_mut().expect("it is started");
        shard.set_now(now_ms);
        shard.handle_timeout();
        shard.turn();
        shard.take_replies();
        self.to_log.extend(shard.poll_handover());
        if let Some(file) = shard.poll_forget() {
            self.log.as_mut().expect("it is open").forget(file);
            self.has_forgotten = true;
            self.counts.forgotten_files += 1;
        }
        self.look();
    }

    fn step_log(&mut self) {
        let log = self.log.as_mut().expect("it is open");
        let mut done = Vec::new();
        match self.random.below(3) {
            0 => {
                self.sync = match self.sync.take() {
                    None => log.begin_sync(&mut done).map(Syncing::Begun),
                    Some(Syncing::Begun(job)) => Some(Syncing::Ended(job.run())),
                    Some(Syncing::Ended(end)) => {
                        log.end_sync(end, &mut done);
                        None
                    }
                };
            }
            _ => log.append(&mut self.to_log, &mut done),
        }
        self.from_log.extend(done);
    }

    /// Notes what is committed: only that can be delivered.
    fn look(&mut self) {
        let queue = self.queue();
        assert!(!self.is_known() || self.shard().catalog().vhost_settings("v").is_some());
        if let Some(report) = self.shard().queue_report(queue) {
            self.known.committed = self.known.committed.max(report.ready + self.known.fetched);
        }
        let answers = std::mem::take(&mut *self.answers.borrow_mut());
        for (is_if_empty, effect) in answers.into_values() {
            match effect {
                Effect::Done { .. } => {
                    self.known.is_deleted = true;
                    self.counts.deleted += 1;
                    assert!(!self.is_known(), "who deletes a queue is answered when it is forgotten");
                    assert!(
                        !is_if_empty || self.known.committed <= self.known.fetched,
                        "a queue with confirmed messages was deleted, if it is empty"
                    );
                }
                Effect::Fetched { deliveries, .. } => self.known.fetched += deliveries.len() as u64,
                Effect::Refused { why: Refusal::NotFound | Refusal::NotEmpty, .. } => {
                    self.counts.refused += 1
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn ask(&mut self, is_if_empty: bool, request: impl FnOnce(Ticket) -> Request) {
        let (queue, answers, number) = (self.queue(), self.answers.clone(), self.asked);
        self.asked += 1;
        let then = Box::new(move |effect| _ = answers.borrow_mut().insert(number, (is_if_empty, effect)));
        self.shard().ask(queue, request, then);
    }

    /// Does something that a client or an operator may do.
    fn act(&mut self) {
        if !self.is_known() {
            return self.declare();
        }
        let queue = self.queue();
        // Nobody deletes a queue that expires.
        let lives = self.known.expires_ms.is_none();
        match self.random.below(16) {
            0 if lives => {
                let (if_unused, if_empty) = (self.random.one_in(2), self.random.one_in(2));
                self.known.may_end = true;
                self.ask(if_empty, |ticket| Request::Delete { ticket, if_unused, if_empty });
            }
            1..3 => {
                let checkpoint = Act::Checkpoint { queue, to: keep(|_| ()) };
                self.shard().handle_question(Question::Act(checkpoint));
            }
            3..7 => {
                let (holder, n) = (ConsumerId(u64::MAX), 1 + self.random.below(20) as u32);
                self.ask(false, |ticket| Request::Fetch { ticket, holder, n, settled: true });
            }
            7 if lives => self.end_vhost(),
            _ => {
                let parts = Parts { wire: Bytes::from_static(b"message"), durable: true, ..Parts::default() };
                let message = Message::new(parts, Arc::new(Route::simple("", "q")));
                self.known.published += 1;
                let publish = Publish {
                    publisher: PublisherId(0),
                    seq: self.known.published,
                    message,
                    pipelines: false,
                };
                self.shard().handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
            }
        }
    }

    /// Deletes the virtual host of the queue. It goes only when the queue has gone.
    fn end_vhost(&mut self) {
        let name: Arc<str> = "v".into();
        self.known.may_end = true;
        let close = Command::Account(AccountChange::CloseVhost { name: name.clone() });
        self.shard().propose(close, Box::new(|answer| drop(answer.unwrap())));
        self.ask(false, |ticket| Request::Delete { ticket, if_unused: false, if_empty: false });
        let delete = Command::Account(AccountChange::DeleteVhost { name });
        // It is refused while the queue has not gone.
        self.shard().propose(delete, Box::new(drop));
        self.counts.vhosts += 1;
    }

    fn declare(&mut self) {
        let before = &self.known;
        assert!(
            before.id == 0 || before.may_end || before.expires_ms.is_some(),
            "nobody has asked for the end of the queue"
        );
        self.counts.expired += u64::from(before.id != 0 && !before.may_end);
        if self.shard().catalog().vhost_settings("v").is_some_and(|settings| settings.deleting) {
            let delete = Command::Account(AccountChange::DeleteVhost { name: "v".into() });
            self.shard().propose(delete, Box::new(|answer| drop(answer.unwrap())));
        }
        let vhost = Command::Account(AccountChange::add_vhost("v"));
        self.shard().propose(vhost, Box::new(|answer| drop(answer.unwrap())));
        let expires_ms = self.random.one_in(3).then(|| 100 + self.random.below(400));
        let expires = expires_ms.map(|ms| ("x-expires".to_owned(), Value::Ulong(ms)));
        let quorum = ("x-queue-type".to_owned(), Value::from("quorum"));
        let arguments: Arguments = std::iter::once(quorum).chain(expires).collect();
        let declare = Command::DeclareQueue(DeclareQueue::new("v", "q", arguments));
        self.shard().propose(declare, Box::new(|answer| drop(answer.unwrap())));
        for _ in 0..200 {
            self.turn();
            self.step_log();
            self.deliver();
            if let Some(record) = self.shard().catalog().listed_queue("v", "q") {
                let id = record.id.0;
                assert_ne!(id, self.known.id, "it is another one");
                self.known = Known { id, expires_ms, ..Known::default() };
                let queue = self.queue();
                assert!(self.shard().queue_report(queue).is_none_or(|report| report.next_seq == 1));
                self.ask(false, |ticket| Request::Fetch {
                    ticket,
                    holder: ConsumerId(1),
                    n: 1,
                    settled: true,
                });
                return;
            }
        }
        panic!("it is not declared");
    }

    /// A client declares a queue that has ended before the catalog has forgotten it. It gets a new queue, unless the virtual host is
    /// being deleted.
    fn declare_at_once(&mut self) {
        let quorum = [("x-queue-type".to_owned(), Value::from("quorum"))].into();
        let declare = Command::DeclareQueue(DeclareQueue::new("v", "q", quorum));
        let ended = self.queue();
        let check = move |answer| match answer {
            Ok(Answer::Queue { record, created }) => assert!(created && record.id != ended),
            Ok(other) => panic!("{other:?}"),
            Err(CatalogError::NotFound { .. }) => {}
            Err(other) => panic!("{other:?}"),
        };
        self.shard().propose(declare, Box::new(check));
    }

    fn deliver(&mut self) {
        if !self.from_log.is_empty() {
            let completion = self.from_log.remove(0);
            self.shard().handle_logged(completion);
            self.look();
        }
    }

    fn step(&mut self) {
        self.now_ms += self.random.below(3);
        match self.random.below(8) {
            0..2 => self.act(),
            2..4 => self.turn(),
            4..6 => self.step_log(),
            6 => self.deliver(),
            _ => self.now_ms += if self.random.one_in(8) { 600 } else { 0 },
        }
    }

    /// Lets everything happen that is on its way. Hardly any time passes.
    fn settle(&mut self) {
        for _ in 0..300 {
            self.turn();
            self.step_log();
            self.deliver();
        }
    }

    /// Kills the process, and starts another one. Returns what is wrong.
    fn crash(&mut self, how: Crash) -> Result<(), String> {
        (self.log, self.shard) = (None, None);
        self.answers.borrow_mut().clear();
        self.disks = self.disks.crash(how);
        let Ends { by_group, unsaid } = ends(&self.disks.log);
        if !self.has_forgotten && !unsaid.is_empty() {
            return Err(format!(
                "{unsaid:?} are forgotten, and their groups do not say that they have ended"
            ));
        }
        self.start();
        let queue = self.queue();
        if self.known.id == 0 {
            return Ok(());
        }
        let has_ended = by_group.contains(&queue.0);
        if !self.is_known() {
            // Its deletion is in the log, or its declaration is not.
            let is_right = has_ended || self.has_forgotten || self.known.committed == 0;
            return if is_right { Ok(()) } else { Err("a queue is gone without its end".into()) };
        }
        if self.known.is_deleted {
            return Err("a queue is back whose deletion was answered".into());
        }
        let (committed, fetched) = (self.known.committed, self.known.fetched);
        (self.known.committed, self.known.fetched) = (0, 0);
        if has_ended {
            self.counts.told_again += 1;
            self.declare_at_once();
            self.ask(false, |ticket| Request::Fetch { ticket, holder: ConsumerId(1), n: 1, settled: true });
            self.settle();
            if self.is_known() || self.known.fetched > 0 || self.known.committed > 0 {
                return Err("a queue that has ended lives after a restart".into());
            }
            // The one that was declared at once.
            let new = self.shard().catalog().listed_queue("v", "q").map(|record| record.id.0);
            new.into_iter().for_each(|id| self.known = Known { id, ..Known::default() });
            return Ok(());
        }
        self.settle();
        if !self.is_known() {
            return Err("a queue is deleted whose end was not committed".into());
        }
        self.counts.lived_on += u64::from(self.known.may_end);
        let left = self.known.committed;
        match left + fetched >= committed {
            true => Ok(()),
            false => Err(format!("{left} messages of {committed} are left, and {fetched} were fetched")),
        }
    }
}

fn run(seed: u64, mutation: Option<Mutation>) -> Result<Counts, String> {
    let mut world = World::new(seed, mutation);
    for _ in 0..8 {
        for _ in 0..50 + world.random.below(700) {
            world.step();
        }
        let how = if world.random.one_in(2) { Crash::Power } else { Crash::Process };
        world.crash(how)?;
    }
    Ok(world.counts)
}

/// Returns the seeds of a test. `SLUICE_SOAK` multiplies the number of runs.
fn seeds(runs: u64) -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let base = number("SLUICE_SEED").unwrap_or(1);
    base..base + runs * number("SLUICE_SOAK").unwrap_or(1)
}

#[test]
fn a_quorum_queue_is_gone_only_if_its_group_says_so() {
    let mut sums = Counts::default();
    for seed in seeds(100) {
        let done = std::panic::catch_unwind(|| run(seed, None));
        let Ok(done) = done else { panic!("seed {seed}: see above") };
        let counts = done.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        sums.deleted += counts.deleted;
        sums.expired += counts.expired;
        sums.told_again += counts.told_again;
        sums.lived_on += counts.lived_on;
        sums.refused += counts.refused;
        sums.vhosts += counts.vhosts;
        sums.forgotten_files += counts.forgotten_files;
    }
    let Counts { deleted, expired, told_again, lived_on, refused, vhosts, forgotten_files } = sums;
    for (what, count) in [
        ("deleted", deleted),
        ("expired", expired),
        ("told again after a restart", told_again),
        ("alive after a restart", lived_on),
        ("refused", refused),
        ("of a virtual host that is deleted", vhosts),
        ("files of the log that are deleted", forgotten_files),
    ] {
        assert!(count > 0, "no {what}");
    }
}

#[test]
fn a_catalog_that_is_told_before_the_commit_is_found() {
    let is_found = |seed: &u64| {
        let done = std::panic::catch_unwind(|| run(*seed, Some(Mutation::DeleteWithoutEnded)));
        done.is_err() || done.is_ok_and(|done| done.is_err())
    };
    assert!((1..100).any(|seed| is_found(&seed)));
}
