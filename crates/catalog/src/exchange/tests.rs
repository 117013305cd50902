//! Tests each exchange type against its definition.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use amqp10::encode::{put_descriptor, put_value};
use amqp10::{Map, Symbol, Value, descriptor};
use amqp091::Value as Field;
use bytes::BytesMut;
use proptest::prelude::*;

use super::routable::Plain;
use super::*;

fn table(kind: ExchangeKind, arguments: &[(&str, Value)]) -> Table {
    let arguments = arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let id = ExchangeId { place: 0, since: 0 };
    Table::new(Arc::new(Exchange::new("/".into(), "x".into(), kind, arguments)), id)
}

fn binding(queue: &str, key: &str, arguments: &[(&str, Value)]) -> Arc<Binding> {
    Arc::new(Binding {
        vhost: "/".into(),
        source: "x".into(),
        destination: Destination::Queue(queue.into()),
        key: key.into(),
        arguments: arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
    })
}

fn section(code: u64, pairs: &[(&str, Value)]) -> BytesMut {
    let mut out = BytesMut::new();
    let key = |k: &str| match code {
        descriptor::MESSAGE_ANNOTATIONS => Value::Symbol(Symbol::from(k.to_owned())),
        _ => Value::String(k.to_owned()),
    };
    put_descriptor(&mut out, code);
    put_value(&mut out, &Value::Map(Map(pairs.iter().map(|(k, v)| (key(k), v.clone())).collect())));
    out
}

/// Returns the queues found, in their order, with repetitions.
fn routed(table: &Table, routable: Routable<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let end = table.routes().route(&Facts::new(routable, u64::MAX), 0, &mut |d| {
        let Destination::Queue(name) = d else { return };
        found.push(name.to_string());
    });
    assert_eq!(end, None);
    found
}

fn by_key(table: &Table, key: &str, random: u64) -> Vec<String> {
    routed(table, Routable { keys: &[key.into()], random, ..Routable::default() })
}

fn by_headers(table: &Table, annotations: &[(&str, Value)], properties: &[(&str, Value)]) -> Vec<String> {
    let annotations = section(descriptor::MESSAGE_ANNOTATIONS, annotations);
    let properties = section(descriptor::APPLICATION_PROPERTIES, properties);
    let routable =
        Routable { annotations: &annotations, application_properties: &properties, ..Routable::default() };
    routed(table, routable)
}

#[test]
fn headers_match_by_x_match() {
    let mut x = table(ExchangeKind::Headers, &[]);
    let (a, b) = (("a", Value::from("1")), ("b", Value::Int(2)));
    let own = ("x-own", Value::Boolean(true));
    for (queue, kind) in [
        ("all", Some("all")),
        ("any", Some("any")),
        ("allx", Some("all-with-x")),
        ("anyx", Some("any-with-x")),
    ] {
        let x_match = kind.map(|k| ("x-match", Value::from(k)));
        let arguments: Vec<_> = x_match.into_iter().chain([a.clone(), b.clone(), own.clone()]).collect();
        x.bind(binding(queue, "", &arguments));
    }
    x.bind(binding("default", "", &[a.clone(), b.clone()]));
    x.bind(binding("everything", "", &[]));
    x.bind(binding("nothing", "", &[("x-match", "any".into())]));
    x.bind(binding("present", "", &[("a", Value::Null)]));
    let got = |annotations: &[_], properties: &[_]| by_headers(&x, annotations, properties).join(" ");
    assert_eq!(got(&[], &[a.clone(), b.clone()]), "all any anyx default everything present");
    assert_eq!(
        got(std::slice::from_ref(&own), &[a.clone(), b.clone()]),
        "all any allx anyx default everything present"
    );
    assert_eq!(got(std::slice::from_ref(&own), &[]), "anyx everything");
    assert_eq!(got(&[], &[b.clone(), ("c", "1".into())]), "any anyx everything");
    assert_eq!(got(&[], &[("a", "other".into())]), "everything present");
    assert_eq!(routed(&x, Routable::default()), ["everything"], "a message without sections");
    for queue in ["all", "any", "allx", "anyx", "default", "everything", "nothing", "present"] {
        let binding =
            x.bindings.iter().find(|b| b.destination == Destination::Queue(queue.into())).unwrap().clone();
        x.unbind(&binding);
    }
    assert_eq!(by_headers(&x, &[], &[a, b]), Vec::<String>::new());
}

