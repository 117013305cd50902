//! The world: nodes, links, faults, clients.

mod answers;
mod faults;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use catalog::ids::NodeNumber;
use node::shard::looks::CatalogSight;
use nodes::{BEAT_MS, Event, Reason, Side, Waits, Why};
use wal_testing::Random;

use super::checks::{self, History};
use super::clients::Clients;
use super::clock::SimClock;
use super::links::{Kind, Network, Pipe, Sent};
use super::mistakes::Mistake;
use super::node::{Answered, DiskState, SimNode};

/// Which faults there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Quiet,
    /// Links are cut in one or both directions, and delayed, processes are paused, and clocks are set.
    Cuts,
    /// As before, and processes are killed, and machines lose power.
    Kills,
    /// As before, and the disk of one node is damaged or wiped while it does not run.
    Damage,
}

/// The steps with faults.
const FAULTY_STEPS: u32 = 6000;

/// The first of them, in which nothing fails if a disk is damaged later: the cluster must have three members before.
const FORMING_STEPS: u32 = 2000;

/// The simulated time after which everything moves again, when the last fault has healed: links are dialed at most 5 s apart, a support takes
/// 2 s to end, and elections are tried again every half second.
const HEALED_MS: u64 = 20_000;

/// The time in which consumers empty all queues. What a node held that was lost returns after a minute.
const EMPTIED_MS: u64 = 70_000;

/// After this time without requests of clients, nothing is on its way any more.
const CALM_MS: u64 = 6000;

/// For so long a quiet cluster must send nothing but heartbeats: longer than everything that is repeated, except the loss of a node.
const QUIET_MS: u64 = 10_000;

/// The most time from one step to the next, and when little happens.
const STEP_MS: u64 = 8;
const SLOW_STEP_MS: u64 = 20;

/// So many clients do something in one step then.
const SLOW_CLIENT_STEPS: u32 = 3;

/// The longest time in which a client is answered, while its node runs: the patience of a node, and what its turns take.
const ANSWER_MS: u64 = 7000;

/// The simulated time after which two nodes that have links in both directions, support each other and run know how far the other has come. A
/// link over which nothing arrives closes after 2 s, and the messages of others are on their way for 0.3 s at most.
const SEEN_MS: u64 = 3500;

/// Two nodes whose clocks differ by more than the first are told so, and by less than the second are not. Between the two it depends on the
/// round trip of heartbeats, and on how the clocks differed before.
const CLOCKS_APART_MS: u64 = 2000;
const CLOCKS_AGREE_MS: u64 = 450;

/// The most declarations of a run.
const DECLARATIONS_MAX: usize = 60;

/// A declaration that is not answered.
struct Asked {
    name: String,
    node: usize,
    boot: u32,
    since_ms: u64,
    answer: Rc<RefCell<Option<Answered>>>,
}

pub(super) struct World {
    random: Random,
    plan: Plan,
    now_ms: u64,
    nodes: Vec<SimNode>,
    listed: Vec<String>,
    pipes: BTreeMap<(usize, usize, Kind), Pipe>,
    networks: BTreeMap<(usize, usize), Network>,
    /// The number of the second node when the first one last opened a connection to its shards.
    numbers: BTreeMap<(usize, usize), NodeNumber>,
    history: History,
    asked: Vec<Asked>,
    names: u64,
    transient: Vec<(String, usize, u32)>,
    has_clients: bool,
    clients: Clients,
    /// Since when the first node has the second in sight.
    in_sight: BTreeMap<(usize, usize), u64>,
    /// When the first node said last that the second is behind.
    behind: BTreeMap<(usize, usize), u64>,
    /// Time passes faster from step to step, because little happens.
    is_slow: bool,
    /// The number of messages between shards.
    mail: u64,
    /// The number of words of heartbeats.
    words: u64,
    /// The node whose disk was damaged, and the owners whose records may be concerned. `None` if anybody's may be.
    hurt: Option<(usize, Option<BTreeSet<u64>>)>,
    mistake: Option<Mistake>,
}

