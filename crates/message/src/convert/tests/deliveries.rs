//! What consumers of AMQP 0.9.1 get besides the message, and what becomes of a message that changes.

use amqp091::frame::header_frame_len;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::convert::headers::DEATHS_BYTES_MAX;
use crate::{
    ADDED_HEADERS_MAX, Additions, Annotations, Death, DeathReason, DeliveryHeads, DeliveryMax, LastRoute,
    Parts,
};

fn delivered(message: &Message, additions: &Additions) -> Vec<u8> {
    let mut list = BytesMut::new();
    message.put_amqp091_properties(additions, &mut list);
    list.to_vec()
}

fn shown(message: &Message, additions: &Additions) -> Vec<String> {
    let (payload, from) = message.amqp091_payload();
    shown_list(&delivered(message, additions), &payload[from..])
}

fn death(reason: DeathReason) -> Death {
    Death {
        queue: "q".into(),
        reason,
        count: 1,
        first_ms: 7_999,
        last_ms: 9_000,
        exchange: "e".into(),
        keys: vec!["a".into(), "b".into()],
        ttl_ms: None,
    }
}

fn example() -> Written091 {
    Written091 {
        properties: Properties {
            content_type: Some(b"text/plain"),
            expiration: Some(b"0060"),
            message_id: Some(b"id"),
            cluster_id: Some(b"c"),
            ..Properties::default()
        },
        headers: vec![("z", Value::I32(1)), ("x-death", text("mine")), ("a", Value::Void)],
        payload: b"hi",
    }
}

#[test]
fn the_same_protocol_gets_the_same_bytes() {
    let written = example();
    let message = written.message();
    assert_eq!(delivered(&message, &Additions::default()), written.list());
    let (payload, from) = message.amqp091_payload();
    assert_eq!(&payload[from..], b"hi");
    assert_eq!(payload.as_ptr(), message.wire().as_ptr(), "nothing is copied");
    assert_eq!((message.len(), message.bytes_in_memory()), (2, written.list().len() as u64 + 2));
}

#[test]
fn additions_are_headers() {
    let additions =
        Additions { delivery_count: Some(1), acquired_count: Some(2), stream_offset: Some(1 << 40) };
    let expected = [
        "content_type=text/plain",
        "expiration=0060",
        "message_id=id",
        "a=Void",
        "x-acquired-count=I64(2)",
        "x-death=\"mine\"",
        "x-delivery-count=I64(1)",
        "x-stream-offset=I64(1099511627776)",
        "z=I32(1)",
    ];
    assert_eq!(shown(&example().message(), &additions), expected);
    let list = delivered(&example().message(), &additions);
    assert_eq!(Properties::parse(&list).unwrap().cluster_id, Some(&b"c"[..]));
    // A publisher cannot set them.
    let headers = vec![("x-delivery-count", text("mine"))];
    let message = Written091 { headers, payload: b"hi", ..Written091::default() }.message();
    let one = Additions { delivery_count: Some(1), ..Additions::default() };
    assert_eq!(shown(&message, &one), ["x-delivery-count=I64(1)"]);
    // A message of the other protocol gets them, too.
    let other =
        Written10 { application_properties: [("h", 1u32)].into_iter().collect(), ..Written10::default() };
    assert_eq!(shown(&other.message(), &one), ["h=U32(1)", "x-delivery-count=I64(1)"]);
}

#[test]
fn deaths_are_headers_and_take_the_time_to_live() {
    let written = Written10 {
        header: amqp10::Header { ttl: Some(60), ..amqp10::Header::default() },
        annotations: annotations([("x-basic-expiration", Amqp10::String("5".into()))]),
        ..Written10::default()
    };
    for message in [example().message(), written.message()] {
        let dead = message
            .with_death(death(DeathReason::Expired), 0)
            .with_death(Death { queue: "r".into(), ..death(DeathReason::Rejected) }, 1);
        let lines = shown(&dead, &Additions::default());
        assert!(!lines.iter().any(|line| line.starts_with("expiration=")), "{lines:?}");
        let about_deaths: Vec<_> = lines.iter().filter(|line| line.contains("death")).collect();
        let tail = "time: Timestamp(7), exchange: \"e\", routing-keys: [\"a\", \"b\"]}";
        let expected = [
            format!(
                "x-death=[{{count: I64(1), reason: \"rejected\", queue: \"r\", {tail}, \
                 {{original-expiration: \"60\", count: I64(1), reason: \"expired\", queue: \"q\", {tail}]"
            ),
            "x-first-death-exchange=\"e\"".to_owned(),
            "x-first-death-queue=\"q\"".to_owned(),
            "x-first-death-reason=\"expired\"".to_owned(),
            "x-last-death-exchange=\"e\"".to_owned(),
            "x-last-death-queue=\"r\"".to_owned(),
            "x-last-death-reason=\"rejected\"".to_owned(),
        ];
        assert_eq!(about_deaths, expected.iter().collect::<Vec<_>>());
        // The other protocol sees them as annotations, and no time to live.
        let mut heads = DeliveryHeads::default();
        let converted = dead.in_amqp10();
        let head = [heads.head(&converted, 1, false, None), HI].concat();
        let found = sections::scan(&head).unwrap();
        assert_eq!(found.header.unwrap().ttl, None);
        let range = found.message_annotations.unwrap();
        let keys: Vec<&str> = map_pairs(&head[range.start as usize..range.end as usize])
            .unwrap()
            .map(|pair| pair.unwrap().0)
            .collect();
        assert!(keys.contains(&"x-opt-deaths") && keys.contains(&"x-last-death-queue"), "{keys:?}");
    }
}

