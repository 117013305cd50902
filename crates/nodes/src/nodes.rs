//! The machine: its inputs and outputs, and support.

mod forming;
mod notes;
mod view;

use std::collections::VecDeque;
use std::fmt;

use link::{ClusterId, Hello, NodeIdentity};

pub use self::forming::Waits;
pub use self::view::{NodeView, View};
use crate::mutation::Mutation;
use crate::peer::{BEAT_MS, Known, Peer, SILENCE_MS, Side, TURN_MAX_MS, UNSYNCED_MAX_MS, Why};
use crate::word::{Alarms, Beat, Body, Health, Life, Malformed, Reason, State, Word, digest};

/// The most nodes that a list can name. Each sends a word to each other five times a second.
pub const NODES_MAX: usize = 64;

/// How many of the last beats the machine can tell the time of. Those of the last [`SILENCE_MS`] are enough.
const BEATS_KEPT: usize = 2 * (SILENCE_MS / BEAT_MS) as usize;

/// What is in the data directory of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// Nothing.
    Empty,
    /// Definitions or data of a node that was alone.
    Holds,
    /// The membership of this cluster, and perhaps data.
    Member { cluster: ClusterId, number: u32 },
}

/// What a machine is made with.
#[derive(Clone, Debug)]
pub struct Setup {
    pub me: Life,
    /// The name of this node.
    pub name: String,
    /// The names of all listed nodes, this one among them. The place of a name here is the number of the peer in this interface.
    pub listed: Vec<String>,
    pub directory: Directory,
    /// Random bytes: the id of the cluster, if this node founds one.
    pub cluster: ClusterId,
    /// The monotonic clock.
    pub now_ms: u64,
    /// Chooses when the first beat is sent, so that not all nodes send at the same time.
    pub seed: u64,
}

/// Why a machine cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The list does not name this node.
    NotListed { name: String },
    /// The list has a name twice.
    ListedTwice { name: String },
    /// The list is longer than [`NODES_MAX`].
    TooMany,
    /// The id of the new cluster is all zeros.
    NoClusterId,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed { name } => {
                write!(f, "the list of nodes does not have the name of this node, {name}")
            }
            Self::ListedTwice { name } => write!(f, "the list of nodes has {name} twice"),
            Self::TooMany => write!(f, "the list of nodes has more than {NODES_MAX} names"),
            Self::NoClusterId => write!(f, "the id of the new cluster is all zeros"),
        }
    }
}

impl std::error::Error for SetupError {}

/// Why a connection is of no use. The caller closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The other side has the identity of this node.
    Myself,
    /// The list of this node does not have the name.
    NotListed { name: String },
    /// The address of a listed node leads to a node with another name.
    OtherName { listed: String, found: String },
    /// Two nodes have the same identity: the directory of one is a copy.
    SameIdentity { name: String, other: String },
    /// This node itself has the name, or is connected to another node with it. `node` is the identity of that one.
    SameName { name: String, node: NodeIdentity },
    /// The node has been started again since.
    EarlierBoot { name: String },
    /// The connection was dialed, but the handshake failed. The caller says why.
    Handshake(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Myself => {
                write!(f, "the address leads to this node itself, or to a copy of its data directory")
            }
            Self::NotListed { name } => write!(f, "the list of nodes here does not have {name}"),
            Self::OtherName { listed, found } => {
                write!(f, "the address of {listed} leads to {found}")
            }
            Self::SameIdentity { name, other } => {
                write!(
                    f,
                    "{name} has the identity of {other}: one data directory is a copy of the other, or {name} is not who it says"
                )
            }
            Self::SameName { name, node } => {
                write!(f, "another node has the name {name}, with the identity {node}")
            }
            Self::EarlierBoot { name } => write!(f, "{name} has been restarted since"),
            Self::Handshake(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}

/// A member of the cluster, as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub number: u32,
    pub node: NodeIdentity,
    pub name: String,
}

