use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::composites::Properties;
use crate::encode::{Encode, put_descriptor, put_map, put_value};
use crate::types::{Map, Symbol, Value};

/// Returns an encoded section. The letters, in the order of a message: h (header), d (delivery annotations), m (message
/// annotations), p (properties), a (application properties), then the body b (data), s (sequence) or v (value), then f
/// (footer).
fn section(letter: char) -> Vec<u8> {
    let bytes: &[u8] = match letter {
        'h' => b"\x00\x53\x70\xc0\x02\x01\x41",
        'd' => b"\x00\x53\x71\xc1\x07\x02\xa3\x03x-d\x43",
        'm' => b"\x00\x53\x72\xc1\x07\x02\xa3\x03x-m\x43",
        'p' => b"\x00\x53\x73\xc0\x04\x01\xa1\x01i",
        'a' => b"\x00\x53\x74\xc1\x05\x02\xa1\x01k\x43",
        'b' => b"\x00\x53\x75\xa0\x02hi",
        's' => b"\x00\x53\x76\xc0\x02\x01\x43",
        'v' => b"\x00\x53\x77\xa1\x01v",
        'f' => b"\x00\x53\x78\xc1\x07\x02\xa3\x03x-f\x43",
        _ => panic!("no section {letter}"),
    };
    bytes.to_vec()
}

fn message(letters: &str) -> Vec<u8> {
    letters.chars().flat_map(section).collect()
}

fn text(bytes: &[u8]) -> String {
    scan(bytes).unwrap_err().to_string()
}

/// Returns whether the standard [3.2] allows these sections in this order. The scanner decides this in another way.
fn legal(letters: &str) -> bool {
    let mut rest = letters;
    for optional in ["h", "d", "m", "p", "a"] {
        rest = rest.strip_prefix(optional).unwrap_or(rest);
    }
    let body = rest.strip_suffix('f').unwrap_or(rest);
    let all = |letter| !body.is_empty() && body.chars().all(|l| l == letter);
    all('b') || all('s') || body == "v"
}

/// Tests every message of up to four sections, and every legal message with up to three body sections.
#[test]
fn every_order_of_sections() {
    let mut words = vec![String::new()];
    let mut last = words.clone();
    for _ in 0..4 {
        last = last.iter().flat_map(|w| "hdmpabsvf".chars().map(move |l| format!("{w}{l}"))).collect();
        words.extend(last.iter().cloned());
    }
    for subset in 0..64u32 {
        let head: String =
            "hdmpa".chars().enumerate().filter(|(i, _)| subset >> i & 1 == 1).map(|(_, l)| l).collect();
        let footer = if subset >> 5 == 1 { "f" } else { "" };
        words.extend(["b", "bb", "bbb", "s", "ss", "v"].map(|body| format!("{head}{body}{footer}")));
    }
    let mut accepted = 0;
    for word in words {
        let bytes = message(&word);
        let result = scan(&bytes);
        assert_eq!(result.is_ok(), legal(&word), "{word}: {result:?}");
        if let Ok(sections) = result {
            accepted += 1;
            check_ranges(&word, &bytes, &sections);
        }
    }
    assert!(accepted >= 64 * 6);
}

fn check_ranges(word: &str, bytes: &[u8], sections: &Sections) {
    let cut = |range: &Range<u32>| &bytes[range.start as usize..range.end as usize];
    let check = |letter: char, range: &Option<Range<u32>>| {
        assert_eq!(
            range.as_ref().map(cut),
            word.contains(letter).then(|| section(letter)).as_deref(),
            "{word}"
        );
    };
    check('d', &sections.delivery_annotations);
    check('m', &sections.message_annotations);
    check('p', &sections.properties);
    check('a', &sections.application_properties);
    check('f', &sections.footer);
    let durable = sections.header.as_ref().map(|header| header.durable);
    assert_eq!(durable, word.contains('h').then_some(Some(true)));
    assert_eq!(
        cut(&sections.body),
        message(word.trim_start_matches(['h', 'd', 'm', 'p', 'a']).trim_end_matches('f'))
    );
    assert_eq!(cut(&sections.bare), message(word.trim_start_matches(['h', 'd', 'm'])));
    let kind = if word.contains('b') {
        BodyKind::Data
    } else if word.contains('s') {
        BodyKind::Sequence
    } else {
        BodyKind::Value
    };
    assert_eq!(sections.body_kind, kind);
}

