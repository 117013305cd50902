//! Searches that take several turns, compared with routes that are found at once.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::route::Unrouted;

const EXCHANGES: usize = 6;
const QUEUES: usize = 5;
const KINDS: [&str; 7] =
    ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random", "x-recent-history"];
const KEYS: [&str; 6] = ["a", "a.b", "*.b", "#", "a.#.b", "3"];

#[derive(Clone, Debug)]
enum Op {
    Bind { binding: Binding, is_made: bool },
    Alternate(usize, Option<usize>),
    Delete(usize),
    Declare(usize, usize),
}

fn exchange(n: usize) -> Arc<str> {
    format!("x{n}").into()
}

fn op() -> impl Strategy<Value = Op> {
    let destination = prop_oneof![
        3 => (0..QUEUES).prop_map(|n| Destination::Queue(format!("q{n}").into())),
        2 => (0..EXCHANGES).prop_map(|n| Destination::Exchange(exchange(n))),
    ];
    let binding = (0..EXCHANGES, destination, prop::sample::select(&KEYS[..]), 0..3i32).prop_map(
        |(source, destination, key, value)| {
            let arguments = [("h".to_owned(), Value::Int(value))].into();
            Binding { vhost: "/".into(), source: exchange(source), destination, key: key.into(), arguments }
        },
    );
    prop_oneof![
        12 => (binding, prop::bool::weighted(0.7)).prop_map(|(binding, is_made)| Op::Bind { binding, is_made }),
        2 => (0..EXCHANGES, prop::option::of(0..EXCHANGES)).prop_map(|(of, to)| Op::Alternate(of, to)),
        1 => (0..EXCHANGES).prop_map(Op::Delete),
        1 => (0..EXCHANGES, 0..KINDS.len()).prop_map(|(of, kind)| Op::Declare(of, kind)),
    ]
}

/// Does an operation, if it is allowed.
fn act(catalog: &mut Catalog, op: &Op) {
    let command = match op.clone() {
        Op::Bind { binding, is_made: true } => Command::Bind(binding, Caller::Management),
        Op::Bind { binding, is_made: false } => Command::Unbind(binding, Caller::Management),
        Op::Alternate(of, Some(to)) => {
            let definition = [("alternate-exchange", Value::from(&*exchange(to)))];
            policy(&format!("p{of}"), false, &format!("^x{of}$"), 0, &definition)
        }
        Op::Alternate(of, None) => clear(&format!("p{of}"), false),
        Op::Delete(n) => Command::DeleteExchange { vhost: "/".into(), name: exchange(n), if_unused: false },
        Op::Declare(n, kind) => Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: exchange(n),
            kind: KINDS[kind].into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::new(),
        }),
    };
    if let Ok(decision) = decide(catalog, command) {
        decision.changes.iter().for_each(|change| catalog.apply(change));
    }
}

fn names(routed: Routed) -> (Vec<RouteTarget>, Vec<Arc<str>>) {
    let mut histories: Vec<_> = routed.histories.iter().map(|exchange| exchange.name.clone()).collect();
    histories.sort();
    (routed.targets.to_vec(), histories)
}

