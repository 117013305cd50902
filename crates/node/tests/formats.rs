//! Every record that the broker writes, as each version of the log wrote it. These data directories must stay
//! readable while upgrades from their versions are supported. `UPDATE_GOLDEN=1` rewrites the directory of the
//! current version. That must never be done for a released version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use amqp10::sasl::Secret;
use bytes::{Bytes, BytesMut};
use catalog::access::{Hashing, PasswordHash, Permissions, TopicPermissions};
use catalog::ids::{ConnectionId, NodeId, Origin, QueueId};
use catalog::pattern::Pattern;
use catalog::{
    AccountChange, Answer, Arguments, Asker, Binding, Caller, Catalog, Change, Command, DeclareExchange,
    DeclareQueue, Destination, KnownNode, ParameterKey, VhostPatch, encode_entry,
};
use message::{Annotations, Basic, Death, DeathReason, Format, LastRoute, Message, Parts, Route};
use node::entries;
use node::facts::{
    Restored, catalog_base, push_change, push_definition, push_fact, push_group, push_local_fact, push_noted,
    whole_content,
};
use node::quarantine::quarantine;
use queue::{
    Ages, DeletedReason, Fact, Fifo, GoneFromRun, LocalFact, Logged, Marks, QueueType, Seqs, Span, Stored,
    Ticket,
};
use replica::{Base, Entry, Member, Payload, Position, Vote};
use wal::{Extent, Handover, LOG_VERSION, Log, Options, Records};
use wal_testing::{Crash, SimDisk};

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/v{version}"))
}

/// The Argon2id hash of `password`.
const ARGON2ID: &[u8] =
    b"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

/// Returns the delivery marks of a message. Version 1 stored the first two fields only.
fn marks(version: u32) -> Marks {
    let mut marks = Marks { delivery_count: 4, redelivered: true, ..Marks::default() };
    if version > 1 {
        let mut map = amqp10::Map::new();
        map.insert(amqp10::Symbol::from_static("x-note"), amqp10::Value::Uint(1));
        marks.annotations = Annotations::from_map(&map).ok();
    }
    marks
}

fn message(body: &'static [u8]) -> Message {
    let parts = Parts {
        wire: Bytes::from_static(body),
        bare_at: 0,
        application_properties_at: 0,
        body_at: 0,
        format: Format::Amqp10,
        durable: true,
        durable_header: true,
        priority: Some(7),
        ttl_ms: Some(60_000),
    };
    Message::new(parts, Arc::new(Route::new("orders", vec!["a.b".into(), "copy".into()])))
}

fn death() -> Death {
    Death {
        queue: "first".into(),
        reason: DeathReason::Rejected,
        count: 1,
        first_ms: 1_000,
        last_ms: 2_000,
        exchange: "orders".into(),
        keys: vec!["a.b".into()],
        ttl_ms: None,
    }
}

fn dead(body: &'static [u8]) -> Message {
    message(body).with_death(death(), 2)
}

/// Returns a dead message that was redriven, which a queue can have since version 7.
fn redriven(body: &'static [u8]) -> Message {
    dead(body).redriven(9_000)
}

