//! Tests of the catalog as a machine: what each command decides, and what the changes do.

mod nodes;
mod policies;
mod searches;
mod started;
mod stored;
mod vhosts;

use std::sync::Arc;

use amqp10::Value;
use amqp10::sasl::Secret;
use bytes::BytesMut;
use queue::QueueType;

use super::*;
use crate::access::{Access, Hashing, Permissions, UserRecord};
use crate::ids::{NodeId, Origin};
use crate::pattern::Pattern;
use crate::reply_to::ReplyTo;
use crate::unguessable::Key;

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
    assert_eq!(catalog.listed_queue("/", "q").unwrap().kind(), "quorum");
    run(&mut catalog, policy("p", false, "", 0, &[("delivery-limit", Value::Int(3))]));
    let limit =
        |catalog: &Catalog| catalog.listed_queue("/", "q").unwrap().config.quorum.unwrap().delivery_limit();
    assert_eq!(limit(&catalog), Some(3));
}

#[test]
fn a_queue_without_a_type_gets_the_default_type_if_it_can() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("before", &[]));
    catalog.set_rules(DeclareRules { default_type: QueueType::Quorum, ..Default::default() });
    let kind = |catalog: &Catalog, name: &str| catalog.listed_queue("/", name).unwrap().config.queue_type();
    let plain = |name: &str| DeclareQueue::new("/", name, Arguments::new());
    run(&mut catalog, queue("new", &[]));
    run(&mut catalog, queue("classic", &[("x-queue-type", "classic".into())]));
    run(&mut catalog, Command::DeclareQueue(DeclareQueue { auto_delete: true, ..plain("auto") }));
    let names = ["before", "new", "classic", "auto"];
    let expected = [QueueType::Classic, QueueType::Quorum, QueueType::Classic, QueueType::Classic];
    assert_eq!(names.map(|name| kind(&catalog, name)), expected);
    assert_eq!(
        catalog.listed_queue("/", "new").unwrap().arguments.get("x-queue-type"),
        Some(&"quorum".into())
    );
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
        DeclareQueue { durable: false, exclusive: true, connection: Some(ConnectionId::default()), ..plain },
    ];
    for other in others {
        let declare = Command::DeclareQueue(other);
        catalog.set_rules(DeclareRules::default());
        assert!(catalog.decide(declare.clone(), &mut catalog.queue_ids()).is_err());
        catalog.set_rules(DeclareRules { relaxed_redeclaration: true, ..Default::default() });
        assert!(catalog.decide(declare, &mut catalog.queue_ids()).is_ok());
    }
}

