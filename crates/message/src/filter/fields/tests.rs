use amqp10::Symbol;
use bytes::BytesMut;

use super::*;
use crate::filter::scene::{message, value, with_sections};

/// Parses a filter of the form `section: key=value; ...`. Several are separated by ` + `. Values are as in
/// [`message`].
fn filter(written: &str) -> Result<FieldFilter, FieldError> {
    let mut filter = FieldFilter::default();
    for part in written.split(" + ") {
        let (section, fields) = part.split_once(": ").expect("a section");
        let pairs = fields.split("; ").map(|field| field.split_once('=').expect("a field"));
        match section {
            "p" => {
                let fields = pairs.map(|(key, v)| (Symbol::from(key.to_owned()), value(v))).collect();
                filter.add_properties(&fields)?;
            }
            _ => filter.add_application_properties(&pairs.map(|(key, v)| (key, value(v))).collect())?,
        }
    }
    Ok(filter)
}

fn matches(written: &str, message: &Message) -> bool {
    filter(written).unwrap_or_else(|error| panic!("{written}: {error}")).matches(message)
}

const FULL: &str = "p.message_id=ulong 7; p.user_id=binary 00ff; p.to=string /queues/q; p.subject=string tea time; \
     p.reply_to=string back; p.correlation_id=string c-1; p.content_type=symbol text/html; \
     p.content_encoding=symbol gzip; p.absolute_expiry_time=timestamp 60; p.creation_time=timestamp -5; \
     p.group_id=string g1; p.group_sequence=uint 4294967295; p.reply_to_group_id=string g2; \
     size=uint 10; weight=double 2.5; color=symbol blue; fresh=true; nothing=null; blob=binary ff00; many=list";

#[test]
fn each_property_matches_an_equal_one() {
    let full = message(FULL);
    let all = "message-id=ulong 7; user-id=binary 00ff; to=string /queues/q; subject=string tea time; \
               reply-to=string back; correlation-id=string c-1; content-type=symbol text/html; \
               content-encoding=symbol gzip; absolute-expiry-time=timestamp 60; creation-time=timestamp -5; \
               group-id=string g1; group-sequence=uint 4294967295; reply-to-group-id=string g2";
    assert!(matches(&format!("p: {all}"), &full));
    for field in all.split("; ") {
        assert!(matches(&format!("p: {field}"), &full), "{field}");
        assert!(!matches(&format!("p: {field}"), &message("-")), "{field} of a message without properties");
    }
    for other in [
        "message-id=ulong 8",
        "message-id=string 7",
        "user-id=binary 00fe",
        "to=string /queues/",
        "subject=string Tea time",
        "content-type=symbol text",
        "absolute-expiry-time=timestamp 61",
        "group-sequence=uint 0",
    ] {
        assert!(!matches(&format!("p: {other}"), &full), "{other}");
    }
}

#[test]
fn every_field_of_both_sections_must_match() {
    let full = message(FULL);
    assert!(matches("p: subject=string tea time; to=string /queues/q", &full));
    assert!(!matches("p: subject=string tea time; to=string x", &full));
    assert!(matches("a: size=uint 10; color=string blue", &full));
    assert!(!matches("a: size=uint 10; color=string red", &full));
    assert!(matches("p: group-id=string g1 + a: size=uint 10", &full));
    assert!(matches("a: size=uint 10 + p: group-id=string g1", &full));
    assert!(!matches("p: group-id=string g1 + a: size=uint 11", &full));
    assert!(!matches("p: group-id=string g2 + a: size=uint 10", &full));
}

#[test]
fn an_application_property_must_be_present() {
    let full = message(FULL);
    assert!(!matches("a: gone=uint 1", &full));
    assert!(!matches("a: size=uint 10; gone=uint 1", &full));
    assert!(!matches("a: size=uint 10", &message("-")));
    assert!(!matches("a: many=uint 1", &full), "a value that is not simple counts as absent");
}

