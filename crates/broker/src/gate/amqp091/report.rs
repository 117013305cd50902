//! How a connection is shown to people.

use std::sync::Arc;

use amqp091::Table;

use super::channel::{Cancelled, Channel, Consumer, Publisher, Role};
use super::{Gate, PUBLISHER, REPLIES, arguments};
use crate::admin_api::amqp091_rows::{Amqp091Row, ChannelRow};
use crate::admin_api::{ConnectionRow, ConsumerRow, PassedCounts, ProtocolRow};
use crate::explain::{self, ConnectionFacts, HeldLong, LinkFacts, LinkId, ShardFacts, Wanted};

impl Gate {
    /// Returns the number of open channels.
    pub fn session_count(&self) -> usize {
        self.channels.iter().flatten().count()
    }

    /// Returns a row for listings, or `None` before the connection is open.
    pub fn report(
        &self,
        node: &Arc<str>,
        (recv_bytes, send_bytes): (u64, u64),
        now_ms: u64,
    ) -> Option<ConnectionRow> {
        if !self.phase.is_open() {
            return None;
        }
        let tuned = self.conn.tuned();
        Some(ConnectionRow {
            name: self.peer.name.clone(),
            user: self.peer.identity.as_ref()?.user.clone(),
            authority: self.peer.identity.as_ref()?.authority(),
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
                is_held_back: self.is_ahead(),
                channels: self
                    .numbered_channels()
                    .map(|(number, channel)| channel_row(number, channel, now_ms))
                    .collect(),
            }),
        })
    }

    /// Returns what has passed over the channels that are open.
    pub fn counts(&self) -> PassedCounts {
        let mut sum = PassedCounts::default();
        self.numbered_channels().for_each(|(_, channel)| sum += counts_of(channel));
        sum
    }

    /// Returns what may stop the links, or `None` before the connection is open. See
    /// [`crate::gate::Gate::facts`].
    pub fn facts(&self, unwritten_bytes: u64, incomplete_bytes: u64) -> Option<ConnectionFacts> {
        if !self.phase.is_open() {
            return None;
        }
        let links = self.numbered_channels().flat_map(|(number, channel)| {
            let link = move |handle, name: &str, role, answered, credit, delivery_count| {
                let (connection, name) = (self.peer.name.clone(), name.to_owned());
                let place = LinkId { connection, session: number, handle, name };
                let session = None;
                LinkFacts { place, role, answered, credit, delivery_count, session, incomplete_bytes: 0 }
            };
            let publisher = channel.publisher.as_ref().map(|publisher| {
                let Publisher { intake, credit, .. } = &**publisher;
                let name = publisher_name(number);
                let facts = link(PUBLISHER, &name, intake.facts(), true, *credit, intake.delivery_count());
                LinkFacts { incomplete_bytes, ..facts }
            });
            // A message that an alarm has stopped is checked and published later. Only then does its channel have a publisher.
            let stopped =
                (channel.publisher.is_none() && self.stopped_channel() == Some(number)).then(|| {
                    let role = explain::Role::Publishing { queue: None, unconfirmed: 0 };
                    link(PUBLISHER, &publisher_name(number), role, true, 0, 0)
                });
            let consumers = open_consumers(channel).map(move |(place, consumer)| {
                let outlet = &consumer.outlet;
                let count = outlet.delivery_count();
                link(
                    place,
                    &consumer.tag,
                    role(channel, consumer),
                    outlet.is_answered(),
                    channel.room(consumer),
                    count,
                )
            });
            let replies = channel.replies.as_ref().map(|replies| {
                let (role, room) = (explain::Role::Replies, u32::MAX);
                link(REPLIES, replies.tag(), role, true, room, 0)
            });
            publisher.into_iter().chain(stopped).chain(consumers).chain(replies)
        });
        Some(ConnectionFacts {
            name: self.peer.name.clone(),
            user: self.peer.identity.as_ref()?.user.clone(),
            authority: self.peer.identity.as_ref()?.authority(),
            vhost: self.peer.vhost.clone(),
            blocked: self.is_stopped(),
            held_back: self.is_ahead(),
            unwritten_bytes,
            shard: ShardFacts::default(),
            links: links.collect(),
        })
    }

    /// Returns the consumers that hold all that they may for too long.
    pub fn held_long(&self, now_ms: u64) -> HeldLong {
        let mut held = HeldLong::default();
        for (_, channel) in self.numbered_channels() {
            let is_at_limit = |consumer: &Consumer| {
                consumer.unsettled > 0 && (channel.room(consumer) == 0 || consumer.outlet.is_at_limit())
            };
            // The deliveries of the channel are looked at once, however many consumers it has.
            let mut oldest = None;
            for (place, consumer) in open_consumers(channel).filter(|(_, consumer)| is_at_limit(consumer)) {
                let oldest = oldest.get_or_insert_with(|| channel.unsettled.oldest_of_each());
                let age_ms = consumer.outlet.age_ms(oldest.get(&place).copied(), now_ms);
                held.add(consumer.unsettled.into(), age_ms);
            }
        }
        held
    }

    /// Returns true if the connection matters for the explanation.
    pub fn is_wanted(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::Connection(name) => *self.peer.name == **name,
            Wanted::Link { vhost: Some(vhost), .. } if *self.peer.vhost != **vhost => false,
            Wanted::Link { name, .. } => self.numbered_channels().any(|(number, channel)| {
                channel.tags.contains_key(name.as_str())
                    || (channel.publisher.is_some() || self.stopped_channel() == Some(number))
                        && publisher_name(number) == *name
            }),
            Wanted::Consumers(queue) => {
                let mut channels = self.numbered_channels();
                channels.any(|(_, channel)| {
                    open_consumers(channel).any(|(_, consumer)| consumer.outlet.queue == *queue)
                })
            }
        }
    }

    /// Returns the open channels with their numbers.
    fn numbered_channels(&self) -> impl Iterator<Item = (u16, &Channel)> {
        let channels = self.channels.iter().enumerate();
        channels.filter_map(|(number, channel)| Some((number as u16, &**channel.as_ref()?)))
    }
}

