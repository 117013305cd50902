//! Messages are read as they were written, and no bytes of another node do harm.

use broker::admin_api::{Churn, GroupRow, NodeTotals, PassedCounts, QueueNumbers, VhostNumbers};
use catalog::ids::{NodeId, Origin, QueueId};
use catalog::{Arguments, Catalog, DeclareQueue, KnownNode, ParameterKey};
use proptest::prelude::*;
use replica::{Base, Body, Change as MembersChange, Entry, Member, Payload, Position};

use super::rows::tests::{connection, looked_at, row_of_10};
use super::*;

fn command() -> impl Strategy<Value = Command> {
    let texts = || (".{0,8}", ".{0,8}");
    let plain = prop_oneof![
        (texts(), any::<i64>(), any::<bool>()).prop_map(|((vhost, name), length, durable)| {
            let arguments = [("x-max-length".to_owned(), length.into())].into();
            Command::DeclareQueue(DeclareQueue { durable, ..DeclareQueue::new(vhost, name, arguments) })
        }),
        any::<u64>().prop_map(|queue| Command::ForgetQueue { queue: QueueId(queue) }),
        (texts(), any::<bool>()).prop_map(|((vhost, name), if_unused)| Command::DeleteExchange {
            vhost: vhost.into(),
            name: name.into(),
            if_unused
        }),
        (any::<[u8; 16]>(), ".{0,8}")
            .prop_map(|(identity, name)| Command::AdmitNode(KnownNode { identity, name: name.into() })),
        any::<[u32; 3]>().prop_map(|[node, id, boot]| Command::StartNode {
            node,
            origin: Origin { node: NodeId(id), boot }
        }),
        any::<[u32; 2]>().prop_map(|[node, boot]| Command::LoseNode { node, boot }),
        (texts(), any::<bool>()).prop_map(|((name, value), sets)| {
            let key = ParameterKey::global(&name);
            match sets {
                true => Command::SetParameter { key, value: value.into() },
                false => Command::ClearParameter { key },
            }
        }),
    ];
    let plain = plain.boxed();
    prop_oneof![4 => plain.clone(), 1 => prop::collection::vec(plain, 0..4).prop_map(Command::Batch)]
}

fn member() -> impl Strategy<Value = Member> {
    any::<[u32; 2]>().prop_map(|[node, number]| Member { node, number })
}

fn position() -> impl Strategy<Value = Position> {
    any::<[u64; 2]>().prop_map(|[term, index]| Position { term, index })
}

/// Entries that follow each other in one term, as those of an append do.
fn entries(previous: Position, facts: &[Vec<u8>]) -> Vec<Entry> {
    let entry = |(number, facts): (u64, &Vec<u8>)| {
        let at = Position { term: previous.term, index: previous.index + number };
        let payload = match facts.len() {
            0 => Payload::Empty,
            1 => Payload::Change(MembersChange::Remove(Member { node: facts[0].into(), number: 1 })),
            _ => Payload::Facts(facts.clone().into()),
        };
        Entry { at, payload }
    };
    (1..).zip(facts).map(entry).collect()
}

fn raft() -> impl Strategy<Value = PeerMessage> {
    let facts = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4);
    let place =
        any::<[u32; 2]>().prop_map(|[term, index]| Position { term: term.into(), index: index.into() });
    let body = prop_oneof![
        (place, any::<u64>(), facts).prop_map(|(previous, commit, facts)| {
            Body::Append { previous, commit, entries: entries(previous, &facts) }
        }),
        any::<[u64; 2]>().prop_map(|[index, commit]| Body::Appended { index, commit }),
        (any::<[u64; 2]>(), position()).prop_map(|([index, commit], hint)| Body::AppendRefused {
            index,
            hint,
            commit
        }),
        any::<u64>().prop_map(|commit| Body::Ping { commit }),
        any::<u64>().prop_map(|commit| Body::Pong { commit }),
        (any::<[bool; 2]>(), position(), position()).prop_map(|([pre, transfer], last, commit)| {
            Body::VoteRequest { pre, last, commit, transfer }
        }),
        (any::<[bool; 2]>(), position()).prop_map(|([pre, granted], commit)| Body::VoteResponse {
            pre,
            granted,
            commit
        }),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|content| Body::InstallBase(Base::founding(&[1, 2, 3], content.into()))),
        Just(Body::TimeoutNow),
    ];
    (any::<[u64; 2]>(), member(), member(), body).prop_map(|([owner, term], from, to, body)| {
        PeerMessage::Raft { owner, message: Message { from, to, term, body } }
    })
}

