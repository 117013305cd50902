//! Rows of connections are read as they were written.

use proptest::prelude::*;

use super::*;
use crate::peer::{FarLooked, FarRows, PeerMessage};

fn count() -> impl Strategy<Value = u64> {
    0..=1_u64 << 56
}

fn map() -> impl Strategy<Value = Map> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        any::<i64>().prop_map(Value::Long),
        ".{0,4}".prop_map(Value::from)
    ];
    prop::collection::vec((".{0,4}".prop_map(Value::from), value), 0..3).prop_map(Map)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,8}"
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&WORDS[..])
}

fn age() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(count())
}

fn passed() -> impl Strategy<Value = PassedCounts> {
    (prop::array::uniform5(count()), prop::array::uniform6(count())).prop_map(|(passed, deliveries)| {
        let [received, confirmed, returned, dropped, get_empty] = passed;
        let [manual_ack, auto_ack, get_manual_ack, get_auto_ack, redelivered, acknowledged] = deliveries;
        let deliveries =
            Deliveries { manual_ack, auto_ack, get_manual_ack, get_auto_ack, redelivered, acknowledged };
        PassedCounts { received, confirmed, returned, dropped, get_empty, deliveries }
    })
}

fn consumer() -> impl Strategy<Value = ConsumerRow> {
    let flags = (any::<[bool; 3]>(), any::<Option<bool>>());
    (text(), text(), flags, any::<i32>(), any::<[u32; 2]>(), age(), any::<u64>(), map()).prop_map(
        |(tag, queue, (flags, active), priority, numbers, unsettled_age_ms, timeout_ms, arguments)| {
            let [settled, exclusive, browses] = flags;
            let [prefetch, unsettled] = numbers;
            ConsumerRow {
                tag: tag.into(),
                queue: queue.into(),
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
            }
        },
    )
}

fn channel() -> impl Strategy<Value = ChannelRow> {
    let numbers = (any::<[u16; 3]>(), any::<u32>(), prop::array::uniform3(count()));
    let consumers = prop::collection::vec(consumer(), 0..3);
    (numbers, any::<[bool; 2]>(), age(), age(), consumers, passed()).prop_map(
        |((small, unsettled, counts_of), flags, unconfirmed_age_ms, unsettled_age_ms, consumers, counts)| {
            let [number, prefetch, shared_prefetch] = small;
            let [uncommitted, uncommitted_settlements, unconfirmed] = counts_of;
            let [confirms, transactional] = flags;
            ChannelRow {
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
            }
        },
    )
}

fn link() -> impl Strategy<Value = LinkRow> {
    let addresses = (prop::option::of(text()), prop::option::of(text()));
    let numbers = (any::<[u32; 3]>(), any::<u64>(), count(), age());
    (text(), addresses, word(), numbers, any::<[bool; 2]>(), prop::option::of(consumer())).prop_map(
        |(name, (source_address, target_address), snd_settle_mode, numbers, flags, consumer)| {
            let ([handle, delivery_count, credit], max_message_size, unsettled, unsettled_age_ms) = numbers;
            let [incoming, consumer_timeout] = flags;
            LinkRow {
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
            }
        },
    )
}

fn session() -> impl Strategy<Value = SessionRow> {
    let links = prop::collection::vec(link(), 0..3);
    (any::<u16>(), any::<[u32; 5]>(), [count(), count()], passed(), links).prop_map(
        |(channel, numbers, [outgoing_unsettled, outgoing_pending], counts, links)| {
            let [handle_max, next_incoming_id, incoming_window, next_outgoing_id, remote_incoming_window] =
                numbers;
            SessionRow {
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
            }
        },
    )
}

fn protocol() -> impl Strategy<Value = ProtocolRow> {
    let sessions = prop::collection::vec(session(), 0..3);
    let amqp10 = (text(), prop::option::of(map()), any::<u16>(), any::<u32>(), sessions);
    let channels = prop::collection::vec(channel(), 0..3);
    let amqp091 = (map(), any::<[u16; 2]>(), any::<u32>(), any::<[bool; 2]>(), channels);
    prop_oneof![
        amqp10.prop_map(|(container_id, client_properties, channel_max, frame_max, sessions)| {
            ProtocolRow::Amqp10(Amqp10Row {
                container_id,
                client_properties,
                channel_max,
                frame_max,
                sessions,
            })
        }),
        amqp091.prop_map(|(client_properties, small, frame_max, flags, channels)| {
            let ([channel_max, heartbeat_s], [is_blocked, is_held_back]) = (small, flags);
            ProtocolRow::Amqp091(Amqp091Row {
                client_properties,
                channel_max,
                frame_max,
                heartbeat_s,
                is_blocked,
                is_held_back,
                channels,
            })
        }),
    ]
}

fn secured() -> impl Strategy<Value = Secured> {
    let peer = (text(), text(), any::<[i64; 2]>(), prop::option::of(text())).prop_map(
        |(subject, issuer, [not_before, not_after], user)| PeerCertificate {
            subject,
            issuer,
            not_before,
            not_after,
            user,
        },
    );
    (word(), word(), any::<bool>(), prop::option::of(peer)).prop_map(
        |(protocol, cipher, demands_certificate, peer)| Secured {
            protocol,
            cipher,
            demands_certificate,
            peer,
        },
    )
}

