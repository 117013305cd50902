use amqp10::{Described, Symbol};
use proptest::prelude::*;

use super::*;

const NOW_MS: u64 = 1_700_000_000_000;

fn symbol(text: &str) -> Value {
    Value::Symbol(Symbol::from(text.to_owned()))
}

/// Returns a filter whose name does not matter.
fn filter(descriptor: impl Into<Value>, value: impl Into<Value>) -> (Value, Value) {
    named("f", descriptor, value)
}

fn named(name: &str, descriptor: impl Into<Value>, value: impl Into<Value>) -> (Value, Value) {
    (symbol(name), Described { descriptor: descriptor.into(), value: value.into() }.into())
}

fn offset(value: impl Into<Value>) -> (Value, Value) {
    filter(symbol("rabbitmq:stream-offset-spec"), value)
}

fn subject(value: &str) -> (Value, Value) {
    let fields: Map = [(Symbol::from_static("subject"), value)].into_iter().collect();
    filter(0x173u64, fields)
}

fn application(value: u32) -> (Value, Value) {
    let fields: Map = [("k", value)].into_iter().collect();
    filter(0x174u64, fields)
}

fn sql(text: &str) -> (Value, Value) {
    named("sql-filter", 0x120u64, text)
}

fn selector(text: &str) -> (Value, Value) {
    named("jms-selector", symbol("apache.org:selector-filter:string"), text)
}

fn take(filters: &[(Value, Value)]) -> Accepted {
    accept(Some(&Map(filters.to_vec())), NOW_MS).unwrap()
}

/// Asserts that exactly the filters at `places` are accepted, as they were written. Returns the
/// resulting replay.
#[track_caller]
fn accepts(filters: &[(Value, Value)], places: &[usize]) -> Replay {
    let accepted = take(filters);
    let expected: Vec<_> = places.iter().map(|place| filters[*place].clone()).collect();
    assert_eq!(accepted.filters, Some(Map(expected)).filter(|map| !map.is_empty()));
    accepted.replay
}

#[test]
fn without_filters_a_consumer_starts_at_the_end() {
    for asked in [None, Some(&Map::new())] {
        let Accepted { replay, filters, left_out } = accept(asked, NOW_MS).unwrap();
        assert_eq!(left_out, []);
        assert_eq!((replay.start, replay.bloom, replay.matching, filters), (Start::Next, None, None, None));
    }
}

#[test]
fn every_form_of_an_offset_is_read() {
    let minute = Start::Time(NOW_MS - 60_000);
    let cases = [
        (Value::from("first"), Start::First),
        ("last".into(), Start::Last),
        ("next".into(), Start::Next),
        (symbol("first"), Start::First),
        ("1m".into(), minute),
        (symbol("60s"), minute),
        ("2h".into(), Start::Time(NOW_MS - 2 * 3_600_000)),
        ("3D".into(), Start::Time(NOW_MS - 3 * 86_400_000)),
        ("1M".into(), Start::Time(NOW_MS - 30 * 86_400_000)),
        ("1Y".into(), Start::Time(NOW_MS - 365 * 86_400_000)),
        ("500Y".into(), Start::Time(0)),
        (Value::Timestamp(123_456), Start::Time(123_456)),
        (Value::Timestamp(-1), Start::Time(0)),
        (Value::Ubyte(0), Start::Offset(0)),
        (Value::Uint(7), Start::Offset(7)),
        (Value::Long(7), Start::Offset(7)),
        (Value::Ulong(u64::MAX), Start::Offset(u64::MAX)),
    ];
    for (value, expected) in cases {
        assert_eq!(accepts(&[offset(value.clone())], &[0]).start, expected, "{value:?}");
    }
}

#[test]
fn an_offset_of_the_wrong_type_is_left_out() {
    for value in
        [Value::Int(-1), Value::Boolean(true), Value::Null, Value::Double(1.0), Value::List(Vec::new())]
    {
        assert_eq!(accepts(&[offset(value.clone())], &[]).start, Start::Next, "{value:?}");
    }
}

