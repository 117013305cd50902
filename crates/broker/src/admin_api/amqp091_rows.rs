//! The rows for AMQP 0.9.1 connections.

use crate::admin_api::{ConsumerRow, PassedCounts};

/// The fields of [`crate::admin_api::ConnectionRow`] that only AMQP 0.9.1 has.
#[derive(Clone, Debug, PartialEq)]
pub struct Amqp091Row {
    pub client_properties: amqp10::Map,
    /// The highest channel number. 0 means no limit.
    pub channel_max: u16,
    /// The largest frame, in bytes. 0 means no limit.
    pub frame_max: u32,
    /// The heartbeat interval, in seconds. 0 means that there are no heartbeats.
    pub heartbeat_s: u16,
    /// True if an alarm stops the client, because it publishes.
    pub is_blocked: bool,
    /// True if the client is not read until the queues to which it publishes catch up.
    pub is_held_back: bool,
    pub channels: Vec<ChannelRow>,
}

/// A channel of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelRow {
    pub number: u16,
    /// True if the client receives confirms.
    pub confirms: bool,
    pub transactional: bool,
    /// The number of messages, and of settlements, that wait for the commit of the transaction.
    pub uncommitted: u64,
    pub uncommitted_settlements: u64,
    /// The number of messages without a confirm.
    pub unconfirmed: u64,
    /// The age of the oldest of these messages, in milliseconds. `None` if there is none.
    pub unconfirmed_age_ms: Option<u64>,
    /// The number of deliveries that are not settled.
    pub unsettled: u32,
    /// The age of the oldest of these deliveries, in milliseconds. `None` if there is none.
    pub unsettled_age_ms: Option<u64>,
    /// The number of unsettled deliveries that each new consumer may have. 0 means any number.
    pub prefetch: u16,
    /// The number of unsettled deliveries that all consumers together may have. 0 means any number.
    pub shared_prefetch: u16,
    pub consumers: Vec<ConsumerRow>,
    pub counts: PassedCounts,
}