#[test]
fn headers_compare_by_value() {
    let same = |a: Value, b: Value| {
        let mut encoded = BytesMut::new();
        put_value(&mut encoded, &a);
        Plain::read(&encoded).unwrap() == Plain::of(&b)
    };
    assert!(same(Value::Ubyte(7), Value::Long(7)));
    assert!(same(Value::Double(7.0), Value::Int(7)) && same(Value::Int(7), Value::Float(7.0)));
    assert!(!same(Value::Double(7.5), Value::Int(7)));
    assert!(same(Value::Symbol("s".into()), Value::String("s".into())));
    assert!(same(Value::Timestamp(5), Value::Timestamp(5)) && same(Value::Timestamp(5), Value::Long(5)));
    assert!(!same(Value::Timestamp(5000), Value::Timestamp(5)));
    assert!(same(Value::Ulong(u64::MAX), Value::Ulong(u64::MAX)));
    assert!(!same(Value::Ulong(u64::MAX), Value::Long(-1)));
    assert!(!same(Value::String("1".into()), Value::Int(1)) && !same(Value::Boolean(true), Value::Int(1)));
    assert!(same(Value::Uuid([1; 16]), Value::Uuid([1; 16])));
    assert!(!same(Value::Double(f64::NAN), Value::Double(f64::NAN)));
}

fn some_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3i32).prop_map(Value::Int),
        (0..3u64).prop_map(Value::Ulong),
        (0..3u8).prop_map(|v| Value::Double(v.into())),
        any::<bool>().prop_map(Value::Boolean),
        "[ab]".prop_map(Value::String),
        Just(Value::Null),
    ]
}

