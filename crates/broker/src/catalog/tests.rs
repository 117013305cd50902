//! Tests of the catalog as a machine: the effect of policies on existing objects, and the stored encoding of every
//! change.

use crate::access::{Hashing, Permissions, UserRecord};
use crate::pattern::Pattern;
use amqp10::sasl::Secret;
use std::sync::Arc;

use amqp10::Value;
use bytes::BytesMut;

use super::*;
use crate::access::Access;
use crate::reply_to::ReplyTo;

fn decide(catalog: &Catalog, command: Command) -> Result<Decision, CatalogError> {
    catalog.decide(command, &mut catalog.queue_ids())
}

fn run(catalog: &mut Catalog, command: Command) -> (Answer, Vec<Change>) {
    let decision = decide(catalog, command).unwrap();
    decision.changes.iter().for_each(|change| catalog.apply(change));
    (decision.answer, decision.changes)
}

fn queue(name: &str, arguments: &[(&str, Value)]) -> Command {
    Command::DeclareQueue(DeclareQueue::new(
        "/",
        name,
        arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
    ))
}

fn policy(name: &str, operator: bool, pattern: &str, priority: i64, definition: &[(&str, Value)]) -> Command {
    Command::SetPolicy(SetPolicy {
        vhost: "/".into(),
        name: name.into(),
        operator,
        pattern: pattern.into(),
        priority,
        apply_to: "all".into(),
        definition: definition.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
    })
}

fn clear(name: &str, operator: bool) -> Command {
    Command::ClearPolicy { vhost: "/".into(), name: name.into(), operator }
}

#[test]
fn policies_apply_to_existing_and_new_queues() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("q1", &[("x-max-length", Value::Int(50))]));
    let max = |catalog: &Catalog, name: &str| catalog.queue("/", name).unwrap().config.max_length;
    let length = |n: i32| [("max-length", Value::Int(n))];

    let (answer, _) = run(&mut catalog, policy("p", false, "^q", 0, &length(10)));
    assert_eq!(answer, Answer::Set { created: true });
    run(&mut catalog, queue("q2", &[]));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(10), Some(10)));

    // A policy of higher priority applies even if it allows more. The argument still limits the queue.
    run(&mut catalog, policy("high", false, "q1", 1, &length(100)));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(50), Some(10)));
    run(&mut catalog, policy("op", true, "", 0, &length(20)));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(20), Some(10)));

    // A policy whose pattern no longer matches a queue stops applying to it.
    let (answer, _) = run(&mut catalog, policy("high", false, "other", 1, &length(100)));
    assert_eq!(answer, Answer::Set { created: false });
    assert_eq!(max(&catalog, "q1"), Some(10));
    run(&mut catalog, clear("p", false));
    run(&mut catalog, clear("op", true));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(50), None));
    assert_eq!(catalog.queue("/", "q1").unwrap().policy, None);

    let version = catalog.version();
    assert_eq!(run(&mut catalog, clear("p", false)).0, Answer::Done { changed: false });
    assert_eq!(run(&mut catalog, policy("high", false, "other", 1, &length(100))).1, []);
    assert_eq!(catalog.version(), version, "nothing changed");
}

