//! TRANSFER [2.7.5]: decoding it, and encoding the head of its frame.

use bytes::BytesMut;

use crate::DeliveryState;
use crate::composites::ReceiverSettleMode;
use crate::decode::{DecodeError, Fields, PlainFields, Reader};
use crate::descriptor;
use crate::encode::{Encode, Gathered, ListWriter, put_binary};
use crate::frame::{FrameKind, begin_frame, end_frame};

/// The descriptor in its short form.
const TRANSFER: u8 = descriptor::TRANSFER as u8;

/// The longest delivery-tag, in bytes [2.8.7].
pub(crate) const TAG_MAX: usize = 32;

/// The offset of the list's size in a frame, after the frame header, the descriptor and the format code.
const LIST_SIZE_AT: usize = 12;

/// A transfer without its payload [2.7.5].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The sender's handle of the link.
    pub handle: u32,
    /// The number of the delivery in the session, serial. Mandatory on the first transfer of a delivery.
    pub delivery_id: Option<u32>,
    /// The sender's name for the delivery. It is unique among the unsettled deliveries of the link. The
    /// standard allows at most 32 bytes, but longer tags are decoded.
    pub delivery_tag: Option<&'a [u8]>,
    /// 0 is the message format of the standard [3.2.16].
    pub message_format: Option<u32>,
    /// True if the sender has settled. If absent on a continuation, it is unchanged.
    pub settled: Option<bool>,
    /// True if more transfers of this delivery follow.
    pub more: bool,
    /// Overrides the link's mode for this delivery.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// The state of the delivery at the sender.
    pub state: Option<DeliveryState>,
    /// True if this resumes an earlier delivery.
    pub resume: bool,
    /// True if the delivery is aborted. The payload is then ignored.
    pub aborted: bool,
    /// True if the sender accepts that the disposition is delayed and batched.
    pub batchable: bool,
}

impl<'a> Transfer<'a> {
    /// Reads the transfer at the start of a frame body and returns the payload after it. Returns `None` if
    /// the transfer is not in the form that nearly all senders use.
    #[inline(always)]
    pub(crate) fn decode_plain(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[0x00, 0x53, TRANSFER], list) = body.split_first_chunk()? else { return None };
        let (mut fields, payload) = PlainFields::of_list(list)?;
        let transfer = Self {
            handle: fields.uint()??,
            delivery_id: fields.uint()?,
            delivery_tag: fields.binary()?,
            message_format: fields.uint()?,
            settled: fields.boolean()?,
            more: fields.boolean()?.unwrap_or(false),
            rcv_settle_mode: fields.null().map(|()| None)?,
            state: fields.null().map(|()| None)?,
            resume: fields.boolean()?.unwrap_or(false),
            aborted: fields.boolean()?.unwrap_or(false),
            batchable: fields.boolean()?.unwrap_or(false),
        };
        fields.finish()?;
        Some((transfer, payload))
    }

    /// Reads the fields. The descriptor must have been read.
    pub fn decode_fields(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("transfer")?;
        let transfer = Self {
            handle: fields.mandatory("transfer.handle")?,
            delivery_id: fields.optional()?,
            delivery_tag: read_tag(&mut fields)?,
            message_format: fields.optional()?,
            settled: fields.optional()?,
            more: fields.or(false)?,
            rcv_settle_mode: fields.optional()?,
            state: fields.optional()?,
            resume: fields.or(false)?,
            aborted: fields.or(false)?,
            batchable: fields.or(false)?,
        };
        fields.finish()?;
        Ok(transfer)
    }
}

#[inline]
fn read_tag<'a>(fields: &mut Fields<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    fields.reader().map_or(Ok(None), Reader::read_binary_opt)
}

impl Encode for Transfer<'_> {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::TRANSFER);
        list.put(&self.handle);
        list.optional(&self.delivery_id);
        put_tag(&mut list, self.delivery_tag);
        list.optional(&self.message_format);
        list.optional(&self.settled);
        list.or(&self.more, &false);
        list.optional(&self.rcv_settle_mode);
        list.optional(&self.state);
        list.or(&self.resume, &false);
        list.or(&self.aborted, &false);
        list.or(&self.batchable, &false);
        list.finish();
    }
}