/// Returns the name under which people find the publisher of a channel, which has none in the protocol.
fn publisher_name(channel: u16) -> String {
    format!("channel {channel}")
}

/// Returns the consumers that are not cancelled, with their places.
fn open_consumers(channel: &Channel) -> impl Iterator<Item = (u32, &Consumer)> {
    channel.roles.iter().filter_map(|(place, role)| match role {
        Role::Consumer(consumer) if consumer.cancelled == Cancelled::No => Some((place as u32, &**consumer)),
        Role::Consumer(_) | Role::Holder { .. } => None,
    })
}

/// Returns the role of a consumer, whose limit of unsettled deliveries is its prefetch, or the limit that it shares with the
/// other consumers of its channel if that is reached.
fn role(channel: &Channel, consumer: &Consumer) -> explain::Role {
    let mut role = consumer.outlet.facts();
    if let explain::Role::Consuming { unsettled, unsettled_max, .. } = &mut role {
        if consumer.prefetch > 0 {
            *unsettled_max = (*unsettled_max).min(consumer.prefetch.into());
        }
        if channel.shared_room() == 0 {
            (*unsettled, *unsettled_max) = (channel.shared_unsettled(), channel.shared_prefetch.into());
        }
    }
    role
}

fn channel_row(number: u16, channel: &Channel, now_ms: u64) -> ChannelRow {
    let consumers = open_consumers(channel).map(|(place, consumer)| {
        let age_ms = consumer.outlet.age_ms(channel.unsettled.oldest_of(place), now_ms);
        ConsumerRow {
            unsettled: consumer.unsettled,
            arguments: arguments::shown(Table::from_entries(&consumer.arguments)),
            ..consumer.outlet.row(&consumer.tag, consumer.prefetch.into(), age_ms)
        }
    });
    let unconfirmed = channel.confirms.as_ref().map_or(0, |confirms| confirms.unanswered());
    // Messages without a wish for confirms have receipts, too, but nobody waits for them.
    let publisher = channel.publisher.as_ref().filter(|_| unconfirmed > 0);
    ChannelRow {
        number,
        confirms: channel.confirms.is_some(),
        transactional: channel.tx.is_some(),
        uncommitted: channel.tx.as_ref().map_or(0, |tx| tx.messages() as u64),
        uncommitted_settlements: channel.unsettled.uncommitted().into(),
        unconfirmed,
        unconfirmed_age_ms: publisher.and_then(|publisher| publisher.intake.unconfirmed_age_ms(now_ms)),
        unsettled: channel.unsettled.len(),
        unsettled_age_ms: channel.unsettled.oldest().and_then(|oldest| {
            let number = Some(oldest.number);
            match channel.roles.get(oldest.place as usize)? {
                Role::Consumer(consumer) => consumer.outlet.age_ms(number, now_ms),
                Role::Holder { holder, .. } => holder.age_ms(number, now_ms),
            }
        }),
        prefetch: channel.prefetch,
        shared_prefetch: channel.shared_prefetch,
        consumers: consumers.collect(),
        counts: counts_of(channel),
    }
}

/// Returns what has passed over a channel.
pub(super) fn counts_of(channel: &Channel) -> PassedCounts {
    let confirmed = channel.confirms.as_ref().map_or(0, |confirms| confirms.confirmed());
    let mut counts = PassedCounts { confirmed, ..channel.counts };
    for (_, role) in &channel.roles {
        if let Role::Consumer(consumer) = role {
            counts.deliveries.add(&consumer.outlet.deliveries());
        }
    }
    counts
}