/// The plain scan (`plain::scan`) accepts the usual messages and finds what the general scan finds. It rejects all other
/// messages, which are left to the general scan.
#[test]
fn plain_messages() {
    for word in ["b", "v", "hb", "pb", "ab", "hpb", "hav", "pav", "hpab", "hpav"] {
        assert_eq!(plain::scan(&message(word)), scan_any(&message(word)).ok(), "{word}");
        assert!(plain::scan(&message(word)).is_some(), "{word}");
    }
    for word in ["", "h", "hpa", "dhb", "mb", "bf", "bb", "s", "bv", "ph", "hpaab"] {
        assert_eq!(plain::scan(&message(word)), None, "{word}");
    }
    let header = b"\x00\x53\x70\xc0\x0c\x05\x42\x50\x09\x70\x00\x01\x00\x00\x41\x52\x03";
    let long = b"\x00\x53\x75\xb0\x00\x00\x00\x02hi";
    let whole = [&header[..], &long[..]].concat();
    assert_eq!(plain::scan(&whole), scan_any(&whole).ok());
    assert_eq!(plain::scan(&whole).and_then(|found| found.header?.ttl), Some(0x1_0000));
}

#[test]
fn errors_tell_the_publisher_what_is_wrong() {
    let of = |word: &str| text(&message(word));
    assert_eq!(of(""), "message has no body");
    assert_eq!(of("hpf"), "message has no body");
    assert_eq!(of("hh"), "more than one section header");
    assert_eq!(of("vv"), "more than one section amqp-value");
    assert_eq!(of("bv"), "body mixes data and amqp-value");
    assert_eq!(of("sb"), "body mixes amqp-sequence and data");
    assert_eq!(of("phb"), "section header must not follow properties");
    assert_eq!(of("bfb"), "section data must not follow footer");
    assert_eq!(text(b"\x00\x53\x10\x45"), "unknown message section at byte 0");
    assert_eq!(text(b"\x00\xa3\x03foo\x45"), "unknown message section at byte 0");
    assert_eq!(text(b"hello"), "no message section at byte 0");
    assert_eq!(text(b"\x00\x53\x75\x40"), "section data is null");
    assert_eq!(text(b"\x00\x53\x75\xa0\x05hi"), "malformed message: truncated value at byte 5");
    assert_eq!(
        text(b"\x00\x53\x70\xc0\x03\x01\x50\x01"),
        "malformed message: expected boolean, found format code 0x50 at byte 6"
    );
    let long = b"\x00\x53\x73\xc0\x0f\x0e\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40\x40";
    assert_eq!(text(long), "malformed message: too many fields in properties at byte 3");
    assert_eq!(
        text(b"\x00\x53\x74\xc1\x02\x01\x40"),
        "malformed message: map has a key without a value at byte 3"
    );
}

#[test]
fn annotation_keys_are_symbols_that_start_with_x() {
    for (code, name) in [(0x71, "delivery-annotations"), (0x72, "message-annotations"), (0x78, "footer")] {
        let with_key = |key: Value| {
            let mut out = BytesMut::new();
            put_descriptor(&mut out, code);
            put_map(
                &mut out,
                &Map(vec![(Value::from(Symbol::from_static("x-ok")), Value::Null), (key, Value::Null)]),
            );
            let body = section('v');
            if code == 0x78 { [&body, &out[..]].concat() } else { [&out[..], &body].concat() }
        };
        let start = if code == 0x78 { section('v').len() } else { 0 };
        assert!(scan(&with_key(Symbol::from_static("x-opt-a").into())).is_ok());
        assert_eq!(
            text(&with_key(Symbol::from_static("foo").into())),
            format!("{name} has the reserved key 'foo': keys must start with 'x-'")
        );
        for key in [Value::Ulong(1), Value::from("x-a"), Value::Null] {
            let at = start + 13;
            assert_eq!(text(&with_key(key)), format!("key in {name} at byte {at} is not a symbol"));
        }
        let long = with_key(Symbol::from("k".repeat(1000)).into());
        assert!(text(&long).len() < 160);
    }
}

#[test]
fn sections_are_counted() {
    let most = MAX_SECTIONS as usize;
    let data = b"\x00\x53\x75\xa0\x00";
    assert!(scan(&data.repeat(most)).is_ok());
    assert_eq!(scan(&data.repeat(most + 1)), Err(SectionError::TooManySections));
}

#[test]
fn descriptors_may_be_symbols_or_long() {
    let short = scan(&section('h').into_iter().chain(section('v')).collect::<Vec<_>>()).unwrap();
    for descriptor in [&b"\x00\xa3\x10amqp:header:list"[..], b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70"] {
        let bytes =
            [descriptor, &section('h')[3..], b"\x00\xa3\x11amqp:amqp-value:*", &section('v')[3..]].concat();
        let sections = scan(&bytes).unwrap();
        assert_eq!(sections.header, short.header);
        assert_eq!(sections.body_kind, BodyKind::Value);
        assert_eq!(sections.body.start as usize, descriptor.len() + section('h').len() - 3);
    }
}

#[test]
fn bodies_and_properties_are_not_parsed() {
    // A list with invalid content is accepted as a body (value and sequence), and as properties.
    for code in [0x77, 0x76] {
        assert!(scan(&[0x00, 0x53, code, 0xc0, 3, 1, 0xff, 0xff]).is_ok());
    }
    let bytes = [&[0x00, 0x53, 0x73, 0xc0, 3, 1, 0xff, 0xff][..], &section('v')].concat();
    let sections = scan(&bytes).unwrap();
    let range = sections.properties.unwrap();
    assert!(properties(&bytes[range.start as usize..range.end as usize]).is_err());
}

