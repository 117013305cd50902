//! How a connection is shown to people.

use std::sync::Arc;

use super::Gate;
use super::channel::{Cancelled, Channel, Role};
use crate::desk::amqp091_rows::{Amqp091Row, ChannelRow, ConsumerRow};
use crate::desk::{ConnectionRow, ProtocolRow};
use crate::explain::{ConnectionFacts, Wanted};

impl Gate {
    /// Returns the number of open channels.
    pub fn session_count(&self) -> usize {
        self.channels.iter().flatten().count()
    }

    /// Returns a row for listings, or `None` before the connection is open.
    pub fn report(&self, node: &Arc<str>, recv_bytes: u64, send_bytes: u64) -> Option<ConnectionRow> {
        if !self.phase.is_open() {
            return None;
        }
        let tuned = self.conn.tuned();
        Some(ConnectionRow {
            name: self.peer.name.clone(),
            user: self.peer.identity.as_ref()?.user.clone(),
            auth_mechanism: self.peer.mechanism,
            vhost: self.peer.vhost.clone(),
            secured: self.peer.secured.clone(),
            connected_at_ms: self.peer.connected_at_ms,
            recv_bytes,
            send_bytes,
            node: node.clone(),
            protocol: ProtocolRow::Amqp091(Amqp091Row {
                client_properties: self.client.properties.clone(),
                channel_max: tuned.channel_max,
                frame_max: tuned.frame_max,
                heartbeat_s: tuned.heartbeat_s,
                is_blocked: self.is_stopped(),
                is_held_back: self.has_debt,
                channels: self
                    .channels
                    .iter()
                    .enumerate()
                    .filter_map(|(number, channel)| Some(channel_row(number as u16, channel.as_ref()?)))
                    .collect(),
            }),
        })
    }

    /// Returns what may stop the links, or `None` before the connection is open. See
    /// [`crate::gate::Gate::facts`].
    pub fn facts(&self, _unwritten_bytes: u64, _incomplete_bytes: u64) -> Option<ConnectionFacts> {
        None
    }

    /// Returns true if the connection matters for the explanation.
    pub fn is_wanted(&self, _wanted: &Wanted) -> bool {
        false
    }
}

fn channel_row(number: u16, channel: &Channel) -> ChannelRow {
    let consumers = channel.roles.iter().filter_map(|(_, role)| match role {
        Role::Consumer(consumer) if consumer.cancelled == Cancelled::No => Some(ConsumerRow {
            tag: consumer.tag.clone(),
            queue: consumer.outlet.queue_name.clone(),
            no_ack: consumer.outlet.settled,
            prefetch: consumer.prefetch,
            unsettled: consumer.unsettled,
        }),
        Role::Consumer(_) | Role::Holder { .. } => None,
    });
    ChannelRow {
        number,
        confirms: channel.confirms.is_some(),
        transactional: channel.tx.is_some(),
        unconfirmed: channel.confirms.as_ref().map_or(0, |confirms| confirms.unanswered()),
        unsettled: channel.unsettled.len(),
        prefetch: channel.prefetch,
        shared_prefetch: channel.shared_prefetch,
        consumers: consumers.collect(),
    }
}