proptest! {
    /// A search finds the route of the moment at which it began, whatever changes between its parts.
    #[test]
    fn a_search_in_parts_finds_the_route_of_its_beginning(
        kinds in vec(0..KINDS.len(), EXCHANGES),
        before in vec(op(), 0..60),
        parts in vec((vec(op(), 0..4), 1..6u64), 1..40),
        keys in vec(prop::sample::select(&["a", "b", "a.b", "b.b", "a.c.b"][..]), 1..5),
        header in prop::option::of(0..3i32),
        random: u64,
    ) {
        let mut catalog = Catalog::default();
        (0..QUEUES).for_each(|n| _ = run(&mut catalog, queue(&format!("q{n}"), &[])));
        kinds.iter().enumerate().for_each(|(n, kind)| act(&mut catalog, &Op::Declare(n, *kind)));
        before.iter().for_each(|op| act(&mut catalog, op));
        let keys: Vec<Arc<str>> = keys.into_iter().map(Arc::from).collect();
        let mut list = BytesMut::new();
        let mut table = BytesMut::new();
        let mut headers = amqp091::TableWriter::new(&mut table);
        if let Some(value) = header {
            headers.put("h", &amqp091::Value::I32(value));
        }
        drop(headers);
        let headers = amqp091::Table::parse(&table[4..]).ok();
        amqp091::Properties { headers, ..amqp091::Properties::default() }.put(&mut list);
        let routable = Routable::of_properties(&keys, &list, random);
        let expected = catalog.route("/", "x0", &routable).map(names);
        let search = catalog.search(&"/".into(), "x0");
        prop_assert_eq!(search.is_some(), expected.is_some());
        let (Some(mut search), Some(expected)) = (search, expected) else { return Ok(()) };
        let mut found = None;
        for (changes, steps) in parts.into_iter().chain(std::iter::repeat_with(|| (Vec::new(), 1))).take(10_000) {
            changes.iter().for_each(|op| act(&mut catalog, op));
            let taken;
            (found, taken) = search.go_on(&catalog, &routable, steps);
            if found.is_some() {
                break;
            }
            prop_assert!(taken >= steps, "a search pauses only if its steps are used up");
        }
        prop_assert_eq!(found.map(names), Some(expected));
    }

    /// With a limit, a route is the same or is not found at all, and it takes few more steps than that.
    #[test]
    fn a_route_within_a_limit_is_the_whole_route(
        kinds in vec(0..KINDS.len(), EXCHANGES),
        before in vec(op(), 0..60),
        limit in 0..60u64,
        random: u64,
    ) {
        let mut catalog = Catalog::default();
        (0..QUEUES).for_each(|n| _ = run(&mut catalog, queue(&format!("q{n}"), &[])));
        kinds.iter().enumerate().for_each(|(n, kind)| act(&mut catalog, &Op::Declare(n, *kind)));
        before.iter().for_each(|op| act(&mut catalog, op));
        let keys: [Arc<str>; 3] = ["a".into(), "a.b".into(), "b".into()];
        let routable = Routable { keys: &keys, random, ..Routable::default() };
        let whole = catalog.route("/", "x0", &routable);
        match (catalog.route_within("/", "x0", &routable, limit), whole) {
            (Ok(within), Some(whole)) => prop_assert_eq!(names(within), names(whole)),
            (Err(Unrouted::TooLong { steps }), Some(whole)) => {
                prop_assert!(whole.steps >= limit && steps >= limit, "{} of {limit} steps", whole.steps);
            }
            (within, whole) => {
                prop_assert!(whole.is_none() && within.err() == Some(Unrouted::NoExchange));
            }
        }
    }
}

#[test]
fn a_search_does_not_see_what_is_bound_after_its_beginning() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("q0", &[]));
    act(&mut catalog, &Op::Declare(0, 2));
    let bind = |key: &str| {
        let (vhost, source, destination) = ("/".into(), exchange(0), Destination::Queue("q0".into()));
        let binding = Binding { vhost, source, destination, key: key.into(), arguments: Arguments::new() };
        Op::Bind { binding, is_made: true }
    };
    act(&mut catalog, &bind("a"));
    let keys: [Arc<str>; 1] = ["b".into()];
    let routable = Routable { keys: &keys, ..Routable::default() };
    let mut search = catalog.search(&"/".into(), "x0").unwrap();
    act(&mut catalog, &bind("b"));
    let found = search.go_on(&catalog, &routable, 100).0.expect("one key");
    assert!(found.targets.is_empty() && catalog.route("/", "x0", &routable).unwrap().targets.len() == 1);
    assert!(catalog.search(&"/".into(), "none").is_none() && catalog.search(&"none".into(), "x0").is_none());
}