pub(in crate::peer) fn connection() -> impl Strategy<Value = ConnectionRow> {
    let authority = prop::sample::select(&[Authority::Internal, Authority::OAuth2, Authority::Http][..]);
    let texts = (text(), text(), text(), word());
    let numbers = [count(), count(), count()];
    (texts, authority, prop::option::of(secured()), numbers, protocol()).prop_map(
        |((name, user, vhost, auth_mechanism), authority, secured, numbers, protocol)| {
            let [connected_at_ms, recv_bytes, send_bytes] = numbers;
            ConnectionRow {
                name: name.into(),
                user: user.into(),
                authority,
                auth_mechanism,
                secured: secured.map(Arc::new),
                vhost: vhost.into(),
                connected_at_ms,
                recv_bytes,
                send_bytes,
                node: "".into(),
                protocol,
            }
        },
    )
}

fn row(protocol: ProtocolRow) -> ConnectionRow {
    ConnectionRow {
        name: "10.0.0.1:4000 -> 10.0.0.2:5672".into(),
        user: "ann".into(),
        authority: Authority::Internal,
        auth_mechanism: PLAIN,
        secured: None,
        vhost: "/".into(),
        connected_at_ms: 1,
        recv_bytes: 2,
        send_bytes: 3,
        node: "".into(),
        protocol,
    }
}

fn row_of_091(client_properties: Map) -> ConnectionRow {
    row(ProtocolRow::Amqp091(Amqp091Row {
        client_properties,
        channel_max: 4,
        frame_max: 5,
        heartbeat_s: 6,
        is_blocked: false,
        is_held_back: true,
        channels: Vec::new(),
    }))
}

pub(in crate::peer) fn looked_at(rows: Vec<ConnectionRow>) -> PeerMessage {
    let rows = FarRows::Connections { rows, has_more: true };
    PeerMessage::Looked(FarLooked { boot: 1, number: 2, shard: 3, shards: 4, is_last: true, rows })
}

/// A row for the corpus of the fuzz target: with a session, a link and a consumer.
pub(in crate::peer) fn row_of_10() -> ConnectionRow {
    let consumer = ConsumerRow {
        tag: "link".into(),
        queue: "q".into(),
        settled: false,
        exclusive: false,
        priority: 0,
        active: Some(true),
        browses: false,
        prefetch: 10,
        unsettled: 1,
        unsettled_age_ms: Some(5),
        timeout_ms: 60_000,
        arguments: Map::new(),
    };
    let link = LinkRow {
        handle: 0,
        name: "link".into(),
        incoming: false,
        source_address: Some("/queues/q".into()),
        target_address: None,
        snd_settle_mode: "mixed",
        max_message_size: 0,
        delivery_count: 1,
        credit: 9,
        unsettled: 1,
        unsettled_age_ms: Some(5),
        consumer_timeout: false,
        consumer: Some(consumer),
    };
    let session = SessionRow {
        channel: 0,
        handle_max: 7,
        next_incoming_id: 1,
        incoming_window: 2,
        next_outgoing_id: 3,
        remote_incoming_window: 4,
        outgoing_unsettled: 1,
        outgoing_pending: 0,
        counts: PassedCounts::default(),
        links: vec![link],
    };
    row(ProtocolRow::Amqp10(Amqp10Row {
        container_id: "c".into(),
        client_properties: Some(Map(vec![("product".into(), "p".into())])),
        channel_max: 1,
        frame_max: 2,
        sessions: vec![session],
    }))
}

#[test]
fn a_connection_has_these_bytes() {
    let mut bytes = Vec::new();
    put_connection(&row_of_091(Map::new()), &mut bytes);
    let golden = b"\x1e\0\0\x0010.0.0.1:4000 -> 10.0.0.2:5672\x03\0\0\0ann\0\x05\0\0\0PLAIN\0\x01\0\0\0/\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x02\x03\0\0\0\xc1\x01\0\x04\0\x05\0\0\0\x06\0\0\x01\0\0\0\0";
    assert_eq!(bytes.escape_ascii().to_string(), golden.escape_ascii().to_string());
}

/// A node of a later version may know more words.
#[test]
fn a_word_of_another_version_is_unknown() {
    let mut bytes = Vec::new();
    put_connection(&ConnectionRow { auth_mechanism: "NEW", ..row_of_091(Map::new()) }, &mut bytes);
    let read = get_connection(&mut bytes.into()).expect("a row");
    assert_eq!(read, ConnectionRow { auth_mechanism: UNKNOWN, ..row_of_091(Map::new()) });
}

/// What a client of AMQP 0.9.1 says about itself does not cost the other connections of a list.
#[test]
fn a_map_that_cannot_be_read_is_empty() {
    let deep = (0..200).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    let mut bytes = Vec::new();
    put_connection(&row_of_091(Map(vec![("a".into(), deep)])), &mut bytes);
    assert_eq!(get_connection(&mut bytes.into()), Some(row_of_091(Map::new())));
}

#[test]
fn impossible_rows_are_refused() {
    let refused = |row: ConnectionRow| {
        let mut bytes = Vec::new();
        put_connection(&row, &mut bytes);
        assert_eq!(get_connection(&mut bytes.into()), None);
    };
    refused(ConnectionRow { recv_bytes: (1 << 56) + 1, ..row_of_091(Map::new()) });
    assert_eq!(PeerMessage::decode(looked_at(vec![row_of_091(Map::new()); 501]).encode()), None);
    let most = looked_at(vec![row_of_091(Map::new()); 500]);
    assert_eq!(PeerMessage::decode(most.encode()), Some(most));
}
