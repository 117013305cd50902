//! Changes and definitions restore the catalog, and each form of a record keeps its meaning.

use super::*;
use crate::EVENT_EXCHANGE;

/// The definitions rebuild the final state of the catalog, even if it changes while they are walked in parts.
#[test]
fn definitions_told_in_parts_rebuild_the_catalog() {
    let declare = |name: &str, kind: &str| {
        Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: name.into(),
            kind: kind.into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::new(),
        })
    };
    let binding = |source: &str, to: &str, key: &str| Binding {
        vhost: "/".into(),
        source: source.into(),
        destination: Destination::Queue(to.into()),
        key: key.into(),
        arguments: Arguments::new(),
    };
    let bind =
        |source: &str, to: &str, key: &str| Command::Bind(binding(source, to, key), Caller::Management);
    let forget = |catalog: &Catalog, name: &str| Command::ForgetQueue {
        queue: catalog.listed_queue("/", name).unwrap().id,
    };
    let mut before = Catalog::default();
    for name in ["a", "b", "c"] {
        run(&mut before, queue(name, &[]));
    }
    for (name, kind) in [("x", "topic"), ("hash", "x-consistent-hash")] {
        run(&mut before, declare(name, kind));
        for to in ["c", "a", "b"] {
            run(&mut before, bind(name, to, "2"));
        }
    }
    let expected = |catalog: &Catalog| {
        let mut queues: Vec<_> = catalog.queues().map(|queue| (queue.name.clone(), queue.id)).collect();
        queues.sort();
        let mut exchanges: Vec<_> = catalog.exchanges().map(|exchange| exchange.name.clone()).collect();
        exchanges.sort();
        let of = |source: &str| -> Vec<_> {
            catalog.bindings().into_iter().filter(|b| &*b.source == source).collect()
        };
        let mut bindings = of("x");
        bindings.sort_by(|a, b| (&a.destination, &a.key).cmp(&(&b.destination, &b.key)));
        (queues, exchanges, bindings, of("hash"))
    };
    for at in 0..40 {
        for rows in 1..5 {
            let (mut catalog, mut restored) = (before.clone(), Catalog::default());
            let mut cursor = DefinitionsCursor::default();
            for part in 0..40 {
                catalog.walk_definitions(&mut cursor, rows, |change| restored.apply(&change));
                if part != at {
                    continue;
                }
                for command in [
                    forget(&catalog, "b"),
                    queue("d", &[]),
                    bind("hash", "d", "1"),
                    bind("x", "d", "#"),
                    Command::Unbind(binding("hash", "c", "2"), Caller::Management),
                    declare("new", "fanout"),
                    bind("new", "a", ""),
                ] {
                    for change in catalog.decide(command, &mut catalog.queue_ids()).unwrap().changes {
                        catalog.apply(&change);
                        restored.apply(&change);
                    }
                }
            }
            assert!(cursor.is_at_end());
            assert_eq!(expected(&restored), expected(&catalog), "{rows} rows, changed behind part {at}");
        }
    }
}