fn propose() -> impl Strategy<Value = PeerMessage> {
    let by = prop::option::of("[a-zäß]{0,12}").prop_map(|by| by.map(Arc::from));
    (any::<u32>(), any::<[u64; 3]>(), any::<u8>(), by, command()).prop_map(
        |(boot, [term, number, low], shard, by, command)| {
            PeerMessage::Propose(Propose { term, boot, number, low, shard, by, command })
        },
    )
}

/// Returns the error of this kind. A new kind must be here, too.
fn error(kind: u8, reason: String) -> CatalogError {
    match kind {
        0 => CatalogError::NotFound { reason },
        1 => CatalogError::PreconditionFailed { reason },
        2 => CatalogError::Inequivalent { reason },
        3 => CatalogError::Forbidden { reason },
        4 => CatalogError::Denied { reason },
        5 => CatalogError::Locked { reason },
        6 => CatalogError::Invalid { reason },
        7 => CatalogError::LimitReached { reason },
        8 => CatalogError::Busy { reason },
        9 => CatalogError::Unavailable { reason },
        _ => CatalogError::OutcomeUnknown { reason },
    }
}

/// The number of kinds of errors without that of a batch.
const KINDS: u8 = 11;

fn declared(name: &str, length: u32) -> Arc<catalog::QueueRecord> {
    let arguments: Arguments = [("x-max-length".to_owned(), length.into())].into();
    let catalog = Catalog::default();
    let declare = Command::DeclareQueue(DeclareQueue::new("/", name, arguments));
    let decision = catalog.decide(declare, &mut catalog.queue_ids()).expect("a sound command");
    let Answer::Queue { record, .. } = decision.answer else { panic!("{:?}", decision.answer) };
    record
}

fn result() -> impl Strategy<Value = Result<Answer, CatalogError>> {
    prop_oneof![
        any::<bool>().prop_map(|changed| Ok(Answer::Done { changed })),
        any::<bool>().prop_map(|created| Ok(Answer::Set { created })),
        ("[a-zß]{1,9}", any::<u32>(), any::<bool>()).prop_map(|(name, length, created)| Ok(Answer::Queue {
            record: declared(&name, length),
            created
        })),
        (0..KINDS, ".{0,30}").prop_map(|(kind, reason)| Err(error(kind, reason))),
        (0..KINDS, ".{0,30}", any::<u32>()).prop_map(|(kind, reason, at)| {
            Err(CatalogError::InBatch { at: at as usize, error: Box::new(error(kind, reason)) })
        }),
    ]
}

fn answered(result: Result<Answer, CatalogError>) -> PeerMessage {
    PeerMessage::Answered(Answered { term: 4, boot: 1, number: 2, index: 3, result })
}

fn message() -> impl Strategy<Value = PeerMessage> {
    let answered = (any::<u32>(), any::<[u64; 3]>(), result());
    let answered = answered.prop_map(|(boot, [term, number, index], result)| {
        PeerMessage::Answered(Answered { term, boot, number, index, result })
    });
    let seat = prop::collection::vec(any::<u8>(), 0..50);
    let seat = seat.prop_map(|rest| PeerMessage::Seat([&[64], &rest[..]].concat().into()));
    let applied = (any::<u64>(), any::<bool>());
    let applied = applied.prop_map(|(index, asks)| PeerMessage::Applied { index, asks });
    let far = (any::<u32>(), any::<u64>(), any::<Option<u64>>());
    let far = far.prop_map(|(boot, number, index)| match index {
        Some(index) => PeerMessage::ThisFar { boot, number, index },
        None => PeerMessage::HowFar { boot, number },
    });
    prop_oneof![raft(), propose(), answered, applied, far, seat, look(), looked(), clients()]
}