/// Returns the changes that make a small topology.
fn changes(catalog: &mut Catalog) -> Vec<Change> {
    let mut all = Vec::new();
    let mut arguments = Arguments::new();
    arguments.insert("x-max-length".into(), amqp10::Value::Uint(1000));
    let quorum: Arguments = [("x-queue-type".to_owned(), amqp10::Value::from("quorum"))].into();
    let queue = |name: &str| Command::DeclareQueue(DeclareQueue::new("/", name, arguments.clone()));
    let exchange = Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: "orders".into(),
        kind: "topic".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    });
    let binding = |key: &str| Binding {
        vhost: "/".into(),
        source: "orders".into(),
        destination: Destination::Queue("first".into()),
        key: key.into(),
        arguments: Arguments::new(),
    };
    let sha512 = PasswordHash::from_bytes(Hashing::Sha512, &[5; 4 + 64]).expect("as long as a hash");
    let argon2id = PasswordHash::from_bytes(Hashing::Argon2id, ARGON2ID).expect("a sound hash");
    let user = |name: &str| {
        Command::Account(AccountChange::SetUser {
            name: name.into(),
            hash: match name {
                "sha512" => sha512.clone(),
                "argon2id" => argon2id.clone(),
                _ => Hashing::Sha256.hash(std::array::from_fn(|at| at as u8 + 1), &Secret::new("secret")),
            },
            tags: [String::from("management")].into(),
        })
    };
    let permissions = |user: &str, vhost: &str| {
        Command::Account(AccountChange::SetPermissions {
            user: user.into(),
            vhost: vhost.into(),
            permissions: PERMISSIONS,
        })
    };
    let patterns = Command::Account(AccountChange::SetPermissions {
        user: "sha512".into(),
        vhost: "/".into(),
        permissions: Permissions::new(["^(?!amq\\.)", "^a|^b", ""]).expect("sound patterns"),
    });
    let topics = |exchange: &str| {
        let permissions = TopicPermissions::new(["^{username}\\.", ".*"], "kept", "/");
        Command::Account(AccountChange::SetTopicPermissions {
            user: "kept".into(),
            vhost: "/".into(),
            exchange: exchange.into(),
            permissions: permissions.expect("sound patterns"),
        })
    };
    let parameter = |name: &str| ParameterKey {
        vhost: Some("other".into()),
        component: "shovel".into(),
        name: name.into(),
    };
    let commands = [
        queue("first"),
        queue("second"),
        Command::DeclareQueue(DeclareQueue::new("/", "third", quorum.clone())),
        exchange,
        Command::Bind(binding("a.*"), Caller::Management),
        Command::Bind(binding("gone"), Caller::Management),
        Command::Unbind(binding("gone"), Caller::Management),
        Command::Account(AccountChange::SetVhost {
            name: "other".into(),
            patch: VhostPatch {
                description: Some("ours".into()),
                tags: Some([String::from("tag")].into()),
                default_queue_type: Some(Some(QueueType::Quorum)),
                protected: Some(true),
                max_connections: Some(Some(7)),
                max_queues: None,
            },
            creator: None,
        }),
        Command::Account(AccountChange::add_vhost("gone")),
        user("kept"),
        user("gone"),
        Command::SetParameter { key: parameter("kept"), value: "{\"a\":1}".into() },
        Command::SetParameter { key: parameter("gone"), value: "1".into() },
        Command::ClearParameter { key: parameter("gone") },
        Command::SetParameter { key: ParameterKey { vhost: None, ..parameter("global") }, value: "2".into() },
        user("sha512"),
        Command::Account(AccountChange::SetUserLimits {
            user: "sha512".into(),
            max_connections: None,
            max_channels: Some(Some(3)),
        }),
        user("argon2id"),
        permissions("kept", "/"),
        patterns,
        topics("amq.topic"),
        topics("gone"),
        Command::Account(AccountChange::ClearTopicPermissions {
            user: "kept".into(),
            vhost: "/".into(),
            exchange: Some("gone".into()),
        }),
        permissions("kept", "gone"),
        permissions("kept", "other"),
        Command::Account(AccountChange::ClearPermissions { user: "kept".into(), vhost: "other".into() }),
        Command::Account(AccountChange::CloseVhost { name: "gone".into() }),
        Command::Account(AccountChange::DeleteVhost { name: "gone".into() }),
        Command::Account(AccountChange::DeleteUser { name: "gone".into() }),
        Command::DeclareQueue(DeclareQueue::new("/", ENDED[0], quorum.clone())),
        Command::DeclareQueue(DeclareQueue::new("/", ENDED[1], quorum)),
        Command::AdmitNode(node_of_cluster()),
    ];
    for command in commands {
        for change in catalog.decide(command, &mut catalog.queue_ids()).expect("a sound command").changes {
            catalog.apply(&change);
            all.push(change);
        }
    }
    let asked = Change::Asked { origin: ASKS, low: 3, numbers: [4, 10].into() };
    catalog.apply(&asked);
    all.push(asked);
    all
}