fn some_pairs() -> impl Strategy<Value = BTreeMap<String, Value>> {
    let key = prop::sample::select(vec!["a", "b", "c", "x-a", "x-b"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, some_value(), 0..4)
}

/// Applies the definition of `headers`, one pair at a time.
fn naive_headers(kind: &str, wanted: &BTreeMap<String, Value>, message: &BTreeMap<String, Value>) -> bool {
    fn number(v: &Value) -> Option<f64> {
        if let Value::Double(f) = v { Some(*f) } else { v.as_i64().map(|i| i as f64) }
    }
    let counted: Vec<_> =
        wanted.iter().filter(|(k, _)| kind.ends_with("with-x") || !k.starts_with("x-")).collect();
    let hits = counted.iter().filter(|(key, value)| match message.get(*key) {
        None => false,
        Some(_) if **value == Value::Null => true,
        Some(found) => found == *value || (number(found).is_some() && number(found) == number(value)),
    });
    let hits = hits.count();
    if kind.starts_with("any") { hits > 0 } else { hits == counted.len() }
}

proptest! {
    #[test]
    fn headers_agree_with_the_definition(
        kind in prop::sample::select(vec!["all", "any", "all-with-x", "any-with-x"]),
        wanted in some_pairs(),
        message in some_pairs(),
    ) {
        let mut x = table(ExchangeKind::Headers, &[]);
        let mut arguments = vec![("x-match", Value::from(kind))];
        arguments.extend(wanted.iter().map(|(k, v)| (k.as_str(), v.clone())));
        x.bind(binding("q", "", &arguments));
        let all = message.iter().map(|(k, v)| (k.as_str(), v.clone()));
        let (annotations, properties): (Vec<_>, Vec<_>) = all.partition(|(k, _)| k.starts_with("x-"));
        let found = !by_headers(&x, &annotations, &properties).is_empty();
        prop_assert_eq!(found, naive_headers(kind, &wanted, &message));
    }

    /// Compares with the definition: one bucket for each unit of weight, laid out one by one.
    #[test]
    fn consistent_hash_agrees_with_the_definition(
        steps in prop::collection::vec((0..5u8, 1..6u64, any::<bool>()), 1..12),
        keys in prop::collection::vec("[a-z]{0,6}", 1..20),
    ) {
        let mut x = table(ExchangeKind::ConsistentHash, &[]);
        let mut bound: Vec<(String, u64)> = Vec::new();
        for (queue, weight, bind) in steps {
            let entry = (format!("q{queue}"), weight);
            let b = binding(&entry.0, &weight.to_string(), &[]);
            if bind {
                x.bind(b);
                if !bound.contains(&entry) {
                    bound.push(entry);
                }
            } else {
                x.unbind(&b);
                bound.retain(|e| *e != entry);
            }
        }
        let mut buckets: Vec<&str> = Vec::new();
        for (queue, weight) in &bound {
            if !buckets.contains(&queue.as_str()) {
                buckets.extend((0..*weight).map(|_| queue.as_str()));
            }
        }
        for key in keys {
            let mut hash = hash::Fnv::new();
            hash.write(key.as_bytes());
            let bucket = hash::jump(hash.finish(), buckets.len() as u64);
            let expected: Vec<_> = buckets.get(bucket as usize).map(|s| (*s).to_owned()).into_iter().collect();
            prop_assert_eq!(by_key(&x, &key, 0), expected);
        }
    }

    #[test]
    fn modulus_hash_is_one_of_the_sorted_bindings(
        mut queues in prop::collection::vec("[a-e]", 1..8),
        key in "[a-z]{0,6}",
        gone in any::<prop::sample::Index>(),
    ) {
        let mut x = table(ExchangeKind::ModulusHash, &[]);
        for (i, queue) in queues.iter().enumerate() {
            x.bind(binding(queue, &i.to_string(), &[]));
        }
        let at = gone.index(queues.len());
        x.unbind(&binding(&queues[at], &at.to_string(), &[]));
        queues.remove(at);
        queues.sort();
        let mut hash = hash::Fnv::new();
        hash.write(key.as_bytes());
        hash.write(&[0]);
        let expected = hash.finish().checked_rem(queues.len() as u64).map(|i| queues[i as usize].clone());
        prop_assert_eq!(by_key(&x, &key, 0), Vec::from_iter(expected));
        prop_assert_eq!(by_key(&x, &key, 0), by_key(&x, &key, 99), "the choice does not depend on the seed");
    }
}

#[test]
fn weights_share_the_keys() {
    let mut x = table(ExchangeKind::ConsistentHash, &[]);
    x.bind(binding("one", "1", &[]));
    x.bind(binding("three", "3", &[]));
    let ones = (0..4000).filter(|i| by_key(&x, &format!("key-{i}"), 0) == ["one"]).count();
    assert!((850..1150).contains(&ones), "{ones} of 4000 for a quarter of the weight");
    assert!(x.by_key_alone());
}

#[test]
fn consistent_hash_uses_a_header_or_a_property() {
    let hashed = |arguments: &[(&str, Value)], routable: &dyn Fn(u64) -> BytesMut, headers: bool| {
        let mut x = table(ExchangeKind::ConsistentHash, arguments);
        assert!(!x.by_key_alone());
        (0..10).for_each(|q| x.bind(binding(&format!("q{q}"), "10", &[])));
        let ask = |i: u64| {
            let section = routable(i);
            let (application_properties, properties) =
                if headers { (&section[..], &[][..]) } else { (&[][..], &section[..]) };
            let keys = [format!("{i}").into()];
            let mut found = routed(
                &x,
                Routable { keys: &keys, application_properties, properties, ..Routable::default() },
            );
            assert_eq!(found.len(), 1, "a message without the value has a destination too");
            found.remove(0)
        };
        (0..50).map(ask).collect::<std::collections::BTreeSet<_>>().len()
    };
    let header = |v: Value| section(descriptor::APPLICATION_PROPERTIES, &[("h", v)]);
    let on_header = [("hash-header", Value::from("h"))];
    assert!(hashed(&on_header, &|i| header(Value::Ulong(i)), true) > 5);
    assert_eq!(hashed(&on_header, &|_| header("same".into()), true), 1);
    assert_eq!(hashed(&on_header, &|_| BytesMut::new(), true), 1);
    let id = |v: Value| {
        let mut out = BytesMut::new();
        put_descriptor(&mut out, descriptor::PROPERTIES);
        put_value(&mut out, &Value::List(vec![v]));
        out
    };
    let on_id = [("hash-property", Value::from("message_id"))];
    assert!(hashed(&on_id, &|i| id(Value::String(format!("m{i}"))), false) > 5);
    assert_eq!(hashed(&on_id, &|_| id(Value::Null), false), 1);
}

/// Returns a property list of AMQP 0.9.1 with these headers.
fn basic(change: impl FnOnce(&mut amqp091::Properties<'_>), headers: &[(&str, Field<'_>)]) -> BytesMut {
    let (mut list, mut properties) = (BytesMut::new(), amqp091::Properties::default());
    change(&mut properties);
    properties.put_with_headers(&mut list, |out| {
        let mut table = amqp091::TableWriter::new(out);
        headers.iter().for_each(|(name, value)| table.put(name, value));
        Some(())
    });
    list
}