fn clients() -> impl Strategy<Value = PeerMessage> {
    let name = || ".{0,8}".prop_map(Arc::from);
    let vhosts = prop::collection::vec((name(), any::<u32>()), 0..4);
    let users = prop::collection::vec((name(), any::<u32>(), any::<u32>()), 0..4);
    (vhosts, users).prop_map(|(vhosts, users)| PeerMessage::Clients(LimitedCounts { vhosts, users }))
}

fn look() -> impl Strategy<Value = PeerMessage> {
    let queues = prop::collection::vec(any::<u64>().prop_map(QueueId), 0..9);
    let names = prop::collection::vec(".{0,8}".prop_map(Arc::from), 0..4);
    let ask = prop_oneof![
        queues.prop_map(FarAsk::Reports),
        (names, any::<u32>()).prop_map(|(names, from)| FarAsk::Connections { names, from }),
        (".{0,8}", any::<u64>(), ".{0,8}").prop_map(|(name, connected_at_ms, reason)| FarAsk::Close {
            name: name.into(),
            connected_at_ms,
            reason: reason.into()
        }),
        Just(FarAsk::Totals),
        any::<u32>().prop_map(|from| FarAsk::Vhosts { from }),
    ];
    (any::<u32>(), any::<u64>(), ask)
        .prop_map(|(boot, number, ask)| PeerMessage::Look(FarLook { boot, number, ask }))
}

/// A count as a node sends it.
fn count() -> impl Strategy<Value = u64> {
    0..=1_u64 << 56
}

fn report() -> impl Strategy<Value = queue::Report> {
    let times = prop::option::of(any::<(u64, u64)>());
    let segments = prop::collection::vec(any::<u64>(), 0..4);
    let stream = (count(), count(), times, segments).prop_map(|(first, bytes, times_ms, segments)| {
        let (next, segments) = (first, segments.into());
        queue::Retained { first, next, bytes, times_ms, segments, closed_from: None }
    });
    (count(), count(), any::<u32>(), any::<bool>(), any::<Option<u64>>(), prop::option::of(stream)).prop_map(
        |(ready, delivered, consumers, damaged, head_at_ms, stream)| queue::Report {
            ready,
            delivered,
            consumers,
            damaged,
            head_at_ms,
            stream,
            ..queue::Report::default()
        },
    )
}

fn group() -> impl Strategy<Value = GroupRow> {
    (any::<bool>(), any::<bool>(), any::<u64>(), prop::array::uniform7(count())).prop_map(
        |(leads, rests, term, numbers)| {
            let [
                last_index,
                written_index,
                commit_index,
                applied_index,
                base_index,
                log_bytes,
                commit_latency_ms,
            ] = numbers;
            GroupRow {
                leads,
                rests,
                term,
                last_index,
                written_index,
                commit_index,
                applied_index,
                base_index,
                log_bytes,
                commit_latency_ms,
            }
        },
    )
}

fn depth() -> impl Strategy<Value = queue::Depth> {
    prop::array::uniform4(count()).prop_map(|[ready, unsettled, delayed, leaving]| queue::Depth {
        ready,
        unsettled,
        delayed,
        leaving,
    })
}

fn totals() -> impl Strategy<Value = NodeTotals> {
    (depth(), prop::array::uniform11(count())).prop_map(|(depth, numbers)| {
        let [connections, sessions, channels, consumers, rest @ ..] = numbers;
        let [connections_opened, connections_closed, channels_opened, channels_closed, rest @ ..] = rest;
        let [queues_declared, queues_created, queues_deleted] = rest;
        let passed = PassedCounts { received: consumers, get_empty: sessions, ..PassedCounts::default() };
        let churn = Churn {
            connections_opened,
            connections_closed,
            channels_opened,
            channels_closed,
            queues_declared,
            queues_created,
            queues_deleted,
        };
        NodeTotals { connections, sessions, channels, consumers, depth, passed, churn }
    })
}

