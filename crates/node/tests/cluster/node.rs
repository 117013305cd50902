//! One simulated node: what survives its process, and the process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use broker::mail::Mail;
use broker::settings::Settings;
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::ids::{NodeId, NodeNumber, Origin, QueueId, ShardId};
use catalog::{Answer, CatalogError, Command, KnownNode};
use link::{ClusterId, Hello, NodeIdentity, Role};

use node::Clock;
use node::make_shards;
use node::recovery::{Disks, Purpose, RecoverError, Recovered, Start, recover};
use node::shard::{PeerMail, Shard, StorageLimits};
use nodes::{Directory, Life, Nodes, Reason};
use wal::{Handover, Log, Options, PackOptions};
use wal_testing::{Crash, Random, SimDisk};

use super::clock::SimClock;
use super::mistakes::Mistake;
use crate::asks::Asks;
use crate::recovered::SimDisks;

/// The boots of a node that was wiped count from here, so that a client can tell them from those of the node before.
const FIRST_BOOT_WIPED: u32 = 1000;

/// What survives a process.
pub(super) struct SimNode {
    pub name: String,
    pub identity: [u8; 16],
    /// What its disk says of the cluster.
    pub membership: Option<(ClusterId, NodeNumber)>,
    pub boot: u32,
    pub disks: SimDisks,
    pub clock: SimClock,
    pub shards: ShardId,
    /// What has happened to its disk.
    pub disk: DiskState,
    /// Its starts accept that definitions may be lost.
    pub accepts_loss: bool,
    /// The queues that its starts have closed, because their records may be lost.
    pub closed: BTreeSet<QueueId>,
    pub process: Option<Process>,
}

/// What has happened to the disk of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiskState {
    Sound,
    /// Something in its log was changed or lost. Its starts close queues, or nothing follows from it.
    Damaged,
    /// Its starts are refused for this reason: definitions may be lost.
    Refused(String),
    /// Everything was lost, and it had this identity before.
    Wiped(NodeIdentity),
}

/// A process. It knows the other nodes from its start on, and has shards when it is a member of a cluster.
pub(super) struct Process {
    /// The node itself.
    me: KnownNode,
    pub nodes: Nodes,
    /// When it has started, by the monotonic clock.
    started: Instant,
    pub broker: Option<Broker>,
    /// What is written to disk, and when that is done.
    pub persists: Option<(u64, ClusterId, NodeNumber)>,
    /// Nothing happens before this time: the process is stopped, or its machine is.
    pub paused_until_ms: u64,
    /// The connections of other nodes that have ended during a pause.
    pub ended: Vec<usize>,
    /// The nodes whose admission was proposed.
    pub admitting: Vec<(NodeIdentity, Rc<RefCell<Option<Answered>>>)>,
    /// The number of nodes that the machine was told of.
    pub known: usize,
    /// The nodes that it supports.
    pub supported: BTreeSet<NodeNumber>,
}

/// The answer to a command.
pub(super) type Answered = Result<Answer, CatalogError>;

/// The shards of a process.
pub(super) struct Broker {
    pub log: Log<SimDisk>,
    clock: Clock,
    pub shards: Vec<Shard>,
    access: Arc<Access>,
    mail: BTreeMap<(ShardId, ShardId), VecDeque<Vec<Mail>>>,
    to_log: VecDeque<Handover>,
    /// True if records are written and not synced.
    is_unsynced: bool,
    /// A shard that does not move, and whether the disk does not.
    pub still: (Option<ShardId>, bool),
    /// The index after which its catalog was looked at last.
    pub looked_at: Option<u64>,
}

fn access() -> Access {
    Access::new([User {
        name: "guest".into(),
        hash: Hashing::Sha256.hash([1; 16], &amqp10::sasl::Secret::new("guest")),
        tags: Vec::new(),
        loopback_only: true,
        permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
    }])
}

