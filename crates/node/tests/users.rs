//! Users are records of the log. They survive restarts, and so does their deletion. No password is ever
//! written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use amqp10::sasl::Secret;
use broker::settings::Settings;
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::{AccountChange, Command, Decision};
use node::facts::{Restored, push_change};
use node::recovery::Recovered;
use node::{AlarmLimits, Node, NodeOptions, StorageLimits};
use wal::{Handover, Log, Options, Records};
use wal_testing::{Crash, SimDisk};

use crate::recovered;

const PASSWORD: &str = "correct horse battery staple";

fn access(password: &str) -> Access {
    Access::new([User {
        name: "guest".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new(password.to_owned())),
        tags: vec!["administrator".into()],
        loopback_only: true,
        permissions: [("/".into(), Permissions::ALL), ("other".into(), Permissions::NONE)].into(),
    }])
}

/// The records of a start that makes nothing: the vote of the catalog's member, the first entry of its term, and what the start ends.
const STARTED: u64 = 3;

/// Starts on this disk and writes the first users. Returns the log, what was restored, and whether more was written than each start
/// writes.
fn start(disk: &SimDisk, access: &Access) -> (Log<SimDisk>, Restored, bool) {
    let recovered = recovered::start(disk, Options::default(), access, false, None).unwrap();
    let Recovered { restored, log, recovery, .. } = recovered;
    assert_eq!(restored.unreadable, Vec::<String>::new());
    let wrote = log.spans().values().map(|span| span.records).sum::<u64>() > recovery.records + STARTED;
    (log, restored, wrote)
}

fn append(log: &mut Log<SimDisk>, records: Records) {
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }], &mut done);
    log.sync(&mut done);
    assert!(done.iter().all(|completion| completion.result.is_ok()));
}

fn run(log: &mut Log<SimDisk>, restored: &mut Restored, command: Command) {
    let Decision { changes, .. } =
        restored.catalog.decide(command, &mut restored.catalog.queue_ids()).unwrap();
    assert!(!changes.is_empty());
    changes.into_iter().for_each(|change| restored.change(change));
    append(log, restored.write_changes().unwrap());
}

#[test]
fn the_first_user_is_made_once() {
    let disk = SimDisk::new(1);
    let (log, _, wrote) = start(&disk, &access(PASSWORD));
    assert!(wrote);
    drop(log);

    let disk = disk.crash(Crash::Power);
    let (mut log, mut restored, wrote) = start(&disk, &access("another"));
    assert!(!wrote, "a first user exists already");
    let guest = restored.catalog.users().get("guest").expect("it is restored").clone();
    assert!(guest.hash.is_of(&Secret::new(PASSWORD)) && !guest.hash.is_of(&Secret::new("another")));
    assert_eq!(*guest.tags, ["administrator"]);
    assert_eq!(guest.permissions.get("/"), Some(&Permissions::ALL));
    assert_eq!(guest.permissions.get("other"), Some(&Permissions::NONE));
    assert!(restored.catalog.has_vhost("other") && restored.catalog.exchange("other", "amq.topic").is_some());
    run(&mut log, &mut restored, Command::Account(AccountChange::CloseVhost { name: "other".into() }));
    run(&mut log, &mut restored, Command::Account(AccountChange::DeleteVhost { name: "other".into() }));
    run(&mut log, &mut restored, Command::Account(AccountChange::DeleteUser { name: "guest".into() }));
    let definitions = restored.catalog.definitions();
    drop(log);

    let (_, restored, wrote) = start(&disk.crash(Crash::Power), &access(PASSWORD));
    assert!(!wrote, "there has been a first user");
    assert!(restored.catalog.users().get("guest").is_none() && !restored.catalog.has_vhost("other"));

    // The directory of an older program is taken over.
    let disk = SimDisk::new(2);
    let (mut log, _) = Log::open(disk.clone(), Options::default(), &mut |_| {}).unwrap();
    let mut records = Records::new();
    definitions.iter().for_each(|change| push_change(&mut records, 1, change));
    append(&mut log, records);
    drop(log);
    let (_, restored, wrote) = start(&disk.crash(Crash::Power), &access(PASSWORD));
    assert!(wrote && restored.catalog.users().get("guest").is_none());
}

#[test]
fn a_deleted_default_vhost_stays_deleted() {
    let disk = SimDisk::new(1);
    let (mut log, mut restored, _) = start(&disk, &access(PASSWORD));
    run(&mut log, &mut restored, Command::Account(AccountChange::CloseVhost { name: "/".into() }));
    run(&mut log, &mut restored, Command::Account(AccountChange::DeleteVhost { name: "/".into() }));
    let definitions = restored.catalog.definitions();
    drop(log);
    let (_, mut restored, _) = start(&disk.crash(Crash::Power), &access(PASSWORD));
    assert!(!restored.catalog.has_vhost("/") && restored.catalog.has_vhost("other"));
    restored.catalog = Default::default();
    definitions.iter().for_each(|change| restored.catalog.apply(change));
    assert!(!restored.catalog.has_vhost("/") && restored.catalog.has_vhost("other"));
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn no_password_is_in_the_data_directory() {
    let data_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("no-password-{}", std::process::id()));
    let access = access(PASSWORD);
    let hash = access.users().get("guest").unwrap().hash.clone();
    let node = Node::start(NodeOptions {
        sharing: wal::files::Sharing::Owner,
        settings: Settings::default(),
        access,
        backends: None,
        shards: 2,
        data_dir: data_dir.clone(),
        alarms: AlarmLimits::default(),
        storage: StorageLimits::default(),
        reserved_descriptors: 0,
        cluster: None,
        accept_lost_definitions: false,
    })
    .unwrap();
    node.stop("the test is over").unwrap();
    let has = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    let mut hashes = 0;
    for file in files(&data_dir) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!has(&bytes, PASSWORD.as_bytes()), "{}", file.display());
        hashes += usize::from(has(&bytes, hash.expose()));
    }
    assert_eq!(hashes, 2, "its hash is in the log and in the copy of the users");
    std::fs::remove_dir_all(data_dir).unwrap();
}

/// The user table that all front ends share follows the catalog.
#[test]
fn shards_publish_the_users_they_have() {
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(access(PASSWORD)));
    let mut restored = Restored::default();
    drop(restored.begin(&access));
    let Decision { changes, .. } = restored
        .catalog
        .decide(
            Command::Account(AccountChange::DeleteUser { name: "guest".into() }),
            &mut restored.catalog.queue_ids(),
        )
        .unwrap();
    changes.iter().for_each(|change| restored.catalog.apply(change));
    let limits = StorageLimits::default();
    drop(node::make_shards(restored, 1, &settings, &access, limits, 0));
    assert!(access.users().get("guest").is_none());
}