#[test]
fn headers_of_amqp091_are_compared() {
    let reached = |arguments: &[(&str, Value)], headers: &[(&str, Field<'_>)]| {
        let mut x = table(ExchangeKind::Headers, &[]);
        x.bind(binding("q", "", arguments));
        let list = basic(|_| {}, headers);
        !routed(&x, Routable::of_properties(&[], &list, 0)).is_empty()
    };
    for (wanted, header) in [
        (Value::from("s"), Field::LongString(b"s")),
        (Value::Int(7), Field::I64(7)),
        (Value::Boolean(true), Field::Bool(true)),
        (Value::Double(1.5), Field::F32(1.5)),
        (Value::Timestamp(7_000), Field::Timestamp(7)),
        (Value::Null, Field::Table(amqp091::Table::EMPTY)),
        (Value::Null, Field::Decimal { scale: 1, value: 2 }),
        (Value::List(Vec::new()), Field::Array(amqp091::Array::EMPTY)),
    ] {
        assert!(reached(&[("h", wanted.clone())], &[("h", header)]), "{wanted:?}");
        assert!(!reached(&[("h", wanted.clone())], &[("other", header)]), "{wanted:?}");
        assert!(!reached(&[("h", Value::from("else"))], &[("h", header)]), "{wanted:?}");
    }
    let x = [("x-h", Field::I32(1))];
    let with = |x_match: &str| [("x-match", Value::from(x_match)), ("x-h", Value::Int(1))];
    assert!(reached(&with("any-with-x"), &x) && reached(&with("all-with-x"), &x));
    assert!(!reached(&with("any"), &x));
}

#[test]
fn headers_are_found_by_their_text() {
    let all = [
        ("text", Value::from("DE")),
        ("symbol", Value::Symbol(Symbol::from("s"))),
        ("number", Value::Int(-7)),
        ("real", Value::Double(1.5)),
        ("flag", Value::Boolean(true)),
        ("null", Value::Null),
    ];
    let application_properties = section(descriptor::APPLICATION_PROPERTIES, &all);
    let amqp10 = Routable { application_properties: &application_properties, ..Routable::default() };
    let of_amqp091 = [
        ("text", Field::LongString(b"DE")),
        ("symbol", Field::Binary(b"s")),
        ("number", Field::I16(-7)),
        ("real", Field::F32(1.5)),
        ("flag", Field::Bool(true)),
        ("null", Field::Void),
        ("table", Field::Table(amqp091::Table::EMPTY)),
    ];
    let list = basic(|_| {}, &of_amqp091);
    for routable in [amqp10, Routable::of_properties(&[], &list, 0)] {
        let has = |wanted: &[(&str, &str)]| {
            let wanted: Vec<_> = wanted.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            has_headers(routable, &wanted)
        };
        for found in [("text", "DE"), ("symbol", "s"), ("number", "-7"), ("real", "1.5"), ("flag", "true")] {
            assert!(has(&[]) && has(&[found]) && has(&[("text", "DE"), found]), "{found:?}");
        }
        for other in [("text", "de"), ("number", "7"), ("number", "-07"), ("real", "x"), ("flag", "1")] {
            assert!(!has(&[other]) && !has(&[("text", "DE"), other]), "{other:?}");
        }
        assert!(!has(&[("null", "")]) && !has(&[("table", "")]) && !has(&[("none", "")]));
    }
}

#[test]
fn consistent_hash_uses_the_properties_of_amqp091() {
    let destinations = |on: (&str, &str), list: &dyn Fn(u64) -> BytesMut| {
        let mut x = table(ExchangeKind::ConsistentHash, &[(on.0, on.1.into())]);
        (0..10).for_each(|q| x.bind(binding(&format!("q{q}"), "10", &[])));
        let of = |n| routed(&x, Routable::of_properties(&[], &list(n), 0)).concat();
        (0..50).map(of).collect::<std::collections::BTreeSet<_>>().len()
    };
    let id = |n: u64| n.to_be_bytes();
    assert!(destinations(("hash-header", "h"), &|n| basic(|_| {}, &[("h", Field::I64(n as i64))])) > 5);
    assert_eq!(destinations(("hash-header", "h"), &|_| basic(|_| {}, &[])), 1);
    let with_id = |n: u64| {
        let mut list = BytesMut::new();
        amqp091::Properties { message_id: Some(&id(n)), ..Default::default() }.put(&mut list);
        list
    };
    assert!(destinations(("hash-property", "message_id"), &with_id) > 5);
    assert_eq!(destinations(("hash-property", "correlation_id"), &with_id), 1);
    assert!(destinations(("hash-property", "timestamp"), &|n| basic(|p| p.timestamp = Some(n), &[])) > 5);
}

/// Counts the steps of the most expensive type: each binding, and each of its arguments, is compared with the headers.
#[test]
fn the_steps_of_headers_are_bindings_times_arguments() {
    let mut x = table(ExchangeKind::Headers, &[]);
    for n in 0..200 {
        let queue = format!("q{n}");
        let absent =
            [("x-match", "any".into()), ("a", Value::Int(n)), ("b", Value::Int(n)), ("c", Value::Int(n))];
        x.bind(binding(&queue, "", &absent));
    }
    let list = basic(|_| {}, &[("a", Field::I32(-1)), ("d", Field::I32(7))]);
    let facts = Facts::new(Routable::of_properties(&[], &list, 0), u64::MAX);
    x.routes().route(&facts, 0, &mut |_| unreachable!());
    assert_eq!(facts.steps(), 200 + 200 * 3 + 2, "each binding, each argument, and the headers once");
    let long = "x".repeat(6_400);
    let list = basic(|_| {}, &[("a", Field::LongString(long.as_bytes()))]);
    let facts = Facts::new(Routable::of_properties(&[], &list, 0), u64::MAX);
    x.routes().route(&facts, 0, &mut |_| unreachable!());
    assert_eq!(facts.steps(), 200 + 200 * (3 + 100) + 1, "a long value counts by its length each time");
}

/// A list has a value in each byte, and each is decoded.
#[test]
fn the_values_of_a_list_count_more_than_the_bytes_of_a_text() {
    let mut x = table(ExchangeKind::Headers, &[]);
    let list = Value::List(vec![Value::Boolean(true); 1_600]);
    x.bind(binding("q", "", &[("a", list.clone())]));
    x.bind(binding("other", "", &[("a", Value::List(vec![Value::Null; 1_600]))]));
    let section = section(descriptor::APPLICATION_PROPERTIES, &[("a", list)]);
    let facts = Facts::new(Routable { application_properties: &section, ..Routable::default() }, u64::MAX);
    let mut found = 0;
    x.routes().route(&facts, 0, &mut |_| found += 1);
    assert_eq!(found, 1);
    assert_eq!(facts.steps(), 1 + 2 * (2 + 1_608 / 16), "the headers once, then each binding and the list");
}

#[test]
fn comparing_with_a_binding_copies_none_of_its_values() {
    let list = Value::List(vec![Value::Int(1); 10]);
    for value in [list.clone(), Value::Map(Map(vec![(Value::from("k"), list)])), Value::Uuid([1; 16])] {
        assert!(matches!(Plain::of(&value), Plain::Other(Cow::Borrowed(_))), "{value}");
    }
}

#[test]
fn too_many_bytes_of_headers_are_none() {
    let mut x = table(ExchangeKind::Headers, &[]);
    x.bind(binding("q", "", &[("a", Value::Int(1))]));
    let reached = |padding: usize| {
        let padding = "x".repeat(padding);
        let list = basic(|_| {}, &[("a", Field::I32(1)), ("b", Field::LongString(padding.as_bytes()))]);
        let facts = Facts::new(Routable::of_properties(&[], &list, 0), u64::MAX);
        let mut found = 0;
        x.routes().route(&facts, 0, &mut |_| found += 1);
        (list.len(), found)
    };
    let rest = reached(0).0;
    assert_eq!(reached(routable::HEADER_BYTES_MAX - rest), (routable::HEADER_BYTES_MAX, 1));
    assert_eq!(reached(routable::HEADER_BYTES_MAX - rest + 1).1, 0);
}

#[test]
fn random_choices_are_fair_and_depend_on_the_seed() {
    for kind in [ExchangeKind::Random, ExchangeKind::LocalRandom] {
        let mut x = table(kind, &[]);
        assert!(by_key(&x, "k", 1).is_empty() && !x.by_key_alone());
        for queue in ["a", "b", "c"] {
            x.bind(binding(queue, "", &[]));
        }
        let mut counts = BTreeMap::new();
        for random in 0..3000 {
            let found = by_key(&x, "k", random);
            assert_eq!(found, by_key(&x, "other", random));
            *counts.entry(found.concat()).or_insert(0) += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|n| (900..1100).contains(n)), "{counts:?}");
        x.unbind(&binding("a", "", &[]));
        assert!((0..100).all(|random| by_key(&x, "k", random) != ["a"]));
    }
}

