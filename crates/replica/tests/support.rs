//! A member does not vote against a leader whose node its own node supports.

use bytes::Bytes;
use replica::{Base, Body, Group, Member, Message, Options, Position, Record, Rejected, Restoring, Support};

/// Returns a member that follows a leader, and the other two: the leader and a candidate.
fn follower() -> (Group, Member, Member) {
    let base = Base::founding(&[0, 1, 2], Bytes::new());
    let [me, leader, candidate] = *base.members.voters() else { unreachable!("three voters") };
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(base)).unwrap();
    let mut group = restoring.finish(me, Options::default()).unwrap();
    let ping = Message { from: leader, to: me, term: 2, body: Body::Ping { commit: 1 } };
    group.step(ping, &Support::default()).unwrap();
    sent(&mut group);
    (group, leader, candidate)
}

/// Carries out the rounds. Returns the messages.
fn sent(group: &mut Group) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(round) = group.poll_round() {
        messages.extend(round.now.into_iter().chain(round.after_sync));
        group.on_synced(round.number);
    }
    messages
}

fn pre_vote(from: Member, to: Member) -> Message {
    let last = Position { term: 1, index: 1 };
    let body = Body::VoteRequest { pre: true, last, commit: last, transfer: false };
    Message { from, to, term: 3, body }
}

fn supported(node: u32) -> Support {
    let mut support = Support::default();
    support.set(node, true);
    support
}

#[test]
fn a_woken_member_supports_its_leader_as_before_its_rest() {
    let (mut group, leader, candidate) = follower();
    let support = supported(leader.node);
    let asks = pre_vote(candidate, group.me());
    assert_eq!(group.step(asks.clone(), &support), Err(Rejected::LeaderSupported), "awake");
    let mut group = group.rest().expect("it is quiet").wake(Options::default());
    assert_eq!(group.step(asks, &support), Err(Rejected::LeaderSupported), "woken");
    assert!(sent(&mut group).is_empty());
}

#[test]
fn a_member_that_lacks_support_votes_and_should_campaign() {
    let (mut group, leader, candidate) = follower();
    let others = supported(candidate.node);
    assert!(!group.lacks_support(&supported(leader.node)));
    assert!(group.lacks_support(&others) && group.lacks_support(&Support::default()));
    assert_eq!(group.step(pre_vote(candidate, group.me()), &others), Ok(()));
    let [Message { body: Body::VoteResponse { pre: true, granted: true, .. }, .. }] = sent(&mut group)[..]
    else {
        panic!("one vote");
    };
}

#[test]
fn a_member_without_leader_and_a_learner_do_not_lack_support() {
    let base = Base::founding(&[0, 1, 2], Bytes::new());
    let [me, leader, _] = *base.members.voters() else { unreachable!("three voters") };
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(base)).unwrap();
    let group = restoring.finish(me, Options::default()).unwrap();
    assert!(!group.lacks_support(&Support::default()), "no leader");
    let learner = Member { node: 7, number: 4 };
    let mut group = Group::join(learner, Options::default());
    let ping = Message { from: leader, to: learner, term: 2, body: Body::Ping { commit: 0 } };
    group.step(ping, &Support::default()).unwrap();
    assert!(!group.lacks_support(&Support::default()), "not a voter");
}
