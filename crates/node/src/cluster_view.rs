//! What a node knows about its cluster, as plain data for management: the other nodes and the links to them, from the threads of the cluster,
//! and who decides about definitions, from the deciding shard.

use std::fmt;
use std::sync::Arc;

use ::nodes::{NodeView, View, Why};
use broker::explain::{Kind, Object, Trouble, Troubles};

use crate::shard::looks::CatalogSight;

/// How this node sees a node of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It is this node.
    Here,
    /// Heartbeats go to and fro, and it counts as alive.
    InSight,
    /// Heartbeats go to and fro, but its disk or a shard stands still. It does not count as alive.
    Unwell,
    /// Something arrives in one direction only.
    OneWay,
    /// It was seen since this node started, and nothing is heard from it now.
    Missing,
    /// It was not seen since this node started.
    NeverSeen,
    /// It is there, but is no member of this cluster.
    Stranger,
    /// It is a member that the list of this node does not have. Nothing connects to it.
    Unlisted,
}

impl NodeState {
    /// Returns the word for this state, for programs. Its meaning never changes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Here => "this_node",
            Self::InSight => "in_sight",
            Self::Unwell => "unwell",
            Self::OneWay => "one_way",
            Self::Missing => "missing",
            Self::NeverSeen => "never_seen",
            Self::Stranger => "stranger",
            Self::Unlisted => "unlisted",
        }
    }

    /// Returns true if the node counts as alive.
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Here | Self::InSight)
    }

    /// Returns true if the node can be reached in both directions.
    pub const fn is_reached(self) -> bool {
        matches!(self, Self::Here | Self::InSight | Self::Unwell)
    }
}

/// What a node knows about one node of its cluster. What it does not know is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    pub name: Arc<str>,
    /// The number of the node in the cluster.
    pub number: Option<u32>,
    /// The random identifier of its data directory, as 32 hexadecimal digits.
    pub node_id: Option<String>,
    /// The number of starts on that directory, including its present one.
    pub boots: Option<u64>,
    /// The host and the port of the list. `None` for a node that the list does not have.
    pub address: Option<(Arc<str>, u16)>,
    pub state: NodeState,
    /// The state in words, with its reason.
    pub why: String,
    /// For how long it has been so, in milliseconds. For this node, the time since it began to look for others.
    pub since_ms: Option<u64>,
    /// Connections for heartbeats are open: from here to there, and from there to here.
    pub is_linked: (bool, bool),
    /// It takes part in votes about definitions.
    pub votes: bool,
    pub round_trip_ms: Option<u64>,
    /// The bytes of messages that wait to be sent to it.
    pub waiting_bytes: Option<u64>,
    /// By how much its clock is ahead of the one here, in milliseconds.
    pub clock_ahead_ms: Option<i64>,
    /// The clocks differ by more than a second.
    pub clocks_apart: bool,
    /// Its alarms, if it counts as alive. They stop publishers on all nodes.
    pub memory_alarm: bool,
    pub disk_alarm: bool,
}

impl ClusterNode {
    fn here(name: Arc<str>) -> Self {
        Self {
            name,
            number: None,
            node_id: None,
            boots: None,
            address: None,
            state: NodeState::Here,
            why: "this node".to_owned(),
            since_ms: None,
            is_linked: (false, false),
            votes: false,
            round_trip_ms: None,
            waiting_bytes: None,
            clock_ahead_ms: None,
            clocks_apart: false,
            memory_alarm: false,
            disk_alarm: false,
        }
    }

