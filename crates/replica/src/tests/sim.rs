//! Simulates a cluster in one thread, from a seed: one group, its members, their disks and the network
//! between them.
//!
//! | event | how |
//! |---|---|
//! | network | messages are lost, duplicated and reordered; links are cut, silently or not, and restored |
//! | disk | a sync takes time; a crash keeps any prefix of the unsynced records |
//! | members | crash, restart, campaign, transfer, rest; are added, promoted, removed; one is damaged and leaves for good |
//! | nodes | support others and stop doing so; know of no support after a crash |
//! | log | evacuations drop all earlier records; followers that lag receive a base |
//!
//! | checked at each step | |
//! |---|---|
//! | all members apply the same entry at an index | also in the state of a base |
//! | an acknowledged entry is what was applied at its index | and is still there at the end |
//! | facts are in an entry of the term in which they were decided | and in only one entry |
//! | one leader per term; one vote per member and term | according to the messages sent |
//! | a member rejects requests for votes against a leader on a node that its own node supports | also after a rest |
//!
//! At the end all faults are repaired. Then nothing helps the group but what the nodes do: they move it again while it is restless. It must
//! elect a leader, commit and become quiet.

use crate::mutation::Mutation;
use crate::{
    Base, Body, Change, Entry, Group, Member, Members, Message, Options, Payload, Record, Restoring, Role,
    Round, Standing, Support,
};
use bytes::Bytes;
use random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The description of a failed check.
pub(super) type Violation = String;

/// What happened in a run. A test can check that the run was not idle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub acknowledged: u64,
    pub leaders: u64,
    pub bases: u64,
    pub changes: u64,
    pub rejected: u64,
    pub wakes: u64,
    /// Requests for votes against a supported leader.
    pub supported: u64,
    pub damaged: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.leaders += other.leaders;
        self.bases += other.bases;
        self.changes += other.changes;
        self.rejected += other.rejected;
        self.wakes += other.wakes;
        self.supported += other.supported;
        self.damaged += other.damaged;
    }
}

/// The state of an owner: the applied index, and a digest of everything applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    index: u64,
    digest: u64,
}

impl State {
    fn content(self) -> Bytes {
        [self.index.to_le_bytes(), self.digest.to_le_bytes()].concat().into()
    }

    fn from_content(content: &[u8]) -> Self {
        let number = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
        Self { index: number(0), digest: number(8) }
    }

    fn after(self, entry: &Entry) -> Self {
        let mut bytes = Vec::new();
        Record::Entry { entry: entry.clone(), committed: 0 }.encode(&mut bytes);
        let digest = bytes.iter().fold(self.digest, |digest, byte| Random(digest ^ u64::from(*byte)).next());
        Self { index: entry.at.index, digest }
    }
}

struct Facts {
    /// The term in which the facts were decided.
    term: u64,
    id: u64,
}

impl Facts {
    fn bytes(&self) -> Bytes {
        [self.term.to_le_bytes(), self.id.to_le_bytes()].concat().into()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let State { index: term, digest: id } = State::from_content(bytes);
        Self { term, id }
    }
}

/// Records that are not synced yet.
struct Batch {
    round: u64,
    records: Vec<Vec<u8>>,
    messages: Vec<Message>,
    /// True if the sync of this batch drops everything before it.
    evacuates: bool,
}

/// The memory of a running member.
struct Up {
    group: Group,
    state: State,
    /// The index and the id of each proposal that the member made as the current leader.
    staged: VecDeque<(u64, u64)>,
    /// The facts that the member has decided but not proposed.
    decided: Vec<Facts>,
    /// True if the group was at rest.
    was_at_rest: bool,
}

struct Replica {
    me: Member,
    synced: Vec<Vec<u8>>,
    pending: VecDeque<Batch>,
    up: Option<Up>,
    damaged: bool,
}

