//! The memory of the filters of a consumer of a stream.

use message::{Dialect, Filter, SQL_CHARS_MAX, SqlFilter};
use queue::Replay;

use crate::counting::{ALLOCATIONS, BYTES};

/// The least bytes of memory that an allocation takes.
const ALLOCATION_MIN: isize = 8;

/// More bytes than the counters of shared values take, which nobody counts: two for each filter, and two for the values.
const COUNTERS: isize = 100;

/// Checks that the filters of a replay count what the allocator gives for them.
fn check(what: &str, read: impl FnOnce() -> Filter) {
    let (before, allocations) = (BYTES.get(), ALLOCATIONS.get());
    let replay = Replay::matching(read());
    let taken = BYTES.get() - before;
    let small = (ALLOCATIONS.get() - allocations) as isize * ALLOCATION_MIN;
    let counted = replay.filter_bytes() as isize;
    assert!(
        (taken - COUNTERS..=taken + small).contains(&counted),
        "{what}: {counted} bytes are counted, {taken} are taken"
    );
}

/// Returns as many repetitions of a part as an expression may have beside the given number of characters.
fn filled(part: &str, besides: usize) -> String {
    part.repeat((SQL_CHARS_MAX - besides) / part.chars().count())
}

#[test]
fn a_filter_counts_the_memory_that_it_takes() {
    let list: Vec<String> = (0..90).map(|number| format!("'{number}'")).collect();
    let names: Vec<String> = (0..40).map(|number| format!("a_name_of_a_property_{number} IS NULL")).collect();
    let wide = [
        format!("a LIKE '{}'", filled("_%", 20)),
        format!("a LIKE '{}'", filled("a%", 20)),
        format!("a LIKE '{}'", filled("_", 20)),
        format!("a LIKE '{}'", filled("\u{1f600}_", 20)),
        format!("a LIKE 'a%' ESCAPE 'b' AND b = '{}'", filled("x", 50)),
        format!("NOT ({})", names.join(" OR ")),
        format!("a IN ({})", list.join(", ")),
        "p.subject = 'x' AND -h.priority * 2 + 1 < 7 % 3 OR TRUE OR 0xAB = p.user_id".into(),
        "1".repeat(20) + " = 1.5 AND UTC() > a",
    ];
    for text in &wide {
        let read = || Filter::Sql(SqlFilter::parse(text, Dialect::Filter).expect("an expression"));
        check(text, read);
    }
    for text in [
        "a BETWEEN 1 AND 2 AND JMSType LIKE 'x_y%z%'".to_owned(),
        format!("\"x-stream-filter-value\" IN ({})", list.join(", ")),
    ] {
        check(&text, || Filter::Sql(SqlFilter::parse(&text, Dialect::Selector).expect("a selector")));
    }
}

/// The text of a filter is no measure of its memory.
#[test]
fn a_pattern_in_pieces_counts_as_them() {
    let text = format!("a LIKE '{}'", filled("_%", 20));
    let read = SqlFilter::parse(&text, Dialect::Filter).expect("an expression");
    let counted = Replay::matching(Filter::Sql(read)).filter_bytes();
    assert!((15 * text.len()..20 * text.len()).contains(&counted), "{counted} bytes for {}", text.len());
}
