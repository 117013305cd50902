//! The encoding of the rows of connections, between nodes. Numbers are little-endian.
//!
//! ```text
//!  connection     name, user: text | authority u8 | mechanism text | optional: secured | virtual host text | connected at u64
//!                   | received bytes, sent bytes: u64 | protocol u8 | ...
//!    1 AMQP 1.0     container text | optional: properties map | channel max u16 | frame max u32 | sessions: list
//!    2 AMQP 0.9.1   properties map | channel max u16 | frame max u32 | heartbeat u16 | flags: blocked, held back | channels: list
//!  secured        version, cipher: text | flags: demands a certificate | optional: subject, issuer: text | not before, not after: i64
//!                   | optional: user text
//!  session        channel u16 | handle max, next incoming id, incoming window, next outgoing id, remote incoming window: u32
//!                   | unsettled, pending: u64 | passed | links: list
//!  link           handle u32 | name text | flags: incoming | source, target: optional text | mode text | max message size u64
//!                   | delivery count, credit: u32 | unsettled u64 | age: optional u64 | flags: consumer timeout | optional: consumer
//!  channel        number u16 | flags: confirms, transactional | uncommitted messages, settlements: u64 | unconfirmed u64
//!                   | age: optional u64 | unsettled u32 | age: optional u64 | prefetch, shared prefetch: u16 | consumers: list | passed
//!  consumer       tag, queue: text | flags: settled, exclusive, browses | priority i32 | optional: flags: active
//!                   | prefetch, unsettled: u32 | age: optional u64 | timeout u64 | arguments map
//!  passed         received, confirmed, returned, dropped, get empty: u64 | deliveries: manual, automatic, get manual, get automatic,
//!                   redelivered, acknowledged: u64
//!  text           length u32 | bytes
//!  map            length u32 | the map in the encoding of AMQP 1.0
//!  list           count u32 | items
//!  flags          a byte for each: 0 or 1
//!  optional       flags: is there | the value, if it is there
//! ```
//!
//! The name of the node is not sent: the receiver knows it.

use std::sync::Arc;

use amqp10::sasl::{ANONYMOUS, EXTERNAL, PLAIN};
use amqp10::{Map, Reader, Value, encode};
use broker::admin_api::amqp10_rows::{Amqp10Row, LinkRow, SessionRow};
use broker::admin_api::amqp091_rows::{Amqp091Row, ChannelRow};
use broker::admin_api::{ConnectionRow, ConsumerRow, PassedCounts, ProtocolRow};
use broker::counters::Deliveries;
use broker::secured::{PeerCertificate, Secured};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use catalog::access::Authority;

use super::fields::{
    get_bytes, get_count, get_flag, get_list, get_optional, get_text, put_list, put_optional, put_text,
};

const AMQP_10: u8 = 1;
const AMQP_091: u8 = 2;

/// Stands for a word that this version does not know. A newer node may send one.
const UNKNOWN: &str = "unknown";

/// The words that are not text of a client: mechanisms of SASL, versions and cipher suites of TLS, and modes of settlement.
const WORDS: [&str; 19] = [
    "",
    PLAIN,
    "AMQPLAIN",
    EXTERNAL,
    ANONYMOUS,
    "tlsv1.2",
    "tlsv1.3",
    "TLS13_AES_128_GCM_SHA256",
    "TLS13_AES_256_GCM_SHA384",
    "TLS13_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "settled",
    "unsettled",
    "mixed",
];