#[test]
fn null_matches_anything() {
    let full = message(FULL);
    assert!(matches("p: subject=null; to=null", &full));
    assert!(matches("p: subject=null", &message("-")), "an absent property is null");
    assert!(matches("a: size=null; color=null; fresh=null; nothing=null", &full));
    assert!(!matches("a: gone=null", &full), "but an application-property must be present");
    assert!(!matches("a: many=null", &full));
    assert!(!matches("a: nothing=uint 0", &full));
}

#[test]
fn numbers_match_by_value() {
    let full = message(FULL);
    for ten in [
        "ubyte 10",
        "ushort 10",
        "uint 10",
        "ulong 10",
        "byte 10",
        "int 10",
        "long 10",
        "float 10",
        "double 10",
    ] {
        assert!(matches(&format!("a: size={ten}"), &full), "{ten}");
    }
    assert!(matches("a: weight=float 2.5", &full));
    assert!(!matches("a: size=double 10.5", &full));
    assert!(!matches("a: size=string 10", &full));
    assert!(!matches("a: fresh=uint 1", &full));
    assert!(matches("a: fresh=true", &full));
    assert!(!matches("a: fresh=false", &full));
}

#[test]
fn octets_match_whatever_their_type() {
    let full = message(FULL);
    for blue in ["string blue", "symbol blue", "binary 626c7565"] {
        assert!(matches(&format!("a: color={blue}"), &full), "{blue}");
    }
    assert!(matches("a: blob=binary ff00", &full));
    assert!(matches(
        "p: message-id=uuid 000102030405060708090a0b0c0d0e0f",
        &message("p.message_id=uuid 000102030405060708090a0b0c0d0e0f")
    ));
}

#[test]
fn string_modifiers() {
    let full = message(FULL);
    let cases = [
        ("p: subject=string &p:tea", true),
        ("p: subject=string &p:tea time", true),
        ("p: subject=string &p:tea time!", false),
        ("p: subject=string &p:time", false),
        ("p: subject=string &p:", true),
        ("p: subject=string &s:time", true),
        ("p: subject=string &s:tea time", true),
        ("p: subject=string &s:a tea time", false),
        ("p: subject=string &s:tea", false),
        ("p: subject=string &s:", true),
        (
            "p: to=string &p:/queues/; reply-to=string &s:ck; group-id=string &p:g; reply-to-group-id=string &s:2",
            true,
        ),
        ("p: correlation-id=string &p:c-", true),
        ("p: message-id=string &p:7", false),
        ("p: subject=string &p:T", false),
        ("a: color=string &p:bl", true),
        ("a: color=string &s:ue", true),
        ("a: color=string &s:xx", false),
        ("a: size=string &p:1", false),
        ("a: fresh=string &s:e", false),
        ("a: blob=string &p:", true),
        ("a: nothing=string &p:", false),
        ("a: color=symbol &p:bl", false),
    ];
    for (written, expected) in cases {
        assert_eq!(matches(written, &full), expected, "{written}");
    }
    assert!(!matches("p: subject=string &p:", &message("-")), "an absent field has no prefix");

    let escaped = message("p.subject=string &p:x; k=string &; l=symbol &p:y");
    assert!(matches("p: subject=string &&p:x", &escaped));
    assert!(!matches("p: subject=string &p:x", &escaped));
    assert!(matches("p: subject=string &s:x", &escaped));
    assert!(matches("a: k=string &&", &escaped));
    assert!(matches("a: l=symbol &p:y", &escaped), "modifiers are of strings");
}

