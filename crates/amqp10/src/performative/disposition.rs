//! DISPOSITION [2.7.6] in the form that nearly all of them have: the deliveries are accepted. In light traffic each message has two.

use bytes::BytesMut;

use crate::composites::{ACCEPTED, Disposition, Role};
use crate::decode::PlainFields;
use crate::encode::Gathered;
use crate::{DeliveryState, descriptor};

/// The descriptor in its short form.
const DISPOSITION: u8 = descriptor::DISPOSITION as u8;

/// The number of fields up to the state.
const FIELDS: u8 = 5;

/// The offset of the list's size in a frame, after the frame header, the descriptor and the format code.
const LIST_SIZE_AT: usize = 12;

/// The most bytes of such a frame: the head up to the count of fields, two booleans, two numbers, and the state.
const FRAME_MAX: usize = LIST_SIZE_AT + 2 + 2 + 2 * 5 + ACCEPTED.len();

/// Reads a disposition that is the whole body of a frame. Returns `None` if it has another form.
#[inline]
pub(super) fn decode_accepted(body: &[u8]) -> Option<Disposition> {
    let (&[0x00, 0x53, DISPOSITION], list) = body.split_first_chunk()? else { return None };
    let (mut fields, rest) = PlainFields::of_list(list)?;
    let disposition = Disposition {
        role: if fields.boolean()?? { Role::Receiver } else { Role::Sender },
        first: fields.uint()??,
        last: fields.uint()?,
        settled: fields.boolean()?.unwrap_or(false),
        state: fields.exactly(&ACCEPTED).map(|()| Some(DeliveryState::Accepted))?,
        batchable: fields.boolean()?.unwrap_or(false),
    };
    fields.finish()?;
    rest.is_empty().then_some(disposition)
}

/// Appends the frame that says that the deliveries `first..=last` are accepted.
pub(super) fn put_accepted_frame(
    out: &mut BytesMut,
    channel: u16,
    role: Role,
    first: u32,
    last: Option<u32>,
    settled: bool,
) {
    let [c0, c1] = channel.to_be_bytes();
    Gathered::<FRAME_MAX>::append(out, |frame| {
        frame.bytes(&[0, 0, 0, 0, 2, 0, c0, c1, 0x00, 0x53, DISPOSITION, 0xc0, 0, FIELDS]);
        frame.boolean(role == Role::Receiver);
        frame.uint(first);
        match last {
            Some(last) => frame.uint(last),
            None => frame.byte(0x40),
        }
        // False is the default, so it is left out.
        frame.byte(if settled { 0x41 } else { 0x40 });
        frame.bytes(&ACCEPTED);
        let size = frame.len() as u32;
        frame.overwrite(0, &size.to_be_bytes());
        // The size of the list includes its count.
        frame.overwrite(LIST_SIZE_AT, &[(frame.len() - LIST_SIZE_AT - 1) as u8]);
    });
}
