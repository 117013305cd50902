//! What lists and pages show.

use std::fmt;

use link::{ClusterId, NodeIdentity};

use super::{Directory, Member, Nodes, Refusal, Slot, Waits};
use crate::peer::{Side, Why};
use crate::word::{Alarms, Health, State};

/// What a node shows about itself and the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The cluster of this node; all zeros if there is none.
    pub cluster: ClusterId,
    /// The number of this node; 0 if it is in no cluster.
    pub number: u32,
    pub waits: Waits,
    /// The listed nodes, in the order of the list.
    pub nodes: Vec<NodeView>,
    /// Members that the list of this node does not name. Nothing connects to them.
    pub unlisted: Vec<Member>,
}

/// What a node shows about one listed node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub is_me: bool,
    /// All zeros if it was never seen.
    pub node: NodeIdentity,
    pub boot: u64,
    /// The number that it says it has in its cluster; 0 if it is in none.
    pub number: u32,
    /// What it says about its directory. `None` if nothing was heard.
    pub state: Option<State>,
    /// Why it is out of sight or not supported. `None` for a member in order, and for this node.
    pub trouble: Option<Why>,
    /// For how long it has been in sight and in order, or not, in milliseconds. For this node, since its start.
    pub since_ms: u64,
    pub round_trip_ms: Option<u64>,
    /// By how much its clock is ahead of the one here, in milliseconds.
    pub clock_difference_ms: Option<i64>,
    /// The clocks differ too much: see [`super::Event::Clocks`].
    pub clocks_apart: bool,
    pub health: Option<Health>,
    /// The alarms that stop publishers here. For this node its own.
    pub alarms: Alarms,
    /// Words go from here to there, and from there to here.
    pub is_dialed: bool,
    pub is_accepted: bool,
    /// Its list of nodes differs from the one here.
    pub has_other_list: bool,
    /// It is a member of another cluster than this node.
    pub other_cluster: Option<ClusterId>,
    /// Why this node refused its last connection.
    pub refusal: Option<Refusal>,
}

impl fmt::Display for NodeView {
    /// Writes the state of the node in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_me {
            return write!(f, "this node");
        }
        if let Some(cluster) = self.other_cluster {
            return write!(f, "refused: a member of another cluster, {cluster}");
        }
        match (&self.trouble, &self.refusal) {
            (Some(why), Some(refusal)) => write!(f, "{why}; the last connection was refused: {refusal}")?,
            (Some(why), None) => write!(f, "{why}")?,
            (None, _) => write!(f, "in order")?,
        }
        if self.has_other_list {
            write!(f, "; its list of nodes differs from the one here")?;
        }
        match self.clock_difference_ms {
            Some(ms) if self.clocks_apart => write!(f, "; its clock differs by {ms} ms"),
            _ => Ok(()),
        }
    }
}

impl Nodes {
    /// Returns what lists and pages show.
    pub fn view(&self) -> View {
        let (cluster, number) = match self.directory {
            Directory::Member { cluster, number } => (cluster, number),
            Directory::Empty | Directory::Holds => (ClusterId::NONE, 0),
        };
        let is_listed = |name: &str| self.slots.iter().any(|slot| slot.peer.name == name);
        View {
            cluster,
            number,
            waits: self.waits(),
            nodes: self.slots.iter().enumerate().map(|(at, slot)| self.view_of(at, slot)).collect(),
            unlisted: self.members.iter().filter(|member| !is_listed(&member.name)).cloned().collect(),
        }
    }

    fn view_of(&self, at: usize, slot: &Slot) -> NodeView {
        let is_me = at == self.my_place;
        let (peer, known) = (&slot.peer, &slot.peer.known);
        let life = if is_me { Some(self.me) } else { peer.life };
        let state = if is_me { Some(self.state()) } else { peer.state() };
        let number = match state {
            Some(State::Member { number, .. }) => number,
            _ => 0,
        };
        let is_member = matches!(self.directory, Directory::Member { .. });
        let not_supported = || self.member_of(slot).err().filter(|_| is_member);
        NodeView {
            name: peer.name.clone(),
            is_me,
            node: life.map(|life| life.node).unwrap_or_default(),
            boot: life.map_or(0, |life| life.boot),
            number,
            state,
            trouble: if is_me { None } else { slot.standing.or_else(not_supported) },
            since_ms: self.now_ms - slot.since_ms,
            round_trip_ms: known.round_trip_ms,
            clock_difference_ms: known.clock_difference_ms,
            clocks_apart: slot.clocks_apart,
            health: if is_me { Some(self.health) } else { known.beat.map(|beat| beat.health) },
            alarms: if is_me { self.health.alarms } else { slot.alarms },
            is_dialed: peer.is_open(Side::Dialed),
            is_accepted: peer.is_open(Side::Accepted),
            has_other_list: known.beat.is_some_and(|beat| beat.list != self.list),
            other_cluster: self.other_cluster(slot).map(|(_, theirs)| theirs),
            refusal: slot.refusal.clone(),
        }
    }
}
