//! Converts any bytes as a message of AMQP 0.9.1 and as a message of AMQP 1.0. Shared by the fuzz target and the test that
//! replays the corpus.

use std::sync::Arc;

use amqp10::sections;
use amqp091::{Properties, SyntaxError};
use bytes::{Bytes, BytesMut};
use message::{Additions, Basic, DeliveryMax, Message, Route};

/// The first two octets are the length of a property list, which follows, and the rest is a payload. All octets are a
/// message of AMQP 1.0, too. Whatever can be published can be converted, and the result is valid.
pub fn check(data: &[u8]) {
    if let Some((len, rest)) = data.split_first_chunk() {
        let (list, payload) = rest.split_at(usize::from(u16::from_be_bytes(*len)).min(rest.len()));
        check_amqp091(list, payload);
    }
    check_amqp10(data);
}

fn route() -> Arc<Route> {
    Arc::new(Route::simple("x", "k"))
}

fn check_amqp091(list: &[u8], payload: &[u8]) {
    let basic = match Basic::borrowed(list, payload) {
        Ok(basic) => basic,
        // The reason must be printable, whatever the properties are.
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let wire = [basic.list(), payload].concat();
    let message = Message::new(basic.parts(wire.into()), route());
    assert_eq!(message.len(), payload.len() as u64);
    let converted = message.in_amqp10();
    check_sections(&converted);
    assert_eq!(message.delivery_bytes(0, false), converted.delivery_bytes(0, false));
    let fits = |max| message.fits(max, 0, false);
    assert!(fits(DeliveryMax::Whole(u64::MAX)) && !fits(DeliveryMax::Whole(converted.len() - 1)));
    assert!(
        fits(DeliveryMax::Head(message.head_bytes())) && !fits(DeliveryMax::Head(message.head_bytes() - 1))
    );
    check_delivery(&message);
    check_delivery(&converted);
    assert!(Properties::parse(converted.in_amqp091().property_list()).is_ok());
}

fn check_amqp10(data: &[u8]) {
    let Ok(found) = sections::scan(data) else { return };
    let trimmed = message::trim(&found, true);
    let wire = Bytes::copy_from_slice(&data[trimmed.range.clone()]);
    let message = Message::new(trimmed.into_parts(wire), route());
    check_delivery(&message);
    let converted = message.in_amqp091();
    check_list(converted.property_list());
    check_sections(&converted.in_amqp10());
}

/// Checks that the sections are valid, and where the message says.
fn check_sections(message: &Message) {
    let places = [message.annotations(), message.properties(), message.application_properties()];
    let whole = [&places.concat()[..], message.body()].concat();
    let found = sections::scan(&whole).expect("a valid message");
    let [bare, application, body] = [1, 2, 3].map(|n| places[..n].iter().map(|part| part.len() as u32).sum());
    assert_eq!((found.bare.start, found.body.start), (bare, body));
    assert_eq!(found.application_properties.map_or(body, |range| range.start), application);
}

fn check_delivery(message: &Message) {
    let one = Additions { delivery_count: Some(1), ..Additions::default() };
    for additions in [Additions::default(), one] {
        let mut list = BytesMut::new();
        message.put_amqp091_properties(&additions, &mut list);
        check_list(&list);
    }
    let (payload, from) = message.amqp091_payload();
    assert!(from <= payload.len());
}

fn check_list(list: &[u8]) {
    // Values of AMQP 1.0 may be nested more deeply.
    let properties = Properties::parse(list);
    assert!(matches!(properties, Ok(_) | Err(SyntaxError::TooDeep)), "{properties:?}");
}
