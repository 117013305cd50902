//! The settings of the operator that this crate reads. `sluice` fills them from the configuration file.

use std::sync::Arc;

use buffers::HIGH_WATER;
use catalog::access::Maximum;
use message::ADDED_HEADERS_MAX;

pub use queue::QueueType;

use crate::counters::Deprecated;

/// The bytes of answers that a client may leave unread: answers to its requests, returned messages, outcomes. Above them, its
/// socket is not read until it reads. So TCP slows down a client that floods the broker with requests and reads no answers.
///
/// What the output has up to the end of a delivery does not count, as far as deliveries had room. A client must be able to
/// finish a large message while a large message is sent to it: it may read nothing before.
pub(crate) const ANSWERS_MAX: usize = 1024 * 1024;

/// What a connection may leave unread besides its largest messages: see [`ANSWERS_MAX`] and [`HIGH_WATER`].
const UNREAD_MAX: usize = HIGH_WATER + ANSWERS_MAX;

/// The bytes that the broker keeps of what a client says: its name and its properties, the ATTACHes of its links, the tags and the
/// arguments of its consumers. It is enough for 16,384 links with ATTACHes of 256 bytes, or for 1,900 links with the longest names.
pub(crate) const STATE_MAX: usize = 4 * 1024 * 1024;

/// The bytes of memory that a link or a consumer takes, besides what the client says of it. They count for the node only: the
/// links of a connection have a bound in number.
pub const LINK_BYTES: usize = 1024;

/// The bytes of memory that a channel takes, or a session without links. They count as links do, but the first of a connection
/// is part of the connection. A channel was measured to take 430 bytes, and 580 with a transaction.
pub const CHANNEL_BYTES: usize = 640;

/// The bytes of memory that the properties of a client may take. Those of known clients take some 2 KiB.
pub(crate) const PROPERTIES_MAX: usize = 64 * 1024;

