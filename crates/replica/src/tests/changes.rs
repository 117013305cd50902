//! A change in the log proves that the previous change is committed.

use crate::{
    Base, Body, Change, Entry, Group, Members, Message, Options, Payload, Position, Record, Restoring,
    Support,
};
use bytes::Bytes;

fn restored(records: &[Record]) -> Group {
    let mut restoring = Restoring::default();
    records.iter().for_each(|record| restoring.on_record(record.clone()).unwrap());
    restoring.finish(Members::founding(&[0, 1, 2]).voters()[0], Options::default()).unwrap()
}

fn rounds(group: &mut Group) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some(round) = group.poll_round() {
        records.extend(round.records);
        group.on_synced(round.number);
    }
    records
}

#[test]
fn a_change_in_the_log_commits_the_previous_one() {
    let base = Base::founding(&[0, 1, 2], Bytes::new());
    let [me, leader, third] = *base.members.voters() else { unreachable!("three voters") };
    let mut records = vec![Record::Base(base)];
    let mut group = restored(&records);
    let place = |index| Position { term: if index == 1 { 1 } else { 2 }, index };
    let entry = |index, payload| Entry { at: place(index), payload };
    let mut append = |group: &mut Group, entry: Entry| {
        let previous = place(entry.at.index - 1);
        let body = Body::Append { previous, commit: 1, entries: vec![entry] };
        group.step(Message { from: leader, to: me, term: 2, body }, &Support::default()).unwrap();
        records.extend(rounds(group));
    };
    append(&mut group, entry(2, Payload::Change(Change::Remove(third))));
    append(&mut group, entry(3, Payload::Empty));
    assert_eq!((group.applied(), group.members().voters().len()), (1, 3));
    append(&mut group, entry(4, Payload::Change(Change::Remove(me))));
    assert_eq!((group.applied(), group.members().voters()), (2, &[me, leader][..]));
    // The later change proves the same when only the entries were restored.
    let entries: Vec<Record> = records
        .into_iter()
        .filter(|record| !matches!(record, Record::Vote(vote) if vote.applied > 1))
        .collect();
    let mut group = restored(&entries);
    rounds(&mut group);
    assert_eq!((group.applied(), group.members().voters()), (2, &[me, leader][..]));
}