/// A record reads the same however many records the update has visited, and whatever else has changed meanwhile.
#[test]
fn an_outdated_record_reads_like_a_refreshed_one() {
    let length = |n: i32| [("max-length", Value::Int(n))];
    let alternate = |to: &str| [("alternate-exchange", to.into())];
    let commands = |catalog: &mut Catalog, visit: &mut dyn FnMut(&mut Catalog)| {
        let mut place = |catalog: &mut Catalog, command| {
            run(catalog, command);
            visit(catalog);
        };
        for name in ["q1", "q2", "q3"] {
            place(catalog, queue(name, &[]));
        }
        place(catalog, policy("p", false, "", 0, &length(10)));
        place(catalog, queue("q4", &[]));
        place(catalog, policy("p", false, "q[13]", 0, &length(20)));
        place(catalog, policy("o", true, "", 0, &length(15)));
        let id = catalog.queue("/", "q3").unwrap().id;
        place(catalog, Command::ForgetQueue { queue: id });
        place(catalog, queue("q5", &[]));
        place(catalog, policy("x", false, "amq", 0, &alternate("a")));
        place(catalog, policy("x", false, "amq.d", 0, &alternate("b")));
        place(catalog, clear("o", true));
    };
    let [mut outdated, mut visited] = [Catalog::default(), Catalog::default()];
    commands(&mut outdated, &mut |_| {});
    let mut place = 0;
    commands(&mut visited, &mut |catalog| {
        place += 1;
        catalog.refresh_queue_at(place % 3);
        catalog.refresh_exchange_at(place % 4);
    });
    let read = |catalog: &Catalog| {
        let mut exchanges: Vec<_> = catalog.exchanges().collect();
        exchanges.sort_by(|a, b| a.name.cmp(&b.name));
        (catalog.queues().collect::<Vec<_>>(), exchanges)
    };
    assert_eq!(read(&outdated), read(&visited));
    let before = read(&outdated);
    outdated.refresh_all();
    assert_eq!(read(&outdated), before);
    let max = |name: &str| outdated.queue("/", name).unwrap().config.max_length;
    assert_eq!(["q1", "q2", "q4", "q5"].map(max), [Some(20), None, None, None]);
    assert_eq!(outdated.exchange("/", "amq.direct").unwrap().alternate.as_deref(), Some("b"));
    assert_eq!(outdated.exchange("/", "amq.topic").unwrap().alternate, None);
    assert_eq!((outdated.queue_count(), outdated.exchange_count()), (4, 7));
}

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
    let bind = |source: &str, to: &str, key: &str| Command::Bind(binding(source, to, key));
    let forget =
        |catalog: &Catalog, name: &str| Command::ForgetQueue { queue: catalog.queue("/", name).unwrap().id };
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
        let mut bindings = catalog.bindings_of_source("/", "x");
        bindings.sort_by(|a, b| (&a.destination, &a.key).cmp(&(&b.destination, &b.key)));
        (queues, exchanges, bindings, catalog.bindings_of_source("/", "hash"))
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
                    Command::Unbind(binding("hash", "c", "2")),
                    declare("new", "fanout"),
                    bind("new", "a", ""),
                ] {
                    for change in catalog.decide(command, &mut catalog.queue_ids()).unwrap().changes {
                        assert!(catalog.is_durable(&change));
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

#[test]
fn the_same_declaration_is_the_same_under_a_policy() {
    let mut catalog = Catalog::default();
    let exchange = |alternate: Option<&str>| {
        Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: "x".into(),
            kind: "fanout".into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: alternate
                .map(|a| ("alternate-exchange".to_owned(), Value::from(a)))
                .into_iter()
                .collect(),
        })
    };
    run(&mut catalog, exchange(None));
    run(&mut catalog, policy("p", false, "^x$", 0, &[("alternate-exchange", "amq.fanout".into())]));
    assert_eq!(catalog.exchange("/", "x").unwrap().alternate.as_deref(), Some("amq.fanout"));
    assert_eq!(run(&mut catalog, exchange(None)).0, Answer::Done { changed: false });

    run(&mut catalog, queue("q", &[]));
    let binding = Binding {
        vhost: "/".into(),
        source: "amq.fanout".into(),
        destination: Destination::Queue("q".into()),
        key: "".into(),
        arguments: Arguments::new(),
    };
    run(&mut catalog, Command::Bind(binding));
    let reached = |catalog: &Catalog| catalog.route("/", "x", &Letter::default()).unwrap().targets.len();
    assert_eq!(reached(&catalog), 1);
    run(&mut catalog, clear("p", false));
    assert_eq!(reached(&catalog), 0);

    // The argument takes precedence over the policy.
    run(&mut catalog, Command::DeleteExchange { vhost: "/".into(), name: "x".into(), if_unused: false });
    run(&mut catalog, policy("p", false, "^x$", 0, &[("alternate-exchange", "amq.fanout".into())]));
    run(&mut catalog, exchange(Some("amq.topic")));
    assert_eq!(catalog.exchange("/", "x").unwrap().alternate.as_deref(), Some("amq.topic"));
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
            assert!(catalog.is_durable(&change));
            let mut bytes = BytesMut::new();
            encode_change(&change, &mut bytes);
            assert_eq!(decode_change(&bytes).as_ref(), Some(&change));
            stored.push(bytes);
        }
    }
    let mut restored = Catalog::default();
    stored.iter().for_each(|bytes| restored.apply(&decode_change(bytes).unwrap()));
    for name in ["q1", "q2"] {
        let record = restored.queue("/", name).unwrap();
        assert_eq!(Some(&record), catalog.queue("/", name).as_ref());
        assert_eq!((record.config.message_ttl_ms, record.fsync), (Some(7), true));
    }
    assert_eq!(restored.queue("/", "q1").unwrap().config.expires_ms, Some(9));
    assert_eq!(restored.policies(false).count(), 1);

    // All definitions are applied at once, on top of an empty catalog and on top of the restored one.
    let again = catalog.definitions();
    for mut base in [Catalog::default(), restored] {
        again.iter().for_each(|change| base.apply(change));
        for name in ["q1", "q2"] {
            assert_eq!(base.queue("/", name), catalog.queue("/", name));
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
        let got: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(got, hex.replace(' ', ""), "{change:?}");
        assert_eq!(decode_change(&bytes).as_ref(), Some(change));
    }
    assert_eq!(decode_change(b""), None);
}

