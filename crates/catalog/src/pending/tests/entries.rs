//! Entries are read as they were written, and bytes that are no entry are refused.

use amqp10::Value;
use bytes::BytesMut;
use queue::Ticket;

use super::*;
use crate::fields::ListWriter;
use crate::{Asker, Catalog, Entry, decode_change, decode_entry, encode_entry};

pub(super) fn encoded(asker: &Asker, changes: &[Change], answer: &Answer) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode_entry(asker, changes, answer, &mut out);
    out.to_vec()
}

fn asker() -> impl Strategy<Value = Asker> {
    let by = prop::option::of("[a-zäß]{0,4}").prop_map(|by| by.map(Arc::from));
    let ticket = prop::option::of(any::<u64>().prop_map(Ticket));
    let numbers = any::<[u64; 2]>();
    let fields = (any::<[u32; 2]>(), any::<u8>(), numbers, ticket, by);
    fields.prop_map(|([node, boot], shard, [number, low], ticket, by)| Asker {
        origin: Origin { node: NodeId(node), boot },
        shard,
        number,
        low,
        ticket,
        by,
    })
}

/// Returns the entries of commands that are carried out one after the other, and of the start of a node.
fn entries_of(steps: Vec<Step>, askers: &[Asker]) -> Vec<Entry> {
    let mut catalog = Catalog::default();
    let origin = Origin { node: NODES[1], boot: 3 };
    let start = (vec![Change::NodeStarted { node: 2, origin }], Answer::Done { changed: true });
    let mut decided = vec![start];
    for step in steps {
        let command = match step {
            Step::Command(command) => command,
            Step::Forget(vhost, name) => match catalog.listed_queue(vhost, name) {
                Some(queue) => Command::ForgetQueue { queue: queue.id },
                None => continue,
            },
            Step::Sync(_) => continue,
        };
        let Ok(mut decision) = catalog.decide(command, &mut catalog.queue_ids()) else { continue };
        if decision.changes.is_empty() {
            continue;
        }
        decision.declare_at(At { index: decided.len() as u64 + 1, node: 2 }, &catalog);
        decision.changes.iter().for_each(|change| catalog.apply(change));
        decided.push((decision.changes, decision.answer));
    }
    let all = decided.into_iter().zip(1..).zip(askers.iter().cycle());
    all.map(|(((changes, answer), index), asker)| Entry {
        index,
        asker: asker.clone(),
        changes: changes.into(),
        answer,
    })
    .collect()
}

/// A value of any type that stored lists have, and lists and maps of them.
fn value() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i64>().prop_map(Value::Long),
        prop::sample::select(&["", "/", "a", "^a", "topic", "headers", "x-max-length"][..])
            .prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Binary(bytes.into())),
    ];
    plain.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::vec((inner.clone(), inner), 0..3)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
        ]
    })
}

fn list(kind: u8, values: Vec<Value>) -> Vec<u8> {
    let mut out = BytesMut::new();
    values.into_iter().fold(ListWriter::new(kind), ListWriter::value).put(&mut out);
    out.to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_is_read_as_it_was_written(
        steps in steps(),
        askers in prop::collection::vec(asker(), 1..4),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        for entry in entries_of(steps, &askers) {
            let mut bytes = encoded(&entry.asker, &entry.changes, &entry.answer);
            prop_assert_eq!(decode_entry(entry.index, &bytes), Some(entry.clone()));
            for end in 0..bytes.len() {
                prop_assert_eq!(decode_entry(entry.index, &bytes[..end]), None, "{} of {} bytes", end, bytes.len());
            }
            for (at, byte) in &damage {
                let at = at % bytes.len();
                bytes[at] ^= byte;
            }
            _ = decode_entry(entry.index, &bytes);
        }
    }

    #[test]
    fn bytes_that_are_no_entry_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        _ = (decode_entry(1, &bytes), decode_change(&bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn values_of_other_types_do_no_harm(
        kind in 0..32_u8,
        fields in prop::collection::vec(value(), 0..12),
        head in prop::collection::vec(value(), 0..9),
    ) {
        let change = list(kind, fields);
        _ = (decode_change(&change), decode_entry(1, &change));
        let values = head.into_iter().chain([Value::Binary(change.into())]).collect();
        let values: Vec<_> = values;
        (1..=3).for_each(|format| _ = decode_entry(1, &list(format, values.clone())));
    }
}

/// The answer to a declaration is the queue that the entry declares. Without a declaration there is no such answer.
#[test]
fn the_answer_of_an_entry_must_fit_its_changes() {
    let head = |kind: Value| {
        let origin = Value::List(vec![Value::Uint(1), Value::Uint(2)]);
        vec![origin, Value::Ubyte(3), Value::Null, Value::Null, kind, Value::Boolean(true)]
    };
    let numbered = |low: Value| [head(Value::Ubyte(2)), vec![Value::Ulong(5), low]].concat();
    let decoded = |format, kind| decode_entry(1, &list(format, head(kind)));
    let done = decoded(1, Value::Ubyte(2)).expect("an entry without changes");
    assert_eq!((done.answer, done.changes.len(), done.asker.shard), (Answer::Done { changed: true }, 0, 3));
    assert_eq!(decoded(1, Value::Ubyte(1)), None, "no queue");
    assert_eq!(decoded(1, Value::Ubyte(4)), None, "no kind of answer");
    assert_eq!(decoded(1, Value::Uint(256 + 2)), None, "no kind of answer");
    assert_eq!((done.asker.number, done.asker.low), (0, 0), "format 1 has no numbers");
    assert_eq!(decoded(2, Value::Ubyte(2)), None, "no numbers");
    let done = decode_entry(1, &list(2, numbered(Value::Ulong(4)))).expect("an entry without changes");
    assert_eq!((done.asker.number, done.asker.low), (5, 4));
    assert_eq!(decode_entry(1, &list(2, numbered(Value::Null))), None, "no number");
    assert_eq!(decode_entry(1, &list(3, numbered(Value::Ulong(4)))), None, "a later format");
}
