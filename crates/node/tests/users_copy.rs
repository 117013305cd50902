//! Users and permissions are in the log and in a copy beside it. One of the two suffices: a process changes users at random
//! and dies at a random step, then a file is damaged, and nothing of an answered change may be lost or undone.

use std::io;
use std::sync::{Arc, Mutex};

use crate::asks::Asks;
use crate::recovered;
use amqp10::sasl::Secret;
use broker::settings::Settings;
use catalog::access::{Access, Hashing, Permissions, TopicPermissions, UserLimits, Users};
use catalog::{AccountChange, Arguments, Change, Command, DeclareQueue};
use node::facts::Restored;
use node::quarantine::DefinitionsLost;
use node::recovery::{RecoverError, Recovered};
use node::shard::Shard;
use node::{StorageLimits, make_shards, users_copy};
use wal::{CopyEnd, CopyFile, Handover, Identity, Log, Options, Records};
use wal_testing::{Crash, Random, SimDisk};

/// The name of the copy.
const COPY: &str = "users.copy";

/// The names of the users.
const NAMES: [&str; 4] = ["anna", "bert", "carl", "dora"];

/// A process that changes users, as the deciding shard of a node does.
struct Process {
    log: Log<SimDisk>,
    copy: CopyFile<SimDisk>,
    restored: Restored,
    /// True if the users were taken from the copy.
    took_copy: bool,
}

impl Process {
    /// Starts as a node does. Returns `None` if the disk dies.
    fn start(disk: &SimDisk, seed: u64, accept: bool) -> Option<Result<Self, DefinitionsLost>> {
        let former = Identity::look(&mut disk.clone()).ok()?.map_or(0, |former| former.boots);
        let mut copy = CopyFile::new(disk.clone(), former + 1);
        let kept = users_copy::adopt(&mut copy);
        Identity::begin(&mut disk.clone()).ok()?;
        // Files are so small that a few changes fill one.
        let options = Options { file_bytes: 512, seed: Some(seed), ..Options::default() };
        let users = kept.users.as_ref();
        let recovered = match recovered::start(disk, options, &Access::default(), accept, users) {
            Err(RecoverError::Definitions(lost)) => return Some(Err(lost)),
            recovered => recovered.ok()?,
        };
        let Recovered { restored, log, took_users: took_copy, .. } = recovered;
        if let CopyEnd::Refused(_) = users_copy::renew(&mut copy, kept, restored.catalog.users()) {
            return None;
        }
        Some(Ok(Self { log, copy, restored, took_copy }))
    }

    fn users(&self) -> Users {
        (**self.restored.catalog.users()).clone()
    }

    /// Changes users, in one commit. Returns `None` if that was not answered.
    fn change(&mut self, changes: &[Change]) -> Option<()> {
        changes.iter().for_each(|change| self.restored.change(change.clone()));
        append(&mut self.log, self.restored.write_changes().unwrap())?;
        match self.copy.replace(&users_copy::encode(self.restored.catalog.users())) {
            CopyEnd::Written | CopyEnd::Removed(_) => Some(()),
            CopyEnd::Refused(_) => None,
        }
    }
}

fn append(log: &mut Log<SimDisk>, records: Records) -> Option<()> {
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }], &mut done);
    log.sync(&mut done);
    done.iter().all(|completion| completion.result.is_ok()).then_some(())
}

/// Returns one to three changes of one user.
fn changes(random: &mut Random) -> Vec<Change> {
    let user: Arc<str> = NAMES[random.below(4) as usize].into();
    let vhost: Arc<str> = ["/", "other"][random.below(2) as usize].into();
    let (exchange, text) = (Arc::<str>::from("amq.topic"), format!("^{}$", random.below(9)));
    let one = |random: &mut Random| {
        let (user, vhost, exchange) = (user.clone(), vhost.clone(), exchange.clone());
        match random.below(8) {
            0..3 => Change::UserSet {
                name: user,
                hash: Hashing::Sha256.hash([random.below(9) as u8; 16], &Secret::new(text.clone())),
                tags: vec![text.clone()].into(),
            },
            3 => Change::UserDeleted { name: user },
            4 => Change::PermissionsSet { user, vhost, permissions: Permissions::ALL },
            5 => Change::PermissionsCleared { user, vhost },
            6 => {
                let max_connections = Some(random.below(9) as u32);
                Change::UserLimitsSet {
                    user,
                    limits: UserLimits { max_connections, ..UserLimits::default() },
                }
            }
            _ => {
                let permissions = TopicPermissions::new([&text, &text], &user, &vhost).unwrap();
                Change::TopicPermissionsSet { user, vhost, exchange, permissions }
            }
        }
    };
    (0..=random.below(3)).map(|_| one(random)).collect()
}