/// Changes that are stored and read back rebuild the same catalog, in whatever order policies and queues were made.
#[test]
fn stored_changes_restore_the_catalog() {
    let mut catalog = Catalog::default();
    let mut stored = Vec::new();
    let ttl = [("message-ttl", Value::Int(7)), ("fsync", Value::Boolean(true))];
    for command in [
        policy("p", false, "^q", -3, &ttl),
        queue("q1", &[]),
        policy("op", true, "1$", 0, &[("expires", Value::Int(9))]),
        queue("q2", &[]),
        policy("gone", false, "", 9, &ttl),
        clear("gone", false),
        Command::Account(AccountChange::add_vhost("v")),
        Command::Account(AccountChange::SetUser {
            name: "u".into(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new("p")),
            tags: [].into(),
        }),
        Command::Account(AccountChange::SetPermissions {
            user: "u".into(),
            vhost: "v".into(),
            permissions: Permissions::ALL,
        }),
    ] {
        for change in run(&mut catalog, command).1 {
            let mut bytes = BytesMut::new();
            encode_change(&change, &mut bytes);
            assert_eq!(decode_change(&bytes).as_ref(), Some(&change));
            stored.push(bytes);
        }
    }
    let mut restored = Catalog::default();
    stored.iter().for_each(|bytes| restored.apply(&decode_change(bytes).unwrap()));
    for name in ["q1", "q2"] {
        let record = restored.listed_queue("/", name).unwrap();
        assert_eq!(Some(&record), catalog.listed_queue("/", name).as_ref());
        assert_eq!((record.config.message_ttl_ms, record.fsync), (Some(7), true));
    }
    assert_eq!(restored.listed_queue("/", "q1").unwrap().config.expires_ms, Some(9));
    assert_eq!(restored.policies(false).count(), 1);

    // All definitions are applied at once, on top of an empty catalog and on top of the restored one.
    let again = catalog.definitions();
    for mut base in [Catalog::default(), restored] {
        again.iter().for_each(|change| base.apply(change));
        for name in ["q1", "q2"] {
            assert_eq!(base.listed_queue("/", name), catalog.listed_queue("/", name));
        }
        let names = |c: &Catalog| [false, true].map(|o| c.policies(o).cloned().collect::<Vec<_>>());
        assert_eq!(names(&base), names(&catalog));
        assert_eq!(base.users().get("u"), catalog.users().get("u"));
        assert!(base.has_vhost("v") && base.users().have_begun());
    }
}