    /// Returns the node as an object of a trouble. What lasts longest, or is most, is the worst.
    fn trouble(&self, numbers: Vec<(&'static str, u64)>) -> Object {
        let weight = numbers.first().map_or(0, |(_, value)| *value);
        Object { kind: Kind::Node, vhost: None, name: self.name.clone(), numbers, weight }
    }

    /// Returns the resources, `memory` or `disk`, whose alarms are raised.
    pub fn alarms(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [("memory", self.memory_alarm), ("disk", self.disk_alarm)];
        all.into_iter().filter(|(_, on)| *on).map(|(what, _)| what)
    }
}

/// What a node knows about its cluster. A node that is alone knows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The identifier of the cluster, as 32 hexadecimal digits. `None` for a node that is alone.
    pub cluster: Option<String>,
    /// All nodes that are listed or members, in the order of the list.
    pub nodes: Vec<ClusterNode>,
    /// The node that decides about definitions, as far as this node knows. It may be this one.
    pub leader: Option<u32>,
    /// This node counts more than half of the nodes that vote as alive.
    pub has_majority: bool,
    /// The index of the last change of definitions that is applied here.
    pub applied: u64,
}

impl ClusterView {
    /// Returns the view of a node that is alone.
    pub fn alone(name: Arc<str>) -> Self {
        let nodes = vec![ClusterNode::here(name)];
        Self { cluster: None, nodes, leader: None, has_majority: false, applied: 0 }
    }

    /// Returns what the threads of the cluster know. `addresses` are those of the list, and `waiting` the bytes for each node there.
    pub(crate) fn of_links(
        view: &View,
        addresses: &[(Arc<str>, u16)],
        waiting: impl Fn(usize) -> Option<u64>,
    ) -> Self {
        let listed = view.nodes.iter().enumerate().map(|(place, node)| {
            let state = state_of(node);
            let is_uncertain = state == NodeState::Missing && node.trouble == Some(Why::Unacknowledged);
            let known = |is_known: bool, text: String| Some(text).filter(|_| is_known);
            ClusterNode {
                name: node.name.as_str().into(),
                number: Some(node.number).filter(|number| *number > 0),
                node_id: known(node.boot > 0, node.node.to_string()),
                boots: Some(node.boot).filter(|boot| *boot > 0),
                address: addresses.get(place).cloned(),
                state,
                why: if is_uncertain { Why::Silent.to_string() } else { node.to_string() },
                since_ms: Some(node.since_ms),
                is_linked: (node.is_dialed, node.is_accepted),
                votes: false,
                round_trip_ms: node.round_trip_ms.filter(|_| state.is_reached() && !node.is_me),
                waiting_bytes: waiting(place).filter(|_| !node.is_me),
                clock_ahead_ms: node.clock_difference_ms.filter(|_| state.is_reached() && !node.is_me),
                clocks_apart: node.clocks_apart && state.is_reached(),
                memory_alarm: node.alarms.memory,
                disk_alarm: node.alarms.disk,
            }
        });
        let unlisted = view.unlisted.iter().map(|member| ClusterNode {
            number: Some(member.number),
            node_id: Some(member.node.to_string()),
            state: NodeState::Unlisted,
            why: "the list of nodes here does not have it".to_owned(),
            ..ClusterNode::here(member.name.as_str().into())
        });
        Self {
            cluster: Some(view.cluster.to_string()),
            nodes: listed.chain(unlisted).collect(),
            leader: None,
            has_majority: false,
            applied: 0,
        }
    }

    /// Adds what the deciding shard knows.
    pub(crate) fn add_catalog(&mut self, sight: &CatalogSight) {
        self.leader = sight.leader;
        self.has_majority = sight.has_majority;
        self.applied = sight.applied;
        for node in &mut self.nodes {
            let known = sight.nodes.iter().find(|(_, known)| known.name == node.name);
            node.number = match (node.state, known) {
                (NodeState::Here, _) => Some(sight.here),
                (_, Some((number, _))) => Some(*number),
                (_, None) => node.number,
            };
            node.votes = node.number.is_some_and(|number| sight.voters.contains(&number));
        }
    }

    /// Returns the node of this name.
    pub fn node(&self, name: &str) -> Option<&ClusterNode> {
        self.nodes.iter().find(|node| *node.name == *name)
    }

