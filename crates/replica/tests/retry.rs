//! A restless group is moved again, and nothing else is needed after the last fault.

use std::collections::BTreeMap;

use bytes::Bytes;
use replica::{
    Base, Body, Change, Damaged, Entry, Group, Member, Message, Options, Payload, Position, Record, Refused,
    Restoring, Role, Support,
};

/// Members of one group on the nodes from 0 on, and what they have sent. The state of an owner is nothing.
struct Net {
    groups: BTreeMap<u32, Group>,
    sent: Vec<Message>,
}

/// Followers that lag by some entries need a base.
fn options() -> Options {
    Options { window_bytes: 1, ..Options::default() }
}

fn restored(me: Member, records: &[Record]) -> Result<Group, Damaged> {
    let mut restoring = Restoring::default();
    records.iter().try_for_each(|record| restoring.on_record(record.clone()))?;
    restoring.finish(me, options())
}

impl Net {
    /// Three members, of which that on node 0 leads. All know that.
    fn led() -> Self {
        let base = Base::founding(&[0, 1, 2], Bytes::new());
        let group = |me: &Member| restored(*me, &[Record::Base(base.clone())]).unwrap();
        let groups = base.members.voters().iter().map(|me| (me.node, group(me))).collect();
        let mut net = Self { groups, sent: Vec::new() };
        assert!(net.restless().len() == 3, "there is no leader");
        net.group(0).retry().unwrap();
        net.deliver(|_| true);
        assert_eq!(net.group(0).standing().role, Role::Leader);
        assert_eq!(net.restless(), []);
        net
    }

    fn group(&mut self, node: u32) -> &mut Group {
        self.groups.get_mut(&node).unwrap()
    }

    fn restless(&self) -> Vec<u32> {
        self.groups.iter().filter(|(_, group)| group.is_restless()).map(|(node, _)| *node).collect()
    }

    /// Carries out the rounds of all members.
    fn rounds(&mut self) {
        for group in self.groups.values_mut() {
            while let Some(round) = group.poll_round() {
                self.sent.extend(round.now.into_iter().chain(round.after_sync));
                group.on_synced(round.number);
                if round.wants_base {
                    group.send_base(Bytes::new());
                }
            }
        }
    }

    /// Delivers what `arrives` until nothing is sent any more. The rest is lost.
    fn deliver(&mut self, arrives: impl Fn(&Message) -> bool) {
        let mut support = Support::default();
        self.groups.keys().for_each(|node| _ = support.set(*node, true));
        loop {
            self.rounds();
            if self.sent.is_empty() {
                return;
            }
            for message in std::mem::take(&mut self.sent) {
                if let Some(group) = self.groups.get_mut(&message.to.node)
                    && arrives(&message)
                {
                    _ = group.step(message, &support);
                }
            }
        }
    }

    fn propose(&mut self) {
        let term = self.group(0).standing().term;
        self.group(0).propose(term, Bytes::from_static(b"facts")).unwrap();
    }
}

fn is_base(message: &Message) -> bool {
    matches!(message.body, Body::InstallBase(_))
}

#[test]
fn a_leader_is_restless_until_all_have_everything_and_know_it() {
    let mut net = Net::led();
    net.propose();
    net.deliver(|message| message.to.node != 2);
    assert_eq!(net.restless(), [0], "the entry is committed, and node 2 lacks it");
    net.deliver(|_| true);
    assert_eq!(net.restless(), [0], "nothing happens by itself");
    net.group(0).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(net.restless(), []);
    assert!(net.groups.values().all(|group| group.progress().committed == 3));

    // The followers have the entry, and do not know that it is committed.
    net.propose();
    net.deliver(|message| !matches!(&message.body, Body::Append { commit: 4.., .. }));
    assert_eq!((net.group(1).last().index, net.group(1).progress().committed), (4, 3));
    assert_eq!(net.restless(), [0]);
    net.group(0).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(net.restless(), []);
    assert!(net.groups.values().all(|group| group.progress().committed == 4));
}

/// A base may be large. So it is sent again only if its member has answered something since.
#[test]
fn a_base_is_sent_again_if_it_was_lost_and_not_while_it_is_on_its_way() {
    let mut net = Net::led();
    for _ in 0..3 {
        net.propose();
        net.deliver(|message| message.to.node != 2);
    }
    net.group(0).retry().unwrap();
    // The answer of node 2 to the ping makes the leader ask for a base, which waits on the link.
    net.deliver(|message| !is_base(message));
    let wait = |net: &mut Net, arrives: bool| {
        net.group(0).retry().unwrap();
        let mut bases = 0;
        for _ in 0..4 {
            net.rounds();
            for message in std::mem::take(&mut net.sent) {
                match is_base(&message) {
                    true => bases += 1,
                    false if arrives => _ = net.group(message.to.node).step(message, &Support::default()),
                    false => {}
                }
            }
        }
        bases
    };
    // What is behind the base on the link waits for it, too.
    assert_eq!([wait(&mut net, false), wait(&mut net, false)], [0, 0]);
    // The ping arrives, so the base was lost. That is noticed when the group is moved the next time.
    assert_eq!(wait(&mut net, true), 0);
    assert_eq!(wait(&mut net, true), 1);
    assert_eq!(net.restless(), [0]);
    net.group(0).retry().unwrap();
    net.deliver(|_| true);
    net.group(0).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(net.restless(), []);
    assert_eq!(net.group(2).last().index, 5);
}

