//! The world: nodes, links, faults, clients.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use catalog::{Arguments, Command, DeclareQueue};
use node::shard::Mutation;
use node::shard::looks::CatalogSight;
use nodes::{Event, Side, Why};
use wal_testing::{Crash, Random};

use super::checks::{self, History};
use super::clients::Clients;
use super::links::{Kind, Network, Pipe, Sent};
use super::node::{Answered, Process, SimNode};
use crate::asks::Asks;

/// Which faults there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Quiet,
    /// Links are cut in one or both directions, and delayed.
    Cuts,
    /// As before, and processes are killed and paused, and machines lose power.
    Kills,
}

/// The steps with faults.
const FAULTY_STEPS: u32 = 6000;

/// The simulated time after which everything moves again, when the last fault has healed: links are dialed at most 5 s apart, a support takes
/// 2 s to end, and elections are tried again every half second.
const HEALED_MS: u64 = 20_000;

/// The time in which consumers empty all queues. What a node held that was lost returns after a minute.
const EMPTIED_MS: u64 = 70_000;

/// After this time without clients, nothing is on its way any more.
const QUIET_MS: u64 = 6000;

/// The longest time in which a client is answered, while its node runs: the patience of a node, and what its turns take.
const ANSWER_MS: u64 = 7000;

/// The simulated time after which two nodes that have links in both directions, support each other and run know how far the other has come. A
/// link over which nothing arrives closes after 2 s, and the messages of others are on their way for 0.3 s at most.
const SEEN_MS: u64 = 3500;

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
    /// The number of messages between shards.
    mail: u64,
    mutation: Option<Mutation>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let mut random = Random(seed);
        let nodes: Vec<SimNode> = (0..3).map(|at| SimNode::new(at, seed, &mut random)).collect();
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
            history: History::default(),
            asked: Vec::new(),
            names: 0,
            transient: Vec::new(),
            has_clients: true,
            clients: Clients::default(),
            in_sight: BTreeMap::new(),
            behind: BTreeMap::new(),
            mail: 0,
            mutation: None,
        }
    }

    pub(super) fn with_mutation(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }

    /// Returns the number of declarations that were carried out, and the number of messages that were accepted.
    pub(super) fn run(mut self) -> [u64; 2] {
        (0..self.nodes.len()).for_each(|at| {
            if self.plan != Plan::Kills || self.random.one_in(2) {
                self.start(at)
            }
        });
        for _ in 0..FAULTY_STEPS {
            self.step();
            self.trouble();
        }
        self.heal();
        let healed_ms = self.now_ms;
        while self.now_ms < healed_ms + HEALED_MS {
            self.step();
        }
        // Without clients, nothing but heartbeats is sent soon.
        self.has_clients = false;
        let queues = self.history.durable();
        let emptied_ms = self.now_ms + EMPTIED_MS;
        while self.now_ms < emptied_ms {
            self.clients.finish(&mut self.nodes, &queues, self.now_ms, &mut self.random);
            self.step();
        }
        let healed_ms = healed_ms + EMPTIED_MS;
        while self.now_ms < healed_ms + HEALED_MS + QUIET_MS {
            self.step();
        }
        self.mail = 0;
        while self.now_ms < healed_ms + HEALED_MS + 2 * QUIET_MS {
            self.step();
        }
        assert_eq!(self.mail, 0, "messages between shards of a quiet cluster");
        self.check_end()
    }

    // ---- what happens

    fn step(&mut self) {
        self.now_ms += self.random.below(8);
        match self.random.below(14) {
            0 => self.ask(),
            1..4 => self.carry(),
            4 => self.links(),
            12.. => {
                let queues = self.history.durable();
                self.clients.step(&mut self.nodes, &queues, self.now_ms, &mut self.random);
            }
            _ => self.step_node(),
        }
        self.take_answers();
        for (name, at, boot) in &self.transient {
            let node = &self.nodes[*at];
            if node.boot == *boot
                && let Some(broker) = node.process.as_ref().and_then(|process| process.broker.as_ref())
            {
                assert!(
                    broker.shards[0].catalog().listed_queue("/", name).is_some(),
                    "H1: transient queue {name} was declared on {} in boot {boot}, which runs, and is gone",
                    node.name
                );
            }
        }
    }

    fn step_node(&mut self) {
        let (at, now_ms) = (self.random.index(self.nodes.len()), self.now_ms);
        let node = &mut self.nodes[at];
        let (name, local_ms) = (node.name.clone(), now_ms + node.ahead_ms);
        let Some(process) = node.process.as_mut().filter(|process| process.paused_until_ms <= now_ms) else {
            return;
        };
        process.nodes.handle_time(now_ms, local_ms);
        let mut mail = Vec::new();
        if let Some(broker) = &mut process.broker {
            mail = broker.step(local_ms, &mut self.random);
            let shard = &broker.shards[0];
            // To look at a catalog takes longer than most steps.
            if broker.looked_at.replace(shard.catalog_index()) != Some(shard.catalog_index()) {
                self.history.note_state(&name, shard.catalog_index(), shard.catalog());
            }
        }
        process.take_admitted();
        if let Some((_, cluster, number)) = process.persists.take_if(|(at_ms, ..)| *at_ms <= now_ms) {
            process.nodes.handle_persisted();
            node.membership = Some((cluster, number));
            node.start_broker(now_ms, self.mutation);
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
            let now_ms = self.now_ms;
            let Some(process) = self.nodes[at].process.as_mut() else { return };
            match event {
                Event::Send { peer, word } => self.send(at, peer, Kind::Heartbeats, Sent::Word(word)),
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
                // No node has alarms. The clocks differ by up to 5 s.
                Event::Alarms { .. } | Event::Clocks { .. } => {}
                Event::OtherCluster { .. } => panic!("there are two clusters"),
            }
        }
    }

    /// Tells a node that the connection that another one had dialed has ended.
    fn close_accepted(&mut self, from: usize, to: usize) {
        if let Some(process) = &mut self.nodes[to].process {
            process.nodes.handle_accept_closed(from);
        }
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
        let (Some(pipe), false) = (self.pipes.get_mut(&(from, to, kind)), self.networks[&(from, to)].is_cut)
        else {
            return;
        };
        let Some(receiver) =
            self.nodes[to].process.as_mut().filter(|process| process.paused_until_ms <= now_ms)
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
            let acts =
                self.nodes[from].process.as_ref().is_some_and(|process| process.paused_until_ms <= now_ms);
            if !acts || !is_running(&self.nodes[from]) {
                continue;
            }
            let (is_up, is_cut) = (is_running(&self.nodes[to]), self.networks[&(from, to)].is_cut);
            let Some(pipe) = self.pipes.get_mut(&(from, to, kind)) else { continue };
            if pipe.is_open && (!is_up || pipe.is_reset || pipe.is_silent(now_ms)) {
                pipe.close(now_ms, &mut self.random);
                self.tell(from, to, kind, false);
            } else if !pipe.is_open && pipe.dial_ms <= now_ms {
                if is_up && !is_cut {
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
        let (here, there) = (self.nodes[from].hello(), self.nodes[to].hello());
        let (Some(number), Some(process)) = (Some(there.number), self.nodes[from].process.as_mut()) else {
            return;
        };
        if kind == Kind::Data {
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

    // ---- clients

    fn ask(&mut self) {
        if !self.has_clients || self.names as usize >= DECLARATIONS_MAX || !self.random.one_in(6) {
            return;
        }
        let at = self.random.index(self.nodes.len());
        let (now_ms, boot) = (self.now_ms, self.nodes[at].boot);
        let Some(process) =
            self.nodes[at].process.as_mut().filter(|process| process.paused_until_ms <= now_ms)
        else {
            return;
        };
        let Some(broker) =
            process.broker.as_mut().filter(|broker| !broker.shards[0].catalog().nodes().is_empty())
        else {
            return;
        };
        self.names += 1;
        let name = format!("q{}", self.names);
        let durable = !self.names.is_multiple_of(2);
        // What is confirmed survives a power cut.
        let arguments: Arguments = match durable {
            true if self.names.is_multiple_of(3) => [("x-queue-type".to_owned(), "quorum".into())].into(),
            true => [("x-fsync".to_owned(), true.into())].into(),
            false => Arguments::default(),
        };
        let mut declare = DeclareQueue::new("/", name.as_str(), arguments);
        declare.durable = durable;
        let command = Command::DeclareQueue(declare);
        let answer = Rc::new(RefCell::new(None));
        let to = answer.clone();
        let shard = self.random.index(broker.shards.len());
        broker.shards[shard].propose(command, Box::new(move |answered| *to.borrow_mut() = Some(answered)));
        self.asked.push(Asked { name, node: at, boot, since_ms: now_ms, answer });
    }

    /// Notes which nodes see each other.
    fn look_around(&mut self) {
        for (a, b) in self.networks.keys().copied() {
            let one_way = |from: usize, to: usize| {
                let pipe = &self.pipes[&(from, to, Kind::Data)];
                let process = self.nodes[from].process.as_ref();
                let process = process.filter(|process| process.paused_until_ms <= self.now_ms);
                let number = self.nodes[to].number();
                let supports = |process: &Process| number.is_some_and(|to| process.supported.contains(&to));
                // A node that has just joined has no catalog, and no clients.
                let has_catalog = |process: &Process| {
                    let broker = process.broker.as_ref();
                    broker.is_some_and(|broker| broker.shards.iter().all(|shard| shard.catalog_index() > 0))
                };
                let sees = process.is_some_and(|process| supports(process) && has_catalog(process));
                pipe.is_open && !pipe.is_reset && sees
            };
            match one_way(a, b) && one_way(b, a) {
                true => _ = self.in_sight.entry((a, b)).or_insert(self.now_ms),
                false => _ = self.in_sight.remove(&(a, b)),
            }
            let broker = self.nodes[a].process.as_ref().and_then(|process| process.broker.as_ref());
            if let (Some(broker), Some(number)) = (broker, self.nodes[b].number())
                && broker.shards[0].is_behind(number)
            {
                self.behind.insert((a, b), self.now_ms);
            }
        }
    }

    fn take_answers(&mut self) {
        self.look_around();
        let (nodes, history, now_ms) = (&self.nodes, &mut self.history, self.now_ms);
        let (in_sight, behind, plan) = (&self.in_sight, &self.behind, self.plan);
        self.asked.retain(|asked| {
            let node = &nodes[asked.node];
            if let Some(answer) = asked.answer.borrow_mut().take() {
                let number: u64 = asked.name[1..].parse().unwrap();
                if number.is_multiple_of(2) {
                    if answer.is_ok() && node.boot == asked.boot && node.process.is_some() {
                        self.transient.push((asked.name.clone(), asked.node, asked.boot));
                    }
                } else {
                    history.note_answer(&asked.name, &answer);
                }
                if answer.is_ok() {
                    // All shards of the node have it.
                    for shard in node
                        .process
                        .iter()
                        .filter_map(|process| process.broker.as_ref())
                        .flat_map(|broker| &broker.shards)
                    {
                        assert!(shard.catalog().listed_queue("/", &asked.name).is_some(), "{}", asked.name);
                    }
                    // So have all nodes in sight.
                    let broker = |at: usize| nodes[at].process.as_ref()?.broker.as_ref();
                    let seen = in_sight.iter().filter(|((a, _), since_ms)| {
                        *a == asked.node && node.boot == asked.boot && **since_ms + SEEN_MS <= now_ms
                    });
                    for ((a, b), _) in seen {
                        let Some(there) = broker(*b) else {
                            continue;
                        };
                        let is_behind = behind.get(&(*a, *b)).is_some_and(|at_ms| *at_ms >= asked.since_ms);
                        assert!(!is_behind || plan != Plan::Quiet, "{} is behind", nodes[*b].name);
                        for shard in &there.shards {
                            assert!(
                                is_behind || shard.catalog().listed_queue("/", &asked.name).is_some(),
                                "{} was declared on {}, which has {} in sight, and is not known there",
                                asked.name,
                                node.name,
                                nodes[*b].name
                            );
                        }
                    }
                }
                return false;
            }
            // A client of a process that has ended gets no answer.
            let Some(process) = node.process.as_ref().filter(|_| node.boot == asked.boot) else {
                return false;
            };
            let is_late = asked.since_ms.max(process.paused_until_ms) + ANSWER_MS < now_ms;
            assert!(!is_late, "{} was asked on {} and is not answered", asked.name, node.name);
            true
        });
    }

    // ---- faults

    fn trouble(&mut self) {
        if self.plan == Plan::Quiet || !self.random.one_in(150) {
            return;
        }
        let pairs: Vec<(usize, usize)> = self.networks.keys().copied().collect();
        let pair = pairs[self.random.index(pairs.len())];
        match self.random.below(if self.plan == Plan::Kills { 8 } else { 5 }) {
            0 => self.networks.values_mut().for_each(|network| *network = Network::default()),
            1 => self.networks.entry(pair).or_default().is_cut = true,
            2 => {
                for pair in [pair, (pair.1, pair.0)] {
                    self.networks.entry(pair).or_default().is_cut = true;
                }
            }
            3 => {
                // A node is cut off.
                let of_node = self.networks.iter_mut().filter(|((a, b), _)| *a == pair.0 || *b == pair.0);
                of_node.for_each(|(_, network)| network.is_cut = true);
            }
            4 => self.networks.entry(pair).or_default().delay_ms = self.random.below(300),
            5 => {
                let paused = self.now_ms + self.random.below(5000);
                if let Some(process) = &mut self.nodes[pair.0].process {
                    process.paused_until_ms = process.paused_until_ms.max(paused);
                }
            }
            6 => self.kill(pair.0),
            _ => self.start(pair.0),
        }
    }

    fn kill(&mut self, at: usize) {
        if self.nodes[at].process.is_none() {
            return;
        }
        let how = if self.random.one_in(2) { Crash::Power } else { Crash::Process };
        self.nodes[at].kill(how);
        let now_ms = self.now_ms;
        let pipes: Vec<_> =
            self.pipes.keys().copied().filter(|(from, to, _)| *from == at || *to == at).collect();
        for (from, to, kind) in pipes {
            let Some(pipe) = self.pipes.get_mut(&(from, to, kind)) else { continue };
            if to == at {
                pipe.reset();
            } else if std::mem::take(pipe).is_open && kind == Kind::Heartbeats {
                pipe.dial_ms = now_ms;
                self.close_accepted(from, to);
            }
        }
    }

    fn start(&mut self, at: usize) {
        if self.nodes[at].process.is_none() {
            self.nodes[at].start(&self.listed, self.now_ms, &mut self.random, self.mutation);
        }
    }

    /// Heals the network, and starts what has ended. Nothing else is done from outside.
    fn heal(&mut self) {
        self.networks.values_mut().for_each(|network| *network = Network::default());
        (0..self.nodes.len()).for_each(|at| self.start(at));
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            process.paused_until_ms = process.paused_until_ms.min(self.now_ms);
        }
    }

    // ---- the end

    fn check_end(&mut self) -> [u64; 2] {
        let processes = self.nodes.iter_mut().filter_map(|node| node.process.as_mut());
        let brokers = processes.filter_map(|process| process.broker.as_mut());
        let sights: Vec<_> = brokers.map(|broker| broker.shards[0].catalog_sight()).collect();
        let is_whole =
            |sight: &CatalogSight| sight.has_majority && sight.voters.len() == 3 && sight.leader.is_some();
        assert!(sights.iter().all(is_whole), "{sights:?}");
        let processes = || self.nodes.iter().map(|node| node.process.as_ref().expect("it runs"));
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
        self.history.check_end(catalog);
        self.clients.check_end(&self.nodes, self.plan == Plan::Kills);
        let done = self.history.declared.iter().filter(|one| one.outcome == checks::Outcome::Done).count();
        [done as u64, self.clients.accepted() as u64]
    }
}