#[test]
fn recent_history_is_a_fanout_that_remembers() {
    let mut x = table(ExchangeKind::RecentHistory, &[]);
    x.bind(binding("a", "1", &[]));
    x.bind(binding("a", "2", &[]));
    x.bind(binding("b", "", &[]));
    assert_eq!(by_key(&x, "k", 0), ["a", "b"]);
    x.unbind(&binding("a", "1", &[]));
    assert_eq!(by_key(&x, "k", 0), ["a", "b"], "another binding to the queue remains");
    let remembers = |value: Value| {
        let section = section(descriptor::APPLICATION_PROPERTIES, &[("x-recent-history-no-store", value)]);
        let routable = Routable { application_properties: &section, ..Routable::default() };
        x.exchange.remembers(&Facts::new(routable, u64::MAX))
    };
    assert!(remembers(Value::Boolean(false)) && !remembers(Value::Boolean(true)));
    assert!(!x.by_key_alone());
}

#[test]
fn invalid_declarations_are_refused() {
    let arguments = |pairs: &[(&str, &str)]| -> Arguments {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), Value::from(*v))).collect()
    };
    let hash = |pairs: &[_]| ExchangeKind::ConsistentHash.check_arguments("x", &arguments(pairs));
    assert!(hash(&[]).is_ok() && hash(&[("hash-property", "timestamp")]).is_ok());
    assert!(hash(&[("hash-property", "subject")]).is_err());
    assert!(hash(&[("hash-property", "timestamp"), ("hash-header", "h")]).is_err());
    let history = |n: Value| {
        let arguments = Arguments::from([("x-recent-history-length".to_owned(), n)]);
        ExchangeKind::RecentHistory.check_arguments("x", &arguments).is_ok()
    };
    assert!(history(Value::Int(1)) && !history(Value::Int(0)) && !history("9".into()));
    assert!(!history(Value::Int(10_001)));

    let may = |kind: ExchangeKind, key: &str, x_match: Option<Value>| {
        let x_match: Vec<_> = x_match.into_iter().map(|v| ("x-match", v)).collect();
        kind.check_binding(&binding("q", key, &x_match)).is_ok()
    };
    assert!(may(ExchangeKind::ConsistentHash, "1", None) && !may(ExchangeKind::ConsistentHash, "0", None));
    assert!(
        !may(ExchangeKind::ConsistentHash, "a", None) && !may(ExchangeKind::ConsistentHash, "1000001", None)
    );
    assert!(may(ExchangeKind::LocalRandom, "", None) && !may(ExchangeKind::LocalRandom, "k", None));
    assert!(may(ExchangeKind::Headers, "k", Some("any-with-x".into())));
    assert!(!may(ExchangeKind::Headers, "", Some("some".into())));
    assert!(!may(ExchangeKind::Headers, "", Some(Value::Int(1))));
    assert!(may(ExchangeKind::Topic, "#.a.#", None) && !may(ExchangeKind::Topic, "#.#.#", None));
}
