//! Finding the sections of a message in its usual form, in one pass. Nearly every sender writes this form.
//!
//! ```text
//!   00 53 70 c0..   00 53 73 c0 size count ..   00 53 74 c1 size count ..   00 53 75 a0 len .. or b0 len32 ..
//!   header?         properties?                 application-properties?     data, to the end
//!                                                                           00 53 77 a0 a1 b0 b1: or such a value
//! ```
//!
//! `None` means that the bytes have another form, rare or wrong. The scan of all encodings then starts again,
//! and reports errors.

use super::{BodyKind, PROPERTIES_FIELDS, Sections};
use crate::composites::Header;
use crate::decode::PlainFields;
use crate::descriptor;

const HEADER: u8 = descriptor::HEADER as u8;
const PROPERTIES: u8 = descriptor::PROPERTIES as u8;
const APPLICATION_PROPERTIES: u8 = descriptor::APPLICATION_PROPERTIES as u8;
const DATA: u8 = descriptor::DATA as u8;
const AMQP_VALUE: u8 = descriptor::AMQP_VALUE as u8;

/// Finds the sections of a complete message, as [`scan`](super::scan) does. It is inlined there, so that the
/// result is written only once, directly to where the caller needs it.
#[inline(always)]
pub(super) fn scan(message: &[u8]) -> Option<Sections> {
    let len = u32::try_from(message.len()).ok()?;
    let (mut rest, mut header) = (message, None);
    if let [0x00, 0x53, HEADER, list @ ..] = rest {
        let (mut fields, after) = PlainFields::of_list(list)?;
        header = Some(Header {
            durable: fields.boolean()?,
            priority: fields.ubyte()?,
            ttl: fields.uint()?,
            first_acquirer: fields.boolean()?,
            delivery_count: fields.uint()?,
        });
        fields.finish()?;
        rest = after;
    }
    let bare_at = len - rest.len() as u32;
    let (mut at, mut properties, mut application_properties) = (bare_at, None, None);
    if let [0x00, 0x53, PROPERTIES, 0xc0, size, count, ..] = *rest {
        if u32::from(count) > PROPERTIES_FIELDS || count >= size {
            return None;
        }
        rest = rest.get(5 + usize::from(size)..)?;
        properties = Some(at..len - rest.len() as u32);
        at = len - rest.len() as u32;
    }
    if let [0x00, 0x53, APPLICATION_PROPERTIES, 0xc1, size, count, ..] = *rest {
        if count % 2 != 0 || count >= size {
            return None;
        }
        rest = rest.get(5 + usize::from(size)..)?;
        application_properties = Some(at..len - rest.len() as u32);
        at = len - rest.len() as u32;
    }
    let (&[0x00, 0x53, kind, code], value) = rest.split_first_chunk()? else { return None };
    let body_kind = match (kind, code) {
        (DATA, 0xa0 | 0xb0) => BodyKind::Data,
        (AMQP_VALUE, 0xa0 | 0xa1 | 0xb0 | 0xb1) => BodyKind::Value,
        _ => return None,
    };
    let complete = match (code & 0x10, value) {
        (0, [size, octets @ ..]) => usize::from(*size) == octets.len(),
        (0x10, [a, b, c, d, octets @ ..]) => u32::from_be_bytes([*a, *b, *c, *d]) as usize == octets.len(),
        _ => false,
    };
    complete.then_some(Sections {
        header,
        delivery_annotations: None,
        message_annotations: None,
        properties,
        application_properties,
        body: at..len,
        body_kind,
        footer: None,
        bare: bare_at..len,
    })
}