/// What has happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Declarations that were carried out.
    pub declared: u64,
    /// Messages that were accepted.
    pub accepted: u64,
    /// Nodes whose disk was wiped.
    pub wiped: u64,
    /// Nodes whose starts were refused, because definitions may be lost.
    pub refused: u64,
    /// Nodes that have closed queues.
    pub closed: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.declared += other.declared;
        self.accepted += other.accepted;
        self.wiped += other.wiped;
        self.refused += other.refused;
        self.closed += other.closed;
    }
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let mut random = Random(seed);
        let mut nodes: Vec<SimNode> = (0..3).map(|at| SimNode::new(at, seed, &mut random)).collect();
        nodes.iter_mut().for_each(|node| node.clock = SimClock::drifting(&mut random));
        let pairs: Vec<_> =
            (0..3).flat_map(|a| (0..3).filter(move |b| *b != a).map(move |b| (a, b))).collect();
        let of_pair = |(a, b)| [(a, b, Kind::Heartbeats), (a, b, Kind::Data)];
        Self {
            random,
            plan,
            now_ms: 1_000_000,
            listed: nodes.iter().map(|node| node.name.clone()).collect(),
            nodes,
            pipes: pairs.iter().copied().flat_map(of_pair).map(|pipe| (pipe, Pipe::default())).collect(),
            networks: pairs.into_iter().map(|pair| (pair, Network::default())).collect(),
            numbers: BTreeMap::new(),
            history: History::default(),
            asked: Vec::new(),
            names: 0,
            transient: Vec::new(),
            has_clients: true,
            clients: Clients::default(),
            in_sight: BTreeMap::new(),
            behind: BTreeMap::new(),
            is_slow: false,
            mail: 0,
            words: 0,
            hurt: None,
            mistake: None,
        }
    }

    pub(super) fn with_mistake(mut self, mistake: Mistake) -> Self {
        self.mistake = Some(mistake);
        self
    }

    /// Runs to the end. Panics if something is wrong.
    pub(super) fn run(mut self) -> Counts {
        (0..self.nodes.len()).for_each(|at| {
            if self.plan != Plan::Kills || self.random.one_in(2) {
                self.start(at)
            }
        });
        let formed_at = if self.plan == Plan::Damage { FORMING_STEPS } else { 0 };
        for at in 0..FAULTY_STEPS {
            self.step();
            if at >= formed_at {
                self.trouble();
            }
        }
        self.heal();
        let healed_ms = self.now_ms;
        while self.now_ms < healed_ms + HEALED_MS {
            self.step();
        }
        // Without clients, nothing but heartbeats is sent soon.
        (self.has_clients, self.is_slow) = (false, true);
        let lost = self.lost_queues();
        let queues: Vec<String> =
            self.history.durable().iter().filter(|queue| !lost.contains(*queue)).cloned().collect();
        let emptied_ms = self.now_ms + EMPTIED_MS;
        while self.now_ms < emptied_ms {
            if self.random.one_in(20) {
                self.clients.finish(&mut self.nodes, &queues, self.now_ms, &mut self.random);
            }
            self.step();
        }
        let quiet_ms = self.now_ms + CALM_MS;
        while self.now_ms < quiet_ms {
            self.step();
        }
        self.check_quiet();
        self.check_end(&lost)
    }

    fn has_kills(&self) -> bool {
        matches!(self.plan, Plan::Kills | Plan::Damage)
    }

    // ---- what happens

    fn step(&mut self) {
        self.now_ms += self.random.below(if self.is_slow { SLOW_STEP_MS } else { STEP_MS });
        match self.random.below(14) {
            0 => self.ask(),
            1..4 => self.carry(),
            4 => self.links(),
            12.. => {
                for _ in 0..if self.is_slow { SLOW_CLIENT_STEPS } else { 1 } {
                    let (queues, now_ms) = (self.history.durable(), self.now_ms);
                    self.clients.step(&mut self.nodes, queues, now_ms, &mut self.random);
                }
            }
            _ => self.step_node(),
        }
        self.take_answers();
    }

    fn step_node(&mut self) {
        let (at, now_ms) = (self.random.index(self.nodes.len()), self.now_ms);
        let node = &mut self.nodes[at];
        if !node.acts(now_ms) {
            return;
        }
        let (shown_ms, name) = (node.set_time(now_ms), node.name.clone());
        let Some(process) = node.process.as_mut() else { return };
        let mut mail = Vec::new();
        if let (Some(broker), Some(shown_ms)) = (&mut process.broker, shown_ms) {
            mail = broker.step(shown_ms, &mut self.random);
            let shard = &broker.shards[0];
            // To look at a catalog takes longer than most steps.
            if broker.looked_at.replace(shard.catalog_index()) != Some(shard.catalog_index()) {
                self.history.note_state(&name, shard.catalog_index(), shard.catalog());
                let of_node = self.transient.iter().filter(|(_, on, since)| (*on, *since) == (at, node.boot));
                for (queue, ..) in of_node {
                    assert!(
                        shard.catalog().listed_queue("/", queue).is_some(),
                        "H1: transient queue {queue} was declared on {name} in this boot, which runs, and is gone"
                    );
                }
            }
        }
        process.take_admitted();
        if let Some((_, cluster, number)) = process.persists.take_if(|(at_ms, ..)| *at_ms <= now_ms) {
            process.nodes.handle_persisted();
            node.membership = Some((cluster, number));
            node.start_broker(now_ms, self.mistake);
        }
        self.events(at);
        if let Some(process) = &mut self.nodes[at].process {
            checks::check_sight(process);
        }
        self.mail += mail.len() as u64;
        for mail in mail {
            if let Some(to) = self.nodes.iter().position(|node| node.number() == Some(mail.to)) {
                self.send(at, to, Kind::Data, Sent::Mail(mail));
            }
        }
    }

    /// Carries out what the machine of a node wants.
    fn events(&mut self, at: usize) {
        while let Some(event) = self.nodes[at].process.as_mut().and_then(|process| process.nodes.poll()) {
            let (now_ms, is_member) = (self.now_ms, self.nodes[at].is_member());
            let Some(process) = self.nodes[at].process.as_mut() else { return };
            match event {
                Event::Send { peer, word } => {
                    self.words += 1;
                    self.send(at, peer, Kind::Heartbeats, Sent::Word(word));
                }
                Event::Close { peer, side } => {
                    let (from, to) = if side == Side::Dialed { (at, peer) } else { (peer, at) };
                    let pipe = self.pipes.entry((from, to, Kind::Heartbeats)).or_default();
                    if side == Side::Dialed {
                        pipe.close(now_ms, &mut self.random);
                        self.close_accepted(at, peer);
                    } else {
                        pipe.reset();
                    }
                }
                Event::Found { .. } | Event::Join { .. } if !is_member => {
                    panic!("a node that has lost its disk is a member");
                }
                Event::Found { cluster } => {
                    process.persists = Some((now_ms + self.random.below(50), cluster, 1));
                }
                Event::Join { cluster, number } => {
                    process.persists = Some((now_ms + self.random.below(50), cluster, number));
                }
                Event::AskToAdmit { node, name } => process.admit(node, &name),
                Event::Support { number, ended, .. } => {
                    match ended.is_none() {
                        true => process.supported.insert(number),
                        false => process.supported.remove(&number),
                    };
                    for shard in process.broker.iter_mut().flat_map(|broker| &mut broker.shards) {
                        shard.handle_support(number, ended.is_none());
                        if ended == Some(Why::Gone) {
                            shard.handle_gone(number);
                        }
                    }
                }
                // No node has alarms. The end of a run looks at the clocks.
                Event::Alarms { .. } | Event::Clocks { .. } => {}
                Event::OtherCluster { .. } => panic!("there are two clusters"),
            }
        }
    }

    /// Tells a node that the connection that another one had dialed has ended. A paused one hears of it after its pause.
    fn close_accepted(&mut self, from: usize, to: usize) {
        let acts = self.set_time(to);
        if let Some(process) = &mut self.nodes[to].process {
            match acts {
                true => process.nodes.handle_accept_closed(from),
                false => process.ended.push(from),
            }
        }
    }

    /// Gives a node the time. Returns false if it does not act now.
    fn set_time(&mut self, at: usize) -> bool {
        let acts = self.nodes[at].acts(self.now_ms);
        if acts {
            self.nodes[at].set_time(self.now_ms);
        }
        acts
    }

    fn send(&mut self, from: usize, to: usize, kind: Kind, sent: Sent) {
        let network = self.networks[&(from, to)];
        self.pipes.entry((from, to, kind)).or_default().send(self.now_ms, network, sent, &mut self.random);
    }

    /// Brings what has arrived over half of the connections.
    fn carry(&mut self) {
        let pipes: Vec<_> = self.pipes.keys().copied().collect();
        for (from, to, kind) in pipes {
            if self.random.one_in(2) {
                self.carry_over(from, to, kind);
            }
        }
    }

    fn carry_over(&mut self, from: usize, to: usize, kind: Kind) {
        let (now_ms, sender) = (self.now_ms, self.nodes[from].number());
        if self.networks[&(from, to)].is_cut || !self.set_time(to) {
            return;
        }
        // A connection that is closed now must not bring anything.
        self.events(to);
        let (Some(pipe), Some(receiver)) =
            (self.pipes.get_mut(&(from, to, kind)), self.nodes[to].process.as_mut())
        else {
            return;
        };
        for _ in 0..=self.random.below(30) {
            match pipe.take(now_ms) {
                None => break,
                Some(Sent::Word(word)) => {
                    receiver.nodes.handle_word(from, &word).expect("nobody changes words")
                }
                Some(Sent::Mail(mail)) => {
                    let (Some(sender), Some(broker)) = (sender, &mut receiver.broker) else { continue };
                    let shard = usize::from(mail.shard) % broker.shards.len();
                    broker.shards[shard].handle_peer_message(sender, mail.bytes);
                }
            }
        }
        self.events(to);
    }

    /// Opens and closes connections.
    fn links(&mut self) {
        let pipes: Vec<_> = self.pipes.keys().copied().collect();
        for (from, to, kind) in pipes {
            let now_ms = self.now_ms;
            let is_running = |node: &SimNode| match kind {
                Kind::Heartbeats => node.process.is_some(),
                Kind::Data => node.process.as_ref().is_some_and(|process| process.broker.is_some()),
            };
            if !self.nodes[from].acts(now_ms) || !is_running(&self.nodes[from]) {
                continue;
            }
            let (is_up, is_cut) = (is_running(&self.nodes[to]), self.networks[&(from, to)].is_cut);
            let answers = self.nodes[to].acts(now_ms);
            let Some(pipe) = self.pipes.get_mut(&(from, to, kind)) else { continue };
            if pipe.is_open && (!is_up || pipe.is_reset || pipe.is_silent(now_ms)) {
                pipe.close(now_ms, &mut self.random);
                self.tell(from, to, kind, false);
            } else if !pipe.is_open && pipe.dial_ms <= now_ms {
                if is_up && !is_cut {
                    if !answers {
                        // The handshake waits.
                        continue;
                    }
                    pipe.is_open = true;
                    self.tell(from, to, kind, true);
                } else {
                    pipe.close(now_ms, &mut self.random);
                    if kind == Kind::Heartbeats
                        && !is_cut
                        && let Some(process) = &mut self.nodes[from].process
                    {
                        process.nodes.handle_refused(to);
                    }
                }
            }
            self.events(from);
            self.events(to);
        }
    }

    /// Tells both ends that a connection is open, or has closed.
    fn tell(&mut self, from: usize, to: usize, kind: Kind, is_open: bool) {
        for at in [from, to] {
            self.set_time(at);
            self.events(at);
        }
        let (here, there) = (self.nodes[from].hello(), self.nodes[to].hello());
        // A node that was wiped has no number any more, and its last connection had.
        let Some(process) = self.nodes[from].process.as_mut() else { return };
        if kind == Kind::Data {
            if is_open {
                self.numbers.insert((from, to), there.number);
            }
            let Some(number) = self.numbers.get(&(from, to)).copied() else { return };
            let shards = process.broker.iter_mut().flat_map(|broker| &mut broker.shards);
            return shards.for_each(|shard| shard.handle_link(number, is_open));
        }
        if !is_open {
            process.nodes.handle_closed(to);
            return self.close_accepted(from, to);
        }
        let is_refused = process.nodes.handle_dialed(to, &there).is_err();
        let other = self.nodes[to].process.as_mut();
        let is_refused = is_refused || other.is_none_or(|other| other.nodes.handle_accepted(&here).is_err());
        if is_refused {
            self.pipes.entry((from, to, kind)).or_default().close(self.now_ms, &mut self.random);
            self.nodes[from].process.iter_mut().for_each(|process| process.nodes.handle_closed(to));
        }
    }

    // ---- the end

    /// Returns the names of the durable queues that a node has lost or closed, because its disk was damaged.
    fn lost_queues(&self) -> BTreeSet<String> {
        let Some((hurt, suspects)) = &self.hurt else { return BTreeSet::new() };
        let node = &self.nodes[*hurt];
        if !node.is_member() {
            let declared = self.history.declared.iter();
            return declared.filter(|one| one.node == *hurt).map(|one| one.name.clone()).collect();
        }
        if let Some(suspects) = suspects {
            assert!(node.closed.iter().all(|queue| suspects.contains(&queue.0)), "{:?}", node.closed);
        }
        let brokers = self.nodes.iter().filter_map(|node| node.process.as_ref()?.broker.as_ref());
        let catalogs: Vec<_> = brokers.map(|broker| broker.shards[0].catalog()).collect();
        let name = |queue| catalogs.iter().find_map(|catalog| catalog.queue_by_id(queue));
        node.closed.iter().filter_map(|queue| name(*queue)).map(|record| record.name.to_string()).collect()
    }

    /// Checks that a quiet cluster sends heartbeats only. While a node is away, its loss is decided again each minute.
    fn check_quiet(&mut self) {
        (self.mail, self.words) = (0, 0);
        let until_ms = self.now_ms + QUIET_MS;
        while self.now_ms < until_ms {
            self.step();
        }
        if self.nodes.iter().all(SimNode::is_member) {
            assert_eq!(self.mail, 0, "messages between shards of a quiet cluster");
            let most = self.networks.len() as u64 * (QUIET_MS / BEAT_MS + 1);
            assert!(self.words <= most, "{} words of heartbeats", self.words);
        }
    }

    /// `lost` are the queues whose messages may be lost.
    fn check_end(&mut self, lost: &BTreeSet<String>) -> Counts {
        let here: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].is_member()).collect();
        self.check_hurt();
        let processes =
            self.nodes.iter_mut().filter(|node| node.is_member()).filter_map(|node| node.process.as_mut());
        let brokers = processes.filter_map(|process| process.broker.as_mut());
        let sights: Vec<_> = brokers.map(|broker| broker.shards[0].catalog_sight()).collect();
        let is_whole =
            |sight: &CatalogSight| sight.has_majority && sight.voters.len() == 3 && sight.leader.is_some();
        assert!(sights.iter().all(is_whole), "{sights:?}");
        let processes = || here.iter().map(|at| self.nodes[*at].process.as_ref().expect("it runs"));
        let waits: Vec<_> = processes().map(|process| process.nodes.view()).collect();
        assert!(processes().all(|process| process.broker.is_some()), "not all have joined: {waits:#?}");
        let brokers: Vec<_> = processes().filter_map(|process| process.broker.as_ref()).collect();
        let leaders: Vec<_> = brokers.iter().map(|broker| broker.shards[0].catalog_leader()).collect();
        assert!(
            leaders[0].is_some() && leaders.iter().all(|leader| *leader == leaders[0]),
            "leaders {leaders:?}"
        );
        let shards = brokers.iter().flat_map(|broker| &broker.shards);
        let indices: Vec<_> = shards.map(node::shard::Shard::catalog_index).collect();
        assert!(indices.iter().all(|index| *index == indices[0]), "indices {indices:?}");
        assert!(self.asked.len() <= 3, "{} clients wait", self.asked.len());
        let catalog = brokers[0].shards[0].catalog();
        assert_eq!(catalog.nodes().len(), 3, "all have joined");
        self.history.check_end(catalog, self.plan == Plan::Quiet);
        self.check_clocks();
        self.clients.check_end(&self.nodes, self.has_kills(), lost);
        let done = self.history.declared.iter().filter(|one| one.outcome == checks::Outcome::Done).count();
        let count = |is_it: fn(&SimNode) -> bool| self.nodes.iter().filter(|node| is_it(node)).count() as u64;
        Counts {
            declared: done as u64,
            accepted: self.clients.accepted() as u64,
            wiped: count(|node| matches!(node.disk, DiskState::Wiped(_))),
            refused: count(|node| matches!(node.disk, DiskState::Refused(_))),
            closed: count(|node| !node.closed.is_empty()),
        }
    }

    /// Checks that the node whose disk was damaged says so.
    fn check_hurt(&self) {
        let Some((hurt, _)) = self.hurt else { return };
        let node = &self.nodes[hurt];
        match &node.disk {
            DiskState::Sound => panic!("the disk of {} was damaged", node.name),
            DiskState::Damaged => {}
            DiskState::Refused(why) => assert!(why.contains("definitions"), "{why}"),
            DiskState::Wiped(was) => {
                let waits = node.process.as_ref().expect("it runs").nodes.waits();
                let reason = Reason::WouldReplace(*was);
                assert!(
                    matches!(&waits, Waits::NotAdmitted { reason: why, .. } if *why == reason),
                    "{waits}"
                );
            }
        }
    }

    /// Checks what nodes say about the clocks of others.
    fn check_clocks(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(process) = &node.process else { continue };
            for (other, view) in process.nodes.view().nodes.iter().enumerate() {
                if other == at || view.trouble.is_some() {
                    continue;
                }
                let ahead_ms = self.nodes[other].clock.ahead_of(&node.clock, self.now_ms).unsigned_abs();
                assert!(
                    view.clocks_apart || ahead_ms < CLOCKS_APART_MS,
                    "{}: {ahead_ms} ms, and {view:?}",
                    node.name
                );
                assert!(
                    !view.clocks_apart || ahead_ms > CLOCKS_AGREE_MS,
                    "{}: {ahead_ms} ms, and {view:?}",
                    node.name
                );
            }
        }
    }
}