/// Appends a row. Its length says when a part of an answer is long enough.
pub(crate) fn put_connection(row: &ConnectionRow, out: &mut Vec<u8>) {
    let ConnectionRow {
        name,
        user,
        authority,
        auth_mechanism,
        secured,
        vhost,
        connected_at_ms,
        recv_bytes,
        send_bytes,
        node: _,
        protocol,
    } = row;
    put_text(name, out);
    put_text(user, out);
    out.put_u8(match authority {
        Authority::Internal => 0,
        Authority::OAuth2 => 1,
        Authority::Http => 2,
    });
    put_text(auth_mechanism, out);
    put_optional(secured.as_deref(), out, put_secured);
    put_text(vhost, out);
    [connected_at_ms, recv_bytes, send_bytes].iter().for_each(|number| out.put_u64_le(**number));
    match protocol {
        ProtocolRow::Amqp10(row) => {
            let Amqp10Row { container_id, client_properties, channel_max, frame_max, sessions } = row;
            out.put_u8(AMQP_10);
            put_text(container_id, out);
            put_optional(client_properties.as_ref(), out, put_map);
            out.put_u16_le(*channel_max);
            out.put_u32_le(*frame_max);
            put_list(sessions, out, put_session);
        }
        ProtocolRow::Amqp091(row) => {
            let Amqp091Row {
                client_properties,
                channel_max,
                frame_max,
                heartbeat_s,
                is_blocked,
                is_held_back,
                channels,
            } = row;
            out.put_u8(AMQP_091);
            put_map(client_properties, out);
            out.put_u16_le(*channel_max);
            out.put_u32_le(*frame_max);
            out.put_u16_le(*heartbeat_s);
            out.extend([u8::from(*is_blocked), u8::from(*is_held_back)]);
            put_list(channels, out, put_channel);
        }
    }
}

pub(super) fn get_connection(bytes: &mut Bytes) -> Option<ConnectionRow> {
    Some(ConnectionRow {
        name: get_text(bytes)?.into(),
        user: get_text(bytes)?.into(),
        authority: match bytes.try_get_u8().ok()? {
            0 => Authority::Internal,
            1 => Authority::OAuth2,
            2 => Authority::Http,
            _ => return None,
        },
        auth_mechanism: get_word(bytes)?,
        secured: get_optional(bytes, get_secured)?.map(Arc::new),
        vhost: get_text(bytes)?.into(),
        connected_at_ms: get_count(bytes)?,
        recv_bytes: get_count(bytes)?,
        send_bytes: get_count(bytes)?,
        node: "".into(),
        protocol: match bytes.try_get_u8().ok()? {
            AMQP_10 => ProtocolRow::Amqp10(Amqp10Row {
                container_id: get_text(bytes)?,
                client_properties: get_optional(bytes, get_map)?,
                channel_max: bytes.try_get_u16_le().ok()?,
                frame_max: bytes.try_get_u32_le().ok()?,
                sessions: get_list(bytes, get_session)?,
            }),
            AMQP_091 => ProtocolRow::Amqp091(Amqp091Row {
                client_properties: get_map(bytes)?,
                channel_max: bytes.try_get_u16_le().ok()?,
                frame_max: bytes.try_get_u32_le().ok()?,
                heartbeat_s: bytes.try_get_u16_le().ok()?,
                is_blocked: get_flag(bytes)?,
                is_held_back: get_flag(bytes)?,
                channels: get_list(bytes, get_channel)?,
            }),
            _ => return None,
        },
    })
}

fn put_secured(secured: &Secured, out: &mut Vec<u8>) {
    let Secured { protocol, cipher, demands_certificate, peer } = secured;
    put_text(protocol, out);
    put_text(cipher, out);
    out.put_u8(u8::from(*demands_certificate));
    put_optional(peer.as_ref(), out, |peer, out| {
        let PeerCertificate { subject, issuer, not_before, not_after, user } = peer;
        put_text(subject, out);
        put_text(issuer, out);
        out.put_i64_le(*not_before);
        out.put_i64_le(*not_after);
        put_optional(user.as_deref(), out, put_text);
    });
}

fn get_secured(bytes: &mut Bytes) -> Option<Secured> {
    let (protocol, cipher) = (get_word(bytes)?, get_word(bytes)?);
    let demands_certificate = get_flag(bytes)?;
    let peer = get_optional(bytes, |bytes| {
        Some(PeerCertificate {
            subject: get_text(bytes)?,
            issuer: get_text(bytes)?,
            not_before: bytes.try_get_i64_le().ok()?,
            not_after: bytes.try_get_i64_le().ok()?,
            user: get_optional(bytes, get_text)?,
        })
    })?;
    Some(Secured { protocol, cipher, demands_certificate, peer })
}

fn put_session(row: &SessionRow, out: &mut Vec<u8>) {
    let SessionRow {
        channel,
        handle_max,
        next_incoming_id,
        incoming_window,
        next_outgoing_id,
        remote_incoming_window,
        outgoing_unsettled,
        outgoing_pending,
        counts,
        links,
    } = row;
    out.put_u16_le(*channel);
    [handle_max, next_incoming_id, incoming_window, next_outgoing_id, remote_incoming_window]
        .iter()
        .for_each(|number| out.put_u32_le(**number));
    [outgoing_unsettled, outgoing_pending].iter().for_each(|number| out.put_u64_le(**number));
    put_passed(counts, out);
    put_list(links, out, put_link);
}