/// Damages one file of the log, or the copy. Returns true if it was a file of the log.
fn damage(disk: &SimDisk, random: &mut Random, how: Crash) -> bool {
    let files = disk.files();
    let logs: Vec<&String> = files.keys().filter(|name| name.ends_with(".log")).collect();
    // After a power failure, damage at the end of the log looks like a write that was interrupted. The newest file may have
    // nothing but such a write.
    let older = if how == Crash::Power { logs.len().saturating_sub(2) } else { logs.len() };
    let name = match random.below(older as u64 + 1) as usize {
        0 => COPY,
        at => logs[at - 1].as_str(),
    };
    let is_log = name != COPY;
    let Some(mut bytes) = files.get(name).cloned().filter(|bytes| !bytes.is_empty()) else { return false };
    match random.below(3) {
        0 => disk.lose(name),
        1 => disk.put(name, &bytes[..random.below(bytes.len() as u64) as usize]),
        _ => {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << random.below(8);
            disk.put(name, &bytes);
        }
    }
    is_log
}

#[test]
fn nothing_of_an_answered_change_of_users_is_lost() {
    let (mut refused, mut copies) = (0, 0);
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut disk = SimDisk::new(seed);
        let mut answered = Users::default();
        for round in 0..6 {
            let Some(Ok(mut process)) = Process::start(&disk, seed, false) else {
                panic!("seed {seed}, round {round}: it starts");
            };
            assert_eq!(process.users(), answered, "seed {seed}, round {round}");
            disk.die_at(random.below(200));
            let in_flight = loop {
                let changes = changes(&mut random);
                if process.change(&changes).is_none() {
                    break process.users();
                }
                answered = process.users();
            };
            drop(process);
            let how = if random.one_in(2) { Crash::Process } else { Crash::Power };
            disk = disk.crash(how);
            let is_log = damage(&disk, &mut random, how);
            // Any number of starts may be interrupted.
            while random.one_in(2) {
                disk.die_at(random.below(30));
                drop(Process::start(&disk, seed, random.one_in(2)));
                disk = disk.crash(how);
            }
            if is_log && matches!(Process::start(&disk, seed, false), Some(Err(_))) {
                refused += 1;
            }
            let Some(Ok(process)) = Process::start(&disk, seed, true) else {
                panic!("seed {seed}, round {round}: it starts if that is accepted");
            };
            copies += u32::from(process.took_copy);
            let users = process.users();
            assert!(
                users == answered || users == in_flight,
                "seed {seed}, round {round}, {how:?}, copy {}:\n{users:?}\nis neither\n{answered:?}\nnor\n{in_flight:?}",
                process.took_copy
            );
            answered = users;
        }
    }
    assert!(refused > 50 && copies > 50, "{refused} refused, {copies} copies used");
}

/// Runs the shard until nothing is left. The log writes and syncs everything.
fn settle(shard: &mut Shard, log: &mut Log<SimDisk>) {
    loop {
        while shard.turn() {}
        shard.take_replies();
        let Some(handover) = shard.poll_handover() else { break };
        let mut done = Vec::new();
        log.append(&mut vec![handover], &mut done);
        log.sync(&mut done);
        done.into_iter().for_each(|completion| shard.handle_logged(completion));
    }
}