fn vhost() -> impl Strategy<Value = FarVhost> {
    (".{0,8}", depth(), prop::array::uniform3(count())).prop_map(
        |(name, depth, [recv_bytes, send_bytes, received])| {
            let counts = PassedCounts { received, ..PassedCounts::default() };
            (name.into(), VhostNumbers { depth, recv_bytes, send_bytes, counts })
        },
    )
}

fn looked() -> impl Strategy<Value = PeerMessage> {
    let numbers =
        (report(), prop::option::of(group())).prop_map(|(report, group)| QueueNumbers { report, group });
    let row = (any::<u64>(), count(), prop::option::of(numbers));
    let row =
        row.prop_map(|(queue, delivered, numbers)| FarRow { queue: QueueId(queue), delivered, numbers });
    let connections = (prop::collection::vec(connection(), 0..3), any::<bool>());
    let rows = prop_oneof![
        prop::collection::vec(row, 0..4).prop_map(FarRows::Reports),
        connections.prop_map(|(rows, has_more)| FarRows::Connections { rows, has_more }),
        any::<bool>().prop_map(FarRows::Closed),
        totals().prop_map(|totals| FarRows::Totals(Box::new(totals))),
        (prop::collection::vec(vhost(), 0..3), any::<bool>())
            .prop_map(|(rows, has_more)| FarRows::Vhosts { rows, has_more }),
    ];
    let shard = (1..=u8::MAX).prop_flat_map(|shards| (0..shards, Just(shards)));
    (any::<(u32, u64)>(), shard, any::<bool>(), rows).prop_map(
        |((boot, number), (shard, shards), is_last, rows)| {
            PeerMessage::Looked(FarLooked { boot, number, shard, shards, is_last, rows })
        },
    )
}

/// Returns true if the message ends with something of any length: the reason of an error, the content of a base, entries, or a frame.
fn has_open_end(message: &PeerMessage) -> bool {
    match message {
        PeerMessage::Answered(answered) => answered.result.is_err(),
        PeerMessage::Raft { message, .. } => {
            matches!(message.body, Body::InstallBase(_) | Body::Append { .. })
        }
        PeerMessage::Seat(_) => true,
        PeerMessage::Propose(_)
        | PeerMessage::Applied { .. }
        | PeerMessage::HowFar { .. }
        | PeerMessage::Look(_)
        | PeerMessage::Looked(_)
        | PeerMessage::Clients(_)
        | PeerMessage::ThisFar { .. } => false,
    }
}

/// As the fuzz target does: what was read is the same when it is written and read again.
fn check(bytes: &[u8]) {
    let Some(message) = PeerMessage::decode(Bytes::copy_from_slice(bytes)) else { return };
    let written = message.encode();
    let again = PeerMessage::decode(written.clone()).expect("what was written can be read");
    // Numbers that are not equal to themselves have the same text.
    assert_eq!(format!("{again:?}"), format!("{message:?}"));
    assert_eq!(again.encode(), written);
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in message()) {
        let bytes = message.encode();
        prop_assert_eq!(PeerMessage::decode(bytes), Some(message));
    }

    #[test]
    fn bytes_that_were_cut_off_or_added_are_noticed(message in message(), more in any::<u8>()) {
        let bytes = message.encode();
        if !has_open_end(&message) {
            for end in 0..bytes.len() {
                prop_assert_eq!(PeerMessage::decode(bytes.slice(..end)), None, "{} of {} bytes", end, bytes.len());
            }
            let longer = [&bytes[..], &[more]].concat();
            prop_assert_eq!(PeerMessage::decode(longer.into()), None);
        }
    }

    #[test]
    fn no_bytes_break_the_decoder(
        message in message(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        any_bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = message.encode().to_vec();
        check(&bytes[..cut.index(bytes.len())]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
            check(&bytes);
        }
        for kind in 0..=LOOKED {
            check(&[&[kind], &any_bytes[..]].concat());
        }
    }
}

