//! End-to-end checksums. The sender adds a checksum of the bare message to the footer, and the receiver
//! verifies it. The header, the annotations and the footer are not covered, because brokers may change them.

use amqp10::sections::{self, Sections};
use amqp10::{Map, Reader, Symbol, Value};
use bytes::{Bytes, BytesMut};

use crate::checksum::Checksum;
use crate::error::Error;
use crate::message::put_footer;

impl Checksum {
    /// Returns the encoded message with its checksum added to the footer. Other entries of the footer stay.
    ///
    /// # Errors
    /// `Message` if it is malformed.
    pub fn seal(self, message: &[u8]) -> Result<Bytes, Error> {
        let sections = scan(message)?;
        let mut footer = footer(message, &sections)?.unwrap_or_default();
        footer.insert(Symbol::from_static(self.key()), self.of(bare(message, &sections)));
        let kept = &message[..sections.body.end as usize];
        let mut out = BytesMut::with_capacity(message.len() + 64);
        out.extend_from_slice(kept);
        put_footer(&mut out, &footer);
        Ok(out.freeze())
    }

    /// Verifies every checksum in the footer of an encoded message. Returns the kinds that were found, which
    /// may be none.
    ///
    /// # Errors
    /// `Damaged` for the first checksum that is wrong. `Message` if the message is malformed or a checksum is
    /// not a uint.
    pub fn verify(message: &[u8]) -> Result<Vec<Self>, Error> {
        let sections = scan(message)?;
        let Some(footer) = footer(message, &sections)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for kind in Self::ALL {
            let sent = match footer.get(kind.key()) {
                None => continue,
                Some(Value::Uint(sent)) => *sent,
                Some(_) => {
                    return Err(Error::Message(format!("{} in the footer is not a uint", kind.key())));
                }
            };
            let computed = kind.of(bare(message, &sections));
            if computed != sent {
                return Err(Error::Damaged { kind, sent, computed });
            }
            found.push(kind);
        }
        Ok(found)
    }
}

fn scan(message: &[u8]) -> Result<Sections, Error> {
    sections::scan(message).map_err(|error| Error::Message(error.to_string()))
}

/// Returns properties, application-properties and body as they are encoded [3.2].
fn bare<'a>(message: &'a [u8], sections: &Sections) -> &'a [u8] {
    &message[sections.bare.start as usize..sections.body.end as usize]
}

fn footer(message: &[u8], sections: &Sections) -> Result<Option<Map>, Error> {
    let Some(range) = &sections.footer else { return Ok(None) };
    let mut reader = Reader::new(&message[range.start as usize..range.end as usize]);
    let value = reader.read_descriptor().and_then(|_| reader.read_value());
    match value.map_err(|error| Error::Message(error.to_string()))? {
        Value::Map(map) => Ok(Some(map)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    fn full() -> Message {
        Message::data("hello")
            .durable(true)
            .subject("s")
            .application_property("k", 1i32)
            .message_annotation("x-k", "v")
    }

    #[test]
    fn a_checksum_covers_the_bare_message_to_the_bit() {
        for kind in Checksum::ALL {
            let plain = full().encode();
            let sealed = kind.seal(&plain).unwrap();
            assert_eq!(sealed[..plain.len()], plain[..], "all else stays as it is");
            assert_eq!(Checksum::verify(&sealed).unwrap(), [kind]);
            let bare = scan(&plain).unwrap().bare;
            for at in bare.start as usize..bare.end as usize {
                for bit in 0..8 {
                    let mut flipped = sealed.to_vec();
                    flipped[at] ^= 1 << bit;
                    let result = Checksum::verify(&flipped);
                    // If the flipped bit breaks the encoding of the message, that error is returned.
                    assert!(
                        matches!(result, Err(Error::Damaged { kind: of, .. }) if of == kind)
                            || matches!(result, Err(Error::Message(_))),
                        "byte {at} bit {bit}: {result:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn changes_by_brokers_are_not_covered() {
        let sealed = Checksum::Crc32.seal(&full().encode()).unwrap();
        let mut other = Message::decode(&sealed).unwrap();
        other.header = None;
        other = other.message_annotation("x-routing-key", "q");
        assert_eq!(Checksum::verify(&other.encode()).unwrap(), [Checksum::Crc32]);
        let changed = other.clone().subject("t").encode();
        assert!(matches!(Checksum::verify(&changed), Err(Error::Damaged { .. })));
    }

    #[test]
    fn other_footers_stay() {
        let mut message = full();
        message.footer = Some(Map::from_iter([(Symbol::from_static("x-f"), 2u32)]));
        let once = Checksum::Adler32.seal(&message.encode()).unwrap();
        let twice = Checksum::Crc32.seal(&once).unwrap();
        assert_eq!(Checksum::verify(&twice).unwrap(), Checksum::ALL);
        let again = Checksum::Adler32.seal(&twice).unwrap();
        assert_eq!(again, twice, "the same sum replaces it");
        let footer = Message::decode(&twice).unwrap().footer.unwrap();
        assert_eq!((footer.len(), footer.get("x-f")), (3, Some(&Value::Uint(2))));
    }

    #[test]
    fn without_a_checksum_none_is_found() {
        assert_eq!(Checksum::verify(&full().encode()).unwrap(), []);
        let mut message = full();
        message.footer = Some(Map::from_iter([(Symbol::from_static("x-f"), 2u32)]));
        assert_eq!(Checksum::verify(&message.encode()).unwrap(), []);
        message.footer = Some(Map::from_iter([(Symbol::from_static("x-opt-crc-32"), "2")]));
        assert!(matches!(Checksum::verify(&message.encode()), Err(Error::Message(_))));
        assert!(matches!(Checksum::verify(b"\x00"), Err(Error::Message(_))));
        assert!(matches!(Checksum::Crc32.seal(b"\x00"), Err(Error::Message(_))));
    }
}