/// The settings. Their names are those of `sluice.conf`, and their defaults are RabbitMQ's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest accepted message in bytes (`max_message_size`).
    pub max_message_size: u64,
    /// The largest accepted frame in bytes (`frame_max`).
    pub frame_max: u32,
    /// The largest accepted frame before OPEN in bytes (`initial_frame_max`). A token must fit into it.
    pub initial_frame_max: u32,
    /// The time after which a silent connection is closed, in seconds (`heartbeat`). 0 means never.
    pub heartbeat_s: u32,
    /// The time from accept to OPEN, in milliseconds (`handshake_timeout`).
    pub handshake_timeout_ms: u64,
    /// The maximum number of connections that have not logged in (`handshake_max`). If another one arrives, the oldest
    /// is closed.
    pub handshake_max: usize,
    /// The maximum number of connections from one address that have not logged in
    /// (`handshake_max_per_address`). If another one arrives, the oldest is closed.
    pub handshake_max_per_address: usize,
    /// The most open connections of the node (`max_connections`).
    pub connection_max: Maximum,
    /// The most sessions of all connections of the node (`channel_max_per_node`).
    pub session_max: Maximum,
    /// The maximum number of sessions of one connection (`session_max_per_connection`).
    pub session_max_per_connection: u16,
    /// The highest channel number of AMQP 0.9.1 connections (`channel_max`). 0 means no limit.
    pub channel_max: u16,
    /// The most consumers of a channel (`consumer_max_per_channel`).
    pub consumer_max_per_channel: Maximum,
    /// The maximum number of links of one session (`link_max_per_session`).
    pub link_max_per_session: u32,
    /// The link credit granted to a publisher (`amqp10.max_link_credit`).
    pub max_link_credit: u32,
    /// How the credit of a publisher is set (`amqp10.link_credit`).
    pub link_credit: LinkCredit,
    /// The maximum credit that a consumer's link asks of its queue at once (`amqp10.max_queue_credit`).
    pub max_queue_credit: u32,
    /// The number of transfer frames that a publisher's session may send between two FLOWs
    /// (`amqp10.max_incoming_window`).
    pub max_incoming_window: u32,
    /// The maximum number of unsettled deliveries of a consumer of any protocol; 0 means no limit
    /// (`max_unsettled_per_consumer`).
    pub max_unsettled_per_consumer: u32,
    /// The time for which a consumer of a quorum queue may hold a delivery, in milliseconds, if neither the consumer nor its
    /// queue sets one (`consumer_timeout`).
    pub consumer_timeout_ms: u64,
    /// The memory for incomplete deliveries and frames of all connections together, in bytes
    /// (`amqp10.unfinished_memory`). It is never below the limit of one connection.
    pub unfinished_memory: u64,
    /// The memory for what clients do not read, of all connections together, in bytes (`unread_output_memory`). It is never
    /// below what one connection may have.
    pub unread_output_memory: u64,
    /// The memory for what is kept for clients ([`STATE_MAX`]), of all connections together, in bytes (`client_state_memory`). It
    /// is never below [`STATE_MAX`], the limit of one connection.
    pub client_state_memory: u64,
    /// The memory for readers of streams of all connections together, in bytes (`stream.reader_memory`).
    pub reader_memory: u64,
    /// True if a message without a header section is durable (`amqp10.durable_by_default`).
    pub durable_by_default: bool,
    /// True if links may name nodes in address format v1 (`deprecated_features.permit.amqp_address_v1`).
    pub permit_address_v1: bool,
    /// The product name in OPEN and in the API (`compat.product`).
    pub compat_product: String,
    /// The product version in OPEN and in the API (`compat.version`).
    pub compat_version: String,
    /// The name of the node, as shown (`sluice@host`).
    pub node_name: String,
    pub cluster_name: String,
    /// The type of queues whose declarations name none, and how strictly declarations are compared with existing queues.
    pub declare_rules: catalog::DeclareRules,
    /// The virtual host of a client that names none (`default_vhost`).
    pub default_vhost: String,
    /// The user of an ANONYMOUS login (`anonymous_login_user`). `None` disables it.
    pub anonymous_login_user: Option<String>,
    /// What a node does with logins while it is in a minority of its cluster (`cluster.minority_logins`).
    pub minority_logins: MinorityLogins,
}

/// What a node does with logins while it is in a minority of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinorityLogins {
    /// It checks them with the users that it has.
    Allow,
    /// It refuses them. Connections that are open go on.
    Refuse,
}

/// How the link credit of publishers is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCredit {
    /// Adaptive on links to queues whose receipts wait for the disk: streams, and queues with `x-fsync`. There, more
    /// credit does not mean more backlog in memory. On other links, adaptive for durable messages, whose receipts wait
    /// for consumers, with a lower maximum; fixed for messages that are not durable.
    Auto,
    /// The credit is always the one of `amqp10.max_link_credit`.
    Fixed,
    /// The credit is raised as long as that brings more receipts per second.
    Adaptive,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_message_size: 16 * 1024 * 1024,
            frame_max: 131_072,
            initial_frame_max: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            heartbeat_s: 60,
            handshake_timeout_ms: 10_000,
            handshake_max: 4096,
            handshake_max_per_address: 2048,
            connection_max: None,
            session_max: None,
            session_max_per_connection: 64,
            channel_max: 2047,
            consumer_max_per_channel: None,
            link_max_per_session: 256,
            max_link_credit: 170,
            link_credit: LinkCredit::Auto,
            max_queue_credit: 256,
            max_incoming_window: 400,
            max_unsettled_per_consumer: 100_000,
            consumer_timeout_ms: 1_800_000,
            unfinished_memory: 256 * 1024 * 1024,
            // As much as for what clients do not finish. A client that does not read has at most 1.25 MiB, unless its
            // messages are large, so some 200 such clients have room.
            unread_output_memory: 256 * 1024 * 1024,
            // 200,000 links with ATTACHes of 256 bytes, besides the first few of each connection.
            client_state_memory: 256 * 1024 * 1024,
            reader_memory: 256 * 1024 * 1024,
            durable_by_default: true,
            permit_address_v1: false,
            compat_product: "RabbitMQ".into(),
            compat_version: "4.3.6".into(),
            node_name: "sluice@localhost".into(),
            cluster_name: "sluice@localhost".into(),
            declare_rules: catalog::DeclareRules::default(),
            default_vhost: catalog::DEFAULT_VHOST.into(),
            anonymous_login_user: Some("guest".into()),
            minority_logins: MinorityLogins::Allow,
        }
    }
}