fn get_session(bytes: &mut Bytes) -> Option<SessionRow> {
    Some(SessionRow {
        channel: bytes.try_get_u16_le().ok()?,
        handle_max: bytes.try_get_u32_le().ok()?,
        next_incoming_id: bytes.try_get_u32_le().ok()?,
        incoming_window: bytes.try_get_u32_le().ok()?,
        next_outgoing_id: bytes.try_get_u32_le().ok()?,
        remote_incoming_window: bytes.try_get_u32_le().ok()?,
        outgoing_unsettled: get_count(bytes)?,
        outgoing_pending: get_count(bytes)?,
        counts: get_passed(bytes)?,
        links: get_list(bytes, get_link)?,
    })
}

fn put_link(row: &LinkRow, out: &mut Vec<u8>) {
    let LinkRow {
        handle,
        name,
        incoming,
        source_address,
        target_address,
        snd_settle_mode,
        max_message_size,
        delivery_count,
        credit,
        unsettled,
        unsettled_age_ms,
        consumer_timeout,
        consumer,
    } = row;
    out.put_u32_le(*handle);
    put_text(name, out);
    out.put_u8(u8::from(*incoming));
    put_optional(source_address.as_deref(), out, put_text);
    put_optional(target_address.as_deref(), out, put_text);
    put_text(snd_settle_mode, out);
    out.put_u64_le(*max_message_size);
    out.put_u32_le(*delivery_count);
    out.put_u32_le(*credit);
    out.put_u64_le(*unsettled);
    put_age(*unsettled_age_ms, out);
    out.put_u8(u8::from(*consumer_timeout));
    put_optional(consumer.as_ref(), out, put_consumer);
}

fn get_link(bytes: &mut Bytes) -> Option<LinkRow> {
    Some(LinkRow {
        handle: bytes.try_get_u32_le().ok()?,
        name: get_text(bytes)?,
        incoming: get_flag(bytes)?,
        source_address: get_optional(bytes, get_text)?,
        target_address: get_optional(bytes, get_text)?,
        snd_settle_mode: get_word(bytes)?,
        max_message_size: bytes.try_get_u64_le().ok()?,
        delivery_count: bytes.try_get_u32_le().ok()?,
        credit: bytes.try_get_u32_le().ok()?,
        unsettled: get_count(bytes)?,
        unsettled_age_ms: get_optional(bytes, get_count)?,
        consumer_timeout: get_flag(bytes)?,
        consumer: get_optional(bytes, get_consumer)?,
    })
}

fn put_channel(row: &ChannelRow, out: &mut Vec<u8>) {
    let ChannelRow {
        number,
        confirms,
        transactional,
        uncommitted,
        uncommitted_settlements,
        unconfirmed,
        unconfirmed_age_ms,
        unsettled,
        unsettled_age_ms,
        prefetch,
        shared_prefetch,
        consumers,
        counts,
    } = row;
    out.put_u16_le(*number);
    out.extend([u8::from(*confirms), u8::from(*transactional)]);
    [uncommitted, uncommitted_settlements, unconfirmed].iter().for_each(|number| out.put_u64_le(**number));
    put_age(*unconfirmed_age_ms, out);
    out.put_u32_le(*unsettled);
    put_age(*unsettled_age_ms, out);
    out.put_u16_le(*prefetch);
    out.put_u16_le(*shared_prefetch);
    put_list(consumers, out, put_consumer);
    put_passed(counts, out);
}

fn get_channel(bytes: &mut Bytes) -> Option<ChannelRow> {
    Some(ChannelRow {
        number: bytes.try_get_u16_le().ok()?,
        confirms: get_flag(bytes)?,
        transactional: get_flag(bytes)?,
        uncommitted: get_count(bytes)?,
        uncommitted_settlements: get_count(bytes)?,
        unconfirmed: get_count(bytes)?,
        unconfirmed_age_ms: get_optional(bytes, get_count)?,
        unsettled: bytes.try_get_u32_le().ok()?,
        unsettled_age_ms: get_optional(bytes, get_count)?,
        prefetch: bytes.try_get_u16_le().ok()?,
        shared_prefetch: bytes.try_get_u16_le().ok()?,
        consumers: get_list(bytes, get_consumer)?,
        counts: get_passed(bytes)?,
    })
}

