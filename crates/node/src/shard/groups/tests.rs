//! Our member in a group of three. The tests play the other two.

use std::sync::Arc;

use broker::settings::Settings;
use bytes::Bytes;
use catalog::access::Access;
use catalog::ids::FIRST_NODE;
use queue::{Fact, Span};
use replica::{
    Base, Body, Entry, Member, Members, Message, Options, Payload, Position, Record, Restoring, Role,
    Standing, Support, Vote,
};

use super::*;
use crate::entries;
use crate::facts::{FinishedGroup, Restored};
use crate::{StorageLimits, make_shards};

const ME: Member = Member { node: FIRST_NODE, number: 1 };
const SECOND: Member = Member { node: 2, number: 2 };
const THIRD: Member = Member { node: 3, number: 3 };

/// The owners that there are, and those that there will be.
const IDS: [GroupId; 3] = [GroupId::Catalog, GroupId::Queue(QueueId(7)), GroupId::Stream(QueueId(8))];

/// A naive owner: its state is the facts that were committed, in their order.
struct Naive {
    id: GroupId,
    shard: Shard,
    hosted: Hosted,
    state: Vec<Bytes>,
    /// What it has decided and what is not committed, oldest first.
    decided: Vec<Bytes>,
    may_decide: bool,
    standings: Vec<Standing>,
    /// For each committed entry, whether it was decided here.
    mine: Vec<bool>,
    sent: Vec<Message>,
}

impl Owner for Naive {
    fn id(&self) -> GroupId {
        self.id
    }

    fn shard(&mut self) -> &mut Shard {
        &mut self.shard
    }

    fn hosted(&mut self) -> Option<&mut Hosted> {
        Some(&mut self.hosted)
    }

    fn handle_standing(&mut self, standing: Standing) {
        self.standings.push(standing);
        self.decided.clear();
        self.may_decide = false;
    }

    fn handle_committed(&mut self, entry: Entry, is_mine: bool) {
        self.mine.push(is_mine);
        match entry.payload {
            Payload::Empty => self.may_decide |= is_mine,
            Payload::Change(_) => {}
            Payload::Facts(facts) => {
                if is_mine {
                    assert_eq!(self.decided.remove(0), facts);
                }
                self.state.push(facts);
            }
        }
    }

    fn base(&mut self) -> Bytes {
        self.state.concat().into()
    }

    fn install(&mut self, content: Bytes) {
        self.state = vec![content];
    }

    fn send(&mut self, messages: Vec<Message>) {
        self.sent.extend(messages);
    }
}