/// A node of a cluster, since version 11.
fn node_of_cluster() -> KnownNode {
    let identity = [0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    KnownNode { identity, name: "one@host".into() }
}

/// The start of this node that has asked for the entries.
const ASKS: Origin = Origin { node: NodeId(5), boot: 6 };

const PERMISSIONS: Permissions = Permissions { write: Pattern::Nothing, ..Permissions::ALL };

/// The place of a run.
const EXTENT: Extent = Extent { pack: 3, offset: 48, bytes: 4000 };

fn stored() -> Stored {
    let ages = Ages {
        first_arrival_ms: 5_003,
        last_arrival_ms: 5_005,
        first_end_ms: Some(65_003),
        last_end_ms: None,
    };
    Stored {
        run: 7,
        first: 4,
        last: 9,
        priorities: (0, 255),
        messages: 6,
        durable: 5,
        bytes: 50,
        ages,
        seqs: Seqs::default(),
    }
}

/// Returns the records of a group with one member. One of its messages was put, marked and is alive, another
/// one is gone.
fn group() -> Vec<replica::Record> {
    let base = Base::founding(&[1], entries::content(1));
    let vote = Vote { term: 2, candidate: Some(Member { node: 1, number: 1 }), applied: 1 };
    let mut facts = Vec::new();
    let mut fact = |fact: Fact| entries::push_fact(&mut facts, &fact);
    fact(Fact::Put { seq: 1, message: message(b"\x00\x53\x75\xa0\x03one"), at_ms: 5_000 });
    fact(Fact::Put { seq: 2, message: message(b"\x00\x53\x75\xa0\x03two"), at_ms: 5_001 });
    fact(Fact::Gone(Span { first: 1, last: 1 }));
    fact(Fact::Returned { seq: 2, marks: marks(LOG_VERSION) });
    let entry = |index, payload, committed| {
        let entry = Entry { at: Position { term: 2, index }, payload };
        replica::Record::Entry { entry, committed }
    };
    vec![
        replica::Record::Base(base),
        replica::Record::Vote(vote),
        entry(2, Payload::Empty, 1),
        entry(3, Payload::Facts(facts.into()), 2),
        entry(4, Payload::Change(replica::Change::Add(Member { node: 2, number: 2 })), 3),
    ]
}

/// The owner of the catalog's records.
const CATALOG: QueueId = QueueId(0);

/// Returns the records of the catalog's group after these definitions. Its entries declare an exclusive queue and an exchange that is not
/// durable. The last one says that another node has started, and ends nothing.
fn catalog_group(catalog: &mut Catalog, definitions: u64) -> Vec<replica::Record> {
    let connection = Some(ConnectionId { origin: ASKS, number: 7 });
    let asker = Asker {
        origin: ASKS,
        shard: 1,
        number: 12,
        low: 9,
        ticket: Some(Ticket(8)),
        by: Some("guest".into()),
    };
    let own = DeclareQueue {
        durable: false,
        exclusive: true,
        connection,
        ..DeclareQueue::new("/", "own", [].into())
    };
    let passing = DeclareExchange {
        vhost: "/".into(),
        name: "passing".into(),
        kind: "topic".into(),
        durable: false,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    };
    let mut all = vec![
        replica::Record::Base(Base::founding(&[1], catalog_base(definitions, 4))),
        replica::Record::Vote(Vote { term: 2, candidate: Some(Member { node: 1, number: 1 }), applied: 1 }),
    ];
    let mut entry = |index, payload| {
        let entry = Entry { at: Position { term: 2, index }, payload };
        all.push(replica::Record::Entry { entry, committed: index - 1 });
    };
    let facts = |changes: &[Change], answer| {
        let mut facts = BytesMut::new();
        encode_entry(&asker, changes, &answer, &mut facts);
        Payload::Facts(facts.freeze())
    };
    entry(2, Payload::Empty);
    for (index, command) in (3..).zip([Command::DeclareQueue(own), Command::DeclareExchange(passing)]) {
        let decision = catalog.decide(command, &mut catalog.queue_ids()).expect("a sound command");
        decision.changes.iter().for_each(|change| catalog.apply(change));
        entry(index, facts(&decision.changes, decision.answer));
    }
    let started = Change::NodeStarted { node: 9, origin: Origin { node: NodeId(10), boot: 11 } };
    entry(5, facts(&[started], Answer::Done { changed: true }));
    all
}

/// Returns the records of two groups whose queues have ended. Of the first, an entry says so, and of the second the base.
fn ended_groups() -> [Vec<replica::Record>; 2] {
    let vote = Vote { term: 2, candidate: Some(Member { node: 1, number: 1 }), applied: 1 };
    let mut facts = Vec::new();
    let message = message(b"\x00\x53\x75\xa0\x03one");
    for fact in
        [Fact::Put { seq: 1, message, at_ms: 5_000 }, Fact::Ended { reason: DeletedReason::Requested }]
    {
        entries::push_fact(&mut facts, &fact);
    }
    let entry = |index, payload, committed| {
        let entry = Entry { at: Position { term: 2, index }, payload };
        replica::Record::Entry { entry, committed }
    };
    let by_entry = vec![
        replica::Record::Base(Base::founding(&[1], entries::content(1))),
        replica::Record::Vote(vote),
        entry(2, Payload::Facts(facts.into()), 1),
        entry(3, Payload::Empty, 2),
    ];
    let content = entries::content_of(9, Some(DeletedReason::Expired));
    let by_base = vec![replica::Record::Base(Base::founding(&[1], content))];
    [by_entry, by_base]
}

/// The queues that have ended, since version 9.
const ENDED: [&str; 2] = ["ended", "ended with its base"];

/// Appends one fact of a queue.
fn push(records: &mut Records, queue: QueueId, fact: Logged) {
    match fact {
        Logged::Shared(fact) => push_fact(records, queue, &fact),
        Logged::Local(fact) => push_local_fact(records, queue, &fact, Some(EXTENT)),
    }
}

/// Returns the files of a log with one record of each kind.
fn written() -> BTreeMap<String, Vec<u8>> {
    let disk = SimDisk::new(1);
    let options = Options { seed: Some(1), ..Options::default() };
    let (mut log, _) = Log::open(disk.clone(), options, &mut |_| {}).expect("an empty disk");
    let mut records = Records::new();
    let mut catalog = Catalog::default();
    let definitions = changes(&mut catalog);
    for (number, change) in (1..).zip(&definitions) {
        push_definition(&mut records, number, change);
    }
    let me = Member { node: 1, number: 1 };
    for record in catalog_group(&mut catalog, definitions.len() as u64) {
        push_group(&mut records, CATALOG, me, &record);
    }
    let queue = catalog.listed_queue("/", "first").expect("it is declared").id;
    let mut fact = |fact: Logged| push(&mut records, queue, fact);
    fact(Fact::Put { seq: 1, message: message(b"\x00\x53\x75\xa0\x03one"), at_ms: 5_000 }.into());
    fact(Fact::Put { seq: 2, message: message(b"\x00\x53\x75\xa0\x03two"), at_ms: 5_001 }.into());
    fact(Fact::Put { seq: 3, message: dead(b"\x00\x53\x75\xa0\x05three"), at_ms: 5_002 }.into());
    fact(Fact::Gone(Span { first: 1, last: 1 }).into());
    fact(Fact::Returned { seq: 2, marks: marks(LOG_VERSION) }.into());
    fact(Fact::Put { seq: 10, message: redriven(b"\x00\x53\x75\xa0\x03ten"), at_ms: 5_010 }.into());
    fact(LocalFact::Stored(stored()).into());
    fact(LocalFact::GoneFromRun(GoneFromRun { run: 7, first: 0, last: 2, durable: 1, bytes: 10 }).into());
    let damaged = catalog.listed_queue("/", "second").expect("it is declared").id;
    push_local_fact(&mut records, damaged, &LocalFact::Damaged, None);
    push_noted(&mut records, "00000001.log", 48);
    let quorum = catalog.listed_queue("/", "third").expect("it is declared").id;
    group().iter().for_each(|record| push_group(&mut records, quorum, me, record));
    for (name, group) in ENDED.iter().zip(ended_groups()) {
        let queue = catalog.listed_queue("/", name).expect("it is declared").id;
        group.iter().for_each(|record| push_group(&mut records, queue, me, record));
    }
    let mut handovers = vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }];
    let mut done = Vec::new();
    log.append(&mut handovers, &mut done);
    assert!(done[0].result.is_ok());
    log.close().expect("a sound disk");
    disk.files()
}

