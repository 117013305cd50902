//! Checks that the scope of a filter only saves work: it does not change which messages are delivered.

use message::{Dialect, Filter, SqlFilter};
use proptest::prelude::*;

use super::*;

fn filter(text: &str) -> Filter {
    let parsed = SqlFilter::parse(text, Dialect::Selector);
    Filter::Sql(parsed.unwrap_or_else(|error| panic!("{text}: {error}")))
}

#[test]
fn a_filter_determines_the_start_and_the_chunks() {
    let of = |text: &str| {
        let Replay { start, bloom, matching } = Replay::matching(filter(text));
        assert_eq!(matching.as_deref(), Some(&filter(text)));
        (start, bloom.map(|bloom| (bloom.values.len(), bloom.unfiltered)))
    };
    assert_eq!(of("a = 1"), (Start::Next, None));
    assert_eq!(of("\"x-stream-offset\" >= 0"), (Start::Offset(0), None));
    assert_eq!(of("\"x-stream-timestamp\" > 5 AND a = 1"), (Start::Time(6), None));
    assert_eq!(of("\"x-stream-timestamp\" > 5 AND \"x-stream-offset\" > 7"), (Start::Offset(8), None));
    let values = "(\"x-stream-filter-value\" IN ('a', 'b') OR \"x-stream-filter-value\" IS NULL)";
    assert_eq!(of(values), (Start::Next, Some((2, true))));
}

#[test]
fn chunks_out_of_scope_are_not_read() {
    let mut world = World::new();
    for value in [1, 2, 1, 2, 1, 2, 1, 2] {
        world.publish(2, value);
        world.settle();
    }
    world
        .attach(1, Replay::matching(filter("\"x-stream-offset\" >= 11 AND \"x-stream-filter-value\" = '2'")));
    world.settle();
    world.grant(1, 100, false);
    let load = world.loads[0].clone();
    assert_eq!(load.from, LoadFrom::Offset(11));
    let read = world.disk.read(&load, usize::MAX);
    assert_eq!(read.chunks.iter().map(|chunk| chunk.first).collect::<Vec<_>>(), [10, 14]);
    world.settle();
    assert_eq!(world.got[&1].offsets, [11, 14, 15]);
}

/// Generates selectors on offsets, times, filter values and other properties.
fn selector() -> impl Strategy<Value = String> {
    let operator = || proptest::sample::select(&["=", "<>", "<", "<=", ">", ">="][..]);
    let number =
        || prop_oneof![(-2..24i32).prop_map(|n| n.to_string()), (0..24u32).prop_map(|n| format!("{n}.5"))];
    let time = || (0..30u32).prop_map(|n| (n * 500).to_string());
    let leaf = prop_oneof![
        4 => (operator(), number()).prop_map(|(o, n)| format!("\"x-stream-offset\" {o} {n}")),
        1 => (operator(), number()).prop_map(|(o, n)| format!("{n} {o} \"x-stream-offset\"")),
        1 => (number(), number()).prop_map(|(a, b)| format!("\"x-stream-offset\" BETWEEN {a} AND {b}")),
        2 => (operator(), time()).prop_map(|(o, t)| format!("\"x-stream-timestamp\" {o} {t}")),
        2 => (0..4u8).prop_map(|v| format!("\"x-stream-filter-value\" = '{v}'")),
        1 => (0..4u8).prop_map(|v| format!("\"x-stream-filter-value\" <> '{v}'")),
        1 => (0..4u8, 0..4u8).prop_map(|(a, b)| format!("\"x-stream-filter-value\" IN ('{a}', '{b}')")),
        1 => Just("\"x-stream-filter-value\" IS NULL".to_owned()),
        1 => Just("JMSPriority = 4".to_owned()),
    ];
    leaf.prop_recursive(4, 8, 2, |inner| {
        prop_oneof![
            4 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            1 => inner.prop_map(|a| format!("(NOT {a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks that reading within the scope of a filter delivers the same as filtering the whole stream, both
    /// for written messages and for later ones.
    #[test]
    fn reading_in_scope_misses_no_message(
        selector in selector(),
        chunks in proptest::collection::vec((1..4u64, 0..4u8), 0..8),
        later in proptest::collection::vec((1..4u64, 0..4u8), 0..4),
    ) {
        let mut world = World::new();
        let publish = |world: &mut World, chunks: Vec<(u64, u8)>| {
            for (n, value) in chunks {
                world.publish(n, value);
                world.settle();
            }
        };
        publish(&mut world, chunks);
        let whole = Replay { start: Start::First, bloom: None, ..Replay::matching(filter(&selector)) };
        let mut within = Replay::matching(filter(&selector));
        if within.start == Start::Next {
            // The filter does not limit the start, so this reader starts at the first message, too.
            within.start = Start::First;
        }
        world.attach(1, whole);
        world.attach(2, within);
        for consumer in [1, 2] {
            world.grant(consumer, 1000, false);
        }
        world.settle();
        publish(&mut world, later);
        prop_assert_eq!(&world.got[&1].offsets, &world.got[&2].offsets);
    }
}