#[test]
fn single_properties_are_read_alone() {
    let all = Properties {
        message_id: Some(Value::Ulong(7)),
        user_id: Some(Bytes::from_static(b"guest")),
        to: Some("/queues/q".into()),
        subject: Some("s".into()),
        creation_time: Some(1),
        ..Properties::default()
    };
    let mut out = BytesMut::new();
    all.encode(&mut out);
    assert_eq!(properties(&out), Ok(all));
    assert_eq!(user_id(&out), Ok(Some(&b"guest"[..])));
    assert_eq!(to(&out), Ok(Some("/queues/q")));
    assert_eq!(property_field(&out, 0), Ok(Some(&b"\x53\x07"[..])));
    assert_eq!(property_field(&out, 4), Ok(None));
    assert_eq!(property_field(&out, 12), Ok(None));
    let empty = b"\x00\x53\x73\x45";
    assert_eq!((user_id(empty), to(empty)), (Ok(None), Ok(None)));
    assert!(user_id(&section('h')).is_err());
    // The field is read although the bytes after it are invalid.
    assert_eq!(user_id(b"\x00\x53\x73\xc0\x06\x03\x40\xa0\x01u\xff"), Ok(Some(&b"u"[..])));
}

#[test]
fn map_sections_give_raw_pairs() {
    let map: Map =
        [(Value::from("k"), Value::Uint(1)), (Value::from(Symbol::from_static("x-s")), "v".into())]
            .into_iter()
            .collect();
    let mut out = BytesMut::new();
    put_descriptor(&mut out, 0x74);
    put_map(&mut out, &map);
    let pairs: Result<Vec<_>, _> = map_pairs(&out).unwrap().collect();
    assert_eq!(pairs, Ok(vec![("k", &b"\x52\x01"[..]), ("x-s", &b"\xa1\x01v"[..])]));
    let content = map_content(&out).unwrap();
    assert_eq!((content.pairs, content.range.clone()), (2, 6..out.len() as u32));
    let mut broken = map_pairs(b"\x00\x53\x74\xc1\x04\x04\x43\x43\x43").err();
    assert!(broken.take().is_some());
    let mut number_key = map_pairs(b"\x00\x53\x74\xc1\x05\x04\x43\x43\x43\x43").unwrap();
    assert!(number_key.next().unwrap().is_err());
    assert!(number_key.next().is_none());
}

#[test]
fn truncated_messages_are_refused() {
    for word in ["hdmpabf", "hdmpasf", "hdmpavf"] {
        let bytes = message(word);
        let ends: Vec<usize> = (0..=word.len()).map(|n| message(&word[..n]).len()).collect();
        for len in 0..bytes.len() {
            let ends_with_body = ends[word.len() - 1..].contains(&len);
            assert_eq!(scan(&bytes[..len]).is_ok(), ends_with_body, "{word} cut to {len}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn both_scans_find_the_same_sections(
        word in proptest::sample::select(vec!["hpab", "pab", "hb", "hpav", "b", "v"]),
        noise in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::weighted(0.3, any::<proptest::sample::Index>()),
    ) {
        let mut bytes = message(word);
        for (at, octet) in noise {
            let at = at.index(bytes.len());
            bytes[at] = octet;
        }
        bytes.truncate(cut.map_or(bytes.len(), |at| at.index(bytes.len())));
        if let Some(found) = plain::scan(&bytes) {
            prop_assert_eq!(scan_any(&bytes), Ok(found));
        }
    }

    #[test]
    fn random_messages_never_panic(
        letters in vec(proptest::sample::select("hdmpabsvf".chars().collect::<Vec<_>>()), 0..8),
        noise in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes: Vec<u8> = letters.into_iter().flat_map(section).collect();
        for (at, octet) in noise {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = octet;
            }
        }
        let any = scan_any(&bytes);
        prop_assert_eq!(scan(&bytes), any.clone());
        if let Ok(sections) = any {
            prop_assert_eq!(sections.bare.end as usize, bytes.len());
            prop_assert!(sections.bare.start <= sections.body.start && sections.body.end <= sections.bare.end);
        }
        let _ = map_pairs(&bytes).map(Iterator::count);
        let _ = (user_id(&bytes), to(&bytes), properties(&bytes), map_content(&bytes));
    }

    #[test]
    fn data_of_any_size_and_content_is_found(octets in vec(any::<u8>(), 0..600)) {
        let mut out = BytesMut::from(&section('p')[..]);
        put_descriptor(&mut out, 0x75);
        put_value(&mut out, &Value::Binary(octets.into()));
        let sections = scan(&out).unwrap();
        prop_assert_eq!(sections.bare, 0..out.len() as u32);
    }
}