/// Format 1: everything that was ever written can be read forever.
#[test]
fn formats_are_versioned() {
    let arguments = |pairs: &[(&str, Value)]| -> Arguments {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
    };
    let kind = |kind, arguments| {
        Change::ExchangeDeclared(Arc::new(Exchange::new("/".into(), "x".into(), kind, arguments)))
    };
    let golden: &[(Change, &str)] = &[
        (
            kind(ExchangeKind::ConsistentHash, arguments(&[("hash-header", "h".into())])),
            "c03208 5003 a1012f a10178 a111782d636f6e73697374656e742d68617368 41 42 42 \
             c11102 a10b686173682d686561646572 a10168",
        ),
        (
            Change::PolicySet(Arc::new(Policy {
                vhost: "/".into(),
                name: "p".into(),
                operator: false,
                pattern: Pattern::new("^q").unwrap(),
                priority: -2,
                apply_to: ApplyTo::ClassicQueues,
                definition: arguments(&[("max-length", Value::Long(5))]),
            })),
            "c03108 5008 a1012f a10170 42 a1025e71 55fe a10e636c61737369635f717565756573 \
             c10f02 a10a6d61782d6c656e677468 5505",
        ),
        (
            Change::PolicyCleared { vhost: "/".into(), name: "p".into(), operator: true },
            "c00a04 5009 a1012f a10170 41",
        ),
    ];
    for (change, hex) in golden {
        let mut bytes = BytesMut::new();
        encode_change(change, &mut bytes);
        assert_eq!(hex_of(&bytes), hex.replace(' ', ""), "{change:?}");
        assert_eq!(decode_change(&bytes).as_ref(), Some(change));
    }
    assert_eq!(decode_change(b""), None);
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let hex = hex.replace(' ', "");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Returns a queue that belongs to a connection, with all that a declaration can have.
fn owned_queue() -> Arc<QueueRecord> {
    let owner = ConnectionId { origin: Origin { node: NodeId(7), boot: 2 }, number: 3 };
    let declare = DeclareQueue::new("/", "q", [("x-max-length".to_owned(), Value::Int(5))].into());
    let command = Command::DeclareQueue(DeclareQueue {
        exclusive: true,
        connection: Some(owner),
        auto_delete: true,
        ..declare
    });
    let catalog = Catalog::default();
    let Answer::Queue { record, .. } = catalog.decide(command, &mut catalog.queue_ids()).unwrap().answer
    else {
        panic!("no queue")
    };
    Arc::new(QueueRecord { declared: 300, members: Members::new(&[2, 1]), ..(*record).clone() })
}

/// What is not durable is stored since version 9 of the log, and so are starts of nodes.
#[test]
fn what_is_not_durable_has_its_own_form() {
    let owned = owned_queue();
    let plain = Arc::new(QueueRecord {
        exclusive: None,
        declared: 0,
        members: Members::default(),
        ..(*owned).clone()
    });
    let exchange = Exchange::new("/".into(), "x".into(), ExchangeKind::Fanout, Arguments::new());
    let exchange = Exchange { durable: false, auto_delete: true, nodes: Members::new(&[1, 2]), ..exchange };
    let origin = Origin { node: NodeId(7), boot: 2 };
    let golden: &[(Change, &str)] = &[
        (
            Change::QueueDeclared(owned),
            "c0400a 5018 800000000001000000 a1012f a10171 41 41 c11102 a10c782d6d61782d6c656e677468 5405 \
             c00703 5207 5202 5303 80000000000000012c c00502 5202 5201",
        ),
        (
            Change::QueueDeclared(plain),
            "c02e0a 5018 800000000001000000 a1012f a10171 41 41 c11102 a10c782d6d61782d6c656e677468 5405 \
             40 44 c00301 5201",
        ),
        (
            Change::ExchangeDeclared(Arc::new(exchange)),
            "c01e09 5019 a1012f a10178 a10666616e6f7574 42 41 42 c10100 c00502 5201 5202",
        ),
        (Change::NodeStarted { node: 2, origin }, "c00c03 501a 5302 c00502 5207 5202"),
    ];
    for (change, hex) in golden {
        let mut bytes = BytesMut::new();
        encode_change(change, &mut bytes);
        assert_eq!(hex_of(&bytes), hex.replace(' ', ""), "{change:?}");
        assert_eq!(decode_change(&bytes).as_ref(), Some(change));
    }
}

/// The nodes of a cluster and their proposals are stored since version 11 of the log.
#[test]
fn nodes_and_their_proposals_have_a_form() {
    let identity = std::array::from_fn(|at| at as u8);
    let origin = Origin { node: NodeId(7), boot: 2 };
    let golden: &[(Change, &str)] = &[
        (
            Change::NodeJoined { node: 2, known: KnownNode { identity, name: "b@h".into() } },
            "c01c04 501b 5302 a010000102030405060708090a0b0c0d0e0f a103624068",
        ),
        (
            Change::Asked { origin, low: 5, numbers: [6, 300].into() },
            "c01a04 501c c00502 5207 5202 5305 c00c02 5306 80000000000000012c",
        ),
        (Change::Asked { origin, low: 0, numbers: [].into() }, "c00c04 501c c00502 5207 5202 44 45"),
    ];
    for (change, hex) in golden {
        let mut bytes = BytesMut::new();
        encode_change(change, &mut bytes);
        assert_eq!(hex_of(&bytes), hex.replace(' ', ""), "{change:?}");
        assert_eq!(decode_change(&bytes).as_ref(), Some(change));
    }
}

/// An entry has who has asked, the answer and the changes. Before version 11 of the log it had no numbers of proposals.
#[test]
fn entries_are_versioned() {
    let asker = Asker {
        origin: Origin { node: NodeId(7), boot: 2 },
        number: 4,
        low: 3,
        shard: 1,
        ticket: Some(queue::Ticket(9)),
        by: Some("ann".into()),
    };
    let queue = owned_queue();
    let to = Destination::Queue("q".into());
    let (vhost, source, key) = ("/".into(), "amq.fanout".into(), "k".into());
    let bound =
        Change::Bound(Arc::new(Binding { vhost, source, destination: to, key, arguments: Arguments::new() }));
    let golden: &[(Asker, Vec<Change>, Answer, &str, &str)] = &[
        (
            asker.clone(),
            vec![Change::QueueDeclared(queue.clone())],
            Answer::Queue { record: queue, created: true },
            "c05a08 5001 c00502 5207 5202 5001 5309 a103616e6e 5001 41 \
             a042 c0400a 5018 800000000001000000 a1012f a10171 41 41 c11102 a10c782d6d61782d6c656e677468 5405 \
             c00703 5207 5202 5303 80000000000000012c c00502 5202 5201",
            "c05e0a 5002 c00502 5207 5202 5001 5309 a103616e6e 5001 41 5304 5303 \
             a042 c0400a 5018 800000000001000000 a1012f a10171 41 41 c11102 a10c782d6d61782d6c656e677468 5405 \
             c00703 5207 5202 5303 80000000000000012c c00502 5202 5201",
        ),
        (
            Asker::default(),
            vec![bound.clone(), bound],
            Answer::Done { changed: true },
            "c04f09 5001 c00302 43 43 5000 40 40 5002 41 \
             a01e c01c07 5005 a1012f a10a616d712e66616e6f7574 a10171 42 a1016b c10100 \
             a01e c01c07 5005 a1012f a10a616d712e66616e6f7574 a10171 42 a1016b c10100",
            "c0510b 5002 c00302 43 43 5000 40 40 5002 41 44 44 \
             a01e c01c07 5005 a1012f a10a616d712e66616e6f7574 a10171 42 a1016b c10100 \
             a01e c01c07 5005 a1012f a10a616d712e66616e6f7574 a10171 42 a1016b c10100",
        ),
        (
            asker,
            vec![Change::UsersBegun],
            Answer::Set { created: false },
            "c01d08 5001 c00502 5207 5202 5001 5309 a103616e6e 5003 42 a005 c00301 5010",
            "c0210a 5002 c00502 5207 5202 5001 5309 a103616e6e 5003 42 5304 5303 a005 c00301 5010",
        ),
    ];
    for (asker, changes, answer, older, hex) in golden {
        let mut bytes = BytesMut::new();
        encode_entry(asker, changes, answer, &mut bytes);
        assert_eq!(hex_of(&bytes), hex.replace(' ', ""), "{answer:?}");
        let unnumbered = Asker { number: 0, low: 0, ..asker.clone() };
        for (bytes, asker) in [(bytes.to_vec(), asker), (bytes_of(older), &unnumbered)] {
            let entry = decode_entry(4, &bytes).expect("an entry");
            assert_eq!(
                (entry.index, &entry.asker, &*entry.changes, &entry.answer),
                (4, asker, &**changes, answer)
            );
        }
    }
}

/// Before version 9 of the log, a declaration of a queue had no owner, no index and no nodes. Those of durable exchanges are as they were.
#[test]
fn declarations_of_older_logs_can_be_read() {
    let queue = bytes_of(
        "c03107 5001 800000000001000002 a1012f a10171 41 42 \
         c11b04 a107782d6673796e63 41 a10c782d6d61782d6c656e677468 5405",
    );
    let Some(Change::QueueDeclared(queue)) = decode_change(&queue) else { panic!("no queue") };
    assert_eq!((queue.id, &*queue.vhost, &*queue.name), (QueueId(0x0100_0002), "/", "q"));
    assert_eq!((queue.durable, queue.auto_delete, queue.exclusive), (true, false, None));
    assert!(queue.fsync && queue.config.max_length == Some(5));
    assert_eq!((queue.declared, queue.members.nodes()), (0, &[1][..]));
    let exchange = bytes_of("c01608 5003 a1012f a10178 a105746f706963 41 42 42 c10100");
    let Some(Change::ExchangeDeclared(exchange)) = decode_change(&exchange) else { panic!("no exchange") };
    let topic = Exchange::new("/".into(), "x".into(), ExchangeKind::Topic, Arguments::new());
    assert_eq!(*exchange, topic);
    let mut again = BytesMut::new();
    encode_change(&Change::ExchangeDeclared(exchange), &mut again);
    assert_eq!(hex_of(&again), "c01608 5003 a1012f a10178 a105746f706963 41 42 42 c10100".replace(' ', ""));
}

/// Before version 8 of the log, the exchange of events was not stored. While the setting was off, its bindings did not end with their
/// queues.
#[test]
fn bindings_of_exchanges_of_settings_are_restored_from_older_logs() {
    let mut catalog = Catalog::default();
    let mut declared = Catalog::default();
    let (answer, changes) = run(&mut declared, queue("q", &[]));
    let Answer::Queue { record, .. } = answer else { panic!("{answer:?}") };
    let bound = |to: Destination| {
        let (vhost, source) = ("/".into(), EVENT_EXCHANGE.into());
        Change::Bound(Arc::new(Binding {
            vhost,
            source,
            destination: to,
            key: "#".into(),
            arguments: Arguments::new(),
        }))
    };
    changes.iter().for_each(|change| catalog.restore(change));
    for to in [Destination::Queue("q".into()), Destination::Exchange("amq.fanout".into())] {
        catalog.restore(&bound(to));
    }
    let of_events = |catalog: &Catalog| {
        catalog.bindings().into_iter().filter(|binding| &*binding.source == EVENT_EXCHANGE).count()
    };
    assert!(catalog.exchange("/", EVENT_EXCHANGE).is_some_and(|exchange| exchange.internal));
    assert_eq!(of_events(&catalog), 2);
    catalog.restore(&Change::QueueForgotten { queue: record.id });
    assert_eq!(of_events(&catalog), 1, "the binding ends with its queue");
    catalog.restore(&Change::ExchangeDeleted { vhost: "/".into(), name: "amq.fanout".into() });
    assert_eq!(of_events(&catalog), 0);
}

/// Before version 8 of the log, incarnations were the upper 32 bits of an id. Such an id is a valid one of today.
#[test]
fn ids_of_older_logs_are_never_given_again() {
    // An AMQP list of a ubyte 7 and a uint 5: the next incarnation is 5.
    let next = decode_change(&[0xc0, 5, 2, 0x50, 7, 0x52, 5]);
    let mut catalog = Catalog::default();
    catalog.apply(&next.expect("a change of kind 7"));
    let newest_of_old = QueueId(4 << 32 | 0xff_ffff);
    let (answer, _) = run(&mut catalog, queue("q", &[]));
    let Answer::Queue { record, .. } = answer else { panic!("{answer:?}") };
    assert!(record.id.incarnation() > newest_of_old.incarnation(), "{:?}", record.id);
    assert_eq!(newest_of_old.slot(), 0xff_ffff);
}

/// The start of a node ends what it does not name. A base that is being written then has no binding to it, whatever was told before.
#[test]
fn a_base_that_is_written_while_a_node_starts_has_no_binding_to_what_has_ended() {
    let declare = |name: &str, durable| {
        Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: name.into(),
            kind: "fanout".into(),
            durable,
            auto_delete: false,
            internal: false,
            arguments: Arguments::new(),
        })
    };
    let bind = |source: &str, destination| {
        let (vhost, source) = ("/".into(), source.into());
        let key = "".into();
        Command::Bind(
            Binding { vhost, source, destination, key, arguments: Arguments::new() },
            Caller::Management,
        )
    };
    let mut before = Catalog::default();
    run(&mut before, queue("q1", &[]));
    run(
        &mut before,
        Command::DeclareQueue(DeclareQueue {
            durable: false,
            ..DeclareQueue::new("/", "q2", Arguments::new())
        }),
    );
    for command in [declare("x", true), declare("y", false), bind("x", Destination::Exchange("y".into()))] {
        run(&mut before, command);
    }
    let start = Change::NodeStarted { node: 1, origin: Origin { node: NodeId(1), boot: 2 } };
    for at in 0..30 {
        let (mut catalog, mut restored) = (before.clone(), Catalog::default());
        let mut cursor = DefinitionsCursor::default();
        for part in 0..80 {
            catalog.walk_definitions(&mut cursor, 1, |change| restored.restore(&change));
            if part != at {
                continue;
            }
            let (_, bound) = run(&mut catalog, bind("amq.fanout", Destination::Queue("q2".into())));
            bound.iter().for_each(|change| restored.restore(change));
            if !cursor.is_at_end() {
                restored.restore(&start);
                catalog.apply(&start);
                assert!(catalog.listed_queue("/", "q2").is_none() && catalog.exchange("/", "y").is_none());
            }
        }
        assert!(cursor.is_at_end());
        let all = |catalog: &Catalog| {
            let mut all: Vec<_> = catalog.bindings().iter().map(|binding| format!("{binding:?}")).collect();
            all.sort();
            all
        };
        assert_eq!(all(&restored), all(&catalog), "started behind part {at}");
        assert_eq!(restored.exchange_count(), catalog.exchange_count());
    }
}
