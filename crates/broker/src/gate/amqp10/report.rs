//! How a connection is shown to people.

use std::sync::Arc;

use amqp10::SenderSettleMode;

use super::address::encode_segment;
use super::outbound::Consuming;
use super::{Gate, LinkRole, Session, Waiting};
use crate::admin_api::amqp10_rows::{Amqp10Row, LinkRow, SessionRow};
use crate::admin_api::{ConnectionRow, PassedCounts, ProtocolRow};
use crate::counters::Deliveries;
use crate::explain::{ConnectionFacts, HeldLong, LinkFacts, LinkId, Role, SessionFacts, ShardFacts, Wanted};
use crate::intake::Target;

impl Gate {
    /// Returns the number of open sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.iter().flatten().filter(|session| !session.has_ended).count()
    }

    /// Returns a row for listings, or `None` before OPEN.
    pub fn report(
        &self,
        node: &Arc<str>,
        (recv_bytes, send_bytes): (u64, u64),
        now_ms: u64,
    ) -> Option<ConnectionRow> {
        if !self.phase.is_open() {
            return None;
        }
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
            protocol: ProtocolRow::Amqp10(Amqp10Row {
                container_id: self.client.container_id.clone(),
                client_properties: self.client.properties.clone(),
                channel_max: self.conn.channel_max(),
                frame_max: self.conn.remote_max_frame_size(),
                sessions: self
                    .conn
                    .sessions()
                    .map(|(number, session)| self.session_row(number, session, now_ms))
                    .collect(),
            }),
        })
    }

    /// Returns what has passed over the sessions that are open.
    pub fn counts(&self) -> PassedCounts {
        let mut sum = PassedCounts::default();
        self.sessions.iter().flatten().for_each(|session| sum += session.counts());
        sum
    }

    /// Returns what may stop the links, or `None` before OPEN. `unwritten_bytes` are the bytes that the socket
    /// has not accepted, `incomplete_bytes` those of an incomplete frame.
    pub fn facts(&self, unwritten_bytes: u64, incomplete_bytes: u64) -> Option<ConnectionFacts> {
        if !self.phase.is_open() {
            return None;
        }
        let links = self.conn.sessions().flat_map(|(number, session)| {
            session.links().filter_map(move |(handle, link)| {
                let role = self.role_of(number, handle);
                let waits = self.is_attach_pending(number, handle);
                let (answered, role) = match role {
                    Some(LinkRole::Outlet(link)) => (link.outlet.is_answered(), link.outlet.facts()),
                    Some(LinkRole::Intake(intake)) => (true, intake.facts()),
                    Some(LinkRole::Replies(_)) => (true, Role::Replies),
                    Some(LinkRole::Requests { .. } | LinkRole::Responses { .. }) => (true, Role::Management),
                    // The link is dynamic, or links to a reply address, and its ATTACH still waits.
                    None if waits => (false, Role::Management),
                    None => return None,
                };
                let incoming = !link.is_sending();
                let (delivery_count, credit) = counts(link);
                Some(LinkFacts {
                    place: LinkId {
                        connection: self.peer.name.clone(),
                        session: number,
                        handle,
                        name: link.name.clone(),
                    },
                    role,
                    answered,
                    credit,
                    delivery_count,
                    session: Some(SessionFacts {
                        incoming_window: session.incoming_window(),
                        remote_incoming_window: session.remote_incoming_window(),
                        pending: self.pending(number, session),
                    }),
                    incomplete_bytes: match incoming {
                        true => incomplete_bytes + session.partial_bytes() as u64,
                        false => 0,
                    },
                })
            })
        });
        Some(ConnectionFacts {
            name: self.peer.name.clone(),
            user: self.peer.identity.as_ref()?.user.clone(),
            authority: self.peer.identity.as_ref()?.authority(),
            vhost: self.peer.vhost.clone(),
            blocked: self.blocked,
            held_back: false,
            unwritten_bytes,
            shard: ShardFacts::default(),
            links: links.collect(),
        })
    }

    /// Returns the consumers that hold all that they may for too long.
    pub fn held_long(&self, now_ms: u64) -> HeldLong {
        let mut held = HeldLong::default();
        for (number, session) in self.conn.sessions() {
            for (handle, link) in session.links() {
                if let Some(LinkRole::Outlet(consuming)) = self.role_of(number, handle) {
                    let outlet = &consuming.outlet;
                    let has_room = counts(link).1 > 0 && !outlet.is_at_limit();
                    if outlet.unsettled() > 0 && !has_room {
                        let age_ms = outlet.age_ms(session.oldest_unsettled(handle), now_ms);
                        held.add(outlet.unsettled().into(), age_ms);
                    }
                }
            }
        }
        held
    }

    /// Returns the number of filters that consumers asked for, and that are not in effect.
    pub fn filters_left_out(&self) -> u64 {
        let roles = self.sessions.iter().flatten().flat_map(|session| session.links.iter().flatten());
        let filters = roles.map(|role| match role {
            LinkRole::Outlet(link) => link.outlet.filters_left_out(),
            _ => 0,
        });
        filters.sum()
    }

    /// Returns true if the connection matters for the explanation.
    pub fn is_wanted(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::Connection(name) => *self.peer.name == **name,
            Wanted::Link { vhost: Some(vhost), .. } if *self.peer.vhost != **vhost => false,
            Wanted::Link { name, .. } => {
                self.conn.sessions().any(|(_, s)| s.links().any(|(_, link)| link.name == *name))
            }
            Wanted::Consumers(queue) => {
                let roles = self.sessions.iter().flatten().flat_map(|s| s.links.iter().flatten());
                roles.into_iter().any(|r| matches!(r, LinkRole::Outlet(link) if link.outlet.queue == *queue))
            }
        }
    }

    /// Returns true if the answer to the link's ATTACH waits for the catalog or for another shard.
    fn is_attach_pending(&self, session: u16, link: u32) -> bool {
        self.waiting.values().any(|waiting| match waiting {
            Waiting::Making { session: s, link: l, .. } | Waiting::Replies { session: s, link: l, .. } => {
                (*s, *l) == (session, link)
            }
            Waiting::Deferred(held) => held.is_of_link(session, link),
            Waiting::Management { .. } | Waiting::Login { .. } => false,
        })
    }

    /// Returns the number of deliveries of a session that wait for its client, plus its links that wait to
    /// read more of a stream.
    fn pending(&self, number: u16, session: &amqp10::Session) -> u64 {
        let readers = self.without_room.iter().filter(|(of, _)| *of == number).count();
        (session.pending_len() + readers) as u64
    }

    fn session_row(&self, number: u16, session: &amqp10::Session, now_ms: u64) -> SessionRow {
        let roles = self.sessions.get(usize::from(number)).and_then(Option::as_ref);
        SessionRow {
            channel: number,
            handle_max: session.handle_max(),
            next_incoming_id: session.next_incoming_id(),
            incoming_window: session.incoming_window(),
            next_outgoing_id: session.next_outgoing_id(),
            remote_incoming_window: session.remote_incoming_window(),
            outgoing_unsettled: session.unsettled_len() as u64,
            outgoing_pending: self.pending(number, session),
            counts: roles.map(|session| session.counts()).unwrap_or_default(),
            links: session
                .links()
                .map(|(handle, link)| {
                    let role = roles.and_then(|s| s.links.get(handle as usize)).and_then(Option::as_ref);
                    let age_ms = match role {
                        Some(LinkRole::Intake(intake)) => intake.unconfirmed_age_ms(now_ms),
                        Some(LinkRole::Outlet(link)) => {
                            link.outlet.age_ms(session.oldest_unsettled(handle), now_ms)
                        }
                        _ => None,
                    };
                    link_row(handle, link, role, age_ms)
                })
                .collect(),
        }
    }
}