    /// Returns the name of the node that decides about definitions.
    pub fn leader_name(&self) -> Option<&Arc<str>> {
        let leader = self.leader?;
        self.nodes.iter().find(|node| node.number == Some(leader)).map(|node| &node.name)
    }

    /// Adds what is not well with the nodes and the links between them. Only who monitors is told about clocks.
    pub(crate) fn add_troubles(&self, is_monitor: bool, all: &mut Troubles) {
        // A node that is alone has nobody to miss.
        let others = self.nodes.iter().filter(|node| self.nodes.len() > 1 && node.state != NodeState::Here);
        for node in others {
            let missing = vec![("node_missing_ms", node.since_ms.unwrap_or(0))];
            if node.votes && !node.state.is_alive() && !self.has_majority {
                all.add(Trouble::ClusterMinority, node.trouble(missing.clone()));
            }
            match node.state {
                NodeState::OneWay => all.add(Trouble::LinkOneWay, node.trouble(missing)),
                state if !state.is_alive() => all.add(Trouble::NodeMissing, node.trouble(missing)),
                _ => {}
            }
            if node.clocks_apart && is_monitor {
                let ms = node.clock_ahead_ms.unwrap_or(0).unsigned_abs();
                all.add(Trouble::ClocksApart, node.trouble(vec![("clock_difference_ms", ms)]));
            }
        }
    }

    /// Adds the alarms of other nodes.
    pub(crate) fn add_alarms_of_others(&self, all: &mut Troubles) {
        for node in self.nodes.iter().filter(|node| node.state != NodeState::Here) {
            for (what, is_raised) in [("memory_alarm", node.memory_alarm), ("disk_alarm", node.disk_alarm)] {
                if is_raised {
                    all.add(Trouble::Alarm, node.trouble(vec![(what, 1)]));
                }
            }
        }
    }

    /// Returns the nodes that cannot be reached in both directions.
    pub fn out_of_reach(&self) -> impl Iterator<Item = &ClusterNode> {
        self.nodes.iter().filter(|node| !node.state.is_reached())
    }

    /// Returns for how long this node has been in a minority, in milliseconds. `None` if it is in none, or if that is not known.
    pub fn minority_ms(&self) -> Option<u64> {
        let voters = self.nodes.iter().filter(|node| node.votes);
        let mut missing: Vec<u64> =
            voters.clone().filter(|node| !node.state.is_alive()).filter_map(|node| node.since_ms).collect();
        missing.sort_unstable_by(|a, b| b.cmp(a));
        // The first ones to go missing have left a majority.
        let spared = voters.count().checked_sub(1)? / 2;
        missing.get(spared).copied().filter(|_| !self.has_majority)
    }

    /// Returns true if the nodes that are alive would have no majority without this one.
    pub fn is_critical(&self) -> bool {
        let voters = || self.nodes.iter().filter(|node| node.votes);
        let rest = voters().filter(|node| node.state == NodeState::InSight).count();
        let votes_here = voters().any(|node| node.state == NodeState::Here);
        self.nodes.len() > 1 && votes_here && 2 * rest <= voters().count()
    }
}

/// A node that falls silent seems to be heard in one direction for as long as its last heartbeats count. Only after this time is the direction
/// certain, in milliseconds.
const ONE_WAY_MS: u64 = 500;

fn state_of(node: &NodeView) -> NodeState {
    if node.is_me {
        return NodeState::Here;
    }
    if node.other_cluster.is_some() {
        return NodeState::Stranger;
    }
    match node.trouble {
        None => NodeState::InSight,
        Some(Why::NeverSeen) => NodeState::NeverSeen,
        Some(Why::Unacknowledged) if node.since_ms < ONE_WAY_MS => NodeState::Missing,
        Some(Why::Unacknowledged) => NodeState::OneWay,
        // This node has a connection to it, and nothing comes back.
        Some(Why::Silent) if node.is_dialed && !node.is_accepted => NodeState::OneWay,
        Some(Why::Gone | Why::Silent | Why::Restarted | Why::Replaced) => NodeState::Missing,
        Some(Why::DiskStalled | Why::TurnStalled | Why::AppendUnanswered) => NodeState::Unwell,
        Some(Why::NotMember | Why::OtherNumber) => NodeState::Stranger,
    }
}