#[test]
fn quorum_queues_are_durable_and_for_everybody() {
    let mut catalog = Catalog::default();
    let quorum = || [("x-queue-type".to_owned(), Value::from("quorum"))].into();
    let plain = DeclareQueue::new("/", "q", quorum());
    let refused = [
        ("non-durable", DeclareQueue { durable: false, exclusive: true, ..plain.clone() }),
        ("auto-delete", DeclareQueue { auto_delete: true, ..plain.clone() }),
    ];
    for (what, declare) in refused {
        let refused = catalog.decide(Command::DeclareQueue(declare), &mut catalog.queue_ids()).unwrap_err();
        assert!(refused.to_string().contains(&format!("invalid property '{what}'")), "{refused}");
    }
    run(&mut catalog, Command::DeclareQueue(plain));
    assert_eq!(catalog.queue("/", "q").unwrap().kind(), "quorum");
    run(&mut catalog, policy("p", false, "", 0, &[("delivery-limit", Value::Int(3))]));
    let limit = |catalog: &Catalog| catalog.queue("/", "q").unwrap().config.quorum.unwrap().delivery_limit();
    assert_eq!(limit(&catalog), Some(3));
}

#[test]
fn a_queue_without_a_type_gets_the_default_type_if_it_can() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("before", &[]));
    catalog.set_rules(DeclareRules { default_type: QueueType::Quorum, ..Default::default() });
    let kind = |catalog: &Catalog, name: &str| catalog.queue("/", name).unwrap().config.queue_type();
    let plain = |name: &str| DeclareQueue::new("/", name, Arguments::new());
    run(&mut catalog, queue("new", &[]));
    run(&mut catalog, queue("classic", &[("x-queue-type", "classic".into())]));
    run(&mut catalog, Command::DeclareQueue(DeclareQueue { auto_delete: true, ..plain("auto") }));
    let names = ["before", "new", "classic", "auto"];
    let expected = [QueueType::Classic, QueueType::Quorum, QueueType::Classic, QueueType::Classic];
    assert_eq!(names.map(|name| kind(&catalog, name)), expected);
    assert_eq!(catalog.queue("/", "new").unwrap().arguments.get("x-queue-type"), Some(&"quorum".into()));
    // Declared again without a type, both stay what they are.
    run(&mut catalog, queue("before", &[]));
    run(&mut catalog, queue("new", &[]));
}

#[test]
fn a_quorum_queue_may_be_declared_again_as_if_it_were_classic_if_the_operator_permits() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("q", &[("x-queue-type", "quorum".into())]));
    let plain = DeclareQueue::new("/", "q", [("x-queue-type".to_owned(), "quorum".into())].into());
    let others = [
        DeclareQueue::new("/", "q", Arguments::new()),
        DeclareQueue { auto_delete: true, ..plain.clone() },
        DeclareQueue { durable: false, exclusive: true, connection: Some(ConnectionId(1)), ..plain },
    ];
    for other in others {
        let declare = Command::DeclareQueue(other);
        catalog.set_rules(DeclareRules::default());
        assert!(catalog.decide(declare.clone(), &mut catalog.queue_ids()).is_err());
        catalog.set_rules(DeclareRules { relaxed_redeclaration: true, ..Default::default() });
        assert!(catalog.decide(declare, &mut catalog.queue_ids()).is_ok());
    }
}

