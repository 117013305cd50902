//! Encoding and decoding are inverse, and invalid bytes are refused.

use crate::{Base, Body, Change, Entry, Member, Members, Message, Payload, Position, Record, Vote};
use bytes::Bytes;
use proptest::prelude::*;

fn member() -> impl Strategy<Value = Member> {
    (any::<u32>(), 1..=u32::MAX).prop_map(|(node, number)| Member { node, number })
}

fn position() -> impl Strategy<Value = Position> {
    (any::<u64>(), any::<u64>()).prop_map(|(term, index)| Position { term, index })
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        Just(Payload::Empty),
        prop::collection::vec(any::<u8>(), 1..40).prop_map(|facts| Payload::Facts(facts.into())),
        (0..3, member()).prop_map(|(kind, member)| {
            Payload::Change([Change::Add, Change::Promote, Change::Remove][kind as usize](member))
        }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    (position(), payload()).prop_map(|(at, payload)| Entry { at, payload })
}

fn vote() -> impl Strategy<Value = Vote> {
    (any::<u64>(), prop::option::of(member()), any::<u64>()).prop_map(|(term, candidate, applied)| Vote {
        term,
        candidate,
        applied,
    })
}

fn members() -> impl Strategy<Value = Members> {
    (prop::collection::btree_set(any::<u32>(), 1..9), any::<prop::sample::Index>()).prop_map(|(nodes, at)| {
        let all: Vec<Member> = nodes.iter().zip(1..).map(|(&node, number)| Member { node, number }).collect();
        let (voters, learners) = all.split_at(at.index(all.len()) + 1);
        Members::from_parts(voters.to_vec(), learners.to_vec(), all.len() as u32 + 1).unwrap()
    })
}

fn base() -> impl Strategy<Value = Base> {
    let content = prop::collection::vec(any::<u8>(), 0..40);
    (position(), vote(), members(), any::<bool>(), content).prop_map(
        |(at, vote, members, installed, content)| Base {
            at,
            vote,
            members,
            installed,
            content: content.into(),
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        (position(), any::<u64>(), prop::collection::vec(entry(), 0..5))
            .prop_map(|(previous, commit, entries)| Body::Append { previous, commit, entries }),
        (any::<u64>(), any::<u64>()).prop_map(|(index, commit)| Body::Appended { index, commit }),
        (any::<u64>(), position(), any::<u64>()).prop_map(|(index, hint, commit)| Body::AppendRefused {
            index,
            hint,
            commit
        }),
        any::<u64>().prop_map(|commit| Body::Ping { commit }),
        any::<u64>().prop_map(|commit| Body::Pong { commit }),
        (any::<bool>(), position(), position(), any::<bool>())
            .prop_map(|(pre, last, commit, transfer)| Body::VoteRequest { pre, last, commit, transfer }),
        (any::<bool>(), any::<bool>(), position()).prop_map(|(pre, granted, commit)| Body::VoteResponse {
            pre,
            granted,
            commit
        }),
        base().prop_map(Body::InstallBase),
        Just(Body::TimeoutNow),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (member(), member(), any::<u64>(), body()).prop_map(|(from, to, term, body)| Message {
        from,
        to,
        term,
        body,
    })
}

fn record() -> impl Strategy<Value = Record> {
    let entry = (entry(), any::<u64>()).prop_map(|(entry, committed)| Record::Entry { entry, committed });
    prop_oneof![vote().prop_map(Record::Vote), base().prop_map(Record::Base), entry]
}

proptest! {
    #[test]
    fn messages_read_back(message in message()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert_eq!(Message::decode(bytes.into()), Ok(message));
    }

    #[test]
    fn records_read_back(record in record()) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(Record::decode(bytes.into()), Ok(record));
    }

    /// Damaged bytes are either refused, or encode to the same bytes again.
    #[test]
    fn damaged_bytes_are_refused_or_round_trip(
        message in message(), record in record(), at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<bool>()
    ) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        message.encode(&mut first);
        record.encode(&mut second);
        for bytes in [&mut first, &mut second] {
            let at = at.index(bytes.len());
            bytes[at] = to;
            if cut {
                bytes.truncate(at);
            }
        }
        let mut again = Vec::new();
        if let Ok(message) = Message::decode(Bytes::from(first.clone())) {
            message.encode(&mut again);
            prop_assert_eq!(again.clone(), first);
        }
        again.clear();
        if let Ok(record) = Record::decode(Bytes::from(second.clone())) {
            record.encode(&mut again);
            prop_assert_eq!(again, second);
        }
    }
}