/// Each start of each node numbers its connections from 1.
#[test]
fn the_same_number_of_another_node_or_start_does_not_own_an_exclusive_queue() {
    let mut catalog = Catalog::default();
    let at = |node, boot| ConnectionId { origin: Origin { node: NodeId(node), boot }, number: 1 };
    let declare = DeclareQueue::new("/", "q", Arguments::new());
    let connection = Some(at(1, 5));
    let own = DeclareQueue { durable: false, exclusive: true, connection, ..declare.clone() };
    run(&mut catalog, Command::DeclareQueue(own));
    let may = |catalog: &Catalog, id| catalog.usable_queue("/", "q", Caller::Connection(id)).is_ok();
    assert!(may(&catalog, at(1, 5)));
    for other in [at(2, 5), at(1, 6), ConnectionId { number: 2, ..at(1, 5) }] {
        assert!(!may(&catalog, other), "{other:?}");
        let declare =
            DeclareQueue { durable: false, exclusive: true, connection: Some(other), ..declare.clone() };
        assert!(catalog.decide(Command::DeclareQueue(declare), &mut catalog.queue_ids()).is_err());
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
            Command::Bind(
                Binding {
                    vhost: "/".into(),
                    source: "amq.fanout".into(),
                    destination: Destination::Queue(to.into()),
                    key: format!("{key}").into(),
                    arguments: Arguments::new(),
                },
                Caller::Management,
            ),
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
            run(&mut catalog, Command::Bind(binding(source, destination.clone()), Caller::Management));
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
    let forget =
        |catalog: &Catalog| Command::ForgetQueue { queue: catalog.listed_queue("/", "q").unwrap().id };
    let q = || Destination::Queue("q".into());

    assert_eq!(left(&[("a", to("a"))], &|_| delete("a")), "bc");
    assert_eq!(
        left(&[("a", to("a"))], &|_| Command::Unbind(binding("a", to("a")), Caller::Management)),
        "bc"
    );
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
    let key = Key::parse("GuessesAreFutile").unwrap();
    let to = ReplyTo { origin: Origin { node: NodeId(1), boot: 2 }, outlet: ::queue::ConsumerId(7), key };
    let keys: [Arc<str>; 3] = [to.name().into(), "nobody".into(), to.name().into()];
    let routable = Routable { keys: &keys, ..Routable::default() };
    let targets = |exchange| catalog.route(DEFAULT_VHOST, exchange, &routable).unwrap().targets.into_vec();
    assert_eq!(targets(""), [RouteTarget::Direct(to)], "once");
    assert_eq!(targets("amq.direct"), []);
}

/// Many targets, and many exchanges on the way, are each found once.
#[test]
fn a_route_to_many_queues_reaches_each_once() {
    const QUEUES: usize = 100;
    let mut catalog = Catalog::default();
    let bind = |catalog: &mut Catalog, source: &str, destination: Destination, key: &str| {
        let (vhost, source, key) = ("/".into(), source.into(), key.into());
        run(
            catalog,
            Command::Bind(
                Binding { vhost, source, destination, key, arguments: Arguments::new() },
                Caller::Management,
            ),
        );
    };
    for n in 0..QUEUES {
        let name = format!("q{n:02}");
        run(&mut catalog, queue(&name, &[]));
        let (vhost, kind) = ("/".into(), "fanout".into());
        let (durable, auto_delete, internal, arguments) = (true, false, false, Arguments::new());
        let declare = DeclareExchange {
            vhost,
            name: format!("x{n}").into(),
            kind,
            durable,
            auto_delete,
            internal,
            arguments,
        };
        run(&mut catalog, Command::DeclareExchange(declare));
        for source in ["amq.fanout".to_owned(), format!("x{n}")] {
            for key in ["", "again"] {
                bind(&mut catalog, &source, Destination::Queue(name.as_str().into()), key);
            }
        }
        bind(&mut catalog, "amq.fanout", Destination::Exchange(format!("x{n}").into()), "");
        bind(&mut catalog, &format!("x{n}"), Destination::Exchange("amq.fanout".into()), "");
    }
    for exchange in ["amq.fanout", "x7"] {
        let targets = catalog.route("/", exchange, &Routable::default()).unwrap().targets;
        let mut names: Vec<_> = targets
            .iter()
            .map(|target| match target {
                RouteTarget::Queue(id) => catalog.queue_by_id(*id).unwrap().name.to_string(),
                RouteTarget::Direct(_) => unreachable!(),
            })
            .collect();
        names.sort();
        assert_eq!(names, (0..QUEUES).map(|n| format!("q{n:02}")).collect::<Vec<_>>());
    }
}

#[test]
fn a_local_exchange_binds_classic_queues_only() {
    let mut catalog = Catalog::default();
    for kind in ["x-local-random", "x-random"] {
        let (vhost, name, kind) = ("/".into(), kind.into(), kind.into());
        let (durable, auto_delete, internal, arguments) = (true, false, false, Arguments::new());
        let declare = DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
        run(&mut catalog, Command::DeclareExchange(declare));
    }
    run(&mut catalog, queue("c", &[]));
    run(&mut catalog, queue("s", &[("x-queue-type", "stream".into())]));
    run(&mut catalog, queue("q", &[("x-queue-type", "quorum".into())]));
    let bind = |source: &str, to: &str| {
        let (vhost, source, key) = ("/".into(), source.into(), "".into());
        let destination = Destination::Queue(to.into());
        decide(
            &catalog,
            Command::Bind(
                Binding { vhost, source, destination, key, arguments: Arguments::new() },
                Caller::Management,
            ),
        )
    };
    assert!(bind("x-local-random", "c").is_ok());
    assert!(bind("x-random", "s").is_ok() && bind("x-random", "q").is_ok());
    for (name, kind) in [("s", "stream"), ("q", "quorum queue")] {
        let reason =
            format!("x-local-random routes to classic queues only: queue '{name}' in vhost '/' is a {kind}");
        assert_eq!(bind("x-local-random", name).map(|_| ()), Err(CatalogError::Invalid { reason }));
    }
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

/// Two nodes with the same exchange give it their own ids, and store and send the same change.
#[test]
fn no_change_has_the_id_of_an_exchange() {
    let declare = |name: &str| {
        Change::ExchangeDeclared(Arc::new(Exchange::new(
            "/".into(),
            name.into(),
            ExchangeKind::Fanout,
            Arguments::new(),
        )))
    };
    let (mut one, mut other) = (Catalog::default(), Catalog::default());
    other.apply(&declare("before"));
    [&mut one, &mut other].into_iter().for_each(|catalog| catalog.apply(&declare("x")));
    other.apply(&Change::ExchangeDeleted { vhost: "/".into(), name: "before".into() });
    let id = |catalog: &Catalog| {
        let routed = catalog.route("/", "x", &Routable::default()).unwrap();
        routed.exchange.expect("it begins at the exchange")
    };
    assert_ne!(id(&one), id(&other));
    let stored = |catalog: &Catalog| {
        let mut stored = bytes::BytesMut::new();
        catalog.definitions().iter().for_each(|change| encode_change(change, &mut stored));
        stored
    };
    assert_eq!(stored(&one), stored(&other));
}