/// Where the admin API finds what the threads of the cluster know. The default is that of a node that is alone.
#[derive(Clone, Default)]
pub struct SeenNodes(Option<Arc<dyn Fn() -> ClusterView + Send + Sync>>);

impl SeenNodes {
    /// Uses what `seen` returns. The parts of the deciding shard are added to it.
    pub fn new(seen: impl Fn() -> ClusterView + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(seen)))
    }

    /// Returns what is known now. `name` is that of this node.
    pub(crate) fn now(&self, name: &Arc<str>) -> ClusterView {
        match &self.0 {
            Some(seen) => seen(),
            None => ClusterView::alone(name.clone()),
        }
    }
}

impl fmt::Debug for SeenNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SeenNodes").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use ::nodes::{Directory, Life, Nodes, Setup};
    use catalog::KnownNode;
    use link::{ClusterId, Hello, NodeIdentity, Role};

    use super::*;

    const CLUSTER: ClusterId = ClusterId([7; 16]);

    fn machine() -> Nodes {
        let listed: Vec<String> = ["a", "b", "c"].iter().map(|name| (*name).to_owned()).collect();
        Nodes::new(Setup {
            me: Life { node: NodeIdentity([1; 16]), boot: 5 },
            name: "a".to_owned(),
            listed,
            directory: Directory::Member { cluster: CLUSTER, number: 1 },
            cluster: CLUSTER,
            now_ms: 0,
            seed: 0,
        })
        .unwrap()
    }

    fn view(machine: &Nodes) -> ClusterView {
        let addresses: Vec<(Arc<str>, u16)> =
            ["a", "b", "c"].iter().zip(1..).map(|(host, port)| ((*host).into(), port)).collect();
        let mut view = ClusterView::of_links(&machine.view(), &addresses, |place| Some(100 * place as u64));
        let known = |number: u32, name: &str| (number, KnownNode { identity: [9; 16], name: name.into() });
        view.add_catalog(&CatalogSight {
            nodes: vec![known(1, "a"), known(2, "b"), known(3, "c")],
            here: 1,
            leader: Some(2),
            voters: vec![1, 2, 3],
            has_majority: false,
            applied: 12,
        });
        view
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let machine = machine();
        let view = view(&machine);
        let [here, b, _] = &view.nodes[..] else { panic!("{view:?}") };
        assert_eq!(
            (here.state, here.number, here.votes, here.boots),
            (NodeState::Here, Some(1), true, Some(5))
        );
        assert_eq!((here.round_trip_ms, here.waiting_bytes, here.clock_ahead_ms), (None, None, None));
        assert_eq!(
            (b.state, b.number, b.boots, b.round_trip_ms),
            (NodeState::NeverSeen, Some(2), None, None)
        );
        assert_eq!(b.waiting_bytes, Some(100));
        assert_eq!(b.address, Some(("b".into(), 2)));
        assert_eq!(view.leader_name().map(|name| &**name), Some("b"));
        assert_eq!(view.out_of_reach().count(), 2);
        assert!(view.is_critical(), "without it, nobody is left");
    }

    #[test]
    fn a_connection_without_answers_is_one_way() {
        let mut machine = machine();
        let hello = Hello {
            role: Role::Heartbeats,
            node: NodeIdentity([2; 16]),
            boot: 3,
            cluster: CLUSTER,
            number: 2,
            format: 1,
            name: "b".to_owned(),
        };
        machine.handle_dialed(1, &hello).unwrap();
        assert_eq!(view(&machine).nodes[1].state, NodeState::OneWay);
        machine.handle_closed(1);
        let view = view(&machine);
        assert_eq!((view.nodes[1].state, view.nodes[1].boots), (NodeState::Missing, Some(3)));
        assert_eq!(view.nodes[1].why, "nothing is heard from it");
    }

    #[test]
    fn a_node_that_falls_silent_is_missing_at_once() {
        let mut node = machine().view().nodes.remove(1);
        (node.trouble, node.is_dialed, node.is_accepted) = (Some(Why::Unacknowledged), true, true);
        node.since_ms = ONE_WAY_MS - 1;
        assert_eq!(state_of(&node), NodeState::Missing);
        node.since_ms = ONE_WAY_MS;
        assert_eq!(state_of(&node), NodeState::OneWay);
    }

    #[test]
    fn a_member_that_is_not_listed_is_shown() {
        let mut machine = machine();
        let member = |number, name: &str| ::nodes::Member {
            number,
            node: NodeIdentity([number as u8; 16]),
            name: name.to_owned(),
        };
        machine.handle_members(vec![member(1, "a"), member(4, "d")]);
        let view = view(&machine);
        let d = view.node("d").unwrap();
        assert_eq!((d.state, d.number, d.address.clone()), (NodeState::Unlisted, Some(4), None));
    }

    /// Returns the troubles that are found, each with the names of its nodes.
    fn troubles(view: &ClusterView) -> Vec<(Trouble, Vec<String>)> {
        let mut all = Troubles::default();
        view.add_troubles(true, &mut all);
        view.add_alarms_of_others(&mut all);
        let names = |group: &broker::explain::Group| {
            group.objects.iter().map(|object| object.name.to_string()).collect::<Vec<_>>()
        };
        all.groups.iter().map(|(trouble, group)| (*trouble, names(group))).collect()
    }

    #[test]
    fn what_is_not_well_in_a_cluster_is_a_trouble() {
        let mut all = view(&machine());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let both = names(&["b", "c"]);
        assert_eq!(
            troubles(&all),
            [(Trouble::ClusterMinority, both.clone()), (Trouble::NodeMissing, both)],
            "nobody was seen"
        );
        all.has_majority = true;
        (all.nodes[1].state, all.nodes[2].state) = (NodeState::OneWay, NodeState::Unwell);
        assert_eq!(
            troubles(&all),
            [(Trouble::NodeMissing, names(&["c"])), (Trouble::LinkOneWay, names(&["b"]))]
        );
        (all.nodes[1].state, all.nodes[2].state) = (NodeState::InSight, NodeState::InSight);
        assert_eq!(troubles(&all), []);
        all.nodes[2].clocks_apart = true;
        all.nodes[1].disk_alarm = true;
        assert_eq!(troubles(&all), [(Trouble::Alarm, names(&["b"])), (Trouble::ClocksApart, names(&["c"]))]);
        let mut all = Troubles::default();
        ClusterView::alone("a".into()).add_troubles(true, &mut all);
        assert_eq!(all, Troubles::default(), "a node that is alone misses nobody");
    }

    #[test]
    fn a_minority_begins_with_the_node_that_ends_the_majority() {
        let mut all = view(&machine());
        (all.nodes[1].since_ms, all.nodes[2].since_ms) = (Some(70), Some(500));
        assert_eq!(all.minority_ms(), Some(70), "the one that was missing before left two of three");
        all.has_majority = true;
        assert_eq!(all.minority_ms(), None);
        all.has_majority = false;
        all.nodes[2].votes = false;
        assert_eq!(all.minority_ms(), Some(70), "of two that vote, both are needed");
        assert_eq!(ClusterView::alone("a".into()).minority_ms(), None);
    }

    #[test]
    fn a_node_is_critical_if_the_others_are_no_majority() {
        let mut all = view(&machine());
        let mut states = |b, c| {
            (all.nodes[1].state, all.nodes[2].state) = (b, c);
            all.is_critical()
        };
        assert!(!states(NodeState::InSight, NodeState::InSight));
        assert!(states(NodeState::InSight, NodeState::Missing));
        assert!(!ClusterView::alone("a".into()).is_critical(), "a node that is alone is not");
    }
}