#[test]
fn formats_are_versioned() {
    let files = written();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(golden(LOG_VERSION)).expect("a folder");
        for (name, bytes) in &files {
            std::fs::write(golden(LOG_VERSION).join(name), bytes).expect("a file");
        }
    }
    for version in 1..=LOG_VERSION {
        opens(version, &files);
    }
}

/// Reads the golden directory of a version. The directory of the current version must equal `written`.
fn opens(version: u32, written: &BTreeMap<String, Vec<u8>>) {
    let disk = SimDisk::new(2);
    for entry in std::fs::read_dir(golden(version)).expect("the golden folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).expect("a file");
        if version == LOG_VERSION {
            assert_eq!(written.get(&name), Some(&bytes), "{name} is not what this version writes");
        }
        disk.put(&name, &bytes);
    }
    let mut restored = Restored::default();
    let (_, recovery) = Log::open(disk, Options::default(), &mut |record| restored.handle_record(record))
        .expect("a sound log");
    assert!(recovery.clean && recovery.damage.is_empty());
    assert_eq!(restored.unreadable, Vec::<String>::new());
    let catalog = &restored.catalog;
    let own = catalog.listed_queue("/", "own").and_then(|own| own.exclusive);
    assert_eq!(own.map(|owner| owner.number), (version >= 9).then_some(7));
    assert_eq!(catalog.exchange("/", "passing").is_some(), version >= 9);
    let first = catalog.listed_queue("/", "first").expect("the queue").clone();
    assert_eq!(first.config.max_length, Some(1000));
    assert!(catalog.listed_queue("/", "second").is_some() && catalog.exchange("/", "orders").is_some());
    let bindings = catalog.bindings();
    let keys: Vec<&str> = bindings.iter().filter(|b| &*b.source == "orders").map(|b| &*b.key).collect();
    assert_eq!(keys, ["a.*"]);
    let nodes: Vec<_> = catalog.nodes().values().cloned().collect();
    assert_eq!(nodes, Vec::from_iter((version >= 11).then(node_of_cluster)));
    // The entries have number 12, and say that the answers to all below 9 are there.
    let known: Vec<u64> = (0..20).filter(|number| catalog.has_proposal(ASKS, *number)).collect();
    assert_eq!(known, if version >= 11 { vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12] } else { vec![] });
    let users = catalog.users();
    assert_eq!(users.have_begun(), version >= 3);
    if version >= 3 {
        let kept = users.get("kept").expect("the user");
        assert!(kept.hash.is_of(&Secret::new("secret")) && *kept.tags == ["management"]);
        assert_eq!(kept.permissions.iter().collect::<Vec<_>>(), [(&"/".into(), &PERMISSIONS)]);
        assert!(users.get("gone").is_none() && !catalog.has_vhost("gone") && catalog.has_vhost("other"));
    }
    let second = catalog.listed_queue("/", "second").expect("the queue").id;
    let declare = Command::DeclareQueue(DeclareQueue::new("/", "new", Arguments::new()));
    let decided = catalog.decide(declare, &mut catalog.queue_ids()).expect("a sound command");
    let Answer::Queue { record: new, .. } = decided.answer else { panic!("{decided:?}") };
    let all = catalog.queues().map(|queue| (queue.id.slot(), queue.id.incarnation()));
    for (slot, incarnation) in all {
        assert!(
            slot < 6 && slot != new.id.slot() && incarnation < new.id.incarnation(),
            "{slot} {incarnation} {new:?}"
        );
    }
    assert!(restored.queues[&second].is_damaged() && !restored.queues[&first.id].is_damaged());
    assert_eq!(restored.extents().collect::<Vec<_>>(), [EXTENT]);
    if version >= 4 {
        let third = catalog.listed_queue("/", "third").expect("the queue").clone();
        assert!(third.is_quorum());
        // The last entry is not known to be committed.
        let queue = restored.queues.remove(&third.id).expect("its messages");
        assert_eq!((queue.is_damaged(), queue.len()), (false, 1));
        let fifo = Fifo::restore((*third.config).clone(), queue.into_facts(), 6_000);
        assert_eq!(fifo.next_seq(), 3);
    }
    if version >= 9 {
        for (name, reason, next_seq) in
            [(ENDED[0], DeletedReason::Requested, 2), (ENDED[1], DeletedReason::Expired, 9)]
        {
            let record = catalog.listed_queue("/", name).expect("the queue").clone();
            let queue = restored.queues.remove(&record.id).expect("it has ended");
            assert_eq!((queue.is_damaged(), queue.len()), (false, 0), "{name}");
            let fifo = Fifo::restore((*record.config).clone(), queue.into_facts(), 6_000);
            assert_eq!((fifo.ended(), fifo.next_seq()), (Some(reason), next_seq), "{name}");
        }
    }
    let queue = restored.queues.remove(&first.id).expect("its messages");
    assert_eq!(queue.len(), 2 + 4 + u64::from(version >= 7));
    let fifo = Fifo::restore((*first.config).clone(), queue.into_facts(), 6_000);
    let mut facts = Vec::new();
    fifo.live_facts(0, u64::MAX, |fact| facts.push(fact));
    if version >= 7 {
        let Some(Fact::Put { seq: 10, message, at_ms: 5_010 }) = facts.pop() else { panic!("{facts:?}") };
        assert_eq!(message, redriven(b"\x00\x53\x75\xa0\x03ten"));
    }
    let mut of_run = Vec::new();
    fifo.run_facts(&[7], |fact| of_run.push(fact));
    let [LocalFact::Stored(run), LocalFact::GoneFromRun(GoneFromRun { run: 7, first: 0, last: 2, .. })] =
        &of_run[..]
    else {
        panic!("{of_run:?}");
    };
    let [
        Fact::Put { seq: 2, message: two, at_ms: 5_001 },
        Fact::Returned { seq: 2, .. },
        Fact::Put { seq: 3, message: three, at_ms: 5_002 },
        Fact::Returned { seq: 3, marks: Marks { delivery_count: 2, redelivered: false, .. } },
    ] = &facts[..]
    else {
        panic!("{facts:?}");
    };
    assert_eq!(*run, Stored { durable: 4, bytes: 40, ..stored() });
    let (two_put, set) = (message(b"\x00\x53\x75\xa0\x03two"), marks(version));
    let two_shown = set.annotations.as_ref().map_or(two_put.clone(), |set| two_put.annotated(set));
    assert_eq!(*two, two_shown);
    let Fact::Returned { marks: Marks { delivery_count, redelivered, .. }, .. } = facts[1] else {
        panic!("{:?}", facts[1]);
    };
    assert_eq!((delivery_count, redelivered), (4, true));
    assert_eq!(*three, dead(b"\x00\x53\x75\xa0\x05three"));
}