/// Node 0 has lost entries with which it has made the others its followers. It cannot be elected, and the others must notice.
#[test]
fn a_leader_that_asks_for_votes_leads_no_more() {
    let mut net = Net::led();
    net.propose();
    net.deliver(|_| true);
    let me = net.group(0).me();
    let term = net.group(0).standing().term;
    let base = Base::founding(&[0, 1, 2], Bytes::new());
    let vote = replica::Vote { term, candidate: Some(me), applied: 1 };
    *net.group(0) = restored(me, &[Record::Base(base), Record::Vote(vote)]).unwrap();
    assert_eq!(net.restless(), [0], "the others believe that it leads, and support its node");
    net.group(0).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(net.restless(), [0, 1, 2]);
    net.group(1).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(net.group(1).standing().role, Role::Leader);
    net.group(1).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(net.restless(), []);
}

#[test]
fn a_leader_whose_support_has_ended_is_unknown() {
    let mut net = Net::led();
    let role = |net: &mut Net, node| net.group(node).standing().role;
    let leader = net.group(0).me();
    net.group(1).on_support_ended(2);
    assert_eq!(role(&mut net, 1), Role::Follower { leader: Some(leader) }, "another node");
    net.group(0).on_support_ended(0);
    assert_eq!(role(&mut net, 0), Role::Leader, "a leader supports itself");
    net.group(1).on_support_ended(0);
    assert_eq!(role(&mut net, 1), Role::Follower { leader: None });
    let round = net.group(1).poll_round().expect("the owner hears of it");
    assert_eq!(round.standing.map(|standing| standing.role), Some(Role::Follower { leader: None }));
    net.group(1).on_synced(round.number);
    // It leads, so it says so when it is asked for its vote.
    assert_eq!(net.restless(), [1]);
    net.group(1).retry().unwrap();
    net.deliver(|_| true);
    assert_eq!(role(&mut net, 1), Role::Follower { leader: Some(leader) });
    assert_eq!(net.restless(), []);
}

#[test]
fn a_member_without_a_vote_is_not_restless() {
    let learner = Member { node: 7, number: 4 };
    let mut group = Group::join(learner, options());
    assert!(!group.is_restless());
    assert_eq!(group.retry(), Err(Refused::NotVoter));
}

#[test]
fn a_learner_is_level_when_it_has_what_is_committed() {
    let mut net = Net::led();
    let (term, learner) = (net.group(0).standing().term, Member { node: 7, number: 4 });
    net.group(0).change(term, Change::Add(learner)).unwrap();
    net.deliver(|_| true);
    assert!(!net.group(0).is_level(learner) && net.restless() == [0], "it has not begun");
    net.groups.insert(7, Group::join(learner, options()));
    net.group(0).retry().unwrap();
    net.deliver(|_| true);
    assert!(net.group(0).is_level(learner) && net.restless().is_empty());
    // An entry that is not committed is nothing that it lacks.
    net.propose();
    net.deliver(|_| false);
    assert!(net.group(0).is_level(learner) && net.restless() == [0]);
    let me = net.group(0).me();
    assert!(net.group(0).is_level(me));
    assert!(!net.group(0).is_level(Member { node: 9, number: 9 }), "no member");
}

/// The owner knows more than the records: it has stored what follows from an entry.
#[test]
fn what_an_owner_proves_is_committed() {
    let me = Member { node: 1, number: 1 };
    let entry = |index| Entry {
        at: Position { term: 1, index },
        payload: Payload::Facts(Bytes::from_static(b"facts")),
    };
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(Base::founding(&[1, 2, 3], Bytes::new()))).unwrap();
    for index in 2..6 {
        restoring.on_record(Record::Entry { entry: entry(index), committed: 2 }).unwrap();
    }
    let indexes = |entries: &[Entry]| entries.iter().map(|entry| entry.at.index).collect::<Vec<_>>();
    assert_eq!(indexes(&restoring.take_committed()), [2]);
    let open = |restoring: &Restoring| restoring.entries().map(|entry| entry.at.index).collect::<Vec<_>>();
    assert_eq!(open(&restoring), [3, 4, 5]);
    restoring.prove_committed(4);
    restoring.prove_committed(3);
    assert_eq!(open(&restoring), [3, 4, 5], "they are taken out when the owner takes them");
    assert_eq!(indexes(&restoring.take_committed()), [3, 4]);
    assert_eq!(open(&restoring), [5]);
    let group = restoring.finish(me, options()).unwrap();
    assert_eq!((group.progress().committed, group.last().index), (4, 5));

    // What is proved and missing is a loss.
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(Base::founding(&[1, 2, 3], Bytes::new()))).unwrap();
    restoring.prove_committed(7);
    assert_eq!(restoring.finish(me, options()).err(), Some(Damaged::EntriesMissing { applied: 7 }));
}