impl SimNode {
    pub(super) fn new(at: u32, seed: u64, random: &mut Random) -> Self {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&(1000 + at).to_be_bytes());
        Self {
            name: format!("sluice@{at}"),
            identity,
            membership: None,
            boot: 0,
            disks: SimDisks::new(seed * 16 + u64::from(at)),
            clock: SimClock::right(),
            shards: 1 + random.below(2) as ShardId,
            disk: DiskState::Sound,
            accepts_loss: false,
            closed: BTreeSet::new(),
            process: None,
        }
    }

    pub(super) fn id(&self) -> NodeId {
        NodeId(u32::from_be_bytes([self.identity[0], self.identity[1], self.identity[2], self.identity[3]]))
    }

    pub(super) fn number(&self) -> Option<NodeNumber> {
        self.membership.map(|(_, number)| number)
    }

    /// What it says when a connection opens.
    pub(super) fn hello(&self) -> Hello {
        let (cluster, number) = self.membership.unwrap_or_default();
        Hello {
            role: Role::Heartbeats,
            node: NodeIdentity(self.identity),
            boot: self.boot.into(),
            cluster,
            number,
            format: 1,
            name: self.name.clone(),
        }
    }

    /// Starts the process.
    pub(super) fn start(
        &mut self,
        listed: &[String],
        now_ms: u64,
        random: &mut Random,
        mistake: Option<Mistake>,
    ) {
        self.boot += 1;
        let directory = match self.membership {
            Some((cluster, number)) => Directory::Member { cluster, number },
            None => Directory::Empty,
        };
        let nodes = Nodes::new(nodes::Setup {
            me: Life { node: NodeIdentity(self.identity), boot: self.boot.into() },
            name: self.name.clone(),
            listed: listed.to_vec(),
            directory,
            cluster: ClusterId(u128::from(1 + random.next()).to_be_bytes()),
            now_ms: 0,
            seed: random.next(),
        });
        self.process = Some(Process {
            me: KnownNode { identity: self.identity, name: self.name.as_str().into() },
            nodes: nodes.expect("the list is sound"),
            started: self.clock.instant(now_ms),
            broker: None,
            persists: None,
            paused_until_ms: 0,
            ended: Vec::new(),
            admitting: Vec::new(),
            known: 0,
            supported: BTreeSet::new(),
        });
        if let (Some(Mistake::Nodes(mutation)), Some(process)) = (mistake, &mut self.process) {
            process.nodes.mutate(mutation);
        }
        if self.membership.is_some() {
            self.start_broker(now_ms, mistake);
        }
    }

    /// Starts the shards. The node is a member of a cluster.
    pub(super) fn start_broker(&mut self, now_ms: u64, mistake: Option<Mistake>) {
        let origin = Origin { node: self.id(), boot: self.boot };
        let (access, settings) = (Arc::new(access()), Arc::new(Settings::default()));
        let start = Start {
            accept_lost_definitions: self.accepts_loss,
            users: None,
            rules: &settings.declare_rules,
            access: &access,
        };
        let disks = Disks {
            log: self.disks.log.clone(),
            packs: &mut |_| Ok(Some(self.disks.packs.clone())),
            streams: &mut |_| Ok(Some(self.disks.streams.clone())),
            unclaimed: &mut |_| Ok(Some(self.disks.unclaimed.clone())),
            log_options: Options { file_bytes: 1 << 16, seed: Some(7), ..Options::default() },
            pack_options: PackOptions::default(),
            keep_damaged: &mut |_, _| Ok(()),
            origin,
            in_cluster: self.number(),
            mutation: None,
        };
        let Recovered { restored, log, recovery, .. } = match recover(disks, Purpose::Start(start)) {
            Ok(recovered) => recovered,
            Err(error @ RecoverError::OfMember(_)) if self.disk != DiskState::Sound => {
                self.process = None;
                self.disk = DiskState::Refused(error.to_string());
                return;
            }
            Err(error) => panic!("{}: {error}", self.name),
        };
        let was_refused = matches!(self.disk, DiskState::Refused(_));
        assert!(!was_refused, "{} starts, and a start before was refused", self.name);
        let known = restored.queues.iter().filter(|(_, queue)| queue.is_damaged()).map(|(id, _)| *id);
        let unclaimed = restored.unclaimed.iter().filter(|(_, unclaimed)| unclaimed.queue.is_damaged());
        let closed: BTreeSet<QueueId> = known.chain(unclaimed.map(|(id, _)| *id)).collect();
        let is_new = closed.iter().any(|queue| !self.closed.contains(queue));
        assert!(!is_new || self.disk == DiskState::Damaged, "{} closes {closed:?}", self.name);
        assert!(!is_new || !recovery.damage.is_empty(), "{} does not say what is damaged", self.name);
        self.closed = closed;
        let limits = StorageLimits { garbage_allowed: 1 << 16, ..StorageLimits::default() };
        let clock = Clock::started(self.clock.instant(now_ms), self.clock.system(now_ms));
        let shown_ms = clock.ms_at(self.clock.instant(now_ms));
        let mut shards = make_shards(restored, self.shards, &settings, &access, limits, shown_ms);
        shards[0].note_log_size(log.size());
        if let Some(Mistake::Shard(mutation)) = mistake {
            shards.iter_mut().for_each(|shard| shard.mutate(mutation));
        }
        let broker = Broker {
            log,
            clock,
            shards,
            access,
            mail: BTreeMap::new(),
            to_log: VecDeque::new(),
            is_unsynced: false,
            still: (None, false),
            looked_at: None,
        };
        let is_founder = self.number() == Some(1);
        if let Some(process) = &mut self.process {
            process.broker = Some(broker);
            if is_founder {
                process.admit_itself();
            }
        }
    }

    /// Gives its process the time, as the product does before it handles anything. Returns what the clock of its shards shows, if it has shards.
    pub(super) fn set_time(&mut self, now_ms: u64) -> Option<u64> {
        let (instant, system) = (self.clock.instant(now_ms), self.clock.system(now_ms));
        let process = self.process.as_mut()?;
        let passed = instant.duration_since(process.started);
        process.nodes.handle_time(passed.as_millis() as u64, system.as_millis() as u64);
        process.ended.drain(..).for_each(|peer| process.nodes.handle_accept_closed(peer));
        let broker = process.broker.as_mut()?;
        let shown_ms = broker.clock.ms_at(instant);
        broker.shards.iter_mut().for_each(|shard| shard.set_now(shown_ms));
        Some(shown_ms)
    }

    /// Returns what the clock of its shards shows.
    pub(super) fn shown_ms(&self, now_ms: u64) -> u64 {
        let broker = self.process.as_ref().and_then(|process| process.broker.as_ref());
        broker.expect("it has shards").clock.ms_at(self.clock.instant(now_ms))
    }

    /// Returns true if its process runs, and is not paused.
    pub(super) fn acts(&self, now_ms: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.paused_until_ms <= now_ms)
    }

    /// Loses everything that is on its disk. It does not run.
    pub(super) fn wipe(&mut self, random: &mut Random) {
        self.disk = DiskState::Wiped(NodeIdentity(self.identity));
        self.identity[8..].copy_from_slice(&(1 + random.below(u64::MAX - 1)).to_be_bytes());
        let id = self.id().0 + 1000;
        self.identity[..4].copy_from_slice(&id.to_be_bytes());
        (self.membership, self.boot, self.disks) =
            (None, FIRST_BOOT_WIPED, SimDisks::new(random.below(1 << 32)));
    }

    /// Returns true if it is a member of the cluster, and can start.
    pub(super) fn is_member(&self) -> bool {
        matches!(self.disk, DiskState::Sound | DiskState::Damaged)
    }

    /// Ends the process.
    pub(super) fn kill(&mut self, how: Crash) {
        self.process = None;
        self.disks = self.disks.crash(how);
    }
}

