//! How far the log of a member has come.

use bytes::Bytes;
use replica::{Base, Member, Options, Progress, Record, Restoring, Standing};

#[test]
fn an_entry_is_written_then_committed_then_applied() {
    let me = Member { node: 1, number: 1 };
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(Base::founding(&[1], Bytes::new()))).unwrap();
    let mut group = restoring.finish(me, Options::default()).unwrap();
    let at = |last, written, committed, applied| Progress { last, written, committed, applied };
    assert_eq!(group.progress(), at(1, 1, 1, 1), "the founding base");
    group.campaign().unwrap();
    while let Some(round) = group.poll_round() {
        group.on_synced(round.number);
    }
    assert_eq!(group.progress(), at(2, 2, 2, 2), "the first entry of the leader");
    let Standing { term, .. } = group.standing();
    assert_eq!(group.propose(term, Bytes::from_static(b"facts")), Ok(3));
    let round = group.poll_round().unwrap();
    assert_eq!(group.progress(), at(3, 2, 2, 2));
    group.on_synced(round.number);
    assert_eq!(group.progress(), at(3, 3, 3, 2));
    assert_eq!(group.poll_round().map(|round| round.committed.len()), Some(1));
    assert_eq!(group.progress(), at(3, 3, 3, 3));
}