#[test]
fn invalid_filters_are_refused() {
    let name = |name: &str| Box::<str>::from(name);
    let cases = [
        ("p: subject=string &x", FieldError::Modifier(name("subject"))),
        ("p: subject=string &", FieldError::Modifier(name("subject"))),
        ("p: subject=string &P:x", FieldError::Modifier(name("subject"))),
        ("a: k=string &sx", FieldError::Modifier(name("k"))),
        ("p: priority=ubyte 1", FieldError::UnknownField(name("priority"))),
        ("p: message_id=ulong 1", FieldError::UnknownField(name("message_id"))),
        ("p: subject=symbol x", FieldError::ValueType(name("subject"))),
        ("p: subject=uint 3", FieldError::ValueType(name("subject"))),
        ("p: content-type=string x", FieldError::ValueType(name("content-type"))),
        ("p: user-id=string x", FieldError::ValueType(name("user-id"))),
        ("p: creation-time=ulong 1", FieldError::ValueType(name("creation-time"))),
        ("p: group-sequence=ulong 1", FieldError::ValueType(name("group-sequence"))),
        ("p: message-id=uint 1", FieldError::ValueType(name("message-id"))),
        ("a: k=list", FieldError::ValueType(name("k"))),
        ("a: k=map", FieldError::ValueType(name("k"))),
        ("a: k=decimal", FieldError::ValueType(name("k"))),
        ("a: k=double NaN", FieldError::ValueType(name("k"))),
        ("p: subject=string a; subject=string b", FieldError::FieldTwice(name("subject"))),
        ("p: subject=string a + p: to=string b", FieldError::SectionTwice),
        ("a: k=uint 1 + a: l=uint 1", FieldError::SectionTwice),
    ];
    for (written, error) in cases {
        assert_eq!(filter(written), Err(error), "{written}");
    }
    let strings: Map = [("subject", "x")].into_iter().collect();
    let symbols: Map = [(Symbol::from_static("k"), "x")].into_iter().collect();
    assert_eq!(FieldFilter::default().add_properties(&strings), Err(FieldError::KeyType));
    assert_eq!(FieldFilter::default().add_application_properties(&symbols), Err(FieldError::KeyType));
}

#[test]
fn fields_are_counted() {
    let fields = |n: usize| (0..n).map(|i| (format!("k{i}"), 1u32)).collect::<Map>();
    let mut filter = FieldFilter::default();
    assert_eq!(filter.add_application_properties(&Map::new()), Err(FieldError::Count(0)));
    assert_eq!(filter.add_application_properties(&fields(FIELDS_MAX + 1)), Err(FieldError::Count(17)));
    assert_eq!(filter, FieldFilter::default(), "a refused part leaves nothing behind");
    assert_eq!(filter.add_application_properties(&fields(FIELDS_MAX)), Ok(()));
    let all: Vec<String> = (0..20).map(|i| format!("k{i}=long 1")).collect();
    assert!(filter.matches(&message(&all.join("; "))));
    assert!(!filter.matches(&message(&all[1..].join("; "))));
}

#[test]
fn the_first_value_of_a_name_is_used() {
    let message = |section: &[u8]| with_sections(BytesMut::from(section), 0);
    let twice = message(b"\x00\x53\x74\xc1\x0b\x04\xa1\x01k\x52\x01\xa1\x01k\x52\x02");
    assert!(matches("a: k=uint 1", &twice));
    assert!(!matches("a: k=uint 2", &twice));
    assert!(!matches("a: k=uint 1; l=uint 1", &twice));
}

#[test]
fn a_malformed_section_matches_nothing() {
    let message = |properties: &[u8], application: &[u8]| {
        with_sections(BytesMut::from(&*[properties, application].concat()), properties.len() as u32)
    };
    assert!(!matches("p: subject=null", &message(b"\x00\x53\x73\xa1\x01i", b"")));
    assert!(!matches("p: user-id=null", &message(b"\x00\x53\x73\xc0\x04\x02\xa1\x01i", b"")));
    assert!(!matches("a: k=null", &message(b"", b"\x00\x53\x74\x45")));
    assert!(!matches("a: k=uint 1", &message(b"", b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x80\x01")));
    assert!(matches(
        "a: k=uint 1",
        &message(b"\x00\x53\x73\xa1\x01i", b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x52\x01")
    ));
}

#[test]
fn the_memory_of_a_filter_is_counted() {
    let of = |written: &str| filter(written).expect("a filter").heap_bytes();
    let (property, named) = (size_of::<(Property, Wanted)>(), size_of::<(Box<str>, Wanted)>());
    assert_eq!(of("p: subject=string &s:at the end; group-sequence=uint 1"), 2 * property + 10);
    assert_eq!(of("a: size=uint 10; a_long_name=string a long value"), 2 * named + 8 + 11 + 12);
    assert_eq!(of("p: subject=null + a: size=null"), property + named + 8);
}
