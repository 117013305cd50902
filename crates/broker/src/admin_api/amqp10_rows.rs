//! The rows for AMQP 1.0 connections.

use crate::admin_api::{ConsumerRow, PassedCounts};

/// The fields of [`crate::admin_api::ConnectionRow`] that only AMQP 1.0 has.
#[derive(Clone, Debug, PartialEq)]
pub struct Amqp10Row {
    pub container_id: String,
    pub client_properties: Option<amqp10::Map>,
    pub channel_max: u16,
    pub frame_max: u32,
    pub sessions: Vec<SessionRow>,
}

/// A link of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRow {
    pub handle: u32,
    pub name: String,
    /// True if the client publishes on the link.
    pub incoming: bool,
    pub source_address: Option<String>,
    pub target_address: Option<String>,
    pub snd_settle_mode: &'static str,
    pub max_message_size: u64,
    pub delivery_count: u32,
    pub credit: u32,
    /// The number of messages that are not settled. On a publishing link: messages without a receipt. On a
    /// consuming link: unsettled deliveries.
    pub unsettled: u64,
    /// The age of the oldest of these messages, in milliseconds. `None` if there is none.
    pub unsettled_age_ms: Option<u64>,
    /// True if the link gets nothing until its client has settled deliveries that the queue has taken back after the
    /// consumer timeout.
    pub consumer_timeout: bool,
    /// What is known of the consumer, if the link takes from a queue.
    pub consumer: Option<ConsumerRow>,
}

/// A session of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub channel: u16,
    pub handle_max: u32,
    pub next_incoming_id: u32,
    pub incoming_window: u32,
    pub next_outgoing_id: u32,
    pub remote_incoming_window: u32,
    pub outgoing_unsettled: u64,
    /// The number of deliveries that wait for the client's window or socket. A link that reads a stream
    /// counts as one.
    pub outgoing_pending: u64,
    /// Includes the links of the session that have ended.
    pub counts: PassedCounts,
    pub links: Vec<LinkRow>,
}