impl Settings {
    /// Returns the virtual host of the exchange that gets events. `None` if events are off.
    #[inline]
    pub fn event_vhost(&self) -> Option<&Arc<str>> {
        self.declare_rules.event_vhost.as_ref()
    }

    /// Returns these settings with those of `new` that a running broker takes: limits and times that count for what is opened
    /// from now on. All others belong to something that exists already, such as memory that is shared between the shards.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> Self {
        Self {
            heartbeat_s: new.heartbeat_s,
            handshake_timeout_ms: new.handshake_timeout_ms,
            connection_max: new.connection_max,
            session_max: new.session_max,
            session_max_per_connection: new.session_max_per_connection,
            channel_max: new.channel_max,
            consumer_max_per_channel: new.consumer_max_per_channel,
            link_max_per_session: new.link_max_per_session,
            max_unsettled_per_consumer: new.max_unsettled_per_consumer,
            consumer_timeout_ms: new.consumer_timeout_ms,
            ..self.clone()
        }
    }

    /// Returns the memory for incomplete deliveries of one connection, in bytes. It is twice the largest message: one
    /// for a delivery that is arriving, and as much for all others.
    pub fn connection_unfinished_memory(&self) -> u64 {
        self.max_message_size.saturating_mul(2)
    }

    /// Returns the memory for incomplete deliveries of all connections, in bytes. A single publisher can always send
    /// its largest message.
    pub fn node_unfinished_memory(&self) -> u64 {
        self.unfinished_memory.max(self.connection_unfinished_memory())
    }

    /// Returns the memory for what clients do not read, of all connections, in bytes. A single client can always be sent the
    /// largest message, while the end of another is not yet written.
    pub fn node_unread_memory(&self) -> u64 {
        self.unread_output_memory
            .max(self.max_message_size.saturating_mul(2).saturating_add(UNREAD_MAX as u64))
    }

    /// Returns the largest content header that a publisher of AMQP 0.9.1 may send, in bytes. The rest of the largest frame is
    /// for headers that the broker adds to the message. If frames are small, it is half of them.
    pub fn content_header_max(&self) -> u32 {
        self.frame_max.saturating_sub(ADDED_HEADERS_MAX).max(self.frame_max / 2)
    }

    /// Returns the memory for what is kept for clients, of all connections, in bytes. The last link may exceed the limit of its
    /// connection by the copies of its address.
    pub fn node_state_memory(&self) -> u64 {
        self.client_state_memory.max(STATE_MAX as u64 + 2 * u64::from(self.frame_max))
    }

    /// Returns the deprecated features that clients may not use (`deprecated_features.permit.NAME`).
    pub fn denied_features(&self) -> Vec<Deprecated> {
        let is_denied = |feature: &Deprecated| match feature {
            Deprecated::AmqpAddressV1 => !self.permit_address_v1,
            Deprecated::GlobalQos => false,
            Deprecated::TransientNonexclQueues => !self.declare_rules.permit_transient,
        };
        Deprecated::ALL.into_iter().filter(is_denied).collect()
    }
}

/// The version of this program.
pub const SLUICE_VERSION: &str = env!("CARGO_PKG_VERSION");