#[test]
fn a_change_of_users_is_answered_when_the_copy_has_it() {
    let (mut log, _) = Log::open(SimDisk::new(1), Options::default(), &mut |_| {}).unwrap();
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
    let limits = StorageLimits::default();
    let mut now_ms = 1_000;
    let shard = &mut make_shards(Restored::default(), 1, &settings, &access, limits, now_ms).remove(0);
    shard.copy_users(&CopyEnd::Written);
    let answers = Arc::new(Mutex::new(Vec::new()));
    let propose = |shard: &mut Shard, name: &'static str, command| {
        let answers = answers.clone();
        let then = move |answer: Result<_, _>| answers.lock().unwrap().push((name, answer.is_ok()));
        shard.propose(command, Box::new(then));
    };
    let set = |name: &str| {
        let hash = Hashing::Sha256.hash([1; 16], &Secret::new("secret"));
        Command::Account(AccountChange::SetUser { name: name.into(), hash, tags: Vec::new().into() })
    };
    let take = || std::mem::take(&mut *answers.lock().unwrap());
    let has = |content: Vec<u8>, names: &[&str]| {
        let users = users_copy::decode(&content).unwrap();
        names.iter().all(|name| users.get(name).is_some()) && users.iter().count() == names.len()
    };
    let failed = || io::Error::from(io::ErrorKind::Other);

    propose(shard, "queue", Command::DeclareQueue(DeclareQueue::new("/", "q", Arguments::new())));
    propose(shard, "anna", set("anna"));
    settle(shard, &mut log);
    assert_eq!(take(), [("queue", true)], "the copy is of users only");
    let job = shard.poll_copy_job().unwrap();
    propose(shard, "bert", set("bert"));
    propose(shard, "carl", set("carl"));
    settle(shard, &mut log);
    assert!(shard.poll_copy_job().is_none(), "one is in flight");
    assert!(has(job(), &["anna"]) && take().is_empty());
    shard.handle_copied(CopyEnd::Written);
    settle(shard, &mut log);
    assert_eq!(take(), [("anna", true)]);

    // One job for both. A copy that may be an old one keeps everybody waiting, until the next try.
    let job = shard.poll_copy_job().unwrap();
    assert!(has(job(), &["anna", "bert", "carl"]));
    shard.handle_copied(CopyEnd::Refused(failed()));
    settle(shard, &mut log);
    assert!(take().is_empty() && shard.poll_copy_job().is_none());
    now_ms += 60_000;
    shard.set_now(now_ms);
    shard.handle_timeout();
    let job = shard.poll_copy_job().unwrap();
    assert!(has(job(), &["anna", "bert", "carl"]));
    // Without any copy nobody is told of something that the next start could undo.
    shard.handle_copied(CopyEnd::Removed(failed()));
    settle(shard, &mut log);
    assert_eq!(take(), [("bert", true), ("carl", true)]);
    assert!(shard.poll_copy_job().is_none());
    now_ms += 60_000;
    shard.set_now(now_ms);
    shard.handle_timeout();
    let job = shard.poll_copy_job().unwrap();
    assert!(has(job(), &["anna", "bert", "carl"]));
    // This job makes a copy without dora, so she waits for the next one, and nothing else waits with her.
    propose(shard, "dora", set("dora"));
    propose(shard, "other", Command::DeclareQueue(DeclareQueue::new("/", "other", Arguments::new())));
    settle(shard, &mut log);
    assert_eq!(take(), [("other", true)]);
    shard.handle_copied(CopyEnd::Written);
    settle(shard, &mut log);
    assert!(take().is_empty());
    assert!(shard.poll_copy_job().is_some_and(|job| has(job(), &["anna", "bert", "carl", "dora"])));
    shard.handle_copied(CopyEnd::Written);
    settle(shard, &mut log);
    assert_eq!(take(), [("dora", true)]);
    assert!(shard.poll_copy_job().is_none());
}

/// The cost of a change: a copy of 10,000 users is written as a whole.
#[test]
fn a_copy_of_many_users_is_small() {
    let mut users = Users::default();
    for n in 0..10_000 {
        let name: Arc<str> = format!("user-{n}").into();
        let hash = Hashing::Sha256.hash([1; 16], &Secret::new("secret"));
        users.set(&name, hash, &vec!["management".to_owned()].into());
        users.set_permissions(&name, &"/".into(), Some(Permissions::ALL));
    }
    let content = users_copy::encode(&users);
    assert!((1 << 20..2 << 20).contains(&content.len()), "{}", content.len());
    assert_eq!(users_copy::decode(&content), Some(users));
}
