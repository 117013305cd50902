//! The node: shards that run the machines and carry out their effects.
//!
//! [`shard::Shard`] has no sockets, clock or tasks, so a simulation can run a broker of several shards in one
//! thread from a seed. [`Node`] adds threads, sockets, storage and time.
#![forbid(unsafe_code)]

pub mod admin_api;
mod admission;
mod alarms;
mod clock;
mod cluster;
mod cluster_settings;
mod cluster_view;
mod data_dir;
pub mod doctor;
pub mod entries;
pub mod facts;
mod handshakes;
mod incoming;
mod ledger;
mod links;
mod logins;
mod marks;
mod node;
mod notices;
pub mod offline;
pub mod peer;
pub mod proxy;
pub mod quarantine;
mod randomness;
mod read_buffers;
pub mod recovery;
mod renewal;
mod runtime;
pub mod shard;
mod tls_steps;
pub mod users_copy;

pub use admin_api::AdminApi;
pub use alarms::{AlarmLimits, Limit};
pub use clock::Clock;
pub use cluster_settings::{ClusterSettings, ListedNode};
pub use cluster_view::{ClusterNode, ClusterView, NodeState, SeenNodes};
pub use data_dir::StartError;
pub use logins::Backends;
pub use node::{Node, NodeOptions, StopError, make_shards};
pub use notices::NoticeWay;
pub use randomness::random;
pub use runtime::Listening;
pub use shard::{DirectWrites, StorageLimits};