impl Process {
    /// Lets the founder be admitted, if no node is. An earlier start of it may have ended before.
    fn admit_itself(&mut self) {
        let KnownNode { identity, name } = self.me.clone();
        if self.broker.as_ref().is_some_and(|broker| broker.shards[0].catalog().nodes().is_empty()) {
            self.admit(NodeIdentity(identity), &name);
        }
    }

    /// Proposes that the cluster admits a node. Nobody is admitted before the founder, who is number 1.
    pub(super) fn admit(&mut self, node: NodeIdentity, name: &str) {
        let Some(broker) = &mut self.broker else { return };
        if node.0 != self.me.identity && broker.shards[0].catalog().number_of(self.me.id()).is_none() {
            let why = "the member that was asked is not in the catalog yet".to_owned();
            return self.nodes.handle_admitted(node, Err(Reason::Other(why)));
        }
        let (answer, known) =
            (Rc::new(RefCell::new(None)), KnownNode { identity: node.0, name: name.into() });
        let to = answer.clone();
        let then = Box::new(move |answered| *to.borrow_mut() = Some(answered));
        broker.shards[0].propose(Command::AdmitNode(known), then);
        self.admitting.push((node, answer));
    }

    /// Tells the machine what the cluster has decided about nodes.
    pub(super) fn take_admitted(&mut self) {
        let (Some(broker), machine) = (&self.broker, &mut self.nodes) else { return };
        let catalog = broker.shards[0].catalog();
        self.admitting.retain(|(node, answer)| {
            let Some(answer) = answer.borrow_mut().take() else { return true };
            let id = KnownNode { identity: node.0, name: "".into() }.id();
            let result = match (answer, catalog.number_of(id)) {
                (Ok(_), Some(number)) => Ok(number),
                (Ok(_), None) => Err(Reason::Other("it is not known yet".into())),
                (Err(error), _) => Err(Reason::Other(error.to_string())),
            };
            machine.handle_admitted(*node, result);
            false
        });
        if std::mem::replace(&mut self.known, catalog.nodes().len()) != catalog.nodes().len() {
            let members = catalog.nodes().iter().map(|(number, known)| nodes::Member {
                number: *number,
                node: NodeIdentity(known.identity),
                name: known.name.to_string(),
            });
            machine.handle_members(members.collect());
        }
    }
}