pub(super) struct World {
    random: Random,
    mutation: Option<Mutation>,
    /// The replicas. The index is the number of the node.
    replicas: Vec<Option<Replica>>,
    network: Vec<(u32, u32, Vec<u8>)>,
    cuts: BTreeSet<(u32, u32)>,
    /// What each node supports. The index is the number of the node.
    support: Vec<Support>,
    ids: u64,
    /// What was applied at each index: the digest afterwards, and the id of the facts.
    truth: BTreeMap<u64, (u64, u64)>,
    /// The members at the last index of `truth`.
    members: Members,
    /// The index above which no change was proposed.
    changed: u64,
    acknowledged: u64,
    leaders: BTreeMap<u64, Member>,
    votes: BTreeMap<(Member, u64), Member>,
    seen: BTreeMap<u64, u64>,
    pub tally: Tally,
}

/// The most times that each node moves what is restless after the last fault is repaired.
const WALKS_MAX: usize = 6;

fn options() -> Options {
    Options { window_bytes: 2_000, append_bytes: 400 }
}

/// Runs the simulation with one seed.
pub(super) fn run(seed: u64, steps: usize, mutation: Option<Mutation>) -> Result<Tally, Violation> {
    let mut world = World::new(seed, mutation);
    for _ in 0..steps {
        world.step()?;
    }
    world.heal()?;
    Ok(world.tally)
}