/// Returns the changes in a base with the whole catalog. Those of different objects are in any order.
fn parts(mut content: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (format, rest) = content.split_first().expect("a format");
    assert_eq!(*format, 2);
    content = rest;
    while let Some((length, rest)) = content.split_first_chunk::<4>() {
        let (part, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        parts.push(part);
        content = rest;
    }
    parts.sort_unstable();
    parts
}

/// Tests the base that a node gets from another one, since version 11: the whole catalog is in it. What was stored before it is void.
#[test]
fn the_base_of_another_node_is_versioned() {
    let mut catalog = Catalog::default();
    _ = changes(&mut catalog);
    let written = whole_content(&catalog);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/whole-catalog");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &written).expect("a file");
    }
    let stored = std::fs::read(&file).expect("a file");
    assert_eq!(parts(&written), parts(&stored), "the base is not what this version writes");
    let me = Member { node: 2, number: 2 };
    let install = |content: &[u8]| {
        let mut restored = Restored::default();
        restored.enter_cluster(2);
        let base = Base::founding(&[1, 2], Bytes::copy_from_slice(content));
        let base = Base { at: Position { term: 2, index: 9 }, installed: true, ..base };
        let mut records = Records::new();
        push_group(&mut records, CATALOG, me, &replica::Record::Base(base));
        let disk = SimDisk::new(1);
        let (mut log, _) = Log::open(disk.clone(), Options::default(), &mut |_| {}).expect("an empty disk");
        let mut handovers = vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }];
        log.append(&mut handovers, &mut Vec::new());
        log.close().expect("a sound disk");
        Log::open(disk, Options::default(), &mut |record| restored.handle_record(record))
            .expect("a sound log");
        restored
    };
    let restored = install(&stored);
    assert_eq!(restored.unreadable, Vec::<String>::new());
    let definitions = |catalog: &Catalog| {
        let mut all: Vec<String> = catalog.definitions().iter().map(|change| format!("{change:?}")).collect();
        all.sort();
        all
    };
    assert_eq!(definitions(&restored.catalog), definitions(&catalog));
    for damaged in [&stored[..stored.len() - 1], &[3][..], &[2, 0, 0, 0, 1, 0], &[&stored[..], &[0]].concat()]
    {
        assert!(!install(damaged).unreadable.is_empty());
    }
    assert!(install(&[2]).unreadable.is_empty(), "an empty catalog has no changes");
}