impl Broker {
    /// Does most of what there is to do, in a random order. Returns what is to be sent to other nodes.
    pub(super) fn step(&mut self, now_ms: u64, random: &mut Random) -> Vec<PeerMail> {
        for _ in 0..4 + 2 * self.shards.len() {
            match random.below(6) {
                0 => self.write(random),
                1 => self.sync(),
                2 => self.carry_mail(random),
                _ => {
                    let shard = random.index(self.shards.len());
                    self.turn(shard, now_ms);
                }
            }
        }
        self.shards.iter_mut().flat_map(Shard::poll_peer_mail).collect()
    }

    fn turn(&mut self, at: usize, now_ms: u64) {
        if self.still.0 == Some(at as ShardId) {
            return;
        }
        let shard = &mut self.shards[at];
        shard.set_now(now_ms);
        shard.handle_timeout();
        shard.turn();
        shard.take_replies();
        for (ticket, login) in shard.poll_logins() {
            shard.handle_login(ticket, self.access.check(&login));
        }
        shard.take_dirty(&mut Vec::new());
        if let Some(handover) = shard.poll_handover() {
            self.to_log.push_back(handover);
        }
        if let Some(file) = shard.poll_forget() {
            self.log.forget(file);
        }
        for to in 0..self.shards.len() as ShardId {
            let mail = self.shards[at].poll_mail(to);
            if !mail.is_empty() {
                self.mail.entry((at as ShardId, to)).or_default().push_back(mail);
            }
        }
    }

    fn carry_mail(&mut self, random: &mut Random) {
        for ((_, to), mail) in &mut self.mail {
            for mail in mail.drain(..(1 + random.index(mail.len())).min(mail.len())) {
                self.shards[usize::from(*to)].handle_mail(mail);
            }
        }
    }

    fn write(&mut self, random: &mut Random) {
        if self.still.1 {
            return;
        }
        let n = (1 + random.index(self.to_log.len())).min(self.to_log.len());
        let mut done = Vec::new();
        self.log.append(&mut self.to_log.drain(..n).collect(), &mut done);
        self.is_unsynced = true;
        self.deliver(done);
    }

    fn sync(&mut self) {
        if std::mem::take(&mut self.is_unsynced) {
            let mut done = Vec::new();
            self.log.sync(&mut done);
            self.deliver(done);
        }
    }

    fn deliver(&mut self, done: Vec<wal::Completion>) {
        for completion in done {
            self.shards[completion.shard as usize].handle_logged(completion);
        }
    }
}