impl Session {
    /// Returns what has passed over the session.
    pub(super) fn counts(&self) -> PassedCounts {
        let mut sum = self.past;
        self.links.iter().flatten().for_each(|role| sum += role.counts());
        sum
    }
}

impl LinkRole {
    /// Returns what has passed over the link. Management links have no messages.
    pub(super) fn counts(&self) -> PassedCounts {
        let deliveries = match self {
            Self::Intake(intake) => return intake.counts(),
            Self::Outlet(link) => link.outlet.deliveries(),
            Self::Replies(replies) => Deliveries { auto_ack: replies.sent, ..Deliveries::default() },
            Self::Requests { .. } | Self::Responses { .. } => Deliveries::default(),
        };
        PassedCounts { deliveries, ..PassedCounts::default() }
    }
}

/// Returns the delivery-count and the credit of a link.
fn counts(link: &amqp10::Link) -> (u32, u32) {
    match link.is_sending() {
        false => (link.receiver_credit().delivery_count(), link.receiver_credit().credit()),
        true => (link.sender_credit().delivery_count(), link.sender_credit().credit()),
    }
}

fn link_row(handle: u32, link: &amqp10::Link, role: Option<&LinkRole>, age_ms: Option<u64>) -> LinkRow {
    let incoming = !link.is_sending();
    let (delivery_count, credit) = counts(link);
    let consumer_timeout = matches!(role, Some(LinkRole::Outlet(link)) if link.outlet.is_timed_out());
    let (source_address, target_address, unsettled) = match role {
        Some(LinkRole::Intake(intake)) => {
            (None, target_address(intake.target()), u64::from(intake.unconfirmed()))
        }
        Some(LinkRole::Outlet(link)) => {
            let Consuming { outlet, .. } = &**link;
            (Some(super::queue_address(&outlet.queue_name)), None, u64::from(outlet.unsettled()))
        }
        Some(LinkRole::Replies(replies)) => (Some(super::queue_address(&replies.to.name())), None, 0),
        Some(LinkRole::Requests { .. }) => (None, Some(super::address::MANAGEMENT.into()), 0),
        Some(LinkRole::Responses { .. }) => (Some(super::address::MANAGEMENT.into()), None, 0),
        None => (None, None, 0),
    };
    LinkRow {
        handle,
        name: link.name.clone(),
        incoming,
        source_address,
        target_address,
        snd_settle_mode: match link.snd_settle_mode {
            SenderSettleMode::Unsettled => "unsettled",
            SenderSettleMode::Settled => "settled",
            SenderSettleMode::Mixed => "mixed",
        },
        max_message_size: link.max_message_size,
        delivery_count,
        credit,
        unsettled,
        unsettled_age_ms: age_ms,
        consumer_timeout,
        consumer: match role {
            Some(LinkRole::Outlet(consuming)) => Some(consuming.outlet.row(&link.name, credit, age_ms)),
            _ => None,
        },
    }
}

/// Returns the address that a publisher attached to. It is `None` for the anonymous terminus, and for an
/// exchange without a key.
fn target_address(target: &Target) -> Option<String> {
    let Target::Route { route, .. } = target else { return None };
    let (exchange, key) = (route.exchange(), route.keys().first().map_or("", |key| key));
    Some(match target.queue() {
        Some(queue) => super::queue_address(queue),
        None => format!("/exchanges/{}/{}", encode_segment(exchange), encode_segment(key)),
    })
}
