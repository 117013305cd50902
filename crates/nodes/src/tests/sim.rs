//! Some machines, with disks, processes, clocks and connections, in simulated time.
//!
//! A connection carries packets in order. While its direction is cut, they wait, as TCP sends them again. A packet for an end that is gone is
//! answered with a reset.

mod alarms;
mod checks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use link::{ClusterId, Hello, NodeIdentity, Role};
use random::Random;

use self::alarms::SeenAlarms;
use crate::mutation::Mutation;
use crate::{Directory, Event, Health, Life, Member, Nodes, Reason, Setup, Side};

/// What went wrong.
pub(super) type Violation = String;

/// One step of simulated time.
const STEP_MS: u64 = 10;

/// Between two checks.
const CHECK_MS: u64 = 50;

/// The longest time between two tries to dial.
const DIAL_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Open,
    Cut,
    /// Connections are reset, and new ones are refused.
    Refuses,
}

enum Packet {
    Hello(Hello),
    Word(Vec<u8>),
    /// The end of the connection, or its reset.
    Fin,
    /// Nothing listens.
    Refused,
}

/// The packets of one direction, with the times at which they arrive.
type Packets = VecDeque<(u64, Packet)>;

struct Connection {
    from: usize,
    to: usize,
    /// The process that dialed.
    dialer: u64,
    /// The process that accepted it, while that end is open.
    accepted: Option<u64>,
    there: Packets,
    back: Packets,
}

#[derive(Clone, Copy)]
enum Dial {
    /// The time of the next try.
    At(u64),
    /// The connection, and the time of the next try.
    Trying(u64, u64),
    Open(u64),
}

struct Process {
    id: u64,
    nodes: Nodes,
    started_ms: u64,
    base_ms: u64,
    permille: u64,
    dials: Vec<Dial>,
    persisting: Option<(u64, Directory)>,
    /// Answers of the catalog on their way.
    answers: Vec<(u64, NodeIdentity, String)>,
    /// The members that it supports, with their boots.
    supports: BTreeMap<u32, u64>,
    health: Health,
    alarms: SeenAlarms,
    /// The highest boot of each identity that connected.
    boots: BTreeMap<NodeIdentity, u64>,
}

pub(super) struct Host {
    list: Vec<String>,
    life: Life,
    pub(super) directory: Directory,
    process: Option<Process>,
    has_power: bool,
}

pub(super) struct World {
    pub(super) random: Random,
    /// Chooses the alarms. It has no influence on anything else, so that seeds stay what they are.
    alarms: Random,
    pub(super) now_ms: u64,
    pub(super) hosts: Vec<Host>,
    paths: Vec<Vec<(Path, u64)>>,
    /// Since when the paths between two hosts are not both open.
    cut_ms: BTreeMap<(usize, usize), u64>,
    /// When a path between two hosts refused last.
    refused_ms: BTreeMap<(usize, usize), u64>,
    /// When the last word arrived, by receiver and sender.
    heard_ms: BTreeMap<(usize, usize), u64>,
    connections: BTreeMap<u64, Connection>,
    next_id: u64,
    catalogs: BTreeMap<ClusterId, Vec<Member>>,
    mutation: Option<Mutation>,
    /// Calls each machine before each check, and compares what leaders count on with what others support.
    is_exact: bool,
    pub(super) is_faulty: bool,
    /// The words other than beats.
    pub(super) talk: u64,
    /// A host whose process ends at the end of the step.
    doomed: Option<usize>,
    violation: Option<Violation>,
}