/// The list of all bindings is the same however many rows each part has, also when one exchange has most of them.
#[test]
fn bindings_are_listed_in_parts() {
    let mut catalog = Catalog::default();
    for name in ["a", "b", "c"] {
        run(&mut catalog, queue(name, &[]));
    }
    for (key, to) in (0..40).zip(["a", "b", "c"].into_iter().cycle()) {
        run(
            &mut catalog,
            Command::Bind(Binding {
                vhost: "/".into(),
                source: "amq.fanout".into(),
                destination: Destination::Queue(to.into()),
                key: format!("{key}").into(),
                arguments: Arguments::new(),
            }),
        );
    }
    let all = catalog.bindings();
    assert_eq!(all.len(), 40 + 3);
    for rows_max in 1..50 {
        let (mut listed, mut from) = (Vec::new(), Some(BindingCursor::default()));
        while let Some(place) = from {
            let (rows, next) = catalog.bindings_from(place, rows_max);
            assert!(rows.len() <= rows_max + 1, "{} rows of {rows_max}", rows.len());
            listed.extend(rows);
            from = next;
        }
        assert_eq!(listed, all, "{rows_max} rows a part");
    }
}

/// Auto-delete exchanges are deleted with their last binding, also in a cycle of bindings or if two of their
/// destinations are deleted together.
#[test]
fn auto_delete_exchanges_end_with_their_last_binding() {
    let exchange = |name: &str| {
        let (vhost, name, kind) = ("/".into(), name.into(), "fanout".into());
        let (durable, auto_delete, internal, arguments) = (true, true, false, Arguments::new());
        Command::DeclareExchange(DeclareExchange {
            vhost,
            name,
            kind,
            durable,
            auto_delete,
            internal,
            arguments,
        })
    };
    let binding = |source: &str, destination| {
        let (vhost, source, key) = ("/".into(), source.into(), "".into());
        Binding { vhost, source, destination, key, arguments: Arguments::new() }
    };
    let to = |name: &str| Destination::Exchange(name.into());
    let delete =
        |name: &str| Command::DeleteExchange { vhost: "/".into(), name: name.into(), if_unused: false };
    let left = |bindings: &[(&str, Destination)], last: &dyn Fn(&Catalog) -> Command| {
        let mut catalog = Catalog::default();
        let predeclared = catalog.exchanges().count();
        for name in ["a", "b", "c"] {
            run(&mut catalog, exchange(name));
        }
        run(&mut catalog, queue("q", &[]));
        for (source, destination) in bindings {
            run(&mut catalog, Command::Bind(binding(source, destination.clone())));
        }
        let command = last(&catalog);
        let (_, changes) = run(&mut catalog, command);
        for (at, change) in changes.iter().enumerate() {
            assert!(!changes[..at].contains(change), "{change:?} is said twice");
        }
        let mut left: Vec<_> = catalog.exchanges().map(|x| x.name.to_string()).collect();
        left.retain(|name| ["a", "b", "c"].contains(&&**name));
        assert_eq!(catalog.exchanges().count(), predeclared + left.len());
        left.sort();
        left.concat()
    };
    let forget = |catalog: &Catalog| Command::ForgetQueue { queue: catalog.queue("/", "q").unwrap().id };
    let q = || Destination::Queue("q".into());

    assert_eq!(left(&[("a", to("a"))], &|_| delete("a")), "bc");
    assert_eq!(left(&[("a", to("a"))], &|_| Command::Unbind(binding("a", to("a")))), "bc");
    assert_eq!(left(&[("a", to("b")), ("b", to("a"))], &|_| delete("a")), "c");
    assert_eq!(left(&[("a", to("b")), ("b", to("c")), ("c", to("a"))], &|_| delete("b")), "");
    assert_eq!(left(&[("a", q()), ("a", to("a"))], &forget), "abc", "the exchange is still bound to itself");
    assert_eq!(left(&[("a", q()), ("b", to("a")), ("c", to("b"))], &forget), "");
    assert_eq!(left(&[("a", q()), ("b", q()), ("b", to("a"))], &forget), "c", "b had no other binding");
    assert_eq!(left(&[("a", q()), ("b", q()), ("b", to("c"))], &forget), "bc");
}