#[test]
fn an_offset_that_cannot_be_read_refuses_the_consumer() {
    for text in ["", "First", "0s", "10", "m", "10 m", "-1h", "1w", "tomorrow", "99999999999999999999Y"] {
        let error = accept(Some(&Map(vec![offset(text)])), NOW_MS).unwrap_err();
        assert_eq!(error, Unreadable::Offset(text.to_owned()));
    }
    let error = Unreadable::Offset("tomorrow".to_owned()).to_error("s", "/");
    assert_eq!(error.condition, condition::PRECONDITION_FAILED);
    assert_eq!(
        error.description.as_deref(),
        Some(
            "failed consuming from stream 's' in vhost '/': \
             offset 'tomorrow' is not first, last, next or a span such as 10m (of Y M D h m s)"
        )
    );
}

#[test]
fn of_two_offsets_the_first_counts_and_both_are_accepted() {
    assert_eq!(accepts(&[offset("first"), offset("last")], &[0, 1]).start, Start::First);
    assert_eq!(accepts(&[offset("first"), offset("tomorrow")], &[0, 1]).start, Start::First);
    assert_eq!(accepts(&[offset(Value::Null), offset("last")], &[1]).start, Start::Last);
    assert!(accept(Some(&Map(vec![offset("tomorrow"), offset("first")])), NOW_MS).is_err());
}

#[test]
fn bloom_filters_of_many_values_take_what_is_counted_or_are_refused() {
    let of = |count: usize, text: &str| {
        filter(symbol("rabbitmq:stream-filter"), Value::List(vec![text.into(); count]))
    };
    let bytes = |asked: (Value, Value)| accepts(&[asked], &[0]).filter_bytes();
    assert_eq!(bytes(of(1024, "abc")), 1024 * (16 + 8));
    assert_eq!(bytes(of(2, &"x".repeat(100))), 2 * (16 + 100));
    assert_eq!(bytes(of(50_000, "")), 0, "empty ones are not kept");
    let refused = accept(Some(&Map(vec![of(1025, "abc")])), NOW_MS).unwrap_err();
    assert_eq!(refused, Unreadable::Values);
    let error = refused.to_error("s", "/");
    assert_eq!(error.condition, Symbol::from_static("amqp:invalid-field"));
    assert!(error.description.unwrap().contains("at most 1024 values"));
    assert_eq!(bytes_of_two(of(2, "abc"), of(1025, "abc")), 2 * (16 + 8), "the first one counts");
}

fn bytes_of_two(first: (Value, Value), second: (Value, Value)) -> usize {
    accepts(&[first, second], &[0, 1]).filter_bytes()
}

#[test]
fn bloom_filters_are_read() {
    let values = |value: Value| filter(symbol("rabbitmq:stream-filter"), value);
    let unfiltered = |value: bool| filter(symbol("rabbitmq:stream-match-unfiltered"), value);
    let bloom = |words: &[&str], unfiltered| {
        let values = words.iter().map(|word| word.as_bytes().into()).collect();
        Some(Arc::new(BloomFilter { values, unfiltered }))
    };
    let list = |items: &[Value]| Value::List(items.to_vec());

    assert_eq!(accepts(&[values("a".into())], &[0]).bloom, bloom(&["a"], false));
    assert_eq!(accepts(&[values(list(&["a".into(), "b".into()]))], &[0]).bloom, bloom(&["a", "b"], false));
    assert_eq!(accepts(&[values(list(&[1u32.into(), "b".into()]))], &[0]).bloom, bloom(&["b"], false));
    assert_eq!(accepts(&[values("a".into()), unfiltered(true)], &[0, 1]).bloom, bloom(&["a"], true));
    assert_eq!(accepts(&[unfiltered(false), values("a".into())], &[0, 1]).bloom, bloom(&["a"], false));
    assert_eq!(accepts(&[values("a".into()), values("b".into())], &[0, 1]).bloom, bloom(&["a"], false));
    assert_eq!(accepts(&[unfiltered(true)], &[0]).bloom, None, "it has no effect alone");
    for wrong in [symbol("a"), Value::Null, Value::Uint(1)] {
        assert_eq!(accepts(&[values(wrong)], &[]).bloom, None);
    }
    let no_boolean = filter(symbol("rabbitmq:stream-match-unfiltered"), "true");
    assert_eq!(accepts(&[values("a".into()), no_boolean], &[0]).bloom, bloom(&["a"], false));
}

