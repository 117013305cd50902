//! What an operator can set and the pure wing reads. `sluice` fills it from the configuration file.

/// Names follow `sluice.conf`; defaults are RabbitMQ's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the largest message taken (`max_message_size`).
    pub max_message_size: u64,
    /// Bytes of the largest frame taken (`frame_max`).
    pub frame_max: u32,
    /// Seconds; a silent connection is given up after it (`heartbeat`). 0 is never.
    pub heartbeat_s: u32,
    /// Milliseconds from accept to OPEN (`handshake_timeout`).
    pub handshake_timeout_ms: u64,
    /// Connections that have not logged in (`handshake_max`). For one more the oldest goes.
    pub handshake_max: usize,
    /// The same of one address (`handshake_max_per_address`).
    pub handshake_max_per_address: usize,
    /// Sessions of one connection (`session_max_per_connection`).
    pub session_max_per_connection: u16,
    /// Links of one session (`link_max_per_session`).
    pub link_max_per_session: u32,
    /// Link credit granted to a publisher (`amqp10.max_link_credit`).
    pub max_link_credit: u32,
    /// Whether it follows how fast receipts return (`amqp10.link_credit`).
    pub link_credit: LinkCredit,
    /// The most that a consumer's link asks of its queue at once (`amqp10.max_queue_credit`).
    pub max_queue_credit: u32,
    /// Transfer frames a publisher's session may send between two FLOWs (`amqp10.max_incoming_window`).
    pub max_incoming_window: u32,
    /// Deliveries that a consumer may leave unsettled on one link; 0 is no limit
    /// (`amqp10.max_unsettled_per_link`).
    pub max_unsettled_per_link: u32,
    /// Bytes that deliveries and frames whose end has not come may take, of all connections together
    /// (`amqp10.unfinished_memory`). It is never below what one connection may have.
    pub unfinished_memory: u64,
    /// Bytes that may be in memory for readers of streams, of all connections together (`stream.reader_memory`).
    pub reader_memory: u64,
    /// A message without any header section is durable (`amqp10.durable_by_default`).
    pub durable_by_default: bool,
    /// Links may name nodes in address format v1 (`deprecated_features.permit.amqp_address_v1`).
    pub permit_address_v1: bool,
    /// What OPEN and the API say the product is (`compat.product`).
    pub compat_product: String,
    /// And its version (`compat.version`).
    pub compat_version: String,
    /// Node name, as shown (`sluice@host`).
    pub node_name: String,
    pub cluster_name: String,
    /// The virtual host of a client that names none (`default_vhost`).
    pub default_vhost: String,
    /// The user that ANONYMOUS logs in as (`anonymous_login_user`); `None` disables it.
    pub anonymous_login_user: Option<String>,
}

/// How the link credit of publishers is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCredit {
    /// Adaptive on links to a queue whose receipts wait for the disk, so that more credit is not more backlog in memory:
    /// streams, and queues with `x-fsync`. On all others for durable messages, whose receipts wait for consumers, but no higher
    /// than pays while they come at once; fixed for the rest.
    Auto,
    /// As the setting says.
    Fixed,
    /// More while that brings more receipts per second.
    Adaptive,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_message_size: 16 * 1024 * 1024,
            frame_max: 131_072,
            heartbeat_s: 60,
            handshake_timeout_ms: 10_000,
            handshake_max: 4096,
            handshake_max_per_address: 2048,
            session_max_per_connection: 64,
            link_max_per_session: 256,
            max_link_credit: 170,
            link_credit: LinkCredit::Auto,
            max_queue_credit: 256,
            max_incoming_window: 400,
            max_unsettled_per_link: 100_000,
            unfinished_memory: 256 * 1024 * 1024,
            reader_memory: 256 * 1024 * 1024,
            durable_by_default: true,
            permit_address_v1: false,
            compat_product: "RabbitMQ".into(),
            compat_version: "4.3.6".into(),
            node_name: "sluice@localhost".into(),
            cluster_name: "sluice@localhost".into(),
            default_vhost: crate::catalog::DEFAULT_VHOST.into(),
            anonymous_login_user: Some("guest".into()),
        }
    }
}

impl Settings {
    /// Bytes that deliveries whose end has not come may take of one connection: twice the largest message, for one that
    /// comes and as much for all others.
    pub fn connection_unfinished_memory(&self) -> u64 {
        self.max_message_size.saturating_mul(2)
    }

    /// Bytes that they may take of all connections: a lone publisher can always send its largest message.
    pub fn node_unfinished_memory(&self) -> u64 {
        self.unfinished_memory.max(self.connection_unfinished_memory())
    }
}

/// This program's own version.
pub const SLUICE_VERSION: &str = env!("CARGO_PKG_VERSION");