#[test]
fn the_default_exchange_routes_to_reply_links() {
    let catalog = Catalog::default();
    let to = ReplyTo { outlet: ::queue::ConsumerId(7), key: 9 };
    let keys: [Arc<str>; 3] = [to.name().into(), "nobody".into(), to.name().into()];
    let letter = Letter { keys: &keys, ..Letter::default() };
    let targets = |exchange| catalog.route(DEFAULT_VHOST, exchange, &letter).unwrap().targets.into_vec();
    assert_eq!(targets(""), [RouteTarget::Direct(to)], "once");
    assert_eq!(targets("amq.direct"), []);
}

#[test]
fn a_local_exchange_binds_no_stream() {
    let mut catalog = Catalog::default();
    for kind in ["x-local-random", "x-random"] {
        let (vhost, name, kind) = ("/".into(), kind.into(), kind.into());
        let (durable, auto_delete, internal, arguments) = (true, false, false, Arguments::new());
        let declare = DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
        run(&mut catalog, Command::DeclareExchange(declare));
    }
    run(&mut catalog, queue("c", &[]));
    run(&mut catalog, queue("s", &[("x-queue-type", "stream".into())]));
    let bind = |source: &str, to: &str| {
        let (vhost, source, key) = ("/".into(), source.into(), "".into());
        let destination = Destination::Queue(to.into());
        decide(
            &catalog,
            Command::Bind(Binding { vhost, source, destination, key, arguments: Arguments::new() }),
        )
    };
    assert!(bind("x-local-random", "c").is_ok() && bind("x-random", "s").is_ok());
    let reason = "x-local-random routes to classic queues only: queue 's' in vhost '/' is a stream".into();
    assert_eq!(bind("x-local-random", "s").map(|_| ()), Err(CatalogError::Invalid { reason }));
}

#[test]
fn deleting_a_virtual_host_needs_no_queues_and_clears_permissions() {
    let mut catalog = Catalog::default();
    let user = |name: &str| {
        Command::Account(AccountChange::SetUser {
            name: name.into(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new("p")),
            tags: [].into(),
        })
    };
    let grant = |user: &str, vhost: &str| {
        Command::Account(AccountChange::SetPermissions {
            user: user.into(),
            vhost: vhost.into(),
            permissions: Permissions::ALL,
        })
    };
    run(&mut catalog, user("u"));
    assert!(matches!(decide(&catalog, grant("u", "v")), Err(CatalogError::NotFound { .. })));
    run(&mut catalog, Command::Account(AccountChange::add_vhost("v")));
    assert!(matches!(decide(&catalog, grant("nobody", "v")), Err(CatalogError::NotFound { .. })));
    run(&mut catalog, grant("u", "v"));
    // A new password keeps the permissions.
    run(&mut catalog, user("u"));
    let declare = DeclareQueue::new("v", "q", Arguments::new());
    run(&mut catalog, Command::DeclareQueue(declare));
    let delete = || Command::Account(AccountChange::DeleteVhost { name: "v".into() });
    let queue = catalog.queue("v", "q").unwrap().id;
    // Only what was closed is deleted: somebody else may have deleted it, and made it anew.
    assert!(decide(&catalog, delete()).unwrap().changes.is_empty());
    run(&mut catalog, Command::Account(AccountChange::CloseVhost { name: "v".into() }));
    // The log may name it once more. That makes no new one.
    catalog.apply(&Change::VhostAdded { name: "v".into() });
    assert!(matches!(decide(&catalog, delete()), Err(CatalogError::PreconditionFailed { .. })));
    run(&mut catalog, Command::ForgetQueue { queue });
    assert!(catalog.users().get("u").unwrap().permissions.contains_key("v"));
    run(&mut catalog, delete());
    assert!(!catalog.has_vhost("v") && catalog.users().get("u").unwrap().permissions.is_empty());
    // A new virtual host of the same name starts empty.
    run(&mut catalog, Command::Account(AccountChange::add_vhost("v")));
    assert!(catalog.exchange("v", "amq.direct").is_some());
    assert!(catalog.users().get("u").unwrap().permissions.is_empty());
    assert!(matches!(
        decide(&catalog, Command::Account(AccountChange::add_vhost(""))),
        Err(CatalogError::Invalid { .. })
    ));
}