/// Returns the entries of `x-death` in a property list, and the size of their encoding in bytes.
fn deaths_in(list: &[u8]) -> (Vec<String>, usize) {
    let headers = Properties::parse(list).unwrap().headers.unwrap();
    let (_, value) = headers.iter().find(|(name, _)| *name == "x-death").unwrap();
    let Value::Array(array) = value else { panic!("{value:?}") };
    let queue_of = |item: Value<'_>| {
        let Value::Table(table) = item else { panic!("{item:?}") };
        let (_, queue) = table.iter().find(|(name, _)| *name == "queue").unwrap();
        let Value::LongString(queue) = queue else { panic!("{queue:?}") };
        String::from_utf8(queue.to_vec()).unwrap()
    };
    (array.iter().map(queue_of).collect(), array.as_bytes().len())
}

/// Tests that what a delivery adds to a message is bounded, and that the bound is used as far as entries fit.
#[test]
fn x_death_has_the_newest_entries_that_fit() {
    for (name_len, has_ttl) in [(10, false), (100, true), (255, true)] {
        let name = |number: usize| format!("{number:0>name_len$}");
        let of = |number: usize| Death {
            queue: name(number).into(),
            exchange: name(number).into(),
            keys: vec![name(number).into()],
            ..death(DeathReason::DeliveryLimit)
        };
        let mut message = Written091 { payload: b"hi", ..Written091::default() }.message();
        if has_ttl {
            let terms = Parts { ttl_ms: Some(Message::TTL_MS_MAX), ..message.parts() };
            message = Message::new(terms, message.route().clone());
        }
        let without = message.head_bytes();
        let (mut most, mut entry) = (0, 0);
        for number in 0..60 {
            message = message.with_death(of(number), 1);
            let list = delivered(&message, &Additions::default());
            let (queues, bytes) = deaths_in(&list);
            let newest: Vec<String> = (0..=number).rev().map(name).take(queues.len()).collect();
            assert_eq!(queues, newest);
            assert!(bytes <= DEATHS_BYTES_MAX, "{bytes} bytes for names of {name_len}");
            if queues.len() <= number {
                assert!(bytes + entry > DEATHS_BYTES_MAX, "another entry of {entry} bytes would have fitted");
            }
            (most, entry) = (most.max(queues.len()), bytes / queues.len());
            let all = Additions {
                delivery_count: Some(u32::MAX),
                acquired_count: Some(u32::MAX),
                stream_offset: Some(u64::MAX >> 1),
            };
            let added = delivered(&message, &all).len() as u64 + header_frame_len(0) as u64 - without;
            assert!(added <= ADDED_HEADERS_MAX.into(), "{added} bytes are added for names of {name_len}");
            assert_eq!(message.head_bytes(), header_frame_len(list.len()) as u64);
        }
        assert!((2..60).contains(&most), "{most} entries for names of {name_len}");
        let shown = shown(&message, &Additions::default());
        for line in
            [format!("x-first-death-queue={:?}", name(0)), format!("x-last-death-queue={:?}", name(59))]
        {
            assert!(shown.contains(&line), "{line} in {shown:?}");
        }
        assert_eq!(message.deaths().unwrap().iter().len(), 60, "cycles and redrives know all of them");
    }
}

#[test]
fn the_newest_death_has_the_first_of_its_routing_keys() {
    let keys: Vec<_> = (0..100).map(|number| format!("{number:0>100}").into()).collect();
    let message = example().message().with_death(death(DeathReason::Expired), 0);
    let message = message.with_death(Death { queue: "r".into(), keys, ..death(DeathReason::Rejected) }, 0);
    let (queues, bytes) = deaths_in(&delivered(&message, &Additions::default()));
    assert_eq!(queues, ["r"]);
    assert!((DEATHS_BYTES_MAX - 105..=DEATHS_BYTES_MAX).contains(&bytes), "{bytes}");
}

#[test]
fn a_head_fits_to_the_byte() {
    let dead = |message: Message| message.with_death(death(DeathReason::MaxLength), 1);
    let other = Written10 {
        application_properties: [("h", "x".repeat(500))].into_iter().collect(),
        ..Written10::default()
    };
    let messages = [example().message(), other.message()];
    for message in messages.clone().into_iter().chain(messages.map(dead)) {
        let bytes = header_frame_len(delivered(&message, &Additions::default()).len()) as u64;
        assert_eq!(message.head_bytes(), bytes);
        for (max, fits) in [(bytes - 1, false), (bytes, true), (bytes + 1, true)] {
            assert_eq!(message.fits(DeliveryMax::Head(max), 1, true), fits);
        }
    }
}