/// Returns the filter of fields that these filters make together.
fn fields(filters: &[(Value, Value)]) -> Filter {
    let mut expected = FieldFilter::default();
    for (_, filter) in filters {
        let Value::Described(described) = filter else { panic!("a described value") };
        let Value::Map(map) = &described.value else { panic!("a map") };
        if described.descriptor == Value::Ulong(0x173) {
            expected.add_properties(map).unwrap();
        } else {
            expected.add_application_properties(map).unwrap();
        }
    }
    Filter::Fields(expected)
}

#[test]
fn filters_of_both_sections_are_combined() {
    let both = [subject("a"), application(1)];
    assert_eq!(accepts(&both[..1], &[0]).matching.as_deref(), Some(&fields(&both[..1])));
    assert_eq!(accepts(&both[1..], &[0]).matching.as_deref(), Some(&fields(&both[1..])));
    assert_eq!(accepts(&both, &[0, 1]).matching.as_deref(), Some(&fields(&both)));
    let more = [subject("a"), application(1), subject("b"), application(2)];
    assert_eq!(accepts(&more, &[2, 3]).matching.as_deref(), Some(&fields(&more[2..])));
    let wrong = [subject("a"), subject("&wrong")];
    assert_eq!(
        accepts(&wrong, &[0]).matching.as_deref(),
        Some(&fields(&wrong[..1])),
        "the valid filter is in effect"
    );
}

#[test]
fn an_invalid_filter_of_fields_is_left_out() {
    let many: Map = (0..17).map(|i| (format!("k{i}"), 1u32)).collect();
    for value in
        [Value::from(Map::new()), many.into(), Value::Null, "subject".into(), Value::List(Vec::new())]
    {
        assert_eq!(accepts(&[filter(0x174u64, value)], &[]).matching, None);
    }
}

#[test]
fn an_expression_is_known_by_its_descriptor() {
    let expected = Filter::Sql(SqlFilter::parse("a = 1", Dialect::Filter).unwrap());
    assert_eq!(accepts(&[sql("a = 1")], &[0]).matching.as_deref(), Some(&expected));
    for name in ["sql-filter", "f", ""] {
        for descriptor in [symbol("amqp:sql-filter"), Value::Ulong(0x120)] {
            let expression = named(name, descriptor, "a = 1");
            assert_eq!(accepts(&[expression], &[0]).matching.as_deref(), Some(&expected), "{name}");
        }
    }
    for wrong in [
        named("sql-filter", 0x121u64, "a = 1"),
        named("sql-filter", symbol("amqp:sql"), "a = 1"),
        named("sql-filter", 0x120u64, symbol("a")),
        named("sql-filter", 0x120u64, Value::Null),
        sql("a ="),
        sql(""),
    ] {
        assert_eq!(accepts(&[wrong], &[]).matching, None);
    }
    let (_, subject_of_any_name) = subject("a");
    let by_name = [(symbol("sql-filter"), subject_of_any_name)];
    assert_eq!(accepts(&by_name, &[0]).matching.as_deref(), Some(&fields(&by_name)));
    let offset = named("sql-filter", symbol("rabbitmq:stream-offset-spec"), "first");
    assert_eq!(accepts(&[offset], &[0]).start, Start::First);
}

#[test]
fn fields_and_expressions_exclude_each_other() {
    let expression = SqlFilter::parse("a = 1", Dialect::Filter).unwrap();
    assert_eq!(
        accepts(&[subject("a"), sql("a = 1")], &[1]).matching.as_deref(),
        Some(&Filter::Sql(expression))
    );
    let last = [sql("a = 1"), subject("a")];
    assert_eq!(accepts(&last, &[1]).matching.as_deref(), Some(&fields(&last[1..])));
    let wrong = [subject("a"), sql("a =")];
    assert_eq!(accepts(&wrong, &[0]).matching.as_deref(), Some(&fields(&wrong[..1])));
}