#[test]
fn a_renewed_hash_changes_nothing_else_and_brings_no_old_password_back() {
    let mut catalog = Catalog::default();
    let hash = |hashing: Hashing, password| hashing.hash([1; 16], &Secret::new(password));
    let set = |hash, tag: &str| {
        let tags = [tag.to_owned()].into();
        Command::Account(AccountChange::SetUser { name: "u".into(), hash, tags })
    };
    run(&mut catalog, set(hash(Hashing::Md5, "old"), "management"));
    let grant =
        AccountChange::SetPermissions { user: "u".into(), vhost: "/".into(), permissions: Permissions::ALL };
    run(&mut catalog, Command::Account(grant));
    let renew = || {
        let (outdated, hash) = (hash(Hashing::Md5, "old"), hash(Hashing::Sha512, "old"));
        Command::Account(AccountChange::RenewHash { user: "u".into(), outdated, hash })
    };
    let before = catalog.users().get("u").unwrap().clone();
    run(&mut catalog, renew());
    let after = catalog.users().get("u").unwrap().clone();
    assert_eq!(after.hash, hash(Hashing::Sha512, "old"));
    assert_eq!(UserRecord { hash: before.hash.clone(), ..after }, before);
    // Another login was checked before the change.
    assert!(decide(&catalog, renew()).unwrap().changes.is_empty());
    run(&mut catalog, set(hash(Hashing::Md5, "new"), "management"));
    assert!(decide(&catalog, renew()).unwrap().changes.is_empty(), "the password was changed");
    run(&mut catalog, Command::Account(AccountChange::DeleteUser { name: "u".into() }));
    assert!(decide(&catalog, renew()).unwrap().changes.is_empty(), "the user was deleted");
}

#[test]
fn whoever_adds_a_virtual_host_may_do_everything_in_it() {
    let mut catalog = Catalog::default();
    let user = |name: &str| AccountChange::SetUser {
        name: name.into(),
        hash: Hashing::Sha256.of_nobody(),
        tags: [].into(),
    };
    run(&mut catalog, Command::Account(user("ann")));
    run(&mut catalog, Command::Account(user("bob")));
    let add = |creator: &str| {
        let (patch, creator) = (VhostPatch::default(), Some(creator.into()));
        Command::Account(AccountChange::SetVhost { name: "v".into(), patch, creator })
    };
    let of = |catalog: &Catalog, user| catalog.users().get(user).unwrap().permissions.get("v").cloned();
    run(&mut catalog, add("ann"));
    assert_eq!(of(&catalog, "ann"), Some(Permissions::ALL));
    run(&mut catalog, add("bob"));
    assert_eq!(of(&catalog, "bob"), None, "it was there already");
    let mut other = Catalog::default();
    run(&mut other, add("stranger"));
    assert!(other.has_vhost("v") && other.users().get("stranger").is_none());
}