#[test]
fn annotations_of_consumers_are_headers() {
    let set = |pairs: &[(&'static str, Amqp10)]| {
        let mut map = Map::new();
        pairs.iter().for_each(|(key, value)| map.insert(Symbol::from_static(key), value.clone()));
        Annotations::from_map(&map).unwrap()
    };
    let message = example().message();
    let notes = set(&[
        ("x-note", Amqp10::Uint(1)),
        ("x-death", Amqp10::Uint(2)),
        ("x-basic-type", Amqp10::String("t".into())),
        ("x-cc", Amqp10::List(vec![Amqp10::String("k".into())])),
    ]);
    assert!(message.has_room_for(&notes));
    let annotated = message.annotated(&notes);
    let expected = [
        "content_type=text/plain",
        "expiration=0060",
        "message_id=id",
        "CC=[\"k\"]",
        "a=Void",
        "x-death=\"mine\"",
        "x-note=U32(1)",
        "z=I32(1)",
    ];
    assert_eq!(shown(&annotated, &Additions::default()), expected);
    // A newer value replaces the older one.
    let newer = annotated.annotated(&set(&[("x-note", Amqp10::Uint(2))]));
    assert!(shown(&newer, &Additions::default()).contains(&"x-note=U32(2)".to_owned()));
    assert_eq!(newer.body(), message.body());
    let large = Amqp10::String("x".repeat(Annotations::BYTES_MAX - 100));
    let half_full = message.annotated(&set(&[("x-large", large)]));
    assert!(!half_full.has_room_for(&set(&[("x-more", Amqp10::String("x".repeat(200)))])));
}

#[test]
fn a_stored_message_keeps_its_protocol() {
    let mut written = example();
    written.properties.expiration = Some(b"315360000000");
    written.properties.delivery_mode = Some(2);
    for message in [written.message(), written.message().with_death(death(DeathReason::MaxLength), 1)] {
        let mut stored = Vec::new();
        message.put_stored_head(&mut stored);
        stored.extend_from_slice(message.stored_tail());
        assert_eq!(stored[0], 2, "versions that know only AMQP 1.0 refuse it");
        let read = Message::from_stored(stored.clone().into(), &mut LastRoute::default()).unwrap();
        assert_eq!(read, message);
        assert_eq!((read.format(), read.is_durable()), (Format::Amqp091, true));
        // The format and the flag must agree.
        stored[0] = 1;
        assert!(Message::from_stored(stored.into(), &mut LastRoute::default()).is_err());
    }
}

/// Tests that the size of a delivery in AMQP 1.0 is known without converting, and right to the byte if it is not.
#[test]
fn a_delivery_fits_to_the_byte() {
    for message in [example().message(), example().message().with_death(death(DeathReason::MaxLength), 1)] {
        let converted = message.in_amqp10();
        let bytes = converted.delivery_bytes(1, true);
        assert_eq!(message.delivery_bytes(1, true), bytes);
        for max in bytes.saturating_sub(300)..bytes + 300 {
            assert_eq!(message.fits(DeliveryMax::Whole(max), 1, true), bytes <= max);
        }
    }
}

proptest! {
    /// Tests that a message survives the way there and back: what both protocols know stays the same.
    #[test]
    fn messages_return_as_they_were(
        texts in proptest::array::uniform6(proptest::option::of("[a-z]{1,20}")),
        numbers: (bool, Option<u8>, Option<u32>, Option<u32>),
        headers in vec(("(x-)?[d-w]{1,5}", any::<i32>()), 0..20),
        payload in vec(any::<u8>(), 0..300),
    ) {
        let [message_id, correlation_id, reply_to, app_id, message_type, content_type] =
            texts.each_ref().map(|text| text.as_ref().map(String::as_bytes));
        let expiration = numbers.2.map(|ms| ms.to_string());
        let mut list = BytesMut::new();
        let properties = Properties {
            message_id,
            correlation_id,
            reply_to,
            app_id,
            message_type,
            content_type,
            delivery_mode: numbers.0.then_some(2),
            priority: numbers.1,
            expiration: expiration.as_ref().map(String::as_bytes),
            timestamp: numbers.3.map(u64::from),
            ..Properties::default()
        };
        let mut sorted = headers.clone();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted.dedup_by(|later, first| later.0 == first.0);
        properties.put_with_headers(&mut list, |out| {
            if sorted.is_empty() {
                return None;
            }
            let mut table = TableWriter::new(out);
            sorted.iter().for_each(|(name, value)| table.put(name, &Value::I32(*value)));
            Some(())
        });
        let basic = Basic::borrowed(&list, &payload).unwrap();
        let message = Message::new(basic.parts([&list[..], &payload].concat().into()), route());
        let there = message.in_amqp10();
        prop_assert!(there.bytes_in_memory() <= message.bytes_in_amqp10_max());
        let back = there.in_amqp091();
        prop_assert_eq!(shown091(&back), shown091(&message));
    }
}