#[test]
fn every_error_has_a_number_of_its_own() {
    let all = (0..KINDS).map(|kind| error(kind, "why".to_owned()));
    let mut numbers: Vec<u8> = Vec::new();
    for error in all {
        let bytes = answered(Err(error.clone())).encode();
        numbers.push(bytes[29]);
        assert_eq!(&bytes[30..], b"why");
        assert_eq!(PeerMessage::decode(bytes), Some(answered(Err(error))));
    }
    assert_eq!(numbers, Vec::from_iter(3..14));
    for unknown in [14, 16, 255] {
        let mut bytes = answered(Err(error(0, String::new()))).encode().to_vec();
        bytes[29] = unknown;
        assert_eq!(PeerMessage::decode(bytes.into()), None);
    }
}

/// A batch has no batch in it, so a chain of errors that would need a deep stack is refused.
#[test]
fn an_error_of_a_batch_is_not_in_another_one() {
    let inner = CatalogError::InBatch { at: 1, error: Box::new(error(0, "why".to_owned())) };
    let outer = CatalogError::InBatch { at: 2, error: Box::new(inner.clone()) };
    assert_eq!(PeerMessage::decode(answered(Err(inner.clone())).encode()), Some(answered(Err(inner))));
    assert_eq!(PeerMessage::decode(answered(Err(outer)).encode()), None);
    let head = &answered(Ok(Answer::Done { changed: true })).encode()[..29];
    let deep = [head, &[15, 0, 0, 0, 0, 0, 0, 0, 0].repeat(100_000), &[3]].concat();
    assert_eq!(PeerMessage::decode(deep.into()), None);
    let done = [head, &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    assert_eq!(PeerMessage::decode(done.into()), None, "a command of a batch that is refused has an error");
}

#[test]
fn a_user_whose_name_is_too_long_is_left_out() {
    let with = |by: Option<String>| {
        let command = Command::ForgetQueue { queue: QueueId(7) };
        let by = by.map(Arc::from);
        PeerMessage::Propose(Propose { term: 4, boot: 1, number: 2, low: 1, shard: 3, by, command })
    };
    for length in [0, 1, 254] {
        let message = with(Some("n".repeat(length)));
        assert_eq!(PeerMessage::decode(message.encode()), Some(message));
    }
    for length in [255, 256, 10_000] {
        assert_eq!(PeerMessage::decode(with(Some("n".repeat(length))).encode()), Some(with(None)));
    }
    let mut bytes = with(Some("nn".to_owned())).encode().to_vec();
    assert_eq!((bytes[30], &bytes[31..33]), (2, &b"nn"[..]));
    bytes[32] = 0xff;
    assert_eq!(PeerMessage::decode(bytes.into()), None, "the name is no text");
}

fn looked_at_one(numbers: Option<QueueNumbers>) -> PeerMessage {
    let rows = FarRows::Reports(vec![FarRow { queue: QueueId(7), delivered: 5, numbers }]);
    PeerMessage::Looked(FarLooked { boot: 1, number: 2, shard: 3, shards: 4, is_last: true, rows })
}

fn one_client() -> PeerMessage {
    let (vhosts, users) = (vec![("v".into(), 3)], vec![("u".into(), 2, 5)]);
    PeerMessage::Clients(LimitedCounts { vhosts, users })
}

fn looked_with(rows: FarRows) -> PeerMessage {
    PeerMessage::Looked(FarLooked { boot: 1, number: 2, shard: 3, shards: 4, is_last: true, rows })
}

fn one_vhost() -> FarVhost {
    ("v".into(), VhostNumbers { recv_bytes: 3, ..VhostNumbers::default() })
}

/// Each flipped bit of an answer is read without panic, and so is each beginning.
#[test]
fn damaged_numbers_are_read_without_panic() {
    let group = GroupRow { leads: true, term: 1, last_index: 9, ..GroupRow::default() };
    let report = queue::Report { ready: 3, consumers: 1, ..queue::Report::default() };
    let queues = looked_at_one(Some(QueueNumbers { report, group: Some(group) }));
    let totals = looked_with(FarRows::Totals(Box::default()));
    let vhosts = looked_with(FarRows::Vhosts { rows: vec![one_vhost()], has_more: false });
    for bytes in [queues, looked_at(vec![row_of_10()]), totals, vhosts].map(|message| message.encode()) {
        for at in 0..bytes.len() {
            check(&bytes[..at]);
            for bit in 0..8 {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1 << bit;
                check(&bytes);
            }
        }
    }
}

fn look_for(ask: FarAsk) -> PeerMessage {
    PeerMessage::Look(FarLook { boot: 1, number: 2, ask })
}

fn close() -> FarAsk {
    FarAsk::Close { name: "n".into(), connected_at_ms: 5, reason: "why".into() }
}

/// An answer with numbers that no node has, or of a shard that its node does not have, makes no sense.
#[test]
fn impossible_looks_and_answers_are_refused() {
    let refused = |message: PeerMessage| assert_eq!(PeerMessage::decode(message.encode()), None);
    refused(look_for(FarAsk::Reports(vec![QueueId(7); 501])));
    refused(look_for(FarAsk::Connections { names: vec!["n".into(); 501], from: 0 }));
    let looked = |shard, shards, delivered| {
        let rows = FarRows::Reports(vec![FarRow { queue: QueueId(7), delivered, numbers: None }]);
        PeerMessage::Looked(FarLooked { boot: 1, number: 2, shard, shards, is_last: false, rows })
    };
    refused(looked(4, 4, 0));
    refused(looked(0, 0, 0));
    refused(looked(0, 1, (1 << 56) + 1));
    refused(PeerMessage::Clients(LimitedCounts {
        vhosts: vec![("v".into(), 1); 500],
        users: vec![("u".into(), 1, 1)],
    }));
    let group = GroupRow { log_bytes: u64::MAX, ..GroupRow::default() };
    refused(looked_at_one(Some(QueueNumbers { group: Some(group), ..QueueNumbers::default() })));
}

/// Nodes of different versions talk to each other, so the bytes stay as they are.
#[test]
fn messages_have_these_bytes() {
    let command = Command::ForgetQueue { queue: QueueId(7) };
    let propose = Propose { term: 4, boot: 1, number: 2, low: 1, shard: 3, by: Some("ann".into()), command };
    let golden: [(PeerMessage, &[u8]); 14] = [
        (
            PeerMessage::Propose(propose),
            b"\x02\x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\x03ann\xc0\x05\x02\x50\x02\x53\x07",
        ),
        (
            answered(Ok(Answer::Done { changed: true })),
            b"\x03\x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\x01",
        ),
        (
            answered(Ok(Answer::Set { created: false })),
            b"\x03\x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0",
        ),
        (
            answered(Err(CatalogError::InBatch { at: 4, error: Box::new(error(9, "no".to_owned())) })),
            b"\x03\x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x0f\x04\0\0\0\0\0\0\0\x0cno",
        ),
        (PeerMessage::Applied { index: 4, asks: true }, b"\x05\x04\0\0\0\0\0\0\0\x01"),
        (PeerMessage::HowFar { boot: 1, number: 2 }, b"\x06\x01\0\0\0\x02\0\0\0\0\0\0\0"),
        (
            PeerMessage::ThisFar { boot: 1, number: 2, index: 3 },
            b"\x07\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
        ),
        (
            look_for(FarAsk::Reports(vec![QueueId(7)])),
            b"\x08\x01\0\0\0\x02\0\0\0\0\0\0\0\x01\x01\0\x07\0\0\0\0\0\0\0",
        ),
        (
            look_for(FarAsk::Connections { names: vec!["n".into()], from: 500 }),
            b"\x08\x01\0\0\0\x02\0\0\0\0\0\0\0\x02\xf4\x01\0\0\x01\0\0\0\x01\0\0\0n",
        ),
        (
            look_for(close()),
            b"\x08\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\x01\0\0\0n\x05\0\0\0\0\0\0\0\x03\0\0\0why",
        ),
        (one_client(), b"\x0a\x01\0\0\0\x01\0\0\0v\x03\0\0\0\x01\0\0\0\x01\0\0\0u\x02\0\0\0\x05\0\0\0"),
        (look_for(FarAsk::Totals), b"\x08\x01\0\0\0\x02\0\0\0\0\0\0\0\x04"),
        (
            look_for(FarAsk::Vhosts { from: 500 }),
            b"\x08\x01\0\0\0\x02\0\0\0\0\0\0\0\x05\xf4\x01\0\0",
        ),
        (
            looked_at_one(None),
            b"\x09\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\x04\x01\x01\x01\0\x07\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0",
        ),
    ];
    for (message, bytes) in golden {
        assert_eq!(message.encode(), bytes);
        assert_eq!(PeerMessage::decode(Bytes::from_static(bytes)), Some(message));
    }
}

/// Writes a message of each kind, as a seed of the fuzz target: `cargo test -p node --lib peer -- --ignored`.
#[test]
#[ignore = "writes the corpus of the fuzz target"]
fn write_corpus() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/peer_messages");
    std::fs::create_dir_all(&folder).expect("a folder");
    let me = |node| Member { node, number: node };
    let raft =
        |body| PeerMessage::Raft { owner: 0, message: Message { from: me(1), to: me(2), term: 3, body } };
    let previous = Position { term: 3, index: 4 };
    let propose = |command| {
        PeerMessage::Propose(Propose {
            term: 4,
            boot: 1,
            number: 2,
            low: 1,
            shard: 3,
            by: Some("ann".into()),
            command,
        })
    };
    let declare = |name: &str| {
        Command::DeclareQueue(DeclareQueue::new("/", name, [("x-max-length".to_owned(), 5.into())].into()))
    };
    let admit = Command::AdmitNode(KnownNode { identity: *b"0123456789abcdef", name: "b@h".into() });
    let start = Command::StartNode { node: 2, origin: Origin { node: NodeId(7), boot: 3 } };
    let in_batch = CatalogError::InBatch { at: 1, error: Box::new(error(0, "no queue 'q'".to_owned())) };
    let all = [
        (
            "append",
            raft(Body::Append { previous, commit: 4, entries: entries(previous, &[vec![1; 9], vec![]]) }),
        ),
        ("vote", raft(Body::VoteRequest { pre: true, last: previous, commit: previous, transfer: false })),
        ("base", raft(Body::InstallBase(Base::founding(&[1, 2], Bytes::from_static(b"\x02"))))),
        ("declare", propose(declare("q"))),
        ("batch", propose(Command::Batch(vec![declare("a"), declare("b")]))),
        ("admit", propose(admit)),
        ("start", propose(start)),
        ("lose", propose(Command::LoseNode { node: 2, boot: 3 })),
        ("done", answered(Ok(Answer::Done { changed: true }))),
        ("set", answered(Ok(Answer::Set { created: false }))),
        ("queue", answered(Ok(Answer::Queue { record: declared("q", 5), created: true }))),
        ("unavailable", answered(Err(error(9, "no majority".to_owned())))),
        ("in_batch", answered(Err(in_batch))),
        ("applied", PeerMessage::Applied { index: 4, asks: true }),
        ("how_far", PeerMessage::HowFar { boot: 1, number: 2 }),
        ("look", look_for(FarAsk::Reports(vec![QueueId(7), QueueId(8)]))),
        ("look_connections", look_for(FarAsk::Connections { names: vec!["n".into()], from: 500 })),
        ("look_close", look_for(close())),
        ("clients", one_client()),
        ("look_totals", look_for(FarAsk::Totals)),
        ("look_vhosts", look_for(FarAsk::Vhosts { from: 500 })),
        ("looked_totals", looked_with(FarRows::Totals(Box::default()))),
        ("looked_vhosts", looked_with(FarRows::Vhosts { rows: vec![one_vhost()], has_more: true })),
        ("looked_connections", looked_at(vec![row_of_10()])),
        ("looked", looked_at_one(Some(QueueNumbers::default()))),
        ("this_far", PeerMessage::ThisFar { boot: 1, number: 2, index: 3 }),
    ];
    for (name, message) in all {
        std::fs::write(folder.join(name), message.encode()).expect("a file");
    }
}