#[test]
fn a_new_virtual_host_gets_what_the_configuration_says() {
    let hash = |password| Hashing::Sha256.hash([1; 16], &Secret::new(password));
    let limits = |vhosts, max_queues| DefaultLimits {
        vhosts: Pattern::new(vhosts).unwrap(),
        max_connections: Some(5),
        max_queues,
    };
    let user = |name: &str, vhosts| DefaultUser {
        name: name.into(),
        vhosts: Pattern::new(vhosts).unwrap(),
        hash: hash("of the configuration"),
        tags: [String::from("monitoring")].into(),
        permissions: Permissions::NONE,
    };
    let of_operators = SetPolicy {
        vhost: "".into(),
        name: "ceiling".into(),
        operator: true,
        pattern: "^amq".into(),
        priority: 0,
        apply_to: "queues".into(),
        definition: [("max-length", 5)].into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect(),
    };
    let vhost_defaults = Arc::new(VhostDefaults {
        limits: vec![limits("^team", Some(1)), limits("^te|^/$", Some(2))],
        users: vec![user("probe", ".*"), user("ann", "^team")],
        operator_policies: vec![DefaultPolicy::new(Pattern::new("^team").unwrap(), of_operators).unwrap()],
    });
    let mut catalog = Catalog::default();
    catalog.set_rules(DeclareRules { vhost_defaults, ..DeclareRules::default() });
    // The first start counts for the virtual host that is there from the start.
    let changes = catalog.begin_users(&Access::default());
    assert!(changes.iter().all(|change| catalog.is_durable(change)));
    assert_eq!(catalog.vhost_settings("/").unwrap().max_queues, Some(2));
    assert!(catalog.begin_users(&Access::default()).is_empty(), "there is a user now");
    let set = AccountChange::SetUser { name: "ann".into(), hash: hash("hers"), tags: [].into() };
    run(&mut catalog, Command::Account(set));

    let patch = VhostPatch { max_connections: Some(None), ..VhostPatch::default() };
    let add = AccountChange::SetVhost { name: "team-a".into(), patch, creator: Some("ann".into()) };
    run(&mut catalog, Command::Account(add));
    let settings = catalog.vhost_settings("team-a").unwrap();
    assert_eq!((settings.max_queues, settings.max_connections), (Some(1), None), "the request counts");
    let of = |user: &str| catalog.users().get(user).unwrap();
    assert_eq!(of("probe").permissions.get("team-a"), Some(&Permissions::NONE));
    assert_eq!((&*of("probe").tags[0], &of("probe").hash), ("monitoring", &hash("of the configuration")));
    assert_eq!((of("ann").tags.len(), &of("ann").hash), (0, &hash("hers")), "a user who exists stays");
    assert_eq!(of("ann").permissions.get("team-a"), Some(&Permissions::ALL), "the creator");
    run(&mut catalog, Command::Account(AccountChange::add_vhost("other")));
    assert_eq!(**catalog.vhost_settings("other").unwrap(), VhostSettings::default());
    assert!(!catalog.users().get("ann").unwrap().permissions.contains_key("other"));
    let policies: Vec<_> = catalog.policies(true).map(|p| (&*p.vhost, &*p.name, p.priority)).collect();
    assert_eq!(policies, [("team-a", "ceiling", 0)]);
}

#[test]
fn a_virtual_host_has_a_default_type_and_limits() {
    let mut catalog = Catalog::default();
    let set = |patch| {
        let creator = None;
        Command::Account(AccountChange::SetVhost { name: "v".into(), patch, creator })
    };
    let declare = |name: &str| Command::DeclareQueue(DeclareQueue::new("v", name, Arguments::new()));
    let patch = VhostPatch {
        default_queue_type: Some(Some(QueueType::Quorum)),
        max_queues: Some(Some(2)),
        ..VhostPatch::default()
    };
    run(&mut catalog, set(patch));
    run(&mut catalog, declare("a"));
    assert_eq!(catalog.queue("v", "a").unwrap().config.queue_type(), QueueType::Quorum);
    assert_eq!(catalog.queue("v", "a").unwrap().arguments.get("x-queue-type"), Some(&"quorum".into()));
    run(&mut catalog, declare("a"));
    run(&mut catalog, declare("b"));
    let full = decide(&catalog, declare("c")).unwrap_err();
    assert_eq!(full.to_string(), "cannot declare queue 'c': queue limit in vhost 'v' (2) is reached");
    run(&mut catalog, set(VhostPatch { description: Some("ours".into()), ..VhostPatch::default() }));
    let settings = catalog.vhost_settings("v").unwrap();
    assert_eq!((&*settings.description, settings.max_queues), ("ours", Some(2)));
}