/// The property list of a message of AMQP 0.9.1: content-type, one header, delivery-mode and expiration.
const PROPERTIES: &[u8] = b"\xb1\x00\x0atext/plain\0\0\0\x07\x01aI\0\0\0\x01\x02\x0a9999999999";

/// Tests the stored form of a message of AMQP 0.9.1. It is the same in the log, in runs, and in the entries of a group.
#[test]
fn messages_of_amqp091_are_versioned() {
    let basic = Basic::borrowed(PROPERTIES, b"hello").expect("valid properties");
    let route = Arc::new(Route::new("orders", vec!["a.b".into(), "copy".into()]));
    let message = Message::new(basic.parts([PROPERTIES, b"hello"].concat().into()), route);
    let dead = message.clone().with_death(death(), 2);
    let mut written = BTreeMap::new();
    for (name, message) in [("alive", &message), ("dead", &dead)] {
        let mut stored = Vec::new();
        message.put_stored_head(&mut stored);
        stored.extend_from_slice(message.stored_tail());
        written.insert(name, stored);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/amqp091");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).expect("a folder");
        written.iter().for_each(|(name, stored)| std::fs::write(folder.join(name), stored).expect("a file"));
    }
    for (name, message) in [("alive", &message), ("dead", &dead)] {
        let stored = std::fs::read(folder.join(name)).expect("a file");
        assert_eq!(written[name], stored, "{name} is not what this version writes");
        let read = Message::from_stored(stored.into(), &mut LastRoute::default()).expect("a message");
        assert_eq!((&read, read.format()), (message, Format::Amqp091));
        assert_eq!((read.property_list(), read.body()), (PROPERTIES, &b"hello"[..]));
        assert_eq!(read.ttl_ms(), (name == "alive").then_some(9_999_999_999));
    }
}