#[test]
fn a_selector_sets_start_chunks_and_filter() {
    let text = "\"x-stream-offset\" >= 7 AND \"x-stream-filter-value\" IN ('a', 'b') AND k = 1";
    let filter = Filter::Sql(SqlFilter::parse(text, Dialect::Selector).unwrap());
    let values = |values: [&str; 2], unfiltered| BloomFilter {
        values: values.map(|value| value.as_bytes().into()).into(),
        unfiltered,
    };
    let by_number = named("any", 0x0000_468c_0000_0004u64, text);
    for selector in [selector(text), by_number] {
        let replay = accepts(&[selector], &[0]);
        assert_eq!(replay.start, Start::Offset(7));
        assert_eq!(replay.bloom.as_deref(), Some(&values(["a", "b"], false)));
        assert_eq!(replay.matching.as_deref(), Some(&filter));
    }
    assert_eq!(accepts(&[selector("k = 1")], &[0]).start, Start::Next);
    let chunks = filter_of_chunks(["b", "c"]);
    for said in [[selector(text), offset("first"), chunks.clone()], [offset("first"), chunks, selector(text)]]
    {
        let replay = accepts(&said, &[0, 1, 2]);
        assert_eq!(replay.start, Start::First, "the filter for the offset takes precedence");
        assert_eq!(replay.bloom.as_deref(), Some(&values(["b", "c"], false)));
        assert_eq!(replay.matching.as_deref(), Some(&filter));
    }
}

fn filter_of_chunks(values: [&str; 2]) -> (Value, Value) {
    filter(symbol("rabbitmq:stream-filter"), Value::List(values.map(Value::from).into()))
}

#[test]
fn a_selector_excludes_the_others() {
    let others = [subject("a"), application(1), sql("a = 1"), selector("a = 2")];
    for other in others {
        let replay = accepts(&[other.clone(), selector("a = 1")], &[1]);
        let expected = Filter::Sql(SqlFilter::parse("a = 1", Dialect::Selector).unwrap());
        assert_eq!(replay.matching.as_deref(), Some(&expected));
        accepts(&[selector("a = 1"), other], &[1]);
    }
}

#[test]
fn a_selector_that_cannot_be_read_refuses_the_consumer() {
    let refused = |filters: &[(Value, Value)]| accept(Some(&Map(filters.to_vec())), NOW_MS).unwrap_err();
    let error = refused(&[selector("a ="), offset("first")]).to_error("s", "/");
    assert_eq!(error.condition, condition::INVALID_FIELD);
    let reason = "failed consuming from stream 's' in vhost '/': the selector cannot be read: at byte 3: a value is needed";
    assert_eq!(error.description.as_deref(), Some(reason));
    assert!(matches!(refused(&[subject("a"), selector("a.b = 1")]), Unreadable::Selector(_)));
    accepts(&[selector("a ="), sql("a = 1")], &[1]);
}