#[test]
fn the_node_limits_what_exists() {
    let mut catalog = Catalog::default();
    let (queues, exchanges) = (catalog.queue_count(), catalog.exchange_count());
    catalog.set_rules(DeclareRules {
        queues_max: Some(queues as u32),
        exchanges_max: Some(exchanges as u32),
        vhosts_max: Some(1),
        ..DeclareRules::default()
    });
    let refused = |command| decide(&catalog, command).unwrap_err().to_string();
    assert_eq!(
        refused(Command::DeclareQueue(DeclareQueue::new("/", "q", Arguments::new()))),
        "cannot declare queue 'q': queue limit in cluster (0) is reached"
    );
    let exchange = DeclareExchange {
        vhost: "/".into(),
        name: "x".into(),
        kind: "direct".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    };
    assert_eq!(
        refused(Command::DeclareExchange(exchange)),
        "cannot declare exchange 'x': exchange limit in cluster (7) is reached"
    );
    assert_eq!(
        refused(Command::Account(AccountChange::add_vhost("v"))),
        "cannot create vhost 'v': vhost limit of 1 is reached"
    );
}

#[test]
fn a_virtual_host_that_is_being_deleted_cannot_be_used() {
    let mut catalog = Catalog::default();
    run(&mut catalog, Command::Account(AccountChange::add_vhost("v")));
    run(&mut catalog, Command::DeclareQueue(DeclareQueue::new("v", "q", Arguments::new())));
    let close = || Command::Account(AccountChange::CloseVhost { name: "v".into() });
    let protect = |protected| {
        let patch = VhostPatch { protected: Some(protected), ..VhostPatch::default() };
        Command::Account(AccountChange::SetVhost { name: "v".into(), patch, creator: None })
    };
    run(&mut catalog, protect(true));
    let refused = decide(&catalog, close()).unwrap_err();
    assert_eq!(refused.to_string(), "vhost 'v' is protected from deletion");
    run(&mut catalog, protect(false));
    run(&mut catalog, close());
    assert!(!catalog.has_vhost("v") && catalog.queue("v", "q").is_some());
    let refused = |command| decide(&catalog, command).unwrap_err().to_string();
    assert_eq!(refused(Command::DeclareQueue(DeclareQueue::new("v", "r", Arguments::new()))), "no vhost 'v'");
    assert_eq!(refused(protect(true)), "vhost 'v' is being deleted");
    // The deletion can be asked for again, and a restart does not forget it.
    run(&mut catalog, close());
    let mut rebuilt = Catalog::default();
    catalog.definitions().iter().for_each(|change| rebuilt.apply(change));
    assert!(!rebuilt.has_vhost("v") && rebuilt.vhost_settings("v").unwrap().deleting);
}

/// Shards compare exchanges by their ids, so a deleted virtual host must free its places in the same order everywhere.
#[test]
fn exchanges_have_the_same_ids_on_every_shard() {
    let ids = |catalog: &Catalog| {
        let rows = (0..catalog.exchange_places()).filter_map(|place| catalog.exchange_at(place));
        let mut ids: Vec<_> =
            rows.map(|(exchange, id, _)| (exchange.vhost.clone(), exchange.name.clone(), id)).collect();
        ids.sort();
        ids
    };
    let [mut one, mut other] = [Catalog::default(), Catalog::default()];
    for catalog in [&mut one, &mut other] {
        for name in ["v", "w"] {
            catalog.apply(&Change::VhostAdded { name: name.into() });
        }
        catalog.apply(&Change::VhostDeleted { name: "v".into() });
        let exchange =
            |name: &str| Exchange::new("w".into(), name.into(), ExchangeKind::Fanout, Arguments::new());
        for name in ["a", "b", "c"] {
            catalog.apply(&Change::ExchangeDeclared(Arc::new(exchange(name))));
        }
        catalog.apply(&Change::ExchangeDeleted { vhost: "w".into(), name: "b".into() });
    }
    let deleted = ids(&one);
    assert_eq!(deleted, ids(&other));
    one.apply(&Change::ExchangeDeclared(Arc::new(Exchange::new(
        "w".into(),
        "b".into(),
        ExchangeKind::Fanout,
        Arguments::new(),
    ))));
    let again = ids(&one);
    assert_eq!(again.len(), deleted.len() + 1);
    assert!(
        again.iter().filter(|row| deleted.contains(row)).count() == deleted.len(),
        "the others keep theirs"
    );
}