impl Naive {
    fn new(id: GroupId, nodes: &[u32], window_bytes: usize) -> Self {
        let mut restoring = Restoring::default();
        restoring.on_record(Record::Base(Base::founding(nodes, Bytes::new()))).unwrap();
        let group = restoring.finish(ME, Options { window_bytes, ..Options::default() }).unwrap();
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let mut shards = make_shards(Restored::default(), 1, &settings, &access, StorageLimits::default(), 0);
        let files = VecDeque::new();
        Self {
            id,
            shard: shards.remove(0),
            hosted: Hosted::new(FinishedGroup { group, base_file: 0, base_index: 1, log_bytes: 0, files }),
            state: Vec::new(),
            decided: Vec::new(),
            may_decide: false,
            standings: Vec::new(),
            mine: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn of_three(id: GroupId) -> Self {
        Self::new(id, &[1, 2, 3], 1 << 20)
    }

    /// A message of another member arrives.
    fn receive(&mut self, from: Member, term: u64, body: Body) {
        let message = Message { from, to: ME, term, body };
        self.hosted.engine.wake().step(message, &Support::default()).expect("a correct message");
        pump(self);
    }

    fn sync_one(&mut self) -> bool {
        let Some(GroupRound { group, number }) = self.shard.groups.take_unsynced() else { return false };
        assert_eq!(group, self.id);
        handle_synced(self, number);
        true
    }

    fn sync(&mut self) {
        while self.sync_one() {}
    }

    /// Makes our member lead in term 2.
    fn lead(&mut self) {
        campaign(self);
        let commit = Position { term: 1, index: 1 };
        self.receive(SECOND, 2, Body::VoteResponse { pre: true, granted: true, commit });
        self.sync();
        self.receive(SECOND, 2, Body::VoteResponse { pre: false, granted: true, commit });
        assert_eq!(self.standings.last(), Some(&Standing { term: 2, role: Role::Leader }));
        assert!(!self.may_decide, "the first entry of the term is not committed");
        self.sync();
        self.receive(SECOND, 2, Body::Appended { index: 2, commit: 1 });
        assert!(self.may_decide);
        assert_eq!(self.mine, [true]);
    }

    /// Decides something in one turn, and proposes it.
    fn decide(&mut self, seq: u64) -> Option<u64> {
        let mut facts = Vec::new();
        entries::push_fact(&mut facts, &gone(seq));
        self.decided.push(facts.into());
        self.hosted.open.push(&gone(seq), 0);
        self.propose()
    }

    fn propose(&mut self) -> Option<u64> {
        let proposed = propose(self).map(|proposed| proposed.index);
        pump(self);
        proposed
    }
}

fn gone(seq: u64) -> Fact {
    Fact::Gone(Span { first: seq, last: seq })
}

fn fact_bytes(seq: u64) -> Bytes {
    let mut facts = Vec::new();
    entries::push_fact(&mut facts, &gone(seq));
    facts.into()
}

fn entry(term: u64, index: u64, payload: Payload) -> Entry {
    Entry { at: Position { term, index }, payload }
}

fn follows(term: u64, leader: Member) -> Standing {
    Standing { term, role: Role::Follower { leader: Some(leader) } }
}

#[test]
fn the_owner_learns_whom_its_member_follows() {
    for id in IDS {
        let mut owner = Naive::of_three(id);
        owner.receive(SECOND, 2, Body::Ping { commit: 1 });
        assert_eq!(owner.standings, [follows(2, SECOND)]);
        assert_eq!((owner.hosted.standing(), owner.hosted.leads_in()), (follows(2, SECOND), None));
        campaign(&mut owner);
        assert_eq!(owner.standings.len(), 1, "it knows a leader");
    }
}

#[test]
fn what_others_have_decided_is_learned_when_it_is_committed_and_synced() {
    for id in IDS {
        let mut owner = Naive::of_three(id);
        let entries = vec![entry(2, 2, Payload::Empty), entry(2, 3, Payload::Facts(fact_bytes(5)))];
        let previous = Position { term: 1, index: 1 };
        owner.receive(SECOND, 2, Body::Append { previous, commit: 3, entries });
        assert!(owner.sent.is_empty() && owner.state.is_empty(), "nothing is synced");
        assert!(owner.shard.has_held_receipts());
        owner.sync();
        assert!(!owner.shard.has_held_receipts());
        assert!(matches!(owner.sent[..], [Message { body: Body::Appended { index: 3, .. }, .. }]));
        assert_eq!((&owner.state, &owner.mine), (&vec![fact_bytes(5)], &vec![false, false]));
        assert!(!owner.may_decide);
    }
}

/// Our member is deposed while three of its entries are not committed. Its successor has the first of them.
#[test]
fn a_deposed_member_rolls_back_and_learns_what_became_of_its_entries() {
    for id in IDS {
        let mut owner = Naive::of_three(id);
        owner.lead();
        assert_eq!(owner.decide(1), Some(3));
        owner.sync();
        owner.receive(SECOND, 2, Body::Appended { index: 3, commit: 2 });
        assert_eq!((&owner.state, owner.decided.len()), (&vec![fact_bytes(1)], 0));
        assert_eq!(owner.mine, [true, true]);

        (4..=6).for_each(|index| assert_eq!(owner.decide(index), Some(index)));
        owner.hosted.open.push(&gone(7), 0);
        owner.sync();
        let previous = Position { term: 2, index: 4 };
        owner.receive(THIRD, 3, Body::Append { previous, commit: 3, entries: Vec::new() });
        assert_eq!(owner.standings.last(), Some(&follows(3, THIRD)));
        assert!(owner.decided.is_empty() && !owner.may_decide);
        assert!(owner.hosted.open.is_empty(), "what is in no entry was decided in the lost term");
        assert_eq!(owner.state, [fact_bytes(1)], "nobody has said that more is committed");

        let entries = vec![entry(3, 5, Payload::Empty), entry(3, 6, Payload::Facts(fact_bytes(9)))];
        owner.receive(THIRD, 3, Body::Append { previous, commit: 6, entries });
        owner.sync();
        assert_eq!(owner.state, [1, 4, 9].map(fact_bytes));
        assert_eq!(owner.mine, [true, true, false, false, false]);
    }
}

#[test]
fn a_leader_learns_what_was_decided_before_its_term() {
    for id in IDS {
        let mut owner = Naive::of_three(id);
        let entries = vec![entry(2, 2, Payload::Empty), entry(2, 3, Payload::Facts(fact_bytes(5)))];
        let previous = Position { term: 1, index: 1 };
        owner.receive(SECOND, 2, Body::Append { previous, commit: 1, entries });
        owner.sync();
        owner.hosted.engine.wake().campaign().unwrap();
        pump(&mut owner);
        let commit = previous;
        owner.receive(THIRD, 3, Body::VoteResponse { pre: true, granted: true, commit });
        owner.sync();
        owner.receive(THIRD, 3, Body::VoteResponse { pre: false, granted: true, commit });
        owner.sync();
        assert_eq!((owner.hosted.leads_in(), owner.mine.len()), (Some(3), 0));
        owner.receive(THIRD, 3, Body::Appended { index: 4, commit: 1 });
        assert_eq!((&owner.state, &owner.mine), (&vec![fact_bytes(5)], &vec![false, false, true]));
        assert!(owner.may_decide);
    }
}

#[test]
fn a_proposal_of_a_deposed_member_makes_no_entry() {
    let mut owner = Naive::of_three(GroupId::Catalog);
    owner.lead();
    // The engine knows of the new term, and the owner does not.
    let ping = Message { from: THIRD, to: ME, term: 3, body: Body::Ping { commit: 1 } };
    owner.hosted.engine.wake().step(ping, &Support::default()).unwrap();
    assert_eq!((owner.decide(1), owner.standings.last()), (None, Some(&follows(3, THIRD))));
    assert!(owner.decided.is_empty() && owner.hosted.open.is_empty());
}

#[test]
fn facts_wait_while_the_leadership_is_transferred() {
    let mut owner = Naive::of_three(GroupId::Catalog);
    owner.lead();
    owner.hosted.engine.wake().transfer(2, SECOND).unwrap();
    owner.shard.set_now(100);
    assert_eq!(owner.decide(1), None);
    let due_ms = owner.hosted.open.due_ms();
    assert!(due_ms.is_some_and(|due| due > 100), "the shard would be called again at once: {due_ms:?}");
    owner.hosted.engine.wake().abort_transfer();
    assert_eq!(owner.propose(), Some(3));
    assert_eq!(owner.decided, [fact_bytes(1)]);
}

#[test]
fn a_base_of_a_leader_is_installed() {
    for id in IDS {
        let mut owner = Naive::of_three(id);
        owner.state.push(fact_bytes(1));
        let base = Base {
            at: Position { term: 2, index: 50 },
            vote: Vote::default(),
            members: Members::founding(&[1, 2, 3]),
            installed: true,
            content: Bytes::from_static(b"the state"),
        };
        owner.receive(SECOND, 3, Body::InstallBase(base));
        assert_eq!(owner.state, [Bytes::from_static(b"the state")]);
        owner.sync();
        assert_eq!(owner.hosted.base_index, 50);
        let counted = if id == GroupId::Catalog { 0 } else { 49 };
        assert_eq!(owner.shard.counters.raft.base_index, counted, "the first base had the index 1");
        let previous = Position { term: 2, index: 50 };
        let entries = vec![entry(3, 51, Payload::Facts(fact_bytes(9)))];
        owner.receive(SECOND, 3, Body::Append { previous, commit: 51, entries });
        owner.sync();
        assert_eq!(owner.state, [Bytes::from_static(b"the state"), fact_bytes(9)]);
    }
}

#[test]
fn a_follower_that_lags_is_sent_the_state_of_the_owner() {
    for id in IDS {
        // No entry is retained for followers that lag.
        let mut owner = Naive::new(id, &[1, 2, 3], 0);
        owner.lead();
        owner.decide(1);
        owner.sync();
        owner.receive(SECOND, 2, Body::Appended { index: 3, commit: 2 });
        owner.sent.clear();
        let hint = Position { term: 1, index: 1 };
        owner.receive(THIRD, 2, Body::AppendRefused { index: 1, hint, commit: 1 });
        let [Message { to: THIRD, body: Body::InstallBase(base), .. }] = &owner.sent[..] else {
            panic!("{:?}", owner.sent)
        };
        assert_eq!((base.at.index, &base.content), (3, &fact_bytes(1)));
    }
}

/// Two rounds with records are on their way to the disk when the first entry is committed, with a round that has none.
#[test]
fn a_round_without_records_is_synced_with_those_before_it() {
    let mut owner = Naive::new(GroupId::Catalog, &[1], 1 << 20);
    campaign(&mut owner);
    owner.sync();
    assert!(owner.may_decide);
    (1..=2).for_each(|seq| assert!(owner.decide(seq).is_some()));
    assert!(owner.sync_one());
    assert_eq!(owner.state, [fact_bytes(1)]);
    assert!(owner.sync_one() && !owner.sync_one());
    assert_eq!(owner.state, [1, 2].map(fact_bytes));
    assert!(owner.hosted.engine.is_settled() && owner.hosted.engine.rest());
    assert!(!owner.shard.has_held_receipts());
}

#[test]
fn a_new_base_replaces_the_records_so_far() {
    for id in IDS {
        let mut owner = Naive::of_three(id);
        owner.lead();
        (1..=2).for_each(|seq| assert!(owner.decide(seq).is_some()));
        owner.sync();
        owner.receive(SECOND, 2, Body::Appended { index: 3, commit: 2 });
        let left = write_base(&mut owner);
        assert_eq!(left, Some(vec![entry(2, 4, Payload::Facts(fact_bytes(2)))]), "it is not committed");
        assert_eq!((owner.hosted.base_index, owner.hosted.log_bytes), (3, fact_bytes(2).len() as u64));
    }
}

#[test]
fn a_group_with_nothing_to_do_is_on_no_list() {
    let mut owner = Naive::new(GroupId::Catalog, &[1], 1 << 20);
    campaign(&mut owner);
    owner.sync();
    owner.hosted.open.push(&gone(1), 0);
    owner.shard.groups.list(owner.id, &mut owner.hosted);
    owner.shard.groups.list(owner.id, &mut owner.hosted);
    assert_eq!(owner.shard.groups.listed, [owner.id]);
    assert_eq!(owner.shard.groups.next_deadline(), owner.hosted.open.due_ms());
    owner.shard.propose_entries();
    assert!(!owner.shard.groups.has_unproposed() && owner.shard.groups.next_deadline().is_none());
    // A burst frees the list of rounds afterwards.
    let round = GroupRound { group: owner.id, number: 1 };
    owner.shard.groups.unsynced.extend(std::iter::repeat_n(round, 4 * ROUNDS_KEPT));
    owner.shard.rounds_synced(4 * ROUNDS_KEPT);
    assert_eq!(owner.shard.groups.unsynced.capacity(), 0);
}