/// A contradictory record was not written by the broker, and its meaning is unknown. So the queue is closed,
/// and the node starts.
#[test]
fn a_record_that_contradicts_itself_is_unreadable() {
    let sound = stored();
    let taken = |first, last| {
        Logged::from(LocalFact::GoneFromRun(GoneFromRun { run: 7, first, last, durable: 0, bytes: 0 }))
    };
    let put =
        |seq| Logged::from(Fact::Put { seq, message: message(b"\x00\x53\x75\xa0\x03one"), at_ms: 5_000 });
    for fact in [
        put(0),
        put(u64::MAX),
        Fact::Gone(Span { first: 5, last: 4 }).into(),
        Fact::Gone(Span { first: 5, last: u64::MAX }).into(),
        LocalFact::Stored(Stored { first: 10, ..sound.clone() }).into(),
        LocalFact::Stored(Stored { last: u64::MAX, ..sound.clone() }).into(),
        LocalFact::Stored(Stored { run: u32::MAX, ..sound.clone() }).into(),
        LocalFact::Stored(Stored { priorities: (2, 1), ..sound.clone() }).into(),
        LocalFact::Stored(Stored { messages: 0, durable: 0, bytes: 0, ..sound.clone() }).into(),
        LocalFact::Stored(Stored { bytes: u64::MAX, ..sound.clone() }).into(),
        LocalFact::Stored(Stored { seqs: [4, 5].into_iter().collect(), ..sound.clone() }).into(),
        taken(3, 2),
        taken(0, u32::MAX),
    ] {
        let (mut records, mut catalog) = (Records::new(), Catalog::default());
        for (version, change) in (1..).zip(changes(&mut catalog)) {
            push_change(&mut records, version, &change);
        }
        let queue = catalog.listed_queue("/", "first").expect("it is declared").clone();
        push(&mut records, queue.id, LocalFact::Stored(sound.clone()).into());
        push(&mut records, queue.id, fact.clone());
        let disk = SimDisk::new(1);
        let (mut log, _) = Log::open(disk.clone(), Options::default(), &mut |_| {}).expect("an empty disk");
        log.append(
            &mut vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }],
            &mut Vec::new(),
        );
        drop(log);

        let mut restored = Restored::default();
        let (_, recovery) = Log::open(disk.crash(Crash::Process), Options::default(), &mut |record| {
            restored.handle_record(record);
        })
        .expect("a sound log");
        quarantine(&mut restored, &recovery, false).expect("no definition is lost");
        let facts = restored.queues.remove(&queue.id).expect("its messages").into_facts();
        let fifo = Fifo::restore((*queue.config).clone(), facts, 6_000);
        assert!(fifo.is_damaged(), "{fact:?}");
    }
}