fn put_tag(list: &mut ListWriter<'_>, tag: Option<&[u8]>) {
    match tag {
        Some(tag) => put_binary(list.field(), tag),
        None => list.null(),
    }
}

/// The fields of a transfer that our senders set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferHead<'a> {
    /// Our handle of the link.
    pub handle: u32,
    /// See [`Transfer::delivery_id`].
    pub delivery_id: Option<u32>,
    /// See [`Transfer::delivery_tag`].
    pub delivery_tag: Option<&'a [u8]>,
    /// See [`Transfer::message_format`].
    pub message_format: Option<u32>,
    /// See [`Transfer::settled`].
    pub settled: Option<bool>,
    /// See [`Transfer::more`].
    pub more: bool,
    /// See [`Transfer::aborted`].
    pub aborted: bool,
}

/// Appends the head of a transfer frame: frame header and performative. The caller appends `payload_len`
/// bytes of payload. The size in the frame header already includes them.
#[inline]
pub fn put_transfer_frame(out: &mut BytesMut, channel: u16, head: &TransferHead<'_>, payload_len: usize) {
    let &TransferHead {
        handle,
        delivery_id: Some(id),
        delivery_tag: Some(tag),
        message_format: Some(format),
        settled: Some(settled),
        more,
        aborted: false,
    } = head
    else {
        return put_any_transfer_frame(out, channel, head, payload_len);
    };
    if tag.len() > TAG_MAX {
        return put_any_transfer_frame(out, channel, head, payload_len);
    }
    let [c0, c1] = channel.to_be_bytes();
    let fields = 5 + u8::from(more);
    Gathered::<{ transfer_frame_overhead_max(TAG_MAX) }>::append(out, |frame| {
        frame.bytes(&[0, 0, 0, 0, 2, 0, c0, c1, 0x00, 0x53, TRANSFER, 0xc0, 0, fields]);
        frame.uint(handle);
        frame.uint(id);
        frame.bytes(&[0xa0, tag.len() as u8]);
        frame.slice(tag);
        frame.uint(format);
        frame.boolean(settled);
        if more {
            frame.boolean(true);
        }
        let size = frame.len() + payload_len;
        debug_assert!(u32::try_from(size).is_ok(), "a frame is bounded by the peer's max-frame-size");
        frame.overwrite(0, &(size as u32).to_be_bytes());
        // The size of the list includes its count.
        frame.overwrite(LIST_SIZE_AT, &[(frame.len() - LIST_SIZE_AT - 1) as u8]);
    });
}

/// Encodes a head with absent fields, or with a tag of any length.
fn put_any_transfer_frame(out: &mut BytesMut, channel: u16, head: &TransferHead<'_>, payload_len: usize) {
    let start = begin_frame(out, FrameKind::Amqp, channel);
    let mut list = ListWriter::new(out, descriptor::TRANSFER);
    list.put(&head.handle);
    list.optional(&head.delivery_id);
    put_tag(&mut list, head.delivery_tag);
    list.optional(&head.message_format);
    list.optional(&head.settled);
    list.or(&head.more, &false);
    // rcv-settle-mode, state, resume
    list.null();
    list.null();
    list.null();
    list.or(&head.aborted, &false);
    list.finish();
    end_frame(out, start, payload_len);
}

/// Returns the most bytes that [`put_transfer_frame`] writes for a tag of this length.
pub const fn transfer_frame_overhead_max(tag_len: usize) -> usize {
    const FRAME_HEADER: usize = 8;
    const DESCRIPTOR: usize = 3;
    const UINTS: usize = 3 * 5;
    const ONE_BYTE_FIELDS: usize = 6;
    let tag = tag_len + if tag_len > 0xff { 5 } else { 2 };
    let fields = UINTS + tag + ONE_BYTE_FIELDS;
    let list_head = if fields + 1 > 0xff { 9 } else { 3 };
    FRAME_HEADER + DESCRIPTOR + list_head + fields
}
