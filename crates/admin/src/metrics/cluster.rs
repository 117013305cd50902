//! Metrics of the cluster, as this node sees it.

use node::{ClusterNode, ClusterView, NodeState};

use crate::exposition::{Exposition, Kind};

/// A figure of another node: name, help, and how to read it. It has no sample while it is not known.
type PeerFigure = (&'static str, &'static str, fn(&ClusterNode) -> Option<u64>);

const PEER_FIGURES: &[PeerFigure] = &[
    ("cluster_peer_up", "1 if another node of the cluster counts as alive", |node| {
        Some(node.state.is_alive().into())
    }),
    ("cluster_peer_waiting_bytes", "Bytes that wait to be sent to another node", |node| node.waiting_bytes),
    ("cluster_peer_clocks_apart", "1 if the clock of another node differs by more than a second", |node| {
        node.clock_ahead_ms.map(|_| node.clocks_apart.into())
    }),
];

/// Adds how many nodes there are, which of them are in sight, and who decides.
pub(super) fn add(page: &mut Exposition, view: &ClusterView) {
    let in_sight = view.nodes.iter().filter(|node| node.state.is_alive()).count();
    for (name, help, value) in [
        ("cluster_nodes", "Nodes of the cluster", view.nodes.len() as u64),
        ("cluster_nodes_in_sight", "Nodes of the cluster that count as alive", in_sight as u64),
        (
            "cluster_leader_known",
            "1 if this node knows which node decides about definitions",
            view.leader.is_some().into(),
        ),
        (
            "cluster_majority",
            "1 if more than half of the nodes that vote about definitions count as alive",
            view.has_majority.into(),
        ),
    ] {
        page.own_family(Kind::Gauge, name, help).sample(&[], value);
    }
    // The name that RabbitMQ's alerts read.
    let help = "Number of nodes of the cluster that this node cannot reach";
    page.family(Kind::Gauge, "unreachable_cluster_peers_count", help)
        .sample(&[], view.out_of_reach().count() as u64);
    let peers: Vec<&ClusterNode> = view.nodes.iter().filter(|node| node.state != NodeState::Here).collect();
    if peers.is_empty() {
        return;
    }
    for (name, help, of) in PEER_FIGURES {
        let mut family = page.own_family(Kind::Gauge, name, help);
        for node in &peers {
            if let Some(value) = of(node) {
                family.sample(&[("peer", &node.name)], value);
            }
        }
    }
    let help = "Round trip of heartbeats to another node";
    let mut family = page.own_family(Kind::Gauge, "cluster_peer_round_trip_seconds", help);
    for node in &peers {
        if let Some(ms) = node.round_trip_ms {
            family.sample_ms(&[("peer", &node.name)], ms);
        }
    }
}
