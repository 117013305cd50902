//! The settings of a node that forms a cluster with others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use amqp10::sasl::Secret;
use tls::Tls;

/// How a node finds the others of its cluster, and proves to them that it belongs to it. Its `Debug` output does not show the secret.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The address where the other nodes connect.
    pub listener: SocketAddr,
    /// What all nodes of the cluster know and nobody else. A node needs this, or certificates, or has both.
    pub secret: Option<Secret>,
    /// The certificates between the nodes. Without them, connections between nodes are not encrypted.
    pub certificates: Option<Arc<Tls>>,
    /// All nodes of the cluster, this one among them, in the order of their numbers in the configuration. No name and no address is
    /// there twice.
    pub nodes: Vec<ListedNode>,
    /// The time for which clients cannot connect yet after a start, if not all nodes are there.
    pub wait: Duration,
}

/// A node in the list of a cluster's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNode {
    /// The name of the node, `NAME@HOST`: its `node.name`.
    pub name: String,
    /// The host where it listens for the other nodes: the part of its name behind the `@`.
    pub host: String,
    /// The port there. Never 0.
    pub port: u16,
}
