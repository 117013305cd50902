//! The content of messages. It is determined by the round's seed, the publisher and the number.

use bytes::Bytes;
use client::{Body, Message};
use random::Random;

/// Identifies a message. Publishers count their messages from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub publisher: usize,
    pub number: u64,
}

/// Returns the encoded message.
pub(crate) fn message(seed: u64, id: Id) -> Bytes {
    Message::data(body(seed, id)).durable(true).encode()
}

/// Finds out which message this is.
///
/// # Errors
/// The message cannot have been sent.
pub(crate) fn identify(seed: u64, encoded: &[u8]) -> Result<Id, String> {
    let message = Message::decode(encoded).map_err(|error| format!("a message cannot be read: {error}"))?;
    let Body::Data(sections) = &message.body else { return Err("a message without data".to_owned()) };
    let [octets] = sections.as_slice() else { return Err("a message of several sections".to_owned()) };
    identify_body(seed, octets, message.header.and_then(|header| header.durable) == Some(true))
}

/// Finds out which message has this body.
///
/// # Errors
/// The message cannot have been sent.
pub(crate) fn identify_body(seed: u64, octets: &[u8], durable: bool) -> Result<Id, String> {
    let word = |at: usize| octets.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
    let (Some(publisher), Some(number)) = (word(0), word(8)) else {
        return Err("a message without number".to_owned());
    };
    let id = Id { publisher: publisher as usize, number };
    if *octets != *body(seed, id) {
        return Err(format!("the body of {id:?} is not what was sent"));
    }
    if !durable {
        return Err(format!("{id:?} is not durable any more"));
    }
    Ok(id)
}

/// Returns the body: publisher, number, then pseudo-random octets. There are few or very many of them.
pub(crate) fn body(seed: u64, id: Id) -> Vec<u8> {
    let mut random = Random(seed ^ (id.publisher as u64) << 48 ^ id.number);
    let length = match random.next() % 4096 {
        // The body needs more than one frame.
        0 => random.between(150_000, 300_000),
        // The size of the body is near the size from which a message has its own buffer.
        1..32 => random.between(15_000, 18_000),
        _ => random.between(0, 512),
    };
    let mut octets = Vec::with_capacity(16 + length as usize + 8);
    octets.extend_from_slice(&(id.publisher as u64).to_be_bytes());
    octets.extend_from_slice(&id.number.to_be_bytes());
    while octets.len() < 16 + length as usize {
        octets.extend_from_slice(&random.next().to_be_bytes());
    }
    octets.truncate(16 + length as usize);
    octets
}

#[test]
fn a_message_is_known_by_its_body() {
    let id = Id { publisher: 2, number: 77 };
    let encoded = message(1, id);
    assert_eq!(identify(1, &encoded), Ok(id));
    assert!(identify(2, &encoded).is_err());
    let mut damaged = encoded.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(identify(1, &damaged).is_err());
}