#[test]
fn the_reason_for_leaving_a_filter_out_is_named() {
    let told = |filters: &[(Value, Value)]| {
        take(filters).left_out.iter().map(LeftOut::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(&[subject("a"), offset("first")]), [""; 0]);
    assert_eq!(
        told(&[sql("a ="), subject("&x"), offset(Value::Null)]),
        [
            "filter 'sql-filter' with expression 'a =' is left out: at byte 3: a value is needed",
            "filter 'f' is left out: the string for field 'subject' starts with '&' but not with '&p:', '&s:' or '&&'",
            "filter 'f' is left out: its value has the wrong type",
        ]
    );
    assert_eq!(
        told(&[
            sql("a = 1"),
            (symbol("g"), Value::from("x")),
            named("h", symbol("no:such"), "y"),
            subject("a")
        ]),
        [
            "filter 'sql-filter' with expression 'a = 1' is left out: it cannot be combined with another filter that is in effect",
            "filter 'g' is left out: its name is not a symbol, or its value is not described",
            "filter 'h' with expression 'y' is left out: descriptor 'no:such' is unknown",
        ]
    );
    let many = vec![sql("\u{1b}"); LEFT_OUT_MAX + 1];
    let told = told(&many);
    assert_eq!(told.len(), LEFT_OUT_MAX);
    assert!(told[0].starts_with("filter 'sql-filter' with expression '\\u{1b}' is left out: "), "{told:?}");
}

#[test]
fn every_filter_of_a_classic_queue_is_left_out() {
    assert_eq!(leave_out(None), []);
    let told: Vec<_> = leave_out(Some(&Map(vec![sql("a = 1")]))).iter().map(LeftOut::to_string).collect();
    assert_eq!(told, ["filter 'sql-filter' with expression 'a = 1' is left out: the queue is not a stream"]);
}

#[test]
fn descriptors_may_be_symbols() {
    let map: Map = [(Symbol::from_static("subject"), "a")].into_iter().collect();
    let by_symbol = filter(symbol("amqp:properties-filter"), map);
    assert_eq!(accepts(&[by_symbol], &[0]).matching.as_deref(), Some(&fields(&[subject("a")])));
    let map: Map = [("k", 1u32)].into_iter().collect();
    let by_symbol = filter(symbol("amqp:application-properties-filter"), map);
    assert_eq!(accepts(&[by_symbol], &[0]).matching.as_deref(), Some(&fields(&[application(1)])));
}

#[test]
fn unknown_filters_are_left_out() {
    let unknown = [
        // This filter is not a described value. Old clients used this form.
        (symbol("rabbitmq:stream-offset-spec"), Value::from("first")),
        (symbol("rabbitmq:stream-filter"), Value::from("a")),
        (symbol("sql-filter"), Value::from("a = 1")),
        // The key of this filter is not a symbol.
        (Value::from("f"), offset("first").1),
        (symbol("jms-selector"), Value::from("a = 1")),
        named("jms-selector", symbol("apache.org:selector-filter:string"), symbol("a = 1")),
        named("jms-selector", 0x0000_468c_0000_0003u64, "a = 1"),
        named("no-local", symbol("apache.org:no-local-filter:list"), Value::List(Vec::new())),
        filter("amqp:properties-filter", Map::new()),
        filter(0x173u32, Map::new()),
        filter(Value::Null, Value::Null),
    ];
    let replay = accepts(&unknown, &[]);
    assert_eq!((replay.start, replay.bloom, replay.matching), (Start::Next, None, None));
    let mut among = unknown.to_vec();
    among.insert(4, offset("first"));
    among.push(sql("a = 1"));
    assert_eq!(accepts(&among, &[4, unknown.len() + 1]).start, Start::First);
}

proptest! {
    /// Checks that the accepted filters, sent again alone, are all accepted and have the same effect.
    #[test]
    fn accepted_filters_are_accepted_again(picks in proptest::collection::vec(0usize..11, 0..8)) {
        let all = [
            offset("first"),
            offset(5u32),
            offset(Value::Null),
            filter(symbol("rabbitmq:stream-filter"), "a"),
            filter(symbol("rabbitmq:stream-match-unfiltered"), true),
            subject("a"),
            subject("&wrong"),
            application(1),
            sql("a = 1"),
            sql("a ="),
            selector("\"x-stream-offset\" > 5"),
        ];
        let asked: Vec<_> = picks.iter().map(|pick| all[*pick].clone()).collect();
        let first = take(&asked);
        let again = accept(first.filters.as_ref(), NOW_MS).unwrap();
        prop_assert_eq!(&again.filters, &first.filters);
        prop_assert_eq!(again.replay.start, first.replay.start);
        prop_assert_eq!(again.replay.bloom, first.replay.bloom);
        prop_assert_eq!(again.replay.matching, first.replay.matching);
    }
}