/// What the caller must do, or must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Send the word over the connection that this node dialed to the peer.
    Send { peer: usize, word: Vec<u8> },
    /// Close this connection with the peer. The machine counts it as closed already. A dialed one is dialed again.
    Close { peer: usize, side: Side },
    /// This node founds the cluster, as its member number 1. The caller writes that to disk, and then calls
    /// [`Nodes::handle_persisted`].
    Found { cluster: ClusterId },
    /// This node is admitted to the cluster. The caller writes that to disk, and then calls [`Nodes::handle_persisted`].
    Join { cluster: ClusterId, number: u32 },
    /// An empty node asks to be admitted. The caller asks the catalog, and answers with [`Nodes::handle_admitted`]. It must answer, also
    /// when the catalog does not decide; nothing is asked again for this node before that.
    AskToAdmit { node: NodeIdentity, name: String },
    /// The support of a member begins (`ended` is `None`) or ends. Between two boots of a member it always ends.
    Support { number: u32, boot: u64, ended: Option<Why> },
    /// The alarms of a listed node that count here have changed: those of the newest beat of a supported member, and none of any other node.
    Alarms { peer: usize, alarms: Alarms },
    /// The clock of a listed node differs too much from the one here, or does so no longer. Said once for each change.
    Clocks { peer: usize, ahead_ms: i64, are_apart: bool },
    /// A listed node is a member of another cluster. An error for the operator, once for each life of it.
    OtherCluster { peer: usize, ours: ClusterId, theirs: ClusterId },
}

/// A node whose disk was wiped has a new identity under its old name. For each name so many of the last identities are remembered. A process
/// of a forgotten one could connect for a moment, until its connection is found dead.
const FORMER_MAX: usize = 8;

/// What this node knows about one listed node.
struct Slot {
    peer: Peer,
    /// The last lives of other nodes that had this name.
    former: Vec<Life>,
    /// The number and boot of the member that the caller knows as supported.
    told: Option<(u32, u64)>,
    standing: Option<Why>,
    /// Since when `standing` is as it is.
    since_ms: u64,
    /// The identity for which the caller is asked whether the cluster admits it.
    asking: Option<NodeIdentity>,
    /// Why the last connection was refused, here.
    refusal: Option<Refusal>,
    /// The caller knows that this life is a member of another cluster.
    is_reported: bool,
    /// The alarms that the caller knows.
    alarms: Alarms,
    /// The caller knows that the clocks differ.
    clocks_apart: bool,
}

/// The machine. See the page of the crate. A *peer* is a place in the list, from 0. Methods panic if there is no such place.
pub struct Nodes {
    me: Life,
    name: String,
    cluster: ClusterId,
    my_place: usize,
    list: u64,
    slots: Vec<Slot>,
    members: Vec<Member>,
    directory: Directory,
    /// The membership that the caller writes to disk now.
    pending: Option<(ClusterId, u32)>,
    health: Health,
    now_ms: u64,
    clock_ms: u64,
    next_beat_ms: u64,
    /// The number of the last beat.
    beat: u64,
    /// When the last beats were sent, the newest at the end.
    sent_ms: VecDeque<u64>,
    /// The last beat that said what ends support. Acknowledgements of it and of earlier ones do not count for leading.
    ill_beat: u64,
    asking: forming::Asking,
    events: VecDeque<Event>,
    #[cfg(debug_assertions)]
    pub(crate) mutation: Option<Mutation>,
}