fn name(host: usize) -> String {
    format!("node-{host}")
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl World {
    /// Makes hosts that are not started, with these directories.
    pub(super) fn new(seed: u64, directories: &[Directory], mutation: Option<Mutation>) -> Self {
        let mut random = Random(seed);
        let list: Vec<String> = (0..directories.len()).map(name).collect();
        let mut catalogs: BTreeMap<ClusterId, Vec<Member>> = BTreeMap::new();
        let mut hosts = Vec::new();
        for (at, &directory) in directories.iter().enumerate() {
            let node = NodeIdentity(u128::from(random.next()).to_le_bytes());
            if let Directory::Member { cluster, number } = directory {
                catalogs.entry(cluster).or_default().push(Member { number, node, name: name(at) });
            }
            let list = list.clone();
            hosts.push(Host {
                list,
                life: Life { node, boot: 0 },
                directory,
                process: None,
                has_power: true,
            });
        }
        let path = |_| (0..hosts.len()).map(|_| (Path::Open, random.below(60))).collect();
        Self {
            now_ms: 100_000,
            paths: (0..hosts.len()).map(path).collect(),
            is_exact: seed % 2 == 1,
            random,
            alarms: Random(!seed),
            hosts,
            cut_ms: BTreeMap::new(),
            refused_ms: BTreeMap::new(),
            heard_ms: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_id: 1,
            catalogs,
            mutation,
            is_faulty: false,
            talk: 0,
            doomed: None,
            violation: None,
        }
    }

    pub(super) fn set_list(&mut self, at: usize, list: Vec<String>) {
        self.hosts[at].list = list;
    }

    pub(super) fn start(&mut self, at: usize) {
        if self.hosts[at].process.is_some() {
            return;
        }
        let host = &mut self.hosts[at];
        host.has_power = true;
        host.life.boot += 1;
        let (base_ms, seed) = (self.random.below(1 << 40), self.random.next());
        let cluster = ClusterId(u128::from(self.random.next() | 1).to_le_bytes());
        let setup = Setup {
            me: host.life,
            name: name(at),
            listed: host.list.clone(),
            directory: host.directory,
            cluster,
            now_ms: base_ms,
            seed,
        };
        let mut nodes = Nodes::new(setup).expect("a proper list");
        nodes.mutation = self.mutation;
        let dials = (0..self.hosts.len()).map(|_| Dial::At(self.now_ms + self.random.below(300))).collect();
        self.hosts[at].process = Some(Process {
            id: self.next_id,
            nodes,
            started_ms: self.now_ms,
            base_ms,
            permille: self.random.between(975, 1_026),
            dials,
            persisting: None,
            answers: Vec::new(),
            supports: BTreeMap::new(),
            health: Health::default(),
            alarms: SeenAlarms::default(),
            boots: BTreeMap::new(),
        });
        self.next_id += 1;
        self.tell_members(at);
        self.act(at);
    }

    /// Ends the process. The kernel ends its connections.
    pub(super) fn kill(&mut self, at: usize) {
        let Some(process) = self.hosts[at].process.take() else { return };
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            let connection = &self.connections[&id];
            if connection.from == at && connection.dialer == process.id {
                self.push(id, true, Packet::Fin);
            } else if connection.to == at && connection.accepted == Some(process.id) {
                self.end_accepted(id);
            }
        }
    }

    /// Cuts the power. Nobody ends the connections.
    pub(super) fn cut_power(&mut self, at: usize) {
        self.hosts[at].process = None;
        self.hosts[at].has_power = false;
    }

    /// Replaces the disk.
    pub(super) fn wipe(&mut self, at: usize) {
        self.kill(at);
        let node = NodeIdentity(u128::from(self.random.next()).to_le_bytes());
        self.hosts[at].life = Life { node, boot: 0 };
        self.hosts[at].directory = Directory::Empty;
    }

    pub(super) fn set_path(&mut self, from: usize, to: usize, path: Path) {
        self.paths[from][to].0 = path;
        if path == Path::Refuses {
            self.refused_ms.insert(pair(from, to), self.now_ms);
            let between = |c: &Connection| pair(c.from, c.to) == pair(from, to);
            let ids: Vec<u64> =
                self.connections.iter().filter(|(_, c)| between(c)).map(|(id, _)| *id).collect();
            for id in ids {
                let connection = self.connections.remove(&id).expect("it is there");
                self.accepted_ended(&connection);
                self.dialed_ended(connection.from, connection.to, id, false);
            }
        }
    }

    pub(super) fn set_delay(&mut self, from: usize, to: usize, delay_ms: u64) {
        self.paths[from][to].1 = delay_ms;
    }

    /// Repairs everything, and starts all nodes.
    pub(super) fn heal(&mut self) {
        self.is_faulty = false;
        for from in 0..self.hosts.len() {
            for to in 0..self.hosts.len() {
                self.paths[from][to] = (Path::Open, self.random.below(60));
            }
            self.start(from);
            self.set_health(from, Health::default());
        }
    }

    pub(super) fn run_for(&mut self, ms: u64) -> Result<(), Violation> {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.step();
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
        }
        Ok(())
    }

    pub(super) fn nodes(&self, at: usize) -> Option<&Nodes> {
        self.hosts[at].process.as_ref().map(|process| &process.nodes)
    }

    pub(super) fn clusters(&self) -> BTreeSet<ClusterId> {
        let of = |host: &Host| match host.directory {
            Directory::Member { cluster, .. } => Some(cluster),
            _ => None,
        };
        self.hosts.iter().filter_map(of).collect()
    }

    fn step(&mut self) {
        self.now_ms += STEP_MS;
        let is_check = self.now_ms.is_multiple_of(CHECK_MS);
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            self.deliver(id);
        }
        for at in 0..self.hosts.len() {
            for to in (0..self.hosts.len()).filter(|to| *to != at) {
                self.dial(at, to);
            }
            self.persist(at);
            self.answer(at);
            let local_ms = self.local_ms(at);
            let is_checked = is_check && self.is_exact;
            if let Some(process) = &mut self.hosts[at].process
                && (is_checked || process.nodes.next_timeout() <= local_ms)
            {
                self.set_time(at);
                self.act(at);
            }
        }
        if let Some(at) = self.doomed.take() {
            self.kill(at);
        }
        if is_check {
            if self.is_faulty && self.alarms.one_in(20) {
                self.change_alarms();
            }
            self.check();
        }
    }

    fn fail(&mut self, violation: Violation) {
        self.violation.get_or_insert(format!("at {} ms: {violation}", self.now_ms - 100_000));
    }

    fn local_ms(&self, at: usize) -> u64 {
        let process = self.hosts[at].process.as_ref();
        process.map_or(0, |p| p.base_ms + (self.now_ms - p.started_ms) * p.permille / 1_000)
    }

    fn set_time(&mut self, at: usize) {
        let (local_ms, now_ms) = (self.local_ms(at), self.now_ms);
        if let Some(process) = &mut self.hosts[at].process {
            process.nodes.handle_time(local_ms, now_ms);
        }
    }

    fn place(&self, at: usize, other: usize) -> Option<usize> {
        self.hosts[at].list.iter().position(|listed| *listed == name(other))
    }

    fn hello(&self, at: usize) -> Hello {
        let host = &self.hosts[at];
        let (cluster, number) = match host.directory {
            Directory::Member { cluster, number } => (cluster, number),
            _ => (ClusterId::NONE, 0),
        };
        let (node, boot) = (host.life.node, host.life.boot);
        Hello { role: Role::Heartbeats, node, boot, cluster, number, format: 1, name: name(at) }
    }

    fn push(&mut self, id: u64, is_there: bool, packet: Packet) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (from, to) = (connection.from, connection.to);
        let mut delay_ms = if is_there { self.paths[from][to].1 } else { self.paths[to][from].1 };
        // Some dials need a second try, so that they arrive after later ones.
        if matches!(packet, Packet::Hello(_)) && self.random.one_in(4) {
            delay_ms += self.random.below(1_000);
        }
        let packets = if is_there { &mut connection.there } else { &mut connection.back };
        let last_ms = packets.back().map_or(0, |(time_ms, _)| *time_ms);
        packets.push_back((last_ms.max(self.now_ms + delay_ms), packet));
    }

    fn dial(&mut self, at: usize, to: usize) {
        let Some(process) = &self.hosts[at].process else { return };
        let (dialer, dial) = (process.id, process.dials[to]);
        let again_ms = self.now_ms + self.random.between(100, DIAL_MS + 1);
        match dial {
            Dial::At(time_ms) if self.now_ms >= time_ms && self.place(at, to).is_some() => {
                let id = self.next_id;
                self.next_id += 1;
                let (there, back) = (Packets::new(), Packets::new());
                self.connections.insert(id, Connection { from: at, to, dialer, accepted: None, there, back });
                self.set_dial(at, to, Dial::Trying(id, again_ms));
                if self.paths[at][to].0 == Path::Refuses {
                    self.push(id, false, Packet::Refused);
                } else {
                    self.push(id, true, Packet::Hello(self.hello(at)));
                }
            }
            Dial::Trying(id, time_ms) if self.now_ms >= time_ms => {
                self.push(id, true, Packet::Fin);
                self.set_dial(at, to, Dial::At(self.now_ms));
            }
            _ => {}
        }
    }

    fn set_dial(&mut self, at: usize, to: usize, dial: Dial) {
        if let Some(process) = &mut self.hosts[at].process {
            process.dials[to] = dial;
        }
    }

    fn deliver(&mut self, id: u64) {
        for is_there in [true, false] {
            while let Some(connection) = self.connections.get_mut(&id) {
                let (from, to) = (connection.from, connection.to);
                let (start, end) = if is_there { (from, to) } else { (to, from) };
                let packets = if is_there { &mut connection.there } else { &mut connection.back };
                // A refusal needs no network here, because a path that refuses says so itself.
                let passes = self.paths[start][end].0 == Path::Open
                    || matches!(packets.front(), Some((_, Packet::Refused)));
                if !passes || !self.hosts[end].has_power {
                    break;
                }
                let Some((_, packet)) = packets.pop_front_if(|(time_ms, _)| *time_ms <= self.now_ms) else {
                    break;
                };
                if is_there {
                    self.arrive(id, from, to, packet)
                } else {
                    self.arrive_back(id, from, to, packet)
                }
            }
        }
    }

    fn arrive(&mut self, id: u64, from: usize, to: usize, packet: Packet) {
        let accepted = self.connections[&id].accepted;
        let process = self.hosts[to].process.as_ref().map(|process| process.id);
        let is_open = accepted.is_some() && accepted == process;
        match packet {
            Packet::Hello(_) if process.is_none() => self.push(id, false, Packet::Refused),
            Packet::Hello(hello) => {
                self.set_time(to);
                let process = self.hosts[to].process.as_mut().expect("it runs");
                let own = process.id;
                if process.nodes.handle_accepted(&hello).is_err() {
                    self.push(id, false, Packet::Fin);
                } else {
                    self.note_boot(to, &hello);
                    let earlier = self.connections.iter().filter(|(other, c)| {
                        **other != id && c.from == from && c.to == to && c.accepted == Some(own)
                    });
                    let earlier: Vec<u64> = earlier.map(|(id, _)| *id).collect();
                    earlier.into_iter().for_each(|id| self.end_accepted(id));
                    self.connections.get_mut(&id).expect("it is there").accepted = Some(own);
                    self.push(id, false, Packet::Hello(self.hello(to)));
                }
                self.act(to);
            }
            Packet::Word(word) if is_open => {
                self.set_time(to);
                self.heard_ms.insert((to, from), self.now_ms);
                let place = self.place(to, from).expect("it was accepted");
                let (life, process) = (self.hosts[to].life, self.hosts[to].process.as_mut());
                let process = process.expect("it runs");
                process.alarms.note_word(from, life, &word);
                process.nodes.handle_word(place, &word).expect("a proper word");
                self.act(to);
            }
            Packet::Fin => {
                let connection = self.connections.get_mut(&id).expect("it is there");
                let accepted = connection.accepted.take();
                let (there, back) = (Packets::new(), Packets::new());
                self.accepted_ended(&Connection { from, to, dialer: 0, accepted, there, back });
            }
            Packet::Word(_) | Packet::Refused => self.push(id, false, Packet::Fin),
        }
    }

    fn arrive_back(&mut self, id: u64, from: usize, to: usize, packet: Packet) {
        let dial = self.hosts[from].process.as_ref().map(|process| process.dials[to]);
        let is_tried = matches!(dial, Some(Dial::Trying(tried, _)) if tried == id);
        match packet {
            Packet::Hello(hello) if is_tried => {
                self.set_dial(from, to, Dial::Open(id));
                self.set_time(from);
                let place = self.place(from, to).expect("it is dialed");
                let process = self.hosts[from].process.as_mut().expect("it runs");
                if process.nodes.handle_dialed(place, &hello).is_ok() {
                    self.note_boot(from, &hello);
                }
                self.act(from);
            }
            Packet::Hello(_) | Packet::Word(_) => self.push(id, true, Packet::Fin),
            Packet::Fin => self.dialed_ended(from, to, id, false),
            Packet::Refused => self.dialed_ended(from, to, id, true),
        }
    }

    /// The dialed end of a connection has ended, or was refused.
    fn dialed_ended(&mut self, from: usize, to: usize, id: u64, is_refused: bool) {
        let again_ms = self.now_ms + self.random.between(100, DIAL_MS + 1);
        let Some(dial) = self.hosts[from].process.as_ref().map(|process| process.dials[to]) else { return };
        let was_open = match dial {
            Dial::Open(open) if open == id => true,
            Dial::Trying(tried, _) if tried == id => false,
            _ => return,
        };
        // A connection that ends is dialed again at once, so that a dead process is found out.
        self.set_time(from);
        self.act(from);
        self.set_dial(from, to, Dial::At(if was_open { self.now_ms } else { again_ms }));
        let place = self.place(from, to).expect("it is dialed");
        let nodes = &mut self.hosts[from].process.as_mut().expect("it runs").nodes;
        if was_open {
            nodes.handle_closed(place);
        } else if is_refused {
            nodes.handle_refused(place);
        }
        self.act(from);
    }

    fn accepted_ended(&mut self, connection: &Connection) {
        let (from, to) = (connection.from, connection.to);
        let own = self.hosts[to].process.as_ref().map(|process| process.id);
        if connection.accepted.is_some() && connection.accepted == own {
            self.set_time(to);
            let place = self.place(to, from).expect("it was accepted");
            self.hosts[to].process.as_mut().expect("it runs").nodes.handle_accept_closed(place);
            self.act(to);
        }
    }

    /// The accepting side ends a connection.
    fn end_accepted(&mut self, id: u64) {
        self.connections.get_mut(&id).expect("it is there").accepted = None;
        self.push(id, false, Packet::Fin);
    }

    fn note_boot(&mut self, at: usize, hello: &Hello) {
        let Some(process) = &mut self.hosts[at].process else { return };
        let highest = process.boots.entry(hello.node).or_default();
        if hello.boot < *highest {
            self.fail(format!("{} takes an earlier boot of {}", name(at), hello.name));
            return;
        }
        *highest = hello.boot;
    }

    fn persist(&mut self, at: usize) {
        let Some(process) = &self.hosts[at].process else { return };
        let Some((_, directory)) = process.persisting.filter(|(time_ms, _)| *time_ms <= self.now_ms) else {
            return;
        };
        if self.is_faulty && self.random.one_in(4) {
            return if self.random.one_in(2) { self.wipe(at) } else { self.kill(at) };
        }
        self.set_time(at);
        self.act(at);
        let host = &mut self.hosts[at];
        host.directory = directory;
        if let Directory::Member { cluster, .. } = directory {
            let founder = Member { number: 1, node: host.life.node, name: name(at) };
            self.catalogs.entry(cluster).or_insert_with(|| vec![founder]);
        }
        if self.is_faulty && self.random.one_in(8) {
            return self.kill(at);
        }
        let process = self.hosts[at].process.as_mut().expect("it runs");
        process.persisting = None;
        process.nodes.handle_persisted();
        self.tell_members(at);
        self.act(at);
    }

    fn tell_members(&mut self, at: usize) {
        if let Directory::Member { cluster, .. } = self.hosts[at].directory
            && let Some(process) = &mut self.hosts[at].process
        {
            process.nodes.handle_members(self.catalogs[&cluster].clone());
        }
    }

    /// Answers for the catalog: the number of a node is given once, and a name has one node.
    fn answer(&mut self, at: usize) {
        let Directory::Member { cluster, .. } = self.hosts[at].directory else { return };
        let Some(process) = &mut self.hosts[at].process else { return };
        let Some(due) = process.answers.iter().position(|(time_ms, ..)| *time_ms <= self.now_ms) else {
            return;
        };
        let (_, node, name) = process.answers.swap_remove(due);
        let members = self.catalogs.get_mut(&cluster).expect("a catalog");
        let result = if self.is_faulty && self.random.one_in(5) {
            Err(Reason::Other("no majority".to_owned()))
        } else if let Some(member) = members.iter().find(|member| member.name == name) {
            if member.node == node { Ok(member.number) } else { Err(Reason::WouldReplace(member.node)) }
        } else {
            let number = members.len() as u32 + 1;
            members.push(Member { number, node, name });
            Ok(number)
        };
        self.set_time(at);
        self.hosts[at].process.as_mut().expect("it runs").nodes.handle_admitted(node, result);
        (0..self.hosts.len()).for_each(|other| self.tell_members(other));
        (0..self.hosts.len()).for_each(|other| self.act(other));
    }

    /// Does what a machine asks for.
    fn act(&mut self, at: usize) {
        while let Some(event) = self.hosts[at].process.as_mut().and_then(|process| process.nodes.poll()) {
            let later_ms = self.now_ms + self.random.below(400);
            let host_of = |world: &Self, peer: usize| {
                let listed = &world.hosts[at].list[peer];
                (0..world.hosts.len()).find(|host| name(*host) == *listed).expect("a listed host")
            };
            if self.is_faulty && !matches!(event, Event::Send { .. }) && self.random.one_in(20) {
                self.doomed = Some(at);
            }
            match event {
                Event::Send { peer, word } => self.send(at, host_of(self, peer), word),
                Event::Close { peer, side } => self.close(at, host_of(self, peer), side),
                Event::Found { cluster } => {
                    self.check_founding(at);
                    self.set_persisting(at, later_ms, Directory::Member { cluster, number: 1 });
                }
                Event::Join { cluster, number } => {
                    self.set_persisting(at, later_ms, Directory::Member { cluster, number });
                }
                Event::AskToAdmit { node, name } => {
                    let process = self.hosts[at].process.as_mut().expect("it runs");
                    if process.answers.iter().any(|(_, asked, _)| *asked == node) {
                        self.fail(format!("the catalog is asked twice for {name}"));
                        return;
                    }
                    process.answers.push((later_ms, node, name));
                }
                Event::Support { number, boot, ended } => {
                    let supports = &mut self.hosts[at].process.as_mut().expect("it runs").supports;
                    let before = supports.remove(&number);
                    if ended.is_none() {
                        supports.insert(number, boot);
                    }
                    if before != ended.map(|_| boot) {
                        self.fail(format!("support of member {number} begins or ends twice"));
                    }
                }
                Event::Alarms { peer, alarms } => {
                    let host = host_of(self, peer);
                    let process = self.hosts[at].process.as_mut().expect("it runs");
                    if let Err(violation) = process.alarms.note_told(host, alarms) {
                        self.fail(violation);
                    }
                }
                Event::Clocks { .. } => self.fail("the hosts have one clock".to_owned()),
                Event::OtherCluster { .. } => self.fail("a member of another cluster".to_owned()),
            }
        }
    }

    fn set_persisting(&mut self, at: usize, time_ms: u64, directory: Directory) {
        let process = self.hosts[at].process.as_mut().expect("it runs");
        if process.persisting.replace((time_ms, directory)).is_some() {
            self.fail(format!("{} founds or joins twice", name(at)));
        }
    }

    fn send(&mut self, at: usize, to: usize, word: Vec<u8>) {
        self.check_word(at, &word);
        if let Some(Dial::Open(id)) = self.hosts[at].process.as_ref().map(|process| process.dials[to]) {
            self.push(id, true, Packet::Word(word));
        } else {
            self.fail(format!("{} sends over a connection that is not open", name(at)));
        }
    }

    fn close(&mut self, at: usize, other: usize, side: Side) {
        let process = self.hosts[at].process.as_ref().expect("it runs");
        match side {
            Side::Dialed => {
                if let Dial::Open(id) = process.dials[other] {
                    self.push(id, true, Packet::Fin);
                    let again_ms = self.now_ms + self.random.between(100, DIAL_MS + 1);
                    self.set_dial(at, other, Dial::At(again_ms));
                }
            }
            Side::Accepted => {
                let own = process.id;
                let of = |c: &Connection| c.from == other && c.to == at && c.accepted == Some(own);
                let ids: Vec<u64> =
                    self.connections.iter().filter(|(_, c)| of(c)).map(|(id, _)| *id).collect();
                ids.into_iter().for_each(|id| self.end_accepted(id));
            }
        }
    }
}