/// Returns true if the message requests a vote that would replace a leader on a node that is supported. A member supports itself. A leader
/// that requests votes leads no more.
fn is_against_supported(message: &Message, me: Member, standing: Standing, support: &Support) -> bool {
    let leads = match standing.role {
        Role::Leader => true,
        Role::Follower { leader } => {
            leader.is_some_and(|leader| support.has(leader.node) && leader != message.from)
        }
        Role::Candidate => false,
    };
    let requests = matches!(message.body, Body::VoteRequest { transfer: false, .. });
    leads && requests && message.to == me && message.term > standing.term
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut random = Random(seed);
        let voters = if random.percent(70) { 3 } else { 5 };
        let nodes: Vec<u32> = (0..voters).collect();
        let first = State { index: 1, digest: 0 };
        let base = Base::founding(&nodes, first.content());
        let mut record = Vec::new();
        Record::Base(base.clone()).encode(&mut record);
        let replica = |node: u32| Replica {
            me: base.members.on_node(node).unwrap(),
            synced: vec![record.clone()],
            pending: VecDeque::new(),
            up: None,
            damaged: false,
        };
        let mut replicas: Vec<Option<Replica>> = nodes.iter().map(|&node| Some(replica(node))).collect();
        replicas.extend([None, None]);
        let support = vec![Support::default(); replicas.len()];
        let mut world = Self {
            random,
            mutation,
            replicas,
            support,
            network: Vec::new(),
            cuts: BTreeSet::new(),
            ids: 0,
            truth: BTreeMap::from([(1, (0, 0))]),
            members: base.members.clone(),
            changed: 0,
            acknowledged: 0,
            leaders: BTreeMap::new(),
            votes: BTreeMap::new(),
            seen: BTreeMap::new(),
            tally: Tally::default(),
        };
        nodes.iter().try_for_each(|&node| world.restart(node)).expect("founding bases are whole");
        world
    }

    fn nodes(&self) -> Vec<u32> {
        (0..self.replicas.len() as u32).collect()
    }

    /// Returns the nodes whose replica satisfies `is`.
    fn where_replica(&self, is: impl Fn(&Replica) -> bool) -> Vec<u32> {
        self.nodes().into_iter().filter(|&n| self.replicas[n as usize].as_ref().is_some_and(&is)).collect()
    }

    fn ups(&self) -> Vec<u32> {
        self.where_replica(|replica| replica.up.is_some())
    }

    fn leading(&self) -> Vec<u32> {
        let leads = |up: &Up| up.group.standing().role == Role::Leader;
        self.where_replica(|replica| replica.up.as_ref().is_some_and(leads))
    }

    fn replica(&mut self, node: u32) -> &mut Replica {
        self.replicas[node as usize].as_mut().unwrap()
    }

    fn up(&mut self, node: u32) -> &mut Up {
        self.replica(node).up.as_mut().unwrap()
    }

    fn step(&mut self) -> Result<(), Violation> {
        match self.random.index(1000) {
            0..420 => self.deliver()?,
            420..600 => self.sync_somewhere()?,
            600..720 => self.decide()?,
            720..750 => self.propose_late()?,
            750..775 => self.campaign()?,
            775..783 => self.crash(),
            783..818 => self.restart_somewhere()?,
            818..826 => self.cut(),
            826..850 => self.mend()?,
            850..870 => self.lose(),
            870..890 => self.double(),
            890..905 => self.evacuate(),
            905..935 => self.change()?,
            935..943 => self.transfer()?,
            943..950 => self.abort_transfer(),
            950..952 => self.damage(),
            952..967 => self.flap()?,
            967..977 => self.support()?,
            977..990 => self.nap()?,
            _ => self.start_joining(),
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        if self.network.is_empty() {
            return Ok(());
        }
        // The next message is mostly the oldest one, so that more happens.
        let at = if self.random.percent(70) { 0 } else { self.random.index(self.network.len()) };
        let (from, to, bytes) = self.network.remove(at);
        let is_up = self.replicas[to as usize].as_ref().is_some_and(|replica| replica.up.is_some());
        if self.cuts.contains(&(from, to)) || !is_up {
            return Ok(());
        }
        let message = Message::decode(bytes.into()).expect("what was encoded");
        let (mutation, support) = (self.mutation, self.support[to as usize].clone());
        let Up { group, was_at_rest, .. } = self.up(to);
        let is_against = is_against_supported(&message, group.me(), group.standing(), &support);
        let is_forgotten = mutation == Some(Mutation::WakeWithoutSupport) && *was_at_rest;
        match group.step(message, &if is_forgotten { Support::default() } else { support }) {
            Ok(()) if is_against => return Err(format!("{to} votes against a leader that it supports")),
            Ok(()) => {}
            Err(_) => self.tally.rejected += 1,
        }
        self.tally.supported += u64::from(is_against);
        // Sometimes more messages arrive before the round.
        if self.random.percent(85) { self.pump(to) } else { Ok(()) }
    }

    fn sync_somewhere(&mut self) -> Result<(), Violation> {
        let nodes = self.where_replica(|replica| replica.up.is_some() && !replica.pending.is_empty());
        let Some(node) = self.random.pick(&nodes) else { return Ok(()) };
        let batches = 1 + self.random.index(4);
        self.sync(node, batches)
    }

    fn sync(&mut self, node: u32, batches: usize) -> Result<(), Violation> {
        let mut messages = Vec::new();
        let replica = self.replica(node);
        for _ in 0..batches.min(replica.pending.len()) {
            let batch = replica.pending.pop_front().unwrap();
            if batch.evacuates {
                replica.synced.clear();
            }
            replica.synced.extend(batch.records);
            messages.extend(batch.messages);
            replica.up.as_mut().unwrap().group.on_synced(batch.round);
        }
        messages.into_iter().try_for_each(|message| self.send(message))?;
        self.pump(node)
    }

    fn send(&mut self, message: Message) -> Result<(), Violation> {
        let Message { from, to, term, .. } = message;
        let vote = match message.body {
            Body::VoteRequest { pre: false, .. } => Some(from),
            Body::VoteResponse { pre: false, granted: true, .. } => Some(to),
            _ => None,
        };
        if let Some(vote) = vote
            && let before = *self.votes.entry((from, term)).or_insert(vote)
            && before != vote
        {
            return Err(format!("{from:?} votes for {before:?} and {vote:?} in term {term}"));
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.network.push((from.node, to.node, bytes));
        Ok(())
    }

    /// Carries out the rounds of a member.
    fn pump(&mut self, node: u32) -> Result<(), Violation> {
        while let Some(round) = self.up(node).group.poll_round() {
            self.carry(node, round)?;
        }
        for facts in std::mem::take(&mut self.up(node).group.forwarded) {
            let Some(leader) = self.random.pick(&self.leading()) else { continue };
            let term = self.up(leader).group.standing().term;
            let _ = self.up(leader).group.propose(term, facts);
        }
        Ok(())
    }

    fn carry(&mut self, node: u32, round: Round) -> Result<(), Violation> {
        let Round { number, standing, records, now, committed, after_sync, wants_base } = round;
        let me = self.replica(node).me;
        if let Some(standing) = standing {
            self.up(node).staged.clear();
            if standing.role == Role::Leader {
                self.tally.leaders += 1;
                let leader = *self.leaders.entry(standing.term).or_insert(me);
                if leader != me {
                    return Err(format!("{leader:?} and {me:?} lead in term {}", standing.term));
                }
            }
        }
        for record in &records {
            if let Record::Base(base) = record {
                self.tally.bases += 1;
                let state = State::from_content(&base.content);
                if self.truth.get(&state.index).is_none_or(|truth| truth.0 != state.digest) {
                    return Err(format!("the base of {me:?} is another state"));
                }
                assert_eq!(state.index, base.at.index);
                self.up(node).state = state;
            }
        }
        let encode = |record: &Record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes
        };
        let records: Vec<Vec<u8>> = records.iter().map(encode).collect();
        let replica = self.replica(node);
        let waits = !replica.pending.is_empty();
        if waits || !records.is_empty() {
            replica.pending.push_back(Batch {
                round: number,
                records,
                messages: after_sync,
                evacuates: false,
            });
        } else {
            assert!(after_sync.is_empty(), "there is nothing to wait for");
        }
        now.into_iter().try_for_each(|message| self.send(message))?;
        committed.into_iter().try_for_each(|entry| self.apply(node, entry))?;
        if wants_base {
            let up = self.up(node);
            let content = up.state.content();
            up.group.send_base(content);
        }
        Ok(())
    }

    fn apply(&mut self, node: u32, entry: Entry) -> Result<(), Violation> {
        let me = self.replica(node).me;
        let index = entry.at.index;
        let before = self.up(node).state;
        if index != before.index + 1 {
            return Err(format!("{me:?} applies {index} after {}", before.index));
        }
        let State { digest, .. } = before.after(&entry);
        let mut id = 0;
        if let Payload::Facts(facts) = &entry.payload {
            let facts = Facts::from_bytes(facts);
            id = facts.id;
            if facts.term != entry.at.term {
                return Err(format!("decided in term {}, in an entry of {:?}", facts.term, entry.at));
            }
            let first = *self.seen.entry(id).or_insert(index);
            if first != index {
                return Err(format!("facts {id} at {first} and {index}"));
            }
        }
        match self.truth.get(&index) {
            Some(truth) if *truth != (digest, id) => {
                return Err(format!("{me:?} applies something else at {index}"));
            }
            Some(_) => {}
            None => {
                self.truth.insert(index, (digest, id));
                if let Payload::Change(change) = entry.payload {
                    self.tally.changes += 1;
                    self.members = self.members.after(change).expect("a change that fits");
                }
            }
        }
        let up = self.up(node);
        up.state = State { index, digest };
        let mut acknowledged = Vec::new();
        while let Some(&(at, staged)) = up.staged.front()
            && at <= index
        {
            up.staged.pop_front();
            acknowledged.push((at, staged));
        }
        for (at, staged) in acknowledged {
            if (at, staged) != (index, id) {
                return Err(format!("{me:?} acknowledges {staged} at {at}, and {id} is applied at {index}"));
            }
            self.tally.acknowledged += 1;
            self.acknowledged = self.acknowledged.max(index);
        }
        Ok(())
    }

    /// Lets a leader decide something, and propose it at once or later.
    fn decide(&mut self) -> Result<(), Violation> {
        let Some(node) = self.random.pick(&self.leading()) else { return Ok(()) };
        let proposes = self.random.percent(65);
        self.ids += 1;
        let id = self.ids;
        let up = self.up(node);
        up.decided.push(Facts { term: up.group.standing().term, id });
        if proposes { self.propose(node) } else { Ok(()) }
    }

    fn propose_late(&mut self) -> Result<(), Violation> {
        let has = |up: &Up| !up.decided.is_empty();
        let nodes = self.where_replica(|replica| replica.up.as_ref().is_some_and(has));
        let Some(node) = self.random.pick(&nodes) else { return Ok(()) };
        self.propose(node)
    }

    fn propose(&mut self, node: u32) -> Result<(), Violation> {
        let decided = self.up(node).decided.len();
        let at = self.random.index(decided);
        let up = self.up(node);
        let facts = up.decided.swap_remove(at);
        if let Ok(index) = up.group.propose(facts.term, facts.bytes()) {
            up.staged.push_back((index, facts.id));
        }
        if self.random.percent(70) { self.pump(node) } else { Ok(()) }
    }

    fn campaign(&mut self) -> Result<(), Violation> {
        let Some(node) = self.random.pick(&self.ups()) else { return Ok(()) };
        let _ = self.up(node).group.campaign();
        self.pump(node)
    }

    fn crash(&mut self) {
        let Some(node) = self.random.pick(&self.ups()) else { return };
        let unsynced = self.replica(node).pending.iter().map(|batch| batch.records.len()).sum::<usize>();
        let kept = self.random.index(unsynced + 1);
        self.support[node as usize] = Support::default();
        let replica = self.replica(node);
        replica.up = None;
        let pending = std::mem::take(&mut replica.pending);
        replica.synced.extend(pending.into_iter().flat_map(|batch| batch.records).take(kept));
    }

    fn restart_somewhere(&mut self) -> Result<(), Violation> {
        let nodes = self.where_replica(|replica| replica.up.is_none() && !replica.damaged);
        let Some(node) = self.random.pick(&nodes) else { return Ok(()) };
        self.restart(node)?;
        self.tell_of_restart(node)?;
        self.pump(node)
    }

    /// The other nodes see a later start of the node: they no longer support the one before, and drop what it has sent.
    fn tell_of_restart(&mut self, node: u32) -> Result<(), Violation> {
        self.network.retain(|(from, ..)| *from != node);
        for other in self.ups().into_iter().filter(|other| *other != node) {
            self.support[other as usize].set(node, false);
            self.up(other).group.on_support_ended(node);
            self.pump(other)?;
        }
        Ok(())
    }

    fn restart(&mut self, node: u32) -> Result<(), Violation> {
        let (mutation, takes_committed) = (self.mutation, self.random.percent(50));
        let replica = self.replica(node);
        let (mut restoring, mut state) = (Restoring::default(), State { index: 0, digest: 0 });
        for record in &replica.synced {
            let record = Record::decode(record.clone().into()).expect("what was encoded");
            if let Record::Base(base) = &record
                && (base.installed || base.at.index > state.index)
            {
                state = State::from_content(&base.content);
            }
            restoring.on_record(record).expect("no record is missing");
            if takes_committed {
                // The state in a base contains everything at and below its index.
                let first = state.index + 1;
                for entry in restoring.take_committed().iter().filter(|entry| entry.at.index >= first) {
                    assert_eq!(entry.at.index, state.index + 1, "taken out in order");
                    state = state.after(entry);
                }
            }
        }
        let finished = restoring.finish(replica.me, options());
        let mut group = finished.map_err(|damaged| format!("no record is missing: {damaged}"))?;
        group.mutation = mutation;
        replica.up =
            Some(Up { group, state, staged: VecDeque::new(), decided: Vec::new(), was_at_rest: false });
        Ok(())
    }

    fn pair(&mut self) -> (u32, u32) {
        let nodes = self.replicas.len();
        let a = self.random.index(nodes);
        let b = (a + 1 + self.random.index(nodes - 1)) % nodes;
        (a as u32, b as u32)
    }

    fn cut(&mut self) {
        if self.random.percent(50) {
            // Separates a part of the nodes from the others.
            let part = self.random.next();
            let nodes = self.nodes();
            for (&a, &b) in nodes.iter().flat_map(|a| nodes.iter().map(move |b| (a, b))) {
                if (part >> a ^ part >> b) & 1 == 1 {
                    self.cuts.insert((a, b));
                }
            }
        } else {
            let (a, b) = self.pair();
            self.cuts.insert((a, b));
            if self.random.percent(60) {
                self.cuts.insert((b, a));
            }
        }
    }

    fn mend(&mut self) -> Result<(), Violation> {
        let cuts = std::mem::take(&mut self.cuts);
        for (a, b) in cuts {
            self.set_link(a, b)?;
            self.set_link(b, a)?;
        }
        Ok(())
    }

    /// Breaks and restores the link from node `a` to `b`.
    fn set_link(&mut self, a: u32, b: u32) -> Result<(), Violation> {
        if !self.ups().contains(&a) {
            return Ok(());
        }
        let up = self.up(a);
        up.group.on_link(b, false);
        up.group.on_link(b, true);
        self.pump(a)
    }

    fn flap(&mut self) -> Result<(), Violation> {
        let (a, b) = self.pair();
        let mut at = 0;
        while at < self.network.len() {
            let (from, to, _) = self.network[at];
            if (from, to) == (a, b) && self.random.percent(50) {
                self.network.remove(at);
            } else {
                at += 1;
            }
        }
        self.set_link(a, b)?;
        self.set_link(b, a)
    }

    fn lose(&mut self) {
        if !self.network.is_empty() {
            let at = self.random.index(self.network.len());
            self.network.remove(at);
        }
    }

    fn double(&mut self) {
        if !self.network.is_empty() {
            let at = self.random.index(self.network.len());
            self.network.push(self.network[at].clone());
        }
    }

    fn evacuate(&mut self) {
        let Some(node) = self.random.pick(&self.ups()) else { return };
        let replica = self.replica(node);
        let up = replica.up.as_mut().unwrap();
        let Some(records) = up.group.evacuate(up.state.content()) else { return };
        let encode = |record: &Record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes
        };
        let records = records.iter().map(encode).collect();
        replica.pending.push_back(Batch { round: 0, records, messages: Vec::new(), evacuates: true });
    }

    /// Returns true if the outcome of every change is known.
    fn is_settled(&self) -> bool {
        self.truth.last_key_value().is_some_and(|(last, _)| self.changed <= *last)
    }

    fn is_damaged(&self, member: Member) -> bool {
        self.replicas[member.node as usize]
            .as_ref()
            .is_some_and(|replica| replica.me == member && replica.damaged)
    }

    /// Returns true if an undamaged majority of `voters` exists.
    fn can_commit(&self, voters: &[Member]) -> bool {
        let damaged = voters.iter().filter(|voter| self.is_damaged(**voter)).count();
        voters.len() - damaged > voters.len() / 2
    }

    fn change(&mut self) -> Result<(), Violation> {
        let Some(node) = self.random.pick(&self.leading()) else { return Ok(()) };
        if !self.is_settled() {
            return Ok(());
        }
        let members = self.members.clone();
        let damaged: Vec<Member> = members.all().filter(|member| self.is_damaged(*member)).collect();
        let change = match self.random.index(4) {
            0 | 1 => self.random.pick(&damaged).map(Change::Remove).or_else(|| {
                let unused: Vec<u32> =
                    self.nodes().into_iter().filter(|node| members.on_node(*node).is_none()).collect();
                let node = self.random.pick(&unused)?;
                Some(Change::Add(Member { node, number: members.next() }))
            }),
            2 => self.random.pick(members.learners()).map(Change::Promote),
            _ => {
                let all: Vec<Member> = members.all().collect();
                self.random.pick(&all).map(Change::Remove)
            }
        };
        let Some(change) = change else { return Ok(()) };
        let Some(after) = members.after(change) else { return Ok(()) };
        if !self.can_commit(after.voters()) {
            return Ok(());
        }
        let up = self.up(node);
        let term = up.group.standing().term;
        if let Ok(index) = up.group.change(term, change) {
            self.changed = self.changed.max(index);
        }
        self.pump(node)
    }

    /// Starts new members on their nodes.
    fn start_joining(&mut self) {
        for member in self.members.clone().all() {
            let before = self.replicas[member.node as usize].as_ref().map(|replica| replica.me);
            if before.is_some_and(|before| before == member || !self.is_discarded(before)) {
                continue;
            }
            let place = &mut self.replicas[member.node as usize];
            let mut group = Group::join(member, options());
            group.mutation = self.mutation;
            let state = State { index: 0, digest: 0 };
            *place = Some(Replica {
                me: member,
                synced: Vec::new(),
                pending: VecDeque::new(),
                up: Some(Up {
                    group,
                    state,
                    staged: VecDeque::new(),
                    decided: Vec::new(),
                    was_at_rest: false,
                }),
                damaged: false,
            });
        }
    }

    /// Returns true if `member` was removed and, according to a leader, is no longer needed.
    fn is_discarded(&mut self, member: Member) -> bool {
        self.members.is_former(member) && (self.is_damaged(member) || self.change_is_known())
    }

    /// Returns true if, according to a leader, a majority knows the current members.
    fn change_is_known(&mut self) -> bool {
        let members = self.members.clone();
        self.leading().into_iter().any(|node| {
            let group = &self.up(node).group;
            group.change_is_known() && *group.members() == members
        })
    }

    fn transfer(&mut self) -> Result<(), Violation> {
        let Some(node) = self.random.pick(&self.leading()) else { return Ok(()) };
        let Some(to) = self.random.pick(self.members.voters()) else { return Ok(()) };
        let up = self.up(node);
        let term = up.group.standing().term;
        let _ = up.group.transfer(term, to);
        self.pump(node)
    }

    fn abort_transfer(&mut self) {
        let Some(node) = self.random.pick(&self.leading()) else { return };
        self.up(node).group.abort_transfer();
    }

    /// Damages the disk of a member. It never runs again; the others remove it.
    fn damage(&mut self) {
        let nodes = self.where_replica(|replica| !replica.damaged);
        let Some(node) = self.random.pick(&nodes) else { return };
        if !self.is_settled() || !self.change_is_known() {
            return;
        }
        self.replica(node).damaged = true;
        if self.can_commit(self.members.voters()) {
            let replica = self.replica(node);
            replica.up = None;
            replica.pending.clear();
            replica.synced.clear();
            self.tally.damaged += 1;
        } else {
            self.replica(node).damaged = false;
        }
    }

    fn support(&mut self) -> Result<(), Violation> {
        let Some(node) = self.random.pick(&self.ups()) else { return Ok(()) };
        let (other, supported) = (self.pair().0, self.random.percent(50));
        let support = &mut self.support[node as usize];
        let has_ended = support.set(other, supported) && !supported;
        let campaigns = self.random.percent(70);
        let group = &mut self.up(node).group;
        if has_ended {
            group.on_support_ended(other);
            if campaigns && group.is_restless() {
                let _ = group.retry();
            }
        }
        self.pump(node)
    }

    /// Puts a member to rest and wakes it.
    fn nap(&mut self) -> Result<(), Violation> {
        let Some(node) = self.random.pick(&self.ups()) else { return Ok(()) };
        self.wake(node)
    }

    fn wake(&mut self, node: u32) -> Result<(), Violation> {
        let mutation = self.mutation;
        let replica = self.replica(node);
        let up = replica.up.as_mut().unwrap();
        if !replica.pending.is_empty() {
            return Ok(());
        }
        let Some(resting) = up.group.rest() else { return Ok(()) };
        (up.group, up.was_at_rest) = (resting.wake(options()), true);
        up.group.mutation = mutation;
        self.tally.wakes += 1;
        self.pump(node)
    }

    /// Repairs all faults.
    fn heal(&mut self) -> Result<(), Violation> {
        self.start_joining();
        for node in self.where_replica(|replica| replica.up.is_none() && !replica.damaged) {
            self.restart(node)?;
            self.tell_of_restart(node)?;
        }
        let mut supported = Support::default();
        self.ups().into_iter().for_each(|node| _ = supported.set(node, true));
        for node in self.ups() {
            self.up(node).group.abort_transfer();
            // The support of a node may have ended and begun again before anybody has looked.
            self.support[node as usize] = supported.clone();
            self.pump(node)?;
        }
        self.mend()?;
        self.settle()?;
        let mut marker = None;
        for _ in 0..WALKS_MAX {
            self.walk()?;
            marker = self.mark(marker)?;
            self.settle()?;
            self.start_joining();
            if self.is_quiet_everywhere(marker) {
                return self.check_rest();
            }
        }
        let explained: Vec<String> =
            self.ups().into_iter().map(|node| self.up(node).group.explain()).collect();
        Err(format!("the group does not come to rest: {:?}\n{}", self.members, explained.join("\n")))
    }

    /// Lets each node move what is restless again, as nodes do twice a second. One node after the other does it, and a message takes less
    /// time than that.
    fn walk(&mut self) -> Result<(), Violation> {
        let members = self.members.clone();
        for node in self.ups() {
            let support = self.support[node as usize].clone();
            // A leader whose removal is committed leads no more, and tells nobody. Its owner must: no owner removes members yet.
            if let Role::Follower { leader: Some(leader) } = self.up(node).group.standing().role
                && members.is_former(leader)
            {
                self.up(node).group.on_support_ended(leader.node);
            }
            let group = &mut self.up(node).group;
            if group.is_restless() || group.lacks_support(&support) {
                let _ = group.retry();
                self.settle()?;
            }
        }
        Ok(())
    }

    /// Lets the newest leader propose something, unless the marker is its proposal already.
    fn mark(&mut self, marker: Option<(u32, u64)>) -> Result<Option<(u32, u64)>, Violation> {
        let leading = self.leading();
        let newest = leading.into_iter().max_by_key(|node| self.up(*node).group.standing().term);
        let Some(leader) = newest else { return Ok(None) };
        if let Some((of, index)) = marker
            && of == leader
            && self.up(leader).group.last().index >= index
        {
            return Ok(marker);
        }
        let term = self.up(leader).group.standing().term;
        self.ids += 1;
        let facts = Facts { term, id: self.ids };
        let marker = self.up(leader).group.propose(term, facts.bytes()).ok().map(|index| (leader, index));
        self.pump(leader)?;
        Ok(marker)
    }

    /// Delivers and syncs until nothing is left to do.
    fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..10_000 {
            self.ups().into_iter().try_for_each(|node| self.pump(node))?;
            let unsynced = self.where_replica(|replica| replica.up.is_some() && !replica.pending.is_empty());
            if self.network.is_empty() && unsynced.is_empty() {
                return Ok(());
            }
            unsynced.into_iter().try_for_each(|node| self.sync(node, usize::MAX))?;
            if !self.network.is_empty() {
                self.deliver()?;
            }
        }
        Err("the network does not come to rest".to_owned())
    }

    fn is_quiet_everywhere(&mut self, marker: Option<(u32, u64)>) -> bool {
        let Some((leader, index)) = marker else { return false };
        let state = self.up(leader).state;
        let members: Vec<Member> = self.members.all().filter(|member| !self.is_damaged(*member)).collect();
        self.up(leader).group.standing().role == Role::Leader
            && state.index >= index
            && members.iter().all(|member| self.up(member.node).state == state)
    }

    fn check_rest(&mut self) -> Result<(), Violation> {
        let last = self.ups().into_iter().map(|node| self.up(node).state.index).max().unwrap_or(0);
        if last < self.acknowledged {
            return Err(format!("{} was acknowledged, and {last} is the last index", self.acknowledged));
        }
        let is_whole = self.members.all().all(|member| !self.is_damaged(member));
        for member in self.members.clone().all().filter(|_| is_whole) {
            if self.up(member.node).group.rest().is_none() {
                let why = self.up(member.node).group.explain();
                return Err(format!("{member:?} cannot be put away: {why}"));
            }
            let network = self.network.len();
            self.wake(member.node)?;
            if self.network.len() != network {
                return Err(format!("{member:?} wakes and sends something"));
            }
        }
        Ok(())
    }
}