fn put_consumer(row: &ConsumerRow, out: &mut Vec<u8>) {
    let ConsumerRow {
        tag,
        queue,
        settled,
        exclusive,
        priority,
        active,
        browses,
        prefetch,
        unsettled,
        unsettled_age_ms,
        timeout_ms,
        arguments,
    } = row;
    put_text(tag, out);
    put_text(queue, out);
    out.extend([u8::from(*settled), u8::from(*exclusive), u8::from(*browses)]);
    out.put_i32_le(*priority);
    put_optional(active.as_ref(), out, |active, out| out.put_u8(u8::from(*active)));
    out.put_u32_le(*prefetch);
    out.put_u32_le(*unsettled);
    put_age(*unsettled_age_ms, out);
    out.put_u64_le(*timeout_ms);
    put_map(arguments, out);
}

fn get_consumer(bytes: &mut Bytes) -> Option<ConsumerRow> {
    let (tag, queue) = (get_text(bytes)?.into(), get_text(bytes)?.into());
    let [settled, exclusive, browses] = [get_flag(bytes)?, get_flag(bytes)?, get_flag(bytes)?];
    Some(ConsumerRow {
        tag,
        queue,
        settled,
        exclusive,
        browses,
        priority: bytes.try_get_i32_le().ok()?,
        active: get_optional(bytes, get_flag)?,
        prefetch: bytes.try_get_u32_le().ok()?,
        unsettled: bytes.try_get_u32_le().ok()?,
        unsettled_age_ms: get_optional(bytes, get_count)?,
        timeout_ms: bytes.try_get_u64_le().ok()?,
        arguments: get_map(bytes)?,
    })
}

pub(super) fn put_passed(counts: &PassedCounts, out: &mut Vec<u8>) {
    let PassedCounts { received, confirmed, returned, dropped, get_empty, deliveries } = *counts;
    let Deliveries { manual_ack, auto_ack, get_manual_ack, get_auto_ack, redelivered, acknowledged } =
        deliveries;
    let passed = [received, confirmed, returned, dropped, get_empty];
    let deliveries = [manual_ack, auto_ack, get_manual_ack, get_auto_ack, redelivered, acknowledged];
    passed.into_iter().chain(deliveries).for_each(|count| out.put_u64_le(count));
}

pub(super) fn get_passed(bytes: &mut Bytes) -> Option<PassedCounts> {
    Some(PassedCounts {
        received: get_count(bytes)?,
        confirmed: get_count(bytes)?,
        returned: get_count(bytes)?,
        dropped: get_count(bytes)?,
        get_empty: get_count(bytes)?,
        deliveries: Deliveries {
            manual_ack: get_count(bytes)?,
            auto_ack: get_count(bytes)?,
            get_manual_ack: get_count(bytes)?,
            get_auto_ack: get_count(bytes)?,
            redelivered: get_count(bytes)?,
            acknowledged: get_count(bytes)?,
        },
    })
}

fn get_word(bytes: &mut Bytes) -> Option<&'static str> {
    let text = get_text(bytes)?;
    Some(WORDS.into_iter().find(|word| *word == text).unwrap_or(UNKNOWN))
}

fn put_map(map: &Map, out: &mut Vec<u8>) {
    let mut encoded = BytesMut::new();
    encode::put_map(&mut encoded, map);
    out.put_u32_le(encoded.len() as u32);
    out.extend_from_slice(&encoded);
}

/// Reads a map. One that goes beyond what a client of AMQP 1.0 may send is shown empty: it comes from a client of AMQP 0.9.1.
fn get_map(bytes: &mut Bytes) -> Option<Map> {
    let encoded = get_bytes(bytes)?;
    let mut reader = Reader::new(&encoded);
    match reader.read_value() {
        Ok(Value::Map(map)) if reader.is_empty() => Some(map),
        _ => Some(Map::new()),
    }
}

fn put_age(age_ms: Option<u64>, out: &mut Vec<u8>) {
    put_optional(age_ms.as_ref(), out, |age_ms, out| out.put_u64_le(*age_ms));
}

#[cfg(test)]
pub(super) mod tests;