impl Nodes {
    /// Makes the machine of a node that starts. Call [`Self::poll`] at once: a node that is alone in its list founds.
    ///
    /// # Errors
    /// The setup is of no use. This is the operator's mistake, except a cluster id of zeros.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let Setup { me, name, listed, directory, cluster, now_ms, seed } = setup;
        if listed.len() > NODES_MAX {
            return Err(SetupError::TooMany);
        }
        if cluster == ClusterId::NONE {
            return Err(SetupError::NoClusterId);
        }
        if let Some(twice) = listed.iter().enumerate().find(|(at, name)| listed[..*at].contains(name)) {
            return Err(SetupError::ListedTwice { name: twice.1.clone() });
        }
        let Some(my_place) = listed.iter().position(|other| *other == name) else {
            return Err(SetupError::NotListed { name });
        };
        let list = digest(&listed);
        let slot = |name| Slot {
            peer: Peer::new(name),
            former: Vec::new(),
            told: None,
            standing: Some(Why::NeverSeen),
            since_ms: now_ms,
            asking: None,
            refusal: None,
            is_reported: false,
            alarms: Alarms::default(),
            clocks_apart: false,
        };
        let mut nodes = Self {
            me,
            name,
            cluster,
            my_place,
            list,
            slots: listed.into_iter().map(slot).collect(),
            members: Vec::new(),
            directory,
            pending: None,
            health: Health::default(),
            now_ms,
            clock_ms: 0,
            next_beat_ms: now_ms + seed % BEAT_MS,
            beat: 0,
            sent_ms: VecDeque::new(),
            ill_beat: 0,
            asking: forming::Asking::default(),
            events: VecDeque::new(),
            #[cfg(debug_assertions)]
            mutation: None,
        };
        nodes.form();
        Ok(nodes)
    }

    /// Makes the machine make a mistake from now on. For tests.
    #[cfg(debug_assertions)]
    pub fn mutate(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
    }

    /// Returns the next thing to do. Call it until it returns `None`, after each input.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::handle_time`] must be called at the latest. The time is never more than [`BEAT_MS`] away.
    pub fn next_timeout(&self) -> u64 {
        let ends = self.slots.iter().filter(|slot| slot.standing.is_none());
        let ends = ends.map(|slot| slot.peer.in_sight_until_ms(self.needs_acknowledgement()));
        ends.fold(self.next_beat_ms, u64::min)
    }

    /// Sets the time, for all inputs that follow: the monotonic clock, and the clock that other nodes compare with theirs, both in
    /// milliseconds.
    pub fn handle_time(&mut self, now_ms: u64, clock_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.clock_ms = clock_ms;
        for at in 0..self.slots.len() {
            while let Some(side) = self.slots[at].peer.dead_side(self.now_ms) {
                self.close(at, side);
            }
            self.judge(at);
        }
        self.form();
        if self.now_ms >= self.next_beat_ms {
            self.next_beat_ms = self.now_ms + BEAT_MS;
            self.send_beats();
        }
    }

    /// The connection that this node dialed to the peer is open. An error means that it was closed by [`Event::Close`] at once.
    pub fn handle_dialed(&mut self, peer: usize, hello: &Hello) -> Result<(), Refusal> {
        let listed = &self.slots[peer].peer.name;
        let result = if hello.node == self.me.node {
            Err(Refusal::Myself)
        } else if hello.name != *listed {
            Err(Refusal::OtherName { listed: listed.clone(), found: hello.name.clone() })
        } else {
            self.meet(peer, Side::Dialed, hello)
        };
        self.slots[peer].refusal = result.clone().err();
        if result.is_err() {
            self.events.push_back(Event::Close { peer, side: Side::Dialed });
        }
        result
    }

    /// The connection that this node dialed to the peer has ended.
    pub fn handle_closed(&mut self, peer: usize) {
        self.slots[peer].peer.close(Side::Dialed, self.now_ms);
        self.judge(peer);
    }

    /// The host of the peer refused a connection: nothing listens on the port.
    pub fn handle_refused(&mut self, peer: usize) {
        self.slots[peer].peer.refuse();
        self.judge(peer);
    }

    /// A connection to the peer could not be opened for this reason, which the view shows: the name has no address, the handshake failed, or the
    /// peer is in another cluster.
    pub fn handle_failed(&mut self, peer: usize, why: String) {
        self.slots[peer].refusal = Some(Refusal::Handshake(why));
    }

    /// Another node has dialed this one. Returns its place in the list. The caller then closes an earlier connection that it accepted from the
    /// same node, and passes on nothing more from it.
    ///
    /// # Errors
    /// The connection is of no use. The caller closes it, and says why to the other side.
    pub fn handle_accepted(&mut self, hello: &Hello) -> Result<usize, Refusal> {
        if hello.node == self.me.node {
            return Err(Refusal::Myself);
        }
        let name = hello.name.clone();
        let Some(peer) = self.slots.iter().position(|slot| slot.peer.name == name) else {
            return Err(Refusal::NotListed { name });
        };
        if peer == self.my_place {
            return Err(Refusal::SameName { name, node: self.me.node });
        }
        let result = self.meet(peer, Side::Accepted, hello);
        self.slots[peer].refusal = result.clone().err();
        result.map(|()| peer)
    }

    /// The connection that the peer dialed has ended.
    pub fn handle_accept_closed(&mut self, peer: usize) {
        self.slots[peer].peer.close(Side::Accepted, self.now_ms);
        self.judge(peer);
    }

    /// A word has arrived over the connection that the peer dialed. Words of another life, or for another life of this node, have no effect.
    ///
    /// # Errors
    /// The bytes are not a word. The caller closes the connection.
    pub fn handle_word(&mut self, peer: usize, bytes: &[u8]) -> Result<(), Malformed> {
        let Word { from, to, body } = Word::decode(bytes)?;
        let (now_ms, clock_ms) = (self.now_ms, self.clock_ms);
        let sender = &self.slots[peer].peer;
        if to != self.me || sender.life != Some(from) || !sender.is_open(Side::Accepted) {
            return Ok(());
        }
        self.slots[peer].peer.take_word(now_ms);
        match body {
            Body::Beat(beat) => {
                let is_repeated =
                    self.slots[peer].peer.known.beat.is_some_and(|newest| newest.number >= beat.number);
                if is_repeated || beat.heard > self.beat {
                    return Ok(());
                }
                let sent_ms = self.sent_ms(beat.heard).filter(|sent_ms| now_ms - sent_ms < SILENCE_MS);
                let peer = &mut self.slots[peer].peer;
                peer.take_beat(beat, sent_ms, now_ms, clock_ms);
                let counts = beat.heard > self.ill_beat && beat.supports_ms > 0;
                let until_ms = sent_ms.filter(|_| counts);
                let supports_ms = u64::from(beat.supports_ms).min(SILENCE_MS);
                peer.known.supports_until_ms = until_ms.map_or(0, |sent_ms| sent_ms + supports_ms);
            }
            Body::Join => self.take_join(peer),
            Body::Admitted { cluster, number } => self.take_admitted(peer, cluster, number),
            Body::NotAdmitted(reason) => self.take_not_admitted(peer, reason),
        }
        self.judge(peer);
        self.form();
        Ok(())
    }

    /// Sets how this node is. While it says what ends its support, no other node counts as acknowledging it ([`Self::acknowledged_within`]).
    pub fn handle_health(&mut self, health: Health) {
        self.health = health;
    }

    /// Sets the age of the oldest append that a shard of this member has not answered over an open connection; 0 if there is none, or if
    /// there is no connection.
    pub fn handle_shard_link(&mut self, number: u32, oldest_unanswered_ms: u64) {
        if let Some(at) = self.place_of(number) {
            self.slots[at].peer.known.unanswered_ms = oldest_unanswered_ms;
            self.judge(at);
        }
    }

    /// What [`Event::Found`] or [`Event::Join`] asked for is on disk.
    pub fn handle_persisted(&mut self) {
        if let Some((cluster, number)) = self.pending.take() {
            self.directory = Directory::Member { cluster, number };
            self.judge_all();
        }
    }

    /// The catalog has decided whether the cluster admits this node. The number of a node is always the same.
    pub fn handle_admitted(&mut self, node: NodeIdentity, result: Result<u32, Reason>) {
        let Directory::Member { cluster, .. } = self.directory else { return };
        let body = match result {
            Ok(number) => Body::Admitted { cluster, number },
            Err(reason) => Body::NotAdmitted(reason),
        };
        for at in 0..self.slots.len() {
            if self.slots[at].asking == Some(node) {
                self.slots[at].asking = None;
                if self.slots[at].peer.life.is_some_and(|life| life.node == node) {
                    self.send(at, body.clone());
                }
            }
        }
    }

    /// Sets the members of the cluster as the catalog knows them. The caller calls it at the start of a member, and after each change.
    pub fn handle_members(&mut self, members: Vec<Member>) {
        self.members = members;
        self.judge_all();
    }

    /// Returns true if this node supports the member.
    pub fn supports(&self, number: u32) -> bool {
        self.slots.iter().any(|slot| slot.told.is_some_and(|(told, _)| told == number))
    }

    /// Returns true if the member certainly supports this node: it acknowledged a beat that this node sent less than `ms` ago, or somewhat less
    /// if its own support is nearer to its end. True for the number of this node itself. False for all others while the health of this
    /// node ends its support. A leader asks with 1,500 of [`SILENCE_MS`]: the difference is for clocks of different speed. The answer can
    /// be wrong if the network refused connections between the two nodes.
    pub fn acknowledged_within(&self, number: u32, ms: u64) -> bool {
        if matches!(self.directory, Directory::Member { number: mine, .. } if mine == number) {
            return true;
        }
        if self.is_ill() {
            return false;
        }
        let until_ms = self.place_of(number).map_or(0, |at| self.slots[at].peer.known.supports_until_ms);
        self.now_ms + SILENCE_MS.saturating_sub(ms) < until_ms
    }

    fn is_ill(&self) -> bool {
        let Health { oldest_unsynced_ms, oldest_turn_ms, .. } = self.health;
        let is_ill = oldest_unsynced_ms >= UNSYNCED_MAX_MS || oldest_turn_ms >= TURN_MAX_MS;
        is_ill && !self.has(Mutation::LeadWhileIll)
    }

    /// Returns when this beat was sent, if it is one of the last.
    fn sent_ms(&self, number: u64) -> Option<u64> {
        let first = self.beat + 1 - self.sent_ms.len() as u64;
        let at = usize::try_from(number.checked_sub(first)?).ok()?;
        self.sent_ms.get(at).copied()
    }

    /// Takes what a node says about itself when a connection opens.
    fn meet(&mut self, at: usize, side: Side, hello: &Hello) -> Result<(), Refusal> {
        let life = Life { node: hello.node, boot: hello.boot };
        let others = self.slots.iter().enumerate().filter(|(other, _)| *other != at);
        let mut others = others.map(|(_, slot)| &slot.peer).filter(|peer| peer.is_connected());
        if let Some(other) = others.find(|peer| peer.life.is_some_and(|other| other.node == life.node)) {
            return Err(Refusal::SameIdentity { name: hello.name.clone(), other: other.name.clone() });
        }
        if let Some(other) = self.listed_as_another(hello.node, &hello.name) {
            return Err(Refusal::SameIdentity { name: hello.name.clone(), other: other.to_owned() });
        }
        let known = self.slots[at].peer.life.filter(|known| *known != life);
        let is_earlier = |known: &Life| life.node == known.node && life.boot < known.boot;
        if self.slots[at].former.iter().chain(&known).any(is_earlier) && !self.has(Mutation::BootNotChecked) {
            return Err(Refusal::EarlierBoot { name: hello.name.clone() });
        }
        if let Some(known) = known {
            if known.node != life.node {
                // The address in the list decides which of two nodes with the same name is meant.
                if side == Side::Accepted && self.slots[at].peer.is_open(Side::Dialed) {
                    return Err(Refusal::SameName { name: hello.name.clone(), node: known.node });
                }
                let former = &mut self.slots[at].former;
                former.retain(|former| former.node != known.node && former.node != life.node);
                former.push(known);
                if former.len() > FORMER_MAX {
                    former.remove(0);
                }
            }
            let other = if side == Side::Dialed { Side::Accepted } else { Side::Dialed };
            self.slots[at].peer.close(side, self.now_ms);
            if self.slots[at].peer.is_open(other) {
                self.close(at, other);
            }
            self.end_life(at, if known.node == life.node { Why::Restarted } else { Why::Replaced });
        }
        let peer = &mut self.slots[at].peer;
        peer.life = Some(life);
        peer.open(side, self.now_ms);
        self.judge(at);
        Ok(())
    }

    fn end_life(&mut self, at: usize, why: Why) {
        let slot = &mut self.slots[at];
        slot.peer.known = Known::default();
        slot.is_reported = false;
        if let Some((number, boot)) = slot.told.take() {
            self.events.push_back(Event::Support { number, boot, ended: Some(why) });
        }
    }

    fn close(&mut self, at: usize, side: Side) {
        self.slots[at].peer.close(side, self.now_ms);
        self.events.push_back(Event::Close { peer: at, side });
    }

    fn judge_all(&mut self) {
        (0..self.slots.len()).for_each(|at| self.judge(at));
    }

    /// Decides anew whether the node is supported, and says what has changed.
    fn judge(&mut self, at: usize) {
        let slot = &self.slots[at];
        let peer = &slot.peer;
        let member = self.member_of(slot);
        let standing = peer.out_of_sight(self.now_ms, self.needs_acknowledgement()).or_else(|| peer.ill());
        let now = member.ok().filter(|_| standing.is_none());
        let now = now.zip(peer.life).map(|(number, life)| (number, life.boot));
        let why = standing.or(member.err());
        let other_cluster = self.other_cluster(slot);
        let slot = &mut self.slots[at];
        if slot.standing != standing {
            slot.standing = standing;
            slot.since_ms = self.now_ms;
        }
        if slot.told != now {
            let before = std::mem::replace(&mut slot.told, now);
            if let Some((number, boot)) = before {
                self.events.push_back(Event::Support { number, boot, ended: why.or(Some(Why::OtherNumber)) });
            }
            if let Some((number, boot)) = now {
                self.events.push_back(Event::Support { number, boot, ended: None });
            }
        }
        if let Some((ours, theirs)) = other_cluster.filter(|_| !slot.is_reported) {
            slot.is_reported = true;
            self.events.push_back(Event::OtherCluster { peer: at, ours, theirs });
        }
        self.note_alarms(at);
        self.note_clocks(at);
    }

    /// Returns the clusters of this node and of the other one, if they are members of different clusters.
    fn other_cluster(&self, slot: &Slot) -> Option<(ClusterId, ClusterId)> {
        match (self.directory, slot.peer.state()?) {
            (Directory::Member { cluster: ours, .. }, State::Member { cluster: theirs, .. }) => {
                Some((ours, theirs)).filter(|_| ours != theirs)
            }
            _ => None,
        }
    }

    /// Returns the name of the member with this identity, if that is the name of another node in the list. A certificate may prove the name only, so
    /// a node must not pose as a member with another one. A member whose old name is not in the list any more has a new one.
    fn listed_as_another(&self, node: NodeIdentity, name: &str) -> Option<&str> {
        let member = self.members.iter().find(|member| member.node == node && member.name != name)?;
        let is_listed = |slot: &Slot| slot.peer.name == member.name;
        self.slots.iter().any(is_listed).then_some(&*member.name)
    }

    /// Returns the number of the node if it is a member of this node's cluster and its number is its own, as far as this node knows.
    fn member_of(&self, slot: &Slot) -> Result<u32, Why> {
        let (mine, number) = match (self.directory, slot.peer.state()) {
            (Directory::Member { cluster: ours, number: mine }, Some(State::Member { cluster, number }))
                if ours == cluster =>
            {
                (mine, number)
            }
            _ => return Err(Why::NotMember),
        };
        let is_others = slot.peer.life.is_some_and(|life| {
            self.members.iter().any(|member| member.number == number && life.node != member.node)
                || self.listed_as_another(life.node, &slot.peer.name).is_some()
        });
        if mine == number || is_others { Err(Why::OtherNumber) } else { Ok(number) }
    }

    /// Returns the place of a member that has, or had when it was heard last, this number.
    fn place_of(&self, number: u32) -> Option<usize> {
        self.slots.iter().position(|slot| self.member_of(slot) == Ok(number))
    }

    fn send_beats(&mut self) {
        self.beat += 1;
        if self.sent_ms.len() == BEATS_KEPT {
            self.sent_ms.pop_front();
        }
        self.sent_ms.push_back(self.now_ms);
        if self.is_ill() {
            // This beat ends the support of others before they can say so.
            self.ill_beat = self.beat;
            self.slots.iter_mut().for_each(|slot| slot.peer.known.supports_until_ms = 0);
        }
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let until_ms = slot.peer.in_sight_until_ms(self.needs_acknowledgement());
            let supports_ms = slot.told.map_or(0, |_| until_ms.saturating_sub(self.now_ms));
            let beat = Beat {
                number: self.beat,
                heard: slot.peer.known.beat.map_or(0, |beat| beat.number),
                held_ms: slot.peer.held_ms(self.now_ms),
                supports_ms: supports_ms.try_into().unwrap_or(u32::MAX),
                state: self.state(),
                list: self.list,
                clock_ms: self.clock_ms,
                health: self.health,
            };
            self.send(at, Body::Beat(beat));
        }
    }

    fn send(&mut self, at: usize, body: Body) {
        let peer = &self.slots[at].peer;
        if let Some(to) = peer.life.filter(|_| peer.is_open(Side::Dialed)) {
            let word = Word { from: self.me, to, body }.encode();
            self.events.push_back(Event::Send { peer: at, word });
        }
    }

    fn needs_acknowledgement(&self) -> bool {
        !self.has(Mutation::SupportWithoutAcknowledgement)
    }

    fn has(&self, mutation: Mutation) -> bool {
        #[cfg(debug_assertions)]
        return self.mutation == Some(mutation);
        #[cfg(not(debug_assertions))]
        {
            let _ = mutation;
            false
        }
    }
}
